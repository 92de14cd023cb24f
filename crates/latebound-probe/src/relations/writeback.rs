// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks that may make no page dirty before others are written (`writeback.bpf.c`). Owns whether they are seen on the running kernel, and the end
//! of such a wait, which has none to see.

use std::collections::BTreeMap;

use latebound_model::{Missing, MissingKind, Nanos, Tid};
use latebound_model::{Object, WaitEvent};

use crate::kernel::KernelBtf;

/// The program that sees tasks that may make no page dirty before others are written.
pub(super) const HELD_BACK: &str = "relation_held_back";

/// How many arguments its trace point has; why it cannot be read, where it is neither of those that the program knows.
pub(super) fn held_back(kernel: &KernelBtf) -> Result<u32, String> {
    match kernel.tracepoint_arguments("balance_dirty_pages") {
        Some(number @ (8 | 12)) => Ok(number),
        Some(number) => Err(format!("this kernel's balance_dirty_pages has {number} arguments, not 8 or 12")),
        None => Err("this kernel does not say which arguments balance_dirty_pages has".to_owned()),
    }
}

/// What follows where such tasks cannot be seen.
pub(super) fn missing(why: String) -> Missing {
    Missing {
        kind: MissingKind::Relations,
        what: "tasks that may make no page dirty before others are written: they wait for nobody, unless they made pages dirty before"
            .to_owned(),
        why,
        remedy: "boot a kernel on which this was tried: 6.12 or 6.18".to_owned(),
    }
}

/// How long a jiffy is: the coarse clock goes on with each (kernel/time/posix-timers.c, posix_get_coarse_res, 6.12).
pub(super) fn jiffy_us() -> u32 {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    u32::try_from(resolution.tv_nsec / 1000).unwrap_or(0)
}

/// Tasks that are blocked for a time, and will be again if nothing has changed.
#[derive(Debug)]
pub(super) struct HeldBack {
    until: BTreeMap<(Object, Tid), Nanos>,
    /// Such a wait is over so long after the last such time.
    hold: Nanos,
}

impl HeldBack {
    pub(super) fn new(hold: Nanos) -> HeldBack {
        HeldBack { until: BTreeMap::new(), hold }
    }

    /// Takes in what was reported, and how long it lasts.
    pub(super) fn begun(&mut self, observation: WaitEvent, lasts: Nanos) {
        match observation {
            WaitEvent::Begin { at, object, task, .. } if lasts > Nanos::ZERO => {
                self.until.insert((object, task), at + lasts);
            }
            WaitEvent::Left { object, task, .. } => {
                self.until.remove(&(object, task));
            }
            WaitEvent::Done { object, .. } => self.until.retain(|key, _| key.0 != object),
            _ => {}
        }
    }

    /// Those that are blocked no more.
    pub(super) fn over(&mut self, now: Nanos) -> Vec<WaitEvent> {
        let mut over = Vec::new();
        let hold = self.hold;
        self.until.retain(|&(object, task), &mut until| {
            let blocked = now < until + hold;
            if !blocked {
                over.push(WaitEvent::GoesOn { at: until, object, task });
            }
            blocked
        });
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::{Dependency, Priority, RelationKind};

    const OBJECT: Object = Object { kind: RelationKind::WorkItem, of: 0, id: 7 };
    const TASK: Tid = Tid(20);
    const HOLD: Nanos = Nanos::from_millis(10);

    fn blocked(at_ms: u64) -> WaitEvent {
        let (priority, dependency) = (Priority::MAX, Dependency::Hard);
        WaitEvent::Begin {
            at: Nanos::from_millis(at_ms),
            object: OBJECT,
            task: TASK,
            priority,
            thread: None,
            dependency,
        }
    }

    #[test]
    fn a_blocked_task_goes_on_one_hold_after_its_last_blocked_time() {
        let mut held_back = HeldBack::new(HOLD);
        held_back.begun(blocked(0), Nanos::from_millis(200));
        held_back.begun(blocked(201), Nanos::from_millis(100));
        assert_eq!(held_back.over(Nanos::from_millis(310)), []);
        let goes_on = WaitEvent::GoesOn { at: Nanos::from_millis(301), object: OBJECT, task: TASK };
        assert_eq!(held_back.over(Nanos::from_millis(311)), [goes_on]);
        assert_eq!(held_back.over(Nanos::from_millis(900)), []);
    }

    #[test]
    fn what_has_an_end_to_see_ends_with_that() {
        let mut held_back = HeldBack::new(HOLD);
        held_back.begun(blocked(0), Nanos::ZERO);
        assert_eq!(held_back.over(Nanos::from_secs(9)), []);
        held_back.begun(blocked(0), Nanos::from_millis(200));
        held_back.begun(
            WaitEvent::Done {
                at: Nanos::from_millis(1),
                object: OBJECT,
                by: latebound_model::Completer::Softirq,
            },
            Nanos::ZERO,
        );
        assert_eq!(held_back.over(Nanos::from_secs(9)), []);
    }
}
