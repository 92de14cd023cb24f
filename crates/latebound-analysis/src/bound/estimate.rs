// SPDX-License-Identifier: MIT OR Apache-2.0
//! An *observed estimate* from what stock kernels show: wake-ups, switches, interrupts, and the scheduler's own entry, exit
//! and need-resched events where there are any (6.16 and later).
//!
//! Owns which observation stands for which part of the theorem (docs/src/reference/bound.md says it to users):
//! - With the scheduler's events: from a thread being told to give way to `__schedule()` stands for POID and PAIE
//!   together; from its entry to its exit for PSD; from the switch to the exit for DST.
//! - Without them: from the waking of a real-time thread that is the most urgent one to the switch to it stands for
//!   everything that blocks.
//!
//! All of these are net of interrupts and NMIs, which are kept like those of a bound. What is off while nobody waits leaves
//! no trace here, so the result is never a bound, and always says so.

use std::collections::BTreeMap;

use latebound_model::{
    BlockingWindow, Cpu, CpuSet, Event, EventKind, Evidence, InterruptKind, MeasuredWakeup, Nanos, Task, Tid,
    Variable, WindowEdge,
};

use super::Variables;
use super::document::{Conditions, CpuObservations, Observations};
use super::growth::{Samples, Snapshot};
use super::timeline::{Interrupt, Source, Timeline, TimelineError};

/// The kernel's priorities of fair threads begin here (`MAX_RT_PRIO`, include/linux/sched/prio.h, 5.15 to 6.18).
const MAX_RT_PRIO: i32 = 100;

/// Vectors of x86_64 by the names of their events (arch/x86/include/asm/irq_vectors.h, 5.15 to 6.18).
const X86_VECTORS: [(&str, u32); 10] = [
    ("local_timer", 0xec),
    ("reschedule", 0xfd),
    ("call_function", 0xfc),
    ("call_function_single", 0xfb),
    ("thermal_apic", 0xfa),
    ("threshold_apic", 0xf9),
    ("x86_platform_ipi", 0xf7),
    ("irq_work", 0xf6),
    ("deferred_error_apic", 0xf4),
    ("spurious_apic", 0xff),
];

/// What becomes of the interrupts of a CPU, and of how far its values had come.
pub trait Interrupts: Default {
    /// Takes the next interrupt by its start.
    fn take(&mut self, interrupt: Interrupt) -> Result<(), TimelineError>;
    /// Takes an interrupt that has just ended: NMIs that came within it have ended before. Gives why each of those that have no
    /// place has none.
    fn take_ended(&mut self, interrupt: Interrupt, refused: impl FnMut(TimelineError));
    /// Names a source.
    fn name(&mut self, source: Source, name: &str);
    /// Whether there was none.
    fn is_empty(&self) -> bool;
    /// It is `at` now, and nothing later was taken yet.
    fn tick(&mut self, at: Nanos, variables: impl FnOnce() -> Variables);
}

/// Every interrupt is kept: for recordings, which end.
#[derive(Debug, Default)]
pub struct RecordedInterrupts {
    pub(super) timeline: Timeline,
    pub(super) progress: Samples<Snapshot>,
}

impl Interrupts for RecordedInterrupts {
    fn take(&mut self, interrupt: Interrupt) -> Result<(), TimelineError> {
        self.timeline.push(interrupt)
    }

    #[inline]
    fn take_ended(&mut self, interrupt: Interrupt, refused: impl FnMut(TimelineError)) {
        self.timeline.push_ended(interrupt).map_or_else(refused, |()| {});
    }

    fn name(&mut self, source: Source, name: &str) {
        self.timeline.name(source, name);
    }

    fn is_empty(&self) -> bool {
        self.timeline.is_empty()
    }

    #[inline]
    fn tick(&mut self, at: Nanos, variables: impl FnOnce() -> Variables) {
        let interrupts = self.timeline.len();
        self.progress.tick(at, || Snapshot { variables: variables(), interrupts });
    }
}

/// Follows every CPU of a system.
#[derive(Debug, Default)]
pub struct Estimator<I = RecordedInterrupts> {
    pub(super) cpus: BTreeMap<Cpu, CpuEstimator<I>>,
    /// Numbers for vectors that only their names tell apart, above those of every processor.
    vectors: BTreeMap<String, u32>,
    /// The CPUs that are looked at; all where it is `None`.
    only: Option<CpuSet>,
    pub(super) scheduler: bool,
}

