// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explanations and bounds of late activations: events in, data out. Never does I/O, never reads a clock, never makes
//! text beyond the names that causes carry.

pub mod bound;
mod explain;
mod saved_events;

pub use explain::{
    KernelFacts, SavedExplanations, Usual, Watched, explain, explain_saved, limits, may_be_standstill,
};
pub use saved_events::{Counted as SavedCounts, visit as visit_saved};
