// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use super::*;
use latebound_model::{Histogram, Nanos};
use proptest::prelude::*;

/// A series of one CPU, or of none, in one Run.
#[derive(Clone, Debug)]
struct Part {
    start_us: i64,
    cpu: Option<i32>,
    id: u8,
    values: Vec<u64>,
    lost: Option<i64>,
    above: Option<(i64, i64)>,
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let value = prop_oneof![0u64..300, 1_000u64..2_000_000, Just(i64::MAX as u64 >> 1)];
    let part = (
        0..DAY_US,
        proptest::option::of(0..6i32),
        0..3u8,
        proptest::collection::vec(value, 0..12),
        proptest::option::of(0..5i64),
        proptest::option::of((1..9i64, 100..200i64)),
    );
    let part = part.prop_map(|(start_us, cpu, id, values, lost, above)| Part {
        start_us,
        cpu,
        id,
        values,
        lost,
        above,
    });
    proptest::collection::vec(part, 1..24)
}

fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    values.iter().for_each(|value| histogram.record(Nanos(*value)));
    histogram
}

fn rows(part: &Part) -> Rows {
    let histogram = histogram(&part.values);
    let id: Arc<str> = format!("id{}", part.id).into();
    let level: Arc<str> = INTERVAL.into();
    let mut rows = Rows::default();
    rows.series.push(SeriesRow {
        level: level.clone(),
        start_us: part.start_us,
        end_us: part.start_us + 7,
        series_id: id.clone(),
        cpu: part.cpu,
        total: true,
        count: histogram.count() as i64,
        sum_ns: histogram.sum() as i128,
        min_ns: histogram.min().map(|min| min.0 as i64),
        max_ns: histogram.max().map(|max| max.0 as i64),
        merged: 1,
        missed: 2,
        lost: part.lost.unwrap_or(0),
        lost_unknown: part.lost.is_none(),
        above_count: part.above.map_or(0, |above| above.0),
        above_ns: part.above.map(|above| above.1),
        evidence: if part.id == 0 { "user" } else { "events" }.into(),
        ..SeriesRow::default()
    });
    rows.buckets.extend(histogram.buckets().map(|bucket| BucketRow {
        level: level.clone(),
        start_us: part.start_us,
        series_id: id.clone(),
        cpu: part.cpu,
        total: true,
        count: bucket.count as i64,
        bucket: bucket.index as i32,
        ..BucketRow::default()
    }));
    rows.losses.push(LossRow {
        level: level.clone(),
        start_us: part.start_us,
        kind: id.clone(),
        count: part.lost,
        ..LossRow::default()
    });
    let max = histogram.max().map_or(0, |max| max.0 as i64);
    rows.blocks.push(BlockRow {
        start_us: part.start_us,
        block_us: 9,
        series_id: id.clone(),
        cpu: part.cpu,
        max_ns: max,
        ..BlockRow::default()
    });
    rows.worst.push(WorstRow {
        level: level.clone(),
        start_us: part.start_us,
        rank: 1,
        series_id: id,
        requested_us: part.start_us,
        latency_ns: max,
        ..WorstRow::default()
    });
    rows.intervals.push(IntervalRow {
        level,
        start_us: part.start_us,
        intervals: 1,
        observed_us: 7,
        end_us: part.start_us + 7,
        ..IntervalRow::default()
    });
    rows
}

fn roll(unit: Unit, parts: impl IntoIterator<Item = Rows>) -> Rows {
    let mut sums = RollUp::new(unit, i64::MAX);
    parts.into_iter().for_each(|rows| sums.add(&rows).unwrap());
    sums.finish()
}

