// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store of the Runs of many machines, and of results of work on their files: Parquet tables by day and host, with a log of commits for
//! each.
//!
//! Owns the layout of a store, the columns of its tables, how Runs become rows, how rows are rolled up to hours and days, and which files
//! count. A reader at any moment, also after SIGKILL or on a full disk, meets the state before or the state after a commit. It never
//! measures, never asks questions of the tables, and never changes a file that is there.

mod add;
mod at_once;
mod bucket;
mod cache;
mod compact;
mod error;
mod export;
mod log;
mod migrate;
mod objects;
mod partition;
mod place;
mod results;
mod rollup;
mod rows;
mod show;
mod simulate;
mod store;
mod stream;
mod tables;
mod verify;
mod whole_table;

use std::time::Duration;

pub use add::{AddDocument, AddOutcome, AddResult, NewRuns};
pub use at_once::at_once;
pub use cache::Cache;
pub use compact::{CompactDocument, CompactOptions, Compacted, PruneDocument};
pub use error::FleetError;
pub use export::{Export, HostDays};
pub use log::{Added, Commit, Counted, Damage, Level};
pub use migrate::MigrateDocument;
pub use objects::{fetch_object, objects_below};
pub use partition::{Day, Partition};
pub use results::{NewResult, UNKNOWN_HOST};
pub use rollup::WORST_KEPT;
pub use show::{
    Choice, DataFile, DataFiles, FilesDocument, ListDocument, Listed, PushDocument, SimulateDocument,
};
pub use simulate::{SimulatedFleet, SimulatedHost};
pub use store::{Store, StoreDocument};
pub use stream::RunStream;
pub use tables::{TABLES_VERSION, Table, bucket_edges};
pub use verify::VerifyDocument;
pub use whole_table::{TableFile, WholeTable};

/// The file that makes a folder a store.
pub const MARKER: &str = "latebound-store.json";

/// The schema of a store that this version writes and reads.
pub const STORE_SCHEMA: &str = "latebound.store/1";

/// The schema of a commit that this version writes and reads.
pub const COMMIT_SCHEMA: &str = "latebound.store-commit/1";

/// What makes commits.
pub(crate) const TOOL: &str = concat!("latebound ", env!("CARGO_PKG_VERSION"));

/// For so long a file stays that no longer counts, or that never did: a reader may be at it, or a writer about to commit it.
pub(crate) const GRACE: Duration = Duration::from_secs(3600);
