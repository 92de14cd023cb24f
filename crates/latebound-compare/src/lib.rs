// SPDX-License-Identifier: MIT OR Apache-2.0
//! Did it get better, by how much, and how sure is that: sides of Runs in, a [`Comparison`] out.
//!
//! Owns what may be compared with what, which numbers of a Run are held against each other, and the document that says
//! how it came out. A Run is reduced to [`RunFacts`] as soon as it is read, so that a thousand Runs need the memory of a few.
//! Never opens a file, never prints; the arithmetic is `latebound-stats`.

mod alike;
mod causes;
mod compare;
mod document;
pub mod experiment;
mod facts;
mod forecast;
mod gate;
mod measures;
mod options;
mod settings;
mod tradeoff;
mod turns;

pub use compare::compare;
pub use document::{
    Against, COMPARE_SCHEMA, CauseShare, Comparison, Estimate, Family, Forecast, GateState, Level, Measure,
    Ruling, RunName, Setting, SettingKind, Share, SideSummary, Unit, ValueOnRuns, VerdictWord,
};
pub use facts::{RunFacts, Side};
pub use gate::{Gate, GateError};
pub use options::Options;
pub use tradeoff::{Point, TRADEOFF_SCHEMA, Tradeoff, Workload, workload};
