// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound defer lost`: trains of interrupts faster than their bottom half, with and without a counter.

use anyhow::{Result, bail};
use latebound_abi::defer::Record as Start;
use latebound_defer::{
    Context, DeferMeasurement, Device, Ksoftirqd, LostDocument, LostTrial, Mechanism, Request, SeriesTally,
    Settings, loss_causes, trains,
};
use latebound_model::{Condition, Cpu, CpuSet, Nanos, Run, RunState, RunVerb};
use latebound_report::html;
use latebound_report::terminal::{self, LostRow};
use latebound_system::{Facts, Root};

use crate::cli::{DeferLostArgs, TrainArgs};
use crate::load_runner::{self, Loads};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{self, Progress, RunWriter, Stop};

use super::activations;
use super::backend::RING_RECORDS;

pub(super) fn run(args: &DeferLostArgs, output: &Output) -> Result<Outcome> {
    let loads = Loads::parse(&args.load)?;
    let mechanisms: Vec<Mechanism> = match args.mechanism.is_empty() {
        true => vec!["tasklet".parse()?],
        false => args.mechanism.clone(),
    };
    let stop = Stop::on_signals()?;
    let device = Device::open()?;
    if let Some(lacking) = mechanisms.iter().find(|mechanism| !device.kernel().has(**mechanism)) {
        bail!("this kernel has no {lacking}, or does not let modules use it; leave it out of --mechanism");
    }
    drop(device);
    let root = Root::live();
    let doctor = latebound_system::doctor(&root, &Facts::live());
    let allowed = doctor.system.allowed.clone().unwrap_or_default();
    let mut run = session::new_run(RunVerb::Defer, doctor, None);
    let mut record = RunWriter::begin(&args.record, None, &run)?;
    run.missing.extend(session::leave_measured_cpus(&allowed, &CpuSet::new([Cpu(args.train.cpu)])));

    let mut trials = Vec::new();
    let mut activations = activations::begin(&args.keep);
    let mut each = |condition: Condition, trials: &mut Vec<LostTrial>| -> Result<()> {
        for &mechanism in &mechanisms {
            for with_counter in [false, true] {
                if !stop.is_set() {
                    activations.under(Some(order(with_counter)), condition.clone());
                    let keep = |request, measured: &SeriesTally, start: &Start| {
                        activations.take(request, measured, start);
                    };
                    let trial = trial(
                        &args.train,
                        args.trains,
                        mechanism,
                        with_counter,
                        condition.clone(),
                        &stop,
                        keep,
                    );
                    trials.push(trial?);
                }
            }
        }
        Ok(())
    };
    each(Condition::Idle, &mut trials)?;
    let is_loaded = !args.load.load.is_empty() || !args.load.command.is_empty();
    if is_loaded && !stop.is_set() {
        let running = loads.start(None, &allowed, &stop)?;
        running.settle();
        let done = each(Condition::Loaded, &mut trials);
        running.finish(&mut run);
        done?;
    }
    run.duration = Nanos(session::monotonic().0.saturating_sub(run.started_monotonic.0));
    run.state = if stop.is_set() { RunState::Interrupted } else { RunState::Complete };
    for trial in &trials {
        run.series.extend(trial.measured.series(Some(order(trial.with_counter)), &trial.condition));
    }
    activations::finish(&activations, &mut run, &mut record);
    let written = record.finish(&mut run, output, html::page);
    print(&trials, &run, args.train.irqs, output)?;
    written?;
    load_runner::demand_all(&run)?;
    Ok(Outcome::Done)
}

/// What a trial is called in the names of its series.
fn order(with_counter: bool) -> &'static str {
    if with_counter { "trains, with counter" } else { "trains" }
}

/// The request and settings of so many trains.
pub(super) fn plan(
    args: &TrainArgs,
    trains: u32,
    mechanism: Mechanism,
    counter: bool,
) -> Result<(Settings, Request)> {
    let hardirq: Context = "hardirq".parse()?;
    let settings = Settings {
        cpu: Cpu(args.cpu),
        period: args.period,
        jitter: Nanos::ZERO,
        train: args.irqs,
        pause: args.pause,
        top_halves: true,
        timer: Nanos::ZERO,
        ring_records: RING_RECORDS,
        requester: None,
        patience: Nanos::from_secs(4),
        limit: None,
    };
    let request = Request {
        mechanism,
        context: hardirq,
        cpu: Cpu(args.cpu),
        triggers: args.irqs.saturating_mul(trains),
        burst: 1,
        execution: args.execution,
        busy: Nanos::ZERO,
        open_loop: true,
        counter,
        fixed_work: false,
        runner: None,
    };
    Ok((settings, request))
}

fn trial(
    args: &TrainArgs,
    count: u32,
    mechanism: Mechanism,
    with_counter: bool,
    condition: Condition,
    stop: &Stop,
    mut keep: impl FnMut(usize, &SeriesTally, &Start),
) -> Result<LostTrial> {
    let (settings, request) = plan(args, count, mechanism, with_counter)?;
    let prepared = DeferMeasurement::new(Device::open()?, &settings, &[request])?;
    let mut progress = Progress::new(None);
    let show = |so_far: latebound_defer::Progress| {
        progress.show(|| format!("{condition}: {} runs of {} raises", so_far.starts, so_far.triggers));
    };
    let mut records = Vec::new();
    let each = |request, measured: &SeriesTally, start: &Start| {
        records.push(*start);
        keep(request, measured, start);
    };
    let mut measured = prepared.run(stop.flag(), show, each, || {})?;
    progress.clear();
    let Some(measured) = measured.pop() else { bail!("the module gave no counts") };
    let ksoftirqd = Ksoftirqd::of_this_kernel();
    Ok(LostTrial {
        condition,
        with_counter,
        trains: trains(&records, args.irqs, &ksoftirqd),
        lost_by: loss_causes(&records, &measured.counts, &ksoftirqd),
        measured,
    })
}

fn print(trials: &[LostTrial], run: &Run, irqs: u32, output: &Output) -> Result<()> {
    if output.is_json() {
        return output.document(&LostDocument::new(irqs, trials, &run.missing));
    }
    let style = output.style();
    let of = |condition: Condition| {
        let under = trials.iter().filter(|trial| trial.condition == condition);
        under.map(text_row).collect::<Vec<_>>()
    };
    let mut groups = vec![("idle", of(Condition::Idle)), ("loaded", of(Condition::Loaded))];
    groups.retain(|(_, rows)| !rows.is_empty());
    let head = terminal::failed_loads(run, &style);
    output.text(&(head + &terminal::lost_table(&groups, &style) + &terminal::missing(&run.missing, &style)))
}

fn text_row(trial: &LostTrial) -> LostRow<'_> {
    let counts = &trial.measured.counts;
    let sums = trial.sums();
    LostRow {
        mechanism: trial.measured.request.mechanism.name(),
        with_counter: trial.with_counter,
        trains: sums.trains,
        raises: counts.requests,
        merged: counts.merged,
        starts: counts.starts,
        a_train: [sums.starts_least, sums.starts_median, sums.starts_most],
        by_ksoftirqd: sums.by_ksoftirqd,
        first_by_ksoftirqd: sums.first_by_ksoftirqd,
        latency: &trial.measured.latency,
        unseen: trial.measured.lost(),
        lost_by: trial.lost_by.named().to_vec(),
    }
}
