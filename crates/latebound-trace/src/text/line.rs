// SPDX-License-Identifier: MIT OR Apache-2.0
//! One line of ftrace text: who, where, when, which event; what it says is left to `args`.

use latebound_model::Cpu;

use crate::record::Flags;

/// An event's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) tid: i32,
    pub(super) cpu: Cpu,
    /// The state of the CPU and the preemption count, where the line has the column.
    pub(super) flags: Option<(Flags, u8)>,
    /// Nanoseconds, where the time is in seconds.
    pub(super) time: Option<u64>,
    /// The bare number where it is not.
    pub(super) ticks: u64,
    pub(super) name: &'a str,
    pub(super) args: &'a str,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    Event(Line<'a>),
    /// `CPU:1 [LOST 97 EVENTS]` (tracefs), `CPU:1 [97 EVENTS DROPPED]` (trace-cmd).
    Lost {
        cpu: Cpu,
        events: Option<u64>,
    },
    /// `# entries-in-buffer/entries-written: 528/1625`.
    BufferHead {
        held: u64,
        written: u64,
    },
    /// A comment, a line of a stack, an empty line.
    Nothing,
}

/// Reads a line; `None` for one that is not of this kind of text.
pub(super) fn read(text: &str) -> Option<Said<'_>> {
    let trimmed = text.trim();
    if let Some(comment) = trimmed.strip_prefix('#') {
        let head = comment.trim().strip_prefix("entries-in-buffer/entries-written:");
        let Some((held, written)) = head.and_then(|head| head.trim().split_once('/')) else {
            return Some(Said::Nothing);
        };
        let written = written.split_whitespace().next().unwrap_or_default();
        return Some(match (held.trim().parse(), written.parse()) {
            (Ok(held), Ok(written)) => Said::BufferHead { held, written },
            _ => Said::Nothing,
        });
    }
    if trimmed.is_empty() || trimmed.starts_with("=>") || is_stack(trimmed) {
        return Some(Said::Nothing);
    }
    if let Some(count) = trimmed.strip_prefix("cpus=") {
        return count.parse::<u32>().ok().map(|_| Said::Nothing);
    }
    if let Some(lost) = lost(trimmed) {
        return Some(lost);
    }
    // A name may hold anything, a bracket and a number too: the first bracket that the rest fits behind counts.
    let brackets = trimmed.match_indices(" [").map(|(at, _)| at);
    brackets.take(8).find_map(|at| event(&trimmed[..at], &trimmed[at + 2..])).map(Said::Event)
}

/// `ffffffff8100 schedule+0x38 ([kernel.kallsyms])`: a frame as perf script writes it.
fn is_stack(text: &str) -> bool {
    text.ends_with(')')
        && text.split(' ').next().is_some_and(|word| word.len() >= 6 && u64::from_str_radix(word, 16).is_ok())
}

fn lost(text: &str) -> Option<Said<'_>> {
    let (cpu, rest) = text.strip_prefix("CPU:")?.split_once(' ')?;
    let cpu = Cpu(cpu.parse().ok()?);
    let inside = rest.trim().strip_prefix('[')?.strip_suffix(']')?;
    inside.contains("EVENTS").then_some(())?;
    let events = inside.split_whitespace().find_map(|word| word.parse().ok());
    Some(Said::Lost { cpu, events })
}

fn event<'a>(before: &'a str, behind: &'a str) -> Option<Line<'a>> {
    let (cpu, rest) = behind.split_once(']')?;
    let cpu = Cpu(cpu.parse().ok()?);
    let mut rest = rest.trim_start();
    let mut flags = None;
    // Up to the time there may be the state column; perf and trace-cmd 3.1 have none.
    let (mut word, mut tail) = rest.split_once(char::is_whitespace)?;
    if !word.ends_with(':') {
        flags = Some(state(word)?);
        rest = tail.trim_start();
        (word, tail) = rest.split_once(char::is_whitespace)?;
    }
    let (time, ticks) = time(word.strip_suffix(':')?)?;
    let tail = tail.trim_start();
    let (name, args) = match tail.split_once(": ") {
        Some((name, args)) => (name, args.trim()),
        None => (tail.trim_end().strip_suffix(':')?, ""),
    };
    // perf puts the system before: sched:sched_switch.
    let name = name.rsplit(':').next()?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return None;
    }
    Some(Line { tid: tid(before)?, cpu, flags, time, ticks, name, args })
}

/// `8.053689`, or a bare number.
fn time(text: &str) -> Option<(Option<u64>, u64)> {
    let Some((seconds, fraction)) = text.split_once('.') else {
        return Some((None, text.parse().ok()?));
    };
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let nanos = fraction.parse::<u64>().ok()? * scale;
    let time = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some((Some(time), time))
}

