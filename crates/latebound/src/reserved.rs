// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserved processor time for who has to come to run beside real-time tasks, and may not hold them up. Owns the reservation, the account of
//! it, and that memory is there.
//!
//! A SCHED_DEADLINE thread runs before every real-time task. The kernel checks only at its ticks whether the runtime is used up
//! (kernel/sched/features.h: HRTICK_DL is off, 6.18), which are up to 10 ms apart. So who has more to do than that asks this thread to pause.

use latebound_model::{Nanos, Tid};
use latebound_system::undo::{Schedule, set_own_schedule, set_schedule_within};

use crate::output::Output;

/// 200 us in each 2 ms.
const RUNTIME_NS: u64 = 200_000;
const PERIOD_NS: u64 = 2_000_000;

/// What the calling thread has run in one go, against half of its reservation's runtime: so much is done before every real-time task.
pub(crate) struct Stretch {
    /// The processor time of this thread when it began.
    began: u64,
    /// Half of the runtime, in nanoseconds.
    max: u64,
}

impl Stretch {
    /// From here on, in a reservation of this runtime in nanoseconds.
    pub(crate) fn of(runtime: u64) -> Stretch {
        Stretch { began: thread_time(), max: runtime / 2 }
    }

    /// The thread has slept, and others ran.
    pub(crate) fn begin(&mut self) {
        self.began = thread_time();
    }

    /// Waits for the next period where the thread ran for long since the last one.
    pub(crate) fn pause(&mut self) {
        self.pause_after(self.max);
    }

    /// The same for what is urgent: it may use the whole runtime.
    pub(crate) fn pause_at_the_end(&mut self) {
        self.pause_after(2 * self.max);
    }

    fn pause_after(&mut self, max: u64) {
        if thread_time().saturating_sub(self.began) >= max {
            // Of a reservation it gives up what is left of this period (sched_yield(2), kernel/sched/deadline.c, yield_task_dl).
            // SAFETY: no arguments.
            unsafe { libc::sched_yield() };
            self.begin();
        }
    }
}

/// Has the memory of this process that is there (MCL_CURRENT), and what comes (MCL_FUTURE), where the kernel finds it at once; with MCL_ONFAULT
/// only what was used, and the rest from its first use on. Whether that was granted: without it, the process goes on and this says so.
pub(crate) fn lock_memory(flags: i32, output: &Output) -> bool {
    // SAFETY: takes flags only.
    let is_locked = unsafe { libc::mlockall(flags) } == 0;
    if !is_locked {
        output.note(&format!("memory is not locked: {}", std::io::Error::last_os_error()));
    }
    is_locked
}

/// The calling thread's reservation, until it ends or [`Reservation::give_up`].
pub(crate) struct Reservation {
    /// `None`: the kernel refused it.
    stretch: Option<Stretch>,
}

impl Reservation {
    /// Takes it. Where the kernel refuses, the thread stays as it is, and this says what follows from that.
    /// `None`: it says nothing.
    pub(crate) fn take(otherwise: &str, output: Option<&Output>) -> Reservation {
        match set_own_schedule(Schedule::deadline(RUNTIME_NS, PERIOD_NS, PERIOD_NS)) {
            Ok(()) => Reservation { stretch: Some(Stretch::of(RUNTIME_NS)) },
            Err(error) => {
                if let Some(output) = output {
                    output.note(&format!(
                        "{otherwise}: no SCHED_DEADLINE reservation for this process ({error})"
                    ));
                }
                Reservation { stretch: None }
            }
        }
    }

    /// Whether the kernel gave it.
    pub(crate) fn is_there(&self) -> bool {
        self.stretch.is_some()
    }

    /// Waits for the next period where the thread ran for long since the last one.
    pub(crate) fn pause(&mut self) {
        if let Some(stretch) = &mut self.stretch {
            stretch.pause();
        }
    }

    /// Gives another thread of this process the same. Whether it has it.
    pub(crate) fn share(&self, thread: Tid) -> bool {
        set_schedule_within(thread, Schedule::deadline(RUNTIME_NS, PERIOD_NS, PERIOD_NS)).is_ok()
    }

    /// Ordinary again: what is left to do may wait.
    pub(crate) fn give_up(self) {
        if self.stretch.is_some() {
            // Going back is refused to nobody.
            let _ = set_own_schedule(Schedule::other(0));
        }
    }
}

/// The processor time by this clock (of this thread or process) so far.
pub(crate) fn processor_time(clock: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// Of this thread, in nanoseconds.
fn thread_time() -> u64 {
    processor_time(libc::CLOCK_THREAD_CPUTIME_ID).0
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cli::ColorChoice;

    #[test]
    fn live_reservation_with_pauses_is_not_exceeded() {
        let work = || {
            let mut reserved = Reservation::take("", Some(&Output::new(None, ColorChoice::Never)));
            assert!(reserved.stretch.is_some(), "a reservation is refused here");
            let (started, before) = (Instant::now(), thread_time());
            while started.elapsed() < Duration::from_millis(500) {
                reserved.pause();
            }
            let share = (thread_time() - before) as f64 / started.elapsed().as_nanos() as f64;
            reserved.give_up();
            share
        };
        let share = std::thread::spawn(work).join().unwrap();
        let max = RUNTIME_NS as f64 / PERIOD_NS as f64;
        assert!((max / 10.0..max).contains(&share), "{share}");
    }
}
