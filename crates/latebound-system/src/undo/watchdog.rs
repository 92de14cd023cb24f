// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that undoes everything when the one that it watches dies. Owns that process and nothing else.
//!
//! It is forked before the watched process has other threads, shares none of its signals, cannot be reached by Ctrl-C,
//! has its memory locked, and runs above everything that may be raised. It sleeps on a robust mutex that the watched
//! process holds. The kernel gives that on as a dying thread's first step, before it frees memory and
//! closes files (kernel/exit.c, do_exit: exit_mm comes to futex_exit_release, 6.18). The end of the process, which a pidfd
//! would tell, may come much later, above all where a SCHED_DEADLINE budget has to pay for it.
//!
//! A process that hangs holds its mutex. So it counts beats in memory that both have, and one that gave none in ten looks is killed: it
//! might go on later, with nobody to undo what it changes then.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use latebound_model::Tid;

use super::changes::Undone;
use super::error::UndoError;
use super::journal::Journal;
use super::raiser::Raiser;
use super::schedule::{Schedule, ThreadIdentity};
use crate::root::Root;

/// How many looks in a row may meet no beat. More than one, and counted by looks, so that a machine that stood still is not taken for a
/// process that hangs.
const LOOKS: u32 = 10;

/// A process that waits for the end of this one.
#[derive(Debug)]
pub struct Watchdog {
    pid: i32,
    beats: &'static AtomicU64,
}

/// What a watchdog did.
#[derive(Debug)]
pub struct Ending {
    /// Whether the process gave no beat and was killed; else it ended without undoing.
    pub hung: bool,
    /// What came of undoing.
    pub undone: Result<Undone, UndoError>,
}

/// What both processes have.
struct Shared {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    beats: AtomicU64,
}

