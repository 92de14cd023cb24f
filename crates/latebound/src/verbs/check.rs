// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound check`, the main job: look at the system, measure, explain the worst, watch the mechanisms, write it down.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use anyhow::{Result, anyhow};
use latebound_analysis::KernelFacts;
use latebound_measure::Measurement;
use latebound_model::{Activation, Missing, MissingKind, Nanos, Run, RunState, RunVerb};
use latebound_report::{html, sentence, terminal};
use latebound_system::{Facts, Root};

use crate::cli::CheckArgs;
use crate::firmware::Firmware;
use crate::load_runner::{self, Loads};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::session::{self, Progress, RunWriter, Stop};
use crate::verbs::observe::Source;
use crate::wakeups;
use crate::watch::{self, WatchOptions};
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
    args.source.check()?;
    let mut probes = Probes::start(args, output, &mut run);
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
    probes.end(&mut worst)?;
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
    watcher: Option<Box<dyn Watcher>>,
    observer: Option<Source>,
    /// What was late, and whose events are not all read yet.
    pending: VecDeque<Activation>,
}

impl Probes {
    /// Attaches both, side by side: loading takes a few tenths of a second each.
    fn start(args: &CheckArgs, output: &Output, run: &mut Run) -> Probes {
        let watching = (args.recorder.worst > 0).then(|| WatchOptions {
            source: args.source,
            recorder: args.recorder.options(),
            group: None,
            work: Work::Check,
            refusal: "not",
        });
        let (watcher, observer) = std::thread::scope(|scope| {
            let observer = (!args.no_observe)
                .then(|| scope.spawn(|| Source::start(args.source, BTreeSet::new(), Work::Check, output)));
            let watcher = watching.map(|options| watch::start(options, output));
            (watcher, observer.map(|thread| thread.join()))
        });
        let observer =
            observer.map(|joined| joined.unwrap_or_else(|_| Err(anyhow!("the probe's loader panicked"))));
        let mut kept = |kind, what: &str, error: &anyhow::Error| {
            run.missing.push(Missing {
                kind,
                what: what.to_owned(),
                why: sentence(error.as_ref()),
                remedy: "`latebound doctor` says what else is in the way".to_owned(),
            });
        };
        let watcher = watcher.and_then(|started| {
            started.map_err(|e| kept(MissingKind::Explanations, "explanations of late wake-ups", &e)).ok()
        });
        let observer = observer.and_then(|started| {
            started.map_err(|e| kept(MissingKind::Mechanism, "what the kernel put off meanwhile", &e)).ok()
        });
        let is_trace = watcher.as_ref().is_some_and(|started| started.is_trace);
        if is_trace || observer.as_ref().is_some_and(Source::is_trace) {
            // It costs more, and says less, than what is in the kernel: the two are not alike.
            run.settings.insert("source".to_owned(), "tracefs".to_owned());
        }
        let watcher = watcher.map(|started| started.watcher);
        Probes { watcher, observer, pending: VecDeque::new() }
    }

    /// Has the recorder take note of the measuring threads' wake-ups. Their lateness is known from their own clocks.
    fn watch(&mut self, measurement: &Measurement, missing: &mut Vec<Missing>) {
        let Some(watcher) = &mut self.watcher else { return };
        let watched: Result<()> =
            measurement.threads().iter().try_for_each(|&(_, tid)| watcher.watch_measured(tid));
        if let Err(error) = watched {
            missing.push(Missing {
                kind: MissingKind::Explanations,
                what: "explanations of late wake-ups".to_owned(),
                why: sentence(error.as_ref()),
                remedy: "run it again".to_owned(),
            });
            self.watcher = None;
        }
    }

    fn explain(&mut self, measurement: &Measurement, worst: &mut Worst) {
        self.pending.extend(measurement.drain_late());
        let known = self.watcher.as_ref().map_or(Nanos(u64::MAX), |watcher| watcher.known_until());
        self.explain_until(known, worst);
    }

    fn explain_until(&mut self, known: Nanos, worst: &mut Worst) {
        let watcher = self.watcher.as_deref();
        // They come from one thread a CPU, and are not in order.
        for _ in 0..self.pending.len() {
            let Some(late) = self.pending.pop_front() else { break };
            if late.until() > known {
                self.pending.push_back(late);
            } else {
                worst.take(late, watcher);
            }
        }
    }

    /// No more events come: explains what is left.
    fn end(&mut self, worst: &mut Worst) -> Result<()> {
        if let Some(watcher) = &mut self.watcher {
            watcher.end()?;
        }
        self.explain_until(Nanos(u64::MAX), worst);
        self.observer.as_ref().map_or(Ok(()), Source::stop)
    }

    /// What the probes saw, lost and could not see. The recorder's own view of the measuring threads is left out: the
    /// threads' clocks say it better.
    fn finish(self, run: &mut Run) {
        if let Some(watcher) = &self.watcher {
            run.losses.extend(watcher.losses());
            run.missing.extend(watcher.missing());
        }
        if let Some(observer) = &self.observer {
            // Before the distributions, so that each worst one is in its distribution.
            run.worst_of_series = observer.worst();
            run.series.extend(observer.series());
            run.losses.extend(observer.losses());
            run.missing.extend(observer.missing());
        }
    }
}
