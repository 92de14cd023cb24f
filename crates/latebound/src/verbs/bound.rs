// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound bound FILE`: how late a saved trace, or saved observations, say that threads can get.

use std::path::Path;

use anyhow::{Context, Result, bail};
use latebound_analysis::bound::{ViewKind, Views};
use latebound_documents::{Cancel, MAX_DOCUMENT_BYTES, bound_of, read_observations};
use latebound_model::Nanos;
use latebound_report::terminal::SavedBound;
use latebound_saved::SavedOptions;
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
    let saved = read_observations(&args.files, &options, &Cancel::default())?;
    let observations = &saved.observations;
    if let Some(file) = &args.observations {
        latebound_files::write(file, observations.to_json()?)
            .with_context(|| format!("cannot write the observations to {}", file.display()))?;
    }
    let view = ViewKind::from(args.view);
    let (views, bound) = bound_of(&saved, view)?;
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

fn read_whole(path: &Path) -> Result<Vec<u8>> {
    latebound_files::read(path, MAX_DOCUMENT_BYTES).with_context(|| format!("cannot read {}", path.display()))
}
