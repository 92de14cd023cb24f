// SPDX-License-Identifier: MIT OR Apache-2.0
//! oslat: what a value of it is, and its text: a column of counts for each core (rt-tests 2.4, src/oslat/oslat.c,
//! `write_summary`). Its JSON, which says the same, is read with that of the other rt-tests.

use latebound_model::{Mechanism, Nanos, Quantity, Run};

use crate::build::{self, Of, ToolDistribution};
use crate::error::ImportError;
use crate::number::{At, MICROSECOND, SECOND};
use crate::options;
use crate::split::Part;

/// A value is how long one turn of a busy loop took.
pub(crate) const OF: Of<'static> = Of {
    tool: "oslat",
    mechanism: Mechanism::Operation,
    quantity: Quantity::Execution,
    subject: "oslat turn",
};

/// Says that `-B` added to every value (`insert_bucket`: the bias is the minimum value of the preheat).
pub(crate) fn note_bias(run: &mut Run) {
    build::set(run, "bias", "yes");
    build::note(
        run,
        "the values without a bias",
        "oslat was run with --bias, which adds the minimum of its first second to every other",
        "run it without",
    );
}

/// oslat counts everything above its last bucket into it (`insert_bucket`), unmarked in JSON: where the maximum value lies
/// above that bucket, what the bucket holds is above it or in it, and nobody knows which.
pub(crate) fn unclamp(counted: &mut ToolDistribution) {
    counted.buckets.sort_unstable();
    if let (Some(&(last, count)), Some(max)) = (counted.buckets.last(), counted.max)
        && max > last
    {
        counted.buckets.pop();
        (counted.above, counted.limit) = (count, last);
    }
}

pub(crate) fn import(part: Part<'_>) -> Result<Run, ImportError> {
    let malformed = |what: &str| ImportError::Malformed { tool: OF.tool, what: what.to_owned() };
    let mut cores: Vec<ToolDistribution> = Vec::new();
    let mut run = build::run(OF.tool, "", "");
    let mut last = None;
    for (number, line) in part.lines() {
        let at = At { tool: OF.tool, line: number };
        if let Some(version) = line.strip_prefix("oslat V ") {
            version.trim().clone_into(&mut run.tool.version);
            continue;
        }
        if line.starts_with("Global bias set") {
            note_bias(&mut run);
        }
        if line.contains(" triggered on cpu ") {
            build::ended_early(
                &mut run,
                "the time after a long turn",
                "oslat was run with --trace-threshold and ended at the first value above it",
            );
        }
        let Some((name, rest)) = line.split_once(':') else { continue };
        let name = name.trim();
        if setting(&mut run, name, rest.trim()) {
            continue;
        }
        // The unit stands behind the numbers, and behind those of the last bucket a remark.
        let words: Vec<&str> = rest.split_whitespace().take_while(|word| !word.starts_with('(')).collect();
        if name == "Core" {
            let core = |word: &&str| -> Result<ToolDistribution, ImportError> {
                let cpu = u32::try_from(at.count(word)?).map_err(|_| at.bad(word, "no number of a CPU"))?;
                Ok(ToolDistribution {
                    cpu: Some(cpu),
                    resolution: MICROSECOND,
                    ..ToolDistribution::default()
                })
            };
            cores = words.iter().map(core).collect::<Result<_, _>>()?;
            continue;
        }
        let bucket = name.strip_suffix("(us)").map(str::trim);
        let known = matches!(name, "Minimum" | "Average" | "Maximum" | "Duration") || bucket.is_some();
        if cores.is_empty() || !known {
            continue;
        }
        if words.len() != cores.len() {
            return Err(at.malformed(&format!(
                "it has {} values for {} cores; was it cut off?",
                words.len(),
                cores.len()
            )));
        }
        let value = bucket.map(|bucket| at.time(bucket, MICROSECOND)).transpose()?;
        if value.is_some() && last.is_some() && last >= value {
            return Err(at.malformed("its value does not come after that of the row above; was it changed?"));
        }
        last = value.or(last);
        for (core, word) in cores.iter_mut().zip(words) {
            match name {
                "Minimum" => core.min = Some(at.time(word, MICROSECOND)?),
                "Average" => core.mean = Some(at.time(word, MICROSECOND)?),
                "Maximum" => core.max = Some(at.time(word, MICROSECOND)?),
                "Duration" => run.duration = run.duration.max(Nanos(at.time(word, SECOND)?)),
                _ => {
                    let count = at.count(word)?;
                    if count > 0 {
                        core.buckets.push((value.unwrap_or(0), count));
                    }
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
    let cpus =
        latebound_model::CpuSet::new(cores.iter().filter_map(|core| core.cpu.map(latebound_model::Cpu)));
    build::set(&mut run, options::CPUS, cpus.to_string());
    let biased = run.settings.contains_key("bias");
    for core in &mut cores {
        unclamp(core);
        check(core, biased).map_err(|what| malformed(&what))?;
        build::add(&mut run, OF, core);
    }
    build::note_end(&mut run, part.text);
    build::note_microseconds(&mut run);
    Ok(run)
}

/// oslat says no number of values, so that the extremes alone are held against the buckets; a bias is in the buckets and not in
/// the extremes.
pub(crate) fn check(counted: &ToolDistribution, biased: bool) -> Result<(), String> {
    if biased {
        return ToolDistribution { min: None, mean: None, max: None, ..counted.clone() }.check(None);
    }
    counted.check(None)
}

/// Settings that it prints where it was not run with -q, under the names of its options; whether this is one.
fn setting(run: &mut Run, name: &str, value: &str) -> bool {
    match name {
        // "default", or "SCHED_FIFO:95".
        "Thread priority" => match value.strip_prefix("SCHED_FIFO:") {
            Some(priority) => {
                build::set(run, options::POLICY, "fifo");
                build::set(run, options::PRIORITY, priority);
            }
            None => build::set(run, options::POLICY, "other"),
        },
        "CPU for main thread" => build::set(run, "CPUs of the main thread", value),
        "Workload" => build::set(run, "workload", value),
        "Workload mem" => build::set(run, "memory of the workload", value),
        _ => return false,
    }
    true
}
