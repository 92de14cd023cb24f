// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound compare`: did it get better, by how much, and how sure is that.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use latebound_compare::{Comparison, Options, Side, compare};
use latebound_report::html::{self, Distributions};
use latebound_report::terminal;

use crate::cli::{CompareArgs, CompareCommand};
use crate::outcome::Outcome;
use crate::output::Output;

pub(crate) fn run(args: &CompareArgs, output: &Output) -> Result<Outcome> {
    if let Some(CompareCommand::Preemption(args)) = &args.command {
        return super::preemption::run(args, output);
    }
    refuse_twice(args)?;
    let base = side("base", &args.sides.base)?;
    let others = args
        .sides
        .against
        .iter()
        .enumerate()
        .map(|(at, runs)| {
            let name = if at == 0 { "new".to_owned() } else { format!("new {}", at + 1) };
            side(&name, runs)
        })
        .collect::<Result<Vec<Side>>>()?;
    let options =
        Options { level: args.level, margin: args.margin, least_effect: args.least_effect, seed: args.seed };
    let mut comparison = compare(&base, &others, &options);
    if !args.anyway {
        refuse_unlike(&comparison)?;
    }
    comparison.rule(&args.fail_if)?;
    let sides: Vec<&Side> = std::iter::once(&base).chain(&others).collect();
    show(args, &comparison, &sides, output)?;
    Ok(if comparison.failed() { Outcome::LimitPassed } else { Outcome::Done })
}

/// Writes the files that were asked for, and prints the rest. A file `-` takes the place of the text.
fn show(args: &CompareArgs, comparison: &Comparison, sides: &[&Side], output: &Output) -> Result<()> {
    let page = || html::compare_page(comparison, &Distributions::common(sides));
    let junit = || latebound_report::junit(comparison);
    let markdown = || latebound_report::markdown(comparison);
    let files: [(&Option<PathBuf>, &dyn Fn() -> String); 3] =
        [(&args.html, &page), (&args.junit, &junit), (&args.markdown, &markdown)];
    let mut printed = false;
    for (file, text) in files {
        match file {
            Some(file) if file.as_os_str() == "-" => {
                if printed || output.is_json() {
                    bail!("standard output can take one document; name a file for the others");
                }
                printed = true;
                output.text(&text())?;
            }
            Some(file) => latebound_files::write(file, text()).with_context(|| {
                format!("cannot write {}; name a file in a folder that is there", file.display())
            })?,
            None => {}
        }
    }
    match output.is_json() {
        true => output.json(comparison),
        false if printed => Ok(()),
        false => output.text(&terminal::comparison(comparison, args.all, &output.style())),
    }
}

/// Reads each Run and keeps of it what is compared; a file of another tool may hold several.
fn side(name: &str, paths: &[PathBuf]) -> Result<Side> {
    let mut side = Side::new(name);
    for path in paths {
        let runs = super::import::read(path)?;
        let of = runs.len();
        for (run, number) in runs.iter().zip(1..) {
            let name = path.display();
            let name = if of > 1 { format!("{name}, result {number}") } else { name.to_string() };
            side.add(run, &name);
        }
    }
    Ok(side)
}

/// The same Run twice would count its chance events twice.
fn refuse_twice(args: &CompareArgs) -> Result<()> {
    let mut seen: HashMap<PathBuf, &Path> = HashMap::new();
    for path in args.sides.base.iter().chain(args.sides.against.iter().flatten()) {
        let place =
            fs::canonicalize(path).with_context(|| format!("cannot read a Run from {}", path.display()))?;
        if let Some(first) = seen.insert(place, path) {
            bail!("{} is given twice (also as {}); each Run counts once", path.display(), first.display());
        }
    }
    Ok(())
}

fn refuse_unlike(comparison: &Comparison) -> Result<()> {
    let reasons: Vec<String> = comparison
        .against
        .iter()
        .flat_map(|against| {
            against.unlike.iter().map(|why| format!("  {} against base: {why}", against.side.name))
        })
        .collect();
    if reasons.is_empty() {
        return Ok(());
    }
    bail!(
        "these Runs are unlike, and a difference between them would not be one of the systems:\n{}\nadd --anyway to compare them all the same",
        reasons.join("\n")
    )
}
