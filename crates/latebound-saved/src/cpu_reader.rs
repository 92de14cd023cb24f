// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a CPU, one by one, through the thread model: of a saved trace, and of the pages of a running kernel.
//!
//! Owns what a record means to the model, and what speaks against calling the values of a CPU a bound. Never reads a trace.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use latebound_abi::{
    CallerClass, CallerClasses, InterruptSource, ModelFeatures, ModelWindow, Resched, SymbolsError,
    ThreadModelEvent, ThreadModelEventKind,
};
use latebound_analysis::bound::{CpuObserver, Interrupts, RecordedInterrupts, Source};
use latebound_model::{BlockingWindow, Cpu, Nanos, Tid, Variable, WindowEdge};
use latebound_trace::{
    Decoded, Discontinuity, DiscontinuityKind, Flags, Symbols, TaskRef, TextOffset, TraceRecord, Turn,
    Turned, VectorId,
};

use crate::continuity::Continuity;
use crate::saved::Violation;
use crate::wakeups::Wakeups;

/// What all CPUs share.
#[derive(Debug)]
pub(crate) struct Context<'t> {
    pub(crate) symbols: Cow<'t, Symbols>,
    pub(crate) classes: CallerClasses,
    /// Whether a function is among the symbols that only PREEMPT_RT kernels have.
    pub(crate) is_rt: bool,
    pub(crate) vectors: Cow<'t, [String]>,
    pub(crate) has_flags: bool,
    /// Whether NMIs were recorded; `None` where the trace does not say.
    pub(crate) nmis: Option<bool>,
    /// The name of the clock; `None` where the trace does not say.
    pub(crate) clock: Option<&'t str>,
}

impl<'t> Context<'t> {
    pub(crate) fn new(
        symbols: Cow<'t, Symbols>,
        vectors: Cow<'t, [String]>,
        has_flags: bool,
    ) -> Result<Context<'t>, SymbolsError> {
        // A kernel has many symbols: both questions in one go.
        let mut is_rt = false;
        let classes = CallerClasses::from_ranges(|beginnings, wanted| {
            symbols.ranges(&[beginnings, &RT_FUNCTIONS].concat(), |name| {
                is_rt |= RT_FUNCTIONS.contains(&name);
                wanted(name)
            })
        })?;
        Ok(Context { symbols, classes, is_rt, vectors, has_flags, nmis: None, clock: None })
    }
}

impl Context<'_> {
    /// No trace has the end of `__schedule()`: its trace points have no events.
    pub(crate) fn features(&self) -> ModelFeatures {
        ModelFeatures { has_sched_exit: false, calls_scheduler: self.classes.calls_scheduler() }
    }

    #[inline]
    fn resched(&self, flags: Flags) -> Resched {
        match (self.has_flags, flags.need_resched()) {
            (false, _) => Resched::Unknown,
            (true, true) => Resched::GiveWay,
            (true, false) => Resched::Stay,
        }
    }
}

/// Events that a bound needs, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventCounts {
    pub(crate) preempt: u64,
    pub(crate) irqs: u64,
    pub(crate) handlers: u64,
    pub(crate) nmis: u64,
    pub(crate) switches: u64,
}

/// The classes of the places in the kernel that turned preemption or interrupts off or on last: a trace has millions of
/// such events, and a few hundred places.
#[derive(Debug)]
pub(crate) struct Places(Box<[Place; 1024]>);

#[derive(Clone, Copy, Debug)]
struct Place {
    caller: TextOffset,
    parent: TextOffset,
    turn: Option<Turn>,
    address: u64,
    class: CallerClass,
}

impl Places {
    pub(crate) fn new() -> Places {
        let (none, class) = (TextOffset(0), CallerClass::default());
        Places(Box::new([Place { caller: none, parent: none, turn: None, address: 0, class }; _]))
    }

    /// The address and the class of a caller.
    #[inline]
    fn place(&mut self, context: &Context<'_>, turned: &Turned) -> (u64, CallerClass) {
        let address = |offset| context.symbols.address(offset).unwrap_or(0);
        let Turned { turn, caller, parent, .. } = *turned;
        let mixed = caller.0.cast_unsigned() ^ parent.0.cast_unsigned().rotate_left(11);
        // The upper bits of a product with a large odd number depend on all bits (D. E. Knuth, TAOCP 3, 6.4).
        let at = mixed.wrapping_add(turn as u32).wrapping_mul(0x9e37_79b1) >> 22;
        let kept = &mut self.0[at as usize];
        if (kept.caller, kept.parent, kept.turn) != (caller, parent, Some(turn)) {
            let (at, by) = (address(caller), address(parent));
            let (address, class) = match turn {
                Turn::PreemptOff | Turn::PreemptOn => (at, context.classes.preempt(at)),
                Turn::IrqsOff => {
                    (context.classes.who_turns_irqs_off(at, by).0, context.classes.irq_off(at, by))
                }
                Turn::IrqsOn => (at, context.classes.irq_on(at)),
            };
            *kept = Place { caller, parent, turn: Some(turn), address, class };
        }
        (kept.address, kept.class)
    }
}

