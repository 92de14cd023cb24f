// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maps' memory as user space sees it: arrays of 64-bit words that the kernel writes while they are read.
//!
//! The offsets mirror `shared.bpf.h`. Owns the mapping of memory and the meaning of each word; names and judges nothing.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use latebound_model::{Context, Cpu, Histogram, Nanos, Policy, Task, Tid, bucket_index};

use crate::error::ProbeError;

/// Buckets of a series: `LB_PROBE_BUCKET_COUNT` of `latebound/histogram.h`.
pub(super) const BUCKETS: usize = bucket_index((1 << 40) - 1) + 1;
/// Series that are known beforehand: `HOT_SERIES`.
pub(super) const HOT_SERIES: usize = 40;
pub(super) const HOT_SOFTIRQ_LATENCY: usize = 0;
pub(super) const HOT_SOFTIRQ_EXECUTION: usize = 10;
pub(super) const HOT_VECTOR_EXECUTION: usize = 20;
pub(super) const HOT_HRTIMER_LATENCY: usize = 36;
pub(super) const HOT_HRTIMER_EXECUTION: usize = 38;
/// 64-bit words in a `struct cell`, `worst`, `name`.
pub(super) const CELL: usize = 6;
pub(super) const WORST: usize = 13;
pub(super) const NAME: usize = 10;

/// An array map, mapped for reading.
pub(super) struct Mapped {
    memory: NonNull<AtomicU64>,
    bytes: usize,
    /// Words of one element.
    stride: usize,
    len: usize,
}

// SAFETY: the memory is shared with the kernel anyway and is only read, through atomics.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps `len` elements of `value_size` bytes each.
    pub(super) fn new(fd: BorrowedFd<'_>, len: usize, value_size: usize) -> Result<Mapped, ProbeError> {
        use std::os::fd::AsRawFd;
        // An array map's elements are rounded up to 8 bytes (kernel/bpf/arraymap.c array_map_alloc).
        let stride = value_size.div_ceil(8);
        let bytes = (stride * 8 * len).next_multiple_of(page_size());
        // SAFETY: a fresh mapping at an address of the kernel's choice, of a map made with BPF_F_MMAPABLE.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(ProbeError::last_os(format!("mapping {bytes} bytes of a BPF map")));
        }
        let memory = NonNull::new(memory.cast())
            .ok_or_else(|| ProbeError::last_os("mapping a BPF map to an address other than 0"))?;
        Ok(Mapped { memory, bytes, stride, len })
    }

    /// The words of one element.
    ///
    /// # Panics
    /// Where there is no such element.
    pub(super) fn words(&self, index: usize) -> &[AtomicU64] {
        assert!(index < self.len, "element {index} of a map of {}", self.len);
        // SAFETY: inside the mapping (asserted), which lives as long as self and is page-aligned; the kernel writes it
        // concurrently, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(index * self.stride), self.stride) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping made in new(), which nothing borrows any more. Failing leaves it mapped, no more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

fn page_size() -> usize {
    // SAFETY: reads a constant of the system.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|&size| size > 0).unwrap_or(4096)
}

pub(super) fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}

/// `struct cell`, of one CPU or merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) sum: u128,
    pub(super) max: u64,
    /// The inverted minimum value; 0 where nothing was counted.
    pub(super) min_inverted: u64,
    pub(super) clipped: u64,
    pub(super) merged: u64,
    pub(super) cross_cpu: u64,
}

impl Cell {
    pub(super) fn read(words: &[AtomicU64]) -> Cell {
        Cell {
            sum: u128::from(load(&words[0])),
            max: load(&words[1]),
            min_inverted: load(&words[2]),
            clipped: load(&words[3]),
            merged: load(&words[4]),
            cross_cpu: load(&words[5]),
        }
    }

    pub(super) fn merge(&mut self, other: Cell) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.min_inverted = self.min_inverted.max(other.min_inverted);
        self.clipped += other.clipped;
        self.merged += other.merged;
        self.cross_cpu += other.cross_cpu;
    }
}

/// How often a series is read again when the kernel wrote in between.
const TRIES: usize = 100;

/// The exact histogram of buckets and their cell. Values above the kernel's buckets, which are only tallied, are put
/// into the bucket of the maximum: count, sum and extremes stay exact, quantiles err upward.
///
/// Read while programs run, a value may stand in the one and not yet in the other. It is read again then; should it
/// never hold still, the extremes of that one reading are those of their buckets.
pub(super) fn histogram(
    mut cell: impl FnMut() -> Cell,
    mut buckets: impl FnMut(&mut [u64]),
    counts: &mut [u64],
) -> (Histogram, Cell) {
    for _ in 0..TRIES {
        let before = cell();
        counts.fill(0);
        buckets(counts);
        let after = cell();
        if before != after {
            continue;
        }
        if let Some(histogram) = exact(counts, after) {
            return (histogram, after);
        }
    }
    let mut after = cell();
    after.min_inverted = 0;
    let first = counts.iter().position(|&count| count > 0);
    let last = counts.iter().rposition(|&count| count > 0);
    if let (Some(first), Some(last)) = (first, last) {
        after.min_inverted = !latebound_model::bucket_bounds(first).0;
        if after.clipped == 0 {
            after.max = latebound_model::bucket_bounds(last).1;
        }
    }
    (exact(counts, after).unwrap_or_default(), after)
}

