// SPDX-License-Identifier: MIT OR Apache-2.0
//! The equations: from those that wait to the priority of the kernel thread that they wait for.
//!
//! D. Kang, W. Lee, C. Park, "Kernel Thread Scheduling in Real-Time Linux for Wearable Computers", ETRI Journal 29(3),
//! 2007, section IV: equation (1) PIP, (2) weighted average PIP, (3) the same for kswapd. The paper does not say how the
//! weighted mean becomes a whole priority; here it is rounded to the nearest, halves up. All arithmetic is in integers.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::waiters::Waiters;
use latebound_model::{Priority, Scheduling};

/// How priorities follow from those that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// Nothing is changed.
    Off,
    /// The priority that the configuration gives to the thread's class, whoever waits.
    Static,
    /// Equation (1): the highest of those that wait.
    Pip,
    /// Equation (2), and (3) for kswapd: the weighted mean of those that wait, at most the highest of them.
    #[default]
    WeightedAverage,
}

impl PolicyKind {
    /// The name as the configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::Off => "off",
            PolicyKind::Static => "static",
            PolicyKind::Pip => "pip",
            PolicyKind::WeightedAverage => "weighted-average",
        }
    }
}

/// w_k of equation (2), in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(with = "f64", extend("minimum" = 0.001, "maximum" = 100))]
pub struct Weight(u32);

/// A number that is no weight.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{0} is not a weight; give 0.001 to 100, as the paper's 1.2 for interrupt threads and 0.8 for all others"
)]
pub struct NoWeight(String);

impl Weight {
    /// The paper's for interrupt threads, 1.2 (section V.2).
    pub const INTERRUPT: Weight = Weight(1200);
    /// The paper's for all other kernel threads, 0.8 (section V.2).
    pub const OTHER: Weight = Weight(800);

    /// From thousandths, 1 to 100 000.
    pub const fn thousandths(number: u32) -> Option<Weight> {
        if number >= 1 && number <= 100_000 { Some(Weight(number)) } else { None }
    }

    /// In thousandths.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<f64> for Weight {
    type Error = NoWeight;

    fn try_from(number: f64) -> Result<Weight, NoWeight> {
        let thousandths = (number * 1000.0).round();
        if !(1.0..=100_000.0).contains(&thousandths) {
            return Err(NoWeight(number.to_string()));
        }
        Ok(Weight(thousandths as u32))
    }
}

impl From<Weight> for f64 {
    fn from(weight: Weight) -> f64 {
        f64::from(weight.0) / 1000.0
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f64::from(*self).fmt(f)
    }
}

/// `rt_page_ratio` of equation (3): the share of the LRU pages that belong to real-time tasks, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageShare(u32);

impl PageShare {
    /// All of them.
    pub const ALL: PageShare = PageShare(1_000_000);

    /// `real_time` pages of `all`; 0 of 0 is none, and more than all is all.
    pub fn of(real_time: u64, all: u64) -> PageShare {
        if all == 0 {
            return PageShare(0);
        }
        let share = u128::from(real_time.min(all)) * 1_000_000 / u128::from(all);
        PageShare(u32::try_from(share).unwrap_or(1_000_000))
    }
}

/// Equation (1): the highest of those that wait; `None` with nobody waiting.
pub fn pip(waiters: &Waiters) -> Option<Priority> {
    waiters.maximum()
}

/// Equations (2) and (3): `min(w * mean * share, max)`; with [`PageShare::ALL`] it is equation (2).
///
/// Those with a hard dependency count as the maximum: the result is never below the highest of them. `None` with nobody
/// waiting, and where the value rounds to 0, which is no real-time priority.
pub fn weighted_average(waiters: &Waiters, weight: Weight, share: PageShare) -> Option<Priority> {
    let maximum = waiters.maximum()?;
    let dividend = u128::from(weight.0) * u128::from(waiters.sum()) * u128::from(share.0);
    let divisor = u128::from(waiters.number()) * 1_000 * 1_000_000;
    let rounded = (2 * dividend + divisor) / (2 * divisor);
    let mean = u8::try_from(rounded).unwrap_or(u8::MAX).min(maximum.get());
    Priority::new(mean).max(waiters.hard_maximum())
}

