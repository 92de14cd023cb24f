// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound report`: a Run that is there already, as text, as a page or as JSON.

use std::fs;

use anyhow::{Context, Result};
use latebound_report::{html, terminal};

use crate::Outcome;
use crate::cli::ReportArgs;
use crate::output::Output;

pub(crate) fn run(args: &ReportArgs, output: &Output) -> Result<Outcome> {
    let run = latebound_store::read_run(&args.run)?;
    match &args.html {
        Some(file) if file.as_os_str() == "-" => output.text(&html::page(&run))?,
        Some(file) => {
            fs::write(file, html::page(&run)).with_context(|| format!("cannot write {}", file.display()))?;
        }
        None if output.is_json() => output.json(&run)?,
        None => output.text(&terminal::check_summary(&run, None, &output.style()))?,
    }
    Ok(Outcome::Done)
}
