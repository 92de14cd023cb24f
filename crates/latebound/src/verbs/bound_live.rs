// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound bound` without a file: this system, while it runs. The kernel's own events go through the thread model in the
//! kernel; this end folds what comes out, and a quiet thread measures beside it what really happened.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use latebound_abi::CallerClasses;
use latebound_analysis::bound::{LiveBound, LiveCpu, Source, ViewKind};
use latebound_measure::{MeasureOptions, Measurement};
use latebound_model::{
    Bound, Cpu, CpuSet, Loss, MeasuredWakeup, Missing, Nanos, PreemptionModel, Run, RunState,
};
use latebound_probe::{BoundProbe, vector_name};
use latebound_report::html;
use latebound_system::{Facts, Root};
use latebound_trace::Symbols;

use crate::Outcome;
use crate::beside::Loads;
use crate::bound_text;
use crate::cli::BoundArgs;
use crate::live_bound::{self, Reading};
use crate::output::Output;
use crate::session::{self, Progress, Record, Stop, monotonic};
use crate::wakeups;

/// How often records are taken. A ring holds three seconds of ten thousand interrupts a second.
const TAKE_EVERY: Duration = Duration::from_millis(100);
/// How often the whole is computed for the screen.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// What follows the CPUs.
struct Watch {
    probe: BoundProbe,
    symbols: Symbols,
    cpus: Vec<LiveCpu>,
    names: BTreeMap<Source, String>,
    words: u64,
    started: Nanos,
    preempt_rt: bool,
    view: ViewKind,
    measurement: Option<Measurement>,
    latest: BTreeMap<Cpu, MeasuredWakeup>,
    problems: Vec<String>,
}

impl Watch {
    fn start(cpus: &CpuSet, release: &str, preempt_rt: bool, view: ViewKind) -> Result<Watch> {
        let symbols = Symbols::parse(std::fs::read("/proc/kallsyms").context("cannot read /proc/kallsyms")?);
        let callers = CallerClasses::from_ranges(|wanted| symbols.ranges(wanted))
            .context("cannot tell the kernel's functions apart")?;
        let version = version(release)
            .with_context(|| format!("cannot tell the kernel's version from its release \"{release}\""))?;
        let probe = BoundProbe::start(cpus, &callers, version).context(
            "cannot follow this kernel; `latebound doctor` says what it shows, and `latebound bound FILE` reads saved traces",
        )?;
        let started = monotonic();
        Ok(Watch {
            problems: probe.missing().iter().map(ToString::to_string).collect(),
            probe,
            symbols,
            cpus: cpus.iter().map(|cpu| LiveCpu::new(cpu, started)).collect(),
            names: BTreeMap::new(),
            words: 0,
            started,
            preempt_rt,
            view,
            measurement: None,
            latest: BTreeMap::new(),
        })
    }

    fn take(&mut self) {
        for live in &mut self.cpus {
            // What was written before this moment is taken in before it.
            let now = monotonic();
            self.words += self.probe.take(live.cpu(), usize::MAX, |record| live.take(record)) as u64;
            live.tick(now);
        }
        let late = self.measurement.as_ref().map(Measurement::drain_late).unwrap_or_default();
        for wakeup in late {
            let latency = wakeup.latency();
            if self.latest.get(&wakeup.cpu).is_none_or(|latest| latest.latency < latency) {
                let measured = MeasuredWakeup {
                    latency,
                    woken: wakeup.requested_at,
                    tid: wakeup.task.tid,
                    comm: wakeup.task.comm,
                    from_idle: false,
                };
                self.latest.insert(wakeup.cpu, measured);
            }
        }
    }

