// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of rt-tests (`--json` of cyclictest, oslat and others: src/lib/rt-utils.c, `rt_write_json`) and of jitterdebugger; and
//! oslat's text, which says the same.

use std::collections::BTreeMap;

use latebound_model::{Mechanism, Nanos, Quantity, Run};
use serde::Deserialize;

use crate::ImportError;
use crate::build::{self, Counted, MOST, Of};

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
    /// cyclictest: 1 with `-N`, else 0.
    #[serde(default)]
    resolution_in_ns: Option<u64>,
    #[serde(default)]
    sysinfo: Sysinfo,
    #[serde(default)]
    thread: BTreeMap<String, Thread>,
    /// jitterdebugger's threads, by CPU.
    #[serde(default)]
    cpu: BTreeMap<String, Thread>,
}

#[derive(Default, Deserialize)]
struct Sysinfo {
    nodename: Option<String>,
    release: Option<String>,
    version: Option<String>,
    machine: Option<String>,
    /// jitterdebugger: 1 with `-N`, else 1000.
    resolution_in_ns: Option<u64>,
}

#[derive(Deserialize)]
struct Thread {
    #[serde(default)]
    histogram: BTreeMap<String, u64>,
    #[serde(default, alias = "count")]
    cycles: Option<u64>,
    #[serde(default)]
    max: Option<f64>,
    #[serde(default)]
    cpu: Option<u32>,
    #[serde(default)]
    duration: Option<f64>,
}

pub(crate) fn import(text: &str) -> Result<Run, ImportError> {
    let malformed = |tool: &'static str, what: String| ImportError::Malformed { tool, what };
    let document: Document = serde_json::from_str(text)
        .map_err(|error| malformed("rt-tests or jitterdebugger", error.to_string()))?;
    let command = document.command.clone().unwrap_or_default();
    let tool = match document.file_version {
        Some(1) => {
            command.split_whitespace().next().and_then(|word| word.rsplit('/').next()).unwrap_or_default()
        }
        None if !document.cpu.is_empty() => "jitterdebugger",
        _ => {
            return Err(malformed(
                "rt-tests or jitterdebugger",
                "neither kind of threads is listed".to_owned(),
            ));
        }
    };
    let mut run = build::run(tool, document.version.as_deref().unwrap_or_default(), &command);
    run.started_at = document.start_time.clone().unwrap_or_default();
    let system = &mut run.system;
    (system.hostname, system.kernel_release) =
        (document.sysinfo.nodename.clone(), document.sysinfo.release.clone());
    (system.kernel_version, system.machine) =
        (document.sysinfo.version.clone(), document.sysinfo.machine.clone());
    let (threads, of) = match tool {
        "oslat" => (&document.thread, OSLAT),
        "jitterdebugger" => (&document.cpu, JITTERDEBUGGER),
        "cyclictest" => (&document.thread, CYCLICTEST),
        other => {
            return Err(malformed(
                "rt-tests",
                format!("the tool is \"{other}\", of which no numbers are known here"),
            ));
        }
    };
    if threads.is_empty() {
        return Err(malformed(of.tool, "no thread is listed".to_owned()));
    }
    let interval = interval_of(&command);
    // Whole microseconds unless nanoseconds were asked for. oslat knows nothing else.
    let unit = match (of.tool, document.resolution_in_ns, document.sysinfo.resolution_in_ns) {
        ("cyclictest", Some(1), _) | ("jitterdebugger", _, Some(1)) => 1.0,
        ("cyclictest", None | Some(0), _) | ("jitterdebugger", _, None | Some(1000)) | ("oslat", ..) => {
            1000.0
        }
        (_, found, of_system) => {
            let found = found.or(of_system).unwrap_or_default();
            return Err(malformed(
                of.tool,
                format!("times are in units of {found} ns, which is not known here"),
            ));
        }
    };
    for (name, thread) in threads {
        let mut counted = counted(name, thread, unit).ok_or_else(|| {
            malformed(of.tool, format!("the histogram of thread {name} has a value that is no number"))
        })?;
        if of.tool == "oslat" {
            unclamp(&mut counted);
        }
        // oslat says no number of values; where there is no histogram, nothing is held against it.
        counted
            .check(thread.cycles.filter(|_| !counted.buckets.is_empty()))
            .map_err(|what| malformed(of.tool, what))?;
        let time = match (thread.duration, interval, thread.cycles) {
            (Some(seconds), ..) => build::micros(seconds * 1e6),
            (_, Some(interval), Some(cycles)) => interval.saturating_mul(cycles).min(MOST),
            _ => 0,
        };
        run.duration = run.duration.max(Nanos(time));
        if thread.histogram.is_empty() {
            build::note(
                &mut run,
                "the distribution",
                "it was run without a histogram",
                "run cyclictest with -h 400 beside --json",
            );
        }
        build::add(&mut run, of, &counted);
    }
    notes(&mut run, of, unit);
    if of.tool == "oslat" && command.split_whitespace().any(|word| word == "-B" || word == "--bias") {
        note_bias(&mut run);
    }
    Ok(run)
}

/// Says that `-B` added to every value (oslat.c, `insert_bucket`: the bias is the least value of the preheat).
fn note_bias(run: &mut Run) {
    build::note(
        run,
        "the values without a bias",
        "oslat was run with --bias, which adds the least value of its first second to every other",
        "run it without",
    );
}

