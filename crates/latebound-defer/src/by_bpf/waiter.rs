// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user thread as a mechanism: it waits in a read, and stamps when it goes on.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use latebound_abi::defer::Record;
use latebound_model::Cpu;
use latebound_probe::DeferShared;

use crate::thread::{now_ns, this_cpu};

/// What a thread that waits needs.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) series: u32,
    /// What it reads: a timerfd or an eventfd.
    pub(super) fd: Arc<OwnedFd>,
    pub(super) requester: Cpu,
}

impl Waiter {
    /// Waits again and again, until a read after `over` is set.
    pub(super) fn wait(
        &self,
        shared: &DeferShared,
        over: &AtomicBool,
        records: &Sender<Record>,
    ) -> io::Result<()> {
        loop {
            let mut count = [0u8; 8];
            // SAFETY: the kernel writes eight bytes to a live buffer of that size.
            let read = unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
            let started_ns = now_ns();
            if read < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
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
                merged: answered.merged,
                requested_cpu: self.requester.0 as u16,
                started_cpu: started_cpu.0 as u16,
                ..Record::default()
            });
        }
    }
}
