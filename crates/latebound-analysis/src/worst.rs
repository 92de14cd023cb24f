// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which late activations are explained and kept: the worst.
//!
//! Owns the selection. Where events come from is for the caller: it reads them only for what is among the worst.

use latebound_model::{Activation, Event, EventKind, Explanation, Nanos, Tid};

/// The worst explanations, worst first.
#[derive(Clone, Debug)]
pub struct WorstExplanations {
    most: usize,
    kept: Vec<Explanation>,
}

impl WorstExplanations {
    /// None yet, and never more than `most`.
    pub fn new(most: usize) -> WorstExplanations {
        WorstExplanations { most, kept: Vec::new() }
    }

    /// Whether an explanation of this length would be kept: it is asked before events are read, which takes time.
    pub fn wants(&self, length: Nanos) -> bool {
        let full = self.kept.len() >= self.most;
        self.most > 0 && !(full && self.kept.last().is_some_and(|lowest| lowest.length() >= length))
    }

    /// Forgets the wake-ups of a thread: from now on its jobs are explained, which hold them.
    pub fn forget_wakeups(&mut self, tid: Tid) {
        self.kept.retain(|kept| kept.task.tid != tid || kept.ended_at.is_some());
    }

    /// Keeps an explanation where it is among the worst.
    pub fn take(&mut self, explanation: Explanation) {
        let length = explanation.length();
        let place = self.kept.partition_point(|kept| kept.length() >= length);
        self.kept.insert(place, explanation);
        self.kept.truncate(self.most);
    }

    /// The worst so far.
    pub fn kept(&self) -> &[Explanation] {
        &self.kept
    }
}

/// Whether the wake-up of a late activation is among these events of the CPU on which it started. Where it is not, the events of
/// all CPUs are needed: its timer was on another one (timer migration), or it was woken for another queue first.
pub fn shows_wakeup(late: &Activation, events: &[Event]) -> bool {
    events.iter().any(|event| match &event.kind {
        EventKind::Waking { task } => task.tid == late.runner_tid() && event.at >= late.requested_at,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use latebound_model::{Cpu, Mechanism, Task};

    use super::*;
    use crate::{KernelFacts, explain};

    fn late(at: u64, latency: u64) -> Activation {
        let task = Task { tid: Tid(7), ..Task::default() };
        let (at, latency) = (Nanos(at), Nanos(latency));
        Activation::of_thread("s".into(), Mechanism::TimerWakeup, task, Cpu(0), at, at + latency)
    }

    #[test]
    fn explanations_are_wanted_only_where_they_would_be_kept() {
        let mut worst = WorstExplanations::new(2);
        for latency in [30, 10, 40, 30] {
            if worst.wants(Nanos(latency)) {
                worst.take(explain(&late(1_000, latency), &[], &KernelFacts::default()));
            }
        }
        let kept: Vec<u64> = worst.kept().iter().map(|one| one.latency().0).collect();
        assert_eq!(kept, [40, 30]);
        assert!(!worst.wants(Nanos(30)) && worst.wants(Nanos(31)));
        assert!(!WorstExplanations::new(0).wants(Nanos(31)));
    }

    #[test]
    fn a_wakeup_is_shown_by_its_own_waking_after_the_request() {
        let waking = |tid, at| {
            let task = Task { tid: Tid(tid), ..Task::default() };
            Event::new(Nanos(at), Cpu(0), EventKind::Waking { task })
        };
        let late = late(1_000, 50);
        assert!(shows_wakeup(&late, &[waking(7, 1_010)]));
        assert!(!shows_wakeup(&late, &[waking(7, 990), waking(8, 1_010)]));
    }
}
