// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound explain` of control groups: who is watched, and whether the group that took the CPU is blamed for what it took, by the kernel's
//! own accounts.
//!
//! The programs are this test program itself, started once more, each in a group of its own.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says what it saw"
)]

mod control_group;
mod guest_tests;
mod killed;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use control_group::{Group, mount};
use guest_tests::pass_in_guest;
use killed::Killed;
use latebound_analysis::blame_groups;
use latebound_model::{CauseKind, Explanation, GroupBlame, Nanos, Owner, Run, Task};
use latebound_syscall::clock;

const MS: u64 = 1_000_000;
/// Of the victim's jobs.
const PERIOD: u64 = 20 * MS;
/// How often the neighbour takes the CPU.
const BURSTS: u64 = 100;
/// After so long the tool follows the jobs, counted from their begin.
const FOLLOWED_AFTER: u64 = 3_000 * MS;

/// In the guest: a file system on a disk that takes 20 ms for a request and has one at a time.
const DISK: &str = "/run/disk";

const VARIABLE: &str = "LATEBOUND_TEST_GROUP_PROGRAM";

fn now() -> u64 {
    clock::now().0
}

fn cpu_time() -> u64 {
    clock::thread_cpu_time().0
}

fn sleep_until(at: u64) {
    clock::sleep_until(Nanos(at));
}

fn spin_until(at: u64) {
    while now() < at {
        std::hint::spin_loop();
    }
}

/// Uses so much CPU time by this thread's own clock. To read that is a system call, which the tool records of whom it watches: it is read now
/// and then.
fn burn(length: u64) {
    let end = cpu_time() + length;
    while cpu_time() < end {
        spin_until(now() + MS / 10);
    }
}

/// Names this thread, puts it on one of the CPUs that it may use, by its place among them, and gives it a priority: 0 for an ordinary thread.
fn become_thread(name: &str, place: usize, priority: i32) {
    let mut comm = [0u8; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: calls on this thread with values that live through them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NAME, comm.as_ptr()), 0);
        assert_eq!(libc::prctl(libc::PR_SET_TIMERSLACK, 1), 0);
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set), 0);
        let allowed: Vec<usize> = (0..1024).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect();
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(allowed[place % allowed.len()], &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
        let policy = if priority > 0 { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
        let parameters = libc::sched_param { sched_priority: priority };
        assert_eq!(libc::sched_setscheduler(0, policy, &raw const parameters), 0);
    }
}

/// A program of this test. It waits until it may begin.
struct Program(Killed);

/// When the programs may begin: a file that is locked until then, with the moment from which all count.
struct Begin(File);

impl Begin {
    fn not_yet(folder: &Path) -> Begin {
        let file = File::create(folder.join("begin")).unwrap();
        file.lock().unwrap();
        Begin(file)
    }

    fn now(mut self) {
        write!(self.0, "{}", now()).unwrap();
    }

    /// A thread that waits for a lock shows nothing that could be taken for its jobs.
    fn wait_for(folder: &Path) -> u64 {
        let mut file = File::open(folder.join("begin")).unwrap();
        file.lock_shared().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text.parse().unwrap()
    }
}

impl Program {
    fn start(name: &str, folder: &Path) -> Program {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--nocapture", "--exact", "guest_program_of_a_group"])
            .env(VARIABLE, format!("{name} {}", folder.display()))
            .stdout(Stdio::null())
            .spawn();
        Program(Killed(child.unwrap()))
    }
}

