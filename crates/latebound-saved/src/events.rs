// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a saved trace of any kind, in the words of the model: what explanations and estimates are made of.

use std::collections::BTreeMap;

use latebound_model::{Cpu, Event, Nanos};
use latebound_trace::{
    Buffer, Clock, Converter, Machine, PerfTrace, ReadAt, Symbols, Tally, TextTrace, TraceEvent, TraceFile,
    TraceItem, TraceKind, for_each_event, lost_event,
};

use crate::error::SavedError;

/// What was counted while the events of a saved trace were read.
#[derive(Clone, Debug, Default)]
pub struct ReadTallies {
    /// Of each CPU, what was read and what is missing.
    pub tallies: BTreeMap<Cpu, Tally>,
    /// System, name, release and machine of the traced system, where the trace says.
    pub uname: Option<String>,
}

/// Whether a clock's values are times.
pub(crate) fn check_clock(clock: &Clock) -> Result<(), SavedError> {
    if clock.is_time() { Ok(()) } else { Err(SavedError::Clock(clock.name().to_owned())) }
}

/// Gives the events of a trace of any kind to `visit`, those of one CPU in the order of the trace. `instance` is the buffer of
/// a trace.dat, `""` for the main one.
pub fn visit_saved<R: ReadAt>(
    source: R,
    instance: &str,
    visit: impl FnMut(Event),
) -> Result<ReadTallies, SavedError> {
    match TraceKind::of(&source)? {
        TraceKind::TraceDat => {
            let trace = TraceFile::open(source)?;
            let buffer = trace.buffer(instance)?;
            check_clock(&buffer.clock)?;
            of_dat(&trace, buffer, visit)
        }
        TraceKind::PerfData => {
            let mut trace = PerfTrace::open(source)?;
            check_clock(trace.clock())?;
            of_perf(&mut trace, visit)
        }
        TraceKind::Text => {
            let trace = TextTrace::open(source)?;
            if !trace.has_times() {
                return Err(SavedError::Clock("a counter".to_owned()));
            }
            of_text(&trace, visit)
        }
    }
}

pub(crate) fn of_dat<R: ReadAt>(
    trace: &TraceFile<R>,
    buffer: &Buffer,
    visit: impl FnMut(Event),
) -> Result<ReadTallies, SavedError> {
    let tallies = for_each_event(trace, buffer, visit)?.into_iter().collect();
    Ok(ReadTallies { tallies, uname: trace.uname().map(str::to_owned) })
}

pub(crate) fn of_perf<R: ReadAt>(
    trace: &mut PerfTrace<R>,
    visit: impl FnMut(Event),
) -> Result<ReadTallies, SavedError> {
    let (vectors, symbols) = (trace.decoder().vector_names().to_vec(), trace.symbols().clone());
    let take = converted(&vectors, &symbols, trace.machine(), visit);
    Ok(ReadTallies { tallies: trace.for_each(take)?, uname: None })
}

pub(crate) fn of_text<R: ReadAt>(
    trace: &TextTrace<R>,
    visit: impl FnMut(Event),
) -> Result<ReadTallies, SavedError> {
    let symbols = trace.symbols();
    let take = converted(trace.vector_names(), &symbols, Machine::of(None), visit);
    Ok(ReadTallies { tallies: trace.for_each(take)?, uname: None })
}

/// Turns typed items into events of the model.
fn converted(
    vectors: &[String],
    symbols: &Symbols,
    machine: Machine,
    mut visit: impl FnMut(Event),
) -> impl FnMut(TraceItem<'_>) {
    let mut converter = Converter::new(machine);
    move |item| match item {
        TraceItem::Event(TraceEvent { cpu, at, decoded, .. }) => {
            converter.convert(vectors, symbols, (cpu, at), &decoded, &mut visit);
        }
        TraceItem::Discontinuity(discontinuity) => {
            if let Some(lost) = lost_event(&discontinuity, Nanos(discontinuity.after.unwrap_or(0))) {
                converter.forget();
                visit(lost);
            }
        }
    }
}
