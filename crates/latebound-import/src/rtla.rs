// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of `rtla timerlat hist` and `rtla osnoise hist` (Linux 6.1 to 7.2, tools/tracing/rtla/src/timerlat_hist.c and
//! osnoise_hist.c): a column for each CPU and context, a row for each bucket, then `over:`, `count:`, `min:`, `avg:`, `max:`
//! and the same of all CPUs, and what ended it early. Output of 6.1 and of 7.2 was read.

use latebound_model::{Mechanism, Nanos, Quantity, Run};

use crate::build::{self, Of, ToolDistribution};
use crate::error::ImportError;
use crate::number::{At, MICROSECOND, MOST};
use crate::options;
use crate::split::Part;

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

/// The lines of the summary, in their order.
const SUMMARY: [&str; 5] = ["over:", "count:", "min:", "avg:", "max:"];

/// A column, and what it is of.
struct Column {
    of: Of<'static>,
    counted: ToolDistribution,
    count: u64,
}

pub(crate) fn import(part: Part<'_>, tool: Tool) -> Result<Run, ImportError> {
    let name = if tool == Tool::Timerlat { "rtla timerlat hist" } else { "rtla osnoise hist" };
    let malformed = |what: String| ImportError::Malformed { tool: name, what };
    let mut run = build::run("rtla", "", name);
    let mut unit = MICROSECOND;
    let mut columns: Option<Vec<Column>> = None;
    let mut titles: Vec<&str> = Vec::new();
    let (mut width, mut rows, mut last, mut done) = (0u64, 0u32, None, false);
    for (number, line) in part.lines() {
        let at = At { tool: name, line: number };
        if done || line.starts_with("ALL:") {
            // What follows sums up what was read already, and says why it ended.
            done = true;
            if line.contains("hit stop tracing") {
                build::ended_early(
                    &mut run,
                    "the time after a late wake-up",
                    "rtla was run with a threshold (-a, -i, -T, -s or -S) and ended at the first value above it",
                );
            }
            continue;
        }
        if line.starts_with("# Time unit is nanoseconds") {
            unit = 1;
        } else if let Some(duration) = line.strip_prefix("# Duration:") {
            run.duration = duration_of(at, duration)?;
        } else if let Some(heads) = line.strip_prefix("Index") {
            columns = Some(heads_of(at, tool, heads)?);
        } else if let Some(columns) = columns.as_mut().filter(|_| !line.is_empty() && !line.starts_with('#'))
        {
            let mut words = line.split_whitespace();
            let head = words.next().unwrap_or_default();
            let values: Vec<&str> = words.collect();
            // Without any column the lines of the summary have a zero each.
            if values.len() != columns.len() && !(columns.is_empty() && values == ["0"]) {
                return Err(at.malformed(&format!(
                    "it has {} values for {} columns; was it cut off? osnoise writes single zeros where all values lie above its last bucket: run it with more --entries",
                    values.len(),
                    columns.len()
                )));
            }
            if let Some(known) = SUMMARY.iter().find(|known| **known == head) {
                if titles.contains(known) {
                    return Err(at.malformed("it comes twice"));
                }
                titles.push(known);
                done = head == "max:";
                for (column, value) in columns.iter_mut().zip(values) {
                    column.put(at, known, value, unit)?;
                }
                continue;
            }
            let value = at.time(head, unit)?;
            if last.is_some_and(|last| last >= value) || !titles.is_empty() {
                return Err(
                    at.malformed("its value does not come after that of the row above; was it changed?")
                );
            }
            (width, rows, last) = (gcd(width, value), rows + 1, Some(value));
            for (column, count) in columns.iter_mut().zip(values) {
                let count = at.count(count)?;
                if count > 0 {
                    column.counted.buckets.push((value, count));
                }
            }
        }
    }
    let Some(columns) = columns else {
        return Err(malformed("no column is named: run it without --no-index and --no-header".to_owned()));
    };
    if let Some(line) = SUMMARY.iter().find(|line| !titles.contains(line)) {
        return Err(malformed(format!(
            "the line \"{line}\" is missing, so that nobody knows what lay above the last bucket: run it without --no-summary, or copy the whole file"
        )));
    }
    // With one row no width can be told; a bucket is at least a unit wide.
    let width = if rows > 2 { width.max(unit) } else { unit };
    for column in &columns {
        column.add(&mut run, last, width).map_err(malformed)?;
    }
    if columns.is_empty() {
        build::note(
            &mut run,
            "any noise",
            "rtla counted nothing above its threshold on any CPU",
            "run it with a lower --threshold, or for longer",
        );
    }
    settings(&mut run, unit, width);
    build::note_end(&mut run, part.text);
    if tool == Tool::Timerlat {
        build::note_omission(&mut run);
    }
    if unit == MICROSECOND {
        build::note_microseconds(&mut run);
    }
    Ok(run)
}

