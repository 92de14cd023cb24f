// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Run reduced to what a comparison needs of it: a few numbers for each of its series, merged over CPUs.

use std::collections::BTreeMap;

use latebound_model::{
    Emulation, Evidence, Histogram, LossKind, Mechanism, Nanos, Quantity, Run, RunState, Series,
};

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

/// A series, merged over the CPUs.
#[derive(Clone, Debug)]
pub(crate) struct SeriesFacts {
    pub(crate) count: u64,
    /// In the order of [`QUANTILES`]; `None` where too few values were counted.
    pub(crate) quantiles: [Option<Nanos>; QUANTILES.len()],
    pub(crate) max: Option<Nanos>,
    pub(crate) lost: bool,
    /// On which CPUs, for the caution where they differ.
    pub(crate) cpus: Vec<u32>,
    /// How long a block is, and the greatest value on any CPU in each.
    pub(crate) blocks: Option<(Nanos, Vec<Option<f64>>)>,
}

/// What a comparison needs to know of a Run.
#[derive(Clone, Debug)]
pub struct RunFacts {
    pub(crate) name: RunName,
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
            if let Some(key) = key(series).filter(|key| key.family == Family::Main) {
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
            name: RunName {
                path: path.to_owned(),
                started_at: run.started_at.clone(),
                duration_ns: run.duration.0,
                complete: run.state == RunState::Complete,
            },
            emulation: run.system.emulation.clone(),
            imported: run.verb == "import",
            load_errors: run.loads.iter().filter_map(|load| load.error.clone()).collect(),
            series: merged(run),
            rates,
            causes,
            cases: run.worst.len() as u64,
            settings,
        }
    }
}

/// The series by key, those of several CPUs and threads together.
fn merged(run: &Run) -> BTreeMap<SeriesKey, SeriesFacts> {
    let mut groups: BTreeMap<SeriesKey, Vec<&Series>> = BTreeMap::new();
    for series in &run.series {
        if let Some(key) = key(series) {
            groups.entry(key).or_default().push(series);
        }
    }
    groups.into_iter().filter_map(|(key, series)| Some((key, facts(&series)?))).collect()
}

fn key(series: &Series) -> Option<SeriesKey> {
    let family = match (series.evidence, series.mechanism) {
        (_, Mechanism::Operation) | (Evidence::User, _) => Family::Main,
        _ => Family::Mechanisms,
    };
    let wanted = match family {
        Family::Main => {
            matches!(series.quantity, Quantity::Latency | Quantity::LatencyNaive | Quantity::Execution)
        }
        Family::Mechanisms => series.quantity == Quantity::Latency,
    };
    // Threads that measure without a CPU of their own are told apart by a number in their name.
    let measuring = series.mechanism == Mechanism::TimerWakeup && series.evidence == Evidence::User;
    let subject = if measuring && series.subject.name.starts_with("measure") {
        "measure".to_owned()
    } else {
        series.subject.name.clone()
    };
    wanted.then_some(SeriesKey { family, mechanism: series.mechanism, subject, quantity: series.quantity })
}

fn facts(series: &[&Series]) -> Option<SeriesFacts> {
    let mut histogram = Histogram::new();
    series.iter().for_each(|one| histogram.merge(&one.histogram));
    let blocks = blocks(series);
    // Another tool may have kept the greatest value and no distribution.
    let of_blocks = || {
        let (_, maxima) = blocks.as_ref()?;
        maxima.iter().flatten().copied().reduce(f64::max).map(|max| Nanos(max as u64))
    };
    let max = histogram.max().or_else(of_blocks)?;
    let clipped = clipped(series);
    Some(SeriesFacts {
        count: histogram.count(),
        quantiles: QUANTILES.map(|(_, q)| histogram.quantile_with_above(q, clipped?)),
        max: Some(max),
        lost: series.iter().any(|one| one.losses.iter().any(|loss| loss.count != Some(0))),
        cpus: series.iter().filter_map(|one| one.subject.cpu.map(|cpu| cpu.0)).collect(),
        blocks,
    })
}

/// How many values lay above the histogram and are not in it; `None` where that is not known.
fn clipped(series: &[&Series]) -> Option<u64> {
    let losses = series.iter().flat_map(|one| &one.losses).filter(|loss| loss.kind == LossKind::Clipped);
    losses.map(|loss| loss.count).try_fold(0u64, |sum, count| Some(sum.saturating_add(count?)))
}

/// The greatest value on any CPU in each block that all CPUs have.
fn blocks(series: &[&Series]) -> Option<(Nanos, Vec<Option<f64>>)> {
    let maxima: Vec<_> = series.iter().map(|one| one.block_maxima.as_ref()).collect::<Option<Vec<_>>>()?;
    let first = maxima.first()?;
    if first.block == Nanos::ZERO || maxima.iter().any(|other| other.block != first.block) {
        return None;
    }
    let length = maxima.iter().map(|one| one.maxima.len()).min()?;
    let greatest = |at: usize| {
        let values: Option<Vec<Nanos>> = maxima.iter().map(|one| one.maxima[at]).collect();
        values?.into_iter().max().map(|value| value.0 as f64)
    };
    Some((first.block, (0..length).map(greatest).collect()))
}
