// SPDX-License-Identifier: MIT OR Apache-2.0
//! A large array of a BPF program in chunks, each a map of its own in an array of maps.
//!
//! A kernel gets, clears, maps and frees the pages of a map in one go. One that does not preempt itself (CONFIG_PREEMPT_NONE, or `preempt=none`)
//! runs nobody else on that CPU meanwhile, real-time threads neither: 64 MiB took up to 360 ms on 6.18 (mm/vmalloc.c, vm_area_alloc_pages). Owns
//! how large a chunk is, and the way to fill the array of maps. What lies in it is for others to know.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::libbpf_sys::{self, bpf_map_create_opts};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenMapMut};

use crate::error::ProbeError;
use crate::mapping::MappedArray;

/// 32 pages: below 0.6 ms where each is new to a virtual machine (4.4 ms for 1 MiB), and some 30 us where it is not.
const CHUNK_BYTES: usize = 128 << 10;
/// The most chunks of an array, which are larger then. Each is a mapping of its own, of which a process may have 65 530 (vm.max_map_count), and a
/// recorder has three arrays: 32 MiB for each of 256 CPUs would take as many.
const MOST: u32 = 1 << 14;
/// As many are given to the kernel at once: each time it waits for the programs that run, and until then they are open files.
const AT_ONCE: usize = 256;

/// The shape of an array of `T` in chunks, before it is there.
pub(super) struct Chunks<T> {
    /// By it the kernel knows what the chunks are like.
    like: MapHandle,
    entries: u32,
    shift: u32,
    of: PhantomData<T>,
}

impl<T: Copy> Chunks<T> {
    /// Of so many values at least.
    pub(super) fn of(entries: u32) -> Result<Chunks<T>, ProbeError> {
        let shift = shift(entries, size_of::<T>());
        Ok(Chunks { like: chunk::<T>(shift)?, entries, shift, of: PhantomData })
    }

    /// The binary logarithm of the values in a chunk.
    pub(super) fn shift(&self) -> u32 {
        self.shift
    }

    fn count(&self) -> u32 {
        self.entries.div_ceil(1 << self.shift)
    }

    /// Gives an array of maps its size, and what its maps are like.
    pub(super) fn shape(&self, outer: &mut OpenMapMut<'_>) -> libbpf_rs::Result<()> {
        outer.set_max_entries(self.count())?;
        outer.set_inner_map_fd(self.like.as_fd())
    }

    /// Makes all chunks, puts them into the array of maps, and maps them into this process. Each call makes its own.
    pub(super) fn fill(&self, outer: &MapHandle) -> Result<ChunkedArray<T>, ProbeError> {
        self.fill_with(outer, MappedArray::map)
    }

    /// As [`Chunks::fill`], for an array that this process writes to as well.
    pub(super) fn fill_writable(&self, outer: &MapHandle) -> Result<ChunkedArray<T>, ProbeError> {
        self.fill_with(outer, MappedArray::map_writable)
    }

