// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tuner between two polls: which waits are known, which thread inherits what, which wake-ups are suppressed, and when to poll again.
//!
//! Owns this state and the order inherit, change, suppress ([`Session::apply`]). The edges are traits ([`WaitSource`], [`Threads`], [`Helper`],
//! [`Actuator`]), so that a recorded sequence decides the same again. It never reads a clock, a file or the system.

mod boundary;
mod reclaim;

use std::collections::{BTreeMap, BTreeSet};

use latebound_model::{
    Completer, DonatedWaits, Loss, LossKind, Nanos, NewThread, Object, Priority, RelationKind, Scheduling,
};
use latebound_model::{Tid, WaitEvent};

use crate::attribution::Attribution;
use crate::class::ThreadClass;
use crate::config::Config;
use crate::policy::PageShare;
use crate::rules::Member;
use crate::tuner::{Change, Tuner, TunerInput};
use crate::waiters::Waiters;

pub use boundary::{Actuator, Answer, Helper, Request, ThreadName, Threads, WaitSource};
pub use reclaim::{PageShares, ReclaimPages, ReclaimShare};

/// Events that are taken between two pauses.
const EVENTS_PER_PAUSE: usize = 8;
/// The bound on kept names; of more threads and tasks, only those that still exist can be named.
const MAX_NAMES: usize = 100_000;
/// The bound on accounts of thread and task for a daemon, which may run for months with its memory locked.
const MAX_DAEMON_ACCOUNTS: usize = 2048;
/// The poll interval is doubled at most so often.
const MAX_IDLE_POLLS: u32 = 16;

/// What is known of the waits, and what follows from it. See the module for what it owns.
#[derive(Debug)]
pub struct Session<W, T, H> {
    source: W,
    threads: T,
    /// Reads what is not urgent; `None`: it is read at once.
    helper: Option<H>,
    attribution: Attribution,
    tuner: Tuner,
    /// Half of the hold.
    poll_interval: Nanos,
    /// Polls in a row that raised nobody.
    idle_polls: u32,
    /// By node.
    kswapd: BTreeMap<u64, Tid>,
    /// By CPU.
    ktimers: BTreeMap<u64, Tid>,
    /// The pages of the tasks that waited for reclaim; `None`: nobody did, or it cannot be known.
    reclaim_pages: Option<ReclaimPages>,
    page_shares: Option<PageShares>,
    share_requested: bool,
    flushers: BTreeSet<Tid>,
    raised_elsewhere: BTreeSet<(RelationKind, u64, Tid)>,
    workers_raised_elsewhere: BTreeSet<Tid>,
    /// Threads that were taken in while they were created. Each is let go once nobody waits for it and it is as it was: it is taken in anew
    /// as what it became.
    created: BTreeSet<Tid>,
    /// Of those, what the actuator was not told yet.
    unopened: Vec<NewThread>,
    /// Those that were let go, and the actuator was not told.
    let_go: Vec<Tid>,
    /// Names of tasks and threads, kept because those that ended can no longer be asked.
    names: BTreeMap<Tid, String>,
    /// Tasks whose name the helper was asked for.
    requested_names: BTreeSet<Tid>,
    /// Whether the suppression levels of the source may be out of date.
    suppression_due: bool,
    /// Whether the last poll left events unread.
    unread: bool,
    /// Room for what a poll reads, empty between two.
    events: Vec<WaitEvent>,
}

impl<W: WaitSource, T: Threads, H: Helper> Session<W, T, H> {
    /// With no thread known yet: [`Session::add_thread`] takes them in. With a helper it is a daemon's: accounts are bounded for a long life,
    /// and the waits of kernel threads are not timed.
    pub fn new(config: Config, source: W, threads: T, helper: Option<H>) -> Session<W, T, H> {
        let hold = config.limits.hold.0;
        let attribution = match helper {
            Some(_) => Attribution::keeping(MAX_DAEMON_ACCOUNTS),
            None => Attribution::default(),
        };
        Session {
            source,
            threads,
            helper,
            attribution,
            tuner: Tuner::new(config),
            poll_interval: Nanos((hold.0 / 2).max(1_000_000)),
            idle_polls: 0,
            kswapd: BTreeMap::new(),
            ktimers: BTreeMap::new(),
            reclaim_pages: None,
            page_shares: None,
            share_requested: false,
            flushers: BTreeSet::new(),
            raised_elsewhere: BTreeSet::new(),
            workers_raised_elsewhere: BTreeSet::new(),
            created: BTreeSet::new(),
            unopened: Vec::new(),
            let_go: Vec::new(),
            names: BTreeMap::new(),
            requested_names: BTreeSet::new(),
            suppression_due: true,
            unread: false,
            events: Vec::new(),
        }
    }

