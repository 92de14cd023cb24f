// SPDX-License-Identifier: MIT OR Apache-2.0
//! What verdicts and intervals promise, held against thousands of simulated comparisons: no more false calls than stated,
//! and intervals that hold the truth as often as stated. Seeded, so that they repeat.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use latebound_stats::{
    Better, Gev, Rules, Scatter, Span, Statistic, Verdict, judge, median_interval, relabel, return_level,
    runs_needed, shift,
};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

const RULES: Rules = Rules { level: 0.05, margin: 0.05, least_effect: 0.0 };

fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    ((random.random::<u64>() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    (-2.0 * uniform(random).ln()).sqrt() * (2.0 * std::f64::consts::PI * uniform(random)).cos()
}

/// How the value of one measure of one run comes about.
type Draw = fn(&mut Xoshiro256PlusPlus) -> f64;

/// Logarithms of values whose mean is infinite (Pareto with exponent 0.8): a machine that stalls now and then.
fn heavy(random: &mut Xoshiro256PlusPlus) -> f64 {
    -uniform(random).ln() / 0.8
}

/// Two kinds of run, one in ten of them ten times as late.
fn mixed(random: &mut Xoshiro256PlusPlus) -> f64 {
    0.05 * normal(random) + if uniform(random) < 0.1 { 10f64.ln() } else { 0.0 }
}

/// Whole microseconds: many ties.
fn coarse(random: &mut Xoshiro256PlusPlus) -> f64 {
    (20.0 + 2.0 * normal(random)).round().max(1.0).ln()
}

fn scattered(random: &mut Xoshiro256PlusPlus) -> f64 {
    0.1 * normal(random)
}

/// Runs of four measures that go together in part, as quantiles of one distribution do.
fn runs(random: &mut Xoshiro256PlusPlus, draw: Draw, count: usize, moved: f64) -> Vec<[f64; 4]> {
    (0..count)
        .map(|_| {
            let common = draw(random);
            std::array::from_fn(|_| moved + 0.5 * common + 0.5 * draw(random))
        })
        .collect()
}

/// Whether any of the measures is called different.
fn called(base: &[[f64; 4]], new: &[[f64; 4]], seed: u64) -> bool {
    let measures: Vec<Vec<Option<f64>>> =
        (0..4).map(|m| base.iter().chain(new).map(|run| Some(run[m])).collect()).collect();
    let relabelled = relabel(&measures, base.len(), &[], Statistic::Ranks, seed);
    (0..4).any(|m| {
        let side = |runs: &[[f64; 4]]| runs.iter().map(|run| Span::exact(run[m])).collect::<Vec<Span>>();
        let shift = shift(&side(base), &side(new), 0.95);
        matches!(
            judge(relabelled.measures[m], shift.as_ref(), Better::Lower, RULES),
            Verdict::Better | Verdict::Worse
        )
    })
}

#[test]
fn false_calls_between_equal_systems_are_no_more_frequent_than_stated() {
    const COMPARISONS: u64 = 500;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(20_26);
    let draws: [(&str, Draw); 4] =
        [("scattered", scattered), ("heavy", heavy), ("mixed", mixed), ("coarse", coarse)];
    for (name, draw) in draws {
        for (base, new) in [(3, 3), (4, 5), (6, 6), (4, 12)] {
            let false_calls = (0..COMPARISONS)
                .filter(|seed| {
                    called(&runs(&mut random, draw, base, 0.0), &runs(&mut random, draw, new, 0.0), *seed)
                })
                .count() as f64;
            // Any of four measures counts, so the correction is held to its word. Three standard deviations of chance.
            let allowed = COMPARISONS as f64 * 0.05;
            assert!(
                false_calls <= allowed + 3.0 * (allowed * 0.95).sqrt(),
                "{name}, {base} and {new}: {false_calls}"
            );
        }
    }
}

#[test]
fn with_three_runs_a_side_nothing_is_called_however_far_apart_they_are() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let base = runs(&mut random, scattered, 3, 0.0);
    let new = runs(&mut random, scattered, 3, 100.0);
    assert!(!called(&base, &new, 1));
}

