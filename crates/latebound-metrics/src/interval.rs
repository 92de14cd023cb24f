// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened in one interval, from two readings of histograms that only ever grow.
//!
//! Counts, sums and tallies subtract exactly. The extremes of an interval are exact where it set a new one since the start of observing;
//! otherwise they are known as far as their bucket.

use std::collections::{BTreeMap, BTreeSet};

use latebound_model::{Histogram, Loss, LossKind, Nanos, Series, Summary, bucket_bounds, bucket_index};

use crate::counts::{buckets, clipped};

/// What was told of each series and loss so far.
#[derive(Debug, Default)]
pub struct Intervals {
    series: BTreeMap<String, Told>,
    losses: BTreeMap<(LossKind, String), u64>,
    uncounted: BTreeSet<(LossKind, String)>,
}

/// What was told of a series: its filled buckets alone, as long as the service runs.
#[derive(Debug)]
struct Told {
    /// Without the values that the kernel only tallied.
    buckets: Box<[(u32, u64)]>,
    tallied: u64,
    sum: u128,
    extremes: Option<(Nanos, Nanos)>,
    merged: u64,
    cross_cpu: u64,
    missed: u64,
}

impl Told {
    fn of(series: &Series) -> Told {
        let (buckets, tallied) = buckets(series);
        let buckets = buckets.filter_map(|(index, count)| Some((u32::try_from(index).ok()?, count)));
        Told {
            buckets: buckets.collect(),
            tallied,
            sum: series.histogram.sum(),
            extremes: series.histogram.min().zip(series.histogram.max()),
            merged: series.merged,
            cross_cpu: series.cross_cpu,
            missed: series.missed,
        }
    }
}

/// What happened since the last interval that was told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfInterval {
    /// The distributions, those without values left out.
    pub series: Vec<Series>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// The series whose extremes are those of their buckets, by id.
    pub by_bucket: Vec<String>,
    /// The series that could not be told, because a reading of them has less than the one before; the next interval has them. By id.
    pub unsettled: Vec<String>,
}

impl Intervals {
    /// What happened since the last [`Intervals::told`], by a reading of everything so far. Asking changes nothing.
    pub fn since(&self, series: &[Series], losses: &[Loss]) -> OfInterval {
        let mut of = OfInterval::default();
        for later in series {
            match difference(self.series.get(&later.id), later) {
                Difference::Nothing => {}
                Difference::Some { series, by_bucket } => {
                    if by_bucket {
                        of.by_bucket.push(series.id.clone());
                    }
                    of.series.push(*series);
                }
                Difference::Unsettled => of.unsettled.push(later.id.clone()),
            }
        }
        for loss in losses {
            let key = (loss.kind, loss.place.clone());
            let lost = match loss.count {
                Some(count) => {
                    let count = count.saturating_sub(self.losses.get(&key).copied().unwrap_or(0));
                    (count > 0).then_some(Some(count))
                }
                None => (!self.uncounted.contains(&key)).then_some(None),
            };
            of.losses.extend(lost.map(|count| Loss { count, ..loss.clone() }));
        }
        of
    }

    /// Takes down what [`Intervals::since`] gave for this reading as told: it was written. Where it is not called, the next interval is longer and
    /// nothing is lost.
    pub fn told(&mut self, of: &OfInterval, series: &[Series], losses: &[Loss]) {
        let told: BTreeSet<&str> = of.series.iter().map(|series| series.id.as_str()).collect();
        for later in series.iter().filter(|later| told.contains(later.id.as_str())) {
            self.series.insert(later.id.clone(), Told::of(later));
        }
        for loss in losses {
            let key = (loss.kind, loss.place.clone());
            match loss.count {
                Some(count) => {
                    let told = self.losses.entry(key).or_default();
                    *told = count.max(*told);
                }
                None => drop(self.uncounted.insert(key)),
            }
        }
    }
}

enum Difference {
    Nothing,
    Some { series: Box<Series>, by_bucket: bool },
    Unsettled,
}

fn difference(earlier: Option<&Told>, later: &Series) -> Difference {
    let Some(earlier) = earlier else {
        return Difference::Some { series: Box::new(later.clone()), by_bucket: false };
    };
    subtract(earlier, later).unwrap_or(Difference::Unsettled)
}

