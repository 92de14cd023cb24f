// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound tune` as people use it. `live_` tests need root, BPF and a disk below the build folder; nothing on this machine is
//! changed by any of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

mod victims;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use latebound_system::{Root, undo};
use serde_json::Value;

use victims::{Lateness, Messages, Victim};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tune(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_latebound")).arg("tune").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refused(arguments: &[&str]) -> String {
    let output = tune(arguments);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    text(&output.stderr)
}

#[test]
fn the_printed_configuration_is_one_that_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tune.toml");
    fs::write(&path, tune(&["config"]).stdout).unwrap();
    let config = latebound_tune::Config::parse(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(config.policy, latebound_tune::PolicyKind::WeightedAverage);
}

#[test]
fn a_dangerous_configuration_is_refused_with_the_reason_before_any_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tune.toml");
    fs::write(&path, "[class.rcu]\npriority = 9\n[class.ksoftirqd]\npriority = 10\n").unwrap();
    let said = refused(&["run", "--config", path.to_str().unwrap()]);
    assert!(said.contains("RCU may not be below ksoftirqd") && said.contains("give at most 9"), "{said}");
    let said = refused(&["map", "--config", "/nowhere/tune.toml"]);
    assert!(said.contains("latebound tune config"), "{said}");
}

#[test]
fn the_service_s_exposure_is_3_5_at_most_by_systemd() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/latebound-tune.service");
    // In tenths. The exit status says whether it is exposed more than that.
    let is_within = |threshold: u32| {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--offline=true", "--no-pager", &format!("--threshold={threshold}")]);
        let output = analyze.arg(&unit).output().unwrap();
        let said = text(&output.stdout);
        assert!(said.contains("Overall exposure level"), "{output:?}");
        (output.status.success(), said)
    };
    let (within, said) = is_within(35);
    assert!(within, "{said}");
    assert!(!is_within(1).0, "no service that sets priorities is as closed as that");
}

/// The inversion of figure 1 of the paper, as docs/src/guide/tune.md shows it.
const WORKLOAD: &str = include_str!("../../../docs/src/reference/tune-workload.json");

#[test]
fn fit_finds_the_weight_and_shows_every_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workload.json");
    fs::write(&path, WORKLOAD).unwrap();
    let output = tune(&["fit", path.to_str().unwrap(), "--loss", "20", "--format", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let worst = |policy: &str| {
        let of = |one: &&Value| one["policy"] == policy;
        let policy = document["policies"].as_array().unwrap().iter().find(of).unwrap();
        policy["tasks"][0]["worst"].as_u64().unwrap()
    };
    // Computed by hand in crates/latebound-tune/tests/simulation.rs, in microseconds here.
    assert_eq!((worst("off"), worst("pip"), worst("weighted-average")), (113_000, 12_000, 113_000));
    assert_eq!((worst("fitted"), &document["weights"][0][1]), (12_000, &Value::from(0.9)));
    let said = refused(&["fit", "/nowhere.json"]);
    assert!(said.contains("/nowhere.json"), "{said}");
    fs::write(&path, "{}").unwrap();
    assert!(refused(&["fit", path.to_str().unwrap()]).contains("docs/src/guide/tune.md"));
}

#[test]
fn a_proof_of_one_policy_or_of_an_idle_one_is_refused_before_any_run() {
    let said = refused(&["prove", "--policy", "off", "--", "true"]);
    assert!(said.contains("--policy off,weighted-average"), "{said}");
    let said = refused(&["prove", "--policy", "off,static", "--", "true"]);
    assert!(said.contains("[class.interrupt] priority = 60"), "{said}");
    let said = refused(&["prove", "--policy", "pip,pip", "--", "true"]);
    assert!(said.contains("pip twice"), "{said}");
    let said = refused(&["tasks", "write:priority=0"]);
    assert!(said.contains("priority=0 is not 1 to 99"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no.json");
    fs::write(&path, "{}").unwrap();
    assert!(refused(&["show", path.to_str().unwrap()]).contains("tune prove --format json"));
}

/// A real-time thread that writes blocks and files until it is stopped.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    tid: i32,
    _folder: tempfile::TempDir,
}

impl Writer {
    fn start(priority: i32) -> Writer {
        let folder = tempfile::TempDir::new_in(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))).unwrap();
        let (stop, base) = (Arc::new(AtomicBool::new(false)), folder.path().to_owned());
        let (tell, receiver) = std::sync::mpsc::channel();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let parameters = libc::sched_param { sched_priority: priority };
            // SAFETY: the parameters live through the call; 0 is this thread.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) }, 0);
            // SAFETY: no arguments.
            tell.send(unsafe { libc::gettid() }).unwrap();
            write_until(&base, &stopped);
        });
        Writer { stop, thread: Some(thread), tid: receiver.recv().unwrap(), _folder: folder }
    }
}

