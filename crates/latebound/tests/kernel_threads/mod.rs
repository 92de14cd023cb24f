// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernel threads are scheduled as, before and after a tuner was at work, and a flag that ends a test's own threads with it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use latebound_model::Tid;
use latebound_system::Root;
use latebound_system::undo::{Schedule, ThreadIdentity, schedule_of};

/// What each kernel thread is scheduled as.
pub(crate) type Priorities = BTreeMap<ThreadIdentity, Schedule>;

pub(crate) fn priorities() -> Priorities {
    let threads = latebound_system::threads(&Root::live()).unwrap();
    let kernel = threads.into_iter().filter(|thread| thread.kernel);
    let of = |tid: Tid| Some((ThreadIdentity::of(&Root::live(), tid).ok()?, schedule_of(tid).ok()?));
    kernel.filter_map(|thread| of(thread.tid)).collect()
}

/// Threads that are there still, and are not as they were.
pub(crate) fn differing(were: &Priorities) -> Vec<(Tid, Schedule, Schedule)> {
    let differs = |(thread, &was): (&ThreadIdentity, &Schedule)| {
        let is = schedule_of(thread.tid).ok()?;
        (is != was && thread.is_there(&Root::live())).then_some((thread.tid, was, is))
    };
    were.iter().filter_map(differs).collect()
}

/// Sleeps until one of them differs, or this long: a slow machine may need longer for a tuner's first look than a kill waits otherwise.
pub(crate) fn await_a_change(were: &Priorities, at_most: Duration) {
    let started = Instant::now();
    while differing(were).is_empty() && started.elapsed() < at_most {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Stops the writer also where a round fails, so that the test ends.
pub(crate) struct EndOf<'a>(pub(crate) &'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
