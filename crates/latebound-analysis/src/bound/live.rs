// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the records of one CPU, as a probe writes them while the system runs, to the values of the views: in memory that
//! does not grow with time.
//!
//! Owns the order of interrupts, the longest windows, the samples of growth, and what speaks against calling the result a
//! bound. Maps nothing, reads no clock.

use std::collections::BTreeSet;

use latebound_abi::{
    BoundCounts, BoundCpu, BoundRecord, BoundWindow, Rule, ViolationEvent, ViolationKind, WindowKind,
};
use latebound_model::{
    BOUND_SCHEMA, BlockingWindow, Bound, Cpu, CpuBound, Evidence, GrowthSample, MeasuredWakeup, Nanos,
    RuleViolation, Tid, Variable, Verdict, ViewKind, WindowEdge,
};

use super::curve::{Fold, FoldLimits, FoldedViews};
use super::document::{NOT_RT, too_late};
use super::ended::EndedInterrupts;
use super::growth::Samples;
use super::observer::model_problems;
use super::record::FoldedCpu;
use super::timeline::{Interrupt, Source, TimelineError};
use super::{Variables, VariablesTooLong};

/// How many violations are kept; the probe writes no more than a few.
const MAX_VIOLATIONS: usize = 16;

/// One CPU, watched live.
#[derive(Clone, Debug)]
pub struct LiveCpu {
    cpu: Cpu,
    start: Nanos,
    fold: Fold,
    ended: EndedInterrupts,
    longest: [Option<BoundWindow>; 4],
    growth: Samples<GrowthSample>,
    sources: BTreeSet<Source>,
    refused: u64,
    first_refused: Option<TimelineError>,
    senseless: u64,
    violations: Vec<(Rule, Option<u64>, i32, Vec<ViolationEvent>)>,
}

const fn place(kind: WindowKind) -> Option<usize> {
    match kind {
        WindowKind::Poid => Some(0),
        WindowKind::Dst => Some(1),
        WindowKind::Paie => Some(2),
        WindowKind::Psd => Some(3),
        WindowKind::Interrupt(_) => None,
    }
}

fn fold_in(fold: &mut Fold, refused: &mut u64, first: &mut Option<TimelineError>, interrupt: Interrupt) {
    if let Err(error) = fold.push(interrupt) {
        *refused += 1;
        first.get_or_insert(error);
    }
}

impl LiveCpu {
    /// Begins at this moment, with nothing seen.
    pub fn new(cpu: Cpu, start: Nanos) -> LiveCpu {
        let mut growth = Samples::new();
        growth.tick(start, GrowthSample::default);
        LiveCpu {
            cpu,
            start,
            fold: Fold::new(FoldLimits::default()),
            ended: EndedInterrupts::default(),
            longest: [const { None }; 4],
            growth,
            sources: BTreeSet::new(),
            refused: 0,
            first_refused: None,
            senseless: 0,
            violations: Vec::new(),
        }
    }

    /// The CPU.
    pub fn cpu(&self) -> Cpu {
        self.cpu
    }

    /// Takes in the next record.
    pub fn take(&mut self, record: BoundRecord) {
        match record {
            BoundRecord::Interrupt { source, start_ns: start, duration_ns: duration } => {
                let interrupt =
                    Interrupt { source: source.into(), start: Nanos(start), duration: Nanos(duration) };
                self.sources.insert(interrupt.source);
                let (fold, refused, first) = (&mut self.fold, &mut self.refused, &mut self.first_refused);
                self.ended.take(interrupt, |interrupt| fold_in(fold, refused, first, interrupt));
            }
            BoundRecord::Window(window) => {
                let Some(place) = place(window.window.kind) else { return };
                let longest = &mut self.longest[place];
                if longest
                    .as_ref()
                    .is_none_or(|longest| longest.window.duration_ns < window.window.duration_ns)
                {
                    *longest = Some(window);
                }
            }
            BoundRecord::Violation { rule, at_ns: at, tid, events } => {
                if self.violations.len() < MAX_VIOLATIONS {
                    self.violations.push((rule, at, tid, events));
                }
            }
            BoundRecord::Senseless => self.senseless += 1,
        }
    }

