// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound explain --pid` beside a program whose jobs are late for known reasons: each reason is named, with the time that it took by the
//! program's own clock.
//!
//! The program is this test program itself, started once more. Its thread `control` has a job each 50 ms. Every third job does one planted
//! thing, which takes some 20 ms, and notes when. What is planted begins when the tool follows the jobs: until then a job now and then is
//! late, and `--on-late` tells the program by a signal that this was seen.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says what it saw"
)]

mod disk;
mod fair;
#[path = "../guest_tests/mod.rs"]
mod guest_tests;
#[path = "../killed/mod.rs"]
mod killed;
mod plants;
mod program;
mod waits;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use guest_tests::pass_in_guest;
use killed::Killed;
use latebound_model::{Cause, CauseKind, Explanation, Nanos, Run};
use plants::{Fits, IN_PARTICULAR, SCENARIOS, STARTED, Scenario, Took};
use program::{LONG, MS, become_thread, now, sleep_until, spin};

const PERIOD: u64 = 50 * MS;
/// How often each thing is planted.
const TIMES: usize = 5;
/// On a machine that others share, under a hypervisor that can hide an event from every tracer, so many of them may be something else.
const SPOILED: usize = 1;
/// Every third job is one with a plant.
const EVERY: u64 = 3;
/// What is planted takes this at least, in ns; but timer slack may end with any other interrupt.
const LEAST_PLANTED: u64 = 2 * MS;
/// A job that exceeds it tells the program that its jobs are followed.
const LATE: &str = "15ms";

/// Whether the tool has shown that it follows the jobs.
static FOLLOWED: AtomicBool = AtomicBool::new(false);

extern "C" fn is_followed(_: i32) {
    FOLLOWED.store(true, Ordering::SeqCst);
}

fn scenario(name: &str) -> &'static Scenario {
    SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap()
}

#[test]
#[ignore = "a process that the program below has things done by"]
fn guest_other() {
    program::other(&std::env::var("LATEBOUND_OTHER").unwrap());
}

#[test]
#[ignore = "the program that the tests here watch"]
fn guest_planted_jobs() {
    let folder = PathBuf::from(std::env::var_os("LATEBOUND_PLANTS").unwrap());
    let scenario = scenario(&std::env::var("LATEBOUND_SCENARIO").unwrap());
    let handler = is_followed as extern "C" fn(i32);
    // SAFETY: the handler stores a word.
    assert_ne!(unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) }, libc::SIG_ERR);
    // A page of the program that is read from a disk when a plant first needs it is no part of the plant.
    // SAFETY: a call on this process.
    assert_eq!(unsafe { libc::mlockall(libc::MCL_CURRENT) }, 0);
    let mut plants = (scenario.plants)(&folder);
    become_thread("control", scenario.priority);
    let mut notes = Vec::new();
    let mut due = now() + PERIOD;
    let (mut turn, mut job) = (0, 0);
    let mut from_turn = None;
    while turn < TIMES * plants.len() {
        sleep_until(due);
        let is_planted = job % EVERY == 0 && from_turn.is_some_and(|from| job > from);
        let index = turn % plants.len();
        if is_planted {
            let took = (plants[index].work)(due);
            let Took { from, to, of_it } = took;
            notes.push(format!(
                "{}\t{due}\t{from}\t{to}\t{}\t{}",
                plants[index].name,
                of_it.unwrap_or((to - from, to - from)).0,
                of_it.unwrap_or((to - from, to - from)).1
            ));
            turn += 1;
        } else {
            spin(MS / 10);
            if from_turn.is_none() && job % 5 == 0 {
                // Whether anybody sees it.
                spin(LONG);
            }
        }
        if from_turn.is_none() && FOLLOWED.load(Ordering::SeqCst) {
            // What was seen can be a late wake-up, before the jobs are followed.
            from_turn = Some(job + 60);
        }
        job += 1;
        let index = turn % plants.len();
        if job % EVERY == 0
            && from_turn.is_some_and(|from| job > from)
            && turn < TIMES * plants.len()
            && let Some(prepare) = &mut plants[index].prepare
        {
            prepare();
        }
        due += PERIOD;
        // What takes longer than a period does not make the jobs behind it late.
        due = due.max(now() + MS);
    }
    sleep_until(due + PERIOD);
    let unfinished = folder.join("unfinished");
    std::fs::write(&unfinished, notes.join("\n")).unwrap();
    std::fs::rename(unfinished, folder.join("notes")).unwrap();
    // Until it is killed: a process that ends meanwhile cannot be watched.
    std::thread::sleep(Duration::from_secs(300));
}

