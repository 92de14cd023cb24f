// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of other tools as Runs: bytes in, a [`Run`] out for each result that they hold.
//!
//! Owns what each tool's numbers mean: which of them count every period and which only every wake-up, what their
//! histograms leave out, what the tool was told to do, and what its files do not say. A Run made here says all of that in
//! `settings`, `losses` and `missing`. Never opens a file; never panics, whatever the bytes are; never invents a value: where
//! a tool printed a maximum and no distribution, the Run has the maximum and no distribution, and what is no number is an
//! error.

mod build;
mod cyclictest;
mod hackbench;
mod json;
mod number;
mod options;
mod oslat;
mod rteval;
mod rtla;
mod sockperf;
mod split;

use latebound_model::Run;

use split::{Kind, Part};

/// Files above this are not looked at.
pub const MAX_IMPORT_BYTES: u64 = 64 << 20;
/// More results than this are not read of one file.
const MOST_RESULTS: usize = 10_000;

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

/// Makes Runs of what other tools wrote, one of each result in the bytes, in their order; which tool is told by the content.
/// Never empty. Where one result cannot be read, none is returned.
pub fn import(bytes: &[u8]) -> Result<Vec<Run>, ImportError> {
    if bytes.len() as u64 > MAX_IMPORT_BYTES {
        return Err(ImportError::TooLarge { found: bytes.len() as u64 });
    }
    let text = String::from_utf8_lossy(bytes);
    let text = plain(&text);
    let parts = split::split(&text);
    match parts.as_slice() {
        [] => {
            let begins: String =
                text.trim_start().lines().next().unwrap_or_default().chars().take(60).collect();
            Err(ImportError::Unknown { begins: begins.escape_debug().to_string() })
        }
        [one] => Ok(vec![one_result(*one)?]),
        several if several.len() > MOST_RESULTS => Err(ImportError::TooMany { found: several.len() }),
        several => {
            let of = several.len();
            let run = |(part, number): (&Part<'_>, usize)| {
                one_result(*part).map_err(|source| ImportError::OneOfSeveral {
                    number,
                    of,
                    line: part.first,
                    source: Box::new(source),
                })
            };
            several.iter().zip(1..).map(run).collect()
        }
    }
}

fn one_result(part: Part<'_>) -> Result<Run, ImportError> {
    match part.kind {
        Kind::Json => json::import(part),
        Kind::Rteval => rteval::import(part),
        Kind::Timerlat => rtla::import(part, rtla::Tool::Timerlat),
        Kind::Osnoise => rtla::import(part, rtla::Tool::Osnoise),
        Kind::Oslat => oslat::import(part),
        Kind::Cyclictest => cyclictest::import(part),
        Kind::Hackbench => hackbench::import(part),
        Kind::Sockperf => sockperf::import(part),
    }
}

/// The text without the colours and other sequences that some tools write even into files.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |at| at + 1);
        rest = &after[end..];
    }
    out + rest
}
