// SPDX-License-Identifier: MIT OR Apache-2.0
//! cyclictest's text (rt-tests 2.4, src/cyclictest/cyclictest.c: `print_stat`, `print_hist`): lines of each thread, values
//! one by one (`-v`), or a histogram (`-h`), with its summary and the count of what lay above it. signaltest and
//! cyclicdeadline print the same lines of threads, the one without a period, the other without a priority.

pub(crate) mod line;

use std::collections::BTreeMap;

use latebound_model::{Mechanism, Nanos, Quantity, Run};

use crate::build::{self, Of, ToolDistribution};
use crate::error::ImportError;
use crate::number::{At, MICROSECOND, MOST};
use crate::options;
use crate::split::Part;

use line::{MOST_THREADS, ThreadLine, verbose_line};

/// cyclictest's wake-ups.
pub(crate) const OF: Of<'static> = Of {
    tool: "cyclictest",
    mechanism: Mechanism::TimerWakeup,
    quantity: Quantity::LatencyNaive,
    subject: "measure",
};
/// cyclicdeadline's, whose threads are of the policy SCHED_DEADLINE.
pub(crate) const OF_DEADLINE: Of<'static> = Of { tool: "cyclicdeadline", subject: "cyclicdeadline", ..OF };
/// signaltest's: a signal goes once around all threads.
pub(crate) const OF_SIGNAL: Of<'static> = Of {
    tool: "signaltest",
    mechanism: Mechanism::ThreadWakeup,
    quantity: Quantity::LatencyNaive,
    subject: "signaltest round",
};

/// What a thread's lines say.
#[derive(Clone, Debug, Default)]
struct Thread {
    counted: ToolDistribution,
    /// Whether the histogram's line of overflows was there.
    overflows: bool,
    /// The histogram's total.
    total: Option<u64>,
    /// Of its last line.
    cycles: Option<u64>,
    interval: Option<u64>,
    priority: Option<u64>,
    /// Of its values one by one: the number of the last.
    last: Option<u64>,
    /// The minimum and the maximum value of its last line.
    line: Option<(u64, u64)>,
}

