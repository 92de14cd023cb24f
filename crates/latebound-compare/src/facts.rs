// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Run reduced to what a comparison needs of it: a few numbers for each of its series, merged over CPUs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use latebound_model::{
    Censored, Emulation, Evidence, Histogram, Mechanism, Nanos, Quantity, Run, RunState, RunVerb, Series,
};
use latebound_stats::{Number, Sample, Span};

use crate::document::{Family, RunName};
use crate::settings::{Settings, settings};

/// The quantiles that are compared where they were measured: name and number.
pub(crate) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// A series of both sides: what has to be the same for two series to be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeriesKey {
    pub(crate) family: Family,
    pub(crate) mechanism: Mechanism,
    pub(crate) subject: String,
    pub(crate) quantity: Quantity,
}

impl SeriesKey {
    /// Of what it is, as tables name it.
    pub(crate) fn of(&self) -> String {
        match self.quantity {
            Quantity::Latency => format!("{} {}", self.mechanism, self.subject),
            other => format!("{} {}, {}", self.mechanism, self.subject, other.name()),
        }
    }
}

/// The quantile of each CPU by itself.
pub(crate) const OF_CPUS: (&str, f64) = ("p99", 0.99);

/// What is compared of one CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfCpu {
    /// The quantile [`OF_CPUS`].
    pub(crate) tail: Option<Number>,
    /// The maximum value.
    pub(crate) max: Option<Number>,
}

/// A series, merged over the CPUs.
#[derive(Clone, Debug)]
pub(crate) struct SeriesFacts {
    /// How many values, those above the source's histogram included.
    pub(crate) count: u64,
    /// In the order of [`QUANTILES`]; `None` where too few values were counted.
    pub(crate) quantiles: [Option<Number>; QUANTILES.len()],
    pub(crate) max: Option<Number>,
    /// All values, where other Runs may have fewer and this one has to be thinned to as many.
    pub(crate) sample: Option<Box<Sample>>,
    /// Where the source's histogram ended, with values above.
    pub(crate) limit: Option<f64>,
    /// Whether values lay above the source's histogram, and nobody knows how many.
    pub(crate) cut_off: bool,
    pub(crate) lost: bool,
    /// On which CPUs, for the caution where they differ.
    pub(crate) cpus: Vec<u32>,
    /// The numbers of each CPU, where there are several.
    pub(crate) by_cpu: BTreeMap<u32, OfCpu>,
    /// How long a block is, and the maximum value on any CPU in each.
    pub(crate) blocks: Option<(Nanos, Vec<Option<f64>>)>,
}

/// What a comparison needs to know of a Run.
#[derive(Clone, Debug)]
pub struct RunFacts {
    pub(crate) name: RunName,
    /// When it began, where that can be read.
    pub(crate) started: Option<Timestamp>,
    /// Whether fewer operations were done than were offered.
    pub(crate) dropped: bool,
    /// What measured it.
    pub(crate) tool: String,
    pub(crate) settings: Settings,
    pub(crate) emulation: Option<Emulation>,
    pub(crate) imported: bool,
    pub(crate) load_errors: Vec<String>,
    pub(crate) series: BTreeMap<SeriesKey, SeriesFacts>,
    /// Name and unit to units a second, and how many.
    pub(crate) rates: BTreeMap<(String, String), (f64, u64)>,
    /// Kind of cause to time in the worst cases.
    pub(crate) causes: BTreeMap<&'static str, u64>,
    pub(crate) cases: u64,
}

/// Any number of Runs of one system in one state.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// What it is called.
    pub name: String,
    /// Its Runs.
    pub runs: Vec<RunFacts>,
    /// What was timed, all Runs together, to draw.
    distributions: BTreeMap<SeriesKey, Histogram>,
}

impl Side {
    /// A side without Runs.
    pub fn new(name: &str) -> Side {
        Side { name: name.to_owned(), ..Side::default() }
    }

    /// Reduces a Run and adds it; `path` is where it was read.
    pub fn add(&mut self, run: &Run, path: &str) {
        for series in &run.series {
            if let Some(key) = key(run, series).filter(|key| key.family == Family::Main) {
                self.distributions.entry(key).or_default().merge(&series.histogram);
            }
        }
        self.runs.push(RunFacts::of(run, path));
    }

