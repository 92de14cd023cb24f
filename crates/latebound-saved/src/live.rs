// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wake-ups and jobs of watched threads as the pages of a running kernel tell of them, and the last events of all CPUs.
//!
//! Owns what is late, the distributions, and which events are held for explanations. Never explains, and never reads a file or a clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use latebound_analysis::KNOWN_AFTER;
use latebound_analysis::cycle::{Jobs, SiteCounter, SiteCounts, Waits};
use latebound_model::{
    Activation, Cpu, Event, EventKind, Evidence, Histogram, Loss, LossKind, Mechanism, Nanos, Quantity,
    Series, Subject, Task, Tid, WaitSite,
};
use latebound_trace::{Clock, Decoder, Item, ItemConverter, LivePages, Machine, Symbols, Upto};

use crate::activations::PageTally;
use crate::explain::Watched;
use crate::own::OwnThreads;
use crate::requests::{Requests, Wakeup};

/// As many threads have distributions of their own.
const THREADS: usize = 1 << 12;
/// As many late activations are held until somebody takes them.
const LATE: usize = 1 << 16;

/// Turns what the pages of a running kernel hold into events of the model. Its times are nanoseconds.
#[derive(Debug)]
pub struct LiveEvents {
    converter: ItemConverter,
    decoder: Decoder,
    symbols: Symbols,
    clock: Clock,
    own: OwnThreads,
    tally: PageTally,
}

impl LiveEvents {
    /// Of records that `decoder` types, with the kernel's symbols.
    pub fn new(decoder: Decoder, symbols: Symbols) -> LiveEvents {
        let clock = Clock::new("mono", None);
        let (own, tally) = (OwnThreads::default(), PageTally::default());
        LiveEvents { converter: ItemConverter::new(Machine::of(None)), decoder, symbols, clock, own, tally }
    }

    /// The tool's own threads, whose share of the events is counted.
    pub fn set_own(&mut self, own: BTreeSet<Tid>) {
        self.own = OwnThreads::new(own);
    }

    /// What was read so far.
    pub fn tally(&self) -> PageTally {
        self.tally
    }

    /// Takes what pages of a running kernel hold, and gives the events that it means. This is not for the caller to put together: compiled
    /// here, it has the optimisations of this crate.
    pub fn take_pages(&mut self, pages: &mut LivePages, upto: Upto, visit: &mut dyn FnMut(Event)) {
        pages.give(upto, &mut |item| self.take(&item, &mut *visit));
    }

    /// Takes what comes next, by time over all CPUs, and gives the events that it means.
    pub fn take(&mut self, item: &Item<'_>, mut visit: impl FnMut(Event)) {
        let (own, tally) = (&self.own, &mut self.tally);
        if let Item::Event(event) = item {
            tally.bytes += event.data.len() as u64;
        }
        let read = (&self.decoder, &self.symbols, &self.clock);
        self.converter.take(read, item, &mut |event: Event| {
            tally.events += 1;
            tally.own += u64::from(event.current.is_some_and(|tid| own.has(tid)));
            visit(event);
        });
    }
}

/// The last events of all CPUs, by time.
#[derive(Debug)]
struct Recent {
    events: VecDeque<Event>,
    most: usize,
    /// The time of the last event that is no longer held.
    forgotten: Option<Nanos>,
}

impl Recent {
    fn push(&mut self, event: Event) {
        if self.events.len() >= self.most
            && let Some(first) = self.events.pop_front()
        {
            self.forgotten = Some(first.at);
        }
        // Nearly all come in order; one that was written late does not.
        if self.events.back().is_none_or(|last| last.at <= event.at) {
            return self.events.push_back(event);
        }
        let behind = self.events.iter().rev().take_while(|other| other.at > event.at).count();
        self.events.insert(self.events.len() - behind, event);
    }

    /// The events of these CPUs in `[from, to]`, with what is no longer held told as lost.
    fn of(&self, cpus: &[Cpu], from: Nanos, to: Nanos) -> Vec<Event> {
        let begin = self.events.partition_point(|event| event.at < from);
        let within = self.events.range(begin..).take_while(|event| event.at <= to);
        let held = self.events.front().map_or(to, |first| first.at);
        let lost = self.forgotten.filter(|last| *last >= from).map(|_| held.min(to));
        let lost = lost.into_iter().flat_map(|at| {
            cpus.iter().map(move |&cpu| Event::new(at, cpu, EventKind::Lost { events: None }))
        });
        lost.chain(within.filter(|event| cpus.contains(&event.cpu)).cloned()).collect()
    }
}

