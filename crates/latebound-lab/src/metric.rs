// SPDX-License-Identifier: MIT OR Apache-2.0
//! One number of a Run, named as `timer.max` or `softirq.p99.9`. Pure.

use std::fmt;
use std::str::FromStr;

use latebound_model::{Histogram, Loss, Mechanism, Nanos, Quantity, Run};

use crate::error::LabError;

/// Which number of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Max,
    Mean,
    /// The quantile, in percent.
    Percent(f64),
}

/// A number of a Run: a mechanism's latency over all its series.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    mechanism: Mechanism,
    statistic: Statistic,
    text: String,
}

/// The latency of a mechanism in a Run, all its series merged.
pub(crate) fn latency(run: &Run, mechanism: Mechanism) -> Histogram {
    let mut all = Histogram::new();
    for series in run.series.iter().filter(|s| s.mechanism == mechanism && s.quantity == Quantity::Latency) {
        all.merge(&series.histogram);
    }
    all
}

/// What was lost of a mechanism's latencies.
pub(crate) fn losses(run: &Run, mechanism: Mechanism) -> impl Iterator<Item = &Loss> {
    let of = move |s: &&latebound_model::Series| s.mechanism == mechanism && s.quantity == Quantity::Latency;
    run.series.iter().filter(of).flat_map(|series| &series.losses)
}

impl Metric {
    /// Its value in a Run; `None` where the Run has no values of the mechanism, or too few for the quantile.
    pub fn of(&self, run: &Run) -> Option<Nanos> {
        let all = latency(run, self.mechanism);
        match self.statistic {
            Statistic::Max => all.max(),
            Statistic::Mean => all.mean(),
            Statistic::Percent(percent) => all.quantile(percent / 100.0),
        }
    }
}

impl FromStr for Metric {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Metric, LabError> {
        let fail = || {
            let words = Mechanism::ALL.map(Mechanism::word);
            LabError::Machine(format!(
                "\"{text}\" is not a metric; give MECHANISM.max, MECHANISM.mean or MECHANISM.p99.9, such as timer.max, with one of {}",
                words.join(", ")
            ))
        };
        let (word, statistic) = text.split_once('.').ok_or_else(fail)?;
        let mechanism = Mechanism::of_word(word).ok_or_else(fail)?;
        let statistic = match statistic {
            "max" => Statistic::Max,
            "mean" => Statistic::Mean,
            other => {
                let percent =
                    other.strip_prefix('p').and_then(|number| number.parse::<f64>().ok()).ok_or_else(fail)?;
                if !(percent > 0.0 && percent < 100.0) {
                    return Err(fail());
                }
                Statistic::Percent(percent)
            }
        };
        Ok(Metric { mechanism, statistic, text: text.to_owned() })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_mechanism_and_statistic() {
        let metric: Metric = "timer.p99.9".parse().unwrap();
        assert_eq!(metric.mechanism, Mechanism::TimerWakeup);
        assert_eq!(metric.statistic, Statistic::Percent(99.9));
        assert_eq!("hard-irq.max".parse::<Metric>().unwrap().mechanism, Mechanism::HardIrq);
        for bad in
            ["", "timer", "timer.", "timer.p0", "timer.p100", "timer.pNaN", "tomato.max", "timer.minimum"]
        {
            assert!(bad.parse::<Metric>().unwrap_err().to_string().contains("timer.max"), "{bad}");
        }
    }
}