/// What a kernel thread should be scheduled as: its default with nobody waiting.
pub fn target(
    kind: PolicyKind,
    waiters: &Waiters,
    weight: Weight,
    share: PageShare,
    default: Scheduling,
    fixed: Option<Priority>,
) -> Scheduling {
    let priority = match kind {
        PolicyKind::Off => None,
        PolicyKind::Static => fixed,
        PolicyKind::Pip => pip(waiters),
        PolicyKind::WeightedAverage => weighted_average(waiters, weight, share),
    };
    priority.map_or(default, Scheduling::fifo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::Dependency;
    use proptest::prelude::*;

    fn waiting(priorities: &[u8]) -> Waiters {
        let mut waiters = Waiters::default();
        for &priority in priorities {
            waiters.add(Priority::new(priority).unwrap(), Dependency::Soft);
        }
        waiters
    }

    fn average(priorities: &[u8], weight: Weight) -> Option<u8> {
        weighted_average(&waiting(priorities), weight, PageShare::ALL).map(Priority::get)
    }

    #[test]
    fn with_nobody_waiting_the_default_stays() {
        let default = Scheduling::other(-20);
        for kind in [PolicyKind::Off, PolicyKind::Pip, PolicyKind::WeightedAverage] {
            let target = target(
                kind,
                &Waiters::default(),
                Weight::INTERRUPT,
                PageShare::ALL,
                default,
                Priority::new(7),
            );
            assert_eq!(target, default);
        }
    }

    #[test]
    fn the_highest_that_waits_gives_pip() {
        // Figure 1 of the paper: tasks of 50 and 40 wait for one interrupt thread.
        assert_eq!(pip(&waiting(&[50, 40])).map(Priority::get), Some(50));
        assert_eq!(pip(&waiting(&[40])).map(Priority::get), Some(40));
    }

    #[test]
    fn the_mean_is_weighted_and_kept_below_the_highest() {
        // 1.2 * 45 = 54, above the highest.
        assert_eq!(average(&[50, 40], Weight::INTERRUPT), Some(50));
        // 1.2 * (50 + 10 + 10 + 10) / 4 = 24.
        assert_eq!(average(&[50, 10, 10, 10], Weight::INTERRUPT), Some(24));
        // 0.8 * 45 = 36.
        assert_eq!(average(&[50, 40], Weight::OTHER), Some(36));
        // One task that dirtied three inodes counts three times: 0.8 * (3 * 80 + 20) / 4 = 52.
        assert_eq!(average(&[80, 80, 80, 20], Weight::OTHER), Some(52));
    }

    #[test]
    fn halves_are_rounded_up_and_0_is_no_priority() {
        // 0.5 * 5 = 2.5.
        assert_eq!(average(&[5], Weight::thousandths(500).unwrap()), Some(3));
        assert_eq!(average(&[5], Weight::thousandths(499).unwrap()), Some(2));
        // 0.8 * 1 = 0.8, but 0.1 * 1 = 0.1.
        assert_eq!(average(&[1], Weight::OTHER), Some(1));
        assert_eq!(average(&[1], Weight::thousandths(100).unwrap()), None);
    }

    #[test]
    fn few_pages_of_real_time_tasks_keep_kswapd_low() {
        let waiters = waiting(&[60, 40]);
        let kswapd = |share| weighted_average(&waiters, Weight::OTHER, share).map(Priority::get);
        // 0.8 * 50 * 0.25 = 10.
        assert_eq!(kswapd(PageShare::of(25, 100)), Some(10));
        assert_eq!(kswapd(PageShare::of(1, 1_000)), None);
        assert_eq!(kswapd(PageShare::of(7, 7)), Some(40));
        assert_eq!(PageShare::of(9, 0), PageShare::of(0, 9));
    }

    #[test]
    fn a_task_blocked_on_one_item_counts_as_the_maximum() {
        let mut waiters = waiting(&[10, 10, 10]);
        waiters.add(Priority::new(70).unwrap(), Dependency::Hard);
        assert_eq!(weighted_average(&waiters, Weight::OTHER, PageShare::ALL), Priority::new(70));
        // But a hard one of 10 does not keep the mean of the others down: 0.8 * (90 + 10) / 2 = 40.
        let mut waiters = waiting(&[90]);
        waiters.add(Priority::new(10).unwrap(), Dependency::Hard);
        assert_eq!(weighted_average(&waiters, Weight::OTHER, PageShare::ALL), Priority::new(40));
    }

    #[test]
    fn weights_outside_of_the_sensible_are_refused() {
        assert!(Weight::try_from(f64::NAN).is_err());
        assert!(Weight::try_from(-1.0).is_err());
        assert!(Weight::try_from(0.0).is_err());
        assert_eq!(Weight::try_from(1.2), Ok(Weight::INTERRUPT));
        assert_eq!(Weight::OTHER.to_string(), "0.8");
    }

    proptest! {
        #[test]
        fn the_weighted_mean_is_that_of_the_definition_and_never_above_pip(
            priorities in prop::collection::vec(1_u8..=99, 1..40),
            weight in 1_u32..3_000,
        ) {
            let found = average(&priorities, Weight::thousandths(weight).unwrap()).unwrap_or(0);
            let sum: f64 = priorities.iter().map(|&one| f64::from(one)).sum();
            let exact = f64::from(weight) / 1000.0 * sum / priorities.len() as f64;
            let highest = f64::from(*priorities.iter().max().unwrap());
            prop_assert!((f64::from(found) - exact.min(highest)).abs() <= 0.5 + 1e-9, "{found} {exact} {highest}");
        }
    }
}
