// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seven views against known answers, against their definitions written out slowly, and against schedules.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};

use latebound_analysis::bound::{Interrupt, Source, Timeline, Variables, ViewKind, Views, analyse};
use latebound_model::Nanos;
use proptest::prelude::*;

fn timeline(interrupts: &[(Source, u64, u64)]) -> Timeline {
    let mut sorted = interrupts.to_vec();
    sorted.sort_by_key(|&(_, start, _)| start);
    let mut timeline = Timeline::new();
    for (source, start, duration) in sorted {
        timeline.push(Interrupt { source, start: Nanos(start), duration: Nanos(duration) }).unwrap();
    }
    timeline
}

fn poid(free: u64) -> Variables {
    Variables { poid: Nanos(free), ..Variables::default() }
}

fn values(views: &Views) -> BTreeMap<ViewKind, Option<u64>> {
    views.iter().map(|(kind, view)| (kind, view.latency().map(|latency| latency.0))).collect()
}

fn latencies(free: u64, interrupts: &[(Source, u64, u64)]) -> BTreeMap<ViewKind, Option<u64>> {
    values(&analyse(&poid(free), &timeline(interrupts)).unwrap())
}

#[test]
fn vector_a_gives_200_where_rtsl_gave_150() {
    let interrupts: Vec<_> = (0..20).map(|i| (Source::Vector(236), 1000 + 120 * i, 50)).collect();
    let found = latencies(100, &interrupts);
    for (kind, expected) in [
        (ViewKind::None, 100),
        (ViewKind::WorstSingle, 150),
        (ViewKind::EachOnce, 150),
        (ViewKind::SlidingWindow, 200),
        (ViewKind::SlidingWindowOwcet, 200),
        (ViewKind::Sporadic, 200),
        (ViewKind::Replay, 200),
    ] {
        assert_eq!(found[&kind], Some(expected), "{kind:?}");
    }
}

#[test]
fn vector_b_gives_its_five_numbers() {
    let (a, b) = (Source::Vector(236), Source::Vector(33));
    let interrupts = [
        (a, 0, 10),
        (a, 1000, 30),
        (a, 1040, 12),
        (a, 1090, 10),
        (a, 5000, 10),
        (b, 2000, 40),
        (b, 9000, 20),
    ];
    let found = latencies(80, &interrupts);
    for (kind, expected) in [
        (ViewKind::None, 80),
        (ViewKind::WorstSingle, 120),
        (ViewKind::EachOnce, 150),
        (ViewKind::SlidingWindow, 172),
        (ViewKind::SlidingWindowOwcet, 210),
        (ViewKind::Sporadic, 480),
        // 1000: 80 + 30, so 1040 is met; 122, so 1090 is met; 132, and nothing more comes.
        (ViewKind::Replay, 132),
    ] {
        assert_eq!(found[&kind], Some(expected), "{kind:?}");
    }
}

#[test]
fn the_sample_output_of_the_readme_comes_out_to_the_nanosecond() {
    let variables = Variables { poid: Nanos(56194), dst: Nanos(45883), paie: Nanos(5167), psd: Nanos(48092) };
    assert_eq!(variables.interference_free().unwrap(), Nanos(109_453));
    // Every vector alone in its place; 236 has a second interrupt that only the window of 255 530 ns reaches:
    // 49 321 = 24 661 + 24 660, while within 109 453 ns the longest is 46 687.
    let second = 1_000_000_000;
    let interrupts = [
        (Source::Vector(125), second, 30522),
        (Source::Vector(236), 2 * second, 46687),
        (Source::Vector(236), 3 * second, 24661),
        (Source::Vector(236), 3 * second + 255_000, 24660),
        (Source::Vector(246), 4 * second, 3463),
        (Source::Vector(251), 5 * second, 13735),
        (Source::Vector(252), 6 * second, 24572),
        (Source::Vector(253), 7 * second, 27098),
    ];
    let views = analyse(&variables, &timeline(&interrupts)).unwrap();
    assert_eq!(views.sliding_window.latency(), Some(Nanos(258_164)));
    let demand: u64 = views.sliding_window.witness.iter().map(|interval| interval.demand.0).sum();
    assert_eq!(109_453 + demand, 258_164);
    let witness =
        views.sliding_window.witness.iter().find(|w| w.source == Some(Source::Vector(236))).unwrap();
    assert_eq!((witness.start, witness.count, witness.demand), (Nanos(3 * second), 2, Nanos(49321)));
    assert_eq!(views.each_once.latency(), Some(Nanos(255_530)));
}