    fn fill_with(
        &self,
        outer: &MapHandle,
        mapped: fn(BorrowedFd<'_>, usize) -> Result<MappedArray<T>, ProbeError>,
    ) -> Result<ChunkedArray<T>, ProbeError> {
        let (count, shift) = (self.count(), self.shift);
        let mut parts = Vec::with_capacity(count as usize);
        for begin in (0..count).step_by(AT_ONCE) {
            let numbers: Vec<u32> = (begin..count).take(AT_ONCE).collect();
            let mut maps = Vec::with_capacity(numbers.len());
            for _ in &numbers {
                let map = chunk::<T>(shift)?;
                parts.push(mapped(map.as_fd(), 1 << shift)?);
                maps.push(map);
            }
            put(outer, &numbers, &maps)?;
        }
        Ok(ChunkedArray { parts, shift })
    }
}

/// The binary logarithm of the values in a chunk, of so many values of so many bytes.
fn shift(entries: u32, bytes: usize) -> u32 {
    let usual = (CHUNK_BYTES / bytes).max(1).ilog2();
    let to_be_few = entries.div_ceil(MOST).max(1).next_power_of_two().ilog2();
    let all = entries.max(1).checked_next_power_of_two().map_or(u32::BITS - 1, u32::ilog2);
    usual.max(to_be_few).min(all)
}

fn chunk<T>(shift: u32) -> Result<MapHandle, ProbeError> {
    let options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let value = size_of::<T>() as u32;
    MapHandle::create(MapType::Array, Some("lb_chunk"), size_of::<u32>() as u32, value, 1 << shift, &options)
        .map_err(|error| ProbeError::bpf("making a part of the recorder's memory", error))
}

fn put(outer: &MapHandle, numbers: &[u32], maps: &[MapHandle]) -> Result<(), ProbeError> {
    let keys: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let values: Vec<u8> = maps.iter().flat_map(|map| map.as_fd().as_raw_fd().to_ne_bytes()).collect();
    let count = numbers.len() as u32;
    if outer.update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY).is_ok() {
        return Ok(());
    }
    // Kernels before 5.19 take them one by one, and wait for the programs that run after each.
    for (number, map) in numbers.iter().zip(maps) {
        let value = map.as_fd().as_raw_fd().to_ne_bytes();
        outer
            .update(&number.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(|error| ProbeError::bpf("giving the recorder its memory", error))?;
    }
    Ok(())
}

/// The chunks as this process sees them, as one array.
pub(super) struct ChunkedArray<T> {
    parts: Vec<MappedArray<T>>,
    shift: u32,
}

impl<T: Copy> ChunkedArray<T> {
    fn place(&self, index: usize) -> (&MappedArray<T>, usize) {
        (&self.parts[index >> self.shift], index & ((1 << self.shift) - 1))
    }

    /// As [`MappedArray::copy`].
    pub(super) fn copy(&self, index: usize) -> T {
        let (part, index) = self.place(index);
        part.copy(index)
    }

    /// As [`MappedArray::sequence`].
    pub(super) fn sequence(&self, index: usize) -> u64 {
        let (part, index) = self.place(index);
        part.sequence(index)
    }
}

impl ChunkedArray<u64> {
    /// As [`MappedArray::clear`].
    pub(super) fn clear(&self, index: usize) {
        let (part, index) = self.place(index);
        part.clear(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_of_128_kib_unless_they_would_be_too_many() {
        // 8 MiB of records of 64 bytes, then 32 MiB for each of 512 CPUs.
        assert_eq!(shift(1 << 17, 64), 11);
        let entries = 512 * (1 << 19);
        assert_eq!((shift(entries, 64), entries.div_ceil(1 << shift(entries, 64))), (14, MOST));
        for entries in [0, 1, 100, MOST, MOST + 1, (1 << 31) + 1, u32::MAX] {
            for bytes in [8, 64, 512] {
                assert!(entries.div_ceil(1 << shift(entries, bytes)) <= MOST, "{entries} of {bytes} bytes");
            }
        }
        assert_eq!([0, 1, 100].map(|entries| shift(entries, 8)), [0, 0, 7]);
    }

    #[test]
    fn live_an_array_in_chunks_reads_as_one() {
        let chunks = Chunks::<u64>::of(40_000).unwrap();
        assert_eq!((chunks.shift(), chunks.count()), (14, 3));
        let outer = {
            let options = bpf_map_create_opts {
                sz: size_of::<bpf_map_create_opts>() as libbpf_sys::size_t,
                inner_map_fd: chunks.like.as_fd().as_raw_fd() as u32,
                ..Default::default()
            };
            MapHandle::create(MapType::ArrayOfMaps, Some("lb_outer"), 4, 4, chunks.count(), &options).unwrap()
        };
        let array = chunks.fill_writable(&outer).unwrap();
        for index in [0u32, 16_383, 16_384, 39_999] {
            let id = outer.lookup(&(index >> 14).to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
            let part = MapHandle::from_map_id(u32::from_ne_bytes(id.try_into().unwrap())).unwrap();
            let value = u64::from(index) + 1;
            part.update(&(index & 16_383).to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY).unwrap();
            assert_eq!((array.copy(index as usize), array.sequence(index as usize)), (value, value));
        }
        assert_eq!(array.copy(1), 0);
        array.clear(39_999);
        assert_eq!((array.copy(39_999), array.copy(16_384)), (0, 16_385));
        // What is smaller than a chunk takes no more than it needs.
        assert_eq!(Chunks::<u64>::of(100).unwrap().shift(), 7);
    }
}
