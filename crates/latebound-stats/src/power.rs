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

/// What is known of how far single runs scatter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    /// The standard deviation within both sides.
    pub deviation: f64,
    /// By how many degrees of freedom it is known.
    pub freedom: f64,
}

/// How many runs each side needs to tell a shift with the probability `power` at the two-sided `level`, where single runs
/// scatter like this: Noether (Journal of the American Statistical Association 82, 1987) for rank tests with normal scatter. The
/// scatter itself is known from few runs; the number is so much greater that the power holds on average over what it
/// may be (Julious and Owen, Pharmaceutical Statistics 5, 2006). `None` where the numbers allow no answer.
pub fn runs_needed(shift: f64, scatter: Scatter, level: f64, power: f64) -> Option<u64> {
    let Scatter { deviation, freedom } = scatter;
    let sound = shift > 0.0 && deviation >= 0.0 && level > 0.0 && level < 1.0 && power > 0.0 && power < 1.0;
    if !sound || freedom.is_nan() || freedom < 1.0 {
        return None;
    }
    let above = normal(shift / (deviation * std::f64::consts::SQRT_2));
    let z = reach(normal_quantile(1.0 - level / 2.0), freedom, power);
    // Noether's is for many runs. With few, the studentised test has the critical value of a t distribution: Guenther
    // (The American Statistician 35, 1981) adds a quarter of the square of the normal one a side.
    let small = normal_quantile(1.0 - level / 2.0).powi(2) / 4.0;
    let each = z * z / (6.0 * (above - 0.5).powi(2)) + small;
    (each < 1e9).then(|| (each.ceil() as u64).max(fewest_runs(level)))
}

/// The same for [`crate::Trimmed`], which a call has to pass as well. Its trimmed means of normal values scatter by the square root of
/// 1.114 more than means do (the winsorised variance 0.4952 over the square of the part that is kept, 2/3: Tukey and McLaughlin,
/// Sankhya A 25, 1963), and only what is kept counts for the degrees of freedom.
pub fn runs_needed_trimmed(shift: f64, scatter: Scatter, level: f64, power: f64) -> Option<u64> {
    const VARIANCE: f64 = 1.114;
    const KEPT: f64 = 2.0 / 3.0;
    let Scatter { deviation, freedom } = scatter;
    // What is not sound there is not here either.
    let by_ranks = runs_needed(shift, scatter, level, power)?;
    let normal_quantile = normal_quantile(1.0 - level / 2.0);
    let z = reach(normal_quantile, freedom, power);
    let each = 2.0 * VARIANCE * (z * deviation / shift).powi(2) + normal_quantile.powi(2) / 4.0 / KEPT;
    (each < 1e9).then(|| by_ranks.max(each.ceil() as u64))
}

/// The quantile of Student's distribution that is not central, by Abramowitz and Stegun 26.7.10.
fn reach(shift: f64, freedom: f64, p: f64) -> f64 {
    let share =
        |t: f64| normal((t * (1.0 - 1.0 / (4.0 * freedom)) - shift) / (1.0 + t * t / (2.0 * freedom)).sqrt());
    let (mut low, mut high) = (0.0, 1e3);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if share(middle) < p { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(deviation: f64) -> Scatter {
        Scatter { deviation, freedom: 1e9 }
    }

    #[test]
    fn fewer_than_four_runs_a_side_can_tell_nothing_at_five_percent() {
        assert_eq!(fewest_runs(0.05), 4);
        assert_eq!(fewest_runs(0.01), 5);
        assert_eq!(fewest_runs(0.001), 7);
    }

    #[test]
    fn trimmed_means_need_more_runs_than_ranks_where_scatter_decides() {
        // By hand: z = 1.960 + 0.842 = 2.802; 2 * 1.114 * 2.802^2 / 0.5^2 = 69.96, and 1.960^2 / 4 * 1.5 = 1.44 more.
        assert_eq!(runs_needed_trimmed(0.5, known(1.0), 0.05, 0.8), Some(72));
        assert!(runs_needed_trimmed(0.5, known(1.0), 0.05, 0.8) > runs_needed(0.5, known(1.0), 0.05, 0.8));
        // Where hardly anything scatters, what ranks need decides: 2.802^2 / (6 * 0.5^2) = 5.23, and 0.96 more.
        assert_eq!(runs_needed_trimmed(5.0, known(0.1), 0.05, 0.8), Some(7));
        assert_eq!(runs_needed(5.0, known(0.1), 0.05, 0.8), Some(7));
        assert_eq!(runs_needed_trimmed(0.0, known(0.1), 0.05, 0.8), None);
    }

    #[test]
    fn noethers_formula_gives_the_number_worked_out_by_hand() {
        // P(X < Y) = 0.7, 5 % one-sided (10 % two-sided), power 0.9: (1.645 + 1.282)^2 / (6 * 0.2^2) = 35.7 a side.
        let shift = normal_quantile(0.7) * std::f64::consts::SQRT_2;
        // And a quarter of 1.645^2 for few runs: 36.4.
        assert_eq!(runs_needed(shift, known(1.0), 0.10, 0.9), Some(37));
        // A scatter that is known from five and five runs asks for more.
        let runs = runs_needed(shift, Scatter { deviation: 1.0, freedom: 8.0 }, 0.10, 0.9).unwrap();
        assert!((40..60).contains(&runs), "{runs}");
    }

    #[test]
    fn small_differences_need_many_runs_and_great_ones_the_fewest_possible() {
        assert!(runs_needed(0.01, known(0.1), 0.05, 0.8).unwrap() > 1000);
        assert!(runs_needed(5.0, known(0.1), 0.05, 0.8).unwrap() <= 7);
        assert_eq!(runs_needed(0.0, known(0.1), 0.05, 0.8), None);
        assert_eq!(runs_needed(0.1, known(f64::NAN), 0.05, 0.8), None);
    }
}
