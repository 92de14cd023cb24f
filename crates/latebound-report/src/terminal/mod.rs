// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text for terminals: the summary of `check`, and the tables of `measure`, `doctor`, `observe` and `explain`.
//!
//! Owns line breaking, column widths and colour. Everything fits the width of the [`Style`], measured as the terminal
//! shows it; only commands are never broken, so that they can be pasted. Times are ASCII (`us`), and without
//! `unicode` everything is.

mod advice;
mod blame;
mod bound;
pub(crate) mod compare;
mod defer;
mod explain;
mod groups;
mod import;
mod late;
mod lost;
mod scope;
mod table;
mod tradeoff;
mod tune;
mod verbs;

use unicode_width::UnicodeWidthStr;

use crate::text::{glued, printable};

pub use advice::{AdviceRow, advice_conditions, advice_table};
pub use bound::{SavedBound, live_bound};
pub use compare::comparison;
pub use defer::{DEFER_QUANTILES, DeferRow, defer_table};
pub use explain::{SavedWakeups, explained};
pub use import::imported;
pub use lost::{LostRow, lost_table};
pub use scope::{EdgeRow, scope, scope_account};
pub(crate) use tradeoff::gain_rows;
pub use tradeoff::tradeoff;
pub(crate) use tune::who;
pub use tune::{lost_events, trial, tune_fit, tune_map, tune_record, tune_run, tune_undo};
pub use verbs::{
    check_summary, doctor, failed_loads, ladder, measure_table, missing, observe_table, worst_activations,
};

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to write colours (ANSI escape sequences).
    pub color: bool,
    /// How many columns there are. Tables need about 40 and take no less.
    pub width: usize,
    /// Whether characters beyond ASCII can be shown.
    pub unicode: bool,
}

impl Default for Style {
    /// Plain text for 80 columns.
    fn default() -> Style {
        Style { color: false, width: 80, unicode: true }
    }
}

/// What a piece of text is, from which its colour follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Plain,
    Strong,
    Soft,
    Good,
    Note,
    Warning,
    Danger,
    Unknown,
}

impl Tone {
    const fn code(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Strong => Some("1"),
            Tone::Soft => Some("2"),
            Tone::Good => Some("32"),
            Tone::Note => Some("36"),
            Tone::Warning => Some("33"),
            Tone::Danger => Some("1;31"),
            Tone::Unknown => Some("35"),
        }
    }
}

/// Stands for a space at which a line does not break, until it is written.
const STICKY: char = '\u{a0}';

/// Text in the making.
struct Writer<'a> {
    style: &'a Style,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(style: &'a Style) -> Writer<'a> {
        Writer { style, out: String::new() }
    }

    fn width(&self) -> usize {
        self.style.width.max(40)
    }

    /// A piece of a line. The only place where text comes in, so that it is made printable here and nowhere else.
    fn put(&mut self, tone: Tone, text: &str) {
        let text = printable(text).replace(STICKY, " ");
        let code = tone.code().filter(|_| self.style.color && !text.is_empty());
        if let Some(code) = code {
            self.out.push_str(&format!("\x1b[{code}m"));
        }
        if self.style.unicode {
            self.out.push_str(&text);
        } else {
            self.out.extend(text.chars().map(|c| match c {
                c if c.is_ascii() => c,
                '–' => '-',
                '…' => '~',
                '█' | '▉' | '▊' | '▋' | '▌' => '#',
                '▍' | '▎' | '▏' | '·' => '.',
                _ => '?',
            }));
        }
        if code.is_some() {
            self.out.push_str("\x1b[0m");
        }
    }

    fn end(&mut self) {
        while self.out.ends_with(' ') {
            self.out.pop();
        }
        self.out.push('\n');
    }

    /// A paragraph of one piece; its leading spaces are its indent.
    fn line(&mut self, tone: Tone, text: &str) {
        let indent = text.len() - text.trim_start_matches(' ').len();
        self.paragraph(indent, indent, [(tone, text.trim_start_matches(' '))]);
    }

    fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Pieces as a paragraph, broken between words; later lines are indented by `hang`.
    fn paragraph<'p>(
        &mut self,
        indent: usize,
        hang: usize,
        pieces: impl IntoIterator<Item = (Tone, &'p str)>,
    ) {
        self.put(Tone::Plain, &" ".repeat(indent));
        self.flow(indent, hang, pieces);
    }

    /// A paragraph beside a short word that stands to its left; `hang` is where the paragraph stands.
    fn item<'p>(
        &mut self,
        indent: usize,
        lead: (Tone, &str),
        hang: usize,
        pieces: impl IntoIterator<Item = (Tone, &'p str)>,
    ) {
        self.put(Tone::Plain, &" ".repeat(indent));
        self.put(lead.0, lead.1);
        self.put(Tone::Plain, &" ".repeat(hang.saturating_sub(indent + columns(lead.1)).max(1)));
        self.flow(hang, hang, pieces);
    }

    /// Words from this column on, with line breaks between them. Where one piece ends and the next begins without a
    /// space, they are one word: a full stop stays with the number before it.
    fn flow<'p>(&mut self, from: usize, hang: usize, pieces: impl IntoIterator<Item = (Tone, &'p str)>) {
        let mut words: Vec<Vec<(Tone, String)>> = vec![Vec::new()];
        for (tone, text) in pieces {
            for (place, part) in glued(&printable(text), STICKY, "us").split(' ').enumerate() {
                if place > 0 {
                    words.push(Vec::new());
                }
                if let (false, Some(word)) = (part.is_empty(), words.last_mut()) {
                    word.push((tone, part.to_owned()));
                }
            }
        }
        let width = self.width();
        let (mut column, mut empty) = (from, true);
        for word in words.iter().filter(|word| !word.is_empty()) {
            let wide: usize = word.iter().map(|(_, part)| columns(part)).sum();
            if !empty && column + 1 + wide > width {
                self.end();
                self.put(Tone::Plain, &" ".repeat(hang));
                (column, empty) = (hang, true);
            }
            if !empty {
                self.put(Tone::Plain, " ");
                column += 1;
            }
            for (tone, part) in word {
                let mut rest = part.as_str();
                // A word wider than a whole line is cut.
                while column + columns(rest) > width && column > hang.min(width - 1)
                    || columns(rest) > width - hang
                {
                    let (head, tail) = split_at_columns(rest, width.saturating_sub(column));
                    self.put(*tone, head);
                    rest = tail;
                    self.end();
                    self.put(Tone::Plain, &" ".repeat(hang));
                    column = hang;
                    if rest.is_empty() {
                        break;
                    }
                }
                self.put(*tone, rest);
                column += columns(rest);
            }
            empty = false;
        }
        self.end();
    }

    fn finish(self) -> String {
        self.out
    }
}

/// How many columns a text takes once it is printable.
fn columns(text: &str) -> usize {
    printable(text).width()
}

/// The longest beginning of a printable text that fits so many columns, and the rest; at least one character.
fn split_at_columns(text: &str, room: usize) -> (&str, &str) {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        let wide = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if taken + wide > room && at > 0 {
            return text.split_at(at);
        }
        taken += wide;
    }
    (text, "")
}
