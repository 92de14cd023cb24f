// SPDX-License-Identifier: MIT OR Apache-2.0
//! `observe` by the kernel's own trace buffers, where BPF cannot be had: pages from an instance of tracefs, read by the reader of saved
//! traces, paired by the analysis.
//!
//! Owns which events a mechanism takes, and what is said of those that are not there. Never pairs an event.

use std::collections::BTreeSet;

use anyhow::Result;
use latebound_analysis::activations::{Activations, Names, ThreadKind};
use latebound_model::{Activation, Loss, Mechanism, Missing, MissingKind, Nanos, Series, Tid};
use latebound_saved::{ActivationReader, PageTally};
use latebound_trace::{LivePages, Upto};
use latebound_tracefs::{
    Instance, InstanceOptions, KernelNames, ThreadFlags, Tracefs, clock_offsets, remove_stale, thread,
    threads,
};

use crate::privileges::Work;
use crate::trace_reader::{Reading, TraceReader, functions_without_names, unpaired};

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
pub(crate) fn vectors(events: impl Fn(&str) -> Vec<String>) -> Vec<(String, String)> {
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

impl Reading for ActivationReader {
    fn take(&mut self, pages: &mut LivePages, upto: Upto) {
        self.take_pages(pages, upto);
    }

    fn set_own(&mut self, own: BTreeSet<Tid>) {
        ActivationReader::set_own(self, own);
    }

    fn look(&mut self, counts: bool) {
        if counts {
            self.activations_mut().set_clock_offsets(&clock_offsets());
        }
    }

    fn tally(&self) -> PageTally {
        ActivationReader::tally(self)
    }
}

/// Observes until it is stopped or dropped.
pub(crate) struct TraceObserver {
    reader: TraceReader<ActivationReader>,
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
    /// Makes an instance and begins to read it.  Gives the names of
    /// instances that ended runs left behind, and that are removed now.
    pub(crate) fn start(
        mechanisms: &BTreeSet<Mechanism>,
        buffer_bytes: Option<u64>,
        work: Work,
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
            missing.push(functions_without_names());
        }
        let options = InstanceOptions { events: plan.events.into_iter().collect(), buffer_bytes, cpus: None };
        let instance = Instance::make(&tracefs, &options)?;
        let mut activations = Activations::new(Box::new(|tid| {
            let thread = thread(tid)?;
            Some((kind_of(thread.flags), thread.comm))
        }));
        instance.start()?;
        // Whoever is made from now on has an event.
        for thread in threads() {
            activations.know_thread(thread.tid, kind_of(thread.flags), &thread.comm);
        }
        let reader = ActivationReader::new(activations, instance.decoder().clone());
        let reader = TraceReader::start(instance, reader, work)?;
        Ok((TraceObserver { reader, names, mechanisms: plan.mechanisms, missing }, stale))
    }

    /// Ends it, reads what is left and removes the instance; an error where the instance stays.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.reader.stop()
    }

    pub(crate) fn series(&self) -> Vec<Series> {
        self.reader.with(|reader| reader.activations().series(&self.mechanisms, &Called(&self.names)))
    }

    pub(crate) fn worst(&self) -> Vec<Activation> {
        self.reader.with(|reader| reader.activations().worst(&self.mechanisms, &Called(&self.names)))
    }

    /// What was lost by the kernel's own counts, and what could not be paired.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let mut losses = self.reader.losses();
        let (unpaired_here, waiting) = self.reader.with(|reader| {
            let waiting = match self.mechanisms.contains(&Mechanism::Work) {
                true => reader.activations().still_queued(Nanos::from_secs(1)),
                false => 0,
            };
            (reader.activations().losses(), waiting)
        });
        losses.extend(unpaired_here);
        losses.extend(unpaired(
            "work items: queued over 1 s ago and not started so far: still waiting, or cancelled",
            waiting,
        ));
        losses
    }

    pub(crate) fn missing(&self) -> Vec<Missing> {
        let mut missing = self.missing.clone();
        missing.extend(self.reader.missing());
        missing
    }
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
}
