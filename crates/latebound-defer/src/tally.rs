// SPDX-License-Identifier: MIT OR Apache-2.0
//! From starts to distributions. Pure.

use latebound_abi::defer::{Counts, Record, START_OF_ITEM};
use latebound_model::{Condition, Cpu, Histogram, Loss, LossKind, Nanos, Quantity, Series, Subject, Tid};

use crate::ksoftirqd::Ksoftirqd;
use crate::plan::Request;

/// What became of one series.
#[derive(Clone, Debug)]
pub struct SeriesTally {
    /// What was asked for.
    pub request: Request,
    /// The CPU that requested.
    pub requester: Cpu,
    /// The thread that requests from task context.
    pub requester_tid: Tid,
    /// From the request to the start.
    pub latency: Histogram,
    /// From the start to the end.
    pub execution: Histogram,
    /// Starts on another CPU than that of the request.
    pub cross_cpu: u64,
    /// Requests that started together with an earlier one, by the records.
    pub merged_in_records: u64,
    /// Starts whose stamps are in the wrong order; they are in no distribution.
    pub negative: u64,
    /// Starts of it by the thread ksoftirqd of its CPU.
    pub by_ksoftirqd: u64,
    /// Starts after the end of the measurement, when loads are taken away: under the load these requests waited to the end, and how much longer
    /// they would have waited is not known.
    pub after_end: u64,
    /// What the module counted, or the programs of BPF.
    pub counts: Counts,
    /// Requests that were asked for and served, of which the kernel ran no program that would have seen them.
    pub unseen: u64,
    /// Runs of its programs that the kernel skipped, which all series of the same programs share: what a series misses by it is in its
    /// counts, as requests that wait or that nobody saw.
    pub skipped: u64,
    /// Welford's sums of the latency, in ns.
    mean: f64,
    squares: f64,
}

impl SeriesTally {
    pub(crate) fn new(request: Request, requester: Cpu, requester_tid: Tid) -> SeriesTally {
        SeriesTally {
            request,
            requester,
            requester_tid,
            latency: Histogram::new(),
            execution: Histogram::new(),
            cross_cpu: 0,
            merged_in_records: 0,
            negative: 0,
            by_ksoftirqd: 0,
            after_end: 0,
            counts: Counts::default(),
            unseen: 0,
            skipped: 0,
            mean: 0.0,
            squares: 0.0,
        }
    }

    /// The counts of one of the items that served it.
    pub(crate) fn add_counts(&mut self, counts: &Counts) {
        let sum = &mut self.counts;
        sum.waiting += counts.waiting;
        sum.triggers += counts.triggers;
        sum.requests += counts.requests;
        sum.starts += counts.starts;
        sum.merged += counts.merged;
        sum.kept += counts.kept;
        sum.refused += counts.refused;
        sum.empty_starts += counts.empty_starts;
        sum.turns_missed += counts.turns_missed;
        sum.records_lost += counts.records_lost;
        sum.triggers_late = counts.triggers_late;
    }

    /// A record. `ended_at` is the end of the measurement, where that is over.
    pub(crate) fn add(&mut self, record: &Record, ksoftirqd: &Ksoftirqd, ended_at: Option<Nanos>) {
        if record.kind != START_OF_ITEM {
            return;
        }
        self.after_end += u64::from(ended_at.is_some_and(|end| record.started_ns > end.0));
        self.by_ksoftirqd += u64::from(ksoftirqd.ran(record));
        self.merged_in_records += u64::from(record.merged);
        self.cross_cpu += u64::from(record.requested_cpu != record.started_cpu);
        let Some((Nanos(latency), execution)) = SeriesTally::times(record) else {
            self.negative += 1;
            return;
        };
        self.latency.record(Nanos(latency));
        if let Some(execution) = execution {
            self.execution.record(execution);
        }
        // Welford, "Note on a Method for Calculating Corrected Sums of Squares and Products" (1962).
        let distance = latency as f64 - self.mean;
        self.mean += distance / self.latency.count() as f64;
        self.squares += distance * (latency as f64 - self.mean);
    }

    /// The latency and the execution of a start; `None` of a record that is no start, or whose stamps are in the wrong order. Where a
    /// start is only seen, its end is not.
    pub(crate) fn times(record: &Record) -> Option<(Nanos, Option<Nanos>)> {
        if record.kind != START_OF_ITEM {
            return None;
        }
        let latency = record.started_ns.checked_sub(record.requested_ns).map(Nanos)?;
        match record.ended_ns {
            0 => Some((latency, None)),
            ended_ns => Some((latency, Some(ended_ns.checked_sub(record.started_ns).map(Nanos)?))),
        }
    }

    /// The standard deviation of the latency; `None` for fewer than two values.
    pub fn standard_deviation(&self) -> Option<Nanos> {
        let count = self.latency.count();
        (count > 1).then(|| Nanos((self.squares / (count - 1) as f64).sqrt().round() as u64))
    }

