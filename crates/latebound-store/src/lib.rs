// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs on disk: a folder with `run.json`, Parquet tables and, where the caller has one, `report.html`.
//!
//! Owns the folder's layout, how it is written (whole or not at all: a reader at any moment, also after SIGKILL, meets
//! the state before or the state after, never a mixture) and how it is read back, with every check that a file
//! from elsewhere needs. It never measures, never renders, and never removes what a Run's record does not name.

#[cfg(feature = "write")]
pub mod columns;
mod error;
#[cfg(feature = "write")]
mod events;
#[cfg(feature = "write")]
mod folder;
mod read;
#[cfg(feature = "write")]
mod spool;
#[cfg(feature = "write")]
mod stored;
#[cfg(feature = "write")]
mod tables;

pub use error::StoreError;
#[cfg(feature = "write")]
pub use events::{has_events, visit_events};
#[cfg(feature = "write")]
pub use folder::RunFolder;
pub use read::{MAX_RUN_BYTES, MAX_SERIES, parse_run, read_run};
#[cfg(feature = "write")]
pub use spool::{Removed, Shortage, Shrunk, Spool, SpoolReader};
#[cfg(feature = "write")]
pub use stored::StoredTable;
#[cfg(feature = "write")]
pub use tables::{
    ACTIVATIONS_FILE, BLOCK_MAXIMA_FILE, EVENTS_FILE, FILES as TABLE_FILES, HISTOGRAMS_FILE, INTERRUPTS_FILE,
    InterruptRow, WORKLOAD_CURVES_FILE, WORST_SPANS_FILE,
};

/// The file in a Run's folder that makes it one.
pub const RUN_FILE: &str = "run.json";

/// The page in a Run's folder.
pub const REPORT_FILE: &str = "report.html";

/// Lanes of time for a trace viewer, where a Run has them.
pub const TRACE_FILE: &str = "trace.json";
