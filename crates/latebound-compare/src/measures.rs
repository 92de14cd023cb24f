// SPDX-License-Identifier: MIT OR Apache-2.0
//! One number of each Run, held against that of the others.

use latebound_model::Mechanism;
use latebound_stats::{
    Better, FEWEST_BEYOND, MeasureVerdict, Number, Rules, Scatter, Shift, Span, Statistic, Trimmed, Verdict,
    fewest_runs, judge, median_interval, relabel, runs_needed_trimmed, shift,
};

use crate::alike::common_series;
use crate::document::{Estimate, Family, Measure, Unit, VerdictWord};
use crate::facts::{OF_CPUS, OfCpu, QUANTILES, RunFacts, SeriesFacts, SeriesKey, Side};
use crate::options::Options;
use crate::turns::Turns;

/// How sure intervals are.
const CONFIDENCE: f64 = 0.95;
/// The power that "enough Runs" means.
const POWER: f64 = 0.8;
/// The maximum value is compared where the counts behind it differ by no more than this: more values reach farther.
const MAX_COUNTS_DIFFER: f64 = 0.1;
/// A tail is compared where one side's Runs have at most so many times as many values: thinning makes the counts equal, and
/// does not make values that come in bursts as rare on both sides.
const TAIL_COUNTS: f64 = 1.5;
/// Runs whose counts differ by less than this are not thinned: the estimate's bias changes less than can be seen.
const SAME_COUNT: f64 = 0.01;
/// Quantiles above this are of the tail.
const TAIL: f64 = 0.9;

/// What part of the stated error rate a family has (weighted Bonferroni, as in Bretz, Maurer, Brannath and Posch, Statistics in
/// Medicine 28, 2009, without passing on). With four Runs a side the main one can still call: 2 of 70 ways is below 3 %.
fn weight(family: Family) -> f64 {
    match family {
        Family::Main => 0.6,
        Family::Cpus | Family::Mechanisms => 0.2,
    }
}

/// A measure before it is judged: a number for each Run, base Runs first.
struct Raw {
    family: Family,
    of: String,
    mechanism: Option<Mechanism>,
    statistic: String,
    unit: Unit,
    values: Vec<Option<Number>>,
    counts: Vec<u64>,
}

/// What was compared, with what was left out and why.
pub(crate) struct Compared {
    pub(crate) measures: Vec<Measure>,
    pub(crate) left_out: Vec<String>,
    pub(crate) relabellings: u64,
    pub(crate) exact: bool,
    pub(crate) turns: bool,
}

/// What a judgement goes by beside the numbers.
struct Frame<'o> {
    options: &'o Options,
    base_runs: usize,
    /// The level of one family and one side.
    level: f64,
    /// How many measures share it.
    among: usize,
    turns: Option<&'o Turns>,
}

