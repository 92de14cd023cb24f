// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs of threads that were not told of: which wait of a program lies between two jobs, and the jobs that follow.
//!
//! A job goes from the end of one wait at that place to the next entry into it. [`Waits`] makes waits of events, [`SiteCounts`] adds up
//! those at one place, [`choose`] decides which place it is and how sure that is, [`Jobs`] makes activations of waits.
//!
//! A recorder that counts in the kernel fills [`SiteCounts`] itself and uses [`choose`] alone.

use foldhash::HashMap;
use latebound_model::{
    Activation, CallObject, Cpu, Cycle, Event, EventKind, Mechanism, Name, Nanos, Sureness, SwitchReason,
    Task, Tid, WaitSite,
};

/// As many threads are followed at once.
const THREADS: usize = 1 << 16;
/// A place at which a thread waited less often is no candidate.
const FEWEST_WAITS: u64 = 3;
/// Fewer distances between waits do not show that they are regular.
const FEWEST_INTERVALS: u64 = 8;
/// A place is regular whose distances have no larger standard deviation than this part of their mean, in percent. Chosen: a loop with a
/// fixed period that is late by a third of it now and then stays below.
const REGULAR_PERCENT: u64 = 20;
/// A place where a thread spends this part of its sleep, in percent, is likely where it waits between jobs. Chosen.
const MOST_OF_SLEEP_PERCENT: u64 = 80;

/// What is known of the waits of one thread at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteCounts {
    /// Where.
    pub site: WaitSite,
    /// How often it slept there.
    pub waits: u64,
    /// For how long in all, from the switch to the wake-up.
    pub slept: Nanos,
    /// How often a timer ended the sleep.
    pub ended_by_timer: u64,
    /// Distances between the ends of two waits that follow each other here.
    pub intervals: Intervals,
}

/// Distances between times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: Nanos,
    /// Their standard deviation, of a sample.
    pub deviation: Nanos,
}

impl Intervals {
    /// Whether they are near enough to each other, and enough, to be a period.
    pub fn are_regular(&self) -> bool {
        let percent = u128::from(self.mean.0) * u128::from(REGULAR_PERCENT);
        self.count >= FEWEST_INTERVALS && u128::from(self.deviation.0) * 100 <= percent
    }
}

/// Chooses among the places at which one thread waited. `None` where it waited too seldom to say.
///
/// A loop's own locks and messages come as regularly as its timer. So of regular places one that timers end goes first, and of those
/// the one with an absolute time; else the one with the longest sleep in all.
pub fn choose(sites: &[SiteCounts]) -> Option<Cycle> {
    let candidates = || sites.iter().filter(|counts| counts.waits >= FEWEST_WAITS);
    let by_timer =
        |counts: &SiteCounts| counts.ended_by_timer.saturating_mul(10) >= counts.waits.saturating_mul(9);
    let absolute =
        |counts: &SiteCounts| matches!(counts.site.object, Some(CallObject::Sleep { absolute: true }));
    let rank = |counts: &&SiteCounts| {
        let regular_timer = counts.intervals.are_regular() && by_timer(counts);
        (regular_timer && absolute(counts), regular_timer, counts.slept)
    };
    let best = candidates().max_by_key(rank)?;
    let regular = best.intervals.are_regular();
    let slept: u128 = sites.iter().map(|counts| u128::from(counts.slept.0)).sum();
    let most = u128::from(best.slept.0) * 100 >= slept * u128::from(MOST_OF_SLEEP_PERCENT);
    let sureness = if candidates().count() == 1 && most || (regular && by_timer(best)) {
        Sureness::Sure
    } else if regular || most {
        Sureness::Likely
    } else {
        Sureness::Guess
    };
    Some(Cycle { site: best.site.clone(), sureness, period: regular.then_some(best.intervals.mean) })
}

/// Which wait lies between the jobs of a thread, as far as the user said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CycleChoice {
    /// The one that its waits show, where that is at least likely.
    #[default]
    Recognised,
    /// One in a system call of this name, whatever it works on.
    Call(String),
    /// None: wake-ups are explained.
    Off,
}