/// What the machine, and others on the same CPU, do to any thread at any time.
fn is_the_machines(cause: &Cause) -> bool {
    use CauseKind::{
        Interrupt, Nmi, PreemptionOff, Scheduler, Softirq, Stolen, StoodStill, TaskFirst, TimerInterrupt,
    };
    matches!(cause.kind, Interrupt | Nmi | Scheduler | Softirq | StoodStill | Stolen | TimerInterrupt)
        // A kernel that does not preempt itself ends a system call of another thread first.
        || (matches!(cause.kind, TaskFirst | PreemptionOff) && !STARTED.contains(&cause.subject.as_str()))
}

/// The explained job that was due then and went on until what was planted had ended.
fn job_of<'r>(run: &'r Run, due: u64, took: &Took) -> Option<&'r Explanation> {
    run.worst.iter().find(|one| {
        one.task.comm == "control" && one.requested_at.0.abs_diff(due) < MS && one.until().0 >= took.to
    })
}

fn say_what_is_near(run: &Run, name: &str, due: u64, took: &Took) {
    let near = |one: &&Explanation| one.task.comm == "control" && one.requested_at.0.abs_diff(due) < PERIOD;
    let near: Vec<_> = run
        .worst
        .iter()
        .filter(near)
        .map(|one| (one.requested_at.0, one.started_at.0, one.until().0))
        .collect();
    println!("  {name}: no job due at {due} and not over at {}; near: {near:?}", took.to);
    println!(
        "  {} explained; lost: {:?}; missing: {:?}; {:?}",
        run.worst.len(),
        run.losses,
        run.missing,
        run.jobs
    );
}

fn show(name: &str, job: &Explanation) {
    for cause in job.causes.iter().filter(|cause| cause.duration.0 > MS / 10) {
        let via: Vec<_> =
            cause.via.iter().map(|link| (&link.task.comm, link.through, link.known_by)).collect();
        println!("  {name}: {} {} {} {via:?}", cause.duration, cause.kind.name(), cause.subject);
    }
}

/// What was found of one plant's jobs, in ns.
#[derive(Default)]
struct Sums {
    /// Jobs that were explained.
    found: usize,
    /// Those of them that were late by what was planted, and have it as cause for its time, at most a tenth more and little less.
    whole: usize,
    all: u64,
    /// What was planted, without what the machine took where that is all of the stretch; at least, and at most.
    planted: (u64, u64),
    named: u64,
    unaccounted: u64,
    machines: u64,
    /// What the machine took of stretches that are planted as a whole.
    of_planted: u64,
}

impl Sums {
    /// Of one job; `least_percent` of what is planted are named over all jobs.
    fn of(job: &Explanation, took: &Took, expected: Fits, may_be_short: bool, least_percent: u64) -> Sums {
        assert!(job.adds_up());
        let (least, most) = took.of_it.unwrap();
        let is_all = least == took.to - took.from;
        let machines = within(job, took, |cause| !expected(cause) && is_the_machines(cause));
        let of_planted = if is_all { machines } else { 0 };
        let named = within(job, took, expected);
        let planted = (least - of_planted, most - of_planted);
        let is_right =
            named * 100 >= planted.0 * (least_percent.min(90) - 10) && named * 10 <= planted.1 * 11;
        let unaccounted = within(job, took, |cause| cause.kind == CauseKind::Unaccounted);
        let whole = usize::from(if least >= LEAST_PLANTED { is_right } else { may_be_short });
        Sums { found: 1, whole, all: took.to - took.from, planted, named, unaccounted, machines, of_planted }
    }

    fn add(&mut self, other: &Sums) {
        self.found += other.found;
        self.whole += other.whole;
        self.all += other.all;
        self.planted.0 += other.planted.0;
        self.planted.1 += other.planted.1;
        self.named += other.named;
        self.unaccounted += other.unaccounted;
        self.machines += other.machines;
        self.of_planted += other.of_planted;
    }

    /// How much of the planted time is named wrongly or not at all, of what the machine left of it.
    fn wrong_percent(&self) -> f64 {
        let short = self.planted.0.saturating_sub(self.named);
        let long = self.named.saturating_sub(self.planted.1);
        Sums::percent(short.max(long) + self.of_planted, self.all)
    }

    fn percent(part: u64, of: u64) -> f64 {
        100.0 * part as f64 / of.max(1) as f64
    }

    /// Whether enough of the planted time is named, not too much, and nearly all accounted for. What the machine took is no excuse for much.
    fn is_within(&self, least: f64) -> bool {
        Sums::percent(self.named, self.planted.0) >= least
            && Sums::percent(self.named, self.planted.1) <= 102.0
            && Sums::percent(self.unaccounted, self.all) <= 2.0
            && self.of_planted * 4 <= self.all
    }
}

