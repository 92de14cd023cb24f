// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reader's side of `latebound/bound_record.h`: what BPF programs and the kernel module write.
//!
//! Owns the way back from words to records. Never maps anything: the caller brings the memory.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::thread_model::{InterruptSource, ModelCounts, ModelFeatures, ModelWindow, Rule, WindowKind};
use crate::wire::{
    self, BoundEvent, BoundInterrupt, BoundMemory as Memory, BoundRing as Ring, BoundSection, BoundViolation,
    BoundWide, LB_BOUND_CPU_ROOM, LB_BOUND_DURATION_BITS, LB_BOUND_KIND_BITS, LB_BOUND_MAX_CPUS,
    LB_BOUND_NUMBER_BITS, LB_BOUND_RECENT, LB_BOUND_START_BITS, LB_BOUND_UNNAMED, LB_BOUND_WHAT_BITS,
    LB_BOUND_WORDS, TmKind, TmOutput,
};

/// Words of a ring.
pub const BOUND_RING_WORDS: usize = LB_BOUND_WORDS as usize;
/// Bytes of `struct lb_bound_memory`: what each CPU has.
pub const BOUND_MEMORY_BYTES: usize = size_of::<Memory>();
/// Bytes of `struct lb_bound_cpu`, with which that begins.
pub const BOUND_CPU_BYTES: usize = size_of::<wire::BoundCpu>();
/// Where `struct lb_bound_ring` begins in it.
pub const BOUND_RING_AT: usize = offset_of!(Memory, ring);
/// Bytes of `struct lb_bound_ring`.
pub const BOUND_RING_BYTES: usize = size_of::<Ring>();
/// 64-bit words of `struct lb_bound_ring`.
pub const BOUND_RING_TOTAL_WORDS: usize = BOUND_RING_BYTES / WORD;
/// Bytes from one `struct lb_bound_cpu` to the next, where they lie by themselves.
pub const BOUND_CPU_ROOM: usize = LB_BOUND_CPU_ROOM as usize;
/// The most of them.
pub const BOUND_MAX_CPUS: usize = LB_BOUND_MAX_CPUS as usize;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Words before those that records lie in.
const RING_HEAD: usize = offset_of!(Ring, words) / WORD;
/// Events that are kept for a violation.
const RECENT: usize = LB_BOUND_RECENT as usize;
/// Words of the longest record.
const LONGEST: usize = size_of::<BoundViolation>() / WORD;

/// A copy of `struct lb_bound_cpu`.
#[derive(Clone, Debug)]
pub struct BoundCpu(Box<wire::BoundCpu>);

/// What a CPU counted that the thread model does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoundCounts {
    /// What the thread model counted.
    pub model: ModelCounts,
    /// Words written.
    pub words: u64,
    /// Records that did not fit the ring.
    pub refused: u64,
    /// Violations of rules, whether their events were kept or not.
    pub violations: u64,
    /// Times at which interrupts kept coming while the clock was read.
    pub unsettled: u64,
    /// need_resched set by a flag that is not known.
    pub strange_flags: u64,
}

impl BoundCpu {
    /// From the bytes of the struct; `None` where there are too few.
    pub fn from_bytes(bytes: &[u8]) -> Option<BoundCpu> {
        wire::BoundCpu::from_bytes(bytes).map(|cpu| BoundCpu(Box::new(cpu)))
    }

    /// The bytes of a struct at its beginning: nothing known, not running.
    pub fn initial(features: ModelFeatures) -> Vec<u8> {
        let mut cpu = wire::BoundCpu::ZERO;
        cpu.tm.features = features.bits();
        cpu.to_bytes().to_vec()
    }

    /// Where `running` lies in the struct; 32 bits.
    pub const RUNNING: usize = offset_of!(wire::BoundCpu, running);

    /// What was counted.
    pub fn counts(&self) -> BoundCounts {
        let raw = &self.0;
        let mut model = raw.tm.counts();
        // A section is two events in one place.
        model.events = raw.recent_bytes / size_of::<BoundEvent>() as u64 + raw.sections + raw.idle_sections;
        model.windows += raw.sections;
        model.idle_windows += raw.idle_sections;
        BoundCounts {
            model,
            words: raw.position,
            refused: raw.refused,
            violations: raw.violations,
            unsettled: raw.unsettled,
            strange_flags: raw.strange_flags,
        }
    }