impl Watchdog {
    /// Forks the watchdog of this process and journal, at this FIFO priority, and waits until it watches.
    ///
    /// With a raiser, it holds that too and stops it before it undoes: a thread dies long before its files are closed, and what would
    /// be raised between the two would stay.
    ///
    /// Refused where this process has more than one thread: what a fork leaves of the others (locks held by nobody) must not
    /// be what undoing depends on.
    ///
    /// From the first [`Watchdog::beat`] on there has to be one within `patience`. Once it has its memory, it calls `prepared` in its own
    /// process, as for giving privileges up; setting priorities, its own first, is what it needs from there on. When it undid something, it
    /// tells there, with what this process had open when it was forked.
    pub fn start(
        journal: &Journal,
        raiser: Option<&Raiser>,
        priority: u32,
        patience: Duration,
        prepared: impl FnOnce(),
        tell: impl FnOnce(&Ending),
    ) -> Result<Watchdog, UndoError> {
        let threads = std::fs::read_dir("/proc/self/task").map(Iterator::count);
        match threads {
            Ok(1) => {}
            Ok(many) => {
                return Err(refused(format!("this process has {many} threads already; start it first")));
            }
            Err(error) => return Err(refused(format!("/proc/self/task: {error}"))),
        }
        let owner = ThreadIdentity::of(&Root::live(), Tid(std::process::id() as i32))
            .map_err(|error| refused(error.to_string()))?;
        let shared = Shared::make().map_err(|error| refused(format!("a robust mutex: {error}")))?;
        // SAFETY: takes integers.
        let own = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
        if own < 0 {
            return Err(refused(format!("pidfd_open: {}", io::Error::last_os_error())));
        }
        // SAFETY: the kernel just made it, and nothing else owns it.
        let own = unsafe { OwnedFd::from_raw_fd(own as i32) };
        let mut ends = [0; 2];
        // SAFETY: the array has room for the two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(refused(format!("pipe: {}", io::Error::last_os_error())));
        }
        // SAFETY: the kernel just made both, and nothing else owns them.
        let (ready, say) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        // SAFETY: this is the only thread, so the child is a whole process.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(refused(format!("fork: {}", io::Error::last_os_error())));
        }
        if pid == 0 {
            drop(ready);
            let status = match prepare(owner, priority, prepared) {
                Err(_) => 1,
                Ok(()) => {
                    // SAFETY: one byte from a live buffer.
                    unsafe { libc::write(say.as_raw_fd(), b"r".as_ptr().cast(), 1) };
                    drop(say);
                    let hung = shared.watch(&own, patience);
                    raiser.map(Raiser::stop);
                    let ending = Ending { hung, undone: journal.undo_by_file() };
                    tell(&ending);
                    at_leisure(Tid(0));
                    i32::from(ending.undone.is_err())
                }
            };
            // SAFETY: ends this process without running what the parent meant to run at its own end.
            unsafe { libc::_exit(status) }
        }
        drop(say);
        let watchdog = Watchdog { pid, beats: &shared.beats };
        let mut answer = [0_u8; 1];
        loop {
            // SAFETY: the buffer has the length that is said.
            let read = unsafe { libc::read(ready.as_raw_fd(), answer.as_mut_ptr().cast(), 1) };
            match read {
                1 if answer == [b'r'] => return Ok(watchdog),
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => {
                    watchdog.reap();
                    return Err(refused(format!(
                        "it could not take FIFO {priority} and lock its memory; run as root, or with CAP_SYS_NICE and \
                         CAP_IPC_LOCK"
                    )));
                }
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// This process goes on.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it still watches. Where not, nothing more may be changed.
    pub fn is_alive(&self) -> bool {
        // SAFETY: only the state of the child is asked; WNOWAIT leaves it to be reaped.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live siginfo_t.
        let answer = unsafe {
            libc::waitid(
                libc::P_PID,
                self.pid.unsigned_abs(),
                &raw mut info,
                libc::WEXITED | libc::WNOHANG | libc::WNOWAIT,
            )
        };
        // SAFETY: waitid has filled it in, or left it zero where the child lives.
        answer == 0 && unsafe { info.si_pid() } == 0
    }

    /// Ends it, after the journal was undone: there is nothing left to watch.
    pub fn end(self) {
        at_leisure(Tid(self.pid));
        // SAFETY: the child is not reaped yet, so the id is still its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        self.reap();
    }

    fn reap(&self) {
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// Giving back locked memory takes some milliseconds, in which nobody is to wait for this process.
fn at_leisure(process: Tid) {
    let _ = Schedule::other(0).apply(process);
}

fn refused(why: String) -> UndoError {
    UndoError::Watchdog(why)
}

fn prepare(owner: ThreadIdentity, priority: u32, prepared: impl FnOnce()) -> io::Result<()> {
    // SAFETY: none of these touches memory of this process.
    unsafe {
        // Away from the terminal and the group, so that Ctrl-C and hang-ups of the parent do not come here.
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"latebound-undo".as_ptr());
        if libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // Best where it may: memory pressure must not end the one that would mend it.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    prepared();
    // Last: it is above every task that may not wait.
    Schedule::fifo(priority).apply(Tid(0))?;
    // Between the fork and here the owner may have died: its mutex is given on all the same, but a parent that is another one
    // by now says so at once.
    // SAFETY: no arguments.
    if unsafe { libc::getppid() } != owner.tid.0 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

impl Shared {
    /// In memory that a child shares, with the mutex held by the calling thread, given on by the kernel when that dies.
    fn make() -> io::Result<&'static Shared> {
        // SAFETY: a fresh mapping, which is never given back: the process's end depends on it.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is large enough and aligned to a page; all zero is a value of both fields.
        let shared: &'static Shared = unsafe { &*memory.cast() };
        let check = |error: i32| if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) };
        let mutex = shared.mutex();
        // SAFETY: the attributes are initialised before they are used and outlive it.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            check(libc::pthread_mutexattr_init(&raw mut attributes))?;
            check(libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED))?;
            check(libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST))?;
            check(libc::pthread_mutex_init(mutex, &raw const attributes))?;
            check(libc::pthread_mutex_lock(mutex))?;
        }
        Ok(shared)
    }

    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.mutex.get()
    }

    /// Returns when the owner is dead, or when it hung and cannot be killed. Whether it hung.
    fn watch(&self, owner: &OwnedFd, patience: Duration) -> bool {
        let (mut last, mut missed) = (0, 0);
        while self.is_held_for(patience / LOOKS) {
            let beats = self.beats.load(Ordering::Relaxed);
            missed = if beats == last { missed + 1 } else { 0 };
            last = beats;
            if beats > 0 && missed >= LOOKS {
                let no_information = std::ptr::null::<libc::siginfo_t>();
                // SAFETY: the descriptor is open, and no information is given.
                unsafe {
                    libc::syscall(
                        libc::SYS_pidfd_send_signal,
                        owner.as_raw_fd(),
                        libc::SIGKILL,
                        no_information,
                        0,
                    )
                };
                // One that sleeps where no signal is heard dies when it wakes, and changes nothing until then.
                self.is_held_for(patience);
                return true;
            }
        }
        false
    }

    /// Waits for the mutex for so long at most. Whether somebody who lives has it then.
    fn is_held_for(&self, time: Duration) -> bool {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // Of this clock, because only newer C libraries can wait by another one. Where it is set back, a beat is missed later.
        // SAFETY: the pointer is to a live timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until) };
        let nanoseconds = until.tv_nsec + i64::from(time.subsec_nanos());
        until.tv_sec += time.as_secs() as i64 + nanoseconds / 1_000_000_000;
        until.tv_nsec = nanoseconds % 1_000_000_000;
        // SAFETY: initialised, and mapped for as long as this process lives. EOWNERDEAD is what is waited for.
        unsafe { libc::pthread_mutex_timedlock(self.mutex(), &raw const until) == libc::ETIMEDOUT }
    }
}