/// What does not depend on which CPUs keep rows of their own.
fn totals(mut rows: Rows) -> Rows {
    rows.series.retain(|row| row.total);
    rows.buckets.retain(|row| row.total);
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_roll_up_is_the_same_in_any_order_and_grouping(
        parts in parts(),
        seed: u64,
        cut in 0..24usize,
    ) {
        let all = || parts.iter().map(rows);
        let whole = roll(Unit::Hour, all());
        // Another order.
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|at| (*at as u64 + 1).wrapping_mul(seed | 1));
        let shuffled = roll(Unit::Hour, order.iter().map(|at| rows(&parts[*at])));
        prop_assert_eq!(&whole, &shuffled);
        // What was rolled up before, with the rest; and twice.
        let cut = cut.min(parts.len());
        let first = roll(Unit::Hour, order[..cut].iter().map(|at| rows(&parts[*at])));
        let rest = order[cut..].iter().map(|at| rows(&parts[*at]));
        let grouped = roll(Unit::Hour, std::iter::once(first).chain(rest));
        prop_assert_eq!(totals(whole.clone()), totals(grouped.clone()));
        prop_assert_eq!(&roll(Unit::Hour, [whole.clone()]), &whole);
        // Days, from the hours of both ways, and bit by bit.
        let day = totals(roll(Unit::Day, [whole.clone()]));
        prop_assert_eq!(&day, &totals(roll(Unit::Day, [grouped])));
        let halves = [&order[..cut], &order[cut..]].map(|half| {
            roll(Unit::Day, [roll(Unit::Hour, half.iter().map(|at| rows(&parts[*at])))])
        });
        let mut halves = totals(roll(Unit::Day, halves));
        // A partition has one list of the worst of a day, so two of them need not be put together.
        let day = Rows { worst: Vec::new(), ..day };
        halves.worst.clear();
        // Blocks stay those of an hour, and the two halves have one each.
        halves = roll(Unit::Hour, [halves]);
        prop_assert_eq!(&day, &halves);
    }

    #[test]
    fn the_sums_of_a_day_are_those_of_its_histograms(parts in parts()) {
        let day = roll(Unit::Day, [roll(Unit::Hour, parts.iter().map(rows))]);
        for id in 0..3u8 {
            let of: Vec<&Part> = parts.iter().filter(|part| part.id == id).collect();
            let mut sum = Histogram::new();
            of.iter().for_each(|part| sum.merge(&histogram(&part.values)));
            let name = format!("id{id}");
            let found: Vec<&SeriesRow> = day.series.iter().filter(|row| row.total && *row.series_id == *name).collect();
            prop_assert_eq!(found.len(), usize::from(!of.is_empty()));
            let Some(row) = found.first() else { continue };
            prop_assert_eq!((row.count, row.sum_ns), (sum.count() as i64, sum.sum() as i128));
            prop_assert_eq!(row.min_ns, sum.min().map(|min| min.0 as i64));
            prop_assert_eq!(row.max_ns, sum.max().map(|max| max.0 as i64));
            prop_assert_eq!((row.merged, row.missed), (of.len() as i64, 2 * of.len() as i64));
            prop_assert_eq!(row.lost, of.iter().filter_map(|part| part.lost).sum::<i64>());
            prop_assert_eq!(row.lost_unknown, of.iter().any(|part| part.lost.is_none()));
            prop_assert_eq!(row.above_count, of.iter().filter_map(|part| part.above).map(|above| above.0).sum::<i64>());
            prop_assert_eq!(row.above_ns, of.iter().filter_map(|part| part.above).map(|above| above.1).min());
            let buckets: Vec<_> = day.buckets.iter().filter(|row| row.total && *row.series_id == *name)
                .map(|row| (row.bucket as usize, row.count as u64)).collect();
            let expected: Vec<_> = sum.buckets().map(|bucket| (bucket.index, bucket.count)).collect();
            prop_assert_eq!(buckets, expected);
            // The worst hour of a CPU is told, with the CPU.
            let worst = of.iter().filter(|part| part.cpu.is_some()).flat_map(|part| &part.values).max();
            let told = day.series.iter().filter(|row| !row.total && *row.series_id == *name).filter_map(|row| row.max_ns).max();
            prop_assert_eq!(told, worst.map(|worst| *worst as i64));
        }
        prop_assert!(day.series.iter().filter(|row| !row.total).count() <= 3 * WORST_CPUS);
    }
}

#[test]
fn a_cpu_whose_tail_is_apart_keeps_rows_of_its_own() {
    // Six CPUs with high maxima, and a seventh whose p99.9 is far below the others'.
    let part = |cpu: i32, value: u64| Part {
        start_us: 5,
        cpu: Some(cpu),
        id: 0,
        values: vec![value; 2_000],
        lost: Some(0),
        above: None,
    };
    let all = (0..6).map(|cpu| part(cpu, 90_000 + cpu as u64)).chain([part(6, 1_000)]);
    let rows = roll(Unit::Hour, all.map(|part| rows(&part)));
    let kept = |rows: &Rows| rows.series.iter().filter_map(|row| row.cpu).collect::<Vec<_>>();
    assert_eq!(kept(&rows), [2, 3, 4, 5, 6]);
    assert_eq!(kept(&roll(Unit::Day, [rows])), [2, 3, 4, 5, 6]);
}

