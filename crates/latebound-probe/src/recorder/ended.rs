// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places of watched threads that have ended, given to those that come: so memory is the same over any time.
//!
//! Owns when that is done, and what is kept: the latencies of threads with one name become one distribution. Those of threads that shared a slot
//! stay where they are.

use std::collections::BTreeMap;

use latebound_model::{Evidence, Histogram, Loss, LossKind, Nanos, Series, Subject, Tid};
use latebound_syscall::clock;
use libbpf_rs::{MapCore, MapFlags};

use super::wire::{Cycle, FlightLatencies, FlightPlaces, FlightWatched, Wakeup};
use super::{BUCKETS, Recorder, histograms, latencies, put_threshold, wakeup_series};
use crate::error::ProbeError;

/// A thread runs for a little after the kernel says that it ends.
const LAST_STEPS: Nanos = Nanos::from_millis(20);
/// Names of ended threads with a distribution of their own; the others share one.
const NAMES: usize = 64;
/// Whose name they share.
const OTHERS: &str = "other names";

/// Threads that ended and whose places others have now.
#[derive(Clone, Debug, Default)]
pub struct EndedThreads {
    /// Their ids.
    pub threads: Vec<Tid>,
    /// The series that each of them had. [`Recorder::series`] has them added up by name from now on.
    pub series: Vec<Series>,
}

/// What is kept of threads that ended, and which places are free.
#[derive(Debug, Default)]
pub(super) struct Ended {
    freed: u64,
    freed_of_rule: u64,
    freed_sharing: u64,
    /// Places of threads that were watched by name.
    pub(super) named: Vec<u32>,
    /// By the way of waking: what the threads that shared a slot had together.
    pub(super) shared: [FlightLatencies; Wakeup::COUNT],
    kept: BTreeMap<String, BTreeMap<u32, (Histogram, u64)>>,
}

impl Ended {
    fn keep(&mut self, comm: &str, wakeup: Wakeup, histogram: &Histogram, clipped: u64) {
        let known = self.kept.contains_key(comm) || self.kept.len() < NAMES;
        let of_name = self.kept.entry(if known { comm } else { OTHERS }.to_owned()).or_default();
        let (all, lost) = of_name.entry(wakeup.raw()).or_insert_with(|| (Histogram::new(), 0));
        all.merge(histogram);
        *lost += clipped;
    }

    /// The distributions of threads that ended, one for each name and way of waking.
    pub(super) fn series(&self) -> impl Iterator<Item = Series> {
        self.kept.iter().flat_map(|(comm, of_name)| {
            of_name.iter().filter_map(move |(wakeup, (histogram, clipped))| {
                let (mechanism, quantity) = wakeup_series(Wakeup::from_raw(*wakeup)?);
                let name = format!("{comm} (threads that ended)");
                let subject = Subject { name, task: None, cpu: None };
                Some(with_clipped(
                    Series::new(mechanism, quantity, subject, Evidence::Events, histogram.clone()),
                    *clipped,
                ))
            })
        })
    }
}

/// A series, with how many of its values were above its histogram.
pub(super) fn with_clipped(mut series: Series, clipped: u64) -> Series {
    if clipped > 0 {
        let place = format!("flight recorder, {}", series.id);
        series.losses.push(Loss { kind: LossKind::Clipped, place, count: Some(clipped) });
    }
    series
}

