// SPDX-License-Identifier: MIT OR Apache-2.0
//! R_k of one kernel thread as numbers: how many wait at each priority. Owns the constant-time upkeep; every change
//! and every question costs the same, however many wait.

use latebound_model::{Dependency, Priority};

/// A multiset of priorities: a count per level, a bit per level that is not empty, the number and the sum.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Levels {
    count: [u32; 100],
    occupied: u128,
    number: u64,
    sum: u64,
}

impl Default for Levels {
    fn default() -> Levels {
        Levels { count: [0; 100], occupied: 0, number: 0, sum: 0 }
    }
}

impl Levels {
    fn add(&mut self, priority: Priority) {
        let level = usize::from(priority.get());
        self.count[level] += 1;
        self.occupied |= 1 << level;
        self.number += 1;
        self.sum += u64::from(priority.get());
    }

    fn remove(&mut self, priority: Priority) -> bool {
        let level = usize::from(priority.get());
        let Some(left) = self.count[level].checked_sub(1) else { return false };
        self.count[level] = left;
        if left == 0 {
            self.occupied &= !(1 << level);
        }
        self.number -= 1;
        self.sum -= u64::from(priority.get());
        true
    }

    fn maximum(&self) -> Option<Priority> {
        // Levels 1 to 99 of 128 bits: bit 0 is never set.
        Priority::new(127_u8.saturating_sub(self.occupied.leading_zeros() as u8))
    }
}

/// The real-time tasks that wait for one kernel thread, with multiplicity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiters {
    all: Levels,
    hard: Levels,
}

impl Waiters {
    /// One more that waits. Constant time.
    pub fn add(&mut self, priority: Priority, dependency: Dependency) {
        self.all.add(priority);
        if dependency == Dependency::Hard {
            self.hard.add(priority);
        }
    }

    /// One less. Constant time. Returns whether there was one: a caller that removes what it never added is wrong.
    pub fn remove(&mut self, priority: Priority, dependency: Dependency) -> bool {
        if dependency == Dependency::Hard && !self.hard.remove(priority) {
            return false;
        }
        self.all.remove(priority)
    }

    /// |R_k|, with multiplicity.
    pub fn number(&self) -> u64 {
        self.all.number
    }

    /// The sum of their priorities.
    pub fn sum(&self) -> u64 {
        self.all.sum
    }

    /// The highest priority of those that wait. Constant time: one count of leading zeros.
    pub fn maximum(&self) -> Option<Priority> {
        self.all.maximum()
    }

    /// The highest of them that is not one of these others, which wait too. Constant time: at most a step for each level.
    pub fn maximum_besides(&self, others: &Waiters) -> Option<Priority> {
        let is_left = |&level: &u8| {
            let level = usize::from(level);
            self.all.count[level] > others.all.count[level]
        };
        let highest = self.maximum()?.get();
        (Priority::MIN.get()..=highest).rev().find(is_left).and_then(Priority::new)
    }

    /// The highest priority of those that cannot go on at all.
    pub fn hard_maximum(&self) -> Option<Priority> {
        self.hard.maximum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_never_added_is_not_removed() {
        let mut waiters = Waiters::default();
        assert!(!waiters.remove(Priority::MIN, Dependency::Soft));
        waiters.add(Priority::MIN, Dependency::Soft);
        assert!(!waiters.remove(Priority::MIN, Dependency::Hard));
        assert_eq!((waiters.number(), waiters.maximum()), (1, Some(Priority::MIN)));
        assert!(waiters.remove(Priority::MIN, Dependency::Soft));
        assert_eq!(waiters, Waiters::default());
    }

    proptest! {
        #[test]
        fn upkeep_gives_what_counting_again_gives(changes in prop::collection::vec((1_u8..=99, any::<bool>(), 0_u8..3), 0..300)) {
            let mut waiters = Waiters::default();
            let mut list: Vec<(Priority, Dependency)> = Vec::new();
            for (number, hard, action) in changes {
                let priority = Priority::new(number).unwrap();
                let dependency = if hard { Dependency::Hard } else { Dependency::Soft };
                if action == 0 {
                    let place = list.iter().position(|&one| one == (priority, dependency));
                    // Taking a soft one away is also possible where only a hard one of that level is there: not asked.
                    if let Some(place) = place {
                        list.swap_remove(place);
                        prop_assert!(waiters.remove(priority, dependency));
                    }
                } else {
                    list.push((priority, dependency));
                    waiters.add(priority, dependency);
                }
                prop_assert_eq!(waiters.number(), list.len() as u64);
                prop_assert_eq!(waiters.sum(), list.iter().map(|one| u64::from(one.0.get())).sum::<u64>());
                prop_assert_eq!(waiters.maximum(), list.iter().map(|one| one.0).max());
                let hard = list.iter().filter(|one| one.1 == Dependency::Hard).map(|one| one.0).max();
                prop_assert_eq!(waiters.hard_maximum(), hard);
            }
        }
    }
}
