// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a saved trace says: its worst wake-ups explained, its CPUs observed for a bound, or its events alone; and what the pages of a
//! running kernel say of the work that it puts off, of the threads that it wakes, and of what a bound is made of.
//!
//! Owns the way from the bytes of a trace (`latebound-trace`) to the analysis of its events (`latebound-analysis`), and the
//! threads that this takes. Never opens a file, and never decides what an event means to a bound or an explanation beyond
//! translating the records of a trace.

mod activations;
mod continuity;
mod cpu_reader;
mod error;
mod events;
mod explain;
mod live;
mod live_model;
mod observe;
mod own;
mod requests;
mod saved;
mod side_by_side;
mod views;
mod wakeups;

pub use activations::{ActivationReader, PageTally};
pub use error::SavedError;
pub use events::{ReadTallies, visit_saved};
pub use explain::{SavedExplanations, Watched, explain_events, explain_saved};
pub use live::{LiveEvents, LiveWakeups};
pub use live_model::LiveModel;
pub use observe::{SavedOptions, observe_saved};
pub use saved::{Saved, Violation};
pub use side_by_side::limit_threads;
pub use views::{bound_of, views};
