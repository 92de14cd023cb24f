// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which late wake-up or job begins the actions. Counts the others. Knows nothing of what the actions are.

use latebound_model::Nanos;

/// Lets one through, and no other for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gate {
    limit: Nanos,
    rest: Nanos,
    /// What ends before this does nothing.
    next: Nanos,
    triggers: u64,
    resting: u64,
}

impl Gate {
    pub(super) fn new(limit: Nanos, rest: Nanos) -> Gate {
        Gate { limit, rest, next: Nanos::ZERO, triggers: 0, resting: 0 }
    }

    /// Whether what took so long and ended then begins the actions: the number of the trigger, from 1. While they are `busy` with
    /// the one before, none does.
    pub(super) fn admit(&mut self, length: Nanos, until: Nanos, busy: bool) -> Option<u64> {
        if length <= self.limit {
            return None;
        }
        if busy || until < self.next {
            self.resting += 1;
            return None;
        }
        self.triggers += 1;
        self.next = Nanos(until.0.saturating_add(self.rest.0));
        Some(self.triggers)
    }

    pub(super) fn limit(&self) -> Nanos {
        self.limit
    }

    pub(super) fn rest(&self) -> Nanos {
        self.rest
    }

    pub(super) fn triggers(&self) -> u64 {
        self.triggers
    }

    pub(super) fn resting(&self) -> u64 {
        self.resting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_above_the_limit_triggers_and_rests_by_the_times_of_the_events() {
        let mut gate = Gate::new(Nanos(10), Nanos(100));
        assert_eq!(gate.admit(Nanos(10), Nanos(1_000), false), None, "not above the limit, and not counted");
        assert_eq!(gate.admit(Nanos(11), Nanos(1_000), false), Some(1));
        assert_eq!(gate.admit(Nanos(50), Nanos(1_099), false), None);
        assert_eq!(gate.admit(Nanos(50), Nanos(1_100), false), Some(2));
        assert_eq!(gate.admit(Nanos(50), Nanos(5_000), true), None, "the actions of the one before go on");
        assert_eq!(gate.admit(Nanos(50), Nanos(5_001), false), Some(3));
        assert_eq!((gate.triggers(), gate.resting()), (3, 2));
    }

    #[test]
    fn without_a_rest_each_late_one_triggers_even_at_the_end_of_time() {
        let mut gate = Gate::new(Nanos::ZERO, Nanos::ZERO);
        assert_eq!((1..=3).filter_map(|at| gate.admit(Nanos(1), Nanos(at), false)).sum::<u64>(), 6);
        let mut gate = Gate::new(Nanos::ZERO, Nanos(u64::MAX));
        assert_eq!(gate.admit(Nanos(1), Nanos(7), false), Some(1));
        assert_eq!(gate.admit(Nanos(1), Nanos(u64::MAX - 1), false), None);
    }
}
