// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics that hold for tails: values in, statements out.
//!
//! Owns distribution-free intervals of quantiles, tests and intervals of a difference over whole runs, correction for many
//! comparisons, how many runs a difference needs, and forecasts of maxima. It never reads a clock, a file or the system,
//! and draws every random number from a seed that the caller names, so that the same input gives the same output.
//!
//! Values of one run depend on each other: a late wake-up has neighbours that are late for the same reason. What speaks
//! of a difference between two systems therefore takes one number a run, and nothing here takes samples for runs.

mod blocks;
mod bootstrap;
mod gev;
mod minimum;
mod order;
mod power;
mod profile;
mod rank;
mod relabel;
mod sample;
mod trimmed;
mod verdict;

pub use blocks::{distant_agree, neighbours_agree, runs_agree};
pub use bootstrap::bootstrap;
pub use gev::{Fitness, Gev, fitness, merge_blocks};
pub use order::{QuantileRanks, histogram_quantile_interval, median_interval, quantile_ranks};
pub use power::{Scatter, fewest_runs, runs_needed, runs_needed_trimmed};
pub use profile::return_level;
pub use rank::{Shift, Span, shift};
pub use relabel::{MeasureVerdict, Relabelled, Statistic, relabel};
pub use sample::{FEWEST_BEYOND, Number, Sample};
pub use trimmed::Trimmed;
pub use verdict::{Better, Rules, Verdict, judge};

/// From one number to another, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end; minus infinity where the values say nothing about it.
    pub low: f64,
    /// The upper end; infinity where the values say nothing about it.
    pub high: f64,
}

impl Interval {
    /// Whether a number lies in it.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The generator behind every random number: xoshiro256++ (Blackman and Vigna 2021), seeded.
pub(crate) fn generator(seed: u64) -> rand::rngs::Xoshiro256PlusPlus {
    rand::SeedableRng::seed_from_u64(seed)
}

/// The standard normal distribution function.
pub(crate) fn normal(z: f64) -> f64 {
    0.5 * statrs::function::erf::erfc(-z / std::f64::consts::SQRT_2)
}

/// The quantile of the standard normal distribution.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    -std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(2.0 * p)
}
