// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description that a trace.dat carries before and beside its pages: trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5).
//!
//! Owns both layouts of it. Reads sizes before it believes them; never reads a page of events.

use crate::CPU_LIMIT;
use crate::clock::Clock;
use crate::dat::inflate::{Compression, Inflater};
use crate::error::TraceError;
use crate::format::{Formats, PageLayout};
use crate::source::{ReadAt, Reader};

/// `0x17 0x08 0x44 "tracing"`.
pub(crate) const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// The most that any part of the description may have; the largest seen is kallsyms with some 20 MB.
const PART_LIMIT: u64 = 64 << 20;
/// The most that one event's `format` text may have; the longest of 6.12 has 6 kB.
const FORMAT_LIMIT: u64 = 1 << 20;
/// The longest name.
const NAME_LIMIT: usize = 4096;
/// More event systems or events than any kernel has.
const COUNT_LIMIT: u32 = 1 << 16;
/// A sub-buffer has at most 128 pages (`buffer_subbuf_size_write`, kernel/trace/trace.c, 6.8), a page at most 64 KiB.
const PAGE_LIMIT: u64 = 8 << 20;
/// More buffers than anybody makes; with 256 CPUs each on average.
const BUFFER_LIMIT: usize = 4096;
/// The longest name of a buffer: it is that of a folder (`NAME_MAX`).
const BUFFER_NAME_LIMIT: usize = 255;
/// The most that a section may grow when it is decompressed. All of them are text, which no compressor packs as tightly as this.
const SECTION_RATIO: u64 = 1032;

/// Where the pages of one CPU are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuData {
    /// The kernel's number of the CPU.
    pub cpu: latebound_model::Cpu,
    /// Where its data begins in the file.
    pub offset: u64,
    /// How many bytes it has in the file.
    pub size: u64,
}

/// One ring buffer of the trace: the top one, or an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its name; empty for the top buffer.
    pub name: String,
    /// The clock of its times.
    pub clock: Clock,
    /// Bytes of one page.
    pub page_size: usize,
    /// Its CPUs that have data, as the file lists them.
    pub cpus: Vec<CpuData>,
    /// Whether the pages are in compressed chunks.
    pub compressed: bool,
}

/// What the kernel counted for one CPU of one buffer (`per_cpu/cpuN/stats`) when recording ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// The instance; empty for the top buffer.
    pub instance: String,
    /// The CPU.
    pub cpu: latebound_model::Cpu,
    /// Events that were in the buffer and not read yet; `None` where the text does not say.
    pub entries: Option<u64>,
    /// Events that had been read from the buffer since it was emptied; `None` where the text does not say.
    pub read: Option<u64>,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events lost because an interrupt filled the buffer while an event was being written.
    pub commit_overrun: u64,
    /// Events refused by a full buffer that does not overwrite.
    pub dropped: u64,
}

impl CpuStats {
    /// The events that a file must hold which was written to its end after these were counted: those that had been read and those
    /// that were still there (`ring_buffer_read_events_cpu`, `ring_buffer_entries_cpu`, kernel/trace/ring_buffer.c, 5.15 to
    /// 6.18). `None` where the text does not say.
    pub fn recorded(&self) -> Option<u64> {
        Some(self.entries?.saturating_add(self.read?))
    }

    /// The text of a running kernel's `per_cpu/cpuN/stats`, which does not name its CPU.
    pub fn of_cpu(cpu: latebound_model::Cpu, text: &str) -> CpuStats {
        let mut stats = CpuStats { cpu, ..CpuStats::default() };
        text.lines().filter_map(|line| line.split_once(':')).for_each(|(key, value)| {
            stats.take(key, value.trim());
        });
        stats
    }

    /// Takes a line of the text.
    fn take(&mut self, key: &str, value: &str) {
        let number = value.parse().unwrap_or(0);
        match key {
            "entries" => self.entries = value.parse().ok(),
            "read events" => self.read = value.parse().ok(),
            "overrun" => self.overrun = number,
            "commit overrun" => self.commit_overrun = number,
            "dropped events" => self.dropped = number,
            _ => {}
        }
    }
}

/// A text of the description that is read when it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// As it is, so many bytes from here.
    Plain { offset: u64, size: u64 },
    /// In a section, behind a count of its bytes with 4 or 8 bytes.
    Section { offset: u64, count_size: u8 },
}

