// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one histogram of latebound: log-linear, at most 1 % wide, with no upper end, exactly mergeable.
//!
//! Values below 256 have a bucket each; every later power of two is cut into 128 buckets, so a bucket is at most
//! 1/128 (0.79 %) of its lower bound wide. The same rule stands in C in `latebound-abi/include/latebound/histogram.h`,
//! for the probes; a property test holds the two together. Owns the rule and the counts; never reads a clock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Buckets per power of two. At minimum 100 are needed for 1 %; 128 makes the rule two shifts.
pub const SUB_BUCKETS: u64 = 128;
const SUB_BITS: u32 = SUB_BUCKETS.trailing_zeros();

/// How many buckets cover every 64-bit value.
pub const BUCKET_COUNT: usize = bucket_index(u64::MAX) + 1;

/// Whether so many values tell a quantile: at least one is expected beyond it. With fewer the quantile would be the maximum value
/// under another name. Whatever shows a quantile asks this; a comparison asks for more (`latebound_stats::FEWEST_BEYOND`).
pub fn tells_quantile(count: u64, q: f64) -> bool {
    // Guards the float product: 1000 * (1 - 0.999) is a hair below 1.
    count > 0 && (0.0..=1.0).contains(&q) && (q >= 1.0 || count as f64 * (1.0 - q) >= 1.0 - 1e-6)
}

/// The bucket of a value.
pub const fn bucket_index(value: u64) -> usize {
    if value < 2 * SUB_BUCKETS {
        return value as usize;
    }
    let shift = 63 - SUB_BITS - value.leading_zeros();
    shift as usize * SUB_BUCKETS as usize + (value >> shift) as usize
}

/// The minimum and the maximum value of a bucket, both inclusive.
///
/// # Panics
/// Where `index` is not below [`BUCKET_COUNT`].
pub const fn bucket_bounds(index: usize) -> (u64, u64) {
    assert!(index < BUCKET_COUNT, "a bucket that no 64-bit value falls into");
    let index = index as u64;
    if index < 2 * SUB_BUCKETS {
        return (index, index);
    }
    let shift = index / SUB_BUCKETS - 1;
    let sub = index % SUB_BUCKETS + SUB_BUCKETS;
    (sub << shift, (sub << shift) + ((1 << shift) - 1))
}

/// One bucket that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its index by [`bucket_index`].
    pub index: usize,
    /// The minimum value that falls into it.
    pub low: Nanos,
    /// The maximum value that falls into it.
    pub high: Nanos,
    /// How many values fell into it.
    pub count: u64,
}

