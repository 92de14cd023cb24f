// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound tune run` where it really acts: on kernel threads of a PREEMPT_RT guest, killed at random moments.
//!
//! The test boots a guest and runs itself in there; `LATEBOUND_KILLS=1000` asks for more rounds than the usual few.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says what it saw"
)]

mod guest_job;
mod kernel_threads;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use guest_job::in_guest;
use kernel_threads::{EndOf, Priorities, await_a_change, differing, priorities};

/// Within this everything has to be as it was. On real processors that is 100 ms, which `undo_at_sigkill` of latebound-system
/// holds the watchdog to; emulated ones, shared with whatever the host does, are some ten times as slow.
const SOON: Duration = Duration::from_secs(1);

const BY_INSTRUCTIONS: &[&str] =
    &["--kernel", "debian:6.12-rt", "--clock", "instructions", "--timeout", "600s"];

/// Boots a guest with a disk, and runs those of the tests below in it that are named so, without the trial's. What they printed.
fn tests_in_guest(tests: &str, rounds: u32, timeout: &str) -> String {
    let options = ["--kernel", "debian:6.12-rt", "--emulate", "--disk", "64MiB", "--timeout", timeout];
    let (own, rounds) = (std::env::current_exe().unwrap(), format!("LATEBOUND_KILLS={rounds}"));
    let how = ["--ignored", "--nocapture", "--test-threads=1", "--skip", "guest_prove", tests];
    in_guest(&options, ["env", &rounds, own.to_str().unwrap()].into_iter().chain(how)).0
}

/// One of the files that are run in a guest.
fn guest_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest").join(name)
}

#[test]
fn live_lab_tune_restores_priorities_and_raises_for_blocked_tasks() {
    let rounds = std::env::var("LATEBOUND_KILLS").map_or(6, |text| text.parse().unwrap());
    let timeout = format!("{}s", 600 + rounds * 15);
    let said = tests_in_guest("guest_", rounds, &timeout);
    assert!(said.contains(&format!("{rounds} kills")) && said.contains("5 passed"), "{said}");
}

/// By instructions, so that no time that a service manager waits for depends on what else the host does.
#[test]
fn live_lab_the_service_unit_lets_the_tuner_work_and_gives_all_back() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/latebound-tune.service");
    let tool = Path::new(env!("CARGO_BIN_EXE_latebound"));
    let (said, beside) = in_guest(
        &[BY_INSTRUCTIONS, &["--append", "latebound_first=1"]].concat(),
        [Path::new("sh"), &guest_file("service.sh"), tool, &unit],
    );
    let all = format!("{said}\n{beside}");
    // SYS_NICE and IPC_LOCK, as docs/src/reference/privileges.md has it; bounded by the unit to its six.
    let kept = |name: &str| {
        said.lines().any(|line| {
            line.starts_with(&format!("Name: {name} CapEff: 0000000000804000 "))
                && line.ends_with("NoNewPrivs: 1 Seccomp: 2 ")
        })
    };
    assert!(kept("latebound") && kept("latebound-undo"), "{all}");
    for line in [
        "start: 0, active",
        "journals: 700 root, 1",
        "killed: as before",
        "again: active, restarts 1",
        "stop: 0, success, status 0",
        "stopped: as before",
    ] {
        assert!(said.lines().any(|one| one == line), "no \"{line}\":\n{all}");
    }
    assert!(
        said.contains("at work: ") && !said.contains("at work: 0 ") && !said.contains("never: "),
        "{all}"
    );
}