impl CycleChoice {
    /// The wait of a thread between its jobs; `None` where there is none, or none that is likely.
    pub fn among(&self, sites: &[SiteCounts]) -> Option<Cycle> {
        match self {
            CycleChoice::Off => None,
            CycleChoice::Recognised => choose(sites).filter(|cycle| cycle.sureness >= Sureness::Likely),
            CycleChoice::Call(call) => {
                let in_call = |counts: &&SiteCounts| counts.site.call.as_deref() == Some(call.as_str());
                let sites: Vec<SiteCounts> = sites.iter().filter(in_call).cloned().collect();
                choose(&sites).map(|cycle| Cycle { sureness: Sureness::Sure, ..cycle })
            }
        }
    }
}

/// A wait of a thread that is over: the thread runs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who.
    pub task: Task,
    /// Where.
    pub site: WaitSite,
    /// When it entered the system call; else when it was switched out.
    pub entered_at: Nanos,
    /// When it was switched out; `None` where it found at once what it would have waited for.
    pub slept_at: Option<Nanos>,
    /// When it was due to run: the expiry of its timer, its wake-up, or the return of a call without a sleep.
    pub released_at: Nanos,
    /// By which mechanism.
    pub mechanism: Mechanism,
    /// When it ran.
    pub started_at: Nanos,
    /// Where.
    pub cpu: Cpu,
    /// Whether the thread had other waits since the one before that nobody saw the end of: a switch to it made no event.
    pub after_unseen: bool,
}

/// A thread that was woken and does not run yet.
#[derive(Clone, Debug)]
struct Woken {
    task: Task,
    due: Nanos,
    by_timer: bool,
}

/// One thread on its way through a wait.
#[derive(Clone, Debug, Default)]
struct InWait {
    call: Option<(Nanos, Name, Option<CallObject>)>,
    /// The call that it was in when it was switched out last, where its entry was not seen.
    call_at_switch: Option<Name>,
    slept_at: Option<Nanos>,
    /// Whether it slept in the call that it is in.
    slept_in_call: bool,
    /// Whether it ran since the last wait without a switch to it.
    ran_unseen: bool,
}

/// Makes waits of the events of all CPUs, in order of time.
#[derive(Debug, Default)]
pub struct Waits {
    threads: HashMap<Tid, InWait>,
    /// Those of them that sleep and were woken: few at any time, and each event is looked at for one that runs.
    woken: HashMap<Tid, Woken>,
    /// The watched thread that runs on each CPU.
    running: HashMap<Cpu, Task>,
    /// The timer whose callback runs on each CPU: when it was due.
    expiring: HashMap<Cpu, Nanos>,
}

impl Waits {
    /// Takes the next event; gives the wait that it ends. `watches` says whose waits are asked for.
    pub fn observe(&mut self, event: &Event, watches: impl Fn(&Task) -> bool) -> Option<Wait> {
        let shown = if self.woken.is_empty() { None } else { self.shown_to_run(event) };
        self.told(event, watches).or(shown)
    }

    /// The wait that is over because the thread is current, where no event told of the switch to it: some kernels leave out that of a switch from
    /// the idle task.
    fn shown_to_run(&mut self, event: &Event) -> Option<Wait> {
        // The event of a switch is still of the thread that leaves.
        if matches!(event.kind, EventKind::Switch { .. }) {
            return None;
        }
        let task = self.woken.get(&event.current?)?.task.clone();
        self.running.insert(event.cpu, task.clone());
        self.runs(event, &task)
    }

    fn told(&mut self, event: &Event, watches: impl Fn(&Task) -> bool) -> Option<Wait> {
        match &event.kind {
            EventKind::HrtimerExpireEntry { soft_expires, .. } => {
                self.expiring.insert(event.cpu, *soft_expires);
            }
            EventKind::HrtimerExpireExit { .. } => {
                self.expiring.remove(&event.cpu);
            }
            EventKind::SystemCallEntry { call, object } => {
                let tid = self.current(event)?;
                let thread = self.thread(tid)?;
                thread.call = Some((event.at, call.clone(), *object));
                thread.slept_in_call = false;
            }
            EventKind::SystemCallExit => return self.left_call(event),
            EventKind::SwitchedOut { tid, call, .. } => {
                self.thread(*tid)?.call_at_switch.clone_from(call);
            }
            EventKind::Waking { task } if watches(task) => {
                let due = self.expiring.get(&event.cpu).copied().filter(|due| *due <= event.at);
                if self.thread(task.tid)?.slept_at.is_some() {
                    let (due, by_timer) = (due.unwrap_or(event.at), due.is_some());
                    let woken = || Woken { task: task.clone(), due, by_timer };
                    self.woken.entry(task.tid).or_insert_with(woken);
                }
            }
            EventKind::Switch { prev, reason, next } => {
                if watches(prev) {
                    let thread = self.thread(prev.tid)?;
                    // It slept, and leaves the CPU again.
                    thread.ran_unseen |= thread.slept_at.take().is_some();
                    if *reason != SwitchReason::Preempted {
                        (thread.slept_at, thread.slept_in_call) = (Some(event.at), true);
                    }
                    self.woken.remove(&prev.tid);
                }
                if watches(next) {
                    self.running.insert(event.cpu, next.clone());
                    return self.runs(event, next);
                }
                self.running.remove(&event.cpu);
            }
            // Whatever a thread did meanwhile was not seen.
            EventKind::Lost { .. } => {
                self.threads.clear();
                self.woken.clear();
                self.running.remove(&event.cpu);
                self.expiring.remove(&event.cpu);
            }
            _ => {}
        }
        None
    }

