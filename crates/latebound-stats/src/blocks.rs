// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the maxima of blocks may be taken for independent of each other and of one distribution, as a forecast
//! from them has to.

use rand::RngExt as _;

use crate::generator;

/// The p-value of neighbours within a run being no more alike than any two of its values, by shuffling: the statistic is the sum
/// of products of neighbouring ranks (Wald and Wolfowitz, Annals of Mathematical Statistics 14, 1943). One-sided: late blocks
/// beside late ones. 1 where there is nothing to shuffle.
pub fn neighbours_agree(runs: &[Vec<f64>], shuffles: u32, seed: u64) -> f64 {
    let mut ranked: Vec<Vec<f64>> = runs.iter().filter(|run| run.len() > 2).map(|run| centred(run)).collect();
    let sum = |runs: &[Vec<f64>]| -> f64 {
        runs.iter().flat_map(|run| run.windows(2)).map(|pair| pair[0] * pair[1]).sum()
    };
    if ranked.is_empty() {
        return 1.0;
    }
    let (met, mut random) = (sum(&ranked), generator(seed));
    share(shuffles, || {
        for run in &mut ranked {
            for at in (1..run.len()).rev() {
                run.swap(at, random.random_range(0..=at));
            }
        }
        sum(&ranked) >= met - 1e-9
    })
}

/// The p-value of the values of a run having nothing to do with those `lags` places later, by shuffling: the statistic is that of
/// Box and Pierce (Journal of the American Statistical Association 65, 1970), of ranks. It sees a level that swings
/// or moves. 1 where no run is twice as long as the maximum lag.
pub fn distant_agree(
    runs: &[Vec<f64>],
    lags: std::ops::RangeInclusive<usize>,
    shuffles: u32,
    seed: u64,
) -> f64 {
    let mut ranked: Vec<Vec<f64>> =
        runs.iter().filter(|run| run.len() >= 2 * lags.end()).map(|run| centred(run)).collect();
    if ranked.is_empty() {
        return 1.0;
    }
    let sum = |runs: &[Vec<f64>]| -> f64 {
        let of_lag = |lag: usize| -> f64 {
            runs.iter().flat_map(|run| run.iter().zip(&run[lag..])).map(|(a, b)| a * b).sum()
        };
        lags.clone().map(|lag| of_lag(lag).powi(2)).sum()
    };
    let (met, mut random) = (sum(&ranked), generator(seed));
    share(shuffles, || {
        for run in &mut ranked {
            for at in (1..run.len()).rev() {
                run.swap(at, random.random_range(0..=at));
            }
        }
        sum(&ranked) >= met * (1.0 - 1e-9)
    })
}

/// The p-value from a test whether a shuffle gives as great a number. It ends early where so many did that the p-value is not small
/// (Besag and Clifford, Biometrika 78, 1991: sequential Monte Carlo p-values).
fn share(shuffles: u32, mut as_great: impl FnMut() -> bool) -> f64 {
    const ENOUGH: u32 = 100;
    let mut met = 0;
    for at in 1..=shuffles {
        met += u32::from(as_great());
        if met == ENOUGH {
            return f64::from(met) / f64::from(at);
        }
    }
    f64::from(met + 1) / f64::from(shuffles + 1)
}

/// The p-value of the runs being of one distribution, by dealing all values anew: the statistic is that of Kruskal and Wallis
/// (Journal of the American Statistical Association 47, 1952). 1 of a single run.
pub fn runs_agree(runs: &[Vec<f64>], shuffles: u32, seed: u64) -> f64 {
    let sizes: Vec<usize> = runs.iter().map(Vec::len).filter(|size| *size > 0).collect();
    if sizes.len() < 2 {
        return 1.0;
    }
    let mut ranks = centred(&runs.concat());
    let statistic = |ranks: &[f64]| -> f64 {
        let mut from = 0;
        sizes
            .iter()
            .map(|size| {
                let sum: f64 = ranks[from..from + size].iter().sum();
                from += size;
                sum * sum / *size as f64
            })
            .sum()
    };
    let (met, mut random) = (statistic(&ranks), generator(seed));
    share(shuffles, || {
        for at in (1..ranks.len()).rev() {
            ranks.swap(at, random.random_range(0..=at));
        }
        statistic(&ranks) >= met - 1e-9
    })
}

/// Ranks around zero, ties by their mean.
fn centred(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let value = values[order[from]];
        let to = from + order[from..].iter().take_while(|&&at| values[at].total_cmp(&value).is_eq()).count();
        let rank = (from + to - 1) as f64 / 2.0 - middle;
        order[from..to].iter().for_each(|&at| ranks[at] = rank);
        from = to;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(count: usize, seed: u64) -> Vec<f64> {
        let mut random = generator(seed);
        (0..count).map(|_| random.random::<u32>().into()).collect()
    }

    #[test]
    fn a_slow_swing_makes_neighbours_agree_and_noise_does_not() {
        let swing: Vec<f64> = (0..60).map(|i| (f64::from(i) / 8.0).sin()).collect();
        assert!(neighbours_agree(&[swing], 199, 1) < 0.01);
        let small = (0..200).filter(|&seed| neighbours_agree(&[noise(40, seed)], 99, seed) <= 0.1).count();
        // Binomial(200, 0.1): 20 and four standard deviations of 4.2.
        assert!((4..=37).contains(&small), "{small}");
        assert!(neighbours_agree(&[vec![1.0; 30]], 99, 1) >= 1.0);
    }

    #[test]
    fn a_swing_is_seen_far_away_and_noise_is_not() {
        let swing = |seed: u64| -> Vec<f64> {
            let noise = noise(120, seed);
            let at = |i: usize| (i as f64 / 40.0 * std::f64::consts::TAU).sin();
            noise.iter().enumerate().map(|(i, n)| at(i) + n / f64::from(u32::MAX) * 3.0).collect()
        };
        assert!(distant_agree(&[swing(1), swing(2), swing(3), swing(4)], 9..=32, 199, 1) < 0.05);
        let small =
            (0..100).filter(|&seed| distant_agree(&[noise(80, seed)], 9..=32, 99, seed) <= 0.1).count();
        // Binomial(100, 0.1): 10 and four standard deviations of 3.
        assert!((1..=22).contains(&small), "{small}");
        assert!(distant_agree(&[noise(60, 1)], 9..=32, 99, 1) >= 1.0);
    }

    #[test]
    fn runs_of_other_levels_do_not_agree_and_equal_ones_do() {
        let moved: Vec<f64> = noise(30, 2).iter().map(|value| value + f64::from(u32::MAX) / 2.0).collect();
        assert!(runs_agree(&[noise(30, 1), moved], 199, 1) < 0.01);
        let small = (0..200)
            .filter(|&seed| runs_agree(&[noise(20, 3 * seed), noise(20, 3 * seed + 1)], 99, seed) <= 0.1)
            .count();
        assert!((4..=37).contains(&small), "{small}");
        assert!(runs_agree(&[noise(5, 1)], 99, 1) >= 1.0);
    }
}
