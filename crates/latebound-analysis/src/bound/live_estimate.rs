// SPDX-License-Identifier: MIT OR Apache-2.0
//! What events tell of a system while it runs: what [`Estimator`] and [`CpuObserver`] see, in memory that does not grow with time.
//!
//! Owns what becomes of the interrupts (they are folded) and the record that is made at any moment. Reads no clock.

use std::collections::BTreeMap;

use latebound_model::{
    BOUND_SCHEMA, BlockingWindow, Bound, Cpu, CpuBound, GrowthSample, MeasuredWakeup, Nanos, Verdict,
    ViewKind, WorkloadCurve,
};

use super::curve::{Fold, FoldLimits};
use super::document::too_late;
use super::ended::EndedInterrupts;
use super::estimate::{Estimator, Interrupts};
use super::growth::Samples;
use super::observer::CpuObserver;
use super::record::FoldedCpu;
use super::timeline::{Interrupt, Source, TimelineError};
use super::{Variables, VariablesTooLong};

/// Interrupts are folded into staircases.
#[derive(Debug)]
pub struct FoldedInterrupts {
    fold: Fold,
    ended: EndedInterrupts,
    names: BTreeMap<Source, String>,
    growth: Samples<GrowthSample>,
}

impl Default for FoldedInterrupts {
    fn default() -> FoldedInterrupts {
        FoldedInterrupts {
            fold: Fold::new(FoldLimits::default()),
            ended: EndedInterrupts::default(),
            names: BTreeMap::new(),
            growth: Samples::new(),
        }
    }
}

impl FoldedInterrupts {
    fn name_of(&self, source: Source) -> String {
        self.names.get(&source).cloned().unwrap_or_default()
    }

    fn start(&self, now: Nanos) -> Nanos {
        self.growth.start().unwrap_or(now)
    }

    fn growth(&self) -> Vec<GrowthSample> {
        self.growth.kept().iter().map(|(_, sample)| *sample).collect()
    }
}

impl Interrupts for FoldedInterrupts {
    fn take(&mut self, interrupt: Interrupt) -> Result<(), TimelineError> {
        self.fold.push(interrupt)
    }

    fn take_ended(&mut self, interrupt: Interrupt, mut refused: impl FnMut(TimelineError)) {
        let fold = &mut self.fold;
        self.ended.take(interrupt, |interrupt| fold.push(interrupt).unwrap_or_else(&mut refused));
    }

    fn name(&mut self, source: Source, name: &str) {
        self.names.entry(source).or_insert_with(|| name.to_owned());
    }

    fn is_empty(&self) -> bool {
        self.fold.is_empty()
    }

    #[inline]
    fn tick(&mut self, at: Nanos, variables: impl FnOnce() -> Variables) {
        let (fold, start) = (&self.fold, self.growth.start().unwrap_or(at));
        let elapsed = at.saturating_sub(start);
        self.growth.tick(at, || match fold.views(&variables()) {
            Ok(views) => views.sample(elapsed),
            Err(_) => GrowthSample { elapsed, ..GrowthSample::default() },
        });
    }
}

impl Estimator<FoldedInterrupts> {
    /// The largest value of a view so far.
    pub fn worst(&self, view: ViewKind) -> Option<Nanos> {
        let seen = self.cpus.values().filter(|one| one.seen > 0);
        let values = seen.filter_map(|one| one.interrupts.fold.views(&one.variables).ok());
        values.filter_map(|views| views.get(view).latency()).max()
    }

    /// The record so far: it is `now`. `problems` are those of whoever made the events; `measured` is what somebody else
    /// measured on a CPU in the same time.
    pub fn bound(
        &self,
        now: Nanos,
        view: ViewKind,
        problems: Vec<String>,
        measured: impl Fn(Cpu) -> Option<MeasuredWakeup>,
    ) -> Result<Bound, (Cpu, VariablesTooLong)> {
        let mut reasons = self.reasons(problems);
        let mut cpus = Vec::new();
        for (&cpu, one) in self.cpus.iter().filter(|(_, one)| one.seen > 0) {
            let kept = &one.interrupts;
            let start = kept.start(now);
            let worst = |found: &MeasuredWakeup| found.latency;
            let folded = FoldedCpu {
                cpu,
                start,
                elapsed: now.saturating_sub(start),
                variables: one.variables,
                windows: one.windows.values().cloned().collect(),
                fold: &kept.fold,
                measured: one.measured.clone().into_iter().chain(measured(cpu)).max_by_key(worst),
                growth: kept.growth(),
            };
            let record = folded.record(|source| kept.name_of(source)).map_err(|error| (cpu, error))?;
            if let (Some(measured), Some(allowed)) = (&record.measured, record.views.sliding_window.latency)
                && measured.latency > allowed
            {
                reasons.push(too_late(cpu, measured, allowed));
            }
            cpus.push(record);
        }
        if cpus.is_empty() {
            reasons.push("no CPU was observed".to_owned());
        }
        Ok(Bound {
            schema: BOUND_SCHEMA.to_owned(),
            verdict: Verdict::Estimate,
            reasons,
            notes: Vec::new(),
            evidence: self.evidence(),
            view,
            cpus,
            violations: Vec::new(),
        })
    }

    /// The workload curves of every CPU so far.
    pub fn curves(&self) -> Vec<WorkloadCurve> {
        let of = |(&cpu, one): (&Cpu, &super::estimate::CpuEstimator<FoldedInterrupts>)| {
            one.interrupts.fold.curves(cpu, |source| one.interrupts.name_of(source))
        };
        self.cpus.iter().flat_map(of).collect()
    }
}

