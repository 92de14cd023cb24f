// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst wake-ups of a saved trace, explained.
//!
//! Owns what a late wake-up is in a trace: from the expiry of the timer whose callback woke the thread, else from the
//! waking, to the switch to the thread. Reads the trace twice: first to find the worst, then to keep the events around them
//! and no others.

use std::collections::HashMap;
use std::io;

use latebound_analysis::{KernelFacts, UsualCounter, explain};
use latebound_model::{
    Activation, Cpu, Event, EventKind, Explanation, Histogram, Loss, Mechanism, Nanos, Task, Tid,
};
use latebound_trace::{ReadAt, TraceError};

use crate::error::SavedError;
use crate::events::visit_saved;

/// Events from so long before the interval tell what was on the CPU when it began.
const MARGIN: Nanos = Nanos::from_millis(5);
/// As many events are kept for one explanation; what is more is reported as lost.
const EVENTS: usize = 1 << 20;
/// As many threads are followed at once from their waking to their switch.
const THREADS: usize = 1 << 16;

/// Whose wake-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Of threads with this name.
    Comm(String),
    /// Of these threads.
    Threads(Vec<Tid>),
    /// Of every real-time thread.
    RealTime,
}

impl Watched {
    fn has(&self, task: &Task) -> bool {
        match self {
            Watched::Comm(comm) => task.comm == *comm,
            Watched::Threads(threads) => threads.contains(&task.tid),
            // MAX_RT_PRIO (include/linux/sched/prio.h, 5.15 to 6.18).
            Watched::RealTime => task.prio.is_some_and(|prio| prio < 100),
        }
    }
}

/// What a saved trace explains.
#[derive(Clone, Debug, Default)]
pub struct SavedExplanations {
    /// The worst wake-ups, worst first.
    pub worst: Vec<Explanation>,
    /// All wake-ups of the watched threads that were seen from their request to their switch.
    pub latencies: Histogram,
    /// Where the trace begins.
    pub start: Option<Nanos>,
    /// What the trace lacks.
    pub losses: Vec<Loss>,
    /// System, name, release and machine of the traced system, where the trace says.
    pub uname: Option<String>,
}

/// Explains the `keep` worst wake-ups of a trace. `open` is called twice.
pub fn explain_saved<R: ReadAt>(
    open: impl Fn() -> io::Result<R>,
    instance: &str,
    watched: &Watched,
    keep: usize,
    facts: &KernelFacts,
) -> Result<SavedExplanations, SavedError> {
    let mut finder = Finder::new(watched, keep);
    let mut usual = UsualCounter::default();
    let counted = visit_saved(open().map_err(again)?, instance, |event| {
        usual.observe(&event);
        finder.observe(&event);
    })?;
    let facts = &KernelFacts { usual: usual.finish(), ..facts.clone() };
    if finder.switches == 0 {
        return Err(SavedError::NoEvents { missing: "sched_switch" });
    }
    let mut kept: Vec<Vec<Event>> = vec![Vec::new(); finder.worst.len()];
    let mut cut: Vec<u64> = vec![0; finder.worst.len()];
    visit_saved(open().map_err(again)?, instance, |event| {
        for (place, late) in finder.worst.iter().enumerate() {
            let from = late.requested_at.saturating_sub(MARGIN);
            if from <= event.at && event.at <= late.started_at {
                if kept[place].len() < EVENTS {
                    kept[place].push(event.clone());
                } else {
                    cut[place] += 1;
                }
            }
        }
    })?;
    let explained = finder.worst.iter().zip(kept).zip(cut).map(|((late, mut events), cut)| {
        if let (Some(last), true) = (events.last().map(|event| (event.at, event.cpu)), cut > 0) {
            events.push(Event::new(last.0, last.1, EventKind::Lost { events: Some(cut) }));
        }
        explain(late, &events, facts)
    });
    let losses = counted.tallies.iter().flat_map(|(cpu, tally)| tally.losses(&format!("trace, CPU {cpu}")));
    Ok(SavedExplanations {
        worst: explained.collect(),
        latencies: finder.latencies,
        start: finder.start,
        losses: losses.collect(),
        uname: counted.uname,
    })
}

fn again(source: io::Error) -> TraceError {
    TraceError::Read { part: "the file", offset: 0, source }
}

/// Finds the worst wake-ups of a stream.
struct Finder<'w> {
    watched: &'w Watched,
    keep: usize,
    /// When each thread that waits was requested, and by what.
    waiting: HashMap<Tid, (Nanos, Mechanism)>,
    /// Who runs on each CPU.
    running: HashMap<Cpu, Tid>,
    /// The timer whose callback runs on each CPU: when it was due.
    expiring: HashMap<Cpu, Nanos>,
    worst: Vec<Activation>,
    latencies: Histogram,
    switches: u64,
    start: Option<Nanos>,
}

impl<'w> Finder<'w> {
    fn new(watched: &'w Watched, keep: usize) -> Finder<'w> {
        Finder {
            watched,
            keep,
            waiting: HashMap::new(),
            running: HashMap::new(),
            expiring: HashMap::new(),
            worst: Vec::new(),
            latencies: Histogram::new(),
            switches: 0,
            start: None,
        }
    }

    fn observe(&mut self, event: &Event) {
        self.start.get_or_insert(event.at);
        match &event.kind {
            EventKind::HrtimerExpireEntry { soft_expires, .. } => {
                self.expiring.insert(event.cpu, *soft_expires);
            }
            EventKind::HrtimerExpireExit { .. } => {
                self.expiring.remove(&event.cpu);
            }
            // Who is woken while it runs does not wait for a CPU.
            EventKind::Waking { task } if self.running.values().any(|running| *running == task.tid) => {}
            EventKind::Waking { task } if self.watched.has(task) && self.waiting.len() < THREADS => {
                let due = self.expiring.get(&event.cpu).filter(|due| **due <= event.at);
                let requested = match due {
                    Some(due) => (*due, Mechanism::TimerWakeup),
                    None => (event.at, Mechanism::ThreadWakeup),
                };
                // A thread that is woken again before it ran was requested by the first.
                self.waiting.entry(task.tid).or_insert(requested);
            }
            EventKind::Switch { next, .. } => {
                self.switches += 1;
                self.running.insert(event.cpu, next.tid);
                if let Some((requested_at, mechanism)) = self.waiting.remove(&next.tid) {
                    self.late(event, next, requested_at, mechanism);
                }
            }
            // Whoever waited may have run meanwhile.
            EventKind::Lost { .. } => {
                self.waiting.clear();
                self.running.clear();
                self.expiring.remove(&event.cpu);
            }
            _ => {}
        }
    }

    fn late(&mut self, event: &Event, task: &Task, requested_at: Nanos, mechanism: Mechanism) {
        let latency = event.at.saturating_sub(requested_at);
        self.latencies.record(latency);
        let place = self.worst.partition_point(|late| late.latency() >= latency);
        if place >= self.keep {
            return;
        }
        let word = if mechanism == Mechanism::TimerWakeup { "timer_wakeup" } else { "thread_wakeup" };
        let series = format!("{word}/{}", task.comm);
        let late = Activation::of_thread(series, mechanism, task.clone(), event.cpu, requested_at, event.at);
        self.worst.insert(place, late);
        self.worst.truncate(self.keep);
    }
}
