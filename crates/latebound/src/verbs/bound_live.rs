// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound bound` without a file: this system, while it runs. What the kernel shows is followed and folded, and a quiet
//! thread measures beside it what really happened.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use latebound_analysis::bound::ViewKind;
use latebound_measure::{MeasureOptions, Measurement};
use latebound_model::{
    Bound, Evidence, EvidenceLevel, MeasuredWakeup, Missing, MissingKind, Nanos, PreemptionModel, Run,
    RunState, RunVerb, Verdict,
};
use latebound_report::{html, live, terminal};
use latebound_system::{Facts, Root};

use crate::outcome::Outcome;

use crate::cli::{BoundArgs, FollowBy};
use crate::follow::{self, Follow, Target, Worst};
use crate::live_bound::{self, Reading};
use crate::load_runner::{self, Loads};
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::session::{self, Progress, RunWriter, Stop, monotonic};
use crate::wakeups;

/// How often records are taken. A ring holds three seconds of ten thousand interrupts a second.
const TAKE_EVERY: Duration = Duration::from_millis(100);
/// How often the whole is computed for the screen.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// What follows the CPUs, and who measures beside.
struct Watch {
    follower: Box<dyn Follow>,
    cpus: usize,
    started: Nanos,
    measurement: Option<Measurement>,
    worst: Worst,
}

impl Watch {
    fn take(&mut self) -> Result<()> {
        self.follower.take()?;
        let late = self.measurement.as_ref().map(Measurement::drain_late).unwrap_or_default();
        for wakeup in late {
            let latency = wakeup.latency();
            if self.worst.get(&wakeup.started_cpu).is_none_or(|worst| worst.latency < latency) {
                let measured = MeasuredWakeup {
                    latency,
                    woken: wakeup.requested_at,
                    tid: wakeup.runner_tid(),
                    comm: wakeup.subject,
                    from_idle: false,
                };
                self.worst.insert(wakeup.started_cpu, measured);
            }
        }
        Ok(())
    }

    /// The record of it all so far.
    fn bound(&mut self) -> Result<Bound> {
        self.follower.bound(&self.worst)
    }

    fn reading(&mut self) -> Result<Reading> {
        let written = self.follower.written();
        let seconds = monotonic().saturating_sub(self.started).0 as f64 / 1e9;
        let bytes_per_second = written.bytes as f64 / seconds.max(1e-3) / self.cpus.max(1) as f64;
        Ok(Reading { bound: self.bound()?, bytes_per_second, events: written.events })
    }
}

pub(crate) fn run(args: &BoundArgs, output: &Output) -> Result<Outcome> {
    if args.duration == Some(Nanos::ZERO) {
        bail!("--duration 0 observes nothing; give a time such as 1h");
    }
    if args.trace_buffer.is_some() && args.by != Some(FollowBy::Tracefs) {
        bail!("--trace-buffer is for the trace buffers; type --by tracefs as well, or leave it out");
    }
    let loads = Loads::parse(&args.load)?;
    let stop = Stop::on_signals()?;
    let doctor = latebound_system::doctor(&Root::live(), &Facts::live());
    let allowed = doctor.system.allowed.clone().or_else(|| doctor.system.online.clone()).unwrap_or_default();
    let cpus = args.cpus.clone().unwrap_or_else(|| allowed.clone());
    if cpus.is_empty() {
        bail!("no CPU to follow; name some with --cpus, for example --cpus 0-3");
    }
    let target = Target {
        cpus: cpus.clone(),
        release: doctor.system.kernel_release.clone().unwrap_or_default(),
        preempt_rt: doctor.system.preemption == Some(PreemptionModel::Rt),
        view: ViewKind::from(args.view),
        buffer_bytes: args.trace_buffer,
        memory_bytes: doctor.system.memory_bytes,
    };
    let mut run = session::new_run(RunVerb::Bound, doctor, args.duration);
    let mut record = RunWriter::begin(&args.record, None, &run)?;
    run.missing.extend(session::leave_measured_cpus(&allowed, &cpus));

    // Before the loads: the kernel takes seconds of processor time to check the programs, of which a load leaves little.
    let mut watch = Watch {
        follower: follow::start(args.by, &target)?,
        cpus: cpus.iter().count(),
        started: monotonic(),
        measurement: None,
        worst: Worst::new(),
    };
    let loads = loads.start_while(args.duration, &allowed, &stop, || watch.take())?;
    if !args.no_measure {
        let options = MeasureOptions { duration: args.duration, worst_kept: 1, ..MeasureOptions::new(cpus) };
        match Measurement::start(options) {
            Ok(measurement) => watch.measurement = Some(measurement),
            Err(error) => run.missing.push(Missing {
                kind: MissingKind::Measurement,
                what: "the measured latency of the same time".to_owned(),
                why: error.to_string(),
                remedy: "run as root, or leave it out with --no-measure".to_owned(),
            }),
        }
    }
    let needs = Needs { run: record.path().is_some(), load: !loads.is_empty(), ..Needs::default() };
    privileges::give_up(Work::Bound, needs, &mut run);
    let followed = follow(args, output, &stop, &mut watch, &mut run, &mut record);
    let measured = watch.measurement.take().map(|measurement| {
        measurement.stop();
        measurement.finish()
    });
    let stopped = watch.follower.stop();
    stopped?;
    loads.finish(&mut run);
    if let Some(measured) = measured {
        let measured = measured?;
        // The last wake-ups may have been the worst; the thread that took them is gone.
        worst_of(&mut watch, &measured);
        wakeups::record(&mut run, measured);
    }
    let cut_short = followed.is_err() || stop.is_set() && args.duration.is_some();
    run.state = if cut_short { RunState::Interrupted } else { RunState::Complete };
    let mut reading = watch.reading()?;
    reading.bound.notes.extend(latebound_report::digest::failed_loads_text(&run));
    keep(&mut run, &watch, reading.bound.clone());
    let curves = watch.follower.curves();
    record.add(|folder| folder.write_workload_curves(&curves));
    run.missing.extend(record.take_problem());
    // Said before it is written: a slow disk holds up nobody who waits for the answer.
    let said = if output.is_json() {
        output.json(&reading.bound)
    } else {
        let footer = live::records(reading.events, reading.bytes_per_second);
        let style = output.style();
        let head = terminal::failed_loads(&run, &style);
        output.text(&(head + &terminal::live_bound(&reading.bound, &footer, &style)))
    };
    record.finish(&mut run, output, html::page)?;
    said?;
    // What was followed until it failed, or until the terminal was gone, is kept.
    followed?;
    load_runner::demand_all(&run)?;
    let values = reading.bound.cpus.iter().map(|cpu| cpu.views.get(reading.bound.view).latency);
    Ok(match args.max_latency {
        Some(limit) if values.into_iter().any(|value| value.is_none_or(|value| value > limit)) => {
            Outcome::LimitPassed
        }
        _ => Outcome::Done,
    })
}

