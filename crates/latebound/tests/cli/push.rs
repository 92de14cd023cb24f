// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound push`: every Run of a spool reaches the store once, whatever happens on the way.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use latebound_fleet::SimulatedFleet;
use latebound_model::{Activation, Cpu, LossKind, Nanos, Run, Task};
use latebound_store::{Spool, read_run};

use crate::random_kills::{self, Delays};
use crate::s3::{self, S3Server};
use crate::sshd::Sshd;
use crate::tool::{Ran, assert_says, becomes_true, done, folder, latebound};

const SAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../latebound-import/tests/samples/cyclictest.json");

/// Where Runs go, where they are then, and what a command needs in its environment for that.
struct Place {
    /// For `push`.
    to: String,
    /// For `store`.
    store: String,
    settings: Vec<(&'static str, OsString)>,
}

/// A store in the same folder.
fn near() -> Place {
    Place { to: "fleet".to_owned(), store: "fleet".to_owned(), settings: Vec::new() }
}

fn in_bucket(server: &S3Server, folder: &Path) -> Place {
    let settings = server.settings(folder).into_iter().map(|(name, value)| (name, value.into()));
    let store = server.place().store("lab");
    Place { to: store.clone(), store, settings: settings.collect() }
}

fn over_ssh(server: &Sshd, folder: &Path) -> Place {
    // A name that a shell would take apart.
    let store = folder.join("the fleet's");
    Place { to: server.place(&store), store: store.to_str().unwrap().to_owned(), settings: server.settings() }
}

fn pushing(folder: &Path, place: &Place) -> Command {
    let mut command = latebound(folder);
    command.args(["push", "--spool", "spool", "--host", "rt-07", "--store", &place.to]);
    command.envs(place.settings.iter().cloned());
    command
}

fn push(folder: &Path, place: &Place) -> Ran {
    crate::tool::ran(&mut pushing(folder, place))
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

fn json(folder: &Path, place: &Place, verb: &str) -> serde_json::Value {
    let mut command = latebound(folder);
    command.args(["store", verb, "--format", "json", "--store", &place.store]);
    let ran = crate::tool::ran(command.envs(place.settings.iter().cloned()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

/// How many Runs the store counts; it is whole.
fn counted(folder: &Path, place: &Place) -> u64 {
    let verified = json(folder, place, "verify");
    assert_eq!(verified["damaged"].as_array().unwrap().len(), 0, "{verified}");
    verified["intervals"].as_u64().unwrap()
}

#[test]
fn runs_leave_the_spool_for_the_store() {
    let folder = folder();
    let run = sample(folder.path());
    spool(folder.path(), &run, 0..130);
    let pushed = push(folder.path(), &near());
    assert_eq!((pushed.code, pushed.err.as_str()), (Some(0), ""), "{pushed:?}");
    assert!(pushed.out.starts_with("130 Runs moved to "), "{pushed:?}");
    assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 0);
    assert_eq!(counted(folder.path(), &near()), 130);
    // 60 at once are a commit.
    let listed = json(folder.path(), &near(), "list");
    assert_eq!(listed["partitions"].as_array().unwrap().len(), 1, "{listed}");
    // Of an empty spool there is nothing to move.
    let again = push(folder.path(), &near());
    assert!(again.code == Some(0) && again.out.starts_with("0 Runs"), "{again:?}");
}

#[test]
fn by_the_hour_a_run_stays_until_its_hour_is_over() {
    let folder = folder();
    let mut run = sample(folder.path());
    let hour_ago = |hours: i64| {
        let begin = Timestamp::now() - SignedDuration::from_hours(hours);
        begin.strftime("%Y-%m-%dT%H:00:00Z").to_string()
    };
    run.started_at = hour_ago(3);
    spool(folder.path(), &run, 0..3);
    run.started_at = hour_ago(2);
    spool(folder.path(), &run, 3..5);
    run.started_at = Timestamp::now().to_string();
    let going_on = spool(folder.path(), &run, 5..7);
    let pushed = crate::tool::ran(pushing(folder.path(), &near()).arg("--by-hour"));
    assert!(pushed.code == Some(0) && pushed.out.starts_with("5 Runs moved to "), "{pushed:?}");
    assert!(going_on.iter().all(|place| place.exists()));
    assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 2);
    assert_eq!(counted(folder.path(), &near()), 5);
    let listed = json(folder.path(), &near(), "list");
    let partitions = listed["partitions"].as_array().unwrap();
    assert!(partitions.iter().all(|one| one["level"] == "hour"), "{listed}");
    // As single Runs they are moved at once.
    let pushed = push(folder.path(), &near());
    assert!(pushed.out.starts_with("2 Runs moved to "), "{pushed:?}");
    assert_eq!(counted(folder.path(), &near()), 7);
}

#[test]
fn a_run_that_lost_its_detail_after_its_commit_counts_once() {
    let folder = folder();
    let mut run = sample(folder.path());
    let (series, mechanism) = (run.series[0].id.clone(), run.series[0].mechanism);
    let (due, late) = (run.started_monotonic, run.started_monotonic + Nanos(1_000));
    run.worst_of_series = vec![Activation::of_thread(series, mechanism, Task::default(), Cpu(0), due, late)];
    let places = spool(folder.path(), &run, 0..3);
    assert!(push(folder.path(), &near()).out.starts_with("3 Runs moved to "));
    // A push that was killed before it removed them: the spool reached its limit meanwhile.
    run.remove_detail("spool", "the spool reached its limit", "push in time");
    assert_eq!(spool(folder.path(), &run, 0..3), places);
    let pushed = push(folder.path(), &near());
    assert!(pushed.code == Some(0) && pushed.out.starts_with("0 Runs moved to "), "{pushed:?}");
    assert_says(&pushed.out, &["3 were there before"]);
    assert_eq!(counted(folder.path(), &near()), 3);
    assert!(!places.iter().any(|place| place.exists()));
    // One that has only its sums is moved like any other, and the store has what it lost.
    spool(folder.path(), &run, 3..4);
    assert!(push(folder.path(), &near()).out.starts_with("1 Run moved to "));
    let export = ["store", "export", "--store", "fleet", "--host", "rt-07", "--output", "all.run"];
    done(folder.path(), &export);
    let exported = read_run(folder.path().join("all.run")).unwrap();
    let lost = exported.losses.iter().find(|loss| loss.kind == LossKind::SampleDropped).unwrap();
    assert_eq!((&*lost.place, lost.count), ("spool", Some(1)));
}

#[test]
fn a_run_that_cannot_be_read_stays_and_is_named() {
    let folder = folder();
    let run = sample(folder.path());
    let places = spool(folder.path(), &run, 0..3);
    fs::write(places[1].join("run.json"), "{").unwrap();
    // A name that no spool gave is nobody's business.
    fs::create_dir(folder.path().join("spool/mine.run")).unwrap();
    let pushed = push(folder.path(), &near());
    assert_eq!(pushed.code, Some(1), "{pushed:?}");
    assert!(pushed.out.starts_with("2 Runs moved"), "{pushed:?}");
    assert!(pushed.err.contains("serve-20261127T000001Z.run stays in the spool"), "{pushed:?}");
    assert_eq!(counted(folder.path(), &near()), 2);
    assert!(places[1].exists() && !places[0].exists() && folder.path().join("spool/mine.run").exists());
}

#[test]
fn a_spool_or_a_store_that_is_not_there_is_an_error() {
    let folder = folder();
    let pushed = push(folder.path(), &near());
    assert!(pushed.code == Some(1) && pushed.err.contains("--spool"), "{pushed:?}");
    let run = sample(folder.path());
    let places = spool(folder.path(), &run, 0..1);
    fs::write(folder.path().join("fleet"), "no folder").unwrap();
    let pushed = push(folder.path(), &near());
    assert!(pushed.code == Some(1) && pushed.err.contains("--store"), "{pushed:?}");
    assert!(places[0].exists());
}

const USUAL_KILLS: u64 = 40;

#[test]
fn pushes_killed_at_any_moment_lose_and_double_nothing() {
    let folder = folder();
    killed_pushes(folder.path(), &near(), USUAL_KILLS, kill_push);
}

#[test]
fn pushes_to_a_bucket_killed_at_any_moment_lose_and_double_nothing() {
    let (server, folder) = (S3Server::start(), folder());
    killed_pushes(folder.path(), &in_bucket(&server, folder.path()), USUAL_KILLS, kill_push);
}

#[test]
fn pushes_over_ssh_killed_at_any_moment_lose_and_double_nothing() {
    let (server, folder) = (Sshd::start(), folder());
    killed_pushes(folder.path(), &over_ssh(&server, folder.path()), USUAL_KILLS / 2, kill_push);
}

#[test]
fn pushes_whose_ssh_is_killed_at_any_moment_lose_and_double_nothing() {
    let (server, folder) = (Sshd::start(), folder());
    killed_pushes(folder.path(), &over_ssh(&server, folder.path()), USUAL_KILLS / 2, kill_ssh);
}

fn kill_push(pushing: &mut Child) {
    let _ = pushing.kill();
}

/// Kills the child of a push.
fn kill_ssh(pushing: &mut Child) {
    let parent = format!("PPid:\t{}", pushing.id());
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let Some(id) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else { continue };
        // One that ended meanwhile has no status.
        let status = fs::read_to_string(path.join("status")).unwrap_or_default();
        if status.lines().any(|line| line == parent) {
            // SAFETY: kill sends a signal to a child of our own child, which waits for it.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
    }
}

/// Pushes three Runs again and again, and kills somebody after a time that lets half of the pushes come to a commit; then once to the end.
#[allow(clippy::print_stderr, reason = "what kills met is said")]
fn killed_pushes(folder: &Path, place: &Place, usual: u64, kill: fn(&mut Child)) {
    let (kills, mut delays) = (random_kills::asked().unwrap_or(usual), Delays::new());
    let run = sample(folder);
    let left = || {
        fs::read_dir(folder.join("spool"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".run"))
            .count()
    };
    spool(folder, &run, 0..3);
    let started = Instant::now();
    assert_eq!(push(folder, place).code, Some(0));
    let mut span = started.elapsed() * 2;
    let (mut in_the_middle, mut moved) = (0, 0);
    for number in 1..=kills {
        // With more and more to push, all kills would come before a commit.
        if left() > 5 * 3 {
            assert_eq!(push(folder, place).code, Some(0));
        }
        spool(folder, &run, 3 * number..3 * (number + 1));
        let before = left();
        let quiet = (Stdio::null(), Stdio::null());
        let mut pushing = pushing(folder, place).stdout(quiet.0).stderr(quiet.1).spawn().unwrap();
        std::thread::sleep(delays.below(span));
        let has_ended = pushing.try_wait().unwrap().is_some();
        in_the_middle += u64::from(!has_ended);
        kill(&mut pushing);
        pushing.wait().unwrap();
        let has_moved = left() < before;
        span = span.mul_f64(match (has_ended, has_moved) {
            // The first push may have taken many times as long as the others do.
            (true, _) => 0.7,
            (false, true) => 0.95,
            // A machine that gets busier needs longer.
            (false, false) => 1.05,
        });
        moved += u64::from(has_moved);
    }
    eprintln!(
        "{in_the_middle} of {kills} pushes were killed, at last within {span:?}; {moved} had moved Runs"
    );
    assert!(moved >= kills / 20, "{moved} of {kills} pushes came as far as a commit");
    assert!(in_the_middle > kills / 10, "{in_the_middle} of {kills} were still at it");
    let last = push(folder, place);
    assert_eq!(last.code, Some(0), "{last:?}");
    assert_eq!(counted(folder, place), 3 * (kills + 1));
    assert_eq!(left(), 0);
}

#[test]
fn a_bucket_that_goes_away_in_the_middle_of_a_push_loses_nothing() {
    const RUNS: u64 = 400;
    let (mut server, folder) = (S3Server::start(), folder());
    let place = in_bucket(&server, folder.path());
    let places = spool(folder.path(), &sample(folder.path()), 0..RUNS);
    let output = (Stdio::piped(), Stdio::piped());
    let pushing = pushing(folder.path(), &place).stdout(output.0).stderr(output.1).spawn().unwrap();
    assert!(becomes_true(Duration::from_secs(30), || !places[0].exists()), "nothing was pushed");
    server.kill();
    let pushed = Ran::of(pushing.wait_with_output().unwrap());
    assert_eq!(pushed.code, Some(1), "{pushed:?}");
    assert!(pushed.err.contains("AWS_ENDPOINT_URL") && !pushed.err.contains(s3::SECRET), "{pushed:?}");
    assert!(places.last().unwrap().exists(), "everything was pushed before the server went away");
    server.restart();
    let again = push(folder.path(), &place);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(counted(folder.path(), &place), RUNS);
    assert!(!places.iter().any(|place| place.exists()));
}

#[test]
fn what_the_other_end_of_ssh_says_is_shown_and_the_spool_keeps_the_runs() {
    let (server, folder) = (Sshd::start(), folder());
    let places = spool(folder.path(), &sample(folder.path()), 0..2);
    fs::write(folder.path().join("the fleet's"), "no folder").unwrap();
    let place = over_ssh(&server, folder.path());
    let pushed = push(folder.path(), &place);
    assert_eq!(pushed.code, Some(1), "{pushed:?}");
    assert_says(&pushed.err, &["ssh://collector:", "the fleet's", "not a directory", "the spool keeps them"]);
    // A host that nobody knows.
    let unknown = Place { to: "ssh://nobody.invalid/srv/fleet".to_owned(), ..place };
    let pushed = push(folder.path(), &unknown);
    assert_eq!(pushed.code, Some(1), "{pushed:?}");
    assert_says(&pushed.err, &["nobody.invalid", "latebound --version"]);
    assert!(places.iter().all(|place| place.exists()));
}

#[test]
fn runs_that_are_pushed_over_ssh_are_those_of_the_spool() {
    let (server, folder) = (Sshd::start(), folder());
    let place = over_ssh(&server, folder.path());
    spool(folder.path(), &sample(folder.path()), 0..130);
    let pushed = push(folder.path(), &place);
    assert_eq!((pushed.code, pushed.err.as_str()), (Some(0), ""), "{pushed:?}");
    assert!(pushed.out.starts_with("130 Runs moved to ssh://collector:"), "{pushed:?}");
    assert_eq!(counted(folder.path(), &place), 130);
    let listed = json(folder.path(), &place, "list");
    assert_eq!(listed["partitions"][0]["host"], "rt-07", "{listed}");
}

/// Of a process, in KiB, once it has ended: no less than it had, and no less than this test had when it was started.
fn most_memory(process: &Child) -> i64 {
    let (id, mut status) = (i32::try_from(process.id()).unwrap(), 0);
    // SAFETY: a rusage of zeros is one, and the child is our own, for which nobody waited yet.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(id, &raw mut status, 0, &raw mut usage), id);
        usage
    };
    assert_eq!(status, 0);
    usage.ru_maxrss
}

#[test]
#[allow(clippy::print_stderr, reason = "the figure is kept")]
fn by_the_hour_a_push_holds_the_rows_of_one_run_at_a_time() {
    const RUNS: u32 = 360;
    let folder = folder();
    let fleet = SimulatedFleet {
        cpus: 64,
        day: "2026-11-26".parse().unwrap(),
        interval_us: 10_000_000,
        intervals: RUNS,
        wakeups_per_second: 100,
        seed: 1,
    };
    let host = fleet.host(1);
    let mut spool = Spool::open(&folder.path().join("spool"), 1 << 40).unwrap();
    for number in 0..RUNS {
        spool.write(&format!("20261126T{number:06}Z"), &host.run(number)).0.unwrap();
    }
    let mut pushing = pushing(folder.path(), &near());
    let most = most_memory(&pushing.arg("--by-hour").stdout(Stdio::null()).spawn().unwrap());
    eprintln!("{most} KiB for {RUNS} Runs");
    // Their rows together are 370 MiB.
    assert!(most < 64 << 10, "{most} KiB");
    assert_eq!(counted(folder.path(), &near()), u64::from(RUNS));
    assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 0);
}