    /// Nothing more comes: NMIs that waited are taken in.
    pub fn finish(&mut self) {
        let (fold, refused, first) = (&mut self.fold, &mut self.refused, &mut self.first_refused);
        self.ended.finish(|nmi| fold_in(fold, refused, first, nmi));
    }

    /// It is `now`, and everything before has been taken in: notes how far the values have come, where that is due.
    pub fn tick(&mut self, now: Nanos) {
        let elapsed = now.saturating_sub(self.start);
        let (fold, variables) = (&self.fold, self.variables());
        self.growth.tick(now, || match fold.views(&variables) {
            Ok(views) => views.sample(elapsed),
            Err(_) => GrowthSample { elapsed, ..GrowthSample::default() },
        });
    }

    /// The maxima of the blocking variables so far.
    pub fn variables(&self) -> Variables {
        let longest = |place: usize| {
            Nanos(self.longest[place].as_ref().map_or(0, |longest| longest.window.duration_ns))
        };
        Variables { poid: longest(0), dst: longest(1), paie: longest(2), psd: longest(3) }
    }

    /// The views so far.
    pub fn views(&self) -> Result<FoldedViews, VariablesTooLong> {
        self.fold.views(&self.variables())
    }

    /// Interrupts so far, and how much memory they have cost: corners of staircases.
    pub fn folded(&self) -> (u64, usize) {
        (self.fold.len(), self.fold.corners())
    }

    /// The interrupts so far.
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    /// The record of the CPU so far. `place` names the function around an address, `name` names sources.
    pub fn record(
        &self,
        now: Nanos,
        measured: Option<MeasuredWakeup>,
        place: impl Fn(u64) -> String,
        name: impl Fn(Source) -> String,
    ) -> Result<CpuBound, VariablesTooLong> {
        let edge = |caller: u64, tid: i32, comm: &str| WindowEdge {
            caller: place(caller),
            tid: Tid(tid),
            comm: if tid == 0 { "idle task".to_owned() } else { comm.to_owned() },
        };
        let kinds = [Variable::Poid, Variable::Dst, Variable::Paie, Variable::Psd];
        let windows = kinds.into_iter().zip(&self.longest).filter_map(|(variable, found)| {
            let BoundWindow { window, begin_comm, end_comm } = found.as_ref()?;
            Some(BlockingWindow {
                variable,
                start: Nanos(window.start_ns),
                end: Nanos(window.end_ns),
                duration: Nanos(window.duration_ns),
                begin: edge(window.begin_caller, window.begin_tid, begin_comm),
                finish: edge(window.end_caller, window.end_tid, end_comm),
            })
        });
        FoldedCpu {
            cpu: self.cpu,
            start: self.start,
            elapsed: now.saturating_sub(self.start),
            variables: self.variables(),
            windows: windows.collect(),
            fold: &self.fold,
            measured,
            growth: self.growth.kept().iter().map(|(_, sample)| *sample).collect(),
        }
        .record(name)
    }

    /// The rules that were broken, with what led there. `place` names the function around an address.
    pub fn violations(&self, place: impl Fn(u64) -> String) -> Vec<RuleViolation> {
        let of = |(rule, at, tid, events): &(Rule, Option<u64>, i32, Vec<ViolationEvent>)| {
            let mut events: Vec<String> = events.iter().map(|event| in_words(event, &place)).collect();
            if let Some(last) = events.last_mut() {
                let at = at.map(|at| format!(" at {}", seconds(at))).unwrap_or_default();
                *last = format!("{last}; by tid {tid}{at}");
            }
            RuleViolation { cpu: self.cpu, rule: rule.sentence().to_owned(), events }
        };
        self.violations.iter().map(of).collect()
    }

