// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which late activations are explained and kept: the worst.
//!
//! Owns the selection. Where events come from is for the caller: it reads them only for what is among the worst.

use std::collections::BTreeMap;

use latebound_model::{Activation, Event, EventKind, Explanation, Nanos, Task, Tid};

use crate::explain::is_real_time;

/// The worst explanations, worst first: jobs by how much longer than their deadline they took, those of real-time threads before others, then all by
/// their length.
#[derive(Clone, Debug)]
pub struct WorstExplanations {
    most: usize,
    kept: Vec<Explanation>,
    deadlines: BTreeMap<Tid, Nanos>,
}

/// What goes first, the greatest before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// A real-time thread missed its deadline: whose deadline it is was said by whoever gave it that class.
    real_time: bool,
    missed_by: Nanos,
    length: Nanos,
}

impl WorstExplanations {
    /// None yet, and never more than `most`.
    pub fn new(most: usize) -> WorstExplanations {
        WorstExplanations { most, kept: Vec::new(), deadlines: BTreeMap::new() }
    }

    /// From now on the jobs of this thread have this deadline.
    pub fn set_deadline(&mut self, tid: Tid, deadline: Nanos) {
        self.deadlines.insert(tid, deadline);
        let mut kept = std::mem::take(&mut self.kept);
        kept.sort_by_key(|kept| std::cmp::Reverse(self.rank_of(kept)));
        self.kept = kept;
    }

    fn rank(&self, task: Option<&Task>, length: Nanos, is_job: bool) -> Rank {
        let deadline = task.and_then(|task| self.deadlines.get(&task.tid)).filter(|_| is_job);
        let missed_by = deadline.map_or(Nanos::ZERO, |deadline| length.saturating_sub(*deadline));
        let real_time = missed_by > Nanos::ZERO && task.is_some_and(is_real_time);
        Rank { real_time, missed_by, length }
    }

    fn rank_of(&self, kept: &Explanation) -> Rank {
        self.rank(Some(&kept.task), kept.length(), kept.ended_at.is_some())
    }

    /// Whether an explanation of this activation would be kept: it is asked before events are read, which takes time.
    pub fn wants(&self, late: &Activation) -> bool {
        let rank = self.rank(late.runner.as_ref(), late.length(), late.ended_at.is_some());
        let full = self.kept.len() >= self.most;
        self.most > 0 && !(full && self.kept.last().is_some_and(|lowest| self.rank_of(lowest) >= rank))
    }

    /// Forgets the wake-ups of a thread: from now on its jobs are explained, which hold them.
    pub fn forget_wakeups(&mut self, tid: Tid) {
        self.kept.retain(|kept| kept.task.tid != tid || kept.ended_at.is_some());
    }

    /// A thread has ended: its deadline is known for as long as something of it is kept.
    pub fn forget_thread(&mut self, tid: Tid) {
        if !self.kept.iter().any(|kept| kept.task.tid == tid) {
            self.deadlines.remove(&tid);
        }
    }

    /// Keeps an explanation where it is among the worst.
    pub fn take(&mut self, explanation: Explanation) {
        let rank = self.rank_of(&explanation);
        let place = self.kept.partition_point(|kept| self.rank_of(kept) >= rank);
        self.kept.insert(place, explanation);
        self.kept.truncate(self.most);
    }

    /// Takes the worst so far away. What comes later is compared with each other alone.
    pub fn take_all(&mut self) -> Vec<Explanation> {
        std::mem::take(&mut self.kept)
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
    use latebound_model::{Cpu, Mechanism, Policy};

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
            if worst.wants(&late(1_000, latency)) {
                worst.take(explain(&late(1_000, latency), &[], &KernelFacts::default()));
            }
        }
        let kept: Vec<u64> = worst.kept().iter().map(|one| one.latency().0).collect();
        assert_eq!(kept, [40, 30]);
        assert!(!worst.wants(&late(7, 30)) && worst.wants(&late(7, 31)));
        assert!(!WorstExplanations::new(0).wants(&late(7, 31)));
    }

    #[test]
    fn a_job_that_missed_its_deadline_goes_before_longer_ones() {
        let job = |tid: i32, length: u64| {
            let task = Task { tid: Tid(tid), ..Task::default() };
            let of = |at| Nanos(1_000 + at);
            let late = Activation::of_thread("s".into(), Mechanism::TimerWakeup, task, Cpu(0), of(0), of(1));
            Activation { ended_at: Some(of(length)), ..late }
        };
        let mut worst = WorstExplanations::new(3);
        worst.take(explain(&late(1_000, 90), &[], &KernelFacts::default()));
        for (tid, length) in [(1, 80), (2, 30), (2, 20)] {
            worst.take(explain(&job(tid, length), &[], &KernelFacts::default()));
        }
        let kept = |worst: &WorstExplanations| -> Vec<u64> {
            worst.kept().iter().map(|one| one.length().0).collect()
        };
        assert_eq!(kept(&worst), [90, 80, 30]);
        worst.set_deadline(Tid(2), Nanos(10));
        worst.set_deadline(Tid(1), Nanos(100));
        assert_eq!(kept(&worst), [30, 90, 80]);
        assert!(worst.wants(&job(2, 15)) && !worst.wants(&job(2, 9)) && !worst.wants(&job(1, 80)));
        // Its jobs hold the wake-ups of a thread.
        worst.forget_wakeups(Tid(7));
        assert_eq!(kept(&worst), [30, 80]);
    }

    #[test]
    fn of_jobs_that_missed_deadlines_real_time_threads_go_first() {
        let job = |tid: i32, policy, length: u64| {
            let prio = if policy == Policy::Fifo { 19 } else { 120 };
            let task = Task { tid: Tid(tid), policy: Some(policy), prio: Some(prio), ..Task::default() };
            let of = |at| Nanos(1_000 + at);
            let late = Activation::of_thread("s".into(), Mechanism::TimerWakeup, task, Cpu(0), of(0), of(1));
            Activation { ended_at: Some(of(length)), ..late }
        };
        let mut worst = WorstExplanations::new(4);
        worst.set_deadline(Tid(1), Nanos(10));
        worst.set_deadline(Tid(2), Nanos(10));
        for (tid, policy, length) in
            [(1, Policy::Other, 90), (2, Policy::Fifo, 9), (2, Policy::Fifo, 20), (1, Policy::Other, 5)]
        {
            worst.take(explain(&job(tid, policy, length), &[], &KernelFacts::default()));
        }
        let kept: Vec<u64> = worst.kept().iter().map(|one| one.length().0).collect();
        assert_eq!(kept, [20, 90, 9, 5]);
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
