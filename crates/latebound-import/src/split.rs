// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where one result ends and the next begins: people append what they measure to one file, also what several tools wrote.
//!
//! Owns the first lines of each format. Never reads a number that ends up in a Run.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

use crate::cyclictest::line::{ThreadLine, verbose_line};

/// Which format a part is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Rteval,
    Timerlat,
    Osnoise,
    Oslat,
    /// Lines of threads, values or histograms: cyclictest, and rt-tests that print like it.
    Cyclictest,
    Hackbench,
    Sockperf,
}

/// One result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'t> {
    pub(crate) kind: Kind,
    pub(crate) text: &'t str,
    /// The number of its first line, from 1.
    pub(crate) first: usize,
}

impl<'t> Part<'t> {
    /// The lines, trimmed, with their numbers in the file.
    pub(crate) fn lines(self) -> impl Iterator<Item = (usize, &'t str)> {
        self.raw_lines().map(|(number, line)| (number, line.trim()))
    }

    /// The same with the blanks around them.
    pub(crate) fn raw_lines(self) -> impl Iterator<Item = (usize, &'t str)> {
        self.text.lines().enumerate().map(move |(at, line)| (self.first + at, line))
    }
}

/// The results in a text, in order; none where no line is of any known format.
pub(crate) fn split(text: &str) -> Vec<Part<'_>> {
    let mut begins: Vec<(usize, Kind)> = Vec::new();
    let mut seen = ResultState::default();
    let mut at = 0;
    while let Some(line) = text[at..].split_inclusive('\n').next() {
        let kind = document(line);
        if let Some(kind) = kind {
            begins.push((at, kind));
            seen = ResultState { kind: Some(kind), ..ResultState::default() };
            at += match kind {
                Kind::Json => json_length(&text[at..]),
                _ => xml_length(&text[at..]),
            };
        } else {
            if let Some(kind) = seen.begins(line) {
                begins.push((at, kind));
            }
            at += line.len();
        }
    }
    // What stands before the first result may belong to it.
    if let Some((begin, kind)) = begins.first_mut()
        && !matches!(kind, Kind::Json | Kind::Rteval)
    {
        *begin = 0;
    }
    let mut first = 1;
    let mut before = 0;
    let ends = begins.iter().skip(1).map(|(begin, _)| *begin).chain([text.len()]);
    let parts = begins.iter().zip(ends).map(|(&(begin, kind), end)| {
        first += text[before..begin].matches('\n').count();
        before = begin;
        Part { kind, text: &text[begin..end], first }
    });
    parts.collect()
}

/// A document that says itself where it ends.
fn document(line: &str) -> Option<Kind> {
    let line = line.trim_start();
    if line.starts_with('{') {
        Some(Kind::Json)
    } else if line.starts_with("<?xml") || line.starts_with("<rteval") {
        Some(Kind::Rteval)
    } else {
        None
    }
}

fn json_length(text: &str) -> usize {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    match stream.next() {
        Some(Ok(_)) => stream.byte_offset(),
        // The reader of the format says what is wrong.
        _ => text.len(),
    }
}

fn xml_length(text: &str) -> usize {
    const END: &str = "</rteval>";
    text.find(END).map_or(text.len(), |at| at + END.len())
}

/// What was seen of the result that is being read.
#[derive(Default)]
struct ResultState {
    kind: Option<Kind>,
    /// oslat: its cores were named. sockperf: its numbers began. cyclictest: any number of a thread.
    numbers: bool,
    histogram: bool,
    total: bool,
    /// Any line of a thread, and the line that a screen begins with.
    lines: bool,
    screen: bool,
    /// Any value of `-v`, which prints no lines of threads.
    values: bool,
    /// cyclictest's threads: the thread id and the cycles of the last line.
    threads: BTreeMap<usize, (u64, u64)>,
}

impl ResultState {
    /// Whether this line begins another result, and of which kind.
    fn begins(&mut self, raw: &str) -> Option<Kind> {
        let line = raw.trim();
        let here = |kind| self.kind == Some(kind);
        let begin = if line.starts_with("# RTLA timerlat histogram") {
            Some(Kind::Timerlat)
        } else if line.starts_with("# RTLA osnoise histogram") {
            Some(Kind::Osnoise)
        } else if line.starts_with("oslat V ") {
            Some(Kind::Oslat)
        } else if line.starts_with("Core:") || line.starts_with("Counter Freq:") {
            (!here(Kind::Oslat) || line.starts_with("Core:") && self.numbers).then_some(Kind::Oslat)
        } else if line.starts_with("Running in ") && line.contains(" groups using ") {
            Some(Kind::Hackbench)
        } else if line.starts_with("sockperf") {
            let total = line.starts_with("sockperf: [Total Run]") || line.starts_with("sockperf: Total of ");
            let again = line.starts_with("sockperf: == version") || total && self.numbers;
            (!here(Kind::Sockperf) || again).then_some(Kind::Sockperf)
        } else {
            self.cyclictest(raw)
        };
        if let Some(kind) = begin {
            *self = ResultState { kind: Some(kind), ..ResultState::default() };
        }
        self.note(raw);
        begin
    }

    /// cyclictest has no first line that it always prints; that it began again shows in what it counts.
    fn cyclictest(&self, raw: &str) -> Option<Kind> {
        let line = raw.trim();
        let other = self.kind != Some(Kind::Cyclictest);
        let again = if let Some(thread) = ThreadLine::of(line) {
            let last = self.threads.get(&thread.at);
            other
                || self.total
                || self.values
                || last.is_some_and(|last| !goes_on(*last, (thread.tid, thread.cycles)))
        } else if let Some((at, cycle, _)) = verbose_line(raw) {
            other || self.lines || self.threads.get(&at).is_some_and(|(_, last)| *last >= cycle)
        } else if line == "# Histogram" {
            // Lines of threads stand before a histogram only where the screen was printed too.
            other || self.histogram || self.lines && !self.screen
        } else if line.starts_with("# Total:") {
            other || self.total
        } else if line.starts_with("policy: ") && line.contains(": loadavg:") {
            // A screen that goes on has it again and again.
            other
        } else if line.starts_with("# /dev/cpu_dma_latency set to") || line.starts_with("Max CPUs = ") {
            self.kind.is_none() || other || self.numbers
        } else {
            false
        };
        again.then_some(Kind::Cyclictest)
    }

    fn note(&mut self, raw: &str) {
        let line = raw.trim();
        match self.kind {
            Some(Kind::Oslat) => self.numbers |= line.starts_with("Core:"),
            Some(Kind::Sockperf) => {
                self.numbers |=
                    line.starts_with("sockperf: [Total Run]") || line.starts_with("sockperf: Total of ");
            }
            Some(Kind::Cyclictest) => {
                if let Some(thread) = ThreadLine::of(line) {
                    self.threads.insert(thread.at, (thread.tid, thread.cycles));
                    (self.numbers, self.lines) = (true, true);
                } else if let Some((at, cycle, _)) = verbose_line(raw) {
                    self.threads.insert(at, (0, cycle));
                    (self.numbers, self.values) = (true, true);
                }
                self.screen |= line.starts_with("policy:");
                self.histogram |= line == "# Histogram";
                self.total |= line.starts_with("# Total:");
                self.numbers |= self.histogram || self.total;
            }
            _ => {}
        }
    }
}

/// Whether a thread's line may come after another of the same thread: the same thread id, and no fewer cycles. Before a thread
/// runs its id is 0.
fn goes_on((tid, cycles): (u64, u64), (next_tid, next_cycles): (u64, u64)) -> bool {
    (tid == 0 || tid == next_tid) && cycles <= next_cycles
}