    /// How often a rule was broken.
    pub fn broken(&self, rule: Rule) -> u64 {
        self.0.tm.broken(rule)
    }

    /// Whether the state of the CPU is known at the moment.
    pub fn is_synced(&self) -> bool {
        self.0.tm.is_synced()
    }
}

/// A blocking window with the names of its threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundWindow {
    /// The window.
    pub window: ModelWindow,
    /// The name of the thread that began it; empty where it is not known.
    pub begin_comm: String,
    /// The name of the thread that ended it.
    pub end_comm: String,
}

/// What an event before a violation was; its arguments are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// Preemption went off.
    PreemptDisable,
    /// Preemption went on.
    PreemptEnable,
    /// Interrupts went off.
    IrqDisable,
    /// Interrupts went on.
    IrqEnable,
    /// A handler began.
    HandlerEntry,
    /// `__schedule()` was entered.
    SchedEntry,
    /// `__schedule()` returned.
    SchedExit,
    /// The CPU turned to another thread.
    Switch,
    /// A thread was woken.
    Waking,
    /// need_resched was set.
    NeedResched,
}

impl ViolationKind {
    fn has_caller(self) -> bool {
        use ViolationKind::{IrqDisable, IrqEnable, PreemptDisable, PreemptEnable};
        matches!(self, PreemptDisable | PreemptEnable | IrqDisable | IrqEnable)
    }
}

/// An event before a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViolationEvent {
    /// What it was.
    pub kind: ViolationKind,
    /// The address that turned something on or off; 0 where there is none.
    pub caller: u64,
    /// When; `None` where nothing depended on the time.
    pub at_ns: Option<u64>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundRecord {
    /// An interrupt or NMI.
    Interrupt {
        /// Which.
        source: InterruptSource,
        /// When it began.
        start_ns: u64,
        /// How long it was, net of NMIs.
        duration_ns: u64,
    },
    /// A blocking window, longer than any before it on this CPU.
    Window(BoundWindow),
    /// A rule that was broken.
    Violation {
        /// Which.
        rule: Rule,
        /// When; `None` where nothing depended on the time.
        at_ns: Option<u64>,
        /// The current thread.
        tid: i32,
        /// What led there, oldest first; the last one broke it.
        events: Vec<ViolationEvent>,
    },
    /// Words that make no sense: writer and reader do not belong together, or the memory was damaged.
    Senseless,
}

/// Takes the records of one ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingReader {
    taken: u64,
    last_start: u64,
}

impl RingReader {
    /// Takes what was written since the last time, at most `limit` words of it, and gives the room back. `ring` is the
    /// whole `struct lb_bound_ring`. Returns how many words it took.
    pub fn take(&mut self, ring: &[AtomicU64], limit: usize, mut each: impl FnMut(BoundRecord)) -> usize {
        let Some((head, words)) = ring.split_at_checked(RING_HEAD) else { return 0 };
        if words.len() != BOUND_RING_WORDS {
            return 0;
        }
        let place = |position: u64| &words[position as usize % BOUND_RING_WORDS];
        let begun = self.taken;
        let mut record = [0; LONGEST];
        while self.taken - begun < limit as u64 {
            let first = place(self.taken).load(Ordering::Acquire);
            if first == 0 {
                break;
            }
            let length = length_of(first);
            for (word, position) in record.iter_mut().zip(self.taken..self.taken + length) {
                *word = place(position).load(Ordering::Relaxed);
                place(position).store(0, Ordering::Relaxed);
            }
            self.taken += length;
            each(self.decode(&record[..length as usize]));
        }
        // The zeros have to be there before the room is given back.
        head[0].store(self.taken, Ordering::Release);
        (self.taken - begun) as usize
    }

    fn decode(&mut self, record: &[u64]) -> BoundRecord {
        let first = record[0];
        let decoded = match (first_of_wide(first), ShortInterrupt::of(first)) {
            (Some(wide), _) if record.len() == words_of(wide) => match wide {
                BoundWide::Interrupt => wide_interrupt(record).inspect(|record| {
                    if let BoundRecord::Interrupt { start_ns: start, .. } = record {
                        self.last_start = *start;
                    }
                }),
                BoundWide::Window => wide_window(record),
                BoundWide::Violation => wide_violation(record),
            },
            (_, Some(said)) => {
                let start = nearest(self.last_start, said.low_start);
                self.last_start = start;
                Some(BoundRecord::Interrupt {
                    source: said.source,
                    start_ns: start,
                    duration_ns: said.duration,
                })
            }
            (_, None) => None,
        };
        decoded.unwrap_or(BoundRecord::Senseless)
    }
}