/// By what a thread's values are told apart, as the recorder of BPF does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Thread,
    Timer,
    Job,
}

impl Way {
    const fn series(self) -> (Mechanism, Quantity) {
        match self {
            Way::Thread => (Mechanism::ThreadWakeup, Quantity::Latency),
            Way::Timer => (Mechanism::TimerWakeup, Quantity::LatencyNaive),
            Way::Job => (Mechanism::ThreadWakeup, Quantity::Response),
        }
    }
}

/// Follows watched threads through the events of all CPUs, which come by time.
#[derive(Debug)]
pub struct LiveWakeups {
    watched: Watched,
    cpus: Vec<Cpu>,
    follows_jobs: bool,
    recent: Recent,
    requests: Requests,
    waits: Waits,
    sites: SiteCounter,
    jobs: Jobs,
    /// Threads whose jobs are followed.
    followed: BTreeSet<Tid>,
    latencies: BTreeMap<(Tid, Way), (Task, Histogram)>,
    late: VecDeque<Activation>,
    now: Nanos,
    unheld: u64,
    uncounted: u64,
}

impl LiveWakeups {
    /// Watches these threads on these CPUs, holds so many events, and learns the waits between jobs where `follows_jobs` says so.
    pub fn new(watched: Watched, cpus: Vec<Cpu>, events: usize, follows_jobs: bool) -> LiveWakeups {
        LiveWakeups {
            watched,
            cpus,
            follows_jobs,
            recent: Recent { events: VecDeque::new(), most: events.max(1), forgotten: None },
            requests: Requests::default(),
            waits: Waits::default(),
            sites: SiteCounter::default(),
            jobs: Jobs::default(),
            followed: BTreeSet::new(),
            latencies: BTreeMap::new(),
            late: VecDeque::new(),
            now: Nanos::ZERO,
            unheld: 0,
            uncounted: 0,
        }
    }

    /// From now on these threads are watched, and no others.
    pub fn watch_threads(&mut self, threads: BTreeSet<Tid>) {
        self.watched = Watched::Threads(threads);
    }

    /// The threads that were seen to run, and are watched.
    pub fn threads(&self) -> BTreeSet<Tid> {
        self.latencies.keys().map(|(tid, _)| *tid).collect()
    }

    /// Takes the next event.
    pub fn observe(&mut self, event: Event) {
        self.now = self.now.max(event.at);
        if matches!(event.kind, EventKind::Lost { .. }) {
            self.jobs.forget();
        }
        let watched = &self.watched;
        if let Some(wakeup) = self.requests.observe(&event, |task| watched.has(task)) {
            self.woken(&wakeup);
        }
        if self.follows_jobs {
            let watched = &self.watched;
            if let Some(wait) = self.waits.observe(&event, |task| watched.has(task)) {
                // What was counted of a thread whose jobs are followed takes room that others need.
                if !self.followed.contains(&wait.task.tid) {
                    self.sites.observe(&wait);
                }
                if let Some(job) = self.jobs.observe(wait) {
                    self.completed(job);
                }
            }
        }
        self.recent.push(event);
    }

    fn count(&mut self, way: Way, task: &Task, value: Nanos) -> String {
        let key = (task.tid, way);
        if self.latencies.len() < THREADS || self.latencies.contains_key(&key) {
            let (named, histogram) =
                self.latencies.entry(key).or_insert_with(|| (task.clone(), Histogram::new()));
            named.clone_from(task);
            histogram.record(value);
        } else {
            self.uncounted += 1;
        }
        let (mechanism, quantity) = way.series();
        Series::id_of(mechanism, quantity, &Subject::of_thread(task))
    }

    fn hold(&mut self, late: Activation) {
        if self.late.len() >= LATE {
            self.late.pop_front();
            self.unheld += 1;
        }
        self.late.push_back(late);
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        let way = if wakeup.by_timer { Way::Timer } else { Way::Thread };
        let series = self.count(way, &wakeup.task, wakeup.latency());
        if !self.followed.contains(&wakeup.task.tid) {
            let activated_at = wakeup.by_timer.then_some(wakeup.woken_at);
            self.hold(Activation { activated_at, ..wakeup.activation(series) });
        }
    }