#[test]
fn a_series_that_is_little_late_keeps_its_own_worst_activations() {
    let late = |id: &str, latency_ns: i64| WorstRow {
        level: INTERVAL.into(),
        start_us: latency_ns,
        rank: 1,
        series_id: id.into(),
        requested_us: latency_ns,
        latency_ns,
        ..WorstRow::default()
    };
    let of = |id: &'static str, from: i64, count: i64| (from..from + count).map(move |ns| late(id, ns));
    let worst: Vec<WorstRow> = of("slow", 5_000_000, 40).chain(of("real-time", 50_000, 20)).collect();
    let hour = roll(Unit::Hour, worst.into_iter().map(|row| Rows { worst: vec![row], ..Rows::default() }));
    let kept = |rows: &Rows, id: &str| {
        rows.worst
            .iter()
            .filter(|row| *row.series_id == *id)
            .map(|row| (row.rank, row.latency_ns))
            .collect::<Vec<_>>()
    };
    let most = WORST_KEPT as i64;
    let expected = |first: i64, rank: i64| -> Vec<_> {
        (0..most).map(|place| ((rank + place) as i32, first - place)).collect()
    };
    assert_eq!(kept(&hour, "slow"), expected(5_000_039, 1));
    assert_eq!(kept(&hour, "real-time"), expected(50_019, most + 1));
    assert_eq!(roll(Unit::Hour, [hour.clone()]), hour);
}

/// The sums, by another way.
fn summed(added: &[Vec<(i32, i64)>]) -> Vec<(i32, i64)> {
    let mut sums = BTreeMap::new();
    for &(bucket, count) in added.iter().flatten() {
        *sums.entry(known_bucket(bucket) as i32).or_insert(0) += count;
    }
    sums.into_iter().collect()
}

proptest! {
    #[test]
    fn buckets_add_up_in_any_order_with_any_number(
        added in proptest::collection::vec(
            proptest::collection::vec((prop_oneof![0..40i32, any::<i32>()], 0..1000i64), 0..30),
            0..8,
        ),
        in_order in any::<bool>(),
    ) {
        let mut added = added;
        if in_order {
            added.iter_mut().for_each(|of| of.sort_unstable());
        }
        let mut sum = Sum::default();
        added.iter().for_each(|of| sum.buckets(of.iter().copied()).unwrap());
        prop_assert_eq!(sum.buckets, summed(&added));
    }
}

#[test]
fn counts_of_a_bucket_that_no_column_holds_are_an_error() {
    for added in [vec![(3, i64::MAX), (3, 1)], vec![(3, 1), (2, 5), (3, i64::MAX)]] {
        let mut whole = Sum::default();
        assert_eq!(whole.buckets(added.iter().copied()), Err("the counts of a bucket"));
        let mut single = Sum::default();
        let last = added.iter().map(|&one| single.buckets(std::iter::once(one))).last();
        assert_eq!(last, Some(Err("the counts of a bucket")));
    }
}

#[test]
fn sums_that_no_column_holds_are_an_error() {
    let part = Part { start_us: 0, cpu: None, id: 0, values: vec![1], lost: Some(i64::MAX), above: None };
    let mut sums = RollUp::new(Unit::Hour, i64::MAX);
    sums.add(&rows(&part)).unwrap();
    assert_eq!(sums.add(&rows(&part)), Err("the losses of a series"));
}

#[test]
fn settings_keep_the_rows_that_change() {
    let row = |start_us, value: &str| SettingRow {
        start_us,
        name: "governor".into(),
        value: Some(value.into()),
        ..SettingRow::default()
    };
    let settings = vec![row(4, "b"), row(1, "a"), row(2, "a"), row(3, "b"), row(5, "a")];
    let rows = Rows { settings, ..Rows::default() };
    let kept: Vec<i64> = roll(Unit::Hour, [rows]).settings.iter().map(|row| row.start_us).collect();
    assert_eq!(kept, [1, 3, 5]);
}
