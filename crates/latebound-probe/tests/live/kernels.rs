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

/// What runs in each guest, and what is left out where; `scripts/test-cross.sh` reads it too.
const GUESTS: &str = include_str!("guests.txt");

/// How many tests have to pass in a guest: fewer means that some were not even begun.
const TESTS: usize = 38;

/// The second words of the lines of a kind.
fn of_kind(kind: &str) -> Vec<&'static str> {
    GUESTS.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' ')).collect()
}

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
fn all_in(kernel: &str, left_out: &[&'static str]) {
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(&std::env::current_exe().unwrap(), folder.path().join("live"));
    let skip: String =
        of_kind("not-on-one-cpu").iter().chain(left_out).map(|name| format!(" --skip {name}")).collect();
    let script = format!(
        "cp {program} /run/live && /sbin/modprobe ext4 && /sbin/mkfs.ext4 -q /dev/vda && mkdir /run/disk && \
         mount -t ext4 /dev/vda /run/disk || exit 1
         {disk}=/run/disk /run/live --test-threads=1 {parts}{skip} || exit 2\n",
        program = program.display(),
        disk = plant::DISK,
        parts = of_kind("part").join(" "),
    );
    let (said, status) = in_guest(kernel, folder.path(), script);
    assert_eq!(status, 0, "{kernel}");
    let passed = said.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(passed >= TESTS - left_out.len(), "{kernel}: {passed} tests passed");
}

#[test]
fn live_lab_the_probes_work_on_6_1() {
    all_in("debian:6.1", &of_kind("not-on-6.1"));
}

#[test]
fn live_lab_the_probes_work_on_6_12() {
    all_in("debian:6.12", &[]);
}

#[test]
fn live_lab_the_probes_work_on_6_12_rt() {
    all_in("debian:6.12-rt", &of_kind("not-on-rt"));
}

#[test]
fn live_lab_the_probes_work_on_7() {
    all_in("debian:7", &[]);
}

#[test]
fn live_lab_the_probes_work_on_7_rt() {
    all_in("debian:7-rt", &of_kind("not-on-rt"));
}