/// Waits for a file, for half a minute at most.
fn wait_for(path: &Path) -> String {
    let begun = Instant::now();
    loop {
        if let Ok(text) = std::fs::read_to_string(path) {
            return text;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "no {}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// xorshift64*
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
}

/// The release of a job of the victim.
fn release(base: u64, job: u64) -> u64 {
    base + job * PERIOD
}

fn jobs_from(base: u64, at: u64) -> impl Iterator<Item = u64> {
    ((at - base) / PERIOD + 1)..
}

#[test]
#[ignore = "the programs that the tests here watch"]
fn guest_program_of_a_group() {
    let arguments = std::env::var(VARIABLE).unwrap();
    let (name, folder) = arguments.split_once(' ').unwrap();
    let folder = Path::new(folder);
    let base = Begin::wait_for(folder);
    match name {
        // 8 ms of work each 20 ms.
        "victim" => {
            become_thread("lb-victim", 0, 40);
            for job in jobs_from(base, now()) {
                sleep_until(release(base, job));
                burn(8 * MS);
            }
        }
        // Takes the CPU from the victim at a random moment of its job, for a random time.
        "neighbour" => {
            become_thread("lb-neighbour", 0, 50);
            let seed = now() | 1;
            let mut dice = seed;
            sleep_until(base + FOLLOWED_AFTER);
            let before = cpu_time();
            for job in jobs_from(base, base + FOLLOWED_AFTER).take(usize::try_from(BURSTS).unwrap()) {
                sleep_until(release(base, job) + random(&mut dice) % (7 * MS));
                burn(MS + random(&mut dice) % (3 * MS));
            }
            let taken = cpu_time() - before;
            std::fs::write(folder.join("unfinished"), format!("{taken} {seed}")).unwrap();
            std::fs::rename(folder.join("unfinished"), folder.join("taken")).unwrap();
            std::thread::sleep(Duration::from_secs(60));
        }
        // Runs on the victim's CPU while the victim sleeps, and on another one while it works. It gives way to the victim alone: an ordinary
        // thread waits for its turn behind other ordinary ones, and may have it only when the victim is due again.
        "innocent" => {
            std::thread::spawn(move || {
                become_thread("lb-elsewhere", 1, 30);
                for job in jobs_from(base, now()) {
                    sleep_until(release(base, job) + MS);
                    spin_until(release(base, job) + 5 * MS);
                }
            });
            become_thread("lb-innocent", 0, 30);
            let mut overran = File::create(folder.join("overran")).unwrap();
            for job in jobs_from(base, now()) {
                sleep_until(release(base, job) + 13 * MS);
                spin_until(release(base, job) + 16 * MS);
                // A hypervisor that stops the CPU holds up its end. It says so itself, a little earlier than the victim is due.
                if now() > release(base, job) + 18 * MS {
                    writeln!(overran, "{} {}", release(base, job) + 16 * MS, now()).unwrap();
                }
            }
        }
        // Works for 8 ms of its own CPU time and sleeps for 2 ms: never behind a time that it asked for.
        "burner" => {
            become_thread("lb-burner", 0, 0);
            loop {
                burn(8 * MS);
                sleep_until(now() + 2 * MS);
            }
        }
        // Makes pages dirty that lie apart, so that each becomes a request of its own, and leaves it to the kernel to write them.
        "writer" => {
            become_thread("lb-writer", 1, 0);
            let file = File::create(format!("{DISK}/written")).unwrap();
            let page = [7; 4096];
            for round in 0..8 {
                sleep_until(base + FOLLOWED_AFTER + round * 1_000 * MS);
                (0..40).for_each(|place| file.write_all_at(&page, place * 65_536).unwrap());
            }
            sleep_until(base + FOLLOWED_AFTER + 8_000 * MS);
            std::fs::write(folder.join("unfinished"), "").unwrap();
            std::fs::rename(folder.join("unfinished"), folder.join("taken")).unwrap();
            std::thread::sleep(Duration::from_secs(60));
        }
        // Reads a block from the disk itself each 200 ms.
        "reader" => {
            become_thread("lb-reader", 0, 0);
            let path = format!("{DISK}/read");
            std::fs::write(&path, [1; 65_536]).unwrap();
            let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
            file.sync_all().unwrap();
            #[repr(align(4096))]
            struct Block([u8; 4096]);
            let mut block = Block([0; 4096]);
            for job in jobs_from(base, now()).map(|job| job * 10) {
                sleep_until(release(base, job));
                file.read_exact_at(&mut block.0, 0).unwrap();
            }
        }
        // Sleeps and wakes.
        sleeper => {
            become_thread(sleeper, 0, 0);
            loop {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Runs `latebound explain` with these arguments; `meanwhile` as soon as it watches, and ends it then.
fn explain(arguments: &[&str], meanwhile: impl FnOnce()) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let (out, said) = (folder.path().join("out"), folder.path().join("said"));
    let file = |path: &Path| Stdio::from(File::create(path).unwrap());
    let child = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["explain", "--format", "json", "--duration", "300s"])
        .args(arguments)
        .stdout(file(&out))
        .stderr(file(&said))
        .spawn();
    let mut tool = Killed(child.unwrap());
    let said = || std::fs::read_to_string(&said).unwrap();
    // It sleeps between its looks once it watches.
    let begun = Instant::now();
    let mut asleep = 0;
    while asleep < 5 {
        assert!(
            tool.0.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(100),
            "{}",
            said()
        );
        std::thread::sleep(Duration::from_millis(200));
        let waits_in = std::fs::read_to_string(format!("/proc/{}/wchan", tool.0.id())).unwrap();
        // Where it has much to look at, a look now and then falls into its work.
        asleep = if waits_in.contains("nanosleep") { asleep + 1 } else { (asleep - 1).max(0) };
    }
    meanwhile();
    // SAFETY: a signal to this process' own child.
    assert_eq!(unsafe { libc::kill(i32::try_from(tool.0.id()).unwrap(), libc::SIGINT) }, 0);
    assert!(tool.0.wait().unwrap().success(), "{}", said());
    serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap()
}

fn show(run: &Run) {
    for row in &run.blame {
        println!("{:?} {:?}: {} times, {}, longest {}", row.whom, row.who, row.late, row.time, row.longest);
    }
    let losses: Vec<_> = run.losses.iter().chain(run.worst.iter().flat_map(|one| &one.losses)).collect();
    println!("{} losses, such as {:?}", losses.len(), losses.first());
}

/// Where the threads of a group stand in the explanations: what each span was, and where.
fn spans_of(run: &Run, group: &str) -> Vec<String> {
    let mut found = Vec::new();
    for late in &run.worst {
        let in_group = |task: &Task| late.member(task.tid).is_some_and(|member| member.group == group);
        for span in &late.spans {
            let cause = &late.causes[span.cause];
            let tasks = || cause.task.iter().chain(cause.via.iter().map(|link| &link.task));
            if tasks().any(in_group) {
                let (start, end) = (span.start - late.requested_at, span.end - late.requested_at);
                found.push(format!(
                    "{} due at {}: from {start} to {end} {cause:?}",
                    late.task.comm, late.requested_at.0
                ));
            }
        }
    }
    found
}

/// The time of the neighbour in an explanation from this moment on, and the time of what its own clock counts too: the spans of the machine behind
/// one of the neighbour, up to one of somebody else; and that of the scheduler before it, where events show that. A thread's clock begins where the
/// scheduler that chooses it does, and ends where the next one does (kernel/sched/core.c, `__schedule`: `update_rq_clock`). Not what the
/// hypervisor says that it took: the kernel reads that account and takes the same time off the clock of the thread (`update_rq_clock_task`:
/// `prev_steal_time_rq`, which the recorder reads).
fn of_neighbour(late: &Explanation, from: Nanos) -> (u64, u64) {
    let (mut own, mut over, mut on, mut choosing) = (0, 0, false, 0);
    for span in &late.spans {
        let cause = &late.causes[span.cause];
        let time = span.end.saturating_sub(span.start.max(from)).0;
        match cause.kind {
            CauseKind::Interrupt
            | CauseKind::TimerInterrupt
            | CauseKind::Nmi
            | CauseKind::Softirq
            | CauseKind::StoodStill => over += if on { time } else { 0 },
            CauseKind::Stolen => {}
            CauseKind::Scheduler => {
                on = false;
                choosing += time;
            }
            _ => {
                let was_on = on;
                on = cause.task.as_ref().is_some_and(|task| task.comm == "lb-neighbour");
                own += if on { time } else { 0 };
                over += if on && !was_on { choosing } else { 0 };
                choosing = 0;
            }
        }
    }
    (own, over)
}

/// The same over all explanations, each moment once: a job that takes longer than a period delays the next one, and whoever held it up is
/// blamed in both.
fn of_neighbour_once(run: &Run) -> (u64, u64) {
    let mut jobs: Vec<&Explanation> = run.worst.iter().collect();
    jobs.sort_by_key(|late| late.requested_at);
    let (mut own, mut over, mut counted_to) = (0, 0, Nanos::ZERO);
    for late in jobs {
        let more = of_neighbour(late, counted_to);
        own += more.0;
        over += more.1;
        counted_to = counted_to.max(late.until());
    }
    (own, over)
}

fn row<'b>(blame: &'b [GroupBlame], whom: &str, who: &Owner) -> Option<&'b GroupBlame> {
    blame.iter().find(|row| row.whom.as_deref() == Some(whom) && row.who == *who)
}

#[test]
fn live_a_neighbour_is_blamed_for_its_time_an_innocent_for_none() {
    let notes = tempfile::tempdir().unwrap();
    let may_begin = Begin::not_yet(notes.path());
    let own = std::process::id();
    let id = format!("{:0<64}", format!("3f2a{own:08x}"));
    let victims = Group::unified(&format!("/latebound-victim-{own}.service"));
    let neighbours = Group::unified(&format!("/docker-{id}.scope"));
    let innocents = Group::unified(&format!("/latebound-innocent-{own}"));
    let start = |name: &str, group: &Group| {
        let program = Program::start(name, notes.path());
        group.join(&program.0);
        program
    };
    let programs =
        [start("victim", &victims), start("neighbour", &neighbours), start("innocent", &innocents)];
    let unit = victims.path.trim_start_matches('/');
    // The jobs with a burst are the longest.
    let worst = (2 * BURSTS).to_string();
    let mut noted = String::new();
    let run = explain(&["--unit", unit, "--worst", &worst], || {
        may_begin.now();
        noted = wait_for(&notes.path().join("taken"));
        std::thread::sleep(Duration::from_millis(500));
    });
    let (taken, seed) = noted.split_once(' ').unwrap();
    let taken: u64 = taken.parse().unwrap();
    drop(programs);
    show(&run);

    let victim =
        run.jobs.iter().find(|thread| thread.task.comm == "lb-victim").expect("its jobs are followed");
    assert!(victim.cycle.is_some(), "{:?}", run.jobs);
    let named = |comm: &str| run.worst.iter().any(|one| one.task.comm == comm);
    assert!(named("lb-victim") && !named("lb-neighbour") && !named("lb-innocent"));
    let lengths: u64 = run.worst.iter().map(|one| one.length().0).sum();
    assert_eq!(run.blame.iter().map(|row| row.time.0).sum::<u64>(), lengths);

    let neighbour = row(&run.blame, &victims.path, &Owner::Group(neighbours.path.clone()));
    let neighbour = neighbour.unwrap_or_else(|| panic!("{:?}", run.blame));
    let all: u64 = run.worst.iter().map(|late| of_neighbour(late, Nanos::ZERO).0).sum();
    assert_eq!(neighbour.time.0, all);
    // The clock of a thread counts on while an interrupt is handled over it, or its CPU stands still, and begins where the scheduler does.
    let (own, over) = of_neighbour_once(&run);
    let off = 100.0 * ((own + over) as f64 - taken as f64) / taken as f64;
    println!(
        "seed {seed}: the neighbour's CPU clock says {taken} ns; blamed for {}, {} of it twice, {} over it ({off:+.2} %)",
        neighbour.time,
        Nanos(all - own),
        Nanos(over)
    );
    // Once more where it woke first.
    assert!((BURSTS..=BURSTS + 1).contains(&neighbour.late), "{neighbour:?}");
    assert!(own >= taken / 100 * 97 && off.abs() < 1.0, "{off} %");
    // By its own clock the innocent was through before each of the other jobs was due.
    let overrun = std::fs::read_to_string(notes.path().join("overran")).unwrap();
    let overrun: Vec<(u64, u64)> = overrun
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(from, until)| (from.parse().unwrap(), until.parse().unwrap()))
        .collect();
    let is_overrun = |late: &&Explanation| {
        overrun.iter().any(|(from, until)| (*from..=*until).contains(&late.requested_at.0))
    };
    let overrun: Vec<Explanation> = run.worst.iter().filter(is_overrun).cloned().collect();
    let innocent = Owner::Group(innocents.path.clone());
    let at_work = row(&blame_groups(&overrun), &victims.path, &innocent).cloned();
    println!("the innocent was still at work when {} jobs were due: {at_work:?}", overrun.len());
    let blamed = row(&run.blame, &victims.path, &innocent).cloned();
    assert_eq!(blamed, at_work, "{:#?}", spans_of(&run, &innocents.path));
    assert!(overrun.len() * 20 < run.worst.len(), "the CPU stood still too often");
}

#[test]
fn live_the_quota_of_a_group_is_blamed_for_as_long_as_cpu_stat_says() {
    let own = std::process::id();
    let (unified, with_cpu) = (mount(false), mount(true));
    let path = format!("/latebound-quota-{own}");
    let group = Group::new(&unified, &path);
    let limited = (with_cpu != unified).then(|| Group::new(&with_cpu, &path));
    if limited.is_none() {
        std::fs::write(unified.join("cgroup.subtree_control"), "+cpu")
            .expect("the cpu controller of version 2");
    }
    let notes = tempfile::tempdir().unwrap();
    let may_begin = Begin::not_yet(notes.path());
    let program = Program::start("burner", notes.path());
    group.join(&program.0);
    if let Some(limited) = &limited {
        limited.join(&program.0);
    }
    let folder = limited.as_ref().map_or(&group.folder, |limited| &limited.folder);
    // 10 ms of each 60 ms.
    let limit = |on: bool| match &limited {
        Some(limited) => {
            std::fs::write(limited.folder.join("cpu.cfs_period_us"), "60000").unwrap();
            let quota = if on { "10000" } else { "-1" };
            std::fs::write(limited.folder.join("cpu.cfs_quota_us"), quota).unwrap();
        }
        None => std::fs::write(group.folder.join("cpu.max"), if on { "10000 60000" } else { "max 60000" })
            .unwrap(),
    };
    // The jobs that the quota held are the longest.
    let run = explain(&["--cgroup", &path, "--worst", "120"], || {
        may_begin.now();
        std::thread::sleep(Duration::from_nanos(FOLLOWED_AFTER));
        limit(true);
        std::thread::sleep(Duration::from_millis(2_500));
        limit(false);
        std::thread::sleep(Duration::from_millis(500));
    });
    let account = std::fs::read_to_string(folder.join("cpu.stat")).unwrap();
    let count = |name: &str| {
        let line = account.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|number| number.parse::<u64>().unwrap())
    };
    let throttled = count("throttled_time").or(count("throttled_usec").map(|us| us * 1_000)).unwrap();
    let periods = count("nr_throttled").unwrap();
    drop(program);
    show(&run);
    let quota =
        row(&run.blame, &path, &Owner::Quota(path.clone())).unwrap_or_else(|| panic!("{:?}", run.blame));
    let off = 100.0 * (quota.time.0 as f64 - throttled as f64) / throttled as f64;
    println!(
        "cpu.stat: {throttled} ns in {periods} periods; blamed for {} ({off:+.2} %) of {} jobs",
        quota.time, quota.late
    );
    assert!(throttled > 1_000 * MS, "{throttled}: the group did not use its quota up");
    assert!(off.abs() < 1.0, "{off} %");
}

