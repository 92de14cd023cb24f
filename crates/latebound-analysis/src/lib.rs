// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explanations and bounds of late activations: events in, data out. Never does I/O, never reads a clock, never starts
//! threads, never makes text beyond the names that causes carry.

pub mod activations;
mod blame;
mod blame_groups;
pub mod bound;
pub mod cycle;
mod explain;
mod worst;

pub use blame::{Blame, Culprit, blame};
pub use blame_groups::blame_groups;
pub use explain::{KNOWN_AFTER, KernelFacts, Usual, UsualCounter, explain, limits, may_be_standstill};
pub use worst::{WorstExplanations, shows_wakeup};
