// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of one distribution that one thread writes and another may read at any time.
//!
//! Owns a histogram and its block maxima as preallocated atomics. Adding a value never allocates, locks, waits or
//! calls the system. Knows nothing of clocks and threads.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use latebound_model::{BUCKET_COUNT, BlockMaxima, Histogram, Nanos, bucket_bounds, bucket_index};

/// How many blocks are kept before two and two are folded into one of twice the length. 16384 blocks of a second are
/// four and a half hours, and folding them takes some ten microseconds, once.
pub(crate) const MOST_BLOCKS: usize = 16_384;

/// Reads of a tally that is being written are repeated this often before the torn edges are mended instead.
const READ_ATTEMPTS: u32 = 64;

/// One distribution. All writing methods are for one thread only.
pub(crate) struct Tally {
    hot: Hot,
    buckets: Box<[AtomicU64]>,
    /// The maximum value of each block plus one; 0 where there is none.
    blocks: Box<[AtomicU64]>,
    /// When the first block begins.
    start: u64,
    /// How long a block was meant to be.
    block: u64,
}

/// What every added value changes, in one cache line of its own.
#[repr(align(128))]
struct Hot {
    /// Odd while a value is being added.
    sequence: AtomicU64,
    sum: AtomicU64,
    /// Minimum and maximum as they are; `u64::MAX` and 0 where nothing was added.
    min: AtomicU64,
    max: AtomicU64,
    /// The block of the last value, its end, and how often blocks were folded.
    block_index: AtomicU64,
    block_end: AtomicU64,
    folds: AtomicU64,
}

/// The values of periods that passed while a thread was late: `first - step`, `first - 2 step`, …, `count` of them,
/// for expiries `expiry + step`, `expiry + 2 step`, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// The expiry that was served late.
    pub(crate) expiry: Nanos,
    /// How late.
    pub(crate) late: Nanos,
    /// Periods that were due after it and before the wake-up.
    pub(crate) missed: u64,
    /// The period.
    pub(crate) period: Nanos,
}

fn atomics(count: usize) -> Box<[AtomicU64]> {
    // Zero is written, not only mapped: the pages are there before the loop begins.
    let atomics: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
    atomics.iter().step_by(512).for_each(|word| word.store(0, Ordering::Relaxed));
    atomics
}

impl Tally {
    /// An empty tally whose blocks begin at `start`, with room for `blocks` of them before they are folded.
    pub(crate) fn new(start: Nanos, block: Nanos, blocks: usize) -> Tally {
        let block = block.0.max(1);
        Tally {
            hot: Hot {
                sequence: AtomicU64::new(0),
                sum: AtomicU64::new(0),
                min: AtomicU64::new(u64::MAX),
                max: AtomicU64::new(0),
                block_index: AtomicU64::new(0),
                block_end: AtomicU64::new(start.0.saturating_add(block)),
                folds: AtomicU64::new(0),
            },
            buckets: atomics(BUCKET_COUNT),
            blocks: atomics(blocks.clamp(2, MOST_BLOCKS).next_multiple_of(2)),
            start: start.0,
            block,
        }
    }

    /// Sets when the first block begins, before any value was added.
    pub(crate) fn set_start(&mut self, start: Nanos) {
        self.start = start.0;
        *self.hot.block_end.get_mut() = start.0.saturating_add(self.block);
    }

