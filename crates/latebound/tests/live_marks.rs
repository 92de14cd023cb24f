// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound explain --begin --end` beside a program whose jobs are marked: by the entry and return of a function, by static probes, by a trace
//! point of the kernel. All its jobs are counted, and what is planted in them is named with its time.
//!
//! The program is this test program itself, started once more. Its thread `frames` has a frame each 20 ms. Before each frame it runs for a
//! while, which is no part of the job; in every fifth frame it does one planted thing.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on ends, and says what it saw"
)]

mod guest_job;
mod killed;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use guest_job::in_guest;
use killed::Killed;
use latebound_model::{Cause, CauseKind, Explanation, LossKind, Nanos, Run, ThreadJobs, WaitThrough};

const MS: u64 = 1_000_000;
const PERIOD: u64 = 20 * MS;
const FRAMES: u64 = 120;
/// What is planted takes so long.
const PLANTED: u64 = 5 * MS;
/// So long it runs before each frame.
const OUTSIDE: u64 = 2 * MS;

fn now() -> u64 {
    latebound_syscall::clock::now().0
}

fn spin(length: u64) {
    let end = now() + length;
    while now() < end {}
}

/// Names this thread: the kernel's trace point `task:task_rename` tells of it.
fn rename(name: &str) {
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: the name lives through the call.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
}

/// How many listen to the static probe `begin`: the kernel counts here.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".probes")]
static latebound_test_listeners: AtomicU16 = AtomicU16::new(0);

/// A static probe: an instruction that does nothing, and the note of it that `sys/sdt.h` makes.
macro_rules! static_probe {
    ($name:literal, $listeners:literal) => {
        // SAFETY: one instruction that does nothing; the rest is data of another section.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt,\"\",%note",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                concat!(".8byte ", $listeners),
                ".asciz \"latebound_test\"",
                concat!(".asciz \"", $name, "\""),
                ".asciz \"\"",
                "994: .balign 4",
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base,\"aG\",%progbits,.stapsdt.base,comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
            )
        }
    };
}

#[inline(never)]
fn probe_begin() {
    static_probe!("begin", "latebound_test_listeners");
}

#[inline(never)]
fn probe_end() {
    static_probe!("end", "0");
}

/// One frame, with what is planted in it.
#[unsafe(no_mangle)]
#[inline(never)]
fn latebound_test_frame(planted: &mut dyn FnMut()) {
    spin(MS / 10);
    planted();
}

#[test]
#[ignore = "the program that the tests here watch"]
fn guest_marked_jobs() {
    let folder = PathBuf::from(std::env::var_os("LATEBOUND_MARKS").unwrap());
    while !folder.join("go").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let listeners = latebound_test_listeners.load(Ordering::Relaxed);
    let lock = Arc::new(Mutex::new(()));
    let (hold, held) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    let of_holder = Arc::clone(&lock);
    std::thread::spawn(move || {
        rename("holder");
        // An end in a thread that never begins.
        probe_end();
        while hold.1.recv().is_ok() {
            let guard = of_holder.lock().unwrap();
            held.0.send(()).unwrap();
            spin(PLANTED);
            drop(guard);
        }
    });
    rename("frames");
    let mut notes = String::new();
    let mut due = now() + PERIOD;
    for frame in 0..FRAMES {
        std::thread::sleep(Duration::from_nanos(due.saturating_sub(now())));
        spin(OUTSIDE);
        let mut times = (0, 0);
        let name = ["own code", "sleep", "lock"][(frame / 5 % 3) as usize];
        let mut plant = || {
            if frame % 5 != 4 {
                return;
            }
            if name == "lock" {
                hold.0.send(()).unwrap();
                held.1.recv().unwrap();
            }
            let from = now();
            match name {
                "own code" => spin(PLANTED),
                "sleep" => std::thread::sleep(Duration::from_nanos(PLANTED)),
                _ => drop(lock.lock().unwrap()),
            }
            times = (from, now());
        };
        if frame % 10 == 7 {
            probe_begin();
        }
        rename("frames");
        let begun = now();
        probe_begin();
        latebound_test_frame(&mut plant);
        probe_end();
        if frame % 10 == 3 {
            probe_end();
        }
        if times.1 > 0 {
            notes += &format!("{name}\t{begun}\t{}\t{}\n", times.0, times.1);
        }
        due = (due + PERIOD).max(now() + MS);
    }
    // The last one, where the next mark ends each.
    rename("frames");
    std::fs::write(folder.join("listeners"), listeners.to_string()).unwrap();
    std::fs::write(folder.join("unfinished"), notes).unwrap();
    std::fs::rename(folder.join("unfinished"), folder.join("notes")).unwrap();
    // Until it is killed: a process that ends meanwhile cannot be watched.
    std::thread::sleep(2 * LONGEST_WAIT);
}

