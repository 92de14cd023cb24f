// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread model on the events of the kernel's own trace buffers: a bound where no program can be loaded into the kernel, at the cost
//! of reading every event.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow, bail};
use latebound_analysis::bound::LiveBound;
use latebound_model::{Bound, Loss, Nanos, Tid, WorkloadCurve};
use latebound_report::loss_text;
use latebound_saved::{LiveModel, PageTally};
use latebound_trace::{LivePages, Upto};
use latebound_tracefs::{Instance, InstanceOptions, Tracefs, remove_stale};

use super::{Follow, Target, Worst, Written, kernel_symbols};
use crate::privileges::Work;
use crate::session::monotonic;
use crate::trace_observer::vectors;
use crate::trace_reader::{Reading, TraceReader};

/// Without these there is no model.
const NEEDED: [(&str, &str); 6] = [
    ("preemptirq", "preempt_disable"),
    ("preemptirq", "preempt_enable"),
    ("preemptirq", "irq_disable"),
    ("preemptirq", "irq_enable"),
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
];
/// Those that a kernel may lack.
const FURTHER: [(&str, &str); 4] = [
    ("sched", "sched_wakeup"),
    ("irq", "irq_handler_entry"),
    ("irq", "irq_handler_exit"),
    ("nmi", "nmi_handler"),
];

/// A CPU that makes a million events a second writes 20 MB in it: room for a second and a half in which nobody reads.
const BUFFER: u64 = 32 << 20;
/// The buffers take no larger part of the memory than one of so many.
const MEMORY_PARTS: u64 = 8;

impl Reading for LiveModel {
    /// The model of a CPU has no use for another CPU's events.
    const BY_TIME: bool = false;
    const FIRST: bool = true;

    fn take(&mut self, pages: &mut LivePages, upto: Upto) {
        self.take_pages(pages, upto);
    }

    fn set_own(&mut self, own: BTreeSet<Tid>) {
        LiveModel::set_own(self, own);
    }

    fn look(&mut self, _counts: bool) {
        self.settle();
    }

    fn finish(&mut self) {
        LiveModel::finish(self);
    }

    fn tally(&self) -> PageTally {
        LiveModel::tally(self)
    }
}

struct ModelFollower {
    reader: TraceReader<LiveModel>,
    target: Target,
    notes: Vec<String>,
}

/// The first event that the kernel has not, and without which there is no model.
fn lacking(tracefs: &Tracefs) -> Option<String> {
    let absent = NEEDED.iter().find(|(system, name)| !tracefs.has_event(system, name));
    absent.map(|(system, name)| format!("{system}:{name}"))
}

/// Whether the kernel has the events that show blocking.
pub(super) fn can_be_had() -> bool {
    Tracefs::find().is_ok_and(|tracefs| lacking(&tracefs).is_none())
}

/// By an own instance of tracefs; `instead_of` is what could not be had.
pub(super) fn start(target: &Target, instead_of: &[String]) -> Result<Box<dyn Follow>> {
    let tracefs = Tracefs::find()?;
    if let Some(event) = lacking(&tracefs) {
        bail!("this kernel has no event {event}");
    }
    remove_stale(&tracefs);
    let symbols = kernel_symbols()?;
    let listed = NEEDED.iter().chain(&FURTHER).map(|&(system, name)| (system.to_owned(), name.to_owned()));
    let mut events: Vec<(String, String)> = listed.collect();
    events.extend(vectors(|system| tracefs.events_of(system)));
    events.retain(|(system, name)| tracefs.has_event(system, name));
    let has_nmis = tracefs.has_event("nmi", "nmi_handler");
    let nmis = (has_nmis || latebound_probe::nmis_may_come()).then_some(has_nmis);
    let most = target.memory_bytes.map_or(u64::MAX, |bytes| bytes / MEMORY_PARTS);
    let usual = || InstanceOptions::usual_buffer(target.cpus.len(), BUFFER, most);
    let buffer_bytes = Some(target.buffer_bytes.unwrap_or_else(usual));
    let options = InstanceOptions { events, buffer_bytes, cpus: Some(target.cpus.clone()) };
    let instance = Instance::make(&tracefs, &options)?;
    let model = LiveModel::new(instance.decoder().clone(), symbols, &target.cpus, nmis)
        .context("cannot tell the kernel's functions apart")?;
    instance.start()?;
    let reader = TraceReader::start(instance, model, Work::Bound)?;
    let mut notes = vec![
        "the thread model ran on the events of the kernel's trace buffers, which latebound read".to_owned(),
    ];
    notes.extend(instead_of.iter().map(|failed| format!("not by {failed}")));
    Ok(Box::new(ModelFollower { reader, target: target.clone(), notes }))
}

impl Follow for ModelFollower {
    fn take(&mut self) -> Result<()> {
        // The thread that reads takes them.
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.reader.stop()
    }

    fn worst(&self) -> Option<Nanos> {
        self.reader.with(|model| model.worst(self.target.view))
    }

    fn bound(&mut self, worst: &Worst) -> Result<Bound> {
        let mut all = LiveBound::new(self.target.preempt_rt, self.target.view);
        all.problems.extend(self.reader.failed().map(|failed| failed.to_string()));
        let losses = self.reader.losses();
        all.problems.extend(losses.iter().filter(|loss| loss.count != Some(0)).map(loss_text));
        all.notes.clone_from(&self.notes);
        all.notes.extend(self.reader.takes_turns());
        all.notes.extend(self.reader.own_share().map(|share| format!("{share}; they count like all others")));
        self.reader
            .with(|model| model.add_to(&mut all, monotonic(), |cpu| worst.get(&cpu).cloned()))
            .map_err(|(cpu, error)| anyhow!("CPU {cpu}: {error}"))?;
        Ok(all.finish())
    }

    fn curves(&self) -> Vec<WorkloadCurve> {
        self.reader.with(|model| model.curves())
    }

    fn losses(&self) -> Vec<Loss> {
        self.reader.losses()
    }

    fn written(&self) -> Written {
        let PageTally { events, bytes, .. } = self.reader.with(|model| model.tally());
        Written { bytes, events }
    }

    fn by(&self) -> &'static str {
        "the thread model on events of tracefs"
    }
}
