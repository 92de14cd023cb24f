// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the requester and the programs of `defer.bpf.c` both write: the numbers of requests and starts of each series.
//!
//! Owns the mapping, and the rule by which requests are numbered, merged and answered, for starts in user space too.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use latebound_abi::defer::Counts;

use crate::error::ProbeError;

/// Series in one run.
pub(super) const SERIES_MAX: usize = 32;
/// Requests that may wait in one series.
const STAMPS: usize = 1024;

/// What is meant by no bio, and by the next one.
const BIO_NONE: u64 = 0;
const BIO_NEXT: u64 = 1;

/// `struct series`.
#[repr(C)]
#[derive(Debug)]
struct Series {
    state: AtomicU64,
    starts: AtomicU64,
    merged: AtomicU64,
    empty_starts: AtomicU64,
    records_lost: AtomicU64,
    bio: AtomicU64,
    bio_bytes: AtomicU32,
    ended_cpu: AtomicU32,
    stepping: AtomicU32,
    failed: AtomicU32,
    requested_ns: [AtomicU64; STAMPS],
}

/// `struct shared`.
#[repr(C)]
#[derive(Debug)]
struct Shared {
    requester: AtomicU32,
    cpu: AtomicU32,
    armed: AtomicU32,
    mark: AtomicU32,
    sleeper: AtomicU32,
    sleeper_series: AtomicU32,
    asleep: AtomicU32,
    reserved: AtomicU32,
    series: [Series; SERIES_MAX],
}

/// The requests and starts of every series, seen by the programs too.
#[derive(Debug)]
pub struct DeferShared(NonNull<Shared>);

// SAFETY: the mapping is owned by this value and holds nothing but atomics.
unsafe impl Send for DeferShared {}
// SAFETY: as above.
unsafe impl Sync for DeferShared {}

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
        let bytes = size_of::<Shared>();
        // SAFETY: a fresh mapping at an address of the kernel's choice; the result is checked.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        let step = || format!("mapping {bytes} bytes of deferred work's counts");
        if address == libc::MAP_FAILED {
            return Err(ProbeError::last_os(step()));
        }
        NonNull::new(address.cast()).map(DeferShared).ok_or_else(|| ProbeError::last_os(step()))
    }

    fn memory(&self) -> &Shared {
        // SAFETY: mapped with this size, aligned to a page, zeroes at first, and only ever accessed by atomics on this
        // side; the kernel writes to it concurrently, which atomics allow.
        unsafe { self.0.as_ref() }
    }

    fn series(&self, index: u32) -> &Series {
        &self.memory().series[index as usize]
    }

    /// Names the thread that requests, and its CPU.
    pub fn set_requester(&self, tid: u32, cpu: u32) {
        self.memory().cpu.store(cpu, Ordering::Relaxed);
        self.memory().requester.store(tid, Ordering::Release);
    }

    /// Makes a request of this series by system calls of the requester, known by the mark: the CPU that is called, the length
    /// of a packet. How many requests programs saw in them.
    pub fn request<T>(&self, index: u32, mark: u32, act: impl FnOnce() -> T) -> (T, u32) {
        let shared = self.memory();
        let numbered = || requests(self.series(index).state.load(Ordering::Acquire));
        shared.mark.store(mark, Ordering::Relaxed);
        let before = numbered();
        shared.armed.store(index + 1, Ordering::Release);
        let done = act();
        shared.armed.store(0, Ordering::Release);
        (done, numbered().wrapping_sub(before))
    }

    /// Makes a request of this series by a read of so many bytes that the caller waits for. How many requests programs saw end, one
    /// at most, and on which CPU.
    pub fn read<T>(&self, index: u32, bytes: u32, act: impl FnOnce() -> T) -> (T, u32, u32) {
        let series = self.series(index);
        let numbered = || requests(series.state.load(Ordering::Acquire));
        series.bio_bytes.store(bytes, Ordering::Relaxed);
        let before = numbered();
        series.bio.store(BIO_NEXT, Ordering::Release);
        let done = act();
        series.bio.store(BIO_NONE, Ordering::Release);
        (done, numbered().wrapping_sub(before), series.ended_cpu.load(Ordering::Relaxed))
    }

    /// Names the thread that an irq_work of this series wakes.
    pub(super) fn set_sleeper(&self, tid: u32, index: u32) {
        self.memory().sleeper_series.store(index, Ordering::Relaxed);
        self.memory().sleeper.store(tid, Ordering::Release);
    }

    /// How many requests of a series have not started yet.
    pub fn waiting(&self, index: u32) -> u32 {
        let state = self.series(index).state.load(Ordering::Acquire);
        requests(state).wrapping_sub(answered(state))
    }

    /// Whether a softirq is to request and has not done so.
    pub fn is_stepping(&self, index: u32) -> bool {
        self.series(index).stepping.load(Ordering::Acquire) != 0
    }

    /// What a request from a softirq failed with.
    pub fn failed(&self, index: u32) -> Option<std::io::Error> {
        let error = self.series(index).failed.load(Ordering::Acquire).cast_signed();
        (error != 0).then(|| std::io::Error::from_raw_os_error(error))
    }

    /// How many more requests of a series may wait.
    pub fn room(&self, index: u32) -> u32 {
        (STAMPS as u32).saturating_sub(self.waiting(index))
    }

    /// Numbers a request and keeps its stamp, before it is passed on.
    pub fn note(&self, index: u32, stamp_ns: u64) {
        let series = self.series(index);
        let place = requests(series.state.load(Ordering::Acquire)) as usize % STAMPS;
        series.requested_ns[place].store(stamp_ns, Ordering::Relaxed);
        series.state.fetch_add(1 << 32, Ordering::AcqRel);
    }

    /// Numbers a request that starts with the one that waits; false where none waits.
    pub fn join(&self, index: u32) -> bool {
        let word = &self.series(index).state;
        let state = word.load(Ordering::Acquire);
        requests(state) != answered(state)
            && word.compare_exchange(state, state + (1 << 32), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Something of the series started, in user space. `None` where nothing was requested any more, which is counted.
    pub fn answer(&self, index: u32) -> Option<Answered> {
        let series = self.series(index);
        let state = series.state.load(Ordering::Acquire);
        let all = requests(state).wrapping_sub(answered(state));
        if all == 0 {
            series.empty_starts.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let requested_ns = series.requested_ns[answered(state) as usize % STAMPS].load(Ordering::Relaxed);
        let sequence = series.starts.fetch_add(1, Ordering::Relaxed) + 1;
        series.merged.fetch_add(u64::from(all - 1), Ordering::Relaxed);
        series.state.fetch_add(u64::from(all), Ordering::AcqRel);
        Some(Answered { requested_ns, merged: all - 1, sequence })
    }

    /// What a series has counted. What its requester counts is left at zero.
    pub fn counts(&self, index: u32) -> Counts {
        let series = self.series(index);
        let load = |count: &AtomicU64| count.load(Ordering::Acquire);
        Counts {
            index,
            waiting: self.waiting(index),
            requests: u64::from(requests(load(&series.state))),
            starts: load(&series.starts),
            merged: load(&series.merged),
            empty_starts: load(&series.empty_starts),
            records_lost: load(&series.records_lost),
            ..Counts::default()
        }
    }
}

impl Drop for DeferShared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Shared>()) };
    }
}
