// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a trace cannot be read at all. What is wrong inside a trace that can be read is a [`crate::Discontinuity`], and counted.

use std::io;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file is empty.
    #[error("the file is empty; record it again, for example with trace-cmd record")]
    Empty,
    /// It is not a trace of a kind that is known.
    #[error(
        "not a trace: the file begins with \"{found}\"; known are trace.dat (trace-cmd record), perf.data (perf record) and the text of /sys/kernel/tracing/trace or trace-cmd report"
    )]
    UnknownKind {
        /// The first bytes, escaped.
        found: String,
    },
    /// A trace.dat of a version that is not known.
    #[error(
        "trace.dat version {found:?} is not known, only 6 and 7; convert it with trace-cmd convert --file-version 7"
    )]
    UnknownVersion {
        /// The version in the file.
        found: String,
    },
    /// The file ends inside something that is needed.
    #[error(
        "the file ends early: {part} needs {needed} bytes at offset {offset}, the file has {length}; copy or record it again"
    )]
    Truncated {
        /// What is cut off.
        part: &'static str,
        /// Where it stands.
        offset: u64,
        /// How many bytes it needs.
        needed: u64,
        /// How many bytes the file has.
        length: u64,
    },
    /// A size in the file is absurd.
    #[error(
        "{part} at offset {offset} claims {size}, more than the {limit} that can be right; the file is damaged"
    )]
    TooLarge {
        /// What claims it.
        part: &'static str,
        /// Where it stands.
        offset: u64,
        /// The size it claims.
        size: u64,
        /// The largest that is believed.
        limit: u64,
    },
    /// Two statements of the file contradict each other.
    #[error("{part} at offset {offset}: {why}; the file is damaged or of a kind that is not known")]
    Inconsistent {
        /// Where in the file's structure.
        part: &'static str,
        /// Where in bytes.
        offset: u64,
        /// What was met.
        why: String,
    },
    /// Compressed by something that is not known.
    #[error(
        "the trace is compressed with {found:?}, known are zstd, zlib and none; convert it with trace-cmd convert --compression none"
    )]
    UnknownCompression {
        /// The name in the file.
        found: String,
    },
    /// Compressed data of the file's own description does not decompress.
    #[error(
        "{part} at offset {offset} does not decompress ({why}); the file is damaged, copy or record it again"
    )]
    Decompress {
        /// What does not.
        part: &'static str,
        /// Where it stands.
        offset: u64,
        /// What the decompressor said.
        why: String,
    },
    /// The trace has no buffer of this name.
    #[error("the trace has no instance {name:?}; it has {known}")]
    NoSuchInstance {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A trace that holds text where ring-buffer pages were expected.
    #[error(
        "the trace holds a latency tracer's text, not events; take the text out with trace-cmd report FILE > FILE.txt and read that"
    )]
    LatencyText,
    /// A perf.data file that its reader refuses.
    #[error("perf.data: {why}; record it again with perf record -a -e EVENTS")]
    Perf {
        /// What its reader said.
        why: String,
    },
    /// A perf.data file without what is needed.
    #[error("perf.data: {what} is missing; {remedy}")]
    PerfMissing {
        /// What is missing.
        what: &'static str,
        /// What to type.
        remedy: &'static str,
    },
    /// The bytes could not be had.
    #[error("{part} cannot be read at offset {offset}: {source}")]
    Read {
        /// What was wanted.
        part: &'static str,
        /// Where.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
}
