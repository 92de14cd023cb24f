// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maximum values of blocks of time, and the generalised extreme-value distribution that they tend to
//! (Coles, An Introduction to Statistical Modeling of Extreme Values, 2001, chapter 3; its sign of the shape: above zero
//! is a heavy tail).

use rand::{Rng, RngExt as _};

use crate::generator;

/// A generalised extreme-value distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gev {
    /// Where it lies.
    pub location: f64,
    /// How wide it is; above zero.
    pub scale: f64,
    /// How heavy its tail is: above zero without an upper end, below zero with one.
    pub shape: f64,
}

/// Shapes closer to zero than this are taken for zero (Gumbel).
const NEARLY_ZERO: f64 = 1e-9;

impl Gev {
    /// The distribution whose first three L-moments are those of the values (Hosking, Journal of the Royal Statistical
    /// Society B 52, 1990, and Hosking, Wallis and Wood, Technometrics 27, 1985, with the shape solved for instead of
    /// approximated). `None` below five values, or where they do not differ.
    pub fn by_l_moments(values: &[f64]) -> Option<Gev> {
        let n = values.len() as f64;
        if values.len() < 5 {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Unbiased probability-weighted moments.
        let (mut b0, mut b1, mut b2) = (0.0, 0.0, 0.0);
        for (i, x) in sorted.iter().enumerate() {
            let i = i as f64;
            b0 += x / n;
            b1 += x * i / (n - 1.0) / n;
            b2 += x * i * (i - 1.0) / ((n - 1.0) * (n - 2.0)) / n;
        }
        let (l1, l2, l3) = (b0, 2.0 * b1 - b0, 6.0 * b2 - 6.0 * b1 + b0);
        if l2.is_nan() || l2 <= 1e-12 * l1.abs().max(f64::MIN_POSITIVE) {
            return None;
        }
        let skewness = l3 / l2;
        // Their k is minus the shape: t3 = 2 (1 - 3^-k) / (1 - 2^-k) - 3, which falls as k grows.
        let t3 = |k: f64| {
            let ratio = if k.abs() < NEARLY_ZERO {
                3f64.ln() / 2f64.ln()
            } else {
                (1.0 - 3f64.powf(-k)) / (1.0 - 2f64.powf(-k))
            };
            2.0 * ratio - 3.0
        };
        let (mut low, mut high) = (-0.999, 20.0);
        if !(t3(high) < skewness && skewness < t3(low)) {
            return None;
        }
        for _ in 0..80 {
            let middle = (low + high) / 2.0;
            if t3(middle) > skewness { low = middle } else { high = middle }
        }
        let k = (low + high) / 2.0;
        let (scale, location) = if k.abs() < 1e-6 {
            let scale = l2 / 2f64.ln();
            (scale, l1 - EULER * scale)
        } else {
            let gamma = statrs::function::gamma::gamma(1.0 + k);
            let scale = l2 * k / ((1.0 - 2f64.powf(-k)) * gamma);
            (scale, l1 - scale * (1.0 - gamma) / k)
        };
        (scale.is_finite() && scale > 0.0 && location.is_finite()).then_some(Gev {
            location,
            scale,
            shape: -k,
        })
    }

    /// The probability of a value at or below this one.
    pub fn cdf(&self, value: f64) -> f64 {
        let y = (value - self.location) / self.scale;
        if self.shape.abs() < NEARLY_ZERO {
            return (-(-y).exp()).exp();
        }
        let t = 1.0 + self.shape * y;
        if t <= 0.0 {
            return if self.shape > 0.0 { 0.0 } else { 1.0 };
        }
        (-t.powf(-1.0 / self.shape)).exp()
    }

    /// The value that a block stays at or below with this probability.
    pub fn quantile(&self, p: f64) -> f64 {
        self.location + self.scale * spread(-p.ln(), self.shape)
    }

    /// The value that is passed once in so many blocks on average.
    pub fn return_level(&self, blocks: f64) -> f64 {
        // -ln(1 - 1/T) without losing digits for great T.
        self.location + self.scale * spread(-(-1.0 / blocks).ln_1p(), self.shape)
    }

    /// Minus the logarithm of the density, summed over the values; infinite where one of them is impossible.
    pub(crate) fn cost(&self, values: &[f64]) -> f64 {
        if self.scale.is_nan() || self.scale <= 0.0 {
            return f64::INFINITY;
        }
        let mut cost = values.len() as f64 * self.scale.ln();
        for value in values {
            let y = (value - self.location) / self.scale;
            if self.shape.abs() < NEARLY_ZERO {
                cost += y + (-y).exp();
                continue;
            }
            let t = 1.0 + self.shape * y;
            if t <= 0.0 {
                return f64::INFINITY;
            }
            let logarithm = t.ln();
            cost += (1.0 + 1.0 / self.shape) * logarithm + (-logarithm / self.shape).exp();
        }
        cost
    }

    fn draw(&self, random: &mut impl Rng) -> f64 {
        // From the open interval: zero would be minus infinity.
        let u = (random.random::<u64>() >> 11) as f64 + 0.5;
        self.quantile(u / (1u64 << 53) as f64)
    }
}

/// The constant of Euler and Mascheroni.
const EULER: f64 = 0.577_215_664_901_532_9;

/// (y^-shape - 1) / shape, which is -ln y at zero.
pub(crate) fn spread(y: f64, shape: f64) -> f64 {
    if shape.abs() < NEARLY_ZERO { -y.ln() } else { (-shape * y.ln()).exp_m1() / shape }
}

/// How well a distribution of this family describes the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitness {
    /// The statistic of Anderson and Darling: weighs the tails; greater is worse.
    pub anderson_darling: f64,
    /// The share of samples of the fitted distribution, fitted again, that lie at least as far from their own fit.
    pub p: f64,
    /// From how many samples `p` was counted.
    pub samples: u32,
}

