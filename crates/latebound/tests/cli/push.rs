// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound push`: every Run of a spool reaches the store once, whatever happens on the way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use latebound_model::{Nanos, Run};
use latebound_store::{Spool, read_run};

use crate::tool::{Ran, done, folder, latebound};

const SAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../latebound-import/tests/samples/cyclictest.json");

fn push(folder: &Path) -> Ran {
    crate::tool::ran(
        latebound(folder).args(["push", "--spool", "spool", "--store", "fleet", "--host", "rt-07"]),
    )
}

/// A Run whose copies differ in when they began.
fn sample(folder: &Path) -> Run {
    done(folder, &["import", SAMPLE, "--output", "a.run"]);
    read_run(folder.join("a.run")).unwrap()
}

/// Puts Runs of these numbers into the spool; where they are.
fn spool(folder: &Path, run: &Run, numbers: std::ops::Range<u64>) -> Vec<PathBuf> {
    let mut spool = Spool::open(&folder.join("spool"), 1 << 40).unwrap();
    let write = |number: u64| {
        let mut run = run.clone();
        run.started_monotonic = Nanos(run.started_monotonic.0 + number);
        spool.write(&format!("20261127T{number:06}Z"), &run).0.unwrap()
    };
    numbers.map(write).collect()
}

fn json(folder: &Path, arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&done(folder, arguments).out).unwrap()
}

/// How many Runs the store counts; it is whole.
fn counted(folder: &Path) -> u64 {
    let verified = json(folder, &["store", "verify", "--store", "fleet", "--format", "json"]);
    assert_eq!(verified["damaged"].as_array().unwrap().len(), 0, "{verified}");
    verified["intervals"].as_u64().unwrap()
}

#[test]
fn runs_leave_the_spool_for_the_store() {
    let folder = folder();
    let run = sample(folder.path());
    spool(folder.path(), &run, 0..130);
    let pushed = push(folder.path());
    assert_eq!((pushed.code, pushed.err.as_str()), (Some(0), ""), "{pushed:?}");
    assert!(pushed.out.starts_with("130 Runs moved to "), "{pushed:?}");
    assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 0);
    assert_eq!(counted(folder.path()), 130);
    // 60 at once are a commit.
    let listed = json(folder.path(), &["store", "list", "--store", "fleet", "--format", "json"]);
    assert_eq!(listed["partitions"].as_array().unwrap().len(), 1, "{listed}");
    // Of an empty spool there is nothing to move.
    let again = push(folder.path());
    assert!(again.code == Some(0) && again.out.starts_with("0 Runs"), "{again:?}");
}

#[test]
fn a_run_that_cannot_be_read_stays_and_is_named() {
    let folder = folder();
    let run = sample(folder.path());
    let places = spool(folder.path(), &run, 0..3);
    fs::write(places[1].join("run.json"), "{").unwrap();
    // A name that no spool gave is nobody's business.
    fs::create_dir(folder.path().join("spool/mine.run")).unwrap();
    let pushed = push(folder.path());
    assert_eq!(pushed.code, Some(1), "{pushed:?}");
    assert!(pushed.out.starts_with("2 Runs moved"), "{pushed:?}");
    assert!(pushed.err.contains("serve-20261127T000001Z.run stays in the spool"), "{pushed:?}");
    assert_eq!(counted(folder.path()), 2);
    assert!(places[1].exists() && !places[0].exists() && folder.path().join("spool/mine.run").exists());
}

#[test]
fn a_spool_or_a_store_that_is_not_there_is_an_error() {
    let folder = folder();
    let pushed = push(folder.path());
    assert!(pushed.code == Some(1) && pushed.err.contains("--spool"), "{pushed:?}");
    let run = sample(folder.path());
    let places = spool(folder.path(), &run, 0..1);
    fs::write(folder.path().join("fleet"), "no folder").unwrap();
    let pushed = push(folder.path());
    assert!(pushed.code == Some(1) && pushed.err.contains("--store"), "{pushed:?}");
    assert!(places[0].exists());
}

/// How often pushes are killed, where the usual number is not enough: LATEBOUND_PUSH_KILLS=500.
const USUAL_KILLS: u64 = 40;

#[test]
fn pushes_killed_at_any_moment_lose_and_double_nothing() {
    let kills = std::env::var("LATEBOUND_PUSH_KILLS").map_or(USUAL_KILLS, |kills| kills.parse().unwrap());
    let folder = folder();
    let run = sample(folder.path());
    let mut seed = u64::from(std::process::id()) * 2 + 1;
    eprintln!("the delays follow from the seed {seed}");
    let mut in_the_middle = 0;
    for kill in 0..kills {
        spool(folder.path(), &run, 3 * kill..3 * (kill + 1));
        let words = ["push", "--spool", "spool", "--store", "fleet", "--host", "rt-07"];
        let mut pushing = latebound(folder.path()).args(words).stdout(Stdio::null()).spawn().unwrap();
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        std::thread::sleep(Duration::from_micros(seed % 60_000));
        in_the_middle += u64::from(pushing.try_wait().unwrap().is_none());
        let _ = pushing.kill();
        pushing.wait().unwrap();
    }
    assert!(in_the_middle > kills / 10, "{in_the_middle} of {kills} were still at it");
    let last = push(folder.path());
    assert_eq!(last.code, Some(0), "{last:?}");
    assert_eq!(counted(folder.path()), 3 * kills);
    let names = fs::read_dir(folder.path().join("spool")).unwrap();
    let left: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".run")), "{left:?}");
}
