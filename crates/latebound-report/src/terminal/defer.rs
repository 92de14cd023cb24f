// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of `defer`: one line for each mechanism and context, idle and under load.

use latebound_model::{Cpu, Histogram, Nanos};

use super::table::{self, Cell, Column, Line};
use super::verbs::time;
use super::{Style, Tone, Writer};
use crate::text::grouped;

/// One line.
#[derive(Clone, Debug)]
pub struct DeferRow<'a> {
    /// What was requested.
    pub mechanism: &'a str,
    /// From which context.
    pub context: &'a str,
    /// To which CPU.
    pub cpu: Cpu,
    /// Whether an occupant kept the pool busy.
    pub is_busy: bool,
    /// The policy and priority of the thread that runs it, where that is real-time: `rr 20`.
    pub runner: Option<String>,
    /// From the request to the start.
    pub latency: &'a Histogram,
    /// Its standard deviation; `None` for fewer than two values.
    pub standard_deviation: Option<Nanos>,
    /// From the start to the end.
    pub execution: &'a Histogram,
    /// Requests that started together with an earlier one.
    pub merged: u64,
    /// Requests that never started, or whose start was not recorded.
    pub lost: u64,
    /// Turns at which nothing was requested, because an earlier request still waited.
    pub turns_missed: u64,
    /// Starts on another CPU than that of the request.
    pub cross_cpu: u64,
    /// Starts by the thread ksoftirqd.
    pub by_ksoftirqd: u64,
    /// Intervals of the quantiles of [`DEFER_QUANTILES`], to show below; an end that cannot be known is infinite.
    pub intervals: Option<[(f64, f64); DEFER_QUANTILES.len()]>,
    /// Names for what made it late.
    pub signatures: Vec<String>,
}

/// The quantiles that the table shows.
pub const DEFER_QUANTILES: [f64; 5] = [0.5, 0.99, 0.999, 0.9999, 0.99999];

