// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user thread as a mechanism: it waits in a read or a poll, and stamps when it goes on.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use latebound_abi::defer::Record;
use latebound_model::Cpu;
use latebound_probe::DeferShared;
use latebound_syscall::clock;

use super::page;
use crate::thread::{this_cpu, this_thread};

/// What it waits for.
#[derive(Debug)]
pub(super) enum Awaited {
    /// The count of a timerfd or an eventfd, which it reads.
    Count(Arc<OwnedFd>),
    /// An event of perf, which it polls; rung by the bell in the end.
    Overflow(OwnedFd, Arc<OwnedFd>),
}

impl Awaited {
    fn wait(&self) -> io::Result<()> {
        match self {
            Awaited::Count(fd) => {
                let mut count = [0u8; 8];
                // SAFETY: the kernel writes eight bytes to a live buffer of that size.
                match unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) } {
                    ..0 => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                }
            }
            Awaited::Overflow(event, bell) => page::poll(event.as_fd(), bell),
        }
    }
}

/// What a thread that waits needs.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) series: u32,
    pub(super) awaited: Awaited,
    pub(super) requester: Cpu,
}

impl Waiter {
    /// Waits again and again, until something comes after `over` is set.
    pub(super) fn wait(
        &self,
        shared: &DeferShared,
        over: &AtomicBool,
        records: &Sender<Record>,
    ) -> io::Result<()> {
        let runner_tid = this_thread().0;
        loop {
            let waited = self.awaited.wait();
            let started_ns = clock::now().0;
            match waited {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                waited => waited?,
            }
            if over.load(Ordering::Acquire) {
                return Ok(());
            }
            let started_cpu = this_cpu();
            let Some(answered) = shared.answer(self.series) else { continue };
            // Nobody is left to tell when the run has ended.
            let _ = records.send(Record {
                requested_ns: answered.requested_ns,
                started_ns,
                sequence: answered.sequence,
                series: self.series,
                runner_tid,
                merged: answered.merged,
                requested_cpu: self.requester.0 as u16,
                started_cpu: started_cpu.0 as u16,
                ..Record::default()
            });
        }
    }
}