/// Fails if the tuner helps nobody: `off` is without any tuner. A trial lasts as long as it is told to, so it is by instructions: with the host's
/// clock its tasks may not have begun when it ends.
#[test]
fn live_lab_with_the_tuner_a_sync_and_an_echo_take_less_than_half() {
    let (said, beside) = in_guest(
        &[BY_INSTRUCTIONS, &["--disk", "64MiB", "--memory", "1GiB"]].concat(),
        [
            Path::new("/bin/bash"),
            &guest_file("benefit.sh"),
            Path::new(env!("CARGO_BIN_EXE_latebound")),
            &std::env::current_exe().unwrap(),
        ],
    );
    assert!(beside.contains("1 passed"), "{beside}");
    let mut documents = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    for (name, least) in [("fsync", 5e6), ("echo", 2e6)] {
        let trial = documents.next().unwrap().unwrap();
        let [off, tuned] = medians_of_high(&trial);
        eprintln!("{name}: {off} ns off, {tuned} ns tuned");
        assert!(off > least && tuned < off / 2.0, "{name}: {off} {tuned}");
    }
}

/// Fails if the tuner helps nobody, as the test above.
#[test]
fn live_lab_with_the_tuner_who_waits_for_a_thread_waits_half_at_most() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/programs/create_devices.py");
    let (said, _) = in_guest(
        BY_INSTRUCTIONS,
        [
            Path::new("/bin/bash"),
            &guest_file("creation.sh"),
            Path::new(env!("CARGO_BIN_EXE_latebound")),
            &program,
        ],
    );
    let trial: Value = serde_json::from_str(&said).unwrap();
    let [off, tuned] = medians_of_high(&trial);
    eprintln!("creation: {off} ns off, {tuned} ns tuned");
    assert!(off > 5e6 && tuned < off / 2.0, "{off} {tuned}");
}

/// Fails if the tuner helps nobody: the longest response behind a flusher and behind kswapd.
#[test]
fn live_lab_with_the_tuner_starved_flusher_and_kswapd_delay_half_at_most() {
    let (said, _) = in_guest(
        &[BY_INSTRUCTIONS, &["--disk", "64MiB", "--memory", "1GiB"]].concat(),
        [Path::new("/bin/bash"), &guest_file("starved.sh"), Path::new(env!("CARGO_BIN_EXE_latebound"))],
    );
    let mut documents = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    for name in ["flusher", "kswapd"] {
        let trial = documents.next().unwrap().unwrap();
        let [off, tuned] = longest_of_high(&trial);
        eprintln!("{name}: {off} ns off, {tuned} ns tuned");
        assert!(off > 1e8 && tuned < off / 2.0, "{name}: {off} {tuned}");
    }
}

/// The median of the task that is called so, without the tuner and with it.
fn medians_of_high(trial: &Value) -> [f64; 2] {
    let measures = trial["comparison"]["against"][0]["measures"].as_array().unwrap();
    let is_median = |one: &&Value| one["of"].as_str().unwrap().contains("high") && one["statistic"] == "p50";
    let median = measures.iter().find(is_median).unwrap_or_else(|| panic!("{measures:#?}"));
    ["base", "new"].map(|side| median[side]["median"].as_f64().unwrap())
}

/// Its longest response of all rounds. The comparison has none where a response had not ended with its round.
fn longest_of_high(trial: &Value) -> [f64; 2] {
    let named = |all: &Value, key: &str, name: &str| {
        all.as_array().unwrap().iter().find(|one| one[key] == name).unwrap().clone()
    };
    ["off", "weighted-average"].map(|policy| {
        let tasks = named(&trial["policies"], "policy", policy)["tasks"].clone();
        named(&tasks, "name", "high")["responses"]["max_ns"].as_f64().unwrap()
    })
}

struct Tuner {
    child: Child,
}

impl Tuner {
    fn start(folder: &Path, ready: &UnixDatagram) -> Tuner {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latebound"));
        command.args(["tune", "run", "--format", "json", "--journal"]).arg(folder.join("journal"));
        command.arg("--config").arg(folder.join("tune.toml"));
        command.env("NOTIFY_SOCKET", folder.join("ready")).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        assert_eq!(ready.recv(&mut [0; 64]).unwrap(), "READY=1".len());
        Tuner { child }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: takes integers; the child is not reaped.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }
}

