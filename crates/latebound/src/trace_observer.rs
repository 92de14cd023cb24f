// SPDX-License-Identifier: MIT OR Apache-2.0
//! `observe` by the kernel's own trace buffers, where BPF cannot be had: pages from an instance of tracefs, read by the reader of saved
//! traces, paired by the analysis.
//!
//! Owns the thread that reads, which events a mechanism takes, and what is said of them that are not there. Never pairs an event.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use latebound_analysis::activations::{Activations, Names, ThreadKind};
use latebound_model::{Activation, Cpu, Loss, LossKind, Mechanism, Missing, MissingKind, Nanos, Series, Tid};
use latebound_saved::{ActivationReader, ActivationTally};
use latebound_trace::{CpuStats, LivePages, Tally};
use latebound_tracefs::{
    Instance, InstanceOptions, KernelNames, Page, ThreadFlags, Tracefs, TracefsError, clock_offsets,
    remove_stale, thread, threads,
};

use crate::session::monotonic;

/// How often the buffers are read. A CPU that writes 10 MB a second has filled a quarter of its 4 MiB by then.
const EVERY: Duration = Duration::from_millis(100);
/// How often the kernel is asked what it lost, and the clocks of timers are read.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// What a mechanism's events are, system and name. Further ones are found by [`Plan::new`].
fn events_of(mechanism: Mechanism) -> &'static [(&'static str, &'static str)] {
    match mechanism {
        Mechanism::HardIrq => &[("irq", "irq_handler_entry"), ("irq", "irq_handler_exit")],
        Mechanism::Softirq => &[("irq", "softirq_raise"), ("irq", "softirq_entry"), ("irq", "softirq_exit")],
        Mechanism::Tasklet => &[("irq", "tasklet_entry"), ("irq", "tasklet_exit")],
        Mechanism::Work => &[
            ("workqueue", "workqueue_queue_work"),
            ("workqueue", "workqueue_activate_work"),
            ("workqueue", "workqueue_execute_start"),
            ("workqueue", "workqueue_execute_end"),
            ("sched", "sched_wakeup"),
            ("sched", "sched_process_fork"),
        ],
        Mechanism::KernelThread => {
            &[("sched", "sched_switch"), ("sched", "sched_wakeup"), ("sched", "sched_process_fork")]
        }
        Mechanism::ThreadedIrq => &[
            ("irq", "irq_handler_entry"),
            ("irq", "irq_handler_exit"),
            ("sched", "sched_switch"),
            ("sched", "sched_wakeup"),
            ("sched", "sched_process_fork"),
        ],
        Mechanism::Hrtimer => &[
            ("timer", "hrtimer_start"),
            ("timer", "hrtimer_cancel"),
            ("timer", "hrtimer_expire_entry"),
            ("timer", "hrtimer_expire_exit"),
        ],
        _ => &[],
    }
}

/// The mechanisms that can be observed so, in the order of the tables.
const OBSERVABLE: [Mechanism; 9] = [
    Mechanism::HardIrq,
    Mechanism::Vector,
    Mechanism::Softirq,
    Mechanism::Tasklet,
    Mechanism::Work,
    Mechanism::ThreadedIrq,
    Mechanism::KernelThread,
    Mechanism::Hrtimer,
    Mechanism::BlockRequest,
];

/// The events to record, the mechanisms that they serve, and what cannot be had.
#[derive(Debug, Default)]
struct Plan {
    events: BTreeSet<(String, String)>,
    mechanisms: BTreeSet<Mechanism>,
    missing: Vec<Missing>,
}

fn pair(system: &str, name: &str) -> (String, String) {
    (system.to_owned(), name.to_owned())
}

