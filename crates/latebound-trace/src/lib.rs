// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved traces to events: trace.dat, perf.data and ftrace text.
//!
//! This crate owns the formats in which others save kernel events, and turns them into the typed records that the
//! thread model and `explain` read. It asks for bytes through [`ReadAt`] and never opens a file. It holds pages and
//! chunks, never a whole trace. Whatever stands in a file, the answer is an error that says what is wrong, or a stream
//! whose discontinuities are reported and counted: nothing is passed over in silence, nothing panics, and no size that a file
//! claims is believed before it is checked.

mod clock;
mod convert;
mod dat;
mod discontinuity;
mod error;
mod format;
mod kind;
mod perf;
mod record;
mod source;
mod symbols;
mod text;
mod threads;
mod typed;

/// More CPUs than any kernel has (`NR_CPUS` goes to 8192); what follows a trace keeps something for each.
const CPU_LIMIT: u32 = 1 << 16;

pub use clock::Clock;
pub use convert::{Converter, ItemConverter, for_each_event, lost_event};
pub use dat::{
    Ahead, Buffer, Compression, CpuData, CpuStats, CpuStream, Item, LivePages, MergedStream, RawEvent,
    TraceFile, Upto,
};
pub use discontinuity::{Discontinuity, DiscontinuityKind, Tally};
pub use error::TraceError;
pub use format::{EventFormat, Field, FieldKind, Formats, PageLayout};
pub use kind::TraceKind;
pub use perf::PerfTrace;
pub use record::{
    Comm, Decoded, Decoder, Flags, Frames, NoiseKind, TaskRef, TraceRecord, Turn, Turned, VectorId,
    is_runnable,
};
pub use source::ReadAt;
pub use symbols::{CommandLines, PrintkStrings, Symbols, TextOffset};
pub use text::TextTrace;
pub use threads::Machine;
pub use typed::{TraceEvent, TraceItem};
