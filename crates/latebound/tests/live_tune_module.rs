// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound tune run` with the kernel module latebound_tune in a PREEMPT_RT guest: the module raises, whatever it raised is given back,
//! and it minds nothing that its owner asks.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says what it saw"
)]

mod kernel_threads;

use std::fs::{DirEntry, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use kernel_threads::{EndOf, Priorities, await_a_change, differing, priorities};

#[test]
fn live_lab_the_module_raises_and_restores_at_the_end_and_at_sigkill() {
    let kernel = std::env::var("LATEBOUND_KERNEL").unwrap_or_else(|_| "debian:6.12-rt".to_owned());
    let started = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["lab", "run", "--kernel", kernel.as_str(), "--emulate", "--disk", "64MiB"])
        .args(["--module", "latebound_tune", "--timeout", "10m", "--", "exec"])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", "--test-threads=1", "guest_"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    eprintln!("{:.1} s\n{said}", started.elapsed().as_secs_f64());
    assert!(said.contains("1 passed"), "{said}");
}

fn tuner(folder: &Path, ready: &UnixDatagram) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latebound"));
    command.args(["tune", "run", "--by", "module", "--format", "json", "--journal"]);
    command.arg(folder.join("journal")).arg("--config").arg(folder.join("tune.toml"));
    command.env("NOTIFY_SOCKET", folder.join("ready")).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    assert_eq!(ready.recv(&mut [0; 64]).unwrap(), "READY=1".len());
    child
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: takes integers; the child is not reaped.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

fn fifo(priority: i32) {
    let parameters = libc::sched_param { sched_priority: priority };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameters live through the call; 0 is this thread.
    assert_eq!(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) }, 0);
}

/// Writes to the disk itself and asks for a work item by a pseudo terminal, with these gaps.
fn wait_for_threads(stopped: &AtomicBool, gap_ms: &AtomicU64) {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let page = Box::new(Page([2; 4096]));
    let mut options = OpenOptions::new();
    let disk = options.write(true).custom_flags(libc::O_DIRECT | libc::O_DSYNC).open("/dev/vda").unwrap();
    let (mut master, mut slave) = (0, 0);
    // SAFETY: both descriptors are written; the other arguments may be null.
    let opened = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            std::ptr::null_mut(),
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    assert_eq!(opened, 0);
    fifo(60);
    while !stopped.load(Ordering::Relaxed) {
        disk.write_all_at(&page.0, 0).unwrap();
        // What arrives is handed on by a work item of the kernel (drivers/tty/tty_buffer.c); nobody has to read it.
        // SAFETY: one byte from a live buffer.
        assert_eq!(unsafe { libc::write(master, b"\n".as_ptr().cast(), 1) }, 1);
        std::thread::sleep(Duration::from_millis(gap_ms.load(Ordering::Relaxed)));
        // SAFETY: no memory is touched.
        unsafe { libc::tcflush(slave, libc::TCIOFLUSH) };
    }
}

