// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf.data with tracepoint samples.
//!
//! Owns the way from perf's records to typed records. The file format itself is read by linux-perf-data, which trusts
//! the sizes in a file; so every size that it will believe is checked here first, and a panic inside it becomes an
//! error.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};

use latebound_model::{Cpu, Nanos};
use linux_perf_data::linux_perf_event_reader::{ClockId, Endianness, EventRecord, PerfClock, RecordType};
use linux_perf_data::{Feature, PerfFile, PerfFileReader, PerfFileRecord, PerfRecordIter};

use crate::CPU_LIMIT;
use crate::clock::Clock;
use crate::dat::{MAGIC, read_event_formats, read_ftrace_formats, read_page_header};
use crate::discontinuity::{Discontinuity, DiscontinuityKind, Tally};
use crate::error::TraceError;
use crate::format::Formats;
use crate::record::Decoder;
use crate::source::{ReadAt, Reader};
use crate::symbols::{PrintkStrings, Symbols};
use crate::threads::Machine;
use crate::typed::{TraceEvent, TraceItem};

/// The most that the sections which are held in memory may have together.
const SECTIONS_LIMIT: u64 = 64 << 20;
/// More events than anybody records; each takes some hundred bytes.
const ATTRIBUTES_LIMIT: u32 = 1 << 16;

/// A source as the reader of perf.data wants it.
struct Cursor<R> {
    source: R,
    length: u64,
    position: u64,
}

impl<R: ReadAt> Read for Cursor<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.length.saturating_sub(self.position);
        let size = (into.len() as u64).min(left) as usize;
        self.source.read_exact_at(self.position, &mut into[..size])?;
        self.position += size as u64;
        Ok(size)
    }
}

impl<R: ReadAt> Seek for Cursor<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// A perf.data whose description is read.
pub struct PerfTrace<R: ReadAt> {
    file: PerfFile,
    records: PerfRecordIter<BufReader<Cursor<R>>>,
    formats: Formats,
    decoder: Decoder,
    symbols: Symbols,
    clock: Clock,
    machine: Machine,
}

fn refused(why: impl std::fmt::Display) -> TraceError {
    TraceError::Perf { why: why.to_string() }
}

/// Runs a step of linux-perf-data; its panics on damaged files become errors.
fn guarded<T, E: std::fmt::Display>(step: impl FnOnce() -> Result<T, E>) -> Result<T, TraceError> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(done) => done.map_err(refused),
        Err(_) => Err(refused("its reader met a contradiction; the file is damaged")),
    }
}

impl<R: ReadAt> PerfTrace<R> {
    /// Reads the description of a perf.data (file mode: what `perf record -o FILE` writes).
    pub fn open(source: R) -> Result<PerfTrace<R>, TraceError> {
        check(&source)?;
        let length = source.len().map_err(|source| TraceError::Read { part: PART, offset: 0, source })?;
        let cursor = Cursor { source, length, position: 0 };
        let PerfFileReader { perf_file: file, record_iter: records } =
            guarded(|| PerfFileReader::parse_file(BufReader::new(cursor)))?;
        let big_endian = matches!(file.endian(), Endianness::BigEndian);
        let tracing = file.feature_section_data(Feature::TRACING_DATA).ok_or(TraceError::PerfMissing {
            what: "the description of the tracepoints",
            remedy: "record tracepoints, for example perf record -a -e sched:sched_switch",
        })?;
        let description = read_description(tracing)?;
        let clock = clock(&file);
        let strings = PrintkStrings::parse(&description.printk);
        let decoder = Decoder::new(&description.formats, big_endian, &strings);
        let symbols = Symbols::parse(description.kallsyms);
        let machine = Machine::of(guarded(|| file.arch())?);
        Ok(PerfTrace { file, records, formats: description.formats, decoder, symbols, clock, machine })
    }

    /// The machine that was traced; this one where the file does not say.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// The descriptions of the events.
    pub fn formats(&self) -> &Formats {
        &self.formats
    }

