// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst wake-ups so far, each explained while the recorder still holds its events.

use latebound_analysis::{KernelFacts, LateActivation, explain};
use latebound_model::{Event, EventKind, Explanation, Missing, Nanos};
use latebound_probe::{ProbeError, Recorder};

/// Events from so long before the interval are given to the analysis, which tells from them what was on the CPU
/// when the interval began.
const MARGIN: Nanos = Nanos::from_millis(5);

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
        let explanation = explain(late, &events, &self.facts);
        let place = self.explanations.partition_point(|kept| kept.latency() >= latency);
        self.explanations.insert(place, explanation);
        self.explanations.truncate(self.kept);
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
