// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of the kernel's ring buffer: as trace.dat, versions 6 and 7, has them, and as a running kernel gives them.

mod ahead;
mod chunk;
mod head;
mod inflate;
mod live;
mod page;
mod shape;
mod stream;
mod track;

pub use ahead::Ahead;
pub use head::{Buffer, CpuData, CpuStats};
pub use inflate::Compression;
pub use live::{LivePages, Upto};
pub use stream::{CpuStream, Item, MergedStream, RawEvent};

pub(crate) use head::{MAGIC, read_event_formats, read_ftrace_formats, read_page_header};

use crate::clock::Clock;
use crate::discontinuity::Tally;
use crate::error::TraceError;
use crate::format::Formats;
use crate::record::Decoder;
use crate::source::ReadAt;
use crate::symbols::{CommandLines, PrintkStrings, Symbols};
use head::Head;
use shape::Shape;

/// An opened trace.dat: its description is read, its events are not yet.
pub struct TraceFile<R> {
    source: R,
    head: Head,
}

impl<R: ReadAt> TraceFile<R> {
    /// Reads the description of a trace.dat.
    pub fn open(source: R) -> Result<TraceFile<R>, TraceError> {
        let head = Head::read(&source)?;
        Ok(TraceFile { source, head })
    }

    /// The version of the file: 6 or 7.
    pub fn version(&self) -> u32 {
        self.head.version
    }

    /// Whether the traced machine is big-endian.
    pub fn big_endian(&self) -> bool {
        self.head.big_endian
    }

    /// Bytes of a `long` of the traced user space.
    pub fn long_size(&self) -> u8 {
        self.head.long_size
    }

    /// What the file is compressed with.
    pub fn compression(&self) -> Compression {
        self.head.compression
    }

    /// System, name, release and machine of the traced system, where the file says.
    pub fn uname(&self) -> Option<&str> {
        self.head.uname.as_deref()
    }

    /// How many CPUs the traced machine had, where the file says.
    pub fn cpu_count(&self) -> Option<u32> {
        self.head.cpu_count
    }

    /// The descriptions of the events.
    pub fn formats(&self) -> &Formats {
        &self.head.formats
    }

    /// All ring buffers, the top one (its name is empty) and the instances.
    pub fn buffers(&self) -> &[Buffer] {
        &self.head.buffers
    }

    /// The buffer of this name; the top one has the empty name.
    pub fn buffer(&self, name: &str) -> Result<&Buffer, TraceError> {
        self.head.buffers.iter().find(|buffer| buffer.name == name).ok_or_else(|| {
            let names: Vec<_> = self.head.buffers.iter().map(|buffer| format!("{:?}", buffer.name)).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            TraceError::NoSuchInstance { name: name.to_owned(), known }
        })
    }

    /// The CPUs of the top buffer.
    pub fn cpus(&self) -> &[CpuData] {
        self.head.buffers.iter().find(|buffer| buffer.name.is_empty()).map_or(&[], |buffer| &buffer.cpus)
    }

    /// The clock of the top buffer.
    pub fn clock(&self) -> Clock {
        match self.buffer("") {
            Ok(buffer) => buffer.clock.clone(),
            Err(_) => Clock::new("", None),
        }
    }

    /// What the kernel counted per CPU when recording ended. Overruns that it counted are no events of this file.
    pub fn stats(&self) -> &[CpuStats] {
        &self.head.stats
    }

    /// How many events of a CPU the kernel had recorded into a buffer when recording ended, but for those that it overwrote;
    /// `None` where the trace does not say.
    pub fn recorded_events(&self, buffer: &Buffer, cpu: latebound_model::Cpu) -> Option<u64> {
        let of = |stats: &&CpuStats| stats.cpu == cpu && stats.instance == buffer.name;
        self.head.stats.iter().find(of)?.recorded()
    }

    /// How many of them are not in the file, whose events of that CPU were counted. Where recording went on behind
    /// the kernel's count the file has more, and none is missing for what is known.
    pub fn missing_events(&self, buffer: &Buffer, cpu: latebound_model::Cpu, read: &Tally) -> u64 {
        self.recorded_events(buffer, cpu).map_or(0, |recorded| recorded.saturating_sub(read.events))
    }

    /// The events of one CPU of a buffer.
    pub fn cpu_events(&self, buffer: &Buffer, cpu: &CpuData) -> Result<CpuStream<'_, R>, TraceError> {
        CpuStream::new(&self.source, self.shape(buffer), cpu)
    }

    /// The events of one CPU of a buffer, and what is to be run on another thread so that chunks are found and inflated
    /// ahead of the stream. The two hold about `budget` bytes for that, and half a MiB at least.
    pub fn cpu_events_ahead(
        &self,
        buffer: &Buffer,
        cpu: &CpuData,
        budget: usize,
    ) -> Result<(CpuStream<'_, R>, Ahead<'_, R>), TraceError> {
        CpuStream::with_ahead(&self.source, self.shape(buffer), cpu, budget)
    }

    /// The events of all CPUs of a buffer by time. Events of one CPU keep their order even where its clock ran
    /// backwards.
    pub fn events(&self, buffer: &Buffer) -> Result<MergedStream<'_, R>, TraceError> {
        MergedStream::new(&self.source, self.shape(buffer), &buffer.cpus)
    }

    /// The kernel's symbols; empty where the trace has none or their addresses were hidden.
    pub fn symbols(&self) -> Result<Symbols, TraceError> {
        let text = self.head.text(&self.source, self.head.kallsyms, "the kallsyms text")?;
        Ok(Symbols::parse(text.unwrap_or_default()))
    }

    /// The strings that records name by their address.
    pub fn printk_strings(&self) -> Result<PrintkStrings, TraceError> {
        let text = self.head.text(&self.source, self.head.printk, "the printk formats")?;
        Ok(PrintkStrings::parse(&text.unwrap_or_default()))
    }

    /// Names of threads, as the kernel remembered them when recording ended.
    pub fn command_lines(&self) -> Result<CommandLines, TraceError> {
        let text = self.head.text(&self.source, self.head.cmdlines, "the command lines")?;
        Ok(CommandLines::parse(&text.unwrap_or_default()))
    }

    /// What turns this file's records into typed ones.
    pub fn decoder(&self) -> Result<Decoder, TraceError> {
        Ok(Decoder::new(&self.head.formats, self.head.big_endian, &self.printk_strings()?))
    }

    fn shape(&self, buffer: &Buffer) -> Shape {
        Shape::new(self.head.big_endian, self.head.page_layout, self.head.compression, buffer)
    }
}
