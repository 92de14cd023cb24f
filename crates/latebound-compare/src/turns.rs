// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sides that took turns: Runs are held against those taken next to them, so that a drift of the machine is no difference and
//! hides none.

use latebound_stats::median_interval;

use crate::facts::RunFacts;

/// With fewer turns, dealing within strata leaves too few ways for a p-value of 5 %.
const FEWEST_TURNS: usize = 6;
/// Turns of a stratum; the last one has the rest.
const OF_STRATUM: usize = 2;

/// Runs in strata of neighbouring turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turns {
    /// The stratum of each Run, base Runs first.
    pub(crate) strata: Vec<usize>,
    /// The place of each Run in the order of time.
    places: Vec<usize>,
}

impl Turns {
    /// `None` where the sides did not take turns throughout, or the times of their starts are not known.
    pub(crate) fn of(runs: &[&RunFacts], base_runs: usize) -> Option<Turns> {
        let starts: Vec<_> = runs.iter().map(|run| run.started).collect::<Option<_>>()?;
        Turns::of_starts(&starts, base_runs)
    }

    fn of_starts<T: Ord>(starts: &[T], base_runs: usize) -> Option<Turns> {
        let turns = base_runs;
        if starts.len() != 2 * turns || turns < FEWEST_TURNS {
            return None;
        }
        let mut order: Vec<usize> = (0..starts.len()).collect();
        order.sort_by(|&a, &b| starts[a].cmp(&starts[b]));
        let is_turn = |pair: &[usize]| (pair[0] < base_runs) != (pair[1] < base_runs);
        let distinct = order.windows(2).all(|pair| starts[pair[0]] < starts[pair[1]]);
        if !distinct || !order.chunks_exact(2).all(is_turn) {
            return None;
        }
        let (mut strata, mut places) = (vec![0; starts.len()], vec![0; starts.len()]);
        for (place, &run) in order.iter().enumerate() {
            places[run] = place;
            strata[run] = (place / 2 / OF_STRATUM).min(turns / OF_STRATUM - 1);
        }
        Some(Turns { strata, places })
    }

    /// By how much each Run's value is moved by drift: the slope over time within the sides (the median of all slopes, Sen,
    /// Journal of the American Statistical Association 63, 1968), then the median of the stratum (aligned ranks: Hodges
    /// and Lehmann, Annals of Mathematical Statistics 33, 1962), which one Run that is an outlier does not move far.
    pub(crate) fn moves(&self, values: &[f64], base_runs: usize) -> Vec<f64> {
        let mut slopes = Vec::new();
        for side in [0..base_runs, base_runs..values.len()] {
            for a in side.clone() {
                for b in a + 1..side.end {
                    slopes.push((values[b] - values[a]) / (self.places[b] as f64 - self.places[a] as f64));
                }
            }
        }
        slopes.sort_by(f64::total_cmp);
        let slope = slopes.get(slopes.len() / 2).copied().unwrap_or(0.0);
        let trend = |run: usize| slope * self.places[run] as f64;
        let strata = self.strata.iter().max().map_or(0, |most| most + 1);
        let mut of_strata = vec![Vec::new(); strata];
        for (run, value) in values.iter().enumerate() {
            of_strata[self.strata[run]].push(value - trend(run));
        }
        let middles: Vec<f64> = of_strata
            .iter()
            .map(|values| median_interval(values, 0.5).map_or(0.0, |(median, _)| median))
            .collect();
        (0..values.len()).map(|run| trend(run) + middles[self.strata[run]]).collect()
    }

    /// So many times as wide an interval has to be: what is left when each stratum's mean is taken from k values scatters by
    /// the square root of (k - 1) / k as far, and the difference between the sides as far as it did. With a median it is no less.
    pub(crate) fn widened(&self) -> f64 {
        let each = (2 * OF_STRATUM) as f64;
        (each / (each - 1.0)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_found_by_time_and_nothing_else_is_taken_for_them() {
        // base 0, 2, 4, … and new 1, 3, 5, …
        let by_turns: Vec<usize> = (0..7).map(|i| 2 * i).chain((0..7).map(|i| 2 * i + 1)).collect();
        let turns = Turns::of_starts(&by_turns, 7).unwrap();
        assert_eq!(turns.strata[..7], [0, 0, 1, 1, 2, 2, 2]);
        assert_eq!(turns.strata[7..], [0, 0, 1, 1, 2, 2, 2]);
        let one_after_the_other: Vec<usize> = (0..14).collect();
        assert_eq!(Turns::of_starts(&one_after_the_other, 7), None);
        assert_eq!(Turns::of_starts(&[0; 14], 7), None);
        assert_eq!(Turns::of_starts(&by_turns, 6), None);
    }

    #[test]
    fn a_drift_is_taken_away_and_a_difference_is_left() {
        let starts: Vec<usize> = (0..6).map(|i| 2 * i).chain((0..6).map(|i| 2 * i + 1)).collect();
        let turns = Turns::of_starts(&starts, 6).unwrap();
        let values: Vec<f64> = starts
            .iter()
            .enumerate()
            .map(|(run, at)| 0.3 * *at as f64 + if run < 6 { 0.0 } else { 0.1 })
            .collect();
        let moves = turns.moves(&values, 6);
        for run in 0..12 {
            let left = values[run] - moves[run];
            let expected = if run < 6 { -0.05 } else { 0.05 };
            assert!((left - expected).abs() < 1e-9, "{run}: {left}");
        }
    }
}
