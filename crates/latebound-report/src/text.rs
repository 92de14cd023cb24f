// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small text forms that the terminal and the page share: visible control characters, grouped numbers, parts of a whole.

use std::borrow::Cow;
use std::fmt::Write as _;

use latebound_model::{Activation, Context, Loss, Nanos, Task, Throughput};

/// A thread with its priority, in short: `dd/812 nice 0`.
pub(crate) fn thread_text(task: Option<&Task>) -> String {
    match task {
        Some(task) if task.is_idle() => "idle".to_owned(),
        Some(task) => {
            format!("{}{} {}", task.comm, id_text(task), task.priority_text()).trim_end().to_owned()
        }
        None => "–".to_owned(),
    }
}

/// Who asked for an activation, and from where: `idle, in a softirq`.
pub(crate) fn requester_text(activation: &Activation) -> String {
    let context = match activation.requester_context {
        Some(Context::Softirq) => ", in a softirq",
        Some(Context::HardIrq) => ", in an interrupt",
        Some(Context::Nmi) => ", in an NMI",
        Some(Context::Task) | None => "",
    };
    format!("{}{context}", thread_text(activation.requester.as_ref()))
}

/// The text with every character that could steer a terminal or turn the reading direction written out (`\x1b`,
/// `\u{202e}`), so that a thread's name cannot move the cursor, recolour or reorder what stands around it. For a piece of a
/// line: a line break is written out too.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    text.chars().for_each(|c| push_printable(&mut shown, c));
    Cow::Owned(shown)
}

/// A whole text for a stream: as [`printable`], but lines stay lines, and where `color` is allowed, so do the escape sequences that
/// [`crate::terminal`] and the help write (bold, faint, underlined, a foreground colour, and back; ECMA-48, 8.3.117). It stands behind
/// [`printable`] at every name, for what came into the text by another way.
pub fn printable_lines(text: &str, color: bool) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\n' && steers(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let tone = if color { tone_sequence(rest) } else { "" };
        let taken = match (c, tone) {
            ('\n', _) => {
                shown.push(c);
                1
            }
            (c, "") => {
                push_printable(&mut shown, c);
                c.len_utf8()
            }
            (_, tone) => {
                shown.push_str(tone);
                tone.len()
            }
        };
        rest = &rest[taken..];
    }
    Cow::Owned(shown)
}

/// The sequence for a tone of text at the beginning of a text; nothing where it begins with anything else.
fn tone_sequence(text: &str) -> &str {
    let Some(body) = text.strip_prefix("\x1b[") else { return "" };
    let Some(end) = body.find('m') else { return "" };
    let is_tone = |number: &str| matches!(number, "" | "0" | "1" | "2" | "4" | "39") || is_foreground(number);
    if body[..end].split(';').all(is_tone) { &text[.."\x1b[".len() + end + 1] } else { "" }
}

/// 30 to 37, and their bright forms 90 to 97.
fn is_foreground(number: &str) -> bool {
    matches!(number.as_bytes(), [b'3' | b'9', b'0'..=b'7'])
}

/// A command line as it can be pasted into a shell: words with anything unusual in them are quoted.
pub fn shell_words(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    let quoted: Vec<String> = words
        .iter()
        .map(|word| {
            if !word.is_empty() && word.chars().all(plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        })
        .collect();
    quoted.join(" ")
}

/// An error with its causes as one sentence, from the outermost in, without those that an outer one already quotes.
pub fn sentence(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).fold(String::new(), |mut said, cause| {
        if !said.contains(&cause) {
            if !said.is_empty() {
                said.push_str(": ");
            }
            said.push_str(&cause);
        }
        said
    })
}

/// JSON text with such characters as escapes of JSON (RFC 8259, section 7): the same value to a reader, and safe on a terminal. They
/// stand in strings alone; line breaks are the layout's.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let escapes = |c: char| c != '\n' && steers(c);
    if !json.chars().any(escapes) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 8);
    json.chars().for_each(|c| if escapes(c) { push_json_escape(&mut shown, c) } else { shown.push(c) });
    Cow::Owned(shown)
}

fn push_json_escape(shown: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a String cannot fail.
        let _ = write!(shown, "\\u{unit:04x}");
    }
}

fn push_printable(shown: &mut String, c: char) {
    // Writing to a String cannot fail.
    let _ = match c {
        c if !steers(c) => shown.write_char(c),
        c if c.is_ascii() => write!(shown, "\\x{:02x}", u32::from(c)),
        c => write!(shown, "\\u{{{:x}}}", u32::from(c)),
    };
}

