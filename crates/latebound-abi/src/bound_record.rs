// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reader's side of `latebound/bound_record.h`: what BPF programs and the kernel module write.
//!
//! Owns the layout of the shared memory and the way back from words to records. Never maps anything: the caller brings
//! the memory.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::thread_model::{InterruptSource, ModelCounts, ModelWindow, RawModel, Rule, WindowKind};

/// Words of a ring (`LB_BOUND_WORDS`).
pub const BOUND_RING_WORDS: usize = 1 << 15;
/// Bytes of `struct lb_bound_memory`: what each CPU has.
pub const BOUND_MEMORY_BYTES: usize = size_of::<Memory>();
/// Bytes of `struct lb_bound_cpu`, with which that begins.
pub const BOUND_CPU_BYTES: usize = size_of::<RawCpu>();
/// Where `struct lb_bound_ring` begins in it.
pub const BOUND_RING_AT: usize = offset_of!(Memory, ring);
/// Bytes of `struct lb_bound_ring`.
pub const BOUND_RING_BYTES: usize = size_of::<Ring>();
/// 64-bit words of `struct lb_bound_ring`.
pub const BOUND_RING_TOTAL_WORDS: usize = RING_HEAD + BOUND_RING_WORDS;

/// First word behind `taken` and its padding.
const RING_HEAD: usize = 8;
const RECENT: usize = 16;
const EVENT_BYTES: u64 = 32;
/// Words of a violation before its events.
const BREACH_HEAD: usize = 6;

const WHAT_BITS: u32 = 12;
const NUMBER_BITS: u32 = 10;
const DURATION_BITS: u32 = 22;
const START_BITS: u32 = 30;
const UNNAMED: u64 = 1;
const KIND_BITS: u32 = 4;

const WIDE_INTERRUPT: (u64, u64) = (2, 4);
const WIDE_WINDOW: (u64, u64) = (3, 12);
const WIDE_VIOLATION: (u64, u64) = (4, 70);

#[repr(C)]
struct Ring {
    taken: u64,
    pad: [u64; RING_HEAD - 1],
    words: [u64; BOUND_RING_WORDS],
}

/// Bytes from one `struct lb_bound_cpu` to the next, where they lie by themselves (`LB_BOUND_CPU_ROOM`).
pub const BOUND_CPU_ROOM: usize = 2048;
/// The most of them (`LB_BOUND_MAX_CPUS`).
pub const BOUND_MAX_CPUS: usize = 4096;

