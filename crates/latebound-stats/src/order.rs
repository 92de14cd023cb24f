// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantiles with intervals that hold for every distribution, from order statistics.
//!
//! Of n independent values, the number below the q-quantile is binomial(n, q) whatever the distribution is. So ranks l < u
//! can be named between whose values the quantile lies with a given probability (David and Nagaraja, Order Statistics,
//! 3rd edition 2003, section 7.1). Ties, as in a histogram, only make the interval safer.

use latebound_model::Histogram;

use crate::Interval;

/// Ranks, from 1, of the values between which a quantile lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantileRanks {
    /// The value of this rank is at most the quantile; `None` where there are too few values for a lower end.
    pub low: Option<u64>,
    /// The value of this rank is at least the quantile; `None` where there are too few values for an upper end.
    pub high: Option<u64>,
}

/// The ranks between which the `q`-quantile of `n` independent values lies with at least this confidence, half of the
/// rest on either side.
pub fn quantile_ranks(n: u64, q: f64, confidence: f64) -> QuantileRanks {
    if n == 0 || !(q > 0.0 && q < 1.0) || !(confidence > 0.0 && confidence < 1.0) {
        return QuantileRanks { low: None, high: None };
    }
    let tail = (1.0 - confidence) / 2.0;
    let mode = (((n + 1) as f64 * q).floor() as u64).min(n);
    // Probabilities relative to that of the mode, by the ratio of neighbours; those below the reach of a float are left out.
    let odds = q / (1.0 - q);
    let up = |k: u64| (n - k) as f64 / (k + 1) as f64 * odds;
    let down = |k: u64| k as f64 / (n - k + 1) as f64 / odds;
    let sum = |ratio: &dyn Fn(u64) -> f64, step: &dyn Fn(u64) -> Option<u64>| {
        let (mut at, mut weight, mut sum) = (mode, 1.0, 0.0);
        while let Some(next) = step(at) {
            weight *= ratio(at);
            sum += weight;
            at = next;
            if weight < 1e-19 * (1.0 + sum) {
                break;
            }
        }
        sum
    };
    let upwards = |k: u64| (k < n).then(|| k + 1);
    let downwards = |k: u64| k.checked_sub(1);
    let above = sum(&up, &upwards);
    let below = sum(&down, &downwards);
    let total = above + below + 1.0;
    // The maximum l with P(B < l) <= tail. Walk down from the mode until what is left is small enough.
    let (mut at, mut weight, mut left) = (mode, 1.0, below);
    let low = loop {
        if left <= tail * total {
            break Some(at).filter(|&at| at > 0);
        }
        let Some(next) = downwards(at) else { break None };
        weight *= down(at);
        left -= weight;
        at = next;
    };
    // The minimum u with P(B >= u) <= tail: walk up until what is above is small enough.
    let (mut at, mut weight, mut left) = (mode, 1.0, above);
    let high = loop {
        if left <= tail * total {
            break Some(at + 1).filter(|&rank| rank <= n);
        }
        let Some(next) = upwards(at) else { break None };
        weight *= up(at);
        left -= weight;
        at = next;
    };
    QuantileRanks { low, high }
}

/// The interval of the `q`-quantile of what a histogram counted, in nanoseconds: from the minimum value of the lower rank's
/// bucket to the maximum of the upper rank's. It takes the values for independent of each other; over the values of one
/// run it says how well that run's quantile is known, not how much the next run's will differ.
pub fn histogram_quantile_interval(histogram: &Histogram, q: f64, confidence: f64) -> Interval {
    let ranks = quantile_ranks(histogram.count(), q, confidence);
    let (mut seen, mut low, mut high) = (0, f64::NEG_INFINITY, f64::INFINITY);
    let (Some(min), Some(max)) = (histogram.min(), histogram.max()) else { return Interval { low, high } };
    for bucket in histogram.buckets() {
        let before = seen;
        seen += bucket.count;
        let holds = |rank: Option<u64>| rank.is_some_and(|rank| before < rank && rank <= seen);
        if holds(ranks.low) {
            low = bucket.low.max(min).0 as f64;
        }
        if holds(ranks.high) {
            high = bucket.high.min(max).0 as f64;
        }
    }
    Interval { low, high }
}

