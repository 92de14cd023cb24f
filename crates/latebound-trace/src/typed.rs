// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the readers of perf.data and of ftrace text give: typed events and discontinuities, in the order of the file.

use latebound_model::{Cpu, Nanos};

use crate::discontinuity::Discontinuity;
use crate::record::Decoded;

/// A typed event with its time and CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedEvent<'a> {
    /// On which CPU.
    pub cpu: Cpu,
    /// When, on the clock of the recording.
    pub at: Nanos,
    /// The record.
    pub decoded: Decoded<'a>,
}

/// What a reader gives next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypedItem<'a> {
    /// An event.
    Event(TypedEvent<'a>),
    /// A place where the stream is not whole.
    Discontinuity(Discontinuity),
}
