// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the readers of perf.data and of ftrace text give: typed events and discontinuities, in the order of the file.
//!
//! A [`TraceEvent`] borrows from the file and has every field of its format, places in the kernel's text among them. It is no
//! `Event` of latebound-model, which [`crate::Converter`] makes of it where the model has such an event, and which owns its texts.

use latebound_model::{Cpu, Nanos};

use crate::discontinuity::Discontinuity;
use crate::record::Decoded;

/// A typed event with its time and CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent<'a> {
    /// On which CPU.
    pub cpu: Cpu,
    /// When, on the clock of the recording.
    pub at: Nanos,
    /// The record.
    pub decoded: Decoded<'a>,
}

/// What a reader gives next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceItem<'a> {
    /// An event.
    Event(TraceEvent<'a>),
    /// A place where the stream is not whole.
    Discontinuity(Discontinuity),
}