/// Holds the values against the family: draws samples as large from the fitted distribution, fits each again, and
/// counts (Stute, Gonzales Manteiga and Presedo Quindimil, Metrika 40, 1993: the parametric bootstrap of a goodness of fit).
pub fn fitness(values: &[f64], samples: u32, seed: u64) -> Option<Fitness> {
    let fitted = Gev::by_l_moments(values)?;
    let anderson_darling = anderson_darling(values, &fitted);
    let mut random = generator(seed);
    let mut sample = vec![0.0; values.len()];
    let (mut farther, mut made) = (0, 0);
    for _ in 0..samples {
        sample.iter_mut().for_each(|value| *value = fitted.draw(&mut random));
        if let Some(again) = Gev::by_l_moments(&sample) {
            made += 1;
            farther += u32::from(self::anderson_darling(&sample, &again) >= anderson_darling);
        }
        if farther == ENOUGH {
            return Some(Fitness {
                anderson_darling,
                p: f64::from(farther) / f64::from(made),
                samples: made,
            });
        }
    }
    Some(Fitness { anderson_darling, p: f64::from(farther + 1) / f64::from(made + 1), samples: made })
}

/// So many samples that lie as far settle that the fit is not bad (Besag and Clifford, Biometrika 78, 1991).
const ENOUGH: u32 = 40;

/// The statistic of Anderson and Darling (Annals of Mathematical Statistics 23, 1952) of values against a distribution.
fn anderson_darling(values: &[f64], gev: &Gev) -> f64 {
    let mut p: Vec<f64> = values.iter().map(|&value| gev.cdf(value).clamp(1e-300, 1.0 - 1e-16)).collect();
    p.sort_by(f64::total_cmp);
    let n = p.len();
    let sum: f64 = (0..n).map(|i| (2 * i + 1) as f64 * (p[i].ln() + (-p[n - 1 - i]).ln_1p())).sum();
    -(n as f64) - sum / n as f64
}

/// The maxima of blocks that are `by` times as long. A longer block counts where each of its parts has a value.
pub fn merge_blocks(maxima: &[Option<f64>], by: usize) -> Vec<f64> {
    let longer = |parts: &[Option<f64>]| {
        parts.iter().try_fold(f64::NEG_INFINITY, |most, part| part.map(|part| most.max(part)))
    };
    maxima.chunks_exact(by.max(1)).filter_map(longer).collect()
}

