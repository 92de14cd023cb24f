// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far two groups lie apart, from the differences of all pairs: the estimate of Hodges and Lehmann (Annals of
//! Mathematical Statistics 34, 1963), with the interval of all shifts that the studentised rank test of Brunner and Munzel
//! (Biometrical Journal 42, 2000) does not reject.
//!
//! The interval is of the median difference of a pair. It asks of the groups no common shape and no common scatter: where
//! they are alike it is exact (its critical value is that of relabelling), otherwise approximate, by their degrees of freedom. A
//! value may be known only to lie between two ends: then the interval holds for wherever it lies.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::relabel::{Moments, brunner_munzel};
use crate::{Interval, Trimmed, generator};
use rand::RngExt as _;

/// A number that is known to lie between two ends; the upper one is infinite where only a lower limit is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// It is not below this.
    pub low: f64,
    /// It is not above this.
    pub high: f64,
}

impl Span {
    /// A number that is known.
    pub const fn exact(value: f64) -> Span {
        Span { low: value, high: value }
    }
}

/// By how much the second group lies above the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The median of all differences; `None` where it lies among values without an upper end.
    pub estimate: Option<f64>,
    /// Its interval; infinite where there are too few values for the confidence.
    pub interval: Interval,
}

/// Up to so many ways of dealing two groups the critical value comes from all of them.
const ENUMERATED: f64 = 13_000.0;
/// Otherwise from so many draws, up to this many values in all; above, from the t distribution.
const DRAWS: usize = 4_000;
const MOST_DRAWN: usize = 40;
/// The shift from `base` to `new`; `None` where one of them is empty.
pub fn shift(base: &[Span], new: &[Span], confidence: f64) -> Option<Shift> {
    if base.is_empty() || new.is_empty() {
        return None;
    }
    let tail = (1.0 - confidence) / 2.0;
    let low = |values: &[Span]| values.iter().map(|span| span.low).collect::<Vec<f64>>();
    let high = |values: &[Span]| values.iter().map(|span| span.high).collect::<Vec<f64>>();
    let (lowest, highest) = (differences(&high(base), &low(new)), differences(&low(base), &high(new)));
    let estimate = (middle(&lowest) + middle(&highest)) / 2.0;
    let interval = match critical(base.len(), new.len(), tail) {
        Some(critical) => {
            let negative = |values: Vec<f64>| values.into_iter().map(|value| -value).collect::<Vec<f64>>();
            Interval {
                low: lower_end(&high(base), &low(new), &lowest, critical, tail),
                // The upper end of a shift is minus the lower end of its mirror image.
                high: -lower_end(
                    &negative(low(base)),
                    &negative(high(new)),
                    &negative(highest.iter().rev().copied().collect()),
                    critical,
                    tail,
                ),
            }
        }
        None => Interval { low: f64::NEG_INFINITY, high: f64::INFINITY },
    };
    let interval =
        hull(interval, Trimmed::of(&high(base), &low(new)), Trimmed::of(&low(base), &high(new)), confidence);
    Some(Shift { estimate: estimate.is_finite().then_some(estimate), interval })
}

/// All differences, from the minimum.
fn differences(base: &[f64], new: &[f64]) -> Vec<f64> {
    let mut all: Vec<f64> = new
        .iter()
        .flat_map(|n| base.iter().map(move |b| if n.is_infinite() && b.is_infinite() { -b } else { n - b }))
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    if n % 2 == 1 { sorted[n / 2] } else { (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 }
}

/// The interval with what is added where the groups' own scatter leaves more open than their ranks (see [`Trimmed`]).
fn hull(interval: Interval, lowest: Option<Trimmed>, highest: Option<Trimmed>, confidence: f64) -> Interval {
    let (lowest, highest) =
        (lowest.map(|of| of.interval(confidence)), highest.map(|of| of.interval(confidence)));
    Interval {
        low: lowest.map_or(interval.low, |of| of.low.min(interval.low)),
        high: highest.map_or(interval.high, |of| of.high.max(interval.high)),
    }
}

/// The minimum shift that is not rejected as too small, by the statistic between two neighbouring differences.
fn lower_end(base: &[f64], new: &[f64], sorted: &[f64], critical: f64, tail: f64) -> f64 {
    let equal = quantile_t(tail, (base.len() + new.len() - 2) as f64);
    let rejected = |k: usize| {
        // Shifts above the k-th difference and not above the next one.
        let at = if k == 0 { f64::NEG_INFINITY } else { sorted[k - 1] };
        let mut moments = [Moments::default(); 2];
        let above = |b: f64, n: f64| {
            let difference = if n.is_infinite() && b.is_infinite() { -b } else { n - b };
            // Ties with the shift lie below it: it is a hair above the difference.
            f64::from(u8::from(difference > at))
        };
        for &n in new {
            moments[1].add(base.iter().map(|&b| above(b, n)).sum(), 1.0);
        }
        for &b in base {
            moments[0].add(new.iter().map(|&n| 1.0 - above(b, n)).sum(), 1.0);
        }
        let (z, freedom) = brunner_munzel(moments);
        // Groups that scatter unlike each other have fewer degrees of freedom than the critical value was made for.
        z > critical * (quantile_t(tail, freedom) / equal).max(1.0)
    };
    let (mut inside, mut outside) = (sorted.len(), 0);
    if !rejected(0) {
        return f64::NEG_INFINITY;
    }
    while inside - outside > 1 {
        let k = (inside + outside) / 2;
        if rejected(k) { outside = k } else { inside = k }
    }
    sorted[inside - 1]
}

fn quantile_t(tail: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - tail))
}

