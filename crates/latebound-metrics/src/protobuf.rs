// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of `io/prometheus/client/metrics.proto` (github.com/prometheus/client_model), as far as they are used here.

use prost::{DecodeError, Message};

use crate::family::{Family, Kind, Sample, Value, classic};
use crate::native::{NativeHistogram, SCHEMA, ZERO_THRESHOLD};

/// `MetricFamily`.
#[derive(Clone, PartialEq, Message)]
pub struct MetricFamily {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// What it says.
    #[prost(string, optional, tag = "2")]
    pub help: Option<String>,
    /// `MetricType`.
    #[prost(enumeration = "MetricType", optional, tag = "3")]
    pub r#type: Option<i32>,
    /// Its metrics.
    #[prost(message, repeated, tag = "4")]
    pub metric: Vec<Metric>,
}

/// `MetricType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum MetricType {
    /// `COUNTER`
    Counter = 0,
    /// `GAUGE`
    Gauge = 1,
    /// `HISTOGRAM`
    Histogram = 4,
}

/// `LabelPair`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LabelPair {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// `Metric`.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// Its labels.
    #[prost(message, repeated, tag = "1")]
    pub label: Vec<LabelPair>,
    /// Of a gauge.
    #[prost(message, optional, tag = "2")]
    pub gauge: Option<Number>,
    /// Of a counter.
    #[prost(message, optional, tag = "3")]
    pub counter: Option<Number>,
    /// Of a histogram.
    #[prost(message, optional, tag = "7")]
    pub histogram: Option<Histogram>,
}

/// `Gauge` and `Counter`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Number {
    /// The value.
    #[prost(double, optional, tag = "1")]
    pub value: Option<f64>,
}

/// `Histogram`.
#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    /// How many values.
    #[prost(uint64, optional, tag = "1")]
    pub sample_count: Option<u64>,
    /// Their sum.
    #[prost(double, optional, tag = "2")]
    pub sample_sum: Option<f64>,
    /// The classic buckets.
    #[prost(message, repeated, tag = "3")]
    pub bucket: Vec<Bucket>,
    /// The base of the native buckets: 2^(2^-schema).
    #[prost(sint32, optional, tag = "5")]
    pub schema: Option<i32>,
    /// How wide the zero bucket is.
    #[prost(double, optional, tag = "6")]
    pub zero_threshold: Option<f64>,
    /// What it holds.
    #[prost(uint64, optional, tag = "7")]
    pub zero_count: Option<u64>,
    /// Which native buckets follow.
    #[prost(message, repeated, tag = "12")]
    pub positive_span: Vec<BucketSpan>,
    /// The count of each, as the difference to the one before.
    #[prost(sint64, repeated, tag = "13")]
    pub positive_delta: Vec<i64>,
}

/// `Bucket`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Bucket {
    /// How many values are at or below the bound.
    #[prost(uint64, optional, tag = "1")]
    pub cumulative_count: Option<u64>,
    /// The bound.
    #[prost(double, optional, tag = "2")]
    pub upper_bound: Option<f64>,
}

/// `BucketSpan`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct BucketSpan {
    /// The distance from the end of the span before.
    #[prost(sint32, optional, tag = "1")]
    pub offset: Option<i32>,
    /// How many buckets.
    #[prost(uint32, optional, tag = "2")]
    pub length: Option<u32>,
}

/// Messages of these metrics, each behind its length. Histograms have both kinds of buckets: a server takes the native ones where it knows them.
pub fn delimited(families: &[Family]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let kind = match family.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        let message = MetricFamily {
            name: Some(family.name.to_owned()),
            help: Some(family.help.clone()),
            r#type: Some(kind as i32),
            metric: family.samples.iter().map(|sample| metric(sample, family.kind)).collect(),
        };
        bytes.extend(message.encode_length_delimited_to_vec());
    }
    bytes
}