/// Annual maximum sea levels at Port Pirie, 1923 to 1987, in metres: Coles 2001, example 1.1 (data set portpirie of
/// the R package ismev).
#[cfg(test)]
pub(crate) const PORT_PIRIE: [f64; 65] = [
    4.03, 3.83, 3.65, 3.88, 4.01, 4.08, 4.18, 3.80, 4.36, 3.96, 3.98, 4.69, 3.85, 3.96, 3.85, 3.93, 3.75,
    3.63, 3.57, 4.25, 3.97, 4.05, 4.24, 4.22, 3.73, 4.37, 4.06, 3.71, 3.96, 4.06, 4.55, 3.79, 3.89, 4.11,
    3.85, 3.86, 3.86, 4.21, 4.01, 4.11, 4.24, 3.96, 4.21, 3.74, 3.85, 3.88, 3.66, 4.11, 3.71, 4.18, 3.90,
    3.78, 3.91, 3.72, 4.00, 3.66, 3.62, 4.33, 4.55, 3.75, 4.08, 3.90, 3.88, 3.94, 4.33,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn l_moments_give_what_another_program_gives() {
        // lmoments3 1.0.8: distr.gev.lmom_fit(PORT_PIRIE) gives c, which is minus our shape, loc and scale.
        let gev = Gev::by_l_moments(&PORT_PIRIE).unwrap();
        assert!((gev.shape - LMOMENTS3[0]).abs() < 2e-5, "{gev:?}");
        assert!((gev.location - LMOMENTS3[1]).abs() < 2e-5, "{gev:?}");
        assert!((gev.scale - LMOMENTS3[2]).abs() < 2e-5, "{gev:?}");
    }
    const LMOMENTS3: [f64; 3] =
        [-0.051_211_834_887_343_03, 3.873_147_614_722_830_3, 0.203_222_271_629_371_34];

    #[test]
    fn distribution_and_quantile_are_those_of_scipy() {
        // scipy 1.17.1, whose sign of the shape is the other: genextreme(0.3, loc=100, scale=15).cdf(110), .ppf(0.999);
        // genextreme(-0.2, loc=100, scale=15).cdf(130), .ppf(0.99).
        for (shape, at, cdf, p, quantile) in SCIPY {
            let gev = Gev { location: 100.0, scale: 15.0, shape };
            assert!((gev.cdf(at) - cdf).abs() < 1e-12, "{}", gev.cdf(at));
            assert!((gev.quantile(p) - quantile).abs() < 1e-9, "{}", gev.quantile(p));
        }
    }
    const SCIPY: [(f64, f64, f64, f64, f64); 2] = [
        (-0.3, 110.0, 0.621_699_329_276_144, 0.999, 143.704_428_282_442_76),
        (0.2, 130.0, 0.830_328_036_077_808_6, 0.99, 213.202_396_128_786_7),
    ];

    #[test]
    fn blocks_of_another_shape_are_told_from_the_family() {
        // Two kinds of block: most near 10, a tenth near 1000. No single member of the family is like that.
        let mut values: Vec<f64> = (0..180).map(|i| 10.0 + f64::from(i % 17) * 0.1).collect();
        values.extend((0..20).map(|i| 1000.0 + f64::from(i)));
        assert!(fitness(&values, 199, 1).unwrap().p <= 0.01);
        assert!(fitness(&PORT_PIRIE, 199, 1).unwrap().p > 0.2);
    }

    #[test]
    fn the_goodness_of_fit_of_true_samples_is_evenly_spread() {
        let truth = Gev { location: 50.0, scale: 8.0, shape: 0.15 };
        let mut random = generator(3);
        let small = (0..200)
            .filter(|&seed| {
                let values: Vec<f64> = (0..40).map(|_| truth.draw(&mut random)).collect();
                fitness(&values, 99, seed).unwrap().p <= 0.1
            })
            .count();
        // Binomial(200, 0.1): 20 and four standard deviations of 4.2.
        assert!((4..=37).contains(&small), "{small}");
    }

    #[test]
    fn longer_blocks_need_all_their_parts() {
        let maxima = [Some(1.0), Some(3.0), Some(2.0), None, Some(5.0), Some(4.0), Some(9.0)];
        assert_eq!(merge_blocks(&maxima, 2), [3.0, 5.0]);
        assert_eq!(merge_blocks(&maxima, 1).len(), 6);
    }

    proptest! {
        #[test]
        fn the_quantile_undoes_the_distribution(
            location in -1e6f64..1e6, scale in 1e-3f64..1e5, shape in -0.6f64..1.0, p in 1e-6f64..0.999_999,
        ) {
            let gev = Gev { location, scale, shape };
            prop_assert!((gev.cdf(gev.quantile(p)) - p).abs() < 1e-6);
        }

        #[test]
        fn a_fit_of_any_values_is_finite_or_none(values in prop::collection::vec(0.0f64..1e12, 0..40)) {
            if let Some(gev) = Gev::by_l_moments(&values) {
                prop_assert!(gev.scale > 0.0 && gev.return_level(1e6).is_finite());
            }
        }
    }
}
