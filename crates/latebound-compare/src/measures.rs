// SPDX-License-Identifier: MIT OR Apache-2.0
//! One number of each Run, held against that of the others.

use latebound_model::{Mechanism, bucket_bounds, bucket_index};
use latebound_stats::{
    Better, Judged, Rules, Shift, Verdict, benjamini_hochberg, fewest_runs, judge, median_interval, relabel,
    runs_needed, shift,
};

use crate::alike::common_series;
use crate::compare::Options;
use crate::document::{Estimate, Family, Measure, Unit, VerdictWord};
use crate::facts::{QUANTILES, RunFacts, SeriesKey, Side};

/// How sure intervals are.
const CONFIDENCE: f64 = 0.95;
/// The power that "enough Runs" means.
const POWER: f64 = 0.8;
/// The greatest value is compared where the counts behind it differ by no more than this: more values reach farther.
const MAX_COUNTS_DIFFER: f64 = 0.1;

/// A measure before it is judged: a number for each Run, base Runs first.
struct Raw {
    family: Family,
    of: String,
    mechanism: Option<Mechanism>,
    statistic: String,
    unit: Unit,
    values: Vec<Option<f64>>,
    counts: Vec<u64>,
}

/// What was compared, with what was left out and why.
pub(crate) struct Measured {
    pub(crate) measures: Vec<Measure>,
    pub(crate) left_out: Vec<String>,
    pub(crate) relabellings: u64,
    pub(crate) exact: bool,
}

/// Compares everything that both sides have. `sides` is how many sides are held against the base in all.
pub(crate) fn measures(base: &Side, new: &Side, options: &Options, sides: usize) -> Measured {
    let mut left_out = Vec::new();
    let runs: Vec<&RunFacts> = base.runs.iter().chain(&new.runs).collect();
    let mut raw: Vec<Raw> = Vec::new();
    for key in common_series(base, new) {
        of_series(&key, &runs, base.runs.len(), &mut raw, &mut left_out);
    }
    of_rates(&runs, base.runs.len(), &mut raw);
    let (mut measures, mut relabellings, mut exact) = (Vec::new(), 0, true);
    for family in [Family::Main, Family::Mechanisms] {
        let mine: Vec<&Raw> = raw.iter().filter(|raw| raw.family == family).collect();
        if mine.is_empty() {
            continue;
        }
        let values: Vec<Vec<Option<f64>>> = mine.iter().map(|raw| raw.values.clone()).collect();
        let mut relabelled = relabel(&values, base.runs.len(), options.seed);
        if family == Family::Mechanisms {
            correct_by_rate(&mut relabelled.measures);
        }
        (relabellings, exact) = (relabelled.relabellings.max(relabellings), exact && relabelled.exact);
        for (raw, judged) in mine.into_iter().zip(relabelled.measures) {
            let judged = judged
                .map(|judged| Judged { p_adjusted: (judged.p_adjusted * sides as f64).min(1.0), ..judged });
            measures.push(measure(raw, base.runs.len(), judged, options, sides));
        }
    }
    Measured { measures, left_out, relabellings, exact }
}

fn correct_by_rate(judged: &mut [Option<Judged>]) {
    let p: Vec<f64> = judged.iter().flatten().map(|judged| judged.p).collect();
    for (judged, corrected) in judged.iter_mut().flatten().zip(benjamini_hochberg(&p)) {
        judged.p_adjusted = corrected;
    }
}

fn of_series(
    key: &SeriesKey,
    runs: &[&RunFacts],
    base_runs: usize,
    raw: &mut Vec<Raw>,
    left_out: &mut Vec<String>,
) {
    let facts: Vec<_> = runs.iter().map(|run| run.series.get(key)).collect();
    let of = key.of();
    let mut put = |statistic: &str, values: Vec<Option<f64>>, counts: Vec<u64>| {
        raw.push(Raw {
            family: key.family,
            of: of.clone(),
            mechanism: Some(key.mechanism),
            statistic: statistic.to_owned(),
            unit: Unit::Nanoseconds,
            values,
            counts,
        });
    };
    let counts: Vec<u64> = facts.iter().map(|facts| facts.map_or(0, |facts| facts.count)).collect();
    for (at, (name, _)) in QUANTILES.iter().enumerate() {
        // With so many mechanisms, two numbers of each are enough to see which moved.
        if key.family == Family::Mechanisms && !matches!(*name, "p50" | "p99") {
            continue;
        }
        let values: Vec<Option<f64>> = facts
            .iter()
            .map(|facts| facts.and_then(|f| f.quantiles[at]).map(|value| value.0 as f64))
            .collect();
        // A quantile that a Run is too short for would compare the longer Runs of one side with all of the other.
        if values.iter().zip(&facts).all(|(value, facts)| value.is_some() || facts.is_none())
            && values.iter().any(Option::is_some)
        {
            put(name, values, counts.clone());
        }
    }
    if key.family == Family::Main {
        let (base, new) = counts.split_at(base_runs);
        let middle = |counts: &[u64]| {
            let counts: Vec<f64> = counts.iter().filter(|&&n| n > 0).map(|&n| n as f64).collect();
            median_interval(&counts, CONFIDENCE).map_or(0.0, |(median, _)| median)
        };
        let (base, new) = (middle(base), middle(new));
        if (base - new).abs() <= MAX_COUNTS_DIFFER * base.max(new) {
            let max =
                facts.iter().map(|facts| facts.and_then(|f| f.max).map(|value| value.0 as f64)).collect();
            put("max", max, counts);
        } else {
            left_out.push(format!(
                "the greatest values of {of} are not compared: they are of about {base:.0} and {new:.0} values a Run, and more values reach farther; see the forecasts"
            ));
        }
    }
    let cpus: Vec<&Vec<u32>> = facts.iter().flatten().map(|facts| &facts.cpus).collect();
    if key.family == Family::Main && cpus.windows(2).any(|pair| pair[0] != pair[1]) {
        left_out.push(format!("{of} was not taken on the same CPUs in all Runs"));
    }
}