    /// What was timed, all Runs together: of what, as [`crate::Measure::of`] has it, and the values.
    pub fn distributions(&self) -> impl Iterator<Item = (String, &Histogram)> {
        self.distributions.iter().map(|(key, histogram)| (key.of(), histogram))
    }
}

impl RunFacts {
    /// Where the Run was read.
    pub fn path(&self) -> &str {
        &self.name.path
    }

    /// Reduces a Run; `path` is where it was read.
    pub fn of(run: &Run, path: &str) -> RunFacts {
        let settings = settings(run);
        let rates = run
            .throughput
            .iter()
            .filter(|throughput| throughput.duration > Nanos::ZERO && throughput.done > 0)
            .map(|throughput| {
                let rate = throughput.done as f64 / throughput.duration.as_secs_f64();
                ((throughput.name.clone(), throughput.unit.clone()), (rate, throughput.done))
            })
            .collect();
        let mut causes: BTreeMap<&'static str, u64> = BTreeMap::new();
        for cause in run.worst.iter().flat_map(|worst| &worst.causes) {
            *causes.entry(cause.kind.name()).or_default() += cause.duration.0;
        }
        RunFacts {
            started: started(&run.started_at),
            dropped: run.throughput.iter().any(|throughput| {
                throughput.offered.is_some_and(|offered| (throughput.done as f64) < 0.99 * offered as f64)
            }),
            name: RunName {
                path: path.to_owned(),
                started_at: run.started_at.clone(),
                duration_ns: run.duration.0,
                complete: run.state == RunState::Complete,
            },
            emulation: run.system.emulation.clone(),
            imported: run.verb == RunVerb::Import,
            load_errors: run.loads.iter().filter_map(|load| load.error.clone()).collect(),
            series: merged(run),
            rates,
            causes,
            cases: run.worst.len() as u64,
            tool: run.tool.name.clone(),
            settings,
        }
    }
}

/// The series by key, those of several CPUs and threads together.
fn merged(run: &Run) -> BTreeMap<SeriesKey, SeriesFacts> {
    let mut groups: BTreeMap<SeriesKey, Vec<&Series>> = BTreeMap::new();
    for series in &run.series {
        if let Some(key) = key(run, series) {
            groups.entry(key).or_default().push(series);
        }
    }
    let reduced = |(key, series): (SeriesKey, Vec<&Series>)| {
        let facts = facts(&series, key.family == Family::Main)?;
        Some((key, facts))
    };
    groups.into_iter().filter_map(reduced).collect()
}

/// The start of a Run: RFC 3339, RFC 2822 (as `date -R` and rt-tests write it), or a date and a time of no zone.
fn started(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let of_mail = || jiff::fmt::rfc2822::parse(text).ok().map(|zoned| zoned.timestamp());
    let of_no_zone = || {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    };
    text.parse().ok().or_else(of_mail).or_else(of_no_zone)
}

/// The subject of wake-ups that threads of the tool timed, whichever tool it was.
const MEASURING_THREADS: &str = "measure";

fn key(run: &Run, series: &Series) -> Option<SeriesKey> {
    let family = match (series.evidence, series.mechanism) {
        (_, Mechanism::Operation) | (Evidence::User, _) => Family::Main,
        _ => Family::Mechanisms,
    };
    let wanted = match family {
        Family::Main => {
            matches!(series.quantity, Quantity::Latency | Quantity::LatencyNaive | Quantity::Execution)
        }
        Family::Cpus | Family::Mechanisms => series.quantity == Quantity::Latency,
    };
    // Threads that measure without a CPU of their own are told apart by a number in their name.
    let is_measuring = run.measure.is_some()
        && series.mechanism == Mechanism::TimerWakeup
        && series.evidence == Evidence::User;
    let subject = if is_measuring { MEASURING_THREADS.to_owned() } else { series.subject.name.clone() };
    wanted.then_some(SeriesKey { family, mechanism: series.mechanism, subject, quantity: series.quantity })
}

