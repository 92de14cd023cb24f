// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the handlers of a system take, and how late its timers' interrupts come, as a rule: what one that takes hundreds of
//! times as long is held against.
//!
//! Owns the counting, from events of any CPUs in order of time. What follows from it is decided elsewhere.

use std::collections::{BTreeMap, HashMap};

use latebound_model::{Cpu, Event, EventKind, Histogram, Nanos, softirq_name};

/// The distributions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usual {
    /// Of each handler, by its name: from its entry to its exit.
    handlers: BTreeMap<String, Histogram>,
    /// How late the interrupt of a timer came where the CPU was idle.
    idle_exits: Histogram,
    /// How late it came where a thread ran.
    delays: Histogram,
}

/// What is going on on one CPU.
#[derive(Clone, Debug, Default)]
struct Open {
    /// Handlers that have begun, innermost last.
    frames: Vec<(String, Nanos)>,
    /// Whether the idle task is on it; `None` until a switch tells.
    idle: Option<bool>,
    /// When the interrupt was entered in which no timer has expired yet.
    entered: Option<Nanos>,
}

/// Counts events one by one.
#[derive(Clone, Debug, Default)]
pub struct UsualCounter {
    usual: Usual,
    cpus: HashMap<Cpu, Open>,
}

impl UsualCounter {
    /// Takes the next event of a CPU.
    pub fn observe(&mut self, event: &Event) {
        let open = self.cpus.entry(event.cpu).or_default();
        match &event.kind {
            EventKind::InterruptEntry(kind) => {
                if open.frames.is_empty() {
                    open.entered = Some(event.at);
                }
                open.frames.push((kind.to_string(), event.at));
            }
            EventKind::SoftirqEntry { vector } => {
                open.frames.push((softirq_name(*vector).to_owned(), event.at));
            }
            EventKind::InterruptExit(kind) => close(&mut self.usual, open, &kind.to_string(), event.at),
            EventKind::SoftirqExit { vector } => {
                close(&mut self.usual, open, softirq_name(*vector), event.at)
            }
            // The first timer of an interrupt is the one that the hardware was set for.
            EventKind::HrtimerExpireEntry { expires, .. } => {
                if let (Some(entered), Some(idle)) = (open.entered.take(), open.idle)
                    && *expires <= entered
                {
                    let late = entered.saturating_sub(*expires);
                    match idle {
                        true => self.usual.idle_exits.record(late),
                        false => self.usual.delays.record(late),
                    }
                }
            }
            EventKind::Switch { next, .. } => {
                open.frames.clear();
                open.entered = None;
                open.idle = Some(next.is_idle());
            }
            EventKind::Lost { .. } => *open = Open::default(),
            _ => {}
        }
    }

    /// What was counted.
    pub fn finish(self) -> Usual {
        self.usual
    }
}

fn close(usual: &mut Usual, open: &mut Open, name: &str, at: Nanos) {
    if let Some(place) = open.frames.iter().rposition(|(opened, _)| opened == name) {
        let (name, since) = open.frames.swap_remove(place);
        open.frames.truncate(place);
        usual.handlers.entry(name).or_default().record(at.saturating_sub(since));
    }
    if open.frames.is_empty() {
        open.entered = None;
    }
}

impl Usual {
    /// From events in order of time.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Usual {
        let mut counter = UsualCounter::default();
        events.into_iter().for_each(|event| counter.observe(event));
        counter.finish()
    }

    /// Of a handler by its name.
    pub(super) fn handler(&self, name: &str) -> Option<&Histogram> {
        self.handlers.get(name)
    }

    /// How late interrupts of timers come to an idle CPU.
    pub(super) fn idle_exits(&self) -> &Histogram {
        &self.idle_exits
    }

    /// How late they come to a busy one.
    pub(super) fn delays(&self) -> &Histogram {
        &self.delays
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::{InterruptKind, SwitchReason, Task, Tid};

    fn timer() -> InterruptKind {
        InterruptKind::Vector { name: "local_timer".into() }
    }

    fn switch(at: u64, next: i32) -> Event {
        let task = |tid| Task { tid: Tid(tid), ..Task::default() };
        let kind = EventKind::Switch { prev: task(9), reason: SwitchReason::Blocked, next: task(next) };
        Event::new(Nanos(at), Cpu(0), kind)
    }

    fn interrupt(from: u64, expires: u64, to: u64) -> [Event; 3] {
        let event = |at, kind| Event::new(Nanos(at), Cpu(0), kind);
        let expiry =
            EventKind::HrtimerExpireEntry { timer: 1, soft_expires: Nanos(0), expires: Nanos(expires) };
        [
            event(from, EventKind::InterruptEntry(timer())),
            event(from + 10, expiry),
            event(to, EventKind::InterruptExit(timer())),
        ]
    }

    #[test]
    fn handlers_and_idle_exits_are_counted_apart_from_delays_of_threads() {
        let mut events = vec![switch(0, 0)];
        events.extend(interrupt(1_000, 900, 1_500));
        events.push(switch(2_000, 7));
        events.extend(interrupt(3_000, 2_990, 3_700));
        let usual = Usual::of(&events);
        let timers = usual.handler("local_timer").unwrap();
        assert_eq!((timers.count(), timers.min(), timers.max()), (2, Some(Nanos(500)), Some(Nanos(700))));
        assert_eq!((usual.idle_exits().count(), usual.idle_exits().max()), (1, Some(Nanos(100))));
        assert_eq!((usual.delays().count(), usual.delays().max()), (1, Some(Nanos(10))));
    }

    #[test]
    fn a_handler_whose_begin_was_lost_is_not_counted() {
        let mut events = interrupt(1_000, 900, 1_500).to_vec();
        events.insert(1, Event::new(Nanos(1_005), Cpu(0), EventKind::Lost { events: None }));
        let usual = Usual::of(&events);
        assert_eq!(usual.handler("local_timer"), None);
        assert_eq!(usual.idle_exits().count() + usual.delays().count(), 0, "nobody knows who was current");
    }
}
