// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who made the explained threads late, by control group: a table below them.

use super::table::{self, Cell, Column, Line};
use super::{Style, Tone, Writer};
use crate::digest::groups::{blamed_groups, owner_text};
use crate::text::{grouped, percent, to_nanos};

/// As many of those who made one group late are listed; the others are added up.
const OWNERS: usize = 12;
/// As many groups that were late are listed.
const GROUPS: usize = 8;

/// Who took the time of whose threads, after an empty line; nothing where no group is known.
pub(super) fn group_table(worst: &[latebound_model::Explanation], style: &Style) -> String {
    let groups = blamed_groups(worst);
    if groups.is_empty() {
        return String::new();
    }
    let mut lines: Vec<Line> = Vec::new();
    for group in groups.iter().take(GROUPS) {
        lines.push(Line::Text(0, format!("{}:", group.whom)));
        for row in group.rows.iter().take(OWNERS) {
            lines.push(Line::Cells(vec![
                owner_text(&row.who).into(),
                grouped(row.late).into(),
                row.time.to_string().into(),
                percent(row.time.0.into(), group.total).into(),
                row.longest.to_string().into(),
            ]));
        }
        let rest: u128 = group.rows.iter().skip(OWNERS).map(|row| u128::from(row.time.0)).sum();
        if rest > 0 {
            let soft = |text: String| Cell::new(Tone::Soft, text);
            lines.push(Line::Cells(vec![
                soft(format!("{} others", group.rows.len() - OWNERS)),
                soft(String::new()),
                soft(to_nanos(rest).to_string()),
                soft(percent(rest, group.total)),
            ]));
        }
    }
    if groups.len() > GROUPS {
        lines.push(Line::Text(0, format!("{} more groups were late", groups.len() - GROUPS)));
    }
    let mut w = Writer::new(style);
    w.line(Tone::Strong, "Who made whom late, by group");
    let heads = [
        Column::name("who"),
        Column::number("late", 1),
        Column::number("time", 0),
        Column::number("part", 0),
        Column::number("longest", 2),
    ];
    table::write(&mut w, 2, &heads, &lines);
    format!("\n{}", w.finish())
}
