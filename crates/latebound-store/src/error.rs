// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a Run could not be written or read, and what to type next.

use std::io;
use std::path::PathBuf;

/// Why a Run could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The output folder is there already.
    #[error("{} exists{}; add --force to replace it, or choose another folder with --output", .path.display(), if *.empty { " (it is empty)" } else { " and holds a Run" })]
    Exists {
        /// The folder.
        path: PathBuf,
        /// Whether nothing is in it.
        empty: bool,
    },
    /// The output path is something that latebound did not write, so it is not replaced.
    #[error("{} exists and {what}, so it is not replaced, not even with --force; choose another folder with --output", .path.display())]
    NotARun {
        /// The path.
        path: PathBuf,
        /// What was met there.
        what: String,
    },
    /// Another process writes there.
    #[error("another latebound is still writing to {}; wait for it, or choose another folder with --output", .path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// The file system cannot put a folder in another's place in one step.
    #[error("the file system cannot replace {} in one step ({source}); remove it first with: rm -r {0}; or choose another folder with --output", .path.display())]
    CannotReplace {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A folder could not be made.
    #[error("cannot make the folder {}: {source}; {}", .path.display(), remedy(.source))]
    MakeFolder {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file could not be written whole.
    #[error("cannot write {} ({bytes} bytes): {source}; {}; what was written there before can still be read", .path.display(), remedy(.source))]
    Write {
        /// The file.
        path: PathBuf,
        /// How large it was to be.
        bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// A table could not be encoded.
    #[cfg(feature = "write")]
    #[error("cannot encode the table {file}: {source}; this is a defect of latebound")]
    Encode {
        /// The file's name.
        file: &'static str,
        /// What the encoder said.
        source: parquet::errors::ParquetError,
    },
    /// Nothing could be read there.
    #[error("cannot read a Run from {}: {source}; give the folder that latebound wrote, or the run.json in it", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is larger than any Run.
    #[error("{} has {found} {unit}, and at most {limit} are read; it is damaged, or not a Run", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How many there are.
        found: u64,
        /// How many are allowed.
        limit: u64,
        /// Of what: `bytes`, `series`.
        unit: &'static str,
    },
    /// It is not the JSON of a Run.
    #[error("{} is not a Run: {source}; give the folder that latebound wrote, or the run.json in it", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser met, and where.
        source: serde_json::Error,
    },
    /// It was written by a latebound whose Runs mean something else.
    #[error("{} has the schema \"{found}\", and this latebound reads \"{known}\"; read it with the latebound that wrote it, or measure again", .path.display())]
    OtherSchema {
        /// The file.
        path: PathBuf,
        /// The schema met.
        found: String,
        /// The schema that this version reads.
        known: &'static str,
    },
    /// Its parts contradict each other.
    #[error("{} contradicts itself: {why}; it was damaged or changed after it was written: measure again", .path.display())]
    Inconsistent {
        /// The file.
        path: PathBuf,
        /// Which parts, with their values.
        why: String,
    },
}

/// What to do about an error of the kernel.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            "the disk is full: free space there, or choose another folder with --output"
        }
        io::ErrorKind::QuotaExceeded => {
            "your quota is used up: free space, or choose another folder with --output"
        }
        io::ErrorKind::FileTooLarge => {
            "raise the limit on file sizes (ulimit -f), or choose another folder with --output"
        }
        io::ErrorKind::NotADirectory => "a part of the path is a file: choose another folder with --output",
        io::ErrorKind::NotFound => {
            "make the folder above it first (mkdir -p), or choose another one with --output"
        }
        _ => "choose another folder with --output",
    }
}
