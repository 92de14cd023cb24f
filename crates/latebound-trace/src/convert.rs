// SPDX-License-Identifier: MIT OR Apache-2.0
//! Typed records to the events of the model, so that an explanation can be made again from a saved trace.
//!
//! Owns what a record means as a [`latebound_model::EventKind`]. Records that the model has no word for (preempt and
//! irq events, wake-ups after the waking) give nothing; they go to the thread model as they are.

use std::collections::BTreeMap;

use foldhash::HashMap;
use latebound_model::{Cpu, Event, EventKind, InterruptKind, Name, Nanos, SleepKind, Stack, Task};

use crate::clock::Clock;
use crate::dat::{Buffer, Item, TraceFile};
use crate::discontinuity::{Discontinuity, DiscontinuityKind, Tally};
use crate::error::TraceError;
use crate::record::{Comm, Decoded, Decoder, TaskRef, TraceRecord, VectorId, is_stopped, switch_reason};
use crate::source::ReadAt;
use crate::symbols::Symbols;
use crate::threads::{Machine, Threads};

/// How many timers, interrupt names and names of threads are remembered; beyond that all are forgotten and learnt again.
const MEMORY: usize = 1 << 16;

/// Turns typed records into events of the model. Records must come in the order of time, over all CPUs.
#[derive(Debug)]
pub struct Converter {
    /// Soft and hard expiry of every timer that was started.
    timers: HashMap<u64, (Nanos, Nanos)>,
    /// The names of the handlers of device interrupts, by number: their exits do not repeat them.
    handlers: HashMap<(Cpu, u32), Name>,
    /// Names of threads by the bytes of their records: the same few come again and again, and need not be read as text each time.
    names: HashMap<u128, Name>,
    unstarted: u64,
    machine: Machine,
    threads: Threads,
}

impl Converter {
    /// A converter that has seen nothing, for records of this machine.
    pub fn new(machine: Machine) -> Converter {
        let (timers, handlers, names) = (HashMap::default(), HashMap::default(), HashMap::default());
        Converter { timers, handlers, names, unstarted: 0, machine, threads: Threads::default() }
    }

    /// Events are missing here: what threads were at is not known any more.
    pub fn forget(&mut self) {
        self.threads.forget();
    }

    /// Timers that expired without their start having been seen; no expiry is known for them, so they give no event.
    pub fn unstarted_timers(&self) -> u64 {
        self.unstarted
    }

    /// Gives the events that a record means to `visit`: none for one that the model has no word for, and more than one where it
    /// tells of something else as well. `vectors` are the names by [`VectorId`], of the decoder or the text that gave the record.
    pub fn convert(
        &mut self,
        vectors: &[String],
        symbols: &Symbols,
        (cpu, at): (Cpu, Nanos),
        decoded: &Decoded<'_>,
        visit: &mut impl FnMut(Event),
    ) {
        let event = |kind, tid| Event { at, cpu, kind, current: Some(tid) };
        if let Some(own) = self.threads.own(self.machine, decoded.tid, &decoded.record) {
            return visit(event(own, decoded.tid));
        }
        let Some(kind) = self.kind(vectors, symbols, cpu, &decoded.record) else { return };
        if let TraceRecord::Switch { prev, prev_state, .. } = &decoded.record
            && is_stopped(*prev_state)
        {
            let (sleep, call) = (SleepKind::Stopped, None);
            visit(event(EventKind::SwitchedOut { tid: prev.tid, sleep, call }, decoded.tid));
        }
        let turns = match &kind {
            EventKind::Switch { prev, reason, next } => Some((prev.tid, *reason, next.tid)),
            _ => None,
        };
        let fault = turns.and_then(|(prev, reason, _)| self.threads.sleeps(prev, reason));
        fault.into_iter().for_each(|fault| visit(event(fault, decoded.tid)));
        visit(event(kind, decoded.tid));
        if let Some((_, _, next)) = turns
            && let Some(end) = self.threads.runs(next)
        {
            visit(event(end, next));
        }
    }

