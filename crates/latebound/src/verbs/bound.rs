// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound bound`: how late a saved trace, or saved observations, say that threads can get.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, bail};
use latebound_analysis::bound::{Breach, Observations, SavedOptions, ViewKind, Views, observe_saved};
use latebound_model::Nanos;

use crate::Outcome;
use crate::bound_text;
use crate::cli::BoundArgs;
use crate::output::Output;

pub(crate) fn run(args: &BoundArgs, output: &Output) -> Result<Outcome> {
    let options = SavedOptions {
        instance: args.instance.clone(),
        preempt_rt: args.preempt_rt,
        kallsyms: args.kallsyms.as_deref().map(read_whole).transpose()?,
    };
    let mut breaches: Vec<Breach> = Vec::new();
    let mut joined: Option<Observations> = None;
    for file in &args.files {
        let (mut observations, broken) =
            read(file, &options).with_context(|| format!("cannot bound {}", file.display()))?;
        if args.files.len() > 1 {
            name_file(&mut observations, file);
        }
        breaches.extend(broken);
        match &mut joined {
            Some(joined) => joined.append(observations),
            None => joined = Some(observations),
        }
    }
    let observations = joined.context("no FILE was given")?;
    if let Some(file) = &args.observations {
        fs::write(file, observations.to_json()?)
            .with_context(|| format!("cannot write the observations to {}", file.display()))?;
    }
    let views = observations.views()?;
    let bound = observations.bound_of(&views);
    let view = ViewKind::from(args.view);
    if output.is_json() {
        output.json(&bound)?;
    } else {
        let told = bound_text::Told {
            observations: &observations,
            views: &views,
            bound: &bound,
            view,
            breaches: &breaches,
        };
        output.text(&told.text(&output.style()))?;
    }
    Ok(match args.max_latency {
        Some(limit) if views.iter().any(|views| passes(views, view, limit)) => Outcome::LimitPassed,
        _ => Outcome::Done,
    })
}

/// A view without a value passes every limit.
fn passes(views: &Views, kind: ViewKind, limit: Nanos) -> bool {
    let view = views.iter().find(|(other, _)| *other == kind);
    view.is_none_or(|(_, view)| view.latency().is_none_or(|latency| latency > limit))
}

fn read_whole(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn read(path: &Path, options: &SavedOptions) -> Result<(Observations, Vec<Breach>)> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        bail!("it is not a regular file, and a trace is read from many places at once; save it to one");
    }
    if is_json(&file)? {
        let mut observations = Observations::from_json(&read_whole(path)?)?;
        if options.preempt_rt
            && let Some(conditions) = &mut observations.conditions
            && !conditions.preempt_rt
        {
            conditions.preempt_rt = true;
            conditions.notes.push("that the kernel was PREEMPT_RT is asserted by the user".to_owned());
        }
        return Ok((observations, Vec::new()));
    }
    let saved = observe_saved(file, options)?;
    Ok((saved.observations, saved.breaches))
}

/// JSON begins with a brace; none of the traces does.
fn is_json(file: &File) -> Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut first = [0; 64];
    let length = file.read_at(&mut first, 0)?;
    Ok(first[..length].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{'))
}

/// Says of which file a sentence is.
fn name_file(observations: &mut Observations, file: &Path) {
    if let Some(conditions) = &mut observations.conditions {
        for sentence in conditions.problems.iter_mut().chain(&mut conditions.notes) {
            *sentence = format!("{}: {sentence}", file.display());
        }
    }
}