fn worst_of(watch: &mut Watch, measured: &latebound_measure::Measured) {
    for series in &measured.series {
        let Some(cpu) = series.subject.cpu else { continue };
        let (Some(max), Some(task)) = (series.summary.max, &series.subject.task) else { continue };
        let naive = series.quantity == latebound_model::Quantity::LatencyNaive;
        if naive && watch.worst.get(&cpu).is_none_or(|worst| worst.latency < max) {
            let woken = Nanos::ZERO;
            let (tid, comm) = (task.tid, task.comm.to_string());
            watch.worst.insert(cpu, MeasuredWakeup { latency: max, woken, tid, comm, from_idle: false });
        }
    }
}

/// Puts how things stand into the Run.
fn keep(run: &mut Run, watch: &Watch, bound: Bound) {
    run.duration = monotonic().saturating_sub(watch.started);
    let losses = watch.follower.losses();
    run.losses.retain(|loss| !losses.iter().any(|new| new.key() == loss.key()));
    run.losses.extend(losses);
    let is_bound = bound.verdict == Verdict::Bound;
    let reason = match bound.reasons.first() {
        Some(reason) => format!("by {}: {reason}", watch.follower.by()),
        None => format!("by {}: nothing lost, no rule broken", watch.follower.by()),
    };
    run.evidence.retain(|level| level.evidence != bound.evidence);
    run.evidence.push(EvidenceLevel {
        evidence: bound.evidence,
        available: is_bound || bound.evidence != Evidence::Bound,
        reason,
    });
    run.evidence.sort_by_key(|level| level.evidence);
    run.bound = Some(bound);
}

fn follow(
    args: &BoundArgs,
    output: &Output,
    stop: &Stop,
    watch: &mut Watch,
    run: &mut Run,
    record: &mut RunWriter,
) -> Result<()> {
    let started = Instant::now();
    let over = |stop: &Stop| {
        stop.is_set() || args.duration.is_some_and(|planned| started.elapsed() >= planned.to_duration())
    };
    let mut checkpoint = |watch: &mut Watch, run: &mut Run| -> Result<()> {
        if record.is_due() {
            let bound = watch.bound()?;
            keep(run, watch, bound);
            record.checkpoint(run);
        }
        Ok(())
    };
    if !output.is_json() && std::io::stdout().is_terminal() {
        return live_bound::run(args.duration, stop, TAKE_EVERY, SHOW_EVERY, |show| {
            watch.take()?;
            checkpoint(watch, run)?;
            show.then(|| watch.reading()).transpose()
        });
    }
    let mut progress = Progress::new(args.duration);
    while !over(stop) {
        std::thread::sleep(TAKE_EVERY);
        watch.take()?;
        checkpoint(watch, run)?;
        let worst = || watch.follower.worst();
        progress.show(|| {
            let elapsed = Nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
            let worst = worst().map_or_else(|| "-".to_owned(), |worst| worst.to_string());
            format!("{elapsed} followed, at most {worst} so far")
        });
    }
    progress.clear();
    Ok(())
}
