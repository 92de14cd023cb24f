// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small text forms that the terminal and the page share: visible control characters, grouped numbers, parts of a whole.

use std::borrow::Cow;
use std::fmt::Write as _;

use latebound_model::{Loss, Nanos, Task};

/// The text with every character that could steer a terminal or turn the reading direction written out (`\x1b`,
/// `\u{202e}`), so that a thread's name cannot move the cursor, recolour or reorder what stands around it.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if !steers(c) {
            shown.push(c);
        } else if c.is_ascii() {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\x{:02x}", u32::from(c));
        } else {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        }
    }
    Cow::Owned(shown)
}

/// Control characters (Unicode Cc), and the bidirectional and invisible format characters that trojan-source attacks use.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A whole number in groups of three digits: `240 000`. Numbers of four digits stay together.
pub fn grouped(number: impl Into<u128>) -> String {
    grouped_by(number.into(), ' ')
}

/// A whole number in groups of three digits, parted by `gap`.
pub(crate) fn grouped_by(number: u128, gap: char) -> String {
    let digits = number.to_string();
    if digits.len() <= 4 {
        return digits;
    }
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(gap);
        }
        shown.push(digit);
    }
    shown
}

/// A part of a whole in percent; tiny parts are not shown as nothing, and almost all not as all.
pub(crate) fn percent(part: u128, whole: u128) -> String {
    if whole == 0 {
        return if part == 0 { "0 %".to_owned() } else { "?".to_owned() };
    }
    let share = part as f64 / whole as f64 * 100.0;
    match share {
        s if part > 0 && s < 0.1 => "<0.1 %".to_owned(),
        s if part < whole && s >= 99.95 => ">99.9 %".to_owned(),
        s if s >= 99.95 => format!("{s:.0} %"),
        s if s >= 9.95 => format!("{s:.0} %"),
        s if part == 0 => format!("{s:.0} %"),
        s => format!("{s:.1} %"),
    }
}

/// Several durations added without overflow.
pub(crate) fn total(durations: impl IntoIterator<Item = Nanos>) -> u128 {
    durations.into_iter().map(|d| u128::from(d.0)).sum()
}

/// A sum of durations as far as a duration can hold it.
pub(crate) fn to_nanos(sum: u128) -> Nanos {
    Nanos(u64::try_from(sum).unwrap_or(u64::MAX))
}

/// A thread as `name (tid 123, FIFO 80)`.
pub(crate) fn task_text(task: &Task) -> String {
    let priority = task.priority_text_checked();
    let name = if task.comm.is_empty() { "?" } else { &task.comm };
    match (task.is_idle(), priority.is_empty()) {
        (true, _) => "idle task".to_owned(),
        (_, true) => format!("{name} (tid {})", task.tid),
        (_, false) => format!("{name} (tid {}, {priority})", task.tid),
    }
}

/// [`Task::priority_text`] for priorities that a foreign file may hold: arithmetic on them must not overflow.
trait CheckedPriority {
    fn priority_text_checked(&self) -> String;
}

impl CheckedPriority for Task {
    fn priority_text_checked(&self) -> String {
        match self.prio {
            Some(prio) if !(-1..=139).contains(&prio) => format!("priority {prio}"),
            _ => self.priority_text(),
        }
    }
}

/// One loss in words: `12 values above the histogram (softirq, CPU 1)`.
pub fn loss_text(loss: &Loss) -> String {
    let count = loss.count.map_or_else(|| "an unknown number of".to_owned(), grouped);
    let place = if loss.place.is_empty() { String::new() } else { format!(" ({})", printable(&loss.place)) };
    format!("{count} {}{place}", loss.kind.name())
}

/// Whether anything was really lost: a counter that stands at zero is a statement, not a loss.
pub(crate) fn any_lost(losses: &[Loss]) -> bool {
    losses.iter().any(|loss| loss.count != Some(0))
}

/// Prose in which the space between a number and its unit, and between the groups of a number, is `gap`, so that no line
/// breaks there; `micro` stands for `us`.
pub(crate) fn glued(text: &str, gap: char, micro: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find(' ') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        out.push_str(before);
        let number = before.ends_with(|c: char| c.is_ascii_digit());
        let unit = ["ns", "us", "ms", "s", "%"].into_iter().find(|unit| {
            let tail = after.strip_prefix(unit);
            number && tail.is_some_and(|tail| !tail.starts_with(|c: char| c.is_alphanumeric() || c == '/'))
        });
        if let Some(unit) = unit {
            out.push(gap);
            out.push_str(if unit == "us" { micro } else { unit });
            rest = &after[unit.len()..];
        } else {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            out.push(if number && digits == 3 { gap } else { ' ' });
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Words of a list: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A JSON string, with its quotes (RFC 8259, section 7).
pub(crate) fn json_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_steer_a_terminal_are_written_out() {
        assert_eq!(printable("a\u{1b}[31mb\n\u{202e}ü"), "a\\x1b[31mb\\x0a\\u{202e}ü");
        assert!(matches!(printable("kworker/1:2"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_numbers_are_grouped_from_the_right() {
        let shown: Vec<String> = [0u64, 999, 9999, 10_000, 1_234_567].map(grouped).into();
        assert_eq!(shown, ["0", "999", "9999", "10 000", "1 234 567"]);
    }

    #[test]
    fn a_part_is_never_rounded_to_nothing_or_to_all() {
        let shown: Vec<String> =
            [(0, 10), (1, 1_000_000), (5, 100), (1, 3), (999_999, 1_000_000), (7, 7), (1, 0)]
                .map(|(a, b)| percent(a, b))
                .into();
        assert_eq!(shown, ["0 %", "<0.1 %", "5.0 %", "33 %", ">99.9 %", "100 %", "?"]);
    }

    #[test]
    fn a_priority_outside_the_kernels_range_is_shown_as_it_is() {
        let task =
            Task { tid: latebound_model::Tid(5), comm: "x".into(), prio: Some(i32::MIN), ..Task::default() };
        assert_eq!(task_text(&task), "x (tid 5, priority -2147483648)");
    }
}
