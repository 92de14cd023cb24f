// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that undoes everything when the one that it watches dies. Owns that process and nothing else.
//!
//! It is forked before the watched process has other threads, shares none of its signals, cannot be reached by Ctrl-C,
//! has its memory locked, and runs above everything that may be raised. It sleeps on a pidfd: no timer, no polling.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use latebound_model::Tid;

use super::journal::{Journal, UndoError, undo_file};
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
    /// Refused where this process has more than one thread: what a fork leaves of the others (locks held by nobody) must not
    /// be what undoing depends on.
    pub fn start(journal: &Journal, priority: u32) -> Result<Watchdog, UndoError> {
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
            watch(owner, journal.path(), priority, tell);
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
fn watch(owner: ThreadIdentity, journal: &Path, priority: u32, tell: OwnedFd) -> ! {
    let status = match prepare(owner, priority) {
        Err(_) => 1,
        Ok(watched) => {
            // SAFETY: one byte from a live buffer.
            unsafe { libc::write(tell.as_raw_fd(), b"r".as_ptr().cast(), 1) };
            drop(tell);
            wait_for_end(&watched);
            i32::from(undo_file(journal).is_err())
        }
    };
    // SAFETY: ends this process without running what the parent meant to run at its own end.
    unsafe { libc::_exit(status) }
}

fn prepare(owner: ThreadIdentity, priority: u32) -> io::Result<OwnedFd> {
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
    // SAFETY: a descriptor or -1 comes back.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, owner.tid.0, 0) } as i32;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made it, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A pidfd can be read when the whole process has ended (pidfd_open(2)).
fn wait_for_end(watched: &OwnedFd) {
    let mut poll = libc::pollfd { fd: watched.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, live through the call.
    while unsafe { libc::poll(&raw mut poll, 1, -1) } != 1 {}
}