/// So many threads have names at most.
const NAMES: usize = 1 << 16;

/// One CPU.
#[derive(Debug)]
pub(crate) struct CpuReader<I = RecordedInterrupts> {
    pub(crate) observer: CpuObserver<I>,
    pub(crate) seen: EventCounts,
    named: BTreeSet<Source>,
    names: HashMap<i32, String>,
    pub(crate) wakeups: Wakeups,
    continuity: Continuity,
}

impl<I: Interrupts> CpuReader<I> {
    /// Begins with nothing known of a CPU on a kernel with these features; `wakeups` are those of the CPU.
    pub(crate) fn new(features: ModelFeatures, wakeups: Wakeups) -> CpuReader<I> {
        CpuReader {
            observer: CpuObserver::new(wakeups.cpu(), features),
            seen: EventCounts::default(),
            named: BTreeSet::new(),
            names: HashMap::new(),
            wakeups,
            continuity: Continuity::default(),
        }
    }

    /// What a clock that ran backwards means is known to the model itself.
    pub(crate) fn discontinuity(&mut self, discontinuity: &Discontinuity, nanos: impl Fn(u64) -> Nanos) {
        self.wakeups.forget();
        self.continuity.forget();
        if matches!(discontinuity.kind, DiscontinuityKind::Backwards { .. }) {
            return;
        }
        self.lost(discontinuity.after.map_or(Nanos(0), nanos));
    }

    fn lost(&mut self, at: Nanos) {
        let (class, resched) = (CallerClass::Postpones, Resched::Unknown);
        self.observer.observe(&ThreadModelEvent {
            at_ns: at.0,
            tid: -1,
            caller: 0,
            class,
            resched,
            kind: ThreadModelEventKind::Lost,
        });
    }

    /// Holds an event against those before it. `tells_masking`: it comes neither where interrupts go off, which it says
    /// itself, nor within an NMI, which masks them without an event.
    #[inline]
    fn follow(&mut self, context: &Context<'_>, at: Nanos, tid: Tid, flags: Flags, tells_masking: bool) {
        let masked = match tells_masking && context.has_flags && !flags.nmi() {
            true => self.observer.interrupts_off().map(|expected| (expected, flags.irqs_off())),
            false => None,
        };
        if self.continuity.look(at, tid.0, masked).is_some() {
            self.wakeups.forget();
            self.lost(at);
        }
    }

    /// Takes in one of the four events with a caller.
    #[inline]
    pub(crate) fn turned(&mut self, context: &Context<'_>, places: &mut Places, at: Nanos, turned: Turned) {
        let kind = match turned.turn {
            Turn::PreemptOff => {
                self.seen.preempt += 1;
                ThreadModelEventKind::PreemptDisable
            }
            Turn::PreemptOn => ThreadModelEventKind::PreemptEnable,
            Turn::IrqsOff => {
                self.seen.irqs += 1;
                ThreadModelEventKind::IrqDisable
            }
            Turn::IrqsOn => ThreadModelEventKind::IrqEnable,
        };
        self.follow(context, at, turned.tid, turned.flags, turned.turn != Turn::IrqsOff);
        let (caller, class) = places.place(context, &turned);
        self.observe(context, at, turned.tid, turned.flags, (caller, class, kind));
    }

    /// Tells the model of an event of a thread.
    #[inline(always)]
    fn observe(
        &mut self,
        context: &Context<'_>,
        at: Nanos,
        tid: Tid,
        flags: Flags,
        (caller, class, kind): (u64, CallerClass, ThreadModelEventKind),
    ) {
        let resched = context.resched(flags);
        self.observer.observe(&ThreadModelEvent { at_ns: at.0, tid: tid.0, caller, class, resched, kind });
    }

