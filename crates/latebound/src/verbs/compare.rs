// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound compare`: did it get better, by how much, and how sure is that.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use latebound_compare::{Comparison, Family, Options, RunFacts, Side, VerdictWord, compare};
use latebound_report::terminal;

use crate::Outcome;
use crate::cli::CompareArgs;
use crate::output::Output;

pub(crate) fn run(args: &CompareArgs, output: &Output) -> Result<Outcome> {
    refuse_twice(args)?;
    let base = side("base".to_owned(), &args.sides.base)?;
    let others = args
        .sides
        .against
        .iter()
        .enumerate()
        .map(|(at, runs)| {
            let name = if at == 0 { "new".to_owned() } else { format!("new {}", at + 1) };
            side(name, runs)
        })
        .collect::<Result<Vec<Side>>>()?;
    let options = Options { level: args.level, margin: args.margin, seed: args.seed };
    let comparison = compare(&base, &others, &options);
    if !args.anyway {
        refuse_unlike(&comparison)?;
    }
    match output.is_json() {
        true => output.json(&comparison)?,
        false => output.text(&terminal::comparison(&comparison, args.all, &output.style()))?,
    }
    let worse = comparison
        .against
        .iter()
        .flat_map(|against| &against.measures)
        .any(|measure| measure.family == Family::Main && measure.verdict == VerdictWord::Worse);
    Ok(if args.fail_if_worse && worse { Outcome::LimitPassed } else { Outcome::Done })
}

/// Reads each Run and keeps of it what is compared.
fn side(name: String, paths: &[PathBuf]) -> Result<Side> {
    let runs = paths
        .iter()
        .map(|path| {
            let run = super::import::read(path)?;
            Ok(RunFacts::of(&run, &path.display().to_string()))
        })
        .collect::<Result<Vec<RunFacts>>>()?;
    Ok(Side { name, runs })
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
