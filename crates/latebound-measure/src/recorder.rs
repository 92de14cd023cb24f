// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one measuring thread writes down after each wake-up, and how a reader takes it.
//!
//! Owns the open-loop arithmetic: which periods a late wake-up serves. Times come in as arguments; nothing here reads
//! a clock or sleeps, so that all of it is tested against a simulation.
//!
//! A wake-up at `now` for an expiry `expected` serves that expiry and every later one up to `now`. The naive
//! distribution gets one value for it; the distribution free of coordinated omission gets one for each of them.
//! The further values of a stall are not counted by the thread itself, which is late enough: they go
//! through a ring to the reader, as four numbers. Where that ring is full, the thread counts them, in steps of buckets.

use std::sync::atomic::{AtomicU64, Ordering};

use latebound_model::{BlockMaxima, Cpu, Histogram, Nanos};

use crate::ring::{OwnLine, Ring};
use crate::tally::{Stall, Tally, merge_maxima};

/// Stalls that wait for the reader. At a reader every few milliseconds this is never full unless every period is missed.
const STALL_ROOM: usize = 4_096;

/// Late wake-ups that wait for the reader.
const LATE_ROOM: usize = 1_024;

/// What a thread measures, when and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The start that all threads share: blocks are counted from here.
    pub(crate) start: Nanos,
    /// This thread's first expiry.
    pub(crate) first: Nanos,
    /// Expiries from here on are not served; `u64::MAX` for no end.
    pub(crate) end: Nanos,
    /// The period.
    pub(crate) period: Nanos,
    /// The length of a block.
    pub(crate) block: Nanos,
    /// How many of the worst wake-ups decide what is late; where it is `usize::MAX`, all are.
    pub(crate) worst_kept: usize,
}

impl Plan {
    /// The plan of times since the start, by the clock.
    pub(crate) fn starting_at(self, start: Nanos) -> Plan {
        let from = |time: Nanos| Nanos(time.0.saturating_add(start.0));
        Plan { start: from(self.start), first: from(self.first), end: from(self.end), ..self }
    }

    fn blocks(&self) -> usize {
        match self.end.0 {
            u64::MAX => crate::tally::MOST_BLOCKS / 4,
            end => usize::try_from((end - self.start.0).div_ceil(self.block.0) + 1).unwrap_or(usize::MAX),
        }
    }
}

/// One late wake-up, as it crosses to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) requested_at: Nanos,
    pub(crate) started_at: Nanos,
    pub(crate) missed: u64,
    pub(crate) cpu: Cpu,
}

/// What one thread measured; written by the thread, read by anyone.
pub(crate) struct Recorder {
    plan: Plan,
    naive: Tally,
    /// Missed periods that the thread counted itself, because the ring was full.
    overflow: Tally,
    stalls: Ring<3>,
    late: Ring<4>,
    rare: OwnLine<Rare>,
}

/// Counters that hardly ever change.
#[derive(Default)]
struct Rare {
    late_dropped: AtomicU64,
    early: AtomicU64,
    moved: AtomicU64,
}

