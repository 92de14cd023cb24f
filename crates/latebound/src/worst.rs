// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst wake-ups so far, each explained while the recorder still holds its events.

use latebound_analysis::{KernelFacts, LateActivation, Usual, explain, may_be_standstill};
use latebound_model::{Event, EventKind, Explanation, Missing, Nanos};
use latebound_probe::{ProbeError, Recorder};

/// Events from so long before the interval are given to the analysis, which tells from them what was on the CPU
/// when the interval began.
const MARGIN: Nanos = Nanos::from_millis(5);

/// Timers of other CPUs that were held up too come so long after the thread ran.
const AFTER: Nanos = Nanos::from_millis(2);

/// How far back the recorder is asked for what is usual, where that is needed.
const HISTORY: Nanos = Nanos::from_secs(2);

/// The events of the CPU on which the thread ran, where its wake-up is among them; else those of all CPUs: its timer
/// was on another one (timer migration), or it was woken for another queue first.
fn events(late: &LateActivation, from: Nanos, recorder: &Recorder) -> Result<Vec<Event>, ProbeError> {
    let here = recorder.events(late.cpu, from, late.started_at)?;
    let woken = |event: &Event| match &event.kind {
        EventKind::Waking { task } => task.tid == late.task.tid && event.at >= late.requested_at,
        _ => false,
    };
    if here.iter().any(woken) { Ok(here) } else { recorder.events_of_all(from, late.started_at) }
}

/// The worst few, worst first.
#[derive(Debug)]
pub(crate) struct Worst {
    kept: usize,
    facts: KernelFacts,
    explanations: Vec<Explanation>,
    failed: Option<String>,
}

impl Worst {
    pub(crate) fn new(kept: usize, facts: KernelFacts) -> Worst {
        Worst { kept, facts, explanations: Vec::new(), failed: None }
    }

    /// Explains a late wake-up, where it is among the worst.
    pub(crate) fn take(&mut self, late: &LateActivation, recorder: &Recorder) {
        let latency = late.started_at.saturating_sub(late.requested_at);
        let full = self.explanations.len() >= self.kept;
        if self.kept == 0
            || (full && self.explanations.last().is_some_and(|least| least.latency() >= latency))
        {
            return;
        }
        let from = late.requested_at.saturating_sub(MARGIN);
        let events = match events(late, from, recorder) {
            Ok(events) => events,
            Err(error) => {
                self.failed = Some(error.to_string());
                return;
            }
        };
        let mut explanation = explain(late, &events, &self.facts);
        if may_be_standstill(&events, late) {
            match self.with_history(late, from, recorder) {
                Ok(again) => explanation = again,
                Err(error) => self.failed = Some(error.to_string()),
            }
        }
        let place = self.explanations.partition_point(|kept| kept.latency() >= latency);
        self.explanations.insert(place, explanation);
        self.explanations.truncate(self.kept);
    }

    /// The same with the events of all CPUs and with what is usual on that one: reading these takes some milliseconds, and few
    /// wake-ups need it.
    fn with_history(
        &mut self,
        late: &LateActivation,
        from: Nanos,
        recorder: &Recorder,
    ) -> Result<Explanation, ProbeError> {
        let history = recorder.events(late.cpu, from.saturating_sub(HISTORY), late.requested_at)?;
        self.facts.usual = Usual::of(&history);
        let events = recorder.events_of_all(from, Nanos(late.started_at.0.saturating_add(AFTER.0)))?;
        Ok(explain(late, &events, &self.facts))
    }

    /// The worst so far.
    pub(crate) fn explanations(&self) -> &[Explanation] {
        &self.explanations
    }

    /// What went wrong while reading the recorder, where something did.
    pub(crate) fn missing(&self) -> Option<Missing> {
        self.failed.as_ref().map(|why| Missing {
            what: "explanations of some late wake-ups".to_owned(),
            why: why.clone(),
            remedy: "run it again".to_owned(),
        })
    }
}
