// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst wake-ups and jobs of a saved trace, explained.
//!
//! Owns what a late wake-up is in a trace: from the expiry of the timer whose callback woke the thread, else from the
//! waking, to the switch to the thread. Where a wait between jobs is recognised ([`latebound_analysis::cycle`]), the jobs of that thread
//! are explained in place of its wake-ups. Reads the trace two or three times: to find the worst wake-ups and the waits, to find the worst
//! jobs, and to keep the events around these and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use latebound_analysis::cycle::{CycleChoice, Jobs, SiteCounter, Waits};
use latebound_analysis::{KernelFacts, UsualCounter, explain};
use latebound_model::{
    Activation, Cycle, Event, EventKind, Explanation, Histogram, Loss, Missing, MissingKind, Nanos, Task, Tid,
};
use latebound_trace::{ReadAt, TraceError};

use crate::error::SavedError;
use crate::events::{ReadTallies, visit_saved};
use crate::requests::{Requests, Wakeup};

/// Events from so long before the interval tell what was on the CPU when it began.
const MARGIN: Nanos = Nanos::from_millis(5);
/// As many events are kept for one explanation; what is more is reported as lost.
const EVENTS: usize = 1 << 20;
/// Whose wake-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Of threads with this name.
    Comm(String),
    /// Of these threads.
    Threads(BTreeSet<Tid>),
    /// Of every real-time thread.
    RealTime,
}

