// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread model of `latebound/thread_model.h`, for readers of saved traces.
//!
//! Owns the call and the types that carry more than a number; what events mean is said in the header alone.

use crate::wire::{
    LB_TM_CALLS_SCHEDULER, LB_TM_HAS_SCHED_EXIT, Tm, TmEvent, TmKind, TmOutput, TmResult, TmSource, TmWindow,
};

pub use crate::wire::{TmCaller as CallerClass, TmResched as Resched, TmRule as Rule};

#[allow(clippy::derivable_impls, reason = "the enum is generated")]
impl Default for CallerClass {
    /// Nearly every caller.
    fn default() -> CallerClass {
        CallerClass::Postpones
    }
}

#[allow(clippy::derivable_impls, reason = "the enum is generated")]
impl Default for Resched {
    /// Most events do not say.
    fn default() -> Resched {
        Resched::Unknown
    }
}

/// Which interrupt (`enum lb_tm_source` and number).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterruptSource {
    /// No event named it.
    Unnamed,
    /// Non-maskable.
    Nmi,
    /// A vector of the processor.
    Vector(u32),
    /// A device's interrupt.
    Device(u32),
}

/// What happened on the CPU (`enum lb_tm_kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadModelEventKind {
    /// Preemption goes off.
    PreemptDisable,
    /// Preemption goes on.
    PreemptEnable,
    /// Interrupts go off.
    IrqDisable,
    /// Interrupts go on.
    IrqEnable,
    /// An interrupt's handler begins.
    HandlerEntry(InterruptSource),
    /// An interrupt's handler ended.
    HandlerExit(InterruptSource),
    /// An NMI ended after so many nanoseconds.
    Nmi(u64),
    /// An NMI begins.
    NmiEntry,
    /// An NMI ended.
    NmiExit,
    /// `__schedule()` was entered.
    SchedEntry,
    /// `__schedule()` returns.
    SchedExit,
    /// The CPU turns to this thread.
    Switch(i32),
    /// This thread is about to be woken.
    Waking(i32),
    /// need_resched is set, and not the lazy one.
    NeedResched,
    /// Events before this one were lost.
    Lost,
}

/// One event of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadModelEvent {
    /// When.
    pub at_ns: u64,
    /// The current thread: the one that is switched from, in a switch.
    pub tid: i32,
    /// The address that turned something on or off.
    pub caller: u64,
    /// What is at that address.
    pub class: CallerClass,
    /// Whether the current thread is to give way.
    pub resched: Resched,
    /// What happened.
    pub kind: ThreadModelEventKind,
}

/// What a window is (`enum lb_tm_output`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WindowKind {
    /// Preemption or interrupts off to postpone the scheduler.
    Poid,
    /// Preemption off to schedule.
    Psd,
    /// The scheduling tail.
    Dst,
    /// Preemption and interrupts on while the thread was to give way.
    Paie,
    /// An interrupt or NMI.
    Interrupt(InterruptSource),
}

/// A window or an interrupt that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelWindow {
    /// What it is.
    pub kind: WindowKind,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// How long it was, net of interrupts and NMIs.
    pub duration_ns: u64,
    /// The address that began it; 0 for an interrupt.
    pub begin_caller: u64,
    /// The address that ended it; 0 for an interrupt.
    pub end_caller: u64,
    /// The thread that began it.
    pub begin_tid: i32,
    /// The thread that ended it.
    pub end_tid: i32,
}

impl Rule {
    /// The rule in a sentence without a full stop.
    pub const fn sentence(self) -> &'static str {
        match self {
            Rule::Pair => "every on has its off: events are missing from the trace",
            Rule::R2 => "R2: NMIs do not schedule",
            Rule::R3 => "R3: interrupts do not schedule",
            Rule::R4 => "R4: interrupts do not nest",
            Rule::R5 => "R5: the scheduler is entered and left with interrupts on",
            Rule::R6 => "R6: the scheduler is entered and left with preemption off to schedule",
            Rule::R7 => "R7: preemption is not enabled inside the scheduler",
            Rule::R8 => "R8: a switch happens with interrupts off by the thread",
            Rule::R9 => "R9: a switch happens inside the scheduler",
            Rule::R10 => "R10: need_resched is set with preemption and interrupts off",
            Rule::R11 => "R11: threads are woken with preemption and interrupts off",
            Rule::R12 => "R12: preemption goes off to schedule only for the scheduler to be called",
            Rule::Clock => "the clock of a CPU does not run backwards",
        }
    }
}

