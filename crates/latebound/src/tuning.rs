// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probe, attribution and policy kept in step, for the verbs of `tune`. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use latebound_model::{Completer, Object, Priority, RelationKind, Scheduling, WaitEvent};
use latebound_model::{Loss, LossKind, Nanos, Tid};
use latebound_probe::{RelationOptions, RelationProbe};
use latebound_system::undo::{Schedule, schedule_of};
use latebound_system::{LruPages, Root, Thread};
use latebound_tune::{Attribution, Config, Input, Member, PageShare, ThreadClass, Tuner};

use crate::helper::{self, Answer, Helper, Request};
use crate::prove_text::Shares;
use crate::tune_metrics::Metrics;

/// What is seen and what follows from it.
pub(crate) struct Tuning {
    pub(crate) probe: RelationProbe,
    pub(crate) attribution: Attribution,
    pub(crate) tuner: Tuner,
    root: Root,
    /// Whether it is seen how long threads were ready and did not run.
    timed: bool,
    /// Half of the hold.
    look: Nanos,
    /// Looks in a row that raised nobody.
    idle_looks: u32,
    /// By node.
    kswapd: BTreeMap<u64, Tid>,
    /// Which part of the pages belongs to the tasks that waited for reclaim; `None`: nobody did, or it cannot be known.
    share: Option<LruPages>,
    shares: Option<Shares>,
    /// By CPU.
    ktimers: BTreeMap<u64, Tid>,
    flushers: BTreeSet<Tid>,
    raised_elsewhere: BTreeSet<(RelationKind, u64, Tid)>,
    workers_elsewhere: BTreeSet<Tid>,
    /// Names of tasks and threads, kept because those that ended can no longer be asked.
    names: BTreeMap<Tid, String>,
    /// Who reads what is not urgent; `None`: it is read at once.
    helper: Option<Helper>,
    /// Tasks that it was asked for.
    asked: BTreeSet<Tid>,
    share_asked: bool,
    /// Whether the probe's word on what is urgent may be old.
    cover_due: bool,
    /// Whether the last step left something unread.
    cut: bool,
    /// Room for what a step reads, empty between two.
    read: Vec<WaitEvent>,
}

impl Shares {
    fn and(self, pages: Option<LruPages>) -> Shares {
        let Some(LruPages { of_tasks, all: all @ 1.. }) = pages else {
            return Shares { unknown: self.unknown + 1, ..self };
        };
        let share = (of_tasks as f64 / all as f64).min(1.0);
        Shares {
            measured: self.measured + 1,
            min: Some(self.min.map_or(share, |min| min.min(share))),
            most: Some(self.most.map_or(share, |most| most.max(share))),
            last: Some(share),
            ..self
        }
    }
}

/// Events that are taken between two pauses.
const AT_ONCE: usize = 8;
/// Names are kept of so many; of more, only those that are still there have one.
const MOST_NAMES: usize = 100_000;
/// A daemon may stay for months, with its memory locked: it keeps accounts of so many pairs of thread and task.
const MOST_SEEN: usize = 2048;

impl Tuning {
    /// Attaches the probe and takes all kernel threads in. For a daemon, which has somebody to read helper, the probe wakes it, and
    /// leaves out what a daemon does not ask for.
    pub(crate) fn start(config: Config, helper: Option<Helper>, now: Nanos) -> Result<Tuning> {
        let hold = config.limits.hold.0;
        let wake_reader = helper.is_some();
        // First, because it takes long; who comes later is taken in when met.
        let threads = latebound_system::threads(&Root::live()).context("cannot list the threads")?;
        if !threads.iter().any(|thread| thread.kernel) {
            bail!(
                "no kernel thread is to be seen here, as in a PID namespace (a container) of its own; run this where PID 2 is kthreadd"
            );
        }
        let serves_timers = |thread: &Thread| {
            ThreadClass::of(&thread.comm, thread.kernel, false) == Some(ThreadClass::Ktimers)
        };
        let no_sleeps = wake_reader && !threads.iter().any(serves_timers);
        let options = RelationOptions {
            wake_reader,
            hold,
            no_waits: wake_reader,
            no_sleeps,
            no_network: wake_reader,
            no_wake_ups: wake_reader && !config.learning.wake_ups,
            left_out: i32::try_from(std::process::id()).ok().map(Tid),
            measure_cost: false,
        };
        let probe = RelationProbe::start(options).context("cannot watch who waits for whom")?;
        let mut tuning = Tuning {
            look: Nanos((hold.0 / 2).max(1_000_000)),
            idle_looks: 0,
            timed: !wake_reader,
            probe,
            attribution: if wake_reader { Attribution::keeping(MOST_SEEN) } else { Attribution::default() },
            tuner: Tuner::new(config),
            root: Root::live(),
            kswapd: BTreeMap::new(),
            ktimers: BTreeMap::new(),
            share: None,
            shares: None,
            flushers: BTreeSet::new(),
            raised_elsewhere: BTreeSet::new(),
            workers_elsewhere: BTreeSet::new(),
            names: BTreeMap::new(),
            helper,
            asked: BTreeSet::new(),
            share_asked: false,
            cover_due: true,
            cut: false,
            read: Vec::new(),
        };
        for thread in threads {
            tuning.take_in(thread, now);
        }
        Ok(tuning)
    }