    fn completed(&mut self, mut job: Activation) {
        let task = job.runner.clone().unwrap_or_default();
        job.series = self.count(Way::Job, &task, job.length());
        self.hold(job);
    }

    /// The activations since the last call whose surroundings are known too, oldest first; at the `end` all of them.
    pub fn late(&mut self, end: bool) -> Vec<Activation> {
        let until = if end { Nanos(u64::MAX) } else { self.known_until() };
        // By the order in which they ended.
        let ready = self.late.iter().take_while(|late| late.until() <= until).count();
        self.late.drain(..ready).collect()
    }

    /// Up to when all that bears on an activation is known.
    pub fn known_until(&self) -> Nanos {
        self.now.saturating_sub(KNOWN_AFTER)
    }

    /// The places at which watched threads waited, of threads whose jobs are not followed.
    pub fn sites(&self) -> Vec<(Tid, SiteCounts)> {
        let threads = self.sites.threads().into_iter().filter(|tid| !self.followed.contains(tid));
        threads.flat_map(|tid| self.sites.of(tid).into_iter().map(move |site| (tid, site))).collect()
    }

    /// From now on the jobs of a thread are followed, which go from one wait at this place to the next, and its wake-ups are not late.
    pub fn follow_jobs(&mut self, tid: Tid, site: WaitSite) {
        self.jobs.follow(tid, site);
        self.followed.insert(tid);
        self.late.retain(|late| late.runner_tid() != tid);
    }

    /// From now on releases of this period that the thread has no job for are counted.
    pub fn count_missed(&mut self, tid: Tid, period: Nanos) {
        self.jobs.count_missed(tid, period);
    }

    /// How many there were; `None` where the period of that thread is not known.
    pub fn missed(&self, tid: Tid) -> Option<u64> {
        self.jobs.missed(tid)
    }

    /// The events in `[from, to]` that are held: of one CPU, or of all.
    pub fn events(&self, cpu: Option<Cpu>, from: Nanos, to: Nanos) -> Vec<Event> {
        match cpu {
            Some(cpu) => self.recent.of(&[cpu], from, to),
            None => self.recent.of(&self.cpus, from, to),
        }
    }