/// The median of independent values and its interval; infinite ends where there are too few values (below six for 95 %).
pub fn median_interval(values: &[f64], confidence: f64) -> Option<(f64, Interval)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let middle = match n {
        0 => return None,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    };
    let ranks = quantile_ranks(n as u64, 0.5, confidence);
    let at = |rank: u64| sorted[rank as usize - 1];
    let interval =
        Interval { low: ranks.low.map_or(f64::NEG_INFINITY, at), high: ranks.high.map_or(f64::INFINITY, at) };
    Some((middle, interval))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::Nanos;
    use proptest::prelude::*;

    /// From the definition, by sums of exact terms.
    fn by_definition(n: u64, q: f64, confidence: f64) -> QuantileRanks {
        let tail = (1.0 - confidence) / 2.0;
        let choose = |k: u64| (1..=k).map(|i| (n - k + i) as f64 / i as f64).product::<f64>();
        let pmf: Vec<f64> =
            (0..=n).map(|k| choose(k) * q.powi(k as i32) * (1.0 - q).powi((n - k) as i32)).collect();
        let below = |l: u64| pmf[..l as usize].iter().sum::<f64>();
        let from = |u: u64| pmf[u as usize..].iter().sum::<f64>();
        QuantileRanks {
            low: (1..=n).rev().find(|&l| below(l) <= tail),
            high: (1..=n).find(|&u| from(u) <= tail),
        }
    }

    proptest! {
        #[test]
        fn ranks_are_those_of_the_definition(n in 1u64..120, q in 0.01f64..0.99, confidence in 0.5f64..0.99) {
            prop_assert_eq!(quantile_ranks(n, q, confidence), by_definition(n, q, confidence));
        }
    }

    #[test]
    fn ranks_of_large_counts_are_those_of_scipy() {
        // P(B < ppf(t)) < t <= P(B <= ppf(t)). Rank 3001 of 3000, which scipy gives, is none.
        for (n, q, low, high) in SCIPY {
            assert_eq!(quantile_ranks(n, q, 0.95), QuantileRanks { low, high }, "n {n}, q {q}");
        }
    }

    /// scipy 1.17.1: `python3 -c "from scipy.stats import binom; [print(n, q, int(binom.ppf(.025, n, q)), int(binom.ppf(.975, n, q)) + 1)
    /// for n, q in [(100000, .999), (10000000, .9999), (1000000000, .5), (3000, .999), (100, .5)]]"`
    const SCIPY: [(u64, f64, Option<u64>, Option<u64>); 5] = [
        (100_000, 0.999, Some(99_880), Some(99_920)),
        (10_000_000, 0.9999, Some(9_998_938), Some(9_999_062)),
        (1_000_000_000, 0.5, Some(499_969_010), Some(500_030_991)),
        (3_000, 0.999, Some(2_993), None),
        (100, 0.5, Some(40), Some(61)),
    ];

    #[test]
    fn too_few_values_give_no_upper_end() {
        // 0.999^3688 = 0.025: with fewer values the maximum of them may lie below the quantile more often than that.
        assert_eq!(quantile_ranks(3687, 0.999, 0.95).high, None);
        assert_eq!(quantile_ranks(3688, 0.999, 0.95).high, Some(3688));
        assert_eq!(quantile_ranks(5, 0.5, 0.95), QuantileRanks { low: None, high: None });
        assert_eq!(quantile_ranks(6, 0.5, 0.95), QuantileRanks { low: Some(1), high: Some(6) });
    }

    #[test]
    fn a_histograms_interval_holds_the_whole_buckets_of_its_ranks() {
        let mut histogram = Histogram::new();
        (1..=1000u64).for_each(|value| histogram.record(Nanos(value * 1000)));
        let interval = histogram_quantile_interval(&histogram, 0.5, 0.95);
        // Ranks 469 and 532 of 1000, in buckets of 2048 and 4096 ns.
        assert!(interval.low <= 469_000.0 && interval.low > 465_000.0, "{interval:?}");
        assert!(interval.high >= 532_000.0 && interval.high < 537_000.0, "{interval:?}");
        let nothing = histogram_quantile_interval(&Histogram::new(), 0.5, 0.95);
        assert!(nothing.contains(0.0) && nothing.contains(1e300));
    }

    #[test]
    fn the_median_of_six_runs_lies_between_the_extremes() {
        let (median, interval) = median_interval(&[5.0, 1.0, 4.0, 2.0, 9.0, 3.0], 0.95).unwrap();
        assert!((median - 3.5).abs() < 1e-12);
        assert_eq!(interval, Interval { low: 1.0, high: 9.0 });
        assert_eq!(median_interval(&[], 0.95), None);
    }
}