#[test]
fn live_threads_below_and_those_that_join_later_are_watched() {
    let own = std::process::id();
    let prefix = format!("7c11{own:08x}");
    let id = format!("{prefix:0<64}");
    let container = Group::unified(&format!("/docker-{id}.scope"));
    let below = Group::unified(&format!("{}/init", container.path));
    let notes = tempfile::tempdir().unwrap();
    Begin::not_yet(notes.path()).now();
    let start = |name: &str| Program::start(name, notes.path());
    let (first, later, other) = (start("lb-first"), start("lb-later"), start("lb-other"));
    container.join(&first.0);
    let run = explain(&["--container", &prefix, "--cycle", "off"], || {
        std::thread::sleep(Duration::from_millis(500));
        below.join(&later.0);
        std::thread::sleep(Duration::from_millis(1_000));
    });
    drop((first, later, other));
    let mut watched: Vec<&str> =
        run.series.iter().filter_map(|series| Some(series.subject.task.as_ref()?.comm.as_str())).collect();
    watched.sort_unstable();
    watched.dedup();
    assert_eq!(watched, ["lb-first", "lb-later"]);
    let whom: Vec<&str> = run.blame.iter().filter_map(|row| row.whom.as_deref()).collect();
    assert!(whom.iter().all(|path| *path == container.path || *path == below.path), "{whom:?}");
}

