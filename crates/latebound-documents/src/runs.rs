// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs by their name: those of latebound, and the results of other tools.

use std::io::Read;
use std::path::Path;

use latebound_import::MAX_IMPORT_BYTES;
use latebound_model::Run;

use crate::error::DocumentError;

/// The Run in a folder or in its `run.json`; of any other file, what other tools wrote there.
pub fn read_runs(path: &Path) -> Result<Vec<Run>, DocumentError> {
    let is_run = path.is_dir() || path.file_name().is_some_and(|name| name == latebound_store::RUN_FILE);
    if is_run { Ok(vec![latebound_store::read_run(path)?]) } else { import(path) }
}

/// What other tools wrote to a file, as Runs.
pub fn import(path: &Path) -> Result<Vec<Run>, DocumentError> {
    let mut bytes = Vec::new();
    latebound_files::open(path)
        .and_then(|file| file.take(MAX_IMPORT_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|source| DocumentError::Read { path: path.to_owned(), source })?;
    latebound_import::import(&bytes).map_err(|source| DocumentError::Import { path: path.to_owned(), source })
}