impl Recorder {
    /// Gives the places of ended threads away, where so many are taken that those that come could find none; `None` where not. Cheap then:
    /// it is to be called often.
    pub fn free_ended(&mut self) -> Result<Option<EndedThreads>, ProbeError> {
        let places = self.places();
        let ended = places.ended.saturating_sub(self.ended.freed);
        let taken = places.given.saturating_sub(self.ended.freed_of_rule);
        let named = u64::from(self.named).saturating_sub(self.ended.named.len() as u64);
        let sharing = places.sharing.saturating_sub(self.ended.freed_sharing);
        let slots = u64::from(self.slots());
        let is_tight =
            2 * taken.max(named) >= slots || 2 * sharing >= u64::from(super::sharing(&self.options)).max(1);
        // All threads have to be looked at for it.
        let is_worth_it = 16 * ended >= taken + named + sharing;
        if ended == 0 || !is_worth_it || (4 * ended < slots && !is_tight) {
            return Ok(None);
        }
        let now = clock::now();
        let mut freed = EndedThreads::default();
        let keys: Vec<Vec<u8>> = self.watched.keys().collect();
        for tid in keys.into_iter().filter_map(|key| key.try_into().ok()).map(i32::from_ne_bytes).map(Tid) {
            let Some(thread) = self.watched_thread(tid) else { continue };
            if thread.ended_at_ns == 0 || now.saturating_sub(Nanos(thread.ended_at_ns)) < LAST_STEPS {
                continue;
            }
            self.free(tid, &thread, &mut freed)?;
        }
        if freed.threads.is_empty() {
            return Ok(None);
        }
        self.filter.clear(&freed.threads, || self.watched_threads());
        self.forget_sites(|tid| freed.threads.contains(&tid));
        Ok(Some(freed))
    }

    /// What the programs count of places.
    pub(super) fn places(&self) -> FlightPlaces {
        let value = self.places.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        value.and_then(|value| FlightPlaces::from_bytes(&value)).unwrap_or_default()
    }

    fn free(&mut self, tid: Tid, thread: &FlightWatched, freed: &mut EndedThreads) -> Result<(), ProbeError> {
        let step =
            |error| ProbeError::bpf(format!("flight recorder: freeing the place of thread {tid}"), error);
        let slot = thread.slot;
        if self.shares(thread) {
            self.watched.delete(&tid.0.to_ne_bytes()).map_err(step)?;
            let of_thread = thread.latencies.iter();
            self.ended.shared.iter_mut().zip(of_thread).for_each(|(all, one)| latencies::add(all, one));
            self.ended.freed += 1;
            self.ended.freed_sharing += 1;
            freed.threads.push(tid);
            return Ok(());
        }
        for (wakeup, series, thread) in self.series_of(tid) {
            let clipped = thread.latencies[wakeup.raw() as usize].clipped;
            let comm = series.subject.task.as_ref().map_or("", |task| task.comm.as_str());
            self.ended.keep(comm, wakeup, &series.histogram, clipped);
            freed.series.push(series);
        }
        self.watched.delete(&tid.0.to_ne_bytes()).map_err(step)?;
        // From here on nobody counts in these.
        let first = slot as usize * histograms(&self.options) as usize * BUCKETS;
        for bucket in first..first + histograms(&self.options) as usize * BUCKETS {
            self.buckets.clear(bucket);
        }
        if self.options.jobs {
            let none = Cycle::default().to_bytes();
            self.job_cycles.update(&slot.to_ne_bytes(), &none, MapFlags::ANY).map_err(step)?;
        }
        put_threshold(&self.thresholds, slot, self.options.least_late)?;
        self.worst.remove(&slot);
        self.ended.freed += 1;
        if slot < self.slots() {
            self.ended.freed_of_rule += 1;
            self.free_places.update(&[], &slot.to_ne_bytes(), MapFlags::ANY).map_err(step)?;
        } else {
            self.ended.named.push(slot);
        }
        freed.threads.push(tid);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_threads_of_one_name_are_one_series_and_names_have_an_end() {
        let mut ended = Ended::default();
        let mut one = Histogram::new();
        one.record(Nanos(5));
        for number in 0..3 * NAMES {
            ended.keep(&format!("worker-{number}"), Wakeup::Timer, &one, 1);
            ended.keep("often", Wakeup::Timer, &one, 0);
        }
        let series: Vec<Series> = ended.series().collect();
        assert_eq!(series.len(), NAMES + 1);
        let count = |name: &str| {
            let name = format!("{name} (threads that ended)");
            let found = series.iter().find(|series| series.subject.name == name).unwrap();
            (found.summary.count, found.losses.iter().filter_map(|loss| loss.count).sum::<u64>())
        };
        assert_eq!(count("often"), (3 * NAMES as u64, 0));
        assert_eq!(count("worker-0"), (1, 1));
        assert_eq!(series.iter().map(|series| series.summary.count).sum::<u64>(), 6 * NAMES as u64);
        assert_eq!(count(OTHERS).0, 3 * NAMES as u64 - (NAMES as u64 - 1));
    }
}
