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
}

/// The table: a group of lines for each load.
pub fn defer_table(groups: &[(&str, Vec<DeferRow<'_>>)], style: &Style) -> String {
    let mut w = Writer::new(style);
    let mut lines = Vec::new();
    for (name, rows) in groups {
        lines.push(Line::Group((*name).to_owned()));
        lines.extend(rows.iter().map(line));
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
    w.finish()
}

fn line(row: &DeferRow<'_>) -> Line {
    let lossy = row.lost > 0;
    let quantile = |q| time(row.latency.quantile(q), lossy);
    Line::Cells(vec![
        format!("  {}{}", row.mechanism, if row.is_busy { ", busy" } else { "" }).into(),
        row.context.into(),
        row.cpu.to_string().into(),
        grouped(row.latency.count()).into(),
        time(row.latency.mean(), lossy),
        time(row.standard_deviation, lossy),
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        quantile(0.9999),
        quantile(0.99999),
        Cell { tone: Tone::Strong, ..time(row.latency.max(), lossy) },
        time(row.execution.quantile(0.5), false),
        grouped(row.merged).into(),
        grouped(row.turns_missed).into(),
        grouped(row.cross_cpu).into(),
        Cell::new(if lossy { Tone::Warning } else { Tone::Plain }, grouped(row.lost)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_stands_above_loaded_and_what_was_lost_marks_its_line() {
        let mut histogram = Histogram::new();
        (1..=100u64).for_each(|i| histogram.record(Nanos(i * 1_000)));
        let row = |mechanism, context, lost| DeferRow {
            mechanism,
            context,
            cpu: Cpu(1),
            is_busy: lost > 0,
            latency: &histogram,
            standard_deviation: Some(Nanos(29_011)),
            execution: &histogram,
            merged: 13,
            lost,
            turns_missed: 0,
            cross_cpu: 2,
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
            lines[4].starts_with("  work, busy") && lines[4].contains("100 us*") && lines[4].ends_with('3'),
            "{text}"
        );
        assert!(lines[5].starts_with("* requests of this line were lost"), "{text}");
    }
}