/// A guest's clock runs on while a page comes from the host: minutes of it, where the host has much to do.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < LONGEST_WAIT, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Links to places are performance events, and the last that the recorder makes.
fn has_marks(explain: u32, links: usize) -> bool {
    let entries = std::fs::read_dir(format!("/proc/{explain}/fd")).into_iter().flatten().flatten();
    let events = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    events.filter(|link| link.as_os_str() == "anon_inode:[perf_event]").count() >= links
}

struct Plant {
    name: String,
    begun: u64,
    from: u64,
    to: u64,
}

/// The program's frames, watched with these marks: by the thread's name, or with all threads of the process.
fn watched(folder: &Path, by_name: bool, marks: &[&str]) -> (Run, Vec<Plant>) {
    let program = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", "--exact", "guest_marked_jobs"])
        .env("LATEBOUND_MARKS", folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let program = Killed(program);
    let pid = program.0.id().to_string();
    let whom = if by_name { ["--comm", "frames"] } else { ["--pid", &pid] };
    let explain = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .arg("explain")
        .args(whom)
        .args(["--worst", "400", "--format", "json"])
        .args(marks)
        .stdout(std::fs::File::create(folder.join("out")).unwrap())
        .stderr(std::fs::File::create(folder.join("err")).unwrap())
        .spawn()
        .unwrap();
    let mut explain = Killed(explain);
    wait_for("the marks", || has_marks(explain.0.id(), marks.len() / 2));
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(folder.join("go"), "").unwrap();
    wait_for("the end of the frames", || folder.join("notes").exists());
    std::thread::sleep(Duration::from_millis(300));
    // SAFETY: a signal to a child that was not waited for.
    assert_eq!(unsafe { libc::kill(explain.0.id().cast_signed(), libc::SIGINT) }, 0);
    let status = explain.0.wait().unwrap();
    let said = std::fs::read_to_string(folder.join("err")).unwrap();
    assert!(status.success(), "{said} {:?}", status.signal());
    let run: Run = serde_json::from_slice(&std::fs::read(folder.join("out")).unwrap()).unwrap();
    let notes = std::fs::read_to_string(folder.join("notes")).unwrap();
    let plant = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |index: usize| fields[index].parse().unwrap();
        Plant { name: fields[0].to_owned(), begun: number(1), from: number(2), to: number(3) }
    };
    (run, notes.lines().map(plant).collect())
}

fn is_expected(plant: &str, cause: &Cause) -> bool {
    match plant {
        "own code" => cause.kind == CauseKind::OwnCode && cause.via.is_empty(),
        "sleep" => cause.kind == CauseKind::OwnSleep && cause.via.is_empty(),
        _ => cause.via.iter().any(|link| link.task.comm == "holder" && link.through == WaitThrough::Futex),
    }
}

/// What the machine does to any thread at any time.
fn is_the_machines(kind: CauseKind) -> bool {
    use CauseKind::{Interrupt, Nmi, Scheduler, Softirq, Stolen, StoodStill, TaskFirst, TimerInterrupt};
    matches!(kind, Interrupt | Nmi | Scheduler | Softirq | StoodStill | Stolen | TaskFirst | TimerInterrupt)
}