#[repr(C)]
struct Memory {
    cpu: RawCpu,
    pad: [u8; BOUND_CPU_ROOM - size_of::<RawCpu>()],
    ring: Ring,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct RawCpu {
    running: u32,
    pad: u32,
    tm: RawModel,
    recent: [[u64; 4]; RECENT],
    recent_bytes: u64,
    sections: u64,
    idle_sections: u64,
    open_caller: u64,
    open_since: u64,
    known: [u64; 4],
    previous_tid: i32,
    previous_pad: u32,
    previous_name: [u64; 2],
    position: u64,
    last_start: u64,
    refused: u64,
    violations: u64,
    unsettled: u64,
    strange_flags: u64,
}

/// A copy of `struct lb_bound_cpu`.
#[derive(Clone, Debug)]
pub struct BoundCpu(Box<RawCpu>);

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
        let bytes = bytes.get(..BOUND_CPU_BYTES)?;
        // SAFETY: as many bytes as the struct has, and it consists of integers, for which any bytes are a value.
        Some(BoundCpu(Box::new(unsafe { bytes.as_ptr().cast::<RawCpu>().read_unaligned() })))
    }

    /// The bytes of a struct at its beginning: nothing known, not running.
    pub fn initial(has_sched_exit: bool) -> Vec<u8> {
        let mut bytes = vec![0; BOUND_CPU_BYTES];
        let at = offset_of!(RawCpu, tm) + RawModel::FEATURES;
        bytes[at..at + 4].copy_from_slice(&u32::from(has_sched_exit).to_ne_bytes());
        bytes
    }

    /// Where `running` lies in the struct; 32 bits.
    pub const RUNNING: usize = offset_of!(RawCpu, running);

    /// What was counted.
    pub fn counts(&self) -> BoundCounts {
        let raw = &self.0;
        let mut model = raw.tm.counts();
        // A section is two events in one place.
        model.events = raw.recent_bytes / EVENT_BYTES + raw.sections + raw.idle_sections;
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
pub enum BreachKind {
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

impl BreachKind {
    fn has_caller(self) -> bool {
        use BreachKind::{IrqDisable, IrqEnable, PreemptDisable, PreemptEnable};
        matches!(self, PreemptDisable | PreemptEnable | IrqDisable | IrqEnable)
    }
}

/// An event before a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViolationEvent {
    /// What it was.
    pub kind: BreachKind,
    /// The address that turned something on or off; 0 where there is none.
    pub caller: u64,
    /// When; `None` where nothing depended on the time.
    pub at: Option<u64>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundRecord {
    /// An interrupt or NMI.
    Interrupt {
        /// Which.
        source: InterruptSource,
        /// When it began.
        start: u64,
        /// How long it was, net of NMIs.
        duration: u64,
    },
    /// A blocking window, longer than any before it on this CPU.
    Window(BoundWindow),
    /// A rule that was broken.
    Violation {
        /// Which.
        rule: Rule,
        /// When; `None` where nothing depended on the time.
        at: Option<u64>,
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
        let mut record = [0; WIDE_VIOLATION.1 as usize];
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
        let what = first & ((1 << WHAT_BITS) - 1);
        let (kind, number) = (what >> NUMBER_BITS, what & ((1 << NUMBER_BITS) - 1));
        let decoded = match (kind, number) {
            (0, UNNAMED) | (1.., _) => {
                let low = first >> (64 - START_BITS);
                let start = nearest(self.last_start, low);
                self.last_start = start;
                let duration = first >> WHAT_BITS & ((1 << DURATION_BITS) - 1);
                let source = InterruptSource::from_raw(kind as u32, number as u32);
                Some(BoundRecord::Interrupt { source, start, duration })
            }
            (0, n) if n == WIDE_INTERRUPT.0 => wide_interrupt(record).inspect(|record| {
                if let BoundRecord::Interrupt { start, .. } = record {
                    self.last_start = *start;
                }
            }),
            (0, n) if n == WIDE_WINDOW.0 => wide_window(record),
            (0, n) if n == WIDE_VIOLATION.0 => wide_violation(record),
            _ => None,
        };
        decoded.unwrap_or(BoundRecord::Senseless)
    }
}

/// Words of the record that begins with this one.
fn length_of(first: u64) -> u64 {
    match first & ((1 << WHAT_BITS) - 1) {
        what if [WIDE_INTERRUPT, WIDE_WINDOW, WIDE_VIOLATION].contains(&(what, first >> WHAT_BITS)) => {
            first >> WHAT_BITS
        }
        _ => 1,
    }
}

/// The time with these low bits that lies nearest to another.
fn nearest(to: u64, low: u64) -> u64 {
    let whole = 1u64 << START_BITS;
    let base = (to & !(whole - 1)) | low;
    if base > to && base - to >= whole / 2 {
        base.saturating_sub(whole)
    } else if base < to && to - base > whole / 2 {
        base.saturating_add(whole)
    } else {
        base
    }
}

fn wide_interrupt(record: &[u64]) -> Option<BoundRecord> {
    let &[_, start, duration, source] = record else { return None };
    let source = InterruptSource::from_raw(source as u32, (source >> 32) as u32);
    Some(BoundRecord::Interrupt { source, start, duration })
}

fn wide_window(record: &[u64]) -> Option<BoundRecord> {
    let &[_, output, start, end, duration, begin_caller, end_caller, tids, b0, b1, e0, e1] = record else {
        return None;
    };
    let kind = match output {
        1 => WindowKind::Poid,
        2 => WindowKind::Psd,
        3 => WindowKind::Dst,
        4 => WindowKind::Paie,
        _ => return None,
    };
    let (begin_tid, end_tid) = (tids as u32 as i32, (tids >> 32) as u32 as i32);
    let window = ModelWindow { kind, start, end, duration, begin_caller, end_caller, begin_tid, end_tid };
    Some(BoundRecord::Window(BoundWindow { window, begin_comm: comm([b0, b1]), end_comm: comm([e0, e1]) }))
}

fn comm(words: [u64; 2]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wide_violation(record: &[u64]) -> Option<BoundRecord> {
    let (head, kept) = record.split_at_checked(BREACH_HEAD)?;
    let rule = Rule::from_number(u32::try_from(head[1]).ok()?)?;
    let mut events = Events::default();
    for &[first, second, third, fourth] in kept.as_chunks::<4>().0 {
        if second as i64 > 0 {
            let since = second;
            let preempt = (fourth as i64) >= 0;
            let (kind, lasted) =
                if preempt { (BreachKind::PreemptEnable, fourth) } else { (BreachKind::IrqEnable, !fourth) };
            events.begin(first, since, preempt);
            events.push(ViolationEvent { kind, caller: third, at: Some(since.wrapping_add(lasted)) });
        } else if let Some(kind) = violation_kind(second & ((1 << KIND_BITS) - 1)) {
            let at = !((second as i64 >> KIND_BITS) as u64);
            let caller = if kind.has_caller() { first } else { 0 };
            events.push(ViolationEvent { kind, caller, at: (at != 0).then_some(at) });
        }
    }
    if head[5] != 0 {
        events.open(head[4], head[5] >> 1, head[5] & 1 != 0);
    }
    let at = (head[2] != 0).then_some(head[2]);
    Some(BoundRecord::Violation { rule, at, tid: head[3] as i64 as i32, events: events.last() })
}

fn violation_kind(number: u64) -> Option<BreachKind> {
    Some(match number {
        1 => BreachKind::PreemptDisable,
        2 => BreachKind::PreemptEnable,
        3 => BreachKind::IrqDisable,
        4 => BreachKind::IrqEnable,
        5 => BreachKind::HandlerEntry,
        10 => BreachKind::SchedEntry,
        11 => BreachKind::SchedExit,
        12 => BreachKind::Switch,
        13 => BreachKind::Waking,
        14 => BreachKind::NeedResched,
        _ => return None,
    })
}

/// Events in their order, of which the beginnings of POIDs are told behind what came within them.
#[derive(Default)]
struct Events {
    told: Vec<ViolationEvent>,
}

impl Events {
    fn push(&mut self, event: ViolationEvent) {
        self.told.push(event);
    }

    /// A POID that began at this moment, and lasts until here; preemption goes on next (`preempt`), or interrupts do.
    fn begin(&mut self, caller: u64, since: u64, preempt: bool) {
        self.insert(caller, since, preempt, self.told.len());
    }

    /// The same, where the last event is no end of it.
    fn open(&mut self, caller: u64, since: u64, preempt: bool) {
        self.insert(caller, since, preempt, self.told.len().saturating_sub(1));
    }

    fn insert(&mut self, caller: u64, since: u64, preempt: bool, until: usize) {
        // It may have been told in its place, where it went through the model.
        if self.told.iter().any(|event| event.caller == caller && event.at == Some(since)) {
            return;
        }
        let place = self.told[..until].iter().rposition(|event| event.at.is_some_and(|at| at < since));
        // What came within it may be lost, where nothing older is known.
        if place.is_none() && self.told.len() >= RECENT - 1 {
            return;
        }
        let place = place.map_or(0, |place| place + 1);
        // What was off at the end, less what went off within: that was off from the beginning.
        let off = self.told[place..until].iter().fold(i32::from(preempt), |off, event| match event.kind {
            BreachKind::PreemptEnable => off + 1,
            BreachKind::PreemptDisable => off - 1,
            _ => off,
        });
        let kind = if off > 0 { BreachKind::PreemptDisable } else { BreachKind::IrqDisable };
        self.told.insert(place, ViolationEvent { kind, caller, at: Some(since) });
    }

    /// The last of them, as many as there are places.
    fn last(mut self) -> Vec<ViolationEvent> {
        self.told.split_off(self.told.len().saturating_sub(RECENT))
    }
}

#[cfg(test)]
mod tests;