    /// Where its waits come from.
    pub fn source(&self) -> &W {
        &self.source
    }

    /// Who reads what is not urgent.
    pub fn helper(&self) -> Option<&H> {
        self.helper.as_ref()
    }

    /// The policy with its relations and threads.
    pub fn tuner(&self) -> &Tuner {
        &self.tuner
    }

    /// The account of who waited for whom.
    pub fn attribution(&self) -> &Attribution {
        &self.attribution
    }

    /// The name of a task or thread, as far as it is known.
    pub fn name(&self, tid: Tid) -> Option<&str> {
        self.names.get(&tid).map(String::as_str)
    }

    /// The pages that the kernel may reclaim, and how many belong to the tasks that waited for that.
    pub fn reclaim_pages(&self) -> Option<ReclaimPages> {
        self.reclaim_pages
    }

    /// What the requests for these pages gave; `None`: nobody waited for reclaim.
    pub fn page_shares(&self) -> Option<PageShares> {
        self.page_shares
    }

    /// What was lost so far, by the source and here.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = self.source.losses();
        let (relations, wakeups) = self.tuner.lost();
        for (count, what) in [(relations, "relations remembered"), (wakeups, "pairs learned from wake-ups")] {
            if count > 0 {
                losses.push(Loss { kind: LossKind::MapFull, place: what.to_owned(), count: Some(count) });
            }
        }
        losses
    }

    /// Takes in the events since the last poll. Returns the start time of the first wait of the highest priority, urgent waits preferred:
    /// those whose wake-up was suppressed have been there unread, and raise nobody.
    ///
    /// Between any few events it calls `pause`.
    pub fn poll(&mut self, now: Nanos, mut pause: impl FnMut()) -> Result<Option<Nanos>, W::Error> {
        let mut events = std::mem::take(&mut self.events);
        self.unread = self.source.poll_waits(&mut events, &mut pause)?;
        for some in events.chunks(EVENTS_PER_PAUSE) {
            self.observe(some, now);
            pause();
        }
        let first_of_the_highest =
            events.iter().filter_map(|event| self.urgency(event)).reduce(|one, other| {
                match other.0 > one.0 {
                    true => other,
                    false => one,
                }
            });
        events.clear();
        self.events = events;
        Ok(first_of_the_highest.map(|(_, at)| at))
    }

    /// Whether a wait that begins is urgent, its priority, and when it began.
    fn urgency(&self, event: &WaitEvent) -> Option<((bool, Priority), Nanos)> {
        match *event {
            WaitEvent::Begin { at, object, priority, thread, dependency, .. } => {
                let (kind, of) = match (object.kind, thread) {
                    (RelationKind::WorkItem, thread) => (RelationKind::WorkItem, thread.map_or(0, worker_id)),
                    (
                        RelationKind::DirtyInode | RelationKind::JournalCommit | RelationKind::ThreadCreation,
                        Some(thread),
                    ) => (RelationKind::WorkItem, worker_id(thread)),
                    (kind, _) => (kind, object.of),
                };
                let urgent = !self.source.is_suppressed(kind, of, priority, dependency);
                Some(((urgent, priority), at))
            }
            WaitEvent::Created { at, priority, .. } => Some(((true, priority), at)),
            // The priority of its task came with an earlier event.
            WaitEvent::RunBy { at, .. } => Some(((true, Priority::MIN), at)),
            _ => None,
        }
    }

    /// Whether the last poll left events unread.
    pub fn has_unread(&self) -> bool {
        self.unread
    }

    /// Makes the changes that follow from what is known, in this order: threads inherit the priorities of their waiters, because one that is
    /// raised may run and wait at once; the actuator makes the changes; wake-ups that can no longer change anything are suppressed.
    ///
    /// `raised_elsewhere`: somebody else raised threads since the last poll. Returns whether to poll again before sleeping.
    pub fn apply(
        &mut self,
        now: Nanos,
        raised_elsewhere: bool,
        actuator: &mut impl Actuator,
    ) -> Result<bool, W::Error> {
        for thread in std::mem::take(&mut self.unopened) {
            actuator.created(&thread);
        }
        let mut changes = self.tuner.changes(now);
        changes.retain(|change| self.is_own(change, now));
        self.donate()?;
        let mut errors: Vec<Option<String>> = Vec::with_capacity(changes.len());
        for change in &changes {
            errors.push(actuator.change(change).err());
        }
        let raises =
            changes.iter().zip(&errors).filter(|(change, error)| error.is_none() && self.is_raise(change));
        let raises = raises.count() as u64;
        actuator.changed(raises);
        self.count_poll(raises > 0 || raised_elsewhere);
        let changed: Vec<Tid> = changes.iter().map(|change| change.thread).collect();
        for (change, error) in changes.into_iter().zip(errors) {
            if error.is_some() {
                match self.threads.scheduling(change.thread) {
                    Some(is) => self.tuner.is(change.thread, is),
                    None => {
                        let is_raise = self.is_raise(&change);
                        self.gone(change.thread, now);
                        // A thread that ended has nothing to give back.
                        if !is_raise {
                            continue;
                        }
                    }
                }
            }
            let name = self.names.get(&change.thread).map(String::as_str);
            actuator.report(&change, name, error);
        }
        self.let_go(now);
        self.let_go.drain(..).for_each(|thread| actuator.let_go(thread));
        self.suppress_wakeups(&changed)
    }

    /// Whether this is still the tuner's to change. A thread that was created begins with what it is to do once its creator went on, and may give
    /// itself a policy, as interrupt threads do: that is not what the tuner gave it, and stays.
    fn is_own(&mut self, change: &Change, now: Nanos) -> bool {
        let is_own = !self.created.contains(&change.thread)
            || self.threads.scheduling(change.thread) == Some(change.from);
        if !is_own {
            self.gone(change.thread, now);
        }
        is_own
    }

    /// Gives up the threads that were created and have back what they had.
    fn let_go(&mut self, now: Nanos) {
        let is_over = |&thread: &Tid| {
            let is = self.tuner.roster().get(thread).map(|member| member.scheduling);
            self.tuner.relations().waiters(thread).is_none() && is == self.tuner.default_of(thread)
        };
        let over: Vec<Tid> = self.created.iter().copied().filter(is_over).collect();
        for thread in over {
            self.gone(thread, now);
        }
    }

    /// Whether it answers a wait: a thread that was below its default and has it again does not.
    fn is_raise(&self, change: &Change) -> bool {
        let default = self.tuner.default_of(change.thread).map_or(0, Scheduling::rank);
        change.to.rank() > change.from.rank().max(default)
    }

    /// Has the source donate to each thread the priority of the tasks that wait for it: what the thread waits for itself, from now on, these
    /// tasks wait for too. [`Session::apply`] does it before its changes; who makes none calls it after each poll.
    pub fn donate(&mut self) -> Result<(), W::Error> {
        for (thread, class, highest) in self.tuner.take_donations() {
            use ThreadClass::{Flusher, Interrupt, Journal, Kswapd, Worker};
            match class {
                Worker | Flusher | Kswapd | Journal => {
                    self.source.donate(thread, highest, DonatedWaits::All)?;
                }
                // It serves whoever asks, and waits for nobody; but a worker makes the next step of what it serves.
                Interrupt => self.source.donate(thread, highest, DonatedWaits::QueuedItems)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Tells the source which waits wake nobody, after these threads were changed. Returns whether to poll again before sleeping: a wait may
    /// have begun since the poll that was suppressed by a thread that is lower now, and woke nobody; or the poll left events unread.
    fn suppress_wakeups(&mut self, changed: &[Tid]) -> Result<bool, W::Error> {
        let mut fell = std::mem::take(&mut self.unread);
        if !std::mem::take(&mut self.suppression_due) && changed.is_empty() {
            return Ok(fell && self.source.has_unread());
        }
        let mut levels: Vec<(RelationKind, u64, Priority)> = Vec::new();
        for &thread in changed {
            fell |= self.suppress_worker(thread)?;
        }
        // Which thread serves timers is known by its CPU, whichever did so once.
        for (kind, device, threads) in
            self.attribution.completers().filter(|one| one.0 != RelationKind::TimedSleep)
        {
            let elsewhere = |&thread: &Tid| self.raised_elsewhere.contains(&(kind, device, thread));
            // Where interrupts alone serve it there is nobody to raise.
            if !threads.is_empty() && threads.iter().all(elsewhere) {
                fell |= self.source.suppress_elsewhere(kind, device)?;
            } else {
                levels.push((kind, device, self.tuner.suppression_level(&threads)));
            }
        }
        for &kswapd in self.kswapd.values() {
            levels.push((RelationKind::Reclaim, 0, self.tuner.suppression_level(&[kswapd])));
        }
        for (&cpu, &ktimers) in &self.ktimers {
            levels.push((RelationKind::TimedSleep, cpu, self.tuner.suppression_level(&[ktimers])));
        }
        for (kind, device, priority) in levels {
            fell |= self.source.suppress_wakeups(kind, device, priority)?;
        }
        Ok(fell && self.source.has_unread())
    }

    /// A task that asks for an item of a worker that is raised already need not wake the tuner. Returns whether the level fell.
    fn suppress_worker(&mut self, thread: Tid) -> Result<bool, W::Error> {
        let Some(member) = self.tuner.roster().get(thread) else { return Ok(false) };
        use ThreadClass::{Flusher, Journal, Kthreadd, Worker};
        if !matches!(member.class, Worker | Flusher | Journal | Kthreadd)
            || self.workers_raised_elsewhere.contains(&thread)
            // It is waited for once.
            || self.created.contains(&thread)
        {
            return Ok(false);
        }
        let default = self.tuner.default_of(thread).map_or(0, Scheduling::rank);
        if member.scheduling.rank() <= default {
            return Ok(self.source.unsuppress(RelationKind::WorkItem, worker_id(thread)));
        }
        let (soft, hard) =
            (self.tuner.suppression_level(&[thread]), self.tuner.hard_suppression_level(thread));
        self.source.suppress_worker(thread, soft, hard)
    }

    /// Counts a poll: polls that raised nobody become rarer, each half as often as the one before. All that can be late by that is that a
    /// thread falls back, or goes below its default.
    fn count_poll(&mut self, raised: bool) {
        self.idle_polls = if raised { 0 } else { (self.idle_polls + 1).min(MAX_IDLE_POLLS) };
    }

    /// How long to sleep at most until the next poll: while tasks wait, often enough that an end counts when it came, else until what is
    /// due.
    pub fn timeout(&self, max: Nanos, now: Nanos) -> Nanos {
        let poll = match self.tuner.relations().is_empty() {
            true => max,
            false => Nanos(self.poll_interval.0 << self.idle_polls).min(max),
        };
        self.tuner.next().map_or(poll, |next| next.saturating_sub(now).min(poll))
    }

    /// What is not urgent: takes in counts, gives up what never ended, takes the helper's answers, asks for the share of pages.
    pub fn housekeeping(&mut self, now: Nanos) -> Result<(), W::Error> {
        let counted = self.source.poll_counts();
        self.observe(&counted, now);
        let forgotten = self.attribution.forgotten();
        for input in self.attribution.expire(now) {
            self.tuner.input(input, now);
        }
        if self.attribution.forgotten() > forgotten {
            self.forget_names();
        }
        self.take_answers(now);
        self.request_share(now);
        if self.helper.is_none() {
            self.watch_waits()?;
            // Nobody applies anything.
            self.let_go(now);
            self.unopened.clear();
            self.let_go.clear();
        }
        Ok(())
    }

    /// Of tasks that have no account any more: who has such an id next may be another one.
    fn forget_names(&mut self) {
        let counts = self.attribution.wait_counts();
        let shown: BTreeSet<Tid> = counts
            .flat_map(|(completer, task, _, _)| match completer {
                Completer::Thread(thread) => [task, thread],
                _ => [task, task],
            })
            .collect();
        let roster = self.tuner.roster();
        self.names.retain(|tid, _| shown.contains(tid) || roster.get(*tid).is_some());
    }

    fn observe(&mut self, events: &[WaitEvent], now: Nanos) {
        for &event in events {
            self.learn_names(event, now);
            // It may have been there unread for long.
            let at = event.at().min(now);
            let (kswapd, ktimers) = (&self.kswapd, &self.ktimers);
            let served_by = |object: Object| match object.kind {
                RelationKind::Reclaim => kswapd.get(&object.id).copied(),
                RelationKind::TimedSleep => ktimers.get(&object.of).copied(),
                _ => None,
            };
            for input in self.attribution.observe(event, served_by) {
                self.tuner.input(input, at);
            }
        }
    }

    /// Takes in threads and names that are met for the first time.
    fn learn_names(&mut self, event: WaitEvent, now: Nanos) {
        let (task, thread) = match event {
            WaitEvent::Begin { task, thread, .. } => (Some(task), thread),
            WaitEvent::Created { task, thread, .. } => {
                self.add_created(thread, now);
                (Some(task), None)
            }
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
        self.suppression_due |= matches!(event, WaitEvent::Served { .. } | WaitEvent::Done { .. });
        for (tid, is_task) in task.map(|tid| (tid, true)).into_iter().chain(thread.map(|tid| (tid, false))) {
            if self.names.contains_key(&tid) {
                continue;
            }
            match &self.helper {
                // Of a task that waits only its name is wanted.
                Some(helper) if is_task => {
                    if !self.requested_names.contains(&tid) && helper.request(Request::Name(tid)) {
                        self.requested_names.insert(tid);
                    }
                }
                _ => {
                    if let Some(thread) = self.threads.thread(tid) {
                        self.add_thread(thread, now);
                    }
                }
            }
        }
    }

    /// Takes in a thread that exists, or its new name or class.
    pub fn add_thread(&mut self, thread: ThreadName, now: Nanos) {
        let ThreadName { tid, comm, kernel } = thread;
        if self.names.len() < MAX_NAMES {
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
        self.suppression_due = true;
        if let Some(scheduling) = self.threads.scheduling(tid) {
            self.tuner.input(TunerInput::Thread(tid, Member { comm, class, scheduling }), now);
        }
    }

    /// Takes in a thread that is being created, by what the kernel says of it: it has to be raised before it runs, and so reads no file.
    fn add_created(&mut self, thread: NewThread, now: Nanos) {
        let NewThread { tid, scheduling, .. } = thread;
        if self.names.contains_key(&tid) {
            self.gone(tid, now);
        }
        let comm = thread.name();
        if self.names.len() < MAX_NAMES {
            self.names.insert(tid, comm.clone());
        }
        self.created.insert(tid);
        self.unopened.push(thread);
        let member = Member { comm, class: ThreadClass::Kthreadd, scheduling };
        self.tuner.input(TunerInput::Thread(tid, member), now);
    }

    /// A thread ended: who has its id next is another one.
    pub fn gone(&mut self, tid: Tid, now: Nanos) {
        self.tuner.input(TunerInput::Gone(tid), now);
        // It can only be gone already.
        let _ = self.source.donate(tid, None, DonatedWaits::All);
        self.attribution.gone(tid);
        self.names.remove(&tid);
        if self.created.remove(&tid) {
            self.let_go.push(tid);
        }
        self.flushers.remove(&tid);
        self.worker_raised_here(tid);
        self.suppression_due = true;
    }

    /// Threads that somebody else raises at once where a wait for such a device or node begins, and reports: the source need not.
    pub fn raised_elsewhere(&mut self, servers: BTreeSet<(RelationKind, u64, Tid)>) {
        if self.raised_elsewhere != servers {
            self.raised_elsewhere = servers;
            self.suppression_due = true;
        }
    }

    /// A worker that somebody else raises where it is woken for an item, and reports: the source need not.
    pub fn worker_raised_elsewhere(&mut self, worker: Tid) -> Result<(), W::Error> {
        self.workers_raised_elsewhere.insert(worker);
        self.source.suppress_elsewhere(RelationKind::WorkItem, worker_id(worker))?;
        Ok(())
    }

    /// Nobody else raises it any more: each wait for it wakes the tuner.
    pub fn worker_raised_here(&mut self, worker: Tid) {
        self.workers_raised_elsewhere.remove(&worker);
        self.source.unsuppress(RelationKind::WorkItem, worker_id(worker));
    }

    /// Somebody else changed this thread by a table of [`crate::Ahead`]: it is decided upon again from what it is now.
    pub fn changed_elsewhere(&mut self, thread: Tid, now: Nanos) {
        match self.threads.scheduling(thread) {
            Some(is) => self.tuner.changed(thread, is, now),
            None => self.gone(thread, now),
        }
    }

    /// See [`Tuner::take_decided`].
    pub fn take_decided(&mut self) -> BTreeSet<Tid> {
        self.tuner.take_decided()
    }

    /// Which threads serve which disks and nodes, as far as that is known.
    pub fn servers(&self) -> Vec<(RelationKind, u64, Tid)> {
        let disks = self.attribution.completers().filter(|one| one.0 == RelationKind::BlockIo);
        let disks = disks
            .flat_map(|(kind, disk, threads)| threads.into_iter().map(move |thread| (kind, disk, thread)));
        let nodes = self.kswapd.iter().map(|(&node, &thread)| (RelationKind::Reclaim, node, thread));
        disks.chain(nodes).collect()
    }

    /// Takes in what the helper read.
    fn take_answers(&mut self, now: Nanos) {
        while let Some(answer) = self.helper.as_ref().and_then(Helper::answer) {
            match answer {
                Answer::Name(tid, thread) => {
                    self.requested_names.remove(&tid);
                    if let Some(thread) = thread {
                        self.add_thread(thread, now);
                    }
                }
                Answer::Share(share) => {
                    self.share_requested = false;
                    self.share_is(share, now);
                }
            }
        }
    }

    /// Equation (3): which share of the pages belongs to the tasks that wait for reclaim, by the accounts of their memory cgroups. Where they
    /// have none it counts as all.
    fn request_share(&mut self, now: Nanos) {
        let tasks: BTreeMap<Tid, Priority> = self
            .attribution
            .wait_counts()
            .filter_map(|(_, task, kind, count)| {
                (kind == RelationKind::Reclaim).then_some((task, count.priority))
            })
            .chain(self.attribution.waiting(RelationKind::Reclaim))
            .collect();
        let Some(&lowest) = tasks.values().min() else { return };
        if self.share_requested {
            // Overdue: what keeps kswapd from running keeps the helper from it as well. Boosted, it is in the way of nobody above those that
            // wait.
            if let Some(helper) = &self.helper {
                helper.boost(lowest);
            }
            return;
        }
        let tasks = tasks.into_keys().collect();
        self.page_shares.get_or_insert_default().asked += 1;
        match &self.helper {
            Some(helper) => self.share_requested = helper.request(Request::Share(tasks)),
            None => self.share_is(self.threads.reclaim_share(&tasks), now),
        }
    }

    fn share_is(&mut self, share: ReclaimShare, now: Nanos) {
        let pages = match share {
            ReclaimShare::TasksEnded => return,
            ReclaimShare::Unknown => None,
            ReclaimShare::Pages(pages) => Some(pages),
        };
        self.reclaim_pages = pages;
        self.page_shares = Some(self.page_shares.unwrap_or_default().and(pages));
        let share = pages.map_or(PageShare::ALL, |pages| PageShare::of(pages.of_tasks, pages.all));
        self.tuner.input(TunerInput::PageShare(share), now);
    }

    /// Has the waits of those threads counted that tasks wait for, against the highest that waits.
    fn watch_waits(&mut self) -> Result<(), W::Error> {
        let mut highest: BTreeMap<Tid, u8> = BTreeMap::new();
        for (completer, _, _, count) in self.attribution.wait_counts() {
            if let Completer::Thread(thread) = completer {
                let waiting = self.tuner.relations().waiters(thread).and_then(Waiters::maximum);
                // Once met it stays watched: the next wait may begin and end between two polls.
                let level = waiting.unwrap_or(count.priority).get();
                highest.entry(thread).and_modify(|one| *one = level.max(*one)).or_insert(level);
            }
        }
        for (thread, highest) in highest {
            self.source.watch(thread, highest)?;
        }
        Ok(())
    }
}

/// The id of a worker where a source expects that of a device: items of one worker belong together.
pub fn worker_id(worker: Tid) -> u64 {
    u64::from(worker.0.unsigned_abs())
}