/// Counts of durations in nanoseconds; exact minimum, maximum, sum and count beside the buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Packed", into = "Packed")]
#[schemars(with = "Packed")]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    /// An empty histogram that holds no memory yet.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// An empty histogram whose memory is already there for every possible value: recording never allocates.
    pub fn preallocated() -> Histogram {
        Histogram { counts: vec![0; BUCKET_COUNT], ..Histogram::default() }
    }

    /// A histogram from bucket counts that were taken elsewhere (a probe in the kernel), with the exact extremes
    /// and sum that were kept beside them. `None` where the extremes do not lie in filled buckets, which
    /// only a torn or foreign record shows.
    pub fn from_parts(
        counts: impl IntoIterator<Item = (usize, u64)>,
        min: Nanos,
        max: Nanos,
        sum: u128,
    ) -> Option<Histogram> {
        let mut histogram = Histogram { sum, min: min.0, max: max.0, ..Histogram::default() };
        let mut previous = None;
        for (index, count) in counts {
            if index >= BUCKET_COUNT || previous.is_some_and(|p| p >= index) {
                return None;
            }
            previous = Some(index);
            if count > 0 {
                histogram.reach(index);
                histogram.counts[index] = count;
                histogram.count = histogram.count.checked_add(count)?;
            }
        }
        if histogram.count == 0 {
            return (sum == 0 && min.0 == 0 && max.0 == 0).then_some(histogram);
        }
        let first = histogram.counts.iter().position(|&c| c > 0)?;
        let last = histogram.counts.len() - 1;
        (bucket_index(min.0) == first && bucket_index(max.0) == last && min <= max).then_some(histogram)
    }

    fn reach(&mut self, index: usize) {
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
    }

    /// Counts one value.
    pub fn record(&mut self, value: Nanos) {
        self.record_n(value, 1);
    }

    /// Counts `n` equal values.
    pub fn record_n(&mut self, value: Nanos, n: u64) {
        if n == 0 {
            return;
        }
        let index = bucket_index(value.0);
        self.reach(index);
        self.counts[index] += n;
        self.min = if self.count == 0 { value.0 } else { self.min.min(value.0) };
        self.max = self.max.max(value.0);
        self.count += n;
        self.sum += u128::from(value.0) * u128::from(n);
    }

    /// Adds the counts of another histogram: exact, in any order.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        self.reach(other.counts.len().saturating_sub(1));
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of all values, in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The exact minimum value; `None` where nothing was counted.
    pub fn min(&self) -> Option<Nanos> {
        (self.count > 0).then_some(Nanos(self.min))
    }

    /// The exact maximum value; `None` where nothing was counted.
    pub fn max(&self) -> Option<Nanos> {
        (self.count > 0).then_some(Nanos(self.max))
    }

    /// The mean, rounded down to a nanosecond; `None` where nothing was counted.
    pub fn mean(&self) -> Option<Nanos> {
        let mean = self.sum.checked_div(u128::from(self.count))?;
        u64::try_from(mean).ok().map(Nanos)
    }

    /// The `q`-quantile by nearest rank (the ceil(q n)-th smallest value), as the maximum value of its bucket but
    /// never above the exact maximum: it errs by less than 1 %, and upward.
    ///
    /// `None` where [`tells_quantile`] says that the values are too few.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        if !tells_quantile(self.count, q) {
            return None;
        }
        let rank = ((self.count as f64 * q - 1e-6).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Nanos(bucket_bounds(index).1.clamp(self.min, self.max)));
            }
        }
        Some(Nanos(self.max))
    }

    /// The `q`-quantile of these values together with `above` further ones that were not counted because they lay above what
    /// could be; the maximum value here may be one of that kind. `None` where the quantile lies among them.
    pub fn quantile_with_above(&self, q: f64, above: u64) -> Option<Nanos> {
        if above == 0 {
            return self.quantile(q);
        }
        let all = self.count.saturating_add(above);
        let rank = (all as f64 * q - 1e-6).ceil().max(1.0);
        (rank < self.count as f64 && tells_quantile(all, q))
            .then(|| self.quantile(rank / self.count as f64))?
    }

    /// How many values lie in buckets wholly at or above `threshold`; exact where a bucket begins at the threshold.
    pub fn count_at_or_above(&self, threshold: Nanos) -> u64 {
        self.counts.iter().skip(bucket_index(threshold.0)).sum()
    }

    /// The buckets that are not empty, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(index, &count)| {
            let (low, high) = bucket_bounds(index);
            Bucket { index, low: Nanos(low), high: Nanos(high), count }
        })
    }
}

/// The JSON form of a histogram: only the buckets that are not empty.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Histogram")]
struct Packed {
    /// The bucket rule: values below 256 have a bucket each, every later power of two has 128.
    rule: Rule,
    /// How many values were counted.
    count: u64,
    /// The exact sum of all values, in nanoseconds, as a decimal text: it can pass 2^64.
    sum_ns: String,
    /// The exact minimum value in nanoseconds; 0 where nothing was counted.
    min_ns: u64,
    /// The exact maximum value in nanoseconds; 0 where nothing was counted.
    max_ns: u64,
    /// `[bucket index, count]` of each bucket that is not empty, in ascending order of the index.
    buckets: Vec<(usize, u64)>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Rule {
    #[serde(rename = "log-linear/128")]
    LogLinear128,
}

impl From<Histogram> for Packed {
    fn from(histogram: Histogram) -> Packed {
        Packed {
            rule: Rule::LogLinear128,
            count: histogram.count,
            sum_ns: histogram.sum.to_string(),
            min_ns: histogram.min,
            max_ns: histogram.max,
            buckets: histogram.buckets().map(|bucket| (bucket.index, bucket.count)).collect(),
        }
    }
}

impl TryFrom<Packed> for Histogram {
    type Error = String;
    fn try_from(packed: Packed) -> Result<Histogram, String> {
        let sum =
            packed.sum_ns.parse().map_err(|_| format!("sum_ns \"{}\" is not a number", packed.sum_ns))?;
        let histogram =
            Histogram::from_parts(packed.buckets, Nanos(packed.min_ns), Nanos(packed.max_ns), sum)
                .ok_or("the histogram's buckets and its minimum and maximum do not belong together")?;
        if histogram.count != packed.count {
            return Err(format!("count is {} but the buckets hold {}", packed.count, histogram.count));
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quantile_among_values_above_the_histogram_is_not_known() {
        let mut histogram = Histogram::new();
        (1..=900).for_each(|value| histogram.record(Nanos(value * 1000)));
        // 100 of 1000 values lay above: the median is the 500th of all, p89 is known, p95 is not.
        let at = |q| histogram.quantile_with_above(q, 100).map(|value| value.0);
        assert!(at(0.5).is_some_and(|value| (500_000..504_000).contains(&value)), "{:?}", at(0.5));
        assert!(at(0.89).is_some());
        assert_eq!((at(0.95), at(0.99)), (None, None));
        assert_eq!(histogram.quantile_with_above(0.5, 0), histogram.quantile(0.5));
    }

    #[test]
    fn every_bucket_begins_where_the_one_before_it_ends() {
        for index in 1..BUCKET_COUNT {
            assert_eq!(bucket_bounds(index - 1).1 + 1, bucket_bounds(index).0, "bucket {index}");
        }
        assert_eq!(bucket_bounds(0), (0, 0));
        assert_eq!(bucket_bounds(BUCKET_COUNT - 1).1, u64::MAX);
    }

    #[test]
    fn no_bucket_is_wider_than_one_percent() {
        for index in 0..BUCKET_COUNT {
            let (low, high) = bucket_bounds(index);
            assert!((high - low) as f64 <= 0.01 * low as f64, "bucket {index}: {low} to {high}");
        }
    }

    #[test]
    fn quantiles_are_refused_where_too_few_values_were_counted() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=999).for_each(|v| histogram.record(Nanos(v)));
        assert_eq!(histogram.quantile(0.999), None);
        assert!(histogram.quantile(0.99).is_some());
        histogram.record(Nanos(1000));
        assert!(histogram.quantile(0.999).is_some());
        assert_eq!(histogram.quantile(1.0), Some(Nanos(1000)));
    }

