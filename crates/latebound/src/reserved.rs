// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserved processor time for who has to come to run beside real-time tasks, and may not hold them up. Owns the reservation, the account of
//! it, and that memory is there.
//!
//! A SCHED_DEADLINE thread runs before every real-time task. The kernel looks only at its ticks whether the runtime is used up
//! (kernel/sched/features.h: HRTICK_DL is off, 6.18), which are up to 10 ms apart. So who has more to do than that asks this thread to pause.

use latebound_model::Tid;
use latebound_system::undo::{Schedule, set_own_schedule, set_schedule_within};

use crate::output::Output;

/// 200 us in each 2 ms.
const RUNTIME_NS: u64 = 200_000;
const PERIOD_NS: u64 = 2_000_000;

/// What the calling thread has run in one go, against half of its reservation's runtime: so much is done before every real-time task.
pub(crate) struct Stretch {
    /// The processor time of this thread when it began.
    began: u64,
    most: u64,
}

impl Stretch {
    /// From here on, in a reservation of this runtime in nanoseconds.
    pub(crate) fn of(runtime: u64) -> Stretch {
        Stretch { began: processor_time(), most: runtime / 2 }
    }

    /// The thread has slept, and others ran.
    pub(crate) fn begin(&mut self) {
        self.began = processor_time();
    }

    /// Waits for the next period where the thread ran for long since the last one.
    pub(crate) fn pause(&mut self) {
        self.pause_after(self.most);
    }

    /// The same for what is urgent: it may use the whole runtime.
    pub(crate) fn pause_at_the_end(&mut self) {
        self.pause_after(2 * self.most);
    }

    fn pause_after(&mut self, most: u64) {
        if processor_time().saturating_sub(self.began) >= most {
            // Of a reservation it gives up what is left of this period (sched_yield(2), kernel/sched/deadline.c, yield_task_dl).
            // SAFETY: no arguments.
            unsafe { libc::sched_yield() };
            self.begin();
        }
    }
}

/// Has the memory of this process that is there (MCL_CURRENT), and what comes (MCL_FUTURE), where the kernel finds it at once. Without it, the
/// process goes on and this says so.
pub(crate) fn lock_memory(flags: i32, output: &Output) {
    // SAFETY: takes flags only.
    if unsafe { libc::mlockall(flags) } != 0 {
        output.note(&format!("memory is not locked: {}", std::io::Error::last_os_error()));
    }
}

/// The calling thread's reservation, until it ends or [`Reserved::give_up`].
pub(crate) struct Reserved {
    /// `None`: the kernel refused it.
    stretch: Option<Stretch>,
}

impl Reserved {
    /// Takes it. Where the kernel refuses, the thread stays as it is, and this says what follows from that.
    /// `None`: it says nothing.
    pub(crate) fn take(otherwise: &str, output: Option<&Output>) -> Reserved {
        match set_own_schedule(Schedule::deadline(RUNTIME_NS, PERIOD_NS, PERIOD_NS)) {
            Ok(()) => Reserved { stretch: Some(Stretch::of(RUNTIME_NS)) },
            Err(error) => {
                if let Some(output) = output {
                    output.note(&format!(
                        "{otherwise}: no SCHED_DEADLINE reservation for this process ({error})"
                    ));
                }
                Reserved { stretch: None }
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

/// Of this thread, in nanoseconds.
fn processor_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cli::ColorChoice;

    #[test]
    fn live_who_pauses_does_not_use_more_than_is_reserved() {
        let work = || {
            let mut reserved = Reserved::take("", Some(&Output::new(None, ColorChoice::Never)));
            assert!(reserved.stretch.is_some(), "a reservation is refused here");
            let (started, before) = (Instant::now(), processor_time());
            while started.elapsed() < Duration::from_millis(500) {
                reserved.pause();
            }
            let share = (processor_time() - before) as f64 / started.elapsed().as_nanos() as f64;
            reserved.give_up();
            share
        };
        let share = std::thread::spawn(work).join().unwrap();
        let most = RUNTIME_NS as f64 / PERIOD_NS as f64;
        assert!((most / 10.0..most).contains(&share), "{share}");
    }
}
