// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound explain --pid` beside a program whose jobs are late for known reasons: each reason is named, with the time that it took by the
//! program's own clock.
//!
//! The program is this test program itself, started once more. Its thread `control` has a job each 20 ms. Every third job does one planted
//! thing, which takes some milliseconds, and notes when.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says what it saw"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use latebound_model::{Cause, CauseKind, Explanation, Nanos, Run, WaitThrough};

const MS: u64 = 1_000_000;
const PERIOD: u64 = 20 * MS;
/// How often each thing is planted.
const TIMES: usize = 6;
/// For so many seconds nothing is planted, so that the tool recognises the jobs; an emulated machine needs longer to load it.
const BEFORE: u64 = 4;
const BEFORE_IN_A_GUEST: u64 = 25;
const BEFORE_VARIABLE: &str = "LATEBOUND_PLANT_AFTER";

fn before() -> u64 {
    std::env::var(BEFORE_VARIABLE).map_or(BEFORE, |text| text.parse().unwrap())
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time that it is given.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) }, 0);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
}

fn sleep_until(at: u64) {
    let time = libc::timespec {
        tv_sec: i64::try_from(at / 1_000_000_000).unwrap(),
        tv_nsec: i64::try_from(at % 1_000_000_000).unwrap(),
    };
    // SAFETY: the time lives through the call; where it is interrupted by a signal the rest does not matter here.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    };
}

fn spin(length: u64) {
    let end = now() + length;
    while now() < end {}
}

/// Names this thread, puts it on the first CPU that it may use, and gives it a priority: 0 for an ordinary thread.
fn become_thread(name: &str, priority: i32) {
    let mut comm = [0u8; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: calls on this thread with values that live through them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NAME, comm.as_ptr()), 0);
        assert_eq!(libc::prctl(libc::PR_SET_TIMERSLACK, 1), 0);
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set), 0);
        let first = (0..1024).find(|&cpu| libc::CPU_ISSET(cpu, &set)).unwrap();
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
        let policy = if priority > 0 { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
        let parameters = libc::sched_param { sched_priority: priority };
        assert_eq!(libc::sched_setscheduler(0, policy, &raw const parameters), 0);
    }
}

/// A lock of the C library.
struct PthreadMutex(Box<std::cell::UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a pthread mutex is made for several threads.
unsafe impl Sync for PthreadMutex {}
// SAFETY: it stays where it is, in its box.
unsafe impl Send for PthreadMutex {}

impl PthreadMutex {
    fn new(protocol: i32) -> PthreadMutex {
        let mutex = PthreadMutex(Box::new(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: the attributes are made before they are used, and the mutex is not in use yet.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&raw mut attributes), 0);
            assert_eq!(libc::pthread_mutexattr_setprotocol(&raw mut attributes, protocol), 0);
            assert_eq!(libc::pthread_mutex_init(mutex.0.get(), &raw const attributes), 0);
        }
        mutex
    }

    fn held(&self, work: impl FnOnce()) {
        // SAFETY: the mutex was made and is never destroyed.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
        work();
        // SAFETY: this thread holds it.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }
}

/// A thread that does one thing for each message.
struct Helper(mpsc::Sender<()>);

impl Helper {
    fn start(name: &'static str, priority: i32, mut work: impl FnMut() + Send + 'static) -> Helper {
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            become_thread(name, priority);
            while receive.recv().is_ok() {
                work();
            }
        });
        Helper(send)
    }

    fn go(&self) {
        self.0.send(()).unwrap();
    }
}

fn pipe() -> (File, File) {
    let (read, write) = std::io::pipe().unwrap();
    (File::from(std::os::fd::OwnedFd::from(read)), File::from(std::os::fd::OwnedFd::from(write)))
}

extern "C" fn handler(_: i32) {
    spin(3 * MS);
}