    proptest! {
        #[test]
        fn a_value_lies_within_the_bounds_of_its_bucket(value: u64) {
            let (low, high) = bucket_bounds(bucket_index(value));
            prop_assert!(low <= value && value <= high);
        }

        #[test]
        fn merging_parts_gives_the_histogram_of_the_whole(values: Vec<u64>, cut: prop::sample::Index) {
            let cut = if values.is_empty() { 0 } else { cut.index(values.len()) };
            let of = |part: &[u64]| {
                let mut h = Histogram::new();
                part.iter().for_each(|&v| h.record(Nanos(v)));
                h
            };
            let mut merged = of(&values[cut..]);
            merged.merge(&of(&values[..cut]));
            prop_assert_eq!(merged, of(&values));
        }

        #[test]
        fn a_quantile_errs_upward_and_by_less_than_one_percent(
            mut values in prop::collection::vec(0u64..1 << 40, 100..400), q in 0.0f64..0.99,
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&v| histogram.record(Nanos(v)));
            values.sort_unstable();
            let rank = ((values.len() as f64 * q - 1e-6).ceil() as usize).max(1);
            let exact = values[rank - 1];
            let got = histogram.quantile(q).expect("enough values").0;
            prop_assert!(got >= exact && got as f64 <= exact as f64 * 1.01, "{got} for {exact}");
        }

        #[test]
        fn json_gives_back_the_same_histogram(values: Vec<u64>) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&v| histogram.record(Nanos(v)));
            let text = serde_json::to_string(&histogram).expect("a histogram has a JSON form");
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).expect("its own JSON"), histogram);
        }
    }

    #[test]
    fn a_preallocated_histogram_equals_a_grown_one_in_json() {
        let (mut grown, mut fixed) = (Histogram::new(), Histogram::preallocated());
        for value in [3, 900, 70_000] {
            grown.record(Nanos(value));
            fixed.record(Nanos(value));
        }
        assert_eq!(serde_json::to_value(&grown).unwrap(), serde_json::to_value(&fixed).unwrap());
    }

    #[test]
    fn torn_records_are_refused() {
        for text in [
            r#"{"rule":"log-linear/128","count":2,"sum_ns":"2","min_ns":1,"max_ns":1,"buckets":[[1,1]]}"#,
            r#"{"rule":"log-linear/128","count":1,"sum_ns":"1","min_ns":5,"max_ns":1,"buckets":[[1,1]]}"#,
            r#"{"rule":"log-linear/128","count":1,"sum_ns":"1","min_ns":1,"max_ns":1,"buckets":[[9000,1]]}"#,
            r#"{"rule":"log-linear/128","count":2,"sum_ns":"2","min_ns":1,"max_ns":1,"buckets":[[1,1],[1,1]]}"#,
            r#"{"rule":"log-linear/128","count":1,"sum_ns":"x","min_ns":1,"max_ns":1,"buckets":[[1,1]]}"#,
        ] {
            assert!(serde_json::from_str::<Histogram>(text).is_err(), "{text}");
        }
    }
}