/// Compares everything that both sides have. `sides` is how many sides are held against the base in all.
pub(crate) fn measures(base: &Side, new: &Side, options: &Options, sides: usize) -> Compared {
    let mut left_out = Vec::new();
    let runs: Vec<&RunFacts> = base.runs.iter().chain(&new.runs).collect();
    let base_runs = base.runs.len();
    let mut raw: Vec<Raw> = Vec::new();
    for key in common_series(base, new) {
        of_series(&key, &runs, base_runs, options.seed, &mut raw, &mut left_out);
    }
    of_rates(&runs, base_runs, &mut raw);
    let turns = Turns::of(&runs, base_runs);
    let families = [Family::Main, Family::Cpus, Family::Mechanisms];
    let present = |family: &Family| raw.iter().any(|raw| raw.family == *family);
    let weights: f64 = families.iter().filter(|family| present(family)).map(|family| weight(*family)).sum();
    let (mut measures, mut relabellings, mut exact) = (Vec::new(), 0, true);
    for family in families {
        let mine: Vec<&Raw> = raw.iter().filter(|raw| raw.family == family).collect();
        if mine.is_empty() {
            continue;
        }
        let share = weight(family) / weights / sides.max(1) as f64;
        let frame = Frame {
            options,
            base_runs,
            level: options.level * share,
            among: mine.len(),
            turns: turns.as_ref(),
        };
        let logs: Vec<Logs> = mine.iter().map(|raw| Logs::of(raw, &frame)).collect();
        let values: Vec<Vec<Option<f64>>> = logs.iter().map(|logs| logs.values.clone()).collect();
        let statistic = if family == Family::Cpus { Statistic::Means } else { Statistic::Ranks };
        let strata = turns.as_ref().map_or(&[][..], |turns| &turns.strata);
        let relabelled = relabel(&values, base_runs, strata, statistic, options.seed);
        (relabellings, exact) = (relabelled.relabellings.max(relabellings), exact && relabelled.exact);
        for ((raw, logs), judged) in mine.into_iter().zip(&logs).zip(relabelled.measures) {
            let judged = judged
                .map(
                    |judged| {
                        if statistic == Statistic::Ranks { held(judged, logs, base_runs) } else { judged }
                    },
                )
                .map(|judged| MeasureVerdict { p_adjusted: (judged.p_adjusted / share).min(1.0), ..judged });
            measures.push(measure(raw, logs, judged, &frame));
        }
    }
    Compared { measures, left_out, relabellings, exact, turns: turns.is_some() }
}

/// The p-values with those of the sides' own scatter, where these are greater: relabelling by ranks takes the sides to scatter alike. What
/// is paid for many measures is what relabelling found that it costs.
fn held(judged: MeasureVerdict, logs: &Logs, base_runs: usize) -> MeasureVerdict {
    let (base, new) = logs.values.split_at(base_runs);
    let values = |of: &[Option<f64>]| of.iter().flatten().copied().collect::<Vec<f64>>();
    // With one Run on a side nothing is known of its scatter.
    let own = Trimmed::of(&values(base), &values(new)).map_or(1.0, |trimmed| trimmed.p(logs.widened));
    MeasureVerdict {
        p: judged.p.max(own),
        p_adjusted: judged.p_adjusted.max((own * judged.for_many).min(1.0)),
        ..judged
    }
}

/// The logarithms of a measure's numbers, moved to where they would be without drift where the sides took turns.
struct Logs {
    values: Vec<Option<f64>>,
    spans: Vec<Option<Span>>,
    /// So many times as wide the interval is because of that.
    widened: f64,
}

impl Logs {
    fn of(raw: &Raw, frame: &Frame<'_>) -> Logs {
        // A latency of zero nanoseconds has no logarithm; half of one is as near as the clock tells.
        let ln = |value: f64| value.max(0.5).ln();
        let values: Vec<Option<f64>> = raw.values.iter().map(|n| n.map(|n| ln(n.value))).collect();
        let span = |n: Number| Span { low: ln(n.span.low), high: ln(n.span.high) };
        let spans: Vec<Option<Span>> = raw.values.iter().map(|n| n.map(span)).collect();
        let known = raw.values.iter().all(|number| number.is_some_and(|number| !number.is_censored()));
        let Some(turns) = frame.turns.filter(|_| known) else { return Logs { values, spans, widened: 1.0 } };
        let all: Vec<f64> = values.iter().flatten().copied().collect();
        let moves = turns.moves(&all, frame.base_runs);
        Logs {
            values: values.iter().zip(&moves).map(|(value, by)| value.map(|value| value - by)).collect(),
            spans: spans
                .iter()
                .zip(&moves)
                .map(|(span, by)| span.map(|span| Span { low: span.low - by, high: span.high - by }))
                .collect(),
            widened: turns.widened(),
        }
    }
}

