// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the events of one CPU, through the thread model, to what the views compute on.
//!
//! Owns which windows and violations are kept: of each variable the longest window, of violations the first few with the
//! events before them. Everything else is counted.

use latebound_abi::{
    CallerClass, InterruptSource, ModelCounts, ModelFeatures, ModelWindow, Resched, Rule, ThreadModel,
    ThreadModelEvent, ThreadModelEventKind, WindowKind,
};
use latebound_model::{Cpu, Nanos};

use super::Variables;
use super::estimate::{Interrupts, RecordedInterrupts};
use super::growth::{Samples, Snapshot};
use super::timeline::{Interrupt, Source, Timeline, TimelineError};

/// How many violations of rules are kept with their events.
const MAX_VIOLATIONS: usize = 8;
/// How many events are kept before a violation.
const KEPT_EVENTS: usize = 12;

/// The last events of a CPU: a store for each, and no more.
#[derive(Debug)]
struct Recent {
    events: [ThreadModelEvent; KEPT_EVENTS.next_power_of_two()],
    seen: usize,
}

impl Default for Recent {
    fn default() -> Recent {
        let (class, resched) = (CallerClass::default(), Resched::default());
        let none = ThreadModelEvent {
            at_ns: 0,
            tid: 0,
            caller: 0,
            class,
            resched,
            kind: ThreadModelEventKind::Lost,
        };
        Recent { events: [none; _], seen: 0 }
    }
}

impl Recent {
    #[inline(always)]
    fn push(&mut self, event: &ThreadModelEvent) {
        self.events[self.seen % self.events.len()] = *event;
        self.seen += 1;
    }

    /// The last few, the worst at the end.
    fn in_order(&self) -> Vec<ThreadModelEvent> {
        let first = self.seen.saturating_sub(KEPT_EVENTS);
        (first..self.seen).map(|at| self.events[at % self.events.len()]).collect()
    }
}

/// A rule that was broken, with the events that led there.
#[derive(Clone, Debug)]
pub struct BrokenRule {
    /// The rule.
    pub rule: Rule,
    /// The last events of the CPU; the last of them broke it.
    pub events: Vec<ThreadModelEvent>,
}

/// The longest window of each blocking variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    /// Preemption or interrupts off to postpone the scheduler.
    pub poid: Option<ModelWindow>,
    /// Preemption off to schedule.
    pub psd: Option<ModelWindow>,
    /// The scheduling tail.
    pub dst: Option<ModelWindow>,
    /// Preemption and interrupts on while the thread was to give way.
    pub paie: Option<ModelWindow>,
}

impl Longest {
    /// The variables that they give; 0 where there was no window.
    pub fn variables(&self) -> Variables {
        let longest = |window: Option<ModelWindow>| Nanos(window.map_or(0, |window| window.duration_ns));
        Variables {
            poid: longest(self.poid),
            psd: longest(self.psd),
            dst: longest(self.dst),
            paie: longest(self.paie),
        }
    }
}

/// Interrupts that have no place.
#[derive(Debug, Default)]
pub(super) struct Refused {
    count: u64,
    first: Option<TimelineError>,
}

impl Refused {
    pub(super) fn note(&mut self, error: TimelineError) {
        self.count += 1;
        self.first.get_or_insert(error);
    }
}

/// Watches one CPU.
#[derive(Debug)]
pub struct CpuObserver<I = RecordedInterrupts> {
    cpu: Cpu,
    model: ThreadModel,
    longest: Longest,
    interrupts: I,
    refused: Refused,
    recent: Recent,
    broken: Vec<BrokenRule>,
}

impl CpuObserver {
    /// The interrupts so far.
    pub fn timeline(&self) -> &Timeline {
        &self.interrupts.timeline
    }

    /// How far things had got on the way, and since when.
    pub fn progress(&self) -> &Samples<Snapshot> {
        &self.interrupts.progress
    }

    /// The interrupts and the way there, and nothing else is kept.
    pub fn into_parts(self) -> (Timeline, Samples<Snapshot>) {
        (self.interrupts.timeline, self.interrupts.progress)
    }
}

impl<I: Interrupts> CpuObserver<I> {
    /// Begins with nothing known, on a kernel with these features.
    pub fn new(cpu: Cpu, features: ModelFeatures) -> CpuObserver<I> {
        CpuObserver {
            cpu,
            model: ThreadModel::new(features),
            longest: Longest::default(),
            interrupts: I::default(),
            refused: Refused::default(),
            recent: Recent::default(),
            broken: Vec::new(),
        }
    }

    /// Takes in the next event of the CPU.
    // Inlined, so that an event that was just put together is kept without being read back from memory in other pieces than
    // it was written in: that took a third of the time of following a trace.
    #[inline(always)]
    pub fn observe(&mut self, event: &ThreadModelEvent) {
        let longest = &self.longest;
        // The time of a loss may not be known.
        if event.kind != ThreadModelEventKind::Lost {
            self.interrupts.tick(Nanos(event.at_ns), || longest.variables());
        }
        self.recent.push(event);
        if !self.model.step(event).is_quiet() {
            self.take_step();
        }
    }

