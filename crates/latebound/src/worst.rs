// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst wake-ups so far, each explained while the recorder still holds its events, and the activations that are written
//! one by one.

use latebound_analysis::{KernelFacts, Usual, explain, may_be_standstill};
use latebound_model::{Activation, Event, EventKind, Explanation, Missing, MissingKind, Nanos};
use latebound_probe::{ProbeError, Recorder};

use crate::cli::Keep;

/// Events from so long before the interval are given to the analysis, which tells from them what was on the CPU
/// when the interval began.
const MARGIN: Nanos = Nanos::from_millis(5);

/// Timers of other CPUs that were held up too come so long after the thread ran.
const AFTER: Nanos = Nanos::from_millis(2);

/// How far back the recorder is asked for what is usual, where that is needed.
const HISTORY: Nanos = Nanos::from_secs(2);

/// The events of the CPU on which the thread ran, where its wake-up is among them; else those of all CPUs: its timer
/// was on another one (timer migration), or it was woken for another queue first.
fn events(late: &Activation, from: Nanos, recorder: &Recorder) -> Result<Vec<Event>, ProbeError> {
    let here = recorder.events(late.started_cpu, from, late.started_at)?;
    let woken = |event: &Event| match &event.kind {
        EventKind::Waking { task } => task.tid == late.runner_tid() && event.at >= late.requested_at,
        _ => false,
    };
    if here.iter().any(woken) { Ok(here) } else { recorder.events_of_all(from, late.started_at) }
}

/// As many activations are written one by one: some 400 MB of memory.
const MAX_ACTIVATIONS: usize = 1 << 20;

/// The worst few, explained, and the activations that are written one by one.
#[derive(Debug)]
pub(crate) struct Worst {
    kept: usize,
    keep: Keep,
    facts: KernelFacts,
    explanations: Vec<Explanation>,
    activations: Vec<Activation>,
    /// For how many there was no room.
    left_out: u64,
    failed: Option<String>,
}

impl Worst {
    pub(crate) fn new(kept: usize, keep: Keep, facts: KernelFacts) -> Worst {
        let (explanations, activations) = (Vec::new(), Vec::new());
        Worst { kept, keep, facts, explanations, activations, left_out: 0, failed: None }
    }

    /// Explains a late wake-up, where it is among the worst and its events were recorded, and keeps it.
    pub(crate) fn take(&mut self, late: Activation, recorder: Option<&Recorder>) {
        if let Some(recorder) = recorder {
            self.explain(&late, recorder);
        }
        match self.keep {
            Keep::All if self.activations.len() < MAX_ACTIVATIONS => self.activations.push(late),
            Keep::All => self.left_out += 1,
            Keep::Worst(number) => {
                let latency = late.latency();
                let place = self.activations.partition_point(|kept| kept.latency() >= latency);
                if place < number.min(MAX_ACTIVATIONS) {
                    self.activations.insert(place, late);
                    self.activations.truncate(number.min(MAX_ACTIVATIONS));
                }
            }
        }
    }

    fn explain(&mut self, late: &Activation, recorder: &Recorder) {
        let latency = late.latency();
        let full = self.explanations.len() >= self.kept;
        if self.kept == 0
            || (full && self.explanations.last().is_some_and(|lowest| lowest.latency() >= latency))
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
        late: &Activation,
        from: Nanos,
        recorder: &Recorder,
    ) -> Result<Explanation, ProbeError> {
        let history = recorder.events(late.started_cpu, from.saturating_sub(HISTORY), late.requested_at)?;
        self.facts.usual = Usual::of(&history);
        let events = recorder.events_of_all(from, Nanos(late.started_at.0.saturating_add(AFTER.0)))?;
        Ok(explain(late, &events, &self.facts))
    }

    /// The worst so far.
    pub(crate) fn explanations(&self) -> &[Explanation] {
        &self.explanations
    }

    /// The activations to write one by one: the worst first, or all as they came.
    pub(crate) fn activations(&self) -> &[Activation] {
        &self.activations
    }

    /// What went wrong while reading the recorder, and what there was no room for.
    pub(crate) fn take_missing(&mut self) -> Vec<Missing> {
        let failed = self.failed.take().map(|why| Missing {
            kind: MissingKind::Explanations,
            what: "explanations of some late wake-ups".to_owned(),
            why,
            remedy: "run it again".to_owned(),
        });
        let left_out = (self.left_out > 0).then(|| Missing {
            kind: MissingKind::Results,
            what: "single activations".to_owned(),
            why: format!("{} came when {MAX_ACTIVATIONS} were kept", self.left_out),
            remedy: "measure for a shorter time, or write --keep worst:N".to_owned(),
        });
        failed.into_iter().chain(left_out).collect()
    }
}

#[cfg(test)]
mod tests {
    use latebound_model::{Cpu, Mechanism, Task};

    use super::*;

    fn kept(keep: Keep) -> Vec<u64> {
        let mut worst = Worst::new(10, keep, KernelFacts::default());
        for (n, latency) in [30, 10, 40, 20, 40].into_iter().enumerate() {
            let at = Nanos(1_000 * n as u64);
            let mechanism = Mechanism::TimerWakeup;
            let late = Activation::of_thread(
                "s".into(),
                mechanism,
                Task::default(),
                Cpu(0),
                at,
                at + Nanos(latency),
            );
            worst.take(late, None);
        }
        worst.activations().iter().map(|one| one.latency().0).collect()
    }

    #[test]
    fn keep_worst_2_holds_the_two_longest_and_all_holds_every_one() {
        assert_eq!(kept(Keep::Worst(2)), [40, 40]);
        assert_eq!(kept(Keep::Worst(0)), [0_u64; 0]);
        assert_eq!(kept(Keep::All), [30, 10, 40, 20, 40]);
    }

    #[test]
    fn keep_takes_all_or_a_number_of_worst_and_nothing_else() {
        assert_eq!("all".parse(), Ok(Keep::All));
        assert_eq!("worst:12".parse(), Ok(Keep::Worst(12)));
        for wrong in ["", "worst", "worst:", "worst:-1", "best:3", "12"] {
            assert!(wrong.parse::<Keep>().is_err(), "{wrong}");
        }
    }
}
