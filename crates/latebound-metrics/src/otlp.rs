// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of `opentelemetry/proto/collector/metrics/v1/metrics_service.proto` (github.com/open-telemetry/opentelemetry-proto), as far as they
//! are used here, and metrics in them: sums and gauges, and histograms with exponential buckets.
//!
//! The buckets are those of the native histograms of Prometheus ([`crate::NativeHistogram`]), so their error is the same. Here a bucket is named by
//! its lower bound, there by its upper one.

use prost::{DecodeError, Message};

use crate::counts::Counts;
use crate::family::{Family, Kind, Sample, Value};
use crate::native::{NativeHistogram, SCHEMA};

/// `ExportMetricsServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    /// A resource with its metrics.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// `ResourceMetrics`.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    /// What the metrics are of.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// What took them.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

/// `Resource`.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// Its attributes.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// `ScopeMetrics`.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    /// `InstrumentationScope`.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The metrics.
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Scope {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// `KeyValue`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyValue {
    /// The name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// `AnyValue`, of which text alone is used.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AnyValue {
    /// A text.
    #[prost(string, optional, tag = "1")]
    pub string_value: Option<String>,
}

/// `Metric`.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it says.
    #[prost(string, tag = "2")]
    pub description: String,
    /// The unit, by UCUM.
    #[prost(string, tag = "3")]
    pub unit: String,
    /// The points.
    #[prost(oneof = "Data", tags = "5, 7, 10")]
    pub data: Option<Data>,
}

/// The points of a metric.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Data {
    /// `Gauge`
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    /// `Sum`
    #[prost(message, tag = "7")]
    Sum(Sum),
    /// `ExponentialHistogram`
    #[prost(message, tag = "10")]
    ExponentialHistogram(ExponentialHistogram),
}

/// `Gauge`.
#[derive(Clone, PartialEq, Message)]
pub struct Gauge {
    /// The points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
}

/// `Sum`.
#[derive(Clone, PartialEq, Message)]
pub struct Sum {
    /// The points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
    /// `AggregationTemporality`: [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    /// Whether it only grows.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// `ExponentialHistogram`.
#[derive(Clone, PartialEq, Message)]
pub struct ExponentialHistogram {
    /// The points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<ExponentialPoint>,
    /// `AggregationTemporality`: [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: everything since the start time.
pub const CUMULATIVE: i32 = 2;

/// `NumberDataPoint`.
#[derive(Clone, PartialEq, Message)]
pub struct NumberPoint {
    /// The labels.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
    /// Since when, in nanoseconds since 1970; 0 for gauges.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// Until when.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// The value.
    #[prost(double, optional, tag = "4")]
    pub as_double: Option<f64>,
}

/// `ExponentialHistogramDataPoint`.
#[derive(Clone, PartialEq, Message)]
pub struct ExponentialPoint {
    /// The labels.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
    /// Since when, in nanoseconds since 1970.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// Until when.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// How many values.
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    /// Their sum.
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// The base of the buckets: 2^(2^-scale).
    #[prost(sint32, tag = "6")]
    pub scale: i32,
    /// Values of 0.
    #[prost(fixed64, tag = "7")]
    pub zero_count: u64,
    /// The buckets of values above 0.
    #[prost(message, optional, tag = "8")]
    pub positive: Option<Buckets>,
    /// The smallest value.
    #[prost(double, optional, tag = "12")]
    pub min: Option<f64>,
    /// The largest value.
    #[prost(double, optional, tag = "13")]
    pub max: Option<f64>,
}

/// `ExponentialHistogramDataPoint.Buckets`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Buckets {
    /// The index of the first bucket: bucket `i` has the values above `base^i` and up to `base^(i + 1)`.
    #[prost(sint32, tag = "1")]
    pub offset: i32,
    /// The count of each bucket from there on.
    #[prost(uint64, repeated, tag = "2")]
    pub bucket_counts: Vec<u64>,
}

/// `ExportMetricsServiceResponse`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Response {
    /// What was not taken.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// `ExportMetricsPartialSuccess`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartialSuccess {
    /// How many points.
    #[prost(int64, tag = "1")]
    pub rejected_data_points: i64,
    /// Why.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// From when to when metrics count, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When observing began.
    pub started: u64,
    /// When they were read.
    pub read: u64,
}