#[test]
fn figure_24_of_the_paper_comes_out_to_the_nanosecond() {
    let variables = Variables { poid: Nanos(22510), dst: Nanos(19312), paie: Nanos(0), psd: Nanos(19702) };
    assert_eq!(variables.interference_free().unwrap(), Nanos(42212));
    let second = 1_000_000_000;
    let interrupts = [
        (Source::Vector(33), second, 16914),
        (Source::Vector(35), 2 * second, 14588),
        (Source::Vector(236), 3 * second, 20728),
        (Source::Vector(236), 4 * second, 10515),
        (Source::Vector(236), 4 * second + 97_000, 10514),
        (Source::Vector(246), 5 * second, 3299),
    ];
    let views = analyse(&variables, &timeline(&interrupts)).unwrap();
    assert_eq!(views.each_once.latency(), Some(Nanos(97_741)));
    assert_eq!(views.sliding_window.latency(), Some(Nanos(98_042)));
}

#[test]
fn worst_single_is_the_longest_interrupt_and_the_longest_nmi() {
    let found = latencies(
        10,
        &[
            (Source::Vector(1), 0, 7),
            (Source::Device(1), 100, 9),
            (Source::Nmi, 200, 3),
            (Source::Nmi, 300, 5),
        ],
    );
    assert_eq!(found[&ViewKind::WorstSingle], Some(10 + 9 + 5));
    assert_eq!(found[&ViewKind::EachOnce], Some(10 + 7 + 9 + 5));
}

#[test]
fn a_device_interrupt_and_a_vector_of_the_same_number_are_two_sources() {
    let found = latencies(10, &[(Source::Vector(11), 0, 4), (Source::Device(11), 1000, 4)]);
    assert_eq!(found[&ViewKind::EachOnce], Some(18));
    assert_eq!(found[&ViewKind::SlidingWindow], Some(18));
    assert_eq!(found[&ViewKind::Replay], Some(14));
}

#[test]
fn sporadic_that_cannot_converge_names_the_utilisation() {
    let views = analyse(&poid(5), &timeline(&[(Source::Nmi, 0, 30), (Source::Nmi, 20, 10)])).unwrap();
    let latebound_analysis::bound::Outcome::Diverged { utilisation } = views.sporadic.outcome else {
        panic!("{:?}", views.sporadic)
    };
    assert!((utilisation - 1.5).abs() < 1e-12, "{utilisation}");
}

#[test]
fn no_interrupts_and_no_blocking_are_no_special_case() {
    assert!(latencies(77, &[]).values().all(|&value| value == Some(77)));
    let found = latencies(0, &[(Source::Nmi, 5, 5)]);
    assert_eq!(found[&ViewKind::SlidingWindow], Some(0), "an empty window holds no interrupt");
    assert_eq!(found[&ViewKind::Replay], Some(0));
    assert_eq!(found[&ViewKind::WorstSingle], Some(5));
}

#[test]
fn a_window_is_half_open() {
    // The second interrupt comes at the very instant at which the thread gets its turn.
    let found = latencies(10, &[(Source::Nmi, 0, 5), (Source::Nmi, 15, 5)]);
    assert_eq!(found[&ViewKind::Replay], Some(15));
    assert_eq!(found[&ViewKind::SlidingWindow], Some(15));
    let found = latencies(10, &[(Source::Nmi, 0, 5), (Source::Nmi, 14, 5)]);
    assert_eq!(found[&ViewKind::Replay], Some(20));
    assert_eq!(found[&ViewKind::SlidingWindow], Some(20));
}

#[test]
fn a_saturated_timeline_takes_few_passes() {
    // Plain iteration would take one pass over everything for each of 200 000 interrupts. Two sources are busy at
    // different times, so that no replay reaches where the sliding window does.
    let half = 100_000;
    let interrupts: Vec<_> = (0..half)
        .map(|i| (Source::Vector(1), i * 100, 50))
        .chain((0..half).map(|i| (Source::Vector(2), (half + i) * 100, 50)))
        .collect();
    let found = latencies(120, &interrupts);
    assert_eq!(found[&ViewKind::SlidingWindow], Some(120 + half * 100));
    assert_eq!(found[&ViewKind::Sporadic], None);
}

/// The definitions, written out.
mod definition {
    use super::*;

    fn fixed_point(free: u64, demand: impl Fn(u64) -> u64) -> u64 {
        let mut window = free;
        loop {
            let next = free + demand(window);
            if next == window {
                return window;
            }
            window = next;
        }
    }

    fn sources(all: &[(Source, u64, u64)]) -> BTreeMap<Source, Vec<(u64, u64)>> {
        let mut sources: BTreeMap<Source, Vec<(u64, u64)>> = BTreeMap::new();
        for &(source, start, duration) in all {
            sources.entry(source).or_default().push((start, duration));
        }
        sources
    }