/// Writes blocks to the disk itself, in bursts longer and shorter than the hold, until it is told to stop.
fn write_in_bursts(stopped: &std::sync::atomic::AtomicBool) {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let page = Box::new(Page([2; 4096]));
    let mut options = OpenOptions::new();
    let disk = options.write(true).custom_flags(libc::O_DIRECT | libc::O_DSYNC).open("/dev/vda").unwrap();
    let parameters = libc::sched_param { sched_priority: 60 };
    // SAFETY: the parameters live through the call; 0 is this thread.
    assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) }, 0);
    while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
        for block in 0..4 {
            disk.write_all_at(&page.0, block * 4096).unwrap();
        }
        std::thread::sleep(Duration::from_millis(25));
    }
}

fn run(words: &[&str]) {
    assert!(Command::new(words[0]).args(&words[1..]).status().unwrap().success(), "{words:?}");
}

/// Makes a file system on the guest's disk; where it is.
fn mounted_below(folder: &Path) -> String {
    assert!(Path::new("/dev/vda").exists(), "only in a guest: this writes over its disk");
    let disk = folder.join("disk");
    std::fs::create_dir_all(&disk).unwrap();
    let disk = disk.display().to_string();
    run(&["/usr/sbin/mke2fs", "-q", "-F", "-t", "ext2", "/dev/vda"]);
    run(&["mount", "/dev/vda", &disk]);
    disk
}

fn next(random: u64) -> u64 {
    // Knuth, The Art of Computer Programming, volume 2, section 3.3.4, table 1, line 26.
    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// Beside a real-time task that writes to the disk: a folder with a configuration, the socket that tuners say to that they are ready, and what
/// kernel threads were before.
fn beside_bursts(name: &str, run: impl FnOnce(&Path, &UnixDatagram, &Priorities)) {
    assert!(Path::new("/dev/vda").exists(), "only in a guest: this writes over its disk");
    let folder = Path::new("/run").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let ready = UnixDatagram::bind(folder.join("ready")).unwrap();
    // An emulated processor, and a program that is not optimised: the usual reservation would let it do little.
    std::fs::write(folder.join("tune.toml"), "[daemon]\nruntime = \"1ms\"\nperiod = \"2ms\"\n").unwrap();
    let were = priorities();
    let stopped = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| write_in_bursts(&stopped));
        let end = EndOf(&stopped);
        run(&folder, &ready, &were);
        drop(end);
    });
}

#[test]
#[ignore = "runs in the guest that the test above boots"]
fn guest_kills_leave_every_priority_as_it_was() {
    let rounds: u32 = std::env::var("LATEBOUND_KILLS").unwrap().parse().unwrap();
    beside_bursts("tune-test", |folder, ready, were| rounds_of_kills(rounds, folder, ready, were));
}

