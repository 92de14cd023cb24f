// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantiles of values of which some are known only to lie above a limit, because the tool that counted them cut its histogram
//! off there. Owns that such a quantile is never shown as a smaller value.

use std::fmt;

use latebound_model::{Histogram, Nanos, Series, tells_quantile};

/// A quantile as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// The value.
    Value(Nanos),
    /// It lies among the values above this limit, of which no more is known.
    Above(Nanos),
    /// Too few values were counted for it, or nobody knows how many.
    Unknown,
}

impl Quantile {
    /// The value where it is known.
    pub fn value(self) -> Option<Nanos> {
        match self {
            Quantile::Value(value) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantile::Value(value) => f.pad(&value.to_string()),
            Quantile::Above(limit) => f.pad(&format!("> {limit}")),
            Quantile::Unknown => f.pad("–"),
        }
    }
}

/// The values above a histogram's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Where it ends; the minimum end where several series ended at different ones.
    pub(crate) limit: Nanos,
    /// How many lie above and are in no histogram; `None` where nobody knows.
    pub(crate) beyond: Option<u64>,
    /// How many lie above and are in a histogram: the maximum of each series.
    pub(crate) counted: u64,
}

impl Tail {
    /// What lies above the histograms of these series, which are shown as one.
    pub(crate) fn of<'a>(all: impl IntoIterator<Item = &'a Series>) -> Tail {
        let all: Vec<&Series> = all.into_iter().collect();
        // A loss without a limit is marked as one wherever it is shown; only a limit lets a quantile be called greater.
        let cut = |series: &&Series| series.censored;
        let limit = all.iter().filter_map(cut).map(|censored| censored.above).min().unwrap_or_default();
        let beyond = all.iter().filter_map(cut).fold(0u64, |sum, cut| sum.saturating_add(cut.count));
        let counted = match beyond {
            0 => 0,
            _ => all.iter().map(|series| at_or_above(&series.histogram, limit)).sum(),
        };
        Tail { limit, beyond: Some(beyond), counted }
    }

    /// How many values lie above; `None` where nobody knows.
    pub(crate) fn above(self) -> Option<u64> {
        Some(self.beyond?.saturating_add(self.counted))
    }

    /// How many values there are, those above included.
    pub(crate) fn count(self, histogram: &Histogram) -> u64 {
        histogram.count().saturating_add(self.beyond.unwrap_or(0))
    }

    /// The `q`-quantile of a histogram and what lies above it.
    pub(crate) fn quantile(self, histogram: &Histogram, q: f64) -> Quantile {
        let Some(beyond) = self.beyond else { return Quantile::Unknown };
        if beyond == 0 {
            return histogram.quantile(q).map_or(Quantile::Unknown, Quantile::Value);
        }
        let all = self.count(histogram);
        if !tells_quantile(all, q) {
            return Quantile::Unknown;
        }
        let rank = (all as f64 * q - 1e-6).ceil().max(1.0);
        if rank > histogram.count().saturating_sub(self.counted) as f64 {
            return Quantile::Above(self.limit);
        }
        // The rank is one of the values that were counted; the quantile of these that has the same rank.
        let value = histogram.quantile(rank / histogram.count() as f64);
        value.map_or(Quantile::Above(self.limit), Quantile::Value)
    }
}

/// How many values lie at or above a limit that may fall into a bucket: those of its bucket that pass it by their maximum value alone.
fn at_or_above(histogram: &Histogram, limit: Nanos) -> u64 {
    let whole: u64 =
        histogram.buckets().filter(|bucket| bucket.low >= limit).map(|bucket| bucket.count).sum();
    let partly = histogram.buckets().any(|bucket| bucket.low < limit && limit <= bucket.high);
    whole + u64::from(partly && histogram.max().is_some_and(|max| max >= limit) && whole == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::{Censored, Evidence, Mechanism, Quantity, Subject};
    use proptest::prelude::*;

    /// A series of the values below the limit, the maximum of all, and how many lay above beside it.
    fn cut(values: &[u64], limit: u64) -> Series {
        let mut histogram = Histogram::new();
        values.iter().filter(|value| **value < limit).for_each(|value| histogram.record(Nanos(*value)));
        let above = values.iter().filter(|value| **value >= limit).count() as u64;
        if above > 0 {
            histogram.record(Nanos(values.iter().copied().max().unwrap_or(0)));
        }
        let mut series = Series::new(
            Mechanism::TimerWakeup,
            Quantity::LatencyNaive,
            Subject::default(),
            Evidence::User,
            histogram,
        );
        series.censored =
            (above > 1).then_some(Censored { above: Nanos(limit), count: above.saturating_sub(1) });
        series
    }

    #[test]
    fn a_quantile_among_values_above_is_never_a_smaller_value() {
        let values: Vec<u64> =
            (1..=1000).map(|at| if at > 870 { 5_000_000 + at } else { at * 400 }).collect();
        let series = cut(&values, 400_000);
        let tail = Tail::of([&series]);
        assert_eq!((tail.above(), tail.count(&series.histogram)), (Some(130), 1000));
        assert_eq!(tail.quantile(&series.histogram, 0.9), Quantile::Above(Nanos(400_000)));
        assert_eq!(tail.quantile(&series.histogram, 0.999).to_string(), "> 400 us");
        assert!(matches!(tail.quantile(&series.histogram, 0.87), Quantile::Value(_)));
        assert_eq!(tail.quantile(&series.histogram, 0.9999), Quantile::Unknown);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_true_of_all_values(
            mut values in prop::collection::vec((0u64..2000).prop_map(|micros| micros * 1000), 20..400),
            limit in 1u64..2000, q in 0.01f64..0.99,
        ) {
            values.sort_unstable();
            let series = cut(&values, limit * 1000);
            let rank = ((values.len() as f64 * q - 1e-6).ceil() as usize).max(1);
            let exact = values[rank - 1];
            match Tail::of([&series]).quantile(&series.histogram, q) {
                Quantile::Value(value) => prop_assert!(value.0 >= exact && value.0 as f64 <= exact as f64 * 1.01),
                Quantile::Above(above) => prop_assert!(exact >= above.0 && above.0 == limit * 1000),
                Quantile::Unknown => prop_assert!(values.len() as f64 * (1.0 - q) < 1.0),
            }
        }
    }
}
