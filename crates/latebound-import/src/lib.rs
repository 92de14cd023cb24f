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
mod error;
mod hackbench;
mod json;
mod number;
mod options;
mod oslat;
mod rteval;
mod rtla;
mod sockperf;
mod split;

pub use error::{ImportError, MAX_IMPORT_BYTES};

use latebound_model::Run;

use error::MOST_RESULTS;
use split::{Kind, Part};

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
