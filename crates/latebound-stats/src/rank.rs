// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far two groups lie apart, from the differences of all pairs: the estimate of Hodges and Lehmann (Annals of
//! Mathematical Statistics 34, 1963) with the interval that inverts the test of Wilcoxon, Mann and Whitney (Hollander,
//! Wolfe and Chicken, Nonparametric Statistical Methods, 3rd edition 2014, section 4.3). Holds for every distribution of
//! the values, heavy tails included, where one group's is the other's, shifted.

use crate::{Interval, normal_quantile};

/// By how much the second group lies above the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The median of all differences.
    pub estimate: f64,
    /// Its interval; infinite where there are too few values for the confidence.
    pub interval: Interval,
}

/// Above so many pairs the normal approximation takes the place of the exact distribution.
const EXACT_PAIRS: usize = 2_500;

/// The shift from `base` to `new`; `None` where one of them is empty.
pub fn shift(base: &[f64], new: &[f64], confidence: f64) -> Option<Shift> {
    let mut differences: Vec<f64> = new.iter().flat_map(|n| base.iter().map(move |b| n - b)).collect();
    if differences.is_empty() {
        return None;
    }
    differences.sort_by(f64::total_cmp);
    let pairs = differences.len();
    let estimate = match pairs % 2 {
        1 => differences[pairs / 2],
        _ => (differences[pairs / 2 - 1] + differences[pairs / 2]) / 2.0,
    };
    let interval = match critical(base.len(), new.len(), (1.0 - confidence) / 2.0) {
        Some(outside) => Interval { low: differences[outside], high: differences[pairs - 1 - outside] },
        None => Interval { low: f64::NEG_INFINITY, high: f64::INFINITY },
    };
    Some(Shift { estimate, interval })
}

/// The greatest c with P(U <= c) <= tail, U being the statistic of Mann and Whitney without ties; with ties the interval
/// only becomes safer.
fn critical(m: usize, n: usize, tail: f64) -> Option<usize> {
    let pairs = m * n;
    if pairs > EXACT_PAIRS {
        let sd = (pairs as f64 * (m + n + 1) as f64 / 12.0).sqrt();
        let c = pairs as f64 / 2.0 + normal_quantile(tail) * sd - 0.5;
        return (c >= 0.0).then_some(c as usize);
    }
    let mut so_far = 0.0;
    let within = distribution(m, n).into_iter().take_while(|p| {
        so_far += p;
        so_far <= tail
    });
    within.count().checked_sub(1)
}

/// P(U = u) for u from 0 to m n, by the recursion of Mann and Whitney (1947) over the greatest value's group.
fn distribution(m: usize, n: usize) -> Vec<f64> {
    // rows[j] is the distribution for i and j values; built up for i from 0 to m.
    let mut rows: Vec<Vec<f64>> = (0..=n).map(|_| vec![1.0]).collect();
    for i in 1..=m {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=n {
            let mut row = vec![0.0; i * j + 1];
            let (a, b) = (i as f64 / (i + j) as f64, j as f64 / (i + j) as f64);
            // The greatest of the i + j is one of the i: it lies above all j.
            for (u, p) in rows[j].iter().enumerate() {
                row[u + j] += a * p;
            }
            for (u, p) in next[j - 1].iter().enumerate() {
                row[u] += b * p;
            }
            next.push(row);
        }
        rows = next;
    }
    rows.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn critical_values_are_those_of_the_published_table() {
        // Two-sided 5 %: Mann and Whitney's table, e.g. Hollander et al., table A.6; none for 3 and 3.
        for (m, n, c) in [
            (4, 4, Some(0)),
            (5, 5, Some(2)),
            (6, 6, Some(5)),
            (8, 8, Some(13)),
            (10, 10, Some(23)),
            (20, 20, Some(127)),
            (5, 12, Some(11)),
            (3, 3, None),
        ] {
            assert_eq!(critical(m, n, 0.025), c, "{m} and {n}");
        }
    }

    #[test]
    fn the_approximation_meets_the_exact_values_where_it_begins() {
        let exact: f64 = distribution(50, 50).iter().take(965 + 1).sum();
        assert!((0.02..0.0265).contains(&exact), "{exact}");
        let c = critical(50, 51, 0.025).unwrap() as f64;
        // Exactly 986: P(U <= 986) = 0.024 875, P(U <= 987) = 0.025 278 (scipy 1.17.1, scipy.stats._mannwhitneyu._MWU(50, 51).cdf).
        assert!((c - 986.0).abs() <= 2.0, "{c}");
    }

    #[test]
    fn the_shift_of_the_textbooks_example_comes_out() {
        // Hollander et al., example 4.1 (tritiated water in chorioamnion): estimate 0.305, interval from wilcox.test in R:
        // wilcox.test(y, x, conf.int = TRUE)
        let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let y = [1.15, 0.88, 0.90, 0.74, 1.21];
        let shift = shift(&y, &x, 0.95).unwrap();
        assert!((shift.estimate - 0.305).abs() < 1e-9, "{shift:?}");
        assert!(shift.interval.low < 0.0 && shift.interval.high < 1.0, "{shift:?}");
    }

    proptest! {
        #[test]
        fn a_group_moved_by_a_number_lies_that_far_away(
            values in prop::collection::vec(-100.0f64..100.0, 4..12), by in -50.0f64..50.0,
        ) {
            let moved: Vec<f64> = values.iter().map(|v| v + by).collect();
            let shift = shift(&values, &moved, 0.95).unwrap();
            prop_assert!((shift.estimate - by).abs() < 1e-9);
            prop_assert!(shift.interval.low <= by + 1e-9 && by - 1e-9 <= shift.interval.high);
        }
    }
}
