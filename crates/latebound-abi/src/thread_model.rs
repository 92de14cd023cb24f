// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread model of `latebound/thread_model.h`, for readers of saved traces.
//!
//! Owns the copies of the C structs and the call; what events mean is said in the header alone.

use std::mem::MaybeUninit;

/// What the caller of an on/off event is there for (`enum lb_tm_caller`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CallerClass {
    /// A thread that postpones the scheduler.
    #[default]
    Postpones = 0,
    /// `schedule()`, `preempt_schedule*()` and their like.
    Schedules = 1,
    /// `__schedule()` itself.
    Scheduler = 2,
    /// The entry or exit path of an interrupt, or of what cannot be told from one.
    Hardware = 3,
    /// Postpones, and may call the scheduler without more ado: `do_exit()`.
    MaySchedule = 4,
}

/// Whether the current thread is to give way; the lazy flag does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Resched {
    /// It may stay.
    Stay = 0,
    /// It is to give way.
    GiveWay = 1,
    /// The event does not say.
    #[default]
    Unknown = 2,
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
pub enum ModelEventKind {
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
pub struct ModelEvent {
    /// When, in nanoseconds.
    pub at: u64,
    /// The current thread: the one that is switched from, in a switch.
    pub tid: i32,
    /// The address that turned something on or off.
    pub caller: u64,
    /// What is at that address.
    pub class: CallerClass,
    /// Whether the current thread is to give way.
    pub resched: Resched,
    /// What happened.
    pub kind: ModelEventKind,
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
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// How long it was, net of interrupts and NMIs.
    pub duration: u64,
    /// The address that began it; 0 for an interrupt.
    pub begin_caller: u64,
    /// The address that ended it; 0 for an interrupt.
    pub end_caller: u64,
    /// The thread that began it.
    pub begin_tid: i32,
    /// The thread that ended it.
    pub end_tid: i32,
}

/// A rule of the model that a trace broke (`enum lb_tm_rule`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Rule {
    /// An event without its other half: events are missing.
    Pair = 1,
    /// NMIs do not schedule.
    R2 = 2,
    /// Interrupts do not schedule.
    R3 = 3,
    /// Interrupts do not nest.
    R4 = 4,
    /// The scheduler is entered and left with interrupts on.
    R5 = 5,
    /// The scheduler is entered and left with preemption off to schedule.
    R6 = 6,
    /// Preemption is not enabled inside the scheduler.
    R7 = 7,
    /// A switch happens with interrupts off by the thread.
    R8 = 8,
    /// A switch happens inside the scheduler.
    R9 = 9,
    /// need_resched is set with preemption and interrupts off.
    R10 = 10,
    /// Threads are woken with preemption and interrupts off.
    R11 = 11,
    /// Preemption goes off to schedule only for the scheduler to be called.
    R12 = 12,
    /// The clock of a CPU does not run backwards.
    Clock = 15,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 13] = [
        Rule::Pair,
        Rule::R2,
        Rule::R3,
        Rule::R4,
        Rule::R5,
        Rule::R6,
        Rule::R7,
        Rule::R8,
        Rule::R9,
        Rule::R10,
        Rule::R11,
        Rule::R12,
        Rule::Clock,
    ];

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

    pub(crate) fn from_number(number: u32) -> Option<Rule> {
        Rule::ALL.into_iter().find(|&rule| rule as u32 == number)
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

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Instant {
    at: u64,
    taken_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct RawEvent {
    now: Instant,
    caller: u64,
    arg: u64,
    tid: i32,
    kind: u8,
    caller_class: u8,
    resched: u8,
    pad: u8,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct RawWindow {
    start: u64,
    end: u64,
    duration: u64,
    begin_caller: u64,
    end_caller: u64,
    begin_tid: i32,
    end_tid: i32,
    output: u32,
    source: u32,
    number: u32,
    pad: u32,
}

const OUTPUTS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct RawResult {
    count: u32,
    broken: u32,
    window: [RawWindow; OUTPUTS],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Open {
    since: Instant,
    caller: u64,
    tid: i32,
    pad: u32,
}

const RULES: usize = 16;
const OUTPUT_KINDS: usize = 6;
/// Places of `synced`, `masked` and `hardware` in `on`.
const SYNCED: usize = 0;
const MASKED: usize = 1;
const HARDWARE: usize = 7;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawModel {
    on: [u8; 8],
    taken_ns: u64,
    nmi_start: u64,
    last: Instant,
    poid: Open,
    psd: Open,
    dst: Open,
    paie: Open,
    masked: Open,
    preempt: Open,
    hardware: Open,
    handler_since: Instant,
    source: u32,
    number: u32,
    handler_depth: u32,
    named: u8,
    within: u8,
    irqs_known: u8,
    entered: u8,
    switched: u8,
    in_scheduler: u8,
    pad: [u8; 2],
    nmi_depth: u32,
    features: u32,
    floor: [u64; OUTPUT_KINDS],
    events: u64,
    windows: u64,
    interrupts: u64,
    unnamed: u64,
    exceptions: u64,
    idle_windows: u64,
    idle_longest: u64,
    dropped: u64,
    lost: u64,
    resched_unknown: u64,
    no_switch: u64,
    late_resched: u64,
    broken: [u64; RULES],
}

impl RawModel {
    /// Where `features` lies.
    pub(crate) const FEATURES: usize = std::mem::offset_of!(RawModel, features);

    pub(crate) fn counts(&self) -> ModelCounts {
        ModelCounts {
            events: self.events,
            windows: self.windows,
            interrupts: self.interrupts,
            unnamed: self.unnamed,
            exceptions: self.exceptions,
            idle_windows: self.idle_windows,
            idle_longest: self.idle_longest,
            dropped: self.dropped,
            lost: self.lost,
            resched_unknown: self.resched_unknown,
            no_switch: self.no_switch,
            late_resched: self.late_resched,
        }
    }

    pub(crate) fn broken(&self, rule: Rule) -> u64 {
        self.broken[rule as usize]
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.on[SYNCED] != 0
    }

    fn interrupts_off(&self) -> Option<bool> {
        (self.irqs_known != 0).then(|| self.on[MASKED] != 0 || self.on[HARDWARE] != 0)
    }
}

unsafe extern "C" {
    #[cfg(test)]
    static latebound_tm_sizes: [u64; 3];
    fn latebound_tm_init(tm: *mut RawModel, features: u32);
    fn latebound_tm_step(tm: *mut RawModel, event: *mut RawEvent, at: u64, out: *mut RawResult);
}

const HAS_SCHED_EXIT: u32 = 1;

/// The thread model of one CPU.
#[derive(Clone, Debug)]
pub struct ThreadModel {
    raw: Box<RawModel>,
    /// What the last event led to; of the windows only as many are written as it says.
    out: Box<RawResult>,
}

/// What one event led to.
#[derive(Clone, Copy, Debug)]
pub struct Step<'m> {
    raw: &'m RawResult,
}

impl ThreadModel {
    /// A model that knows nothing yet; `has_sched_exit` says whether the kernel reports the end of `__schedule()`.
    pub fn new(has_sched_exit: bool) -> ThreadModel {
        let mut raw = Box::new(MaybeUninit::<RawModel>::uninit());
        // SAFETY: the pointer is to memory of the struct's size, and the call writes every byte of it.
        unsafe { latebound_tm_init(raw.as_mut_ptr(), if has_sched_exit { HAS_SCHED_EXIT } else { 0 }) };
        // SAFETY: the call above has written every byte, and every field may hold any bits.
        ThreadModel { raw: unsafe { raw.assume_init() }, out: Box::default() }
    }

    /// Of windows that are blocking, gives out only those of at least this length from now on; all are counted.
    pub fn pass_over_below(&mut self, kind: WindowKind, lowest: u64) {
        let output = match kind {
            WindowKind::Poid => 1,
            WindowKind::Psd => 2,
            WindowKind::Dst => 3,
            WindowKind::Paie => 4,
            // Every interrupt counts.
            WindowKind::Interrupt(_) => return,
        };
        self.raw.floor[output] = lowest;
    }

    /// Takes in the next event of the CPU.
    #[inline]
    pub fn step(&mut self, event: &ModelEvent) -> Step<'_> {
        let (kind, arg) = event.kind.raw();
        let mut raw = RawEvent {
            caller: event.caller,
            arg,
            tid: event.tid,
            kind,
            caller_class: event.class as u8,
            resched: event.resched as u8,
            ..RawEvent::default()
        };
        // SAFETY: all three point to live structs of the layout that the header gives, held by us alone.
        unsafe { latebound_tm_step(&mut *self.raw, &mut raw, event.at, &mut *self.out) };
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
        self.raw.window[..(self.raw.count as usize).min(OUTPUTS)].iter().filter_map(|raw| {
            Some(ModelWindow {
                kind: match raw.output {
                    1 => WindowKind::Poid,
                    2 => WindowKind::Psd,
                    3 => WindowKind::Dst,
                    4 => WindowKind::Paie,
                    5 => WindowKind::Interrupt(InterruptSource::from_raw(raw.source, raw.number)),
                    _ => return None,
                },
                start: raw.start,
                end: raw.end,
                duration: raw.duration,
                begin_caller: raw.begin_caller,
                end_caller: raw.end_caller,
                begin_tid: raw.begin_tid,
                end_tid: raw.end_tid,
            })
        })
    }

    /// The rule that the event broke; the last one where it broke several.
    pub fn broken(self) -> Option<Rule> {
        Rule::from_number(self.raw.broken)
    }
}

impl InterruptSource {
    pub(crate) fn from_raw(source: u32, number: u32) -> InterruptSource {
        match source {
            1 => InterruptSource::Nmi,
            2 => InterruptSource::Vector(number),
            3 => InterruptSource::Device(number),
            _ => InterruptSource::Unnamed,
        }
    }

    fn raw(self) -> u64 {
        let (source, number) = match self {
            InterruptSource::Unnamed => (0, 0),
            InterruptSource::Nmi => (1, 0),
            InterruptSource::Vector(number) => (2, number),
            InterruptSource::Device(number) => (3, number),
        };
        source << 32 | u64::from(number)
    }
}

impl ModelEventKind {
    /// The number and the argument.
    #[inline]
    fn raw(self) -> (u8, u64) {
        match self {
            ModelEventKind::PreemptDisable => (1, 0),
            ModelEventKind::PreemptEnable => (2, 0),
            ModelEventKind::IrqDisable => (3, 0),
            ModelEventKind::IrqEnable => (4, 0),
            ModelEventKind::HandlerEntry(source) => (5, source.raw()),
            ModelEventKind::HandlerExit(source) => (6, source.raw()),
            ModelEventKind::Nmi(duration) => (7, duration),
            ModelEventKind::NmiEntry => (8, 0),
            ModelEventKind::NmiExit => (9, 0),
            ModelEventKind::SchedEntry => (10, 0),
            ModelEventKind::SchedExit => (11, 0),
            ModelEventKind::Switch(tid) => (12, u64::from(tid.cast_unsigned())),
            ModelEventKind::Waking(tid) => (13, u64::from(tid.cast_unsigned())),
            ModelEventKind::NeedResched => (14, 0),
            ModelEventKind::Lost => (15, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_size_that_c_gives_them() {
        // SAFETY: a constant of the C side, never written.
        let sizes = unsafe { latebound_tm_sizes };
        assert_eq!(sizes[0], size_of::<RawModel>() as u64);
        assert_eq!(sizes[1], size_of::<RawEvent>() as u64);
        assert_eq!(sizes[2], size_of::<RawResult>() as u64);
    }
}
