// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that is held by a descriptor, so that asking whether it still is there is one system call and reads no file. Owns that
//! descriptor.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use latebound_model::{Nanos, Tid};

use super::schedule::ThreadIdentity;
use crate::root::{ReadError, Root};

/// A thread and no other, for who changes it often.
///
/// A pidfd names one life of a process id, and every kernel thread is a process of its own. Where none can be had (a thread that is
/// not its process's first, no descriptors left) its start time is read each time, as [`ThreadIdentity::is_there`] does.
#[derive(Debug)]
pub struct ThreadHandle {
    identity: ThreadIdentity,
    pidfd: Option<OwnedFd>,
}

impl ThreadHandle {
    /// The thread that has this id now.
    pub fn of(tid: Tid) -> Result<ThreadHandle, ReadError> {
        let pidfd = open(tid);
        let identity = ThreadIdentity::of(&Root::live(), tid)?;
        // The start was read after the descriptor was made: where that one's thread still is there, it is its start.
        let pidfd = pidfd.filter(|pidfd| lives(pidfd) == Some(true));
        Ok(ThreadHandle { identity, pidfd })
    }

    /// The thread that has this id and started at this time after boot, for who was told so by the kernel as it was created: no file is read.
    /// `None` where it cannot be held so.
    ///
    /// Between then and now it may have ended and its id be given away: that takes as many new threads as there are ids.
    pub fn started(tid: Tid, started: Nanos) -> Option<ThreadHandle> {
        let pidfd = open(tid).filter(|pidfd| lives(pidfd) == Some(true))?;
        let identity = ThreadIdentity { tid, start: started.0 / CLOCK_TICK_NS };
        Some(ThreadHandle { identity, pidfd: Some(pidfd) })
    }

    /// Which thread it is.
    pub fn identity(&self) -> ThreadIdentity {
        self.identity
    }

    /// Whether it still is there.
    pub fn is_there(&self) -> bool {
        self.pidfd.as_ref().and_then(lives).unwrap_or_else(|| self.identity.is_there(&Root::live()))
    }
}

/// USER_HZ is 100 on x86 and arm64 (include/asm-generic/param.h).
const CLOCK_TICK_NS: u64 = 10_000_000;

fn open(tid: Tid) -> Option<OwnedFd> {
    // SAFETY: takes integers.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, tid.0, 0) };
    i32::try_from(pidfd).ok().filter(|&fd| fd >= 0).map(|fd| {
        // SAFETY: the kernel just made it, and nothing else owns it.
        unsafe { OwnedFd::from_raw_fd(fd) }
    })
}

/// Whether a descriptor's process is not gone; `None` where that may not be asked.
fn lives(pidfd: &OwnedFd) -> Option<bool> {
    let no_signal: libc::c_int = 0;
    // SAFETY: no signal is sent, and no information about one is given.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            no_signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    match answer {
        0 => Some(true),
        _ if io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn live_a_process_is_there_until_it_is_reaped_and_its_first_thread_only() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let handle = ThreadHandle::of(Tid(child.id() as i32)).unwrap();
        assert!(handle.pidfd.is_some() && handle.is_there());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!handle.is_there());
        assert!(ThreadHandle::of(handle.identity().tid).is_err());

        let by_start = std::thread::spawn(|| {
            // SAFETY: no arguments.
            let handle = ThreadHandle::of(Tid(unsafe { libc::gettid() })).unwrap();
            assert!(handle.pidfd.is_none() && handle.is_there());
            handle
        });
        let by_start = by_start.join().unwrap();
        // The thread may be on its way out of the kernel still.
        for _ in 0..100 {
            if !by_start.is_there() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("a thread that ended is still there");
    }
}