impl Plan {
    /// `has` says whether the kernel has an event, and `events` names those of a system.
    fn new(
        wanted: &BTreeSet<Mechanism>,
        has: impl Fn(&str, &str) -> bool,
        events: impl Fn(&str) -> Vec<String>,
    ) -> Plan {
        let mut plan = Plan::default();
        let all = || OBSERVABLE.into_iter().chain([Mechanism::IrqWork]).collect();
        let wanted = if wanted.is_empty() { all() } else { wanted.clone() };
        for &mechanism in &wanted {
            if mechanism == Mechanism::IrqWork {
                plan.missing.push(Missing::new(
                    MissingKind::Mechanism,
                    "irq_work items",
                    "they have no trace points",
                    "see the vector irq_work for how long they run",
                ));
                continue;
            }
            let needed: Vec<(String, String)> = match mechanism {
                Mechanism::Vector => vectors(&events),
                Mechanism::BlockRequest
                    if has("block", "block_io_start") && has("block", "block_io_done") =>
                {
                    vec![pair("block", "block_io_start"), pair("block", "block_io_done")]
                }
                Mechanism::BlockRequest => {
                    vec![pair("block", "block_rq_issue"), pair("block", "block_rq_complete")]
                }
                other => events_of(other).iter().map(|(system, name)| pair(system, name)).collect(),
            };
            let absent: Vec<String> = needed
                .iter()
                .filter(|(system, name)| !has(system, name))
                .map(|(system, name)| format!("{system}:{name}"))
                .collect();
            if needed.is_empty() || !absent.is_empty() {
                plan.missing.push(Missing::new(
                    MissingKind::Mechanism,
                    format!("{}s", mechanism.name()),
                    match absent.is_empty() {
                        true => "this kernel has no events of them".to_owned(),
                        false => format!("this kernel has no event {}", absent.join(", ")),
                    },
                    remedy(mechanism),
                ));
                continue;
            }
            if mechanism == Mechanism::Tasklet {
                plan.missing.push(Missing::new(
                    MissingKind::Mechanism,
                    "latency of tasklets",
                    "tracefs has no event of a tasklet's request",
                    "observe by BPF, which sees it",
                ));
            }
            plan.events.extend(needed);
            plan.mechanisms.insert(mechanism);
        }
        plan
    }
}

/// The events of vectors: those that have a beginning and an end (x86), or those of inter-processor interrupts.
fn vectors(events: impl Fn(&str) -> Vec<String>) -> Vec<(String, String)> {
    let halves = |system: &str| {
        let names = events(system);
        let is_half = |name: &&String| {
            let other = name
                .strip_suffix("_entry")
                .map(|name| format!("{name}_exit"))
                .or_else(|| name.strip_suffix("_exit").map(|name| format!("{name}_entry")));
            other.is_some_and(|other| names.contains(&other))
        };
        names.iter().filter(is_half).map(|name| pair(system, name)).collect::<Vec<_>>()
    };
    [halves("irq_vectors"), halves("ipi")].concat()
}

fn remedy(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Tasklet => "boot Linux 6.4 or later, which has irq:tasklet_entry and irq:tasklet_exit",
        Mechanism::BlockRequest => "boot a kernel with CONFIG_BLOCK and CONFIG_EVENT_TRACING",
        _ if OBSERVABLE.contains(&mechanism) => "boot a kernel with CONFIG_EVENT_TRACING",
        _ => "use `latebound measure` or `latebound explain`",
    }
}

/// What is known at one moment.
struct State {
    reader: ActivationReader,
    pages: LivePages,
    /// What the kernel counted, by CPU.
    counts: Vec<CpuStats>,
    /// Whether all is read, so that what the kernel counts has to be there.
    is_whole: bool,
    /// Why reading ended before it was to.
    failed: Option<TracefsError>,
}

/// What both threads have.
struct Shared {
    state: Mutex<State>,
    ends: AtomicBool,
}

impl Shared {
    /// A poisoned lock holds what was counted before.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Observes until it is stopped or dropped.
pub(crate) struct TraceObserver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), TracefsError>>>,
    names: KernelNames,
    mechanisms: BTreeSet<Mechanism>,
    missing: Vec<Missing>,
}

fn kind_of(flags: ThreadFlags) -> ThreadKind {
    if flags.is_idle() {
        ThreadKind::Idle
    } else if !flags.is_kernel() {
        ThreadKind::User
    } else if flags.is_worker() {
        ThreadKind::Worker
    } else {
        ThreadKind::Kernel
    }
}

