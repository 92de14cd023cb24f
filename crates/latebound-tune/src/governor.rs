// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a wanted priority becomes a change: raises at once, lowerings after a while, and never too many. Owns two state
//! machines over given time; knows no relation, no rule and no clock.

use std::collections::BTreeMap;

use latebound_model::{Nanos, Tid};

use latebound_model::Scheduling;

/// How fast priorities may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// A thread is lowered only after less was wanted for this long without a break: who waits again at once finds it as
    /// it was.
    pub hold: Nanos,
    /// Changes per second, of all threads together, in the long run.
    pub per_second: u32,
    /// Changes that may come at once.
    pub burst: u32,
}

/// A limit on how often something may happen: the generic cell rate algorithm (ITU-T I.371, annex A), which keeps one time
/// instead of a bucket that drips.
#[derive(Clone, Copy, Debug)]
struct Rate {
    interval: Nanos,
    burst: u32,
    earliest_in_theory: Nanos,
}

impl Rate {
    fn new(pace: Pace) -> Rate {
        Rate {
            interval: Nanos(1_000_000_000 / u64::from(pace.per_second.max(1))),
            burst: pace.burst.max(1),
            earliest_in_theory: Nanos::ZERO,
        }
    }

    /// When the next one may happen.
    fn next(&self) -> Nanos {
        self.earliest_in_theory.saturating_sub(Nanos(self.interval.0 * u64::from(self.burst - 1)))
    }

    fn take(&mut self, now: Nanos) -> bool {
        let allowed = self.next() <= now;
        if allowed {
            self.earliest_in_theory = self.earliest_in_theory.max(now) + self.interval;
        }
        allowed
    }
}

#[derive(Clone, Copy, Debug)]
struct State {
    current: Scheduling,
    wanted: Scheduling,
    /// When a lower one that is wanted may be set.
    lower_at: Option<Nanos>,
}

impl State {
    fn is_raise(&self) -> bool {
        self.lower_at.is_none()
    }
}

/// One change that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The thread.
    pub thread: Tid,
    /// What it is.
    pub from: Scheduling,
    /// What it should be.
    pub to: Scheduling,
}

/// The threads that are governed, with what they are and what they should be.
#[derive(Clone, Debug)]
pub struct Governor {
    pace: Pace,
    rate: Rate,
    threads: BTreeMap<Tid, State>,
    /// Threads whose wanted scheduling is not the current one.
    pending: BTreeMap<Tid, ()>,
    delayed: u64,
}

impl Governor {
    /// Governs nobody yet.
    pub fn new(pace: Pace) -> Governor {
        Governor {
            pace,
            rate: Rate::new(pace),
            threads: BTreeMap::new(),
            pending: BTreeMap::new(),
            delayed: 0,
        }
    }

    /// Takes a thread in, or says what it really is: a change that failed, or somebody else's.
    pub fn is(&mut self, thread: Tid, current: Scheduling) {
        let wanted = self.threads.get(&thread).map_or(current, |state| state.wanted);
        self.threads.insert(thread, State { current, wanted, lower_at: None });
        self.pending.remove(&thread);
    }

    /// A thread is gone.
    pub fn forget(&mut self, thread: Tid) {
        self.threads.remove(&thread);
        self.pending.remove(&thread);
    }

    /// What a thread is, as far as changes were reported.
    pub fn current(&self, thread: Tid) -> Option<Scheduling> {
        self.threads.get(&thread).map(|state| state.current)
    }

    /// What a thread should be from now on. Constant time, but for the list of those that are to be changed.
    pub fn want(&mut self, thread: Tid, wanted: Scheduling, now: Nanos) {
        let Some(state) = self.threads.get_mut(&thread) else { return };
        state.wanted = wanted;
        if wanted == state.current {
            state.lower_at = None;
            self.pending.remove(&thread);
            return;
        }
        state.lower_at = match wanted.rank() < state.current.rank() {
            true => Some(state.lower_at.unwrap_or(now + self.pace.hold)),
            false => None,
        };
        self.pending.insert(thread, ());
    }

    /// What is to be changed now: raises before lowerings, the highest first. They count as done; where one fails, say
    /// so by [`Governor::is`].
    pub fn due(&mut self, now: Nanos) -> Vec<Due> {
        let mut ready: Vec<(Tid, State)> =
            self.pending.keys().map(|&tid| (tid, self.threads[&tid])).collect();
        ready.retain(|(_, state)| state.lower_at.is_none_or(|at| at <= now));
        ready.sort_by_key(|(tid, state)| (!state.is_raise(), std::cmp::Reverse(state.wanted.rank()), *tid));
        let mut due = Vec::new();
        for (thread, state) in ready {
            if !self.rate.take(now) {
                self.delayed += 1;
                continue;
            }
            due.push(Due { thread, from: state.current, to: state.wanted });
            self.threads.insert(thread, State { current: state.wanted, lower_at: None, ..state });
            self.pending.remove(&thread);
        }
        due
    }