/// Everything but the pages and the long texts.
pub(crate) struct Head {
    pub(crate) version: u32,
    pub(crate) big_endian: bool,
    pub(crate) long_size: u8,
    pub(crate) compression: Compression,
    pub(crate) page_layout: PageLayout,
    pub(crate) formats: Formats,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) stats: Vec<CpuStats>,
    pub(crate) uname: Option<String>,
    pub(crate) cpu_count: Option<u32>,
    pub(crate) kallsyms: Option<Part>,
    pub(crate) printk: Option<Part>,
    pub(crate) cmdlines: Option<Part>,
}

/// The options of either version, as far as they are used here.
#[derive(Default)]
struct Options {
    trace_clock: Option<String>,
    uname: Option<String>,
    cpu_count: Option<u32>,
    stats: Vec<CpuStats>,
    stats_instance: String,
    /// Multiplier and shift from cycles to nanoseconds.
    cycles: Option<(u32, u32)>,
    /// Instances of version 6: name and offset.
    instances: Vec<(String, u64)>,
    /// Buffers of version 7, each with the place of its section.
    buffers: Vec<(u64, Buffer)>,
    /// How many instances or buffers there are, and CPUs of all of them.
    buffers_named: usize,
    cpus_named: usize,
    header: Option<u64>,
    ftrace: Option<u64>,
    events: Option<u64>,
    kallsyms: Option<u64>,
    printk: Option<u64>,
    cmdlines: Option<u64>,
    latency_text: bool,
}

impl Head {
    /// Reads the description of a trace.dat.
    pub(crate) fn read<R: ReadAt>(source: &R) -> Result<Head, TraceError> {
        let mut reader = Reader::new(source, false, "the file header")?;
        if reader.length() == 0 {
            return Err(TraceError::Empty);
        }
        let first = reader.bytes(reader.length().min(MAGIC.len() as u64), MAGIC.len() as u64)?;
        if first != MAGIC {
            return Err(TraceError::UnknownKind { found: first.escape_ascii().to_string() });
        }
        let found = reader.text(16)?;
        let version = match found.as_str() {
            "6" => 6,
            "7" => 7,
            _ => return Err(TraceError::UnknownVersion { found }),
        };
        let offset = reader.position();
        let wrong = |why: String| TraceError::Inconsistent { part: "the file header", offset, why };
        let big_endian = match reader.u8()? {
            0 => false,
            1 => true,
            other => return Err(wrong(format!("byte order {other} is neither 0 nor 1"))),
        };
        reader.set_big_endian(big_endian);
        let long_size = reader.u8()?;
        if !matches!(long_size, 4 | 8) {
            return Err(wrong(format!("a long of {long_size} bytes")));
        }
        let page_size = u64::from(reader.u32()?);
        let base = Base { big_endian, long_size, page_size };
        match version {
            6 => read_6(reader, base),
            _ => read_7(source, reader, base),
        }
    }

    /// Reads a long text; `None` where the trace has none.
    pub(crate) fn text<R: ReadAt>(
        &self,
        source: &R,
        part: Option<Part>,
        name: &'static str,
    ) -> Result<Option<Vec<u8>>, TraceError> {
        match part {
            None => Ok(None),
            Some(Part::Plain { offset, size }) => {
                let mut reader = Reader::new(source, self.big_endian, name)?;
                reader.seek(offset);
                reader.bytes(size, PART_LIMIT).map(Some)
            }
            Some(Part::Section { offset, count_size }) => {
                let mut bytes = read_section(source, self.big_endian, self.compression, offset, name)?.bytes;
                let mut reader = Reader::new(bytes.as_slice(), self.big_endian, name)?;
                let size = if count_size == 4 { u64::from(reader.u32()?) } else { reader.u64()? };
                if size > reader.remaining() {
                    let (offset, length) = (reader.position(), reader.length());
                    return Err(TraceError::Truncated { part: name, offset, needed: size, length });
                }
                bytes.drain(..usize::from(count_size));
                bytes.truncate(size as usize);
                Ok(Some(bytes))
            }
        }
    }
}

struct Base {
    big_endian: bool,
    long_size: u8,
    page_size: u64,
}

