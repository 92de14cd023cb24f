// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real-time thread that notes how late it is, and a load of many switches around it.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Of a victim: it is above every thread of a kernel but the watchdogs and those that stop CPUs.
pub(crate) const PRIORITY: i32 = 95;

/// Pairs of threads that send each other bytes through pipes: as many switches as the machine can do, until dropped or for so long.
pub(crate) struct Messages {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Messages {
    pub(crate) fn start(pairs: usize, at_most: Duration) -> Messages {
        let stop = Arc::new(AtomicBool::new(false));
        let end = Instant::now() + at_most;
        let mut threads = Vec::new();
        for _ in 0..pairs {
            let (ask, answer) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
            let stopped = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || {
                let (mut to, mut from) = (ask.1, answer.0);
                while !stopped.load(Ordering::Relaxed) && Instant::now() < end {
                    to.write_all(&[1]).and_then(|()| from.read_exact(&mut [0])).unwrap();
                }
            }));
            threads.push(std::thread::spawn(move || {
                let (mut from, mut to) = (ask.0, answer.1);
                // Until the other end is closed.
                while from.read_exact(&mut [0]).and_then(|()| to.write_all(&[1])).is_ok() {}
            }));
        }
        Messages { stop, threads }
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// A thread that wakes each millisecond at [`PRIORITY`].
pub(crate) struct Victim {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Lateness>,
}

/// What a victim met.
pub(crate) struct Lateness {
    pub(crate) wakes: u64,
    pub(crate) worst: Duration,
    /// When it was this late, from its start on: the first of those above half a millisecond.
    pub(crate) often: Vec<(Duration, Duration)>,
}

impl Victim {
    pub(crate) fn start() -> Victim {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let named = std::thread::Builder::new().name("victim".to_owned());
        Victim { stop, thread: named.spawn(move || wake_until(&stopped)).unwrap() }
    }

    pub(crate) fn end(self) -> Lateness {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn wake_until(stopped: &AtomicBool) -> Lateness {
    /// No multiple of a scheduler tick, so that it meets ticks at every distance.
    const PERIOD_NS: i64 = 997_000;
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the parameters live through the call; 0 is this thread.
    assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) }, 0);
    // Room for all at once: nothing is allocated meanwhile.
    let mut often = Vec::with_capacity(40);
    let (mut wakes, mut worst) = (0, 0);
    let started = now_ns();
    let mut due = started;
    while !stopped.load(Ordering::Relaxed) {
        due += PERIOD_NS;
        let until = libc::timespec { tv_sec: due / 1_000_000_000, tv_nsec: due % 1_000_000_000 };
        let nothing = std::ptr::null_mut();
        // SAFETY: the time lives through the call, and what is left of it is not asked for.
        unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, nothing)
        };
        let now = now_ns();
        let late = now - due;
        worst = worst.max(late);
        if late > 500_000 && often.len() < often.capacity() {
            often.push((nanos(now - started), nanos(late)));
        }
        wakes += 1;
        // Periods that it missed are not made up for.
        due += (now - due) / PERIOD_NS * PERIOD_NS;
    }
    Lateness { wakes, worst: nanos(worst), often }
}

fn nanos(nanoseconds: i64) -> Duration {
    Duration::from_nanos(nanoseconds.unsigned_abs())
}

fn now_ns() -> i64 {
    latebound_syscall::clock::now().0.cast_signed()
}
