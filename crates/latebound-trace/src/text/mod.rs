// SPDX-License-Identifier: MIT OR Apache-2.0
//! ftrace text: `/sys/kernel/tracing/trace`, `trace-cmd report` with and without `-l`, and `perf script`.
//!
//! Owns the three dialects. Text names functions where binary traces have addresses, so addresses are made up here:
//! the functions that the text names are laid out one after the other, and [`TextTrace::symbols`] gives the names back.
//! The text is read twice for this, first for the names, then for the events; only names are kept.

mod args;
mod line;
mod names;

use std::collections::{BTreeMap, BTreeSet};

use latebound_model::{Cpu, Nanos, Tid};

use crate::CPU_LIMIT;
use crate::discontinuity::{Discontinuity, DiscontinuityKind, Tally};
use crate::error::TraceError;
use crate::record::Decoded;
use crate::source::ReadAt;
use crate::symbols::Symbols;
use crate::typed::{TraceEvent, TraceItem};
use line::{Line, LineContent};
use names::Names;

/// The longest line; ftrace's own are below a page.
const LINE_LIMIT: usize = 64 * 1024;
/// How much is read at once.
const BLOCK: usize = 256 * 1024;
/// So many functions fit an offset of 31 bits.
const FUNCTIONS: usize = 32_000;
/// More vectors than a processor has.
const VECTORS: usize = 4096;
/// The longest name of a function or vector that is kept; the kernel's end at 512 (`KSYM_NAME_LEN`).
const NAME_LIMIT: usize = 1024;

/// A text of ftrace, with its names known.
pub struct TextTrace<R> {
    source: R,
    names: Names,
    cpus: BTreeSet<Cpu>,
    overwritten: bool,
    /// Entries that the header counts and that no line is there for.
    missing: u64,
    /// Whether a header counts them.
    is_counted: bool,
    has_flags: bool,
    of_perf: bool,
    has_times: bool,
}

impl<R: ReadAt> TextTrace<R> {
    /// Reads the text once, for the names in it.
    pub fn open(source: R) -> Result<TextTrace<R>, TraceError> {
        let mut trace = TextTrace {
            source,
            names: Names::default(),
            cpus: BTreeSet::new(),
            overwritten: false,
            missing: 0,
            is_counted: false,
            has_flags: false,
            of_perf: false,
            has_times: true,
        };
        let (mut functions, mut vectors) = (BTreeSet::new(), BTreeSet::new());
        let (mut cpus, mut overwritten, mut has_flags, mut has_times) = (BTreeSet::new(), false, false, true);
        let (mut first, mut of_perf) = (String::new(), false);
        let (mut entries, mut promised) = (0u64, None::<u64>);
        trace.lines(|_, text| match line::read(text) {
            Some(LineContent::Event(line)) => {
                entries += 1;
                if cpus.len() <= CPU_LIMIT as usize {
                    cpus.insert(line.cpu);
                }
                has_flags |= line.flags.is_some();
                of_perf |= line.of_perf;
                has_times &= line.time.is_some();
                args::names(&line, |name| {
                    if functions.len() < FUNCTIONS && name.len() <= NAME_LIMIT && !functions.contains(name) {
                        functions.insert(name.to_owned());
                    }
                });
                if let Some(name) = args::vector(&line)
                    && vectors.len() < VECTORS
                    && name.len() <= NAME_LIMIT
                    && !vectors.contains(name)
                {
                    vectors.insert(name.to_owned());
                }
            }
            Some(LineContent::BufferHead { held, written }) => {
                overwritten |= held < written;
                promised = Some(promised.unwrap_or(0).saturating_add(held));
            }
            Some(LineContent::Entry) => entries += 1,
            Some(LineContent::Lost { events, .. }) => entries = entries.saturating_add(events.unwrap_or(0)),
            Some(LineContent::Nothing) => {}
            None if first.is_empty() => first = text.chars().take(40).collect(),
            None => {}
        })?;
        if cpus.len() > CPU_LIMIT as usize {
            let (size, limit) = (cpus.len() as u64, u64::from(CPU_LIMIT));
            return Err(TraceError::TooLarge { part: "the CPUs of the text", offset: 0, size, limit });
        }
        if cpus.is_empty() {
            let found = if first.is_empty() { "no event".to_owned() } else { first };
            return Err(TraceError::UnknownKind { found });
        }
        trace.names.functions = functions.into_iter().zip(0..).collect();
        trace.names.vectors = vectors.into_iter().collect();
        (trace.cpus, trace.overwritten) = (cpus, overwritten);
        (trace.has_flags, trace.has_times, trace.of_perf) = (has_flags, has_times, of_perf);
        trace.missing = promised.map_or(0, |promised| promised.saturating_sub(entries));
        trace.is_counted = promised.is_some();
        Ok(trace)
    }

