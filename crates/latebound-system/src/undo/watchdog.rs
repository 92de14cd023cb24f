// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that undoes everything when the one that it watches dies. Owns that process and nothing else.
//!
//! It is forked before the watched process has other threads, shares none of its signals, cannot be reached by Ctrl-C,
//! has its memory locked, and runs above everything that may be raised. It sleeps on a robust mutex that the watched
//! process holds: no timer, no polling. The kernel gives that on as a dying thread's first step, before it frees memory and
//! closes files (kernel/exit.c, do_exit: exit_mm comes to futex_exit_release, 6.18). The end of the process, which a pidfd
//! would tell, may come much later, above all where a SCHED_DEADLINE budget has to pay for it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use latebound_model::Tid;

use super::journal::{Journal, UndoError, undo_file};
use super::raiser::Raiser;
use super::schedule::{Schedule, ThreadIdentity};
use crate::root::Root;

/// A process that waits for the end of this one.
#[derive(Debug)]
pub struct Watchdog {
    pid: i32,
}

impl Watchdog {
    /// Forks the watchdog of this process and journal, at this FIFO priority, and waits until it watches.
    ///
    /// With a raiser, it holds that too and stops it before it undoes: a thread dies long before its files are closed, and what would
    /// be raised between the two would stay.
    ///
    /// Refused where this process has more than one thread: what a fork leaves of the others (locks held by nobody) must not
    /// be what undoing depends on.
    pub fn start(journal: &Journal, raiser: Option<&Raiser>, priority: u32) -> Result<Watchdog, UndoError> {
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
        let mutex = robust_mutex().map_err(|error| refused(format!("a robust mutex: {error}")))?;
        let mut ends = [0; 2];
        // SAFETY: the array has room for the two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(refused(format!("pipe: {}", io::Error::last_os_error())));
        }
        // SAFETY: the kernel just made both, and nothing else owns them.
        let (ready, tell) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        // SAFETY: this is the only thread, so the child is a whole process.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(refused(format!("fork: {}", io::Error::last_os_error())));
        }
        if pid == 0 {
            drop(ready);
            watch(owner, journal.path(), raiser, priority, tell, mutex);
        }
        drop(tell);
        let watchdog = Watchdog { pid };
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
        // SAFETY: the child is not reaped yet, so the id is still its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        self.reap();
    }

    fn reap(&self) {
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

fn refused(why: String) -> UndoError {
    UndoError::Watchdog(why)
}

/// The child's life. Never returns.
fn watch(
    owner: ThreadIdentity,
    journal: &Path,
    raiser: Option<&Raiser>,
    priority: u32,
    tell: OwnedFd,
    mutex: *mut libc::pthread_mutex_t,
) -> ! {
    let status = match prepare(owner, priority) {
        Err(_) => 1,
        Ok(()) => {
            // SAFETY: one byte from a live buffer.
            unsafe { libc::write(tell.as_raw_fd(), b"r".as_ptr().cast(), 1) };
            drop(tell);
            // SAFETY: initialised, and mapped for as long as this process lives. EOWNERDEAD is what is waited for.
            unsafe { libc::pthread_mutex_lock(mutex) };
            raiser.map(Raiser::stop);
            i32::from(undo_file(journal).is_err())
        }
    };
    // SAFETY: ends this process without running what the parent meant to run at its own end.
    unsafe { libc::_exit(status) }
}

fn prepare(owner: ThreadIdentity, priority: u32) -> io::Result<()> {
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
    Schedule::fifo(priority).apply(Tid(0))?;
    // Between the fork and here the owner may have died: its mutex is given on all the same, but a parent that is another one
    // by now says so at once.
    // SAFETY: no arguments.
    if unsafe { libc::getppid() } != owner.tid.0 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

/// A mutex in memory that a child shares, held by the calling thread, given on by the kernel when that dies.
fn robust_mutex() -> io::Result<*mut libc::pthread_mutex_t> {
    let check = |error: i32| if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) };
    // SAFETY: a fresh mapping, which is never given back: the process's end depends on it.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<libc::pthread_mutex_t>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mutex: *mut libc::pthread_mutex_t = memory.cast();
    // SAFETY: the attributes are initialised before they are used and outlive it; the mutex's memory is large enough.
    unsafe {
        let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
        check(libc::pthread_mutexattr_init(&raw mut attributes))?;
        check(libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED))?;
        check(libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST))?;
        check(libc::pthread_mutex_init(mutex, &raw const attributes))?;
        check(libc::pthread_mutex_lock(mutex))?;
    }
    Ok(mutex)
}
