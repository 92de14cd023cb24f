// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maps' memory as user space sees it: arrays of structures of `observe.h`, read as 64-bit words that the kernel writes meanwhile.
//!
//! Owns how a structure is read that is being written, and what its fields mean; names and judges nothing.

use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use latebound_model::{Context, Cpu, Histogram, Nanos, Task, bucket_index};

use super::wire;
use crate::error::ProbeError;
use crate::mapping::Mapping;
use crate::task::{task, text};

/// Buckets of a series.
pub(super) const BUCKETS: usize = size_of::<wire::Buckets>() / 8;
const _: () = assert!(BUCKETS == bucket_index((1 << 40) - 1) + 1, "the rule of buckets is the model's");

/// An array map, mapped for reading.
pub(super) struct Mapped {
    memory: Mapping,
    /// Words of one element.
    stride: usize,
    len: usize,
}

impl Mapped {
    /// Maps `len` elements of `value_size` bytes each.
    pub(super) fn new(fd: BorrowedFd<'_>, len: usize, value_size: usize) -> Result<Mapped, ProbeError> {
        // An array map's elements are rounded up to 8 bytes (kernel/bpf/arraymap.c array_map_alloc).
        let stride = value_size.div_ceil(8);
        Ok(Mapped { memory: Mapping::read_only(fd, stride * 8 * len, "a BPF map")?, stride, len })
    }

    /// The words of one element.
    ///
    /// # Panics
    /// Where there is no such element.
    pub(super) fn words(&self, index: usize) -> &[AtomicU64] {
        assert!(index < self.len, "element {index} of a map of {}", self.len);
        self.memory.words(index * self.stride * 8, self.stride)
    }
}

/// The word at an offset into a structure.
pub(super) fn word(words: &[AtomicU64], offset: usize) -> u64 {
    load(&words[offset / 8])
}

/// The words of a part of a structure.
fn part(words: &[AtomicU64], offset: usize, bytes: usize) -> &[AtomicU64] {
    &words[offset / 8..(offset + bytes) / 8]
}

/// The bytes of as many words, each read at once.
fn bytes<const BYTES: usize>(words: &[AtomicU64]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&load(word).to_ne_bytes());
    }
    bytes
}

/// The cell of a hot series, and what is lost of a kind, in what a CPU counts.
pub(super) struct Counts<'a>(pub(super) &'a [AtomicU64]);

impl Counts<'_> {
    pub(super) fn hot(&self, series: usize) -> Cell {
        const BYTES: usize = size_of::<wire::Cell>();
        Cell::read(part(self.0, offset_of!(wire::Counts, hot) + series * BYTES, BYTES))
    }

    pub(super) fn lost(&self, of: wire::Lost) -> u64 {
        word(self.0, offset_of!(wire::Counts, lost) + of.raw() as usize * 8)
    }
}

/// The buckets of a hot series in a set of them.
pub(super) fn hot_buckets(set: &[AtomicU64], series: usize) -> &[AtomicU64] {
    const BYTES: usize = size_of::<wire::Buckets>();
    part(set, offset_of!(wire::HotBuckets, series) + series * BYTES, BYTES)
}

pub(super) fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}

/// What is exact of a series, of one CPU or merged.
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
        let read = wire::Cell::from_bytes(&bytes::<{ size_of::<wire::Cell>() }>(words)).unwrap_or_default();
        let wire::Cell { sum_ns, max_ns, min_inverted, clipped, merged, cross_cpu } = read;
        Cell { sum: u128::from(sum_ns), max: max_ns, min_inverted, clipped, merged, cross_cpu }
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

impl Cell {
    /// The buckets that its values can be in. Those beyond are not read: their memory is never touched.
    fn reach(&self) -> Range<usize> {
        if self.min_inverted == 0 {
            return 0..0;
        }
        let end = (bucket_index(self.max) + 1).min(BUCKETS);
        bucket_index(!self.min_inverted).min(end)..end
    }
}

/// How often a series is read again when the kernel wrote in between.
const TRIES: usize = 100;

