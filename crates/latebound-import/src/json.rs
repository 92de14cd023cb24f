// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of rt-tests (`--json` of cyclictest, oslat and others: src/lib/rt-utils.c, `rt_write_json`) and of jitterdebugger.

use std::fmt;
use std::marker::PhantomData;

use latebound_model::{Mechanism, Nanos, PreemptionModel, Quantity, Run};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Number;

use crate::build::{self, Of, ToolDistribution};
use crate::cyclictest;
use crate::error::ImportError;
use crate::number::{At, MICROSECOND, MOST, SECOND};
use crate::options::{self, Settings};
use crate::oslat;
use crate::split::Part;

/// What both formats have.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    file_version: Option<u64>,
    // rt-tests 2.x writes its keys with a colon inside.
    #[serde(default, rename = "cmdline:", alias = "cmdline")]
    command: Option<String>,
    #[serde(default, rename = "rt_test_version:", alias = "rt_test_version")]
    version: Option<String>,
    #[serde(default)]
    start_time: Option<String>,
    /// What the tool returned to its shell.
    #[serde(default)]
    return_code: Option<i64>,
    #[serde(default)]
    num_threads: Option<u64>,
    /// cyclictest: 1 with `-N`, else 0.
    #[serde(default)]
    resolution_in_ns: Option<u64>,
    #[serde(default)]
    sysinfo: Sysinfo,
    #[serde(default)]
    thread: Entries<Thread>,
    /// jitterdebugger's threads, by CPU.
    #[serde(default)]
    cpu: Entries<Thread>,
}

#[derive(Default, Deserialize)]
struct Sysinfo {
    nodename: Option<String>,
    release: Option<String>,
    version: Option<String>,
    machine: Option<String>,
    /// 1 where the kernel is PREEMPT_RT.
    realtime: Option<u64>,
    /// jitterdebugger: 1 with `-N`, else 1000.
    resolution_in_ns: Option<u64>,
}

#[derive(Deserialize)]
struct Thread {
    #[serde(default)]
    histogram: Entries<u64>,
    #[serde(default, alias = "count")]
    cycles: Option<u64>,
    #[serde(default)]
    min: Option<Number>,
    #[serde(default)]
    avg: Option<Number>,
    #[serde(default)]
    max: Option<Number>,
    #[serde(default)]
    cpu: Option<u32>,
    #[serde(default)]
    duration: Option<Number>,
    /// Of those that send from one thread to another.
    #[serde(default)]
    sender: Option<Sender>,
    #[serde(default)]
    receiver: Option<Receiver>,
}

#[derive(Deserialize)]
struct Sender {
    samples: u64,
    #[serde(default)]
    interval: Option<u64>,
}

#[derive(Deserialize)]
struct Receiver {
    #[serde(default)]
    cpu: Option<u32>,
    min: Number,
    avg: Number,
    max: Number,
}

