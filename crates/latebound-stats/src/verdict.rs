// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a p-value and an interval to one of four words.

use crate::{MeasureVerdict, Shift};

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
    /// A difference is called where its whole interval lies beyond this relative difference: 0.01 is 1 %.
    pub least_effect: f64,
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
pub fn judge(judged: Option<MeasureVerdict>, shift: Option<&Shift>, better: Better, rules: Rules) -> Verdict {
    let (Some(judged), Some(shift)) = (judged, shift) else { return Verdict::NotEnoughRuns };
    let lowest = rules.least_effect.ln_1p();
    let (above, below) = (shift.interval.low > lowest, shift.interval.high < -lowest);
    if judged.p_adjusted <= rules.level && ((above && judged.z > 0.0) || (below && judged.z < 0.0)) {
        return match above == (better == Better::Higher) {
            true => Verdict::Better,
            false => Verdict::Worse,
        };
    }
    // As ratios to one side or the other: +5 % and -4.8 % are the same distance.
    let farthest = shift.interval.low.abs().max(shift.interval.high.abs()).exp() - 1.0;
    if farthest <= rules.margin { Verdict::NoDifferenceLargerThan(farthest) } else { Verdict::NotEnoughRuns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interval;

    const RULES: Rules = Rules { level: 0.05, margin: 0.05, least_effect: 0.01 };

    fn judged(p_adjusted: f64, z: f64) -> Option<MeasureVerdict> {
        Some(MeasureVerdict { p: p_adjusted, p_adjusted, for_many: 1.0, z })
    }

    fn between(low: f64, high: f64) -> Shift {
        Shift { estimate: Some((low + high) / 2.0), interval: Interval { low, high } }
    }

    #[test]
    fn lower_latency_and_higher_throughput_are_better() {
        let shift = between(0.1, 0.2);
        assert_eq!(judge(judged(0.01, 2.0), Some(&shift), Better::Lower, RULES), Verdict::Worse);
        assert_eq!(judge(judged(0.01, 2.0), Some(&shift), Better::Higher, RULES), Verdict::Better);
        assert_eq!(
            judge(judged(0.01, -2.0), Some(&between(-0.2, -0.1)), Better::Lower, RULES),
            Verdict::Better
        );
    }

    #[test]
    fn a_difference_that_does_not_matter_is_not_called_however_sure_it_is() {
        let shift = between(0.002, 0.003);
        match judge(judged(0.002, 5.0), Some(&shift), Better::Lower, RULES) {
            Verdict::NoDifferenceLargerThan(most) => assert!((most - 0.003).abs() < 1e-4),
            other => panic!("{other:?}"),
        }
        assert_eq!(
            judge(judged(0.002, 5.0), Some(&between(0.005, 0.2)), Better::Lower, RULES),
            Verdict::NotEnoughRuns
        );
        // A minimum effect beside a p-value that is not enough calls nothing.
        assert_eq!(
            judge(judged(0.06, 5.0), Some(&between(0.1, 0.2)), Better::Lower, RULES),
            Verdict::NotEnoughRuns
        );
    }

    #[test]
    fn without_a_call_a_narrow_interval_limits_the_difference() {
        match judge(judged(0.4, 1.0), Some(&between(-0.01, 0.02)), Better::Lower, RULES) {
            Verdict::NoDifferenceLargerThan(most) => assert!((most - 0.0202).abs() < 1e-4),
            other => panic!("{other:?}"),
        }
        assert_eq!(
            judge(judged(0.4, 1.0), Some(&between(-0.01, 0.2)), Better::Lower, RULES),
            Verdict::NotEnoughRuns
        );
        let nothing = between(f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!(judge(judged(0.1, 1.0), Some(&nothing), Better::Lower, RULES), Verdict::NotEnoughRuns);
        assert_eq!(judge(None, Some(&between(0.0, 0.0)), Better::Lower, RULES), Verdict::NotEnoughRuns);
    }
}