    fn owcet(of: &[(u64, u64)]) -> u64 {
        of.iter().map(|&(_, duration)| duration).max().unwrap_or(0)
    }

    fn within(of: &[(u64, u64)], begin: u64, window: u64) -> impl Iterator<Item = u64> + '_ {
        of.iter()
            .filter(move |&&(start, _)| begin <= start && start < begin + window)
            .map(|&(_, duration)| duration)
    }

    pub(super) fn latencies(free: u64, all: &[(Source, u64, u64)]) -> BTreeMap<ViewKind, Option<u64>> {
        let sources = sources(all);
        let best = |of: &[(u64, u64)], value: &dyn Fn(u64) -> u64| {
            of.iter().map(|&(begin, _)| value(begin)).max().unwrap_or(0)
        };
        let sliding = fixed_point(free, |w| {
            sources.values().map(|of| best(of, &|begin| within(of, begin, w).sum())).sum()
        });
        let sliding_owcet = fixed_point(free, |w| {
            sources
                .values()
                .map(|of| best(of, &|begin| within(of, begin, w).count() as u64 * owcet(of)))
                .sum()
        });
        let everything: Vec<(u64, u64)> = all.iter().map(|&(_, start, duration)| (start, duration)).collect();
        let replay =
            best(&everything, &|begin| fixed_point(free, |w| within(&everything, begin, w).sum())).max(free);
        let worst = |nmi: bool| {
            sources
                .iter()
                .filter(|&(&s, _)| (s == Source::Nmi) == nmi)
                .map(|(_, of)| owcet(of))
                .max()
                .unwrap_or(0)
        };
        let gaps: Vec<(u64, Option<u64>)> = sources
            .values()
            .map(|of| {
                let mut starts: Vec<u64> = of.iter().map(|&(start, _)| start).collect();
                starts.sort_unstable();
                (owcet(of), starts.windows(2).map(|pair| pair[1] - pair[0]).min())
            })
            .collect();
        let utilisation: f64 = gaps.iter().filter_map(|&(owcet, gap)| Some(owcet as f64 / gap? as f64)).sum();
        let sporadic = (utilisation < 1.0 - 1e-9).then(|| {
            fixed_point(free, |w| {
                gaps.iter()
                    .map(|&(owcet, gap)| gap.map_or(u64::from(w > 0), |gap| w.div_ceil(gap)) * owcet)
                    .sum()
            })
        });
        BTreeMap::from([
            (ViewKind::None, Some(free)),
            (ViewKind::WorstSingle, Some(free + worst(false) + worst(true))),
            (ViewKind::EachOnce, Some(free + sources.values().map(|of| owcet(of)).sum::<u64>())),
            (ViewKind::Sporadic, sporadic),
            (ViewKind::SlidingWindow, Some(sliding)),
            (ViewKind::SlidingWindowOwcet, Some(sliding_owcet)),
            (ViewKind::Replay, Some(replay)),
        ])
    }
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![
        Just(Source::Nmi),
        Just(Source::Vector(236)),
        Just(Source::Vector(11)),
        Just(Source::Device(11)),
        Just(Source::Unnamed),
    ]
}

/// Up to `count` interrupts, distinct in start, from sparse to saturated.
fn interrupts(count: usize) -> impl Strategy<Value = Vec<(Source, u64, u64)>> {
    (1u64..400, 1u64..60).prop_flat_map(move |(spread, longest)| {
        prop::collection::vec((source(), 0..spread * 10, 0..longest), 0..count).prop_map(|mut all| {
            let mut seen = BTreeSet::new();
            all.retain(|&(_, start, _)| seen.insert(start));
            all.sort_by_key(|&(_, start, _)| start);
            all
        })
    })
}

fn assert_ordered(found: &BTreeMap<ViewKind, Option<u64>>) {
    let at = |kind| found[&kind].unwrap();
    assert!(at(ViewKind::None) <= at(ViewKind::WorstSingle));
    assert!(at(ViewKind::WorstSingle) <= at(ViewKind::EachOnce));
    assert!(at(ViewKind::None) <= at(ViewKind::Replay));
    assert!(at(ViewKind::Replay) <= at(ViewKind::SlidingWindow));
    assert!(at(ViewKind::SlidingWindow) <= at(ViewKind::SlidingWindowOwcet));
    if let Some(sporadic) = found[&ViewKind::Sporadic] {
        assert!(at(ViewKind::SlidingWindowOwcet) <= sporadic);
    }
}

/// Every latency of `found` is at least that of `less`; a view that no longer converges is above everything.
fn assert_not_below(found: &BTreeMap<ViewKind, Option<u64>>, less: &BTreeMap<ViewKind, Option<u64>>) {
    for (kind, value) in found {
        if let Some(value) = value {
            assert!(
                less[kind].is_some_and(|less| less <= *value),
                "{kind:?}: {value} below {:?}",
                less[kind]
            );
        }
    }
}