    fn thread(&mut self, tid: Tid) -> Option<&mut InWait> {
        if self.threads.len() >= THREADS && !self.threads.contains_key(&tid) {
            return None;
        }
        Some(self.threads.entry(tid).or_default())
    }

    fn current(&self, event: &Event) -> Option<Tid> {
        event.current.or_else(|| self.running.get(&event.cpu).map(|task| task.tid))
    }

    /// A call that returns without a sleep found at once what it would have waited for.
    fn left_call(&mut self, event: &Event) -> Option<Wait> {
        let tid = self.current(event)?;
        let task = self.running.get(&event.cpu).filter(|task| task.tid == tid)?;
        let thread = self.threads.get_mut(&tid)?;
        let (entered_at, call, object) = thread.call.take()?;
        (!thread.slept_in_call).then(|| Wait {
            task: task.clone(),
            site: WaitSite::of_call(&call, object),
            entered_at,
            slept_at: None,
            released_at: event.at,
            mechanism: Mechanism::ThreadWakeup,
            started_at: event.at,
            cpu: event.cpu,
            after_unseen: std::mem::take(&mut thread.ran_unseen),
        })
    }

    fn runs(&mut self, event: &Event, task: &Task) -> Option<Wait> {
        let thread = self.threads.get_mut(&task.tid)?;
        let slept_at = thread.slept_at.take()?;
        let Woken { due: released_at, by_timer, .. } = self.woken.remove(&task.tid)?;
        let after_unseen = std::mem::take(&mut thread.ran_unseen);
        let (entered_at, site) = match (&thread.call, thread.call_at_switch.take()) {
            (Some((entered, call, object)), _) => (*entered, WaitSite::of_call(call, *object)),
            (None, Some(call)) => (slept_at, WaitSite::of_call(&call, None)),
            (None, None) => (slept_at, WaitSite { call: None, object: None, by_timer: Some(by_timer) }),
        };
        Some(Wait {
            task: task.clone(),
            site,
            entered_at,
            slept_at: Some(slept_at),
            released_at,
            mechanism: if by_timer { Mechanism::TimerWakeup } else { Mechanism::ThreadWakeup },
            started_at: event.at,
            cpu: event.cpu,
            after_unseen,
        })
    }
}

/// Adds up the waits of threads by place.
#[derive(Debug, Default)]
pub struct SiteCounter {
    sites: HashMap<(Tid, WaitSite), Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    waits: u64,
    slept: u64,
    ended_by_timer: u64,
    last: Option<Nanos>,
    // Welford's running mean and sum of squared differences (Knuth, The Art of Computer Programming, volume 2, 4.2.2).
    intervals: u64,
    mean: f64,
    squares: f64,
}

impl SiteCounter {
    /// Takes a wait. One without a sleep says nothing of where a thread waits between jobs.
    pub fn observe(&mut self, wait: &Wait) {
        let Some(slept_at) = wait.slept_at else { return };
        let key = (wait.task.tid, wait.site.clone());
        if self.sites.len() >= THREADS && !self.sites.contains_key(&key) {
            return;
        }
        let sums = self.sites.entry(key).or_default();
        sums.waits += 1;
        sums.slept = sums.slept.saturating_add(wait.released_at.saturating_sub(slept_at).0);
        sums.ended_by_timer += u64::from(wait.mechanism == Mechanism::TimerWakeup);
        if let Some(last) = sums.last.replace(wait.released_at) {
            let interval = wait.released_at.saturating_sub(last).0 as f64;
            sums.intervals += 1;
            let from_mean = interval - sums.mean;
            sums.mean += from_mean / sums.intervals as f64;
            sums.squares += from_mean * (interval - sums.mean);
        }
    }