fn of_series(
    key: &SeriesKey,
    runs: &[&RunFacts],
    base_runs: usize,
    seed: u64,
    raw: &mut Vec<Raw>,
    left_out: &mut Vec<String>,
) {
    let facts: Vec<Option<&SeriesFacts>> = runs.iter().map(|run| run.series.get(key)).collect();
    let of = key.of();
    let new =
        |of: String, family: Family, statistic: &str, values: Vec<Option<Number>>, counts: &[u64]| Raw {
            family,
            of,
            mechanism: Some(key.mechanism),
            statistic: statistic.to_owned(),
            unit: Unit::Nanoseconds,
            values,
            counts: counts.to_vec(),
        };
    let counts: Vec<u64> = facts.iter().map(|facts| facts.map_or(0, |facts| facts.count)).collect();
    let of_side = |counts: &[u64]| {
        let counts: Vec<f64> = counts.iter().filter(|&&n| n > 0).map(|&n| n as f64).collect();
        median_interval(&counts, CONFIDENCE).map_or(0.0, |(median, _)| median)
    };
    let (base_count, new_count) = (of_side(&counts[..base_runs]), of_side(&counts[base_runs..]));
    let (fewer, more) = (base_count.min(new_count), base_count.max(new_count));
    let counted = format!("about {base_count:.0} and {new_count:.0} values a Run");
    if facts.iter().flatten().any(|facts| facts.cut_off) {
        left_out.push(format!(
            "quantiles of {of} are not compared: values lay above the histogram, and nobody knows how many"
        ));
    }
    // What one Run knows no more of, no Run is asked for.
    let limit = facts.iter().flatten().filter_map(|facts| facts.limit).reduce(f64::min);
    let cut = |number: Number| limit.map_or(number, |limit| number.cut_at(limit));
    let lowest = counts.iter().copied().filter(|&count| count > 0).min().unwrap_or(0);
    let number = |run: usize, facts: &SeriesFacts, at: usize| {
        let whole = facts.count as f64 <= lowest as f64 * (1.0 + SAME_COUNT);
        match &facts.sample {
            // Each Run is thinned by numbers of its own.
            Some(sample) if !whole && !facts.cut_off => sample
                .thinned(lowest, seed.wrapping_mul(0x9e37_79b9).wrapping_add(run as u64))
                .quantile(QUANTILES[at].1),
            _ => facts.quantiles[at],
        }
        .map(cut)
    };
    for (at, (name, q)) in QUANTILES.iter().enumerate() {
        // With so many mechanisms, two numbers of each are enough to see which moved.
        if key.family == Family::Mechanisms && !matches!(*name, "p50" | "p99") {
            continue;
        }
        if *q > TAIL && more > TAIL_COUNTS * fewer {
            if facts.iter().flatten().any(|facts| facts.quantiles[at].is_some()) {
                left_out.push(format!(
                    "{name} of {of} is not compared: there are {counted}, and a tail in bursts is another one over another time"
                ));
            }
            continue;
        }
        let values: Vec<Option<Number>> = facts
            .iter()
            .enumerate()
            .map(|(run, facts)| facts.and_then(|facts| number(run, facts, at)))
            .collect();
        // A quantile that a Run is too short for would compare the longer Runs of one side with all of the other.
        if values.iter().zip(&facts).all(|(value, facts)| value.is_some() || facts.is_none())
            && values.iter().any(Option::is_some)
        {
            raw.push(new(of.clone(), key.family, name, values, &counts));
        } else if facts.iter().flatten().any(|facts| facts.quantiles[at].is_some()) {
            left_out.push(format!(
                "{name} of {of} is not compared: a Run has {lowest} values, and it takes {:.0}",
                (FEWEST_BEYOND / (1.0 - q)).ceil()
            ));
        }
    }
    if key.family != Family::Main {
        return;
    }
    let even = more - fewer <= MAX_COUNTS_DIFFER * more;
    if even {
        let max: Vec<Option<Number>> = facts.iter().map(|facts| facts.and_then(|facts| facts.max)).collect();
        raw.push(new(of.clone(), Family::Main, "max", cut_if_any(max, limit), &counts));
    } else {
        left_out.push(format!(
            "the maxima of {of} are not compared: they are of {counted}, and more values reach farther; see the forecasts"
        ));
    }
    let cpus: Vec<&Vec<u32>> = facts.iter().flatten().map(|facts| &facts.cpus).collect();
    if cpus.windows(2).any(|pair| pair[0] != pair[1]) {
        left_out.push(format!("{of} was not taken on the same CPUs in all Runs"));
        return;
    }
    let Some(first) = facts.first().copied().flatten().filter(|_| even && facts.iter().all(Option::is_some))
    else {
        return;
    };
    for cpu in first.by_cpu.keys() {
        let one = |of: fn(&OfCpu) -> Option<Number>| -> Vec<Option<Number>> {
            facts.iter().map(|facts| facts.and_then(|facts| of(facts.by_cpu.get(cpu)?))).collect()
        };
        let name = format!("{of}, CPU {cpu}");
        let each: Vec<u64> = counts.iter().map(|count| count / first.by_cpu.len() as u64).collect();
        let (tail, max) = (cut_if_any(one(|of| of.tail), limit), cut_if_any(one(|of| of.max), limit));
        for (statistic, values) in [(OF_CPUS.0, tail), ("max", max)] {
            if values.iter().all(Option::is_some) {
                raw.push(new(name.clone(), Family::Cpus, statistic, values, &each));
            }
        }
    }
}

