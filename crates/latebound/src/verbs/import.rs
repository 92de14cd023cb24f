// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound import`: another tool's results as a Run; and reading what may be either.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use latebound_import::MAX_IMPORT_BYTES;
use latebound_model::Run;
use latebound_report::{html, terminal};
use latebound_store::RunFolder;

use crate::Outcome;
use crate::cli::ImportArgs;
use crate::output::Output;

pub(crate) fn run(args: &ImportArgs, output: &Output) -> Result<Outcome> {
    let run = foreign(&args.file)?;
    if let Some(folder) = &args.output {
        RunFolder::create(folder, args.force)?.finish_with(&run, |run| Some(html::page(run)))?;
    }
    match output.is_json() {
        true => output.json(&run)?,
        false => output.text(&terminal::check_summary(&run, None, &output.style()))?,
    }
    Ok(Outcome::Done)
}

/// The Run in a folder or in its `run.json`; of any other file, what another tool wrote there.
pub(crate) fn read(path: &Path) -> Result<Run> {
    let is_run = path.is_dir() || path.file_name().is_some_and(|name| name == latebound_store::RUN_FILE);
    if is_run { Ok(latebound_store::read_run(path)?) } else { foreign(path) }
}

fn foreign(path: &Path) -> Result<Run> {
    let mut bytes = Vec::new();
    latebound_files::open(path)
        .and_then(|file| file.take(MAX_IMPORT_BYTES + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    latebound_import::import(&bytes).with_context(|| format!("cannot import {}", path.display()))
}