    fn kind(
        &mut self,
        vectors: &[String],
        symbols: &Symbols,
        cpu: Cpu,
        record: &TraceRecord<'_>,
    ) -> Option<EventKind> {
        let nanos = |value: i64| Nanos(u64::try_from(value).unwrap_or(0));
        Some(match *record {
            TraceRecord::VectorEntry { vector, .. } => {
                EventKind::InterruptEntry(vector_kind(vectors, vector))
            }
            TraceRecord::VectorExit { vector, .. } => EventKind::InterruptExit(vector_kind(vectors, vector)),
            TraceRecord::IrqHandlerEntry { irq, name } => {
                let name = name.name();
                if self.handlers.len() >= MEMORY {
                    self.handlers.clear();
                }
                self.handlers.insert((cpu, irq), name.clone());
                EventKind::InterruptEntry(InterruptKind::Device { irq, name })
            }
            TraceRecord::IrqHandlerExit { irq, .. } => {
                let name = self.handlers.get(&(cpu, irq)).cloned().unwrap_or_default();
                EventKind::InterruptExit(InterruptKind::Device { irq, name })
            }
            TraceRecord::Nmi { duration_ns, .. } => EventKind::Nmi { duration: nanos(duration_ns) },
            TraceRecord::SoftirqRaise { vector } => EventKind::SoftirqRaise { vector },
            TraceRecord::SoftirqEntry { vector } => EventKind::SoftirqEntry { vector },
            TraceRecord::SoftirqExit { vector } => EventKind::SoftirqExit { vector },
            TraceRecord::HrtimerStart { timer, expires_ns, soft_expires_ns, .. } => {
                if self.timers.len() >= MEMORY {
                    self.timers.clear();
                }
                self.timers.insert(timer, (nanos(soft_expires_ns), nanos(expires_ns)));
                return None;
            }
            TraceRecord::HrtimerCancel { timer } => {
                self.timers.remove(&timer);
                return None;
            }
            TraceRecord::HrtimerExpireEntry { timer, .. } => {
                let Some((soft_expires, expires)) = self.timers.remove(&timer) else {
                    self.unstarted += 1;
                    return None;
                };
                EventKind::HrtimerExpireEntry { timer, soft_expires, expires }
            }
            TraceRecord::HrtimerExpireExit { timer } => EventKind::HrtimerExpireExit { timer },
            TraceRecord::Migrate { tid, to } => EventKind::Migrate { tid, to },
            TraceRecord::Waking { task, .. } => EventKind::Waking { task: self.task(&task) },
            TraceRecord::Switch { prev, prev_state, next } => EventKind::Switch {
                prev: self.task(&prev),
                reason: switch_reason(prev_state),
                next: self.task(&next),
            },
            TraceRecord::WorkStart { work, function } => {
                let function = match symbols.resolve(function) {
                    Some((name, 0)) => name.into(),
                    _ => format!("{function:#x}").into(),
                };
                EventKind::WorkStart { work, function }
            }
            TraceRecord::WorkEnd { work } => EventKind::WorkEnd { work },
            TraceRecord::KernelStack { frames } => {
                let frames = frames.iter().map(|address| symbols.describe(address)).collect();
                EventKind::KernelStack { stack: Stack(frames) }
            }
            TraceRecord::Block { step, device, sector, bytes, write } => {
                EventKind::BlockRequest { step, device, sector, bytes, write, group: None }
            }
            _ => return None,
        })
    }

    /// The task of a record. Its policy is not in the trace, and whether it is a kernel thread is not either.
    fn task(&mut self, task: &TaskRef<'_>) -> Task {
        Task { tid: task.tid, comm: self.name(task.comm), policy: None, prio: Some(task.prio), kernel: false }
    }

    fn name(&mut self, comm: Comm<'_>) -> Name {
        let Ok(bytes) = comm.0.try_into().map(u128::from_ne_bytes) else { return comm.name() };
        if let Some(name) = self.names.get(&bytes) {
            return name.clone();
        }
        if self.names.len() >= MEMORY {
            self.names.clear();
        }
        self.names.entry(bytes).or_insert_with(|| comm.name()).clone()
    }
}

fn vector_kind(vectors: &[String], vector: VectorId) -> InterruptKind {
    let name = vectors.get(usize::from(vector.0)).map_or("vector", String::as_str);
    InterruptKind::Vector { name: name.into() }
}