    /// When [`Governor::due`] will next have something to give.
    pub fn next(&self) -> Option<Nanos> {
        let first = self.pending.keys().map(|tid| self.threads[tid].lower_at.unwrap_or(Nanos::ZERO)).min()?;
        Some(first.max(self.rate.next()))
    }

    /// How often a change that was due had to wait for the rate limit.
    pub fn delayed(&self) -> u64 {
        self.delayed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::Priority;
    use proptest::prelude::*;

    const PACE: Pace = Pace { hold: Nanos::from_millis(10), per_second: 100, burst: 2 };
    const K: Tid = Tid(10);

    fn fifo(priority: u8) -> Scheduling {
        Scheduling::fifo(Priority::new(priority).unwrap())
    }

    fn governor() -> Governor {
        let mut governor = Governor::new(PACE);
        governor.is(K, Scheduling::other(0));
        governor
    }

    fn ms(number: u64) -> Nanos {
        Nanos::from_millis(number)
    }

    #[test]
    fn a_raise_is_due_at_once_and_a_lowering_after_the_hold() {
        let mut governor = governor();
        governor.want(K, fifo(50), ms(1));
        assert_eq!(governor.due(ms(1)), [Due { thread: K, from: Scheduling::other(0), to: fifo(50) }]);
        governor.want(K, Scheduling::other(0), ms(2));
        assert_eq!((governor.due(ms(11)), governor.next()), (vec![], Some(ms(12))));
        assert_eq!(governor.due(ms(12)).len(), 1);
        assert_eq!((governor.next(), governor.current(K)), (None, Some(Scheduling::other(0))));
    }

    #[test]
    fn who_waits_again_within_the_hold_finds_the_thread_as_it_was() {
        let mut governor = governor();
        governor.want(K, fifo(50), ms(0));
        governor.due(ms(0));
        for round in 0..20 {
            governor.want(K, Scheduling::other(0), ms(round * 9));
            assert_eq!(governor.due(ms(round * 9 + 8)), []);
            governor.want(K, fifo(50), ms(round * 9 + 8));
            assert_eq!(governor.due(ms(round * 9 + 8)), []);
        }
        assert_eq!(governor.next(), None);
    }

    #[test]
    fn more_changes_than_allowed_wait_and_the_highest_goes_first() {
        let mut governor = Governor::new(PACE);
        for tid in 1..=4 {
            governor.is(Tid(tid), Scheduling::other(0));
            governor.want(Tid(tid), fifo(tid as u8 * 10), ms(100));
        }
        let due = |governor: &mut Governor, at| -> Vec<i32> {
            governor.due(ms(at)).iter().map(|one| one.thread.0).collect()
        };
        assert_eq!(due(&mut governor, 100), [4, 3]);
        assert_eq!((governor.next(), governor.delayed()), (Some(ms(110)), 2));
        assert_eq!(due(&mut governor, 109), [] as [i32; 0]);
        assert_eq!(due(&mut governor, 110), [2]);
        assert_eq!(due(&mut governor, 120), [1]);
        assert_eq!(governor.next(), None);
    }

    #[test]
    fn a_change_that_failed_is_not_tried_again_by_itself() {
        let mut governor = governor();
        governor.want(K, fifo(50), ms(0));
        governor.due(ms(0));
        governor.is(K, Scheduling::other(0));
        assert_eq!(governor.next(), None);
        governor.want(K, fifo(51), ms(1));
        assert_eq!(governor.due(ms(1)).len(), 1);
    }

    proptest! {
        #[test]
        fn no_second_sees_more_changes_than_allowed_and_no_lowering_comes_early(
            wants in prop::collection::vec((0_i32..4, 0_u8..6, 0_u64..4), 1..300)
        ) {
            let mut governor = Governor::new(PACE);
            let mut below_since = [None::<u64>; 4];
            let mut wanted = [0_u8; 4];
            let mut times: Vec<u64> = Vec::new();
            for tid in 0..4 {
                governor.is(Tid(tid), Scheduling::other(0));
            }
            let mut now = 0;
            for (tid, level, gap) in wants {
                now += gap;
                let place = tid as usize;
                wanted[place] = level;
                let target = Priority::new(level).map_or(Scheduling::other(0), Scheduling::fifo);
                let current = governor.current(Tid(tid)).unwrap().rank();
                below_since[place] =
                    if level < current { below_since[place].or(Some(now)) } else { None };
                governor.want(Tid(tid), target, ms(now));
                for due in governor.due(ms(now)) {
                    let place = due.thread.0 as usize;
                    prop_assert_eq!(due.to.rank(), wanted[place]);
                    if due.to.rank() < due.from.rank() {
                        prop_assert!(now - below_since[place].unwrap() >= 10);
                    }
                    below_since[place] = None;
                    times.push(now);
                }
            }
            // Any window of 1 s: 100 in the long run and 2 at once.
            for (first, &start) in times.iter().enumerate() {
                let within = times[first..].iter().take_while(|&&at| at < start + 1_000).count();
                prop_assert!(within <= 102, "{within}");
            }
        }
    }
}