impl TraceObserver {
    /// Makes an instance and begins to read it. `gives_up` is called in the thread that reads, before anything else. Gives the names of
    /// instances that ended runs left behind, and that are removed now.
    pub(crate) fn start(
        mechanisms: &BTreeSet<Mechanism>,
        buffer_bytes: Option<u64>,
        gives_up: impl FnOnce() + Send + 'static,
    ) -> Result<(TraceObserver, Vec<String>)> {
        let tracefs = Tracefs::find()?;
        let stale = remove_stale(&tracefs);
        let plan =
            Plan::new(mechanisms, |system, name| tracefs.has_event(system, name), |s| tracefs.events_of(s));
        let mut missing = plan.missing;
        if plan.mechanisms.is_empty() {
            let why: Vec<String> = missing.iter().map(ToString::to_string).collect();
            anyhow::bail!("nothing of what was asked for can be observed by tracefs: {}", why.join("; "));
        }
        let names = KernelNames::open();
        if !names.has_functions() {
            missing.push(Missing::new(
                MissingKind::Names,
                "names of functions",
                "/proc/kallsyms shows no addresses",
                "run with CAP_SYSLOG and with kernel.kptr_restrict below 2",
            ));
        }
        let options = InstanceOptions { events: plan.events.into_iter().collect(), buffer_bytes };
        let instance = Instance::make(&tracefs, &options)?;
        let mut activations = Activations::new(Box::new(|tid| {
            let thread = thread(tid)?;
            Some((kind_of(thread.flags), thread.comm))
        }));
        let pages = LivePages::new(instance.layout(), cfg!(target_endian = "big"), instance.cpus());
        instance.start()?;
        // Whoever is made from now on has an event.
        for thread in threads() {
            activations.know_thread(thread.tid, kind_of(thread.flags), &thread.comm);
        }
        let reader = ActivationReader::new(activations, instance.decoder().clone());
        let state = State { reader, pages, counts: Vec::new(), is_whole: false, failed: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), ends: AtomicBool::new(false) });
        let reads = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("trace-reader".to_owned()).spawn(move || {
            gives_up();
            reads.run(instance)
        });
        let thread = Some(thread.context("cannot start the thread that reads the trace")?);
        Ok((TraceObserver { shared, thread, names, mechanisms: plan.mechanisms, missing }, stale))
    }

    /// Ends it, reads what is left and removes the instance; an error where the instance stays.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.shared.ends.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.thread().unpark();
        match thread.join() {
            Ok(removed) => removed.context("cannot take the own trace away"),
            Err(_) => {
                anyhow::bail!("the thread that reads the trace ended by a bug; what it had counted is kept")
            }
        }
    }

    pub(crate) fn series(&self) -> Vec<Series> {
        self.shared.state().reader.activations().series(&self.mechanisms, &Called(&self.names))
    }

    pub(crate) fn worst(&self) -> Vec<Activation> {
        self.shared.state().reader.activations().worst(&self.mechanisms, &Called(&self.names))
    }

    /// What was read.
    pub(crate) fn tally(&self) -> ActivationTally {
        self.shared.state().reader.tally()
    }

    /// What was lost by the kernel's own counts, and what could not be paired.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let state = self.shared.state();
        let unpaired = |place: &str, count: u64| {
            let place = place.to_owned();
            (count > 0).then_some(Loss { kind: LossKind::Unpaired, place, count: Some(count) })
        };
        let waiting = match self.mechanisms.contains(&Mechanism::Work) {
            true => state.reader.activations().still_queued(Nanos::from_secs(1)),
            false => 0,
        };
        let mut losses = lost_by_kernel(state.pages.tallies(), &state.counts, state.is_whole);
        losses.extend(unpaired("trace: events that came after later ones of other CPUs", state.pages.late()));
        let unreadable = state.reader.tally().unreadable;
        losses.extend(unpaired("trace: records that their descriptions do not fit", unreadable));
        losses.extend(state.reader.activations().losses());
        losses.extend(unpaired(
            "work items: queued over 1 s ago and not started so far: still waiting, or cancelled",
            waiting,
        ));
        losses
    }

    pub(crate) fn missing(&self) -> Vec<Missing> {
        let mut missing = self.missing.clone();
        if let Some(error) = &self.shared.state().failed {
            missing.push(Missing::new(
                MissingKind::Events,
                "the rest of the trace",
                format!("reading it failed: {error}"),
                "observe again",
            ));
        }
        missing
    }
}