/// These metrics of this resource as a message.
pub fn request(families: &[Family], resource: &[(String, String)], version: &str, span: Span) -> Vec<u8> {
    let attributes = resource.iter().map(|(name, value)| attribute(name, value)).collect();
    let filled = families.iter().filter(|family| !family.samples.is_empty());
    let scope = Scope { name: "latebound".to_owned(), version: version.to_owned() };
    let scope_metrics = vec![ScopeMetrics {
        scope: Some(scope),
        metrics: filled.map(|family| metric(family, span)).collect(),
    }];
    let resource = Some(Resource { attributes });
    Request { resource_metrics: vec![ResourceMetrics { resource, scope_metrics }] }.encode_to_vec()
}

/// What a receiver answers.
pub fn parse_response(bytes: &[u8]) -> Result<Response, DecodeError> {
    Response::decode(bytes)
}

/// The metrics of such a message.
pub fn parse_request(bytes: &[u8]) -> Result<Request, DecodeError> {
    Request::decode(bytes)
}

fn attribute(name: &str, value: &str) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { string_value: Some(value.to_owned()) }) }
}

fn attributes(sample: &Sample) -> Vec<KeyValue> {
    sample.labels.iter().map(|(name, value)| attribute(name, value)).collect()
}

/// By the end of the name; `_total` is not a unit.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "1",
    }
}

