// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often a planted shift of the tail is called, and how often something is called where nothing was planted: by `compare`, by the
//! rule of mmtests, and by two t-tests. On synthetic Runs, by the same seeds every time.
//!
//!     cargo run --release -p latebound-compare --example power -- 1000
//!
//! Each rule sees the same four numbers of each Run (p50, p99, p99.9, max), as mmtests' tables have several rows. A comparison is
//! *called* where at least one of them is called; with a shift planted, where at least one of p99, p99.9 and max is called worse.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends where it cannot go on"
)]

use latebound_compare::{Options, Side, VerdictWord, compare};
use latebound_model::{
    Evidence, Histogram, Mechanism, Nanos, Quantity, Run, RunState, RunVerb, Series, Subject,
};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Wake-ups of a Run.
const VALUES: u64 = 4_000;
const STATISTICS: [&str; 4] = ["p50", "p99", "p99.9", "max"];

struct Random(u64);

impl Random {
    /// From 0 to 1, without 0: splitmix64 (Steele, Lea and Flood 2014).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        (-2.0 * self.next().ln()).sqrt() * (std::f64::consts::TAU * self.next()).cos()
    }
}

/// A Run's values: a body around 30 us that a Run moves as a whole, and two values in a hundred from a heavy tail (Pareto with
/// index 1.5) that begins at 60 us, `shift` times as late.
fn values(random: &mut Random, shift: f64) -> Vec<f64> {
    let of_run = (0.05 * random.normal()).exp();
    let tail_of_run = (0.15 * random.normal()).exp();
    (0..VALUES)
        .map(|_| {
            if random.next() < 0.02 {
                60_000.0 * tail_of_run * shift * random.next().powf(-1.0 / 1.5).min(1e4)
            } else {
                30_000.0 * of_run * (0.1 * random.normal()).exp()
            }
        })
        .collect()
}

fn run(values: &[f64]) -> Run {
    let mut histogram = Histogram::new();
    values.iter().for_each(|value| histogram.record(Nanos(*value as u64)));
    let subject = Subject { name: "measure".to_owned(), task: None, cpu: None };
    Run {
        state: RunState::Complete,
        duration: Nanos::from_secs(4),
        series: vec![Series::new(
            Mechanism::TimerWakeup,
            Quantity::Latency,
            subject,
            Evidence::User,
            histogram,
        )],
        ..Run::new(RunVerb::Measure, "latebound", "0")
    }
}

/// The four numbers of a Run.
fn numbers(run: &Run) -> [f64; 4] {
    let h = &run.series[0].histogram;
    [h.quantile(0.5), h.quantile(0.99), h.quantile(0.999), h.max()].map(|value| value.unwrap().0 as f64)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// Welch's t-test, two-sided at 5 % (Welch 1947).
fn welch(a: &[f64], b: &[f64]) -> bool {
    let (va, vb) = (variance(a) / a.len() as f64, variance(b) / b.len() as f64);
    if va + vb <= 0.0 {
        return false;
    }
    let t = (mean(b) - mean(a)) / (va + vb).sqrt();
    let freedom =
        (va + vb).powi(2) / (va.powi(2) / (a.len() as f64 - 1.0) + vb.powi(2) / (b.len() as f64 - 1.0));
    2.0 * (1.0 - StudentsT::new(0.0, 1.0, freedom).unwrap().cdf(t.abs())) < 0.05
}

/// The rule of mmtests' tables (638401e0 of 2026-06): an interval of 1.96 standard
/// deviations around each mean, a difference that is larger than both facing halves together.
fn mmtests(a: &[f64], b: &[f64]) -> bool {
    (mean(b) - mean(a)).abs() > 1.96 * (variance(a).sqrt() + variance(b).sqrt())
}

/// What one rule called, counted over comparisons.
#[derive(Default)]
struct Count {
    any: u32,
    tail_worse: u32,
}

fn main() {
    let comparisons: u32 = std::env::args().nth(1).map_or(1000, |text| text.parse().unwrap());
    let rules = ["compare", "mmtests' rule", "t-test over Runs", "t-test over all values"];
    println!("{comparisons} comparisons each, {VALUES} values a Run; tail from 60 us, 2 %, Pareto 1.5\n");
    println!("{:<24}{:>8}{:>10}{:>16}{:>22}", "rule", "Runs", "shift", "called at all", "tail called worse");
    for runs in [4, 6, 10] {
        for shift in [1.0, 1.25, 1.5, 2.0, 3.0] {
            let mut counts = rules.map(|_| Count::default());
            let mut random = Random(runs * 1_000_003 + (shift * 100.0) as u64);
            for _ in 0..comparisons {
                one(&mut random, runs, shift, &mut counts);
            }
            for (rule, count) in rules.iter().zip(&counts) {
                let part = |count: u32| format!("{:.1} %", 100.0 * f64::from(count) / f64::from(comparisons));
                println!(
                    "{rule:<24}{runs:>8}{shift:>10}{:>16}{:>22}",
                    part(count.any),
                    part(count.tail_worse)
                );
            }
        }
        println!();
    }
}

fn one(random: &mut Random, runs: u64, shift: f64, counts: &mut [Count; 4]) {
    let mut all = [Vec::new(), Vec::new()];
    let mut sides = ["base", "new"].map(Side::new);
    let mut rows: [[Vec<f64>; 2]; 4] = Default::default();
    for (side, shift) in [1.0, shift].into_iter().enumerate() {
        for at in 0..runs {
            let values = values(random, shift);
            let run = run(&values);
            all[side].extend_from_slice(&values);
            numbers(&run).into_iter().zip(&mut rows).for_each(|(number, row)| row[side].push(number));
            sides[side].add(&run, &at.to_string());
        }
    }
    let [base, new] = sides;
    let comparison =
        compare(&base, &[new], &Options { level: 0.05, margin: 0.05, least_effect: 0.01, seed: 1 });
    let measures = &comparison.against[0].measures;
    let called =
        |statistic: &str, verdict| measures.iter().any(|m| m.statistic == statistic && m.verdict == verdict);
    let ours = STATISTICS.map(|statistic| {
        let worse = called(statistic, VerdictWord::Worse);
        (worse || called(statistic, VerdictWord::Better), worse)
    });
    let rule = |of: fn(&[f64], &[f64]) -> bool| {
        [0, 1, 2, 3].map(|at| {
            let [base, new] = &rows[at];
            let called = of(base, new);
            (called, called && mean(new) > mean(base))
        })
    };
    let pooled = welch(&all[0], &all[1]);
    // Of all values there is one number, their mean: a call is one of the tail, which alone was moved.
    let pooled =
        [(false, false), (pooled, pooled && mean(&all[1]) > mean(&all[0])), (false, false), (false, false)];
    for (count, rows) in counts.iter_mut().zip([ours, rule(mmtests), rule(welch), pooled]) {
        count.any += u32::from(rows.iter().any(|row| row.0));
        count.tail_worse += u32::from(rows[1..].iter().any(|row| row.1));
    }
}