fn read_6<R: ReadAt>(mut reader: Reader<&R>, base: Base) -> Result<Head, TraceError> {
    let page_layout = read_page_header(&mut reader)?;
    let mut formats = Formats::default();
    read_ftrace_formats(&mut reader, &mut formats)?;
    read_event_formats(&mut reader, &mut formats)?;
    formats.finish();
    let kallsyms = plain_part(&mut reader, "the kallsyms text", 4)?;
    let printk = plain_part(&mut reader, "the printk formats", 4)?;
    let cmdlines = plain_part(&mut reader, "the command lines", 8)?;
    reader.set_part("the CPU table");
    let offset = reader.position();
    let cpus = reader.u32()?;
    if cpus > CPU_LIMIT {
        let (size, limit) = (u64::from(cpus), u64::from(CPU_LIMIT));
        return Err(TraceError::TooLarge { part: "the number of CPUs", offset, size, limit });
    }
    let mut options = Options::default();
    let mut kind = reader.array::<10>()?;
    if kind == *b"options  \0" {
        reader.set_part("the options");
        loop {
            let id = reader.u16()?;
            if id == 0 {
                break;
            }
            let size = u64::from(reader.u32()?);
            let data = reader.bytes(size, PART_LIMIT)?;
            options.take(id, &data, base.big_endian, 6)?;
        }
        kind = reader.array::<10>()?;
    }
    if kind == *b"latency  \0" {
        return Err(TraceError::LatencyText);
    }
    let clock = options.clock();
    let page_size = check_page_size(base.page_size, reader.position())?;
    let mut buffers = Vec::new();
    let top = read_cpu_table(&mut reader, kind, cpus)?;
    buffers.push(Buffer {
        name: String::new(),
        clock: clock.clone(),
        page_size,
        cpus: top,
        compressed: false,
    });
    for (name, offset) in std::mem::take(&mut options.instances) {
        options.name_cpus(cpus as usize, offset)?;
        reader.seek(offset);
        let kind = reader.array::<10>()?;
        let table = read_cpu_table(&mut reader, kind, cpus)?;
        buffers.push(Buffer { name, clock: clock.clone(), page_size, cpus: table, compressed: false });
    }
    check_extent(&buffers, reader.length())?;
    Ok(Head {
        version: 6,
        big_endian: base.big_endian,
        long_size: base.long_size,
        compression: Compression::None,
        page_layout,
        formats,
        buffers,
        stats: options.stats,
        uname: options.uname,
        cpu_count: Some(cpus),
        kallsyms,
        printk,
        cmdlines,
    })
}

fn read_7<R: ReadAt>(source: &R, mut reader: Reader<&R>, base: Base) -> Result<Head, TraceError> {
    let compression = Compression::from_name(&reader.text(NAME_LIMIT)?)?;
    let _version_of_the_compressor = reader.text(NAME_LIMIT)?;
    let mut next = reader.u64()?;
    let mut options = Options::default();
    let mut stored = 0;
    while next != 0 {
        let section = read_section(source, base.big_endian, compression, next, "the options")?;
        // Sections that lie apart cannot have more bytes than the file.
        stored += section.stored;
        if stored > reader.length() {
            let (part, offset) = ("the options", next);
            return Err(TraceError::Inconsistent {
                part,
                offset,
                why: "their sections form a loop".to_owned(),
            });
        }
        next = options.take_section(&section.bytes, base.big_endian)?;
    }
    if options.latency_text && options.buffers.is_empty() {
        return Err(TraceError::LatencyText);
    }
    let missing =
        |part| TraceError::Inconsistent { part, offset: 0, why: "the options name no such section".into() };
    let section = |offset: Option<u64>, part: &'static str| match offset {
        Some(offset) => {
            read_section(source, base.big_endian, compression, offset, part).map(|section| section.bytes)
        }
        None => Err(missing(part)),
    };
    let header = section(options.header, "the page header")?;
    let page_layout =
        read_page_header(&mut Reader::new(header.as_slice(), base.big_endian, "the page header")?)?;
    let mut formats = Formats::default();
    if options.ftrace.is_some() {
        let bytes = section(options.ftrace, "the ftrace formats")?;
        let mut reader = Reader::new(bytes.as_slice(), base.big_endian, "the ftrace formats")?;
        read_ftrace_formats(&mut reader, &mut formats)?;
    }
    let bytes = section(options.events, "the event formats")?;
    read_event_formats(
        &mut Reader::new(bytes.as_slice(), base.big_endian, "the event formats")?,
        &mut formats,
    )?;
    formats.finish();
    let clock = options.clock();
    let mut buffers = Vec::new();
    for (section, mut buffer) in std::mem::take(&mut options.buffers) {
        reader.set_part("the buffer section");
        reader.seek(section);
        let _id = reader.u16()?;
        buffer.compressed = reader.u16()? & 1 != 0;
        buffer.clock = match buffer.clock.name() {
            "" => clock.clone(),
            name => Clock::new(name, options.cycles),
        };
        if !buffer.cpus.is_empty() {
            buffer.page_size = check_page_size(buffer.page_size as u64, section)?;
        }
        buffers.push(buffer);
    }
    check_extent(&buffers, reader.length())?;
    let part = |offset: Option<u64>, count_size| offset.map(|offset| Part::Section { offset, count_size });
    Ok(Head {
        version: 7,
        big_endian: base.big_endian,
        long_size: base.long_size,
        compression,
        page_layout,
        formats,
        buffers,
        kallsyms: part(options.kallsyms, 4),
        printk: part(options.printk, 4),
        cmdlines: part(options.cmdlines, 8),
        stats: options.stats,
        uname: options.uname,
        cpu_count: options.cpu_count,
    })
}

