// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst wake-ups so far, each explained while the recorder still holds its events.
//!
//! Owns which events are read from the recorder and when; which wake-ups are kept is `latebound-analysis`'s.

use std::collections::BTreeMap;

use anyhow::Result;
use latebound_analysis::{
    KNOWN_AFTER, KernelFacts, Usual, WorstExplanations, explain, may_be_standstill, shows_wakeup,
};
use latebound_model::{
    Activation, Cause, CauseKind, Cpu, Event, Explanation, Keep, KeptActivations, Missing, MissingKind,
    Nanos, Tid,
};
use latebound_report::sentence;
use latebound_syscall::sched;

use crate::watcher::Watcher;

/// Events from so long before the interval are given to the analysis, which tells from them what was on the CPU
/// when the interval began.
const MARGIN: Nanos = Nanos::from_millis(5);

/// How far back the recorder is asked for what is usual, where that is needed.
const HISTORY: Nanos = Nanos::from_secs(2);

/// What is usual on a CPU stays so for so long: where a machine stands still often, to read it anew for each activation takes longer than
/// the recorder holds its events.
const USUAL_FOR: Nanos = Nanos::from_secs(1);

/// The events of the CPU on which the thread ran, where its wake-up is among them; else those of all CPUs. Whom a job waits for can
/// have been anywhere.
fn events(late: &Activation, from: Nanos, watcher: &dyn Watcher) -> Result<Vec<Event>> {
    if late.ended_at.is_some() {
        return watcher.events(None, from, late.until());
    }
    let here = watcher.events(Some(late.started_cpu), from, late.started_at)?;
    if shows_wakeup(late, &here) { Ok(here) } else { watcher.events(None, from, late.started_at) }
}

/// A wake-up that took so long is worth the events of all CPUs, which take some milliseconds to read.
const LONG: Nanos = Nanos::from_millis(1);

fn waited_long_behind_another(explanation: &Explanation) -> bool {
    let behind = |cause: &Cause| cause.kind == CauseKind::TaskFirst && cause.duration >= LONG;
    explanation.causes.iter().any(behind)
}

/// The worst few, explained, and the activations that are written one by one.
#[derive(Debug)]
pub(crate) struct Worst {
    facts: KernelFacts,
    explanations: WorstExplanations,
    activations: KeptActivations,
    failed: Option<String>,
    /// What is usual on each CPU, with the activation for which it was read.
    usual_of: BTreeMap<Cpu, (Nanos, Usual)>,
}

impl Worst {
    pub(crate) fn new(most: usize, keep: Keep, facts: KernelFacts) -> Worst {
        let (explanations, activations) = (WorstExplanations::new(most), KeptActivations::new(keep));
        Worst { facts, explanations, activations, failed: None, usual_of: BTreeMap::new() }
    }

    /// Explains a late wake-up, where it is among the worst and its events were recorded, and keeps it.
    pub(crate) fn take(&mut self, late: Activation, watcher: Option<&dyn Watcher>) {
        if let Some(watcher) = watcher {
            self.explain(&late, watcher);
        }
        self.activations.take(late.length(), || late);
    }

    /// The same, but it is not one of those that are written one by one: a job that has not ended is none.
    pub(crate) fn explain(&mut self, late: &Activation, watcher: &dyn Watcher) {
        if !self.explanations.wants(late) {
            return;
        }
        match self.explanation(late, watcher) {
            Ok(explanation) => self.explanations.take(explanation),
            Err(error) => self.failed = Some(sentence(error.as_ref())),
        }
    }

    /// The explanation of a late wake-up or job, whether or not it is among the worst.
    pub(crate) fn explanation(&mut self, late: &Activation, watcher: &dyn Watcher) -> Result<Explanation> {
        let from = late.requested_at.saturating_sub(MARGIN);
        let events = events(late, from, watcher)?;
        let mut explanation = explain(late, &events, &self.facts);
        if late.ended_at.is_none() && waited_long_behind_another(&explanation) {
            // Where it might have run meanwhile, the events of the other CPUs show.
            let all = watcher.events(None, from, late.started_at)?;
            explanation = explain(late, &all, &self.facts);
        }
        if may_be_standstill(&events, late) {
            match self.with_history(late, from, watcher) {
                Ok(again) => explanation = again,
                Err(error) => self.failed = Some(sentence(error.as_ref())),
            }
        }
        watcher.name_members(&mut explanation);
        explanation.name_allowed(|tid| sched::affinity_of(tid).ok());
        Ok(explanation)
    }

    /// The same with the events of all CPUs and with what is usual on that one: reading these takes some milliseconds, and few
    /// wake-ups need it.
    fn with_history(&mut self, late: &Activation, from: Nanos, watcher: &dyn Watcher) -> Result<Explanation> {
        let cpu = late.started_cpu;
        let is_fresh = |at: &Nanos| late.requested_at.saturating_sub(*at) < USUAL_FOR;
        if !self.usual_of.get(&cpu).is_some_and(|(at, _)| is_fresh(at)) {
            let history = watcher.events(Some(cpu), from.saturating_sub(HISTORY), late.requested_at)?;
            self.usual_of.insert(cpu, (late.requested_at, Usual::of(&history)));
        }
        self.facts.usual = self.usual_of.get(&cpu).map(|(_, usual)| usual.clone()).unwrap_or_default();
        let events = watcher.events(None, from, Nanos(late.until().0.saturating_add(KNOWN_AFTER.0)))?;
        Ok(explain(late, &events, &self.facts))
    }

    /// The jobs of a thread are followed from now on, with this deadline where there is one: its wake-ups are forgotten.
    pub(crate) fn follow_jobs(&mut self, tid: Tid, deadline: Option<Nanos>) {
        self.explanations.forget_wakeups(tid);
        if let Some(deadline) = deadline {
            self.explanations.set_deadline(tid, deadline);
        }
    }

    /// These threads have ended: what is kept of them stays, and nothing else.
    pub(crate) fn forget(&mut self, ended: &[Tid]) {
        ended.iter().for_each(|tid| self.explanations.forget_thread(*tid));
    }

    /// Takes the worst so far away, for a stretch of time that ends here.
    pub(crate) fn take_explanations(&mut self) -> Vec<Explanation> {
        self.explanations.take_all()
    }

    /// The worst so far.
    pub(crate) fn explanations(&self) -> &[Explanation] {
        self.explanations.kept()
    }

    /// The activations to write one by one: the worst first, or all as they came.
    pub(crate) fn activations(&self) -> &[Activation] {
        self.activations.activations()
    }

    /// What went wrong while reading the recorder, and what there was no room for.
    pub(crate) fn take_missing(&mut self) -> Vec<Missing> {
        let failed = self.failed.take().map(|why| Missing {
            kind: MissingKind::Explanations,
            what: "explanations of some late wake-ups".to_owned(),
            why,
            remedy: "run it again".to_owned(),
        });
        failed.into_iter().chain(left_out(self.activations.left_out())).collect()
    }
}

/// For so many activations that were to be written one by one there was no room.
pub(crate) fn left_out(activations: u64) -> Option<Missing> {
    (activations > 0).then(|| Missing {
        kind: MissingKind::Results,
        what: "single activations".to_owned(),
        why: format!("{activations} came when {} were kept", KeptActivations::MAX),
        remedy: "measure for a shorter time, or write --keep worst:N".to_owned(),
    })
}