/// Every planted thing is in a job that begins at its mark and is named for its time.
fn planted_things_are_named(run: &Run, plants: &[Plant], case: &str) {
    assert_eq!(plants.len() as u64, FRAMES / 5);
    let (mut all, mut named, mut machines, mut found, mut absent) = (0, 0, 0, 0, 0);
    for plant in plants {
        let is_job = |one: &&Explanation| {
            one.task.comm == "frames"
                && one.requested_at.0.abs_diff(plant.begun) < MS / 2
                && one.until().0 >= plant.to
        };
        let Some(job) = run.worst.iter().find(is_job) else {
            println!("{case}: the job of {} at {} is not there", plant.name, plant.begun);
            absent += 1;
            continue;
        };
        assert!(job.adds_up() && job.requested_at == job.started_at, "{job:?}");
        found += 1;
        let time = |fits: &dyn Fn(&Cause) -> bool| -> u64 {
            let spans = job.spans.iter().filter(|span| fits(&job.causes[span.cause]));
            spans.map(|span| span.end.0.min(plant.to).saturating_sub(span.start.0.max(plant.from))).sum()
        };
        all += plant.to - plant.from;
        named += time(&|cause| is_expected(&plant.name, cause));
        machines += time(&|cause| !is_expected(&plant.name, cause) && is_the_machines(cause.kind));
    }
    let percent = 100.0 * named as f64 / (all - machines).max(1) as f64;
    println!(
        "{case}: {found} of {} planted, {}, named {percent:.1} %, the machine took {}",
        plants.len(),
        Nanos(all),
        Nanos(machines)
    );
    assert!(percent > 90.0, "{case}");
    assert!(absent <= unseen(run), "{case}: {absent} jobs are not there: {:?}", run.losses);
}

fn frames(run: &Run) -> &ThreadJobs {
    let thread = run.jobs.iter().find(|thread| thread.task.comm == "frames");
    thread.unwrap_or_else(|| panic!("{:?} {:?}", run.jobs, run.missing))
}

/// How many marks the tool says that it did not see: the kernel skips a program of a mark where another thread's is preempted in it
/// (kernel/trace/bpf_trace.c, `trace_call_bpf`, 6.12).
fn unseen(run: &Run) -> u64 {
    let skipped = run.losses.iter().filter(|loss| loss.kind == LossKind::ProgramSkipped);
    skipped.filter(|loss| loss.place.contains("mark")).filter_map(|loss| loss.count).sum()
}

/// Counts are exact but for the marks that were not seen, and said to be so: each makes one of the counts less by one, and may make the next
/// mark one too many.
#[track_caller]
fn assert_counts<const N: usize>(run: &Run, counts: [u64; N], expected: [u64; N]) {
    let unseen = unseen(run);
    let within = |(count, expected): (&u64, &u64)| count.abs_diff(*expected) <= unseen;
    let fits = counts.iter().zip(&expected).all(within);
    assert!(fits, "{counts:?}, planted {expected:?}, {unseen} not seen: {:?}", run.losses);
}

fn place(kind: &str, rest: &str) -> String {
    format!("{kind}:{}:{rest}", std::env::current_exe().unwrap().display())
}

#[test]
fn live_jobs_between_static_probes_are_counted_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let (begin, end) = (place("usdt", "latebound_test:begin"), place("usdt", "latebound_test:end"));
    let (run, plants) = watched(folder.path(), false, &["--begin", &begin, "--end", &end]);
    let thread = frames(&run);
    let marks = thread.marks.as_ref().unwrap();
    // Every tenth frame has a begin too many, and every tenth an end.
    let counts = [marks.begins, marks.begun_again, marks.ended_alone, thread.jobs];
    assert_counts(&run, counts, [FRAMES + FRAMES / 10, FRAMES / 10, FRAMES / 10, FRAMES]);
    assert_eq!(marks.marks.begin.to_string(), begin);
    assert_eq!(marks.marks.end.as_ref().unwrap().to_string(), end);
    let holder = run.jobs.iter().find(|thread| thread.task.comm == "holder").unwrap();
    assert_eq!(holder.marks.as_ref().map(|marks| (marks.begins, marks.ended_alone)), Some((0, 1)));
    assert_eq!(std::fs::read_to_string(folder.path().join("listeners")).unwrap(), "1");
    planted_things_are_named(&run, &plants, "static probes");
}