fn shell(script: &str) -> String {
    let output = Command::new("/bin/sh").args(["-c", script]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
#[ignore = "runs in the guest that the test above boots"]
fn guest_the_module_raises_and_all_is_given_back() {
    assert!(Path::new("/dev/vda").exists(), "only in a guest: this writes over its disk");
    let rounds: u32 = std::env::var("LATEBOUND_KILLS").map_or(4, |text| text.parse().unwrap());
    let hostile = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/hostile_tune.py");
    let said = shell(&format!("/usr/bin/python3 {hostile}"));
    assert_eq!(said.trim(), "hostile taken refused kept", "{said}");
    let device = "/bin/cat /dev/latebound_tune";
    let said = shell(&format!(
        "/usr/bin/setpriv --reuid 65534 --clear-groups {device}; \
         /usr/bin/setpriv --inh-caps=-all --bounding-set=-all {device}"
    ));
    assert!(said.contains("Permission denied") && said.contains("not permitted"), "{said}");

    let folder = Path::new("/run/tune-module");
    std::fs::create_dir_all(folder).unwrap();
    let ready = UnixDatagram::bind(folder.join("ready")).unwrap();
    // An emulated processor, and a program that is not optimised: the usual reservation would let it do little.
    std::fs::write(folder.join("tune.toml"), "[daemon]\nruntime = \"1ms\"\nperiod = \"2ms\"\n").unwrap();
    let were = priorities();
    let stopped = AtomicBool::new(false);
    // Longer than ten holds, over which waits that come at intervals are held (`MOST_HOLDS` of latebound-tune), by whoever raised for the first
    // one: the module raises for each of these as soon as it knows the disk's thread.
    let gap_ms = AtomicU64::new(300);
    std::thread::scope(|scope| {
        let end = EndOf(&stopped);
        scope.spawn(|| wait_for_threads(&stopped, &gap_ms));
        ends_by_itself(folder, &ready, &were);
        gap_ms.store(30, Ordering::Relaxed);
        kills(rounds, folder, &ready, &were);
        drop(end);
    });
    let said = shell(
        "rmmod latebound_tune && echo unloaded; dmesg | grep -E 'BUG|WARNING|Call Trace|INFO: ' || echo quiet",
    );
    assert_eq!(said.trim(), "unloaded\nquiet", "{said}");
}

fn ends_by_itself(folder: &Path, ready: &UnixDatagram, were: &Priorities) {
    let tuner = tuner(folder, ready);
    std::thread::sleep(Duration::from_secs(6));
    assert!(shell("rmmod latebound_tune; [ -d /sys/module/latebound_tune ] && echo held").contains("held"));
    let second = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["tune", "run", "--by", "module", "--duration", "1s", "--journal"])
        .arg(folder.join("second"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && said.contains("wait for the other tuner to end"), "{said}");
    signal(&tuner, libc::SIGINT);
    let output = tuner.wait_with_output().unwrap();
    let left = differing(were);
    assert!(output.status.success() && left.is_empty(), "{left:?} {output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["failed"], &document["left"]), (&0.into(), &serde_json::json!([])), "{document:#}");
    let by = &document["by_module"];
    assert_eq!(
        (&by["failed"], &by["records_lost"], &by["refused"]),
        (&0.into(), &0.into(), &0.into()),
        "{by:#}"
    );
    assert_eq!(by["raised"], by["reactions"], "{by:#}");
    let changes = document["first_changes"].as_array().unwrap();
    let raised = |over: &str, name: &str, to: u64| {
        let is = |one: &&Value| {
            one["by_module"]["over"] == over
                && one["comm"].as_str().is_some_and(|comm| comm.starts_with(name))
                && one["to"]["priority"] == to
                && one["highest"] == 60
        };
        changes.iter().filter(is).count()
    };
    // The disk's thread by equation (2): min(1.2 * 60, 60); a worker: 0.8 * 60.
    let (disk, work) = (raised("block_io", "irq/", 60), raised("work_item", "kworker/", 48));
    println!(
        "raised by the module: {disk} of the disk, {work} workers; median {}, worst {}",
        by["reaction_median"], by["reaction_worst"]
    );
    assert!(disk > 0 && work > 0, "{document:#}");
}

/// The tuner's own descriptor of the module, for this process too: the module is then not closed when the tuner is gone.
fn device_of(tuner: &Child) -> OwnedFd {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", tuner.id())).unwrap().flatten();
    let is_device = |one: &DirEntry| {
        std::fs::read_link(one.path()).is_ok_and(|to| to == Path::new("/dev/latebound_tune"))
    };
    let device = descriptors.into_iter().find(is_device).unwrap();
    let number: i32 = device.file_name().to_str().unwrap().parse().unwrap();
    // SAFETY: both calls take integers; what they return is checked, and owned by nobody else.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, tuner.id(), 0);
        assert!(process >= 0, "{}", std::io::Error::last_os_error());
        let process = OwnedFd::from_raw_fd(process as i32);
        let device = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0);
        assert!(device >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(device as i32)
    }
}

/// The watchdog stops the module before it undoes: what the writer waits for after that stays as it was, although the module is open still.
fn kills(rounds: u32, folder: &Path, ready: &UnixDatagram, were: &Priorities) {
    // Above the writer and what is raised for it, below the watchdog.
    fifo(97);
    let (mut changed, mut worst) = (0, Duration::ZERO);
    for round in 0..rounds {
        let mut tuner = tuner(folder, ready);
        if round % 2 == 1 {
            await_a_change(were, Duration::from_secs(20));
        }
        std::thread::sleep(Duration::from_millis(400 + u64::from(round) % 7 * 11));
        changed += u32::from(!differing(were).is_empty());
        let device = device_of(&tuner);
        signal(&tuner, libc::SIGKILL);
        let killed = Instant::now();
        let journal = folder.join(format!("journal/{}.undo", tuner.id()));
        // The watchdog removes it when it is through.
        while journal.exists() && killed.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_micros(500));
        }
        worst = worst.max(killed.elapsed());
        // From here on nobody is left to give anything back, and the writer goes on waiting for those threads.
        for _ in 0..15 {
            let left = differing(were);
            assert!(left.is_empty(), "round {round}: {left:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        tuner.wait().unwrap();
        drop(device);
    }
    println!(
        "{rounds} kills, {changed} with priorities changed at that moment; all as they were after at most {worst:?}"
    );
    assert!(changed > 0 && worst < Duration::from_secs(1), "{changed} of {rounds}, {worst:?}");
}
