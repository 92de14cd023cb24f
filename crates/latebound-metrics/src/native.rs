// SPDX-License-Identifier: MIT OR Apache-2.0
//! Native histograms of Prometheus: buckets whose bounds are powers of one base.
//!
//! A bucket of latebound goes whole into the native bucket that its largest value falls into. So counts stay exact and only ever grow, and a
//! quantile errs by at most [`MOST_BELOW`] and [`MOST_ABOVE`].

use std::collections::BTreeMap;
use std::sync::LazyLock;

use latebound_model::{BUCKET_COUNT, bucket_bounds};

use crate::counts::Counts;

/// The resolution: 2^5 buckets for each power of two, so that a bound is 2.19 % above the one before it. One more would double the
/// buckets that a server stores, and latebound's own are up to 0.78 % wide.
pub const SCHEMA: i32 = 5;

/// Native buckets for each power of two.
const PER_POWER: f64 = (1 << SCHEMA) as f64;

/// Values up to this many seconds are counted in the zero bucket: those of 0 ns.
pub const ZERO_THRESHOLD: f64 = 1.0 / (1u128 << 100) as f64;

/// How far below the exact value a quantile can lie, as a part of it: its native bucket begins one base below the largest value of latebound's
/// bucket. 1 - 2^(-1/32).
pub const MOST_BELOW: f64 = 0.0215;

/// How far above: a base, and the width of latebound's bucket. 2^(1/32) (1 + 1/128) - 1.
pub const MOST_ABOVE: f64 = 0.0299;

/// Empty buckets that stand between filled ones without a span of their own: a span costs as much as two.
const BRIDGED: i32 = 2;

/// A histogram as Prometheus stores it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NativeHistogram {
    /// How many values.
    pub count: u64,
    /// Their sum, in seconds.
    pub sum: f64,
    /// Values of 0 ns.
    pub zero_count: u64,
    /// The filled buckets, by index: bucket `i` has the values above `base^(i - 1)` and up to `base^i` seconds.
    pub buckets: BTreeMap<i32, u64>,
}

/// Buckets in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Of the first span its index; of each later one the buckets between it and the end of the one before.
    pub offset: i32,
    /// How many buckets.
    pub length: u32,
}

/// The upper bound of a native bucket, in seconds.
pub fn native_bound(index: i32) -> f64 {
    (f64::from(index) / PER_POWER).exp2()
}

/// The native bucket of a value above 0 ns.
pub fn native_index(ns: u64) -> i32 {
    let seconds = ns as f64 / 1e9;
    // The logarithm may be off by a hair at a bound.
    let mut index = (seconds.log2() * PER_POWER).ceil() as i32;
    while native_bound(index) < seconds {
        index += 1;
    }
    while native_bound(index - 1) >= seconds {
        index -= 1;
    }
    index
}

/// The native bucket of each of latebound's that has values above 0 ns. A logarithm for each bucket of each answer would be most of its time.
static NATIVE: LazyLock<Vec<i32>> =
    LazyLock::new(|| (0..BUCKET_COUNT).map(|index| native_index(bucket_bounds(index).1.max(1))).collect());

impl NativeHistogram {
    /// Puts each of latebound's buckets into a native one.
    pub fn of(counts: &Counts) -> NativeHistogram {
        let mut native = NativeHistogram {
            count: counts.count(),
            sum: counts.sum() as f64 / 1e9,
            ..NativeHistogram::default()
        };
        // Native buckets are wider, so neighbours come one after the other.
        let mut last: Option<(i32, u64)> = None;
        for (index, count) in counts.filled() {
            if bucket_bounds(index).1 == 0 {
                native.zero_count += count;
                continue;
            }
            let index = NATIVE[index];
            match &mut last {
                Some((known, all)) if *known == index => *all += count,
                _ => native.buckets.extend(last.replace((index, count))),
            }
        }
        native.buckets.extend(last);
        native
    }