    /// Requests that never started, or whose start has no latency.
    pub fn lost(&self) -> u64 {
        let never = self.counts.refused + u64::from(self.counts.waiting);
        never + self.unseen + self.counts.records_lost + self.negative
    }

    /// The two distributions as series of a Run, taken under this condition. `order` says how the requests came, where that sets the
    /// series apart from others of the Run: `trains, with counter`.
    pub fn series(&self, order: Option<&str>, condition: &Condition) -> [Series; 2] {
        let deferral = self.request.deferral(self.requester, order);
        let subject = |cpu| Subject { name: format!("{deferral}, {condition}"), cpu, ..Subject::default() };
        let make = |quantity, histogram: &Histogram| {
            let mut series = Series::new(
                self.request.mechanism.of_the_kernel(),
                quantity,
                subject(Some(self.requester)),
                self.request.mechanism.evidence(),
                histogram.clone(),
            );
            series.deferral = Some(deferral.clone());
            series.condition = Some(condition.clone());
            series.merged = self.counts.merged;
            series.missed = self.counts.turns_missed;
            series.cross_cpu = self.cross_cpu;
            let loss = |kind, count: u64| Loss {
                kind,
                place: format!("defer, {}", self.request.label(self.requester)),
                count: Some(count),
            };
            let losses = [
                // Both the module and the programs keep records in a ring, and lose one only where that is full.
                loss(LossKind::RingFull, self.counts.records_lost),
                loss(LossKind::Unpaired, self.counts.refused + u64::from(self.counts.waiting) + self.unseen),
                loss(LossKind::NegativeDelta, self.negative),
                loss(LossKind::ProgramSkipped, self.skipped),
            ];
            series.losses = losses.into_iter().filter(|loss| loss.count != Some(0)).collect();
            series
        };
        [make(Quantity::Latency, &self.latency), make(Quantity::Execution, &self.execution)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Context, Mechanism};

    fn measured(latencies: &[u64]) -> SeriesTally {
        let mechanism: Mechanism = "tasklet".parse().unwrap();
        let context: Context = "hardirq".parse().unwrap();
        let request = Request {
            mechanism,
            context,
            cpu: Cpu(0),
            triggers: 1,
            burst: 1,
            execution: Nanos::ZERO,
            ..crate::plan::example()
        };
        let mut measured = SeriesTally::new(request, Cpu(0), Tid(7));
        for &latency in latencies {
            let record = Record {
                requested_ns: 1_000_000,
                started_ns: 1_000_000 + latency,
                ended_ns: 1_000_500 + latency,
                merged: 2,
                started_cpu: 1,
                ..Record::default()
            };
            measured.add(&record, &Ksoftirqd::default(), None);
        }
        measured
    }

    #[test]
    fn the_standard_deviation_is_that_of_a_sample() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, sum of squares 32, over 7.
        let values: Vec<u64> = [2, 4, 4, 4, 5, 5, 7, 9].iter().map(|value| value * 1_000).collect();
        assert_eq!(measured(&values).standard_deviation(), Some(Nanos(2_138)));
        assert_eq!(measured(&[7]).standard_deviation(), None);
    }

    #[test]
    fn each_loss_is_written_as_what_it_is() {
        let mut measured = measured(&[7]);
        measured.add_counts(&Counts { refused: 2, waiting: 3, records_lost: 11, ..Counts::default() });
        measured.unseen = 5;
        measured.skipped = 13;
        assert_eq!(measured.lost(), 2 + 3 + 5 + 11);
        let [latency, _] = measured.series(None, &Condition::Idle);
        let losses: Vec<_> = latency.losses.iter().map(|loss| (loss.kind, loss.count)).collect();
        let unpaired = (LossKind::Unpaired, Some(2 + 3 + 5));
        assert_eq!(losses, [(LossKind::RingFull, Some(11)), unpaired, (LossKind::ProgramSkipped, Some(13))]);
    }

    #[test]
    fn merges_and_cross_cpu_starts_count_and_a_backward_stamp_is_a_loss() {
        let mut measured = measured(&[10, 20]);
        let backward = Record { requested_ns: 5, started_ns: 4, ended_ns: 6, ..Record::default() };
        measured.add(&backward, &Ksoftirqd::default(), None);
        assert_eq!((measured.merged_in_records, measured.cross_cpu), (4, 2));
        assert_eq!((measured.latency.count(), measured.lost()), (2, 1));
        let unending = Record { requested_ns: 5, started_ns: 6, ended_ns: 0, ..Record::default() };
        measured.add(&unending, &Ksoftirqd::default(), None);
        let [latency, execution] = measured.series(None, &Condition::Idle);
        assert_eq!(latency.losses.len(), 1);
        assert_eq!(execution.summary.max, Some(Nanos(500)));
        assert_eq!(execution.summary.count, 2);
        assert_eq!(latency.id, "tasklet/tasklet from hardirq, idle/cpu0/latency");
    }
}
