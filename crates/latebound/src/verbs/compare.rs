// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound compare`: did it get better, by how much, and how sure is that.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use latebound_compare::{Comparison, Options, Side, compare};
use latebound_documents::{refuse_unlike, sides};
use latebound_report::html::{self, Distributions};
use latebound_report::terminal;

use crate::cli::{CompareArgs, CompareCommand};
use crate::outcome::Outcome;
use crate::output::Output;

pub(crate) fn run(args: &CompareArgs, output: &Output) -> Result<Outcome> {
    if let Some(CompareCommand::Preemption(args)) = &args.command {
        return super::preemption::run(args, output);
    }
    let (base, others) = sides(&args.sides.base, &args.sides.against)?;
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
