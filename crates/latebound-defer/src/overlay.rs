// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many triggers laid over each other, as an oscilloscope with persistence shows them: for each moment before and after the trigger, for
//! how many triggers each half ran. Pure.

use latebound_abi::defer::{Record, START_OF_ITEM, TOP_HALF};
use latebound_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ksoftirqd::Ksoftirqd;
use crate::lane::{LaneKind, spans_of};

/// Columns of a picture: finer than what a page of 1240 points shows is lost on it.
const COLUMNS: usize = 400;

/// The edge that lies at zero for every trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Align {
    /// The begin of a top half: the picture shows how late the bottom half begins.
    #[serde(rename = "top half")]
    TopHalf,
    /// The begin of a bottom half: the picture shows how long it runs.
    #[serde(rename = "bottom half")]
    BottomHalf,
}

/// All triggers of a time, laid over each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Overlay {
    /// The edge at zero.
    pub align: Align,
    /// Over which time: `first 10 s`.
    pub over: String,
    /// How many triggers.
    pub triggers: u64,
    /// From the left edge of the picture to the trigger.
    pub before: Nanos,
    /// From the trigger to the right edge.
    pub after: Nanos,
    /// Bottom halves that were raised before the left edge, or end behind the right one, seen from their own trigger.
    pub beyond: u64,
    /// What ran.
    pub signals: Vec<Signal>,
}

/// One half, column by column from left to right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Signal {
    /// Which half.
    #[serde(rename = "name")]
    pub kind: LaneKind,
    /// For how many triggers it ran at some time within the column.
    pub running: Vec<u64>,
    /// For how many triggers it did not run at some time within the column.
    pub idle: Vec<u64>,
    /// How many of its begins and ends lie within the column.
    pub edges: Vec<u64>,
}

/// The overlays of these records: one over the beginning of a long time, one over all of it. A picture is as wide as the widest trigger
/// needs, at most `reach` before and after it. Nothing where nothing triggered.
pub fn overlays(records: &[Record], ksoftirqd: &Ksoftirqd, align: Align, reach: Nanos) -> Vec<Overlay> {
    let drawn = |over: String, records: &[Record]| overlay(over, records, ksoftirqd, align, reach);
    spans_of(records).into_iter().filter_map(|(over, records)| drawn(over, &records)).collect()
}

fn overlay(
    over: String,
    records: &[Record],
    ksoftirqd: &Ksoftirqd,
    align: Align,
    reach: Nanos,
) -> Option<Overlay> {
    let mut tops: Vec<&Record> = records.iter().filter(|record| record.kind == TOP_HALF).collect();
    let mut starts: Vec<&Record> = records.iter().filter(|record| record.kind == START_OF_ITEM).collect();
    tops.sort_by_key(|record| record.started_ns);
    starts.sort_by_key(|record| record.started_ns);
    // A bottom half is raised within its top half.
    let top_began = |start: &Record| {
        let after = tops.partition_point(|top| top.started_ns <= start.requested_ns);
        after.checked_sub(1).map_or(start.requested_ns, |at| tops[at].started_ns)
    };
    let sides = |start: &Record| match align {
        Align::TopHalf => (0, start.ended_ns.saturating_sub(top_began(start))),
        Align::BottomHalf => (
            start.started_ns.saturating_sub(top_began(start)),
            start.ended_ns.saturating_sub(start.started_ns),
        ),
    };
    let widest = starts
        .iter()
        .map(|start| sides(start))
        .fold((0, 0), |(before, after), (b, a)| (before.max(b), after.max(a)));
    // Some of the quiet time on both sides.
    let side = |widest: u64, other: u64| {
        let (widest, other) = (widest.min(reach.0), other.min(reach.0));
        widest + widest.max(other) / 20 + 1
    };
    let before = side(widest.0, widest.1);
    // A column has a nanosecond at least.
    let after = side(widest.1, widest.0).max((COLUMNS as u64).saturating_sub(before));
    let is_beyond = |start: &&&Record| {
        let (b, a) = sides(start);
        b > before || a > after
    };
    let triggers: Vec<u64> = match align {
        Align::TopHalf => tops.iter().map(|top| top.started_ns).collect(),
        Align::BottomHalf => starts.iter().map(|start| start.started_ns).collect(),
    };
    if triggers.is_empty() {
        return None;
    }
    let (by_ksoftirqd, others): (Vec<&Record>, Vec<&Record>) =
        starts.iter().copied().partition(|start| ksoftirqd.ran(start));
    let signal = |kind, ran: &[&Record]| signal(kind, ran, &triggers, before, after);
    let mut signals = vec![signal(LaneKind::TopHalf, &tops), signal(LaneKind::BottomHalf, &others)];
    if !by_ksoftirqd.is_empty() {
        signals.push(signal(LaneKind::Ksoftirqd, &by_ksoftirqd));
    }
    Some(Overlay {
        align,
        over,
        triggers: triggers.len() as u64,
        before: Nanos(before),
        after: Nanos(after),
        beyond: starts.iter().filter(is_beyond).count() as u64,
        signals,
    })
}