/// The latency of a thread that is released at `release` and needs `demand` ticks of the CPU, tick by tick.
fn simulated(all: &[(Source, u64, u64)], release: u64, demand: u64) -> u64 {
    let mut pending = 0;
    let mut left = demand;
    let mut now = 0;
    loop {
        if now >= release && left == 0 {
            return now - release;
        }
        pending +=
            all.iter().filter(|&&(_, start, _)| start == now).map(|&(.., duration)| duration).sum::<u64>();
        if pending > 0 {
            pending -= 1;
        } else if now >= release {
            left -= 1;
        }
        now += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_view_equals_its_definition_and_the_views_are_ordered(free in 0u64..200, all in interrupts(60)) {
        let found = latencies(free, &all);
        prop_assert_eq!(&found, &definition::latencies(free, &all));
        assert_ordered(&found);
    }

    #[test]
    fn adding_an_interrupt_or_enlarging_a_variable_never_lowers_a_view(
        free in 0u64..200, more in 0u64..50, all in interrupts(40), drop in any::<prop::sample::Index>(),
    ) {
        let mut fewer = all.clone();
        if !all.is_empty() {
            fewer.remove(drop.index(all.len()));
        }
        assert_not_below(&latencies(free + more, &all), &latencies(free, &fewer));
    }

    #[test]
    fn two_traces_merged_give_at_least_what_each_gives(
        free in (0u64..200, 0u64..200), first in interrupts(30), second in interrupts(30),
    ) {
        let mut both = first.clone();
        both.extend(second.iter().map(|&(source, start, duration)| (source, start + 1_000_000, duration)));
        let merged = latencies(free.0.max(free.1), &both);
        assert_not_below(&merged, &latencies(free.0, &first));
        assert_not_below(&merged, &latencies(free.1, &second));
    }

    #[test]
    fn the_witness_of_a_window_gives_its_value(free in 1u64..200, all in interrupts(30)) {
        let views = analyse(&poid(free), &timeline(&all)).unwrap();
        for view in [&views.replay, &views.sliding_window] {
            let latency = view.latency().unwrap().0;
            prop_assert_eq!(latency, free + view.witness.iter().map(|w| w.demand.0).sum::<u64>());
            for interval in &view.witness {
                prop_assert_eq!(interval.end.0 - interval.start.0, latency);
                let inside: Vec<_> = all.iter().filter(|&&(source, start, _)| {
                    interval.source.is_none_or(|wanted| wanted == source)
                        && interval.start.0 <= start && start < interval.end.0
                }).collect();
                prop_assert_eq!(inside.len() as u64, interval.count);
                prop_assert_eq!(inside.iter().map(|i| i.2).sum::<u64>(), interval.demand.0);
                prop_assert_eq!(interval.interrupts.len() as u64 + interval.omitted, interval.count);
            }
        }
    }

    #[test]
    fn no_schedule_is_later_than_the_bound_and_one_reaches_the_replay(
        poid in 0u64..12, dst in 0u64..12, paie in 0u64..4, psd in 1u64..12,
        all in prop::collection::vec((source(), 0u64..60, 0u64..8), 0..8),
        shift in prop::collection::vec(0u64..40, 5),
    ) {
        let mut seen = BTreeSet::new();
        let mut all = all;
        all.retain(|&(_, start, _)| seen.insert(start));
        let variables = Variables { poid: Nanos(poid), dst: Nanos(dst), paie: Nanos(paie), psd: Nanos(psd) };
        let views = analyse(&variables, &timeline(&all)).unwrap();
        // The interference-free part of each of the five places at which the thread may become ready.
        let cases = [psd, dst + paie + psd, poid + psd, poid + paie + psd, psd.min(1)];
        let replay = views.replay.latency().unwrap().0;
        let worst = (0..80)
            .flat_map(|release| cases.iter().map(move |&demand| (release, demand)))
            .map(|(release, demand)| simulated(&all, release, demand))
            .max()
            .unwrap();
        prop_assert_eq!(worst, replay);
        // Any phase between the sources.
        let order = [Source::Nmi, Source::Vector(236), Source::Vector(11), Source::Device(11), Source::Unnamed];
        let shifted: Vec<_> = all
            .iter()
            .map(|&(source, start, duration)| {
                let place = order.iter().position(|&other| other == source).unwrap();
                (source, start + shift[place], duration)
            })
            .collect();
        let sliding = views.sliding_window.latency().unwrap().0;
        for release in 0..120 {
            prop_assert!(simulated(&shifted, release, cases[3].max(cases[1])) <= sliding);
        }
    }
}
