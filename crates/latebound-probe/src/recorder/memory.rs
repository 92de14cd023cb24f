// SPDX-License-Identifier: MIT OR Apache-2.0
//! A BPF array map that this process sees as memory, read-only. The kernel writes to it at any time.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::error::ProbeError;

/// A mapped array of `T`, which must be a plain record of integers: any bytes are a value of it.
#[derive(Debug)]
pub(crate) struct MappedArray<T> {
    first: NonNull<T>,
    entries: usize,
}

// SAFETY: the mapping is read-only here, is owned by this value alone, and every read of it is volatile or atomic.
unsafe impl<T: Send> Send for MappedArray<T> {}
// SAFETY: as above; reads through a shared reference do not change anything.
unsafe impl<T: Sync> Sync for MappedArray<T> {}

impl<T: Copy> MappedArray<T> {
    /// Maps `entries` values of an array map with `BPF_F_MMAPABLE`.
    pub(crate) fn map(fd: BorrowedFd<'_>, entries: usize) -> Result<MappedArray<T>, ProbeError> {
        let length = entries * size_of::<T>();
        // SAFETY: a fresh mapping at an address of the kernel's choice; the result is checked.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(ProbeError::last_os(format!("mapping {length} bytes of a BPF array")));
        }
        let first =
            NonNull::new(address.cast::<T>()).ok_or_else(|| ProbeError::last_os("mapping a BPF array"))?;
        Ok(MappedArray { first, entries })
    }

    fn at(&self, index: usize) -> *const T {
        assert!(index < self.entries, "an index inside the map");
        // SAFETY: inside the mapping by the assertion above.
        unsafe { self.first.as_ptr().add(index) }
    }

    /// A copy of one value. The kernel may change it meanwhile: the caller has to find that out.
    pub(crate) fn copy(&self, index: usize) -> T {
        // SAFETY: `at` points to a `T` inside the mapping, aligned as the page is; any bytes are a value. The copy is
        // volatile because the kernel writes to the memory.
        unsafe { self.at(index).read_volatile() }
    }

    /// The first eight bytes of a value, which are its sequence; what was written before the sequence is seen by reads
    /// after this one.
    pub(crate) fn sequence(&self, index: usize) -> u64 {
        // SAFETY: records begin with an aligned 64-bit sequence; the memory is only ever accessed atomically or by
        // volatile copies here, and read-only.
        let sequence = unsafe { AtomicU64::from_ptr(self.at(index).cast::<u64>().cast_mut()) };
        sequence.load(Ordering::Acquire)
    }
}

/// Lets no later read go before the reads above it.
pub(crate) fn barrier() {
    fence(Ordering::Acquire);
}

impl<T> Drop for MappedArray<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing refers to it any more.
        unsafe {
            libc::munmap(self.first.as_ptr().cast::<c_void>(), self.entries * size_of::<T>());
        }
    }
}
