// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread model in C against a slow one, written from the definitions, and against kernels that behave.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use latebound_abi::{
    CallerClass, InterruptSource, ModelFeatures, ModelWindow, Resched, Rule, ThreadModel, ThreadModelEvent,
    ThreadModelEventKind as Kind, WindowKind,
};
use proptest::prelude::*;

/// The reference: it keeps the whole trace, and works out what was net of interference by adding up, for every window,
/// the interrupts that ended within it.
struct Reference {
    events: Vec<ThreadModelEvent>,
    /// What took time from everybody: the place of the event that ended it, and how long it was.
    interference: Vec<(usize, u64)>,
    nmis: Vec<(usize, u64)>,
    irqs: Irqs,
    preemption: Preemption,
    poid: Option<Mark>,
    paie: Option<Mark>,
    nmi_since: Option<u64>,
    features: ModelFeatures,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    idle_windows: u64,
    idle_longest: u64,
    exceptions: u64,
    unnamed: u64,
    no_switch: u64,
    late_resched: u64,
    resched_unknown: u64,
}

/// An event by its place in the trace, and who caused what began there.
#[derive(Clone, Copy, Debug)]
struct Mark {
    place: usize,
    caller: u64,
    tid: i32,
}

#[derive(Clone, Debug)]
enum Irqs {
    Unknown,
    On,
    Masked(Mark),
    Hardware(Section),
}

#[derive(Clone, Debug)]
struct Section {
    begin: Mark,
    /// Handlers in order, each with the place of its entry.
    handlers: Vec<(InterruptSource, usize)>,
    depth: u32,
    /// Whether preemption went off within.
    within: bool,
}

#[derive(Clone, Debug)]
enum Preemption {
    Unknown,
    On,
    Postponing { since: Mark, may_schedule: bool },
    Scheduling(Scheduling),
}

#[derive(Clone, Debug)]
struct Scheduling {
    since: Mark,
    entered: bool,
    switched: bool,
    in_scheduler: bool,
    tail: Option<Mark>,
}

#[derive(Default, Debug, PartialEq, Eq)]
struct ModelOutput {
    windows: Vec<ModelWindow>,
    broken: Option<Rule>,
}

impl Reference {
    fn new(features: ModelFeatures) -> Reference {
        Reference {
            events: Vec::new(),
            interference: Vec::new(),
            nmis: Vec::new(),
            irqs: Irqs::Unknown,
            preemption: Preemption::Unknown,
            poid: None,
            paie: None,
            nmi_since: None,
            features,
            counts: Counts::default(),
        }
    }

    fn forget(&mut self) {
        self.irqs = Irqs::Unknown;
        self.preemption = Preemption::Unknown;
        self.poid = None;
        self.paie = None;
        self.nmi_since = None;
    }

    fn pair_broken(&mut self, said: &mut ModelOutput) {
        said.broken = Some(Rule::Pair);
        self.forget();
    }

    fn is_known(&self) -> bool {
        !matches!(self.preemption, Preemption::Unknown)
    }

    /// Time from one place to another without the interference that ended in between.
    fn net(&self, from: usize, to: usize, of: &[(usize, u64)]) -> u64 {
        let taken: u64 =
            of.iter().filter(|&&(place, _)| from < place && place <= to).map(|&(_, took)| took).sum();
        (self.events[to].at_ns - self.events[from].at_ns).saturating_sub(taken)
    }

    fn emit(&mut self, kind: WindowKind, since: Mark, until: usize, said: &mut ModelOutput) {
        let everything: Vec<_> = self.interference.iter().chain(&self.nmis).copied().collect();
        let duration = self.net(since.place, until, &everything);
        if since.tid == 0 && matches!(kind, WindowKind::Poid | WindowKind::Paie) {
            self.counts.idle_windows += 1;
            self.counts.idle_longest = self.counts.idle_longest.max(duration);
            return;
        }
        let last = self.events.last().unwrap();
        said.windows.push(ModelWindow {
            kind,
            start_ns: self.events[since.place].at_ns,
            end_ns: self.events[until].at_ns,
            duration_ns: duration,
            begin_caller: since.caller,
            end_caller: last.caller,
            begin_tid: since.tid,
            end_tid: last.tid,
        });
    }

