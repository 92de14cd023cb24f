// SPDX-License-Identifier: MIT OR Apache-2.0
//! Responses of known length and number are planted by a real-time thread, and the probe has to give each of them back.
//!
//! Needs root, real-time threads, and events of system calls (tracefs).

use std::time::{Duration, Instant};

use latebound_model::{Nanos, Response, Tid};
use latebound_probe::ResponseProbe;
use latebound_syscall::clock::now;

use crate::plant;

fn sleep_until(at: Nanos) {
    let at = libc::timespec { tv_sec: (at.0 / 1_000_000_000) as i64, tv_nsec: (at.0 % 1_000_000_000) as i64 };
    // SAFETY: the pointer is to a live timespec; what is left is not asked for.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
    };
}

fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Runs this on a real-time thread; its id, what came of it, and the responses that the probe saw of it.
fn observed<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (T, Vec<Response>) {
    let mut probe = ResponseProbe::start().unwrap();
    let thread = std::thread::Builder::new().name("planted".to_owned()).spawn(move || {
        let parameters = libc::sched_param { sched_priority: 47 };
        // SAFETY: the parameters live through the call; 0 is this thread.
        assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) }, 0);
        // SAFETY: no arguments.
        (Tid(unsafe { libc::gettid() }), work())
    });
    let (tid, value) = thread.unwrap().join().unwrap();
    let mut responses = Vec::new();
    while probe.take_some(&mut responses).unwrap() {}
    plant::assert_nothing_lost(&probe.losses(|| {}));
    (value, responses.into_iter().filter(|one| one.task == tid).collect())
}

#[test]
fn live_planted_responses_are_timed_from_the_time_that_was_asked_for() {
    const PLANTED: usize = 21;
    let (dues, seen) = observed(|| {
        let begun = now();
        let dues: Vec<Nanos> = (1..=PLANTED as u64).map(|at| begun + Nanos::from_millis(at * 10)).collect();
        for &due in &dues {
            sleep_until(due);
            spin(Duration::from_micros(700));
        }
        sleep_until(Nanos(1));
        dues
    });
    // The last sleep, whose time was long over, is that of no planted one.
    assert_eq!(seen.len(), PLANTED, "{seen:?}");
    for (response, due) in seen.iter().zip(dues) {
        assert_eq!((response.start, response.priority, &*response.name()), (due, 47, "planted"));
        let took = response.end.saturating_sub(response.start);
        assert!((700_000..60_000_000).contains(&took.0), "{took}");
    }
}

#[test]
fn live_a_late_response_counts_from_its_due_time_without_any_sleep() {
    let (due, seen) = observed(|| {
        let due = now();
        sleep_until(due + Nanos::from_millis(5));
        spin(Duration::from_millis(4));
        // Three milliseconds ago.
        sleep_until(due + Nanos::from_millis(6));
        spin(Duration::from_millis(1));
        sleep_until(Nanos(1));
        due
    });
    assert_eq!(seen[1].start, due + Nanos::from_millis(6), "{seen:?}");
    assert!(seen[1].end.saturating_sub(seen[1].start) >= Nanos::from_millis(4), "{seen:?}");
}

#[test]
fn live_a_response_without_a_time_counts_from_wake_up_with_its_blocking() {
    let (slept, seen) = observed(|| {
        let (tell, told) = std::sync::mpsc::channel();
        let slept = Instant::now();
        std::thread::sleep(Duration::from_millis(20));
        // Blocks until an ordinary thread has slept; that wake-up begins no response.
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(8));
            tell.send(()).unwrap();
        });
        told.recv().unwrap();
        let slept = slept.elapsed();
        std::thread::sleep(Duration::from_millis(1));
        slept
    });
    let took = seen[0].end.saturating_sub(seen[0].start).to_duration();
    assert!(
        took >= Duration::from_millis(8) && took <= slept - Duration::from_millis(19),
        "{took:?} {slept:?}"
    );
}