/// A thing that is planted, with its name. It gives the stretch that it took, where that is not all of its call.
type Planted = (&'static str, Box<dyn FnMut() -> Option<(u64, u64)>>);

/// All of the call is what is planted.
fn whole(mut work: impl FnMut() + 'static) -> Box<dyn FnMut() -> Option<(u64, u64)>> {
    Box::new(move || {
        work();
        None
    })
}

/// The things that are planted.
fn plants(folder: &Path) -> Vec<Planted> {
    let (plain, inheriting) = (
        Arc::new(PthreadMutex::new(libc::PTHREAD_PRIO_NONE)),
        Arc::new(PthreadMutex::new(libc::PTHREAD_PRIO_INHERIT)),
    );
    let holder = |name: &'static str, mutex: &Arc<PthreadMutex>, hog: Option<Helper>| {
        let (mutex, (send, receive)) = (mutex.clone(), mpsc::channel());
        let helper = Helper::start(name, 0, move || {
            mutex.held(|| {
                send.send(()).unwrap();
                // It gives its CPU up until the one that it holds up waits for it.
                sleep_until(now() + MS);
                if let Some(hog) = &hog {
                    hog.go();
                }
                spin(2 * MS);
            });
        });
        (helper, receive)
    };
    let hog = Helper::start("hog", 20, || spin(3 * MS));
    let (slow, slow_holds) = holder("holder", &plain, Some(hog));
    let (lent, lent_holds) = holder("lent", &inheriting, None);
    let (mut ask, mut asked) = pipe();
    let (mut answer, mut answered) = pipe();
    std::thread::spawn(move || {
        become_thread("server", 0);
        let mut byte = [0];
        while ask.read_exact(&mut byte).is_ok() {
            spin(3 * MS);
            answered.write_all(&byte).unwrap();
        }
    });
    let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        become_thread("peer", 0);
        let (mut far, mut byte) = (far, [0]);
        while far.read_exact(&mut byte).is_ok() {
            spin(3 * MS);
            far.write_all(&byte).unwrap();
        }
    });
    // SAFETY: makes a descriptor.
    let event = unsafe { libc::eventfd(0, 0) };
    assert!(event >= 0);
    let notifier = Helper::start("notifier", 0, move || {
        spin(3 * MS);
        // SAFETY: eight bytes are written.
        assert_eq!(unsafe { libc::write(event, (&raw const ONE).cast(), 8) }, 8);
    });
    static ONE: u64 = 1;
    let first = Helper::start("first", 60, || spin(3 * MS));
    let action = handler as extern "C" fn(i32);
    // SAFETY: the handler only reads the clock.
    assert_ne!(unsafe { libc::signal(libc::SIGUSR1, action as libc::sighandler_t) }, libc::SIG_ERR);
    let stopper = Helper::start("stopper", 0, || {
        // A process of its own: whoever is stopped with the rest wakes nobody.
        let own = std::process::id();
        let command = format!("kill -STOP {own}; sleep 0.004; kill -CONT {own}");
        let _ = Command::new("sh").args(["-c", &command]).status();
    });
    let file = folder.join("written");
    let data = vec![7u8; 1 << 20];
    let mut all: Vec<Planted> = vec![
        ("own code", whole(|| spin(3 * MS))),
        ("sleep", whole(|| std::thread::sleep(Duration::from_millis(3)))),
        (
            "lock",
            whole(move || {
                slow.go();
                slow_holds.recv().unwrap();
                plain.held(|| {});
            }),
        ),
        (
            "lent lock",
            whole(move || {
                lent.go();
                lent_holds.recv().unwrap();
                inheriting.held(|| {});
            }),
        ),
        (
            "pipe",
            whole(move || {
                asked.write_all(&[1]).unwrap();
                answer.read_exact(&mut [0]).unwrap();
            }),
        ),
        (
            "socket",
            whole(move || {
                near.write_all(&[1]).unwrap();
                near.read_exact(&mut [0]).unwrap();
            }),
        ),
        (
            "eventfd",
            whole(move || {
                notifier.go();
                let mut count = [0u8; 8];
                // SAFETY: eight bytes are read.
                assert_eq!(unsafe { libc::read(event, count.as_mut_ptr().cast(), 8) }, 8);
            }),
        ),
        (
            "first",
            whole(move || {
                first.go();
                // It runs at once, on this CPU.
                spin(MS / 10);
            }),
        ),
        (
            "signal",
            // SAFETY: the handler is set.
            whole(|| assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0)),
        ),
        (
            "child",
            whole(|| {
                let status = Command::new("sleep").arg("0.003").status();
                assert!(status.unwrap().success());
            }),
        ),
        (
            "stop",
            Box::new(move || {
                stopper.go();
                let end = now() + 200 * MS;
                let mut last = now();
                // The longest gap is the stop.
                let mut stop = (last, last);
                while last < end && stop.1 - stop.0 < 3 * MS {
                    std::thread::sleep(Duration::from_micros(100));
                    let at = now();
                    if at - last > stop.1 - stop.0 {
                        stop = (last, at);
                    }
                    last = at;
                }
                Some(stop)
            }),
        ),
    ];
    // A file system in memory has nothing to wait for.
    if !is_in_memory(folder) {
        all.push((
            "fsync",
            Box::new(move || {
                let mut written = File::create(&file).unwrap();
                written.write_all(&data).unwrap();
                let from = now();
                // SAFETY: the descriptor is open.
                assert_eq!(unsafe { libc::fdatasync(written.as_raw_fd()) }, 0);
                Some((from, now()))
            }),
        ));
    }
    all
}

fn is_in_memory(folder: &Path) -> bool {
    let path = std::ffi::CString::new(folder.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the path and the answer live through the call.
    unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        assert_eq!(libc::statfs(path.as_ptr(), &raw mut found), 0);
        [libc::TMPFS_MAGIC, libc::OVERLAYFS_SUPER_MAGIC].contains(&found.f_type)
    }
}