impl Watched {
    pub(crate) fn has(&self, task: &Task) -> bool {
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
    /// The threads whose jobs were explained, and the wait that lies between these.
    pub cycles: Vec<(Task, Cycle)>,
    /// The responses of all their jobs, from the release to the completion.
    pub responses: Histogram,
    /// Where the trace begins.
    pub start: Option<Nanos>,
    /// What the trace lacks.
    pub losses: Vec<Loss>,
    /// Events that jobs are explained by and that the trace has none of.
    pub missing: Vec<Missing>,
    /// System, name, release and machine of the traced system, where the trace says.
    pub uname: Option<String>,
}

/// Explains the `keep` worst activations of a trace. `open` is called up to three times.
pub fn explain_saved<R: ReadAt>(
    open: impl Fn() -> io::Result<R>,
    instance: &str,
    watched: &Watched,
    cycle: &CycleChoice,
    keep: usize,
    facts: &KernelFacts,
) -> Result<SavedExplanations, SavedError> {
    let each = |visit: &mut dyn FnMut(Event)| visit_saved(open().map_err(again)?, instance, visit);
    explain_each(&each, watched, cycle, keep, facts)
}

/// As [`explain_saved`], of events that are there, by time.
pub fn explain_events(
    events: &[Event],
    watched: &Watched,
    cycle: &CycleChoice,
    keep: usize,
    facts: &KernelFacts,
) -> Result<SavedExplanations, SavedError> {
    let each = |visit: &mut dyn FnMut(Event)| {
        events.iter().cloned().for_each(visit);
        Ok(ReadTallies::default())
    };
    explain_each(&each, watched, cycle, keep, facts)
}

/// Gives all events to who asks for them.
type Each<'a> = &'a dyn Fn(&mut dyn FnMut(Event)) -> Result<ReadTallies, SavedError>;

fn explain_each(
    each: Each<'_>,
    watched: &Watched,
    cycle: &CycleChoice,
    keep: usize,
    facts: &KernelFacts,
) -> Result<SavedExplanations, SavedError> {
    let mut finder = Finder::new(watched, keep);
    let mut usual = UsualCounter::default();
    let (mut waits, mut counter) = (Waits::default(), SiteCounter::default());
    let mut shown = Shown::default();
    let counted = each(&mut |event| {
        usual.observe(&event);
        finder.observe(&event);
        shown.observe(&event.kind);
        if *cycle != CycleChoice::Off
            && let Some(wait) = waits.observe(&event, |task| watched.has(task))
        {
            counter.observe(&wait);
        }
    })?;
    let facts = &KernelFacts { usual: usual.finish(), ..facts.clone() };
    if finder.switches == 0 {
        return Err(SavedError::NoEvents { missing: "sched_switch" });
    }
    let cycles = counter.threads().into_iter().filter_map(|tid| Some((tid, cycle.among(&counter.of(tid))?)));
    let mut found = JobFinder::new(cycles.collect(), keep);
    let latencies = finder.latencies.clone();
    let follows_jobs = !found.cycles.is_empty();
    if follows_jobs {
        // A thread whose jobs are explained has its wake-ups in them.
        finder = Finder { without: found.cycles.keys().copied().collect(), ..Finder::new(watched, keep) };
        each(&mut |event| {
            finder.observe(&event);
            found.observe(&event, watched);
        })?;
    }
    let mut worst = finder.worst;
    worst.extend(found.worst);
    worst.sort_by_key(|late| std::cmp::Reverse(late.length()));
    worst.truncate(keep);
    let mut kept: Vec<Vec<Event>> = vec![Vec::new(); worst.len()];
    let mut cut: Vec<u64> = vec![0; worst.len()];
    each(&mut |event| {
        for (place, late) in worst.iter().enumerate() {
            let from = late.requested_at.saturating_sub(MARGIN);
            if from <= event.at && event.at <= late.until() {
                if kept[place].len() < EVENTS {
                    kept[place].push(event.clone());
                } else {
                    cut[place] += 1;
                }
            }
        }
    })?;
    let explained = worst.iter().zip(kept).zip(cut).map(|((late, mut events), cut)| {
        if let (Some(last), true) = (events.last().map(|event| (event.at, event.cpu)), cut > 0) {
            events.push(Event::new(last.0, last.1, EventKind::Lost { events: Some(cut) }));
        }
        explain(late, &events, facts)
    });
    let losses = counted.tallies.iter().flat_map(|(cpu, tally)| tally.losses(&format!("trace, CPU {cpu}")));
    Ok(SavedExplanations {
        worst: explained.collect(),
        latencies,
        cycles: found.named,
        responses: found.responses,
        start: finder.start,
        losses: losses.collect(),
        missing: if follows_jobs { shown.missing() } else { Vec::new() },
        uname: counted.uname,
    })
}

/// Which events of jobs a trace has.
#[derive(Debug, Default)]
struct Shown {
    timers: bool,
    interrupts: bool,
    calls: bool,
    requests: bool,
    locks: bool,
    signals: bool,
    reclaims: bool,
    faults: bool,
}

impl Shown {
    fn observe(&mut self, kind: &EventKind) {
        let seen = match kind {
            EventKind::HrtimerExpireEntry { .. } => &mut self.timers,
            EventKind::InterruptEntry(_) => &mut self.interrupts,
            EventKind::SystemCallEntry { .. } => &mut self.calls,
            EventKind::BlockRequest { .. } => &mut self.requests,
            EventKind::LockContended { .. } => &mut self.locks,
            EventKind::SignalDelivered { .. } => &mut self.signals,
            EventKind::ReclaimBegin { .. } => &mut self.reclaims,
            EventKind::PageFaultEntry { .. } => &mut self.faults,
            _ => return,
        };
        *seen = true;
    }