#[test]
fn the_computed_number_of_runs_finds_the_difference_as_often_as_promised() {
    const COMPARISONS: u64 = 400;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let (moved, deviation) = (0.15, 0.1);
    let needed = runs_needed(moved, Scatter { deviation, freedom: 1e9 }, 0.05, 0.8).unwrap() as usize;
    let detected = (0..COMPARISONS)
        .filter(|seed| {
            let mut side = |by: f64| -> Vec<Option<f64>> {
                (0..needed).map(|_| Some(by + deviation * normal(&mut random))).collect()
            };
            let all = [side(0.0), side(moved)].concat();
            relabel(&[all], needed, &[], Statistic::Ranks, *seed).measures[0].unwrap().p <= 0.05
        })
        .count() as f64
        / COMPARISONS as f64;
    assert!((0.76..0.96).contains(&detected), "{needed} runs: {detected}");
}

#[test]
fn intervals_of_shifts_and_medians_hold_the_truth_as_often_as_stated() {
    const SAMPLES: usize = 1500;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    for (draw, median) in [(heavy as Draw, 2f64.ln() / 0.8), (scattered, 0.0)] {
        let (mut shifts, mut medians) = (0, 0);
        for _ in 0..SAMPLES {
            let mut side = |n: usize| (0..n).map(|_| draw(&mut random)).collect::<Vec<f64>>();
            let (base, new) = (side(6), side(8));
            let spans =
                |values: &[f64]| values.iter().map(|value| Span::exact(*value)).collect::<Vec<Span>>();
            shifts += usize::from(shift(&spans(&base), &spans(&new), 0.95).unwrap().interval.contains(0.0));
            medians += usize::from(median_interval(&new, 0.95).unwrap().1.contains(median));
        }
        let lowest = (0.95 - 3.0 * (0.95 * 0.05 / SAMPLES as f64).sqrt()) * SAMPLES as f64;
        assert!(shifts as f64 >= lowest && medians as f64 >= lowest, "{shifts} {medians} of {SAMPLES}");
    }
}

#[test]
fn intervals_hold_the_truth_where_one_side_scatters_ten_times_as_far() {
    const SAMPLES: usize = 1000;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(13);
    for (tight, wide) in [(6, 6), (12, 6), (6, 12), (8, 8), (25, 25)] {
        let held = (0..SAMPLES)
            .filter(|_| {
                let mut side = |n: usize, by: f64| -> Vec<Span> {
                    (0..n).map(|_| Span::exact(by * normal(&mut random))).collect()
                };
                shift(&side(tight, 0.1), &side(wide, 1.0), 0.95).unwrap().interval.contains(0.0)
            })
            .count() as f64;
        let lowest = (0.95 - 3.0 * (0.95 * 0.05 / SAMPLES as f64).sqrt()) * SAMPLES as f64;
        println!("{tight} and {wide}: {held} of {SAMPLES}");
        assert!(held >= lowest, "{tight} and {wide}: {held} of {SAMPLES}");
    }
}

#[test]
fn intervals_of_return_levels_hold_the_truth_nearly_as_often_as_stated() {
    const SAMPLES: usize = 120;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    for (shape, blocks, allowed) in [(0.0, 60, 0.88), (0.2, 60, 0.88), (0.2, 30, 0.85)] {
        let truth = Gev { location: 40_000.0, scale: 6_000.0, shape };
        let times = 20.0 * blocks as f64;
        let (mut held, mut made) = (0, 0);
        for _ in 0..SAMPLES {
            let values: Vec<f64> = (0..blocks).map(|_| truth.quantile(uniform(&mut random))).collect();
            if let Some((_, interval)) = return_level(&values, times, 0.95) {
                made += 1;
                held += u32::from(interval.contains(truth.return_level(times)));
            }
        }
        let share = f64::from(held) / f64::from(made);
        println!("shape {shape}, {blocks} blocks, 20 times as long: {share:.3} of {made}");
        assert!(made * 10 >= 9 * SAMPLES as u32 && share >= allowed, "{shape} {blocks}: {held} of {made}");
    }
}
