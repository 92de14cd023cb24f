// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound measure`: how late periodic wake-ups are, and nothing else.

use std::time::Duration;

use anyhow::Result;
use latebound_model::{RunState, RunVerb};
use latebound_report::{html, terminal};
use latebound_system::{Facts, Root};

use crate::cli::MeasureArgs;
use crate::load_runner::{self, Loads};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::session::{self, Progress, RunWriter, Stop};
use crate::wakeups;

pub(crate) fn run(args: &MeasureArgs, output: &Output) -> Result<Outcome> {
    let loads = Loads::parse(&args.load)?;
    let stop = Stop::on_signals()?;
    let root = Root::live();
    let doctor = latebound_system::doctor(&root, &Facts::live());
    let cpus = wakeups::cpus(&args.wakeups, &doctor.system)?;
    let allowed = doctor.system.allowed.clone().unwrap_or_default();
    let mut run = session::new_run(RunVerb::Measure, doctor, Some(args.wakeups.duration));
    let mut record = RunWriter::begin(&args.record, None, &run)?;
    run.missing.extend(session::leave_measured_cpus(&allowed, &cpus));

    // Nobody explains here: no late wake-up is handed out.
    let options = wakeups::options(&args.wakeups, cpus, 0)?;
    let loads = loads.start(Some(args.wakeups.duration), &allowed, &stop)?;
    let measurement = wakeups::start(args.wakeups.policy.is_some(), options, &mut run.missing)?;
    let needs = Needs { run: record.path().is_some(), load: !loads.is_empty(), ..Needs::default() };
    privileges::give_up(Work::Measure, needs, &mut run);
    let mut progress = Progress::new(Some(args.wakeups.duration));
    while !measurement.is_finished() {
        if stop.is_set() {
            measurement.stop();
        }
        std::thread::sleep(Duration::from_millis(50));
        progress.show(|| wakeups::so_far(&measurement.snapshot(), args.wakeups.duration));
        if record.is_due() {
            wakeups::record(&mut run, measurement.snapshot());
            record.checkpoint(&run);
        }
    }
    let measured = measurement.finish()?;
    progress.clear();
    loads.finish(&mut run);
    run.state = if measured.interrupted { RunState::Interrupted } else { RunState::Complete };
    wakeups::record(&mut run, measured);
    run.missing.extend(record.take_problem());
    let written = record.finish(&mut run, output, html::page);

    if output.is_json() {
        output.json(&run)?;
    } else {
        output.text(&terminal::measure_table(&run, &output.style()))?;
    }
    written?;
    load_runner::demand_all(&run)?;
    Ok(wakeups::outcome(&run, args.wakeups.max_latency))
}