/// The table: a group of lines for each load.
pub fn defer_table(groups: &[(&str, Vec<DeferRow<'_>>)], style: &Style) -> String {
    let mut w = Writer::new(style);
    let mut lines = Vec::new();
    for (name, rows) in groups {
        lines.push(Line::Group((*name).to_owned()));
        lines.extend(rows.iter().flat_map(|row| std::iter::once(line(row)).chain(interval_line(row))));
    }
    let heads = [
        Column { shrinks: false, ..Column::name("mechanism") },
        Column { shrinks: false, ..Column::name("from") },
        Column::number("CPU", 0),
        Column::number("n", 0),
        Column::number("mean", 0),
        Column::number("std dev", 3),
        Column::number("p50", 1),
        Column::number("p99", 2),
        Column::number("p99.9", 5),
        Column::number("p99.99", 9),
        Column::number("p99.999", 10),
        Column::number("max", 0),
        Column::number("run p50", 7),
        Column::number("merged", 4),
        Column::number("waited", 8),
        Column::number("other CPU", 6),
        Column::number("ksoftirqd", 11),
        Column::number("lost", 0),
    ];
    table::write(&mut w, 0, &heads, &lines);
    let any = |test: &dyn Fn(&DeferRow<'_>) -> bool| groups.iter().flat_map(|(_, rows)| rows).any(test);
    if any(&|row| row.lost > 0) {
        w.line(Tone::Warning, "* requests of this line were lost; the true figure may be worse");
    }
    if any(&|row| row.turns_missed > 0) {
        w.line(Tone::Soft, "waited: turns without a request, because an earlier one had not started");
    }
    for (load, text, names) in named(groups) {
        w.line(Tone::Note, &format!("{load}: {text}: {}", names.join(", ")));
    }
    w.finish()
}

/// Each name once, with the mechanisms that have it in the table's order.
fn named<'a>(groups: &'a [(&str, Vec<DeferRow<'_>>)]) -> Vec<(&'a str, &'a str, Vec<String>)> {
    let mut found: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for (load, row) in groups.iter().flat_map(|(load, rows)| rows.iter().map(move |row| (*load, row))) {
        for text in &row.signatures {
            match found.iter_mut().find(|(other, known, _)| *other == load && *known == text) {
                Some((_, _, names)) if names.contains(&name(row)) => {}
                Some((_, _, names)) => names.push(name(row)),
                None => found.push((load, text, vec![name(row)])),
            }
        }
    }
    found
}

/// The intervals below their quantiles.
fn interval_line(row: &DeferRow<'_>) -> Option<Line> {
    let intervals = row.intervals?;
    let end = |value: f64| if value.is_finite() { Nanos(value as u64).to_string() } else { String::new() };
    let cell = |(low, high): (f64, f64)| match (low.is_finite(), high.is_finite()) {
        (false, false) => Cell::new(Tone::Soft, "–"),
        _ => Cell::new(Tone::Soft, format!("{}..{}", end(low), end(high)).replace(' ', "")),
    };
    let mut cells: Vec<Cell> = vec![Cell::new(Tone::Soft, "    95 % interval")];
    cells.extend((0..5).map(|_| Cell::from("")));
    cells.extend(intervals.into_iter().map(cell));
    Some(Line::Cells(cells))
}

/// The mechanism, and what else sets its lines apart.
fn name(row: &DeferRow<'_>) -> String {
    match &row.runner {
        Some(runner) => format!("{}, {runner}", row.mechanism),
        None => row.mechanism.to_owned(),
    }
}

fn line(row: &DeferRow<'_>) -> Line {
    let lossy = row.lost > 0;
    let quantile = |place: usize| time(row.latency.quantile(DEFER_QUANTILES[place]), lossy);
    Line::Cells(vec![
        format!("  {}{}", name(row), if row.is_busy { ", busy" } else { "" }).into(),
        row.context.into(),
        row.cpu.to_string().into(),
        grouped(row.latency.count()).into(),
        time(row.latency.mean(), lossy),
        time(row.standard_deviation, lossy),
        quantile(0),
        quantile(1),
        quantile(2),
        quantile(3),
        quantile(4),
        Cell { tone: Tone::Strong, ..time(row.latency.max(), lossy) },
        time(row.execution.quantile(0.5), false),
        grouped(row.merged).into(),
        grouped(row.turns_missed).into(),
        grouped(row.cross_cpu).into(),
        grouped(row.by_ksoftirqd).into(),
        Cell::new(if lossy { Tone::Warning } else { Tone::Plain }, grouped(row.lost)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEITHER: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

    #[test]
    fn idle_stands_above_loaded_and_what_was_lost_marks_its_line() {
        let mut histogram = Histogram::new();
        (1..=100u64).for_each(|i| histogram.record(Nanos(i * 1_000)));
        let row = |mechanism, context, lost| DeferRow {
            mechanism,
            context,
            cpu: Cpu(1),
            is_busy: lost > 0,
            runner: (lost > 0).then(|| "fifo 7".to_owned()),
            latency: &histogram,
            standard_deviation: Some(Nanos(29_011)),
            execution: &histogram,
            merged: 13,
            lost,
            turns_missed: 0,
            cross_cpu: 2,
            by_ksoftirqd: 0,
            intervals: (lost > 0).then_some([
                (50_000.0, 51_000.0),
                (98_000.0, f64::INFINITY),
                NEITHER,
                NEITHER,
                NEITHER,
            ]),
            signatures: if lost > 0 { vec!["the fair server".to_owned()] } else { vec![] },
        };
        let groups =
            [("idle", vec![row("tasklet", "hardirq", 0)]), ("under load", vec![row("work", "task", 3)])];
        let text = defer_table(&groups, &Style { width: 160, ..Style::default() });
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert!(lines[0].starts_with("mechanism") && lines[0].ends_with("lost"), "{text}");
        assert_eq!(lines[1], "idle");
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert!(words.starts_with(&["tasklet", "hardirq", "1", "100", "50.5"]), "{text}");
        assert_eq!(lines[3], "under load");
        assert!(
            lines[4].starts_with("  work, fifo 7, busy")
                && lines[4].contains("100 us*")
                && lines[4].ends_with('3'),
            "{text}"
        );
        assert!(
            lines[5].starts_with("    95 % interval") && lines[5].contains("50.0us..51.0us  98.0us.."),
            "{text}"
        );
        assert!(lines[6].starts_with("* requests of this line were lost"), "{text}");
        assert_eq!(lines[7], "under load: the fair server: work, fifo 7", "{text}");
    }
}
