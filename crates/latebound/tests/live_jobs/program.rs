// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the planted programs are made of: a clock, threads, locks, and processes that do one thing when they are told to.
//!
//! Each stretch of work is bounded by its own clock.

use std::fs::File;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::killed::Killed;

pub(crate) const MS: u64 = 1_000_000;
/// How long a planted thing takes, where it can be chosen: the program's ways into a wait and out of it are below 2 % of it, also on a clock
/// of instructions with the recorder's programs in them.
pub(crate) const LONG: u64 = 20 * MS;

/// How long a process is stopped: the program sees that by its own sleeps of 100 us, of which one is in it.
pub(crate) const STOPPED: u64 = 4 * LONG;

/// `CLOCK_MONOTONIC`, in ns.
pub(crate) fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// What this thread has had of CPUs, in ns.
pub(crate) fn own_cpu_time() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time that it is given.
    assert_eq!(unsafe { libc::clock_gettime(which, &raw mut time) }, 0);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
}

pub(crate) fn sleep_until(at: u64) {
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

pub(crate) fn spin(length: u64) {
    let end = now() + length;
    while now() < end {}
}

/// Spins until this thread has run so long without interrupts, its own switches and others: between two looks at the clock these show as
/// more than 10 us.
pub(crate) fn run_undisturbed_for(length: u64) {
    let (mut sum, mut last) = (0, now());
    while sum < length {
        let at = now();
        if at - last < MS / 100 {
            sum += at - last;
        }
        last = at;
    }
}

/// Has this begun, and gives the longest time for which this thread did not get on from then, of at least `length`; it looks each 100 us, for at
/// most three seconds.
pub(crate) fn longest_gap(length: u64, begin: impl FnOnce()) -> (u64, u64) {
    longest_gap_between_looks(length, begin, || std::thread::sleep(Duration::from_micros(100)))
}

/// The same for a thread that never sleeps meanwhile.
pub(crate) fn longest_gap_while_running(length: u64, begin: impl FnOnce()) -> (u64, u64) {
    longest_gap_between_looks(length, begin, || {})
}

fn longest_gap_between_looks(length: u64, begin: impl FnOnce(), rest: impl Fn()) -> (u64, u64) {
    let mut last = now();
    let end = last + 3_000 * MS;
    begin();
    // It may have happened by then.
    let mut gap = (last, now());
    last = gap.1;
    while last < end && gap.1 - gap.0 < length {
        rest();
        let at = now();
        if at - last > gap.1 - gap.0 {
            gap = (last, at);
        }
        last = at;
    }
    gap
}

/// Asks for this much timer slack of this thread, in ns.
pub(crate) fn set_timer_slack(slack: u64) {
    // SAFETY: a call on this thread.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack) }, 0);
}

/// The CPUs that this thread may use.
pub(crate) fn cpus() -> Vec<usize> {
    // SAFETY: the set is written by the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set), 0);
        (0..1024).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

/// Lets this thread use this CPU alone.
pub(crate) fn use_cpu(cpu: usize) {
    // SAFETY: the set lives through the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
    }
}

/// Names this thread, puts it on the first CPU that it may use, and gives it a priority: 0 for an ordinary thread.
pub(crate) fn become_thread(name: &str, priority: i32) {
    let mut comm = [0u8; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    set_timer_slack(1);
    use_cpu(cpus()[0]);
    // SAFETY: calls on this thread with values that live through them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NAME, comm.as_ptr()), 0);
        let policy = if priority > 0 { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
        let parameters = libc::sched_param { sched_priority: priority };
        assert_eq!(libc::sched_setscheduler(0, policy, &raw const parameters), 0);
    }
}

/// A thread that does one thing for each message.
pub(crate) struct Helper(mpsc::Sender<()>);

impl Helper {
    pub(crate) fn start(
        name: &'static str,
        priority: i32,
        mut work: impl FnMut() + Send + 'static,
    ) -> Helper {
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            become_thread(name, priority);
            while receive.recv().is_ok() {
                work();
            }
        });
        Helper(send)
    }

    pub(crate) fn go(&self) {
        self.0.send(()).unwrap();
    }
}

pub(crate) fn pipe() -> (File, File) {
    let (read, write) = std::io::pipe().unwrap();
    (File::from(std::os::fd::OwnedFd::from(read)), File::from(std::os::fd::OwnedFd::from(write)))
}

/// A process of its own that does what the lines of its standard input say, and ends with that.
pub(crate) struct Other {
    input: ChildStdin,
    _process: Killed,
}

impl Other {
    /// Starts it, in this control group where one is given.
    pub(crate) fn start(name: &str, group: Option<&Path>) -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--nocapture", "--exact", "guest_other"])
            .env("LATEBOUND_OTHER", name)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        if let Some(group) = group {
            std::fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        Other { input: child.stdin.take().unwrap(), _process: Killed(child) }
    }

    pub(crate) fn tell(&mut self, words: &str) {
        writeln!(self.input, "{words}").unwrap();
    }
}

/// The process that [`Other`] starts.
pub(crate) fn other(name: &str) {
    become_thread(name, 0);
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["stop", pid] => {
                let signal = |number| {
                    // SAFETY: a signal to the process that asks for it.
                    assert_eq!(unsafe { libc::kill(pid.parse().unwrap(), number) }, 0);
                };
                signal(libc::SIGSTOP);
                nap(STOPPED);
                signal(libc::SIGCONT);
            }
            ["freeze", group] => {
                let file = Path::new(group).join("cgroup.freeze");
                std::fs::write(&file, "1").unwrap();
                nap(STOPPED);
                std::fs::write(&file, "0").unwrap();
            }
            ["read", device] => read_directly(Path::new(device), 64),
            ["flush", device] => {
                flush(Path::new(device), 64);
            }
            ["write", path] => {
                let mut file = File::create(path).unwrap();
                file.write_all(&[7; 1 << 16]).unwrap();
                file.sync_all().unwrap();
            }
            ["answer", port] => {
                let port: u16 = port.parse().unwrap();
                let socket = std::net::UdpSocket::bind(("127.0.0.1", port)).unwrap();
                let mut byte = [0];
                while let Ok((_, from)) = socket.recv_from(&mut byte) {
                    socket.send_to(&byte, from).unwrap();
                }
            }
            _ => panic!("{line}"),
        }
    }
}

/// Writes a page of a device, and has the device flushed. Gives the time of that.
pub(crate) fn flush(device: &Path, page: u64) -> (u64, u64) {
    use std::io::Seek;
    let mut file = std::fs::OpenOptions::new().write(true).open(device).unwrap();
    file.seek(std::io::SeekFrom::Start(page * 4096)).unwrap();
    file.write_all(&[8; 4096]).unwrap();
    let from = now();
    file.sync_all().unwrap();
    (from, now())
}

/// Reads a page of a device past the page cache.
pub(crate) fn read_directly(device: &Path, page: i64) {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let mut bytes = Box::new(Page([0; 4096]));
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device).unwrap();
    // SAFETY: the page takes as much as is read.
    let read = unsafe { libc::pread(file.as_raw_fd(), bytes.0.as_mut_ptr().cast(), 4096, page * 4096) };
    assert_eq!(read, 4096, "{}", std::io::Error::last_os_error());
}

/// Sleeps within a job, which is another wait than that between jobs.
pub(crate) fn nap(length: u64) {
    std::thread::sleep(Duration::from_nanos(length));
}
