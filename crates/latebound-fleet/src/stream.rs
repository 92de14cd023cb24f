// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs on their way to a store on another machine, as one stream of bytes.
//!
//! Owns that a stream that was cut is never taken for a whole one, and what a reader may take: every stream is one from elsewhere. A line of
//! JSON says what follows: the schema first, then each Run with its length and its bytes, and the number of Runs at the end. Nothing in a
//! stream is used as a path.

use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use latebound_model::Run;
use latebound_store::{MAX_RUN_BYTES, parse_run};
use serde::{Deserialize, Serialize};

use crate::add::NewRuns;
use crate::error::FleetError;

/// The schema of a stream.
const SCHEMA: &str = "runs/1";

/// A stream has at most so many Runs, and so many bytes of them.
const MOST_RUNS: u64 = 1000;
const MOST_BYTES: u64 = 256 << 20;

/// The longest line.
const MOST_LINE: u64 = 1 << 16;

/// A line of a stream.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    /// The first one.
    Schema(String),
    /// A Run follows, in so many bytes. It is of this host, where one is named.
    Run {
        source: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        bytes: u64,
    },
    /// The last one, with the number of Runs.
    End(u64),
}

/// Runs that are to be sent.
#[derive(Debug)]
pub struct RunStream {
    bytes: Vec<u8>,
    runs: u64,
}

impl Default for RunStream {
    fn default() -> RunStream {
        let mut stream = RunStream { bytes: Vec::new(), runs: 0 };
        stream.line(&Line::Schema(SCHEMA.to_owned()));
        stream
    }
}

impl RunStream {
    /// One more Run, which is called `source`; `host` is used in place of the name of the host in the Run.
    pub fn push(&mut self, run: &Run, source: &str, host: Option<&str>) -> Result<(), FleetError> {
        let bytes = serde_json::to_vec(run).map_err(|error| wrong(error.to_string()))?;
        let (source, host) = (source.to_owned(), host.map(str::to_owned));
        self.line(&Line::Run { source, host, bytes: bytes.len() as u64 });
        self.bytes.extend(bytes);
        self.runs += 1;
        Ok(())
    }

    /// How many Runs it has.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The whole stream.
    pub fn finish(mut self) -> Vec<u8> {
        self.line(&Line::End(self.runs));
        self.bytes
    }

    fn line(&mut self, line: &Line) {
        // These lines hold nothing that JSON has not, and memory takes all.
        let _ = serde_json::to_writer(&mut self.bytes, line);
        let _ = self.bytes.write_all(b"\n");
    }
}

impl NewRuns<'static> {
    /// Takes all Runs of a stream; `host` is used in place of the name of the host in the Runs and in the stream.
    pub fn from_stream(mut stream: impl BufRead, host: Option<&str>) -> Result<NewRuns<'static>, FleetError> {
        let read = |error: io::Error| wrong(error.to_string());
        let (mut runs, mut taken, mut all) = (NewRuns::new(), 0, 0);
        match line(&mut stream)? {
            Line::Schema(schema) if schema == SCHEMA => {}
            Line::Schema(schema) => {
                let found: String = schema.chars().take(80).collect();
                let found = found.escape_debug();
                return Err(wrong(format!(
                    "they have the schema \"{found}\", and this latebound reads \"{SCHEMA}\""
                )));
            }
            _ => return Err(wrong("they do not begin with their schema".to_owned())),
        }
        loop {
            match line(&mut stream)? {
                Line::Run { source, host: of, bytes } => {
                    taken += 1;
                    all += bytes.min(MOST_BYTES);
                    if bytes > MAX_RUN_BYTES || all > MOST_BYTES || taken > MOST_RUNS {
                        return Err(wrong(format!(
                            "they are more than {MOST_RUNS} Runs or {MOST_BYTES} bytes, or one has more than {MAX_RUN_BYTES} bytes"
                        )));
                    }
                    // Memory is asked for as bytes arrive.
                    let mut run = Vec::new();
                    stream.by_ref().take(bytes).read_to_end(&mut run).map_err(read)?;
                    if run.len() as u64 != bytes {
                        return Err(wrong(format!("Run {taken} is cut")));
                    }
                    let run =
                        parse_run(&run, Path::new(&source)).map_err(|error| wrong(error.to_string()))?;
                    runs.push(&run, &source, host.or(of.as_deref()))?;
                }
                Line::End(runs_sent) if runs_sent == taken => break,
                Line::End(sent) => return Err(wrong(format!("{sent} were sent and {taken} arrived"))),
                Line::Schema(_) => return Err(wrong("a second stream follows the first".to_owned())),
            }
        }
        match stream.read(&mut [0]).map_err(read)? {
            0 => Ok(runs),
            _ => Err(wrong("something follows their end".to_owned())),
        }
    }
}

fn line(stream: &mut impl BufRead) -> Result<Line, FleetError> {
    let mut text = Vec::new();
    stream.take(MOST_LINE).read_until(b'\n', &mut text).map_err(|error| wrong(error.to_string()))?;
    if text.last() != Some(&b'\n') {
        return Err(wrong("they end too early, or a line is too long".to_owned()));
    }
    serde_json::from_slice(&text).map_err(|error| wrong(format!("a line is none of such a stream: {error}")))
}

/// What is wrong. It may quote the stream, which steers no terminal.
fn wrong(why: String) -> FleetError {
    let shown = |character: char| match character.is_control() {
        true => character.escape_debug().to_string(),
        false => character.to_string(),
    };
    FleetError::Stream { why: why.chars().map(shown).collect() }
}
