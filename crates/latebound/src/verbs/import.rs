// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound import`: other tools' results as Runs.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use latebound_import::MAX_IMPORT_BYTES;
use latebound_model::Run;
use latebound_report::{html, terminal};
use latebound_store::RunFolder;

use crate::cli::ImportArgs;
use crate::outcome::Outcome;
use crate::output::Output;

pub(crate) fn run(args: &ImportArgs, output: &Output) -> Result<Outcome> {
    let runs = foreign(&args.file)?;
    if let Some(folder) = &args.output {
        let paths = folders(folder, runs.len());
        // All of them, so that nothing is written where one may not be.
        let prepared = paths
            .iter()
            .map(|path| Ok(RunFolder::create(path, args.force)?))
            .collect::<Result<Vec<RunFolder>>>()?;
        for (folder, run) in prepared.into_iter().zip(&runs) {
            folder.finish_with(run, |run| Some(html::page(run)))?;
        }
        if let ([first, .., last], false) = (paths.as_slice(), output.is_json()) {
            output.note(&format!("{} results: {} to {}", paths.len(), first.display(), last.display()));
        }
    }
    let of = runs.len();
    for (run, number) in runs.iter().zip(1..) {
        if output.is_json() {
            output.json(run)?;
            continue;
        }
        let which = (of > 1).then(|| format!("Result {number} of {of}"));
        if number > 1 {
            output.text("\n")?;
        }
        output.text(&terminal::imported(run, which.as_deref(), &output.style()))?;
    }
    Ok(Outcome::Done)
}

/// A folder for each of so many Runs: `a.run`, or `a.1.run` and `a.2.run`, with as many digits as the last needs, so that their
/// names sort in their order.
fn folders(folder: &Path, count: usize) -> Vec<PathBuf> {
    if count == 1 {
        return vec![folder.to_owned()];
    }
    let digits = count.to_string().len();
    let numbered = |number: usize| {
        let mut name = folder.file_stem().unwrap_or_default().to_owned();
        name.push(format!(".{number:0digits$}"));
        if let Some(extension) = folder.extension() {
            name.push(".");
            name.push(extension);
        }
        folder.with_file_name(name)
    };
    (1..=count).map(numbered).collect()
}

fn foreign(path: &Path) -> Result<Vec<Run>> {
    if path.as_os_str() != "-" {
        return Ok(latebound_documents::import(path)?);
    }
    let mut bytes = Vec::new();
    let limit = MAX_IMPORT_BYTES + 1;
    io::stdin().lock().take(limit).read_to_end(&mut bytes).context("cannot read standard input")?;
    latebound_import::import(&bytes).context("cannot import standard input")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_runs_has_a_folder_that_sorts() {
        let names = |count| -> Vec<String> {
            folders(Path::new("x/a.run"), count).iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(names(1), ["x/a.run"]);
        assert_eq!(names(2), ["x/a.1.run", "x/a.2.run"]);
        assert_eq!(names(10)[0], "x/a.01.run");
        assert_eq!(folders(Path::new("a"), 2)[1], Path::new("a.2"));
    }
}