    /// Takes what began and ended since the last time. Returns when the first of the highest waits that it met began: of those that were
    /// urgent, where there are some. Those that were suppressed have been there unread, and raise nobody.
    ///
    /// Between any few events it calls `pause`.
    pub(crate) fn step(&mut self, now: Nanos, mut pause: impl FnMut()) -> Result<Option<Nanos>> {
        let mut seen = std::mem::take(&mut self.read);
        self.cut = self.probe.poll_waits(&mut seen, &mut pause)?;
        for some in seen.chunks(AT_ONCE) {
            self.observe(some, now);
            pause();
        }
        let began = |observation: &WaitEvent| match *observation {
            WaitEvent::Begin { at, object, priority, thread, dependency, .. } => {
                let (kind, of) = match (object.kind, thread) {
                    (RelationKind::WorkItem, thread) => (RelationKind::WorkItem, thread.map_or(0, number)),
                    (RelationKind::DirtyInode, Some(thread)) => (RelationKind::WorkItem, number(thread)),
                    (kind, _) => (kind, object.of),
                };
                let urgent = !self.probe.is_suppressed(kind, of, priority, dependency);
                Some(((urgent, priority), at))
            }
            // Whose item it is was told before.
            WaitEvent::RunBy { at, .. } => Some(((true, Priority::MIN), at)),
            _ => None,
        };
        let first_of_the_highest = seen.iter().filter_map(began).reduce(|one, other| match other.0 > one.0 {
            true => other,
            false => one,
        });
        let first = first_of_the_highest.map(|(_, at)| at);
        seen.clear();
        self.read = seen;
        Ok(first)
    }

    /// Whether the last step left something unread.
    pub(crate) fn left_some(&self) -> bool {
        self.cut
    }

    /// What is not urgent: takes what was only counted, gives up what never ended, asks which pages are whose.
    pub(crate) fn housekeeping(&mut self, now: Nanos) -> Result<()> {
        let counted = self.probe.poll_counts();
        self.observe(&counted, now);
        let forgotten = self.attribution.forgotten();
        for input in self.attribution.expire(now) {
            self.tuner.input(input, now);
        }
        if self.attribution.forgotten() > forgotten {
            self.forget_names();
        }
        self.take_answers(now);
        self.measure_share(now);
        if self.timed {
            self.watch_waits()?;
        }
        Ok(())
    }

    /// Of tasks that no account is kept of any more: who has such an id next may be another one.
    fn forget_names(&mut self) {
        let seen = self.attribution.seen();
        let shown: BTreeSet<Tid> = seen
            .flat_map(|(completer, task, _, _)| match completer {
                Completer::Thread(thread) => [task, thread],
                _ => [task, task],
            })
            .collect();
        let roster = self.tuner.roster();
        self.names.retain(|tid, _| shown.contains(tid) || roster.get(*tid).is_some());
    }

    fn observe(&mut self, seen: &[WaitEvent], now: Nanos) {
        for &observation in seen {
            self.meet(observation, now);
            // It may have been there unread for long.
            let at = observation.at().min(now);
            let (kswapd, ktimers) = (&self.kswapd, &self.ktimers);
            let served_by = |object: Object| match object.kind {
                RelationKind::Reclaim => kswapd.get(&object.id).copied(),
                RelationKind::TimedSleep => ktimers.get(&object.of).copied(),
                _ => None,
            };
            for input in self.attribution.observe(observation, served_by) {
                self.tuner.input(input, at);
            }
        }
    }

    /// Tells the probe for which threads tasks wait: what those wait for themselves, from now on, these tasks wait for too. Call it before the
    /// changes of a step: a worker that is raised may run at once.
    pub(crate) fn donate(&mut self) -> Result<()> {
        for (thread, class, highest) in self.tuner.take_lends() {
            if matches!(class, ThreadClass::Worker | ThreadClass::Flusher | ThreadClass::Kswapd) {
                self.probe.donate(thread, highest)?;
            }
        }
        Ok(())
    }

