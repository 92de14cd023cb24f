// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound report`: a Run that is there already, as text, as a page or as JSON.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use latebound_report::{html, terminal};

use crate::cli::ReportArgs;
use crate::outcome::Outcome;
use crate::output::Output;

pub(crate) fn run(args: &ReportArgs, output: &Output) -> Result<Outcome> {
    let run = latebound_store::read_run(&args.run)?;
    if output.is_json() && (args.html.is_some() || args.pictures.is_some()) {
        bail!("--format json prints the Run and --html or --pictures draws it; give one of them");
    }
    if let Some(folder) = &args.pictures {
        write_pictures(html::pictures(&run), folder)?;
        return Ok(Outcome::Done);
    }
    match &args.html {
        Some(file) if file.as_os_str() == "-" => output.text(&html::page(&run))?,
        Some(file) => {
            latebound_files::write(file, html::page(&run)).with_context(|| {
                format!("cannot write {}; name a file in a folder that is there", file.display())
            })?;
        }
        None if output.is_json() => output.json(&run)?,
        // What was saved of something late, or acted on it, is about that.
        None if run.stretch.is_some() || run.on_late.is_some() => {
            output.text(&terminal::explained(&run, &output.style()))?;
        }
        None => output.text(&terminal::check_summary(&run, None, &output.style()))?,
    }
    Ok(Outcome::Done)
}

/// `1.svg`, `2.svg`, … in the page's order.
pub(crate) fn write_pictures(pictures: Vec<html::Picture>, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for picture in pictures {
        let path = folder.join(format!("{}.svg", picture.number));
        latebound_files::write(&path, picture.svg)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