#[test]
#[ignore = "the program that the tests here watch"]
fn guest_planted_jobs() {
    let folder = PathBuf::from(std::env::var_os("LATEBOUND_PLANTS").unwrap());
    let notes = Arc::new(Mutex::new(Vec::new()));
    let mut plants = plants(&folder);
    become_thread("control", 40);
    let started = now();
    let mut due = started + PERIOD;
    let mut turn = 0;
    let mut job = 0;
    while turn < TIMES * plants.len() {
        sleep_until(due);
        spin(MS / 10);
        job += 1;
        if due > started + before() * 1_000 * MS && job % 3 == 0 {
            let index = turn % plants.len();
            let from = now();
            let stretch = (plants[index].1)();
            let (from, to) = stretch.unwrap_or((from, now()));
            notes.lock().unwrap().push(format!("{}\t{due}\t{from}\t{to}", plants[index].0));
            turn += 1;
        }
        due += PERIOD;
        // What takes longer than a period does not make the jobs behind it late.
        due = due.max(now() + MS);
    }
    sleep_until(due + 5 * PERIOD);
    std::fs::write(folder.join("notes"), notes.lock().unwrap().join("\n")).unwrap();
    // Until it is killed: a process that ends meanwhile cannot be watched.
    std::thread::sleep(Duration::from_secs(120));
}