/// `cc1-24916`, `a b-24916   ( 24900)` (with thread groups), `perf 24964`, `perf 24960/24964`.
fn tid(before: &str) -> Option<i32> {
    let mut before = before.trim_end();
    let is_group = |group: &str| group.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match before.strip_suffix(')').and_then(|inside| inside.rsplit_once('(')) {
        Some((rest, group)) if is_group(group) => before = rest.trim_end(),
        _ => {}
    }
    let (_, digits) = before.rsplit_once(['-', ' ', '/'])?;
    digits.parse().ok()
}

/// The state column (`trace_print_lat_fmt`, kernel/trace/trace_output.c, 6.12): interrupts, need-resched, context,
/// preemption depth, migration depth.
fn state(text: &str) -> Option<(Flags, u8)> {
    let bytes = text.as_bytes();
    let [irqs, resched, context, rest @ ..] = bytes else { return None };
    if bytes.len() > 6 {
        return None;
    }
    let irqs = match irqs {
        b'd' => 0x01,
        b'D' => 0x81,
        b'b' => 0x80,
        b'.' | b'X' => 0,
        _ => return None,
    };
    // TIF_NEED_RESCHED is in N, n, B and b; p, L, l are the folded and the lazy flags without it.
    let resched = match resched {
        b'N' | b'n' | b'B' | b'b' => 0x04,
        b'p' | b'L' | b'l' | b'g' | b'.' => 0,
        _ => return None,
    };
    let context = match context {
        b'Z' => 0x48,
        b'z' => 0x40,
        b'H' => 0x18,
        b'h' => 0x08,
        b's' => 0x10,
        b'.' => 0,
        _ => return None,
    };
    let mut depths = rest.iter().map(|&digit| match digit {
        b'.' => Some(0),
        _ => (digit as char).to_digit(16).map(|value| value as u8),
    });
    let preempt = depths.next().unwrap_or(Some(0))?;
    let migrate = depths.next().unwrap_or(Some(0))?;
    Some((Flags(irqs | resched | context), migrate << 4 | preempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_of(text: &str) -> Line<'_> {
        match read(text) {
            Some(Said::Event(line)) => line,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn lines_of_the_three_dialects_say_the_same() {
        let tracefs = "   a b-c [1] d-24916   [001] dNh2.  1619.244024: softirq_entry: vec=7 [action=SCHED]";
        let grouped =
            "   a b-c-24916   (  24900) [001] dNh2.  1619.244024: softirq_entry: vec=7 [action=SCHED]";
        let trace_cmd =
            "inst:     cc1-24916 [001]  1619.244024000: softirq_entry:        vec=7 [action=SCHED]";
        let perf = "            perf 24900/24916 [001]  1619.244024: irq:softirq_entry: vec=7 [action=SCHED]";
        for (text, flags) in [(tracefs, true), (grouped, true), (trace_cmd, false), (perf, false)] {
            let line = event_of(text);
            assert_eq!((line.tid, line.cpu, line.time), (24916, Cpu(1), Some(1_619_244_024_000)), "{text}");
            assert_eq!((line.name, line.args), ("softirq_entry", "vec=7 [action=SCHED]"), "{text}");
            assert_eq!(line.flags.is_some(), flags, "{text}");
            if let Some((flags, depth)) = line.flags {
                assert!(flags.irqs_off() && flags.need_resched() && flags.hardirq() && !flags.softirq());
                assert_eq!(depth, 2);
            }
        }
        assert_eq!(event_of("x-1 [000]4202909176520: counter: a=1").ticks, 4_202_909_176_520);
        assert_eq!(event_of("x-1 [000]4202909176520: counter: a=1").time, None);
    }

    #[test]
    fn losses_and_comments_are_told_from_damage() {
        assert_eq!(read("CPU:1 [97 EVENTS DROPPED]"), Some(Said::Lost { cpu: Cpu(1), events: Some(97) }));
        assert_eq!(read("CPU:0 [LOST 5 EVENTS]"), Some(Said::Lost { cpu: Cpu(0), events: Some(5) }));
        assert_eq!(read("CPU:0 [EVENTS DROPPED]"), Some(Said::Lost { cpu: Cpu(0), events: None }));
        assert_eq!(
            read("# entries-in-buffer/entries-written: 528/1625   #P:2"),
            Some(Said::BufferHead { held: 528, written: 1625 })
        );
        for nothing in ["", "# tracer: nop", "cpus=2", " => schedule", "#####  CPU 1 buffer started ####"] {
            assert_eq!(read(nothing), Some(Said::Nothing), "{nothing}");
        }
        for damage in [
            "hello",
            "x-1 [000] 12.3",
            "x-1 [000] ?? 12.3: a: b",
            "x-y [000] 12.3: a: b",
            "x-1 [0] 1.2.3: a: b",
        ] {
            assert_eq!(read(damage), None, "{damage}");
        }
    }
}
