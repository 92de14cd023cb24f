// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tool's own threads among those of the events.
//!
//! Owns the answer for each event. Never finds the threads.

use std::collections::BTreeSet;
use std::ops::Range;

use latebound_model::Tid;

/// The tool's own threads.
#[derive(Debug, Default)]
pub(crate) struct OwnThreads {
    /// From the lowest number of them to behind the highest: they began soon after each other, so nearly all other threads lie outside.
    numbers: Range<i32>,
    threads: Vec<Tid>,
}

impl OwnThreads {
    pub(crate) fn new(threads: BTreeSet<Tid>) -> OwnThreads {
        let numbers = match (threads.first(), threads.last()) {
            (Some(first), Some(last)) => first.0..last.0.saturating_add(1),
            _ => 0..0,
        };
        OwnThreads { numbers, threads: threads.into_iter().collect() }
    }

    /// Whether a thread is one of them.
    #[inline]
    pub(crate) fn has(&self, tid: Tid) -> bool {
        self.numbers.contains(&tid.0) && self.threads.contains(&tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_between_two_of_them_is_none_of_them() {
        let own = OwnThreads::new([Tid(5), Tid(7), Tid(8)].into());
        let found: Vec<i32> = (0..12).filter(|&tid| own.has(Tid(tid))).collect();
        assert_eq!(found, [5, 7, 8]);
        assert!(!OwnThreads::default().has(Tid(0)) && !OwnThreads::new(BTreeSet::new()).has(Tid(0)));
    }
}
