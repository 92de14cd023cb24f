// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound observe`: everything the kernel puts off, as it happens.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use latebound_model::{
    Activation, Loss, Mechanism, Missing, MissingKind, Nanos, Run, RunState, RunVerb, Series,
};
use latebound_probe::{ObserveOptions, Observer, ProbeError};
use latebound_report::{html, observe_rows, terminal};
use latebound_system::{Facts, Root};

use crate::cli::{Format, ObserveArgs, SourceArgs, SourceName};
use crate::live;
use crate::load_runner::{self, Loads};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::session::{self, Progress, RunWriter, Stop};
use crate::trace_observer::TraceObserver;
use crate::trace_reader::note_removed;

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

    let mechanisms = args.mechanism.iter().map(|&name| name.into()).collect();
    let source = Source::start(args.source, mechanisms, Work::Observe, output)?;
    if source.is_trace() {
        // It costs more, and says less, than what counts in the kernel: the two are not alike.
        run.settings.insert("source".to_owned(), "tracefs".to_owned());
    }
    let loads = loads.start(args.duration, &allowed, &stop)?;
    let needs = Needs { run: record.path().is_some(), load: !loads.is_empty(), ..Needs::default() };
    privileges::give_up(Work::Observe, needs, &mut run);
    let started = Instant::now();
    let elapsed = || Nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let collect = |run: &mut Run| {
        run.duration = elapsed();
        // Before the distributions, so that each worst one is in its distribution.
        run.worst_of_series = source.worst();
        run.series = source.series();
        run.losses = source.losses();
    };
    // A terminal that fails or is gone ends it; what was observed is kept all the same.
    let shown = if format == Format::Human && std::io::stdout().is_terminal() {
        live::run(args.duration, &stop, || {
            if record.is_due() {
                collect(&mut run);
                record.checkpoint(&run);
            }
            Ok(live::Reading {
                rows: observe_rows(&source.series()),
                losses: source.losses(),
                missing: source.missing(),
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
    run.duration = elapsed();
    let stopped = source.stop();
    let duration = run.duration;
    collect(&mut run);
    run.duration = duration;
    run.missing.extend(source.missing());
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
    stopped?;
    load_runner::demand_all(&run)?;
    Ok(Outcome::Done)
}

/// What counts: programs in the kernel, or what reads its trace buffers.
pub(crate) enum Source {
    Bpf(Box<Observer>),
    Trace { observer: Box<std::cell::RefCell<TraceObserver>>, without_bpf: Missing },
}

impl Source {
    /// BPF where it can be had, unless the user chooses.
    pub(crate) fn start(
        args: SourceArgs,
        mechanisms: std::collections::BTreeSet<Mechanism>,
        work: Work,
        output: &Output,
    ) -> Result<Source> {
        let SourceArgs { source: chosen_source, trace_buffer } = args;
        args.check()?;
        let options = ObserveOptions { mechanisms: mechanisms.clone(), ..ObserveOptions::default() };
        let (why, remedy) = match chosen_source {
            Some(SourceName::Tracefs) => (
                "--source tracefs was asked for".to_owned(),
                "observe without --source, where the kernel takes BPF programs",
            ),
            chosen => match Observer::start(&options) {
                Ok(observer) => return Ok(Source::Bpf(Box::new(observer))),
                // What no program can see, no event shows: the mechanisms are not there.
                Err(error @ ProbeError::NothingToSee(_)) if chosen.is_some() => {
                    return Err(error).context("cannot observe");
                }
                Err(error) if chosen.is_some() => return Err(error).context("cannot observe by BPF"),
                Err(error) => (error.to_string(), "`latebound doctor` shows what BPF needs here"),
            },
        };
        let (observer, stale) =
            TraceObserver::start(&mechanisms, trace_buffer, work).with_context(|| match chosen_source {
                Some(_) => "cannot observe by tracefs".to_owned(),
                None => format!("cannot observe by BPF ({why}), nor by tracefs"),
            })?;
        note_removed(&stale, output);
        let without_bpf = Missing::new(
            MissingKind::Events,
            "counting in the kernel by BPF",
            format!(
                "{why}; events of tracefs are read in its place: they cost more, requests that were made before are not known, block requests are \
                 paired by their sector, and a requester's policy is not seen"
            ),
            remedy,
        );
        Ok(Source::Trace { observer: Box::new(observer.into()), without_bpf })
    }

    pub(crate) fn is_trace(&self) -> bool {
        matches!(self, Source::Trace { .. })
    }

    pub(crate) fn series(&self) -> Vec<Series> {
        match self {
            Source::Bpf(observer) => observer.series(),
            Source::Trace { observer, .. } => observer.borrow().series(),
        }
    }

    pub(crate) fn worst(&self) -> Vec<Activation> {
        match self {
            Source::Bpf(observer) => observer.worst(),
            Source::Trace { observer, .. } => observer.borrow().worst(),
        }
    }

    pub(crate) fn losses(&self) -> Vec<Loss> {
        match self {
            Source::Bpf(observer) => observer.losses(),
            Source::Trace { observer, .. } => observer.borrow().losses(),
        }
    }

    pub(crate) fn missing(&self) -> Vec<Missing> {
        let (observer, without_bpf) = match self {
            Source::Bpf(observer) => return observer.missing().to_vec(),
            Source::Trace { observer, without_bpf } => (observer.borrow(), without_bpf),
        };
        let mut missing = vec![without_bpf.clone()];
        missing.extend(observer.missing());
        missing
    }

    /// What was counted stays; BPF programs go on until they are dropped. An error where an own trace instance stays.
    pub(crate) fn stop(&self) -> Result<()> {
        match self {
            Source::Bpf(_) => Ok(()),
            Source::Trace { observer, .. } => observer.borrow_mut().stop(),
        }
    }
}