/// `None` where anything of the later reading is below the earlier one, or where a value is in its sum and not yet in its buckets.
fn subtract(earlier: &Told, later: &Series) -> Option<Difference> {
    let sum = later.histogram.sum().checked_sub(earlier.sum)?;
    let merged = later.merged.checked_sub(earlier.merged)?;
    let cross_cpu = later.cross_cpu.checked_sub(earlier.cross_cpu)?;
    let missed = later.missed.checked_sub(earlier.missed)?;
    let tallied = clipped(later).checked_sub(earlier.tallied)?;
    let mut counts: BTreeMap<usize, u64> = buckets(later).0.collect();
    for &(index, count) in &earlier.buckets {
        let index = index as usize;
        let left = counts.get(&index).copied().unwrap_or(0).checked_sub(count)?;
        counts.insert(index, left);
    }
    counts.retain(|_, count| *count > 0);
    if tallied > 0 {
        // As the reading itself does: they are in the bucket of the maximum, so that quantiles err upward.
        let last = bucket_index(later.histogram.max()?.0);
        *counts.entry(last).or_default() += tallied;
    }
    let (Some(first), Some(last)) = (counts.keys().next().copied(), counts.keys().last().copied()) else {
        if sum > 0 {
            return None;
        }
        if merged == 0 && cross_cpu == 0 && missed == 0 {
            return Some(Difference::Nothing);
        }
        let histogram = Histogram::new();
        return Some(of(later, histogram, [merged, cross_cpu, missed], 0, false));
    };
    let (min, min_exact) = extreme(earlier.extremes.map(|(min, _)| min), later.histogram.min()?, first);
    let (max, max_exact) = extreme(earlier.extremes.map(|(_, max)| max), later.histogram.max()?, last);
    let min = if min_exact { min } else { Nanos(bucket_bounds(first).0).max(later.histogram.min()?) };
    let most = later.histogram.max()?;
    let max = match max_exact {
        // Of tallied values the bucket says nothing of their size.
        _ if tallied > 0 && bucket_index(most.0) == last => most,
        true => max,
        false => Nanos(bucket_bounds(last).1).min(most),
    };
    let by_bucket = !(min_exact && max_exact);
    let histogram = Histogram::from_parts(counts, min.min(max), max, sum)?;
    Some(of(later, histogram, [merged, cross_cpu, missed], tallied, by_bucket))
}

/// The extreme of an interval by those of all values before and after it, and whether it is exact: a new record is, and so is a bucket of
/// one value.
fn extreme(before: Option<Nanos>, after: Nanos, bucket: usize) -> (Nanos, bool) {
    let (low, high) = bucket_bounds(bucket);
    let is_record = before != Some(after) && bucket_index(after.0) == bucket;
    match is_record {
        true => (after, true),
        false => (Nanos(low), low == high),
    }
}