    /// The places of one thread.
    pub fn of(&self, tid: Tid) -> Vec<SiteCounts> {
        let of_thread = self.sites.iter().filter(|((whose, _), _)| *whose == tid);
        let mut found: Vec<SiteCounts> = of_thread
            .map(|((_, site), sums)| {
                let freedom = sums.intervals.saturating_sub(1).max(1) as f64;
                SiteCounts {
                    site: site.clone(),
                    waits: sums.waits,
                    slept: Nanos(sums.slept),
                    ended_by_timer: sums.ended_by_timer,
                    intervals: Intervals {
                        count: sums.intervals,
                        mean: Nanos(sums.mean as u64),
                        deviation: Nanos((sums.squares / freedom).sqrt() as u64),
                    },
                }
            })
            .collect();
        found.sort_by(|a, b| b.slept.cmp(&a.slept).then_with(|| a.site.cmp(&b.site)));
        found
    }

    /// The threads that waited.
    pub fn threads(&self) -> Vec<Tid> {
        let mut tids: Vec<Tid> = self.sites.keys().map(|(tid, _)| *tid).collect();
        tids.sort_unstable();
        tids.dedup();
        tids
    }
}

/// The releases of one period that had no job.
///
/// Each distance between the releases of two jobs is so many periods, rounded, of which one has a job. A distance of less than half a period makes
/// up for one that was missed before: such a thread does all of its jobs, though late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissedReleases {
    period: Nanos,
    last: Option<Nanos>,
    missed: i64,
}

impl MissedReleases {
    /// Of this period, which is not 0.
    pub fn of(period: Nanos) -> MissedReleases {
        MissedReleases { period, last: None, missed: 0 }
    }

    /// Takes the release of the next job.
    pub fn observe(&mut self, released_at: Nanos) {
        let period = self.period.0.max(1);
        if let Some(last) = self.last {
            let periods = released_at.saturating_sub(last).0.saturating_add(period / 2) / period;
            self.missed = self.missed.saturating_add(i64::try_from(periods).unwrap_or(i64::MAX) - 1);
        }
        self.last = Some(released_at);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        u64::try_from(self.missed).unwrap_or(0)
    }
}

/// Makes jobs of waits, once it is known which wait of each thread lies between them.
#[derive(Debug, Default)]
pub struct Jobs {
    sites: HashMap<Tid, WaitSite>,
    begun: HashMap<Tid, Wait>,
    missed: HashMap<Tid, MissedReleases>,
}

impl Jobs {
    /// Between the jobs of this thread lies this wait.
    pub fn follow(&mut self, tid: Tid, site: WaitSite) {
        self.sites.insert(tid, site);
    }

    /// From now on releases of this period that the thread has no job for are counted.
    pub fn count_missed(&mut self, tid: Tid, period: Nanos) {
        self.missed.insert(tid, MissedReleases::of(period));
    }

    /// How many there were; `None` where the period of that thread is not known.
    pub fn missed(&self, tid: Tid) -> Option<u64> {
        self.missed.get(&tid).map(MissedReleases::count)
    }

    /// Takes the next wait; gives the job that its entry completed.
    pub fn observe(&mut self, wait: Wait) -> Option<Activation> {
        let tid = wait.task.tid;
        // One of the waits that nobody saw may have been the end of what had begun.
        if wait.after_unseen {
            self.begun.remove(&tid);
        }
        if self.sites.get(&tid) != Some(&wait.site) {
            return None;
        }
        let completed_at = wait.entered_at;
        let before = self.begun.insert(tid, wait)?;
        // A second sleep in one call: the thread did nothing in between.
        if completed_at <= before.started_at {
            return None;
        }
        // Without a sleep it was released at an unknown time before: when it asked is the latest that can be.
        let released_at = match before.slept_at {
            Some(_) => before.released_at,
            None => before.entered_at,
        };
        if let Some(missed) = self.missed.get_mut(&tid) {
            missed.observe(released_at);
        }
        let job = Activation::of_thread(
            String::new(),
            before.mechanism,
            before.task,
            before.cpu,
            released_at,
            before.started_at.max(released_at),
        );
        Some(Activation { ended_at: Some(completed_at), ..job })
    }