    /// Takes in what the last event led to.
    fn take_step(&mut self) {
        let step = self.model.last_step();
        // A window that is not the longest so far is not given out.
        let mut longer = [None; 4];
        for (window, longer) in step.windows().zip(&mut longer) {
            let longest = match window.kind {
                WindowKind::Poid => &mut self.longest.poid,
                WindowKind::Psd => &mut self.longest.psd,
                WindowKind::Dst => &mut self.longest.dst,
                WindowKind::Paie => &mut self.longest.paie,
                WindowKind::Interrupt(source) => {
                    let interrupt = Interrupt {
                        source: source.into(),
                        start: Nanos(window.start_ns),
                        duration: Nanos(window.duration_ns),
                    };
                    let refused = &mut self.refused;
                    self.interrupts.take_ended(interrupt, |error| refused.note(error));
                    continue;
                }
            };
            if longest.is_none_or(|longest| window.duration_ns > longest.duration_ns) {
                *longest = Some(window);
                *longer = Some((window.kind, window.duration_ns.saturating_add(1)));
            }
        }
        if let Some(rule) = step.broken()
            && self.broken.len() < MAX_VIOLATIONS
        {
            self.broken.push(BrokenRule { rule, events: self.recent.in_order() });
        }
        for (kind, lowest) in longer.into_iter().flatten() {
            self.model.pass_over_below(kind, lowest);
        }
    }

    /// Whether interrupts are masked by the events so far; `None` where that is not known.
    #[inline]
    pub fn interrupts_off(&self) -> Option<bool> {
        self.model.interrupts_off()
    }

    /// Names a source of interrupts.
    pub fn name(&mut self, source: Source, name: &str) {
        self.interrupts.name(source, name);
    }

    /// The CPU.
    pub fn cpu(&self) -> Cpu {
        self.cpu
    }

    /// The longest windows so far.
    pub fn longest(&self) -> &Longest {
        &self.longest
    }

    /// What became of the interrupts so far.
    pub(super) fn interrupts(&self) -> &I {
        &self.interrupts
    }

    /// The same, to be changed, with those that have no place.
    pub(super) fn interrupts_and_refused(&mut self) -> (&mut I, &mut Refused) {
        (&mut self.interrupts, &mut self.refused)
    }

    /// What the model counted.
    pub fn counts(&self) -> ModelCounts {
        self.model.counts()
    }

    /// The first violations of rules.
    pub fn broken(&self) -> &[BrokenRule] {
        &self.broken
    }

    /// What speaks against calling the result a bound: one sentence each.
    pub fn problems(&self) -> Vec<String> {
        let cpu = self.cpu;
        let mut problems = model_problems(cpu, &self.counts(), |rule| self.model.broken(rule));
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                problems.push(format!("CPU {cpu}: {what} ({count}x)"));
            }
        };
        note(self.refused.count, "an interrupt could not be placed on the timeline");
        if let Some(error) = self.refused.first {
            problems.push(format!("CPU {cpu}: the first of them: {error}"));
        }
        problems
    }
}

/// What a thread model's own account says against calling the result a bound: one sentence each.
pub(super) fn model_problems(cpu: Cpu, counts: &ModelCounts, broken: impl Fn(Rule) -> u64) -> Vec<String> {
    let mut problems: Vec<String> = Rule::ALL
        .into_iter()
        .filter(|&rule| broken(rule) > 0)
        .map(|rule| format!("CPU {cpu}: broken {} times: {}", broken(rule), rule.sentence()))
        .collect();
    let mut note = |count: u64, what: &str| {
        if count > 0 {
            problems.push(format!("CPU {cpu}: {what} ({count}x)"));
        }
    };
    note(counts.lost, "events were lost");
    note(counts.dropped, "a window was open when the state of the CPU was lost");
    note(counts.resched_unknown, "the events did not say whether the thread was to give way");
    if counts.events == 0 {
        problems.push(format!("CPU {cpu}: no events"));
    }
    problems
}

impl From<InterruptSource> for Source {
    fn from(source: InterruptSource) -> Source {
        match source {
            InterruptSource::Unnamed => Source::Unnamed,
            InterruptSource::Nmi => Source::Nmi,
            InterruptSource::Vector(vector) => Source::Vector(vector),
            InterruptSource::Device(irq) => Source::Device(irq),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_nmi_in_an_interrupt_is_placed_after_the_start_of_the_interrupt() {
        let timer = InterruptSource::Vector(236);
        let mut observer = CpuObserver::<RecordedInterrupts>::new(Cpu(0), ModelFeatures::default());
        let mut event = |at, class, kind| {
            observer.observe(&ThreadModelEvent {
                at_ns: at,
                tid: 7,
                caller: 1,
                class,
                resched: Resched::Stay,
                kind,
            });
        };
        for round in 1..=3u64 {
            let at = 10_000 * round;
            event(at, CallerClass::Hardware, ThreadModelEventKind::IrqDisable);
            event(at + 10, CallerClass::Postpones, ThreadModelEventKind::HandlerEntry(timer));
            event(at + 300, CallerClass::Postpones, ThreadModelEventKind::Nmi(100));
            event(at + 800, CallerClass::Postpones, ThreadModelEventKind::HandlerExit(timer));
            event(at + 1_000, CallerClass::Hardware, ThreadModelEventKind::IrqEnable);
        }
        let took: Vec<_> = observer.timeline().iter().map(|one| (one.source, one.duration.0)).collect();
        assert!(took.len() >= 4, "{took:?}");
        let of = |source| took.iter().filter(|(other, _)| *other == source).count();
        // Whatever the first of them found the model to know.
        assert!(of(Source::Nmi) == 3 && of(Source::Vector(236)) >= 2, "{took:?}");
        assert!(took.contains(&(Source::Vector(236), 900)), "net of the NMI: {took:?}");
        let starts: Vec<u64> = observer.timeline().iter().map(|one| one.start.0).collect();
        assert!(starts.is_sorted(), "{starts:?}");
        assert!(
            observer.problems().iter().all(|problem| !problem.contains("placed")),
            "{:?}",
            observer.problems()
        );
    }
}
