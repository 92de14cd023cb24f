// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why bytes are not taken for a result, and how much is read of them.

/// Files above this are not looked at.
pub const MAX_IMPORT_BYTES: u64 = 64 << 20;
/// More results than this are not read of one file.
pub(crate) const MOST_RESULTS: usize = 10_000;

/// Why bytes could not be taken for a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// No known tool writes this.
    #[error(
        "this is no result of cyclictest, signaltest, cyclicdeadline, oslat, jitterdebugger, rtla timerlat or osnoise hist, rteval, hackbench or sockperf, nor JSON of rt-tests; it begins with \"{begins}\""
    )]
    Unknown {
        /// The first line, shortened.
        begins: String,
    },
    /// It is of a known tool, but does not say what it should.
    #[error("a result of {tool} in which {what}")]
    Malformed {
        /// The tool.
        tool: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A number of it is none, or none that can be.
    #[error("a result of {tool} in which line {line} has \"{value}\", {why}")]
    Number {
        /// The tool.
        tool: &'static str,
        /// The line, counted from 1.
        line: usize,
        /// What stands there, shortened.
        value: String,
        /// What it is instead of a number.
        why: &'static str,
    },
    /// One of several results is not read, and so none is.
    #[error("result {number} of {of}, from line {line} on: {source}")]
    OneOfSeveral {
        /// Which, counted from 1.
        number: usize,
        /// How many there are.
        of: usize,
        /// Where it begins, counted from 1.
        line: usize,
        /// What is wrong with it.
        source: Box<ImportError>,
    },
    /// It is too large for a result.
    #[error("{found} bytes, and at most {MAX_IMPORT_BYTES} are read")]
    TooLarge {
        /// How many bytes it has.
        found: u64,
    },
    /// It has more results than anybody measures.
    #[error("{found} results, and at most {MOST_RESULTS} are read of one file; split it")]
    TooMany {
        /// How many it has.
        found: usize,
    },
}
