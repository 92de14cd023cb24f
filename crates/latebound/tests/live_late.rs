// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound explain --on-late` beside a program whose jobs are late a known number of times: what is done, in which order, how often.
//!
//! The program is this test program itself, started once more. Its thread `control` has a job each 10 ms, and every so often one that takes
//! 40 ms.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says what it saw"
)]

mod killed;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use killed::Killed;
use latebound_model::{CauseKind, Explanation, Nanos, OnLate, Quantity, Run, RunState};

const MS: u64 = 1_000_000;
const PERIOD: u64 = 10 * MS;
const LATE: u64 = 40 * MS;
/// Above this a job is late; what the machine does to one is below.
const LIMIT: &str = "25ms";
/// For so long no job is late, so that the tool recognises the jobs.
const BEFORE: u64 = 3_000 * MS;

fn now() -> u64 {
    latebound_syscall::clock::now().0
}

fn signal_lines() -> &'static std::sync::OnceLock<i32> {
    static LINES: std::sync::OnceLock<i32> = std::sync::OnceLock::new();
    &LINES
}

extern "C" fn on_signal(_: i32) {
    if let Some(file) = signal_lines().get() {
        // SAFETY: seven bytes that live for ever; write is async-signal-safe.
        unsafe { libc::write(*file, c"signal\n".as_ptr().cast(), 7) };
    }
}

fn sleep(ns: u64) {
    std::thread::sleep(Duration::from_nanos(ns));
}

/// A lock of the C library, which notes who holds it.
struct Lock(std::cell::UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: that is what the lock is for.
unsafe impl Sync for Lock {}

impl Lock {
    fn lock(&self) {
        // SAFETY: it is initialised, and lives for ever.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
    }
}

/// Two locks, which a thread takes at this time, the second one first.
fn crossed_locks(at: u64) -> &'static [Lock; 2] {
    static LOCKS: [Lock; 2] =
        [const { Lock(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)) }; 2];
    std::thread::Builder::new()
        .name("other".to_owned())
        .spawn(move || {
            latebound_syscall::clock::sleep_until(Nanos(at));
            LOCKS[1].lock();
            sleep(100 * MS);
            LOCKS[0].lock();
        })
        .unwrap();
    &LOCKS
}

#[test]
#[ignore = "the program that the tests here watch"]
fn guest_late_jobs() {
    use std::os::fd::IntoRawFd;
    let lines = std::env::var_os("LATEBOUND_LINES").unwrap();
    let every: u64 = std::env::var("LATEBOUND_EVERY_MS").unwrap().parse().unwrap();
    let file = std::fs::OpenOptions::new().append(true).create(true).open(lines).unwrap();
    signal_lines().set(file.into_raw_fd()).unwrap();
    let action = on_signal as extern "C" fn(i32);
    // SAFETY: the handler does nothing but write.
    assert_ne!(unsafe { libc::signal(libc::SIGUSR1, action as libc::sighandler_t) }, libc::SIG_ERR);
    // SAFETY: the name and the parameters live through the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NAME, c"control".as_ptr()), 0);
        let parameters = libc::sched_param { sched_priority: 40 };
        assert_eq!(libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters), 0);
    }
    let started = now();
    let (mut due, mut plant) = (started + PERIOD, started + BEFORE);
    let locks = std::env::var_os("LATEBOUND_DEADLOCK").map(|_| crossed_locks(started + BEFORE));
    while due < started + 60_000 * MS {
        latebound_syscall::clock::sleep_until(Nanos(due));
        if let Some(locks) = &locks {
            plant = u64::MAX;
            if due >= started + BEFORE + PERIOD {
                locks[0].lock();
                sleep(50 * MS);
                locks[1].lock();
            }
        }
        let end = if due >= plant { due + LATE } else { 0 };
        while now() < end {}
        if end > 0 {
            plant += every * MS;
        }
        due = (due + PERIOD).max(now() + MS);
    }
}

