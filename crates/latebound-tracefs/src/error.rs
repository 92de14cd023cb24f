// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why the kernel's trace buffers cannot be used.

use std::io;
use std::path::PathBuf;

/// What to type where tracefs is not mounted.
pub(crate) const MOUNT: &str = "mount -t tracefs tracefs /sys/kernel/tracing";

/// Why the kernel's trace buffers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// It is nowhere.
    #[error(
        "tracefs is neither at /sys/kernel/tracing nor at /sys/kernel/debug/tracing; type: {MOUNT} (it takes CONFIG_FTRACE)"
    )]
    NotMounted,
    /// This process may not use it.
    #[error("{} may not be used ({source}); run as root, on a kernel that is not locked down", path.display())]
    NotAllowed {
        /// What was tried.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of it cannot be read or written.
    #[error("cannot {what} {} ({source})", path.display())]
    File {
        /// What was to be done: `read`, `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Its descriptions are not understood.
    #[error("{} is not understood: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The clock cannot be chosen.
    #[error("the instance has the clock {found:?} and not mono, which Linux has since 3.17")]
    Clock {
        /// What it has.
        found: String,
    },
    /// None of the events is there.
    #[error("this kernel has none of the events {0}; boot a kernel with CONFIG_EVENT_TRACING")]
    NoEvents(String),
}

impl TracefsError {
    /// An error of a file, by what it means.
    pub(crate) fn of(what: &'static str, path: PathBuf, source: io::Error) -> TracefsError {
        match source.kind() {
            io::ErrorKind::PermissionDenied => TracefsError::NotAllowed { path, source },
            _ => TracefsError::File { what, path, source },
        }
    }
}
