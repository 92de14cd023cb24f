// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound explain` beside a loop whose affinity is one CPU, which leaves releases out: how many are missed of the period that is given, and where
//! it might have run while another thread had its CPU.
//!
//! The loop is this test program itself, started once more.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on ends, and says what it saw"
)]

mod killed;

use std::process::{Command, Stdio};
use std::time::Duration;

use killed::Killed;
use latebound_model::{CauseKind, Nanos, Run};

const MS: u64 = 1_000_000;
const PERIOD: u64 = 20 * MS;
/// The last of so many releases is left out.
const ROUND: u64 = 10;

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to a live structure.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn sleep_until(due: u64) {
    let time = libc::timespec {
        tv_sec: (due / 1_000_000_000).cast_signed(),
        tv_nsec: (due % 1_000_000_000).cast_signed(),
    };
    let none = std::ptr::null_mut();
    // SAFETY: the time is read from a live structure, and what is left is asked for by nobody.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, none) };
}

fn spin(length: u64) {
    let end = now() + length;
    while now() < end {}
}

/// Makes the calling thread one of this name and SCHED_FIFO priority, on the first CPU alone.
fn become_thread(name: &str, priority: i32) {
    let name = std::ffi::CString::new(name).unwrap();
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the name, the parameters and the set are live; 0 is the calling thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NAME, name.as_ptr()), 0);
        let mut first: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut first);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const first), 0);
        assert_eq!(libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters), 0);
    }
}

#[test]
#[ignore = "the program that the test here watches"]
fn guest_loop() {
    std::thread::spawn(|| {
        become_thread("lb-hog", 50);
        loop {
            std::thread::sleep(Duration::from_millis(97));
            spin(6 * MS);
        }
    });
    become_thread("lb-loop", 40);
    let mut due = now() + PERIOD;
    // Whoever started it ends it before.
    for release in 0..3_000 {
        if release % ROUND < ROUND - 1 {
            sleep_until(due);
            spin(MS / 2);
        }
        due += PERIOD;
    }
}

#[test]
fn live_a_pinned_loop_has_its_missed_releases_and_the_idle_cpus_named() {
    let program = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "guest_loop"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let program = Killed(program);
    std::thread::sleep(Duration::from_millis(300));
    let output = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["explain", "--comm", "lb-loop", "--period", "20ms", "--duration", "8s", "--worst", "200"])
        .args(["--format", "json"])
        .output()
        .unwrap();
    drop(program);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();

    let jobs =
        run.jobs.iter().find(|jobs| jobs.task.comm == "lb-loop").unwrap_or_else(|| panic!("{:?}", run.jobs));
    let missed = jobs.missed.unwrap();
    println!("{} jobs, {missed} releases missed", jobs.jobs);
    // One more at an end that the Run cuts off.
    let rounds = jobs.jobs / (ROUND - 1);
    assert!(jobs.jobs > 200 && missed.abs_diff(rounds) <= 1, "{jobs:?}");
    assert_eq!(jobs.cycle.as_ref().and_then(|cycle| cycle.period), Some(Nanos(PERIOD)));

    let behind: Vec<_> = run
        .worst
        .iter()
        .flat_map(|job| &job.causes)
        .filter(|cause| {
            cause.kind == CauseKind::TaskFirst && cause.subject == "lb-hog" && cause.duration > Nanos(MS)
        })
        .collect();
    let idle: Vec<_> = behind.iter().filter_map(|cause| cause.idle_meanwhile.as_ref()).collect();
    println!(
        "{} waits behind the hog, {} of them beside CPUs that were idle: {idle:?}",
        behind.len(),
        idle.len()
    );
    assert!(behind.len() >= 5, "{:?}", run.worst.iter().map(|job| &job.causes).collect::<Vec<_>>());
    let several = std::thread::available_parallelism().unwrap().get() > 1;
    assert!(if several { idle.len() * 2 >= behind.len() } else { idle.is_empty() });
    for one in idle {
        assert!(!one.cpus.iter().any(|cpu| cpu.0 == 0) && one.allowed == Some(Vec::new()), "{one:?}");
    }
}
