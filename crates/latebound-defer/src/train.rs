// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trains of interrupts and what became of the work that each of them asked for. Pure.
//!
//! An interrupt source that fires faster than its bottom half runs raises it while it is raised already. One bit says "raised",
//! so the second raise has no run of its own: it is merged.

use latebound_abi::defer::{Record, START_OF_ITEM, TOP_HALF};
use latebound_model::Nanos;

use crate::ksoftirqd::Ksoftirqd;

/// One train.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Train {
    /// Its interrupts, in order.
    pub top_halves: Vec<Record>,
    /// The runs of the bottom half that they asked for, in the order of their starts.
    pub starts: Vec<Record>,
    /// How many of those ksoftirqd ran.
    pub by_ksoftirqd: u32,
    /// The first of them, from 1.
    pub first_by_ksoftirqd: Option<u32>,
}

impl Train {
    /// Raises that found the bit set and had no run of their own.
    pub fn merged(&self) -> u64 {
        self.starts.iter().map(|start| u64::from(start.merged)).sum()
    }

    /// From a raise to its run, at worst.
    pub fn worst(&self) -> Option<Nanos> {
        self.starts.iter().map(latency).max()
    }

    /// When its first interrupt was due.
    pub fn begins(&self) -> Nanos {
        Nanos(self.top_halves.first().map_or(0, |record| record.requested_ns))
    }

    /// When the last that belongs to it ended.
    pub fn ends(&self) -> Nanos {
        Nanos(self.top_halves.iter().chain(&self.starts).map(|record| record.ended_ns).max().unwrap_or(0))
    }
}

/// From the raise to the run.
pub fn latency(start: &Record) -> Nanos {
    Nanos(start.started_ns.saturating_sub(start.requested_ns))
}

/// The trains of one series, in order. `length` is the interrupts of a train. A start belongs to the train in which it was
/// requested, however late it comes.
pub fn trains(records: &[Record], length: u32, ksoftirqd: &Ksoftirqd) -> Vec<Train> {
    let mut trains: Vec<Train> = Vec::new();
    let mut numbers = Vec::new();
    for record in records.iter().filter(|record| record.kind == TOP_HALF) {
        let number = record.sequence.saturating_sub(1) / u64::from(length.max(1));
        if numbers.last() != Some(&number) {
            numbers.push(number);
            trains.push(Train::default());
        }
        if let Some(train) = trains.last_mut() {
            train.top_halves.push(*record);
        }
    }
    for record in records.iter().filter(|record| record.kind == START_OF_ITEM) {
        let after = trains.partition_point(|train| train.begins().0 <= record.requested_ns);
        let Some(train) = after.checked_sub(1).and_then(|at| trains.get_mut(at)) else { continue };
        train.starts.push(*record);
        if ksoftirqd.ran(record) {
            train.by_ksoftirqd += 1;
            train.first_by_ksoftirqd.get_or_insert(train.starts.len() as u32);
        }
    }
    trains
}

/// What all trains of one way have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainSums {
    /// How many trains.
    pub trains: u64,
    /// Their interrupts: each is one raise.
    pub raises: u64,
    /// Runs of the bottom half.
    pub starts: u64,
    /// Raises without a run of their own.
    pub merged: u64,
    /// Runs in a train: the minimum, the median, the most.
    pub starts_least: u64,
    /// The median.
    pub starts_median: u64,
    /// The most.
    pub starts_most: u64,
    /// Runs by ksoftirqd.
    pub by_ksoftirqd: u64,
    /// Trains in which ksoftirqd ran some.
    pub handed_over: u64,
    /// Which run of the train was the first that ksoftirqd did: the median over these trains.
    pub first_by_ksoftirqd: Option<u64>,
}

