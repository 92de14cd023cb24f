// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound bound FILE`: how late a saved trace, or saved observations, say that threads can get.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};
use latebound_analysis::bound::{Observations, ViewKind, Views};
use latebound_model::{Nanos, RuleViolation};
use latebound_report::terminal::SavedBound;
use latebound_saved::{Saved, SavedOptions, Violation, observe_saved};
use latebound_store::RunFolder;

use crate::bound_run;
use crate::cli::BoundArgs;
use crate::outcome::Outcome;
use crate::output::Output;

pub(crate) fn run(args: &BoundArgs, output: &Output) -> Result<Outcome> {
    if args.files.is_empty() {
        return super::bound_live::run(args, output);
    }
    if !(args.load.load.is_empty() && args.load.command.is_empty()) {
        bail!("a load runs beside a live observation; leave out the files, or --load and the command");
    }
    let options = SavedOptions {
        instance: args.instance.clone(),
        preempt_rt: args.preempt_rt,
        kallsyms: args.kallsyms.as_deref().map(read_whole).transpose()?,
    };
    // Before anything is read: a place where nothing can be written is reported at once.
    let folder =
        args.record.output.as_ref().map(|path| RunFolder::create(path, args.record.force)).transpose()?;
    let mut joined: Option<Saved> = None;
    for file in &args.files {
        let mut saved = read(file, &options).with_context(|| format!("cannot bound {}", file.display()))?;
        if args.files.len() > 1 {
            name_file(&mut saved.observations, file);
        }
        match &mut joined {
            Some(joined) => {
                joined.observations.append(saved.observations);
                joined.violations.extend(saved.violations);
                joined.losses.extend(saved.losses);
                joined.uname = joined.uname.take().filter(|uname| saved.uname.as_ref() == Some(uname));
            }
            None => joined = Some(saved),
        }
    }
    let saved = joined.context("no FILE was given")?;
    let observations = &saved.observations;
    if let Some(file) = &args.observations {
        latebound_files::write(file, observations.to_json()?)
            .with_context(|| format!("cannot write the observations to {}", file.display()))?;
    }
    let views = latebound_saved::views(observations)?;
    let view = ViewKind::from(args.view);
    let mut bound = latebound_saved::bound_of(observations, &views, view);
    bound.violations = saved.violations.iter().map(violation).collect();
    let written = folder.map(|folder| bound_run::write(folder, &saved, &bound)).transpose();
    if output.is_json() {
        output.json(&bound)?;
    } else {
        let shown = SavedBound { observations, views: &views, bound: &bound };
        output.text(&shown.text(&output.style()))?;
    }
    written?;
    Ok(match args.max_latency {
        Some(limit) if views.iter().any(|views| passes(views, view, limit)) => Outcome::LimitPassed,
        _ => Outcome::Done,
    })
}

/// A view without a value passes every limit.
fn passes(views: &Views, kind: ViewKind, limit: Nanos) -> bool {
    views.get(kind).latency().is_none_or(|latency| latency > limit)
}

fn violation(violation: &Violation) -> RuleViolation {
    RuleViolation {
        cpu: violation.cpu,
        rule: violation.rule.sentence().to_owned(),
        events: violation.events.clone(),
    }
}

fn read_whole(path: &Path) -> Result<Vec<u8>> {
    latebound_files::read(path, crate::session::MAX_DOCUMENT_BYTES)
        .with_context(|| format!("cannot read {}", path.display()))
}

fn read(path: &Path, options: &SavedOptions) -> Result<Saved> {
    let file = latebound_files::open(path)?;
    if is_json(&file)? {
        for (option, is_given) in
            [("--kallsyms", options.kallsyms.is_some()), ("--instance", !options.instance.is_empty())]
        {
            if is_given {
                bail!(
                    "{option} does nothing here: these are observations, which have no events to read; leave it out"
                );
            }
        }
        let mut observations = Observations::from_json(&read_whole(path)?)?;
        if options.preempt_rt
            && let Some(conditions) = &mut observations.conditions
            && !conditions.preempt_rt
        {
            conditions.preempt_rt = true;
            conditions.notes.push("that the kernel was PREEMPT_RT is asserted by the user".to_owned());
        }
        return Ok(Saved { observations, ..Saved::default() });
    }
    Ok(observe_saved(file, options)?)
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
