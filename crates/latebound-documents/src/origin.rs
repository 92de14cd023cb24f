// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a file comes from: the host that a Run or a saved trace names, and its time.

use std::path::Path;
use std::time::UNIX_EPOCH;

use latebound_trace::TraceFile;

use crate::error::DocumentError;

/// Where a file comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The host, where the file names it.
    pub host: Option<String>,
    /// The start of a Run as it has it (RFC 3339); `None` for other files.
    pub started_at: Option<String>,
    /// When the file was last changed, in microseconds since 1970.
    pub changed_us: i64,
}

/// Where this Run or trace comes from. What the file does not tell is not there; an error where there is no such file.
pub fn origin(path: &Path) -> Result<Origin, DocumentError> {
    let open = |source| DocumentError::Read { path: path.to_owned(), source };
    let changed = std::fs::metadata(path).and_then(|metadata| metadata.modified()).map_err(open)?;
    let since = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    let nothing = Origin { host: None, started_at: None, changed_us };
    if path.is_dir() || path.extension().is_some_and(|extension| extension == "json") {
        let Ok(run) = latebound_store::read_run(path) else { return Ok(nothing) };
        return Ok(Origin { host: run.system.hostname, started_at: Some(run.started_at), changed_us });
    }
    let Ok(trace) =
        latebound_files::open(path).map_err(drop).and_then(|file| TraceFile::open(file).map_err(drop))
    else {
        return Ok(nothing);
    };
    // trace-cmd writes system, host, release and machine.
    let host =
        trace.uname().and_then(|uname| uname.split_whitespace().nth(1)).filter(|host| *host != "(none)");
    Ok(Origin { host: host.map(str::to_owned), ..nothing })
}
