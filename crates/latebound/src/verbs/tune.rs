// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound tune`: who waits for which kernel thread, and the priority that it should have for it.

use anyhow::{Context, Result, bail};
use latebound_measure::FileTask;
use latebound_report::{html, terminal};
use latebound_tune::document::{TuneFit, TuneMap};
use latebound_tune::simulate::{COMPARED, FitOptions, Workload, agreement, fit, simulate};
use latebound_tune::{Config, PolicyKind};

use crate::cli::{Format, TuneArgs, TuneCommand, TuneFitArgs, TuneMapArgs, TunePolicy, TuneTasksArgs};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::prove;
use crate::recording;
use crate::session::{MAX_DOCUMENT_BYTES, Progress, Stop, monotonic};
use crate::tune_daemon;
use crate::tune_undo;
use crate::tuning::{self, HOUSEKEEPING_INTERVAL, config};

pub(crate) fn run(args: &TuneArgs, output: &Output) -> Result<Outcome> {
    match &args.command {
        TuneCommand::Map(args) => map(args, output)?,
        TuneCommand::Run(args) => tune_daemon::follow(args, output)?,
        TuneCommand::Undo(args) => {
            privileges::keep_or_note(Work::TuneUndo, Needs::default(), output);
            tune_undo::run(args, output)?;
        }
        TuneCommand::Prove(args) => prove::run(args, &config(args.config.as_deref())?, output)?,
        TuneCommand::Show(args) => prove::show(args, output)?,
        TuneCommand::Tasks(args) => {
            output.prints("tune tasks", None)?;
            privileges::keep_or_note(Work::TuneTasks, Needs::default(), output);
            tasks(args)?;
        }
        TuneCommand::Record(args) => recording::run(args, output)?,
        TuneCommand::Fit(args) => search(args, output)?,
        TuneCommand::Config if output.is_json() => output.json(&Config::default())?,
        TuneCommand::Config => output.text(Config::COMMENTED)?,
        TuneCommand::Schema => {
            output.prints("tune schema", Some(Format::Json))?;
            output.json(&Config::json_schema())?;
        }
    }
    Ok(Outcome::Done)
}

fn map(args: &TuneMapArgs, output: &Output) -> Result<()> {
    let config = config(args.config.as_deref())?;
    let policy = config.policy;
    let stop = Stop::on_signals()?;
    let started = monotonic();
    let mut tuning = tuning::start(config, None, started)?;
    let needs = Needs { file: args.html.is_some(), ..Needs::default() };
    privileges::keep_or_note(Work::TuneMap, needs, output);
    let mut progress = Progress::new(args.duration);
    let elapsed = || monotonic().saturating_sub(started);
    while !stop.is_set() && args.duration.is_none_or(|planned| elapsed() < planned) {
        let left = args.duration.map_or(HOUSEKEEPING_INTERVAL, |planned| planned.saturating_sub(elapsed()));
        std::thread::sleep(left.min(HOUSEKEEPING_INTERVAL).to_duration());
        tuning.poll(monotonic(), || {})?;
        while tuning.has_unread() && !stop.is_set() {
            tuning.poll(monotonic(), || {})?;
        }
        tuning.donate()?;
        tuning.housekeeping(monotonic())?;
        progress.show(|| format!("{} watched", elapsed()));
    }
    progress.clear();
    let map = TuneMap::of(&tuning, policy, elapsed());
    if let Some(place) = &args.html {
        latebound_files::write(place, html::relations_page(&html::RelationMap::of(&map)))
            .with_context(|| format!("cannot write {}", place.display()))?;
    }
    if output.is_json() { output.json(&map) } else { output.text(&terminal::tune_map(&map)) }
}

impl From<TunePolicy> for PolicyKind {
    fn from(name: TunePolicy) -> PolicyKind {
        match name {
            TunePolicy::Off => PolicyKind::Off,
            TunePolicy::Static => PolicyKind::Static,
            TunePolicy::Pip => PolicyKind::Pip,
            TunePolicy::WeightedAverage => PolicyKind::WeightedAverage,
        }
    }
}

fn tasks(args: &TuneTasksArgs) -> Result<()> {
    let tasks = args.tasks.iter().map(|text| text.parse()).collect::<Result<Vec<FileTask>, _>>()?;
    let done = latebound_measure::run_tasks(&args.folder, &tasks, args.duration, || {});
    done.with_context(|| {
        format!("a task in {} failed; tasks need root, and room for their files", args.folder.display())
    })?;
    Ok(())
}

fn search(args: &TuneFitArgs, output: &Output) -> Result<()> {
    if !(args.loss.is_finite() && args.loss >= 0.0) {
        bail!("--loss {} is no share; give per cent from 0 on, as --loss 5", args.loss);
    }
    let path = args.workload.display();
    let text = latebound_files::read_text(&args.workload, MAX_DOCUMENT_BYTES)
        .with_context(|| format!("cannot read {path}"))?;
    let workload: Workload = serde_json::from_str(&text)
        .with_context(|| format!("{path} is no workload; docs/src/guide/tune.md says what one looks like"))?;
    let stop = Stop::on_signals()?;
    let mut progress = Progress::new(None);
    let mut outcomes = Vec::new();
    for kind in COMPARED {
        progress.show(|| format!("simulating {}", kind.name()));
        outcomes
            .push((kind, simulate(&workload, kind).with_context(|| format!("{path} cannot be simulated"))?));
    }
    let agreement = agreement(&workload, PolicyKind::Off)?;
    let options = FitOptions { loss: args.loss / 100.0, simulations: args.simulations };
    let found = fit(&workload, options, &mut |done, most| {
        progress.show(|| format!("{done} simulations of {most} at most"));
        !stop.is_set()
    })?;
    progress.clear();
    if stop.is_set() {
        output.note(&format!(
            "stopped after {} simulations; these are the best weights until then",
            found.simulations
        ));
    }
    let document = TuneFit::new(&workload, &outcomes, agreement, found);
    if output.is_json() { output.json(&document) } else { output.text(&terminal::tune_fit(&document)) }
}
