// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that the kernel writes and this process maps: of BPF arrays, of devices, of events of perf.
//!
//! Owns mapping it, giving it back, and the ways to read it while it is being written. What lies in it is for each probe to know.

use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::error::ProbeError;

/// A mapping, until dropped. It begins at a page.
#[derive(Debug)]
pub(crate) struct Mapping {
    first: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is owned by this value alone, and gives out pointers and atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the beginning of a file for reading. `what` lies there, for errors.
    pub(crate) fn read_only(fd: BorrowedFd<'_>, bytes: usize, what: &str) -> Result<Mapping, ProbeError> {
        Mapping::new(fd, bytes, libc::PROT_READ, what)
    }

    /// Maps the beginning of a file for reading and writing. `what` lies there, for errors.
    pub(crate) fn writable(fd: BorrowedFd<'_>, bytes: usize, what: &str) -> Result<Mapping, ProbeError> {
        Mapping::new(fd, bytes, libc::PROT_READ | libc::PROT_WRITE, what)
    }

    fn new(
        fd: BorrowedFd<'_>,
        bytes: usize,
        protection: libc::c_int,
        what: &str,
    ) -> Result<Mapping, ProbeError> {
        // SAFETY: a fresh mapping at an address of the kernel's choice; the result is checked.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        let failed = || ProbeError::last_os(format!("mapping {bytes} bytes of {what}"));
        if address == libc::MAP_FAILED {
            return Err(failed());
        }
        NonNull::new(address.cast()).map(|first| Mapping { first, bytes }).ok_or_else(failed)
    }

    /// Where a `T` lies, so many bytes from the beginning.
    ///
    /// # Panics
    /// Where it is not inside the mapping, or not aligned.
    pub(crate) fn at<T>(&self, offset: usize) -> *mut T {
        let inside = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.bytes);
        assert!(inside && offset.is_multiple_of(align_of::<T>()), "{offset} in {} bytes", self.bytes);
        // SAFETY: inside the mapping by the assertion above.
        unsafe { self.first.as_ptr().add(offset) }.cast()
    }

    /// So many 64-bit words, from so many bytes behind the beginning on.
    ///
    /// # Panics
    /// Where they are not inside the mapping, or not aligned.
    pub(crate) fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(offset + count * 8 <= self.bytes, "{count} words at {offset} in {} bytes", self.bytes);
        if count == 0 {
            return &[];
        }
        // SAFETY: inside the mapping by the assertion and aligned by `at`; it lives as long as self, and the kernel writes it
        // concurrently, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.at(offset), count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing borrows it any more. Failing leaves it mapped, no more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

/// The bytes of a page.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|&bytes| bytes > 0).unwrap_or(4096)
}

/// A BPF array map of `T`, which must be a plain record of integers: any bytes are a value of it.
#[derive(Debug)]
pub(crate) struct MappedArray<T> {
    memory: Mapping,
    of: PhantomData<fn() -> T>,
}

impl<T: Copy> MappedArray<T> {
    /// Maps `entries` values of an array map with `BPF_F_MMAPABLE`.
    pub(crate) fn map(fd: BorrowedFd<'_>, entries: usize) -> Result<MappedArray<T>, ProbeError> {
        let memory = Mapping::read_only(fd, entries * size_of::<T>(), "a BPF array")?;
        Ok(MappedArray { memory, of: PhantomData })
    }

    /// As [`MappedArray::map`], to be written to as well.
    pub(crate) fn map_writable(fd: BorrowedFd<'_>, entries: usize) -> Result<MappedArray<T>, ProbeError> {
        let memory = Mapping::writable(fd, entries * size_of::<T>(), "a BPF array")?;
        Ok(MappedArray { memory, of: PhantomData })
    }

    fn at(&self, index: usize) -> *const T {
        self.memory.at(index * size_of::<T>())
    }

    /// A copy of one value. The kernel may change it meanwhile: the caller has to find that out.
    pub(crate) fn copy(&self, index: usize) -> T {
        // SAFETY: `at` points to a `T` inside the mapping, aligned; any bytes are a value. The copy is volatile because the
        // kernel writes to the memory.
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

impl MappedArray<u64> {
    /// Sets a value of a writable mapping to 0. One that is 0 is only read, so that its page stays nobody's.
    pub(crate) fn clear(&self, index: usize) {
        let value = &self.memory.words(8 * index, 1)[0];
        if value.load(Ordering::Relaxed) != 0 {
            value.store(0, Ordering::Relaxed);
        }
    }
}

/// Lets no later read go before the reads above it.
pub(crate) fn barrier() {
    fence(Ordering::Acquire);
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_mapping_shows_what_is_written_and_refuses_what_is_outside() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let writable = Mapping::writable(file.as_fd(), 4096, "a file").unwrap();
        let array = MappedArray::<u64>::map(file.as_fd(), 512).unwrap();
        writable.words(8, 2)[1].store(7, Ordering::Release);
        assert_eq!((array.copy(2), array.sequence(2), array.copy(1)), (7, 7, 0));
        let outside = std::panic::AssertUnwindSafe(|| writable.words(4088, 2).len());
        assert!(std::panic::catch_unwind(outside).is_err());
        let askew = std::panic::AssertUnwindSafe(|| writable.at::<u64>(4));
        assert!(std::panic::catch_unwind(askew).is_err());
    }
}
