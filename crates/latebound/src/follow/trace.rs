// SPDX-License-Identifier: MIT OR Apache-2.0
//! An observed estimate where neither BPF nor the events that show blocking can be had: the scheduler's and the interrupts' events from the kernel's own trace buffers.

use std::collections::BTreeSet;

use anyhow::Result;
use latebound_analysis::bound::{Estimator, FoldedInterrupts};
use latebound_model::{Bound, Loss, Nanos, Tid, WorkloadCurve};
use latebound_saved::{LiveEvents, PageTally};
use latebound_trace::{LivePages, Symbols, Upto};
use latebound_tracefs::{Instance, InstanceOptions, Tracefs, remove_stale};

use super::estimate::{REMEDY, estimated};
use super::{Follow, Target, Worst, Written};
use crate::privileges::Work;
use crate::trace_observer::vectors;
use crate::trace_reader::{Reading, TraceReader};

/// Those that an estimate is made of; a kernel may lack all but the first two.
const EVENTS: [(&str, &str); 6] = [
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
    ("sched", "sched_migrate_task"),
    ("irq", "irq_handler_entry"),
    ("irq", "irq_handler_exit"),
    ("nmi", "nmi_handler"),
];

/// What the thread that reads makes of the pages.
struct Estimating {
    events: LiveEvents,
    estimator: Estimator<FoldedInterrupts>,
}

impl Reading for Estimating {
    fn take(&mut self, pages: &mut LivePages, upto: Upto) {
        let estimator = &mut self.estimator;
        self.events.take_pages(pages, upto, &mut |event| estimator.observe(&event));
    }

    fn set_own(&mut self, own: BTreeSet<Tid>) {
        self.events.set_own(own);
    }

    fn look(&mut self, _counts: bool) {}

    fn tally(&self) -> PageTally {
        self.events.tally()
    }
}

struct TraceFollower {
    reader: TraceReader<Estimating>,
    target: Target,
    problems: Vec<String>,
}

/// By an own instance of tracefs; `instead_of` is what could not be had.
pub(super) fn start(target: &Target, instead_of: &[String]) -> Result<Box<dyn Follow>> {
    let tracefs = Tracefs::find()?;
    remove_stale(&tracefs);
    let mut events: Vec<(String, String)> =
        EVENTS.iter().map(|(system, name)| (String::from(*system), String::from(*name))).collect();
    events.extend(vectors(|system| tracefs.events_of(system)));
    events.retain(|(system, name)| tracefs.has_event(system, name));
    for (system, name) in &EVENTS[..2] {
        if !tracefs.has_event(system, name) {
            anyhow::bail!("this kernel has no event {system}:{name}");
        }
    }
    let instance =
        Instance::make(&tracefs, &InstanceOptions { events, buffer_bytes: target.buffer_bytes, cpus: None })?;
    let estimating = Estimating {
        // No event here has a function in it.
        events: LiveEvents::new(instance.decoder().clone(), Symbols::parse(Vec::new())),
        estimator: Estimator::of(target.cpus.clone()),
    };
    instance.start()?;
    let reader = TraceReader::start(instance, estimating, Work::Bound)?;
    let mut problems = vec![REMEDY.to_owned()];
    problems.extend(instead_of.iter().map(|failed| format!("not by {failed}")));
    Ok(Box::new(TraceFollower { reader, target: target.clone(), problems }))
}

impl Follow for TraceFollower {
    fn take(&mut self) -> Result<()> {
        // The thread that reads takes them.
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.reader.stop()
    }

    fn worst(&self) -> Option<Nanos> {
        self.reader.with(|estimating| estimating.estimator.worst(self.target.view))
    }

    fn bound(&mut self, worst: &Worst) -> Result<Bound> {
        let mut problems = self.problems.clone();
        problems.extend(self.reader.missing().iter().map(ToString::to_string));
        let losses = self.reader.losses();
        let view = self.target.view;
        self.reader.with(|estimating| estimated(&mut estimating.estimator, view, problems, &losses, worst))
    }

    fn curves(&self) -> Vec<WorkloadCurve> {
        self.reader.with(|estimating| estimating.estimator.curves())
    }

    fn losses(&self) -> Vec<Loss> {
        self.reader.losses()
    }

    fn written(&self) -> Written {
        let PageTally { events, bytes, .. } = self.reader.with(|estimating| estimating.tally());
        Written { bytes, events }
    }

    fn by(&self) -> &'static str {
        "an estimate from scheduler and interrupt events of tracefs"
    }
}
