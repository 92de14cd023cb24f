// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of `rtla timerlat hist` and `rtla osnoise hist` (Linux 6.1 to 6.18, tools/tracing/rtla/src/timerlat_hist.c and
//! osnoise_hist.c): a column for each CPU and context, a row for each bucket, then `over:`, `count:`, `min:`, `avg:`, `max:`.

use latebound_model::{Mechanism, Nanos, Quantity, Run};

use crate::ImportError;
use crate::build::{self, Counted, Of};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Timerlat,
    Osnoise,
}

/// The contexts of timerlat: its timer's interrupt, its kernel thread, its thread in user space (`-u`).
fn of(tool: Tool, context: &str) -> Option<Of<'static>> {
    let timer =
        |mechanism, subject| Of { tool: "rtla", mechanism, quantity: Quantity::LatencyNaive, subject };
    match (tool, context) {
        (Tool::Timerlat, "IRQ") => Some(timer(Mechanism::Hrtimer, "timerlat interrupt")),
        (Tool::Timerlat, "Thr") => Some(timer(Mechanism::TimerWakeup, "timerlat thread")),
        (Tool::Timerlat, "Usr") => Some(timer(Mechanism::TimerWakeup, "timerlat user thread")),
        (Tool::Osnoise, "CPU") => Some(Of {
            tool: "rtla",
            mechanism: Mechanism::Operation,
            quantity: Quantity::Execution,
            subject: "osnoise noise",
        }),
        _ => None,
    }
}

pub(crate) fn import(text: &str, tool: Tool) -> Result<Run, ImportError> {
    let name = if tool == Tool::Timerlat { "rtla timerlat hist" } else { "rtla osnoise hist" };
    let malformed = |what: String| ImportError::Malformed { tool: name, what };
    let mut run = build::run("rtla", "", name);
    let mut unit = 1000.0;
    let mut columns: Vec<(Of<'static>, Counted)> = Vec::new();
    let mut counts: Vec<u64> = Vec::new();
    // The lines of the summary that were there.
    let mut summary: Vec<&str> = Vec::new();
    let mut row = 0u64;
    let mut rows = 0u32;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("ALL:") {
            // What follows sums up what was read already.
            break;
        }
        if line.starts_with("# Time unit is nanoseconds") {
            unit = 1.0;
        } else if let Some(duration) = line.strip_prefix("# Duration:") {
            run.duration = duration_of(duration);
        } else if let Some(heads) = line.strip_prefix("Index") {
            columns = heads
                .split_whitespace()
                .map(|head| {
                    let (context, cpu) = head.split_once('-')?;
                    let cpu = cpu.parse().ok()?;
                    Some((of(tool, context)?, Counted { cpu: Some(cpu), ..Counted::default() }))
                })
                .collect::<Option<_>>()
                .ok_or_else(|| malformed(format!("line {} names a column that is not known", number + 1)))?;
        } else if !columns.is_empty() && !line.starts_with('#') {
            let mut words = line.split_whitespace();
            let Some(head) = words.next() else { continue };
            let values: Vec<Option<f64>> =
                words.map(|word| word.parse::<f64>().ok().filter(|value| value.is_finite())).collect();
            let whole = |value: Option<f64>| value.unwrap_or(0.0).clamp(0.0, build::MOST as f64) as u64;
            let each = || values.iter().copied();
            if let Some(known) = ["over:", "count:", "max:"].iter().find(|known| **known == head) {
                summary.push(known);
            }
            match head {
                "over:" => columns.iter_mut().zip(each()).for_each(|((_, c), v)| c.above = whole(v)),
                "count:" => counts = each().map(whole).collect(),
                "max:" => columns
                    .iter_mut()
                    .zip(each())
                    .for_each(|((_, c), v)| c.max = v.map(|v| build::micros(v * unit / 1000.0))),
                head => {
                    let Ok(value) = head.parse::<f64>() else { continue };
                    row = gcd(row, value as u64);
                    rows += 1;
                    for ((_, counted), count) in columns.iter_mut().zip(each()) {
                        if whole(count) > 0 {
                            counted.buckets.push((build::micros(value * unit / 1000.0), whole(count)));
                        }
                    }
                }
            }
        }
    }
    if columns.is_empty() {
        return Err(malformed("no CPU has any value".to_owned()));
    }
    if let Some(line) = ["over:", "count:", "max:"].iter().find(|line| !summary.contains(line)) {
        return Err(malformed(format!(
            "the line \"{line}\" is missing, so that nobody knows what lay above the last bucket: run it without --no-summary, or copy the whole file"
        )));
    }
    for (at, (of, counted)) in columns.iter_mut().enumerate() {
        let total = counts.get(at).copied();
        let total = total.ok_or_else(|| malformed(format!("column {} has no count", at + 1)))?;
        if total == 0 {
            // A CPU that measured nothing has a maximum of nothing.
            counted.max = None;
        }
        // With buckets wider than a unit the greatest value may lie anywhere in its own.
        let max = counted.max;
        counted.max = None;
        counted.check(Some(total)).map_err(malformed)?;
        counted.max = max;
        build::add(&mut run, *of, counted);
    }
    if rows > 2 && row > 1 {
        build::note(
            &mut run,
            &format!("times below {row} of its units"),
            &format!(
                "rtla was given buckets that are {row} wide; every value counts at the lower edge of its bucket"
            ),
            "run it with --bucket-size 1",
        );
    }
    build::note_end(&mut run, text);
    if tool == Tool::Timerlat {
        build::note_omission(&mut run);
    }
    build::note_microseconds(&mut run);
    Ok(run)
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `   0 00:01:30`: days, then hours, minutes and seconds.
fn duration_of(text: &str) -> Nanos {
    let mut words = text.split_whitespace();
    let days: u64 = words.next().and_then(|days| days.parse().ok()).unwrap_or(0);
    let seconds = words
        .next()
        .unwrap_or_default()
        .split(':')
        .fold(0u64, |sum, part| sum.saturating_mul(60).saturating_add(part.parse::<u64>().unwrap_or(0)));
    let all = days.saturating_mul(86_400).saturating_add(seconds);
    Nanos(all.saturating_mul(1_000_000_000).min(build::MOST))
}