/// One planted thing, by the program's own clock.
struct Plant {
    due: u64,
    from: u64,
    to: u64,
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is to be the cause of a planted thing's time.
fn is_expected(plant: &str, cause: &Cause) -> bool {
    let via = |name: &str, through: &[WaitThrough]| {
        cause.via.iter().any(|link| link.task.comm == name && through.contains(&link.through))
    };
    // What is planted is the exchange: the thread's own calls are a part of it, some 10 % on a clock of instructions.
    let calls = |names: &[&str]| {
        cause.kind == CauseKind::SystemCall && cause.via.is_empty() && names.contains(&cause.subject.as_str())
    };
    match plant {
        "own code" => cause.kind == CauseKind::OwnCode && cause.via.is_empty(),
        "sleep" => cause.kind == CauseKind::OwnSleep && cause.via.is_empty(),
        "lock" => via("holder", &[WaitThrough::Futex]),
        "lent lock" => via("lent", &[WaitThrough::PiFutex, WaitThrough::Futex]),
        "pipe" => via("server", &[WaitThrough::Pipe]) || calls(&["write", "read"]),
        "socket" => via("peer", &[WaitThrough::Socket]) || calls(&["sendto", "recvfrom"]),
        "eventfd" => via("notifier", &[WaitThrough::EventFd]) || calls(&["write", "read"]),
        "first" => cause.kind == CauseKind::TaskFirst && cause.subject == "first" && cause.via.is_empty(),
        "signal" => cause.kind == CauseKind::SignalHandler,
        // It has the name of its parent until it runs the other program.
        "child" => {
            let of_child = |name: &str| name == "sleep" || name == "control";
            let chain = [WaitThrough::Child, WaitThrough::SystemCall, WaitThrough::Pipe];
            via("sleep", &chain)
                || via("control", &chain)
                || (cause.kind == CauseKind::TaskFirst && of_child(&cause.subject))
        }
        "stop" => cause.kind == CauseKind::Stopped,
        "fsync" => {
            cause.kind == CauseKind::BlockIo
                || !cause.via.is_empty()
                || cause.kind == CauseKind::WaitedForInterrupt
        }
        other => panic!("{other} is not planted"),
    }
}

/// What the machine does to any thread at any time.
fn is_the_machines(kind: CauseKind) -> bool {
    use CauseKind::{Interrupt, Nmi, Scheduler, Softirq, Stolen, StoodStill, TimerInterrupt};
    matches!(kind, Interrupt | Nmi | Scheduler | Softirq | StoodStill | Stolen | TimerInterrupt)
}

/// The time of spans within a planted stretch, of causes that fit.
fn within(explanation: &Explanation, plant: &Plant, fits: impl Fn(&Cause) -> bool) -> u64 {
    let overlap =
        |span: &latebound_model::Span| span.end.0.min(plant.to).saturating_sub(span.start.0.max(plant.from));
    let spans = explanation.spans.iter().filter(|span| fits(&explanation.causes[span.cause]));
    spans.map(overlap).sum()
}

/// Runs the test below in a guest.
fn in_guest(kernel: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["lab", "run", "--kernel", kernel, "--clock", "instructions", "--timeout", "400s", "--"])
        .args(["exec", "env", &format!("{BEFORE_VARIABLE}={BEFORE_IN_A_GUEST}"), "LATEBOUND_SHOW=1"])
        .arg(std::env::current_exe().unwrap())
        .args(["--nocapture", "--exact", "live_planted_things_of_a_job_are_named_each_for_its_time"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    println!("{said}");
}

#[test]
fn live_lab_planted_things_of_a_job_are_named_on_6_12_rt() {
    in_guest("debian:6.12-rt");
}

#[test]
fn live_lab_planted_things_of_a_job_are_named_on_7() {
    in_guest("debian:7");
}

#[test]
fn live_planted_things_of_a_job_are_named_each_for_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let program = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", "--exact", "guest_planted_jobs"])
        .env("LATEBOUND_PLANTS", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let program = Killed(program);
    std::thread::sleep(Duration::from_millis(300));
    let explained = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args([
            "explain",
            "--pid",
            &program.0.id().to_string(),
            "--duration",
            &format!("{}s", before() + 8),
            "--worst",
            "400",
        ])
        .args(["--format", "json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&explained.stderr);
    assert!(explained.status.success(), "{said}");
    let run: Run = serde_json::from_slice(&explained.stdout).unwrap();
    let notes = std::fs::read_to_string(folder.path().join("notes")).unwrap();

    let control = run.jobs.iter().find(|thread| thread.task.comm == "control");
    let control = control
        .unwrap_or_else(|| panic!("no jobs of control: {:?}\n{:?}\n{said}\n{notes}", run.jobs, run.missing));
    let cycle = control.cycle.as_ref().unwrap_or_else(|| panic!("{:?}", run.jobs));
    assert_eq!(cycle.site.call.as_deref(), Some("clock_nanosleep"));
    assert!(cycle.period.is_some_and(|period| period.0.abs_diff(PERIOD) < PERIOD / 50), "{cycle:?}");
    assert!(control.jobs >= 100, "{control:?}");
    let mut plants: BTreeMap<&str, Vec<Plant>> = BTreeMap::new();
    for line in notes.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |index: usize| fields[index].parse().unwrap();
        plants.entry(fields[0]).or_default().push(Plant { due: number(1), from: number(2), to: number(3) });
    }
    // What is planted before the jobs are recognised cannot be found.
    let jobs = run.worst.iter().filter(|one| one.task.comm == "control" && one.ended_at.is_some());
    let followed_from = jobs.map(|job| job.requested_at.0).min().unwrap();
    plants.values_mut().for_each(|plants| plants.retain(|plant| plant.due >= followed_from));
    // The rest is the program's own way into and out of the wait, which an emulated machine takes longer for, with the programs of BPF in it.
    let in_guest = std::env::var_os(BEFORE_VARIABLE).is_some();
    // A fast disk is done before the ways to it and back are small.
    let least_of = |plant: &str| match plant {
        "fsync" => 60.0,
        _ if in_guest => 85.0,
        _ => 90.0,
    };
    let mut wrong = String::new();
    for (name, plants) in &plants {
        let (mut found, mut expected, mut machines, mut unaccounted, mut all) = (0, 0, 0, 0, 0);
        for plant in plants {
            let is_job = |one: &&Explanation| {
                one.task.comm == "control"
                    && one.requested_at.0.abs_diff(plant.due) < MS
                    && one.until().0 >= plant.to
            };
            let Some(job) = run.worst.iter().find(is_job) else { continue };
            assert!(job.adds_up());
            found += 1;
            all += plant.to - plant.from;
            expected += within(job, plant, |cause| is_expected(name, cause));
            machines += within(job, plant, |cause| !is_expected(name, cause) && is_the_machines(cause.kind));
            unaccounted += within(job, plant, |cause| cause.kind == CauseKind::Unaccounted);
            if std::env::var_os("LATEBOUND_SHOW").is_some() {
                for cause in job.causes.iter().filter(|cause| cause.duration.0 > MS / 10) {
                    let via: Vec<_> =
                        cause.via.iter().map(|link| (&link.task.comm, link.through, link.known_by)).collect();
                    println!("  {name}: {} {} {} {via:?}", cause.duration, cause.kind.name(), cause.subject);
                }
            }
        }
        let percent = |part: u64| 100.0 * part as f64 / (all - machines).max(1) as f64;
        println!(
            "{name}: {found} of {} jobs, {} in all; named {:.1} %, unaccounted {:.2} %; the machine took {}",
            plants.len(),
            Nanos(all),
            percent(expected),
            percent(unaccounted),
            Nanos(machines)
        );
        if found != plants.len()
            || found < TIMES / 2
            || percent(expected) < least_of(name)
            || percent(unaccounted) > 2.0
        {
            wrong += &format!("{name}: {found} of {} jobs, {:.1} %\n", plants.len(), percent(expected));
        }
    }
    assert!(plants.len() >= 11, "{notes}");
    assert!(wrong.is_empty(), "{wrong}");
}