    fn emit_interrupt(
        &self,
        source: InterruptSource,
        start: u64,
        end: u64,
        duration: u64,
        said: &mut ModelOutput,
    ) {
        let tid = self.events.last().unwrap().tid;
        said.windows.push(ModelWindow {
            kind: WindowKind::Interrupt(source),
            start_ns: start,
            end_ns: end,
            duration_ns: duration,
            begin_caller: 0,
            end_caller: 0,
            begin_tid: tid,
            end_tid: tid,
        });
    }

    fn close_poid(&mut self, until: usize, said: &mut ModelOutput) {
        if let Some(since) = self.poid.take() {
            self.emit(WindowKind::Poid, since, until, said);
        }
    }

    fn begin_scheduling(&mut self, since: Mark, until: usize, said: &mut ModelOutput) {
        self.close_poid(until, said);
        if let Some(paie) = self.paie.take() {
            self.emit(WindowKind::Paie, paie, until, said);
        }
        self.preemption = Preemption::Scheduling(Scheduling {
            since,
            entered: false,
            switched: false,
            in_scheduler: false,
            tail: None,
        });
    }

    fn end_scheduling(&mut self, said: &mut ModelOutput) {
        let now = self.events.len() - 1;
        let Preemption::Scheduling(scheduling) = std::mem::replace(&mut self.preemption, Preemption::On)
        else {
            unreachable!()
        };
        if !scheduling.entered {
            said.broken = Some(Rule::R12);
        } else if !scheduling.switched {
            self.counts.no_switch += 1;
        }
        if let Some(tail) = scheduling.tail {
            self.emit(WindowKind::Dst, tail, now, said);
        }
        self.emit(WindowKind::Psd, scheduling.since, now, said);
    }

    fn goes_on(&mut self, here: Mark, resched: Resched) {
        match resched {
            Resched::Unknown => self.counts.resched_unknown += 1,
            Resched::GiveWay if self.paie.is_none() => self.paie = Some(here),
            _ => {}
        }
    }

    /// The scheduler runs without preemption having gone off for it.
    fn enter_implicitly(&mut self, since: usize, event: &ThreadModelEvent, said: &mut ModelOutput) {
        if self.features.calls_scheduler
            && event.tid != 0
            && matches!(self.preemption, Preemption::Postponing { may_schedule: false, .. })
            && let Some(poid) = self.poid.take()
        {
            self.begin_scheduling(Mark { tid: event.tid, ..poid }, poid.place, said);
            return;
        }
        let allowed = matches!(self.preemption, Preemption::Postponing { may_schedule: true, .. });
        if event.tid != 0 && !allowed {
            said.broken = Some(Rule::R6);
        }
        self.begin_scheduling(Mark { place: since, caller: event.caller, tid: event.tid }, since, said);
    }