    /// Tells the probe which waits are not urgent. Call it after the changes of a step, and say which threads were changed. Returns whether to
    /// look again before sleeping: a wait may have begun since the step that was suppressed by a thread that is lower now, and woke nobody; or
    /// the step left some unread.
    pub(crate) fn suppress_wakeups(&mut self, changed: &[Tid]) -> Result<bool> {
        let mut fell = std::mem::take(&mut self.cut);
        if !std::mem::take(&mut self.cover_due) && changed.is_empty() {
            return Ok(fell && self.probe.has_unread());
        }
        let mut suppressed: Vec<(RelationKind, u64, Priority)> = Vec::new();
        for &thread in changed {
            fell |= self.cover_worker(thread)?;
        }
        // Who serves timers is known by its CPU, whoever else did so once.
        for (kind, device, threads) in
            self.attribution.completers().filter(|one| one.0 != RelationKind::TimedSleep)
        {
            let elsewhere = |&thread: &Tid| self.raised_elsewhere.contains(&(kind, device, thread));
            // Where interrupts alone serve it there is nobody to raise.
            if !threads.is_empty() && threads.iter().all(elsewhere) {
                fell |= self.probe.cover_elsewhere(kind, device)?;
            } else {
                suppressed.push((kind, device, self.tuner.suppression_level(&threads)));
            }
        }
        for &kswapd in self.kswapd.values() {
            suppressed.push((RelationKind::Reclaim, 0, self.tuner.suppression_level(&[kswapd])));
        }
        for (&cpu, &ktimers) in &self.ktimers {
            suppressed.push((RelationKind::TimedSleep, cpu, self.tuner.suppression_level(&[ktimers])));
        }
        for (kind, device, priority) in suppressed {
            fell |= self.probe.suppress_wakeups(kind, device, priority)?;
        }
        Ok(fell && self.probe.has_unread())
    }

    /// Who asks for an item of a worker that is raised already need not wake anybody.
    fn cover_worker(&mut self, thread: Tid) -> Result<bool> {
        let Some(member) = self.tuner.roster().get(thread) else { return Ok(false) };
        if !matches!(member.class, ThreadClass::Worker | ThreadClass::Flusher)
            || self.workers_elsewhere.contains(&thread)
        {
            return Ok(false);
        }
        let default = self.tuner.default_of(thread).map_or(0, Scheduling::rank);
        if member.scheduling.rank() <= default {
            return Ok(self.probe.uncover(RelationKind::WorkItem, number(thread)));
        }
        let (soft, hard) =
            (self.tuner.suppression_level(&[thread]), self.tuner.hard_suppression_level(thread));
        Ok(self.probe.cover_worker(thread, soft, hard)?)
    }

    /// Threads that somebody else raises at once where a wait for such a thing begins, and tells: the probe need not.
    pub(crate) fn raised_elsewhere(&mut self, servers: BTreeSet<(RelationKind, u64, Tid)>) {
        if self.raised_elsewhere != servers {
            self.raised_elsewhere = servers;
            self.cover_due = true;
        }
    }

    /// A worker that somebody else raises where it is woken for an item, and tells: the probe need not.
    pub(crate) fn worker_raised_elsewhere(&mut self, worker: Tid) -> Result<()> {
        self.workers_elsewhere.insert(worker);
        self.probe.cover_elsewhere(RelationKind::WorkItem, number(worker))?;
        Ok(())
    }

    /// No longer: the probe has to tell at once.
    pub(crate) fn worker_raised_here(&mut self, worker: Tid) {
        self.workers_elsewhere.remove(&worker);
        self.probe.uncover(RelationKind::WorkItem, number(worker));
    }

    /// Which threads serve which disks and nodes, as far as that is known.
    pub(crate) fn servers(&self) -> Vec<(RelationKind, u64, Tid)> {
        let disks = self.attribution.completers().filter(|one| one.0 == RelationKind::BlockIo);
        let disks = disks
            .flat_map(|(kind, disk, threads)| threads.into_iter().map(move |thread| (kind, disk, thread)));
        let nodes = self.kswapd.iter().map(|(&node, &thread)| (RelationKind::Reclaim, node, thread));
        disks.chain(nodes).collect()
    }

