// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the trimmed means of two groups lie apart, where the groups scatter unlike each other: the test of Yuen (Biometrika 61,
//! 1974), which is that of Welch (Biometrika 34, 1947) without the outermost values.
//!
//! Ranks know nothing of distance: five values of a group that scatters far lie on one side of a tight group in one case of
//! sixteen, and no rank test can tell that from a difference. What is held against the scatter of each group by itself can.
//! With normal scatter its errors are as stated whatever the ratio of the scatters is, and an outlier does not decide.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::Interval;

/// One value of so many is left out at either end: none of five, one of six.
const TRIMMED: usize = 6;

/// What is known of a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trimmed {
    /// The trimmed mean of the second group less that of the first.
    pub difference: f64,
    /// Its standard error.
    pub error: f64,
    /// The degrees of freedom of the t distribution that describes it.
    pub freedom: f64,
}

impl Trimmed {
    /// The difference of two groups; `None` where one has fewer than two values, or values without an end that are not trimmed.
    pub fn of(base: &[f64], new: &[f64]) -> Option<Trimmed> {
        let [base, new] = [Group::of(base)?, Group::of(new)?];
        let error = (base.square + new.square).sqrt();
        // Welch 1947, equation 28, in the form of Satterthwaite (Biometrics Bulletin 2, 1946).
        let freedom = (base.square + new.square).powi(2)
            / (base.square.powi(2) / base.freedom + new.square.powi(2) / new.freedom);
        let freedom = if freedom.is_finite() { freedom.max(1.0) } else { base.freedom + new.freedom };
        let difference = new.mean - base.mean;
        (difference.is_finite() && error.is_finite()).then_some(Trimmed { difference, error, freedom })
    }

    /// The two-sided p-value of there being no difference, where the error is so many times as great.
    pub fn p(&self, widened: f64) -> f64 {
        let error = self.error * widened;
        if error <= 1e-12 * self.difference.abs() {
            return if self.difference == 0.0 { 1.0 } else { 0.0 };
        }
        let t = (self.difference / error).abs();
        StudentsT::new(0.0, 1.0, self.freedom).map_or(1.0, |law| 2.0 * law.sf(t)).min(1.0)
    }

    /// Where the difference lies.
    pub fn interval(&self, confidence: f64) -> Interval {
        let t = StudentsT::new(0.0, 1.0, self.freedom)
            .map_or(f64::INFINITY, |law| law.inverse_cdf(0.5 + confidence / 2.0));
        Interval { low: self.difference - t * self.error, high: self.difference + t * self.error }
    }
}

/// The trimmed mean of a group and the square of its standard error.
struct Group {
    mean: f64,
    square: f64,
    freedom: f64,
}

impl Group {
    fn of(values: &[f64]) -> Option<Group> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let out = sorted.len() / TRIMMED;
        let left = sorted.get(out..sorted.len() - out).filter(|left| left.len() > 1)?;
        let kept = left.len() as f64;
        let mean = left.iter().sum::<f64>() / kept;
        // Winsorised: what was left out counts as the outermost value that was not.
        let of_ends = out as f64 * (left[0] + left[left.len() - 1]);
        let middle = (left.iter().sum::<f64>() + of_ends) / sorted.len() as f64;
        let squares = left.iter().map(|value| (value - middle).powi(2)).sum::<f64>()
            + out as f64 * ((left[0] - middle).powi(2) + (left[left.len() - 1] - middle).powi(2));
        Some(Group { mean, square: squares / (kept * (kept - 1.0)), freedom: kept - 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_trimming_it_is_the_test_of_welch() {
        // By hand: means 3 and 7, variances 2.5 and 10, of five each: error sqrt(2.5), t 2.530; freedom 6.25 / (0.25/4 + 4/4) = 5.882.
        let found = Trimmed::of(&[1.0, 2.0, 3.0, 4.0, 5.0], &[3.0, 5.0, 7.0, 9.0, 11.0]).unwrap();
        assert!((found.difference - 4.0).abs() < 1e-12 && (found.error - 2.5f64.sqrt()).abs() < 1e-12);
        assert!((found.freedom - 6.25 / 1.0625).abs() < 1e-9, "{found:?}");
        assert!((0.045..0.046).contains(&found.p(1.0)), "{}", found.p(1.0));
    }

    #[test]
    fn of_six_the_outermost_count_as_their_neighbours() {
        // Kept 2, 3, 4, 5; winsorised 2, 2, 3, 4, 5, 5 around 3.5: squares 9.5, over 4 * 3.
        let found = Trimmed::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 900.0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert!(found.difference.abs() < 1e-12 && (found.freedom - 6.0).abs() < 1e-9, "{found:?}");
        assert!((found.error - (2.0 * 9.5 / 12.0f64).sqrt()).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn five_wide_values_on_one_side_of_a_tight_group_are_not_sure() {
        let tight: Vec<f64> = (0..12).map(|at| f64::from(at) * 0.001).collect();
        let wide = [0.1, 0.4, 0.9, 1.4, 0.3];
        assert!(Trimmed::of(&tight, &wide).unwrap().p(1.0) > 0.05);
        let farther = wide.map(|value| value + 2.0);
        assert!(Trimmed::of(&tight, &farther).unwrap().p(1.0) < 0.001);
    }

    #[test]
    fn a_single_value_says_nothing_and_equal_ones_all() {
        assert_eq!(Trimmed::of(&[1.0], &[1.0, 2.0]), None);
        assert!(Trimmed::of(&[1.0, 1.0], &[1.0, 1.0]).unwrap().p(1.0) >= 1.0);
        assert!(Trimmed::of(&[1.0, 1.0], &[2.0, 2.0]).unwrap().p(1.0) <= 0.0);
        assert_eq!(Trimmed::of(&[1.0, 2.0], &[f64::INFINITY, 2.0]), None);
    }
}
