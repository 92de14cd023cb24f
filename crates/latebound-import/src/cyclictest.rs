// SPDX-License-Identifier: MIT OR Apache-2.0
//! cyclictest's text (rt-tests 2.4, src/cyclictest/cyclictest.c: `print_stat`, `print_hist`): lines of each thread, values
//! one by one (`-v`), or a histogram (`-h`), with its summary and the count of what lay above it.

use std::collections::BTreeMap;

use latebound_model::{Mechanism, Nanos, Quantity, Run};

use crate::ImportError;
use crate::build::{self, Counted, Of};

/// What a thread's lines say.
#[derive(Clone, Debug, Default)]
struct Thread {
    counted: Counted,
    /// Whether the histogram's line of overflows was there.
    overflows: bool,
    /// `C:` of its last line, or the histogram's total.
    cycles: Option<u64>,
    interval: Option<u64>,
}

/// More threads than this has no machine.
const MOST_THREADS: usize = 1 << 14;

pub(crate) fn import(text: &str) -> Result<Run, ImportError> {
    let malformed = |what: String| ImportError::Malformed { tool: "cyclictest", what };
    let mut threads: BTreeMap<usize, Thread> = BTreeMap::new();
    let mut histogram = false;
    let mut rows = false;
    // How many threads the histogram has: with -H its rows have one column more, of all threads together, which only the line of
    // the least latencies has not.
    let columns = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("# Min Latencies:"))
        .map_or(MOST_THREADS, |values| values.split_whitespace().count());
    let mut command = "";
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(words) = line.strip_prefix("# ").filter(|rest| rest.starts_with("cyclictest ")) {
            command = words;
        }
        if let Some(rest) = line.strip_prefix("T:") {
            thread_line(rest, &mut threads)
                .ok_or_else(|| malformed(format!("line {} is cut off", number + 1)))?;
        } else if let Some((name, values)) = line.strip_prefix("# ").and_then(|rest| rest.split_once(':')) {
            let values = values.split_whitespace().map(str::parse::<u64>);
            for (at, value) in values.enumerate().take(columns) {
                let Ok(value) = value else { break };
                match name {
                    "Total" => {
                        threads.entry(at).or_default().cycles = Some(value);
                        histogram = true;
                    }
                    "Max Latencies" => threads.entry(at).or_default().counted.max = Some(micros(value)),
                    "Histogram Overflows" => {
                        let thread = threads.entry(at).or_default();
                        (thread.counted.above, thread.overflows) = (value, true);
                    }
                    _ => break,
                }
            }
        } else if let Some(verbose) = verbose_line(line) {
            let (at, value) = verbose;
            if threads.len() < MOST_THREADS {
                threads.entry(at).or_default().counted.buckets.push((micros(value), 1));
            }
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u64>().ok());
            let Some(value) = numbers.next() else { continue };
            for (at, count) in numbers.enumerate().take(columns) {
                rows = true;
                if count > 0 {
                    threads.entry(at).or_default().counted.buckets.push((micros(value), count));
                }
            }
        }
    }
    threads.retain(|_, thread| thread.cycles.is_some() || !thread.counted.buckets.is_empty());
    if threads.is_empty() {
        return Err(malformed("no thread has any cycle".to_owned()));
    }
    if rows && !histogram {
        return Err(malformed("the histogram has no line \"# Total:\"; was it cut off?".to_owned()));
    }
    let mut run = build::run("cyclictest", "", command);
    if let Some(thread) = threads.values().find(|thread| thread.interval.is_some()) {
        let time =
            thread.interval.unwrap_or(0).saturating_mul(1000).saturating_mul(thread.cycles.unwrap_or(0));
        run.duration = Nanos(time.min(build::MOST));
    }
    for (at, thread) in &mut threads {
        let seen = thread.counted.buckets.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        if !histogram && seen == 0 {
            build::note(
                &mut run,
                "the distribution",
                "cyclictest was run without a histogram and printed only its extremes and mean",
                "run it with -h 400, or with --json",
            );
        } else if histogram {
            // The total is of the buckets alone (`log_entries`), so it is held against these.
            let name = format!("thread {at}");
            let max = thread
                .counted
                .max
                .ok_or_else(|| malformed(format!("{name} has no maximum; was it cut off?")))?;
            let greatest = thread.counted.buckets.iter().map(|(value, _)| *value).max();
            if !thread.overflows {
                return Err(malformed(format!("{name} has no count of overflows; was it cut off?")));
            }
            if thread.counted.above == 0 && seen == 0 {
                thread.counted.max = None;
            }
            let total = thread.cycles.unwrap_or(seen).saturating_add(thread.counted.above);
            thread.counted.check(Some(total)).map_err(|what| malformed(format!("{name}: {what}")))?;
            if thread.counted.above == 0 && greatest.is_some_and(|greatest| max > greatest) {
                return Err(malformed(format!("{name} has a value above its buckets and no overflow")));
            }
        }
        let cpu = u32::try_from(*at).ok();
        build::add(
            &mut run,
            Of {
                tool: "cyclictest",
                mechanism: Mechanism::TimerWakeup,
                quantity: Quantity::LatencyNaive,
                subject: "measure",
            },
            // cyclictest's text names threads, not CPUs.
            &Counted { cpu, ..thread.counted.clone() },
        );
    }
    build::note(
        &mut run,
        "which CPU each thread ran on",
        "cyclictest's text numbers its threads; they are taken for the CPUs of the same number",
        "run it with --json, which names them",
    );
    build::note(
        &mut run,
        "the unit of the times",
        "cyclictest's text does not say whether it was run with -N (nanoseconds); they are taken for microseconds",
        "run it with --json, which says it",
    );
    build::note_omission(&mut run);
    build::note_microseconds(&mut run);
    build::note_end(&mut run, text);
    Ok(run)
}

fn micros(value: u64) -> u64 {
    value.saturating_mul(1000)
}

/// ` 0 (27737) P:95 I:1000 C:   3000 Min:     15 Act:   38 Avg:   34 Max:     794`.
fn thread_line(rest: &str, threads: &mut BTreeMap<usize, Thread>) -> Option<()> {
    let at: usize = rest.split_whitespace().next()?.parse().ok().filter(|at| *at < MOST_THREADS)?;
    let after = |key: &str| -> Option<u64> {
        let (_, value) = rest.split_once(key)?;
        value.split_whitespace().next()?.parse().ok()
    };
    let (cycles, max) = (after("C:")?, after("Max:")?);
    let thread = threads.entry(at).or_default();
    // The same thread is printed again and again; the last line counts. A thread that never ran has no maximum.
    thread.interval = after("I:");
    thread.cycles = Some(cycles).filter(|cycles| *cycles > 0);
    thread.counted.max = Some(micros(max)).filter(|_| cycles > 0);
    Some(())
}

/// `       0:       0:      32`: thread, cycle, value.
fn verbose_line(line: &str) -> Option<(usize, u64)> {
    let mut parts = line.split(':').map(str::trim);
    let at: usize = parts.next()?.parse().ok().filter(|at| *at < MOST_THREADS)?;
    let _cycle: u64 = parts.next()?.parse().ok()?;
    let value: u64 = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some((at, value))
}

/// Whether a line is one value of `-v`.
pub(crate) fn is_value(line: &str) -> bool {
    verbose_line(line.trim()).is_some()
}