impl Drop for TraceObserver {
    fn drop(&mut self) {
        // An instance that stays is removed by the next run.
        let _ = self.stop();
    }
}

impl Shared {
    /// Reads until it is to end, and removes the instance then.
    fn run(&self, instance: Instance) -> Result<(), TracefsError> {
        self.state().reader.set_own(own_threads());
        let mut counted: Option<Instant> = None;
        while !self.ends.load(Ordering::Relaxed) {
            let began = Instant::now();
            let is_due = counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY);
            if is_due {
                counted = Some(began);
            }
            let fullest = match self.round(&instance, is_due) {
                Ok(fullest) => fullest,
                Err(error) => {
                    self.state().failed = Some(error);
                    return instance.remove();
                }
            };
            std::thread::park_timeout(pause(fullest, instance.pages()).saturating_sub(began.elapsed()));
        }
        if let Err(error) = instance.stop().and_then(|()| self.round(&instance, true)) {
            self.state().failed = Some(error);
        } else {
            let State { reader, pages, is_whole, .. } = &mut *self.state();
            pages.finish(&mut |item| reader.take(&item));
            *is_whole = true;
        }
        instance.remove()
    }

    /// Reads what every CPU has now, and pairs what no CPU can have anything before. Gives the pages of the CPU that had most.
    fn round(&self, instance: &Instance, counts: bool) -> Result<usize, TracefsError> {
        let (began, mut fullest) = (monotonic(), 0);
        for place in 0..instance.cpus().count() {
            // What is there now, and no more: a CPU that fills pages as fast as they are read holds nobody up.
            for read in 1..=instance.pages() {
                let room = self.state().pages.spare();
                match instance.read(place, room)? {
                    Page::Read(page) => self.state().pages.push(place, page),
                    Page::Nothing(_) => break,
                }
                fullest = fullest.max(read);
            }
        }
        let stats = match counts {
            true => {
                Some((0..instance.cpus().count()).map(|at| instance.stats(at)).collect::<Result<_, _>>()?)
            }
            false => None,
        };
        let State { reader, pages, counts, .. } = &mut *self.state();
        if let Some(stats) = stats {
            *counts = stats;
            reader.activations_mut().set_clock_offsets(&clock_offsets());
        }
        // An event whose time was taken is written a moment later; an interrupt may make that long.
        pages.drain(began.0.saturating_sub(SETTLED.0), &mut |item| reader.take(&item));
        Ok(fullest)
    }
}

/// Until the buffers are read again: sooner where one was more than an eighth full, so that a burst has room.
fn pause(fullest: usize, pages: usize) -> Duration {
    let eighths = u32::try_from(fullest.saturating_mul(8) / pages.max(1)).unwrap_or(u32::MAX);
    EVERY / eighths.max(1)
}

/// So long after its time an event is in its buffer, unless the CPU is taken away from the kernel.
const SETTLED: Nanos = Nanos::from_millis(20);

/// The threads of this process.
fn own_threads() -> BTreeSet<Tid> {
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.map(Tid).collect()
}

