// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the tool's own work off the CPUs of the threads that it watches, where they are bound to some.
//!
//! Owns the choice of the CPUs. A thread that may run anywhere has no CPU to leave, and where all CPUs have a bound thread the tool stays where it is.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use latebound_model::{CpuSet, Tid};
use latebound_syscall::sched;

/// New threads are looked for so often.
const EVERY: Duration = Duration::from_secs(1);

/// Which CPUs the tool stays away from.
#[derive(Debug)]
pub(crate) struct StayAway {
    allowed: CpuSet,
    /// The CPUs of the threads that were seen and are bound.
    theirs: CpuSet,
    known: BTreeSet<Tid>,
    looked_at: Option<Instant>,
}

impl StayAway {
    /// From no CPU yet, of those that this process may use.
    pub(crate) fn new(allowed: &CpuSet) -> StayAway {
        StayAway {
            allowed: allowed.clone(),
            theirs: CpuSet::default(),
            known: BTreeSet::new(),
            looked_at: None,
        }
    }

    /// Leaves the CPUs of watched threads that are new. Call it often: it asks for them once a second.
    pub(crate) fn look(&mut self, watched: impl FnOnce() -> BTreeSet<Tid>) {
        let now = Instant::now();
        if self.looked_at.is_some_and(|at| now.duration_since(at) < EVERY) {
            return;
        }
        self.looked_at = Some(now);
        let watched = watched();
        self.known.retain(|tid| watched.contains(tid));
        for tid in watched {
            if self.known.insert(tid)
                // It may have ended.
                && let Ok(theirs) = sched::affinity_of(tid)
                && let Some(free) = self.free_beside(&theirs)
            {
                // Without it the tool works on where it is, beside them, at a priority below those of real-time threads.
                let _ = sched::set_affinity(&free);
            }
        }
    }

    /// The CPUs for the tool, where a thread with these makes a difference.
    fn free_beside(&mut self, theirs: &CpuSet) -> Option<CpuSet> {
        let is_bound = self.allowed.iter().any(|cpu| !theirs.contains(cpu));
        let is_new = self.allowed.iter().any(|cpu| theirs.contains(cpu) && !self.theirs.contains(cpu));
        if !is_bound || !is_new {
            return None;
        }
        let all = CpuSet::new(self.theirs.iter().chain(theirs.iter()));
        let free = CpuSet::new(self.allowed.iter().filter(|cpu| !all.contains(*cpu)));
        if free.is_empty() {
            return None;
        }
        self.theirs = all;
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn the_tool_leaves_the_cpus_of_bound_threads_as_long_as_one_is_left() {
        let mut away = StayAway::new(&set("0-3"));
        assert_eq!(away.free_beside(&set("0-3")), None, "it may run anywhere");
        assert_eq!(away.free_beside(&set("0-7")), None, "it may run anywhere, and elsewhere");
        assert_eq!(away.free_beside(&set("5")), None, "the tool may not run there");
        assert_eq!(away.free_beside(&set("1")), Some(set("0,2-3")));
        assert_eq!(away.free_beside(&set("1")), None, "left already");
        assert_eq!(away.free_beside(&set("2-3")), Some(set("0")));
        assert_eq!(away.free_beside(&set("0")), None, "none would be left");
    }
}
