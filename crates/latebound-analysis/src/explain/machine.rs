// SPDX-License-Identifier: MIT OR Apache-2.0
//! All CPUs in the time around one late activation: the events of each, and what was on top of it. Every thread of a chain of
//! waits is looked at on the same machine.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use latebound_model::{Cpu, Event, EventKind, Nanos, PreemptionModel, Standstill};

use super::facts::KernelFacts;
use super::requests::Requests;
use super::standstill;
use super::timeline::Timeline;

/// The standstills of all CPUs in one interval.
type Found = Rc<[Standstill]>;

/// The events, and what follows from them for each CPU.
pub(super) struct Machine<'e> {
    /// All events, in order of time.
    pub(super) sorted: Vec<&'e Event>,
    /// The same by CPU.
    pub(super) events: BTreeMap<Cpu, Vec<&'e Event>>,
    /// What ran on each CPU.
    pub(super) timelines: BTreeMap<Cpu, Timeline>,
    /// What is known of the kernel.
    pub(super) facts: &'e KernelFacts,
    /// Whether the events show when a CPU is told to give way.
    pub(super) shows_orders: bool,
    /// Where the CPUs stood still, by the interval that was looked at: all threads of a chain have the same one.
    standstills: RefCell<BTreeMap<(Nanos, Nanos), Found>>,
    /// Few jobs wait for a block request.
    requests: OnceCell<Requests>,
}

impl<'e> Machine<'e> {
    /// The machine that these events show, which may come in any order.
    pub(super) fn new(events: &'e [Event], facts: &'e KernelFacts) -> Machine<'e> {
        let mut sorted: Vec<&Event> = events.iter().collect();
        sorted.sort_by_key(|event| event.at);
        let mut by_cpu: BTreeMap<Cpu, Vec<&Event>> = BTreeMap::new();
        for event in &sorted {
            by_cpu.entry(event.cpu).or_default().push(event);
        }
        let shows_orders = sorted.iter().any(|event| matches!(event.kind, EventKind::NeedResched { .. }));
        let preemptible = facts.preemption == Some(PreemptionModel::Rt);
        let timelines =
            by_cpu.iter().map(|(cpu, events)| (*cpu, Timeline::new(events, preemptible))).collect();
        let (standstills, requests) = (RefCell::default(), OnceCell::new());
        Machine { sorted, events: by_cpu, timelines, facts, shows_orders, standstills, requests }
    }

    /// The block requests of all CPUs.
    pub(super) fn requests(&self) -> &Requests {
        self.requests.get_or_init(|| Requests::of(&self.sorted, &self.timelines))
    }

    /// The standstills of all CPUs that overlap `[from, to]`.
    pub(super) fn standstills(&self, from: Nanos, to: Nanos) -> Found {
        let find =
            |cpu: &Cpu| standstill::find(*cpu, from, to, &self.events, &self.timelines, &self.facts.usual);
        let mut known = self.standstills.borrow_mut();
        let found = known.entry((from, to)).or_insert_with(|| self.events.keys().flat_map(find).collect());
        Rc::clone(found)
    }
}
