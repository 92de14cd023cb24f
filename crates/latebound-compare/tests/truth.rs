// SPDX-License-Identifier: MIT OR Apache-2.0
//! What verdicts, intervals and forecasts promise, on a small part of `benches/compare-truth`: each scenario that is named here must
//! not miss its rate by more than chance.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

#[path = "../examples/truth/scenarios.rs"]
mod scenarios;
#[path = "../examples/truth/simulate.rs"]
mod simulate;

use scenarios::SCENARIOS;
use simulate::measure;

/// The probability of so many hits or more, of so many with this rate.
fn at_least(hits: u64, of: u64, rate: f64) -> f64 {
    use statrs::distribution::{Binomial, DiscreteCDF as _};
    if hits == 0 { 1.0 } else { Binomial::new(rate, of).unwrap().sf(hits - 1) }
}

/// Each with so many comparisons, by how long one takes.
fn hold(names: &[(&str, u64)]) {
    for (name, comparisons) in names {
        let scenario = SCENARIOS
            .iter()
            .find(|scenario| scenario.name == *name)
            .unwrap_or_else(|| panic!("there is no scenario \"{name}\""));
        let measured = measure(scenario, *comparisons, 7, 1);
        let (rate, more) = scenario.promise.rate();
        let (misses, rate) =
            if more { (measured.of - measured.hits, 1.0 - rate) } else { (measured.hits, rate) };
        assert!(
            at_least(misses, measured.of, rate) > 0.001,
            "{name}: {misses} of {}, allowed {rate}",
            measured.of
        );
    }
}

#[test]
fn a_system_against_itself_differs_no_more_often_than_promised() {
    hold(&[
        ("999 against 1000 values", 40),
        ("clipped at 400 us and 1 ms", 25),
        ("10 mechanisms, 12 and 12", 10),
        ("unequal scatter, 12 and 5", 25),
        ("drift alone, in turns", 20),
        ("8 CPUs", 15),
        ("unequal scatter, 10 mechanisms", 40),
        ("a rare kind at p99", 20),
        ("quantiles at the floor", 20),
    ]);
}

#[test]
fn intervals_cover_as_often_as_promised() {
    hold(&[
        ("scatter 1:10, 6 and 6", 80),
        ("12 and 5, scatter 1:5", 80),
        ("whole microseconds by a tenth", 60),
    ]);
}

#[test]
fn planted_differences_are_called_as_often_as_promised() {
    hold(&[
        ("tail twice as late, 6 a side", 30),
        ("body 1.1 times under drift", 30),
        ("one CPU of 64 twice as late", 4),
    ]);
}

#[test]
fn as_many_runs_as_advised_tell_a_difference_of_the_margin() {
    hold(&[("scatter 3 %, in no order", 30)]);
}

#[test]
fn forecasts_cover_or_are_refused() {
    hold(&[("60 blocks, Gumbel", 25)]);
}
