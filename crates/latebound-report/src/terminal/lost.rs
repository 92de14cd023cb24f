// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of `defer lost`: raises, merges and runs of trains of interrupts.

use latebound_model::Histogram;

use super::table::{self, Cell, Column, Line};
use super::verbs::time;
use super::{Style, Tone, Writer};
use crate::text::grouped;

/// All trains of one mechanism under one load.
#[derive(Clone, Debug)]
pub struct LostRow<'a> {
    /// The mechanism.
    pub mechanism: &'a str,
    /// Whether a counter kept what would have been merged.
    pub with_counter: bool,
    /// How many trains.
    pub trains: u64,
    /// Interrupts: each is one raise.
    pub raises: u64,
    /// Raises that were merged into an earlier one: lost, for who needs one run for each.
    pub merged: u64,
    /// Runs.
    pub starts: u64,
    /// Runs in a train: the minimum, the median, the most.
    pub a_train: [u64; 3],
    /// Runs by ksoftirqd.
    pub by_ksoftirqd: u64,
    /// Which run of a train was the first that ksoftirqd did: the median.
    pub first_by_ksoftirqd: Option<u64>,
    /// From a raise to its run.
    pub latency: &'a Histogram,
    /// Requests or records that were lost on the way.
    pub unseen: u64,
    /// Raises without a run of their own, by cause.
    pub lost_by: Vec<(&'static str, u64)>,
}

/// The table: a group of lines for each load.
pub fn lost_table(groups: &[(&str, Vec<LostRow<'_>>)], style: &Style) -> String {
    let mut w = Writer::new(style);
    let mut lines = Vec::new();
    for (name, rows) in groups {
        lines.push(Line::Group((*name).to_owned()));
        lines.extend(rows.iter().map(line));
    }
    let heads = [
        Column { shrinks: false, ..Column::name("mechanism") },
        Column { shrinks: false, ..Column::name("counter") },
        Column::number("trains", 4),
        Column::number("raises", 0),
        Column::number("runs", 0),
        Column::number("merged", 0),
        Column::number("runs a train", 2),
        Column::number("ksoftirqd", 1),
        Column::number("from run", 5),
        Column::number("p50", 3),
        Column::number("worst", 0),
        Column::number("unseen", 6),
    ];
    table::write(&mut w, 0, &heads, &lines);
    w.line(
        Tone::Soft,
        "merged: raises that found the bit set, and have no run of their own; ksoftirqd: runs that it did, and the first of \
         them in a train",
    );
    for (name, rows) in groups {
        for row in rows {
            if let Some(causes) = causes(&row.lost_by) {
                let counter = if row.with_counter { "with" } else { "without" };
                w.line(Tone::Soft, &format!("{name}, {}, {counter} counter: {causes}", row.mechanism));
            }
        }
    }
    w.finish()
}

/// `274 lost: 250 raised twice during one run, 24 refused`; `None` where nothing is lost.
fn causes(lost_by: &[(&'static str, u64)]) -> Option<String> {
    let some: Vec<String> = lost_by
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{} {name}", grouped(*count)))
        .collect();
    let sum: u64 = lost_by.iter().map(|(_, count)| count).sum();
    (sum > 0).then(|| format!("{} lost: {}", grouped(sum), some.join(", ")))
}

fn line(row: &LostRow<'_>) -> Line {
    let lossy = row.unseen > 0;
    let [lowest, median, most] = row.a_train;
    let a_train = if lowest == most { median.to_string() } else { format!("{median} ({lowest}..{most})") };
    let tone = if row.merged > 0 { Tone::Warning } else { Tone::Good };
    Line::Cells(vec![
        format!("  {}", row.mechanism).into(),
        if row.with_counter { "with" } else { "without" }.into(),
        grouped(row.trains).into(),
        grouped(row.raises).into(),
        grouped(row.starts).into(),
        Cell::new(tone, grouped(row.merged)),
        a_train.into(),
        grouped(row.by_ksoftirqd).into(),
        row.first_by_ksoftirqd.map_or_else(|| "–".to_owned(), |first| first.to_string()).into(),
        time(row.latency.quantile(0.5), lossy),
        time(row.latency.max(), lossy),
        grouped(row.unseen).into(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::Nanos;

    #[test]
    fn raises_stand_beside_runs_and_what_was_merged() {
        let mut latency = Histogram::new();
        (1..=100u64).for_each(|i| latency.record(Nanos(i * 1_000)));
        let row = LostRow {
            mechanism: "tasklet",
            with_counter: false,
            trains: 10,
            raises: 160,
            merged: 21,
            starts: 139,
            a_train: [13, 14, 14],
            by_ksoftirqd: 0,
            first_by_ksoftirqd: None,
            latency: &latency,
            unseen: 0,
            lost_by: vec![("raised twice during one run", 20), ("refused", 0), ("not started at the end", 1)],
        };
        let text = lost_table(&[("idle", vec![row])], &Style { width: 120, ..Style::default() });
        let words: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "tasklet without 10 160 139 21 14 (13..14) 0 – 50.2 us 100 us 0",
            "{text}"
        );
        let causes = "idle, tasklet, without counter: 21 lost: 20 raised twice during one run, 1 not started at the end";
        assert!(text.lines().any(|line| line == causes), "{text}");
    }
}