    fn step(&mut self, event: &ThreadModelEvent) -> ModelOutput {
        let mut said = ModelOutput::default();
        let backwards = self.events.last().is_some_and(|last| event.at_ns < last.at_ns);
        self.events.push(*event);
        if backwards {
            said.broken = Some(Rule::Clock);
            self.forget();
            return said;
        }
        let now = self.events.len() - 1;
        let here = Mark { place: now, caller: event.caller, tid: event.tid };
        match event.kind {
            Kind::PreemptDisable => self.preempt_disable(event, here, &mut said),
            Kind::PreemptEnable => self.preempt_enable(event, here, &mut said),
            Kind::IrqDisable => self.irq_disable(event, here, &mut said),
            Kind::IrqEnable => self.irq_enable(event, here, &mut said),
            Kind::HandlerEntry(source) => {
                if let Irqs::On = self.irqs {
                    self.pair_broken(&mut said);
                } else if let Irqs::Hardware(section) = &mut self.irqs {
                    section.depth += 1;
                    let again = section.handlers.last().is_some_and(|&(other, _)| other == source);
                    if section.depth == 1 && !again {
                        let begin = section.begin.place;
                        section.handlers.push((source, now));
                        if let [.., (previous, entry), _] = section.handlers[..] {
                            let from = if section.handlers.len() == 2 { begin } else { entry };
                            let took = self.net(from, now, &self.nmis);
                            self.emit_interrupt(
                                previous,
                                self.events[from].at_ns,
                                event.at_ns,
                                took,
                                &mut said,
                            );
                        }
                    }
                }
            }
            Kind::HandlerExit(_) => {
                if let Irqs::Hardware(section) = &mut self.irqs {
                    section.depth = section.depth.saturating_sub(1);
                }
            }
            Kind::Nmi(took) => {
                let took = took.min(event.at_ns);
                self.nmis.push((now, took));
                self.emit_interrupt(InterruptSource::Nmi, event.at_ns - took, event.at_ns, took, &mut said);
            }
            Kind::NmiEntry => match self.nmi_since {
                Some(_) => self.pair_broken(&mut said),
                None => self.nmi_since = Some(event.at_ns),
            },
            Kind::NmiExit => match self.nmi_since.take() {
                None => self.pair_broken(&mut said),
                Some(since) => {
                    self.nmis.push((now, event.at_ns - since));
                    self.emit_interrupt(
                        InterruptSource::Nmi,
                        since,
                        event.at_ns,
                        event.at_ns - since,
                        &mut said,
                    );
                }
            },
            Kind::SchedEntry => {
                if self.nmi_since.is_some() {
                    said.broken = Some(Rule::R2);
                }
                match (&self.irqs, self.is_known()) {
                    (Irqs::Hardware(_), _) => said.broken = Some(Rule::R3),
                    (Irqs::Unknown, false) => {}
                    (_, false) if event.tid != 0 => {}
                    (irqs, _) => {
                        if matches!(irqs, Irqs::Masked(_)) {
                            said.broken = Some(Rule::R5);
                        }
                        if !matches!(self.preemption, Preemption::Scheduling(_)) {
                            self.enter_implicitly(now, event, &mut said);
                        }
                        let Preemption::Scheduling(scheduling) = &mut self.preemption else { unreachable!() };
                        scheduling.entered = true;
                    }
                }
            }
            Kind::SchedExit => {
                if matches!(self.irqs, Irqs::Hardware(_)) || !self.is_known() {
                    return said;
                }
                if matches!(self.irqs, Irqs::Masked(_)) {
                    said.broken = Some(Rule::R5);
                }
                match &mut self.preemption {
                    Preemption::Scheduling(_) if event.tid == 0 => self.end_scheduling(&mut said),
                    Preemption::Scheduling(scheduling) => scheduling.in_scheduler = false,
                    _ => said.broken = Some(Rule::R6),
                }
            }
            Kind::Switch(_) => {
                if self.nmi_since.is_some() {
                    said.broken = Some(Rule::R2);
                }
                if matches!(self.irqs, Irqs::Hardware(_)) {
                    said.broken = Some(Rule::R3);
                    return said;
                }
                if self.is_known() && !matches!(self.irqs, Irqs::Masked(_)) {
                    said.broken = Some(Rule::R8);
                }
                match &mut self.preemption {
                    Preemption::Unknown => {}
                    Preemption::Scheduling(scheduling) => {
                        scheduling.entered = true;
                        scheduling.switched = true;
                        scheduling.tail.get_or_insert(here);
                    }
                    _ => said.broken = Some(Rule::R9),
                }
            }
            Kind::Waking(tid) => {
                if self.is_known() && tid != event.tid && !self.is_atomic(event) {
                    said.broken = Some(Rule::R11);
                }
            }
            Kind::NeedResched => {
                if self.is_known() && !self.is_atomic(event) {
                    said.broken = Some(Rule::R10);
                }
            }
            Kind::Lost => self.forget(),
        }
        said
    }

    fn is_atomic(&self, event: &ThreadModelEvent) -> bool {
        let preemption_off =
            event.tid == 0 || !matches!(self.preemption, Preemption::On | Preemption::Unknown);
        match self.irqs {
            _ if self.nmi_since.is_some() => true,
            Irqs::Hardware(_) => true,
            Irqs::Masked(_) => preemption_off,
            _ => false,
        }
    }