/// What the model counted since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCounts {
    /// Events.
    pub events: u64,
    /// Blocking windows, but for those of the idle task.
    pub windows: u64,
    /// Interrupts and NMIs.
    pub interrupts: u64,
    /// Interrupts that no event named.
    pub unnamed: u64,
    /// Exceptions.
    pub exceptions: u64,
    /// POID and PAIE windows of the idle task, which are not given out.
    pub idle_windows: u64,
    /// The longest of them; a live bound does not time them.
    pub idle_longest: u64,
    /// Windows that were open when the state was lost.
    pub dropped: u64,
    /// Times at which events were lost.
    pub lost: u64,
    /// Times at which need_resched decided and was not known.
    pub resched_unknown: u64,
    /// Scheduler runs without a switch (R13).
    pub no_switch: u64,
    /// Times at which a thread postponed while it was to give way (R14).
    pub late_resched: u64,
}

impl Tm {
    pub(crate) fn counts(&self) -> ModelCounts {
        ModelCounts {
            events: self.events,
            windows: self.windows,
            interrupts: self.interrupts,
            unnamed: self.unnamed,
            exceptions: self.exceptions,
            idle_windows: self.idle_windows,
            idle_longest: self.idle_longest_ns,
            dropped: self.dropped,
            lost: self.lost,
            resched_unknown: self.resched_unknown,
            no_switch: self.no_switch,
            late_resched: self.late_resched,
        }
    }

    pub(crate) fn broken(&self, rule: Rule) -> u64 {
        self.broken[rule.raw() as usize]
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.on.synced != 0
    }

    fn interrupts_off(&self) -> Option<bool> {
        (self.irqs_known != 0).then_some(self.on.masked != 0 || self.on.hardware != 0)
    }
}

unsafe extern "C" {
    fn latebound_tm_init(tm: *mut Tm, features: u32);
    fn latebound_tm_step(tm: *mut Tm, event: *mut TmEvent, at: u64, out: *mut TmResult);
}

/// The thread model of one CPU.
#[derive(Clone, Debug)]
pub struct ThreadModel {
    raw: Box<Tm>,
    /// What the last event led to; of the windows only as many are written as it says.
    out: Box<TmResult>,
}

/// What one event led to.
#[derive(Clone, Copy, Debug)]
pub struct Step<'m> {
    raw: &'m TmResult,
}

/// What the model has to know of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelFeatures {
    /// Whether it reports the end of `__schedule()`.
    pub has_sched_exit: bool,
    /// As [`crate::CallerClasses::calls_scheduler`].
    pub calls_scheduler: bool,
}

impl ModelFeatures {
    /// As the model has them.
    pub(crate) fn bits(self) -> u32 {
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        bit(self.has_sched_exit, LB_TM_HAS_SCHED_EXIT) | bit(self.calls_scheduler, LB_TM_CALLS_SCHEDULER)
    }
}

impl ThreadModel {
    /// A model that knows nothing yet.
    pub fn new(features: ModelFeatures) -> ThreadModel {
        let mut raw = Box::new(Tm::ZERO);
        // SAFETY: the pointer is to a live struct of the layout that the header gives, held by us alone.
        unsafe { latebound_tm_init(&mut *raw, features.bits()) };
        ThreadModel { raw, out: Box::default() }
    }

    /// Of windows that are blocking, gives out only those of at least this length from now on; all are counted.
    pub fn pass_over_below(&mut self, kind: WindowKind, lowest: u64) {
        match kind.output() {
            // Every interrupt counts.
            TmOutput::Interrupt => {}
            output => self.raw.floor_ns[output.raw() as usize] = lowest,
        }
    }

    /// Takes in the next event of the CPU.
    #[inline]
    pub fn step(&mut self, event: &ThreadModelEvent) -> Step<'_> {
        let (kind, arg) = event.kind.raw();
        let mut raw = TmEvent {
            caller: event.caller,
            arg,
            tid: event.tid,
            kind: kind.raw() as u8,
            caller_class: event.class.raw() as u8,
            resched: event.resched.raw() as u8,
            ..TmEvent::ZERO
        };
        // SAFETY: all three point to live structs of the layout that the header gives, held by us alone.
        unsafe { latebound_tm_step(&mut *self.raw, &mut raw, event.at_ns, &mut *self.out) };
        self.last_step()
    }

    /// What the last event led to.
    pub fn last_step(&self) -> Step<'_> {
        Step { raw: &self.out }
    }

    /// What was counted so far.
    pub fn counts(&self) -> ModelCounts {
        self.raw.counts()
    }

    /// How often a rule was broken so far.
    pub fn broken(&self, rule: Rule) -> u64 {
        self.raw.broken(rule)
    }

    /// Whether the state of the CPU is known at the moment.
    pub fn is_synced(&self) -> bool {
        self.raw.is_synced()
    }

    /// Whether interrupts are masked at the moment, by a thread or by hardware; `None` where that is not known.
    #[inline]
    pub fn interrupts_off(&self) -> Option<bool> {
        self.raw.interrupts_off()
    }
}