fn metric(family: &Family, span: Span) -> Metric {
    let numbers = |started: u64| {
        let points = family.samples.iter().filter_map(move |sample| match &sample.value {
            Value::Number(value) => Some(NumberPoint {
                attributes: attributes(sample),
                start_time_unix_nano: started,
                time_unix_nano: span.read,
                as_double: Some(*value),
            }),
            Value::Counts(_) => None,
        });
        points.collect()
    };
    let data = match family.kind {
        Kind::Gauge => Data::Gauge(Gauge { data_points: numbers(0) }),
        Kind::Counter => Data::Sum(Sum {
            data_points: numbers(span.started),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        Kind::Histogram => {
            let points = family.samples.iter().filter_map(|sample| match &sample.value {
                Value::Counts(counts) => Some(point(counts, attributes(sample), span)),
                Value::Number(_) => None,
            });
            Data::ExponentialHistogram(ExponentialHistogram {
                data_points: points.collect(),
                aggregation_temporality: CUMULATIVE,
            })
        }
    };
    Metric {
        name: family.name.to_owned(),
        description: family.help.clone(),
        unit: unit(family.name).to_owned(),
        data: Some(data),
    }
}

fn point(counts: &Counts, attributes: Vec<KeyValue>, span: Span) -> ExponentialPoint {
    let native = NativeHistogram::of(counts);
    let positive = native.buckets.first_key_value().zip(native.buckets.last_key_value());
    let positive = positive.map(|((&first, _), (&last, _))| Buckets {
        offset: first - 1,
        bucket_counts: (first..=last).map(|at| native.buckets.get(&at).copied().unwrap_or(0)).collect(),
    });
    let seconds = |nanos: latebound_model::Nanos| nanos.0 as f64 / 1e9;
    ExponentialPoint {
        attributes,
        start_time_unix_nano: span.started,
        time_unix_nano: span.read,
        count: native.count,
        sum: Some(native.sum),
        scale: SCHEMA,
        zero_count: native.zero_count,
        positive,
        min: counts.min().map(seconds),
        max: counts.max().map(seconds),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::*;
    use crate::interval::tests::{clipped_series, series};
    use crate::{MOST_ABOVE, MOST_BELOW};
    use latebound_model::Nanos;
    use proptest::prelude::*;

    const SPAN: Span = Span { started: 5, read: 7 };

    fn family(name: &'static str, kind: Kind, values: Vec<Value>) -> Family {
        let sample = |value| Sample { labels: vec![("subject", "a".to_owned())], value };
        Family { name, help: "x".to_owned(), kind, samples: values.into_iter().map(sample).collect() }
    }

    fn read(families: &[Family]) -> ResourceMetrics {
        let resource = [("service.name".to_owned(), "latebound".to_owned())];
        parse_request(&request(families, &resource, "1", SPAN)).unwrap().resource_metrics.remove(0)
    }

    fn histogram(counts: Counts) -> ExponentialPoint {
        let family = family("h_seconds", Kind::Histogram, vec![Value::Counts(counts)]);
        let metric = read(&[family]).scope_metrics[0].metrics[0].clone();
        assert_eq!(metric.unit, "s");
        let Some(Data::ExponentialHistogram(histogram)) = metric.data else { panic!("{metric:?}") };
        assert_eq!(histogram.aggregation_temporality, CUMULATIVE);
        histogram.data_points[0].clone()
    }

    #[test]
    fn messages_have_what_they_were_made_of() {
        let read = read(&[
            family("c_bytes_total", Kind::Counter, vec![Value::Number(2.5)]),
            family("empty", Kind::Gauge, vec![]),
            family("g", Kind::Gauge, vec![Value::Number(1.5)]),
        ]);
        assert_eq!(read.resource.unwrap().attributes, [attribute("service.name", "latebound")]);
        let scope = &read.scope_metrics[0];
        assert_eq!(scope.scope.clone().unwrap().version, "1");
        assert_eq!(scope.metrics.len(), 2);
        let point = |started, value| NumberPoint {
            attributes: vec![attribute("subject", "a")],
            start_time_unix_nano: started,
            time_unix_nano: SPAN.read,
            as_double: Some(value),
        };
        let sum = Sum { data_points: vec![point(5, 2.5)], aggregation_temporality: 2, is_monotonic: true };
        assert_eq!(
            (scope.metrics[0].unit.as_str(), scope.metrics[0].data.clone()),
            ("By", Some(Data::Sum(sum)))
        );
        let gauge = Gauge { data_points: vec![point(0, 1.5)] };
        assert_eq!(scope.metrics[1].data, Some(Data::Gauge(gauge)));
    }

    #[test]
    fn a_histogram_of_zeros_or_of_nothing_has_no_buckets() {
        let mut zeros = Counts::default();
        zeros.add(&series("a", &[0, 0]));
        let point = histogram(zeros);
        assert_eq!((point.count, point.zero_count, point.positive), (2, 2, None));
        assert_eq!((point.min, point.max), (Some(0.0), Some(0.0)));
        let point = histogram(Counts::default());
        assert_eq!((point.count, point.min, point.max), (0, None, None));
    }

    #[test]
    fn the_extremes_are_exact_above_the_kernels_buckets_too() {
        let mut counts = Counts::default();
        counts.add(&clipped_series(&[5, 1 << 41, 1 << 45], 2));
        let point = histogram(counts);
        assert_eq!(point.max, Some((1u64 << 45) as f64 / 1e9));
        assert_eq!(point.min, Some(5e-9));
    }

    #[test]
    fn an_answer_says_what_was_not_taken() {
        let partial = PartialSuccess { rejected_data_points: 3, error_message: "why".to_owned() };
        let bytes = Response { partial_success: Some(partial.clone()) }.encode_to_vec();
        assert_eq!(parse_response(&bytes).unwrap().partial_success, Some(partial));
        assert_eq!(parse_response(&[]).unwrap().partial_success, None);
        assert!(parse_response(b"<html>").is_err());
    }

    proptest! {
        #[test]
        fn quantiles_of_exponential_buckets_err_by_what_is_said(
            values in proptest::collection::vec((0u32..40).prop_flat_map(|power| 0u64..2 << power), 1..200),
            rank in any::<prop::sample::Index>(),
        ) {
            let mut values = values;
            values.iter_mut().for_each(|value| *value = (*value).min((1 << 40) - 1));
            values.sort_unstable();
            let mut counts = Counts::default();
            counts.add(&series("a", &values));
            let point = histogram(counts);
            prop_assert_eq!(point.count, values.len() as u64);
            prop_assert_eq!(point.sum, Some(values.iter().map(|&value| u128::from(value)).sum::<u128>() as f64 / 1e9));
            let seconds = |value: u64| Nanos(value).0 as f64 / 1e9;
            prop_assert_eq!(point.min, values.first().copied().map(seconds));
            prop_assert_eq!(point.max, values.last().copied().map(seconds));
            // The bucket of a rank, by the specification's words: from base^i to base^(i + 1).
            let base = 2f64.powf(2f64.powi(-point.scale));
            let rank = rank.index(values.len());
            let exact = seconds(values[rank]);
            let (mut seen, rank) = (point.zero_count, rank as u64 + 1);
            if seen >= rank {
                prop_assert_eq!(values[rank as usize - 1], 0);
                return Ok(());
            }
            let buckets = point.positive.unwrap();
            for (index, count) in (buckets.offset..).zip(&buckets.bucket_counts) {
                seen += count;
                if seen >= rank {
                    let (low, high) = (base.powi(index), base.powi(index + 1));
                    prop_assert!(low >= exact * (1.0 - MOST_BELOW), "{} and {}", low, exact);
                    prop_assert!(high <= exact * (1.0 + MOST_ABOVE), "{} and {}", high, exact);
                    return Ok(());
                }
            }
            prop_assert!(false, "rank {} of {}", rank, point.count);
        }
    }
}