    /// Forgets what has begun: events were lost.
    pub fn forget(&mut self) {
        self.begun.clear();
        self.missed.values_mut().for_each(|missed| missed.last = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn counts(call: &str, object: Option<CallObject>, waits: u64, slept_ms: u64) -> SiteCounts {
        SiteCounts {
            site: WaitSite::of_call(call, object),
            waits,
            slept: Nanos(slept_ms * MS),
            ended_by_timer: 0,
            intervals: Intervals::default(),
        }
    }

    fn every(period_ms: u64, deviation_ms: u64, count: u64) -> Intervals {
        Intervals { count, mean: Nanos(period_ms * MS), deviation: Nanos(deviation_ms * MS) }
    }

    const ABSOLUTE: Option<CallObject> = Some(CallObject::Sleep { absolute: true });

    fn futex(address: u64, owner: i32) -> Option<CallObject> {
        Some(CallObject::Futex { address, inherits: false, owner: Some(Tid(owner)) })
    }

    #[test]
    fn an_absolute_timer_goes_before_a_regular_lock_with_longer_sleeps() {
        let timer = SiteCounts {
            ended_by_timer: 100,
            intervals: every(10, 1, 99),
            ..counts("clock_nanosleep", ABSOLUTE, 100, 300)
        };
        let lock = SiteCounts { intervals: every(10, 1, 99), ..counts("futex", futex(64, 3), 100, 600) };
        let chosen = choose(&[lock.clone(), timer.clone()]).unwrap();
        assert_eq!(chosen.site, timer.site);
        assert_eq!((chosen.sureness, chosen.period), (Sureness::Sure, Some(Nanos(10 * MS))));
        // Without its timer it is the longest sleep, which is regular.
        let other = counts("read", None, 50, 100);
        let chosen = choose(&[other, lock.clone()]).unwrap();
        assert_eq!((chosen.site, chosen.sureness), (lock.site, Sureness::Likely));
    }

    #[test]
    fn irregular_waits_are_likely_by_their_share_of_the_sleep() {
        let socket = counts("epoll_wait", None, 40, 900);
        let lock = counts("futex", futex(64, 3), 400, 100);
        let chosen = choose(&[lock.clone(), socket.clone()]).unwrap();
        assert_eq!(
            (chosen.site, chosen.sureness, chosen.period),
            (socket.site.clone(), Sureness::Likely, None)
        );
        let lock = SiteCounts { slept: Nanos(700 * MS), ..lock };
        assert_eq!(choose(&[lock, socket]).unwrap().sureness, Sureness::Guess);
    }

    #[test]
    fn a_thread_that_hardly_waited_has_no_cycle() {
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[counts("read", None, 2, 100)]), None);
        assert_eq!(choose(&[counts("read", None, 3, 100)]).unwrap().sureness, Sureness::Sure);
    }

    #[test]
    fn a_call_that_the_user_names_is_sure_and_off_is_none() {
        let socket = counts("epoll_wait", None, 40, 100);
        let lock = counts("futex", futex(64, 3), 400, 900);
        let sites = [socket.clone(), lock.clone()];
        let named = CycleChoice::Call("epoll_wait".into()).among(&sites).unwrap();
        assert_eq!((named.site, named.sureness), (socket.site, Sureness::Sure));
        assert_eq!(CycleChoice::Call("read".into()).among(&sites), None);
        assert_eq!(CycleChoice::Off.among(&sites), None);
        assert_eq!(CycleChoice::Recognised.among(&sites).unwrap().site, lock.site);
    }

    #[test]
    fn the_owner_of_a_futex_tells_no_place_from_another() {
        assert_eq!(WaitSite::of_call("futex", futex(64, 3)), WaitSite::of_call("futex", futex(64, 4)));
        assert_ne!(WaitSite::of_call("futex", futex(64, 3)), WaitSite::of_call("futex", futex(72, 3)));
    }

    fn task(tid: i32) -> Task {
        Task { tid: Tid(tid), comm: format!("t{tid}").into(), ..Task::default() }
    }

