// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread on another CPU, so that membarrier has to call that CPU: it calls those that run a thread of this process
//! (kernel/sched/membarrier.c, MEMBARRIER_CMD_PRIVATE_EXPEDITED).
//!
//! Owns that thread, which runs for the moment of a request and sleeps between them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use latebound_model::Cpu;

use super::eventfd::signal;

/// include/uapi/linux/membarrier.h
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// How long the thread may take to come, and how long it stays where nobody lets it go.
const COMING: Duration = Duration::from_millis(2);
const STAYING: Duration = Duration::from_millis(5);

const AWAY: u32 = 0;
const WANTED: u32 = 1;
const THERE: u32 = 2;

/// The thread, as the requester sees it.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) cpu: Cpu,
    bell: Arc<OwnedFd>,
    state: Arc<AtomicU32>,
}

impl Guest {
    pub(super) fn new(cpu: Cpu, bell: Arc<OwnedFd>) -> Guest {
        Guest { cpu, bell, state: Arc::default() }
    }

    /// What the thread needs.
    pub(super) fn visit(&self) -> Visit {
        Visit { bell: Arc::clone(&self.bell), state: Arc::clone(&self.state) }
    }

    /// Calls while the thread runs on its CPU; `None` where it did not come in time.
    pub(super) fn while_there<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        self.state.store(WANTED, Ordering::Release);
        signal(&self.bell).ok()?;
        let asked = Instant::now();
        while self.state.load(Ordering::Acquire) != THERE {
            if asked.elapsed() > COMING {
                self.state.store(AWAY, Ordering::Release);
                return None;
            }
            std::thread::yield_now();
        }
        let called = call();
        self.state.store(AWAY, Ordering::Release);
        Some(called)
    }
}

/// The thread's side.
#[derive(Debug)]
pub(super) struct Visit {
    bell: Arc<OwnedFd>,
    state: Arc<AtomicU32>,
}

impl Visit {
    /// Sleeps until it is called for, and then runs until it may go. `is_over` is asked after each sleep.
    pub(super) fn serve(&self, is_over: impl Fn() -> bool) -> io::Result<()> {
        loop {
            let mut count = [0u8; 8];
            // SAFETY: the kernel writes eight bytes to a live buffer of that size.
            if unsafe { libc::read(self.bell.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) } < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            if is_over() {
                return Ok(());
            }
            let come = Instant::now();
            let is_wanted =
                self.state.compare_exchange(WANTED, THERE, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            while is_wanted && self.state.load(Ordering::Acquire) == THERE && come.elapsed() < STAYING {
                std::hint::spin_loop();
            }
        }
    }
}

/// Lets this process call others by membarrier.
pub(super) fn register() -> io::Result<()> {
    command(REGISTER_PRIVATE_EXPEDITED)
}

/// Calls every CPU that runs another thread of this process.
pub(super) fn membarrier() -> io::Result<()> {
    command(PRIVATE_EXPEDITED)
}

fn command(command: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