/// The lower bits of a first word, which say what it is.
fn what_of(first: u64) -> u64 {
    first & ((1 << LB_BOUND_WHAT_BITS) - 1)
}

/// An interrupt in one word.
struct ShortInterrupt {
    source: InterruptSource,
    /// The lower bits of its start.
    low_start: u64,
    duration: u64,
}

impl ShortInterrupt {
    fn of(first: u64) -> Option<ShortInterrupt> {
        let what = what_of(first);
        let (source, number) = (what >> LB_BOUND_NUMBER_BITS, what & ((1 << LB_BOUND_NUMBER_BITS) - 1));
        // An interrupt without a name has one number; the others are those of longer records, or of nothing.
        let is_one = source != 0 || number == u64::from(LB_BOUND_UNNAMED);
        is_one.then(|| ShortInterrupt {
            source: InterruptSource::from_raw(source as u32, number as u32),
            low_start: first >> (64 - LB_BOUND_START_BITS),
            duration: first >> LB_BOUND_WHAT_BITS & ((1 << LB_BOUND_DURATION_BITS) - 1),
        })
    }
}

fn first_of_wide(first: u64) -> Option<BoundWide> {
    BoundWide::from_raw(what_of(first) as u32)
}

fn words_of(wide: BoundWide) -> usize {
    let bytes = match wide {
        BoundWide::Interrupt => size_of::<BoundInterrupt>(),
        BoundWide::Window => size_of::<wire::BoundWindow>(),
        BoundWide::Violation => size_of::<BoundViolation>(),
    };
    bytes / WORD
}

/// Words of the record that begins with this one.
fn length_of(first: u64) -> u64 {
    let length = first >> LB_BOUND_WHAT_BITS;
    match first_of_wide(first) {
        Some(wide) if words_of(wide) as u64 == length => length,
        _ => 1,
    }
}

/// The time with these low bits that lies nearest to another.
fn nearest(to: u64, low: u64) -> u64 {
    let whole = 1u64 << LB_BOUND_START_BITS;
    let base = (to & !(whole - 1)) | low;
    if base > to && base - to >= whole / 2 {
        base.saturating_sub(whole)
    } else if base < to && to - base > whole / 2 {
        base.saturating_add(whole)
    } else {
        base
    }
}