fn facts(series: &[&Series], keep: bool) -> Option<SeriesFacts> {
    let mut histogram = Histogram::new();
    series.iter().for_each(|one| histogram.merge(&one.histogram));
    let blocks = blocks(series);
    // Another tool may have kept the maximum value and no distribution.
    let of_blocks = || {
        let (_, maxima) = blocks.as_ref()?;
        maxima.iter().flatten().copied().reduce(f64::max).map(Number::exact)
    };
    let resolution = series.iter().filter_map(|one| one.resolution).max();
    let censored: Result<Vec<Option<Censored>>, _> = series.iter().map(|one| one.censored()).collect();
    let cut_off = censored.is_err();
    // Of several CPUs, all are known up to the lowest limit.
    let censored = censored
        .unwrap_or_default()
        .into_iter()
        .flatten()
        .filter(|one| one.count > 0)
        .reduce(|a, b| Censored { above: a.above.min(b.above), count: a.count.saturating_add(b.count) });
    let limit = censored.map(|censored| censored.above.0 as f64);
    let cut = |number: Number| limit.map_or(number, |limit| number.cut_at(limit));
    let sample = Sample::of(&histogram, censored, resolution);
    let max = highest(&histogram, censored, resolution).or_else(of_blocks)?;
    let by_cpu = |one: &&Series| {
        let censored = one.censored().ok()?;
        let sample = Sample::of(&one.histogram, censored, one.resolution);
        let max = highest(&one.histogram, censored, one.resolution);
        Some((one.subject.cpu?.0, OfCpu { tail: sample.quantile(OF_CPUS.1), max }))
    };
    let each: BTreeMap<u32, _> =
        if keep { series.iter().filter_map(by_cpu).collect() } else { BTreeMap::new() };
    Some(SeriesFacts {
        count: sample.count(),
        quantiles: QUANTILES.map(|(_, q)| sample.quantile(q).filter(|_| !cut_off).map(cut)),
        max: Some(max),
        sample: keep.then(|| Box::new(sample)),
        limit,
        cut_off,
        lost: series.iter().any(|one| one.losses.iter().any(|loss| loss.count != Some(0))),
        cpus: series.iter().filter_map(|one| one.subject.cpu.map(|cpu| cpu.0)).collect(),
        by_cpu: if each.len() > 1 && each.len() == series.len() { each } else { BTreeMap::new() },
        blocks,
    })
}

/// The maximum value; of values above the source's histogram it is known where that lies above the limit itself.
fn highest(histogram: &Histogram, censored: Option<Censored>, resolution: Option<Nanos>) -> Option<Number> {
    let max = histogram.max().map(|max| max.0 as f64);
    match (max, censored.filter(|one| one.count > 0)) {
        (max, Some(limit)) if max.is_none_or(|max| max < limit.above.0 as f64) => {
            let low = limit.above.0 as f64;
            Some(Number { value: low, span: Span { low, high: f64::INFINITY } })
        }
        (max, _) => max.map(|low| {
            let unit = resolution.map_or(0.0, |unit| unit.0 as f64);
            Number { value: low, span: Span { low, high: low + unit } }
        }),
    }
}

/// The maximum value on any CPU in each block that all CPUs have.
fn blocks(series: &[&Series]) -> Option<(Nanos, Vec<Option<f64>>)> {
    let maxima: Vec<_> = series.iter().map(|one| one.block_maxima.as_ref()).collect::<Option<Vec<_>>>()?;
    let first = maxima.first()?;
    if first.block == Nanos::ZERO || maxima.iter().any(|other| other.block != first.block) {
        return None;
    }
    let length = maxima.iter().map(|one| one.maxima.len()).min()?;
    let highest = |at: usize| {
        let values: Option<Vec<Nanos>> = maxima.iter().map(|one| one.maxima[at]).collect();
        values?.into_iter().max().map(|value| value.0 as f64)
    };
    Some((first.block, (0..length).map(highest).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_all_tools_are_read_and_ordered_by_time() {
        let of = |text: &str| started(text).unwrap();
        let third = of("Tue, 03 Mar 2026 09:00:00 +0100");
        assert_eq!(third, of("2026-03-03T08:00:00Z"));
        assert_eq!(third, of("2026-03-03 08:00:00"));
        // As text, Thursday the 12th comes before Tuesday the 3rd.
        assert!(third < of("Thu, 12 Mar 2026 09:00:00 +0100"));
        assert_eq!((started(""), started("yesterday")), (None, None));
    }
}