impl Estimator {
    /// Begins with nothing known.
    pub fn new() -> Estimator {
        Estimator::default()
    }

    /// What was seen, with what it misses. `problems` are those of whoever made the events: losses.
    pub fn finish(self, problems: Vec<String>) -> Observations {
        let reasons = self.reasons(problems);
        let evidence = self.evidence();
        let seen = self.cpus.into_iter().filter(|(_, one)| one.seen > 0);
        let of = |(cpu, one): (Cpu, CpuEstimator<RecordedInterrupts>)| CpuObservations {
            cpu,
            variables: one.variables,
            start: one.interrupts.progress.start(),
            elapsed: one.interrupts.progress.elapsed(),
            progress: one.interrupts.progress.kept().to_vec(),
            windows: one.windows.into_values().collect(),
            measured: one.measured,
            timeline: one.interrupts.timeline,
        };
        let cpus = seen.map(of).collect();
        let conditions = Conditions { preempt_rt: false, evidence, problems: reasons, notes: Vec::new() };
        Observations { conditions: Some(conditions), cpus }
    }
}

impl<I: Interrupts> Estimator<I> {
    /// Begins with nothing known, and looks at these CPUs alone.
    pub fn of(cpus: CpuSet) -> Estimator<I> {
        Estimator { only: Some(cpus), ..Estimator::default() }
    }

    /// What kind of events were seen.
    pub fn evidence(&self) -> Evidence {
        if self.scheduler { Evidence::Scheduler } else { Evidence::Events }
    }

    /// Takes in the next event. Events of one CPU must come in the order of time.
    pub fn observe(&mut self, event: &Event) {
        self.scheduler |= matches!(event.kind, EventKind::SchedulerEntry | EventKind::SchedulerExit);
        let source = match &event.kind {
            EventKind::InterruptEntry(kind) | EventKind::InterruptExit(kind) => Some(self.source(kind)),
            _ => None,
        };
        // A thread may be told to give way by another CPU: what counts is where it runs.
        let cpu = match event.kind {
            EventKind::NeedResched { tid, .. } => {
                let runs = |(_, one): &(&Cpu, &CpuEstimator<I>)| {
                    one.current.as_ref().is_some_and(|now| now.tid == tid)
                };
                self.cpus.iter().find(runs).map_or(event.cpu, |(cpu, _)| *cpu)
            }
            _ => event.cpu,
        };
        if self.only.as_ref().is_none_or(|only| only.contains(cpu)) {
            self.cpus.entry(cpu).or_insert_with(|| CpuEstimator::new(cpu)).observe(event, source);
        }
    }

    fn source<'e>(&mut self, kind: &'e InterruptKind) -> (Source, &'e str) {
        match kind {
            InterruptKind::Device { irq, name } => (Source::Device(*irq), name),
            InterruptKind::Vector { name } => {
                let known = X86_VECTORS.iter().find(|(vector, _)| name == vector).map(|&(_, number)| number);
                let next = 0x1_0000 + self.vectors.len() as u32;
                let learnt = known.or_else(|| self.vectors.get(name.as_str()).copied());
                let number = learnt.unwrap_or_else(|| *self.vectors.entry(name.to_string()).or_insert(next));
                (Source::Vector(number), name)
            }
        }
    }

    /// Why it is an estimate, one sentence each. `problems` are those of whoever made the events: losses.
    pub(super) fn reasons(&self, problems: Vec<String>) -> Vec<String> {
        let seen = if self.scheduler {
            "blocking was seen only where a thread was told to give way and by the scheduler itself"
        } else {
            "blocking was seen only where a real-time thread was woken and had to wait"
        };
        let mut reasons = vec![format!(
            "the values come from scheduler events and interrupt events, without preemption and interrupt on/off events: {seen}; what is off while nobody waits is not known"
        )];
        reasons.extend(problems);
        for (cpu, one) in &self.cpus {
            let seen = one.seen;
            let mut note = |count: u64, what: &str| {
                if count > 0 {
                    reasons.push(format!("CPU {cpu}: {what} ({count}x)"));
                }
            };
            note(one.lost, "events were lost");
            note(one.refused, "an interrupt could not be placed on the timeline");
            note(
                one.unpaired,
                "a handler's end came without its beginning, or its beginning without its end",
            );
            if seen == 0 {
                // Zero would be a value; that nothing was seen is none.
                let what = match self.scheduler {
                    true => "no thread was told to give way",
                    false => "no real-time thread was woken while a less urgent one ran",
                };
                reasons.push(format!("CPU {cpu}: {what}, so nothing is said of it"));
                continue;
            }
            reasons.push(format!("CPU {cpu}: blocking is the longest of {seen} that were seen"));
            if one.interrupts.is_empty() {
                reasons.push(format!("CPU {cpu}: no interrupt was seen"));
            }
        }
        reasons
    }
}

