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
    /// Whether the system stands before the name, as perf alone writes it.
    pub(super) of_perf: bool,
    pub(super) args: &'a str,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineContent<'a> {
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
    /// An entry of the buffer that is no event, such as the first line of a stack.
    Entry,
    /// A comment, a line of a stack, an empty line.
    Nothing,
}

/// Reads a line; `None` for one that is not of this kind of text.
pub(super) fn read(text: &str) -> Option<LineContent<'_>> {
    let trimmed = text.trim();
    if let Some(comment) = trimmed.strip_prefix('#') {
        let head = comment.trim().strip_prefix("entries-in-buffer/entries-written:");
        let Some((held, written)) = head.and_then(|head| head.trim().split_once('/')) else {
            return Some(LineContent::Nothing);
        };
        let written = written.split_whitespace().next().unwrap_or_default();
        return Some(match (held.trim().parse(), written.parse()) {
            (Ok(held), Ok(written)) => LineContent::BufferHead { held, written },
            _ => LineContent::Nothing,
        });
    }
    if trimmed.is_empty() || trimmed.starts_with("=>") || is_stack(trimmed) {
        return Some(LineContent::Nothing);
    }
    if let Some(count) = trimmed.strip_prefix("cpus=") {
        return count.parse::<u32>().ok().map(|_| LineContent::Nothing);
    }
    if let Some(lost) = lost(trimmed) {
        return Some(lost);
    }
    // A name may hold anything, a bracket and a number too: the first bracket that the rest fits behind counts.
    let brackets = trimmed.match_indices(" [").map(|(at, _)| at);
    let bracketed = brackets.take(8).find_map(|at| event(&trimmed[..at], &trimmed[at + 2..]));
    match bracketed.or_else(|| latency(trimmed)) {
        Some(line) if line.name == STACK => Some(LineContent::Entry),
        line => line.map(LineContent::Event),
    }
}

/// What stands for the name of an event where a stack begins (`trace_stack_print`, `trace_user_stack_print`,
/// kernel/trace/trace_output.c, 6.12).
const STACK: &str = "<stack trace>";

/// `ffffffff8100 schedule+0x38 ([kernel.kallsyms])`: a frame as perf script writes it.
fn is_stack(text: &str) -> bool {
    text.ends_with(')')
        && text.split(' ').next().is_some_and(|word| word.len() >= 6 && u64::from_str_radix(word, 16).is_ok())
}

fn lost(text: &str) -> Option<LineContent<'_>> {
    let (cpu, rest) = text.strip_prefix("CPU:")?.split_once(' ')?;
    let cpu = Cpu(cpu.parse().ok()?);
    let inside = rest.trim().strip_prefix('[')?.strip_suffix(']')?;
    inside.contains("EVENTS").then_some(())?;
    let events = inside.split_whitespace().find_map(|word| word.parse().ok());
    Some(LineContent::Lost { cpu, events })
}

fn event<'a>(before: &'a str, behind: &'a str) -> Option<Line<'a>> {
    let (cpu, rest) = behind.split_once(']')?;
    let cpu = Cpu(cpu.parse().ok()?);
    let rest = rest.trim_start();
    // Up to the time there may be the state column; perf and trace-cmd 3.1 have none.
    let (word, tail) = rest.split_once(char::is_whitespace)?;
    if word.ends_with(':') {
        return timed(tid(before)?, cpu, None, rest);
    }
    timed(tid(before)?, cpu, Some(state(word)?), tail.trim_start())
}

/// A line of `trace-cmd report -l`: `hackbenc-108     1dNh2.  8.054101: sched_wakeup: …`. The CPU and its state are one word,
/// and a time of six digits and more, or in ticks, follows without a blank (`tep_print_event`, libtraceevent 1.7).
fn latency(text: &str) -> Option<Line<'_>> {
    /// Interrupts, need-resched, context, preemption depth, migration depth: what kernels since 5.13 have.
    const STATE: usize = 5;
    // A name may hold a dash and a number too.
    text.match_indices('-').take(8).find_map(|(at, _)| {
        let (tid, rest) = text[at + 1..].split_once(' ')?;
        let (tid, rest) = (number(tid)?, rest.trim_start());
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (cpu, rest) = rest.split_at(digits);
        let (word, tail) = rest.split_once(char::is_whitespace)?;
        let (flags, rest) =
            if word.ends_with(':') { rest.split_at_checked(STATE)? } else { (word, tail.trim_start()) };
        timed(tid, Cpu(number(cpu)?), Some(state(flags)?), rest)
    })
}