    #[inline]
    fn begin(&self) -> u64 {
        let sequence = self.hot.sequence.load(Ordering::Relaxed);
        self.hot.sequence.store(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        sequence
    }

    #[inline]
    fn end(&self, sequence: u64) {
        self.hot.sequence.store(sequence + 2, Ordering::Release);
    }

    /// Adds one value, taken for an expiry at this time. Expiries may not go back over a block's start.
    #[inline]
    pub(crate) fn add(&self, expiry: Nanos, value: Nanos) {
        let sequence = self.begin();
        self.count(bucket_index(value.0), 1);
        self.reach(value.0, value.0, value.0);
        self.raise_block(expiry.0, value.0);
        self.end(sequence);
    }

    /// Adds the values of all periods of a stall, in as many steps as buckets and blocks are touched, not periods.
    pub(crate) fn add_stall(&self, stall: &Stall) {
        if stall.missed == 0 {
            return;
        }
        let (late, period, missed) = (stall.late.0, stall.period.0, stall.missed);
        let value = |k: u64| late - k * period;
        let sequence = self.begin();
        let mut k = 1;
        while k <= missed {
            let bucket = bucket_index(value(k));
            let last = missed.min((late - bucket_bounds(bucket).0) / period);
            self.count(bucket, last - k + 1);
            k = last + 1;
        }
        // An arithmetic progression: (first + last) * count is always even.
        let sum = u128::from(value(1) + value(missed)) * u128::from(missed) / 2;
        self.reach(value(missed), value(1), sum as u64);
        let mut k = 1;
        while k <= missed {
            let expiry = stall.expiry.0 + k * period;
            self.raise_block(expiry, value(k));
            let rest = self.hot.block_end.load(Ordering::Relaxed) - expiry;
            k += rest.div_ceil(period).max(1);
        }
        self.end(sequence);
    }

    #[inline]
    fn count(&self, bucket: usize, n: u64) {
        let counter = &self.buckets[bucket];
        counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    #[inline]
    fn reach(&self, lowest: u64, highest: u64, sum: u64) {
        let hot = &self.hot;
        // 64 bits of nanoseconds hold the lateness of 584 years.
        hot.sum.store(hot.sum.load(Ordering::Relaxed).wrapping_add(sum), Ordering::Relaxed);
        if lowest < hot.min.load(Ordering::Relaxed) {
            hot.min.store(lowest, Ordering::Relaxed);
        }
        if highest > hot.max.load(Ordering::Relaxed) {
            hot.max.store(highest, Ordering::Relaxed);
        }
    }

    #[inline]
    fn raise_block(&self, expiry: u64, value: u64) {
        if expiry >= self.hot.block_end.load(Ordering::Relaxed) {
            self.enter_block(expiry);
        }
        let highest = &self.blocks[self.hot.block_index.load(Ordering::Relaxed) as usize];
        if value >= highest.load(Ordering::Relaxed) {
            highest.store(value.saturating_add(1), Ordering::Relaxed);
        }
    }

    #[cold]
    fn enter_block(&self, expiry: u64) {
        let mut folds = self.hot.folds.load(Ordering::Relaxed);
        let mut index = (expiry - self.start) / (self.block << folds);
        while index >= self.blocks.len() as u64 {
            self.fold();
            folds += 1;
            index /= 2;
        }
        self.hot.folds.store(folds, Ordering::Relaxed);
        self.hot.block_index.store(index, Ordering::Relaxed);
        let end = (index + 1).saturating_mul(self.block << folds).saturating_add(self.start);
        self.hot.block_end.store(end, Ordering::Relaxed);
    }

    fn fold(&self) {
        let half = self.blocks.len() / 2;
        for index in 0..half {
            let pair = self.blocks[2 * index].load(Ordering::Relaxed);
            let pair = pair.max(self.blocks[2 * index + 1].load(Ordering::Relaxed));
            self.blocks[index].store(pair, Ordering::Relaxed);
        }
        self.blocks[half..].iter().for_each(|block| block.store(0, Ordering::Relaxed));
    }

    /// What was added so far. Exact where nothing is being added meanwhile; otherwise as of some moment during the
    /// call, and where the writer leaves no gap to read in, with counts up to a moment apart and the
    /// extremes widened to their buckets.
    pub(crate) fn read(&self) -> (Histogram, BlockMaxima) {
        for _ in 0..READ_ATTEMPTS {
            let before = self.hot.sequence.load(Ordering::Acquire);
            if before % 2 == 1 {
                std::hint::spin_loop();
                continue;
            }
            let copy = self.copy();
            fence(Ordering::Acquire);
            if self.hot.sequence.load(Ordering::Relaxed) == before {
                return copy.into_parts();
            }
        }
        self.copy().into_parts()
    }

    fn copy(&self) -> Copied {
        let hot = &self.hot;
        let (min, max) = (hot.min.load(Ordering::Relaxed), hot.max.load(Ordering::Relaxed));
        let filled = if min <= max { bucket_index(min)..bucket_index(max) + 1 } else { 0..0 };
        let counts = filled
            .map(|index| (index, self.buckets[index].load(Ordering::Relaxed)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let last = hot.block_index.load(Ordering::Relaxed) as usize;
        let blocks = self.blocks[..=last.min(self.blocks.len() - 1)]
            .iter()
            .map(|block| block.load(Ordering::Relaxed).checked_sub(1).map(Nanos))
            .collect();
        Copied {
            counts,
            min,
            max,
            sum: hot.sum.load(Ordering::Relaxed),
            maxima: BlockMaxima {
                block: Nanos(self.block << hot.folds.load(Ordering::Relaxed)),
                start: Nanos(self.start),
                maxima: blocks,
            },
        }
    }
}

struct Copied {
    counts: Vec<(usize, u64)>,
    min: u64,
    max: u64,
    sum: u64,
    maxima: BlockMaxima,
}

impl Copied {
    fn into_parts(mut self) -> (Histogram, BlockMaxima) {
        let (Some(&(first, _)), Some(&(last, _))) = (self.counts.first(), self.counts.last()) else {
            self.maxima.maxima.clear();
            return (Histogram::new(), self.maxima);
        };
        // Only a torn copy has extremes outside of its outermost buckets.
        if bucket_index(self.min) != first {
            self.min = bucket_bounds(first).0;
        }
        if bucket_index(self.max) != last {
            self.max = bucket_bounds(last).1;
        }
        let (min, max) = (Nanos(self.min), Nanos(self.max));
        let histogram = Histogram::from_parts(self.counts, min, max, u128::from(self.sum));
        (histogram.unwrap_or_default(), self.maxima)
    }
}

/// The maximum values of both, block by block. Blocks that were folded more often decide the length.
pub(crate) fn merge_maxima(mut a: BlockMaxima, mut b: BlockMaxima) -> BlockMaxima {
    let fold = |maxima: &mut BlockMaxima| {
        maxima.maxima = maxima.maxima.chunks(2).map(|pair| pair.iter().copied().flatten().max()).collect();
        maxima.block = maxima.block + maxima.block;
    };
    while a.block < b.block {
        fold(&mut a);
    }
    while b.block < a.block {
        fold(&mut b);
    }
    if a.maxima.len() < b.maxima.len() {
        std::mem::swap(&mut a, &mut b);
    }
    for (mine, theirs) in a.maxima.iter_mut().zip(b.maxima) {
        *mine = (*mine).max(theirs);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn maxima_of(values: &[(u64, u64)], start: u64, block: u64) -> Vec<Option<Nanos>> {
        let mut maxima = Vec::new();
        for &(expiry, value) in values {
            let index = ((expiry - start) / block) as usize;
            maxima.resize(maxima.len().max(index + 1), None);
            maxima[index] = maxima[index].max(Some(Nanos(value)));
        }
        maxima
    }

    proptest! {
        #[test]
        fn a_tally_holds_what_a_histogram_holds(values in prop::collection::vec((0u64..5_000, any::<u64>()), 0..200)) {
            let (mut histogram, mut expiry, mut expiries) = (Histogram::new(), 1_000, Vec::new());
            let tally = Tally::new(Nanos(1_000), Nanos(777), 4_096);
            for (step, value) in values {
                let value = value >> (step % 60).max(8);
                expiry += step;
                histogram.record(Nanos(value));
                tally.add(Nanos(expiry), Nanos(value));
                expiries.push((expiry, value));
            }
            let (read, maxima) = tally.read();
            prop_assert_eq!(read, histogram);
            prop_assert_eq!(maxima.block, Nanos(777));
            prop_assert_eq!(maxima.maxima, maxima_of(&expiries, 1_000, 777));
        }

        #[test]
        fn a_stall_is_counted_as_if_period_by_period(
            period in 1u64..3_000, missed in 0u64..2_000, rest in 0u64..3_000, block in 1u64..40_000, expiry in 50u64..9_000,
        ) {
            let late = missed * period + rest % period;
            let (whole, single) = (Tally::new(Nanos(50), Nanos(block), 64), Tally::new(Nanos(50), Nanos(block), 64));
            whole.add_stall(&Stall { expiry: Nanos(expiry), late: Nanos(late), missed, period: Nanos(period) });
            (1..=missed).for_each(|k| single.add(Nanos(expiry + k * period), Nanos(late - k * period)));
            prop_assert_eq!(whole.read(), single.read());
        }

        #[test]
        fn folded_blocks_hold_the_maxima_of_longer_blocks(
            steps in prop::collection::vec((0u64..3_000, 0u64..1_000_000), 1..300),
        ) {
            let tally = Tally::new(Nanos(0), Nanos(100), 16);
            let (mut expiry, mut values) = (0, Vec::new());
            for (step, value) in steps {
                expiry += step;
                tally.add(Nanos(expiry), Nanos(value));
                values.push((expiry, value));
            }
            let maxima = tally.read().1;
            prop_assert!(maxima.maxima.len() <= 16);
            prop_assert!((maxima.block.0 / 100).is_power_of_two());
            prop_assert_eq!(maxima.maxima, maxima_of(&values, 0, maxima.block.0));
        }

        #[test]
        fn merged_maxima_are_those_of_all_values(
            a in prop::collection::vec((0u64..50_000, 0u64..1_000), 1..40),
            b in prop::collection::vec((0u64..9_000, 0u64..1_000), 1..40),
        ) {
            let tally_of = |values: &mut Vec<(u64, u64)>| {
                values.sort_unstable();
                let tally = Tally::new(Nanos(0), Nanos(100), 8);
                values.iter().for_each(|&(expiry, value)| tally.add(Nanos(expiry), Nanos(value)));
                tally.read().1
            };
            let (mut a, mut b) = (a, b);
            let merged = merge_maxima(tally_of(&mut a), tally_of(&mut b));
            a.extend(b);
            prop_assert_eq!(merged.maxima, maxima_of(&a, 0, merged.block.0));
        }
    }

    #[test]
    fn a_reader_beside_the_writer_sees_whole_histograms() {
        const VALUES: u64 = 300_000;
        let tally = Tally::new(Nanos(0), Nanos(1_000), 1_024);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for i in 0..VALUES {
                    tally.add(Nanos(i), Nanos(i % 100_000));
                    if i % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let mut last = 0;
            while !writer.is_finished() {
                let (histogram, maxima) = tally.read();
                assert!(histogram.count() >= last, "values were seen and then gone");
                last = histogram.count();
                assert!(maxima.maxima.len() <= 301);
                std::thread::yield_now();
            }
        });
        let (histogram, _) = tally.read();
        assert_eq!(histogram.count(), VALUES);
        assert_eq!(histogram.sum(), u128::from((0..VALUES).map(|i| i % 100_000).sum::<u64>()));
    }
}