fn bytes_of(record: &[u64]) -> Vec<u8> {
    record.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The lower and the upper half.
fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn wide_interrupt(record: &[u64]) -> Option<BoundRecord> {
    let BoundInterrupt { start_ns: start, duration_ns: duration, source_number, .. } =
        BoundInterrupt::from_bytes(&bytes_of(record))?;
    let (source, number) = halves(source_number);
    Some(BoundRecord::Interrupt {
        source: InterruptSource::from_raw(source, number),
        start_ns: start,
        duration_ns: duration,
    })
}

fn wide_window(record: &[u64]) -> Option<BoundRecord> {
    let raw = wire::BoundWindow::from_bytes(&bytes_of(record))?;
    let (begin_tid, end_tid) = halves(raw.tids);
    let window = ModelWindow {
        kind: WindowKind::blocking(TmOutput::from_raw(u32::try_from(raw.output).ok()?)?)?,
        start_ns: raw.start_ns,
        end_ns: raw.end_ns,
        duration_ns: raw.duration_ns,
        begin_caller: raw.begin_caller,
        end_caller: raw.end_caller,
        begin_tid: begin_tid.cast_signed(),
        end_tid: end_tid.cast_signed(),
    };
    let (begin_comm, end_comm) = (comm(raw.begin_comm), comm(raw.end_comm));
    Some(BoundRecord::Window(BoundWindow { window, begin_comm, end_comm }))
}

fn comm(words: [u64; 2]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wide_violation(record: &[u64]) -> Option<BoundRecord> {
    let raw = BoundViolation::from_bytes(&bytes_of(record))?;
    let rule = Rule::from_raw(u32::try_from(raw.rule).ok()?)?;
    let mut events = Events::default();
    for event in raw.events {
        // The top bit of an event's word is set.
        if event.not_at_kind.cast_signed() > 0 {
            let section = BoundSection::from_bytes(&event.to_bytes())?;
            let preempt = section.lasted_or_not.cast_signed() >= 0;
            let (kind, lasted) = if preempt {
                (ViolationKind::PreemptEnable, section.lasted_or_not)
            } else {
                (ViolationKind::IrqEnable, !section.lasted_or_not)
            };
            events.begin(section.begin_caller, section.since_ns, preempt);
            let at = Some(section.since_ns.wrapping_add(lasted));
            events.push(ViolationEvent { kind, caller: section.end_caller, at_ns: at });
        } else if let Some(kind) = violation_kind(event.not_at_kind & ((1 << LB_BOUND_KIND_BITS) - 1)) {
            let at = !((event.not_at_kind.cast_signed() >> LB_BOUND_KIND_BITS).cast_unsigned());
            let caller = if kind.has_caller() { event.caller } else { 0 };
            events.push(ViolationEvent { kind, caller, at_ns: (at != 0).then_some(at) });
        }
    }
    if raw.open_since_and_preempt != 0 {
        events.open(raw.open_caller, raw.open_since_and_preempt >> 1, raw.open_since_and_preempt & 1 != 0);
    }
    let at = (raw.at_ns != 0).then_some(raw.at_ns);
    Some(BoundRecord::Violation { rule, at_ns: at, tid: raw.tid as i32, events: events.last() })
}

fn violation_kind(number: u64) -> Option<ViolationKind> {
    match TmKind::from_raw(number as u32)? {
        TmKind::PreemptDisable => Some(ViolationKind::PreemptDisable),
        TmKind::PreemptEnable => Some(ViolationKind::PreemptEnable),
        TmKind::IrqDisable => Some(ViolationKind::IrqDisable),
        TmKind::IrqEnable => Some(ViolationKind::IrqEnable),
        TmKind::HandlerEntry => Some(ViolationKind::HandlerEntry),
        TmKind::SchedEntry => Some(ViolationKind::SchedEntry),
        TmKind::SchedExit => Some(ViolationKind::SchedExit),
        TmKind::Switch => Some(ViolationKind::Switch),
        TmKind::Waking => Some(ViolationKind::Waking),
        TmKind::NeedResched => Some(ViolationKind::NeedResched),
        // Not among the events that are kept.
        TmKind::HandlerExit | TmKind::Nmi | TmKind::NmiEntry | TmKind::NmiExit | TmKind::Lost => None,
    }
}

/// Events in their order, of which the beginnings of POIDs are reported behind what came within them.
#[derive(Default)]
struct Events {
    events: Vec<ViolationEvent>,
}

impl Events {
    fn push(&mut self, event: ViolationEvent) {
        self.events.push(event);
    }

    /// A POID that began at this moment, and lasts until here; preemption goes on next (`preempt`), or interrupts do.
    fn begin(&mut self, caller: u64, since: u64, preempt: bool) {
        self.insert(caller, since, preempt, self.events.len());
    }

    /// The same, where the last event is no end of it.
    fn open(&mut self, caller: u64, since: u64, preempt: bool) {
        self.insert(caller, since, preempt, self.events.len().saturating_sub(1));
    }

    fn insert(&mut self, caller: u64, since: u64, preempt: bool, until: usize) {
        // It may have been reported in its place, where it went through the model.
        if self.events.iter().any(|event| event.caller == caller && event.at_ns == Some(since)) {
            return;
        }
        let place = self.events[..until].iter().rposition(|event| event.at_ns.is_some_and(|at| at < since));
        // What came within it may be lost, where nothing older is known.
        if place.is_none() && self.events.len() >= RECENT - 1 {
            return;
        }
        let place = place.map_or(0, |place| place + 1);
        // What was off at the end, less what went off within: that was off from the beginning.
        let off = self.events[place..until].iter().fold(i32::from(preempt), |off, event| match event.kind {
            ViolationKind::PreemptEnable => off + 1,
            ViolationKind::PreemptDisable => off - 1,
            _ => off,
        });
        let kind = if off > 0 { ViolationKind::PreemptDisable } else { ViolationKind::IrqDisable };
        self.events.insert(place, ViolationEvent { kind, caller, at_ns: Some(since) });
    }

    /// The last of them, as many as there are places.
    fn last(mut self) -> Vec<ViolationEvent> {
        self.events.split_off(self.events.len().saturating_sub(RECENT))
    }
}

#[cfg(test)]
mod tests;