    fn preempt_disable(&mut self, event: &ThreadModelEvent, here: Mark, said: &mut ModelOutput) {
        let schedules = event.class == CallerClass::Schedules;
        if schedules && self.nmi_since.is_some() {
            said.broken = Some(Rule::R2);
        }
        let may_schedule = event.class == CallerClass::MaySchedule;
        if let Irqs::Hardware(section) = &mut self.irqs {
            match self.preemption {
                Preemption::Unknown => {}
                Preemption::On => {
                    section.within = true;
                    let begin = section.begin.place;
                    if schedules {
                        self.begin_scheduling(here, begin, said);
                    } else {
                        self.preemption = Preemption::Postponing { since: here, may_schedule: false };
                    }
                }
                _ => self.pair_broken(said),
            }
            return;
        }
        if !self.is_known() && matches!(self.irqs, Irqs::On) {
            self.preemption = Preemption::On;
        }
        match self.preemption {
            Preemption::Unknown => {}
            Preemption::On if schedules => self.begin_scheduling(here, here.place, said),
            Preemption::On => {
                self.counts.late_resched += u64::from(self.paie.is_some() && !self.features.calls_scheduler);
                self.preemption = Preemption::Postponing { since: here, may_schedule };
                self.poid.get_or_insert(here);
            }
            _ => self.pair_broken(said),
        }
    }

    fn preempt_enable(&mut self, event: &ThreadModelEvent, here: Mark, said: &mut ModelOutput) {
        if let Irqs::Hardware(section) = &mut self.irqs {
            match self.preemption {
                Preemption::Unknown => {}
                Preemption::Postponing { .. } if section.within => {
                    section.within = false;
                    self.preemption = Preemption::On;
                }
                _ => self.pair_broken(said),
            }
            return;
        }
        match &self.preemption {
            Preemption::Unknown => {
                if matches!(self.irqs, Irqs::On) {
                    self.preemption = Preemption::On;
                }
            }
            Preemption::On => self.pair_broken(said),
            Preemption::Postponing { .. } => {
                self.counts.late_resched += u64::from(self.paie.is_some() && self.features.calls_scheduler);
                self.preemption = Preemption::On;
                if matches!(self.irqs, Irqs::On) {
                    self.close_poid(here.place, said);
                    self.goes_on(here, event.resched);
                }
            }
            Preemption::Scheduling(scheduling) => {
                let inside = scheduling.in_scheduler;
                if inside {
                    said.broken = Some(Rule::R7);
                }
                self.end_scheduling(said);
                if let Irqs::Masked(since) = self.irqs {
                    self.poid = Some(since);
                }
                self.goes_on(here, event.resched);
            }
        }
    }

    fn irq_disable(&mut self, event: &ThreadModelEvent, here: Mark, said: &mut ModelOutput) {
        if matches!(self.irqs, Irqs::Masked(_) | Irqs::Hardware(_)) {
            self.pair_broken(said);
            return;
        }
        if event.class == CallerClass::Hardware {
            self.irqs =
                Irqs::Hardware(Section { begin: here, handlers: Vec::new(), depth: 0, within: false });
            return;
        }
        self.irqs = Irqs::Masked(here);
        if event.class == CallerClass::Scheduler {
            if !self.is_known() && event.tid != 0 {
                return;
            }
            if !matches!(self.preemption, Preemption::Scheduling(_)) {
                // The worst moment at which the scheduler had not been entered.
                let before =
                    here.place.checked_sub(1).filter(|&place| self.events[place].at_ns < event.at_ns);
                self.enter_implicitly(before.unwrap_or(here.place), event, said);
            }
            let Preemption::Scheduling(scheduling) = &mut self.preemption else { unreachable!() };
            scheduling.entered = true;
            scheduling.in_scheduler = true;
            scheduling.tail.get_or_insert(here);
            return;
        }
        if matches!(self.preemption, Preemption::On | Preemption::Postponing { .. }) {
            let on = matches!(self.preemption, Preemption::On);
            self.counts.late_resched += u64::from(on && self.paie.is_some());
            self.poid.get_or_insert(here);
        }
    }

