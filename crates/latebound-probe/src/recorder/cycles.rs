// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the jobs of a watched thread follow each other, as the programs in the kernel know it, and the releases that had no job.
//!
//! Owns the entries of the map of cycles. Which wait lies between two jobs is decided by who calls.

use latebound_model::{Nanos, Tid};
use libbpf_rs::{MapCore, MapFlags};

use super::{Recorder, wire};
use crate::error::ProbeError;

impl Recorder {
    /// How many releases of a thread's period had no job. `None` where the period is not known, or the thread is not watched.
    pub fn missed(&self, tid: Tid) -> Option<u64> {
        let thread = self.watched_thread(tid)?;
        self.cycle(thread.slot).filter(|cycle| cycle.period_ns > 0)?;
        Some(u64::try_from(thread.missed).unwrap_or(0))
    }

    fn cycle(&self, slot: u32) -> Option<wire::Cycle> {
        let value = self.job_cycles.lookup(&slot.to_ne_bytes(), MapFlags::ANY).ok()??;
        wire::Cycle::from_bytes(&value)
    }

    pub(super) fn put_cycle(&self, tid: Tid, slot: u32, cycle: &wire::Cycle) -> Result<(), ProbeError> {
        let step = || format!("flight recorder: following the jobs of thread {tid}");
        self.job_cycles
            .update(&slot.to_ne_bytes(), &cycle.to_bytes(), MapFlags::ANY)
            .map_err(|error| ProbeError::bpf(step(), error))
    }

    /// From now on releases of this period that a thread has no job for are counted; not of one that shares its place with others.
    pub fn count_missed(&mut self, tid: Tid, period: Nanos) -> Result<(), ProbeError> {
        let Some(thread) = self.watched_thread(tid).filter(|thread| !self.shares(thread)) else {
            return Ok(());
        };
        let cycle = self.cycle(thread.slot).unwrap_or_default();
        self.put_cycle(tid, thread.slot, &wire::Cycle { period_ns: period.0, ..cycle })
    }
}
