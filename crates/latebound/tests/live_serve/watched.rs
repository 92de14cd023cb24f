// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `serve` measures and explains beside: each interval has its own worst wake-ups, and what they waited for is in the metrics.

use std::process::{Command, Stdio};
use std::time::Duration;

use latebound_model::{CauseKind, Explanation, Nanos, Quantity, Run, RunState, RunVerb};

use crate::control_group::Group;
use crate::killed::Killed;
use crate::service::{DURATIONS, Service, all_runs, becomes_true, fresh, number};

const PATH: &str = "/latebound-test-serve";
/// Of a pod, as the names of its groups have it.
const UID: &str = "1b2c3d4e_5f60_7182_93a4_b5c6d7e8f902";
/// Between two wake-ups of a measuring thread.
const PERIOD: Nanos = Nanos::from_millis(5);
/// For so long a thread of real time keeps the CPU once.
const HELD: Nanos = Nanos::from_millis(60);

/// A program on the first CPU.
fn perl(prefix: &[&str], program: &str) -> Killed {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).args(prefix).args([
        "perl",
        "-MTime::HiRes=usleep,clock_gettime,CLOCK_MONOTONIC",
        "-e",
        program,
    ]);
    Killed(command.stdin(Stdio::null()).spawn().unwrap())
}

/// Keeps the first CPU once, by a real-time thread of this name. It was switched in as another: as the program that starts it.
fn hold(name: &str) {
    let held = HELD.0 as f64 / 1e9;
    let program = format!(
        "$0 = '{name}'; my $end = clock_gettime(CLOCK_MONOTONIC) + {held}; 1 while clock_gettime(CLOCK_MONOTONIC) < $end"
    );
    let mut hog = perl(&["chrt", "-f", "60"], &program);
    assert!(hog.0.wait().unwrap().success());
}

/// How long a late one waited while a thread of this name ran first.
fn held_by(late: &Explanation, name: &str) -> Nanos {
    let ran = late.causes.iter().filter(|cause| {
        cause.kind == CauseKind::TaskFirst && cause.task.as_ref().is_some_and(|task| task.comm == name)
    });
    ran.fold(Nanos::ZERO, |sum, cause| sum + cause.duration)
}

fn of_group(run: &Run) -> Vec<&Explanation> {
    let is_of = |one: &&Explanation| one.member(one.task.tid).is_some_and(|member| member.group == PATH);
    run.worst.iter().filter(is_of).collect()
}

/// Waits until so many intervals are in the spool.
fn wait_for(service: &Service, intervals: f64) {
    let ended = || {
        fresh();
        number(&service.protobuf(), "latebound_intervals_written_total") >= intervals
    };
    assert!(becomes_true(Duration::from_secs(40), ended), "{intervals} intervals");
}

/// Watches what is not there yet, and starts it in this group.
fn starts_later(option: &str, word: &str, path: &str) {
    let _live = super::live();
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let mut service = Service::start(&spool, |command| {
        command.args(["--interval", "2s", "--mechanism", "softirq", option, word]);
    });
    wait_for(&service, 1.0);
    let group = Group::unified(path);
    // Groups of its own making lie below a container.
    let below = Group::unified(&format!("{path}/below"));
    let sleeper = perl(&[], "usleep(2000) while 1");
    below.join(&sleeper);
    wait_for(&service, 7.0);
    assert_eq!(service.terminate(), Some(0));
    drop((sleeper, below, group));

    let runs = all_runs(&spool);
    let absent = |run: &&Run| run.missing.iter().any(|missing| missing.what.contains(word));
    let explained = |run: &&Run| run.worst.iter().any(|one| one.series.contains(path));
    assert!(absent(&&runs[0]) && !explained(&&runs[0]), "{:?}", runs[0].missing);
    let later: Vec<&Run> = runs.iter().filter(|run| !absent(run)).collect();
    assert!(later.iter().filter(|run| explained(run)).count() >= 2, "{:?}", runs.last().unwrap().worst);
    assert!(runs.iter().all(|run| !(absent(&run) && explained(&run))));
}

#[test]
fn live_serve_explains_a_unit_that_starts_later() {
    starts_later("--explain-unit", "latebound-test-later", "/latebound-test-later.service");
}

#[test]
fn live_serve_explains_a_container_that_starts_later() {
    let prefix = format!("7c12{:08x}", std::process::id());
    starts_later("--explain-container", &prefix, &format!("/docker-{prefix:0<64}.scope"));
}

