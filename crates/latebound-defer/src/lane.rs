// SPDX-License-Identifier: MIT OR Apache-2.0
//! What timelines and overlays have in common: the levels of execution, and the times of which both are made. Pure.

use std::fmt;

use latebound_abi::defer::Record;
use latebound_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// The spread is also shown of so much from the beginning: what a short look would have seen.
const FIRST: Nanos = Nanos::from_secs(10);

/// A level of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum LaneKind {
    /// The interrupts of the train.
    #[serde(rename = "top half")]
    TopHalf,
    /// The runs that they asked for, but for those in ksoftirqd.
    #[serde(rename = "bottom half")]
    BottomHalf,
    /// The runs in ksoftirqd.
    #[serde(rename = "in ksoftirqd")]
    Ksoftirqd,
    /// Interrupts in which no interrupt of the train is handled, and other timers in those of the train.
    #[serde(rename = "other interrupts")]
    OtherInterrupts,
    /// Softirqs but for those that run bottom halves of the train.
    #[serde(rename = "other softirqs")]
    OtherSoftirqs,
    /// The threads of loads.
    #[serde(rename = "load")]
    Load,
    /// All other threads but the idle one.
    #[serde(rename = "other threads")]
    OtherThreads,
}

impl fmt::Display for LaneKind {
    /// Writes its name in the document, which `Serialize` is the source of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The records of the beginning of a long time, and all of them, each with the words for its time.
pub(crate) fn spans_of(records: &[Record]) -> Vec<(String, Vec<Record>)> {
    let begin = records.iter().map(|record| record.requested_ns).min().unwrap_or(0);
    let end = records.iter().map(|record| record.requested_ns).max().unwrap_or(0);
    let all = Nanos(end - begin);
    let mut spans = Vec::new();
    if all > FIRST {
        let first = records.iter().filter(|record| record.requested_ns - begin <= FIRST.0).copied();
        spans.push((format!("first {FIRST}"), first.collect()));
    }
    spans.push((format!("all {all}"), records.to_vec()));
    spans
}