fn raise(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl Recorder {
    pub(crate) fn new(plan: Plan) -> Recorder {
        let tally = || Tally::new(plan.start, plan.block, plan.blocks());
        Recorder {
            plan,
            naive: tally(),
            overflow: tally(),
            stalls: Ring::new(STALL_ROOM),
            late: Ring::new(LATE_ROOM),
            rare: OwnLine::default(),
        }
    }

    /// Sets the times of the plan, once they are known: making a recorder touches its memory and takes long.
    pub(crate) fn set_plan(&mut self, plan: Plan) {
        self.plan = plan;
        self.naive.set_start(plan.start);
        self.overflow.set_start(plan.start);
    }
}

/// The measuring thread's end.
pub(crate) struct Writer<'a> {
    recorder: &'a Recorder,
    /// The worst wake-ups, worst last; never reallocated.
    worst: Vec<u64>,
    /// What a wake-up must exceed to be among the worst.
    threshold: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(recorder: &'a Recorder) -> Writer<'a> {
        let kept = recorder.plan.worst_kept;
        let worst = vec![0; if kept == usize::MAX { 0 } else { kept }];
        Writer { recorder, worst, threshold: if kept == 0 { u64::MAX } else { 0 } }
    }

    /// Writes down that the expiry at `expected` was served at `now` on this CPU; returns the next expiry to serve.
    #[inline]
    pub(crate) fn record(&mut self, expected: Nanos, now: Nanos, cpu: Cpu) -> Nanos {
        let recorder = self.recorder;
        let late = now.saturating_sub(expected);
        recorder.naive.add(expected, late);
        let period = recorder.plan.period;
        let missed = if late < period && now >= expected { 0 } else { self.missed(expected, now) };
        if late.0 > self.threshold {
            self.keep(Late { requested_at: expected, started_at: now, missed, cpu });
        }
        Nanos(expected.0.saturating_add((missed + 1).saturating_mul(period.0)))
    }

    #[cold]
    fn missed(&mut self, expected: Nanos, now: Nanos) -> u64 {
        let recorder = self.recorder;
        if now < expected {
            raise(&recorder.rare.0.early);
            return 0;
        }
        let Plan { period, end, .. } = recorder.plan;
        let late = now - expected;
        // Periods that were due at or before the wake-up, and before the end.
        let missed = (late.0 / period.0).min(end.0.saturating_sub(1).saturating_sub(expected.0) / period.0);
        if missed > 0 && !recorder.stalls.push([expected.0, late.0, missed]) {
            recorder.overflow.add_stall(&Stall { expiry: expected, late, missed, period });
        }
        missed
    }

    #[cold]
    fn keep(&mut self, late: Late) {
        let value = (late.started_at - late.requested_at).0;
        let place = self.worst.partition_point(|&kept| kept < value);
        // None are kept where all are handed over.
        if let Some(last) = place.checked_sub(1) {
            self.worst.copy_within(1..place, 0);
            self.worst[last] = value;
            self.threshold = self.worst[0];
        }
        let record = [late.requested_at.0, late.started_at.0, late.missed, u64::from(late.cpu.0)];
        if !self.recorder.late.push(record) {
            raise(&self.recorder.rare.0.late_dropped);
        }
    }

    /// Writes down that a wake-up came on another CPU than the one its timer was armed on.
    pub(crate) fn moved(&self) {
        raise(&self.recorder.rare.0.moved);
    }
}

/// What a recorder holds.
pub(crate) struct WakeupDistributions {
    pub(crate) naive: Histogram,
    pub(crate) naive_maxima: BlockMaxima,
    pub(crate) free: Histogram,
    pub(crate) free_maxima: BlockMaxima,
    pub(crate) missed: u64,
    pub(crate) late_dropped: u64,
    pub(crate) early: u64,
    pub(crate) moved: u64,
}

/// The reader's end: one per recorder.
pub(crate) struct Reader {
    /// Missed periods whose stalls were taken from the ring.
    expanded: Tally,
}

impl Reader {
    pub(crate) fn new(plan: &Plan) -> Reader {
        Reader { expanded: Tally::new(plan.start, plan.block, plan.blocks()) }
    }

    /// Sets the start that blocks are counted from, before anything was read.
    pub(crate) fn set_start(&mut self, start: Nanos) {
        self.expanded.set_start(start);
    }

    /// Counts the periods of the stalls that wait, and makes room for more.
    pub(crate) fn drain_stalls(&mut self, recorder: &Recorder) {
        while let Some([expiry, late, missed]) = recorder.stalls.pop() {
            let (expiry, late) = (Nanos(expiry), Nanos(late));
            self.expanded.add_stall(&Stall { expiry, late, missed, period: recorder.plan.period });
        }
    }

    /// Takes the late wake-ups that wait.
    pub(crate) fn drain_late(&mut self, recorder: &Recorder, mut take: impl FnMut(Late)) {
        while let Some([requested_at, started_at, missed, cpu]) = recorder.late.pop() {
            let (requested_at, started_at) = (Nanos(requested_at), Nanos(started_at));
            take(Late { requested_at, started_at, missed, cpu: Cpu(cpu as u32) });
        }
    }

    /// Everything so far; exact once the thread has ended.
    pub(crate) fn read(&mut self, recorder: &Recorder) -> WakeupDistributions {
        self.drain_stalls(recorder);
        let (naive, naive_maxima) = recorder.naive.read();
        let (mut free, mut free_maxima) = (naive.clone(), naive_maxima.clone());
        let mut missed = 0;
        for tally in [&self.expanded, &recorder.overflow] {
            let (histogram, maxima) = tally.read();
            missed += histogram.count();
            free.merge(&histogram);
            free_maxima = merge_maxima(free_maxima, maxima);
        }
        let rare = &recorder.rare.0;
        WakeupDistributions {
            naive,
            naive_maxima,
            free,
            free_maxima,
            missed,
            late_dropped: rare.late_dropped.load(Ordering::Relaxed),
            early: rare.early.load(Ordering::Relaxed),
            moved: rare.moved.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow, obvious reference: every period is a job in a queue; each wake-up serves all that are due.
    struct Reference {
        naive: Vec<u64>,
        free: Vec<u64>,
        missed: u64,
        wakeups: Vec<(u64, u64)>,
    }

    /// `delays`: how late the thread wakes, wake-up by wake-up; it sleeps until its next unserved expiry.
    fn simulate(plan: &Plan, delays: &[u64]) -> Reference {
        let mut jobs = Vec::new();
        let mut expiry = plan.first.0;
        while expiry < plan.end.0 {
            jobs.push(expiry);
            expiry += plan.period.0;
        }
        let mut reference = Reference { naive: vec![], free: vec![], missed: 0, wakeups: vec![] };
        let (mut next, mut delays) = (0, delays.iter().cycle());
        while next < jobs.len() {
            let asked = jobs[next];
            let now = asked + delays.next().expect("at least one delay");
            reference.wakeups.push((asked, now));
            reference.naive.push(now - asked);
            let before = next;
            while next < jobs.len() && jobs[next] <= now {
                reference.free.push(now - jobs[next]);
                next += 1;
            }
            reference.missed += (next - before) as u64 - 1;
        }
        reference
    }

    fn histogram_of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(Nanos(value)));
        histogram
    }

    fn run(plan: Plan, delays: &[u64], drain_every: usize) -> (WakeupDistributions, Vec<Late>) {
        let recorder = Recorder::new(plan);
        let (mut writer, mut reader) = (Writer::new(&recorder), Reader::new(&plan));
        let (mut expected, mut delays, mut turn, mut late) =
            (plan.first, delays.iter().cycle(), 0, Vec::new());
        while expected < plan.end {
            let now = Nanos(expected.0 + delays.next().expect("at least one delay"));
            expected = writer.record(expected, now, Cpu(1));
            turn += 1;
            if turn % drain_every == 0 {
                reader.drain_stalls(&recorder);
                reader.drain_late(&recorder, |one| late.push(one));
            }
        }
        reader.drain_late(&recorder, |one| late.push(one));
        (reader.read(&recorder), late)
    }

    fn plan(period: u64, offset: u64, length: u64) -> Plan {
        let start = Nanos(1_000_000);
        Plan {
            start,
            first: start + Nanos(offset),
            end: start + Nanos(length),
            period: Nanos(period),
            block: Nanos(10_000),
            worst_kept: 5,
        }
    }

    proptest! {
        #[test]
        fn both_distributions_and_the_missed_periods_are_those_of_the_simulation(
            period in 1u64..2_000, offset in 0u64..3_000, periods in 1u64..3_000,
            delays in prop::collection::vec(prop_oneof![8 => 0u64..500, 2 => 0u64..9_000, 1 => 0u64..400_000], 1..60),
            drain_every in 1usize..100,
        ) {
            let plan = plan(period, offset, offset + periods * period);
            let reference = simulate(&plan, &delays);
            let (recorded, _) = run(plan, &delays, drain_every);
            prop_assert_eq!(recorded.free.count(), periods);
            prop_assert_eq!(recorded.naive, histogram_of(&reference.naive));
            prop_assert_eq!(recorded.free, histogram_of(&reference.free));
            prop_assert_eq!(recorded.missed, reference.missed);
            let highest = |maxima: &BlockMaxima| maxima.maxima.iter().copied().flatten().max();
            prop_assert_eq!(highest(&recorded.naive_maxima), reference.naive.iter().max().copied().map(Nanos));
            prop_assert_eq!(highest(&recorded.free_maxima), reference.free.iter().max().copied().map(Nanos));
        }

        #[test]
        fn a_wake_up_is_handed_over_when_fewer_than_worst_kept_were_as_bad(
            delays in prop::collection::vec(1u64..100_000, 1..300),
        ) {
            let plan = plan(200_000, 0, 200_000 * delays.len() as u64);
            let (recorded, late) = run(plan, &delays, 50);
            let wakeups = simulate(&plan, &delays).wakeups;
            let latency = |(asked, now): &(u64, u64)| now - asked;
            let expected: Vec<(u64, u64)> = wakeups
                .iter()
                .enumerate()
                .filter(|(nth, one)| {
                    wakeups[..*nth].iter().filter(|earlier| latency(earlier) >= latency(one)).count() < plan.worst_kept
                })
                .map(|(_, one)| *one)
                .collect();
            let handed: Vec<(u64, u64)> = late.iter().map(|one| (one.requested_at.0, one.started_at.0)).collect();
            prop_assert_eq!(handed, expected);
            prop_assert_eq!(recorded.late_dropped, 0);
        }
    }

    #[test]
    fn stalls_that_no_reader_takes_are_counted_all_the_same() {
        let periods = 4 * STALL_ROOM as u64;
        let plan = plan(100, 0, 100 * periods);
        let (recorded, _) = run(plan, &[150], usize::MAX);
        assert_eq!(recorded.free.count(), periods);
        assert_eq!(recorded.missed, periods / 2);
        assert_eq!(recorded.naive, histogram_of(&vec![150; periods as usize / 2]));
    }

    #[test]
    fn late_wake_ups_beyond_the_room_are_counted_as_dropped() {
        let delays: Vec<u64> = (1..=2 * LATE_ROOM as u64).collect();
        let plan = plan(10_000, 0, 10_000 * delays.len() as u64);
        let (recorded, late) = run(plan, &delays, usize::MAX);
        assert_eq!(late.len(), LATE_ROOM);
        assert_eq!(recorded.late_dropped, LATE_ROOM as u64);
    }

    #[test]
    fn nothing_is_handed_over_where_no_worst_ones_are_kept() {
        let mut plan = plan(1_000, 0, 100_000);
        plan.worst_kept = 0;
        assert_eq!(run(plan, &[5, 700, 2_500], 1).1, []);
    }

    #[test]
    fn a_wake_up_before_its_time_is_counted_as_such() {
        let recorder = Recorder::new(plan(1_000, 0, 10_000));
        let mut writer = Writer::new(&recorder);
        let next = writer.record(Nanos(1_000_500), Nanos(1_000_400), Cpu(0));
        assert_eq!(next, Nanos(1_001_500));
        assert_eq!(Reader::new(&recorder.plan).read(&recorder).early, 1);
    }
}
