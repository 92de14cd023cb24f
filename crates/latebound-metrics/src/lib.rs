// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a service that observes tells: the distributions of one interval, and metrics as Prometheus and OpenTelemetry read them.
//!
//! Owns the difference of two cumulative observations ([`Intervals`]), the conversion of latebound's histograms to native and classic
//! histograms of Prometheus ([`NativeHistogram`]), both exposition formats, and the messages of OpenTelemetry ([`otlp`]). Values in, values out: it never reads a clock, a file
//! or a socket, and never decides when an interval ends.

mod counts;
mod exposition;
mod family;
mod interval;
mod native;
mod negotiate;
pub mod otlp;
pub mod protobuf;
mod service;
mod text;

pub use counts::Counts;
pub use exposition::Exposition;
pub use family::{Family, Kind, Sample, Value};
pub use interval::{Intervals, OfInterval};
pub use native::{
    MOST_ABOVE, MOST_BELOW, NativeHistogram, SCHEMA, Span, ZERO_THRESHOLD, native_bound, native_index,
};
pub use negotiate::negotiate;
pub use protobuf::{delimited, parse_delimited};
pub use service::{ExplainedTime, Health, MOST_SUBJECTS, OTHER, Pushes, Subjects, Worst, families};
pub use text::text;
