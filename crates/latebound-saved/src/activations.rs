// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of pages as what activations are paired from.
//!
//! Owns what a record means to that, and what a gap among the records means; never decides what belongs together.

use std::collections::BTreeSet;

use latebound_analysis::activations::{Activations, Happened, Moment, Named};
use latebound_model::{BlockStep, Context, Cpu, Nanos, Tid};
use latebound_trace::{Decoder, DiscontinuityKind, Flags, Item, LivePages, TaskRef, TraceRecord, Upto};

use crate::own::OwnThreads;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageTally {
    /// Events.
    pub events: u64,
    /// Those of them that came while this tool's own threads were current.
    pub own: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Records that their descriptions do not fit.
    pub unreadable: u64,
}

/// Takes records and pairs them. Their times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub struct ActivationReader {
    activations: Activations,
    decoder: Decoder,
    own: OwnThreads,
    /// CPUs of which events are missing before their next one.
    gaps: BTreeSet<Cpu>,
    tally: PageTally,
}

impl ActivationReader {
    /// Of records that `decoder` types.
    pub fn new(activations: Activations, decoder: Decoder) -> ActivationReader {
        let (own, gaps, tally) = (OwnThreads::default(), BTreeSet::new(), PageTally::default());
        ActivationReader { activations, decoder, own, gaps, tally }
    }

    /// The tool's own threads, whose share of the events is counted.
    pub fn set_own(&mut self, own: BTreeSet<Tid>) {
        self.own = OwnThreads::new(own);
    }

    /// What is paired so far.
    pub fn activations(&self) -> &Activations {
        &self.activations
    }

    /// As [`ActivationReader::activations`], to tell it more.
    pub fn activations_mut(&mut self) -> &mut Activations {
        &mut self.activations
    }

    /// What was read so far.
    pub fn tally(&self) -> PageTally {
        self.tally
    }

    /// Takes what pages of a running kernel hold. This is not for the caller to put together: compiled here, it has the optimisations of
    /// this crate.
    pub fn take_pages(&mut self, pages: &mut LivePages, upto: Upto) {
        pages.give(upto, &mut |item| self.take(&item));
    }

    /// Takes what comes next, by time over all CPUs.
    pub fn take(&mut self, item: &Item<'_>) {
        let event = match item {
            Item::Discontinuity(discontinuity) => {
                // A clock that runs backwards loses nothing: what it makes negative is counted there.
                if !matches!(discontinuity.kind, DiscontinuityKind::Backwards { .. }) {
                    self.activations.lost(discontinuity.cpu);
                    self.gaps.insert(discontinuity.cpu);
                }
                return;
            }
            Item::Event(event) => event,
        };
        // Other CPUs' events may have come in between, and what they asked for may have run unseen.
        if !self.gaps.is_empty() && self.gaps.remove(&event.cpu) {
            self.activations.lost(event.cpu);
        }
        let decoded = self.decoder.decode(event.data);
        self.tally.events += 1;
        self.tally.bytes += event.data.len() as u64;
        self.tally.own += u64::from(self.own.has(decoded.tid));
        let happened = match meaning(&self.decoder, &decoded.record) {
            Some(happened) => happened,
            None => {
                let is_readable = !matches!(decoded.record, TraceRecord::Short | TraceRecord::Unknown);
                self.tally.unreadable += u64::from(!is_readable);
                return;
            }
        };
        let moment = Moment {
            at: Nanos(event.time),
            cpu: event.cpu,
            tid: decoded.tid,
            context: context(decoded.flags),
        };
        self.activations.observe(&moment, &happened);
    }
}

fn context(flags: Flags) -> Context {
    if flags.nmi() {
        Context::Nmi
    } else if flags.hardirq() {
        Context::HardIrq
    } else if flags.softirq() {
        Context::Softirq
    } else {
        Context::Task
    }
}

fn named(task: &TaskRef<'_>) -> Named {
    Named { tid: task.tid, prio: task.prio, comm: task.comm.padded() }
}

/// What a record means; `None` where it means nothing to activations.
fn meaning<'a>(decoder: &'a Decoder, record: &TraceRecord<'a>) -> Option<Happened<'a>> {
    Some(match *record {
        TraceRecord::VectorEntry { vector, .. } => Happened::VectorEntry(decoder.vector_name(vector)),
        TraceRecord::VectorExit { vector, .. } => Happened::VectorExit(decoder.vector_name(vector)),
        TraceRecord::IrqHandlerEntry { irq, name } => Happened::IrqEntry { irq, name: name.bytes() },
        TraceRecord::IrqHandlerExit { irq, wakes_thread, .. } => Happened::IrqExit { irq, wakes_thread },
        TraceRecord::SoftirqRaise { vector } => Happened::SoftirqRaise(vector),
        TraceRecord::SoftirqEntry { vector } => Happened::SoftirqEntry(vector),
        TraceRecord::SoftirqExit { vector } => Happened::SoftirqExit(vector),
        TraceRecord::TaskletEntry { tasklet, function } => Happened::TaskletEntry { tasklet, function },
        TraceRecord::TaskletExit { tasklet } => Happened::TaskletExit { tasklet },
        TraceRecord::HrtimerStart { timer, expires_ns, .. } => {
            Happened::TimerStart { timer, expires: expires_ns }
        }
        TraceRecord::HrtimerCancel { timer } => Happened::TimerCancel { timer },
        TraceRecord::HrtimerExpireEntry { timer, now_ns, .. } => Happened::TimerEntry { timer, now: now_ns },
        TraceRecord::HrtimerExpireExit { timer } => Happened::TimerExit { timer },
        TraceRecord::WorkQueue { work } => Happened::WorkQueue { work },
        TraceRecord::WorkActivate { work } => Happened::WorkActivate { work },
        TraceRecord::WorkStart { work, function } => Happened::WorkStart { work, function },
        TraceRecord::WorkEnd { work } => Happened::WorkEnd { work },
        TraceRecord::Wakeup { task, .. } => Happened::Wakeup(named(&task)),
        TraceRecord::Switch { prev, next, .. } => Happened::Switch { prev: named(&prev), next: named(&next) },
        TraceRecord::Fork { parent, child } => Happened::Fork { parent, child },
        TraceRecord::BlockStart { device, sector } => Happened::BlockStart { device, sector, bytes: None },
        TraceRecord::BlockDone { device, sector } => Happened::BlockEnd { device, sector, bytes: None },
        TraceRecord::Block { step: BlockStep::Issued, device, sector, bytes, .. } => {
            Happened::BlockStart { device, sector, bytes: Some(bytes) }
        }
        TraceRecord::Block { step: BlockStep::Completed, device, sector, bytes, .. } => {
            Happened::BlockEnd { device, sector, bytes: Some(bytes) }
        }
        _ => return None,
    })
}