impl<'m> Step<'m> {
    /// Whether the event led to nothing: no window and no broken rule.
    #[inline]
    pub fn is_quiet(self) -> bool {
        self.raw.count == 0 && self.raw.broken == 0
    }

    /// Windows and interrupts that ended with the event.
    pub fn windows(self) -> impl Iterator<Item = ModelWindow> + 'm {
        let count = (self.raw.count as usize).min(self.raw.window.len());
        self.raw.window[..count].iter().filter_map(ModelWindow::of)
    }

    /// The rule that the event broke; the last one where it broke several.
    pub fn broken(self) -> Option<Rule> {
        Rule::from_raw(self.raw.broken)
    }
}

impl WindowKind {
    /// Without which interrupt.
    pub(crate) const fn output(self) -> TmOutput {
        match self {
            WindowKind::Poid => TmOutput::Poid,
            WindowKind::Psd => TmOutput::Psd,
            WindowKind::Dst => TmOutput::Dst,
            WindowKind::Paie => TmOutput::Paie,
            WindowKind::Interrupt(_) => TmOutput::Interrupt,
        }
    }

    /// One that is blocking; `None` for an interrupt.
    pub(crate) const fn blocking(output: TmOutput) -> Option<WindowKind> {
        match output {
            TmOutput::Poid => Some(WindowKind::Poid),
            TmOutput::Psd => Some(WindowKind::Psd),
            TmOutput::Dst => Some(WindowKind::Dst),
            TmOutput::Paie => Some(WindowKind::Paie),
            TmOutput::Interrupt => None,
        }
    }
}

impl ModelWindow {
    fn of(raw: &TmWindow) -> Option<ModelWindow> {
        let output = TmOutput::from_raw(raw.output)?;
        let interrupt = || WindowKind::Interrupt(InterruptSource::from_raw(raw.source, raw.number));
        Some(ModelWindow {
            kind: WindowKind::blocking(output).unwrap_or_else(interrupt),
            start_ns: raw.start_ns,
            end_ns: raw.end_ns,
            duration_ns: raw.duration_ns,
            begin_caller: raw.begin_caller,
            end_caller: raw.end_caller,
            begin_tid: raw.begin_tid,
            end_tid: raw.end_tid,
        })
    }
}

impl InterruptSource {
    pub(crate) fn from_raw(source: u32, number: u32) -> InterruptSource {
        match TmSource::from_raw(source) {
            Some(TmSource::Nmi) => InterruptSource::Nmi,
            Some(TmSource::Vector) => InterruptSource::Vector(number),
            Some(TmSource::Device) => InterruptSource::Device(number),
            Some(TmSource::Unnamed) | None => InterruptSource::Unnamed,
        }
    }

    pub(crate) fn raw(self) -> u64 {
        let (source, number) = match self {
            InterruptSource::Unnamed => (TmSource::Unnamed, 0),
            InterruptSource::Nmi => (TmSource::Nmi, 0),
            InterruptSource::Vector(number) => (TmSource::Vector, number),
            InterruptSource::Device(number) => (TmSource::Device, number),
        };
        u64::from(source.raw()) << 32 | u64::from(number)
    }
}

impl ThreadModelEventKind {
    /// The kind without, and the argument.
    #[inline]
    fn raw(self) -> (TmKind, u64) {
        match self {
            ThreadModelEventKind::PreemptDisable => (TmKind::PreemptDisable, 0),
            ThreadModelEventKind::PreemptEnable => (TmKind::PreemptEnable, 0),
            ThreadModelEventKind::IrqDisable => (TmKind::IrqDisable, 0),
            ThreadModelEventKind::IrqEnable => (TmKind::IrqEnable, 0),
            ThreadModelEventKind::HandlerEntry(source) => (TmKind::HandlerEntry, source.raw()),
            ThreadModelEventKind::HandlerExit(source) => (TmKind::HandlerExit, source.raw()),
            ThreadModelEventKind::Nmi(duration) => (TmKind::Nmi, duration),
            ThreadModelEventKind::NmiEntry => (TmKind::NmiEntry, 0),
            ThreadModelEventKind::NmiExit => (TmKind::NmiExit, 0),
            ThreadModelEventKind::SchedEntry => (TmKind::SchedEntry, 0),
            ThreadModelEventKind::SchedExit => (TmKind::SchedExit, 0),
            ThreadModelEventKind::Switch(tid) => (TmKind::Switch, u64::from(tid.cast_unsigned())),
            ThreadModelEventKind::Waking(tid) => (TmKind::Waking, u64::from(tid.cast_unsigned())),
            ThreadModelEventKind::NeedResched => (TmKind::NeedResched, 0),
            ThreadModelEventKind::Lost => (TmKind::Lost, 0),
        }
    }
}
