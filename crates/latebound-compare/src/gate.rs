// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions under which a comparison fails, as a pipeline asks for them: `timer.p99.9 worse by 10%`.
//!
//! Owns their grammar and what they mean. A condition that names nothing that was compared is an error: a gate that can
//! never fail is none.

use std::fmt;
use std::str::FromStr;

use latebound_model::{Mechanism, Nanos};

use crate::document::{Comparison, Family, GateState, Measure, Ruling, Unit, VerdictWord};

/// What a number can be of, in a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// Every latency that was timed, and throughput.
    Any,
    /// All series of a mechanism.
    Mechanism(Mechanism),
    /// Every rate.
    Throughput,
    /// What the tables show: `ipc messages`.
    Named(String),
}

/// When a condition comes true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    /// It is called worse, and by estimate by at least so much.
    Worse,
    /// It is not shown to be less than so much worse.
    NotWithin,
}

/// A condition of `--fail-if`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    text: String,
    of: Of,
    statistic: Option<String>,
    demand: Demand,
    by: f64,
}

/// Why a condition cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// It is not written as one.
    #[error(
        "\"{text}\" is not a condition ({why}); write it as 'worse', 'timer.p99.9 worse by 10%', 'throughput worse by 5%' or 'operation.p99 not within 10%'"
    )]
    Form {
        /// What was met.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// It names what was not compared.
    #[error(
        "\"{text}\" names nothing that was compared between base and {side}, so it could never fail; there is: {there}"
    )]
    Nothing {
        /// The condition.
        text: String,
        /// The side held against the base.
        side: String,
        /// What could be named.
        there: String,
    },
}

const STATISTICS: [&str; 6] = ["p50", "p99", "p99.9", "p99.99", "max", "rate"];

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Gate, GateError> {
        let fail = |why: &str| GateError::Form { text: text.to_owned(), why: why.to_owned() };
        let joined = text.replace(" %", "%");
        let words: Vec<&str> = joined.split_whitespace().collect();
        let (what, demand, by) = match words.as_slice() {
            [what @ .., "worse"] => (what, Demand::Worse, None),
            [what @ .., "worse", "by", by] => (what, Demand::Worse, Some(*by)),
            [what @ .., "not", "within", by] => (what, Demand::NotWithin, Some(*by)),
            _ => return Err(fail("it ends neither in \"worse\", \"worse by 10%\" nor \"not within 10%\"")),
        };
        let by = match by {
            Some(by) => share(by).ok_or_else(|| fail(&format!("\"{by}\" is not a share such as 10%")))?,
            None => 0.0,
        };
        let (of, statistic) = target(&what.join(" ")).map_err(|why| fail(&why))?;
        Ok(Gate { text: text.trim().to_owned(), of, statistic, demand, by })
    }
}

/// `10%` or `0.1`; more than all is possible for a latency: `200%`.
fn share(text: &str) -> Option<f64> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (number > 0.0 && number.is_finite()).then_some(number)
}