    /// What is not told from other time without them. A trace does not say which events it was to have: one without locks may
    /// just have met none.
    fn missing(&self) -> Vec<Missing> {
        let lacks = [
            (
                self.timers,
                "timers",
                "a wait that a timer ends passes for one that an interrupt ends",
                "timer",
            ),
            (
                self.interrupts,
                "interrupts",
                "their time belongs to whom they interrupt",
                "irq -e irq_vectors",
            ),
            (
                self.calls,
                "system calls",
                "they are not told from own code, nor one wait of a thread from another, nor the end of a page fault",
                "raw_syscalls",
            ),
            (
                self.requests,
                "block requests",
                "a wait for a disk is one for an interrupt or a thread",
                "block",
            ),
            (self.locks, "locks of the kernel", "a wait for one is one for the thread that ended it", "lock"),
            (self.signals, "signal handlers", "their time is own code", "signal:signal_deliver"),
            (
                self.reclaims,
                "memory reclaim",
                "its time is that of a system call or of own code",
                "'vmscan:*_reclaim_*'",
            ),
            (
                self.faults,
                "page faults",
                "a sleep in one is known only by what ended it",
                "exceptions:page_fault_user",
            ),
        ];
        let lacks = lacks.into_iter().filter(|(seen, ..)| !seen);
        let lacks = lacks.map(|(_, what, why, events)| Missing {
            kind: MissingKind::Events,
            what: what.to_owned(),
            why: format!("the trace has none: {why}"),
            remedy: format!("record them as well: trace-cmd record -e {events}"),
        });
        let live = "explain the running program: latebound explain --pid";
        let never = [
            (
                "page faults without a sleep",
                "an event tells of the begin of a page fault, and none of its end: without a sleep its time is own code",
            ),
            (
                "owners of locks, kinds of files, quotas and the freezer",
                "no event of a trace tells of them: who ended a wait stands for an owner, a number for a file, and whom a quota or the \
                 freezer holds passes for one that others ran before, or that sleeps",
            ),
        ];
        lacks
            .chain(never.map(|(what, why)| Missing::new(MissingKind::Events, what, why.to_owned(), live)))
            .collect()
    }
}

/// Finds the worst jobs of a stream.
struct JobFinder {
    cycles: BTreeMap<Tid, Cycle>,
    keep: usize,
    waits: Waits,
    jobs: Jobs,
    named: Vec<(Task, Cycle)>,
    worst: Vec<Activation>,
    responses: Histogram,
}

impl JobFinder {
    fn new(cycles: BTreeMap<Tid, Cycle>, keep: usize) -> JobFinder {
        let mut jobs = Jobs::default();
        for (tid, cycle) in &cycles {
            jobs.follow(*tid, cycle.site.clone());
        }
        let (waits, responses) = (Waits::default(), Histogram::new());
        JobFinder { cycles, keep, waits, jobs, named: Vec::new(), worst: Vec::new(), responses }
    }

    fn observe(&mut self, event: &Event, watched: &Watched) {
        if matches!(event.kind, EventKind::Lost { .. }) {
            self.jobs.forget();
        }
        let cycles = &self.cycles;
        let watches = |task: &Task| watched.has(task) && cycles.contains_key(&task.tid);
        let job = self.waits.observe(event, watches).and_then(|wait| self.jobs.observe(wait));
        let Some(mut job) = job else { return };
        let task = job.runner.clone().unwrap_or_default();
        job.series = format!("response/{}", task.comm);
        if let Some(cycle) = self.cycles.get(&task.tid)
            && !self.named.iter().any(|(named, _)| named.tid == task.tid)
        {
            self.named.push((task, cycle.clone()));
        }
        let response = job.length();
        self.responses.record(response);
        let place = self.worst.partition_point(|worse| worse.length() >= response);
        if place < self.keep {
            self.worst.insert(place, job);
            self.worst.truncate(self.keep);
        }
    }
}

fn again(source: io::Error) -> TraceError {
    TraceError::Read { part: "the file", offset: 0, source }
}

/// Finds the worst wake-ups of a stream.
struct Finder<'w> {
    watched: &'w Watched,
    keep: usize,
    /// Whose wake-ups are none of the worst.
    without: BTreeSet<Tid>,
    requests: Requests,
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
            without: BTreeSet::new(),
            requests: Requests::default(),
            worst: Vec::new(),
            latencies: Histogram::new(),
            switches: 0,
            start: None,
        }
    }

    fn observe(&mut self, event: &Event) {
        self.start.get_or_insert(event.at);
        self.switches += u64::from(matches!(event.kind, EventKind::Switch { .. }));
        if let Some(wakeup) = self.requests.observe(event, |task| self.watched.has(task)) {
            self.late(&wakeup);
        }
    }

    fn late(&mut self, wakeup: &Wakeup) {
        let latency = wakeup.latency();
        self.latencies.record(latency);
        let place = self.worst.partition_point(|late| late.latency() >= latency);
        if place >= self.keep || self.without.contains(&wakeup.task.tid) {
            return;
        }
        let word = if wakeup.by_timer { "timer_wakeup" } else { "thread_wakeup" };
        let series = format!("{word}/{}", wakeup.task.comm);
        self.worst.insert(place, wakeup.activation(series));
        self.worst.truncate(self.keep);
    }
}