impl std::fmt::Display for Sums {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            to,
            "{} of {TIMES} jobs, {} planted; named {:.1} %, unaccounted {:.2} %; {} whole; the machine took {}",
            self.found,
            Nanos(self.planted.0),
            Sums::percent(self.named, self.planted.0),
            Sums::percent(self.unaccounted, self.all),
            self.whole,
            Nanos(self.machines)
        )
    }
}

/// The time of spans within a planted stretch, of causes that fit.
fn within(explanation: &Explanation, took: &Took, fits: impl Fn(&Cause) -> bool) -> u64 {
    let overlap =
        |span: &latebound_model::Span| span.end.0.min(took.to).saturating_sub(span.start.0.max(took.from));
    let spans = explanation.spans.iter().filter(|span| fits(&explanation.causes[span.cause]));
    spans.map(overlap).sum()
}

/// What a guest has beside its kernel: a device that takes 20 ms for each request and does one at a time, with a file system and a device in a
/// file of that; a disk in memory; a control group of version 2; and a loopback that takes 20 ms. khugepaged, which can keep preemption off for longer than that, has
/// nothing to do there; PREEMPT_RT has none.
const SETUP: &str = "huge=/sys/kernel/mm/transparent_hugepage/enabled
    [ ! -e $huge ] || echo never >$huge || exit 10
    modprobe ext4; modprobe loop; modprobe sch_netem
    modprobe brd rd_nr=1 rd_size=32768 || exit 16
    modprobe null_blk nr_devices=1 gb=1 memory_backed=1 irqmode=2 completion_nsec=20000000 submit_queues=1 hw_queue_depth=1 || exit 11
    /sbin/mkfs.ext4 -q -E lazy_itable_init=0 /dev/nullb0 64M && mkdir -p /run/disk /run/group && mount /dev/nullb0 /run/disk || exit 12
    head -c 1048576 /dev/zero >/run/disk/loop && /sbin/losetup -f --show /run/disk/loop >/run/loop || exit 13
    mount -t cgroup2 none /run/group && echo '+cpu +memory' >/run/group/cgroup.subtree_control && mkdir /run/group/own || exit 14
    ip link set lo up && /sbin/tc qdisc add dev lo root netem delay 20ms limit 1000 || exit 15
    export LATEBOUND_SHOW=1 LATEBOUND_DEVICE=/dev/nullb0 LATEBOUND_LOOP=$(cat /run/loop) LATEBOUND_GROUP=/run/group/own LATEBOUND_RAM=/dev/ram0 LATEBOUND_DELAY=20ms
";

/// Runs the tests below in a guest, by this source of events.
fn in_guest(kernel: &str, source: &str) {
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "{SETUP}export LATEBOUND_SOURCE={source}; exec {} --nocapture --test-threads=1 --include-ignored live_planted_ guest_waits_",
        program.display()
    );
    pass_in_guest(kernel, "600s", &script, SCENARIOS.len());
}

#[test]
fn live_lab_planted_things_of_a_job_are_named_on_6_12() {
    in_guest("debian:6.12", "bpf");
}

#[test]
fn live_lab_planted_things_of_a_job_are_named_on_6_12_rt() {
    in_guest("debian:6.12-rt", "bpf");
}

#[test]
fn live_lab_planted_things_of_a_job_are_named_on_7() {
    in_guest("debian:7", "bpf");
}

#[test]
fn live_lab_planted_things_of_a_job_are_named_on_7_by_tracefs() {
    in_guest("debian:7", "tracefs");
}

#[test]
fn live_planted_waits_of_a_real_time_job_are_named_each_for_its_time() {
    named_each_for_its_time(scenario("waits"), tempfile::tempdir().unwrap().path());
}

#[test]
fn live_planted_things_of_an_ordinary_job_are_named_each_for_its_time() {
    named_each_for_its_time(scenario("fair"), tempfile::tempdir().unwrap().path());
}

#[test]
#[ignore = "needs the device of the guests that the tests here start"]
fn guest_waits_for_a_slow_disk_are_named_each_for_its_time() {
    named_each_for_its_time(scenario("disk"), tempfile::tempdir_in("/run/disk").unwrap().path());
}

/// What no event of tracefs shows.
const UNSEEN_BY_TRACE: [&str; 2] = ["quota", "frozen"];

/// The source of events that is to name what is planted.
fn source() -> String {
    std::env::var("LATEBOUND_SOURCE").unwrap_or_else(|_| "bpf".to_owned())
}