fn of(
    later: &Series,
    histogram: Histogram,
    [merged, cross_cpu, missed]: [u64; 3],
    tallied: u64,
    by_bucket: bool,
) -> Difference {
    let loss = Loss { kind: LossKind::Clipped, place: later.id.clone(), count: Some(tallied) };
    let series = Series {
        id: later.id.clone(),
        mechanism: later.mechanism,
        quantity: later.quantity,
        subject: later.subject.clone(),
        deferral: later.deferral.clone(),
        condition: later.condition.clone(),
        evidence: later.evidence,
        summary: Summary::of(&histogram),
        histogram,
        merged,
        missed,
        cross_cpu,
        losses: (tallied > 0).then_some(loss).into_iter().collect(),
        block_maxima: None,
        censored: None,
        resolution: later.resolution,
    };
    Difference::Some { series: Box::new(series), by_bucket }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::*;
    use latebound_model::{Evidence, Mechanism, Quantity, Subject};
    use proptest::prelude::*;

    pub(crate) fn series(name: &str, values: &[u64]) -> Series {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(Nanos(value)));
        let subject = Subject { name: name.to_owned(), ..Subject::default() };
        Series::new(Mechanism::Work, Quantity::Latency, subject, Evidence::Events, histogram)
    }

    /// As a probe gives it: the last `tallied` values are in the bucket of the maximum.
    pub(crate) fn clipped_series(values: &[u64], tallied: usize) -> Series {
        let mut clipped = series("work", &values[..values.len() - tallied]);
        let (max, min) = (*values.iter().max().unwrap(), *values.iter().min().unwrap());
        let counts = clipped.histogram.buckets().map(|bucket| (bucket.index, bucket.count));
        let counts = counts.chain([(bucket_index(max), tallied as u64)]);
        let sum = values.iter().map(|&value| u128::from(value)).sum();
        clipped.histogram = Histogram::from_parts(counts, Nanos(min), Nanos(max), sum).unwrap();
        clipped.summary = Summary::of(&clipped.histogram);
        clipped.losses =
            vec![Loss { kind: LossKind::Clipped, place: clipped.id.clone(), count: Some(tallied as u64) }];
        clipped
    }

    fn after(earlier: &Series, later: &Series) -> OfInterval {
        let mut intervals = Intervals::default();
        let first = intervals.since(std::slice::from_ref(earlier), &[]);
        intervals.told(&first, std::slice::from_ref(earlier), &[]);
        intervals.since(std::slice::from_ref(later), &[])
    }

    #[test]
    fn an_interval_with_a_new_record_knows_its_extremes() {
        let of = after(&series("a", &[1_000, 2_000]), &series("a", &[1_000, 2_000, 900, 3_001]));
        let histogram = &of.series[0].histogram;
        assert_eq!((histogram.min(), histogram.max()), (Some(Nanos(900)), Some(Nanos(3_001))));
        assert_eq!((histogram.count(), histogram.sum()), (2, 3_901));
        assert!(of.by_bucket.is_empty());
    }

    #[test]
    fn an_interval_without_a_record_has_the_bounds_of_its_buckets() {
        let of = after(&series("a", &[10, 9_000]), &series("a", &[10, 9_000, 1_001, 5_003]));
        let histogram = &of.series[0].histogram;
        let bounds = |value| bucket_bounds(bucket_index(value));
        assert_eq!(histogram.min(), Some(Nanos(bounds(1_001).0)));
        assert_eq!(histogram.max(), Some(Nanos(bounds(5_003).1)));
        assert_eq!(of.by_bucket, ["work/a/latency"]);
        // Below 256 ns a bucket is one value.
        assert!(after(&series("a", &[10, 200]), &series("a", &[10, 200, 20, 99])).by_bucket.is_empty());
    }

    #[test]
    fn a_bound_never_passes_the_extreme_of_all_values() {
        let of = after(&series("a", &[1_003]), &series("a", &[1_003, 1_002, 1_001]));
        let histogram = &of.series[0].histogram;
        assert_eq!((histogram.min(), histogram.max()), (Some(Nanos(1_001)), Some(Nanos(1_003))));
    }

    #[test]
    fn values_above_the_kernels_buckets_subtract_though_their_bucket_moves() {
        let of = after(
            &clipped_series(&[5, 1 << 41, 1 << 41], 2),
            &clipped_series(&[5, 1 << 41, 1 << 41, 1 << 45], 3),
        );
        let series = &of.series[0];
        assert_eq!((series.histogram.count(), clipped(series)), (1, 1));
        assert_eq!(series.histogram.max(), Some(Nanos(1 << 45)));
    }

    #[test]
    fn a_reading_that_is_not_settled_is_left_for_the_next_interval() {
        // In the sum and not yet in the buckets.
        let mut torn = series("a", &[400, 500]);
        torn.histogram = Histogram::from_parts(
            series("a", &[400, 500]).histogram.buckets().map(|bucket| (bucket.index, bucket.count)),
            Nanos(400),
            Nanos(500),
            1_350,
        )
        .unwrap();
        let of = after(&series("a", &[400, 500]), &torn);
        assert_eq!((of.series.len(), of.unsettled.len()), (0, 1));
        let of = after(&series("a", &[400, 500]), &series("a", &[400]));
        assert_eq!((of.series.len(), of.unsettled.len()), (0, 1));
    }

    #[test]
    fn what_was_not_told_is_in_the_next_interval() {
        let loss = |count| vec![Loss { kind: LossKind::MapFull, place: "works".to_owned(), count }];
        let mut intervals = Intervals::default();
        let first = [series("a", &[400])];
        let of = intervals.since(&first, &loss(Some(3)));
        intervals.told(&of, &first, &loss(Some(3)));
        let second = [series("a", &[400, 500])];
        assert_eq!(intervals.since(&second, &loss(Some(5))).losses, loss(Some(2)));
        let third = [series("a", &[400, 500, 600])];
        let of = intervals.since(&third, &loss(Some(9)));
        assert_eq!((of.series[0].histogram.count(), of.losses), (2, loss(Some(6))));
    }

    proptest! {
        #[test]
        fn intervals_add_up_to_the_whole(
            parts in proptest::collection::vec(proptest::collection::vec(0u64..1 << 44, 0..20), 1..8),
        ) {
            let (mut intervals, mut all) = (Intervals::default(), Vec::new());
            let (mut sum, mut count) = (Histogram::new(), 0);
            for part in &parts {
                all.extend_from_slice(part);
                let now = [series("a", &all)];
                let of = intervals.since(&now, &[]);
                prop_assert!(of.unsettled.is_empty());
                let Some(told) = of.series.first() else {
                    prop_assert!(part.is_empty());
                    continue;
                };
                let mut exact = Histogram::new();
                part.iter().for_each(|&value| exact.record(Nanos(value)));
                let buckets = |histogram: &Histogram| histogram.buckets().collect::<Vec<_>>();
                prop_assert_eq!(buckets(&told.histogram), buckets(&exact));
                prop_assert_eq!(told.histogram.sum(), exact.sum());
                prop_assert!(told.histogram.max() >= exact.max() && told.histogram.min() <= exact.min());
                if of.by_bucket.is_empty() {
                    prop_assert_eq!((told.histogram.min(), told.histogram.max()), (exact.min(), exact.max()));
                }
                sum.merge(&told.histogram);
                count += told.histogram.count();
                intervals.told(&of, &now, &[]);
            }
            prop_assert_eq!(count, all.len() as u64);
            prop_assert_eq!(sum.sum(), all.iter().map(|&value| u128::from(value)).sum::<u128>());
        }
    }
}
