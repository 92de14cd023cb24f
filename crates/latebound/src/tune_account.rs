// SPDX-License-Identifier: MIT OR Apache-2.0
//! The account of `tune run`: its changes, reactions and poll passes, as metrics meanwhile and as a document at the end. Owns these numbers;
//! allocates nothing on the way from a wait to a priority.

use latebound_model::{Histogram, Nanos, Priority};
use latebound_report::TuneMetrics;
use latebound_system::undo::{Raised, Undone};
use latebound_tune::document::{ChangeRecord, ModuleAccount, ModuleReaction, TuneMap, TuneRun};
use latebound_tune::{Change, PolicyKind};

use crate::reserved::processor_time;
use crate::tune_module;
use crate::tuning::Tuning;

/// Changes that are kept for the account at the end; all are counted.
const KEPT_CHANGES: usize = 2_000;

/// What was done so far.
pub(crate) struct Account {
    /// The first changes.
    records: Vec<ChangeRecord>,
    changes: u64,
    pub(crate) raises: u64,
    failed: u64,
    /// What the module did of that; `None` without it, and until it is stopped.
    pub(crate) by_module: Option<ModuleAccount>,
    /// From waits to priorities.
    pub(crate) reactions: Histogram,
    /// The processor time of poll passes.
    pub(crate) polls: Histogram,
    /// Times that the reservation was used up; `None` without one.
    pub(crate) overruns: Option<u64>,
}

impl Account {
    pub(crate) fn new() -> Account {
        Account {
            // Room for all of them at once: a list that grows would be moved on the way to a priority.
            records: Vec::with_capacity(KEPT_CHANGES),
            changes: 0,
            raises: 0,
            failed: 0,
            by_module: None,
            reactions: Histogram::preallocated(),
            polls: Histogram::preallocated(),
            overruns: None,
        }
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// A change by the daemon, so long after the start.
    pub(crate) fn add(&mut self, change: &Change, comm: Option<&str>, at: Nanos, error: Option<String>) {
        self.changes += 1;
        self.failed += u64::from(error.is_some());
        if self.records.len() < KEPT_CHANGES {
            self.records.push(ChangeRecord::new(change, comm, at, error));
        }
    }

    /// Raises by the module since the last call: the session learns of them.
    pub(crate) fn learn(&mut self, tuning: &mut Tuning, by_module: &[Raised], started: Nanos, now: Nanos) {
        for raised in by_module {
            self.changes += 1;
            self.raises += 1;
            let change = tune_module::learn(tuning, raised, now);
            if self.records.len() < KEPT_CHANGES {
                let at = raised.set.saturating_sub(started);
                let record = ChangeRecord::new(&change, tuning.name(change.thread), at, None);
                let by_module = Some(ModuleReaction {
                    task: raised.task,
                    over: tune_module::relation_kind(raised.over),
                    reaction: raised.set.saturating_sub(raised.asked),
                });
                self.records.push(ChangeRecord {
                    highest: Priority::new(raised.priority),
                    by_module,
                    ..record
                });
            }
        }
    }

    /// The numbers of this moment.
    pub(crate) fn metrics(&self, tuning: &Tuning, policy: PolicyKind, dry_run: bool) -> TuneMetrics {
        let (raised, known) = tuning.tuner().raised();
        let losses = tuning.losses().into_iter();
        TuneMetrics {
            running: true,
            dry_run,
            policy: policy.name(),
            changes: self.changes,
            raises: self.raises,
            failed: self.failed,
            relations: tuning.tuner().relations().len() as u64,
            raised,
            known,
            reactions: self.reactions.clone(),
            polls: self.polls.clone(),
            losses: losses.map(|loss| (loss.place, loss.count)).collect(),
            overruns: self.overruns,
            processor_time: processor_time(libc::CLOCK_PROCESS_CPUTIME_ID),
            restored: None,
        }
    }

    /// The document at the end; `undone`: what was given back, `None` in a dry run.
    pub(crate) fn document(
        self,
        dry_run: bool,
        map: TuneMap,
        tuning: &Tuning,
        undone: Option<&Undone>,
    ) -> TuneRun {
        let Account { records, changes, failed, by_module, reactions, polls, overruns, .. } = self;
        let left = undone.iter().flat_map(|undone| &undone.left).map(ToString::to_string);
        TuneRun {
            schema: TuneRun::SCHEMA,
            dry_run,
            changes,
            failed,
            by_module,
            reactions: reactions.count(),
            reaction_median: reactions.quantile(0.5),
            reaction_p99: reactions.quantile(0.99),
            reaction_max: reactions.max(),
            polls: polls.count(),
            poll_median: polls.quantile(0.5),
            poll_p99: polls.quantile(0.99),
            poll_max: polls.max(),
            processor_time: processor_time(libc::CLOCK_PROCESS_CPUTIME_ID),
            overruns,
            page_shares: tuning.page_shares(),
            first_changes: records,
            left: left.collect(),
            restored: undone.map(|undone| undone.restored),
            untouched: undone.map(|undone| undone.untouched),
            gone: undone.map(|undone| undone.gone),
            map,
        }
    }
}