    /// Says whether the last look raised somebody for those that wait. Looks that did not become rarer, each half as often as the one
    /// before: all that can be late by that is that a thread falls back, or goes below its default.
    pub(crate) fn looked(&mut self, raised: bool) {
        self.idle_looks = if raised { 0 } else { (self.idle_looks + 1).min(16) };
    }

    /// How long at most until the next look: while somebody waits often enough that an end counts when it came, else until what
    /// is due.
    pub(crate) fn patience(&self, most: Nanos, now: Nanos) -> Nanos {
        let look = match self.tuner.relations().is_empty() {
            true => most,
            false => Nanos(self.look.0 << self.idle_looks).min(most),
        };
        self.tuner.next().map_or(look, |next| next.saturating_sub(now).min(look))
    }

    /// The name of a task or thread, as far as it is known.
    pub(crate) fn name(&self, tid: Tid) -> Option<&str> {
        self.names.get(&tid).map(String::as_str)
    }

    /// Takes in threads and names that are met for the first time.
    fn meet(&mut self, observation: WaitEvent, now: Nanos) {
        let (task, thread) = match observation {
            WaitEvent::Begin { task, thread, .. } => (Some(task), thread),
            WaitEvent::RunBy { worker, .. } => (None, Some(worker)),
            WaitEvent::Done { object, by: Completer::Thread(thread), .. } => {
                if object.kind == RelationKind::DirtyInode && self.flushers.insert(thread) {
                    // It is of another class now.
                    self.names.remove(&thread);
                }
                (None, Some(thread))
            }
            WaitEvent::Woke { by: Completer::Thread(thread), task, .. } => (Some(task), Some(thread)),
            WaitEvent::Woke { task, .. } => (Some(task), None),
            WaitEvent::Served { by: Completer::Thread(thread), task, .. } => (Some(task), Some(thread)),
            WaitEvent::Served { task, .. } => (Some(task), None),
            WaitEvent::Done { .. } | WaitEvent::Left { .. } | WaitEvent::GoesOn { .. } => (None, None),
        };
        // Another thread may serve now what only others did.
        self.cover_due |= matches!(observation, WaitEvent::Served { .. } | WaitEvent::Done { .. });
        for (tid, is_task) in task.map(|tid| (tid, true)).into_iter().chain(thread.map(|tid| (tid, false))) {
            if self.names.contains_key(&tid) {
                continue;
            }
            match &self.helper {
                // Of a task that waits only its name is wanted.
                Some(helper) if is_task => {
                    if !self.asked.contains(&tid) && helper.ask(Request::Thread(tid)) {
                        self.asked.insert(tid);
                    }
                }
                _ => {
                    if let Some(thread) = latebound_system::thread(&self.root, tid) {
                        self.take_in(thread, now);
                    }
                }
            }
        }
    }

    /// A thread ended: who has its id next is another one.
    pub(crate) fn gone(&mut self, tid: Tid, now: Nanos) {
        self.tuner.input(Input::Gone(tid), now);
        // It can only be gone already.
        let _ = self.probe.donate(tid, None);
        self.attribution.gone(tid);
        self.names.remove(&tid);
        self.flushers.remove(&tid);
        self.worker_raised_here(tid);
        self.cover_due = true;
    }

    /// Takes in what was read helper.
    fn take_answers(&mut self, now: Nanos) {
        while let Some(answer) = self.helper.as_ref().and_then(Helper::answer) {
            match answer {
                Answer::Thread(tid, thread) => {
                    self.asked.remove(&tid);
                    if let Some(thread) = thread {
                        self.take_in(thread, now);
                    }
                }
                Answer::Share(share) => {
                    self.share_asked = false;
                    self.share_is(share, now);
                }
            }
        }
    }

    /// Has this written helper. Returns whether there was room for it.
    pub(crate) fn publish(&self, metrics: Metrics) -> bool {
        self.helper.as_ref().is_some_and(|helper| helper.ask(Request::Metrics(Box::new(metrics))))
    }

    /// How often metrics could not be written.
    pub(crate) fn unpublished(&self) -> u64 {
        self.helper.as_ref().map_or(0, Helper::failed)
    }