fn exact(counts: &[u64], cell: Cell) -> Option<Histogram> {
    if cell.min_inverted == 0 {
        return counts.iter().all(|&count| count == 0).then(Histogram::new);
    }
    let clipped = (cell.clipped > 0).then(|| (bucket_index(cell.max), cell.clipped));
    let filled = counts.iter().copied().enumerate().filter(|&(_, count)| count > 0).chain(clipped);
    Histogram::from_parts(filled, Nanos(!cell.min_inverted), Nanos(cell.max), cell.sum)
}

/// Text that ends at its first zero byte.
pub(super) fn text(words: &[AtomicU64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| load(word).to_ne_bytes()).collect();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn halves(word: u64) -> (u32, u32) {
    if cfg!(target_endian = "little") {
        (word as u32, (word >> 32) as u32)
    } else {
        ((word >> 32) as u32, word as u32)
    }
}

/// `struct name`.
pub(super) struct Name {
    pub(super) key: u64,
    pub(super) tid: i32,
    pub(super) irq: u32,
    pub(super) text: String,
}

impl Name {
    /// `None` where the series has no name yet.
    pub(super) fn read(words: &[AtomicU64]) -> Option<Name> {
        let key = load(&words[0]);
        let (tid, irq) = halves(load(&words[1]));
        (key != 0).then(|| Name { key, tid: tid as i32, irq, text: text(&words[2..NAME]) })
    }
}

fn task(words: &[AtomicU64]) -> Task {
    let (tid, prio) = halves(load(&words[0]));
    let (policy, kernel) = halves(load(&words[1]));
    Task {
        tid: Tid(tid as i32),
        comm: text(&words[2..4]),
        policy: Policy::from_number(policy),
        prio: Some(prio as i32),
        kernel: kernel != 0,
    }
}

/// `struct worst`.
#[derive(Clone, Debug)]
pub(super) struct Worst {
    pub(super) requested_at: Nanos,
    pub(super) activated_at: Option<Nanos>,
    pub(super) started_at: Nanos,
    pub(super) requested_cpu: Cpu,
    pub(super) context: Option<Context>,
    pub(super) requester: Task,
    pub(super) runner: Task,
}

impl Worst {
    /// `None` where there is none, or where it never held still.
    pub(super) fn read(words: &[AtomicU64]) -> Option<Worst> {
        for _ in 0..TRIES {
            let sequence = load(&words[0]);
            if sequence == 0 {
                return None;
            }
            let (cpu, context) = halves(load(&words[4]));
            let worst = Worst {
                requested_at: Nanos(load(&words[1])),
                activated_at: Some(Nanos(load(&words[2]))).filter(|at| at.0 > 0),
                started_at: Nanos(load(&words[3])),
                requested_cpu: Cpu(cpu),
                context: match context {
                    1 => Some(Context::Task),
                    2 => Some(Context::Softirq),
                    3 => Some(Context::HardIrq),
                    _ => None,
                },
                requester: task(&words[5..9]),
                runner: task(&words[9..WORST]),
            };
            if sequence.is_multiple_of(2) && load(&words[0]) == sequence {
                return Some(worst);
            }
        }
        None
    }

    pub(super) fn latency(&self) -> Nanos {
        self.started_at.saturating_sub(self.requested_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(values: &[u64]) -> Cell {
        Cell {
            sum: values.iter().map(|&value| u128::from(value)).sum(),
            max: values.iter().copied().max().unwrap_or(0),
            min_inverted: values.iter().copied().map(|value| !value).max().unwrap_or(0),
            ..Cell::default()
        }
    }

    fn fill(values: &[u64], counts: &mut [u64]) {
        for &value in values {
            counts[bucket_index(value)] += 1;
        }
    }

    #[test]
    fn the_kernel_keeps_as_many_buckets_as_the_shared_header_says() {
        assert_eq!(BUCKETS, (40 - 7 - 1) * 128 + 2 * 128);
    }

    #[test]
    fn a_series_read_at_rest_is_exact() {
        let values = [0, 7, 300, 1 << 39];
        let mut counts = vec![0; BUCKETS];
        let (histogram, _) = histogram(|| cell(&values), |counts| fill(&values, counts), &mut counts);
        let mut expected = Histogram::new();
        values.iter().for_each(|&value| expected.record(Nanos(value)));
        assert_eq!(histogram, expected);
    }

    #[test]
    fn values_above_the_kernels_buckets_keep_their_count_sum_and_maximum() {
        let values = [5, 1 << 41, 1 << 45];
        let with_clipped = Cell { clipped: 2, ..cell(&values) };
        let mut counts = vec![0; BUCKETS];
        let (histogram, _) = histogram(|| with_clipped, |counts| fill(&values[..1], counts), &mut counts);
        assert_eq!(histogram.count(), 3);
        assert_eq!(histogram.max(), Some(Nanos(1 << 45)));
        assert_eq!(histogram.sum(), values.iter().map(|&value| u128::from(value)).sum());
    }

    #[test]
    fn a_series_that_never_holds_still_still_counts_every_bucket() {
        let mut sum = 0;
        let moving = || {
            sum += 1;
            Cell { sum, max: 500, min_inverted: !1, ..Cell::default() }
        };
        let mut counts = vec![0; BUCKETS];
        let (histogram, _) = histogram(moving, |counts| fill(&[3, 400], counts), &mut counts);
        assert_eq!(histogram.count(), 2);
        assert_eq!(histogram.min(), Some(Nanos(3)));
    }
}
