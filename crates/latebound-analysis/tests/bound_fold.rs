// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folded interrupts against the whole timeline.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use latebound_analysis::bound::{
    Fold, FoldLimits, Folded, FoldedViews, Interrupt, Outcome, Source, Timeline, Variables, View, Views,
    analyse,
};
use latebound_model::Nanos;
use proptest::prelude::*;

fn poid(free: u64) -> Variables {
    Variables { poid: Nanos(free), ..Variables::default() }
}

fn both(interrupts: &[Interrupt], limits: FoldLimits) -> (Timeline, Fold) {
    let (mut timeline, mut fold) = (Timeline::new(), Fold::new(limits));
    for &interrupt in interrupts {
        timeline.push(interrupt).unwrap();
        fold.push(interrupt).unwrap();
    }
    (timeline, fold)
}

fn pairs<'v>(views: &'v Views, folded: &FoldedViews) -> [(&'v View, Folded); 7] {
    [
        (&views.none, folded.none),
        (&views.worst_single, folded.worst_single),
        (&views.each_once, folded.each_once),
        (&views.sporadic, folded.sporadic),
        (&views.sliding_window, folded.sliding_window),
        (&views.sliding_window_owcet, folded.sliding_window_owcet),
        (&views.replay, folded.replay),
    ]
}

/// Interrupts of up to four sources with gaps and durations that vary by orders of magnitude.
fn interrupts(count: usize) -> impl Strategy<Value = Vec<Interrupt>> {
    let one = (0u32..4, 1u64..1000, 0u32..4, 1u64..1000, 0u32..3);
    prop::collection::vec(one, 0..count).prop_map(|all| {
        let mut at = 0;
        all.into_iter()
            .map(|(source, gap, gap_scale, duration, scale)| {
                at += gap * 10u64.pow(gap_scale);
                let source = if source == 0 { Source::Nmi } else { Source::Vector(source) };
                Interrupt { source, start: Nanos(at), duration: Nanos(duration * 10u64.pow(scale)) }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_view_of_a_fold_is_exact_within_its_reach(free in 0u64..100_000, all in interrupts(300)) {
        let (timeline, fold) = both(&all, FoldLimits::default());
        let (views, folded) = (analyse(&poid(free), &timeline).unwrap(), fold.views(&poid(free)).unwrap());
        for (view, folded) in pairs(&views, &folded) {
            match (folded, &view.outcome) {
                (Folded::Exact(found), Outcome::Converged(expected)) => prop_assert_eq!(found, *expected),
                (Folded::BeyondReach { reach }, Outcome::Converged(expected)) => prop_assert!(*expected > reach),
                (Folded::Diverged { .. }, Outcome::Diverged { .. }) => {}
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn a_fold_with_little_room_is_never_below_and_says_how_far_above(
        free in 0u64..100_000, all in interrupts(400), corners in 2usize..40, room in 2usize..50,
    ) {
        let limits = FoldLimits { horizon: Nanos::from_millis(10), interrupts: room, corners };
        let (timeline, fold) = both(&all, limits);
        prop_assert!(fold.corners() <= corners * 5);
        let (views, folded) = (analyse(&poid(free), &timeline).unwrap(), fold.views(&poid(free)).unwrap());
        for (view, folded) in pairs(&views, &folded) {
            match (folded, &view.outcome) {
                (Folded::Exact(found), Outcome::Converged(exact)) => prop_assert_eq!(found, *exact),
                (Folded::Above { at_most, at_least }, Outcome::Converged(exact)) => {
                    prop_assert!(at_least <= *exact && *exact <= at_most);
                    prop_assert!(at_most.0 as f64 <= 1.02 * exact.0 as f64);
                }
                (Folded::TooWide { at_most, at_least }, Outcome::Converged(exact)) => {
                    prop_assert!(at_least <= *exact && *exact <= at_most);
                }
                (Folded::BeyondReach { .. }, _) | (Folded::Diverged { .. }, Outcome::Diverged { .. }) => {}
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn merged_folds_give_what_both_recordings_one_after_the_other_give(
        free in 0u64..50_000, first in interrupts(120), second in interrupts(120),
    ) {
        let (_, mut fold) = both(&first, FoldLimits::default());
        fold.merge(&both(&second, FoldLimits::default()).1);
        let mut all = first.clone();
        let apart = first.last().map_or(0, |last| last.start.0) + 100_000_000;
        all.extend(second.iter().map(|one| Interrupt { start: one.start + Nanos(apart), ..*one }));
        let (_, whole) = both(&all, FoldLimits::default());
        let (merged, whole) = (fold.views(&poid(free)).unwrap(), whole.views(&poid(free)).unwrap());
        prop_assert_eq!(merged.sliding_window, whole.sliding_window);
        prop_assert_eq!(merged.sliding_window_owcet, whole.sliding_window_owcet);
        prop_assert_eq!(merged.replay, whole.replay);
        prop_assert_eq!(merged.each_once, whole.each_once);
        prop_assert_eq!(merged.worst_single, whole.worst_single);
    }
}

/// A generator of the test's own, so that a long stream is the same everywhere.
fn stream(count: usize) -> impl Iterator<Item = Interrupt> {
    let (mut state, mut at) = (0x2545_f491_4f6c_dd1d_u64, 0);
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    (0..count).map(move |_| {
        // Now and then a burst, now and then a long one.
        at += if next(8) == 0 { 200 + next(2_000) } else { 5_000 + next(400_000) };
        let duration = if next(1_000) == 0 { next(40_000) } else { 500 + next(4_000) };
        let source =
            [Source::Nmi, Source::Vector(236), Source::Vector(253), Source::Device(11)][next(4) as usize];
        Interrupt { source, start: Nanos(at), duration: Nanos(duration) }
    })
}

#[test]
fn memory_does_not_grow_with_time_and_the_views_stay_exact() {
    let all: Vec<_> = stream(60_000).collect();
    let (timeline, fold) = both(&all, FoldLimits::default());
    for free in [10_000, 50_000, 200_000] {
        let (views, folded) = (analyse(&poid(free), &timeline).unwrap(), fold.views(&poid(free)).unwrap());
        for (view, folded) in pairs(&views, &folded) {
            assert_eq!(view.latency(), folded.latency(), "{folded:?}");
            assert!(matches!(folded, Folded::Exact(_) | Folded::Diverged { .. }), "{folded:?}");
        }
    }
    let mut grown = Fold::new(FoldLimits::default());
    let mut corners = Vec::new();
    for (place, interrupt) in all.into_iter().enumerate() {
        grown.push(interrupt).unwrap();
        if (place + 1) % 20_000 == 0 {
            corners.push(grown.corners());
        }
    }
    assert!(corners[2] < 2 * corners[0], "{corners:?}");
}