/// An interrupt that has begun.
#[derive(Debug)]
struct Frame {
    source: Source,
    start: u64,
    /// What interrupted it in turn.
    within: u64,
}

/// A moment, and how long interrupts had taken until then.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: u64,
    busy: u64,
}

#[derive(Debug)]
struct Waiting {
    task: Tid,
    prio: i32,
    since: Mark,
    from_idle: bool,
    /// Whether the CPU has turned to a less urgent thread since: a switch that had begun already.
    passed: bool,
}

/// One CPU.
#[derive(Debug)]
pub(super) struct CpuEstimator<I> {
    cpu: Cpu,
    current: Option<Task>,
    frames: Vec<Frame>,
    /// Whether any interrupt was seen, if only its end.
    heard: bool,
    /// Interrupts that ended within one that has not.
    pending: Vec<Interrupt>,
    busy: u64,
    waiting: Vec<Waiting>,
    need_resched: Option<Mark>,
    entered: Option<(Mark, Option<Task>)>,
    switched: Option<(Mark, Option<Task>)>,
    has_scheduler: bool,
    pub(super) variables: Variables,
    pub(super) windows: BTreeMap<Variable, BlockingWindow>,
    pub(super) measured: Option<MeasuredWakeup>,
    pub(super) interrupts: I,
    /// Blocking windows.
    pub(super) seen: u64,
    lost: u64,
    refused: u64,
    unpaired: u64,
}

impl<I: Interrupts> CpuEstimator<I> {
    fn new(cpu: Cpu) -> CpuEstimator<I> {
        CpuEstimator {
            cpu,
            current: None,
            frames: Vec::new(),
            heard: false,
            pending: Vec::new(),
            busy: 0,
            waiting: Vec::new(),
            need_resched: None,
            entered: None,
            switched: None,
            has_scheduler: false,
            variables: Variables::default(),
            windows: BTreeMap::new(),
            measured: None,
            interrupts: I::default(),
            seen: 0,
            lost: 0,
            refused: 0,
            unpaired: 0,
        }
    }

    fn observe(&mut self, event: &Event, source: Option<(Source, &str)>) {
        let at = event.at.0;
        if !matches!(event.kind, EventKind::Lost { .. }) && event.cpu == self.cpu {
            self.interrupts.tick(event.at, || self.variables);
        }
        // No handler switches threads or calls the scheduler: the end of what still seems to run was not seen.
        if matches!(
            event.kind,
            EventKind::Switch { .. } | EventKind::SchedulerEntry | EventKind::SchedulerExit
        ) {
            self.forget_frames();
        }
        match &event.kind {
            EventKind::InterruptEntry(_) => {
                if let Some((source, name)) = source {
                    self.interrupts.name(source, name);
                    self.heard = true;
                    self.frames.push(Frame { source, start: at, within: 0 });
                }
            }
            EventKind::InterruptExit(_) => {
                if let Some((source, _)) = source {
                    self.left(source, at);
                }
            }
            EventKind::Nmi { duration } => {
                let start = at.saturating_sub(duration.0);
                match self.frames.last_mut() {
                    Some(frame) => frame.within = frame.within.saturating_add(duration.0),
                    None => self.busy = self.busy.saturating_add(duration.0),
                }
                self.place(Interrupt { source: Source::Nmi, start: Nanos(start), duration: *duration });
            }
            EventKind::Waking { task } => self.woken(at, task),
            EventKind::Migrate { tid, to } if *to != self.cpu => {
                self.waiting.retain(|waiting| waiting.task != *tid);
            }
            EventKind::Switch { next, .. } => self.turned(at, next),
            EventKind::NeedResched { lazy: false, .. } => {
                let idle = self.current.as_ref().is_none_or(Task::is_idle);
                // The idle task gives way by leaving its idle state, which is outside the theorem.
                if self.need_resched.is_none() && self.entered.is_none() && !idle {
                    self.need_resched = Some(self.mark(at));
                }
            }
            EventKind::SchedulerEntry => {
                self.has_scheduler = true;
                if let Some(need_resched) = self.need_resched.take() {
                    self.seen += 1;
                    let who = edge("told to give way", self.current.as_ref());
                    let end = edge("__schedule", self.current.as_ref());
                    self.window(Variable::Poid, need_resched, at, who, end);
                }
                self.entered = Some((self.mark(at), self.current.clone()));
                self.switched = None;
            }
            EventKind::SchedulerExit => {
                let end = edge("end of __schedule", self.current.as_ref());
                if let Some((entered, who)) = self.entered.take() {
                    self.window(Variable::Psd, entered, at, edge("__schedule", who.as_ref()), end.clone());
                }
                if let Some((switched, who)) = self.switched.take() {
                    self.window(Variable::Dst, switched, at, edge("sched_switch", who.as_ref()), end);
                }
                self.need_resched = None;
            }
            EventKind::Lost { .. } => {
                self.lost += 1;
                self.frames.clear();
                self.waiting.clear();
                (self.current, self.need_resched, self.entered, self.switched) = (None, None, None, None);
                self.settle();
            }
            _ => {}
        }
    }

