// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of one or several series, in latebound's buckets, as they only ever grow.

use latebound_model::{BUCKET_COUNT, LossKind, Nanos, Series, bucket_index};

/// Values at or above this have no buckets in the kernel: they are only tallied. A series holds them in the bucket of its maximum, which moves
/// as the maximum grows; here they stay in the first bucket above the kernel's.
pub(crate) const KERNEL_LIMIT_NS: u64 = 1 << 40;

/// Counts in latebound's buckets: of a series, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    extremes: Option<(Nanos, Nanos)>,
}

/// How many values of a series the kernel only tallied.
pub(crate) fn clipped(series: &Series) -> u64 {
    let of = series.losses.iter().filter(|loss| loss.kind == LossKind::Clipped);
    of.filter_map(|loss| loss.count).fold(0, u64::saturating_add)
}

/// The filled buckets of a series without the values that the kernel only tallied, and how many those are.
pub(crate) fn buckets(series: &Series) -> (impl Iterator<Item = (usize, u64)> + '_, u64) {
    let clipped = clipped(series);
    let last = series.histogram.max().map(|max| bucket_index(max.0));
    let buckets = series.histogram.buckets().filter_map(move |bucket| {
        let tallied = if Some(bucket.index) == last { clipped } else { 0 };
        let count = bucket.count.saturating_sub(tallied);
        (count > 0).then_some((bucket.index, count))
    });
    (buckets, clipped)
}

impl Counts {
    /// Adds those of a series.
    pub fn add(&mut self, series: &Series) {
        if let Some(max) = series.histogram.max() {
            let needed = bucket_index(max.0.min(KERNEL_LIMIT_NS)) + 1;
            self.buckets.resize(needed.max(self.buckets.len()), 0);
        }
        let (buckets, clipped) = buckets(series);
        for (index, count) in buckets.chain([(bucket_index(KERNEL_LIMIT_NS), clipped)]) {
            if count > 0 && index < BUCKET_COUNT {
                if index >= self.buckets.len() {
                    self.buckets.resize(index + 1, 0);
                }
                self.buckets[index] += count;
                self.count += count;
            }
        }
        self.sum += series.histogram.sum();
        if let (Some(min), Some(max)) = (series.histogram.min(), series.histogram.max()) {
            let (least, most) = self.extremes.unwrap_or((min, max));
            self.extremes = Some((least.min(min), most.max(max)));
        }
    }

    /// The smallest value.
    pub fn min(&self) -> Option<Nanos> {
        self.extremes.map(|(min, _)| min)
    }

    /// The largest value.
    pub fn max(&self) -> Option<Nanos> {
        self.extremes.map(|(_, max)| max)
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their exact sum, in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The filled buckets, by index ([`bucket_index`]), ascending.
    pub fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.buckets.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// How many values are in the buckets from one index until before another.
    pub(crate) fn between(&self, from: usize, end: usize) -> u64 {
        let end = end.min(self.buckets.len());
        self.buckets.get(from..end).unwrap_or_default().iter().sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::*;
    use crate::interval::tests::{clipped_series, series};

    #[test]
    fn tallied_values_stay_in_one_bucket_as_the_maximum_grows() {
        let mut before = Counts::default();
        before.add(&clipped_series(&[5, 1 << 41], 1));
        let mut after = Counts::default();
        after.add(&clipped_series(&[5, 1 << 41, 1 << 45], 2));
        let limit = bucket_index(KERNEL_LIMIT_NS);
        assert_eq!(before.filled().collect::<Vec<_>>(), [(5, 1), (limit, 1)]);
        assert_eq!(after.filled().collect::<Vec<_>>(), [(5, 1), (limit, 2)]);
        assert_eq!((after.count(), after.sum()), (3, 5 + (1 << 41) + (1 << 45)));
    }

    #[test]
    fn counts_of_several_series_add_up() {
        let mut counts = Counts::default();
        counts.add(&series("a", &[1, 300]));
        counts.add(&series("b", &[300, 5_000]));
        assert_eq!((counts.count(), counts.sum(), counts.between(0, 256)), (4, 5_601, 1));
    }
}
