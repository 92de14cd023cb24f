// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something is not changed or undone.

use std::io;
use std::path::PathBuf;

use latebound_model::Tid;

use super::schedule::Schedule;

/// Why something could not be changed or undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// The journal cannot be made, written or read: nothing is changed then.
    #[error("the undo journal {}: {step} failed: {source}; nothing is changed without one{}", path.display(), remedy(source))]
    Journal {
        /// The file.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// Somebody else may have made or changed the folder or the file: nothing in it is acted upon.
    #[error(
        "{} is not taken for an undo journal: {why}; nothing in it is acted upon. Look at it, then remove it, or name another folder \
         (--journal)",
        path.display()
    )]
    Untrusted {
        /// The folder or file.
        path: PathBuf,
        /// What speaks against it.
        why: String,
    },
    /// Another process changes priorities and writes them down in the same folder.
    #[error("{} is in use: process {process} changes priorities; end that first (Ctrl-C, or systemctl stop latebound-tune)", path.display())]
    InUse {
        /// Its journal.
        path: PathBuf,
        /// Its process, by the id that it has in its own PID namespace.
        process: Tid,
    },
    /// Its writer is gone, and its thread ids mean nothing in this PID namespace.
    #[error(
        "the undo journal {} was written in another PID namespace (a container), whose thread ids mean nothing here; run latebound tune \
         undo in that one, or remove it where that one is gone",
        .0.display()
    )]
    Elsewhere(PathBuf),
    /// The journal's lines are not what this version writes.
    #[error("the undo journal {} is not one that this version writes; look at it, then remove it", .0.display())]
    Foreign(PathBuf),
    /// The thread cannot be set.
    #[error("thread {thread} cannot be set to {to}: {source}; it stays {was}")]
    Refused {
        /// The thread.
        thread: Tid,
        /// What it is.
        was: Schedule,
        /// What it was to be.
        to: Schedule,
        /// What the system answered.
        source: io::Error,
    },
    /// The thread is gone, or another one has its id now.
    #[error("thread {0} is gone; nothing is to be changed")]
    Gone(Tid),
    /// The process that is to undo cannot be started.
    #[error("the watchdog cannot be started: {0}")]
    Watchdog(String),
    /// The kernel module that raises threads does not do what is asked of it.
    #[error("the module latebound_tune cannot be used: {0}")]
    Raiser(String),
}

/// What helps where a journal cannot be written.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; run as root",
        io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::QuotaExceeded => {
            "; give a folder with room (--journal)"
        }
        _ => "",
    }
}
