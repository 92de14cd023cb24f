// SPDX-License-Identifier: MIT OR Apache-2.0
//! What verbs make of files alone: the bound of saved traces, explanations of a saved trace, the comparison of Runs,
//! and of the hosts of a store.
//!
//! Owns which files a name means, in what order they are read, and which of them are refused, so that the command line and
//! the library for Python answer alike. It opens files and reads them. It writes none, prints nothing, and never looks
//! at the system that it runs on.

mod bound;
mod cancel;
mod compare;
mod error;
mod events;
mod explain;
mod fleet;
mod origin;
mod runs;

pub use bound::{bound_of, read_observations};
pub use cancel::Cancel;
pub use compare::{refuse_unlike, sides};
pub use error::DocumentError;
pub use events::visit_events;
pub use explain::explain_trace;
pub use fleet::{Division, FleetSides, LeftOut, read_fleet};
pub use origin::{Origin, origin};
pub use runs::{import, read_runs};

/// The largest file that is read as a whole: observations, a table of symbols.
pub const MAX_DOCUMENT_BYTES: u64 = 1 << 30;