/// A section: what is in it, and how many bytes of the file it takes.
struct Section {
    bytes: Vec<u8>,
    stored: u64,
}

/// The content of a section, decompressed where it is.
fn read_section<R: ReadAt>(
    source: &R,
    big_endian: bool,
    compression: Compression,
    offset: u64,
    part: &'static str,
) -> Result<Section, TraceError> {
    const HEADER: u64 = 16;
    let mut reader = Reader::new(source, big_endian, part)?;
    reader.seek(offset);
    let _id = reader.u16()?;
    let compressed = reader.u16()? & 1 != 0;
    let _description = reader.u32()?;
    let size = reader.u64()?;
    if !compressed {
        return Ok(Section { bytes: reader.bytes(size, PART_LIMIT)?, stored: HEADER + size });
    }
    let stored = u64::from(reader.u32()?);
    let unpacked = u64::from(reader.u32()?);
    let input = reader.bytes(stored, PART_LIMIT)?;
    let limit = PART_LIMIT.min(stored * SECTION_RATIO);
    if unpacked > limit {
        return Err(TraceError::TooLarge { part, offset, size: unpacked, limit });
    }
    let mut output = vec![0; unpacked as usize];
    let length = Inflater::default()
        .inflate(compression, &input, &mut output)
        .map_err(|why| TraceError::Decompress { part, offset, why })?;
    output.truncate(length);
    Ok(Section { bytes: output, stored: HEADER + stored })
}

/// Refuses CPUs whose data overlaps: who reads them all would read more than there is, and once for each.
fn check_extent(buffers: &[Buffer], length: u64) -> Result<(), TraceError> {
    let within = |data: &CpuData| data.size.min(length.saturating_sub(data.offset));
    let data = buffers.iter().flat_map(|buffer| &buffer.cpus);
    let sum = data.fold(0u64, |sum, data| sum.saturating_add(within(data)));
    if sum > length {
        return Err(TraceError::Inconsistent {
            part: "the data of the CPUs",
            offset: 0,
            why: format!("they have {sum} bytes together, more than the {length} of the file: they overlap"),
        });
    }
    Ok(())
}

fn check_page_size(size: u64, offset: u64) -> Result<usize, TraceError> {
    match size {
        64..=PAGE_LIMIT if size.is_multiple_of(4) => Ok(size as usize),
        _ => Err(TraceError::Inconsistent {
            part: "the page size",
            offset,
            why: format!("{size} bytes, where 64 to {PAGE_LIMIT} in steps of 4 can be"),
        }),
    }
}

pub(crate) fn read_page_header<S: ReadAt>(reader: &mut Reader<S>) -> Result<PageLayout, TraceError> {
    reader.set_part("the page header");
    reader.expect(b"header_page\0")?;
    let size = reader.u64()?;
    let offset = reader.position();
    let text = reader.bytes(size, FORMAT_LIMIT)?;
    reader.expect(b"header_event\0")?;
    let size = reader.u64()?;
    reader.skip(size)?;
    PageLayout::parse(&String::from_utf8_lossy(&text)).map_err(|why| TraceError::Inconsistent {
        part: "the page header",
        offset,
        why,
    })
}

