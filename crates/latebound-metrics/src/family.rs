// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics before they have a format.

use latebound_model::bucket_index;

use crate::counts::Counts;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts in buckets, which only grow.
    Histogram,
}

/// Metrics of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name, with the unit at its end.
    pub name: &'static str,
    /// What it says.
    pub help: String,
    /// What it is.
    pub kind: Kind,
    /// The metrics, of which each has its own labels.
    pub samples: Vec<Sample>,
}

/// One metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Value,
}

/// What a metric holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of counters and gauges.
    Number(f64),
    /// Of histograms.
    Counts(Counts),
}

/// Classic buckets end 1 ns below these powers of two nanoseconds: there a bucket of latebound ends too, so their counts are exact. From 255 ns
/// to 1.07 s.
const CLASSIC_EXPONENTS: std::ops::RangeInclusive<u32> = 8..=30;

/// The upper bound in seconds and the cumulative count of each classic bucket but that without a bound.
pub(crate) fn classic(counts: &Counts) -> impl Iterator<Item = (f64, u64)> + '_ {
    let (mut from, mut below) = (0, 0);
    CLASSIC_EXPONENTS.map(move |exponent| {
        let end = bucket_index(1 << exponent);
        below += counts.between(from, end);
        from = end;
        (((1u64 << exponent) - 1) as f64 / 1e9, below)
    })
}

impl Family {
    /// A family of one metric without labels.
    pub(crate) fn one(name: &'static str, kind: Kind, help: &str, value: f64) -> Family {
        let samples = vec![Sample { labels: Vec::new(), value: Value::Number(value) }];
        Family { name, help: help.to_owned(), kind, samples }
    }
}