/// The event that a discontinuity means; `at` is the time of the next event of its CPU. A clock that ran backwards is no loss.
pub fn lost_event(discontinuity: &Discontinuity, at: Nanos) -> Option<Event> {
    let events = match discontinuity.kind {
        DiscontinuityKind::Overwritten { events } => events,
        DiscontinuityKind::Missing { events } => Some(events),
        DiscontinuityKind::Damaged { .. }
        | DiscontinuityKind::CutOff { .. }
        | DiscontinuityKind::EmptyPage => None,
        DiscontinuityKind::Backwards { .. } => return None,
    };
    Some(Event::new(at, discontinuity.cpu, EventKind::Lost { events }))
}

/// Turns what pages hold, by time over all CPUs, into events of the model, with the places where some are missing.
#[derive(Debug)]
pub struct ItemConverter {
    converter: Converter,
    /// A discontinuity is reported when its CPU's next event is looked for, which other CPUs' events may come before.
    discontinuities: BTreeMap<Cpu, Vec<Discontinuity>>,
}

impl ItemConverter {
    /// One that has seen nothing, for records of this machine.
    pub fn new(machine: Machine) -> ItemConverter {
        ItemConverter { converter: Converter::new(machine), discontinuities: BTreeMap::new() }
    }

    /// Takes the next item, and gives the events that it means to `visit`.
    pub fn take(
        &mut self,
        (decoder, symbols, clock): (&Decoder, &Symbols, &Clock),
        item: &Item<'_>,
        visit: &mut impl FnMut(Event),
    ) {
        let event = match item {
            Item::Discontinuity(discontinuity) => {
                self.discontinuities.entry(discontinuity.cpu).or_default().push(*discontinuity);
                return;
            }
            Item::Event(event) => event,
        };
        let at = clock.nanos(event.time);
        if !self.discontinuities.is_empty() {
            self.converter.forget();
            let here = self.discontinuities.remove(&event.cpu).into_iter().flatten();
            here.filter_map(|discontinuity| lost_event(&discontinuity, at)).for_each(&mut *visit);
        }
        let decoded = decoder.decode(event.data);
        self.converter.convert(decoder.vector_names(), symbols, (event.cpu, at), &decoded, visit);
    }

    /// No more items come: gives the places behind which no event came.
    pub fn finish(&mut self, clock: &Clock, visit: &mut impl FnMut(Event)) {
        for discontinuity in std::mem::take(&mut self.discontinuities).values().flatten() {
            let at = clock.nanos(discontinuity.after.unwrap_or(0));
            lost_event(discontinuity, at).into_iter().for_each(&mut *visit);
        }
    }
}

/// Gives all events of a buffer that the model has words for to `visit`, by time, and what was counted per CPU.
pub fn for_each_event<R: ReadAt>(
    trace: &TraceFile<R>,
    buffer: &Buffer,
    mut visit: impl FnMut(Event),
) -> Result<Vec<(Cpu, Tally)>, TraceError> {
    let (decoder, symbols) = (trace.decoder()?, trace.symbols()?);
    let mut converter = ItemConverter::new(Machine::of(trace.uname()));
    let mut stream = trace.events(buffer)?;
    while let Some(item) = stream.next_item()? {
        converter.take((&decoder, &symbols, &buffer.clock), &item, &mut visit);
    }
    converter.finish(&buffer.clock, &mut visit);
    let mut tallies = stream.tallies();
    for (cpu, tally) in &mut tallies {
        let events = trace.missing_events(buffer, *cpu, tally);
        tally.count(DiscontinuityKind::Missing { events });
    }
    Ok(tallies)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Of any length, ended or not, with anything behind their end; each twice.
        #[test]
        fn a_name_that_came_before_is_the_one_that_its_bytes_say(
            names in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![Just(0u8), Just(b'a'), any::<u8>()], 14..18), 0..20
            ),
        ) {
            let mut converter = Converter::new(Machine::Other);
            for name in names.iter().chain(&names) {
                prop_assert_eq!(converter.name(Comm(name)), Comm(name).name());
            }
        }
    }
}