    /// How long interrupts had taken until now, the rest of the one that runs included.
    fn mark(&self, at: u64) -> Mark {
        let open = self.frames.first().map_or(0, |frame| at.saturating_sub(frame.start));
        Mark { at, busy: self.busy.saturating_add(open) }
    }

    fn left(&mut self, source: Source, at: u64) {
        if self.frames.last().is_none_or(|frame| frame.source != source) {
            // The first may have begun before anybody looked.
            self.unpaired += u64::from(self.heard);
            self.heard = true;
            return;
        }
        let Some(frame) = self.frames.pop() else { return };
        let whole = at.saturating_sub(frame.start);
        let duration = Nanos(whole.saturating_sub(frame.within));
        match self.frames.last_mut() {
            Some(outer) => outer.within = outer.within.saturating_add(whole),
            None => self.busy = self.busy.saturating_add(whole),
        }
        self.place(Interrupt { source, start: Nanos(frame.start), duration });
    }

    /// Interrupts whose end was not seen: how long they took is not known.
    fn forget_frames(&mut self) {
        if !self.frames.is_empty() {
            self.unpaired += self.frames.len() as u64;
            self.frames.clear();
            self.settle();
        }
    }

    /// A timeline takes interrupts by their start: those within another one wait for its end.
    fn place(&mut self, interrupt: Interrupt) {
        self.pending.push(interrupt);
        if self.frames.is_empty() {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.pending.sort_by_key(|interrupt| interrupt.start);
        for interrupt in std::mem::take(&mut self.pending) {
            self.refused += u64::from(self.interrupts.take(interrupt).is_err());
        }
    }

    fn woken(&mut self, at: u64, task: &Task) {
        self.waiting.retain(|waiting| waiting.task != task.tid);
        let (Some(current), Some(prio)) = (&self.current, task.prio) else { return };
        let from_idle = current.is_idle();
        let running = if from_idle { i32::MAX } else { current.prio.unwrap_or(i32::MIN) };
        if prio < MAX_RT_PRIO && prio < running {
            let since = self.mark(at);
            self.waiting.push(Waiting { task: task.tid, prio, since, from_idle, passed: false });
        }
    }

    fn turned(&mut self, at: u64, next: &Task) {
        let before = self.current.replace(next.clone());
        if self.entered.is_some() {
            self.switched = Some((self.mark(at), before.clone()));
        }
        if let Some(place) = self.waiting.iter().position(|waiting| waiting.task == next.tid) {
            let waiting = self.waiting.swap_remove(place);
            let latency = Nanos(at.saturating_sub(waiting.since.at));
            if self.measured.as_ref().is_none_or(|seen| seen.latency < latency) {
                self.measured = Some(MeasuredWakeup {
                    latency,
                    woken: Nanos(waiting.since.at),
                    tid: next.tid,
                    comm: next.comm.to_string(),
                    from_idle: waiting.from_idle,
                });
            }
            // With the scheduler's own events the parts are known, and this would count them twice.
            if !waiting.from_idle && !self.has_scheduler {
                self.seen += 1;
                let who = edge("sched_waking", before.as_ref());
                self.window(Variable::Poid, waiting.since, at, who, edge("sched_switch", Some(next)));
            }
        }
        let running = if next.is_idle() { i32::MAX } else { next.prio.unwrap_or(i32::MIN) };
        self.waiting.retain_mut(|waiting| {
            let stays = waiting.prio < running && !waiting.passed;
            waiting.passed = true;
            stays
        });
    }

    fn window(&mut self, variable: Variable, since: Mark, at: u64, begin: WindowEdge, finish: WindowEdge) {
        let taken = self.mark(at).busy.saturating_sub(since.busy);
        let duration = Nanos(at.saturating_sub(since.at).saturating_sub(taken));
        let longest = match variable {
            Variable::Poid => &mut self.variables.poid,
            Variable::Psd => &mut self.variables.psd,
            Variable::Dst => &mut self.variables.dst,
            Variable::Paie => &mut self.variables.paie,
        };
        if duration > *longest {
            *longest = duration;
            let (start, end) = (Nanos(since.at), Nanos(at));
            self.windows.insert(variable, BlockingWindow { variable, start, end, duration, begin, finish });
        }
    }
}

fn edge(what: &str, task: Option<&Task>) -> WindowEdge {
    WindowEdge {
        caller: what.to_owned(),
        tid: task.map_or(Tid(-1), |task| task.tid),
        comm: task.map_or_else(String::new, |task| {
            if task.is_idle() { "idle task".to_owned() } else { task.comm.to_string() }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Verdict;
    use latebound_model::SwitchReason;

    fn task(tid: i32, prio: i32) -> Task {
        Task { tid: Tid(tid), comm: format!("t{tid}").into(), prio: Some(prio), ..Task::default() }
    }

    fn timer() -> InterruptKind {
        InterruptKind::Vector { name: "local_timer".into() }
    }

    fn switch(prev: &Task, next: &Task) -> EventKind {
        EventKind::Switch { prev: prev.clone(), reason: SwitchReason::Preempted, next: next.clone() }
    }

    fn seen(events: Vec<(u64, EventKind)>) -> Observations {
        let mut estimator = Estimator::new();
        for (at, kind) in events {
            estimator.observe(&Event::new(Nanos(at), Cpu(0), kind));
        }
        estimator.finish(Vec::new())
    }

    #[test]
    fn without_scheduler_events_a_net_wait_stands_for_all_blocking() {
        let (fair, urgent, idle) = (task(10, 120), task(20, 9), task(0, 120));
        let seen = seen(vec![
            (0, switch(&idle, &fair)),
            (1_000, EventKind::InterruptEntry(timer())),
            (1_050, EventKind::Waking { task: urgent.clone() }),
            // Inside the interrupt: part of it.
            (1_080, EventKind::Nmi { duration: Nanos(20) }),
            (1_100, EventKind::InterruptExit(timer())),
            (1_300, EventKind::InterruptEntry(timer())),
            (1_340, EventKind::InterruptExit(timer())),
            (1_500, EventKind::Nmi { duration: Nanos(30) }),
            (2_050, switch(&fair, &urgent)),
            (3_000, switch(&urgent, &idle)),
            // From idle: the wake-up is reported, its wait is not blocking.
            (9_000, EventKind::Waking { task: urgent.clone() }),
            (19_000, switch(&idle, &urgent)),
        ]);
        let one = &seen.cpus[0];
        // 1000 from waking to switch, less 50 of the first interrupt, 40 and 30.
        assert_eq!(one.variables, Variables { poid: Nanos(880), ..Variables::default() });
        assert_eq!((one.windows[0].start, one.windows[0].end), (Nanos(1_050), Nanos(2_050)));
        let measured = one.measured.as_ref().expect("two wake-ups");
        assert_eq!((measured.latency, measured.from_idle), (Nanos(10_000), true));
        let took: Vec<_> = one.timeline.iter().map(|i| (i.source, i.start.0, i.duration.0)).collect();
        let vector = Source::Vector(236);
        assert_eq!(
            took,
            [(vector, 1_000, 80), (Source::Nmi, 1_060, 20), (vector, 1_300, 40), (Source::Nmi, 1_470, 30)]
        );
        let bound = seen.bound().expect("short");
        assert_eq!((bound.verdict, bound.evidence), (Verdict::Estimate, Evidence::Events));
        assert!(
            bound.reasons[0].contains("without preemption and interrupt on/off events"),
            "{:?}",
            bound.reasons
        );
    }

    #[test]
    fn with_scheduler_events_giving_way_scheduler_and_tail_are_separate() {
        let (fair, urgent, idle) = (task(10, 120), task(20, 9), task(0, 120));
        let seen = seen(vec![
            (0, switch(&idle, &fair)),
            (1_000, EventKind::InterruptEntry(timer())),
            (1_050, EventKind::Waking { task: urgent.clone() }),
            (1_060, EventKind::NeedResched { tid: Tid(10), lazy: false }),
            (1_100, EventKind::InterruptExit(timer())),
            (1_400, EventKind::SchedulerEntry),
            (1_450, EventKind::InterruptEntry(timer())),
            (1_460, EventKind::InterruptExit(timer())),
            (1_600, switch(&fair, &urgent)),
            (1_650, EventKind::SchedulerExit),
            // Lazily: no order to give way at once.
            (2_000, EventKind::NeedResched { tid: Tid(20), lazy: true }),
            (9_000, EventKind::SchedulerEntry),
            (9_010, EventKind::SchedulerExit),
        ]);
        let one = &seen.cpus[0];
        let expected = Variables { poid: Nanos(300), psd: Nanos(240), dst: Nanos(50), paie: Nanos::ZERO };
        assert_eq!(one.variables, expected);
        assert_eq!(one.measured.as_ref().map(|seen| seen.latency), Some(Nanos(550)));
        let bound = seen.bound().expect("short");
        assert_eq!((bound.verdict, bound.evidence), (Verdict::Estimate, Evidence::Scheduler));
    }

    #[test]
    fn a_thread_reported_by_another_cpu_counts_where_it_runs() {
        let (fair, idle) = (task(10, 120), task(0, 120));
        let mut estimator = Estimator::new();
        let events = [
            (1, 0, switch(&idle, &fair)),
            (0, 100, EventKind::NeedResched { tid: Tid(10), lazy: false }),
            (1, 400, EventKind::SchedulerEntry),
            (1, 500, EventKind::SchedulerExit),
        ];
        for (cpu, at, kind) in events {
            estimator.observe(&Event::new(Nanos(at), Cpu(cpu), kind));
        }
        let seen = estimator.finish(Vec::new());
        assert_eq!(
            seen.cpus.iter().find(|one| one.cpu == Cpu(1)).map(|one| one.variables.poid),
            Some(Nanos(300))
        );
    }

    #[test]
    fn an_interrupt_whose_end_was_not_seen_hides_none_that_come_later() {
        let (fair, urgent, idle) = (task(10, 120), task(20, 9), task(0, 120));
        let device = InterruptKind::Device { irq: 11, name: "disk".into() };
        let seen = seen(vec![
            // It had begun before anybody looked, which is no loss.
            (50, EventKind::InterruptExit(timer())),
            (100, EventKind::InterruptEntry(device)),
            (200, EventKind::InterruptEntry(timer())),
            (230, EventKind::InterruptExit(timer())),
            (300, switch(&idle, &fair)),
            (1_000, EventKind::InterruptEntry(timer())),
            (1_050, EventKind::Waking { task: urgent.clone() }),
            (1_100, EventKind::InterruptExit(timer())),
            (1_200, EventKind::InterruptEntry(timer())),
            (1_240, EventKind::InterruptExit(timer())),
            (1_500, switch(&fair, &urgent)),
        ]);
        let one = &seen.cpus[0];
        let took: Vec<_> = one.timeline.iter().map(|i| (i.start.0, i.duration.0)).collect();
        assert_eq!(took, [(200, 30), (1_000, 100), (1_200, 40)]);
        assert_eq!(one.variables.poid, Nanos(450 - 50 - 40));
        let reasons = seen.bound().expect("short").reasons.join("\n");
        assert!(reasons.contains("its beginning without its end (1x)"), "{reasons}");
    }

    #[test]
    fn a_loss_ends_every_wait_and_is_reported() {
        let (fair, urgent, idle) = (task(10, 120), task(20, 9), task(0, 120));
        let seen = seen(vec![
            (0, switch(&idle, &fair)),
            (100, EventKind::Waking { task: urgent.clone() }),
            (200, EventKind::Lost { events: Some(3) }),
            (900, switch(&fair, &urgent)),
        ]);
        assert!(seen.cpus.is_empty(), "nothing is not zero");
        let reasons = seen.bound().expect("short").reasons.join("\n");
        assert!(
            reasons.contains("events were lost (1x)") && reasons.contains("nothing is said of it"),
            "{reasons}"
        );
    }
}