pub(crate) fn import(part: Part<'_>) -> Result<Run, ImportError> {
    let text = Text::read(part)?;
    let tool = text.of.tool;
    let malformed = |what: String| ImportError::Malformed { tool, what };
    let mut threads = text.threads;
    threads.retain(|_, thread| {
        thread.total.is_some() || thread.cycles.is_some_and(|cycles| cycles > 0) || thread.last.is_some()
    });
    if threads.is_empty() {
        return Err(malformed("no thread has any cycle".to_owned()));
    }
    let mut run = build::run(tool, "", text.command);
    run.settings = text.settings;
    of_threads(&mut run, &threads);
    for (at, thread) in &mut threads {
        let name = format!("thread {at}");
        let counted = &mut thread.counted;
        counted.resolution = text.unit;
        counted.cpu = u32::try_from(*at).ok().filter(|_| tool == OF.tool);
        if let Some(total) = thread.total {
            // The total is of the buckets alone (`log_entries`), so it is held against these.
            // Without the line of the minimum values a column of all threads together (-H) looks like one more thread.
            if counted.min.is_none() || counted.max.is_none() || !thread.overflows {
                let what = match (counted.min, counted.max) {
                    (None, _) => "minimum",
                    (_, None) => "maximum",
                    _ => "count of overflows",
                };
                return Err(malformed(format!("{name} has no {what}; was it cut off?")));
            }
            counted.limit = text.limit.unwrap_or(0);
            if total == 0 && counted.above == 0 {
                (counted.min, counted.mean, counted.max) = (None, None, None);
            }
            let all = total.saturating_add(counted.above);
            // The lines of a screen are of the time until shortly before the histogram.
            let beyond = |(min, max): (u64, u64)| {
                counted.min.is_some_and(|m| min < m) || counted.max.is_some_and(|m| max > m)
            };
            if thread.cycles.is_some_and(|cycles| cycles > all) || thread.line.is_some_and(beyond) {
                return Err(malformed(format!(
                    "{name} has values in its lines that its histogram has not: these are two results, import them apart"
                )));
            }
            counted.check(Some(all)).map_err(|what| malformed(format!("{name}: {what}")))?;
            let greatest = counted.buckets.iter().map(|(value, _)| *value).max();
            if counted.above == 0 && greatest.is_some() && greatest != counted.max {
                return Err(malformed(format!("{name} has a value above its buckets and no overflow")));
            }
            let lowest = counted.buckets.iter().map(|(value, _)| *value).min();
            if counted.min.is_some() && lowest.is_some() && lowest != counted.min {
                return Err(malformed(format!(
                    "{name} has another minimum than its buckets; was it changed?"
                )));
            }
        } else if text.histogram {
            return Err(malformed(format!(
                "the histogram of {name} has no line \"# Total:\"; was it cut off?"
            )));
        } else if thread.last.is_none() {
            counted.only = thread.cycles;
            counted.check(None).map_err(|what| malformed(format!("{name}: {what}")))?;
        } else {
            // What the lines of threads say beside values one by one is of other cycles too.
            (counted.min, counted.mean, counted.max) = (None, None, None);
        }
        build::add(&mut run, text.of, counted);
    }
    for (what, why) in &text.early {
        build::ended_early(&mut run, what, why);
    }
    let how = if tool == OF.tool { ", and they are taken for the CPUs of the same number" } else { "" };
    build::note(
        &mut run,
        "which CPU each thread ran on",
        &format!("{tool}'s text numbers its threads{how}"),
        "run it with --json, which names them",
    );
    if text.skipped > 0 {
        build::note(
            &mut run,
            "every value",
            &format!(
                "{} cycles are not among the values: cyclictest was run with -o, which prints the maximum of several, or its values came faster than it printed them",
                text.skipped
            ),
            "run it with -h 400 instead of -v",
        );
    }
    if !text.unit_is_known {
        build::note(
            &mut run,
            "the unit of the times",
            "cyclictest's histogram does not say whether it was run with -N (nanoseconds); they are taken for microseconds",
            "run it with --json, which says it",
        );
    }
    if text.of.mechanism == Mechanism::TimerWakeup {
        build::note_omission(&mut run);
    }
    if text.unit == MICROSECOND {
        build::note_microseconds(&mut run);
    }
    build::note_end(&mut run, part.text);
    Ok(run)
}

/// What all threads together say of how they were run, and for how long.
fn of_threads(run: &mut Run, threads: &BTreeMap<usize, Thread>) {
    let first = threads.values().next();
    let intervals: Vec<u64> = threads.values().filter_map(|thread| thread.interval).collect();
    let priorities: Vec<u64> = threads.values().filter_map(|thread| thread.priority).collect();
    if let Some(period) = intervals.first() {
        build::set(run, options::PERIOD, options::exact(*period));
        if let Some(second) = intervals.get(1) {
            build::set(run, options::DISTANCE, options::exact(second.abs_diff(*period)));
        }
    }
    if let Some(highest) = priorities.iter().max() {
        build::set(run, options::PRIORITY, highest.to_string());
        if priorities.iter().any(|priority| priority != highest) {
            build::set(run, "priorities spread", "yes");
        }
    }
    build::set(run, options::THREADS, threads.len().to_string());
    if let Some((interval, cycles)) = first.and_then(|first| Some((first.interval?, first.cycles?))) {
        run.duration = Nanos(interval.saturating_mul(cycles).min(MOST));
    }
}

/// A whole text, line by line.
struct Text<'t> {
    threads: BTreeMap<usize, Thread>,
    of: Of<'static>,
    command: &'t str,
    settings: options::Settings,
    /// Nanoseconds a unit.
    unit: u64,
    unit_is_known: bool,
    /// Whether there is any row of a histogram.
    histogram: bool,
    /// What a value above the histogram is at least, in nanoseconds.
    limit: Option<u64>,
    /// Cycles that left no value among those that were printed one by one.
    skipped: u64,
    /// What ended it early, and why.
    early: Vec<(String, String)>,
}

