// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a store could not be written or read, and what to type next.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use crate::partition::Partition;

/// Why a store could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// There is no store.
    #[error("{0} holds no store (no {marker}); `latebound store add --store {0} RUN` makes one", .path.escape_debug(), marker = crate::MARKER)]
    NoStore {
        /// The folder.
        path: String,
    },
    /// A store is to be made among other things.
    #[error("{} holds no store (no {marker}) and is not empty; name an empty or new folder with --store", .path.escape_debug(), marker = crate::MARKER)]
    NotEmpty {
        /// The folder.
        path: String,
    },
    /// A place that no store can have.
    #[error("\"{}\" is no place of a store: {why}; type --store FOLDER or --store s3://BUCKET/PREFIX", .place.escape_debug())]
    Place {
        /// What was typed, or the beginning of it.
        place: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The folder of the store could not be made or opened.
    #[error("cannot open the store {}: {source}; make the folder above it first (mkdir -p), or name another one with --store", .path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The folder for copies of a bucket's files could not be used.
    #[error("cannot keep copies of the store's files in {}: {source}; give room and rights there, or name another folder in XDG_CACHE_HOME", .path.display())]
    Cache {
        /// The folder, or the file in it.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A document was written by a latebound whose stores mean something else.
    #[error("{file} of the store has the schema \"{}\", and this latebound reads \"{known}\"; use the latebound that wrote it, or a newer one", .found.escape_debug())]
    OtherSchema {
        /// Its path in the store.
        file: String,
        /// The schema met.
        found: String,
        /// The schema that this version reads.
        known: &'static str,
    },
    /// A commit needs tables that came later.
    #[error(
        "{file} of the store needs version {found} of the tables, and this latebound knows versions 1 to {known}; use the latebound that wrote it, or a newer one"
    )]
    OtherTables {
        /// Its path in the store.
        file: String,
        /// The version that it needs.
        found: u32,
        /// The newest that this version reads.
        known: u32,
    },
    /// Runs that came as a stream are no such stream, or were cut.
    #[error(
        "the Runs on standard input cannot be taken: {why}; `latebound push --store ssh://…` writes them"
    )]
    Stream {
        /// What is wrong.
        why: String,
    },
    /// A document is no such document.
    #[error("{file} of the store is damaged: {why}; bring it back from a backup")]
    Damaged {
        /// Its path in the store.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A host's name makes no partition.
    #[error("\"{}\" ({bytes} bytes) cannot name a host in a store: a name has 1 to 240 bytes, where each byte but letters, digits, '-', '.' and '_' counts three times; name the host with --host", .host.escape_debug())]
    Host {
        /// The beginning of the name.
        host: String,
        /// Its length.
        bytes: usize,
    },
    /// A Run does not say which host it is of.
    #[error("{} does not say which host it was measured on; name the host with --host", .source_name.escape_debug())]
    NoHost {
        /// The Run.
        source_name: String,
    },
    /// A store has no rows of a host.
    #[error("{} has no rows of the host \"{}\" in these days; `latebound store list --store FOLDER` names its hosts and days", .store.escape_debug(), .host.escape_debug())]
    NoRows {
        /// The beginning of the host's name.
        host: String,
        /// The store.
        store: String,
    },
    /// A Run does not say when it began.
    #[error("{} began at \"{}\", which is no time from 1970 to 9999 (RFC 3339), so it belongs to no day; a store takes Runs that know when they began", .source_name.escape_debug(), .found.escape_debug())]
    NoTime {
        /// The Run.
        source_name: String,
        /// What stands there.
        found: String,
    },
    /// A value of a Run is larger than a column holds.
    #[error("{}: {what} is {value}, and a store holds at most {limit}; it is damaged, or not measured", .source_name.escape_debug())]
    TooLarge {
        /// The Run.
        source_name: String,
        /// Which value.
        what: String,
        /// The value.
        value: String,
        /// The largest that fits.
        limit: String,
    },
    /// A Run that was read once cannot be read again.
    #[error("{} could be read once and not again: {why}; type the command again", .source_name.escape_debug())]
    NotAgain {
        /// The Run.
        source_name: String,
        /// What is wrong.
        why: String,
    },
    /// A later state of a Run that is rolled up already.
    #[error("{} is a later state of a Run that is rolled up in {partition} already, so it cannot replace it; add a Run once it has ended", .source_name.escape_debug())]
    RolledUp {
        /// The Run.
        source_name: String,
        /// Where.
        partition: Partition,
    },
    /// Adding up would pass the largest number.
    #[error(
        "{partition}: the sum of {what} is larger than its column holds; the store has values that nobody measured"
    )]
    Overflow {
        /// Where.
        partition: Partition,
        /// Which sum.
        what: &'static str,
    },
    /// Others change the same partition all the time.
    #[error("{partition} was changed by others {tries} times in a row; type the command again")]
    Contended {
        /// Where.
        partition: Partition,
        /// How often.
        tries: u32,
    },
    /// A table could not be encoded.
    #[error("cannot encode the table {table}: {source}; this is a defect of latebound")]
    Encode {
        /// The table.
        table: &'static str,
        /// What the encoder said.
        source: parquet::errors::ParquetError,
    },
    /// An object that was to be read is not there.
    #[error("there is no object {}; list the bucket, and name one that is there", .url.escape_debug())]
    NoObject {
        /// `s3://BUCKET/NAME`
        url: String,
    },
    /// An object is longer than any that is copied.
    #[error("{} has {bytes} bytes, and at most {limit} are copied; cut the file, or put it into a folder that every worker sees and name it there", .url.escape_debug())]
    TooLong {
        /// `s3://BUCKET/NAME`
        url: String,
        /// Its length.
        bytes: u64,
        /// The longest that is copied.
        limit: u64,
    },
    /// The copy of an object could not be written.
    #[error("cannot write {}: {source}; free space there, or set TMPDIR to another folder", .path.display())]
    Fetched {
        /// The copy.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The bucket of the store could not be reached, or refused.
    #[error("cannot {what} {file} of the store {store}: {why}; {remedy}")]
    Bucket {
        /// What was to be done: `open`, `write`, `read`, `list`, `remove`.
        what: &'static str,
        /// Its path in the store.
        file: String,
        /// The store.
        store: String,
        /// What the server or the way to it said, without keys and control characters.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The server gives a name twice, so that one commit would overwrite another.
    #[error(
        "the server of {store} overwrites objects that were to be created only if absent (it ignores If-None-Match), so Runs of several writers would get lost; use a server that knows conditional writes"
    )]
    Overwrites {
        /// The store.
        store: String,
    },
    /// The store could not be reached.
    #[error("cannot {what} {file} in the store: {source}; {}", remedy(.source))]
    Objects {
        /// What was to be done: `write`, `read`, `list`, `remove`.
        what: &'static str,
        /// Its path in the store.
        file: String,
        /// What the store said.
        source: object_store::Error,
    },
}

impl FleetError {
    /// Whether the disk is full, or the like.
    pub fn is_full(&self) -> bool {
        matches!(self, FleetError::Objects { source, .. } if kernel(source).is_some_and(full))
    }
}

/// What the kernel said, where it was the kernel.
pub(crate) fn kernel(error: &object_store::Error) -> Option<io::ErrorKind> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

fn full(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn remedy(error: &object_store::Error) -> &'static str {
    match kernel(error) {
        Some(kind) if full(kind) => {
            "the disk is full: free space there, or remove old days with `latebound store prune`; what the store held before can still be read"
        }
        Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
            "ask for permission on the folder, or name another one with --store"
        }
        _ => "look at the folder; what the store held before can still be read",
    }
}
