// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the requester and the programs of `defer.bpf.c` both write: the numbers of requests and starts of each series.
//!
//! Owns the rule by which requests are numbered, merged and answered, for starts in user space too.

use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use latebound_abi::defer::Counts;

use super::wire::{
    LB_PROBE_BIO_NEXT, LB_PROBE_BIO_NONE, LB_PROBE_SERIES_MAX, LB_PROBE_STAMPS, ProbeSeries, ProbeShared,
};
use crate::error::ProbeError;
use crate::mapping::Mapping;

/// Series in one run.
pub(super) const SERIES_MAX: usize = LB_PROBE_SERIES_MAX as usize;

/// The requests and starts of every series, seen by the programs too.
#[derive(Debug)]
pub struct DeferShared(Mapping);

/// A field of what is shared, which is only ever accessed as an atomic.
macro_rules! field {
    ($atomic:ident, $place:expr, $field:ident) => {{
        let place = $place;
        // SAFETY: the place is inside the mapping, which lives as long as self, and aligned; zeroes at first, and only ever
        // accessed by atomics on this side; the kernel writes to it concurrently, which atomics allow.
        unsafe { $atomic::from_ptr(&raw mut (*place).$field) }
    }};
}

/// A start, as far as its requests say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The stamp of the first request that it answers.
    pub requested_ns: u64,
    /// How many later ones started with it.
    pub merged: u32,
    /// Its number within the series, from 1.
    pub sequence: u64,
}

const fn requests(state: u64) -> u32 {
    (state >> 32) as u32
}

const fn answered(state: u64) -> u32 {
    state as u32
}

impl DeferShared {
    pub(super) fn map(fd: BorrowedFd<'_>) -> Result<DeferShared, ProbeError> {
        let memory = Mapping::writable(fd, size_of::<ProbeShared>(), "deferred work's counts")?;
        Ok(DeferShared(memory))
    }

    fn memory(&self) -> *mut ProbeShared {
        self.0.at(0)
    }

    /// # Panics
    /// Where there is no such series.
    fn series(&self, index: u32) -> *mut ProbeSeries {
        assert!(index < LB_PROBE_SERIES_MAX, "series {index} of {LB_PROBE_SERIES_MAX}");
        self.0.at(offset_of!(ProbeShared, series) + index as usize * size_of::<ProbeSeries>())
    }

    fn state(&self, index: u32) -> &AtomicU64 {
        field!(AtomicU64, self.series(index), state)
    }

    fn stamp(&self, index: u32, request: u32) -> &AtomicU64 {
        let (series, place) = (self.series(index), (request % LB_PROBE_STAMPS) as usize);
        // SAFETY: as of every field; the place is inside the array by the remainder.
        unsafe { AtomicU64::from_ptr(&raw mut (*series).requested_ns[place]) }
    }

    /// Names the thread that requests, and its CPU.
    pub fn set_requester(&self, tid: u32, cpu: u32) {
        field!(AtomicU32, self.memory(), cpu).store(cpu, Ordering::Relaxed);
        field!(AtomicU32, self.memory(), requester).store(tid, Ordering::Release);
    }

    /// Makes a request of this series by system calls of the requester, known by the mark: the CPU that is called, the length
    /// of a packet. How many requests programs saw in them.
    pub fn request<T>(&self, index: u32, mark: u32, act: impl FnOnce() -> T) -> (T, u32) {
        let armed = field!(AtomicU32, self.memory(), armed);
        let numbered = || requests(self.state(index).load(Ordering::Acquire));
        field!(AtomicU32, self.memory(), mark).store(mark, Ordering::Relaxed);
        let before = numbered();
        armed.store(index + 1, Ordering::Release);
        let done = act();
        armed.store(0, Ordering::Release);
        (done, numbered().wrapping_sub(before))
    }

