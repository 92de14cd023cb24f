// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ring of fixed-size records between one writer that must not wait and one reader.
//!
//! Owns the order of its two counters. Never allocates after it was made, never blocks, never overwrites: a
//! record that does not fit is refused.

use std::sync::atomic::{AtomicU64, Ordering};

/// Keeps what one thread writes out of the cache lines that another one writes. 128: x86 prefetches lines in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct OwnLine<T>(pub(crate) T);

/// The ring. [`Ring::push`] is for one thread, [`Ring::pop`] for one other; being plain atomics, a
/// violation of that can mix up records but not memory.
pub(crate) struct Ring<const WORDS: usize> {
    written: OwnLine<AtomicU64>,
    read: OwnLine<AtomicU64>,
    slots: Box<[[AtomicU64; WORDS]]>,
}

impl<const WORDS: usize> Ring<WORDS> {
    /// A ring with room for so many records.
    pub(crate) fn new(capacity: usize) -> Ring<WORDS> {
        let slots = (0..capacity.next_power_of_two()).map(|_| [const { AtomicU64::new(0) }; WORDS]).collect();
        Ring { written: OwnLine::default(), read: OwnLine::default(), slots }
    }

    fn slot(&self, at: u64) -> &[AtomicU64; WORDS] {
        &self.slots[at as usize & (self.slots.len() - 1)]
    }

    /// Appends a record; `false` where there is no room. Wait-free.
    #[inline]
    pub(crate) fn push(&self, record: [u64; WORDS]) -> bool {
        let written = self.written.0.load(Ordering::Relaxed);
        if written - self.read.0.load(Ordering::Acquire) >= self.slots.len() as u64 {
            return false;
        }
        for (slot, word) in self.slot(written).iter().zip(record) {
            slot.store(word, Ordering::Relaxed);
        }
        self.written.0.store(written + 1, Ordering::Release);
        true
    }

    /// Takes the oldest record.
    pub(crate) fn pop(&self) -> Option<[u64; WORDS]> {
        let read = self.read.0.load(Ordering::Relaxed);
        if read == self.written.0.load(Ordering::Acquire) {
            return None;
        }
        let record = std::array::from_fn(|word| self.slot(read)[word].load(Ordering::Relaxed));
        self.read.0.store(read + 1, Ordering::Release);
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_refuses_and_keeps_what_it_has() {
        let ring = Ring::<2>::new(4);
        assert!((0..4).all(|i| ring.push([i, 10 * i])));
        assert!(!ring.push([4, 40]));
        assert_eq!(ring.pop(), Some([0, 0]));
        assert!(ring.push([5, 50]));
        assert_eq!(
            std::iter::from_fn(|| ring.pop()).collect::<Vec<_>>(),
            [[1, 10], [2, 20], [3, 30], [5, 50]]
        );
        assert_eq!(ring.pop(), None);
    }

    #[test]
    fn every_record_crosses_between_two_threads_once_whole_and_in_order() {
        const RECORDS: u64 = 200_000;
        let ring = Ring::<3>::new(64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..RECORDS {
                    while !ring.push([i, i ^ u64::MAX, i.wrapping_mul(3)]) {
                        std::thread::yield_now();
                    }
                }
            });
            let mut next = 0;
            while next < RECORDS {
                match ring.pop() {
                    Some(record) => {
                        assert_eq!(record, [next, next ^ u64::MAX, next.wrapping_mul(3)]);
                        next += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
    }
}
