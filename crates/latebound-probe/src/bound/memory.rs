// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared memory of `latebound/bound_record.h`, mapped: whoever writes it, BPF programs or a kernel module.
//! Owns the mapping and the reading side of every ring.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use latebound_abi::{
    BOUND_CPU_BYTES, BOUND_CPU_ROOM, BOUND_MEMORY_BYTES, BOUND_RING_AT, BOUND_RING_BYTES,
    BOUND_RING_TOTAL_WORDS, BoundCpu, BoundRecord, RingReader,
};
use latebound_model::Cpu;

use crate::error::ProbeError;
use crate::mapping::Mapping;

/// A part of the memory of every CPU, one after the other.
struct PerCpu {
    memory: Mapping,
    stride: usize,
}

impl PerCpu {
    fn new(fd: BorrowedFd<'_>, cpus: usize, stride: usize) -> Result<PerCpu, ProbeError> {
        Ok(PerCpu { memory: Mapping::writable(fd, cpus * stride, "the bound's memory")?, stride })
    }

    fn offset(&self, cpu: Cpu) -> usize {
        cpu.0 as usize * self.stride
    }
}

/// A `struct lb_bound_cpu` and a `struct lb_bound_ring` for every possible CPU.
pub struct BoundMemory {
    cpus: PerCpu,
    /// Where they lie by themselves; otherwise each lies behind its `struct lb_bound_cpu`.
    rings: Option<PerCpu>,
    readers: Vec<RingReader>,
}

impl std::fmt::Debug for BoundMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundMemory").field("cpus", &self.readers.len()).finish_non_exhaustive()
    }
}

impl BoundMemory {
    /// Maps what a device offers, for so many possible CPUs: a `struct lb_bound_memory` each.
    pub fn map(fd: BorrowedFd<'_>, cpus: usize) -> Result<BoundMemory, ProbeError> {
        let memory = PerCpu::new(fd, cpus, BOUND_MEMORY_BYTES)?;
        Ok(BoundMemory { cpus: memory, rings: None, readers: vec![RingReader::default(); cpus] })
    }

    /// Maps two BPF array maps, of states and of rings.
    pub fn map_parts(
        states: BorrowedFd<'_>,
        rings: BorrowedFd<'_>,
        cpus: usize,
    ) -> Result<BoundMemory, ProbeError> {
        let states = PerCpu::new(states, cpus, BOUND_CPU_ROOM)?;
        let rings = PerCpu::new(rings, cpus, BOUND_RING_BYTES)?;
        Ok(BoundMemory { cpus: states, rings: Some(rings), readers: vec![RingReader::default(); cpus] })
    }

    /// Lays down the bytes of a CPU's state, before it is let run ([`BoundMemory::set_running`]). Programs may be attached already: what they keep
    /// until then is kept again at the next event (latebound/bound_record.h).
    pub fn set_state(&self, cpu: Cpu, bytes: &[u8]) {
        assert!(bytes.len() <= BOUND_CPU_BYTES, "{} bytes for a state of {BOUND_CPU_BYTES}", bytes.len());
        let to = self.cpus.offset(cpu);
        for (place, byte) in bytes.iter().enumerate() {
            // SAFETY: inside the mapping; volatile because the memory is shared with the kernel.
            unsafe { self.cpus.memory.at::<u8>(to + place).write_volatile(*byte) };
        }
    }

    /// How many CPUs there may be.
    pub fn cpus(&self) -> usize {
        self.readers.len()
    }

    /// Lets a CPU's events in, or no longer.
    pub fn set_running(&self, cpu: Cpu, running: bool) {
        let place = self.cpus.memory.at(self.cpus.offset(cpu) + BoundCpu::RUNNING);
        // SAFETY: an aligned 32-bit field inside the mapping, accessed atomically by this process.
        let place = unsafe { AtomicU32::from_ptr(place) };
        place.store(u32::from(running), Ordering::Release);
    }

    /// A copy of a CPU's state. The kernel goes on meanwhile: each number is true, all together belong to nearly the
    /// same moment.
    pub fn cpu(&self, cpu: Cpu) -> Option<BoundCpu> {
        let words = self.cpus.memory.words(self.cpus.offset(cpu), BOUND_CPU_BYTES.div_ceil(8));
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        BoundCpu::from_bytes(&bytes)
    }

    /// Takes what a CPU has written since the last time, at most so many words. Returns how many words it took.
    pub fn take(&mut self, cpu: Cpu, limit: usize, each: impl FnMut(BoundRecord)) -> usize {
        let (memory, at) = match &self.rings {
            Some(rings) => (&rings.memory, rings.offset(cpu)),
            None => (&self.cpus.memory, self.cpus.offset(cpu) + BOUND_RING_AT),
        };
        let ring = memory.words(at, BOUND_RING_TOTAL_WORDS);
        self.readers[cpu.0 as usize].take(ring, limit, each)
    }
}