/// What the kernel counted as lost, and what the pages say beside.
fn lost_by_kernel(
    tallies: impl Iterator<Item = (Cpu, Tally)>,
    counts: &[CpuStats],
    is_whole: bool,
) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (cpu, tally) in tallies {
        let counted = counts.iter().find(|stats| stats.cpu == cpu);
        let by_kernel = counted.map_or(0, |stats| {
            stats.overrun.saturating_add(stats.commit_overrun).saturating_add(stats.dropped)
        });
        // The kernel's count has those that no page tells of: what was overwritten behind the last page that was read.
        let overwritten = by_kernel.max(tally.overwritten);
        let missing = match counted.and_then(|stats| stats.read) {
            Some(read) if is_whole => read.saturating_sub(tally.events),
            _ => 0,
        };
        let places = if overwritten > 0 { 0 } else { tally.overwritten_places };
        let exact = Tally { overwritten, overwritten_places: places, missing, ..tally };
        losses.extend(exact.losses(&format!("trace, CPU {cpu}")));
    }
    losses
}

/// Names by what the kernel shows.
struct Called<'a>(&'a KernelNames);

impl Names for Called<'_> {
    fn function(&self, address: u64) -> Option<String> {
        self.0.function(address)
    }

    fn disk(&self, device: u32) -> Option<String> {
        self.0.disk(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(wanted: &[Mechanism], absent: &[&str]) -> Plan {
        let vectors = ["local_timer_entry", "local_timer_exit", "vector_alloc", "cut_entry"];
        let events = |system: &str| match system {
            "irq_vectors" => vectors.map(str::to_owned).to_vec(),
            _ => Vec::new(),
        };
        Plan::new(&wanted.iter().copied().collect(), |_, name| !absent.contains(&name), events)
    }

    #[test]
    fn a_mechanism_is_left_out_where_an_event_of_it_is_absent() {
        let all = plan(&[], &[]);
        assert_eq!(all.mechanisms.len(), OBSERVABLE.len());
        assert_eq!(all.missing.len(), 2, "the latency of tasklets, and irq_work items: {:?}", all.missing);
        assert!(all.events.contains(&pair("irq_vectors", "local_timer_exit")));
        assert!(!all.events.iter().any(|(_, name)| name == "cut_entry" || name == "vector_alloc"));
        assert!(!all.events.contains(&pair("block", "block_rq_issue")));

        let old = plan(&[Mechanism::BlockRequest, Mechanism::Tasklet], &["block_io_done", "tasklet_exit"]);
        assert_eq!(old.mechanisms, [Mechanism::BlockRequest].into());
        assert!(old.events.contains(&pair("block", "block_rq_complete")));
        assert!(old.missing[0].why.contains("irq:tasklet_exit"), "{:?}", old.missing);

        let none = plan(&[Mechanism::IrqWork, Mechanism::TimerWakeup], &[]);
        assert!(none.events.is_empty() && none.missing.len() == 2, "{none:?}");
    }

    #[test]
    fn a_buffer_that_fills_is_read_sooner() {
        assert_eq!((pause(0, 1000), pause(249, 1000)), (EVERY, EVERY));
        assert_eq!((pause(250, 1000), pause(1000, 1000)), (EVERY / 2, EVERY / 8));
        assert_eq!(pause(3, 0), EVERY / 24, "no number makes it fail");
    }

    #[test]
    fn what_was_lost_is_the_kernels_count_and_not_added_twice() {
        let stats = |overrun, read| CpuStats {
            cpu: Cpu(1),
            overrun,
            commit_overrun: 2,
            dropped: 3,
            read: Some(read),
            ..CpuStats::default()
        };
        let tally = Tally { events: 40, overwritten: 7, overwritten_places: 1, ..Tally::default() };
        let lost = |stats: &[CpuStats], is_whole| {
            let losses = lost_by_kernel([(Cpu(1), tally)].into_iter(), stats, is_whole);
            losses.into_iter().map(|loss| (loss.kind, loss.count)).collect::<Vec<_>>()
        };
        use LossKind::Overwritten;
        assert_eq!(lost(&[stats(95, 41)], false), [(Overwritten, Some(100))]);
        assert_eq!(lost(&[stats(95, 41)], true), [(Overwritten, Some(100)), (Overwritten, Some(1))]);
        assert_eq!(lost(&[], true), [(Overwritten, Some(7))]);
    }
}
