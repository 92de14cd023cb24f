// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who made the explained jobs late: a table below them.

use super::table::{self, Cell, Column, Line};
use super::{Style, Tone, Writer};
use crate::digest::blame::{blamed, culprit_text};
use crate::text::{grouped, percent, to_nanos};

/// As many of those who made jobs late are listed; the others are added up.
const CULPRITS: usize = 12;

/// Who took the time of the jobs among these, most time first, after an empty line; nothing where none is a job.
pub(super) fn blame_table(worst: &[latebound_model::Explanation], style: &Style) -> String {
    let rows = blamed(worst);
    if rows.is_empty() {
        return String::new();
    }
    let mut w = Writer::new(style);
    let sum: u128 = rows.iter().map(|row| row.total).sum();
    let mut lines: Vec<Line> = Vec::new();
    for row in rows.iter().take(CULPRITS) {
        lines.push(Line::Cells(vec![
            culprit_text(&row.culprit).into(),
            grouped(row.jobs as u64).into(),
            to_nanos(row.total).to_string().into(),
            percent(row.total, sum).into(),
            row.longest.to_string().into(),
        ]));
    }
    let rest: u128 = rows.iter().skip(CULPRITS).map(|row| row.total).sum();
    if rest > 0 {
        let soft = |text: String| Cell::new(Tone::Soft, text);
        lines.push(Line::Cells(vec![
            soft(format!("{} others", rows.len() - CULPRITS)),
            soft(String::new()),
            soft(to_nanos(rest).to_string()),
            soft(percent(rest, sum)),
        ]));
    }
    w.line(Tone::Strong, "Who made whom late");
    let heads = [
        Column::name("who"),
        Column::number("jobs", 1),
        Column::number("time", 0),
        Column::number("part", 0),
        Column::number("longest", 2),
    ];
    table::write(&mut w, 2, &heads, &lines);
    format!("\n{}", w.finish())
}