/// Sums over trains.
pub fn sums(trains: &[Train]) -> TrainSums {
    let middle = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    };
    let starts: Vec<u64> = trains.iter().map(|train| train.starts.len() as u64).collect();
    TrainSums {
        trains: trains.len() as u64,
        raises: trains.iter().map(|train| train.top_halves.len() as u64).sum(),
        starts: starts.iter().sum(),
        merged: trains.iter().map(Train::merged).sum(),
        starts_least: starts.iter().copied().min().unwrap_or(0),
        starts_most: starts.iter().copied().max().unwrap_or(0),
        starts_median: middle(starts).unwrap_or(0),
        by_ksoftirqd: trains.iter().map(|train| u64::from(train.by_ksoftirqd)).sum(),
        handed_over: trains.iter().filter(|train| train.by_ksoftirqd > 0).count() as u64,
        first_by_ksoftirqd: middle(
            trains.iter().filter_map(|train| train.first_by_ksoftirqd).map(u64::from).collect(),
        ),
    }
}

/// How long a train of so many interrupts lasts, with the pause after it.
pub fn train_length(irqs: u32, period: Nanos, pause: Nanos) -> Nanos {
    Nanos(period.0 * u64::from(irqs.saturating_sub(1)) + pause.0)
}

/// How many trains of this length a time holds: one at least.
pub fn trains_within(time: Nanos, length: Nanos) -> u32 {
    u32::try_from(time.0 / length.0.max(1)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(sequence: u64, at: u64) -> Record {
        Record {
            kind: TOP_HALF,
            sequence,
            requested_ns: at,
            started_ns: at + 1,
            ended_ns: at + 2,
            ..Record::default()
        }
    }

    fn start(requested_ns: u64, started_ns: u64, merged: u32, runner_tid: i32) -> Record {
        Record {
            requested_ns,
            started_ns,
            ended_ns: started_ns + 10,
            merged,
            runner_tid,
            started_in: latebound_abi::defer::SOFTIRQ,
            ..Record::default()
        }
    }

    #[test]
    fn each_raise_of_a_train_runs_or_merges_and_a_late_run_keeps_its_train() {
        let records = [
            top(1, 100),
            start(101, 105, 0, 7),
            top(2, 200),
            top(3, 300),
            // Its run comes when the next train has begun.
            top(4, 10_000),
            start(201, 10_001, 1, 16),
            start(10_001, 10_020, 0, 7),
            top(5, 10_100),
            top(6, 10_200),
            start(10_101, 10_300, 1, 7),
        ];
        let trains = trains(&records, 3, &Ksoftirqd::with([16]));
        assert_eq!(trains.len(), 2);
        for train in &trains {
            assert_eq!(train.top_halves.len() as u64, train.starts.len() as u64 + train.merged());
        }
        assert_eq!(trains[0].worst(), Some(Nanos(9_800)));
        assert_eq!((trains[0].by_ksoftirqd, trains[0].first_by_ksoftirqd), (1, Some(2)));
        let sums = sums(&trains);
        assert_eq!((sums.trains, sums.raises, sums.starts, sums.merged), (2, 6, 4, 2));
        assert_eq!((sums.by_ksoftirqd, sums.handed_over, sums.first_by_ksoftirqd), (1, 1, Some(2)));
        assert_eq!((sums.starts_least, sums.starts_median, sums.starts_most), (2, 2, 2));
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        assert_eq!(trains(&[start(5, 6, 0, 1)], 3, &Ksoftirqd::default()), []);
        assert_eq!(sums(&[]), TrainSums::default());
    }

    #[test]
    fn a_time_holds_whole_trains_with_their_pauses_and_one_at_least() {
        let length = train_length(13, Nanos::from_micros(100), Nanos::from_millis(10));
        assert_eq!(length, Nanos::from_micros(11_200));
        let within = |millis| trains_within(Nanos::from_millis(millis), length);
        assert_eq!([5, 22, 500].map(within), [1, 1, 44]);
        assert_eq!(trains_within(Nanos(u64::MAX), Nanos::ZERO), u32::MAX);
    }
}
