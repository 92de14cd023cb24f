// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel module latebound_tune beside the daemon of `tune run`: gives it tables of what the daemon would decide, and learns from it what it
//! did. Owns the order of the two; decides nothing.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use latebound_model::{Histogram, Nanos, Tid};
use latebound_model::{Priority, RelationKind, Scheduling};
use latebound_system::undo::{Journal, Raised, RaisedOver, Raiser, RaiserCounts, UndoError};
use latebound_tune::document::ModuleAccount;
use latebound_tune::{Ahead, Change};

use crate::cli::RaiseBy;
use crate::output::Output;
use crate::tuning::Tuning;

pub(crate) struct Module {
    raiser: Raiser,
    ahead: Ahead,
    reactions: Histogram,
    /// Threads that it does not take.
    refused: u64,
}

impl Module {
    /// By what was asked for; the module where it can be had and nothing was.
    pub(crate) fn choose(by: Option<RaiseBy>, watchdog: u32, output: &Output) -> Result<Option<Module>> {
        if by == Some(RaiseBy::Daemon) || (by.is_none() && !Raiser::is_there()) {
            return Ok(None);
        }
        match Raiser::start(watchdog) {
            Ok(raiser) => {
                for (over, what) in [
                    (RaisedOver::BlockIo, "disks"),
                    (RaisedOver::WorkItem, "work items"),
                    (RaisedOver::Reclaim, "page reclaim"),
                ] {
                    if !raiser.sees(over) {
                        output.note(&format!(
                            "this kernel has no trace point for {what} that the module knows: the daemon raises there"
                        ));
                    }
                }
                Ok(Some(Module {
                    raiser,
                    ahead: Ahead::default(),
                    reactions: Histogram::preallocated(),
                    refused: 0,
                }))
            }
            Err(error) if by.is_none() => {
                output.note(&format!("{error}; the daemon raises by itself"));
                Ok(None)
            }
            Err(error) => bail!(error),
        }
    }

    pub(crate) fn raiser(&self) -> &Raiser {
        &self.raiser
    }

    pub(crate) fn take(&mut self) -> Vec<Raised> {
        let raised = self.raiser.take();
        for one in &raised {
            self.reactions.record(one.set.saturating_sub(one.asked));
        }
        raised
    }

    /// New tables of those that were decided upon; where asked for, also who serves what.
    pub(crate) fn give(
        &mut self,
        tuning: &mut Tuning,
        journal: &mut Journal,
        servers: bool,
        now: Nanos,
    ) -> Result<()> {
        for thread in tuning.take_decided() {
            let Some(raises) = self.ahead.of(tuning.tuner(), thread) else { continue };
            match self.raiser.give(journal, thread, raises.table()) {
                Ok(()) if self.raiser.sees(RaisedOver::WorkItem) => tuning.worker_raised_elsewhere(thread)?,
                Ok(()) => {}
                Err(UndoError::Gone(thread)) => tuning.gone(thread, now),
                Err(UndoError::Raiser(_)) => {
                    self.refused += 1;
                    tuning.worker_raised_here(thread);
                }
                Err(error) => bail!(error),
            }
        }
        if servers {
            let mut raised = BTreeSet::new();
            for server in tuning.servers() {
                let (kind, of, thread) = server;
                let over = match kind {
                    RelationKind::Reclaim => RaisedOver::Reclaim,
                    _ => RaisedOver::BlockIo,
                };
                match self.raiser.serves(over, of, thread) {
                    Ok(true) => drop(raised.insert(server)),
                    Ok(false) => {}
                    Err(_) => self.refused += 1,
                }
            }
            tuning.raised_elsewhere(raised);
        }
        Ok(())
    }

    /// A thread is gone.
    pub(crate) fn forget(&mut self, thread: Tid) {
        self.raiser.forget(thread);
    }

    /// Stops it, which comes before undoing. Returns what it raised since [`Module::take`], and its account.
    pub(crate) fn stop(mut self) -> (Vec<Raised>, ModuleAccount) {
        self.raiser.stop();
        let late = self.take();
        let RaiserCounts { raised, failed, needless, records_lost } =
            self.raiser.counts().unwrap_or_default();
        let account = ModuleAccount {
            raised,
            failed,
            needless,
            records_lost,
            refused: self.refused,
            reactions: self.reactions.count(),
            reaction_median: self.reactions.quantile(0.5),
            reaction_p99: self.reactions.quantile(0.99),
            reaction_max: self.reactions.max(),
        };
        (late, account)
    }
}

/// The session learns of a raise by the module, or of what became of the thread since.
pub(crate) fn learn(tuning: &mut Tuning, raised: &Raised, now: Nanos) -> Change {
    let thread = raised.thread;
    let to = Priority::new(raised.to).map_or(Scheduling::other(0), Scheduling::fifo);
    let plan = || tuning.tuner().plan(thread);
    let fair = || plan().map(|plan| plan.default).filter(|default| default.rank() == 0);
    let from = Priority::new(raised.from).map(Scheduling::fifo).or_else(fair).unwrap_or(Scheduling::other(0));
    tuning.changed_elsewhere(thread, now);
    let waiters = tuning.tuner().relations().waiters(thread).map_or(0, latebound_tune::Waiters::number);
    Change { thread, from, to, waiters, highest: Priority::new(raised.priority) }
}

/// The module's kind of wait as that of a relation.
pub(crate) fn relation_kind(over: RaisedOver) -> RelationKind {
    match over {
        RaisedOver::BlockIo => RelationKind::BlockIo,
        RaisedOver::Reclaim => RelationKind::Reclaim,
        RaisedOver::WorkItem => RelationKind::WorkItem,
    }
}
