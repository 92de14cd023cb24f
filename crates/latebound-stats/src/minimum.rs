// SPDX-License-Identifier: MIT OR Apache-2.0
//! The minimum of a function of a few variables without derivatives: the simplex of Nelder and Mead (The Computer Journal
//! 7, 1965) with its usual coefficients.

/// Where the function is minimum near `start`, and its value there. Points where it has no value give infinity.
pub(crate) fn minimum<const N: usize>(
    start: [f64; N],
    step: f64,
    function: impl Fn(&[f64; N]) -> f64,
) -> ([f64; N], f64) {
    let value = |point: &[f64; N]| {
        let value = function(point);
        if value.is_nan() { f64::INFINITY } else { value }
    };
    let mut simplex: Vec<([f64; N], f64)> = Vec::with_capacity(N + 1);
    simplex.push((start, value(&start)));
    for i in 0..N {
        let mut point = start;
        point[i] += step;
        simplex.push((point, value(&point)));
    }
    for _ in 0..200 * N {
        simplex.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (best, worst) = (simplex[0].1, simplex[N].1);
        let width = (0..N)
            .map(|i| simplex.iter().map(|(point, _)| (point[i] - simplex[0].0[i]).abs()).fold(0.0, f64::max))
            .fold(0.0, f64::max);
        if width < 1e-5 && (worst - best).abs() < 1e-9 * (1.0 + best.abs()) {
            break;
        }
        let mut middle = [0.0; N];
        for (point, _) in &simplex[..N] {
            middle.iter_mut().zip(point).for_each(|(m, x)| *m += x / N as f64);
        }
        let along = |by: f64| {
            let mut point = middle;
            point.iter_mut().zip(&simplex[N].0).for_each(|(m, x)| *m += by * (x - *m));
            (point, value(&point))
        };
        let reflected = along(-1.0);
        let replacement = if reflected.1 < best {
            let further = along(-2.0);
            Some(if further.1 < reflected.1 { further } else { reflected })
        } else if reflected.1 < simplex[N - 1].1 {
            Some(reflected)
        } else {
            let nearer = if reflected.1 < worst { along(-0.5) } else { along(0.5) };
            Some(nearer).filter(|nearer| nearer.1 < worst.min(reflected.1))
        };
        match replacement {
            Some(better) => simplex[N] = better,
            None => {
                let best = simplex[0].0;
                for (point, at) in &mut simplex[1..] {
                    point.iter_mut().zip(best).for_each(|(x, b)| *x = b + 0.5 * (*x - b));
                    *at = value(point);
                }
            }
        }
    }
    simplex.sort_by(|a, b| a.1.total_cmp(&b.1));
    simplex[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rosenbrocks_valley_is_followed_to_its_end() {
        let (at, value) = minimum([-1.2, 1.0], 0.5, |[x, y]| 100.0 * (y - x * x).powi(2) + (1.0 - x).powi(2));
        assert!((at[0] - 1.0).abs() < 1e-4 && (at[1] - 1.0).abs() < 1e-4 && value < 1e-8, "{at:?} {value}");
    }
}
