// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same work for every CPU of a trace, several at once.
//!
//! Owns how many threads that takes: as many as may run here, no more than the program allows itself, and never more than there is work for.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The largest number of threads that the program allows itself.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// From now on, at most so many threads of this program read a trace at once. A scheduler that gives a program one CPU, and others to its
/// neighbours, counts on that.
pub fn limit_threads(limit: NonZeroUsize) {
    LIMIT.store(limit.get(), Ordering::Relaxed);
}

/// How many threads may run here at once.
pub(crate) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(LIMIT.load(Ordering::Relaxed))
}

/// What `work` makes of each item, in the order of the items.
pub(crate) fn side_by_side<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let items: Vec<T> = items.into_iter().collect();
    let workers = parallelism().min(items.len());
    if workers < 2 {
        return items.into_iter().map(work).collect();
    }
    let left = Mutex::new(items.into_iter().enumerate());
    let worker = || {
        let mut done = Vec::new();
        loop {
            // Taking an item does not panic, so what is behind a poisoned lock is as good as ever.
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((at, item)) = next else { return done };
            done.push((at, work(item)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..workers).map(|_| scope.spawn(worker)).collect();
        let mut done = worker();
        for thread in threads {
            done.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items_however_many_there_are() {
        for count in [0u64, 1, 2, 3, 100, 4096] {
            let items: Vec<u64> = (0..count).collect();
            // Unequal work, so that threads take unequal shares.
            let results = side_by_side(items.clone(), |item| {
                (0..item % 7 * 1000).fold(item, |sum, n| sum ^ (n * 2 % 2))
            });
            assert_eq!(results, items);
        }
    }

    #[test]
    #[should_panic(expected = "the third of them")]
    fn a_panic_of_one_comes_through() {
        side_by_side([1, 2, 3, 4], |item| assert_ne!(item, 3, "the third of them"));
    }
}