fn rounds_of_kills(rounds: u32, folder: &Path, ready: &UnixDatagram, were: &Priorities) {
    // Above the writer and what it raises, below the watchdog: the time read is that of the watchdog alone.
    let parameters = libc::sched_param { sched_priority: 97 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameters live through the call; 0 is this thread.
    assert_eq!(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) }, 0);
    let mut random = u64::from(std::process::id()) ^ 0x9E37_79B9_7F4A_7C15;
    let (mut changed, mut worst) = (0_u32, Duration::ZERO);
    for round in 0..rounds {
        let mut tuner = Tuner::start(folder, ready);
        random = next(random);
        // From any moment after the start on, or from the first change on.
        if round % 2 == 1 {
            await_a_change(were, 20 * SOON);
        }
        let wait = Duration::from_micros((random >> 40) % 600_000);
        std::thread::sleep(wait);
        changed += u32::from(!differing(were).is_empty());
        tuner.signal(libc::SIGKILL);
        let killed = Instant::now();
        while !differing(were).is_empty() && killed.elapsed() < 5 * SOON {
            std::thread::sleep(Duration::from_micros(500));
        }
        let took = killed.elapsed();
        let left = differing(were);
        assert!(left.is_empty(), "round {round}, killed after {wait:?}: {left:?} after {took:?}");
        assert!(took <= SOON, "round {round}, killed after {wait:?}: restored after {took:?}");
        worst = worst.max(took);
        tuner.child.wait().unwrap();
    }
    println!(
        "{rounds} kills, {changed} with priorities changed at that moment; all as they were after at most {worst:?}"
    );
    assert!(changed * 4 > rounds, "only {changed} of {rounds} kills met a change: the test tests nothing");

    let tuner = Tuner::start(folder, ready);
    // The first look of a program that is not optimised takes some tenths of a second here, and it is the second one that knows the disk's thread.
    let disk_is_served_at_60 = || {
        differing(were).iter().any(|&(tid, _, is)| {
            let comm = std::fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
            comm.starts_with("irq/") && comm.contains("virtio") && is.priority == 60
        })
    };
    let started = Instant::now();
    while !disk_is_served_at_60() && started.elapsed() < 10 * SOON {
        std::thread::sleep(Duration::from_millis(10));
    }
    tuner.signal(libc::SIGINT);
    let output = tuner.child.wait_with_output().unwrap();
    let left = differing(were);
    assert!(output.status.success() && left.is_empty(), "{left:?} {output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    // It has a reservation, and wakes workers itself: it may not raise them for that.
    assert!(!document["map"].to_string().contains("\"comm\":\"latebound\""), "{}", document["map"]);
    let changes = document["changes"].as_u64().unwrap();
    assert!(
        changes > 0 && document["failed"] == 0 && document["left"] == serde_json::json!([]),
        "{document:#}"
    );
    let raised = document["first_changes"].as_array().unwrap().iter().filter(|one| {
        let interrupt =
            one["comm"].as_str().is_some_and(|comm| comm.starts_with("irq/") && comm.contains("virtio"));
        interrupt && one["to"]["priority"] == 60
    });
    assert!(raised.count() > 0, "{document:#}");
    println!("Ctrl-C: {changes} changes, all given back; median reaction {} ns", document["reaction_median"]);
}

/// In a PID namespace of its own with a /proc of its own, and everything else shared, /run too: as a container that is given the host's folder.
fn in_container(words: &[&str]) -> std::process::Output {
    let unshare = ["--pid", "--fork", "--mount-proc", "--kill-child", env!("CARGO_BIN_EXE_latebound")];
    Command::new("unshare").args(unshare).args(words).output().unwrap()
}

#[test]
#[ignore = "runs in the guest that the first test boots"]
fn guest_a_tuner_in_a_container_and_a_removed_journal_change_nothing() {
    beside_bursts("tune-shared", |folder, ready, were| {
        a_container_beside(folder, ready, were);
        a_journal_that_is_removed(folder, ready, were);
    });
}