/// `Index   IRQ-000   Thr-000`.
fn heads_of(at: At, tool: Tool, heads: &str) -> Result<Vec<Column>, ImportError> {
    let column = |head: &str| -> Result<Column, ImportError> {
        let (context, cpu) = head.split_once('-').unwrap_or((head, ""));
        let cpu = cpu.parse().map_err(|_| at.bad(head, "not a column that is known"))?;
        let of = of(tool, context).ok_or_else(|| at.bad(head, "not a column that is known"))?;
        Ok(Column {
            of,
            counted: ToolDistribution { cpu: Some(cpu), ..ToolDistribution::default() },
            count: 0,
        })
    };
    heads.split_whitespace().map(column).collect()
}

impl Column {
    fn put(&mut self, at: At, line: &str, value: &str, unit: u64) -> Result<(), ImportError> {
        // A context without values has "-", and the minimum one of Linux up to 6.8 all bits set.
        let none = self.count == 0 && matches!(value, "-" | "18446744073709551615" | "0");
        match line {
            "over:" => self.counted.above = at.count(value)?,
            "count:" => self.count = at.count(value)?,
            _ if none => {}
            "min:" => self.counted.min = Some(at.time(value, unit)?),
            "avg:" => self.counted.mean = Some(at.time(value, unit)?),
            _ => self.counted.max = Some(at.time(value, unit)?),
        }
        Ok(())
    }

    /// Adds it to the Run. `last` is the last row, and every row so wide.
    fn add(&self, run: &mut Run, last: Option<u64>, width: u64) -> Result<(), String> {
        let name =
            |what: String| format!("{} of CPU {}: {what}", self.of.subject, self.counted.cpu.unwrap_or(0));
        // With buckets wider than a unit the minimum value may lie anywhere in its own.
        ToolDistribution { min: None, ..self.counted.clone() }.check(Some(self.count)).map_err(name)?;
        let mut counted = self.counted.clone();
        let highest = counted.buckets.iter().map(|(value, _)| *value).max();
        if let (Some(highest), Some(max), 0) = (highest, counted.max, counted.above) {
            if max - highest >= width {
                return Err(name(format!(
                    "a value of {} lies above the last bucket that has any, and \"over:\" has none",
                    Nanos(max)
                )));
            }
            // The maximum value is exact, and one of those in the last bucket.
            if let Some(bucket) = counted.buckets.iter_mut().find(|(value, _)| *value == highest) {
                bucket.1 -= 1;
            }
            counted.buckets.push((max, 1));
        }
        // Rows of zeros are not printed, so that the last bucket may be a later one; without any row only the minimum value is known.
        counted.limit = last.map(|last| last.saturating_add(width)).or(counted.min).unwrap_or(0);
        counted.resolution = width;
        build::add(run, self.of, &counted);
        Ok(())
    }
}

fn settings(run: &mut Run, unit: u64, width: u64) {
    build::set(run, options::UNIT, if unit == MICROSECOND { "us" } else { "ns" });
    if width > unit {
        build::note(
            run,
            &format!("times below {}", Nanos(width)),
            &format!(
                "rtla was given buckets that are {} wide; every value counts at the lower edge of its bucket",
                Nanos(width)
            ),
            "run it with --bucket-size 1",
        );
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `   0 00:01:30`: days, then hours, minutes and seconds.
fn duration_of(at: At, text: &str) -> Result<Nanos, ImportError> {
    let mut words = text.split_whitespace();
    let days = at.count(words.next().unwrap_or_default())?;
    let clock = words.next().unwrap_or_default();
    let mut seconds = 0u64;
    for part in clock.split(':') {
        seconds = seconds.saturating_mul(60).saturating_add(at.count(part)?);
    }
    let all = days.saturating_mul(86_400).saturating_add(seconds);
    Ok(Nanos(all.saturating_mul(crate::number::SECOND).min(MOST)))
}
