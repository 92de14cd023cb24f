// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes of who ran when, in the terminal, and the spread of edges over all trains.

use latebound_model::{Histogram, Nanos};

use super::table::{self, Column, Line};
use super::verbs::time;
use super::{Style, Tone, Writer, columns};
use crate::scope::{Scope, ScopeAccount};
use crate::text::grouped;

/// How far one edge went apart.
#[derive(Clone, Debug)]
pub struct EdgeRow<'a> {
    /// Which edge: `bottom half begins`.
    pub name: &'a str,
    /// Over which time: `first 10 s`.
    pub over: String,
    /// When it came, after the interrupt was due.
    pub values: &'a Histogram,
}

/// The lanes, one line each, and the spread of the edges below.
pub fn scope(scope: &Scope, edges: &[EdgeRow<'_>], style: &Style) -> String {
    let mut w = Writer::new(style);
    w.line(Tone::Strong, &scope.title);
    let name_width = scope.lanes.iter().map(|lane| columns(&lane.name)).max().unwrap_or(0) + 2;
    let room = w.width().saturating_sub(name_width).max(10);
    let length = scope.to.saturating_sub(scope.from).0.max(1);
    // Columns that a bar touches: what took any time is seen.
    let column = |when: Nanos| {
        let since = when.saturating_sub(scope.from).0.min(length);
        (u128::from(since) * (room as u128 - 1) / u128::from(length)) as usize
    };
    for lane in &scope.lanes {
        let mut cells = vec!['·'; room];
        for bar in lane.bars.iter().filter(|bar| bar.to >= scope.from && bar.from <= scope.to) {
            cells[column(bar.from)..=column(bar.to)].fill('█');
        }
        w.put(Tone::Plain, &format!("{}{}", lane.name, " ".repeat(name_width - columns(&lane.name))));
        w.put(Tone::Note, &cells.into_iter().collect::<String>());
        w.end();
    }
    let end = Nanos(length).to_string();
    let fill = " ".repeat(room.saturating_sub(1 + columns(&end)));
    w.put(Tone::Soft, &format!("{}0{fill}{end}", " ".repeat(name_width)));
    w.end();
    if let Some(trigger) = scope.trigger {
        w.line(Tone::Soft, &format!("triggered at {}", trigger.saturating_sub(scope.from)));
    }
    let mut lines = Vec::new();
    for edge in edges {
        lines.push(Line::Cells(vec![
            edge.name.into(),
            edge.over.clone().into(),
            grouped(edge.values.count()).into(),
            time(edge.values.min(), false),
            time(edge.values.quantile(0.5), false),
            time(edge.values.max(), false),
        ]));
    }
    let heads = [
        Column { shrinks: false, ..Column::name("edge, after due or raised") },
        Column { shrinks: false, ..Column::name("over") },
        Column::number("n", 1),
        Column::number("minimum", 0),
        Column::number("median", 0),
        Column::number("maximum", 0),
    ];
    table::write(&mut w, 0, &heads, &lines);
    w.finish()
}

/// Who held the run that was triggered on, and why raises were lost: two tables, each only where it has a line.
pub fn scope_account(account: &ScopeAccount, style: &Style) -> String {
    let mut w = Writer::new(style);
    if !account.held.is_empty() {
        let heads = [
            Column { shrinks: false, ..Column::name("beside the run that it is triggered on") },
            Column::number("while it waits", 0),
            Column::number("while it runs", 0),
        ];
        let line = |(name, waiting, running): &(String, Nanos, Nanos)| {
            Line::Cells(vec![name.clone().into(), time(Some(*waiting), false), time(Some(*running), false)])
        };
        table::write(&mut w, 0, &heads, &account.held.iter().map(line).collect::<Vec<_>>());
    }
    let lost: Vec<Line> = lost_lines(&account.lost_by);
    if !lost.is_empty() {
        let heads =
            [Column { shrinks: false, ..Column::name("lost raises, by cause") }, Column::number("raises", 0)];
        table::write(&mut w, 0, &heads, &lost);
    }
    w.finish()
}

/// The causes that lost something, and their sum.
fn lost_lines(causes: &[(&'static str, u64)]) -> Vec<Line> {
    let line = |name: &str, count: u64| Line::Cells(vec![name.to_owned().into(), grouped(count).into()]);
    let some = causes.iter().filter(|(_, count)| *count > 0);
    let mut lines: Vec<Line> = some.map(|(name, count)| line(name, *count)).collect();
    if !lines.is_empty() {
        lines.push(line("all", causes.iter().map(|(_, count)| count).sum()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::{ScopeBar, ScopeLane};

    #[test]
    fn lost_raises_stand_by_cause_with_their_sum_and_others_are_left_out() {
        let account = ScopeAccount {
            held: vec![("other interrupts".to_owned(), Nanos(40_000), Nanos(0))],
            lost_by: vec![("raised twice during one run", 1_200), ("refused", 0), ("not started", 34)],
        };
        let text = scope_account(&account, &Style::default());
        let words: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(words[1], "other interrupts 40.0 us 0 ns", "{text}");
        let lost = ["raised twice during one run 1200", "not started 34", "all 1234"];
        assert_eq!(words[3..], lost, "{text}");
        assert_eq!(scope_account(&ScopeAccount::default(), &Style::default()), "");
    }

    #[test]
    fn what_ran_longer_is_drawn_wider_and_what_ran_shortly_is_still_seen() {
        let bar = |from, to| ScopeBar { from: Nanos(from), to: Nanos(to), label: String::new() };
        let drawn = Scope {
            title: "a train".to_owned(),
            from: Nanos(0),
            to: Nanos(100_000),
            trigger: Some(Nanos(50_000)),
            lanes: vec![
                ScopeLane {
                    name: "top half".to_owned(),
                    class: "c-irq",
                    bars: vec![bar(0, 1), bar(99_999, 100_000)],
                },
                ScopeLane { name: "load".to_owned(), class: "c-task", bars: vec![bar(0, 50_000)] },
            ],
        };
        let mut values = Histogram::new();
        values.record_n(Nanos(10_000), 20);
        let edges = [EdgeRow { name: "bottom half begins", over: "all".to_owned(), values: &values }];
        let text = scope(&drawn, &edges, &Style::default());
        let lines: Vec<&str> = text.lines().collect();
        let count = |line: &str| line.chars().filter(|c| *c == '█').count();
        // A nanosecond at the end touches the last two columns.
        assert_eq!((count(lines[1]), count(lines[2])), (3, 35), "{text}");
        assert!(lines[1].ends_with('█') && lines[3].ends_with("100 us"), "{text}");
        assert!(lines[6].contains("bottom half begins") && lines[6].contains("10.0 us"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    }
}