    /// The record of it all so far.
    fn bound(&mut self) -> Result<Bound> {
        let now = monotonic();
        for source in self.cpus.iter().flat_map(|live| live.fold().sources()).map(|of| of.source) {
            self.names.entry(source).or_insert_with(|| name(source));
        }
        let mut all = LiveBound::new(self.preempt_rt, self.view);
        all.problems.clone_from(&self.problems);
        for loss in self.probe.skipped() {
            all.problems.push(format!(
                "{}: {} runs skipped by the kernel",
                loss.place,
                loss.count.unwrap_or(0)
            ));
        }
        for live in &self.cpus {
            let state = self.probe.cpu(live.cpu()).context("a CPU's state cannot be read")?;
            let measured = self.latest.get(&live.cpu()).cloned();
            let name = |source| self.names.get(&source).cloned().unwrap_or_default();
            let record = live
                .record(now, measured, &self.symbols, name)
                .with_context(|| format!("CPU {}", live.cpu()))?;
            all.add(live, &state, record, &self.symbols);
        }
        Ok(all.finish())
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = self.probe.skipped();
        for live in &self.cpus {
            let refused = self.probe.cpu(live.cpu()).map_or(0, |state| state.counts().refused);
            if refused > 0 {
                losses.push(Loss {
                    kind: latebound_model::LossKind::RingFull,
                    place: format!("bound, CPU {}", live.cpu()),
                    count: Some(refused),
                });
            }
        }
        losses
    }

    /// Bytes a second and CPU that the kernel's side wrote.
    fn bytes_per_second(&self) -> f64 {
        let seconds = monotonic().saturating_sub(self.started).0 as f64 / 1e9;
        self.words as f64 * 8.0 / seconds.max(1e-3) / self.cpus.len().max(1) as f64
    }

    fn reading(&mut self) -> Result<Reading> {
        let bytes_per_second = self.bytes_per_second();
        let events = self.cpus.iter().filter_map(|live| self.probe.cpu(live.cpu()));
        let events = events.map(|state| state.counts().model.events).sum();
        Ok(Reading { bound: self.bound()?, bytes_per_second, events })
    }
}

/// `6.12.57-rt`: the first two numbers.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn name(source: Source) -> String {
    match source {
        Source::Vector(vector) => vector_name(vector).to_owned(),
        // Documentation/ABI/testing/sysfs-kernel-irq: the names of those who handle it, with commas.
        Source::Device(irq) => std::fs::read_to_string(format!("/sys/kernel/irq/{irq}/actions"))
            .map(|names| names.trim().to_owned())
            .unwrap_or_default(),
        Source::Nmi | Source::Unnamed => String::new(),
    }
}