    /// A loop on CPU 0: it sleeps until multiples of a period, computes, waits for a lock once, and computes again.
    fn periodic(jobs: &[(u64, u64)], period: u64, with_calls: bool) -> Vec<Event> {
        let mut events = Vec::new();
        let mut current = Tid(0);
        let mut push = |at: u64, kind: EventKind| {
            let next = match &kind {
                EventKind::Switch { next, .. } => next.tid,
                _ => current,
            };
            let by = Some(std::mem::replace(&mut current, next));
            events.push(Event { at: Nanos(at), cpu: Cpu(0), kind, current: by });
        };
        let blocked = |prev: i32, next: i32| EventKind::Switch {
            prev: task(prev),
            reason: SwitchReason::Blocked,
            next: task(next),
        };
        let call = |name: &str, object| EventKind::SystemCallEntry { call: name.into(), object };
        let mut now = 0;
        push(now, blocked(0, 1));
        for (index, (work, lock)) in jobs.iter().enumerate() {
            let due = (index as u64 + 1) * period;
            if with_calls {
                push(now + 1, call("clock_nanosleep", ABSOLUTE));
            }
            push(now + 2, blocked(1, 0));
            push(
                due,
                EventKind::HrtimerExpireEntry { timer: 1, soft_expires: Nanos(due), expires: Nanos(due) },
            );
            push(due + 1, EventKind::Waking { task: task(1) });
            push(due + 2, EventKind::HrtimerExpireExit { timer: 1 });
            push(due + 3, blocked(0, 1));
            if with_calls {
                push(due + 4, EventKind::SystemCallExit);
                push(due + 4 + work, call("futex", futex(64, 2)));
            }
            push(due + 5 + work, blocked(1, 2));
            push(due + 5 + work + lock, EventKind::Waking { task: task(1) });
            push(due + 6 + work + lock, blocked(2, 1));
            if with_calls {
                push(due + 7 + work + lock, EventKind::SystemCallExit);
            }
            now = due + 7 + work + lock;
        }
        if with_calls {
            push(now + 1, call("clock_nanosleep", ABSOLUTE));
        }
        push(now + 2, blocked(1, 0));
        push(
            now + 1000,
            EventKind::HrtimerExpireEntry {
                timer: 1,
                soft_expires: Nanos(now + 1000),
                expires: Nanos(now + 1000),
            },
        );
        push(now + 1001, EventKind::Waking { task: task(1) });
        push(now + 1003, blocked(0, 1));
        events
    }

    #[test]
    fn a_job_whose_end_may_have_been_unseen_is_none() {
        let of = |events: &[Event], site: &WaitSite| {
            let (mut waits, mut jobs) = (Waits::default(), Jobs::default());
            jobs.follow(Tid(1), site.clone());
            let waits = events.iter().filter_map(|event| waits.observe(event, |task| task.tid == Tid(1)));
            let jobs = waits.filter_map(|wait| jobs.observe(wait));
            jobs.map(|job| (job.requested_at, job.ended_at)).collect::<Vec<_>>()
        };
        let wakes =
            |event: &Event| matches!(&event.kind, EventKind::Switch { prev, .. } if prev.tid == Tid(0));
        // The third time, the switch from the idle task makes no event, but the thread is seen to run.
        let mut events = periodic(&[(100, 50); 6], 1000, true);
        let sleep = WaitSite::of_call("clock_nanosleep", ABSOLUTE);
        let whole = of(&events, &sleep);
        assert_eq!(whole.len(), 6);
        let third = (0..events.len()).filter(|&place| wakes(&events[place])).nth(3).unwrap();
        events.remove(third);
        assert_eq!(of(&events, &sleep), whole);
        // Nothing shows that it runs before it leaves the CPU again.
        let mut events = periodic(&[(100, 50); 6], 1000, false);
        events.iter_mut().for_each(|event| event.current = None);
        let by_timer = WaitSite { call: None, object: None, by_timer: Some(true) };
        let whole = of(&events, &by_timer);
        assert_eq!(whole.len(), 6);
        let third = (0..events.len()).filter(|&place| wakes(&events[place])).nth(3).unwrap();
        events.remove(third);
        let seen = of(&events, &by_timer);
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert!(seen.iter().all(|job| whole.contains(job)), "{seen:?}");
    }

