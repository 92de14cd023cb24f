// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why files give no document. A message and those of its sources are one sentence, from the outermost in.

use std::io;
use std::path::PathBuf;

use latebound_analysis::bound::DocumentError as ObservationsError;
use latebound_fleet::FleetError;
use latebound_import::ImportError;
use latebound_saved::SavedError;
use latebound_store::StoreError;

/// Why files give no document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// A file gives no bound.
    #[error("cannot bound {}", .path.display())]
    Bound {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<DocumentError>,
    },
    /// A file explains nothing.
    #[error("cannot explain {}", .path.display())]
    Explain {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SavedError,
    },
    /// A file could not be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A Run's place could not be found.
    #[error("cannot read a Run from {}", .path.display())]
    NoRun {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file could not be opened or read; whoever called knows its name.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A Run could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A store of many machines' Runs could not be read.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// A saved trace could not be used.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// Saved observations could not be used.
    #[error(transparent)]
    Observations(#[from] ObservationsError),
    /// The results of another tool could not be used.
    #[error("cannot import {}", .path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ImportError,
    },
    /// No file was given.
    #[error("no FILE was given")]
    NoFile,
    /// An option that bears on traces, beside observations.
    #[error("{option} does nothing here: these are observations, which have no events to read; leave it out")]
    DoesNothing {
        /// The option, as it is written on the command line.
        option: &'static str,
    },
    /// A Run was given more than once.
    #[error("{} is given twice (also as {}); each Run counts once", .path.display(), .first.display())]
    Twice {
        /// The path.
        path: PathBuf,
        /// Under which other name.
        first: PathBuf,
    },
    /// The sides of a comparison are unlike.
    #[error(
        "these Runs are unlike, and a difference between them would not be one of the systems:\n{reasons}\nadd --anyway to compare them all the same"
    )]
    Unlike {
        /// A line for each reason.
        reasons: String,
    },
}