    fn irq_enable(&mut self, event: &ThreadModelEvent, here: Mark, said: &mut ModelOutput) {
        match std::mem::replace(&mut self.irqs, Irqs::On) {
            Irqs::Unknown => return,
            Irqs::On => {
                self.pair_broken(said);
                // This event tells the state again.
                self.irqs = Irqs::On;
                return;
            }
            Irqs::Masked(_) => {
                if let Preemption::Scheduling(scheduling) = &mut self.preemption {
                    scheduling.in_scheduler = false;
                    let idle_ends = event.tid == 0 && scheduling.entered && !self.features.has_sched_exit;
                    if idle_ends {
                        self.end_scheduling(said);
                    }
                    return;
                }
            }
            Irqs::Hardware(section) => {
                let thread = matches!(event.class, CallerClass::Postpones | CallerClass::MaySchedule);
                if section.handlers.is_empty() && thread {
                    self.counts.exceptions += 1;
                    if matches!(self.preemption, Preemption::On | Preemption::Postponing { .. }) {
                        self.poid.get_or_insert(section.begin);
                    }
                } else {
                    let begin = section.begin.place;
                    let whole = self.net(begin, here.place, &self.nmis);
                    let (source, from) = match section.handlers[..] {
                        [] => (InterruptSource::Unnamed, begin),
                        [(source, _)] => (source, begin),
                        [.., (source, entry)] => (source, entry),
                    };
                    self.counts.unnamed += u64::from(section.handlers.is_empty());
                    let took = self.net(from, here.place, &self.nmis);
                    self.emit_interrupt(source, self.events[from].at_ns, event.at_ns, took, said);
                    self.interference.push((here.place, whole));
                    if section.within {
                        match &mut self.preemption {
                            Preemption::Scheduling(scheduling) => scheduling.since.place = here.place,
                            Preemption::Postponing { since, .. } => since.place = here.place,
                            _ => {}
                        }
                    }
                }
            }
        }
        match self.preemption {
            Preemption::Unknown | Preemption::Scheduling(_) => {}
            Preemption::Postponing { since, .. } => {
                self.poid.get_or_insert(since);
            }
            Preemption::On => {
                self.close_poid(here.place, said);
                if event.tid != 0 {
                    self.goes_on(here, event.resched);
                }
            }
        }
    }
}

/// Runs both, event by event.
fn compare(events: &[ThreadModelEvent], features: ModelFeatures) -> (Vec<ModelWindow>, Vec<Rule>) {
    let (mut model, mut reference) = (ThreadModel::new(features), Reference::new(features));
    let (mut windows, mut broken) = (Vec::new(), Vec::new());
    for (place, event) in events.iter().enumerate() {
        let step = model.step(event);
        let found = ModelOutput { windows: step.windows().collect(), broken: step.broken() };
        let mut expected = reference.step(event);
        // Where a rule and a pair break at once, both have forgotten the state.
        if expected.broken == Some(Rule::Pair) || found.broken == Some(Rule::Pair) {
            expected.windows.clear();
            assert_eq!(found.broken, expected.broken, "event {place}: {event:?}");
        } else {
            assert_eq!(found, expected, "event {place}: {event:?} after {:?}", &events[..place]);
        }
        windows.extend(found.windows);
        broken.extend(found.broken);
    }
    let counts = model.counts();
    let found = Counts {
        idle_windows: counts.idle_windows,
        idle_longest: counts.idle_longest,
        exceptions: counts.exceptions,
        unnamed: counts.unnamed,
        no_switch: counts.no_switch,
        late_resched: counts.late_resched,
        resched_unknown: counts.resched_unknown,
    };
    assert_eq!(found, reference.counts);
    (windows, broken)
}

/// A kernel that behaves: it writes the events of one CPU for a list of decisions.
struct Kernel<'d> {
    decisions: std::slice::Iter<'d, u8>,
    at: u64,
    tid: i32,
    events: Vec<ThreadModelEvent>,
    irqs_on: bool,
    preemption_on: bool,
    resched: bool,
}