impl CpuObserver<FoldedInterrupts> {
    /// Nothing more comes: NMIs that waited are taken in.
    pub fn finish(&mut self) {
        let (FoldedInterrupts { fold, ended, .. }, refused) = self.interrupts_and_refused();
        ended.finish(|nmi| fold.push(nmi).unwrap_or_else(|error| refused.note(error)));
    }

    /// The value of a view so far.
    pub fn value(&self, view: ViewKind) -> Option<Nanos> {
        self.interrupts().fold.views(&self.longest().variables()).ok()?.get(view).latency()
    }

    /// The record so far: it is `now`. `windows` are the longest in words; `measured` is the worst wake-up of the same time.
    pub fn record(
        &self,
        now: Nanos,
        windows: Vec<BlockingWindow>,
        measured: Option<MeasuredWakeup>,
    ) -> Result<CpuBound, VariablesTooLong> {
        let kept = self.interrupts();
        let start = kept.start(now);
        FoldedCpu {
            cpu: self.cpu(),
            start,
            elapsed: now.saturating_sub(start),
            variables: self.longest().variables(),
            windows,
            fold: &kept.fold,
            measured,
            growth: kept.growth(),
        }
        .record(|source| kept.name_of(source))
    }

    /// The workload curves so far.
    pub fn curves(&self) -> Vec<WorkloadCurve> {
        let kept = self.interrupts();
        kept.fold.curves(self.cpu(), |source| kept.name_of(source))
    }
}

#[cfg(test)]
mod tests {
    use latebound_model::{Event, EventKind, Evidence, InterruptKind, SwitchReason, Task, Tid};

    use super::*;
    use crate::bound::Observations;

    fn task(tid: i32, prio: i32) -> Task {
        Task { tid: Tid(tid), comm: format!("t{tid}").into(), prio: Some(prio), ..Task::default() }
    }

    /// Wake-ups from a thread that runs, with a timer before, for as many rounds.
    fn rounds(rounds: u64) -> Vec<Event> {
        let (fair, urgent) = (task(10, 120), task(20, 9));
        let switch = |prev: &Task, next: &Task| EventKind::Switch {
            prev: prev.clone(),
            reason: SwitchReason::Preempted,
            next: next.clone(),
        };
        let timer = InterruptKind::Vector { name: "local_timer".into() };
        let mut events = vec![Event::new(Nanos(1), Cpu(0), switch(&task(0, 120), &fair))];
        for round in 0..rounds {
            let at = 1_000_000 + round * 1_000_000;
            let wait = 2_000 + round * 37 % 900;
            for (after, kind) in [
                (0, EventKind::InterruptEntry(timer.clone())),
                (400, EventKind::Waking { task: urgent.clone() }),
                (700 + round * 13 % 100, EventKind::InterruptExit(timer.clone())),
                (wait, switch(&fair, &urgent)),
                (wait + 5_000, switch(&urgent, &fair)),
            ] {
                events.push(Event::new(Nanos(at + after), Cpu(0), kind));
            }
        }
        events
    }

    #[test]
    fn what_is_folded_while_it_comes_is_what_the_whole_recording_gives() {
        let mut live = Estimator::<FoldedInterrupts>::of(latebound_model::CpuSet::new([Cpu(0)]));
        let mut whole = Estimator::new();
        for event in rounds(500) {
            live.observe(&event);
            whole.observe(&event);
            // Of a CPU that nobody asked for.
            live.observe(&Event { cpu: Cpu(1), ..event });
        }
        let now = Nanos(502_000_000);
        let live_bound = live.bound(now, ViewKind::SlidingWindow, Vec::new(), |_| None).expect("short");
        let whole: Observations = whole.finish(Vec::new());
        let whole = whole.bound().expect("short");
        assert_eq!((live_bound.verdict, live_bound.evidence), (Verdict::Estimate, Evidence::Events));
        assert!(
            live_bound.reasons[0].contains("scheduler events and interrupt events"),
            "{:?}",
            live_bound.reasons
        );
        assert_eq!(live_bound.cpus.len(), 1);
        let (live_cpu, whole_cpu) = (&live_bound.cpus[0], &whole.cpus[0]);
        assert_eq!(live_cpu.poid, whole_cpu.poid);
        assert_eq!(live_cpu.windows, whole_cpu.windows);
        assert_eq!(live_cpu.interrupts, whole_cpu.interrupts);
        assert_eq!(live_cpu.measured, whole_cpu.measured);
        for (kind, view) in live_cpu.views.iter() {
            assert_eq!(view.latency, whole_cpu.views.get(kind).latency, "{kind:?}");
        }
        assert!(live_cpu.growth.len() > 10);
        assert_eq!(live.worst(ViewKind::SlidingWindow), live_cpu.views.sliding_window.latency);
        assert_eq!(live.curves().len(), 2, "of the timer, and of all together");
    }

    #[test]
    fn a_thread_that_was_later_than_the_estimate_is_a_reason() {
        let mut live = Estimator::<FoldedInterrupts>::default();
        rounds(5).iter().for_each(|event| live.observe(event));
        let measured = MeasuredWakeup {
            latency: Nanos::from_millis(3),
            woken: Nanos(7),
            tid: Tid(99),
            comm: "measure/0".to_owned(),
            from_idle: true,
        };
        let bound = live
            .bound(Nanos(9_000_000), ViewKind::SlidingWindow, vec!["lost".to_owned()], |_| {
                Some(measured.clone())
            })
            .expect("short");
        assert_eq!(bound.cpus[0].measured.as_ref(), Some(&measured));
        assert!(
            bound.reasons.iter().any(|reason| reason.contains("measure/0 (tid 99)")),
            "{:?}",
            bound.reasons
        );
        assert!(bound.reasons.iter().any(|reason| reason == "lost"));
    }
}