/// A folder, and the program that is late so often.
struct Late {
    folder: tempfile::TempDir,
    program: Killed,
}

impl Late {
    fn every(milliseconds: u64) -> Late {
        Late::with(milliseconds, &[])
    }

    fn with(milliseconds: u64, environment: &[(&str, &str)]) -> Late {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["guest_late_jobs", "--exact", "--ignored"]).stdout(Stdio::null());
        program.env("LATEBOUND_LINES", folder.path().join("lines"));
        program.env("LATEBOUND_EVERY_MS", milliseconds.to_string()).envs(environment.iter().copied());
        Late { program: Killed(program.spawn().unwrap()), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("lines")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn explain(&self, duration: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latebound"));
        command.args(["explain", "--pid", &self.program.0.id().to_string(), "--cycle", "clock_nanosleep"]);
        command.args(["--duration", duration, "--on-late", LIMIT, "--output"]).arg(self.path("my.run"));
        command.args(arguments).args(["--format", "json"]).env("LINES_FILE", self.path("lines"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, duration: &str, arguments: &[&str]) -> Run {
        of(self.explain(duration, arguments).output().unwrap())
    }
}

fn of(output: std::process::Output) -> Run {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// How many jobs and wake-ups of the thread took longer than the limit, by the distributions, where each is a job once jobs are followed.
fn longer(run: &Run) -> u64 {
    let of_thread = |name: &str| name.starts_with("control/");
    let responses = run.series.iter().filter(|series| series.quantity == Quantity::Response);
    let responses = responses.filter(|series| of_thread(&series.subject.name));
    responses
        .flat_map(|series| series.histogram.buckets())
        .filter(|bucket| bucket.low.0 > 25 * MS)
        .map(|bucket| bucket.count)
        .sum()
}

fn on_late(run: &Run) -> &OnLate {
    run.on_late.as_ref().unwrap()
}

/// The worst jobs and wake-ups of the threads of this name, by the events of a save.
fn explained_again(save: &Path, comm: &str) -> Vec<Explanation> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latebound"));
    command.args(["explain", "--comm", comm, "--cycle", "clock_nanosleep", "--format", "json", "--trace"]);
    let output = command.arg(save).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What `latebound report` prints of it.
fn reported(path: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_latebound")).arg("report").arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The kernel's trace, switched on until dropped.
struct TracingOn(String);

const TRACING_ON: &str = "/sys/kernel/tracing/tracing_on";

impl TracingOn {
    fn set(on: &str) -> TracingOn {
        let before = std::fs::read_to_string(TRACING_ON).unwrap();
        std::fs::write(TRACING_ON, on).unwrap();
        TracingOn(before)
    }
}

impl Drop for TracingOn {
    fn drop(&mut self) {
        let _ = std::fs::write(TRACING_ON, &self.0);
    }
}

#[test]
fn live_late_jobs_are_acted_on_in_order_and_each_action_is_counted() {
    let _tracing = TracingOn::set("1");
    let late = Late::every(900);
    let note = "run:echo \"$LATEBOUND_TRIGGER $LATEBOUND_KIND $LATEBOUND_COMM $LATEBOUND_TID $LATEBOUND_LATE_NS $LATEBOUND_SAVE\" >> $LINES_FILE";
    let arguments = ["--rest", "0ns", "--saves", "2", "--do", "save", "--do", note, "--do", "signal:USR1"];
    let run = late.run("7s", &[&arguments[..], &["--do", "marker", "--do", "run:exit 3"]].concat());
    let done = on_late(&run);
    println!("{done:?}");
    assert_eq!(done.triggers + done.resting, longer(&run), "{done:?}");
    assert!((3..=5).contains(&done.triggers), "one each 0.9 s, for some 4 s: {done:?}");
    assert_eq!(done.resting, 0, "{done:?}");
    let counts: Vec<(u64, u64)> = done.actions.iter().map(|action| (action.done, action.failed)).collect();
    let all = done.triggers;
    assert_eq!(counts, [(2, 0), (all, 0), (all, 0), (all, 0), (0, all)]);
    assert_eq!(done.unsaved, all - 2);
    assert_eq!(done.actions[4].last_failure.as_deref(), Some("it ended with status 3"));

    // The command knows the save, and comes before the signal.
    let lines = late.lines();
    assert_eq!(lines.len() as u64, 2 * all, "{lines:?}");
    let (pid, folder) = (late.program.0.id(), late.path("my.run.late"));
    for (pair, number) in lines.chunks(2).zip(1..) {
        let words: Vec<&str> = pair[0].splitn(6, ' ').collect();
        let (tid, took) = (words[3].parse::<u32>().unwrap(), words[4].parse::<u64>().unwrap());
        assert_eq!(words[..3], [number.to_string().as_str(), "job", "control"]);
        assert!(tid > pid && (LATE..LATE + 20 * MS).contains(&took), "{pair:?}");
        let save = folder.join(format!("{number}.run")).display().to_string();
        assert_eq!(words[5], if number <= 2 { save.as_str() } else { "" });
        assert_eq!(pair[1], "signal");
    }
    let trace = std::fs::read_to_string("/sys/kernel/tracing/trace").unwrap();
    let tid = &done.saves[0].late.task.tid;
    for number in 1..=all {
        let marker = format!("latebound: trigger {number}: job of control/{tid} took");
        assert_eq!(trace.matches(&marker).count(), 1, "{marker}");
    }

    // What was saved is a Run like any other.
    for save in &done.saves {
        let path = folder.join(&save.run);
        let saved = latebound_store::read_run(&path).unwrap();
        let (stretch, worst) = (saved.stretch.as_ref().unwrap(), &saved.worst[0]);
        assert_eq!(stretch.late, save.late);
        assert_eq!((worst.task.tid, worst.requested_at), (*tid, save.late.requested_at));
        assert!(worst.length().0 >= LATE && worst.adds_up());
        let own: u64 = worst
            .causes
            .iter()
            .filter(|cause| cause.kind == CauseKind::OwnCode)
            .map(|cause| cause.duration.0)
            .sum();
        assert!(own > 30 * MS, "{worst:?}");
        let mut count = 0;
        latebound_store::visit_events(&path, |event| {
            assert!(event.at >= stretch.from && event.at <= stretch.to, "{event:?}");
            count += 1;
        })
        .unwrap();
        let table = saved.tables.iter().find(|table| table.file == latebound_store::EVENTS_FILE).unwrap();
        assert!(count > 100 && table.rows == count, "{count} {table:?}");
        // The events alone give the same answer, and one for any other thread.
        let again = explained_again(&path, "control");
        let same = again.iter().find(|one| one.requested_at == worst.requested_at).unwrap();
        let shares = |of: &Explanation| -> Vec<(CauseKind, Nanos)> {
            of.causes.iter().map(|cause| (cause.kind, cause.duration)).collect()
        };
        assert_eq!(shares(same), shares(worst));
        let text = reported(&path);
        assert!(text.starts_with("Saved by trigger ") && text.contains("own code of control"), "{text}");
    }
    let text = reported(&late.path("my.run"));
    assert!(text.contains("run:exit (1 words not kept): done 0 times, failed"), "{text}");
}

#[test]
fn live_late_jobs_within_the_rest_are_counted_and_stop_ends_the_run() {
    let late = Late::every(150);
    let run = late.run("6s", &["--rest", "1s", "--saves", "1"]);
    let done = on_late(&run);
    println!("{done:?}");
    assert_eq!(done.triggers + done.resting, longer(&run), "{done:?}");
    assert!((2..=4).contains(&done.triggers) && done.resting >= 10, "{done:?}");
    assert_eq!((done.saves.len(), done.unsaved), (1, done.triggers - 1));

    let (started, _tracing) = (Instant::now(), TracingOn::set("0"));
    let run = late.run("60s", &["--force", "--do", "signal:USR1", "--do", "marker", "--do", "stop"]);
    let marker = &on_late(&run).actions[1];
    assert_eq!((marker.done, marker.failed), (0, 1));
    assert!(marker.last_failure.as_ref().unwrap().contains("tracing_on"), "{marker:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!((run.state, on_late(&run).triggers), (RunState::Interrupted, 1));
    assert_eq!(late.lines(), ["signal"]);
    assert!(!run.worst.is_empty() && latebound_store::read_run(late.path("my.run")).unwrap() == run);
}

#[test]
fn live_late_command_that_hangs_holds_up_neither_the_run_nor_ctrl_c() {
    let late = Late::every(150);
    let hang = "run:trap '' INT TERM HUP; echo $$ >> $LINES_FILE; sleep 100 & sleep 100; sleep 100";
    let child = late.explain("60s", &["--rest", "0ns", "--do", hang]).spawn().unwrap();
    let started = Instant::now();
    while late.lines().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
    let asked = Instant::now();
    // SAFETY: takes integers.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let run = of(child.wait_with_output().unwrap());
    let took = asked.elapsed();
    let done = on_late(&run);
    println!("{took:?} {done:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!((done.triggers, done.actions[0].cancelled, done.actions[0].done), (1, 1, 0));
    assert!(done.resting >= 3, "those that came meanwhile: {done:?}");
    assert_eq!(run.state, RunState::Interrupted);
    let shell: i32 = late.lines()[0].parse().unwrap();
    let left = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    assert!(!left(shell).contains("sleep"), "{}", left(shell));

    // With a limit it is ended and the Run goes on.
    let run = late.run("5s", &["--force", "--rest", "0ns", "--command-limit", "200ms", "--do", hang]);
    let done = on_late(&run);
    println!("{done:?}");
    let action = &done.actions[0];
    assert!(done.triggers >= 2 && action.timed_out + action.cancelled == done.triggers, "{done:?}");
    assert_eq!((run.state, action.timed_out >= 1), (RunState::Complete, true));
}

#[test]
fn live_late_jobs_in_a_deadlock_are_acted_on_once_as_a_circle() {
    // No job is late by itself.
    let late = Late::with(60_000, &[("LATEBOUND_DEADLOCK", "1")]);
    let run = late.run("8s", &["--rest", "0ns", "--do", "save", "--do", "signal:USR1"]);
    let done = on_late(&run);
    println!("{done:?}");
    // The other thread may be at a job too.
    assert!((1..=2).contains(&done.triggers) && done.resting == 0, "{done:?}");
    assert_eq!(late.lines().len() as u64, done.triggers);
    let of_control = |save: &&latebound_model::Save| save.late.task.comm == "control";
    assert_eq!(done.saves.iter().filter(of_control).count(), 1, "{done:?}");
    let save = done.saves.iter().find(of_control).unwrap();
    let acted = &save.late;
    assert!(acted.open && acted.is_job && (1_025..1_500).contains(&(acted.length.0 / MS)), "{acted:?}");

    // At the end it is the worst job, and none of those that completed.
    let worst = run.worst.iter().find(|job| job.task.comm == "control").unwrap();
    let own = run.jobs.iter().find(|thread| thread.task.comm == "control").unwrap();
    assert!(worst.open && worst.adds_up() && worst.requested_at == acted.requested_at, "{worst:?}");
    assert!(own.open_for.is_some_and(|open| open == worst.length() && open.0 > 3_000 * MS), "{own:?}");
    let saved = late.path("my.run.late").join(&save.run);
    for job in [worst, &latebound_store::read_run(saved).unwrap().worst[0]] {
        let circle = job.causes.iter().filter(|cause| cause.kind == CauseKind::Circle);
        let in_circle: u64 = circle.map(|cause| cause.duration.0).sum();
        assert!(in_circle * 100 > job.length().0 * 80, "{:#?}", job.causes);
    }
    let text = reported(&late.path("my.run"));
    assert!(text.contains(", not over: ") && text.contains("in a circle (a deadlock)"), "{text}");
}