/// Starts the program, and explains it until it has planted all that it has.
fn explained(scenario: &Scenario, folder: &Path) -> (Run, String) {
    let program = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", "--exact", "guest_planted_jobs"])
        .env("LATEBOUND_PLANTS", folder)
        .env("LATEBOUND_SCENARIO", scenario.name)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut program = Killed(program);
    std::thread::sleep(Duration::from_millis(300));
    let mut tool = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["explain", "--pid", &program.0.id().to_string(), "--duration", "300s", "--worst", "400"])
        .args(["--on-late", LATE, "--do", "signal:USR2", "--rest", "1h", "--format", "json"])
        .args(["--source", &source()])
        .stdout(Stdio::from(std::fs::File::create(folder.join("run.json")).unwrap()))
        .stderr(Stdio::from(std::fs::File::create(folder.join("said")).unwrap()))
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(folder.join("said")).unwrap();
    let notes = loop {
        if let Ok(notes) = std::fs::read_to_string(folder.join("notes")) {
            break notes;
        }
        assert_eq!(tool.try_wait().unwrap(), None, "{}", said());
        assert_eq!(program.0.try_wait().unwrap(), None, "the program has ended");
        std::thread::sleep(Duration::from_millis(500));
    };
    // SAFETY: a signal to this process' own child.
    assert_eq!(unsafe { libc::kill(i32::try_from(tool.id()).unwrap(), libc::SIGINT) }, 0);
    assert!(tool.wait().unwrap().success(), "{}", said());
    let run = serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    (run, notes)
}

fn named_each_for_its_time(scenario: &Scenario, folder: &Path) {
    let (run, notes) = explained(scenario, folder);
    let control = run.jobs.iter().find(|thread| thread.task.comm == "control");
    let control =
        control.unwrap_or_else(|| panic!("no jobs of control: {:?}\n{:?}\n{notes}", run.jobs, run.missing));
    let cycle = control.cycle.as_ref().unwrap_or_else(|| panic!("{:?}", run.jobs));
    assert_eq!(cycle.site.call.as_deref(), Some("clock_nanosleep"));
    let mut plants: BTreeMap<&str, Vec<(u64, Took)>> = BTreeMap::new();
    for line in notes.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |index: usize| fields[index].parse().unwrap();
        let took = Took { from: number(2), to: number(3), of_it: Some((number(4), number(5))) };
        plants.entry(fields[0]).or_default().push((number(1), took));
    }
    // The device is there in guests, which nobody disturbs.
    let spoiled = if std::env::var_os(disk::DEVICE).is_some() { 0 } else { SPOILED };
    let mut wrong = String::new();
    for (name, plants) in &plants {
        let (_, expected) = scenario.expected.iter().find(|(known, _)| known == name).unwrap();
        // The way into the exception and back, and what the recorder's own programs take there, is not in handle_mm_fault, the function that it
        // sees: 20 % of a fault on the clock of instructions, where a page is copied in 512 steps.
        let by_trace = source() == "tracefs";
        let by_instructions = std::env::var_os(disk::DEVICE).is_some();
        let least_percent = match *name {
            "fault" if by_instructions => 75,
            "fault" => 85,
            "major fault" if by_trace => 85,
            _ => 98,
        };
        if by_trace && UNSEEN_BY_TRACE.contains(name) {
            let said =
                run.missing.iter().any(|missing| missing.why.contains("quota holds or the freezer stops"));
            assert!(said, "{:?}", run.missing);
            println!("{}, {name}: no event shows it, and the tool says so", scenario.name);
            continue;
        }
        if *name == "fault" && run.missing.iter().any(|missing| missing.what.starts_with("page faults")) {
            println!("{}, {name}: the tool says that this kernel does not show it", scenario.name);
            continue;
        }
        let mut jobs = Vec::new();
        for (due, took) in plants {
            let Some(job) = job_of(&run, *due, took) else {
                say_what_is_near(&run, name, *due, took);
                continue;
            };
            jobs.push((job, took, Sums::of(job, took, *expected, *name == "timer slack", least_percent)));
            if std::env::var_os("LATEBOUND_SHOW").is_some() {
                show(name, job);
            }
        }
        // Those that fit best are enough.
        jobs.sort_by(|(_, _, one), (_, _, other)| one.wrong_percent().total_cmp(&other.wrong_percent()));
        let enough = TIMES - spoiled;
        jobs.truncate(enough);
        let mut sums = Sums::default();
        jobs.iter().for_each(|(_, _, job)| sums.add(job));
        println!("{}, {name}: {sums}", scenario.name);
        for (_, least, fits) in IN_PARTICULAR.iter().filter(|(of, ..)| of == name) {
            let part: u64 = jobs.iter().map(|(job, took, _)| within(job, took, fits)).sum();
            if Sums::percent(part, sums.planted.0) < *least {
                wrong += &format!("{name}: {} of what tells it from others\n", Nanos(part));
            }
        }
        if sums.found != enough || sums.whole != enough || !sums.is_within(least_percent as f64) {
            wrong += &format!("{name}: {sums}\n");
        }
    }
    assert!(plants.len() >= scenario.at_least, "{notes}");
    assert!(wrong.is_empty(), "{wrong}");
}