/// Where a Run does not know its number, all are known up to the lowest limit.
fn cut_if_any(values: Vec<Option<Number>>, limit: Option<f64>) -> Vec<Option<Number>> {
    match limit.filter(|_| values.iter().flatten().any(Number::is_censored)) {
        Some(limit) => values.into_iter().map(|value| value.map(|value| value.cut_at(limit))).collect(),
        None => values,
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
            values: rates.iter().map(|rate| rate.map(|(rate, _)| Number::exact(*rate))).collect(),
            counts: rates.iter().map(|rate| rate.map_or(0, |(_, count)| *count)).collect(),
        });
    }
}

fn measure(raw: &Raw, logs: &Logs, judged: Option<MeasureVerdict>, frame: &Frame<'_>) -> Measure {
    let options = frame.options;
    let (base, new) = raw.values.split_at(frame.base_runs);
    let (base_counts, new_counts) = raw.counts.split_at(frame.base_runs);
    let (base_spans, new_spans) = logs.spans.split_at(frame.base_runs);
    let spans = |of: &[Option<Span>]| of.iter().flatten().copied().collect::<Vec<Span>>();
    let shift =
        shift(&spans(base_spans), &spans(new_spans), CONFIDENCE).map(|shift| widened(shift, logs.widened));
    let better = if raw.unit == Unit::Nanoseconds { Better::Lower } else { Better::Higher };
    let rules = Rules { level: options.level, margin: options.margin, least_effect: options.least_effect };
    let (verdict, no_larger_than) = match judge(judged, shift.as_ref(), better, rules) {
        Verdict::Better => (VerdictWord::Better, None),
        Verdict::Worse => (VerdictWord::Worse, None),
        Verdict::NoDifferenceLargerThan(most) => (VerdictWord::NoDifferenceLargerThan, Some(most)),
        Verdict::NotEnoughRuns => (VerdictWord::NotEnoughRuns, None),
    };
    let needed = || enough(raw, logs, frame);
    let end = |of: f64| Some(of).filter(|end| end.is_finite()).map(f64::exp);
    let interval = shift.as_ref().map(|shift| shift.interval);
    Measure {
        family: raw.family,
        of: raw.of.clone(),
        mechanism: raw.mechanism,
        statistic: raw.statistic.clone(),
        unit: raw.unit.clone(),
        base: estimate(base, base_counts),
        new: estimate(new, new_counts),
        ratio: shift.as_ref().and_then(|shift| shift.estimate).map(f64::exp),
        ratio_low: interval.and_then(|interval| end(interval.low)),
        ratio_high: interval.and_then(|interval| end(interval.high)),
        p: judged.map(|judged| judged.p),
        p_adjusted: judged.map(|judged| judged.p_adjusted),
        verdict,
        no_larger_than,
        runs_needed: (verdict == VerdictWord::NotEnoughRuns).then(needed).flatten(),
    }
}