    /// What types the records, and names the vectors.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The kernel's symbols; perf stores none since 4.x, so this is mostly empty.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The clock of the times: perf's own, which is `local_clock()`, unless recorded with `-k`.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Gives every tracepoint sample and every loss that is left to `visit`, by time; what was counted per CPU.
    ///
    /// Losses come as perf noted them: after the events that were lost, with the CPU of the ring that was full.
    pub fn for_each(
        &mut self,
        mut visit: impl FnMut(TraceItem<'_>),
    ) -> Result<BTreeMap<Cpu, Tally>, TraceError> {
        let mut tallies: BTreeMap<Cpu, (Tally, Option<u64>)> = BTreeMap::new();
        let mut number = 0;
        loop {
            let (records, file) = (&mut self.records, &mut self.file);
            let Some(record) = guarded(|| records.next_record(file))? else { break };
            let PerfFileRecord::EventRecord { record, .. } = record else { continue };
            number += 1;
            let is_lost_samples = record.record_type == RecordType::LOST_SAMPLES;
            if tallies.len() > CPU_LIMIT as usize {
                let (size, limit) = (tallies.len() as u64, u64::from(CPU_LIMIT));
                return Err(TraceError::TooLarge { part: "the CPUs of the samples", offset: 0, size, limit });
            }
            let common = guarded(|| record.common_data())?;
            let cpu = common.cpu.map(Cpu);
            let discontinuity = match guarded(|| record.parse())? {
                EventRecord::Lost(lost) => DiscontinuityKind::Overwritten { events: Some(lost.count) },
                EventRecord::Raw(_) if is_lost_samples => DiscontinuityKind::Overwritten { events: None },
                EventRecord::Sample(sample) => {
                    let Some(raw) = sample.raw else { continue };
                    let (Some(cpu), Some(time)) = (cpu, sample.timestamp) else {
                        return Err(TraceError::PerfMissing {
                            what: "the CPU or the time of a sample",
                            remedy: "record with perf record -a -T --sample-cpu",
                        });
                    };
                    let data = raw.as_slice();
                    let decoded = self.decoder.decode(&data);
                    let (tally, last) = tallies.entry(cpu).or_default();
                    if let Some(last) = last.filter(|&last| time < last) {
                        let kind = DiscontinuityKind::Backwards { by: last - time };
                        tally.count(kind);
                        visit(TraceItem::Discontinuity(Discontinuity {
                            cpu,
                            page: number,
                            after: Some(last),
                            kind,
                        }));
                    }
                    (tally.events, *last) = (tally.events + 1, Some(time));
                    visit(TraceItem::Event(TraceEvent { cpu, at: Nanos(time), decoded }));
                    continue;
                }
                _ => continue,
            };
            // A loss without a CPU is held against the first.
            let cpu = cpu.unwrap_or_default();
            let (tally, last) = tallies.entry(cpu).or_default();
            tally.count(discontinuity);
            visit(TraceItem::Discontinuity(Discontinuity {
                cpu,
                page: number,
                after: *last,
                kind: discontinuity,
            }));
        }
        Ok(tallies.into_iter().map(|(cpu, (tally, _))| (cpu, tally)).collect())
    }
}

const PART: &str = "the header of perf.data";

fn clock(file: &PerfFile) -> Clock {
    let clock = file.event_attributes().first().map(|attribute| attribute.attr.clock);
    let name = match clock {
        Some(PerfClock::ClockId(ClockId::Monotonic)) => "mono",
        Some(PerfClock::ClockId(ClockId::MonotonicRaw)) => "mono_raw",
        Some(PerfClock::ClockId(ClockId::Boottime)) => "boot",
        _ => "perf",
    };
    Clock::new(name, None)
}

/// What the section of the tracepoints holds: the same as the head of a trace.dat (tools/perf/util/trace-event-info.c).
struct Description {
    formats: Formats,
    kallsyms: Vec<u8>,
    printk: Vec<u8>,
}

fn read_description(section: &[u8]) -> Result<Description, TraceError> {
    let mut reader = Reader::new(section, false, "perf's tracing data")?;
    reader.expect(MAGIC)?;
    let _version = reader.text(16)?;
    let order = reader.u8()?;
    reader.set_big_endian(reader_order(order)?);
    let _long_size = reader.u8()?;
    let _page_size = reader.u32()?;
    // Samples are not pages: the header of pages is passed over, and need not be known.
    let _ = read_page_header(&mut reader);
    let mut formats = Formats::default();
    read_ftrace_formats(&mut reader, &mut formats)?;
    read_event_formats(&mut reader, &mut formats)?;
    formats.finish();
    reader.set_part("perf's kallsyms text");
    let size = u64::from(reader.u32()?);
    let kallsyms = reader.bytes(size, SECTIONS_LIMIT)?;
    reader.set_part("perf's printk formats");
    let size = u64::from(reader.u32()?);
    let printk = reader.bytes(size, SECTIONS_LIMIT)?;
    Ok(Description { formats, kallsyms, printk })
}

fn reader_order(byte: u8) -> Result<bool, TraceError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(TraceError::Inconsistent {
            part: "perf's tracing data",
            offset: 0,
            why: format!("byte order {other} is neither 0 nor 1"),
        }),
    }
}

