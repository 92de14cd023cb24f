// SPDX-License-Identifier: MIT OR Apache-2.0
//! An observed estimate from what every kernel shows: the flight recorder's events of the scheduler and of interrupts,
//! taken as they come.

use anyhow::{Result, anyhow};
use latebound_analysis::bound::{Estimator, FoldedInterrupts};
use latebound_model::{Bound, Event, Loss, Nanos, ViewKind, WorkloadCurve};
use latebound_probe::{Following, Recorder, RecorderOptions};
use latebound_report::loss_text;

use super::{Follow, Target, Worst, Written};
use crate::session::monotonic;

/// What to do for more.
pub(super) const REMEDY: &str = "for a bound boot a PREEMPT_RT kernel with PREEMPT_TRACER and IRQSOFF_TRACER";

struct EstimateFollower {
    recorder: Recorder,
    estimator: Estimator<FoldedInterrupts>,
    target: Target,
    problems: Vec<String>,
}

/// By the flight recorder; `instead_of` is what could not be had.
pub(super) fn start(target: &Target, instead_of: &[String]) -> Result<Box<dyn Follow>> {
    // Nobody's wake-ups are watched: this wants the events alone.
    let options =
        RecorderOptions { max_threads: 1, following: Following::RealTime, ..RecorderOptions::default() };
    let recorder = Recorder::start(options)?;
    let mut problems = vec![REMEDY.to_owned()];
    problems.extend(instead_of.iter().map(|failed| format!("not by {failed}")));
    problems.extend(recorder.missing().iter().map(ToString::to_string));
    Ok(Box::new(EstimateFollower {
        recorder,
        estimator: Estimator::of(target.cpus.clone()),
        target: target.clone(),
        problems,
    }))
}

/// The record of an estimate so far, with what was lost among its problems.
pub(super) fn estimated(
    estimator: &mut Estimator<FoldedInterrupts>,
    view: ViewKind,
    mut problems: Vec<String>,
    losses: &[Loss],
    worst: &Worst,
) -> Result<Bound> {
    problems.extend(losses.iter().filter(|loss| loss.count != Some(0)).map(loss_text));
    estimator
        .bound(monotonic(), view, problems, |cpu| worst.get(&cpu).cloned())
        .map_err(|(cpu, error)| anyhow!("CPU {cpu}: {error}"))
}

impl Follow for EstimateFollower {
    fn take(&mut self) -> Result<()> {
        let estimator = &mut self.estimator;
        Ok(self.recorder.follow(|event: &Event| estimator.observe(event))?)
    }

    fn stop(&mut self) -> Result<()> {
        let estimator = &mut self.estimator;
        Ok(self.recorder.follow_to_the_end(|event: &Event| estimator.observe(event))?)
    }

    fn worst(&self) -> Option<Nanos> {
        self.estimator.worst(self.target.view)
    }

    fn bound(&mut self, worst: &Worst) -> Result<Bound> {
        let (problems, losses) = (self.problems.clone(), self.recorder.losses());
        estimated(&mut self.estimator, self.target.view, problems, &losses, worst)
    }

    fn curves(&self) -> Vec<WorkloadCurve> {
        self.estimator.curves()
    }

    fn losses(&self) -> Vec<Loss> {
        self.recorder.losses()
    }

    fn written(&self) -> Written {
        let (records, bytes) = self.recorder.followed();
        Written { bytes: records * bytes, events: records }
    }

    fn by(&self) -> &'static str {
        "an estimate from scheduler and interrupt events"
    }
}