fn widened(shift: Shift, by: f64) -> Shift {
    let Some(middle) = shift.estimate.filter(|_| by > 1.0) else { return shift };
    let mut interval = shift.interval;
    interval.low = middle - (middle - interval.low) * by;
    interval.high = middle + (interval.high - middle) * by;
    Shift { interval, ..shift }
}

/// How many Runs a side tell a difference of the margin: its p-value has to come down to the level among all measures, and its
/// interval has to lie beyond the minimum effect, whatever the values are within what is known of them.
fn enough(raw: &Raw, logs: &Logs, frame: &Frame<'_>) -> Option<u64> {
    let options = frame.options;
    if raw.values.iter().flatten().any(Number::is_censored) {
        return None;
    }
    let (base, new) = logs.values.split_at(frame.base_runs);
    let values = |of: &[Option<f64>]| of.iter().flatten().copied().collect::<Vec<f64>>();
    let level = frame.level / frame.among as f64;
    let Some(scatter) = scatter(&values(base), &values(new)) else { return Some(fewest_runs(level)) };
    let scatter = Scatter { deviation: scatter.deviation * logs.widened, ..scatter };
    let width = logs.spans.iter().flatten().map(|span| span.high - span.low).fold(0.0, f64::max);
    let beyond = options.margin.ln_1p() - options.least_effect.ln_1p() - width;
    // Both have to hold at once. Together they fail at most as often as the one and the other do, so the failures that are allowed
    // are dealt out between them, in the way that takes the fewest Runs.
    let dealt = |to_call: f64| {
        let called = runs_needed_trimmed(options.margin.ln_1p(), scatter, level, 1.0 - to_call)?;
        let power = POWER + to_call;
        Some(called.max(runs_needed_trimmed(beyond, scatter, 1.0 - CONFIDENCE, power)?))
    };
    (1..20).filter_map(|of_twenty| dealt((1.0 - POWER) * f64::from(of_twenty) / 20.0)).min()
}

/// How far the Runs of both sides scatter; `None` below two Runs a side.
fn scatter(base: &[f64], new: &[f64]) -> Option<Scatter> {
    let squares = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let freedom = (base.len() + new.len()).checked_sub(2).filter(|_| base.len() > 1 && new.len() > 1)?;
    let freedom = freedom as f64;
    Some(Scatter { deviation: ((squares(base) + squares(new)) / freedom).sqrt(), freedom })
}

fn estimate(values: &[Option<Number>], counts: &[u64]) -> Estimate {
    let here: Vec<f64> = values.iter().flatten().map(|number| number.value).collect();
    let (median, interval) = match median_interval(&here, CONFIDENCE) {
        Some((median, interval)) => (median, Some(interval)),
        None => (0.0, None),
    };
    // Values that are known are below the limit, so those that are not are the upper ones.
    let unknown = values.iter().flatten().filter(|number| number.is_censored()).count();
    let above = unknown > 0 && unknown * 2 >= here.len();
    let end = |of: f64| Some(of).filter(|end| end.is_finite() && unknown == 0);
    Estimate {
        runs: here.len() as u64,
        values: counts.iter().sum(),
        median,
        above,
        min: here.iter().copied().reduce(f64::min).unwrap_or(0.0),
        max: here.iter().copied().reduce(f64::max).unwrap_or(0.0),
        low: interval.and_then(|interval| end(interval.low)),
        high: interval.and_then(|interval| end(interval.high)),
    }
}
