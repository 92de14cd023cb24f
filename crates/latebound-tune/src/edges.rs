// SPDX-License-Identifier: MIT OR Apache-2.0
//! What no trace point says, learned from wake-ups: a kernel thread that wakes a task often and of late is one that the
//! task waits for. Owns the scores and their decay; time is given.

use std::collections::BTreeMap;

use latebound_model::{Nanos, Tid};

/// When an edge counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EdgeRule {
    /// A wake-up counts half after this time.
    pub half_life: Nanos,
    /// An edge counts as a relation from this score on; one fresh wake-up scores 1.
    pub threshold: f64,
}

/// Scores of (kernel thread, task).
#[derive(Clone, Debug)]
pub struct Edges {
    rule: EdgeRule,
    capacity: usize,
    lost: u64,
    scores: BTreeMap<(Tid, Tid), (f64, Nanos)>,
}

impl Edges {
    /// None yet; at most `capacity` are kept, more are counted as lost.
    pub fn new(rule: EdgeRule, capacity: usize) -> Edges {
        Edges { rule, capacity, lost: 0, scores: BTreeMap::new() }
    }

    /// `thread` woke `task` so often since the last report. Returns until when the edge counts as a
    /// relation, if it does now.
    pub fn woke(&mut self, thread: Tid, task: Tid, times: u64, now: Nanos) -> Option<Nanos> {
        if self.scores.len() >= self.capacity && !self.scores.contains_key(&(thread, task)) {
            self.forget_faded(now);
            if self.scores.len() >= self.capacity {
                self.lost += times;
                return None;
            }
        }
        let (score, at) = self.scores.entry((thread, task)).or_insert((0.0, now));
        // Reports from two CPUs may come out of order: what is older counts as of now.
        *score = decayed(*score, now.saturating_sub(*at), self.rule.half_life) + times as f64;
        *at = now;
        counts_until(*score, now, self.rule)
    }

    /// The score of an edge now.
    pub fn score(&self, thread: Tid, task: Tid, now: Nanos) -> f64 {
        let known = self.scores.get(&(thread, task));
        known.map_or(0.0, |&(score, at)| decayed(score, now.saturating_sub(at), self.rule.half_life))
    }

    /// The edges that count now, with their scores.
    pub fn counting(&self, now: Nanos) -> impl Iterator<Item = (Tid, Tid, f64)> + '_ {
        self.scores
            .keys()
            .map(move |&(thread, task)| (thread, task, self.score(thread, task, now)))
            .filter(|one| one.2 >= self.rule.threshold)
    }

    /// A thread or task is gone.
    pub fn forget(&mut self, tid: Tid) {
        self.scores.retain(|&(thread, task), _| thread != tid && task != tid);
    }

    /// How many wake-ups there was no room to count.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn forget_faded(&mut self, now: Nanos) {
        let rule = self.rule;
        self.scores.retain(|_, &mut (score, at)| {
            decayed(score, now.saturating_sub(at), rule.half_life) >= rule.threshold / 2.0
        });
    }
}

/// Exponential decay: half after each half-life.
fn decayed(score: f64, age: Nanos, half_life: Nanos) -> f64 {
    score * (-(age.0 as f64) / half_life.0.max(1) as f64).exp2()
}

/// `score * 2^(-t / half_life) = threshold`, solved for t.
fn counts_until(score: f64, now: Nanos, rule: EdgeRule) -> Option<Nanos> {
    (score >= rule.threshold).then(|| {
        let half_lives = (score / rule.threshold).log2();
        now + Nanos((half_lives * rule.half_life.0 as f64) as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULE: EdgeRule = EdgeRule { half_life: Nanos::from_secs(1), threshold: 3.0 };
    const K: Tid = Tid(10);
    const T: Tid = Tid(20);

    #[test]
    fn an_edge_counts_from_the_threshold_and_fades_at_the_time_foretold() {
        let mut edges = Edges::new(RULE, 10);
        let now = Nanos::from_secs(5);
        assert_eq!(edges.woke(K, T, 2, now), None);
        // 2 + 4 = 6: one half-life above 3.
        let until = edges.woke(K, T, 4, now).unwrap();
        assert_eq!(until, now + RULE.half_life);
        assert_eq!(edges.counting(until).count(), 1);
        assert_eq!(edges.counting(until + Nanos::from_micros(1)).count(), 0);
    }

    #[test]
    fn rare_wakeups_never_make_a_relation() {
        let mut edges = Edges::new(RULE, 10);
        for second in 0..100 {
            assert_eq!(edges.woke(K, T, 1, Nanos::from_secs(second)), None);
        }
        // 1 + 1/2 + 1/4 + …
        assert!((edges.score(K, T, Nanos::from_secs(99)) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn faded_edges_make_room_and_what_finds_none_is_counted() {
        let mut edges = Edges::new(RULE, 2);
        edges.woke(K, Tid(1), 10, Nanos::ZERO);
        edges.woke(K, Tid(2), 10, Nanos::ZERO);
        edges.woke(K, Tid(3), 7, Nanos::ZERO);
        assert_eq!(edges.lost(), 7);
        edges.woke(K, Tid(3), 7, Nanos::from_secs(10));
        assert_eq!((edges.lost(), edges.counting(Nanos::from_secs(10)).count()), (7, 1));
    }

    proptest! {
        #[test]
        fn the_running_score_is_the_sum_of_decayed_wakeups(gaps in prop::collection::vec(0_u64..2_000_000_000, 1..50)) {
            let mut edges = Edges::new(RULE, 10);
            let mut times = Vec::new();
            let mut now = Nanos::ZERO;
            for gap in gaps {
                now += Nanos(gap);
                times.push(now);
                edges.woke(K, T, 1, now);
            }
            let sum: f64 = times.iter().map(|&at| decayed(1.0, now.saturating_sub(at), RULE.half_life)).sum();
            prop_assert!((edges.score(K, T, now) - sum).abs() < 1e-6);
        }
    }
}