fn write_until(base: &Path, stopped: &AtomicBool) {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let page = Box::new(Page([2; 4096]));
    let flags = libc::O_DIRECT | libc::O_DSYNC;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(flags);
    let file = options.open(base.join("blocks")).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let mut number = 0_u64;
    while !stopped.load(Ordering::Relaxed) && Instant::now() < end {
        // Grows, so that the file system has work for its workers.
        file.write_all_at(&page.0, number * 4096).unwrap();
        number += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn live_the_map_names_what_a_real_time_thread_waits_for() {
    let _alone = alone();
    let writer = Writer::start(46);
    let output = tune(&["map", "--duration", "2s", "--format", "json"]);
    let map: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lists = ["softirq", "interrupt", "task"].into_iter().map(|name| &map[name]);
    let threads = map["threads"].as_array().unwrap();
    let waiters: Vec<&Value> = lists
        .chain(threads.iter().map(|one| &one["waiters"]))
        .flat_map(|list| list.as_array().unwrap())
        .collect();
    let times = |over: &str| -> u64 {
        let mine = waiters.iter().filter(|one| one["tid"] == writer.tid && one["over"] == over);
        mine.inspect(|one| assert_eq!(one["priority"], 46)).map(|one| one["times"].as_u64().unwrap()).sum()
    };
    assert!(times("block_io") > 20, "{map:#}");
    for thread in threads {
        assert!(thread["comm"].is_string() && thread["runs_at"]["policy"].is_string(), "{thread:#}");
    }
    drop(writer);
    let shown = text(&tune(&["map", "--duration", "300ms"]).stdout);
    assert!(shown.contains("real-time task"), "{shown}");
}

/// What each kernel thread is scheduled as, those that come and go with their work left out.
fn kernel_threads() -> BTreeMap<i32, String> {
    let threads = latebound_system::threads(&Root::live()).unwrap();
    let steady = threads.into_iter().filter(|thread| thread.kernel && !thread.comm.starts_with("kworker/u"));
    steady.map(|thread| (thread.tid.0, format!("{} {}", thread.policy, thread.rt_priority))).collect()
}

#[test]
fn live_a_dry_run_reports_changes_makes_none_and_writes_its_metrics() {
    let _alone = alone();
    let before = kernel_threads();
    let writer = Writer::start(46);
    let folder = tempfile::tempdir().unwrap();
    let (config, metrics) = (folder.path().join("tune.toml"), folder.path().join("latebound.prom"));
    std::fs::write(&config, format!("[metrics]\nfile = {:?}\n", metrics.display().to_string())).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["tune", "run", "--dry-run", "--duration", "2s", "--format", "json", "--config"])
        .arg(&config)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let changed = |before: &BTreeMap<i32, String>| {
        let now = kernel_threads();
        now.iter().any(|(tid, is)| before.get(tid).is_some_and(|was| was != is))
    };
    while child.try_wait().unwrap().is_none() {
        assert!(!changed(&before));
        std::thread::sleep(Duration::from_millis(50));
    }
    let document: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!((&document["dry_run"], &document["restored"]), (&Value::from(true), &Value::Null));
    assert!(document["changes"].as_u64().is_some() && document["map"]["threads"].is_array());
    let written = std::fs::read_to_string(&metrics).unwrap();
    for line in [
        format!("latebound_tune_changes_total {}", document["changes"]),
        "latebound_tune_running 0".to_owned(),
    ] {
        assert!(written.lines().any(|one| one == line), "{line}\n{written}");
    }
    drop(writer);
}

/// A journal of a process that is gone, which set this one to FIFO 3.
fn leave_behind(folder: &Path, sleeper: &Child) {
    let change = || -> Option<()> {
        let tid = latebound_model::Tid(sleeper.id() as i32);
        let thread = undo::ThreadIdentity::of(&Root::live(), tid).ok()?;
        undo::Journal::create(folder).ok()?.change(thread, undo::Schedule::fifo(3)).ok().map(drop)
    };
    // SAFETY: glibc makes malloc usable again in the child, which calls nothing else that another thread's lock could hold up, and
    // ends without what the harness does at its end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = i32::from(change().is_none());
        // SAFETY: as above.
        unsafe { libc::_exit(status) }
    }
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}