fn of_rates(runs: &[&RunFacts], base_runs: usize, raw: &mut Vec<Raw>) {
    let mut names: Vec<&(String, String)> = runs.iter().flat_map(|run| run.rates.keys()).collect();
    names.sort();
    names.dedup();
    let (base, new) = runs.split_at(base_runs);
    for name in names {
        if ![base, new].iter().all(|side| side.iter().any(|run| run.rates.contains_key(name))) {
            continue;
        }
        let rates: Vec<Option<&(f64, u64)>> = runs.iter().map(|run| run.rates.get(name)).collect();
        raw.push(Raw {
            family: Family::Main,
            of: name.0.clone(),
            mechanism: None,
            statistic: "rate".to_owned(),
            unit: Unit::PerSecond(name.1.clone()),
            values: rates.iter().map(|rate| rate.map(|(rate, _)| *rate)).collect(),
            counts: rates.iter().map(|rate| rate.map_or(0, |(_, count)| *count)).collect(),
        });
    }
}

fn measure(raw: &Raw, base_runs: usize, judged: Option<Judged>, options: &Options, sides: usize) -> Measure {
    let (base, new) = raw.values.split_at(base_runs);
    let (base_counts, new_counts) = raw.counts.split_at(base_runs);
    let logarithms = |values: &[Option<f64>]| -> Vec<f64> {
        // A latency of zero nanoseconds has no logarithm; half of one is as near as the clock tells.
        values.iter().flatten().map(|value| value.max(0.5).ln()).collect()
    };
    let (base_log, new_log) = (logarithms(base), logarithms(new));
    let shift = shift(&base_log, &new_log, CONFIDENCE);
    let (better, rules) = (
        if raw.unit == Unit::Nanoseconds { Better::Lower } else { Better::Higher },
        Rules { level: options.level, margin: options.margin, resolution: resolution(raw) },
    );
    let (verdict, no_larger_than) = match judge(judged, shift, better, rules) {
        Verdict::Better => (VerdictWord::Better, None),
        Verdict::Worse => (VerdictWord::Worse, None),
        Verdict::NoDifferenceLargerThan(most) => (VerdictWord::NoDifferenceLargerThan, Some(most)),
        Verdict::NotEnoughRuns => (VerdictWord::NotEnoughRuns, None),
    };
    let level = options.level / sides as f64;
    let needed = || match scatter(&base_log, &new_log) {
        Some(deviation) => runs_needed(options.margin.ln_1p(), deviation, level, POWER),
        None => Some(fewest_runs(level)),
    };
    let ratio = |of: fn(&Shift) -> f64| shift.as_ref().map(of).filter(|x| x.is_finite()).map(f64::exp);
    Measure {
        family: raw.family,
        of: raw.of.clone(),
        mechanism: raw.mechanism,
        statistic: raw.statistic.clone(),
        unit: raw.unit.clone(),
        base: estimate(base, base_counts),
        new: estimate(new, new_counts),
        ratio: ratio(|shift| shift.estimate),
        ratio_low: ratio(|shift| shift.interval.low),
        ratio_high: ratio(|shift| shift.interval.high),
        p: judged.map(|judged| judged.p),
        p_adjusted: judged.map(|judged| judged.p_adjusted),
        verdict,
        no_larger_than,
        runs_needed: (verdict == VerdictWord::NotEnoughRuns).then(needed).flatten(),
    }
}

/// How far a ratio of this number may be off because its values were counted in buckets, of which quantiles are the upper
/// ends. Greatest values and rates are exact.
fn resolution(raw: &Raw) -> f64 {
    if raw.unit != Unit::Nanoseconds || raw.statistic == "max" {
        return 0.0;
    }
    let width = |value: &f64| {
        let (low, high) = bucket_bounds(bucket_index(*value as u64));
        high as f64 / (low as f64).max(1.0) - 1.0
    };
    raw.values.iter().flatten().map(width).fold(0.0, f64::max)
}

/// The standard deviation within both sides; `None` below two Runs a side.
fn scatter(base: &[f64], new: &[f64]) -> Option<f64> {
    let squares = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let freedom = (base.len() + new.len()).checked_sub(2).filter(|_| base.len() > 1 && new.len() > 1)?;
    Some(((squares(base) + squares(new)) / freedom as f64).sqrt())
}

fn estimate(values: &[Option<f64>], counts: &[u64]) -> Estimate {
    let here: Vec<f64> = values.iter().flatten().copied().collect();
    let (median, interval) = match median_interval(&here, CONFIDENCE) {
        Some((median, interval)) => (median, Some(interval)),
        None => (0.0, None),
    };
    let end = |of: f64| Some(of).filter(|end| end.is_finite());
    Estimate {
        runs: here.len() as u64,
        values: counts.iter().sum(),
        median,
        least: here.iter().copied().reduce(f64::min).unwrap_or(0.0),
        greatest: here.iter().copied().reduce(f64::max).unwrap_or(0.0),
        low: interval.and_then(|interval| end(interval.low)),
        high: interval.and_then(|interval| end(interval.high)),
    }
}