    /// The distributions of every watched thread that ran.
    pub fn series(&self) -> Vec<Series> {
        let series = self.latencies.iter().map(|((_, way), (task, histogram))| {
            let (mechanism, quantity) = way.series();
            Series::new(mechanism, quantity, Subject::of_thread(task), Evidence::Events, histogram.clone())
        });
        let mut all: Vec<Series> = series.collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// What there was no room for.
    pub fn losses(&self) -> Vec<Loss> {
        let lost = |kind, place: &str, count: u64| {
            (count > 0).then_some(Loss { kind, place: place.to_owned(), count: Some(count) })
        };
        let all = [
            lost(LossKind::MapFull, "trace: late activations that nobody took in time", self.unheld),
            lost(LossKind::MapFull, "trace: values of threads without a place", self.uncounted),
            lost(
                LossKind::Unpaired,
                "trace: wake-ups of watched threads whose switch made no event",
                self.requests.unseen(),
            ),
        ];
        all.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::{CallObject, SwitchReason};

    const US: u64 = 1_000;

    fn task(tid: i32) -> Task {
        Task { tid: Tid(tid), comm: format!("t{tid}").into(), prio: Some(120), ..Task::default() }
    }

    fn event(at: u64, tid: i32, kind: EventKind) -> Event {
        Event { current: Some(Tid(tid)), ..Event::new(Nanos(at), Cpu(0), kind) }
    }

    fn switch(at: u64, prev: i32, next: i32) -> Event {
        let reason = SwitchReason::Blocked;
        event(at, prev, EventKind::Switch { prev: task(prev), reason, next: task(next) })
    }

    fn waking(at: u64, by: i32, whom: i32) -> Event {
        event(at, by, EventKind::Waking { task: task(whom) })
    }

    fn sleep(at: u64, tid: i32) -> Event {
        let object = Some(CallObject::Sleep { absolute: true });
        event(at, tid, EventKind::SystemCallEntry { call: "clock_nanosleep".into(), object })
    }

    /// A thread 7 with a period of 1 ms that waits 20 us to run, and runs for 100 us.
    fn periods(live: &mut LiveWakeups, from: u64, count: u64) {
        for number in from..from + count {
            let at = number * 1_000 * US;
            live.observe(waking(at, 0, 7));
            live.observe(switch(at + 20 * US, 0, 7));
            live.observe(event(at + 21 * US, 7, EventKind::SystemCallExit));
            live.observe(sleep(at + 119 * US, 7));
            live.observe(switch(at + 120 * US, 7, 0));
        }
    }

    fn live(events: usize) -> LiveWakeups {
        LiveWakeups::new(Watched::Comm("t7".to_owned()), vec![Cpu(0), Cpu(1)], events, true)
    }

    #[test]
    fn a_wake_up_is_late_once_what_came_after_it_is_known() {
        let mut live = live(1 << 10);
        periods(&mut live, 1, 2);
        assert!(live.late(false).is_empty(), "1 ms later nobody knows what other CPUs did");
        live.observe(waking(5_000 * US, 0, 9));
        let late = live.late(false);
        assert_eq!(late.len(), 2);
        assert_eq!(
            (late[0].latency(), late[0].series.as_str()),
            (Nanos(20 * US), "thread_wakeup/t7/7/latency")
        );
        assert!(live.late(true).is_empty(), "each is given once");
        let series = live.series();
        assert_eq!((series.len(), series[0].summary.count), (1, 2));
        assert_eq!(live.threads(), [Tid(7)].into());
    }

    #[test]
    fn the_jobs_of_a_thread_take_the_place_of_its_wake_ups() {
        let mut live = live(1 << 10);
        periods(&mut live, 1, 20);
        let sites = live.sites();
        let [(tid, site)] = sites.as_slice() else { panic!("{sites:?}") };
        assert_eq!((*tid, site.site.call.as_deref()), (Tid(7), Some("clock_nanosleep")));
        assert!(site.intervals.are_regular());
        live.follow_jobs(*tid, site.site.clone());
        assert!(live.sites().is_empty());
        periods(&mut live, 21, 3);
        let late = live.late(true);
        assert_eq!(late.len(), 2, "the first wait begins the first job: {late:?}");
        assert!(
            late.iter()
                .all(|job| job.length() == Nanos(119 * US) && job.series == "thread_wakeup/t7/7/response")
        );
        let jobs = live.series().into_iter().find(|series| series.quantity == Quantity::Response).unwrap();
        assert_eq!(jobs.summary.count, 2);
    }

    #[test]
    fn what_is_no_longer_held_is_told_as_lost() {
        let mut live = live(10);
        periods(&mut live, 1, 4);
        let events = live.events(None, Nanos(0), Nanos(u64::MAX));
        let lost = events.iter().filter(|event| matches!(event.kind, EventKind::Lost { .. })).count();
        assert_eq!((events.len(), lost), (12, 2), "ten, and one mark a CPU: {events:?}");
        let here = live.events(Some(Cpu(1)), Nanos(0), Nanos(u64::MAX));
        assert_eq!(here.len(), 1, "{here:?}");
        let held = live.events(Some(Cpu(0)), Nanos(3_000 * US), Nanos(3_100 * US));
        assert_eq!(held.len(), 3, "{held:?}");
    }

    #[test]
    fn an_event_that_comes_late_stands_where_it_belongs() {
        let mut live = live(10);
        for at in [10, 30, 20, 30, 5] {
            live.observe(waking(at, 0, 9));
        }
        let times: Vec<u64> = live.events(None, Nanos(6), Nanos(30)).iter().map(|event| event.at.0).collect();
        assert_eq!(times, [10, 20, 30, 30]);
    }

    #[test]
    fn a_thread_that_ran_unseen_is_counted_and_has_no_wrong_latency() {
        let mut live = live(1 << 10);
        live.observe(waking(10 * US, 0, 7));
        // The switch to it made no event.
        live.observe(switch(50 * US, 7, 0));
        live.observe(waking(900 * US, 0, 7));
        live.observe(switch(905 * US, 0, 7));
        let late = live.late(true);
        assert_eq!(late.iter().map(|late| late.latency().0).collect::<Vec<_>>(), [5 * US]);
        assert_eq!(live.losses()[0].count, Some(1));
    }

    #[test]
    fn lost_events_end_what_had_begun() {
        let mut live = live(1 << 10);
        live.observe(waking(10 * US, 0, 7));
        live.observe(Event::new(Nanos(20 * US), Cpu(0), EventKind::Lost { events: Some(3) }));
        live.observe(switch(900 * US, 0, 7));
        assert!(live.late(true).is_empty() && live.series().is_empty());
    }
}