const CYCLICTEST: Of<'static> = Of {
    tool: "cyclictest",
    mechanism: Mechanism::TimerWakeup,
    quantity: Quantity::LatencyNaive,
    subject: "measure",
};
/// Its loop adds the interval to the last due time, late or not (jitterdebugger.c, `worker`), so no period is left out.
const JITTERDEBUGGER: Of<'static> = Of {
    tool: "jitterdebugger",
    mechanism: Mechanism::TimerWakeup,
    quantity: Quantity::Latency,
    subject: "measure",
};
/// A value is how long one turn of a busy loop took.
const OSLAT: Of<'static> = Of {
    tool: "oslat",
    mechanism: Mechanism::Operation,
    quantity: Quantity::Execution,
    subject: "oslat turn",
};

fn notes(run: &mut Run, of: Of<'_>, unit: f64) {
    if of.quantity == Quantity::LatencyNaive {
        build::note_omission(run);
    }
    if unit > 1.0 {
        build::note_microseconds(run);
    }
}

/// `None` where a key of the histogram is no number.
fn counted(name: &str, thread: &Thread, unit: f64) -> Option<Counted> {
    let nanos = |value: f64| build::micros(value * unit / 1000.0);
    let buckets: Vec<(u64, u64)> = thread
        .histogram
        .iter()
        .map(|(value, count)| Some((nanos(value.parse::<f64>().ok()?), *count)))
        .collect::<Option<_>>()?;
    let seen = buckets.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    // cyclictest writes no overflows; what was counted and is in no bucket lay above them all.
    let above = if buckets.is_empty() { 0 } else { thread.cycles.unwrap_or(seen).saturating_sub(seen) };
    Some(Counted {
        buckets,
        above,
        max: thread.max.filter(|_| thread.cycles != Some(0)).map(nanos),
        cpu: thread.cpu.or_else(|| name.parse().ok()),
    })
}

/// oslat counts everything above its last bucket into it (oslat.c, `insert_bucket`), unmarked in JSON: where the greatest
/// value lies above that bucket, what the bucket holds is above it or in it, and nobody knows which.
fn unclamp(counted: &mut Counted) {
    counted.buckets.sort_unstable();
    if let (Some(&(last, count)), Some(max)) = (counted.buckets.last(), counted.max)
        && max > last
    {
        counted.buckets.pop();
        counted.above = count;
    }
}

/// `-i1000` or `--interval=1000` of a command line, in nanoseconds; cyclictest's default is 1000 us.
fn interval_of(command: &str) -> Option<u64> {
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        let value = match word {
            "-i" | "--interval" => words.next(),
            _ => word.strip_prefix("--interval=").or_else(|| word.strip_prefix("-i")),
        };
        if let Some(micros) = value.and_then(|value| value.parse::<u64>().ok()) {
            return micros.checked_mul(1000);
        }
    }
    command.contains("cyclictest").then_some(1_000_000)
}

/// oslat's text: a column of counts for each core (rt-tests 2.4, src/oslat/oslat.c, `write_summary`).
pub(crate) fn oslat_text(text: &str) -> Result<Run, ImportError> {
    let malformed = |what: &str| ImportError::Malformed { tool: "oslat", what: what.to_owned() };
    let mut cores: Vec<Counted> = Vec::new();
    let mut run = build::run("oslat", "", "");
    for line in text.lines() {
        let line = line.trim();
        if let Some(version) = line.strip_prefix("oslat V ") {
            version.trim().clone_into(&mut run.tool.version);
            continue;
        }
        if line.starts_with("Global bias set") {
            note_bias(&mut run);
        }
        let Some((name, rest)) = line.split_once(':') else { continue };
        let numbers = || rest.split_whitespace().map_while(|word| word.parse::<f64>().ok());
        match name.trim() {
            "Core" => {
                cores = numbers()
                    .map(|cpu| Counted { cpu: Some(cpu.clamp(0.0, 1e6) as u32), ..Counted::default() })
                    .collect();
            }
            "Maximum" => {
                cores.iter_mut().zip(numbers()).for_each(|(core, max)| core.max = Some(build::micros(max)));
            }
            "Duration" => {
                let longest = numbers().fold(0.0, f64::max);
                run.duration = Nanos(build::micros(longest * 1e6));
            }
            other => {
                let value = other.strip_suffix("(us)").and_then(|value| value.trim().parse::<f64>().ok());
                if let Some(value) = value {
                    cores.iter_mut().zip(numbers()).for_each(|(core, count)| {
                        if count > 0.0 {
                            core.buckets.push((build::micros(value), count.min(MOST as f64) as u64));
                        }
                    });
                }
            }
        }
    }
    if cores.is_empty() || cores.iter().all(|core| core.buckets.is_empty()) {
        return Err(malformed("no core has any count"));
    }
    if run.duration == Nanos::ZERO || cores.iter().any(|core| core.max.is_none()) {
        return Err(malformed(
            "the maximum of a core or the duration is missing: was it cut off? Without a maximum nobody knows what its last bucket holds",
        ));
    }
    for mut core in cores {
        unclamp(&mut core);
        core.check(None).map_err(|what| malformed(&what))?;
        build::add(&mut run, OSLAT, &core);
    }
    build::note_end(&mut run, text);
    notes(&mut run, OSLAT, 1000.0);
    Ok(run)
}