    /// The spans, and the difference of each bucket in them to the one before it.
    pub fn spans(&self) -> (Vec<Span>, Vec<i64>) {
        let (mut spans, mut deltas) = (Vec::<Span>::new(), Vec::new());
        let (mut next, mut before) = (0, 0i64);
        for (&index, &count) in &self.buckets {
            let gap = index - next;
            match spans.last_mut() {
                Some(span) if gap <= BRIDGED => {
                    for _ in 0..gap {
                        deltas.push(-before);
                        before = 0;
                    }
                    span.length += gap.unsigned_abs() + 1;
                }
                _ => spans.push(Span { offset: gap, length: 1 }),
            }
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            deltas.push(count - before);
            (next, before) = (index + 1, count);
        }
        (spans, deltas)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::*;
    use crate::interval::tests::series;
    use proptest::prelude::*;

    fn counts(values: &[u64]) -> Counts {
        let mut counts = Counts::default();
        counts.add(&series("a", values));
        counts
    }

    /// The quantile as Prometheus takes it, at either end of the native bucket (promql/quantile.go, histogramQuantile).
    fn quantile_between(native: &NativeHistogram, rank: u64) -> (f64, f64) {
        let mut seen = native.zero_count;
        if seen >= rank {
            return (0.0, ZERO_THRESHOLD);
        }
        for (&index, count) in &native.buckets {
            seen += count;
            if seen >= rank {
                return (native_bound(index - 1), native_bound(index));
            }
        }
        panic!("rank {rank} of {}", native.count);
    }

    #[test]
    fn a_bound_belongs_to_the_bucket_that_ends_there() {
        for power in 0..34u32 {
            // Whole powers of two seconds are the bounds that nanoseconds meet.
            let index = native_index(1_000_000_000 << power);
            assert_eq!(index, (power << SCHEMA) as i32);
            assert_eq!(native_index((1_000_000_000 << power) + (1 << power)), index + 1);
        }
        assert_eq!(native_index(1), (-9.0 * 10f64.log2() * PER_POWER).ceil() as i32);
    }

    #[test]
    fn the_stated_error_is_that_of_the_rule() {
        let base = native_bound(1);
        assert!((1.0 - 1.0 / base..1.0 - 1.0 / base + 1e-4).contains(&MOST_BELOW));
        let above = base * (1.0 + 1.0 / 128.0) - 1.0;
        assert!((above..above + 1e-4).contains(&MOST_ABOVE), "{above}");
    }

    #[test]
    fn spans_leave_out_what_is_empty_and_bridge_short_gaps() {
        let buckets = [(-3, 5), (-2, 2), (1, 4), (9, 1)].into_iter().collect();
        let (spans, deltas) = NativeHistogram { buckets, ..NativeHistogram::default() }.spans();
        assert_eq!(spans, [Span { offset: -3, length: 5 }, Span { offset: 7, length: 1 }]);
        assert_eq!(deltas, [5, -3, -2, 0, 4, -3]);
    }

    /// Of all magnitudes alike.
    fn value() -> impl Strategy<Value = u64> {
        (0u32..40, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1))
    }

    proptest! {
        #[test]
        fn every_value_lies_within_the_stated_error_of_its_bucket(value in 1u64..1 << 40) {
            let native = NativeHistogram::of(&counts(&[value]));
            let (low, high) = quantile_between(&native, 1);
            let exact = value as f64 / 1e9;
            prop_assert!(low >= exact * (1.0 - MOST_BELOW) && high <= exact * (1.0 + MOST_ABOVE));
        }

        #[test]
        fn native_quantiles_are_within_the_stated_error(
            mut values in proptest::collection::vec(value(), 1..200), q in 0.0f64..=1.0,
        ) {
            let native = NativeHistogram::of(&counts(&values));
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as u64).max(1);
            let exact = values[rank as usize - 1] as f64 / 1e9;
            let (low, high) = quantile_between(&native, rank);
            prop_assert!(low >= exact * (1.0 - MOST_BELOW) - 1e-15, "{low} for {exact}");
            prop_assert!(high <= exact * (1.0 + MOST_ABOVE) + 1e-15, "{high} for {exact}");
        }

        #[test]
        fn spans_hold_every_count_of_the_histogram(values in proptest::collection::vec(value(), 0..200)) {
            let native = NativeHistogram::of(&counts(&values));
            prop_assert_eq!(native.count, values.len() as u64);
            let (spans, deltas) = native.spans();
            let (mut index, mut count, mut deltas) = (0, 0i64, deltas.into_iter());
            let mut read = BTreeMap::new();
            for span in spans {
                index += span.offset;
                for _ in 0..span.length {
                    count += deltas.next().unwrap();
                    read.insert(index, count as u64);
                    index += 1;
                }
            }
            prop_assert!(deltas.next().is_none());
            read.retain(|_, count| *count > 0);
            prop_assert_eq!(native.zero_count + read.values().sum::<u64>(), native.count);
            prop_assert_eq!(read, native.buckets);
        }

        #[test]
        fn native_buckets_never_shrink_as_values_come(
            values in proptest::collection::vec(value(), 0..60), more in proptest::collection::vec(value(), 0..60),
        ) {
            let before = NativeHistogram::of(&counts(&values));
            let after = NativeHistogram::of(&counts(&[values, more].concat()));
            prop_assert!(before.zero_count <= after.zero_count);
            for (index, count) in before.buckets {
                prop_assert!(after.buckets.get(&index).is_some_and(|&after| after >= count));
            }
        }
    }
}
