// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `latebound tune record` and `latebound tune prove` add to how late a real-time task is that is above all others.
//!
//! The test boots a guest whose clock counts its own instructions, so that nothing of the host is in the times, and runs itself in there.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says what it saw"
)]

mod guest_job;
mod victims;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use guest_job::in_guest;
use victims::{Messages, PRIORITY, Victim};

#[test]
fn live_lab_record_and_prove_add_less_than_1_ms_to_a_victim() {
    let own = std::env::current_exe().unwrap();
    let (said, _) = in_guest(
        &["--kernel", "debian:6.12-rt", "--clock", "instructions", "--timeout", "300s"],
        [own.to_str().unwrap(), "--ignored", "--nocapture", "--test-threads=1", "guest_"],
    );
    assert!(said.contains("1 passed"), "{said}");
}

/// What a victim met beside a load of many switches while something was done, from before it began until it ended.
fn beside<T>(what: &str, work: impl FnOnce() -> T) -> (Duration, T) {
    let load = nice_messages();
    let victim = Victim::start();
    let started = Instant::now();
    let done = work();
    let took = started.elapsed();
    let lateness = victim.end();
    drop(load);
    println!(
        "{what}: {:?} late at most of {} wake-ups in {took:?}; {:?}",
        lateness.worst, lateness.wakes, lateness.often
    );
    (lateness.worst, done)
}

/// [`Messages`] whose threads have the lowest nice value: behind what they are to be a load for, which shares the only CPU with them.
fn nice_messages() -> Messages {
    let start = || {
        // SAFETY: takes integers; 0 is this thread, and those that it starts are as nice.
        assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) }, 0);
        Messages::start(2, Duration::from_secs(240))
    };
    std::thread::spawn(start).join().unwrap()
}

#[test]
#[ignore = "runs in the guest that the test above boots"]
fn guest_record_and_prove_hold_nobody_up() {
    // Pages that are not there yet come from the host, for which the guest's clock does not wait.
    let tool = Path::new("/run/latebound-under-test");
    std::fs::copy(env!("CARGO_BIN_EXE_latebound"), tool).unwrap();
    let tool = tool.to_str().unwrap();
    assert!(Command::new(tool).arg("--version").output().unwrap().status.success());
    let (alone, ()) = beside("alone", || std::thread::sleep(Duration::from_secs(3)));

    let (with_record, output) = beside("with record", || {
        let mut record = Command::new(tool);
        record.args(["tune", "record", "--duration", "2s", "--format", "json", "--output"]);
        record.arg("/run/workload.json").output().unwrap()
    });
    assert!(output.status.success(), "{output:?}");
    let account: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tasks = account["tasks"].as_array().unwrap();
    let victim = tasks.iter().find(|task| task["name"].as_str().unwrap().starts_with("victim ")).unwrap();
    assert_eq!(victim["priority"], PRIORITY, "{account:#}");
    assert!(victim["activations"].as_u64().unwrap() > 1_000, "{account:#}");
    assert!(account["lost_events"].is_u64() && account["losses"].is_array(), "{account:#}");
    assert!(account["events"].as_u64().unwrap() > 10_000, "the load was too small: {account:#}");

    // The share of the tuner is the user's to choose: it goes before every real-time task.
    std::fs::write("/run/tune.toml", "[daemon]\nruntime = \"400us\"\nperiod = \"4ms\"\n").unwrap();
    let (with_prove, output) = beside("with prove", || {
        let mut prove = Command::new(tool);
        prove.args(["tune", "prove", "--policy", "off,pip", "--rounds", "1", "--duration", "1s"]);
        prove.args(["--settle", "500ms", "--format", "json", "--journal", "/run/journal"]);
        prove.args(["--config", "/run/tune.toml", "--", tool, "tune", "tasks", "--duration", "60s"]);
        prove.args(["--folder", "/run", "echo:name=planted,priority=60,period=20ms,bytes=16"]);
        prove.output().unwrap()
    });
    assert!(output.status.success(), "{output:?}");
    let trial: Value = serde_json::from_slice(&output.stdout).unwrap();
    let policies = trial["policies"].as_array().unwrap();
    assert_eq!(policies.len(), 2);
    for policy in policies {
        assert!(policy["rounds"] == 1 && policy["lost"].is_u64(), "{trial:#}");
        let names: Vec<&str> =
            policy["tasks"].as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"planted") && names.contains(&"victim"), "{names:?}");
    }
    for with in [with_record, with_prove] {
        assert!(with < alone + Duration::from_millis(1), "{with:?} with, {alone:?} alone");
    }
}