fn count<S: ReadAt>(reader: &mut Reader<S>, part: &'static str) -> Result<u32, TraceError> {
    let offset = reader.position();
    let count = reader.u32()?;
    if count > COUNT_LIMIT {
        let (size, limit) = (u64::from(count), u64::from(COUNT_LIMIT));
        return Err(TraceError::TooLarge { part, offset, size, limit });
    }
    Ok(count)
}

pub(crate) fn read_ftrace_formats<S: ReadAt>(
    reader: &mut Reader<S>,
    formats: &mut Formats,
) -> Result<(), TraceError> {
    reader.set_part("the ftrace formats");
    for _ in 0..count(reader, "the number of ftrace events")? {
        let size = reader.u64()?;
        formats.add("ftrace", &reader.bytes(size, FORMAT_LIMIT)?);
    }
    Ok(())
}

pub(crate) fn read_event_formats<S: ReadAt>(
    reader: &mut Reader<S>,
    formats: &mut Formats,
) -> Result<(), TraceError> {
    reader.set_part("the event formats");
    for _ in 0..count(reader, "the number of event systems")? {
        let system = reader.text(NAME_LIMIT)?;
        for _ in 0..count(reader, "the number of events in a system")? {
            let size = reader.u64()?;
            formats.add(&system, &reader.bytes(size, FORMAT_LIMIT)?);
        }
    }
    Ok(())
}

/// The place of a text that stands behind a count of its bytes; passes over it.
fn plain_part<S: ReadAt>(
    reader: &mut Reader<S>,
    part: &'static str,
    count_size: u8,
) -> Result<Option<Part>, TraceError> {
    reader.set_part(part);
    let size = if count_size == 4 { u64::from(reader.u32()?) } else { reader.u64()? };
    let offset = reader.position();
    reader.skip(size)?;
    Ok((size > 0).then_some(Part::Plain { offset, size }))
}

fn read_cpu_table<S: ReadAt>(
    reader: &mut Reader<S>,
    kind: [u8; 10],
    cpus: u32,
) -> Result<Vec<CpuData>, TraceError> {
    reader.set_part("the CPU table");
    if kind != *b"flyrecord\0" {
        return Err(TraceError::Inconsistent {
            part: "the CPU table",
            offset: reader.position().saturating_sub(10),
            why: format!("\"{}\" stands where \"flyrecord\" must", kind.escape_ascii()),
        });
    }
    let mut table = Vec::new();
    for cpu in 0..cpus {
        let (offset, size) = (reader.u64()?, reader.u64()?);
        table.push(CpuData { cpu: latebound_model::Cpu(cpu), offset, size });
    }
    Ok(table)
}

fn text(data: &[u8]) -> String {
    let end = memchr::memchr(0, data).unwrap_or(data.len());
    String::from_utf8_lossy(&data[..end]).into_owned()
}

/// Numbers of the options (trace-cmd.dat.v7(5); the low ones are the same in version 6).
mod option {
    pub(super) const DONE: u16 = 0;
    pub(super) const CPUSTAT: u16 = 2;
    pub(super) const BUFFER: u16 = 3;
    pub(super) const TRACECLOCK: u16 = 4;
    pub(super) const UNAME: u16 = 5;
    pub(super) const CPUCOUNT: u16 = 8;
    pub(super) const TSC2NSEC: u16 = 14;
    pub(super) const HEADER_INFO: u16 = 16;
    pub(super) const FTRACE_EVENTS: u16 = 17;
    pub(super) const EVENT_FORMATS: u16 = 18;
    pub(super) const KALLSYMS: u16 = 19;
    pub(super) const PRINTK: u16 = 20;
    pub(super) const CMDLINES: u16 = 21;
    pub(super) const BUFFER_TEXT: u16 = 22;
}

impl Options {
    /// Takes one section of version 7 and gives the place of the next, 0 for none.
    fn take_section(&mut self, bytes: &[u8], big_endian: bool) -> Result<u64, TraceError> {
        let mut reader = Reader::new(bytes, big_endian, "the options")?;
        loop {
            let id = reader.u16()?;
            let size = u64::from(reader.u32()?);
            if id == option::DONE {
                return if size >= 8 { reader.u64() } else { Ok(0) };
            }
            let data = reader.bytes(size, PART_LIMIT)?;
            self.take(id, &data, big_endian, 7)?;
        }
    }