/// The exact histogram of buckets and their cell. Values above the kernel's buckets, which are only tallied, are put
/// into the bucket of the maximum: count, sum and extremes stay exact, quantiles err upward.
///
/// `buckets` adds the counts of these buckets to those given. Read while programs run, a value may stand in the one and not yet in the other. It is read again then; should it
/// never hold still, the extremes of that one reading are those of their buckets.
pub(super) fn histogram(
    mut cell: impl FnMut() -> Cell,
    mut buckets: impl FnMut(&mut [u64], Range<usize>),
    counts: &mut [u64],
) -> (Histogram, Cell) {
    for _ in 0..TRIES {
        let before = cell();
        counts.fill(0);
        let reach = before.reach();
        buckets(&mut counts[reach.clone()], reach);
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

/// What a cold series is called.
pub(super) struct Name {
    pub(super) key: u64,
    pub(super) tid: i32,
    pub(super) irq: u32,
    pub(super) text: String,
}

impl Name {
    /// `None` where the series has no name yet.
    pub(super) fn read(words: &[AtomicU64]) -> Option<Name> {
        // Written last, so read first.
        if word(words, offset_of!(wire::Name, key)) == 0 {
            return None;
        }
        let read = wire::Name::from_bytes(&bytes::<{ size_of::<wire::Name>() }>(words))?;
        Some(Name { key: read.key, tid: read.tid, irq: read.irq, text: text(&read.text) })
    }
}

fn task_of(read: &wire::Task) -> Task {
    task(read.tid, &read.comm, read.policy, read.prio, read.kernel != 0)
}

fn context(read: u32) -> Option<Context> {
    match wire::Context::from_raw(read)? {
        wire::Context::Unknown => None,
        wire::Context::Task => Some(Context::Task),
        wire::Context::Softirq => Some(Context::Softirq),
        wire::Context::Hardirq => Some(Context::HardIrq),
    }
}

/// The worst activation of a cold series on a CPU.
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
            let sequence = || word(words, offset_of!(wire::Worst, sequence));
            let before = sequence();
            if before == 0 {
                return None;
            }
            let read = wire::Worst::from_bytes(&bytes::<{ size_of::<wire::Worst>() }>(words))?;
            if before.is_multiple_of(2) && sequence() == before {
                return Some(Worst {
                    requested_at: Nanos(read.requested_at_ns),
                    activated_at: Some(Nanos(read.activated_at_ns)).filter(|at| at.0 > 0),
                    started_at: Nanos(read.started_at_ns),
                    requested_cpu: Cpu(read.requested_cpu),
                    context: context(read.context),
                    requester: task_of(&read.requester),
                    runner: task_of(&read.runner),
                });
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

    fn fill(values: &[u64], counts: &mut [u64], reach: Range<usize>) {
        for &value in values {
            counts[bucket_index(value) - reach.start] += 1;
        }
    }

    #[test]
    fn a_worst_is_read_by_the_names_of_its_fields_not_while_it_is_written() {
        let requester =
            wire::Task { tid: 7, prio: -1, policy: 6, kernel: 1, comm: *b"asker\0\0\0\0\0\0\0\0\0\0\0" };
        let mut written = wire::Worst {
            sequence: 2,
            requested_at_ns: 10,
            started_at_ns: 30,
            requested_cpu: 3,
            context: wire::Context::Softirq.raw(),
            requester,
            ..wire::Worst::ZERO
        };
        let words = |written: wire::Worst| -> Vec<AtomicU64> {
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
            written.to_bytes().chunks(8).map(|bytes| AtomicU64::new(word(bytes))).collect()
        };
        let read = Worst::read(&words(written)).unwrap();
        assert_eq!((read.latency(), read.activated_at, read.requested_cpu), (Nanos(20), None, Cpu(3)));
        assert_eq!((read.context, read.requester.tid.0), (Some(Context::Softirq), 7));
        assert_eq!(
            (read.requester.comm.as_str(), read.requester.prio, read.requester.kernel),
            ("asker", Some(-1), true)
        );
        written.sequence = 3;
        assert!(Worst::read(&words(written)).is_none());
        written.sequence = 0;
        assert!(Worst::read(&words(written)).is_none());
    }

    #[test]
    fn a_series_read_at_rest_is_exact() {
        let values = [0, 7, 300, 1 << 39];
        let mut counts = vec![0; BUCKETS];
        let (histogram, _) =
            histogram(|| cell(&values), |counts, reach| fill(&values, counts, reach), &mut counts);
        let mut expected = Histogram::new();
        values.iter().for_each(|&value| expected.record(Nanos(value)));
        assert_eq!(histogram, expected);
    }

    #[test]
    fn values_above_the_kernels_buckets_keep_their_count_sum_and_maximum() {
        let values = [5, 1 << 41, 1 << 45];
        let with_clipped = Cell { clipped: 2, ..cell(&values) };
        let mut counts = vec![0; BUCKETS];
        let (histogram, _) =
            histogram(|| with_clipped, |counts, reach| fill(&values[..1], counts, reach), &mut counts);
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
        let (histogram, _) = histogram(moving, |counts, reach| fill(&[3, 400], counts, reach), &mut counts);
        assert_eq!(histogram.count(), 2);
        assert_eq!(histogram.min(), Some(Nanos(3)));
    }
}
