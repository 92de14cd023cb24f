// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a comparison goes by. Owns no defaults.

/// By what a comparison goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The share of comparisons of a system with itself that may call any difference at all.
    pub level: f64,
    /// The relative difference that does not matter: 0.05 is 5 %.
    pub margin: f64,
    /// A difference is called where its whole interval lies beyond this relative difference: 0.01 is 1 %.
    pub least_effect: f64,
    /// The seed of every random number.
    pub seed: u64,
}
