// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which activations are kept one by one, where far more happen than a record can hold.
//!
//! Owns the choice and the bound on memory. Never drops one that was asked for without counting it.

use std::collections::HashMap;
use std::str::FromStr;

use crate::activation::Activation;
use crate::units::Nanos;

/// Which activations of a Run are written one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All of them, in the order in which they were seen.
    All,
    /// So many of the worst, worst first.
    Worst(usize),
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Keep, String> {
        match text.strip_prefix("worst:").map(str::parse) {
            Some(Ok(number)) => Ok(Keep::Worst(number)),
            _ if text == "all" => Ok(Keep::All),
            _ => Err("write all, or worst: and a number, for example worst:100".to_owned()),
        }
    }
}

/// The activations that are kept so far.
#[derive(Clone, Debug)]
pub struct KeptActivations {
    keep: Keep,
    activations: Vec<Activation>,
    left_out: u64,
}

impl KeptActivations {
    /// As many activations are kept at most: some 400 MB of memory.
    pub const MAX: usize = 1 << 20;

    /// None so far.
    pub const fn new(keep: Keep) -> KeptActivations {
        KeptActivations { keep, activations: Vec::new(), left_out: 0 }
    }

    /// Keeps an activation of this latency where it is one of those that are asked for. `make` is called only then.
    pub fn take(&mut self, latency: Nanos, make: impl FnOnce() -> Activation) {
        match self.keep {
            Keep::All if self.activations.len() < KeptActivations::MAX => self.activations.push(make()),
            Keep::All => self.left_out += 1,
            Keep::Worst(number) => {
                let number = number.min(KeptActivations::MAX);
                let place = self.activations.partition_point(|kept| kept.latency() >= latency);
                if place < number {
                    self.activations.insert(place, make());
                    self.activations.truncate(number);
                }
            }
        }
    }

    /// Those that are kept: the worst first, or all as they came.
    pub fn activations(&self) -> &[Activation] {
        &self.activations
    }

    /// How many of all that were asked for came when [`KeptActivations::MAX`] were kept.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// The worst activation of each series.
#[derive(Clone, Debug, Default)]
pub struct WorstOfSeries(HashMap<String, Activation>);

impl WorstOfSeries {
    /// Keeps an activation of this series and latency where it is the worst so far; the first of several that are equal. `make` is
    /// called only then.
    pub fn take(&mut self, series: &str, latency: Nanos, make: impl FnOnce() -> Activation) {
        match self.0.get_mut(series) {
            Some(worst) if worst.latency() >= latency => {}
            Some(worst) => *worst = make(),
            None => {
                self.0.insert(series.to_owned(), make());
            }
        }
    }

    /// The worst of each series, worst first; equal ones by the name of their series.
    pub fn activations(&self) -> Vec<Activation> {
        let mut all: Vec<Activation> = self.0.values().cloned().collect();
        all.sort_by(|a, b| b.latency().cmp(&a.latency()).then_with(|| a.series.cmp(&b.series)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::Task;
    use crate::mechanism::Mechanism;
    use crate::units::Cpu;

    fn activation(series: &str, number: u64, latency: u64) -> Activation {
        let at = Nanos(1_000 * number);
        let mechanism = Mechanism::TimerWakeup;
        Activation::of_thread(series.into(), mechanism, Task::default(), Cpu(0), at, at + Nanos(latency))
    }

    fn kept(keep: Keep) -> Vec<u64> {
        let mut all = KeptActivations::new(keep);
        for (number, latency) in (0..).zip([30, 10, 40, 20, 40]) {
            all.take(Nanos(latency), || activation("s", number, latency));
        }
        assert_eq!(all.left_out(), 0);
        all.activations().iter().map(|one| one.latency().0).collect()
    }

    #[test]
    fn keep_worst_2_holds_the_two_longest_and_all_holds_every_one() {
        assert_eq!(kept(Keep::Worst(2)), [40, 40]);
        assert_eq!(kept(Keep::Worst(0)), [0_u64; 0]);
        assert_eq!(kept(Keep::All), [30, 10, 40, 20, 40]);
    }

    #[test]
    fn an_activation_that_is_not_kept_is_not_made() {
        let mut all = KeptActivations::new(Keep::Worst(1));
        all.take(Nanos(5), || activation("s", 1, 5));
        all.take(Nanos(5), || panic!("an equal one that came later is not kept"));
        let mut worst = WorstOfSeries::default();
        worst.take("s", Nanos(5), || activation("s", 1, 5));
        worst.take("s", Nanos(4), || panic!("it is not the worst"));
    }

    #[test]
    fn worst_of_series_holds_one_of_each_and_lists_the_worst_first() {
        let mut worst = WorstOfSeries::default();
        for (number, (series, latency)) in (0..).zip([("a", 3), ("b", 9), ("a", 7), ("c", 9), ("a", 7)]) {
            worst.take(series, Nanos(latency), || activation(series, number, latency));
        }
        let all = worst.activations();
        let all: Vec<_> =
            all.iter().map(|one| (one.series.as_str(), one.latency().0, one.requested_at.0)).collect();
        assert_eq!(all, [("b", 9, 1_000), ("c", 9, 3_000), ("a", 7, 2_000)]);
    }

    #[test]
    fn keep_takes_all_or_a_number_of_worst_and_nothing_else() {
        assert_eq!("all".parse(), Ok(Keep::All));
        assert_eq!("worst:12".parse(), Ok(Keep::Worst(12)));
        for wrong in ["", "worst", "worst:", "worst:-1", "best:3", "12"] {
            assert!(wrong.parse::<Keep>().is_err(), "{wrong}");
        }
    }
}