#[test]
#[ignore = "runs in a guest with a slow disk"]
fn guest_pages_written_back_are_blamed_on_the_group_that_made_them_dirty() {
    let notes = tempfile::tempdir().unwrap();
    let may_begin = Begin::not_yet(notes.path());
    let writers = Group::unified("/latebound-writer.service");
    let readers = Group::unified("/latebound-reader.service");
    let start = |name: &str, group: &Group| {
        let program = Program::start(name, notes.path());
        group.join(&program.0);
        program
    };
    let programs = [start("writer", &writers), start("reader", &readers)];
    let run = explain(
        &["--unit", "latebound-reader.service", "--worst", "20", "--cycle", "clock_nanosleep"],
        || {
            may_begin.now();
            wait_for(&notes.path().join("taken"));
        },
    );
    drop(programs);
    show(&run);
    for cause in run.worst.iter().flat_map(|one| &one.causes).filter(|cause| cause.kind == CauseKind::BlockIo)
    {
        println!(
            "{}: {} {:?} {:?}",
            cause.subject,
            cause.duration,
            cause.group,
            cause.task.as_ref().map(|task| &task.comm)
        );
    }
    // A request takes 20 ms: its own read is the device's, what it waits for before belongs to the writer's group.
    let took = |who: &Owner| row(&run.blame, &readers.path, who).map_or((0, 0), |row| (row.late, row.time.0));
    let (late, of_writer) = took(&Owner::Group(writers.path.clone()));
    assert!(late >= 15 && of_writer >= late * 20 * MS, "{:?}", run.blame);
    let (late, of_device) = took(&Owner::Devices);
    let in_device = |request: &str| -> Vec<u64> {
        let causes = run.worst.iter().flat_map(|one| &one.causes).filter(|cause| cause.group.is_none());
        causes
            .filter(|cause| cause.subject == format!("{request}, in the device"))
            .map(|cause| cause.duration.0)
            .collect()
    };
    // Of the file system itself, its journal and superblock, for no group: a commit each five seconds.
    let (reads, of_nobody) = (in_device("254:0 read"), in_device("254:0 write"));
    assert!(late == 20 && reads.len() == 20 && of_nobody.len() <= 4, "{reads:?} {of_nobody:?}");
    let of_reads: u64 = reads.iter().sum();
    assert!(of_reads.abs_diff(20 * 20 * MS) < 8 * MS, "{reads:?}");
    // Such a write is 20 ms in the device, and before that in the queue behind one other request at most.
    let least = of_reads + of_nobody.iter().sum::<u64>();
    let most = of_reads + of_nobody.len() as u64 * 2 * 20 * MS + 8 * MS;
    assert!((least..most).contains(&of_device), "{of_device}: {reads:?} {of_nobody:?}");
    assert!(took(&Owner::Kernel).1 < of_writer / 5, "{:?}", run.blame);
}