/// Sleeps until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        Sleeper(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn priority(&self) -> u32 {
        undo::schedule_of(latebound_model::Tid(self.0.id() as i32)).unwrap().priority
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn live_doctor_tells_what_the_dead_left_and_undo_gives_it_back() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("latebound");
    let journal = folder.to_str().unwrap();
    let sleeper = Sleeper::start();
    leave_behind(&folder, &sleeper.0);
    assert_eq!(sleeper.priority(), 3);
    // The usual folder is looked at: it lies in a /run of this one's own.
    let finding = || {
        let mut doctor = Command::new("unshare");
        doctor.args([
            "--mount",
            "sh",
            "-c",
            "mount --bind \"$1\" /run && exec \"$2\" doctor --format json",
            "sh",
        ]);
        let output = doctor.arg(base.path()).arg(env!("CARGO_BIN_EXE_latebound")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut findings = found["findings"].as_array().unwrap().iter();
        findings.find(|one| one["id"] == "tuner-left-over").cloned()
    };
    let found = finding().unwrap();
    assert_eq!(
        (&found["severity"], &found["value"], &found["remedy"]),
        (
            &"warning".into(),
            &"1 thread is as a tuner that is gone set it".into(),
            &"latebound tune undo".into()
        )
    );
    // Where others may write nothing is obeyed, and both say so.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(refused(&["undo", "--journal", journal]).contains("others may write to it (mode 0777)"));
    assert_eq!((&finding().unwrap()["severity"], sleeper.priority()), (&"unknown".into(), 3));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();

    let output = tune(&["undo", "--journal", journal, "--format", "json"]);
    assert_eq!((output.status.code(), sleeper.priority()), (Some(0), 0), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let one = &document["journals"][0];
    assert_eq!(
        (&document["schema"], &one["state"], &one["restored"], &one["left"]),
        (&"latebound.tune-undo/1".into(), &"given_back".into(), &1.into(), &serde_json::json!([]))
    );
    assert_eq!(finding(), None);
    let output = tune(&["undo", "--journal", journal]);
    assert!(
        output.status.success() && text(&output.stdout).contains("No tuner left a journal"),
        "{output:?}"
    );
    assert!(tune(&["undo", "--journal", "/nowhere"]).status.success());

    // What somebody else changed since stays, and is reported.
    leave_behind(&folder, &sleeper.0);
    let chrt = Command::new("chrt").args(["--fifo", "--pid", "7"]).arg(sleeper.0.id().to_string()).status();
    assert!(chrt.unwrap().success());
    let output = tune(&["undo", "--journal", journal]);
    let said = text(&output.stdout);
    assert!(output.status.code() == Some(1) && said.contains("by somebody else's doing"), "{output:?}");
    assert_eq!(sleeper.priority(), 7);
}

#[test]
fn live_a_journal_in_use_is_left_alone_also_from_another_pid_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let living = undo::Journal::create(folder.path()).unwrap();
    let journal = folder.path().to_str().unwrap();
    let output = tune(&["undo", "--journal", journal]);
    assert!(output.status.success() && text(&output.stdout).contains("it is at work"), "{output:?}");
    assert!(refused(&["run", "--duration", "1s", "--journal", journal]).contains("is in use"));
    for (proc, verb, status, word) in [
        ("--mount-proc", "undo", 0, "it is at work"),
        ("--mount-proc", "run", 1, "is in use"),
        // Where /proc is of another namespace than system calls are.
        ("--fork", "undo", 1, "mount its own"),
        ("--fork", "run", 1, "mount its own"),
    ] {
        let mut other = Command::new("unshare");
        other.args(["--pid", "--fork", proc, env!("CARGO_BIN_EXE_latebound"), "tune", verb]);
        let output = other.args(["--journal", journal]).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code() == Some(status) && said.contains(word), "{proc} {verb}: {said}");
        assert!(living.is_there(), "{proc} {verb}");
    }
    living.undo();
}

#[test]
fn live_in_its_own_pid_namespace_it_says_no_kernel_thread_is_visible() {
    for verb in ["map", "run"] {
        let output = Command::new("unshare")
            .args([
                "--pid",
                "--fork",
                "--mount-proc",
                env!("CARGO_BIN_EXE_latebound"),
                "tune",
                verb,
                "--duration",
                "1s",
            ])
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("kthreadd"), "{verb}: {said}");
    }
}

