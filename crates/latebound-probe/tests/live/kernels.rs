// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of this program once more, in a guest of each kernel: one CPU on instruction time, so that the host's load leaves no mark,
//! and a disk of its own. What the tool's verbs give there, `crates/latebound/tests/live_lab.rs` holds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use latebound_lab::{Clock, Event, Job, Lab, Machine, Payload};

use crate::plant;

/// What runs in each guest: whether every program loads, exact counts, the corpus of planted causes, quotas, and relations.
const PARTS: &str =
    "jobs:: loading:: observe:: planted:: quota:: recorder::live_each_sleep_of_a_watched_thread relations::";

/// How many tests have to pass in a guest: fewer means that some were not even begun.
const TESTS: usize = 37;

/// What cannot pass on 6.1: it has no trace point for block requests (since 6.5) and none for data of a socket (6.3). `loading` holds that
/// the tool says so.
const NOT_ON_6_1: [&str; 4] = [
    "live_every_program_s_cost_is_known_and_every_wait_is_counted",
    "live_planted_block_requests_are_one_wait_and_are_counted_each",
    "live_planted_datagrams_wake_their_reader_once_each",
    "live_waits_of_a_worker_are_reported_with_its_waiters_priority",
];

/// What cannot be planted on PREEMPT_RT: the timers of a normal task expire in `ktimers/N`, of FIFO 1, which the hog keeps from running.
/// So the thread that is to starve is not woken before the hog ends; and nobody is told lazily, since whoever runs gives way to `ktimers/N` at once, and behind
/// that the scheduler chooses anew.
const NOT_ON_RT: [&str; 2] = [
    "live_planted_a_starved_fair_thread_shows_the_signature_of_its_rescue",
    "live_planted_a_thread_told_lazily_to_give_way_is_named",
];

/// Without what only a debugger wants: a guest reads a program from the host, page by page.
fn stripped(program: &Path, to: PathBuf) -> PathBuf {
    let status = Command::new("strip").arg("--strip-debug").arg("-o").args([&to, program]).status().unwrap();
    assert!(status.success(), "{}: {status}", program.display());
    to
}

/// Runs this script in a guest; what it said, and its exit status.
fn in_guest(kernel: &str, folder: &Path, script: String) -> (String, i32) {
    let written: Mutex<Vec<u8>> = Mutex::default();
    let started = Instant::now();
    let listener = |event: Event<'_>| match event {
        Event::Stdout(bytes) | Event::Stderr(bytes) => {
            println!(
                "{kernel}, {:.0} s: {}",
                started.elapsed().as_secs_f64(),
                String::from_utf8_lossy(bytes).trim_end()
            );
            written.lock().unwrap().extend_from_slice(bytes);
        }
        Event::StartsAgain => written.lock().unwrap().clear(),
        Event::Note(text) => println!("{text}"),
        Event::Progress(_) => {}
    };
    let stop = AtomicBool::new(false);
    let lab = Lab::new(Lab::default_cache().unwrap(), &listener, &stop);
    let obtained = latebound_lab::obtain(&lab, &kernel.parse().unwrap()).unwrap();
    let job = Job {
        machine: Machine {
            cpus: 1,
            clock: Clock::INSTRUCTIONS,
            disk_bytes: Some(512 << 20),
            ..Machine::default()
        },
        payload: Payload::Command(["sh", "-c", &script].map(str::to_owned).to_vec()),
        timeout: Duration::from_secs(1200),
        module: None,
        directory: "/".into(),
        program: None,
        interrupt: false,
    };
    let result = latebound_lab::run(&lab, &obtained, &job, &folder.join("job.run"), false);
    let said = String::from_utf8_lossy(&written.into_inner().unwrap()).into_owned();
    let outcome = result.unwrap_or_else(|failure| panic!("{kernel}: {}", failure.error));
    println!("{kernel}: booted in {:?}, done in {:?}", outcome.boot, outcome.total);
    (said, outcome.status)
}

/// Runs the parts in a guest, but for those tests that are left out there.
fn all_in(kernel: &str, left_out: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(&std::env::current_exe().unwrap(), folder.path().join("live"));
    // One CPU has nowhere to move a thread to, and lets nobody write while a worker writes back.
    let one_cpu = ["live_moving_a_running_thread", "live_an_inode_written_to_during"];
    let skip: String = one_cpu.iter().chain(left_out).map(|name| format!(" --skip {name}")).collect();
    let script = format!(
        "cp {program} /run/live && /sbin/modprobe ext4 && /sbin/mkfs.ext4 -q /dev/vda && mkdir /run/disk && \
         mount -t ext4 /dev/vda /run/disk || exit 1
         {disk}=/run/disk /run/live --test-threads=1 {PARTS}{skip} || exit 2\n",
        program = program.display(),
        disk = plant::DISK,
    );
    let (said, status) = in_guest(kernel, folder.path(), script);
    assert_eq!(status, 0, "{kernel}");
    let passed = said.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(passed >= TESTS - left_out.len(), "{kernel}: {passed} tests passed");
}

#[test]
fn live_lab_the_probes_work_on_6_1() {
    all_in("debian:6.1", &NOT_ON_6_1);
}

#[test]
fn live_lab_the_probes_work_on_6_12() {
    all_in("debian:6.12", &[]);
}

#[test]
fn live_lab_the_probes_work_on_6_12_rt() {
    all_in("debian:6.12-rt", &NOT_ON_RT);
}

#[test]
fn live_lab_the_probes_work_on_7() {
    all_in("debian:7", &[]);
}

#[test]
fn live_lab_the_probes_work_on_7_rt() {
    all_in("debian:7-rt", &NOT_ON_RT);
}