/// The messages of such bytes.
pub fn parse_delimited(mut bytes: &[u8]) -> Result<Vec<MetricFamily>, DecodeError> {
    let mut families = Vec::new();
    while !bytes.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut bytes)?);
    }
    Ok(families)
}

fn metric(sample: &Sample, kind: Kind) -> Metric {
    let label = sample
        .labels
        .iter()
        .map(|(name, value)| LabelPair { name: Some((*name).to_owned()), value: Some(value.clone()) })
        .collect();
    let mut metric = Metric { label, ..Metric::default() };
    match &sample.value {
        Value::Number(value) => {
            let number = Some(Number { value: Some(*value) });
            match kind {
                Kind::Counter => metric.counter = number,
                Kind::Gauge | Kind::Histogram => metric.gauge = number,
            }
        }
        Value::Counts(counts) => {
            let native = NativeHistogram::of(counts);
            let (spans, deltas) = native.spans();
            let span = |span: crate::native::Span| BucketSpan {
                offset: Some(span.offset),
                length: Some(span.length),
            };
            let bucket = |(edge, count)| Bucket { cumulative_count: Some(count), upper_bound: Some(edge) };
            metric.histogram = Some(Histogram {
                sample_count: Some(native.count),
                sample_sum: Some(native.sum),
                bucket: classic(counts).map(bucket).collect(),
                schema: Some(SCHEMA),
                zero_threshold: Some(ZERO_THRESHOLD),
                zero_count: Some(native.zero_count),
                positive_span: spans.into_iter().map(span).collect(),
                positive_delta: deltas,
            });
        }
    }
    metric
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::*;
    use crate::counts::Counts;
    use crate::interval::tests::series;

    #[test]
    fn messages_read_back_as_they_were_written() {
        let mut counts = Counts::default();
        counts.add(&series("a", &[0, 255, 300, 1_000_000]));
        let sample = |value| Sample { labels: vec![("subject", "a".to_owned())], value };
        let families = [
            Family {
                name: "h",
                help: "x".to_owned(),
                kind: Kind::Histogram,
                samples: vec![sample(Value::Counts(counts))],
            },
            Family { name: "empty", help: String::new(), kind: Kind::Gauge, samples: Vec::new() },
            Family {
                name: "c_total",
                help: String::new(),
                kind: Kind::Counter,
                samples: vec![sample(Value::Number(2.0))],
            },
        ];
        let read = parse_delimited(&delimited(&families)).unwrap();
        let names: Vec<_> = read.iter().filter_map(|family| family.name.as_deref()).collect();
        assert_eq!(names, ["h", "c_total"]);
        assert_eq!(read[1].metric[0].counter.unwrap().value, Some(2.0));
        let histogram = read[0].metric[0].histogram.clone().unwrap();
        assert_eq!(
            (histogram.sample_count, histogram.zero_count, histogram.schema),
            (Some(4), Some(1), Some(5))
        );
        // 0 and 255 ns are at most 255 ns.
        assert_eq!(histogram.bucket[0].cumulative_count, Some(2));
        assert!(parse_delimited(&[200, 1, 2]).is_err());
    }

    /// Bytes by hand, so that the numbers of the fields are those of metrics.proto: a family of one counter.
    #[test]
    fn the_bytes_are_those_of_metrics_proto() {
        let samples = vec![Sample { labels: vec![("l", "v".to_owned())], value: Value::Number(1.0) }];
        let family = Family { name: "n", help: "h".to_owned(), kind: Kind::Counter, samples };
        let expected = [
            29, // the length
            0x0a, 1, b'n', 0x12, 1, b'h', 0x18, 0, 0x22, 19, // name, help, type, metric
            0x0a, 6, 0x0a, 1, b'l', 0x12, 1, b'v', // label
            0x1a, 9, 0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, // counter 1.0
        ];
        assert_eq!(delimited(&[family]), expected);
    }
}