/// Holds every size that linux-perf-data will believe against the length of the file
/// (tools/perf/Documentation/perf.data-file-format.txt).
fn check<R: ReadAt>(source: &R) -> Result<(), TraceError> {
    let mut reader = Reader::new(source, false, PART)?;
    if reader.length() == 0 {
        return Err(TraceError::Empty);
    }
    let magic = reader.bytes(reader.length().min(8), 8)?;
    match magic.as_slice() {
        b"PERFILE2" => {}
        b"2ELIFREP" => reader.set_big_endian(true),
        _ => return Err(TraceError::UnknownKind { found: magic.escape_ascii().to_string() }),
    }
    let header_size = reader.u64()?;
    if header_size == 16 {
        return Err(TraceError::PerfMissing {
            what: "the head of a file (it was written to a pipe)",
            remedy: "write it to a file with perf inject -i PIPED -o FILE",
        });
    }
    let attribute_size = reader.u64()?;
    let length = reader.length();
    let within = |offset: u64, size: u64| match offset.checked_add(size) {
        Some(end) if end <= length => Ok(end),
        _ => Err(TraceError::Truncated { part: "a section of perf.data", offset, needed: size, length }),
    };
    let mut section = || Ok::<_, TraceError>((reader.u64()?, reader.u64()?));
    let (attributes, data, types) = (section()?, section()?, section()?);
    within(attributes.0, attributes.1)?;
    let features_at = within(data.0, data.1)?;
    within(types.0, types.1)?;
    let odd = |why: String| TraceError::Inconsistent { part: PART, offset: 16, why };
    // An attribute is perf_event_attr, of 64 bytes or more, and a section of 16.
    if !(80..=4096).contains(&attribute_size) || attributes.1 < attribute_size || types.1 != 0 {
        return Err(odd(format!(
            "{} bytes of attributes of {attribute_size} bytes each, {} bytes of event types",
            attributes.1, types.1
        )));
    }
    if attributes.1 / attribute_size > u64::from(ATTRIBUTES_LIMIT) {
        let (part, offset, size) =
            ("the attributes of perf.data", attributes.0, attributes.1 / attribute_size);
        return Err(TraceError::TooLarge { part, offset, size, limit: u64::from(ATTRIBUTES_LIMIT) });
    }
    // Identifiers of every attribute.
    let mut held = 0u64;
    for index in 0..attributes.1 / attribute_size {
        reader.seek(attributes.0 + (index + 1) * attribute_size - 16);
        let (offset, size) = (reader.u64()?, reader.u64()?);
        within(offset, size)?;
        held = held.saturating_add(size);
    }
    reader.seek(72);
    let features = reader.array::<32>()?;
    let count = features.iter().map(|byte| byte.count_ones()).sum::<u32>();
    let described = Feature::EVENT_DESC.0 as usize;
    let mut description = None;
    let order: Vec<usize> = (0..256).filter(|&bit| feature(&features, bit, magic == *b"2ELIFREP")).collect();
    debug_assert_eq!(order.len(), count as usize);
    for (at, bit) in order.into_iter().enumerate() {
        reader.seek(features_at + at as u64 * 16);
        let (offset, size) = (reader.u64()?, reader.u64()?);
        within(offset, size)?;
        held = held.saturating_add(size);
        if bit == described {
            description = Some((offset, size));
        }
    }
    if held > SECTIONS_LIMIT {
        let (part, offset) = ("the sections of perf.data", features_at);
        return Err(TraceError::TooLarge { part, offset, size: held, limit: SECTIONS_LIMIT });
    }
    match description {
        Some((offset, size)) => check_event_desc(&mut reader, offset, size),
        None => Err(TraceError::PerfMissing {
            what: "the list of events",
            remedy: "record it again with perf 3.10 or later",
        }),
    }
}

/// Whether a bit of the bitmap of 64-bit words is set.
fn feature(bitmap: &[u8; 32], bit: usize, big_endian: bool) -> bool {
    let (word, byte) = (bit / 64 * 8, bit % 64 / 8);
    let at = word + if big_endian { 7 - byte } else { byte };
    bitmap[at] >> (bit % 8) & 1 != 0
}

/// The counts within the list of events.
fn check_event_desc<S: ReadAt>(reader: &mut Reader<S>, offset: u64, size: u64) -> Result<(), TraceError> {
    let end = offset + size;
    reader.set_part("the list of events of perf.data");
    reader.seek(offset);
    let (events, attribute_size) = (reader.u32()?, u64::from(reader.u32()?));
    let bad = |why: &str| TraceError::Inconsistent {
        part: "the list of events of perf.data",
        offset,
        why: why.into(),
    };
    if events == 0 || events > ATTRIBUTES_LIMIT || !(64..=4096).contains(&attribute_size) {
        return Err(bad("it claims no events, more than can be, or ones of an impossible size"));
    }
    for _ in 0..events {
        reader.skip(attribute_size)?;
        let identifiers = u64::from(reader.u32()?);
        let name = u64::from(reader.u32()?);
        reader.skip(name)?;
        reader.skip(identifiers * 8)?;
        if reader.position() > end {
            return Err(bad("an event of it lies beyond its end"));
        }
    }
    Ok(())
}