    proptest! {
        #[test]
        fn jobs_of_a_loop_are_found_with_and_without_its_calls(
            jobs in prop::collection::vec((1u64..200, 1u64..200), 10..40), with_calls: bool,
        ) {
            let events = periodic(&jobs, 1000, with_calls);
            let watches = |task: &Task| task.tid == Tid(1);
            let (mut waits, mut counter) = (Waits::default(), SiteCounter::default());
            let all: Vec<Wait> = events.iter().filter_map(|event| waits.observe(event, watches)).collect();
            all.iter().for_each(|wait| counter.observe(wait));
            prop_assert_eq!(counter.threads(), vec![Tid(1)]);
            let cycle = choose(&counter.of(Tid(1))).unwrap();
            prop_assert_eq!(cycle.sureness, Sureness::Sure);
            prop_assert!(cycle.period.unwrap().0.abs_diff(1000) < 60, "{:?}", cycle);
            let mut found = Jobs::default();
            found.follow(Tid(1), cycle.site);
            let found: Vec<Activation> = all.into_iter().filter_map(|wait| found.observe(wait)).collect();
            prop_assert_eq!(found.len(), jobs.len());
            for (index, (job, (work, lock))) in found.iter().zip(&jobs).enumerate() {
                let due = (index as u64 + 1) * 1000;
                let ended = due + 7 + work + lock + if with_calls { 1 } else { 2 };
                prop_assert_eq!((job.requested_at.0, job.started_at.0), (due, due + 3));
                prop_assert_eq!(job.ended_at, Some(Nanos(ended)));
            }
        }
    }

    #[test]
    fn releases_without_a_job_are_missed_unless_later_jobs_make_up_for_them() {
        for (releases, missed) in [
            (&[1_000, 2_000, 3_000][..], 0),
            // Jitter of the release is none.
            (&[1_000, 2_400, 3_000, 4_490], 0),
            (&[1_000, 4_000, 5_000], 2),
            // All jobs are done, some of them late.
            (&[1_000, 4_400, 4_410, 4_420, 5_000], 0),
            (&[1_000, 4_400, 4_410, 5_000], 1),
            (&[5_000], 0),
            (&[1_000, 1_100, 1_200], 0),
        ] {
            let mut counted = MissedReleases::of(Nanos(1_000));
            releases.iter().for_each(|at| counted.observe(Nanos(*at)));
            assert_eq!(counted.count(), missed, "{releases:?}");
        }
    }

    #[test]
    fn a_call_that_returns_at_once_ends_a_job_all_the_same() {
        let event = |at, kind| Event { at: Nanos(at), cpu: Cpu(0), kind, current: Some(Tid(1)) };
        let sleep = || EventKind::SystemCallEntry { call: "clock_nanosleep".into(), object: ABSOLUTE };
        let switch = EventKind::Switch { prev: task(0), reason: SwitchReason::Blocked, next: task(1) };
        let events = [
            event(1, switch),
            event(10, sleep()),
            event(12, EventKind::SystemCallExit),
            event(50, sleep()),
            event(52, EventKind::SystemCallExit),
        ];
        let (mut waits, mut jobs) = (Waits::default(), Jobs::default());
        jobs.follow(Tid(1), WaitSite::of_call("clock_nanosleep", ABSOLUTE));
        let found: Vec<Activation> = events
            .iter()
            .filter_map(|event| waits.observe(event, |task| task.tid == Tid(1)))
            .filter_map(|wait| jobs.observe(wait))
            .collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].requested_at, found[0].started_at), (Nanos(10), Nanos(12)));
        assert_eq!(found[0].ended_at, Some(Nanos(50)));
    }

    #[test]
    fn after_lost_events_no_job_spans_the_gap() {
        let mut events = periodic(&[(10, 10); 12], 1000, true);
        let gap = events.iter().position(|event| event.at > Nanos(5500)).unwrap();
        events.insert(gap, Event::new(Nanos(5500), Cpu(0), EventKind::Lost { events: None }));
        let (mut waits, mut jobs) = (Waits::default(), Jobs::default());
        jobs.follow(Tid(1), WaitSite::of_call("clock_nanosleep", ABSOLUTE));
        let mut found = Vec::new();
        for event in &events {
            if matches!(event.kind, EventKind::Lost { .. }) {
                jobs.forget();
            }
            found.extend(waits.observe(event, |task| task.tid == Tid(1)).and_then(|wait| jobs.observe(wait)));
        }
        let over = |job: &&Activation| {
            job.requested_at < Nanos(5500) && job.ended_at.is_some_and(|ended| ended > Nanos(5500))
        };
        assert_eq!(found.iter().filter(over).count(), 0);
        assert!(found.len() >= 9, "{}", found.len());
    }
}
