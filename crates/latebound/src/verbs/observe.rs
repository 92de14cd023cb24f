// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound observe`: everything the kernel puts off, as it happens.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use latebound_model::{Nanos, Run, RunState, RunVerb};
use latebound_probe::{ObserveOptions, Observer};
use latebound_report::{html, observe_rows, terminal};
use latebound_system::{Facts, Root};

use crate::cli::{Format, ObserveArgs};
use crate::live;
use crate::load_runner::{self, Loads};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::session::{self, Progress, RunWriter, Stop};

pub(crate) fn run(args: &ObserveArgs, output: &Output) -> Result<Outcome> {
    let loads = Loads::parse(&args.load)?;
    let stop = Stop::on_signals()?;
    let root = Root::live();
    let doctor = latebound_system::doctor(&root, &Facts::live());
    let allowed = doctor.system.allowed.clone().unwrap_or_default();
    let mut run = session::new_run(RunVerb::Observe, doctor, args.duration);
    let mut record = RunWriter::begin(&args.record, None, &run)?;
    let usual = if std::io::stdout().is_terminal() { Format::Human } else { Format::Json };
    let format = output.format_or(usual);

    let mut options = ObserveOptions::default();
    if !args.mechanism.is_empty() {
        options.mechanisms = args.mechanism.iter().map(|&name| name.into()).collect();
    }
    let observer = Observer::start(&options).context("cannot observe")?;
    let loads = loads.start(args.duration, &allowed, &stop)?;
    let needs = Needs { run: record.path().is_some(), load: !loads.is_empty(), ..Needs::default() };
    privileges::give_up(Work::Observe, needs, &mut run);
    let started = Instant::now();
    let elapsed = || Nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let collect = |run: &mut Run| {
        run.duration = elapsed();
        // Before the distributions, so that each worst one is in its distribution.
        run.worst_of_series = observer.worst();
        run.series = observer.series();
        run.losses = observer.losses();
    };
    // A terminal that fails or is gone ends it; what was observed is kept all the same.
    let shown = if format == Format::Human && std::io::stdout().is_terminal() {
        live::run(args.duration, &stop, || {
            if record.is_due() {
                collect(&mut run);
                record.checkpoint(&run);
            }
            Ok(live::Reading {
                rows: observe_rows(&observer.series()),
                losses: observer.losses(),
                missing: observer.missing().to_vec(),
            })
        })
    } else {
        let mut progress = Progress::new(args.duration);
        while !stop.is_set() && args.duration.is_none_or(|planned| elapsed() < planned) {
            let left = args
                .duration
                .map_or(Duration::MAX, |planned| planned.saturating_sub(elapsed()).to_duration());
            std::thread::sleep(left.min(Duration::from_millis(100)));
            progress.show(|| format!("{} observed", elapsed()));
            if record.is_due() {
                collect(&mut run);
                record.checkpoint(&run);
            }
        }
        progress.clear();
        Ok(())
    };
    collect(&mut run);
    run.missing.extend(observer.missing().iter().cloned());
    loads.finish(&mut run);
    let cut_short = shown.is_err() || stop.is_set() && args.duration.is_some();
    run.state = if cut_short { RunState::Interrupted } else { RunState::Complete };
    record.add(|folder| folder.write_activations(&run.worst_of_series, &run.worst));
    run.missing.extend(record.take_problem());
    let written = record.finish(&mut run, output, html::page);

    match format {
        Format::Json => output.json(&run)?,
        Format::Human => {
            let style = output.style();
            let table = terminal::observe_table(&run.series, &run.losses, &style);
            let head = terminal::failed_loads(&run, &style);
            let asked = terminal::worst_activations(&run.worst_of_series, &style);
            output.text(&(head + &table + &asked + &terminal::missing(&run.missing, &style)))?;
        }
    }
    written?;
    shown?;
    load_runner::demand_all(&run)?;
    Ok(Outcome::Done)
}