#[test]
fn live_serve_says_who_held_a_container_and_a_real_time_thread_up() {
    let _live = super::live();
    let prefix = format!("7c13{:08x}", std::process::id());
    let pod = Group::unified(&format!("/kubepods-pod{UID}.slice"));
    let container = Group::unified(&format!("{}/cri-containerd-{prefix:0<64}.scope", pod.path));
    let sleeper = perl(&[], "usleep(2000) while 1");
    container.join(&sleeper);
    let victim = perl(&["chrt", "-f", "50"], "$0 = 'lb-victim'; usleep(2000) while 1");
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let mut service = Service::start(&spool, |command| {
        command.args(["--interval", "3s", "--mechanism", "softirq", "--worst", "3"]);
        command.args(["--explain-container", &prefix, "--explain-rt"]);
    });
    wait_for(&service, 1.0);
    let from = latebound_syscall::clock::now();
    hold("lb-hog");
    wait_for(&service, 3.0);
    let text = service.text();
    assert_eq!(service.terminate(), Some(0));
    drop((sleeper, victim, container, pod));

    let path = format!("/kubepods-pod{UID}.slice/cri-containerd-{prefix:0<64}.scope");
    let runs = all_runs(&spool);
    let mut by_hog = [0, 0];
    for (run, explained) in runs.iter().flat_map(|run| run.worst.iter().map(move |one| (run, one))) {
        assert!(explained.adds_up(), "{explained:?}");
        // Each is in a distribution that is there, of the container or of all real-time threads.
        assert!(run.series.iter().any(|series| series.id == explained.series), "{}", explained.series);
        let is_container = explained.series.contains(&path);
        assert!(is_container || explained.series.contains("real-time threads"), "{}", explained.series);
        if explained.until() < from || held_by(explained, "lb-hog") < HELD - Nanos::from_millis(10) {
            continue;
        }
        let member = explained.member(explained.task.tid).unwrap();
        if is_container {
            assert_eq!(member.group, path);
            by_hog[0] += 1;
            let blamed = run.blame.iter().any(|row| row.whom.as_deref() == Some(&path));
            assert!(blamed, "{:?}", run.blame);
        } else if explained.task.comm == "lb-victim" {
            assert_ne!(member.group, path);
            by_hog[1] += 1;
        }
    }
    let comms: Vec<_> =
        runs.iter().flat_map(|run| &run.worst).map(|one| (&one.task.comm, one.length())).collect();
    assert_eq!(by_hog, [1, 1], "{comms:?}");
    for subject in [path.as_str(), "real-time threads"] {
        let label = format!("subject=\"{subject}\"");
        assert!(text.lines().any(|line| line.starts_with(DURATIONS) && line.contains(&label)), "{label}");
    }
}

#[test]
fn live_serve_explains_a_group_and_its_own_wakeups_in_each_interval() {
    let _live = super::live();
    let group = Group::unified(PATH);
    let sleeper = perl(&[], "usleep(2000) while 1");
    group.join(&sleeper);
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let mut service = Service::start(&spool, |command| {
        let period = PERIOD.to_string().replace(' ', "");
        command.args(["--interval", "3s", "--explain-cgroup", PATH, "--worst", "3"]);
        command.args(["--measure", "--measure-cpus", "0", "--measure-period", &period]);
    });
    wait_for(&service, 2.0);
    // Once, in the middle of the third or fourth interval: all later ones are shorter.
    let from = latebound_syscall::clock::now();
    hold("perl");
    wait_for(&service, 6.0);
    // A unit that starts again has a new group of the same path.
    drop((sleeper, group));
    let group = Group::unified(PATH);
    let sleeper = perl(&[], "usleep(2000) while 1");
    group.join(&sleeper);
    wait_for(&service, 8.0);
    let after = service.protobuf();
    let told = number(&after, "latebound_intervals_written_total") as usize;
    assert_eq!(service.terminate(), Some(0));

    let runs = all_runs(&spool);
    super::assert_no_gap(&runs);
    let all: Vec<&Explanation> = runs.iter().flat_map(|run| &run.worst).collect();
    assert!(all.iter().all(|one| one.adds_up()), "{all:?}");
    for run in runs.iter().filter(|run| run.state == RunState::Complete) {
        assert_eq!((run.verb.clone(), run.measure.as_ref().unwrap().period), (RunVerb::Check, PERIOD));
        let own = of_group(run);
        let measured: Vec<&Explanation> =
            run.worst.iter().filter(|one| one.task.comm.starts_with("measure")).collect();
        assert!((1..=3).contains(&own.len()) && (1..=3).contains(&measured.len()), "{:?}", run.worst);
        // Of this interval, or of the moment before it in which the one before was read.
        let begin = run.started_monotonic.saturating_sub(Nanos::from_millis(500));
        assert!(run.worst.iter().all(|one| one.requested_at >= begin), "{:?}", run.worst);
        let series = |name: &str, quantity| {
            let mut of = run.series.iter().filter(|one| one.subject.name == name && one.quantity == quantity);
            (of.next().unwrap_or_else(|| panic!("no {name}")).summary.count, of.count())
        };
        let (wakeups, more) = series("measure", Quantity::Latency);
        let due = run.duration.0 / PERIOD.0;
        // In the first one the programs are loaded first.
        let is_first = run.started_at == runs[0].started_at;
        assert!(more == 0 && wakeups <= due + 3 + due / 50, "{wakeups} of {due}");
        assert!(is_first || wakeups + 3 + due / 50 >= due, "{wakeups} of {due}");
        assert!(series(PATH, Quantity::LatencyNaive).0 > 100, "{}", run.started_at);
        // What is explained belongs to a distribution that is there.
        for one in &run.worst {
            assert!(run.series.iter().any(|series| series.id == one.series), "{}", one.series);
        }
        assert!(run.blame.iter().any(|blame| blame.whom.as_deref() == Some(PATH)), "{:?}", run.blame);
    }

    // The group waited for the hog in one interval, and that is the worst of it; the others do not know of it any more.
    let waited = |run: &&Run| of_group(run).iter().any(|one| one.length() > HELD - Nanos::from_millis(10));
    let hogged: Vec<&Run> = runs.iter().filter(waited).collect();
    let with_hog = hogged.iter().find(|run| of_group(run).iter().any(|one| one.until() > from)).unwrap();
    let worst = of_group(with_hog)[0];
    let first = held_by(worst, "perl");
    assert!(first > HELD - Nanos::from_millis(10), "{:?}", worst.causes);

    // What the metrics say is what the Runs hold that were written by then.
    let lengths: u64 = runs[..told].iter().flat_map(|run| &run.worst).map(|one| one.length().0).sum();
    let explained = number(&after, "latebound_explained_seconds_total");
    assert!((explained - lengths as f64 / 1e9).abs() < 1e-6, "{explained} and {lengths}");
    let count: usize = runs[..told].iter().map(|run| run.worst.len()).sum();
    assert_eq!(number(&after, "latebound_explained_wakeups_total") as usize, count);
}