#[test]
fn live_jobs_from_entry_to_return_of_a_function_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let (begin, end) = (place("uprobe", "latebound_test_frame"), place("uretprobe", "latebound_test_frame"));
    let (run, plants) = watched(folder.path(), true, &["--begin", &begin, "--end", &end]);
    let thread = frames(&run);
    let marks = thread.marks.as_ref().unwrap();
    let counts = [marks.begins, marks.begun_again, marks.ended_alone, thread.jobs];
    assert_counts(&run, counts, [FRAMES, 0, 0, FRAMES]);
    let period = marks.period.unwrap();
    assert!(period.0.abs_diff(PERIOD) < PERIOD / 20, "{period}");
    assert_eq!(thread.deadline, Some(period));
    planted_things_are_named(&run, &plants, "function");
}

#[test]
fn live_jobs_from_one_trace_point_to_the_next_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let (run, plants) = watched(folder.path(), false, &["--begin", "tracepoint:task:task_rename"]);
    let thread = frames(&run);
    let marks = thread.marks.as_ref().unwrap();
    // At its begin, once each frame, and at its end: a job lies between two.
    let counts = [marks.begins, marks.begun_again, marks.ended_alone, thread.jobs];
    assert_counts(&run, counts, [FRAMES + 2, 0, 0, FRAMES + 1]);
    assert_eq!(thread.deadline, None, "a job takes a period by itself");
    planted_things_are_named(&run, &plants, "trace point");
}

/// Runs the tests above in a guest.
fn tests_in_guest(kernel: &str) {
    let own = std::env::current_exe().unwrap();
    let (said, _) = in_guest(
        &["--kernel", kernel, "--clock", "instructions", "--timeout", "600s"],
        [own.to_str().unwrap(), "--test-threads", "1", "--nocapture", "live_jobs_"],
    );
    assert!(said.contains("3 passed"), "{said}");
}

#[test]
fn live_lab_jobs_between_marks_are_explained_on_6_12_rt() {
    tests_in_guest("debian:6.12-rt");
}

#[test]
fn live_lab_jobs_between_marks_are_explained_on_7() {
    tests_in_guest("debian:7");
}

#[test]
fn live_marks_that_are_not_there_are_refused_with_near_ones() {
    for (mark, said) in [
        (place("uprobe", "latebound_test_fram"), "near it: latebound_test_frame"),
        (place("usdt", "latebound_test:begim"), "near it: latebound_test:begin"),
        ("uprobe:/nowhere/app:main".to_owned(), "No such file"),
        ("tracepoint:task:task_renam".to_owned(), "near it: task_rename"),
        (place("uprobe", "latebound_test_frame+0xfffff"), "no instruction"),
        ("tracepoint:ftrace:function".to_owned(), "lets no program in: "),
    ] {
        let pid = std::process::id().to_string();
        let output = Command::new(env!("CARGO_BIN_EXE_latebound"))
            .args(["explain", "--pid", &pid, "--duration", "1s", "--begin", &mark])
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(said), "{mark}: {error}");
    }
}

#[test]
fn live_marks_that_nobody_reaches_are_said_to_be_so() {
    let begin = place("uprobe", "latebound_test_frame");
    let output = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["explain", "--pid", &std::process::id().to_string(), "--duration", "1s", "--begin", &begin])
        .args(["--format", "json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();
    assert!(run.jobs.is_empty(), "{:?}", run.jobs);
    let missing = run.missing.iter().find(|missing| missing.what.contains("latebound_test_frame"));
    assert!(missing.is_some_and(|missing| missing.why.contains("no watched thread")), "{:?}", run.missing);
}