/// Lays what ran around each trigger over each other. `ran` is in order, and one at a time.
fn signal(kind: LaneKind, ran: &[&Record], triggers: &[u64], before: u64, after: u64) -> Signal {
    let length = before + after;
    let column = |offset: u64| (u128::from(offset) * COLUMNS as u128 / u128::from(length.max(1))) as usize;
    // Differences of neighbours, so that a long bar costs no more than a short one.
    let (mut running, mut idle) = (vec![0i64; COLUMNS + 1], vec![0i64; COLUMNS + 1]);
    let mut edges = vec![0u64; COLUMNS];
    for &trigger in triggers {
        let (mut next_running, mut next_idle, mut idle_from) = (0, 0, 0);
        let offset = |at: u64| (at + before).saturating_sub(trigger).min(length);
        let first = ran.partition_point(|bar| bar.ended_ns.max(bar.started_ns + 1) + before <= trigger);
        for bar in ran[first..].iter().take_while(|bar| bar.started_ns < trigger + after) {
            let (from, to) = (offset(bar.started_ns), offset(bar.ended_ns.max(bar.started_ns + 1)));
            mark(&mut running, &mut next_running, column(from), column(to - 1));
            if from > idle_from {
                mark(&mut idle, &mut next_idle, column(idle_from), column(from - 1));
            }
            idle_from = to;
            if bar.started_ns + before >= trigger {
                edges[column(from)] += 1;
            }
            if to < length {
                edges[column(to)] += 1;
            }
        }
        if idle_from < length {
            mark(&mut idle, &mut next_idle, column(idle_from), COLUMNS - 1);
        }
    }
    Signal { kind, running: sums(&running), idle: sums(&idle), edges }
}

/// Counts one more in the columns from `from` to `to`, but for those below `next`, which were counted for the same trigger before.
fn mark(differences: &mut [i64], next: &mut usize, from: usize, to: usize) {
    let from = from.max(*next);
    if from <= to {
        differences[from] += 1;
        differences[to + 1] -= 1;
        *next = to + 1;
    }
}

fn sums(differences: &[i64]) -> Vec<u64> {
    let running = differences[..COLUMNS].iter().scan(0i64, |sum, difference| {
        *sum += difference;
        Some(u64::try_from(*sum).unwrap_or(0))
    });
    running.collect()
}