    pub(crate) fn record(
        &mut self,
        context: &Context<'_>,
        places: &mut Places,
        at: Nanos,
        decoded: &Decoded<'_>,
    ) {
        if let Some(turned) = decoded.turned() {
            return self.turned(context, places, at, turned);
        }
        let is_followed = matches!(
            decoded.record,
            TraceRecord::VectorEntry { .. }
                | TraceRecord::VectorExit { .. }
                | TraceRecord::IrqHandlerEntry { .. }
                | TraceRecord::IrqHandlerExit { .. }
                | TraceRecord::Switch { .. }
                | TraceRecord::Waking { .. }
                | TraceRecord::Wakeup { .. }
        );
        self.follow(context, at, decoded.tid, decoded.flags, is_followed);
        let plain = |kind| (0, CallerClass::Postpones, kind);
        let said = match decoded.record {
            TraceRecord::VectorEntry { vector, number } => {
                let source = vector_source(vector, number);
                let name = context.vectors.get(usize::from(vector.0)).map_or("", String::as_str);
                self.name(source.into(), name);
                plain(ThreadModelEventKind::HandlerEntry(source))
            }
            TraceRecord::VectorExit { vector, number } => {
                plain(ThreadModelEventKind::HandlerExit(vector_source(vector, number)))
            }
            TraceRecord::IrqHandlerEntry { irq, name } => {
                let source = Source::Device(irq);
                if !self.named.contains(&source) {
                    self.name(source, &name.to_string());
                }
                plain(ThreadModelEventKind::HandlerEntry(InterruptSource::Device(irq)))
            }
            TraceRecord::IrqHandlerExit { irq, .. } => {
                plain(ThreadModelEventKind::HandlerExit(InterruptSource::Device(irq)))
            }
            TraceRecord::Nmi { duration_ns, .. } => {
                self.seen.nmis += 1;
                plain(ThreadModelEventKind::Nmi(u64::try_from(duration_ns).unwrap_or(0)))
            }
            TraceRecord::Switch { prev, next, .. } => {
                self.seen.switches += 1;
                // No switch tells of the one that ran from the beginning.
                if self.seen.switches == 1 {
                    self.learn(&prev);
                }
                self.learn(&next);
                self.wakeups.switched(at, &prev, &next);
                self.continuity.switched(prev.tid.0, next.tid.0);
                plain(ThreadModelEventKind::Switch(next.tid.0))
            }
            TraceRecord::Waking { task, .. } => {
                self.wakeups.woken(at, &task);
                plain(ThreadModelEventKind::Waking(task.tid.0))
            }
            TraceRecord::Wakeup { task, target_cpu } => {
                self.wakeups.queued(at, &task, Cpu(target_cpu));
                return;
            }
            _ => return,
        };
        self.observe(context, at, decoded.tid, decoded.flags, said);
    }

    fn name(&mut self, source: Source, name: &str) {
        self.seen.handlers += 1;
        if self.named.insert(source) {
            self.observer.name(source, name);
        }
    }

    /// The last name that a thread had, as far as it fits: tids are many where threads are short-lived.
    fn learn(&mut self, task: &TaskRef<'_>) {
        let full = self.names.len() >= NAMES;
        match self.names.get_mut(&task.tid.0) {
            Some(name) if name.as_bytes() == task.comm.bytes() => {}
            Some(name) => *name = task.comm.to_string(),
            None if !full => {
                self.names.insert(task.tid.0, task.comm.to_string());
            }
            None => {}
        }
    }

    /// The name that a thread had last.
    pub(crate) fn name_of(&self, tid: i32) -> Option<&str> {
        match tid {
            0 => Some("idle task"),
            _ => self.names.get(&tid).map(String::as_str),
        }
    }

    /// Forgets the names of threads where there is no room for more: those that run now are learnt again.
    pub(crate) fn make_room_for_names(&mut self) {
        if self.names.len() >= NAMES {
            self.names.clear();
        }
    }

    /// The longest windows, in an order that stays.
    pub(crate) fn longest(&self) -> [(Variable, Option<ModelWindow>); 4] {
        let longest = self.observer.longest();
        [
            (Variable::Poid, longest.poid),
            (Variable::Dst, longest.dst),
            (Variable::Paie, longest.paie),
            (Variable::Psd, longest.psd),
        ]
    }