pub(crate) fn run(args: &BoundArgs, output: &Output) -> Result<Outcome> {
    if args.duration == Some(Nanos::ZERO) {
        bail!("--duration 0 observes nothing; give a time such as 1h");
    }
    let loads = Loads::parse(&args.load)?;
    let stop = Stop::on_signals()?;
    let doctor = latebound_system::doctor(&Root::live(), &Facts::live());
    let allowed = doctor.system.allowed.clone().or_else(|| doctor.system.online.clone()).unwrap_or_default();
    let cpus = args.cpus.clone().unwrap_or_else(|| allowed.clone());
    if cpus.is_empty() {
        bail!("no CPU to follow; name some with --cpus, for example --cpus 0-3");
    }
    let release = doctor.system.kernel_release.clone().unwrap_or_default();
    let preempt_rt = doctor.system.preemption == Some(PreemptionModel::Rt);
    let mut run = session::new_run("bound", doctor, args.duration);
    let mut record = Record::begin(&args.record, None, &run)?;
    run.missing.extend(session::leave_measured_cpus(&allowed, &cpus));

    // Loads first: starting them may wait for a disk, and nobody takes records meanwhile.
    let loads = loads.start(args.duration, &allowed)?;
    let mut watch = Watch::start(&cpus, &release, preempt_rt, ViewKind::from(args.view))?;
    if !args.no_measure {
        let options = MeasureOptions { duration: args.duration, worst_kept: 1, ..MeasureOptions::new(cpus) };
        match Measurement::start(options) {
            Ok(measurement) => watch.measurement = Some(measurement),
            Err(error) => run.missing.push(Missing {
                what: "the measured latency of the same time".to_owned(),
                why: error.to_string(),
                remedy: "run as root, or leave it out with --no-measure".to_owned(),
            }),
        }
    }
    let followed = follow(args, output, &stop, &mut watch, &mut run, &mut record);
    let measured = watch.measurement.take().map(|measurement| {
        measurement.stop();
        measurement.finish()
    });
    watch.probe.stop();
    followed?;
    watch.take();
    watch.cpus.iter_mut().for_each(LiveCpu::finish);
    loads.finish(&mut run);
    if let Some(measured) = measured {
        let measured = measured?;
        // The last wake-ups may have been the latest; the thread that took them is gone.
        latest_of(&mut watch, &measured);
        wakeups::record(&mut run, measured);
    }
    let cut_short = stop.is_set() && args.duration.is_some();
    run.state = if cut_short { RunState::Interrupted } else { RunState::Complete };
    let reading = watch.reading()?;
    keep(&mut run, &watch, reading.bound.clone());
    run.missing.extend(record.take_problem());
    let written = record.finish(&mut run, html::page);
    if output.is_json() {
        output.json(&reading.bound)?;
    } else {
        let footer = format!(
            "{} events, {:.1} kB/s of records per CPU",
            latebound_report::grouped(reading.events),
            reading.bytes_per_second / 1000.0
        );
        output.text(&bound_text::live(&reading.bound, &footer, &output.style()))?;
    }
    written?;
    let values = reading.bound.cpus.iter().map(|cpu| cpu.views.get(reading.bound.view).latency);
    Ok(match args.max_latency {
        Some(limit) if values.into_iter().any(|value| value.is_none_or(|value| value > limit)) => {
            Outcome::LimitPassed
        }
        _ => Outcome::Done,
    })
}

fn latest_of(watch: &mut Watch, measured: &latebound_measure::Measured) {
    for series in &measured.series {
        let Some(cpu) = series.subject.cpu else { continue };
        let (Some(max), Some(task)) = (series.summary.max, &series.subject.task) else { continue };
        let naive = series.quantity == latebound_model::Quantity::LatencyNaive;
        if naive && watch.latest.get(&cpu).is_none_or(|latest| latest.latency < max) {
            let woken = Nanos::ZERO;
            let (tid, comm) = (task.tid, task.comm.clone());
            watch.latest.insert(cpu, MeasuredWakeup { latency: max, woken, tid, comm, from_idle: false });
        }
    }
}

/// Puts how things stand into the Run.
fn keep(run: &mut Run, watch: &Watch, bound: Bound) {
    run.duration = monotonic().saturating_sub(watch.started);
    run.losses.retain(|loss| !loss.place.starts_with("bound, "));
    run.losses.extend(watch.losses());
    run.bound = Some(bound);
}

fn follow(
    args: &BoundArgs,
    output: &Output,
    stop: &Stop,
    watch: &mut Watch,
    run: &mut Run,
    record: &mut Record,
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
            watch.take();
            checkpoint(watch, run)?;
            show.then(|| watch.reading()).transpose()
        });
    }
    let mut progress = Progress::new(args.duration);
    while !over(stop) {
        std::thread::sleep(TAKE_EVERY);
        watch.take();
        checkpoint(watch, run)?;
        let worst = || {
            let values = watch.cpus.iter().filter_map(|live| live.views().ok());
            values.filter_map(|views| views.get(watch.view).latency()).max()
        };
        progress.show(|| {
            let elapsed = Nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
            let worst = worst().map_or_else(|| "-".to_owned(), |worst| worst.to_string());
            format!("{elapsed} followed, at most {worst} so far")
        });
    }
    progress.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_first_two_numbers_of_a_release() {
        assert_eq!(version("6.12.57+deb13-rt-amd64"), Some((6, 12)));
        assert_eq!(version("7.0-rc1"), Some((7, 0)));
        assert_eq!(version("linux"), None);
    }
}