/// A number of nothing but digits.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The time and what follows it: `8.053689: sched_switch: …`.
fn timed<'a>(tid: i32, cpu: Cpu, flags: Option<(Flags, u8)>, rest: &'a str) -> Option<Line<'a>> {
    let (word, tail) = rest.split_once(char::is_whitespace)?;
    let (time, ticks) = time(word.strip_suffix(':')?)?;
    let tail = tail.trim();
    if tail == STACK {
        return Some(Line { tid, cpu, flags, time, ticks, name: STACK, of_perf: false, args: "" });
    }
    let (name, args) = match tail.split_once(": ") {
        Some((name, args)) => (name, args.trim()),
        None => (tail.strip_suffix(':')?, ""),
    };
    // perf puts the system before: sched:sched_switch.
    let (name, of_perf) = name.rsplit_once(':').map_or((name, false), |(_, name)| (name, true));
    if name.is_empty() || name.contains(char::is_whitespace) {
        return None;
    }
    Some(Line { tid, cpu, flags, time, ticks, name, of_perf, args })
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
            Some(LineContent::Event(line)) => line,
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
            assert_eq!((line.flags.is_some(), line.of_perf), (flags, text == perf), "{text}");
            if let Some((flags, depth)) = line.flags {
                assert!(flags.irqs_off() && flags.need_resched() && flags.hardirq() && !flags.softirq());
                assert_eq!(depth, 2);
            }
        }
        assert_eq!(event_of("x-1 [000]4202909176520: counter: a=1").ticks, 4_202_909_176_520);
        assert_eq!(event_of("x-1 [000]4202909176520: counter: a=1").time, None);
    }

    #[test]
    fn lines_with_latencies_say_what_the_others_say() {
        for (text, tid, cpu, time) in [
            (
                "hackbenc-108     1dNh2.     8.054101: sched_wakeup:         a:112 [4] CPU:001",
                108,
                1,
                8_054_101_000,
            ),
            (
                "inst:   a-1 2-108     1dNh2.123456.7: sched_wakeup:  a:112 [4] CPU:001",
                108,
                1,
                123_456_700_000_000,
            ),
            (
                "  <idle>-0     128dNh2.  1619.241136013: sched_wakeup: a:112 [4] CPU:001",
                0,
                128,
                1_619_241_136_013,
            ),
        ] {
            let line = event_of(text);
            assert_eq!((line.tid, line.cpu, line.time), (tid, Cpu(cpu), Some(time)), "{text}");
            assert_eq!((line.name, line.args), ("sched_wakeup", "a:112 [4] CPU:001"), "{text}");
            let (flags, depth) = line.flags.unwrap();
            assert!(flags.irqs_off() && flags.need_resched() && flags.hardirq() && depth == 2, "{text}");
        }
        let ticks =
            event_of("inst:     bash-24717   1d.h..4202909176520: softirq_raise:        vec=9 [action=RCU]");
        assert_eq!(
            (ticks.time, ticks.ticks, ticks.flags.map(|flags| flags.1)),
            (None, 4_202_909_176_520, Some(0))
        );
        assert_eq!(event_of("a-1 0...11 8.0: x: y").flags.map(|flags| flags.1), Some(0x11));
        for damage in
            ["a-1 0..q.. 8.0: x: y", "a-x 0..... 8.0: x: y", "a-1 0..... eight: x: y", "a-1 0.....8:"]
        {
            assert_eq!(read(damage), None, "{damage}");
        }
    }

    #[test]
    fn the_head_of_a_stack_is_an_entry_and_no_event() {
        assert_eq!(read(" <idle>-0 [000] d..2. 1619.241136: <stack trace>"), Some(LineContent::Entry));
        assert_eq!(read(" => schedule"), Some(LineContent::Nothing));
    }

    #[test]
    fn losses_and_comments_are_told_from_damage() {
        assert_eq!(
            read("CPU:1 [97 EVENTS DROPPED]"),
            Some(LineContent::Lost { cpu: Cpu(1), events: Some(97) })
        );
        assert_eq!(read("CPU:0 [LOST 5 EVENTS]"), Some(LineContent::Lost { cpu: Cpu(0), events: Some(5) }));
        assert_eq!(read("CPU:0 [EVENTS DROPPED]"), Some(LineContent::Lost { cpu: Cpu(0), events: None }));
        assert_eq!(
            read("# entries-in-buffer/entries-written: 528/1625   #P:2"),
            Some(LineContent::BufferHead { held: 528, written: 1625 })
        );
        for nothing in ["", "# tracer: nop", "cpus=2", " => schedule", "#####  CPU 1 buffer started ####"] {
            assert_eq!(read(nothing), Some(LineContent::Nothing), "{nothing}");
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
