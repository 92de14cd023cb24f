// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many runs it takes to tell a difference.

use crate::{normal, normal_quantile};

/// The fewest runs on each of two sides with which any p-value can come down to this level: below that, no difference can
/// be called, however great it is. Two of all the ways of dealing the runs are the extreme ones.
pub fn fewest_runs(level: f64) -> u64 {
    let mut ways = 1.0;
    (1..=10_000u64)
        .find(|&n| {
            // C(2n, n) from C(2n - 2, n - 1).
            ways *= (2 * (2 * n - 1)) as f64 / n as f64;
            2.0 / ways <= level
        })
        .unwrap_or(10_000)
}

/// How many runs each side needs to tell a shift with the probability `power` at the two-sided `level`, where single runs
/// scatter with this standard deviation: Noether (Journal of the American Statistical Association 82, 1987) for the test of
/// Wilcoxon, Mann and Whitney with normal scatter. `None` where the numbers allow no answer.
pub fn runs_needed(shift: f64, deviation: f64, level: f64, power: f64) -> Option<u64> {
    if !(shift.abs() > 0.0 && deviation >= 0.0 && level > 0.0 && level < 1.0 && power > 0.0 && power < 1.0) {
        return None;
    }
    let above = normal(shift.abs() / (deviation * std::f64::consts::SQRT_2));
    let z = normal_quantile(1.0 - level / 2.0) + normal_quantile(power);
    let each = z * z / (6.0 * (above - 0.5).powi(2));
    (each < 1e9).then(|| (each.ceil() as u64).max(fewest_runs(level)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_than_four_runs_a_side_can_tell_nothing_at_five_percent() {
        assert_eq!(fewest_runs(0.05), 4);
        assert_eq!(fewest_runs(0.01), 5);
        assert_eq!(fewest_runs(0.001), 7);
    }

    #[test]
    fn noethers_formula_gives_the_number_worked_out_by_hand() {
        // P(X < Y) = 0.7, 5 % one-sided (10 % two-sided), power 0.9: (1.645 + 1.282)^2 / (6 * 0.2^2) = 35.7 a side.
        let shift = normal_quantile(0.7) * std::f64::consts::SQRT_2;
        assert_eq!(runs_needed(shift, 1.0, 0.10, 0.9), Some(36));
    }

    #[test]
    fn small_differences_need_many_runs_and_great_ones_the_fewest_possible() {
        assert!(runs_needed(0.01, 0.1, 0.05, 0.8).unwrap() > 1000);
        assert!(runs_needed(5.0, 0.1, 0.05, 0.8).unwrap() <= 6);
        assert_eq!(runs_needed(0.0, 0.1, 0.05, 0.8), None);
        assert_eq!(runs_needed(0.1, f64::NAN, 0.05, 0.8), None);
    }
}