#[cfg(test)]
mod tests {
    use latebound_abi::defer::SOFTIRQ;
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, requested_ns: u64, started_ns: u64, ended_ns: u64) -> Record {
        Record { kind, requested_ns, started_ns, ended_ns, ..Record::default() }
    }

    /// Three triggers 10 us apart: the top half takes 100 ns, the bottom half begins 200, 200 and 1000 ns after it and takes 400, 400, 600.
    fn records() -> Vec<Record> {
        let one = |at: u64, late: u64, long: u64| {
            let top = record(TOP_HALF, at - 7, at, at + 100);
            let start = record(START_OF_ITEM, at + 50, at + late, at + late + long);
            [top, start]
        };
        [one(10_000, 200, 400), one(20_000, 200, 400), one(30_000, 1_000, 600)].concat()
    }

    fn only(align: Align, reach: u64) -> Overlay {
        let mut drawn = overlays(&records(), &Ksoftirqd::default(), align, Nanos(reach));
        assert_eq!(drawn.len(), 1);
        drawn.remove(0)
    }

    /// The counts of a signal at a time before (below zero) or after the trigger.
    fn at(overlay: &Overlay, signal: usize, when: i64) -> (u64, u64) {
        let offset = (overlay.before.0 as i64 + when) as u64;
        let column = (offset * COLUMNS as u64 / (overlay.before.0 + overlay.after.0)) as usize;
        let signal = &overlay.signals[signal];
        (signal.running[column], signal.idle[column])
    }

    #[test]
    fn on_the_top_half_the_bottom_half_begins_early_and_late() {
        let overlay = only(Align::TopHalf, 10_000);
        assert_eq!((overlay.triggers, overlay.beyond, overlay.over.as_str()), (3, 0, "all 20.1 us"));
        // The widest ends 1600 ns after its trigger; a twentieth stands beside it.
        assert_eq!((overlay.before, overlay.after), (Nanos(81), Nanos(1_681)));
        assert_eq!(overlay.signals.len(), 2, "ksoftirqd ran nothing");
        assert_eq!(
            [at(&overlay, 0, -50), at(&overlay, 0, 50), at(&overlay, 0, 300)],
            [(0, 3), (3, 0), (0, 3)]
        );
        // Two of three run early, the third late; then all are over.
        let bottom = [150, 300, 800, 1_300, 1_650].map(|when| at(&overlay, 1, when));
        assert_eq!(bottom, [(0, 3), (2, 1), (0, 3), (1, 2), (0, 3)]);
        assert_eq!(overlay.signals[1].edges.iter().sum::<u64>(), 6);
    }

    #[test]
    fn on_the_bottom_half_its_end_shows_how_long_it_runs() {
        let overlay = only(Align::BottomHalf, 10_000);
        assert_eq!((overlay.before, overlay.after), (Nanos(1_051), Nanos(651)));
        assert_eq!(
            [at(&overlay, 1, -20), at(&overlay, 1, 200), at(&overlay, 1, 500)],
            [(0, 3), (3, 0), (1, 2)]
        );
        // The top halves stand before it, spread as the latencies are.
        assert_eq!(
            [at(&overlay, 0, -950), at(&overlay, 0, -500), at(&overlay, 0, -150)],
            [(1, 2), (0, 3), (2, 1)]
        );
    }

    #[test]
    fn what_goes_beyond_the_reach_is_counted_and_cut() {
        let overlay = only(Align::TopHalf, 1_200);
        assert_eq!((overlay.after, overlay.beyond), (Nanos(1_261), 1));
        assert_eq!(at(&overlay, 1, 1_200), (1, 2));
        assert_eq!(overlay.signals[1].edges.iter().sum::<u64>(), 5, "one end is not in the picture");
    }

    #[test]
    fn runs_of_ksoftirqd_are_a_signal_of_their_own() {
        let mut records = records();
        (records[5].runner_tid, records[5].started_in) = (16, SOFTIRQ);
        let drawn = overlays(&records, &Ksoftirqd::with([16]), Align::TopHalf, Nanos(10_000));
        assert_eq!(drawn[0].signals[2].kind, LaneKind::Ksoftirqd);
        assert_eq!((at(&drawn[0], 1, 1_300), at(&drawn[0], 2, 1_300)), ((0, 3), (1, 2)));
    }

    #[test]
    fn a_long_time_has_an_overlay_of_its_beginning_too() {
        let mut records = records();
        let late = 10_000 + 11_000_000_000;
        records.push(record(TOP_HALF, late, late, late + 100));
        let drawn = overlays(&records, &Ksoftirqd::default(), Align::TopHalf, Nanos(10_000));
        let shown: Vec<_> = drawn.iter().map(|one| (one.over.as_str(), one.triggers)).collect();
        assert_eq!(shown, [("first 10.0 s", 3), ("all 11.0 s", 4)]);
        assert!(overlays(&[], &Ksoftirqd::default(), Align::TopHalf, Nanos(1)).is_empty());
    }

    proptest! {
        /// In each column each trigger's signal runs, is idle, or both; never neither, and never more than once.
        #[test]
        fn each_column_accounts_for_every_trigger(
            bars in prop::collection::vec((1u64..3_000, 0u64..2_000), 1..60), reach in 1u64..50_000, on_top: bool,
        ) {
            let mut now = 1_000;
            let mut records = Vec::new();
            for (number, (gap, long)) in bars.into_iter().enumerate() {
                let from = now + gap;
                now = from + long;
                let kind = if number % 2 == 0 { TOP_HALF } else { START_OF_ITEM };
                records.push(record(kind, from.saturating_sub(3), from, now));
            }
            let align = if on_top { Align::TopHalf } else { Align::BottomHalf };
            for overlay in overlays(&records, &Ksoftirqd::default(), align, Nanos(reach)) {
                for signal in &overlay.signals {
                    for (&running, &idle) in signal.running.iter().zip(&signal.idle) {
                        prop_assert!(running <= overlay.triggers && idle <= overlay.triggers);
                        prop_assert!(running + idle >= overlay.triggers);
                    }
                }
            }
        }
    }
}
