// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distributions of watched threads, read from the kernel: one of each thread, and one of all threads that share a slot.
//!
//! Owns how counts, sums and extremes that the kernel goes on writing become one distribution. Never gives values of which one part is older than
//! the other.

use std::time::Duration;

use latebound_model::{
    Evidence, Histogram, Missing, MissingKind, Nanos, Series, Subject, Tid, bucket_bounds,
};

use super::wire::{FlightLatencies, FlightWatched, Wakeup};
use super::{BUCKETS, Recorder, ended, histograms, shared_slot, wakeup_series, ways};
use crate::task;

/// What the threads that share a slot are called.
const OTHERS: &str = "other threads";

/// Adds up what several threads have of one way of waking.
pub(super) fn add(sum: &mut FlightLatencies, other: &FlightLatencies) {
    if other.count > 0 {
        sum.min_ns = if sum.count == 0 { other.min_ns } else { sum.min_ns.min(other.min_ns) };
        sum.max_ns = sum.max_ns.max(other.max_ns);
    }
    sum.count += other.count;
    sum.sum_ns += other.sum_ns;
    sum.clipped += other.clipped;
}

impl Recorder {
    /// The wake-up latencies of every watched thread, one series for each way it was woken; of threads whose places others have
    /// ([`Recorder::free_ended`]), one for each name; and one of all threads for which there was no place of their own.
    pub fn series(&self) -> Vec<Series> {
        let threads =
            self.watched_threads().into_iter().filter_map(|tid| Some((tid, self.watched_thread(tid)?)));
        let (shared, own): (Vec<_>, Vec<_>) = threads.partition(|(_, thread)| self.shares(thread));
        let mut all: Vec<Series> =
            own.into_iter().flat_map(|(tid, _)| self.series_of(tid)).map(|(_, series, _)| series).collect();
        all.extend(self.shared_series(shared));
        all.extend(self.ended.series());
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    pub(super) fn shares(&self, thread: &FlightWatched) -> bool {
        thread.slot == shared_slot(&self.options)
    }

    /// What to say where threads were watched for which there was no place of their own.
    pub fn shared_places(&self) -> Option<Missing> {
        let count = self.places().sharing;
        (count > 0).then(|| Missing {
            kind: MissingKind::Results,
            what: format!("jobs, and distributions of their own, of {count} threads"),
            why: format!(
                "the first {} threads have these; the wake-ups of all others are counted together",
                self.slots()
            ),
            remedy: "watch fewer threads at once, by --tid or --comm".to_owned(),
        })
    }

    /// The series of one thread with a slot of its own, by how it was woken.
    pub(super) fn series_of(&self, tid: Tid) -> Vec<(Wakeup, Series, FlightWatched)> {
        let of = |wakeup: Wakeup| {
            let (mechanism, quantity) = wakeup_series(wakeup);
            let (thread, histogram) = self.read_histogram(tid, wakeup)?;
            let (policy, kernel) = (thread.policy, thread.kernel != 0);
            let subject = Subject::of_thread(&task::task(tid.0, &thread.comm, policy, thread.prio, kernel));
            let series = Series::new(mechanism, quantity, subject, Evidence::Events, histogram);
            let clipped = thread.latencies[wakeup.raw() as usize].clipped;
            Some((wakeup, ended::with_clipped(series, clipped), thread))
        };
        ways(&self.options).filter_map(of).collect()
    }

    /// The series of these threads, which share a slot, and of those that did and have ended.
    fn shared_series(&self, threads: Vec<(Tid, FlightWatched)>) -> Vec<Series> {
        let mut sums = self.ended.shared;
        for (_, thread) in &threads {
            sums.iter_mut().zip(&thread.latencies).for_each(|(sum, of_thread)| add(sum, of_thread));
        }
        let of = |wakeup: Wakeup| {
            let sums = sums[wakeup.raw() as usize];
            let counts = self.counts(shared_slot(&self.options), wakeup);
            let is_whole = counts.iter().map(|(_, count)| count).sum::<u64>() == sums.count;
            let whole = is_whole.then(|| built(&counts, &sums)).flatten();
            let (mechanism, quantity) = wakeup_series(wakeup);
            let subject = Subject { name: OTHERS.to_owned(), task: None, cpu: None };
            let histogram = whole.or_else(|| of_buckets(&counts))?;
            let series = Series::new(mechanism, quantity, subject, Evidence::Events, histogram);
            (series.summary.count > 0).then(|| ended::with_clipped(series, sums.clipped))
        };
        ways(&self.options).filter_map(of).collect()
    }

    /// The buckets of a slot that are not empty.
    fn counts(&self, slot: u32, wakeup: Wakeup) -> Vec<(usize, u64)> {
        let first = (slot as usize * histograms(&self.options) as usize + wakeup.raw() as usize) * BUCKETS;
        (0..BUCKETS)
            .map(|bucket| (bucket, self.buckets.copy(first + bucket)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// One thread's histogram. The kernel counts on meanwhile: what does not belong together is read again.
    fn read_histogram(&self, tid: Tid, wakeup: Wakeup) -> Option<(FlightWatched, Histogram)> {
        let mut last = None;
        for _ in 0..8 {
            let thread = self.watched_thread(tid)?;
            let sums = thread.latencies[wakeup.raw() as usize];
            if sums.count == 0 {
                return None;
            }
            let counts = self.counts(thread.slot, wakeup);
            if let Some(histogram) = built(&counts, &sums).filter(|built| built.count() == sums.count) {
                return Some((thread, histogram));
            }
            last = Some((thread, counts));
            std::thread::sleep(Duration::from_micros(50));
        }
        // It never stood still.
        let (thread, counts) = last?;
        Some((thread, of_buckets(&counts)?))
    }
}

fn built(counts: &[(usize, u64)], sums: &FlightLatencies) -> Option<Histogram> {
    let FlightLatencies { sum_ns, min_ns, max_ns, .. } = *sums;
    Histogram::from_parts(counts.iter().copied(), Nanos(min_ns), Nanos(max_ns), sum_ns.into())
}

/// Of what the kernel counts on the buckets are true; the extremes are those of the buckets then.
fn of_buckets(counts: &[(usize, u64)]) -> Option<Histogram> {
    let low = Nanos(bucket_bounds(counts.first()?.0).0);
    let high = Nanos(bucket_bounds(counts.last()?.0).1);
    let sum =
        counts.iter().map(|&(bucket, count)| u128::from(bucket_bounds(bucket).0) * u128::from(count)).sum();
    Histogram::from_parts(counts.iter().copied(), low, high, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_threads_that_share_a_slot_are_those_of_all() {
        let of = |count, sum_ns, min_ns, max_ns, clipped| FlightLatencies {
            count,
            sum_ns,
            min_ns,
            max_ns,
            clipped,
        };
        let mut all = FlightLatencies::default();
        [of(2, 30, 10, 20, 0), of(0, 0, 0, 0, 1), of(1, 7, 7, 7, 0)]
            .iter()
            .for_each(|one| add(&mut all, one));
        assert_eq!((all.count, all.sum_ns, all.min_ns, all.max_ns, all.clipped), (3, 37, 7, 20, 1));
    }
}
