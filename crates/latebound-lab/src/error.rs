// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something in the lab failed: what was done, what was met, what to type next.

use std::io;
use std::path::{Path, PathBuf};

use crate::console::GuestEnd;

/// What can go wrong in the lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A kernel's name that means nothing.
    #[error(
        "\"{name}\" is not a kernel: {why}; give debian:6.12, debian:6.12-rt, debian:6.12@full, traced:6.12-rt, or the \
         path of a kernel image or of a built source tree (`latebound lab kernels` lists what can be had)"
    )]
    KernelName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// No package gives this kernel.
    #[error(
        "{package}: no such package in the lists of apt; type `apt-get update` and try again, or `latebound lab kernels`"
    )]
    NoPackage {
        /// The package, or what was looked for.
        package: String,
    },
    /// No suite that is looked in has a kernel of this version.
    #[error(
        "{package}: neither the lists of apt nor Debian's archive ({suites}) has it; there are {has}. Older versions leave the \
         archive in time: give one of these, or the path of a kernel image"
    )]
    NoKernel {
        /// The package that was looked for.
        package: String,
        /// The suites of the archive.
        suites: String,
        /// The series that there are.
        has: String,
    },
    /// Programs that are needed and not there.
    #[error("{purpose} needs {programs}; type: apt-get install -y --no-install-recommends {packages}")]
    MissingPrograms {
        /// What for.
        purpose: String,
        /// Which programs or headers.
        programs: String,
        /// The packages that have them.
        packages: String,
    },
    /// A program failed.
    #[error("{doing}: `{command}` {how}{output}")]
    Program {
        /// What it was run for.
        doing: String,
        /// The command line.
        command: String,
        /// How it ended.
        how: String,
        /// What it said last.
        output: String,
    },
    /// A file or folder could not be read, written or made.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// What a package or tool gave is not what it should be.
    #[error("{what}: {why}")]
    Unexpected {
        /// What was looked at.
        what: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// A machine that cannot be made.
    #[error("{0}")]
    Machine(String),
    /// The guest did not end well.
    #[error("the guest ended without a result: {end}\n{lines}(the whole console is in {console})")]
    Guest {
        /// What happened.
        end: GuestEnd,
        /// The last lines of the console, each ending in a newline.
        lines: String,
        /// Where the console log is.
        console: PathBuf,
    },
    /// The Run of the guest could not be read or put in its place.
    #[error(transparent)]
    Store(#[from] latebound_store::StoreError),
    /// It was asked to stop.
    #[error("stopped before it was done; type the same again, what was built or downloaded is kept")]
    Stopped,
}

impl LabError {
    /// For `map_err` on file operations.
    pub(crate) fn io<'a>(
        doing: &'static str,
        path: impl AsRef<Path> + 'a,
    ) -> impl FnOnce(io::Error) -> LabError + 'a {
        move |source| LabError::Io { doing, path: path.as_ref().to_owned(), source }
    }

    /// For files that do not hold what they should.
    pub(crate) fn unexpected(what: impl Into<String>, why: impl Into<String>) -> LabError {
        LabError::Unexpected { what: what.into(), why: why.into() }
    }
}