    /// What speaks against calling the values a bound: one sentence each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let number = self.observer.cpu();
        let mut problems: Vec<String> =
            self.continuity.problems().map(|problem| format!("CPU {number}: {problem}")).collect();
        problems.extend(self.observer.problems());
        for (what, count) in [("preempt_disable", self.seen.preempt), ("irq_disable", self.seen.irqs)] {
            if count == 0 {
                problems.push(format!("CPU {number}: no {what} events, so blocking was not seen there"));
            }
        }
        let unnamed = self.observer.counts().unnamed;
        if unnamed > 0 {
            problems.push(format!(
                "CPU {number}: {unnamed} interrupts without an event that names them; they are taken for one source",
            ));
        }
        problems
    }

    /// What has to be known about the values, and does not speak against them.
    pub(crate) fn notes(&self) -> Option<String> {
        let counts = self.observer.counts();
        (counts.idle_windows > 0).then(|| {
            format!(
                "CPU {}: blocking by the idle task (up to {} ns) is not in the values: what leaving an idle state takes is outside the theorem",
                self.observer.cpu(),
                counts.idle_longest
            )
        })
    }

    /// The first violations of rules, in words.
    pub(crate) fn violations(&self, symbols: &Symbols) -> impl Iterator<Item = Violation> {
        self.observer.broken().iter().map(|broken| Violation {
            cpu: self.observer.cpu(),
            rule: broken.rule,
            events: broken.events.iter().map(|event| event_in_words(event, symbols)).collect(),
        })
    }
}

/// A window in words; `name` names threads.
pub(crate) fn in_words(
    context: &Context<'_>,
    variable: Variable,
    found: &ModelWindow,
    name: impl Fn(i32) -> String,
) -> BlockingWindow {
    let edge =
        |caller, tid| WindowEdge { caller: context.symbols.describe(caller), tid: Tid(tid), comm: name(tid) };
    BlockingWindow {
        variable,
        start: Nanos(found.start_ns),
        end: Nanos(found.end_ns),
        duration: Nanos(found.duration_ns),
        begin: edge(found.begin_caller, found.begin_tid),
        finish: edge(found.end_caller, found.end_tid),
    }
}

/// Inter-processor interrupts of arm64 have names and no numbers; theirs begin above every processor's.
fn vector_source(vector: VectorId, number: Option<u32>) -> InterruptSource {
    InterruptSource::Vector(number.unwrap_or(0x1_0000 + u32::from(vector.0)))
}

/// Functions that only PREEMPT_RT kernels have: `schedule_rtlock` stands within `#ifdef CONFIG_PREEMPT_RT` in
/// kernel/sched/core.c, `rt_spin_lock` in kernel/locking/spinlock_rt.c, which is compiled for PREEMPT_RT alone (5.15 to
/// 6.18).
const RT_FUNCTIONS: [&str; 2] = ["schedule_rtlock", "rt_spin_lock"];

fn event_in_words(event: &ThreadModelEvent, symbols: &Symbols) -> String {
    let what = match event.kind {
        ThreadModelEventKind::PreemptDisable => "preempt_disable".to_owned(),
        ThreadModelEventKind::PreemptEnable => "preempt_enable".to_owned(),
        ThreadModelEventKind::IrqDisable => "irq_disable".to_owned(),
        ThreadModelEventKind::IrqEnable => "irq_enable".to_owned(),
        ThreadModelEventKind::HandlerEntry(source) => format!("handler of {} begins", Source::from(source)),
        ThreadModelEventKind::HandlerExit(source) => format!("handler of {} ends", Source::from(source)),
        ThreadModelEventKind::Nmi(duration) => format!("NMI of {duration} ns ends"),
        ThreadModelEventKind::NmiEntry => "NMI begins".to_owned(),
        ThreadModelEventKind::NmiExit => "NMI ends".to_owned(),
        ThreadModelEventKind::SchedEntry => "__schedule() begins".to_owned(),
        ThreadModelEventKind::SchedExit => "__schedule() ends".to_owned(),
        ThreadModelEventKind::Switch(tid) => format!("switch to tid {tid}"),
        ThreadModelEventKind::Waking(tid) => format!("waking of tid {tid}"),
        ThreadModelEventKind::NeedResched => "need_resched".to_owned(),
        ThreadModelEventKind::Lost => "events were lost".to_owned(),
    };
    let place =
        if event.caller == 0 { String::new() } else { format!(" in {}", symbols.describe(event.caller)) };
    let resched = if event.resched == Resched::GiveWay { ", is to give way" } else { "" };
    format!(
        "{}.{:09} tid {}{resched}: {what}{place}",
        event.at_ns / 1_000_000_000,
        event.at_ns % 1_000_000_000,
        event.tid
    )
}
