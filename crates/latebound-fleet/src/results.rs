// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of work on files, spread over many machines, as rows of a store: what was made of each file, or why nothing was.
//!
//! Owns where a result belongs and when two are the same. A result is committed as a Run is: it counts once, however often it is added. A
//! bound also becomes rows of the table of bounds. Reads no file and no clock.

use std::sync::Arc;

use latebound_model::{Bound, RunState};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::add::{AddDocument, NewRuns};
use crate::error::FleetError;
use crate::log::RESULT_PREFIX;
use crate::partition::{Day, Partition};
use crate::rows::{Kept, NewInterval, bound_rows, hex, word};
use crate::store::Store;
use crate::tables::{ResultRow, Rows};

/// The host of a result where neither its file nor the caller names one.
pub const UNKNOWN_HOST: &str = "unknown";

/// The kind of work whose results are bounds.
const BOUND: &str = "bound";

/// The result of work on one file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NewResult {
    /// The work: `bound`, `explain`, `compare`.
    pub kind: String,
    /// The file, by the name that it was given.
    pub file: String,
    /// SHA-256 of its bytes; `None` where it could not be read.
    pub sha256: Option<String>,
    /// The host that it is of; [`UNKNOWN_HOST`] where nobody knows.
    pub host: Option<String>,
    /// Since when: the start of a Run, the time of another file.
    pub start_us: i64,
    /// When the result was made.
    pub made_us: i64,
    /// What the work was asked for with, as JSON.
    pub options: String,
    /// Why there is no document.
    pub error: Option<String>,
    /// How long it took.
    pub took_us: i64,
    /// The version of what made it.
    pub tool_version: String,
    /// The document, as JSON.
    pub document: Option<String>,
}

impl NewResult {
    fn host(&self) -> &str {
        self.host.as_deref().unwrap_or(UNKNOWN_HOST)
    }

    /// Tells it from every other. The same file by the same version gives the same; a failure and a success differ, so that a later success
    /// counts beside an earlier failure.
    fn id(&self) -> String {
        let mut hash = Sha256::new();
        let file = self.sha256.as_deref().unwrap_or(&self.file);
        let outcome = if self.error.is_some() { "failed" } else { "made" };
        for part in [self.host(), &self.kind, file, &self.file, &self.options, &self.tool_version, outcome] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        format!("{RESULT_PREFIX}{}", hex(&hash.finalize()[..16]))
    }

    fn into_interval(self) -> Result<NewInterval<'static>, FleetError> {
        let no_time = || FleetError::NoTime {
            source_name: self.file.clone(),
            found: format!("{} us since 1970", self.start_us),
        };
        let partition = Partition::new(Day::of(self.start_us).ok_or_else(no_time)?, self.host())?;
        let bound: Option<Bound> = match &self.document {
            // What is no such document stays a result; it has no bound.
            Some(document) if self.kind == BOUND => serde_json::from_str(document).ok(),
            _ => None,
        };
        let mut rows = Rows::default();
        if let Some(bound) = &bound {
            rows.bounds = bound_rows(&partition, self.start_us, &self.file, bound)?;
        }
        let chosen = || rows.bounds.iter().filter(|row| row.chosen).map(|row| row.bound_ns);
        // Where one CPU has no bound, there is none for all.
        let bound_ns = chosen().collect::<Option<Vec<i64>>>().and_then(|all| all.into_iter().max());
        let text = |text: &Option<String>| text.as_deref().map(Arc::from);
        rows.results.push(ResultRow {
            day: partition.day.number(),
            host: partition.host.as_str().into(),
            start_us: self.start_us,
            made_us: self.made_us,
            kind: self.kind.as_str().into(),
            file: self.file.as_str().into(),
            sha256: text(&self.sha256),
            options: self.options.as_str().into(),
            error: text(&self.error),
            took_us: self.took_us,
            verdict: bound.map(|bound| word(bound.verdict)),
            bound_ns,
            tool_version: self.tool_version.as_str().into(),
            document: text(&self.document),
        });
        let (id, start_us) = (self.id(), self.start_us);
        let state = RunState::Complete;
        Ok(NewInterval {
            partition,
            id,
            state,
            start_us,
            end_us: start_us,
            source: self.file,
            kept: Kept::Rows(Box::new(rows)),
        })
    }
}

impl Store {
    /// Adds results: each counts once, however often it is added. One commit for each day and host.
    pub fn add_results(&self, results: Vec<NewResult>) -> Result<AddDocument, FleetError> {
        let mut new = NewRuns::new();
        for result in results {
            new.put(result.into_interval()?);
        }
        self.add(new)
    }
}
