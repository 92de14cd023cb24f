// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether each event of a CPU goes on from where the events before it left the CPU.
//!
//! Every record says which thread was current and whether interrupts were masked. Where that is not what the events before
//! it led to, events in between are missing, though nobody counted them. Owns that comparison; keeps no event, and never
//! says how many are missing, which nothing shows.

use latebound_model::Nanos;

/// What does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Another thread is current than the one that the CPU turned to last.
    Thread,
    /// Interrupts are masked where they were not, or the other way round.
    Interrupts,
}

/// How often, and where first.
#[derive(Clone, Copy, Debug, Default)]
struct Occurrences {
    count: u64,
    first: Nanos,
}

/// The thread that a CPU runs, by its switches.
#[derive(Debug, Default)]
pub(crate) struct Continuity {
    current: Option<i32>,
    /// The thread that is switched from, as long as no event of the next one has come: the event of a switch comes before
    /// the switch (`__schedule()`, kernel/sched/core.c, 5.15 to 6.18), so an NMI between the two is still of that thread.
    leaving: Option<i32>,
    threads: Occurrences,
    interrupts: Occurrences,
}

impl Continuity {
    /// Looks at the next event: its time and thread, and, where both are known, whether interrupts are masked by the events
    /// before it and by its own word.
    #[inline]
    pub(crate) fn look(&mut self, at: Nanos, tid: i32, masked: Option<(bool, bool)>) -> Option<Gap> {
        if self.current != Some(tid) {
            if let Some(gap) = self.change(at, tid) {
                return Some(gap);
            }
        } else {
            self.leaving = None;
        }
        match masked {
            Some((expected, said)) if expected != said => Some(self.note(Gap::Interrupts, at)),
            _ => None,
        }
    }

    #[cold]
    fn change(&mut self, at: Nanos, tid: i32) -> Option<Gap> {
        if self.leaving == Some(tid) {
            return None;
        }
        let known = self.current.replace(tid).is_some();
        self.leaving = None;
        known.then(|| self.note(Gap::Thread, at))
    }

    #[cold]
    fn note(&mut self, gap: Gap, at: Nanos) -> Gap {
        let found = match gap {
            Gap::Thread => &mut self.threads,
            Gap::Interrupts => &mut self.interrupts,
        };
        if found.count == 0 {
            found.first = at;
        }
        found.count += 1;
        gap
    }

    /// Notes that the CPU turns to another thread.
    pub(crate) fn switched(&mut self, prev: i32, next: i32) {
        (self.leaving, self.current) = (Some(prev), Some(next));
    }

    /// Notes that events were lost, so that any thread may run.
    pub(crate) fn forget(&mut self) {
        (self.current, self.leaving) = (None, None);
    }

    /// What was found, one sentence each, without the CPU.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        [
            (self.threads, "whose thread is not the one that the CPU turned to last"),
            (self.interrupts, "that say otherwise than the events before whether interrupts are masked"),
        ]
        .into_iter()
        .filter(|(found, _)| found.count > 0)
        .map(|(found, what)| {
            let Nanos(at) = found.first;
            let (seconds, nanos) = (at / 1_000_000_000, at % 1_000_000_000);
            format!(
                "{} events {what}: others are missing before them, first at {seconds}.{nanos:09}",
                found.count
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_another_thread_than_the_one_switched_to_is_a_gap() {
        let mut cpu = Continuity::default();
        assert_eq!(cpu.look(Nanos(1), 7, None), None, "nothing is known yet");
        assert_eq!(cpu.look(Nanos(2), 7, None), None);
        cpu.switched(7, 8);
        assert_eq!(cpu.look(Nanos(3), 7, None), None, "an NMI on the way to the switch itself");
        assert_eq!(cpu.look(Nanos(4), 8, None), None);
        assert_eq!(cpu.look(Nanos(5), 7, None), Some(Gap::Thread), "8 runs, and nothing turned the CPU back");
        assert_eq!(cpu.look(Nanos(6), 7, None), None, "told once");
        cpu.switched(7, 9);
        assert_eq!(cpu.look(Nanos(7), 3, None), Some(Gap::Thread));
        cpu.forget();
        assert_eq!(cpu.look(Nanos(8), 4, None), None);
        let problems: Vec<String> = cpu.problems().collect();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("2 events") && problems[0].ends_with("0.000000005"), "{problems:?}");
    }

    #[test]
    fn an_event_that_contradicts_the_state_of_interrupts_is_a_gap() {
        let mut cpu = Continuity::default();
        assert_eq!(cpu.look(Nanos(1), 7, Some((true, true))), None);
        assert_eq!(cpu.look(Nanos(2), 7, Some((true, false))), Some(Gap::Interrupts));
        assert_eq!(cpu.look(Nanos(3), 7, Some((false, true))), Some(Gap::Interrupts));
        assert_eq!(cpu.look(Nanos(4), 7, None), None);
        assert!(cpu.problems().next().unwrap().starts_with("2 events that say otherwise"));
    }
}
