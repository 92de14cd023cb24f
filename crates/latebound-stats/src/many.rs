// SPDX-License-Identifier: MIT OR Apache-2.0
//! Correction for many comparisons where a small part of false ones among those called is acceptable.

/// P-values corrected so that calling those at or below a level keeps the expected share of false calls at that level
/// (Benjamini and Hochberg, Journal of the Royal Statistical Society B 57, 1995; step-up, for measures that are
/// independent or depend on each other positively). In the order given.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut corrected = vec![1.0; p.len()];
    let mut least: f64 = 1.0;
    for (place, &i) in order.iter().enumerate() {
        let rank = (p.len() - place) as f64;
        least = least.min(p[i] * p.len() as f64 / rank);
        corrected[i] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_papers_example_comes_out() {
        // Benjamini and Hochberg 1995, section 3.2: at 5 % the first four of fifteen are called.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        let corrected = benjamini_hochberg(&p);
        assert_eq!(corrected.iter().filter(|&&p| p <= 0.05).count(), 4);
        // scipy 1.17.1: scipy.stats.false_discovery_control(p)[:5]
        for (got, want) in corrected.iter().zip([0.0015, 0.003, 0.0095, 0.035_625, 0.0603]) {
            assert!((got - want).abs() < 1e-12, "{got} {want}");
        }
    }

    proptest! {
        #[test]
        fn correction_keeps_the_order_and_never_helps(p in prop::collection::vec(0.0f64..1.0, 0..40)) {
            let corrected = benjamini_hochberg(&p);
            for (i, a) in p.iter().enumerate() {
                prop_assert!(corrected[i] >= *a - 1e-12 && corrected[i] <= 1.0);
                for (j, b) in p.iter().enumerate() {
                    prop_assert!(a > b || corrected[i] <= corrected[j]);
                }
            }
        }
    }
}