    /// Makes a request of this series by a read of so many bytes that the caller waits for. How many requests programs saw end, one
    /// at most, and on which CPU.
    pub fn read<T>(&self, index: u32, bytes: u32, act: impl FnOnce() -> T) -> (T, u32, u32) {
        let series = self.series(index);
        let bio = field!(AtomicU64, series, bio);
        let numbered = || requests(self.state(index).load(Ordering::Acquire));
        field!(AtomicU32, series, bio_bytes).store(bytes, Ordering::Relaxed);
        let before = numbered();
        bio.store(u64::from(LB_PROBE_BIO_NEXT), Ordering::Release);
        let done = act();
        bio.store(u64::from(LB_PROBE_BIO_NONE), Ordering::Release);
        let ended_cpu = field!(AtomicU32, series, ended_cpu).load(Ordering::Relaxed);
        (done, numbered().wrapping_sub(before), ended_cpu)
    }

    /// Names the thread that an irq_work of this series wakes.
    pub(super) fn set_sleeper(&self, tid: u32, index: u32) {
        field!(AtomicU32, self.memory(), sleeper_series).store(index, Ordering::Relaxed);
        field!(AtomicU32, self.memory(), sleeper).store(tid, Ordering::Release);
    }

    /// How many requests of a series have not started yet.
    pub fn waiting(&self, index: u32) -> u32 {
        let state = self.state(index).load(Ordering::Acquire);
        requests(state).wrapping_sub(answered(state))
    }

    /// Whether a softirq is to request and has not done so.
    pub fn is_stepping(&self, index: u32) -> bool {
        field!(AtomicU32, self.series(index), stepping).load(Ordering::Acquire) != 0
    }

    /// What a request from a softirq failed with.
    pub fn failed(&self, index: u32) -> Option<std::io::Error> {
        let error = field!(AtomicU32, self.series(index), failed).load(Ordering::Acquire).cast_signed();
        (error != 0).then(|| std::io::Error::from_raw_os_error(error))
    }

    /// How many more requests of a series may wait.
    pub fn room(&self, index: u32) -> u32 {
        LB_PROBE_STAMPS.saturating_sub(self.waiting(index))
    }

    /// Numbers a request and keeps its stamp, before it is passed on.
    pub fn note(&self, index: u32, stamp_ns: u64) {
        let state = self.state(index);
        self.stamp(index, requests(state.load(Ordering::Acquire))).store(stamp_ns, Ordering::Relaxed);
        state.fetch_add(1 << 32, Ordering::AcqRel);
    }

    /// Numbers a request that starts with the one that waits; false where none waits.
    pub fn join(&self, index: u32) -> bool {
        let word = self.state(index);
        let state = word.load(Ordering::Acquire);
        requests(state) != answered(state)
            && word.compare_exchange(state, state + (1 << 32), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Something of the series started, in user space. `None` where nothing was requested any more, which is counted.
    pub fn answer(&self, index: u32) -> Option<Answered> {
        let series = self.series(index);
        let state = self.state(index).load(Ordering::Acquire);
        let all = requests(state).wrapping_sub(answered(state));
        if all == 0 {
            field!(AtomicU64, series, empty_starts).fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let requested_ns = self.stamp(index, answered(state)).load(Ordering::Relaxed);
        let sequence = field!(AtomicU64, series, starts).fetch_add(1, Ordering::Relaxed) + 1;
        field!(AtomicU64, series, merged).fetch_add(u64::from(all - 1), Ordering::Relaxed);
        self.state(index).fetch_add(u64::from(all), Ordering::AcqRel);
        Some(Answered { requested_ns, merged: all - 1, sequence })
    }

    /// What a series has counted. What its requester counts is left at zero.
    pub fn counts(&self, index: u32) -> Counts {
        let series = self.series(index);
        let load = |count: &AtomicU64| count.load(Ordering::Acquire);
        Counts {
            index,
            waiting: self.waiting(index),
            requests: u64::from(requests(load(self.state(index)))),
            starts: load(field!(AtomicU64, series, starts)),
            merged: load(field!(AtomicU64, series, merged)),
            empty_starts: load(field!(AtomicU64, series, empty_starts)),
            records_lost: load(field!(AtomicU64, series, records_lost)),
            ..Counts::default()
        }
    }
}
