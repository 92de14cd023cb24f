// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared memory of `latebound/bound_record.h`, mapped: whoever writes it, BPF programs or a kernel module.
//! Owns the mapping and the reading side of every ring.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use latebound_abi::{
    BOUND_CPU_BYTES, BOUND_CPU_ROOM, BOUND_MEMORY_BYTES, BOUND_RING_AT, BOUND_RING_BYTES,
    BOUND_RING_TOTAL_WORDS, BoundCpu, BoundRecord, RingReader,
};
use latebound_model::Cpu;

use crate::error::ProbeError;

/// A part of the memory of every CPU, one after the other.
struct Mapping {
    first: NonNull<u8>,
    bytes: usize,
    stride: usize,
}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, cpus: usize, stride: usize) -> Result<Mapping, ProbeError> {
        let bytes = cpus * stride;
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
            return Err(ProbeError::last_os(format!("mapping {bytes} bytes of the bound's memory")));
        }
        let first = NonNull::new(address.cast::<u8>())
            .ok_or_else(|| ProbeError::last_os("mapping the bound's memory to an address other than 0"))?;
        Ok(Mapping { first, bytes, stride })
    }

    fn at(&self, cpu: Cpu) -> *mut u8 {
        let at = cpu.0 as usize * self.stride;
        assert!(at + self.stride <= self.bytes, "CPU {cpu} of {}", self.bytes / self.stride);
        // SAFETY: inside the mapping by the assertion above.
        unsafe { self.first.as_ptr().add(at) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

/// A `struct lb_bound_cpu` and a `struct lb_bound_ring` for every possible CPU.
pub struct BoundMemory {
    cpus: Mapping,
    /// Where they lie by themselves; otherwise each lies behind its `struct lb_bound_cpu`.
    rings: Option<Mapping>,
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
    /// Maps what a device offers, for so many possible CPUs: a `struct lb_bound_memory` each.
    pub fn map(fd: BorrowedFd<'_>, cpus: usize) -> Result<BoundMemory, ProbeError> {
        let memory = Mapping::new(fd, cpus, BOUND_MEMORY_BYTES)?;
        Ok(BoundMemory { cpus: memory, rings: None, readers: vec![RingReader::default(); cpus] })
    }

    /// Maps two BPF array maps, of states and of rings.
    pub fn map_parts(
        states: BorrowedFd<'_>,
        rings: BorrowedFd<'_>,
        cpus: usize,
    ) -> Result<BoundMemory, ProbeError> {
        let states = Mapping::new(states, cpus, BOUND_CPU_ROOM)?;
        let rings = Mapping::new(rings, cpus, BOUND_RING_BYTES)?;
        Ok(BoundMemory { cpus: states, rings: Some(rings), readers: vec![RingReader::default(); cpus] })
    }

    /// Lays down the bytes of a CPU's state, before it is let run ([`BoundMemory::set_running`]). Programs may be attached already: what they keep
    /// until then is kept again at the next event (latebound/bound_record.h).
    pub fn set_state(&self, cpu: Cpu, bytes: &[u8]) {
        assert!(bytes.len() <= BOUND_CPU_BYTES, "{} bytes for a state of {BOUND_CPU_BYTES}", bytes.len());
        let to = self.cpus.at(cpu);
        for (place, byte) in bytes.iter().enumerate() {
            // SAFETY: inside this CPU's struct by the assertion; volatile because the memory is shared with the kernel.
            unsafe { to.add(place).write_volatile(*byte) };
        }
    }

    /// How many CPUs there may be.
    pub fn cpus(&self) -> usize {
        self.readers.len()
    }

    /// Lets a CPU's events in, or no longer.
    pub fn set_running(&self, cpu: Cpu, running: bool) {
        // SAFETY: an aligned 32-bit field inside the mapping, accessed atomically by this process.
        let place = unsafe { AtomicU32::from_ptr(self.cpus.at(cpu).add(BoundCpu::RUNNING).cast()) };
        place.store(u32::from(running), Ordering::Release);
    }

    /// A copy of a CPU's state. The kernel goes on meanwhile: each number is true, all together belong to nearly the
    /// same moment.
    pub fn cpu(&self, cpu: Cpu) -> Option<BoundCpu> {
        let mut bytes = vec![0u64; BOUND_CPU_BYTES.div_ceil(8)];
        let from = self.cpus.at(cpu).cast::<u64>();
        for (place, word) in bytes.iter_mut().enumerate() {
            // SAFETY: inside this CPU's struct, aligned; volatile because the kernel writes to it.
            *word = unsafe { from.add(place).read_volatile() };
        }
        let bytes: Vec<u8> = bytes.iter().flat_map(|word| word.to_ne_bytes()).collect();
        BoundCpu::from_bytes(&bytes)
    }

    /// Takes what a CPU has written since the last time, at most so many words. Returns how many words it took.
    pub fn take(&mut self, cpu: Cpu, limit: usize, each: impl FnMut(BoundRecord)) -> usize {
        let ring = match &self.rings {
            Some(rings) => rings.at(cpu),
            None => self.cpus.at(cpu).wrapping_add(BOUND_RING_AT),
        };
        let ring = ring.cast::<AtomicU64>();
        // SAFETY: the ring lies inside this CPU's struct, is aligned, and lives as long as self; the kernel writes to it
        // concurrently, which atomics allow.
        let ring = unsafe { std::slice::from_raw_parts(ring, BOUND_RING_TOTAL_WORDS) };
        self.readers[cpu.0 as usize].take(ring, limit, each)
    }
}