    /// Counts the CPUs of one more buffer.
    fn name_cpus(&mut self, cpus: usize, offset: u64) -> Result<(), TraceError> {
        self.buffers_named += 1;
        self.cpus_named += cpus;
        for (part, named, limit) in [
            ("the number of buffers", self.buffers_named, BUFFER_LIMIT),
            ("the number of CPUs of all buffers", self.cpus_named, BUFFER_LIMIT * 256),
        ] {
            if named > limit {
                let (size, limit) = (named as u64, limit as u64);
                return Err(TraceError::TooLarge { part, offset, size, limit });
            }
        }
        Ok(())
    }

    fn take(&mut self, id: u16, data: &[u8], big_endian: bool, version: u32) -> Result<(), TraceError> {
        let mut reader = Reader::new(data, big_endian, "an option")?;
        match id {
            option::CPUSTAT => self.take_stats(&text(data)),
            option::TRACECLOCK => self.trace_clock = selected_clock(&text(data)),
            option::UNAME => self.uname = Some(text(data)),
            option::CPUCOUNT => self.cpu_count = Some(reader.u32()?),
            option::TSC2NSEC => self.cycles = Some((reader.u32()?, reader.u32()?)),
            option::BUFFER if version == 6 => {
                let offset = reader.u64()?;
                let name = text(&data[8..]);
                if !name.is_empty() {
                    self.instances.push((name, offset));
                }
            }
            option::BUFFER => {
                let section = reader.u64()?;
                let buffer = read_buffer_option(&mut reader, section)?;
                self.name_cpus(buffer.cpus.len(), section)?;
                self.buffers.push((section, buffer));
            }
            option::BUFFER_TEXT if version == 7 => self.latency_text = true,
            option::HEADER_INFO if version == 7 => self.header = Some(reader.u64()?),
            option::FTRACE_EVENTS if version == 7 => self.ftrace = Some(reader.u64()?),
            option::EVENT_FORMATS if version == 7 => self.events = Some(reader.u64()?),
            option::KALLSYMS if version == 7 => self.kallsyms = Some(reader.u64()?),
            option::PRINTK if version == 7 => self.printk = Some(reader.u64()?),
            option::CMDLINES if version == 7 => self.cmdlines = Some(reader.u64()?),
            _ => {}
        }
        Ok(())
    }

    /// `CPU: 0\nentries: 0\noverrun: 316\n…`, or `\nBuffer: inst\n` before those of an instance.
    fn take_stats(&mut self, text: &str) {
        let mut stats = CpuStats::default();
        let mut named = false;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key {
                "Buffer" if value.len() <= BUFFER_NAME_LIMIT => self.stats_instance = value.to_owned(),
                "CPU" => {
                    named = true;
                    stats.cpu = latebound_model::Cpu(value.parse().unwrap_or(0));
                }
                _ => stats.take(key, value),
            }
        }
        if named && self.stats.len() < BUFFER_LIMIT * 256 {
            stats.instance.clone_from(&self.stats_instance);
            self.stats.push(stats);
        }
    }

    fn clock(&self) -> Clock {
        // Without the option the recording had the kernel's default (trace_array's clock_id 0).
        Clock::new(self.trace_clock.as_deref().unwrap_or("local"), self.cycles)
    }
}

/// `local [global] counter` -> `global`; a text without brackets is the name itself.
fn selected_clock(text: &str) -> Option<String> {
    let name = match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((name, _)) => name,
        None => text.trim(),
    };
    (!name.is_empty()).then(|| name.to_owned())
}

/// The BUFFER option of version 7.
fn read_buffer_option(reader: &mut Reader<&[u8]>, section: u64) -> Result<Buffer, TraceError> {
    let name = reader.text(NAME_LIMIT)?;
    let clock = Clock::new(&reader.text(NAME_LIMIT)?, None);
    let page_size = reader.u32()? as usize;
    let count = reader.u32()?;
    if count > CPU_LIMIT {
        let (offset, size, limit) = (section, u64::from(count), u64::from(CPU_LIMIT));
        return Err(TraceError::TooLarge { part: "the number of CPUs", offset, size, limit });
    }
    let mut cpus = Vec::new();
    for _ in 0..count {
        let (cpu, offset, size) = (reader.u32()?, reader.u64()?, reader.u64()?);
        cpus.push(CpuData { cpu: latebound_model::Cpu(cpu), offset, size });
    }
    // Whether the section is compressed stands in its header; it is read when the buffer is.
    Ok(Buffer { name, clock, page_size, cpus, compressed: false })
}