    /// What speaks against calling the result a bound: one sentence each. `state` is the probe's own account.
    pub fn problems(&self, state: &BoundCpu) -> Vec<String> {
        let cpu = self.cpu;
        let BoundCounts { model, refused, unsettled, strange_flags, .. } = state.counts();
        let mut problems = model_problems(cpu, &model, |rule| state.broken(rule));
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                problems.push(format!("CPU {cpu}: {what} ({count}x)"));
            }
        };
        note(refused, "records were lost because nobody took them in time");
        note(self.senseless, "records made no sense");
        note(unsettled, "interrupts kept coming while the clock was read, so that a moment is unsure");
        note(strange_flags, "need_resched was set by a flag that is not known for this kernel's version");
        note(self.refused, "an interrupt could not be placed on the timeline");
        if let Some(error) = self.first_refused {
            problems.push(format!("CPU {cpu}: the first of them: {error}"));
        }
        if model.unnamed > 0 {
            problems.push(format!(
                "CPU {cpu}: {} interrupts without an event that names them; they are taken for one source",
                model.unnamed
            ));
        }
        if model.events > 0 && model.windows == 0 {
            problems.push(format!("CPU {cpu}: no blocking window ended, so nothing is known of it"));
        }
        problems
    }

    /// What has to be known about the values, and does not speak against them.
    pub fn notes(&self, state: &BoundCpu) -> Vec<String> {
        let model = state.counts().model;
        let mut notes = Vec::new();
        if model.idle_windows > 0 {
            notes.push(format!(
                "CPU {}: blocking by the idle task ({} windows, which are not timed here) is not in the values: what leaving an idle state takes is outside the theorem",
                self.cpu, model.idle_windows
            ));
        }
        notes
    }
}

/// All CPUs of a live observation, and what may be said of them.
#[derive(Clone, Debug)]
pub struct LiveBound {
    preempt_rt: bool,
    view: ViewKind,
    /// What speaks against calling it a bound, apart from what the CPUs say.
    pub problems: Vec<String>,
    /// What has to be known with it, apart from what the CPUs say.
    pub notes: Vec<String>,
    violations: Vec<RuleViolation>,
    cpus: Vec<CpuBound>,
}

impl LiveBound {
    /// Without any CPU; `view` speaks for them.
    pub fn new(preempt_rt: bool, view: ViewKind) -> LiveBound {
        LiveBound {
            preempt_rt,
            view,
            problems: Vec::new(),
            notes: Vec::new(),
            violations: Vec::new(),
            cpus: Vec::new(),
        }
    }

    /// Adds a CPU with its record and the probe's account of it. `place` names the function around an address.
    pub fn add(&mut self, live: &LiveCpu, state: &BoundCpu, record: CpuBound, place: impl Fn(u64) -> String) {
        self.problems.extend(live.problems(state));
        self.notes.extend(live.notes(state));
        self.add_record(record, live.violations(place));
    }

    /// Adds the record of a CPU, of which all else is said already, with the rules that it broke.
    pub fn add_record(&mut self, record: CpuBound, violations: Vec<RuleViolation>) {
        self.problems.extend(record.measured.as_ref().and_then(|measured| {
            let allowed =
                record.views.sliding_window.latency.filter(|&allowed| allowed < measured.latency)?;
            Some(too_late(record.cpu, measured, allowed))
        }));
        self.violations.extend(violations);
        self.cpus.push(record);
    }

    /// The record.
    pub fn finish(self) -> Bound {
        let mut reasons = self.problems;
        if !self.preempt_rt {
            reasons.push(NOT_RT.to_owned());
        }
        if self.cpus.is_empty() {
            reasons.push("no CPU was observed".to_owned());
        }
        Bound {
            schema: BOUND_SCHEMA.to_owned(),
            verdict: if reasons.is_empty() { Verdict::Bound } else { Verdict::Estimate },
            reasons,
            notes: self.notes,
            evidence: Evidence::Bound,
            view: self.view,
            cpus: self.cpus,
            violations: self.violations,
        }
    }
}

fn seconds(at: u64) -> String {
    format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000)
}

fn in_words(event: &ViolationEvent, place: impl Fn(u64) -> String) -> String {
    let what = match event.kind {
        ViolationKind::PreemptDisable => "preempt_disable",
        ViolationKind::PreemptEnable => "preempt_enable",
        ViolationKind::IrqDisable => "irq_disable",
        ViolationKind::IrqEnable => "irq_enable",
        ViolationKind::HandlerEntry => "a handler begins",
        ViolationKind::SchedEntry => "__schedule() begins",
        ViolationKind::SchedExit => "__schedule() ends",
        ViolationKind::Switch => "switch",
        ViolationKind::Waking => "waking",
        ViolationKind::NeedResched => "need_resched",
    };
    let within = if event.caller == 0 { String::new() } else { format!(" in {}", place(event.caller)) };
    // The clock is read only where a time matters.
    let at = event.at_ns.map_or_else(|| "(no time)".to_owned(), seconds);
    format!("{at} {what}{within}")
}

