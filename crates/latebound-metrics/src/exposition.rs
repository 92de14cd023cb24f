// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats that metrics are given in.

use crate::family::Family;
use crate::{protobuf, text};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Text 0.0.4, with classic histograms.
    Text,
    /// Delimited messages `io.prometheus.client.MetricFamily`, with native and classic histograms.
    Protobuf,
}

impl Exposition {
    /// Its media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Exposition::Text => "text/plain; version=0.0.4; charset=utf-8",
            Exposition::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// These metrics in it.
    pub fn encode(self, families: &[Family]) -> Vec<u8> {
        match self {
            Exposition::Text => text::text(families).into_bytes(),
            Exposition::Protobuf => protobuf::delimited(families),
        }
    }
}
