// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that share one spin lock of user space, as databases and runtimes have them: the thread that holds it computes, and the others
//! compute nothing until it lets go.
//!
//! The kernel knows nothing of such a lock. Where it takes the CPU from the holder, every other thread spins until the holder runs again. The
//! load counts the critical sections in which that happened, and how long the lock was held in them. A holder that is interrupted in the few
//! instructions between getting the lock and the begin of the watch is not counted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use latebound_model::Histogram;
use latebound_syscall::clock;
use latebound_syscall::memory::FreshPages;
use latebound_syscall::rseq::Interruptions;

use crate::deadline::Deadline;
use crate::simple::{allowed, steps, threads};
use crate::work::{Begun, Work};

/// What a thread does again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sections {
    /// Steps of computing while it holds the lock.
    pub(crate) held: u32,
    /// Steps of computing between two sections.
    pub(crate) between: u32,
    /// Whether it touches a fresh page while it holds the lock.
    pub(crate) faults: bool,
}

/// What only sections of preempted holders have.
const PREEMPTED: &str = "sections of preempted holders";

/// The time is looked at once in so many turns of a waiting thread.
const TURNS: u32 = 1 << 10;

/// A lock with a cache line of its own.
#[repr(align(64))]
struct SpinLock(AtomicBool);

impl SpinLock {
    /// Whether it was got; no where the load ends before.
    fn lock(&self, until: Deadline) -> bool {
        let mut turns = 0_u32;
        while self.0.swap(true, Ordering::Acquire) {
            while self.0.load(Ordering::Relaxed) {
                std::hint::spin_loop();
                turns = turns.wrapping_add(1);
                if turns.is_multiple_of(TURNS) && until.over() {
                    return false;
                }
            }
        }
        true
    }

    fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Runs the load; a unit is one critical section, timed from when its thread wants the lock until it lets go.
pub(crate) fn run(
    sections: Sections,
    count: Option<u32>,
    until: Deadline,
    begun: Begun<'_>,
) -> Result<Work, String> {
    let count = match count {
        Some(count) => count,
        None => 2 * allowed()?.len() as u32,
    };
    let lock = SpinLock(AtomicBool::new(false));
    let all = Mutex::new((Histogram::new(), Histogram::new()));
    let mut work = threads("load-spinlock", count, "critical sections", begun, |index| {
        let mut own = (Histogram::new(), Histogram::new());
        let result = repeat(sections, &lock, u64::from(index) + 1, until, &mut own);
        if let Ok(mut all) = all.lock() {
            all.0.merge(&own.0);
            all.1.merge(&own.1);
        }
        (own.0.count(), result)
    })?;
    let (took, held) = all.into_inner().map_err(|_| "a thread of the load panicked")?;
    work.latency = Some(took);
    work.execution = Some((PREEMPTED, held));
    Ok(work)
}

/// One thread: how long each section took, and how long the lock was held in those whose holder was preempted.
fn repeat(
    sections: Sections,
    lock: &SpinLock,
    mut state: u64,
    until: Deadline,
    (took, held): &mut (Histogram, Histogram),
) -> Result<(), String> {
    let interruptions = Interruptions::of_this_thread().ok_or(
        "preempted holders are counted by restartable sequences, which this kernel or C library does not have; \
         Linux 4.18 and glibc 2.35 have them",
    )?;
    let no_memory = |error| format!("mmap answered \"{error}\"; check: ulimit -v");
    let mut pages = if sections.faults { Some(FreshPages::new().map_err(no_memory)?) } else { None };
    while !until.over() {
        if let Some(pages) = &mut pages {
            pages.renew().map_err(no_memory)?;
        }
        let wanted = clock::now();
        if !lock.lock(until) {
            break;
        }
        interruptions.begin();
        let got = clock::now();
        if let Some(pages) = &mut pages {
            pages.touch();
        }
        state = steps(state, sections.held);
        if interruptions.end() {
            held.record(clock::now().saturating_sub(got));
        }
        lock.unlock();
        took.record(clock::now().saturating_sub(wanted));
        state = steps(state, sections.between);
    }
    Ok(())
}
