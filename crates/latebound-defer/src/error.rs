// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a run could not be had: what failed, the value met, what to type next.

use std::io;

use latebound_module::ModuleError;
use latebound_probe::ProbeError;

/// Why a run could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeferError {
    /// The module is not loaded.
    #[error(
        "/dev/latebound_defer is not there: the kernel module latebound_defer is not loaded; load it (modprobe latebound_defer \
         with the Debian package latebound-dkms, or make -C kmod && insmod kmod/latebound_defer.ko), or run in the lab: \
         latebound lab run --kernel debian:6.12 --module latebound_defer -- defer run; \
         `latebound defer run --by bpf` does without it"
    )]
    NoModule,
    /// The module cannot be used for another reason.
    #[error(transparent)]
    Module(ModuleError),
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

impl From<ModuleError> for DeferError {
    /// Without the module there is another way, which is said too.
    fn from(error: ModuleError) -> DeferError {
        match error {
            ModuleError::NotLoaded { .. } => DeferError::NoModule,
            other => DeferError::Module(other),
        }
    }
}