fn target(what: &str) -> Result<(Of, Option<String>), String> {
    let statistic = STATISTICS.into_iter().find(|name| what.ends_with(&format!(".{name}")));
    let name = statistic.map_or(what, |statistic| &what[..what.len() - statistic.len() - 1]);
    let of = match name {
        "" if what.is_empty() => Of::Any,
        "" => return Err("nothing stands before the point".to_owned()),
        "throughput" => match statistic {
            None | Some("rate") => Of::Throughput,
            Some(other) => return Err(format!("throughput has a rate and no {other}")),
        },
        word => match (Mechanism::of_word(word), word.split_once('.')) {
            (Some(mechanism), _) => Of::Mechanism(mechanism),
            (None, Some((word, rest))) if Mechanism::of_word(word).is_some() => {
                return Err(format!("\"{rest}\" is none of {}", STATISTICS.join(", ")));
            }
            (None, _) => Of::Named(name.to_owned()),
        },
    };
    Ok((of, statistic.map(str::to_owned)))
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Gate {
    fn names(&self, measure: &Measure) -> bool {
        let of = match &self.of {
            Of::Any => measure.family != Family::Mechanisms,
            Of::Mechanism(mechanism) => measure.mechanism == Some(*mechanism),
            Of::Throughput => matches!(measure.unit, Unit::PerSecond(_)),
            Of::Named(name) => measure.of == *name,
        };
        // A CPU that cannot be told apart leaves nothing open: its values are part of the whole series.
        let distinct = measure.family != Family::Cpus
            || (measure.verdict == VerdictWord::Worse && self.demand == Demand::Worse);
        of && distinct && self.statistic.as_ref().is_none_or(|statistic| *statistic == measure.statistic)
    }

    fn rule(&self, measure: &Measure) -> (GateState, String) {
        let estimate = measure.ratio.map(|ratio| worse_by(measure, ratio));
        let farthest = match measure.unit {
            Unit::Nanoseconds => measure.ratio_high,
            Unit::PerSecond(_) => measure.ratio_low,
        }
        .map(|ratio| worse_by(measure, ratio));
        let reach = match farthest {
            Some(farthest) if farthest > 0.0 => {
                format!("the 95 % interval reaches {} worse", percent(farthest))
            }
            Some(_) => "the 95 % interval holds only better values".to_owned(),
            None => "there are too few Runs for an interval".to_owned(),
        };
        let within = farthest.is_some_and(|farthest| farthest < self.by);
        // Only the new side lies above what its source could count: nothing shows that it is not worse.
        if measure.new.above && !measure.base.above {
            let why = format!(
                "it lies above {}, where its source's histogram ended",
                Nanos(measure.new.median as u64)
            );
            return (GateState::Failed, why);
        }
        match self.demand {
            Demand::NotWithin if within => (GateState::Passed, reach),
            Demand::NotWithin => (GateState::Failed, reach),
            Demand::Worse => match (measure.verdict, estimate) {
                (VerdictWord::Worse, Some(estimate)) if estimate >= self.by => {
                    (GateState::Failed, format!("worse by {}; {reach}", percent(estimate)))
                }
                (VerdictWord::Better, _) => (GateState::Passed, "it is better".to_owned()),
                (VerdictWord::NoDifferenceLargerThan, _) if self.by == 0.0 => (GateState::Passed, reach),
                _ if within => (GateState::Passed, reach),
                (VerdictWord::Worse, Some(estimate)) => {
                    (GateState::Undecided, format!("worse by {}; {reach}", percent(estimate)))
                }
                _ => {
                    let runs = measure.runs_needed.map(|runs| format!("; it takes about {runs} Runs a side"));
                    (GateState::Undecided, reach + &runs.unwrap_or_default())
                }
            },
        }
    }
}

/// How much worse the new side is at this ratio, as a share of the base: above zero is worse.
fn worse_by(measure: &Measure, ratio: f64) -> f64 {
    match measure.unit {
        Unit::Nanoseconds => ratio - 1.0,
        Unit::PerSecond(_) => 1.0 - ratio,
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent.abs() < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

impl Comparison {
    /// Holds the comparison against conditions and puts on record how they came out.
    pub fn rule(&mut self, gates: &[Gate]) -> Result<(), GateError> {
        let mut rulings = Vec::new();
        for gate in gates {
            for against in &self.against {
                let before = rulings.len();
                rulings.extend(against.measures.iter().filter(|measure| gate.names(measure)).map(
                    |measure| {
                        let (state, why) = gate.rule(measure);
                        Ruling {
                            gate: gate.text.clone(),
                            side: against.side.name.clone(),
                            of: measure.of.clone(),
                            statistic: measure.statistic.clone(),
                            state,
                            why,
                        }
                    },
                ));
                if rulings.len() == before {
                    let there: Vec<String> = against
                        .measures
                        .iter()
                        .filter(|measure| measure.family == Family::Main)
                        .map(|measure| match measure.mechanism {
                            Some(mechanism) => format!("{}.{}", mechanism.word(), measure.statistic),
                            None => format!("{}.{}", measure.of, measure.statistic),
                        })
                        .collect();
                    return Err(GateError::Nothing {
                        text: gate.text.clone(),
                        side: against.side.name.clone(),
                        there: if there.is_empty() { "nothing".to_owned() } else { there.join(", ") },
                    });
                }
            }
        }
        self.gates = rulings;
        Ok(())
    }

    /// Whether a condition came true.
    pub fn failed(&self) -> bool {
        self.gates.iter().any(|ruling| ruling.state == GateState::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Estimate;

    fn measure(statistic: &str, ratio: (f64, f64, f64), verdict: VerdictWord) -> Measure {
        let estimate = Estimate {
            runs: 5,
            values: 5000,
            median: 1.0,
            above: false,
            min: 1.0,
            max: 1.0,
            low: None,
            high: None,
        };
        Measure {
            family: Family::Main,
            of: "timer wake-up measure".to_owned(),
            mechanism: Some(Mechanism::TimerWakeup),
            statistic: statistic.to_owned(),
            unit: Unit::Nanoseconds,
            base: estimate.clone(),
            new: estimate,
            ratio: Some(ratio.1),
            ratio_low: Some(ratio.0),
            ratio_high: Some(ratio.2),
            p: None,
            p_adjusted: None,
            verdict,
            no_larger_than: None,
            runs_needed: Some(9),
        }
    }

    fn rate(ratio: (f64, f64, f64), verdict: VerdictWord) -> Measure {
        Measure {
            of: "ipc messages".to_owned(),
            mechanism: None,
            unit: Unit::PerSecond("messages".to_owned()),
            ..measure("rate", ratio, verdict)
        }
    }

    fn state(gate: &str, measure: &Measure) -> GateState {
        let gate: Gate = gate.parse().unwrap();
        assert!(gate.names(measure), "{gate} does not name {measure:?}");
        gate.rule(measure).0
    }

    #[test]
    fn worse_by_so_much_fails_where_it_is_called_and_that_large_by_estimate() {
        use GateState::{Failed, Passed, Undecided};
        use VerdictWord::{Better, NoDifferenceLargerThan, NotEnoughRuns, Worse};
        for (gate, ratio, verdict, expected) in [
            ("timer.p99 worse", (1.01, 1.05, 1.08), Worse, Failed),
            ("timer.p99 worse by 10%", (1.10, 1.20, 1.30), Worse, Failed),
            ("timer.p99 worse by 10%", (1.02, 1.05, 1.08), Worse, Passed),
            ("timer.p99 worse by 10 %", (1.02, 1.05, 1.20), Worse, Undecided),
            ("timer.p99 worse by 0.1", (0.80, 1.20, 2.00), NotEnoughRuns, Undecided),
            ("timer.p99 worse by 10%", (0.95, 1.00, 1.04), NoDifferenceLargerThan, Passed),
            ("timer.p99 worse", (0.96, 1.00, 1.04), NoDifferenceLargerThan, Passed),
            ("timer.p99 worse", (0.5, 0.6, 0.7), Better, Passed),
            ("timer.p99 not within 10%", (0.95, 1.00, 1.04), NoDifferenceLargerThan, Passed),
            ("timer.p99 not within 10%", (0.80, 1.00, 1.20), NotEnoughRuns, Failed),
        ] {
            assert_eq!(
                state(gate, &measure("p99", ratio, verdict)),
                expected,
                "{gate} {ratio:?} {verdict:?}"
            );
        }
    }

    #[test]
    fn a_new_side_above_its_histogram_fails_and_two_such_are_open() {
        let mut one = measure("p99", (0.5, 1.0, 1.0), VerdictWord::NotEnoughRuns);
        one.ratio_high = None;
        one.new.above = true;
        assert_eq!(state("timer.p99 worse", &one), GateState::Failed);
        one.base.above = true;
        assert_eq!(state("timer.p99 worse", &one), GateState::Undecided);
    }

    #[test]
    fn a_cpu_counts_where_it_is_called_worse() {
        let gate: Gate = "worse".parse().unwrap();
        let mut one = measure("p99", (1.1, 1.2, 1.3), VerdictWord::Worse);
        one.family = Family::Cpus;
        assert_eq!(gate.rule(&one).0, GateState::Failed);
        assert!(gate.names(&one));
        one.verdict = VerdictWord::NotEnoughRuns;
        assert!(!gate.names(&one));
    }

    #[test]
    fn less_throughput_is_worse() {
        let less = rate((0.85, 0.88, 0.91), VerdictWord::Worse);
        assert_eq!(state("throughput worse by 10%", &less), GateState::Failed);
        assert_eq!(state("ipc messages.rate worse by 13%", &less), GateState::Undecided);
        assert_eq!(state("throughput worse by 20%", &less), GateState::Passed);
        let more = rate((1.3, 1.4, 1.5), VerdictWord::Better);
        assert_eq!(state("throughput not within 5%", &more), GateState::Passed);
    }

    #[test]
    fn without_an_interval_nothing_is_shown() {
        let mut one = measure("max", (1.0, 1.0, 1.0), VerdictWord::NotEnoughRuns);
        (one.ratio_low, one.ratio_high) = (None, None);
        assert_eq!(state("timer.max worse by 10%", &one), GateState::Undecided);
        assert_eq!(state("timer.max not within 10%", &one), GateState::Failed);
    }

    #[test]
    fn what_is_no_condition_says_what_to_write() {
        for (text, expected) in [
            ("timer.p99", "ends neither in"),
            ("timer.p99 worse by ten", "\"ten\" is not a share"),
            ("timer.p99 worse by -5%", "is not a share"),
            ("timer.p98 worse", "\"p98\" is none of p50, p99"),
            ("throughput.max worse", "has a rate and no max"),
            (".p99 worse", "nothing stands before"),
        ] {
            let error = text.parse::<Gate>().unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.contains("timer.p99.9 worse by 10%"),
                "{text}: {error}"
            );
        }
    }
}