impl<'t> Text<'t> {
    fn read(part: Part<'t>) -> Result<Text<'t>, ImportError> {
        let widths = part.lines().find_map(|(_, line)| ThreadLine::of(line)?.unit());
        let of = match part.lines().find_map(|(_, line)| ThreadLine::of(line)) {
            Some(ThreadLine { priority: Some(_), interval: None, .. }) => OF_SIGNAL,
            Some(ThreadLine { priority: None, interval: Some(_), .. }) => OF_DEADLINE,
            _ => OF,
        };
        let unit = widths.unwrap_or(MICROSECOND);
        let mut text = Text {
            threads: BTreeMap::new(),
            of,
            command: "",
            settings: options::Settings::new(),
            unit,
            unit_is_known: widths.is_some(),
            histogram: false,
            limit: None,
            skipped: 0,
            early: Vec::new(),
        };
        // With -H the rows have one column more, of all threads together, which only the line of the minimum values has not.
        let columns = part
            .lines()
            .find_map(|(_, line)| line.strip_prefix("# Min Latencies:"))
            .map_or(MOST_THREADS, |values| values.split_whitespace().count());
        let mut rows = Rows { columns, width: None, last: None, open: false };
        for (number, raw) in part.raw_lines() {
            let at = At { tool: of.tool, line: number };
            let line = raw.trim();
            if line == "# Histogram" {
                rows.open = true;
            } else if let Some(words) = line.strip_prefix("# ") {
                rows.open &= !words.starts_with("Total:");
                text.remark(at, words, columns)?;
            } else if line.starts_with("T:") {
                text.thread(at, line)?;
            } else if let Some(policy) = line.strip_prefix("policy:") {
                let policy = policy.split(':').next().unwrap_or_default().trim();
                let named = options::settings("cyclictest", &format!("cyclictest --policy={policy}"));
                text.settings
                    .extend(named.get_key_value(options::POLICY).map(|(k, v)| (k.clone(), v.clone())));
            } else if line.starts_with("WARN: not setting cpu_dma_latency") {
                text.settings.insert(options::IDLE.to_owned(), "untouched".to_owned());
            } else if let Some((thread, cycle, value)) = verbose_line(raw) {
                text.value(at, thread, cycle, value)?;
            } else if rows.open && !line.is_empty() || is_row(line) {
                text.row(at, line, &mut rows)?;
            }
        }
        if text.unit_is_known && of.tool == "cyclictest" {
            let name = if unit == MICROSECOND { "us" } else { "ns" };
            text.settings.insert(options::UNIT.to_owned(), name.to_owned());
        }
        Ok(text)
    }

    /// A line that begins with `# `.
    fn remark(&mut self, at: At, words: &'t str, columns: usize) -> Result<(), ImportError> {
        if words.starts_with("cyclictest ") {
            self.command = words;
            return Ok(());
        }
        if let Some(value) = words.strip_prefix("/dev/cpu_dma_latency set to ") {
            let micros = at.time(value.trim_end_matches("us"), MICROSECOND)?;
            self.settings
                .insert(options::IDLE.to_owned(), format!("cpu_dma_latency {}", options::exact(micros)));
            return Ok(());
        }
        let Some((name, values)) = words.split_once(':') else { return Ok(()) };
        if name == "Break value" {
            let value = Nanos(at.time(values.trim(), self.unit)?);
            self.early.push((
                "the time after a late wake-up".to_owned(),
                format!(
                    "cyclictest was run with -b and ended at the first value above its threshold, {value}"
                ),
            ));
            return Ok(());
        }
        if !matches!(
            name,
            "Total" | "Min Latencies" | "Avg Latencies" | "Max Latencies" | "Histogram Overflows"
        ) {
            return Ok(());
        }
        for (place, word) in values.split_whitespace().enumerate().take(columns) {
            let thread = self.threads.entry(place).or_default();
            let counted = &mut thread.counted;
            match name {
                "Total" => thread.total = Some(at.count(word)?),
                "Min Latencies" => counted.min = Some(at.time(word, self.unit)?),
                "Avg Latencies" => counted.mean = Some(at.time(word, self.unit)?),
                "Max Latencies" => counted.max = Some(at.time(word, self.unit)?),
                _ => (counted.above, thread.overflows) = (at.count(word)?, true),
            }
        }
        Ok(())
    }

    /// The same thread is printed again and again; the last line counts.
    fn thread(&mut self, at: At, line: &str) -> Result<(), ImportError> {
        let Some(fields) = ThreadLine::of(line) else {
            // A spike (`--spike`) has a line of its own that counts nothing.
            return if line.contains("Spike:") {
                Ok(())
            } else {
                Err(at.malformed("it is cut off or changed"))
            };
        };
        let cycles = at.count(fields.cycles_text)?;
        let thread = self.threads.entry(fields.at).or_default();
        thread.cycles = Some(cycles);
        thread.priority = fields.priority.map(|text| at.count(text)).transpose()?;
        // Of a period the unit is always microseconds.
        thread.interval = fields.interval.map(|text| at.time(text, MICROSECOND)).transpose()?;
        let counted = &mut thread.counted;
        // A thread that never ran has no extremes: "Min:1000000" and "Max: 0" are where they start.
        let time = |text: &str| at.time(text, self.unit).map(|time| Some(time).filter(|_| cycles > 0));
        (counted.min, counted.mean, counted.max) = (time(fields.min)?, time(fields.mean)?, time(fields.max)?);
        thread.line = counted.min.zip(counted.max);
        Ok(())
    }

    /// A value of `-v`.
    fn value(&mut self, at: At, thread: usize, cycle: u64, value: &str) -> Result<(), ImportError> {
        let value = at.time(value, self.unit)?;
        let thread = self.threads.entry(thread).or_default();
        let expected = thread.last.map_or(0, |last| last + 1);
        self.skipped = self.skipped.saturating_add(cycle.saturating_sub(expected));
        thread.last = Some(cycle);
        thread.counted.buckets.push((value, 1));
        Ok(())
    }

    /// A row of the histogram: a value and how often each thread had it.
    fn row(&mut self, at: At, line: &str, rows: &mut Rows) -> Result<(), ImportError> {
        let mut words = line.split_whitespace();
        let value = at.time(words.next().unwrap_or_default(), self.unit)?;
        let counts: Vec<u64> = words.map(|word| at.count(word)).collect::<Result<_, _>>()?;
        if counts.is_empty() || rows.width.is_some_and(|width| width != counts.len()) {
            return Err(at.malformed("it has another number of columns than the rows above; was it cut off?"));
        }
        if rows.last.is_some_and(|last| last >= value) {
            return Err(at.malformed("its value does not come after that of the row above; was it changed?"));
        }
        (rows.width, rows.last) = (Some(counts.len()), Some(value));
        (self.histogram, self.limit) = (true, Some(value.saturating_add(self.unit)));
        for (place, count) in
            counts.into_iter().enumerate().take(rows.columns).filter(|(_, count)| *count > 0)
        {
            self.threads.entry(place).or_default().counted.buckets.push((value, count));
        }
        Ok(())
    }
}

/// Where in the histogram the reader is.
struct Rows {
    columns: usize,
    width: Option<usize>,
    last: Option<u64>,
    /// Between its heading and its total everything is a row.
    open: bool,
}

/// A row without a heading above: numbers and nothing else.
fn is_row(line: &str) -> bool {
    let numbers = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    line.split_whitespace().count() > 1 && line.split_whitespace().all(numbers)
}
