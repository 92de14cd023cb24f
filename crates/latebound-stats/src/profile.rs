// SPDX-License-Identifier: MIT OR Apache-2.0
//! Return levels with intervals, by the profile of the likelihood (Coles 2001, sections 2.6.6 and 3.3.4). The interval is
//! as lopsided as the knowledge is: what was never seen can be far above.

use crate::gev::spread;
use crate::minimum::minimum;
use crate::{Gev, Interval, normal_quantile};

/// Outside of these shapes the theory of maximum likelihood does not hold (Smith, Biometrika 72, 1985), or the mean of the
/// maxima would be infinite.
const SHAPES: (f64, f64) = (-0.5, 1.0);

/// The value that is passed once in so many blocks on average, and its interval. A forecast from blocks that were seen,
/// not a bound. `None` below ten values, where they do not differ, or where the likelihood has no maximum inside the
/// shapes that its theory covers.
pub fn return_level(values: &[f64], blocks: f64, confidence: f64) -> Option<(f64, Interval)> {
    if values.len() < 10 || blocks.is_nan() || blocks <= 1.0 {
        return None;
    }
    let start = Gev::by_l_moments(values)?;
    // In units of the fit's own, so that every parameter is of the order of one.
    let unit: Vec<f64> = values.iter().map(|value| (value - start.location) / start.scale).collect();
    let inside = |shape: f64| SHAPES.0 <= shape && shape <= SHAPES.1;
    let cost = |gev: Gev| if inside(gev.shape) { gev.cost(&unit) } else { f64::INFINITY };
    let (at, best) = [start.shape.clamp(-0.4, 0.9), 0.1]
        .map(|shape| {
            minimum([0.0, 0.0, shape], 0.1, |[location, scale, shape]| {
                cost(Gev { location: *location, scale: scale.exp(), shape: *shape })
            })
        })
        .into_iter()
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let gev = Gev { location: at[0], scale: at[1].exp(), shape: at[2] };
    if !best.is_finite() || gev.shape > SHAPES.1 - 1e-3 || gev.shape < SHAPES.0 + 1e-3 {
        return None;
    }
    let level = gev.return_level(blocks);
    // The likelihood with the level as a parameter in the location's place.
    let y = -(-1.0 / blocks).ln_1p();
    let profile = |level: f64, from: [f64; 2]| {
        minimum(from, 0.1, |[scale, shape]| {
            let scale = scale.exp();
            cost(Gev { location: level - scale * spread(y, *shape), scale, shape: *shape })
        })
    };
    // Twice the loss of likelihood is chi-square with one degree of freedom: a squared normal.
    let allowed = normal_quantile(0.5 + confidence / 2.0).powi(2) / 2.0;
    let end = |direction: f64| {
        let mut from = [at[1], at[2]];
        let (mut inner, mut step) = (level, 0.05 * (level.abs() + 1.0));
        let mut outer = loop {
            let next = inner + direction * step;
            let (near, cost) = profile(next, from);
            if cost - best > allowed {
                break next;
            }
            if step > 1e9 {
                return direction * f64::INFINITY;
            }
            (inner, from) = (next, near);
            step *= 1.6;
        };
        for _ in 0..40 {
            let middle = (inner + outer) / 2.0;
            let (near, cost) = profile(middle, from);
            if cost - best > allowed {
                outer = middle;
            } else {
                (inner, from) = (middle, near);
            }
            if (outer - inner).abs() < 1e-4 * (1.0 + middle.abs()) {
                break;
            }
        }
        (inner + outer) / 2.0
    };
    let back = |value: f64| start.location + start.scale * value;
    Some((back(level), Interval { low: back(end(-1.0)), high: back(end(1.0)) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gev::PORT_PIRIE;

    #[test]
    fn return_levels_are_those_of_the_textbooks_example() {
        // Coles 2001, section 3.4.1: z_10 = 4.30, z_100 = 4.69; by the profile 4.19 to 4.41 (read off figure 3.3) and 4.50 to 5.27.
        let (level, interval) = return_level(&PORT_PIRIE, 10.0, 0.95).unwrap();
        assert!((level - 4.30).abs() < 0.01, "{level}");
        assert!((interval.low - 4.19).abs() < 0.03 && (interval.high - 4.41).abs() < 0.05, "{interval:?}");
        let (level, interval) = return_level(&PORT_PIRIE, 100.0, 0.95).unwrap();
        assert!((level - 4.69).abs() < 0.01, "{level}");
        assert!((interval.low - 4.50).abs() < 0.01 && (interval.high - 5.27).abs() < 0.02, "{interval:?}");
    }

    #[test]
    fn the_unit_does_not_matter() {
        let (level, interval) = return_level(&PORT_PIRIE, 100.0, 0.95).unwrap();
        let millimetres: Vec<f64> = PORT_PIRIE.iter().map(|value| value * 1e3 + 1e6).collect();
        let (again, wide) = return_level(&millimetres, 100.0, 0.95).unwrap();
        assert!((again - (level * 1e3 + 1e6)).abs() < 0.1, "{again}");
        assert!((wide.high - (interval.high * 1e3 + 1e6)).abs() < 1.0, "{wide:?}");
    }

    #[test]
    fn too_few_or_equal_values_give_no_forecast() {
        assert_eq!(return_level(&PORT_PIRIE[..9], 100.0, 0.95), None);
        assert_eq!(return_level(&[5.0; 50], 100.0, 0.95), None);
    }
}