#[cfg(test)]
mod tests {
    use latebound_abi::{InterruptSource, ModelWindow};

    use super::*;

    fn interrupt(source: InterruptSource, start: u64, duration: u64) -> BoundRecord {
        BoundRecord::Interrupt { source, start_ns: start, duration_ns: duration }
    }

    fn window(kind: WindowKind, start: u64, duration: u64) -> BoundRecord {
        let window = ModelWindow {
            kind,
            start_ns: start,
            end_ns: start + duration,
            duration_ns: duration,
            begin_caller: 0x10,
            end_caller: 0x20,
            begin_tid: 7,
            end_tid: 7,
        };
        BoundRecord::Window(BoundWindow { window, begin_comm: "a".to_owned(), end_comm: "a".to_owned() })
    }

    /// Vector A of the reference: interrupt-free 100 ns, 50 ns every 120 ns.
    #[test]
    fn a_timer_of_50_ns_every_120_ns_makes_100_ns_of_blocking_200_ns() {
        let mut live = LiveCpu::new(Cpu(1), Nanos(0));
        live.take(window(WindowKind::Poid, 100, 60));
        live.take(window(WindowKind::Psd, 300, 40));
        live.take(window(WindowKind::Psd, 500, 30));
        for n in 0..20 {
            live.take(interrupt(InterruptSource::Vector(236), 1_000 + 120 * n, 50));
        }
        live.finish();
        let record = live.record(Nanos(10_000), None, |_| String::new(), |_| "timer".to_owned()).unwrap();
        assert_eq!((record.poid, record.psd, record.interference_free), (Nanos(60), Nanos(40), Nanos(100)));
        assert_eq!(record.views.worst_single.latency, Some(Nanos(150)));
        assert_eq!(record.views.sliding_window.latency, Some(Nanos(200)));
        assert_eq!(record.views.replay.latency, Some(Nanos(200)));
        assert_eq!(record.interrupts[0].count, 20);
        assert_eq!(record.elapsed, Some(Nanos(10_000)));
    }

    #[test]
    fn an_nmi_in_an_interrupt_is_folded_after_it_and_the_last_nmi_is_kept() {
        let mut live = LiveCpu::new(Cpu(0), Nanos(0));
        for n in 0..3u64 {
            let at = 1_000 + 1_000 * n;
            live.take(interrupt(InterruptSource::Nmi, at - 200, 10));
            live.take(interrupt(InterruptSource::Nmi, at + 5, 10));
            live.take(interrupt(InterruptSource::Vector(236), at, 50));
        }
        live.take(interrupt(InterruptSource::Nmi, 9_000, 10));
        assert_eq!(live.folded().0, 8, "the last two wait");
        live.finish();
        assert_eq!((live.folded().0, live.refused), (10, 0));
    }

    #[test]
    fn memory_does_not_grow_with_time() {
        let mut live = LiveCpu::new(Cpu(0), Nanos(0));
        let mut state = 1u64;
        let mut at = 0;
        let mut corners = Vec::new();
        for n in 0..400_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            at += 1_000 + (state >> 33) % 2_000_000;
            let source = InterruptSource::Vector(230 + (state >> 40) as u32 % 5);
            live.take(interrupt(source, at, 500 + (state >> 20) % 30_000));
            if n % 1000 == 0 {
                live.tick(Nanos(at));
            }
            if n % 100_000 == 99_999 {
                corners.push(live.folded().1);
            }
        }
        assert!(corners.iter().all(|&corners| corners < 6 * 2048), "{corners:?}");
        assert!(live.growth.kept().len() <= 128);
        assert!(live.ended.nmis.capacity() == 0);
    }

    #[test]
    fn growth_is_sampled_and_says_when_it_was_last() {
        let mut live = LiveCpu::new(Cpu(0), Nanos(0));
        for second in 1..=100u64 {
            if second <= 30 {
                live.take(window(WindowKind::Poid, second * 1_000_000, 100 + second));
            }
            live.tick(Nanos(second * 1_000_000_000));
        }
        let record = live.record(Nanos(100_000_000_000), None, |_| String::new(), |_| String::new()).unwrap();
        assert_eq!(record.views.none.latency, Some(Nanos(130)));
        assert_eq!(record.views.none.last_grew, Some(Nanos(30_000_000_000)));
    }
}
