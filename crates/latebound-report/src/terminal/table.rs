// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables that fit: names are shortened first, then columns that matter minimum are left out.

use super::{Tone, Writer, columns, split_at_columns};
use crate::text::printable;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a> {
    pub(super) title: &'a str,
    pub(super) right: bool,
    /// Columns with the minimum go first where there is no room; 0 never goes.
    pub(super) spare: u8,
    /// Whether its texts may be shortened.
    pub(super) shrinks: bool,
}

impl<'a> Column<'a> {
    pub(super) const fn number(title: &'a str, spare: u8) -> Column<'a> {
        Column { title, right: true, spare, shrinks: false }
    }

    pub(super) const fn name(title: &'a str) -> Column<'a> {
        Column { title, right: false, spare: 0, shrinks: true }
    }
}

/// A cell.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) tone: Tone,
    pub(super) text: String,
}

impl Cell {
    pub(super) fn new(tone: Tone, text: impl Into<String>) -> Cell {
        // Made printable here already: shortening must not cut an escaped character.
        Cell { tone, text: printable(&text.into()).into_owned() }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(Tone::Plain, text)
    }
}

/// A row: cells, a heading over the rows that follow, or a text over them that is broken where it is too long, further indented by so
/// many columns.
#[derive(Clone, Debug)]
pub(super) enum Line {
    Cells(Vec<Cell>),
    Group(String),
    Text(usize, String),
}

/// Names are not made shorter than this while a column can be left out instead.
const LEAST: usize = 20;
const GAP: usize = 2;

pub(super) fn write(w: &mut Writer<'_>, indent: usize, heads: &[Column<'_>], lines: &[Line]) {
    let room = w.width() - indent;
    let mut shown: Vec<usize> = (0..heads.len()).collect();
    let natural: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(i, head)| {
            let cells = lines.iter().filter_map(|line| match line {
                Line::Cells(cells) => cells.get(i),
                Line::Group(_) | Line::Text(..) => None,
            });
            cells.map(|cell| columns(&cell.text)).max().unwrap_or(0).max(columns(head.title))
        })
        .collect();
    let mut widths = natural.clone();
    loop {
        let over = total(&shown, &widths).saturating_sub(room);
        if over == 0 {
            break;
        }
        // Shorten the widest name; leave out a column only where names are short already.
        let widest = shown.iter().copied().filter(|&i| heads[i].shrinks).max_by_key(|&i| widths[i]);
        if let Some(i) = widest.filter(|&i| widths[i] > LEAST) {
            widths[i] -= over.min(widths[i] - LEAST);
            continue;
        }
        match shown.iter().copied().filter(|&i| heads[i].spare > 0).max_by_key(|&i| heads[i].spare) {
            Some(lowest) => {
                shown.retain(|&i| i != lowest);
                widths.clone_from(&natural);
            }
            None => match widest.filter(|&i| widths[i] > 4) {
                Some(i) => widths[i] -= over.min(widths[i] - 4),
                // Numbers alone are wider than the terminal: they are cut by it, not by us.
                None => break,
            },
        }
    }
    if heads.iter().any(|head| !head.title.is_empty()) {
        row(w, indent, heads, &shown, &widths, &|i| (Tone::Soft, heads[i].title));
    }
    for line in lines {
        match line {
            Line::Cells(cells) => row(w, indent, heads, &shown, &widths, &|i| {
                cells.get(i).map_or((Tone::Plain, ""), |cell| (cell.tone, cell.text.as_str()))
            }),
            Line::Group(name) => {
                w.put(Tone::Plain, &" ".repeat(indent));
                w.put(Tone::Strong, &shorten(name, room));
                w.end();
            }
            Line::Text(further, text) => {
                let at = indent + further;
                w.paragraph(at, at + 2, [(Tone::Strong, text.as_str())]);
            }
        }
    }
}

fn total(shown: &[usize], widths: &[usize]) -> usize {
    shown.iter().map(|&i| widths[i]).sum::<usize>() + GAP * shown.len().saturating_sub(1)
}

fn row<'c>(
    w: &mut Writer<'_>,
    indent: usize,
    heads: &[Column<'_>],
    shown: &[usize],
    widths: &[usize],
    cell: &dyn Fn(usize) -> (Tone, &'c str),
) {
    w.put(Tone::Plain, &" ".repeat(indent));
    for (place, &i) in shown.iter().enumerate() {
        if place > 0 {
            w.put(Tone::Plain, &" ".repeat(GAP));
        }
        let (tone, text) = cell(i);
        let text = if heads[i].shrinks { shorten(text, widths[i]) } else { text.to_owned() };
        let fill = " ".repeat(widths[i].saturating_sub(columns(&text)));
        if heads[i].right {
            w.put(Tone::Plain, &fill);
        }
        w.put(tone, &text);
        if !heads[i].right {
            w.put(Tone::Plain, &fill);
        }
    }
    w.end();
}

/// The text, with its end replaced by an ellipsis where it is wider than the room.
fn shorten(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    format!("{}…", split_at_columns(text, room.saturating_sub(1)).0)
}