    fn take_in(&mut self, thread: Thread, now: Nanos) {
        let Thread { tid, comm, kernel, .. } = thread;
        if self.names.len() < MOST_NAMES {
            self.names.insert(tid, comm.clone());
        }
        let writes_back = self.flushers.contains(&tid);
        let Some(class) = ThreadClass::of(&comm, kernel, writes_back) else { return };
        if class == ThreadClass::Kswapd
            && let Some(node) = comm.strip_prefix("kswapd").and_then(|node| node.parse().ok())
        {
            self.kswapd.insert(node, tid);
        }
        if class == ThreadClass::Ktimers
            && let Some(cpu) = comm.split_once('/').and_then(|(_, cpu)| cpu.parse().ok())
        {
            self.ktimers.insert(cpu, tid);
        }
        self.cover_due = true;
        if let Some(scheduling) = schedule_of(tid).ok().and_then(scheduling) {
            self.tuner.input(Input::Thread(tid, Member { comm, class, scheduling }), now);
        }
    }

    /// Equation (3): which share of the pages belongs to those that wait for reclaim, by the accounts of their memory cgroups. Where they
    /// have none it counts as all.
    fn measure_share(&mut self, now: Nanos) {
        let tasks: BTreeMap<Tid, Priority> = self
            .attribution
            .seen()
            .filter_map(|(_, task, kind, seen)| {
                (kind == RelationKind::Reclaim).then_some((task, seen.priority))
            })
            .chain(self.attribution.waiting(RelationKind::Reclaim))
            .collect();
        let Some(&lowest) = tasks.values().min() else { return };
        if self.share_asked {
            // Overdue: who keeps kswapd from running keeps who reads this from it as well. It is in the way of nobody above those
            // that wait.
            if let Some(helper) = &self.helper {
                helper.boost(lowest);
            }
            return;
        }
        let tasks = tasks.into_keys().collect();
        self.shares.get_or_insert_default().asked += 1;
        match &self.helper {
            Some(helper) => self.share_asked = helper.ask(Request::Share(tasks)),
            None => self.share_is(helper::share(&self.root, &tasks), now),
        }
    }

    fn share_is(&mut self, share: Option<Option<LruPages>>, now: Nanos) {
        let Some(share) = share else { return };
        self.share = share;
        self.shares = Some(self.shares.unwrap_or_default().and(share));
        let share = self.share.map_or(PageShare::ALL, |pages| PageShare::of(pages.of_tasks, pages.all));
        self.tuner.input(Input::PageShare(share), now);
    }

    /// What was lost so far.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let mut losses = self.probe.losses();
        let (relations, wakeups) = self.tuner.lost();
        for (count, what) in [(relations, "relations remembered"), (wakeups, "pairs learned from wake-ups")] {
            if count > 0 {
                losses.push(Loss { kind: LossKind::MapFull, place: what.to_owned(), count: Some(count) });
            }
        }
        losses
    }

    /// What part of the pages that the kernel may reclaim belongs to those that waited for it.
    pub(crate) fn share(&self) -> Option<LruPages> {
        self.share
    }

    /// What came of asking for that; `None`: nobody waited for reclaim.
    pub(crate) fn shares(&self) -> Option<Shares> {
        self.shares
    }

    /// Has the waits of those counted that somebody waits for now, against the highest that waits.
    fn watch_waits(&mut self) -> Result<()> {
        let mut highest: BTreeMap<Tid, u8> = BTreeMap::new();
        for (completer, _, _, seen) in self.attribution.seen() {
            if let Completer::Thread(thread) = completer {
                let waiting =
                    self.tuner.relations().waiters(thread).and_then(latebound_tune::Waiters::maximum);
                // Once seen it stays watched: the next wait may begin and end between two looks.
                let level = waiting.unwrap_or(seen.priority).get();
                highest.entry(thread).and_modify(|one| *one = level.max(*one)).or_insert(level);
            }
        }
        for (thread, highest) in highest {
            self.probe.watch(thread, highest)?;
        }
        Ok(())
    }
}

/// As the probe names a worker among devices.
fn number(tid: Tid) -> u64 {
    u64::from(tid.0.unsigned_abs())
}

/// The system's form of scheduling as the policy's.
pub(crate) fn scheduling(schedule: Schedule) -> Option<Scheduling> {
    let priority = match schedule.priority {
        0 => None,
        number => Some(Priority::new(u8::try_from(number).ok()?)?),
    };
    Some(Scheduling { policy: schedule.policy, priority, nice: i8::try_from(schedule.nice).ok()? })
}

/// The policy's form of scheduling as the system's; `None` for a reservation, which the policy never gives.
pub(crate) fn schedule(scheduling: Scheduling) -> Option<Schedule> {
    if scheduling.policy == latebound_model::Policy::Deadline {
        return None;
    }
    let priority = scheduling.priority.map_or(0, |priority| u32::from(priority.get()));
    Some(Schedule { policy: scheduling.policy, priority, ..Schedule::other(i32::from(scheduling.nice)) })
}
