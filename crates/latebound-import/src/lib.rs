// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of other tools as Runs: bytes in, a [`Run`] out.
//!
//! Owns what each tool's numbers mean: which of them count every period and which only every wake-up, what their
//! histograms leave out, and what their files do not say. A Run made here says all of that in `losses` and `missing`.
//! Never opens a file; never panics, whatever the bytes are; never invents a value: where a tool printed a maximum and no
//! distribution, the Run has the maximum and no distribution.

mod build;
mod cyclictest;
mod hackbench;
mod json;
mod rteval;
mod rtla;
mod sockperf;

use latebound_model::Run;

/// Files above this are not looked at.
pub const MAX_IMPORT_BYTES: u64 = 64 << 20;

/// Why bytes could not be taken for a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// No known tool writes this.
    #[error(
        "this is no result of cyclictest, oslat, jitterdebugger, rtla timerlat or osnoise hist, rteval, hackbench or sockperf; it begins with \"{begins}\""
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
    /// It is too large for a result.
    #[error("{found} bytes, and at most {MAX_IMPORT_BYTES} are read")]
    TooLarge {
        /// How many bytes it has.
        found: u64,
    },
}

/// Makes a Run of what another tool wrote; which tool is told by the content.
pub fn import(bytes: &[u8]) -> Result<Run, ImportError> {
    if bytes.len() as u64 > MAX_IMPORT_BYTES {
        return Err(ImportError::TooLarge { found: bytes.len() as u64 });
    }
    let text = String::from_utf8_lossy(bytes);
    let text = plain(&text);
    let start = text.trim_start();
    if start.starts_with('{') {
        return json::import(start);
    }
    if start.starts_with("<?xml") || start.starts_with("<rteval") {
        return rteval::import(start);
    }
    let has = |what: &str| text.lines().any(|line| line.trim_start().starts_with(what));
    if has("# RTLA timerlat histogram") {
        rtla::import(&text, rtla::Tool::Timerlat)
    } else if has("# RTLA osnoise histogram") {
        rtla::import(&text, rtla::Tool::Osnoise)
    } else if has("Counter Freq:") {
        json::oslat_text(&text)
    } else if has("# Total:") || has("T:") || text.lines().any(cyclictest::is_value) {
        cyclictest::import(&text)
    } else if has("Running in ") && has("Time:") {
        hackbench::import(&text)
    } else if has("sockperf:") {
        sockperf::import(&text)
    } else {
        let begins: String = start.lines().next().unwrap_or_default().chars().take(60).collect();
        Err(ImportError::Unknown { begins: begins.escape_debug().to_string() })
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