    /// The CPUs that have events.
    pub fn cpus(&self) -> impl Iterator<Item = Cpu> + '_ {
        self.cpus.iter().copied()
    }

    /// Whether lines carry the state of the CPU (`d..2.`). Where they do not, [`Decoded::flags`] are all unset.
    pub fn has_flags(&self) -> bool {
        self.has_flags
    }

    /// Whether `perf script` wrote it.
    pub fn is_of_perf(&self) -> bool {
        self.of_perf
    }

    /// Whether a header says how many entries there are, as tracefs writes it; without one nobody can tell whether the text
    /// is whole.
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Whether times are seconds; a counter's or a cycle clock's are bare numbers.
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// The functions that the text names, at made-up addresses, `_stext` before them all.
    pub fn symbols(&self) -> Symbols {
        self.names.symbols()
    }

    /// The names of the vectors, by [`crate::VectorId`].
    pub fn vector_names(&self) -> &[String] {
        &self.names.vectors
    }

    /// Gives every event and discontinuity to `visit`, in the order of the text; what was counted per CPU.
    pub fn for_each(&self, mut visit: impl FnMut(TraceItem<'_>)) -> Result<BTreeMap<Cpu, Tally>, TraceError> {
        let mut tallies: BTreeMap<Cpu, (Tally, Option<u64>)> =
            self.cpus.iter().map(|&cpu| (cpu, Default::default())).collect();
        let mut tell = |tallies: &mut BTreeMap<Cpu, (Tally, Option<u64>)>,
                        cpu,
                        page,
                        kind,
                        item: Option<TraceItem<'_>>| {
            let (tally, last) = tallies.entry(cpu).or_default();
            if let Some(kind) = kind {
                tally.count(kind);
                visit(TraceItem::Discontinuity(Discontinuity { cpu, page, after: *last, kind }));
            }
            if let Some(TraceItem::Event(event)) = item {
                tally.events += 1;
                *last = Some(event.at.0);
                visit(TraceItem::Event(event));
            }
        };
        if self.overwritten {
            // The header counts over all CPUs, so each may be the one.
            for &cpu in &self.cpus {
                tell(&mut tallies, cpu, 0, Some(DiscontinuityKind::Overwritten { events: None }), None);
            }
        }
        // A line that cannot be read may be any CPU's: it is held against the first.
        let somebody = self.cpus.first().copied().unwrap_or_default();
        let is_ended = self.lines(|number, text| match line::read(text) {
            Some(LineContent::Event(line)) => {
                let event = self.event(&line);
                let last = tallies.get(&line.cpu).and_then(|tally| tally.1);
                let back = last.filter(|&last| event.at.0 < last);
                let kind = back.map(|last| DiscontinuityKind::Backwards { by: last - event.at.0 });
                tell(&mut tallies, line.cpu, number, kind, Some(TraceItem::Event(event)));
            }
            Some(LineContent::Lost { cpu, events }) => {
                tell(&mut tallies, cpu, number, Some(DiscontinuityKind::Overwritten { events }), None);
            }
            Some(_) => {}
            None => {
                let kind = DiscontinuityKind::Damaged { bytes: text.len() as u64 };
                tell(&mut tallies, somebody, number, Some(kind), None);
            }
        })?;
        if !is_ended {
            // The line end itself, and nobody knows what before it.
            tell(&mut tallies, somebody, 0, Some(DiscontinuityKind::CutOff { bytes: 1 }), None);
        }
        if self.missing > 0 {
            let kind = DiscontinuityKind::Missing { events: self.missing };
            tell(&mut tallies, somebody, 0, Some(kind), None);
        }
        Ok(tallies.into_iter().map(|(cpu, (tally, _))| (cpu, tally)).collect())
    }

    fn event<'a>(&self, line: &Line<'a>) -> TraceEvent<'a> {
        let (flags, preempt_count) = line.flags.unwrap_or_default();
        let record = args::record(line, &self.names);
        TraceEvent {
            cpu: line.cpu,
            at: Nanos(line.time.unwrap_or(line.ticks)),
            decoded: Decoded { id: 0, tid: Tid(line.tid), flags, preempt_count, record },
        }
    }

    /// Every line with its number, from 1. Whether the last one has its end.
    fn lines(&self, mut visit: impl FnMut(u64, &str)) -> Result<bool, TraceError> {
        const PART: &str = "the text";
        let failed = |offset| move |source| TraceError::Read { part: PART, offset, source };
        let length = self.source.len().map_err(failed(0))?;
        if length == 0 {
            return Err(TraceError::Empty);
        }
        let (mut offset, mut number) = (0, 0);
        let mut buffer: Vec<u8> = Vec::new();
        let mut is_ended = true;
        while offset < length {
            let held = buffer.len();
            buffer.resize(held + BLOCK.min((length - offset) as usize), 0);
            self.source.read_exact_at(offset, &mut buffer[held..]).map_err(failed(offset))?;
            offset += (buffer.len() - held) as u64;
            let mut begin = 0;
            while let Some(end) = memchr::memchr(b'\n', &buffer[begin..]).map(|at| begin + at) {
                number += 1;
                visit(number, &String::from_utf8_lossy(&buffer[begin..end]));
                begin = end + 1;
            }
            buffer.drain(..begin);
            if buffer.len() > LINE_LIMIT || offset == length && !buffer.is_empty() {
                number += 1;
                is_ended &= offset < length;
                visit(number, &String::from_utf8_lossy(&buffer));
                buffer.clear();
            }
        }
        Ok(is_ended)
    }
}