#[test]
fn live_lab_writeback_is_blamed_on_the_group_that_wrote_on_6_12() {
    let script = format!(
        "modprobe ext4
        modprobe null_blk nr_devices=1 gb=1 memory_backed=1 irqmode=2 completion_nsec=20000000 submit_queues=1 hw_queue_depth=1 || exit 11
        /sbin/mkfs.ext4 -q -E lazy_itable_init=0 /dev/nullb0 64M && mkdir -p {DISK} && mount -o noatime /dev/nullb0 {DISK} || exit 12
        echo '+cpu +io +memory' >/sys/fs/cgroup/cgroup.subtree_control || exit 13
        echo 20 >/proc/sys/vm/dirty_writeback_centisecs && echo 10 >/proc/sys/vm/dirty_expire_centisecs || exit 14
        exec {} --nocapture --ignored --exact guest_pages_written_back_are_blamed_on_the_group_that_made_them_dirty",
        std::env::current_exe().unwrap().display()
    );
    pass_in_guest("debian:6.12", "300s", &script, 1);
}

/// In a guest the cpu controller is in version 2.
#[test]
fn live_lab_groups_are_blamed_by_the_accounts_of_6_12_rt() {
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "echo +cpu >/sys/fs/cgroup/cgroup.subtree_control || exit 11
        exec {} --nocapture --test-threads=1 live_ --skip live_lab_",
        program.display()
    );
    pass_in_guest("debian:6.12-rt", "600s", &script, 3);
}
