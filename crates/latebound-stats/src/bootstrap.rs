// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bootstrap over runs: how far a number would differ if the runs were others (Efron and Tibshirani, An Introduction to
//! the Bootstrap, 1993, chapter 13, percentile interval). Whole runs are drawn, never samples.

use rand::RngExt as _;

use crate::{Interval, generator};

/// Fewer runs than this say nothing about runs that were not made.
const FEWEST: usize = 5;

/// The interval of a statistic of `runs` runs. `statistic` gets the drawn runs' numbers, with repeats, and gives `None`
/// where they allow no value. `None` below five runs, or where a tenth of the draws allow none.
pub fn bootstrap(
    runs: usize,
    draws: usize,
    confidence: f64,
    seed: u64,
    mut statistic: impl FnMut(&[usize]) -> Option<f64>,
) -> Option<Interval> {
    if runs < FEWEST || draws == 0 {
        return None;
    }
    let mut random = generator(seed);
    let mut drawn = vec![0; runs];
    let mut values = Vec::with_capacity(draws);
    for _ in 0..draws {
        drawn.iter_mut().for_each(|run| *run = random.random_range(0..runs));
        values.extend(statistic(&drawn).filter(|value| value.is_finite()));
    }
    if values.len() * 10 < draws * 9 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values[((values.len() - 1) as f64 * q).round() as usize];
    let tail = (1.0 - confidence) / 2.0;
    Some(Interval { low: at(tail), high: at(1.0 - tail) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_as_wide_as_theory_says() {
        let values: Vec<f64> = (0..200).map(f64::from).collect();
        let mean = |drawn: &[usize]| Some(drawn.iter().map(|&i| values[i]).sum::<f64>() / drawn.len() as f64);
        let interval = bootstrap(200, 4000, 0.95, 1, mean).unwrap();
        // Standard error sqrt((200^2 - 1) / 12 / 200) = 4.08, about 99.5.
        assert!((interval.low - (99.5 - 1.96 * 4.08)).abs() < 0.6, "{interval:?}");
        assert!((interval.high - (99.5 + 1.96 * 4.08)).abs() < 0.6, "{interval:?}");
        assert_eq!(bootstrap(200, 4000, 0.95, 1, mean), Some(interval));
    }

    #[test]
    fn few_runs_or_few_values_give_no_interval() {
        assert_eq!(bootstrap(4, 100, 0.95, 1, |_| Some(1.0)), None);
        assert_eq!(bootstrap(9, 100, 0.95, 1, |drawn| (drawn[0] > 3).then_some(1.0)), None);
    }
}
