// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a run could not be had: what failed, the value met, what to type next.

use std::io;

use latebound_probe::ProbeError;

use crate::device::PATH;

/// Why a run could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeferError {
    /// The module is not loaded.
    #[error(
        "{PATH} is not there: the kernel module latebound_defer is not loaded; build and load it (make -C kmod && \
         insmod kmod/latebound_defer.ko), or run in the lab: latebound lab run --kernel debian:6.12 --module \
         latebound_defer -- defer run; `latebound defer run --by bpf` does without it"
    )]
    NoModule,
    /// Somebody else measures.
    #[error("{PATH} is in use: one run at a time; wait for the other one")]
    Busy,
    /// The module is of another version.
    #[error(
        "the module latebound_defer speaks version {found} and this program version {ours}; build the module anew \
         (make -C kmod) and load it"
    )]
    Version {
        /// What the module said.
        found: u32,
        /// What this program speaks.
        ours: u32,
    },
    /// The module refused a part of the plan.
    #[error(
        "the module refused {what} ({source}); see `latebound defer run --help` for what can be combined"
    )]
    Refused {
        /// Which part.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Programs could not be had, or did not answer.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A system call failed.
    #[error("{doing} failed: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A word is not the name of something.
    #[error("\"{word}\" is not a {what}; write one of {names}")]
    Unknown {
        /// What it should be.
        what: &'static str,
        /// What was written.
        word: String,
        /// What can be written.
        names: String,
    },
}