/// Control characters (Unicode Cc: C0, DEL and C1), line and paragraph separators, and the bidirectional and invisible format
/// characters that trojan-source attacks use (CVE-2021-42574; Unicode Standard Annex 9, tables 1 and 2; tag characters).
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
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

/// How much was done in a second; `None` where that was in no time at all.
pub(crate) fn per_second(throughput: &Throughput) -> Option<u128> {
    (u128::from(throughput.done) * 1_000_000_000).checked_div(throughput.duration.0.into())
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
        (_, true) if task.tid.0 < 0 => name.to_owned(),
        (_, true) => format!("{name} (tid {})", task.tid),
        (_, false) => format!("{name} (tid {}, {priority})", task.tid),
    }
}

/// `/123`; nothing where the id is not on record.
fn id_text(task: &Task) -> String {
    if task.tid.0 < 0 { String::new() } else { format!("/{}", task.tid) }
}

/// A thread as `name/123`, printable.
pub(crate) fn name_id_text(task: &Task) -> String {
    let name = if task.comm.is_empty() { "?".into() } else { printable(&task.comm) };
    format!("{name}{}", id_text(task))
}

/// A thread as `name/123 (FIFO 80)`, printable.
pub(crate) fn who_text(task: &Task) -> String {
    with_priority(name_id_text(task), task)
}

/// A thread as `name (FIFO 80)`, printable.
pub(crate) fn name_text(task: &Task) -> String {
    let name = if task.comm.is_empty() { "?".into() } else { printable(&task.comm) };
    with_priority(name.into_owned(), task)
}

/// [`Task::priority_text`] of a task that a foreign file may hold.
pub(crate) fn priority_text(task: &Task) -> String {
    task.priority_text_checked()
}

fn with_priority(name: String, task: &Task) -> String {
    let priority = task.priority_text_checked();
    match (task.is_idle(), priority.is_empty()) {
        (true, _) => "idle task".to_owned(),
        (_, true) if task.tid.0 < 0 => name.to_owned(),
        (_, true) => name,
        (_, false) => format!("{name} ({priority})"),
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
            c if steers(c) => push_json_escape(&mut out, c),
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
    fn a_command_line_can_be_pasted_back() {
        let words = ["latebound", "check", "--load", "sh -c 'x'", ""].map(str::to_owned);
        assert_eq!(shell_words(&words), r"latebound check --load 'sh -c '\''x'\''' ''");
    }

    #[test]
    fn characters_that_steer_a_terminal_are_written_out() {
        assert_eq!(printable("a\u{1b}[31mb\n\u{202e}ü"), "a\\x1b[31mb\\x0a\\u{202e}ü");
        assert!(matches!(printable("kworker/1:2"), Cow::Borrowed(_)));
    }

    /// One of each class, and both ends of each range.
    const STEERING: &str = "\0\u{7}\t\r\u{1b}\u{1f}\u{7f}\u{80}\u{85}\u{9b}\u{9f}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\
        \u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{206f}\u{feff}\u{fff9}\u{e0001}\u{e007f}";

    #[test]
    fn no_class_of_steering_characters_comes_through_anywhere() {
        for c in STEERING.chars() {
            let text = format!("a{c}b");
            let code = u32::from(c);
            let name = if c.is_ascii() { format!("a\\x{code:02x}b") } else { format!("a\\u{{{code:x}}}b") };
            assert_eq!(printable(&text), name);
            assert_eq!(printable_lines(&text, false), name);
            assert_eq!(printable_lines(&text, true), name);
            let json = serde_json::to_string(&[&text]).unwrap();
            let shown = printable_json(&json);
            assert!(!shown.chars().any(steers), "{shown}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&shown).unwrap()[0], text);
            assert_eq!(serde_json::from_str::<String>(&json_string(&text)).unwrap(), text);
            assert!(!json_string(&text).chars().any(steers), "{text:?}");
        }
        assert_eq!(printable_lines("one\ntwo", false), "one\ntwo");
        assert_eq!(printable_json("[\n  1\n]"), "[\n  1\n]");
    }

    #[test]
    fn colours_stay_where_they_are_allowed_and_nothing_else_of_escapes_does() {
        let text = "\x1b[1;31mred\x1b[0m \x1b[m";
        assert_eq!(printable_lines(text, true), text);
        assert_eq!(printable_lines("\x1b[2mx", false), "\\x1b[2mx");
        // Conceal, a background, the cursor, the title; a sequence that does not end.
        for hidden in ["\x1b[8m", "\x1b[41m", "\x1b[38;5;1m", "\x1b[2Jm", "\x1b]0;m\u{7}", "\x1b[1"] {
            assert!(!printable_lines(hidden, true).contains('\x1b'), "{hidden:?}");
        }
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