/// An object's entries in their order, also where a name comes twice: the reader decides what that means.
struct Entries<T>(Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Entries<T> {
        Entries(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries<T>, D::Error> {
        struct OfObject<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfObject<T> {
            type Value = Entries<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries<T>, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(OfObject(PhantomData))
    }
}

const RT_TESTS: &str = "rt-tests or jitterdebugger";

pub(crate) fn import(part: Part<'_>) -> Result<Run, ImportError> {
    let malformed = |tool: &'static str, what: String| ImportError::Malformed { tool, what };
    // What follows the object up to the next result is not of it.
    let first = serde_json::Deserializer::from_str(part.text).into_iter::<Document>().next();
    let document = first
        .unwrap_or_else(|| serde_json::from_str(part.text))
        .map_err(|error| malformed(RT_TESTS, in_file(&error, part.first)))?;
    let command = document.command.clone().unwrap_or_default();
    let program =
        command.split_whitespace().next().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let (of, threads) = match document.file_version {
        Some(1) => (
            of(program).ok_or_else(|| {
                malformed(
                    "rt-tests",
                    format!("the tool is \"{}\", of which no numbers are known here", program.escape_debug()),
                )
            })?,
            document.thread.0.as_slice(),
        ),
        None if !document.cpu.0.is_empty() => (JITTERDEBUGGER, document.cpu.0.as_slice()),
        _ => return Err(malformed(RT_TESTS, "neither kind of threads is listed".to_owned())),
    };
    if threads.is_empty() || document.num_threads.is_some_and(|stated| stated != threads.len() as u64) {
        return Err(malformed(
            of.tool,
            format!("{} threads are listed, and it had {}", threads.len(), document.num_threads.unwrap_or(0)),
        ));
    }
    let mut run = build::run(of.tool, document.version.as_deref().unwrap_or_default(), &command);
    run.started_at = document.start_time.as_deref().and_then(rfc3339).unwrap_or_default();
    system(&mut run, &document);
    if !command.is_empty() {
        run.settings.extend(options::settings(of.tool, &command));
    }
    let unit = unit(of, &document)?;
    if unit == 1 || of.tool == JITTERDEBUGGER.tool {
        build::set(&mut run, options::UNIT, if unit == 1 { "ns" } else { "us" });
    }
    let biased = of.tool == oslat::OF.tool && run.settings.contains_key("bias");
    let reader = Reader { of, unit, biased, settings: run.settings.clone() };
    // How far a histogram reaches is in its series, and does not bear on what is measured.
    run.settings.remove(options::RANGE);
    let read: Vec<(ToolDistribution, Option<u64>)> =
        threads.iter().map(|(name, thread)| reader.counted(name, thread)).collect::<Result<_, _>>()?;
    run.duration = Nanos(read.iter().filter_map(|(_, time)| *time).max().unwrap_or(0));
    let mut highest = None;
    for (counted, _) in &read {
        highest = highest.max(counted.max);
        build::add(&mut run, of, counted);
    }
    said_by_the_tool(&mut run, of, &document, highest);
    if of.quantity == Quantity::LatencyNaive && of.mechanism == Mechanism::TimerWakeup {
        build::note_omission(&mut run);
    }
    if unit > 1 {
        build::note_microseconds(&mut run);
    }
    if biased {
        oslat::note_bias(&mut run);
    }
    Ok(run)
}

/// What is wrong, with the line of the file instead of that of the part.
fn in_file(error: &serde_json::Error, first: usize) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = text.strip_suffix(&place).unwrap_or(&text);
    format!("line {}, column {}: {what}", (error.line() + first).saturating_sub(1), error.column())
}

fn system(run: &mut Run, document: &Document) {
    let (from, system) = (&document.sysinfo, &mut run.system);
    (system.hostname, system.kernel_release) = (from.nodename.clone(), from.release.clone());
    (system.kernel_version, system.machine) = (from.version.clone(), from.machine.clone());
    // Of other kernels it does not say which model they have.
    system.preemption = (from.realtime == Some(1)).then_some(PreemptionModel::Rt);
}

/// Whether the tool failed or ended at a threshold.
fn said_by_the_tool(run: &mut Run, of: Of<'_>, document: &Document, highest: Option<u64>) {
    if let Some(code) = document.return_code.filter(|code| *code != 0) {
        build::ended_early(
            run,
            &format!("a result that {} vouches for", of.tool),
            &format!("its return_code is {code}: it failed, and what it wrote is of the time until then"),
        );
    }
    // It returns 0 also where it ended at a threshold (cyclictest.c, `timerthread`: `diff > tracelimit`).
    if let (Some(threshold), Some(highest)) = (options::time_of(&run.settings, options::BREAK), highest)
        && highest > threshold
    {
        build::ended_early(
            run,
            "the time after a late wake-up",
            &format!(
                "{} was run with a threshold of {} and ended at the first value above it",
                of.tool,
                Nanos(threshold)
            ),
        );
    }
}

/// Its loop adds the interval to the last due time, late or not (jitterdebugger.c, `worker`), so no period is left out.
const JITTERDEBUGGER: Of<'static> = Of {
    tool: "jitterdebugger",
    mechanism: Mechanism::TimerWakeup,
    quantity: Quantity::Latency,
    subject: "measure",
};

/// What the tools' numbers are of.
fn of(program: &str) -> Option<Of<'static>> {
    let woken = |tool, subject| Of {
        tool,
        mechanism: Mechanism::ThreadWakeup,
        quantity: Quantity::LatencyNaive,
        subject,
    };
    Some(match program {
        "cyclictest" => cyclictest::OF,
        "oslat" => oslat::OF,
        "cyclicdeadline" => cyclictest::OF_DEADLINE,
        "signaltest" => cyclictest::OF_SIGNAL,
        "pmqtest" => woken("pmqtest", "POSIX message"),
        "ptsematest" => woken("ptsematest", "POSIX mutex"),
        "svsematest" => woken("svsematest", "System V semaphore"),
        "sigwaittest" => woken("sigwaittest", "signal"),
        _ => return None,
    })
}

