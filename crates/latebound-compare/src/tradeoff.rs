// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency against throughput: several systems (kernels of several preemption models) under the same work, one point a system
//! with its interval, and which of them no other beats in both.

use latebound_model::Mechanism;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::compare;
use crate::document::{Comparison, Estimate, Measure, Unit};
use crate::facts::Side;
use crate::options::Options;

/// The schema that this version writes.
pub const TRADEOFF_SCHEMA: &str = "latebound.preemption/1";

/// The number that stands for latency, the first that all Runs have.
const LATENCIES: [&str; 3] = ["p99.9", "p99", "max"];

/// Systems held against each other under several workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tradeoff {
    /// [`TRADEOFF_SCHEMA`].
    pub schema: String,
    /// The systems, in the order asked for; the first is the baseline.
    pub models: Vec<String>,
    /// What they worked on.
    pub workloads: Vec<Workload>,
}

/// One workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// The load, as it is written: `tcp:size=300`.
    pub name: String,
    /// What the points' latency is of: `timer wake-up measure p99.9`; absent where the systems have none in common.
    pub latency_of: Option<String>,
    /// What the points' throughput is of: `tcp messages`.
    pub throughput_of: Option<String>,
    /// One for each system that has both numbers.
    pub points: Vec<Point>,
    /// Each system against the first.
    pub comparison: Comparison,
}

/// One system under one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The system.
    pub model: String,
    /// Its latency over Runs, in nanoseconds.
    pub latency: Estimate,
    /// Its throughput over Runs, a second.
    pub throughput: Estimate,
    /// Whether no other system is at least as good in both and better in one, by the medians.
    pub frontier: bool,
}

/// Any difference at all is called in at most this share of comparisons of a system with itself; smaller ones than the margin do
/// not matter.
const OPTIONS: Options = Options { level: 0.05, margin: 0.05, least_effect: 0.01, seed: 1 };

impl Tradeoff {
    /// Of these systems, with no workload yet.
    pub fn new(models: Vec<String>) -> Tradeoff {
        Tradeoff { schema: TRADEOFF_SCHEMA.to_owned(), models, workloads: Vec::new() }
    }

    /// Adds a workload by those systems that have Runs of it. `None`, and nothing is added, where fewer than two have.
    pub fn add(&mut self, name: &str, mut sides: Vec<Side>) -> Option<(&Workload, Vec<Side>)> {
        sides.retain(|side| !side.runs.is_empty());
        let found = (sides.len() > 1).then(|| workload(name, &sides, &OPTIONS))??;
        self.workloads.push(found);
        self.workloads.last().map(|workload| (workload, sides))
    }
}

/// Holds the sides of one workload against the first of them.
pub fn workload(name: &str, sides: &[Side], options: &Options) -> Option<Workload> {
    let (base, others) = sides.split_first()?;
    let comparison = compare(base, others, options);
    let common = |of: &dyn Fn(&Measure) -> bool| -> Option<Vec<&Measure>> {
        let found: Option<Vec<&Measure>> =
            comparison.against.iter().map(|against| against.measures.iter().find(|m| of(m))).collect();
        found.filter(|found| !found.is_empty())
    };
    let latency = LATENCIES.iter().find_map(|statistic| {
        common(&|m| m.mechanism == Some(Mechanism::TimerWakeup) && m.statistic == *statistic)
    });
    // Of several loads beside each other the first is the work, the others stress the system.
    let work = name.split([':', '+']).next().unwrap_or_default().trim();
    let is_rate = |m: &Measure| matches!(m.unit, Unit::PerSecond(_));
    let throughput =
        common(&|m| is_rate(m) && m.of.split(' ').next() == Some(work)).or_else(|| common(&is_rate));
    let mut points = Vec::new();
    if let (Some(latency), Some(throughput)) = (&latency, &throughput) {
        let estimates = |of: &[&Measure]| -> Vec<Estimate> {
            of.first().map(|m| m.base.clone()).into_iter().chain(of.iter().map(|m| m.new.clone())).collect()
        };
        let names = sides.iter().map(|side| side.name.clone());
        let both = estimates(latency).into_iter().zip(estimates(throughput));
        points = names
            .zip(both)
            .map(|(model, (latency, throughput))| Point { model, latency, throughput, frontier: false })
            .collect();
    }
    let beaten: Vec<bool> =
        points.iter().map(|point| points.iter().any(|other| beats(other, point))).collect();
    points.iter_mut().zip(beaten).for_each(|(point, beaten)| point.frontier = !beaten);
    let named = |of: &Option<Vec<&Measure>>| -> Option<String> {
        let first = of.as_ref()?.first()?;
        Some(match first.unit {
            Unit::Nanoseconds => format!("{} {}", first.of, first.statistic),
            Unit::PerSecond(_) => first.of.clone(),
        })
    };
    let (latency_of, throughput_of) = (named(&latency), named(&throughput));
    Some(Workload { name: name.to_owned(), latency_of, throughput_of, points, comparison })
}

fn beats(one: &Point, other: &Point) -> bool {
    let (a, b) = (one.latency.median, other.latency.median);
    let (x, y) = (one.throughput.median, other.throughput.median);
    a <= b && x >= y && (a < b || x > y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_dominated_by_one_better_in_one_and_no_worse_in_the_other() {
        let of = |median: f64| Estimate {
            runs: 1,
            values: 1,
            median,
            above: false,
            min: median,
            max: median,
            low: None,
            high: None,
        };
        let point = |latency, throughput| Point {
            model: String::new(),
            latency: of(latency),
            throughput: of(throughput),
            frontier: false,
        };
        assert!(beats(&point(1.0, 5.0), &point(2.0, 5.0)) && beats(&point(2.0, 6.0), &point(2.0, 5.0)));
        assert!(!beats(&point(1.0, 4.0), &point(2.0, 5.0)) && !beats(&point(2.0, 5.0), &point(2.0, 5.0)));
    }
}
