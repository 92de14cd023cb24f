// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a p-value and an interval to one of four words.

use crate::{Judged, Shift};

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Latencies.
    Lower,
    /// Throughput.
    Higher,
}

/// What verdicts go by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Differences are called where the corrected p-value is at or below this.
    pub level: f64,
    /// A relative difference that does not matter: 0.05 is 5 %.
    pub margin: f64,
    /// How far a ratio of two values may be off because they were counted in buckets: 0.01 is 1 %.
    pub resolution: f64,
}

/// What can be said of a measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The new side is better.
    Better,
    /// The new side is worse.
    Worse,
    /// Whatever the difference is, its interval ends at this relative difference, which is within the margin.
    NoDifferenceLargerThan(f64),
    /// None of these can be said.
    NotEnoughRuns,
}

/// The verdict on a measure from its p-values and the shift of its logarithm.
pub fn judge(judged: Option<Judged>, shift: Option<Shift>, better: Better, rules: Rules) -> Verdict {
    let (Some(judged), Some(shift)) = (judged, shift) else { return Verdict::NotEnoughRuns };
    if judged.p_adjusted <= rules.level && judged.z != 0.0 {
        return match (judged.z > 0.0) == (better == Better::Higher) {
            true => Verdict::Better,
            false => Verdict::Worse,
        };
    }
    // As ratios to one side or the other: +5 % and -4.8 % are the same distance.
    let farthest =
        shift.interval.low.abs().max(shift.interval.high.abs()).exp() * (1.0 + rules.resolution) - 1.0;
    if farthest <= rules.margin { Verdict::NoDifferenceLargerThan(farthest) } else { Verdict::NotEnoughRuns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interval;

    const RULES: Rules = Rules { level: 0.05, margin: 0.05, resolution: 0.0 };

    fn judged(p_adjusted: f64, z: f64) -> Option<Judged> {
        Some(Judged { p: p_adjusted, p_adjusted, z })
    }

    fn between(low: f64, high: f64) -> Option<Shift> {
        Some(Shift { estimate: (low + high) / 2.0, interval: Interval { low, high } })
    }

    #[test]
    fn lower_latency_and_higher_throughput_are_better() {
        let shift = between(0.1, 0.2);
        assert_eq!(judge(judged(0.01, 2.0), shift, Better::Lower, RULES), Verdict::Worse);
        assert_eq!(judge(judged(0.01, 2.0), shift, Better::Higher, RULES), Verdict::Better);
        assert_eq!(judge(judged(0.01, -2.0), shift, Better::Lower, RULES), Verdict::Better);
    }

    #[test]
    fn without_a_call_a_narrow_interval_says_how_large_the_difference_is_at_most() {
        match judge(judged(0.4, 1.0), between(-0.01, 0.02), Better::Lower, RULES) {
            Verdict::NoDifferenceLargerThan(most) => assert!((most - 0.0202).abs() < 1e-4),
            other => panic!("{other:?}"),
        }
        assert_eq!(
            judge(judged(0.4, 1.0), between(-0.01, 0.2), Better::Lower, RULES),
            Verdict::NotEnoughRuns
        );
        // What cannot be told apart is not shown to be equal.
        let coarse = Rules { resolution: 0.01, ..RULES };
        match judge(judged(1.0, 0.0), between(0.0, 0.0), Better::Lower, coarse) {
            Verdict::NoDifferenceLargerThan(most) => assert!((most - 0.01).abs() < 1e-9),
            other => panic!("{other:?}"),
        }
        let nothing = between(f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!(judge(judged(0.1, 1.0), nothing, Better::Lower, RULES), Verdict::NotEnoughRuns);
        assert_eq!(judge(None, between(0.0, 0.0), Better::Lower, RULES), Verdict::NotEnoughRuns);
    }
}
