// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same for many things, on as many threads as there are processors for this process.
//!
//! Owns that results are in the order of the things, and that nothing more is begun after an error. Its threads end with the call: a process
//! that forks later has none of them.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What `act` makes of each thing, in their order; or the error of the first of them that failed.
pub fn at_once<T: Sync, R: Send, E: Send>(
    things: &[T],
    act: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(things.len());
    if threads <= 1 {
        return things.iter().map(act).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(at) else { return done };
            let result = act(thing);
            if result.is_err() {
                // The others end with what they have in hand.
                next.store(things.len(), Ordering::Relaxed);
            }
            done.push((at, result));
        }
    };
    let mut done: Vec<(usize, Result<R, E>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|worker| worker.join());
        results.flat_map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn results_are_in_the_order_of_the_things() {
        let things: Vec<u64> = (0..1_000).collect();
        let squares = at_once(&things, |&thing| Ok::<_, ()>(thing * thing));
        assert_eq!(squares, Ok(things.iter().map(|thing| thing * thing).collect()));
        assert_eq!(at_once(&[], |_: &u64| Err::<u64, _>(())), Ok(Vec::new()));
    }

    #[test]
    fn after_an_error_nothing_more_is_begun() {
        let things: Vec<usize> = (0..10_000).collect();
        let begun = Mutex::new(0);
        let result = at_once(&things, |&thing| {
            *begun.lock().map_err(|_| thing)? += 1;
            if thing == 3 { Err(thing) } else { Ok(()) }
        });
        assert_eq!(result, Err(3));
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        // Before the mark is set, the other threads may begin any number.
        assert!(begun.into_inner().is_ok_and(|begun| begun >= 4 && (threads > 1 || begun == 4)));
    }
}
