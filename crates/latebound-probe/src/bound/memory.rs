// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared memory of `latebound/bound_record.h`, mapped: whoever writes it, BPF programs or a kernel module.
//! Owns the mapping and the reading side of every ring.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use latebound_abi::{
    BOUND_CPU_BYTES, BOUND_MEMORY_BYTES, BOUND_RING_AT, BOUND_RING_TOTAL_WORDS, BoundCpu, BoundRecord,
    RingReader,
};
use latebound_model::Cpu;

use crate::error::ProbeError;

/// One `struct lb_bound_memory` for every possible CPU.
pub struct BoundMemory {
    first: NonNull<u8>,
    bytes: usize,
    readers: Vec<RingReader>,
}

// SAFETY: the memory is shared with the kernel anyway; it is owned by this value and accessed through atomics and
// volatile copies.
unsafe impl Send for BoundMemory {}

impl std::fmt::Debug for BoundMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundMemory").field("cpus", &self.readers.len()).finish_non_exhaustive()
    }
}

impl BoundMemory {
    /// Maps what a descriptor (of a BPF array map, or of a device) offers, for so many possible CPUs.
    pub fn map(fd: BorrowedFd<'_>, cpus: usize) -> Result<BoundMemory, ProbeError> {
        let bytes = cpus * BOUND_MEMORY_BYTES;
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
        if address == libc::MAP_FAILED {
            return Err(ProbeError::last_os(format!("mapping {bytes} bytes of the bound's rings")));
        }
        let first = NonNull::new(address.cast::<u8>())
            .ok_or_else(|| ProbeError::last_os("mapping the bound's rings to an address other than 0"))?;
        Ok(BoundMemory { first, bytes, readers: vec![RingReader::default(); cpus] })
    }

    /// How many CPUs there may be.
    pub fn cpus(&self) -> usize {
        self.readers.len()
    }

    fn at(&self, cpu: Cpu) -> *mut u8 {
        assert!((cpu.0 as usize) < self.readers.len(), "CPU {cpu} of {}", self.readers.len());
        // SAFETY: inside the mapping by the assertion above.
        unsafe { self.first.as_ptr().add(cpu.0 as usize * BOUND_MEMORY_BYTES) }
    }

    /// Lets a CPU's events in, or no longer.
    pub fn set_running(&self, cpu: Cpu, running: bool) {
        // SAFETY: an aligned 32-bit field inside the mapping, accessed atomically by this process.
        let place = unsafe { AtomicU32::from_ptr(self.at(cpu).add(BoundCpu::RUNNING).cast()) };
        place.store(u32::from(running), Ordering::Release);
    }

    /// A copy of a CPU's state. The kernel goes on meanwhile: each number is true, all together belong to nearly the
    /// same moment.
    pub fn cpu(&self, cpu: Cpu) -> Option<BoundCpu> {
        let mut bytes = vec![0u64; BOUND_CPU_BYTES.div_ceil(8)];
        let from = self.at(cpu).cast::<u64>();
        for (place, word) in bytes.iter_mut().enumerate() {
            // SAFETY: inside this CPU's struct, aligned; volatile because the kernel writes to it.
            *word = unsafe { from.add(place).read_volatile() };
        }
        let bytes: Vec<u8> = bytes.iter().flat_map(|word| word.to_ne_bytes()).collect();
        BoundCpu::from_bytes(&bytes)
    }

    /// Takes what a CPU has written since the last time, at most so many words. Returns how many words it took.
    pub fn take(&mut self, cpu: Cpu, limit: usize, each: impl FnMut(BoundRecord)) -> usize {
        let ring = self.at(cpu).wrapping_add(BOUND_RING_AT).cast::<AtomicU64>();
        // SAFETY: the ring lies inside this CPU's struct, is aligned, and lives as long as self; the kernel writes to it
        // concurrently, which atomics allow.
        let ring = unsafe { std::slice::from_raw_parts(ring, BOUND_RING_TOTAL_WORDS) };
        self.readers[cpu.0 as usize].take(ring, limit, each)
    }
}

impl Drop for BoundMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}