#[test]
fn live_recorded_real_time_tasks_agree_with_the_simulation() {
    let _alone = alone();
    let latebound = || Command::new(env!("CARGO_BIN_EXE_latebound"));
    let folder = tempfile::tempdir().unwrap();
    // 2 ms of every 10, and 1 ms of every 20 behind it on the same processor.
    let mut tasks = latebound()
        .args(["tune", "tasks", "--duration", "20s", "--folder"])
        .arg(folder.path())
        .args(["spin:name=first,priority=45,busy=2ms,period=10ms,cpu=0"])
        .args(["spin:name=second,priority=40,busy=1ms,period=20ms,cpu=0"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let place = folder.path().join("workload.json");
    let recorded = latebound()
        .args(["tune", "record", "--duration", "2s", "--format", "json", "--output"])
        .arg(&place)
        .output();
    tasks.kill().unwrap();
    tasks.wait().unwrap();
    let recorded = recorded.unwrap();
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let account: Value = serde_json::from_slice(&recorded.stdout).unwrap();
    let workload: Value = serde_json::from_str(&fs::read_to_string(&place).unwrap()).unwrap();
    assert_eq!(account["lost"], 0, "{account}");
    for (name, priority, busy, count) in [("first", 45, 2_000_000, 200), ("second", 40, 1_000_000, 100)] {
        let all = workload["tasks"].as_array().unwrap();
        let task = all.iter().find(|task| task["name"].as_str().unwrap().starts_with(name)).unwrap();
        assert_eq!((&task["priority"], &task["cpu"]), (&Value::from(priority), &Value::from(0)));
        let activations = task["activations"].as_array().unwrap();
        // A machine that stands still for a while leaves periods out.
        assert!((count * 9 / 10..=count + 1).contains(&activations.len()), "{name}: {}", activations.len());
        let ran = |work: &Value| {
            let steps = work["steps"].as_array().unwrap().iter();
            steps.map(|step| step["run"].as_u64().unwrap_or(0)).sum::<u64>()
        };
        let mut times: Vec<u64> =
            activations.iter().filter(|work| !work["recorded"].is_null()).map(ran).collect();
        times.sort_unstable();
        let median = times[times.len() / 2];
        assert!((busy..busy * 3 / 2).contains(&median), "{name} ran for {median} ns");
    }

    let fit =
        latebound().args(["tune", "fit", "--simulations", "3", "--format", "json"]).arg(&place).output();
    let fit: Value = serde_json::from_slice(&fit.unwrap().stdout).unwrap();
    let agreement = &fit["agreement"];
    assert!(agreement["compared"].as_u64().unwrap() > 250, "{agreement}");
    assert!(agreement["share"].as_f64().unwrap() < 0.1, "{agreement}");
}

/// Waits until a recorder has a thread that reads events, which it has once its programs are attached. Beside a load that takes all of a slow
/// machine that took longer than a minute.
fn await_reader(process: u32) {
    let started = Instant::now();
    let is_reader = |entry: fs::DirEntry| {
        fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name.trim() == "latebound-read")
    };
    let tasks = || fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    while !tasks().any(is_reader) {
        assert!(started.elapsed() < Duration::from_secs(120), "it does not begin to record");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What it adds to how late others are is measured in a guest, by live_victim.rs.
#[test]
fn live_record_under_load_sees_who_becomes_real_time() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("workload.json");
    let messages = Messages::start(8, Duration::from_secs(150));
    let recorder = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["tune", "record", "--duration", "4s", "--format", "json", "--output"])
        .arg(&place)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    await_reader(recorder.id());
    let victim = Victim::start();
    let output = recorder.wait_with_output().unwrap();
    let lateness = victim.end();
    drop(messages);
    assert!(output.status.success(), "{output:?}");
    let account: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tasks = account["tasks"].as_array().unwrap();
    let seen = tasks.iter().find(|task| task["name"].as_str().unwrap().starts_with("victim ")).unwrap();
    assert_eq!(seen["priority"], victims::PRIORITY, "{account:#}");
    let Lateness { wakes, worst, often } = lateness;
    let activations = seen["activations"].as_u64().unwrap();
    assert!(activations > 100, "{wakes} wake-ups, {worst:?} late at most, {often:?}, {account:#}");
    assert!(account["lost_events"].is_u64(), "{account:#}");
    // A quarter of the rings was full at least once.
    assert!(account["events"].as_u64().unwrap() > 300_000, "the load was too small: {account:#}");
}

#[test]
fn a_trace_without_a_workload_is_refused_with_why_and_an_old_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("workload.json");
    let record = |trace: &str, more: &[&str]| {
        let trace =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../latebound-trace/tests/fixtures").join(trace);
        let mut words = vec!["record", trace.to_str().unwrap(), "--output", place.to_str().unwrap()];
        words.extend(more);
        refused(&words)
    };
    let said = record("v7-overwritten.trace.dat", &[]);
    assert!(said.contains("has no sched_waking; record it with trace-cmd"), "{said}");
    let said = record("v7-zstd.trace.dat", &[]);
    assert!(said.contains("in 73 switches and wake-ups of 27.8 ms") && said.contains("chrt(1)"), "{said}");
    assert!(!place.exists(), "nothing is left of a workload that was not made");
    fs::write(&place, "mine").unwrap();
    let said = record("v7-zstd.trace.dat", &[]);
    assert!(said.contains("--force"), "{said}");
    record("v7-zstd.trace.dat", &["--force"]);
    assert_eq!(fs::read_to_string(&place).unwrap(), "mine");
}
