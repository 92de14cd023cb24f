// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a Run back: every file is taken for one from elsewhere.
//!
//! Bad bytes give an error, never a panic, and no more memory than the limits below allow: about 16 bytes for a
//! byte of the file, and a histogram's counts (59 KiB at most) for a series.

use std::collections::HashSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use latebound_files::Folder;
use latebound_model::{Evidence, RUN_SCHEMA, Run, Verdict};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::RUN_FILE;
use crate::error::StoreError;

/// The largest `run.json` that is read or written, in bytes.
pub const MAX_RUN_BYTES: u64 = 64 << 20;

/// The most series that a Run may have. A series of a few bytes can ask for a histogram of 59 KiB.
pub const MAX_SERIES: usize = 1 << 14;

/// What is looked at first: only with the right schema do the other fields mean what they say.
#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// What is looked at before memory is asked for.
#[derive(Deserialize)]
struct Extent {
    // Counted, not kept: IgnoredAny has no size.
    #[serde(default)]
    series: Vec<IgnoredAny>,
}

/// Reads the Run in this folder, or in this `run.json`.
pub fn read_run(path: impl AsRef<Path>) -> Result<Run, StoreError> {
    let file = run_file(path.as_ref());
    let bytes = run_bytes(path.as_ref()).map_err(|source| StoreError::Read { path: file.clone(), source })?;
    parse_run(&bytes, &file)
}

/// The `run.json` that a path means.
fn run_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(RUN_FILE) } else { path.to_owned() }
}

/// Its bytes, no more than are told to be too many. In a folder no symbolic link is followed: who wrote it may be another.
fn run_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = match path.is_dir() {
        true => Folder::open(path)?.open_file(RUN_FILE.as_ref())?,
        false => latebound_files::open(path)?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_RUN_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a Run from the bytes of a `run.json`; `path` is only named in errors.
pub fn parse_run(bytes: &[u8], path: &Path) -> Result<Run, StoreError> {
    check_size(bytes.len(), "bytes", MAX_RUN_BYTES, path)?;
    let malformed = |source| StoreError::Malformed { path: path.to_owned(), source };
    let head: Head = serde_json::from_slice(bytes).map_err(malformed)?;
    if head.schema != RUN_SCHEMA {
        return Err(StoreError::OtherSchema { path: path.to_owned(), found: head.schema, known: RUN_SCHEMA });
    }
    let extent: Extent = serde_json::from_slice(bytes).map_err(malformed)?;
    check_size(extent.series.len(), "series", MAX_SERIES as u64, path)?;
    let mut run: Run = serde_json::from_slice(bytes).map_err(malformed)?;
    run.migrate();
    check(&run, path)?;
    Ok(run)
}

/// The bytes of a Run's `run.json`, if they could be read back.
#[cfg(feature = "write")]
pub(crate) fn encode_run(run: &Run, path: &Path) -> Result<Vec<u8>, StoreError> {
    check_size(run.series.len(), "series", MAX_SERIES as u64, path)?;
    check(run, path)?;
    let mut bytes =
        serde_json::to_vec(run).map_err(|source| StoreError::Malformed { path: path.to_owned(), source })?;
    bytes.push(b'\n');
    check_size(bytes.len(), "bytes", MAX_RUN_BYTES, path)?;
    Ok(bytes)
}

fn check_size(found: usize, unit: &'static str, limit: u64, path: &Path) -> Result<(), StoreError> {
    let found = found as u64;
    if found > limit {
        return Err(StoreError::TooLarge { path: path.to_owned(), found, limit, unit });
    }
    Ok(())
}

/// Whether the parts of a Run belong together, beyond what their types already demand.
fn check(run: &Run, path: &Path) -> Result<(), StoreError> {
    let contradiction = |why: String| StoreError::Inconsistent { path: path.to_owned(), why };
    let mut ids = HashSet::new();
    for series in &run.series {
        let (summary, histogram) = (&series.summary, &series.histogram);
        if !ids.insert(series.id.as_str()) {
            return Err(contradiction(format!("two series are called \"{}\"", series.id)));
        }
        // Another tool may have written its extremes and mean and kept no distribution.
        let without =
            histogram.count() == 0 && [summary.p50, summary.p99, summary.p99_9].iter().all(Option::is_none);
        if !without
            && (summary.count, summary.min, summary.max)
                != (histogram.count(), histogram.min(), histogram.max())
        {
            return Err(contradiction(format!(
                "the summary of \"{}\" counts {} values and its histogram {}, or their extremes differ",
                series.id,
                summary.count,
                histogram.count()
            )));
        }
    }
    for (worst, rank) in run.worst.iter().zip(1..) {
        if !worst.adds_up() {
            return Err(contradiction(format!(
                "the causes of worst activation {rank} ({}, {}) do not add up to its latency, or its spans leave gaps",
                worst.task.comm,
                worst.length()
            )));
        }
    }
    for cpu in run.bound.iter().flat_map(|bound| &bound.cpus) {
        let parts = [cpu.poid.max(cpu.dst), cpu.paie, cpu.psd];
        let sum = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.0));
        if sum != Some(cpu.interference_free.0) {
            return Err(contradiction(format!(
                "the blocking of CPU {} is said to be {} ns, which its parts do not add up to",
                cpu.cpu, cpu.interference_free.0
            )));
        }
    }
    if let Some(bound) = &run.bound
        && bound.verdict == Verdict::Bound
        && !(bound.reasons.is_empty() && bound.evidence == Evidence::Bound)
    {
        return Err(contradiction("it speaks of a bound and holds reasons why it is none".to_owned()));
    }
    // A reader may open these names, so they must stay within the folder.
    if let Some(table) =
        run.tables.iter().find(|t| t.file.is_empty() || t.file.contains('/') || t.file == "..")
    {
        return Err(contradiction(format!(
            "\"{}\" is not the name of a file in the Run's folder",
            table.file
        )));
    }
    Ok(())
}
