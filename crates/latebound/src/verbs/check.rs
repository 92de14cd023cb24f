// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound check`, the main job: look at the system, measure, explain the worst, watch the mechanisms, write it down.

use std::time::Duration;

use anyhow::Result;
use latebound_analysis::KernelFacts;
use latebound_measure::Measurement;
use latebound_model::{Missing, MissingKind, Nanos, Run, RunState, RunVerb};
use latebound_probe::{ObserveOptions, Observer, ProbeError, Recorder};
use latebound_report::{html, terminal};
use latebound_system::{Facts, Root};

use crate::cli::CheckArgs;
use crate::firmware::Firmware;
use crate::load_runner::{self, Loads};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::session::{self, Progress, RunWriter, Stop};
use crate::wakeups;
use crate::watcher::Watcher;
use crate::worst::Worst;

/// How often late wake-ups are taken from the measuring threads: often enough that the recorder still holds the
/// events of the worst, housekeeping enough to be no load.
const COLLECT_EVERY: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &CheckArgs, output: &Output) -> Result<Outcome> {
    let loads = Loads::parse(&args.load)?;
    let stop = Stop::on_signals()?;
    let root = Root::live();
    let doctor = latebound_system::doctor(&root, &Facts::live());
    let cpus = wakeups::cpus(&args.wakeups, &doctor.system)?;
    let allowed = doctor.system.allowed.clone().unwrap_or_default();
    let mut run = session::new_run(RunVerb::Check, doctor, Some(args.wakeups.duration));
    let mut record = RunWriter::begin(&args.record, Some("check"), &run)?;
    run.missing.extend(session::leave_measured_cpus(&allowed, &cpus));

    let firmware = Firmware::begin(&run);
    let mut probes = Probes::start(args, &mut run.missing);
    let loads = loads.start(Some(args.wakeups.duration), &allowed, &stop)?;
    let options = wakeups::options(&args.wakeups, cpus, args.recorder.worst_of_a_thread())?;
    let measurement = wakeups::start(args.wakeups.policy.is_some(), options, &mut run.missing)?;
    probes.watch(&measurement, &mut run.missing);
    let needs = Needs { run: record.path().is_some(), load: !loads.is_empty(), ..Needs::default() };
    privileges::give_up(Work::Check, needs, &mut run);
    let mut worst = Worst::new(args.recorder.worst, args.recorder.keep(), KernelFacts::from(&run.system));
    let mut progress = Progress::new(Some(args.wakeups.duration));
    loop {
        let over = measurement.is_finished();
        if stop.is_set() {
            measurement.stop();
        }
        probes.explain(&measurement, &mut worst);
        if over {
            break;
        }
        progress.show(|| wakeups::so_far(&measurement.snapshot(), args.wakeups.duration));
        if record.is_due() {
            wakeups::record(&mut run, measurement.snapshot());
            run.worst = worst.explanations().to_vec();
            record.checkpoint(&run);
        }
        std::thread::sleep(COLLECT_EVERY);
    }
    let measured = measurement.finish()?;
    progress.clear();
    loads.finish(&mut run);
    run.state = if measured.interrupted { RunState::Interrupted } else { RunState::Complete };
    wakeups::record(&mut run, measured);
    run.worst = worst.explanations().to_vec();
    run.missing.extend(worst.take_missing());
    probes.finish(&mut run);
    firmware.finish(&mut run);
    let activations = [worst.activations(), &run.worst_of_series].concat();
    record.add(|folder| folder.write_activations(&activations, &run.worst));
    run.missing.extend(record.take_problem());
    // In a lab's guest the Run is written to a folder that goes with the machine, and then brought to this one.
    let shown = std::env::var_os(latebound_lab::SHOWN_AS).map(std::path::PathBuf::from);
    let report = record.path().map(|path| {
        shown.as_deref().unwrap_or(path).join(latebound_store::REPORT_FILE).display().to_string()
    });
    let written = record.finish(&mut run, output, html::page);
    let report = report.filter(|_| written.is_ok());

    if output.is_json() {
        output.json(&run)?;
    } else {
        output.text(&terminal::check_summary(&run, report.as_deref(), &output.style()))?;
    }
    written?;
    load_runner::demand_all(&run)?;
    Ok(wakeups::outcome(&run, args.wakeups.max_latency))
}

/// The two probes, each of which may be missing.
struct Probes {
    recorder: Option<Recorder>,
    observer: Option<Observer>,
}

impl Probes {
    /// Attaches both, side by side: loading takes a few tenths of a second each.
    fn start(args: &CheckArgs, missing: &mut Vec<Missing>) -> Probes {
        let options = args.recorder.options();
        let (recorder, observer) = std::thread::scope(|scope| {
            let observer =
                (!args.no_observe).then(|| scope.spawn(|| Observer::start(&ObserveOptions::default())));
            let recorder = (args.recorder.worst > 0).then(|| Recorder::start(options));
            (recorder, observer.map(|thread| thread.join()))
        });
        let mut kept = |kind, what: &str, error: String| {
            missing.push(Missing {
                kind,
                what: what.to_owned(),
                why: error,
                remedy: "`latebound doctor` says what else is in the way".to_owned(),
            });
        };
        Probes {
            recorder: recorder.and_then(|started| {
                started
                    .map_err(|e| {
                        kept(MissingKind::Explanations, "explanations of late wake-ups", e.to_string())
                    })
                    .ok()
            }),
            observer: observer.and_then(|joined| match joined {
                Ok(started) => started
                    .map_err(|e| {
                        kept(MissingKind::Mechanism, "what the kernel put off meanwhile", e.to_string())
                    })
                    .ok(),
                Err(_) => {
                    kept(
                        MissingKind::Mechanism,
                        "what the kernel put off meanwhile",
                        "the probe's loader panicked".to_owned(),
                    );
                    None
                }
            }),
        }
    }

    /// Has the recorder take note of the measuring threads' wake-ups. Their lateness is known from their own clocks.
    fn watch(&mut self, measurement: &Measurement, missing: &mut Vec<Missing>) {
        let Some(recorder) = &mut self.recorder else { return };
        let watched: Result<(), ProbeError> = measurement.threads().iter().try_for_each(|&(_, tid)| {
            recorder.watch(tid)?;
            recorder.set_threshold(tid, Nanos(u64::MAX))
        });
        if let Err(error) = watched {
            missing.push(Missing {
                kind: MissingKind::Explanations,
                what: "explanations of late wake-ups".to_owned(),
                why: error.to_string(),
                remedy: "run it again".to_owned(),
            });
            self.recorder = None;
        }
    }

    fn explain(&self, measurement: &Measurement, worst: &mut Worst) {
        let watcher = self.recorder.as_ref().map(|recorder| recorder as &dyn Watcher);
        for late in measurement.drain_late() {
            worst.take(late, watcher);
        }
    }

    /// What the probes saw, lost and could not see. The recorder's own view of the measuring threads is left out: the
    /// threads' clocks say it better.
    fn finish(self, run: &mut Run) {
        if let Some(recorder) = &self.recorder {
            run.losses.extend(recorder.losses());
            run.missing.extend(recorder.missing().iter().cloned());
        }
        if let Some(observer) = &self.observer {
            // Before the distributions, so that each worst one is in its distribution.
            run.worst_of_series = observer.worst();
            run.series.extend(observer.series());
            run.losses.extend(observer.losses());
            run.missing.extend(observer.missing().iter().cloned());
        }
    }
}