/// Whole microseconds unless nanoseconds were asked for, which only two of the tools can.
fn unit(of: Of<'_>, document: &Document) -> Result<u64, ImportError> {
    match (of.tool, document.resolution_in_ns, document.sysinfo.resolution_in_ns) {
        ("cyclictest", Some(1), _) | ("jitterdebugger", _, Some(1)) => Ok(1),
        ("jitterdebugger", _, None | Some(1000)) => Ok(MICROSECOND),
        (tool, None | Some(0), _) if tool != "jitterdebugger" => Ok(MICROSECOND),
        (_, found, of_system) => Err(ImportError::Malformed {
            tool: of.tool,
            what: format!(
                "times are in units of {} ns, which is not known here",
                found.or(of_system).unwrap_or_default()
            ),
        }),
    }
}

/// How the numbers of a thread are read.
struct Reader {
    of: Of<'static>,
    unit: u64,
    biased: bool,
    settings: Settings,
}

impl Reader {
    /// What a thread's entry says, and for how long it measured in nanoseconds.
    fn counted(&self, name: &str, thread: &Thread) -> Result<(ToolDistribution, Option<u64>), ImportError> {
        let malformed = |what: String| ImportError::Malformed {
            tool: self.of.tool,
            what: format!("thread {}: {what}", name.escape_debug()),
        };
        // serde told the line of what is no number at all; what is left is negative or too large.
        let time = |text: &str, unit: u64| {
            At { tool: self.of.tool, line: 0 }.time(text, unit).map_err(|error| match error {
                ImportError::Number { value, why, .. } => malformed(format!("\"{value}\" is {why}")),
                other => other,
            })
        };
        let number =
            |number: &Option<Number>| number.as_ref().map(|n| time(&n.to_string(), self.unit)).transpose();
        if let (Some(sender), Some(receiver)) = (&thread.sender, &thread.receiver) {
            let of = |number: &Number| time(&number.to_string(), self.unit).map(Some);
            let counted = ToolDistribution {
                only: Some(sender.samples.min(MOST)),
                min: of(&receiver.min)?,
                mean: of(&receiver.avg)?,
                max: of(&receiver.max)?,
                cpu: receiver.cpu,
                resolution: self.unit,
                ..ToolDistribution::default()
            };
            counted.check(None).map_err(malformed)?;
            let micros = sender.interval.unwrap_or(0).saturating_mul(MICROSECOND);
            return Ok((counted, Some(micros.saturating_mul(sender.samples).min(MOST))));
        }
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for (value, count) in &thread.histogram.0 {
            buckets.push((time(value, self.unit)?, *count));
        }
        buckets.sort_unstable();
        if let Some(pair) = buckets.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(malformed(format!("the bucket of {} is listed twice", Nanos(pair[0].0))));
        }
        let mut counted = ToolDistribution {
            buckets,
            min: number(&thread.min)?,
            mean: number(&thread.avg)?,
            max: number(&thread.max)?,
            resolution: self.unit,
            cpu: thread
                .cpu
                .or_else(|| name.parse().ok().filter(|_| self.of.tool != cyclictest::OF_SIGNAL.tool)),
            ..ToolDistribution::default()
        };
        let ran = thread.duration.as_ref().map(|n| time(&n.to_string(), SECOND)).transpose()?;
        self.what_lies_above(&mut counted, thread.cycles).map_err(malformed)?;
        let interval = options::time_of(&self.settings, options::PERIOD);
        let of_cycles = || Some(interval?.saturating_mul(thread.cycles?).min(MOST));
        Ok((counted, ran.or_else(of_cycles)))
    }

    /// Tells apart what was not counted from what was counted above the histogram, and holds the numbers against each other.
    fn what_lies_above(&self, counted: &mut ToolDistribution, cycles: Option<u64>) -> Result<(), String> {
        if cycles.is_some_and(|cycles| cycles > MOST) {
            return Err("its number of cycles is more than 2^53".to_owned());
        }
        if cycles == Some(0) {
            // What has no value has extremes that are none.
            (counted.min, counted.mean, counted.max) = (None, None, None);
        }
        let seen = counted.seen()?;
        let range = self.settings.get(options::RANGE).and_then(|range| range.parse::<u64>().ok());
        if self.of.tool == oslat::OF.tool {
            oslat::unclamp(counted);
            return oslat::check(counted, self.biased);
        }
        if counted.buckets.is_empty() && range.is_none() {
            counted.only = cycles;
            return counted.check(None);
        }
        // cyclictest writes no overflows; what was counted and is in no bucket lay above them all.
        counted.above = cycles.unwrap_or(seen).saturating_sub(seen);
        let last = counted.buckets.last().map_or(0, |(last, _)| last.saturating_add(self.unit));
        counted.limit = range.map_or(last, |range| range.saturating_mul(self.unit)).max(last);
        if let Some(lowest) = counted.buckets.first().map(|(lowest, _)| *lowest)
            && counted.min.is_some_and(|min| min != lowest)
        {
            return Err("its minimum is another than that of its buckets: was it changed?".to_owned());
        }
        if counted.above == 0
            && counted.max.is_some()
            && counted.max != counted.buckets.last().map(|(last, _)| *last)
        {
            return Err(
                "its maximum is in no bucket, and none lay above: was it cut off or changed?".to_owned()
            );
        }
        counted.check(cycles)
    }
}

/// `Sat, 21 Nov 2026 18:40:49 +0000` (RFC 2822) as RFC 3339 has it, so that times can be put in order.
fn rfc3339(text: &str) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let &[_, day, month, year, time, zone] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let (day, year): (u8, u16) = (day.parse().ok()?, year.parse().ok()?);
    let (hours, minutes) = zone.split_at_checked(3)?;
    let digits =
        |text: &str, length| text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || b == b':');
    let offset = hours.strip_prefix(['+', '-'])?;
    (digits(time, 8) && digits(offset, 2) && digits(minutes, 2))
        .then(|| format!("{year:04}-{month:02}-{day:02}T{time}{hours}:{minutes}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_dates_become_dates_that_sort() {
        assert_eq!(rfc3339("Sat, 21 Nov 2026 18:40:49 +0000").as_deref(), Some("2026-11-21T18:40:49+00:00"));
        for text in [
            "",
            "Sat, 21 Nov 2026",
            "Sat, 21 Foo 2026 18:40:49 +0000",
            "Sat, 21 Nov 2026 18:40:49 +é00",
            "Sat, 21 Nov 2026 18:40:49 é000",
            "Sat, 21 Nov 2026 18:40:49 00000",
        ] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }
}