impl<'d> Kernel<'d> {
    fn new(decisions: &'d [u8]) -> Kernel<'d> {
        Kernel {
            decisions: decisions.iter(),
            at: 1000,
            tid: 100,
            events: Vec::new(),
            irqs_on: true,
            preemption_on: true,
            resched: false,
        }
    }

    fn decide(&mut self, choices: u8) -> u8 {
        self.decisions.next().map_or(0, |decision| decision % choices)
    }

    fn event(&mut self, kind: Kind, class: CallerClass) {
        self.at += 1 + u64::from(self.decide(20));
        let resched = if self.resched { Resched::GiveWay } else { Resched::Stay };
        let caller = self.events.len() as u64 + 1;
        self.events.push(ThreadModelEvent { at_ns: self.at, tid: self.tid, caller, class, resched, kind });
    }

    /// A moment at which interrupts may come.
    fn moment(&mut self) {
        match self.decide(8) {
            1 if self.irqs_on => self.interrupt(),
            2 => {
                let took = u64::from(self.decide(9));
                self.at += took;
                self.event(Kind::Nmi(took), CallerClass::Postpones);
            }
            _ => {}
        }
    }

    fn interrupt(&mut self) {
        let (vector, device) = (InterruptSource::Vector(236), InterruptSource::Device(11));
        self.irqs_on = false;
        self.event(Kind::IrqDisable, CallerClass::Hardware);
        let within = self.preemption_on && self.tid != 0;
        if within {
            self.event(Kind::PreemptDisable, CallerClass::Postpones);
        }
        for source in [[vector].as_slice(), &[device, device], &[device, vector]][usize::from(self.decide(3))]
        {
            self.event(Kind::HandlerEntry(*source), CallerClass::Postpones);
            self.moment();
            if self.decide(2) == 1 {
                self.event(Kind::Waking(7), CallerClass::Postpones);
                self.resched = true;
            }
            self.event(Kind::HandlerExit(*source), CallerClass::Postpones);
        }
        if within {
            self.event(Kind::PreemptEnable, CallerClass::Postpones);
        }
        let in_user_mode = self.decide(2) == 1;
        if within && self.resched && !in_user_mode {
            self.event(Kind::PreemptDisable, CallerClass::Schedules);
            self.irqs_on = true;
            self.event(Kind::IrqEnable, CallerClass::Schedules);
            self.scheduler();
            self.event(Kind::IrqDisable, CallerClass::Schedules);
            self.event(Kind::PreemptEnable, CallerClass::Schedules);
            self.event(Kind::IrqEnable, CallerClass::Hardware);
        } else {
            self.irqs_on = true;
            self.event(Kind::IrqEnable, CallerClass::Hardware);
            if within && self.resched {
                self.schedule();
            }
        }
    }

    /// `__schedule()` and what the next thread does of it.
    fn scheduler(&mut self) {
        self.preemption_on = false;
        self.moment();
        self.irqs_on = false;
        self.event(Kind::IrqDisable, CallerClass::Scheduler);
        self.resched = false;
        let next = 100 + i32::from(self.decide(3));
        if next != self.tid {
            self.event(Kind::Switch(next), CallerClass::Postpones);
            self.tid = next;
        }
        self.irqs_on = true;
        self.event(Kind::IrqEnable, CallerClass::Postpones);
        self.moment();
    }

    fn schedule(&mut self) {
        self.event(Kind::PreemptDisable, CallerClass::Schedules);
        self.scheduler();
        self.preemption_on = true;
        self.event(Kind::PreemptEnable, CallerClass::Schedules);
        while self.resched {
            self.event(Kind::PreemptDisable, CallerClass::Schedules);
            self.scheduler();
            self.preemption_on = true;
            self.event(Kind::PreemptEnable, CallerClass::Schedules);
        }
    }

    fn preempt_enable(&mut self) {
        self.preemption_on = true;
        self.event(Kind::PreemptEnable, CallerClass::Postpones);
        if self.resched && self.irqs_on {
            self.schedule();
        }
    }

    fn run(mut self) -> Vec<ThreadModelEvent> {
        // A first pair, so that the state is known.
        self.event(Kind::IrqDisable, CallerClass::Postpones);
        self.event(Kind::IrqEnable, CallerClass::Postpones);
        while self.decisions.len() > 0 {
            match self.decide(7) {
                0 => self.moment(),
                1 => {
                    self.preemption_on = false;
                    self.event(Kind::PreemptDisable, CallerClass::Postpones);
                    self.moment();
                    self.preempt_enable();
                }
                2 => {
                    // raw_spin_lock_irqsave ... irqrestore
                    self.irqs_on = false;
                    self.event(Kind::IrqDisable, CallerClass::Postpones);
                    self.preemption_on = false;
                    self.event(Kind::PreemptDisable, CallerClass::Postpones);
                    self.event(Kind::Waking(9), CallerClass::Postpones);
                    self.moment();
                    self.irqs_on = true;
                    self.event(Kind::IrqEnable, CallerClass::Postpones);
                    self.moment();
                    self.preempt_enable();
                }
                3 => self.schedule(),
                4 => {
                    // A page fault.
                    self.irqs_on = false;
                    self.event(Kind::IrqDisable, CallerClass::Hardware);
                    self.irqs_on = true;
                    self.event(Kind::IrqEnable, CallerClass::Postpones);
                    if self.resched {
                        self.schedule();
                    }
                }
                5 => {
                    // A thread ends; another, or a new one, goes on.
                    self.preemption_on = false;
                    self.event(Kind::PreemptDisable, CallerClass::MaySchedule);
                    self.moment();
                    self.scheduler();
                    self.preemption_on = true;
                    self.event(Kind::PreemptEnable, CallerClass::Postpones);
                    if self.resched {
                        self.schedule();
                    }
                }
                _ => self.idle(),
            }
        }
        self.events
    }

    fn idle(&mut self) {
        self.event(Kind::PreemptDisable, CallerClass::Schedules);
        self.preemption_on = false;
        self.event(Kind::IrqDisable, CallerClass::Scheduler);
        self.event(Kind::Switch(0), CallerClass::Postpones);
        self.tid = 0;
        self.resched = false;
        self.event(Kind::IrqEnable, CallerClass::Postpones);
        // Into tick_nohz_idle_enter() or do_idle(), asleep, awake by an interrupt or not, and tick_nohz_idle_exit().
        for _ in 0..1 + self.decide(4) {
            for sleep in [500_000_000, 0] {
                self.irqs_on = false;
                self.event(Kind::IrqDisable, CallerClass::Postpones);
                self.irqs_on = true;
                self.event(Kind::IrqEnable, CallerClass::Postpones);
                self.at += sleep;
                self.moment();
            }
        }
        self.event(Kind::IrqDisable, CallerClass::Scheduler);
        self.event(Kind::Switch(101), CallerClass::Postpones);
        self.tid = 101;
        self.resched = false;
        self.event(Kind::IrqEnable, CallerClass::Postpones);
        self.preemption_on = true;
        self.event(Kind::PreemptEnable, CallerClass::Postpones);
    }
}

fn any_kind() -> impl Strategy<Value = Kind> {
    let source = prop_oneof![
        Just(InterruptSource::Vector(236)),
        Just(InterruptSource::Vector(11)),
        Just(InterruptSource::Device(11)),
    ];
    prop_oneof![
        6 => Just(Kind::PreemptDisable),
        6 => Just(Kind::PreemptEnable),
        6 => Just(Kind::IrqDisable),
        6 => Just(Kind::IrqEnable),
        2 => source.clone().prop_map(Kind::HandlerEntry),
        2 => source.prop_map(Kind::HandlerExit),
        1 => (0u64..30).prop_map(Kind::Nmi),
        1 => Just(Kind::NmiEntry),
        1 => Just(Kind::NmiExit),
        1 => Just(Kind::SchedEntry),
        1 => Just(Kind::SchedExit),
        2 => (0i32..3).prop_map(Kind::Switch),
        1 => (0i32..3).prop_map(Kind::Waking),
        1 => Just(Kind::NeedResched),
        1 => Just(Kind::Lost),
    ]
}

fn any_event() -> impl Strategy<Value = ThreadModelEvent> {
    let class = prop_oneof![
        Just(CallerClass::Postpones),
        Just(CallerClass::Schedules),
        Just(CallerClass::Scheduler),
        Just(CallerClass::Hardware),
        Just(CallerClass::MaySchedule),
    ];
    let resched = prop_oneof![Just(Resched::Stay), Just(Resched::GiveWay), Just(Resched::Unknown)];
    (any_kind(), class, resched, 0u64..20, 0i32..3, 0u64..1000).prop_map(
        |(kind, class, resched, at, tid, caller)| ThreadModelEvent {
            at_ns: at,
            tid,
            caller,
            class,
            resched,
            kind,
        },
    )
}

#[test]
fn a_handler_that_begins_with_interrupts_on_lacks_what_masked_them() {
    let event = |at, kind| ThreadModelEvent {
        at_ns: at,
        tid: 7,
        caller: 1,
        class: CallerClass::Postpones,
        resched: Resched::Stay,
        kind,
    };
    let timer = Kind::HandlerEntry(InterruptSource::Vector(236));
    let mut model = ThreadModel::new(ModelFeatures::default());
    assert_eq!(model.interrupts_off(), None);
    assert_eq!(model.step(&event(1, timer)).broken(), None, "nothing is known yet");
    model.step(&event(2, Kind::IrqDisable));
    assert_eq!(model.interrupts_off(), Some(true));
    assert_eq!(model.step(&event(3, timer)).broken(), None, "a thread may resend an interrupt");
    model.step(&event(4, Kind::IrqEnable));
    assert_eq!(model.interrupts_off(), Some(false));
    assert_eq!(model.step(&event(5, timer)).broken(), Some(Rule::Pair));
    assert_eq!((model.interrupts_off(), model.is_synced()), (None, false), "nothing is known any more");
}

#[test]
fn preemption_that_went_off_to_schedule_without_a_name_is_the_schedulers() {
    let event = |at_ns, kind, class| ThreadModelEvent {
        at_ns,
        tid: 7,
        caller: at_ns,
        class,
        resched: Resched::Stay,
        kind,
    };
    let (own, scheduler) = (CallerClass::Postpones, CallerClass::Scheduler);
    let events = [
        event(1, Kind::IrqDisable, own),
        event(2, Kind::IrqEnable, own),
        event(3, Kind::PreemptDisable, own),
        event(5, Kind::PreemptEnable, own),
        event(10, Kind::PreemptDisable, own),
        event(12, Kind::IrqDisable, scheduler),
        event(15, Kind::Switch(8), own),
        event(18, Kind::IrqEnable, scheduler),
        event(20, Kind::PreemptEnable, own),
    ];
    let found = |calls_scheduler| {
        let (windows, broken) =
            compare(&events, ModelFeatures { calls_scheduler, ..ModelFeatures::default() });
        let windows: Vec<_> =
            windows.iter().map(|window| (window.kind, window.start_ns, window.end_ns)).collect();
        (windows, broken)
    };
    use WindowKind::{Dst, Poid, Psd};
    assert_eq!(found(true), (vec![(Poid, 3, 5), (Dst, 12, 20), (Psd, 10, 20)], vec![]));
    let (windows, broken) = found(false);
    assert_eq!(broken, [Rule::R6], "a kernel that has a function for it does not schedule so");
    assert!(windows.contains(&(Poid, 3, 5)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn c_and_the_reference_agree_on_random_events(mut events in prop::collection::vec(any_event(), 0..80), has_sched_exit: bool, calls_scheduler: bool) {
        // Times as distances, now and then backwards.
        let mut at = 100_000u64;
        for event in &mut events {
            at = if event.at_ns == 19 { at - 50 } else { at + event.at_ns };
            event.at_ns = at;
        }
        compare(&events, ModelFeatures { has_sched_exit, calls_scheduler });
    }

    #[test]
    fn c_and_the_reference_agree_on_a_correct_kernel_and_no_rule_is_broken(
        decisions in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let events = Kernel::new(&decisions).run();
        let (windows, broken) = compare(&events, ModelFeatures::default());
        prop_assert!(broken.is_empty(), "{broken:?} in {events:?}");
        // Idle spends half a second at a time; no window may hold that.
        prop_assert!(windows.iter().all(|window| window.duration_ns < 10_000_000), "{windows:?}");
    }

    #[test]
    fn c_and_the_reference_agree_on_a_kernel_whose_events_were_damaged(
        decisions in prop::collection::vec(any::<u8>(), 0..300),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4, any_event()), 1..6),
    ) {
        let mut events = Kernel::new(&decisions).run();
        for (place, how, other) in damage {
            let place = place.index(events.len());
            match how {
                0 => { events.remove(place); }
                1 => events.insert(place, events[place]),
                2 => events[place] = ThreadModelEvent { at_ns: events[place].at_ns, ..other },
                _ => {
                    let before = place.saturating_sub(1);
                    let (earlier, later) = (events[before].at_ns, events[place].at_ns);
                    events.swap(before, place);
                    (events[before].at_ns, events[place].at_ns) = (earlier, later);
                }
            }
            if events.is_empty() {
                break;
            }
        }
        compare(&events, ModelFeatures::default());
    }
}
