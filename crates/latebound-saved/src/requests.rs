// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wake-ups of watched threads, from their request to their switch.
//!
//! Owns what a wake-up is in a stream of events: from the expiry of the timer whose callback woke the thread, else from the waking, to the
//! switch to the thread. Never says which are worth keeping.

use foldhash::HashMap;
use latebound_model::{Activation, Cpu, Event, EventKind, Mechanism, Nanos, Task, Tid};

/// As many threads are followed at once.
const THREADS: usize = 1 << 16;

/// A wake-up that is over: the thread runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wakeup {
    pub(crate) task: Task,
    pub(crate) cpu: Cpu,
    pub(crate) requested_at: Nanos,
    pub(crate) woken_at: Nanos,
    pub(crate) by_timer: bool,
    pub(crate) ran_at: Nanos,
}

impl Wakeup {
    pub(crate) fn latency(&self) -> Nanos {
        self.ran_at.saturating_sub(self.requested_at)
    }

    pub(crate) fn mechanism(&self) -> Mechanism {
        if self.by_timer { Mechanism::TimerWakeup } else { Mechanism::ThreadWakeup }
    }

    /// The same as an activation of this series.
    pub(crate) fn activation(&self, series: String) -> Activation {
        let (task, due, ran) = (self.task.clone(), self.requested_at, self.ran_at);
        Activation::of_thread(series, self.mechanism(), task, self.cpu, due, ran)
    }
}

/// A thread that waits to run.
#[derive(Clone, Copy, Debug)]
struct Request {
    requested_at: Nanos,
    woken_at: Nanos,
    by_timer: bool,
}

/// Makes wake-ups of the events of all CPUs, in order of time.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: HashMap<Tid, Request>,
    /// Who runs on each CPU.
    running: HashMap<Cpu, Tid>,
    /// The timer whose callback runs on each CPU: when it was due.
    expiring: HashMap<Cpu, Nanos>,
    unseen: u64,
}

impl Requests {
    /// How many threads left a CPU that were to be switched to, and of whose switch there was no event.
    pub(crate) fn unseen(&self) -> u64 {
        self.unseen
    }

    /// Takes the next event; gives the wake-up that it ends. `watches` says whose are asked for.
    pub(crate) fn observe(&mut self, event: &Event, watches: impl Fn(&Task) -> bool) -> Option<Wakeup> {
        match &event.kind {
            EventKind::HrtimerExpireEntry { soft_expires, .. } => {
                self.expiring.insert(event.cpu, *soft_expires);
            }
            EventKind::HrtimerExpireExit { .. } => {
                self.expiring.remove(&event.cpu);
            }
            EventKind::Waking { task } if watches(task) && self.waiting.len() < THREADS => {
                // Who is woken while it runs does not wait for a CPU.
                if self.running.values().any(|running| *running == task.tid) {
                    return None;
                }
                let due = self.expiring.get(&event.cpu).filter(|due| **due <= event.at);
                let (by_timer, woken_at) = (due.is_some(), event.at);
                let request = Request { requested_at: *due.unwrap_or(&woken_at), woken_at, by_timer };
                // A thread that is woken again before it ran was requested by the first.
                self.waiting.entry(task.tid).or_insert(request);
            }
            EventKind::Switch { prev, next, .. } => {
                self.running.insert(event.cpu, next.tid);
                // Of few watched threads nearly always none waits.
                if self.waiting.is_empty() {
                    return None;
                }
                // Nobody knows when it ran. Some kernels leave out the event of a switch from the idle task.
                self.unseen += u64::from(self.waiting.remove(&prev.tid).is_some());
                let Request { requested_at, woken_at, by_timer } = self.waiting.remove(&next.tid)?;
                let (task, cpu, ran_at) = (next.clone(), event.cpu, event.at);
                return Some(Wakeup { task, cpu, requested_at, woken_at, by_timer, ran_at });
            }
            // Whoever waited may have run meanwhile.
            EventKind::Lost { .. } => {
                self.waiting.clear();
                self.running.clear();
                self.expiring.remove(&event.cpu);
            }
            _ => {}
        }
        None
    }
}