fn journals(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

fn a_container_beside(folder: &Path, ready: &UnixDatagram, were: &Priorities) {
    let tuner = Tuner::start(folder, ready);
    await_a_change(were, 20 * SOON);
    assert!(!differing(were).is_empty(), "nothing was changed: the test tests nothing");
    let journal = folder.join("journal");
    let there = journals(&journal);
    assert_eq!(there.len(), 1, "{there:?}");
    let place = journal.to_str().unwrap();
    // The same folder: it is in use, whatever the process ids there mean.
    let second = in_container(&["tune", "run", "--duration", "1s", "--journal", place]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!((second.status.code(), said.contains("is in use")), (Some(1), true), "{second:?}");
    // And nobody else gives back what it holds.
    let undo = in_container(&["tune", "undo", "--journal", place, "--format", "json"]);
    let account: Value = serde_json::from_slice(&undo.stdout).unwrap();
    assert_eq!(
        (undo.status.code(), &account["journals"][0]["state"]),
        (Some(0), &"at_work".into()),
        "{undo:?}"
    );
    // A folder of its own: there is nothing to tune, and nothing is left of it.
    let other = folder.join("other");
    let second = in_container(&["tune", "run", "--duration", "1s", "--journal", other.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!((second.status.code(), said.contains("no kernel thread")), (Some(1), true), "{second:?}");
    assert_eq!(
        (journals(&journal), journals(&other).len()),
        (there, 0),
        "a living tuner's journal is its own"
    );
    tuner.signal(libc::SIGINT);
    let output = tuner.child.wait_with_output().unwrap();
    assert!(output.status.success() && differing(were).is_empty(), "{:?} {output:?}", differing(were));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["failed"], &document["left"]), (&0.into(), &serde_json::json!([])), "{document:#}");
}

fn a_journal_that_is_removed(folder: &Path, ready: &UnixDatagram, were: &Priorities) {
    for killed in [false, true] {
        let tuner = Tuner::start(folder, ready);
        await_a_change(were, 20 * SOON);
        assert!(!differing(were).is_empty(), "nothing was changed: the test tests nothing");
        std::fs::remove_dir_all(folder.join("journal")).unwrap();
        if killed {
            tuner.signal(libc::SIGKILL);
        }
        let output = tuner.child.wait_with_output().unwrap();
        // A killed one has a watchdog, which may take that much longer.
        let started = Instant::now();
        while killed && !differing(were).is_empty() && started.elapsed() < 5 * SOON {
            std::thread::sleep(Duration::from_millis(1));
        }
        let left = differing(were);
        assert!(left.is_empty(), "killed: {killed}, {left:?} {output:?}");
        assert_eq!(output.status.code(), if killed { None } else { Some(1) }, "{output:?}");
    }
}

#[test]
#[ignore = "runs in the guest of the sync and the echo"]
fn guest_prove_times_the_tasks_of_its_command_under_each_policy() {
    let folder = Path::new("/run/tune-trial");
    let disk = mounted_below(folder);
    let were = priorities();
    let binary = env!("CARGO_BIN_EXE_latebound");
    let task = "write:name=planted,priority=60,period=20ms,bytes=4096,file=64KiB,direct,sync";
    let mut command = Command::new(binary);
    command.args([
        "tune",
        "prove",
        "--policy",
        "off,pip",
        "--rounds",
        "1",
        "--duration",
        "1s",
        "--settle",
        "500ms",
    ]);
    command.args(["--format", "json", "--journal"]).arg(folder.join("journal"));
    command.args(["--output"]).arg(folder.join("out"));
    command.args(["--", binary, "tune", "tasks", "--folder", &disk, "--duration", "20s", task]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(differing(&were).is_empty(), "{:?}", differing(&were));
    let trial: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (policy, name) in trial["policies"].as_array().unwrap().iter().zip(["off", "pip"]) {
        assert_eq!(
            (&policy["policy"], &policy["rounds"], &policy["lost"]),
            (&name.into(), &1.into(), &0.into())
        );
        let planted =
            policy["tasks"].as_array().unwrap().iter().find(|task| task["name"] == "planted").unwrap();
        assert_eq!((&planted["other"], &planted["priority"]), (&false.into(), &60.into()), "{planted:#}");
        // One each 20 ms at most, fewer where the emulated disk is slower.
        let points = planted["curve"].as_array().unwrap().len();
        assert!((2..=52).contains(&points), "{planted:#}");
        assert_eq!(policy["tuned"].as_array().unwrap().len(), usize::from(name != "off"));
        assert!(policy["disks"][1].as_u64().unwrap() >= 4096 * points as u64, "{policy:#}");
        let run = latebound_store::read_run(folder.join(format!("out/{name}-1.run"))).unwrap();
        assert!(run.series.iter().any(|series| series.subject.name == "planted"));
    }
    assert_eq!(trial["comparison"]["against"][0]["side"]["name"], "pip");
    let kinds = ["over-time", "cumulative"];
    for picture in kinds.map(|kind| folder.join(format!("out/planted-{kind}.svg"))) {
        assert!(std::fs::read_to_string(&picture).unwrap().starts_with("<svg"), "{}", picture.display());
    }
    let shown =
        Command::new(binary).args(["tune", "show"]).arg(folder.join("out/prove.json")).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("planted (60)") && shown.contains("not enough runs"), "{shown}");
}

#[test]
#[ignore = "runs in the guest that the first test boots"]
fn guest_a_worker_gets_the_priority_of_the_task_blocked_on_its_item() {
    let folder = Path::new("/run/tune-blocked");
    std::fs::create_dir_all(folder).unwrap();
    let ready = UnixDatagram::bind(folder.join("ready")).unwrap();
    std::fs::write(folder.join("tune.toml"), "[daemon]\nruntime = \"1ms\"\nperiod = \"2ms\"\n").unwrap();
    let were = priorities();
    let tuner = Tuner::start(folder, &ready);
    // It writes into a pseudo terminal, which queues an item, and reads the other end, which flushes that item where nothing is there yet
    // (drivers/tty/n_tty.c, n_tty_read, 6.12).
    let task = "echo:name=planted,priority=60,period=20ms,bytes=16";
    let mut tasks = Command::new(env!("CARGO_BIN_EXE_latebound"));
    tasks.args(["tune", "tasks", "--duration", "2s", "--folder"]).arg(folder).arg(task);
    let output = tasks.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    tuner.signal(libc::SIGINT);
    let output = tuner.child.wait_with_output().unwrap();
    assert!(output.status.success() && differing(&were).is_empty(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let map = &document["map"];
    assert_eq!(map["missing"], serde_json::json!([]), "{map:#}");
    let of_workers = |one: &&Value| one["comm"].as_str().is_some_and(|comm| comm.starts_with("kworker/"));
    let changes = document["first_changes"].as_array().unwrap().iter().filter(of_workers);
    let to: Vec<u64> = changes.filter_map(|one| one["to"]["priority"].as_u64()).collect();
    // One that could go on meanwhile would give 0.8 * 60 = 48.
    assert!(to.contains(&60), "{document:#}");
    let waited = map["threads"].as_array().unwrap().iter().filter(of_workers);
    let waited = waited.flat_map(|thread| thread["waiters"].as_array().unwrap());
    let waited = waited.filter(|one| one["comm"] == "planted" && one["over"] == "work_item");
    let counts: Vec<[u64; 2]> =
        waited.map(|one| ["times", "hard"].map(|key| one[key].as_u64().unwrap())).collect();
    assert!(counts.iter().all(|[times, hard]| hard <= times), "{counts:?}");
    // Once each: a hundred at most, and a few as the terminal is opened and closed. Counted twice they would be near two hundred.
    let [times, hard] = counts.iter().fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    assert!(hard > 0 && times <= 130, "{counts:?}");
    println!("{hard} of {times} items had a task blocked on them; workers were set to {to:?}");
}

#[test]
#[ignore = "runs in the guest that the first test boots"]
fn guest_a_flusher_gets_the_priority_of_a_task_held_back_by_dirty_pages() {
    let folder = Path::new("/run/tune-held-back");
    let disk = mounted_below(folder);
    let limit = |name: &str, value: &str| std::fs::write(format!("/proc/sys/vm/{name}"), value).unwrap();
    limit("dirty_background_bytes", "262144");
    limit("dirty_bytes", "524288");
    let ready = UnixDatagram::bind(folder.join("ready")).unwrap();
    std::fs::write(folder.join("tune.toml"), "[daemon]\nruntime = \"1ms\"\nperiod = \"2ms\"\n").unwrap();
    let were = priorities();
    let hog = std::fs::File::create(folder.join("disk/hog")).unwrap();
    let stopped = std::sync::atomic::AtomicBool::new(false);
    let (output, said) = std::thread::scope(|scope| {
        // Keeps as many pages dirty as may be, so that the flusher is at work when the tuner starts already.
        scope.spawn(|| {
            for block in (0..256).cycle() {
                if stopped.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                hog.write_all_at(&[1; 65536], block * 65536).unwrap();
            }
        });
        let end = EndOf(&stopped);
        std::thread::sleep(Duration::from_secs(2));
        let tuner = Tuner::start(folder, &ready);
        let mut tasks = Command::new(env!("CARGO_BIN_EXE_latebound"));
        tasks.args(["tune", "tasks", "--duration", "5s", "--folder", &disk]);
        tasks.arg("write:name=planted,priority=60,period=50ms,bytes=2MiB,file=8MiB");
        let output = tasks.output().unwrap();
        tuner.signal(libc::SIGINT);
        let said = tuner.child.wait_with_output().unwrap();
        drop(end);
        (output, said)
    });
    drop(hog);
    assert!(output.status.success(), "{output:?}");
    assert!(said.status.success() && differing(&were).is_empty(), "{said:?}");
    let document: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(document["map"]["missing"], serde_json::json!([]), "{document:#}");
    let changes = document["first_changes"].as_array().unwrap().iter();
    let of_workers =
        changes.filter(|one| one["comm"].as_str().is_some_and(|comm| comm.starts_with("kworker/")));
    let to: Vec<u64> = of_workers.filter_map(|one| one["to"]["priority"].as_u64()).collect();
    // For an item that it asked for, or pages that it made dirty itself, it would be 0.8 * 60 = 48.
    assert!(to.contains(&60), "{document:#}");
    println!("held back: workers were set to {to:?}");
    limit("dirty_background_ratio", "10");
    limit("dirty_ratio", "20");
    run(&["umount", &disk]);
}

#[test]
#[ignore = "runs in the guest that the first test boots"]
fn guest_only_a_threads_first_end_of_a_request_wakes_the_reader() {
    use latebound_model::{Completer, Priority, RelationKind, WaitEvent};
    use latebound_probe::{RelationOptions, RelationProbe};
    use std::os::unix::fs::MetadataExt;

    #[repr(align(4096))]
    struct Page([u8; 4096]);
    assert!(Path::new("/dev/vda").exists(), "only in a guest: this writes over its disk");
    let disk = std::fs::metadata("/dev/vda").unwrap().rdev();
    let disk = u64::from(libc::major(disk)) << 20 | u64::from(libc::minor(disk));
    let options = RelationOptions { wake_reader: true, ..RelationOptions::default() };
    let mut probe = RelationProbe::start(options).unwrap();
    // Who begins to wait for the disk wakes nobody.
    probe.suppress_wakeups(RelationKind::BlockIo, disk, Priority::MAX).unwrap();
    let requests = || {
        let page = Page([2; 4096]);
        let mut options = OpenOptions::new();
        // Without O_DSYNC: a flush of the disk is carried by a work item, which wakes the reader too.
        let disk = options.write(true).custom_flags(libc::O_DIRECT).open("/dev/vda").unwrap();
        // SAFETY: the set and the parameters live through the calls; 0 is this thread.
        unsafe {
            let mut first: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut first);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&first), &raw const first), 0);
            let parameters = libc::sched_param { sched_priority: 60 };
            assert_eq!(libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters), 0);
        }
        for _ in 0..2 {
            std::thread::sleep(Duration::from_secs(1));
            disk.write_all_at(&page.0, 0).unwrap();
        }
        // A file that is closed is a work item.
        std::thread::sleep(Duration::from_secs(4));
    };
    let patience = Duration::from_secs(3);
    let mut ask = || {
        let started = Instant::now();
        probe.wait(latebound_model::Nanos(patience.as_nanos() as u64));
        (started.elapsed(), probe.poll().unwrap())
    };
    let asks = std::thread::spawn(requests);
    let (first, seen) = ask();
    let served = |seen: &[WaitEvent]| {
        seen.iter().any(|one| {
            matches!(one, WaitEvent::Served { object, by: Completer::Thread(_), .. }
                if object.kind == RelationKind::BlockIo && object.of == disk)
        })
    };
    assert!(served(&seen) && first < patience, "after {first:?}: {seen:?}");
    let (second, seen) = ask();
    assert!(served(&seen) && second >= patience, "after {second:?}: {seen:?}");
    asks.join().unwrap();
    println!("the reader was woken {first:?} after the start by the first request, and not by the second");
}