/// The value that the statistic passes by relabelling in at most this share of ways to one side, where no two values are equal:
/// it then depends on nothing but how many there are. `None` where even the farthest comes more often.
fn critical(base: usize, new: usize, tail: f64) -> Option<f64> {
    let all = base + new;
    let ways = (0..new.min(base)).fold(1.0, |ways, i| ways * (all - i) as f64 / (i + 1) as f64);
    if ways * tail < 1.0 {
        return None;
    }
    if all > MOST_DRAWN && ways > ENUMERATED {
        return Some(quantile_t(tail, (all - 2) as f64));
    }
    type Key = (usize, usize, u64);
    static KNOWN: std::sync::Mutex<std::collections::BTreeMap<Key, f64>> =
        std::sync::Mutex::new(std::collections::BTreeMap::new());
    let key = (base, new, tail.to_bits());
    let known = || KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(found) = known().get(&key) {
        return Some(*found);
    }
    let mut statistics = Vec::new();
    let mut look = |is_new: &[bool]| {
        let mut moments = [Moments::default(); 2];
        let mut below = [0.0; 2];
        for &new in is_new {
            let group = usize::from(new);
            moments[group].add(below[1 - group], 1.0);
            below[group] += 1.0;
        }
        statistics.push(brunner_munzel(moments).0);
    };
    if ways <= ENUMERATED {
        let of: Vec<usize> = (0..all).collect();
        crate::relabel::each_way(all, &[crate::relabel::subsets(&of, new)], &mut look);
    } else {
        let mut random = generator(1);
        let mut dealt: Vec<bool> = (0..all).map(|at| at < new).collect();
        for _ in 0..DRAWS {
            for place in 0..all {
                let other = random.random_range(place..all);
                dealt.swap(place, other);
            }
            look(&dealt);
        }
    }
    statistics.sort_by(f64::total_cmp);
    // The maximum value below which at least 1 - tail of them lie: what is above it comes in at most the tail.
    let at = statistics.len() - 1 - (statistics.len() as f64 * tail) as usize;
    let found = statistics[at] * (1.0 + 1e-9);
    known().insert(key, found);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(values: &[f64]) -> Vec<Span> {
        values.iter().map(|value| Span::exact(*value)).collect()
    }

    #[test]
    fn three_and_three_have_no_interval_and_four_and_four_the_range() {
        let groups = |n: usize| {
            let of = |from: f64| (0..n).map(|i| from + i as f64).collect::<Vec<f64>>();
            shift(&exact(&of(0.0)), &exact(&of(100.0)), 0.95).unwrap().interval
        };
        assert_eq!(groups(3), Interval { low: f64::NEG_INFINITY, high: f64::INFINITY });
        // 2 of 70 ways are as far apart: the ends are the minimum and the maximum difference.
        assert_eq!(groups(4), Interval { low: 97.0, high: 103.0 });
    }

    #[test]
    fn the_shift_of_the_textbooks_example_comes_out() {
        // Hollander et al., example 4.1 (tritiated water in chorioamnion): estimate 0.305.
        let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let y = [1.15, 0.88, 0.90, 0.74, 1.21];
        let shift = shift(&exact(&y), &exact(&x), 0.95).unwrap();
        assert!((shift.estimate.unwrap() - 0.305).abs() < 1e-9, "{shift:?}");
        assert!(shift.interval.low < 0.0 && shift.interval.high < 1.0, "{shift:?}");
    }

    #[test]
    fn what_has_no_upper_end_gives_a_shift_without_one() {
        let base = exact(&[1.0, 1.1, 1.2, 1.3, 1.4, 1.5]);
        let new = vec![Span { low: 5.0, high: f64::INFINITY }; 6];
        let shift = shift(&base, &new, 0.95).unwrap();
        assert_eq!(shift.estimate, None);
        assert!(shift.interval.low >= 3.4 && shift.interval.high == f64::INFINITY, "{shift:?}");
        let both = super::shift(&new, &new, 0.95).unwrap().interval;
        assert_eq!(both, Interval { low: f64::NEG_INFINITY, high: f64::INFINITY });
    }

    #[test]
    fn an_interval_is_never_narrower_than_what_the_values_are_known_to() {
        let coarse = vec![Span { low: 4.0, high: 5.0 }; 8];
        let shift = shift(&coarse, &coarse, 0.95).unwrap();
        assert_eq!((shift.estimate, shift.interval), (Some(0.0), Interval { low: -1.0, high: 1.0 }));
    }

    #[test]
    fn few_values_of_a_group_that_scatters_far_leave_more_open_than_ranks() {
        let tight = exact(&[0.0, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007]);
        let wide = exact(&[5.0, 5.1, 5.2, 8.9, 9.0]);
        let interval = shift(&tight, &wide, 0.95).unwrap().interval;
        // Ranks alone: 4.99 to 9.00. The t distribution with 4 degrees of freedom: 6.64 and 2.776 times sqrt(4.452 / 5).
        assert!((interval.low - 4.02).abs() < 0.02 && (interval.high - 9.26).abs() < 0.02, "{interval:?}");
        let three = shift(&tight, &exact(&[5.0, 7.0, 9.0]), 0.95).unwrap().interval;
        assert!(three.low < 2.1 && three.high > 11.9, "{three:?}");
    }

    proptest! {
        #[test]
        fn a_group_moved_by_a_number_lies_that_far_away(
            values in prop::collection::vec(-100.0f64..100.0, 4..12), by in -50.0f64..50.0,
        ) {
            let moved: Vec<f64> = values.iter().map(|v| v + by).collect();
            let shift = shift(&exact(&values), &exact(&moved), 0.95).unwrap();
            prop_assert!((shift.estimate.unwrap() - by).abs() < 1e-9);
            prop_assert!(shift.interval.low <= by + 1e-9 && by - 1e-9 <= shift.interval.high);
        }
    }
}
