// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a probe sees to relations: which kernel thread it is that a task waits for, where the event does not say.
//!
//! A request names its disk, not the thread that will complete it; a dirty inode its device, not the worker that will write
//! it back. So the threads that did so lately for the same device are taken. Work items name the worker that runs in the pool, if
//! one does, and surely the one that runs them. Owns that memory, and the account of who waited for whom.

use std::collections::BTreeMap;

use latebound_model::{Completer, Nanos, Tid, WaitEvent};

use crate::tuner::TunerInput;
use latebound_model::Dependency;
use latebound_model::Priority;
use latebound_model::{Object, Relation, RelationKind};

/// How often, and at which priority, a task waited for a thread (or was served by an interrupt or softirq).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitCount {
    /// How often.
    pub times: u64,
    /// How often of those it could not go on meanwhile.
    pub hard: u64,
    /// Its highest priority then.
    pub priority: Priority,
}

/// Who did such work for a device how often.
type Completers = BTreeMap<Completer, u64>;

/// The memory and the account.
#[derive(Clone, Debug)]
pub struct Attribution {
    /// Who completes requests of a device, or writes its inodes back.
    completers: BTreeMap<(RelationKind, u64), Completers>,
    /// What tasks wait for, with those that wait, oldest first.
    open: BTreeMap<Object, Open>,
    accounts: BTreeMap<(Completer, Tid, RelationKind), Account>,
    /// Accounts are kept of so many pairs; of more, those that were counted last.
    capacity: usize,
    /// How often something was counted.
    counted: u64,
    forgotten: u64,
    /// An object that was not done after this long is given up: a file that was removed is never written back.
    patience: Nanos,
    expired: u64,
    unpaired: u64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    count: WaitCount,
    /// Which count was its last.
    last: u64,
}

#[derive(Clone, Debug)]
struct Open {
    since: Nanos,
    waiting: Vec<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    task: Tid,
    priority: Priority,
    dependency: Dependency,
    /// Whether it waited for this before it was blocked on it.
    asked: bool,
    /// Of a work item, whose it is; of an inode, who was at work on its file system.
    thread: Option<Tid>,
}

impl Waiting {
    fn for_thread(self, thread: Tid, object: Object) -> TunerInput {
        let Waiting { task, priority, dependency, .. } = self;
        TunerInput::Begin(Relation { thread, object, task, priority, dependency, inherited: false })
    }
}

/// Twice the kernel's `dirty_expire_centisecs`, which is 30 s unless set.
const PATIENCE: Nanos = Nanos::from_secs(60);

/// More than anybody reads.
const MAX_ACCOUNTS: usize = 65_536;

impl Default for Attribution {
    fn default() -> Attribution {
        Attribution::keeping(MAX_ACCOUNTS)
    }
}

impl Attribution {
    /// With accounts of at most so many pairs of a completer and a task, by what the task waited for: tasks come and go, and a daemon runs for
    /// months.
    pub fn keeping(capacity: usize) -> Attribution {
        Attribution {
            completers: BTreeMap::new(),
            open: BTreeMap::new(),
            accounts: BTreeMap::new(),
            capacity,
            counted: 0,
            forgotten: 0,
            patience: PATIENCE,
            expired: 0,
            unpaired: 0,
        }
    }

    /// What one observation means. `served_by` gives the thread where there is but one that can do it: kswapd of a node, ktimers of a CPU.
    pub fn observe(
        &mut self,
        event: WaitEvent,
        served_by: impl Fn(Object) -> Option<Tid>,
    ) -> Vec<TunerInput> {
        match event {
            WaitEvent::Created { at, object, task, priority, thread } => {
                let waiting = Waiting {
                    task,
                    priority,
                    dependency: Dependency::Hard,
                    asked: false,
                    thread: Some(thread.tid),
                };
                self.open.insert(object, Open { since: at, waiting: vec![waiting] });
                vec![waiting.for_thread(thread.tid, object)]
            }
            WaitEvent::Begin { at, object, task, priority, thread, dependency } => {
                let open = self.open.entry(object).or_insert(Open { since: at, waiting: Vec::new() });
                let known = open.waiting.iter().position(|one| one.task == task);
                let before = known.and_then(|place| open.waiting[place].thread);
                // Who asked for an item may then be blocked until it is done: it waits for one thread, once.
                let asked =
                    dependency == Dependency::Soft || known.is_some_and(|place| open.waiting[place].asked);
                let waiting = Waiting { task, priority, dependency, asked, thread: thread.or(before) };
                match known {
                    Some(place) => open.waiting[place] = waiting,
                    None => open.waiting.push(waiting),
                }
                let moved =
                    object.kind == RelationKind::WorkItem && before.is_some() && before != waiting.thread;
                let threads: Vec<Tid> = match object.kind {
                    RelationKind::Reclaim | RelationKind::TimedSleep => {
                        served_by(object).into_iter().collect()
                    }
                    RelationKind::WorkItem => waiting.thread.into_iter().collect(),
                    kind => {
                        let mut threads = self.threads_of(kind, object.of);
                        threads.extend(waiting.thread.filter(|thread| !threads.contains(thread)));
                        threads
                    }
                };
                let left = moved.then_some(TunerInput::Left(object, task));
                left.into_iter()
                    .chain(threads.into_iter().map(|thread| waiting.for_thread(thread, object)))
                    .collect()
            }
            WaitEvent::RunBy { object, worker, .. } => {
                let Some(open) = self.open.get_mut(&object) else { return Vec::new() };
                if object.kind == RelationKind::DirtyInode {
                    // Others that wrote this file system back may go on with it.
                    self.completers
                        .entry((object.kind, object.of))
                        .or_default()
                        .entry(Completer::Thread(worker))
                        .or_default();
                    return open.waiting.iter().map(|one| one.for_thread(worker, object)).collect();
                }
                open.waiting.iter_mut().for_each(|one| one.thread = Some(worker));
                let begin = open.waiting.iter().map(|one| one.for_thread(worker, object));
                std::iter::once(TunerInput::Done(object)).chain(begin).collect()
            }
            WaitEvent::Done { object, by, .. } => {
                let Some(open) = self.open.remove(&object) else {
                    self.unpaired += 1;
                    return Vec::new();
                };
                if object.kind == RelationKind::DirtyInode {
                    *self.completers.entry((object.kind, object.of)).or_default().entry(by).or_default() += 1;
                }
                let by = match (object.kind, served_by(object)) {
                    (RelationKind::Reclaim, Some(thread)) => Completer::Thread(thread),
                    _ => by,
                };
                for one in &open.waiting {
                    self.count_wait(by, object, one);
                }
                vec![TunerInput::Done(object)]
            }
            WaitEvent::Left { object, task, .. } => self.left(object, task),
            WaitEvent::GoesOn { object, task, .. } => {
                let open = self.open.get_mut(&object);
                let waiting = open.and_then(|open| open.waiting.iter_mut().find(|one| one.task == task));
                let Some(waiting) = waiting else { return Vec::new() };
                let was = *waiting;
                waiting.dependency = Dependency::Soft;
                if let Some(thread) = was.thread {
                    self.count_wait(Completer::Thread(thread), object, &was);
                }
                if !was.asked {
                    return self.left(object, task);
                }
                let is = Waiting { dependency: Dependency::Soft, ..was };
                was.thread.map(|thread| is.for_thread(thread, object)).into_iter().collect()
            }
            WaitEvent::Served { object, by, task, priority, times, .. } => {
                let completers = self.completers.entry((object.kind, object.of)).or_default();
                let met = !completers.contains_key(&by);
                *completers.entry(by).or_default() += times;
                if times > 0 {
                    self.count(by, task, object.kind, priority, times);
                }
                if met { self.wait_also_for(by, object) } else { Vec::new() }
            }
            WaitEvent::Woke { by, task, priority, times, network, .. } => {
                let kind = if network { RelationKind::NetworkReceive } else { RelationKind::Wakeup };
                self.count(by, task, kind, priority, times);
                match by {
                    Completer::Thread(thread) => vec![TunerInput::Woke(thread, task, priority, times)],
                    _ => Vec::new(),
                }
            }
        }
    }

    /// Gives up what was not done for too long.
    pub fn expire(&mut self, now: Nanos) -> Vec<TunerInput> {
        let patience = self.patience;
        let old: Vec<Object> = self
            .open
            .iter()
            // A task may wait for a disk, or sleep by timers, without a pause; the probe knows when that is over.
            .filter(|(object, open)| {
                !matches!(object.kind, RelationKind::BlockIo | RelationKind::TimedSleep)
                    && now.saturating_sub(open.since) > patience
            })
            .map(|(&one, _)| one)
            .collect();
        self.expired += old.len() as u64;
        for object in &old {
            self.open.remove(object);
        }
        self.forget();
        old.into_iter().map(TunerInput::Done).collect()
    }

    /// Gives up the accounts of those that were not met for longest, down to half of what is kept.
    fn forget(&mut self) {
        if self.accounts.len() <= self.capacity {
            return;
        }
        let mut last: Vec<u64> = self.accounts.values().map(|one| one.last).collect();
        let over = last.len() - self.capacity / 2;
        let (_, &mut first_kept, _) = last.select_nth_unstable(over);
        self.accounts.retain(|_, one| one.last >= first_kept);
        self.forgotten += over as u64;
    }

    /// A thread is met that serves a disk: those that wait for it wait for this one too.
    fn wait_also_for(&self, by: Completer, object: Object) -> Vec<TunerInput> {
        let (Completer::Thread(thread), Some(open)) = (by, self.open.get(&object)) else { return Vec::new() };
        open.waiting.iter().map(|one| one.for_thread(thread, object)).collect()
    }

    /// The kernel threads that did such work for a device.
    pub fn completers(&self) -> impl Iterator<Item = (RelationKind, u64, Vec<Tid>)> + '_ {
        self.completers.iter().map(|(&(kind, device), _)| (kind, device, self.threads_of(kind, device)))
    }

    /// A kernel thread is gone: it does nothing for anybody any more.
    pub fn gone(&mut self, thread: Tid) {
        for completers in self.completers.values_mut() {
            completers.remove(&Completer::Thread(thread));
        }
    }

    /// Who waited for whom over what, how often.
    pub fn wait_counts(&self) -> impl Iterator<Item = (Completer, Tid, RelationKind, WaitCount)> + '_ {
        self.accounts.iter().map(|(&(completer, task, kind), one)| (completer, task, kind, one.count))
    }

    /// How many accounts were given up for others.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// What is waited for now: of which kind, since when, by how many.
    pub fn open(&self) -> BTreeMap<RelationKind, u64> {
        let mut open = BTreeMap::new();
        for (object, waiting) in &self.open {
            *open.entry(object.kind).or_default() += waiting.waiting.len() as u64;
        }
        open
    }

    /// Who waits now over something of this kind, and at which priority.
    pub fn waiting(&self, kind: RelationKind) -> impl Iterator<Item = (Tid, Priority)> + '_ {
        let open = self.open.iter().filter(move |(object, _)| object.kind == kind);
        open.flat_map(|(_, open)| open.waiting.iter().map(|one| (one.task, one.priority)))
    }

    /// How many objects were given up, and how many were done that nobody was known to wait for.
    pub fn lost(&self) -> (u64, u64) {
        (self.expired, self.unpaired)
    }

    fn threads_of(&self, kind: RelationKind, device: u64) -> Vec<Tid> {
        let completers = self.completers.get(&(kind, device));
        completers
            .into_iter()
            .flat_map(BTreeMap::keys)
            .filter_map(|completer| match completer {
                Completer::Thread(thread) => Some(*thread),
                _ => None,
            })
            .collect()
    }

    /// The task no longer waits for it.
    fn left(&mut self, object: Object, task: Tid) -> Vec<TunerInput> {
        let Some(open) = self.open.get_mut(&object) else { return Vec::new() };
        open.waiting.retain(|one| one.task != task);
        if open.waiting.is_empty() {
            self.open.remove(&object);
        }
        vec![TunerInput::Left(object, task)]
    }

    fn count_wait(&mut self, by: Completer, object: Object, one: &Waiting) {
        self.count(by, one.task, object.kind, one.priority, 1);
        if one.dependency == Dependency::Hard
            && let Some(account) = self.accounts.get_mut(&(by, one.task, object.kind))
        {
            account.count.hard += 1;
        }
    }

    fn count(&mut self, by: Completer, task: Tid, kind: RelationKind, priority: Priority, times: u64) {
        self.counted += 1;
        let fresh = Account { count: WaitCount { times: 0, hard: 0, priority }, last: 0 };
        let Account { count, last } = self.accounts.entry((by, task, kind)).or_insert(fresh);
        count.times += times;
        count.priority = count.priority.max(priority);
        *last = self.counted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: Tid = Tid(20);

    fn disk(device: u64) -> Object {
        Object { kind: RelationKind::BlockIo, of: device, id: 0 }
    }

    const AT: Nanos = Nanos::ZERO;

    fn object(kind: RelationKind, id: u64) -> Object {
        Object { kind, of: 5, id }
    }

    fn begin(object: Object, thread: Option<Tid>) -> WaitEvent {
        let dependency = Dependency::Soft;
        WaitEvent::Begin { at: AT, object, task: TASK, priority: Priority::MAX, thread, dependency }
    }

    fn blocked(object: Object, thread: Option<Tid>) -> WaitEvent {
        let dependency = Dependency::Hard;
        WaitEvent::Begin { at: AT, object, task: TASK, priority: Priority::MAX, thread, dependency }
    }

    fn goes_on(object: Object) -> WaitEvent {
        WaitEvent::GoesOn { at: AT, object, task: TASK }
    }

    fn threads(inputs: &[TunerInput]) -> Vec<i32> {
        let thread = |input: &TunerInput| match input {
            TunerInput::Begin(relation) => Some(relation.thread.0),
            _ => None,
        };
        inputs.iter().filter_map(thread).collect()
    }

    #[test]
    fn the_most_recent_accounts_are_kept_and_the_others_are_counted() {
        let mut attribution = Attribution::keeping(8);
        let irq = Completer::Thread(Tid(7));
        let mut woke = |task| {
            let (at, priority) = (AT, Priority::MAX);
            attribution.observe(
                WaitEvent::Woke { at, by: irq, task: Tid(task), priority, times: 1, network: false },
                |_| None,
            );
            attribution.expire(AT);
            let tasks: Vec<i32> = attribution.wait_counts().map(|(_, task, _, _)| task.0).collect();
            (tasks, attribution.forgotten())
        };
        for task in 101..108 {
            woke(task);
        }
        // The first of them comes again.
        assert_eq!(woke(101).1, 0);
        assert_eq!(woke(108), ((101..=108).collect(), 0));
        assert_eq!(woke(109), (vec![101, 107, 108, 109], 5));
    }

    #[test]
    fn a_request_waits_for_the_threads_that_completed_others_of_its_disk() {
        let mut attribution = Attribution::default();
        let served = |by, times| WaitEvent::Served {
            at: AT,
            object: disk(5),
            by,
            task: TASK,
            priority: Priority::MAX,
            times,
        };
        let left = WaitEvent::Left { at: AT, object: disk(5), task: TASK };
        assert_eq!(attribution.observe(begin(disk(5), None), |_| None), []);
        // The thread is met while the task waits, and is counted later.
        let irq = Completer::Thread(Tid(7));
        assert_eq!(threads(&attribution.observe(served(irq, 0), |_| None)), [7]);
        assert_eq!(attribution.observe(served(irq, 3), |_| None), []);
        assert_eq!(attribution.observe(served(Completer::Interrupt, 2), |_| None), []);
        // It is reported again with another priority, and still waits once.
        assert_eq!(threads(&attribution.observe(begin(disk(5), None), |_| None)), [7]);
        assert_eq!(attribution.open()[&RelationKind::BlockIo], 1);
        // Waits for disks are over when the probe says so, however long they last.
        assert_eq!(attribution.expire(PATIENCE + Nanos(1)), []);
        assert_eq!(attribution.observe(left, |_| None), [TunerInput::Left(disk(5), TASK)]);
        assert_eq!(attribution.observe(left, |_| None), []);
        attribution.gone(Tid(7));
        assert_eq!(attribution.observe(begin(disk(5), None), |_| None), []);
        let counts: Vec<_> =
            attribution.wait_counts().map(|(completer, _, _, count)| (completer, count.times)).collect();
        assert_eq!(counts, [(irq, 3), (Completer::Interrupt, 2)]);
    }

    #[test]
    fn a_work_item_waits_for_the_pools_worker_until_its_own_takes_it_up() {
        let mut attribution = Attribution::default();
        let item = object(RelationKind::WorkItem, 1);
        assert_eq!(threads(&attribution.observe(begin(item, Some(Tid(7))), |_| None)), [7]);
        let run = WaitEvent::RunBy { at: AT, object: item, worker: Tid(8) };
        let inputs = attribution.observe(run, |_| None);
        assert_eq!((&inputs[0], threads(&inputs)), (&TunerInput::Done(item), vec![8]));
        let done = WaitEvent::Done { at: AT, object: item, by: Completer::Thread(Tid(8)) };
        assert_eq!(attribution.observe(done, |_| None), [TunerInput::Done(item)]);
        assert_eq!(
            (attribution.observe(run, |_| None), attribution.observe(done, |_| None)),
            (vec![], vec![])
        );
        assert_eq!(attribution.lost(), (0, 1));
    }

    #[test]
    fn who_requests_an_item_and_is_blocked_on_it_waits_once_and_hard() {
        let mut attribution = Attribution::default();
        let mut relations = crate::relations::Relations::new(10);
        let item = object(RelationKind::WorkItem, 1);
        let mut waits = |observation| {
            for input in attribution.observe(observation, |_| None) {
                match input {
                    TunerInput::Begin(relation) => drop(relations.begin(relation)),
                    TunerInput::Left(object, task) => drop(relations.end_object_of(object, task)),
                    TunerInput::Done(object) => drop(relations.end_object(object)),
                    other => panic!("{other:?}"),
                }
            }
            let of = |thread| {
                let waiters = relations.waiters(Tid(thread))?;
                Some((waiters.number(), waiters.hard_maximum().is_some()))
            };
            (of(7), of(8))
        };
        let run = WaitEvent::RunBy { at: AT, object: item, worker: Tid(8) };
        assert_eq!(waits(begin(item, Some(Tid(7)))), (Some((1, false)), None));
        // Blocked it may not be known whose the item is, or another one may be.
        assert_eq!(waits(blocked(item, None)), (Some((1, true)), None));
        assert_eq!(waits(blocked(item, Some(Tid(8)))), (None, Some((1, true))));
        assert_eq!(waits(run), (None, Some((1, true))));
        assert_eq!(waits(WaitEvent::Left { at: AT, object: item, task: TASK }), (None, None));
        // Without having asked for it.
        assert_eq!(waits(blocked(item, None)), (None, None));
        assert_eq!(waits(run), (None, Some((1, true))));
        let done = WaitEvent::Done { at: AT, object: item, by: Completer::Thread(Tid(8)) };
        assert_eq!(waits(done), (None, None));
        let counts: Vec<_> =
            attribution.wait_counts().map(|(_, _, _, count)| (count.times, count.hard)).collect();
        assert_eq!(counts, [(1, 1)]);
    }

    #[test]
    fn a_task_that_is_blocked_no_longer_waits_for_the_item_as_it_did_before() {
        let item = object(RelationKind::WorkItem, 8);
        let dependency = |inputs: &[TunerInput]| match inputs {
            [TunerInput::Begin(relation)] => relation.dependency,
            other => panic!("{other:?}"),
        };
        let mut attribution = Attribution::default();
        let mut observe = |event| attribution.observe(event, |_| None);
        // It asked for the item before, is blocked twice, and still waits for its end.
        observe(begin(item, Some(Tid(7))));
        for _ in 0..2 {
            assert_eq!(dependency(&observe(blocked(item, Some(Tid(7))))), Dependency::Hard);
            assert_eq!(dependency(&observe(goes_on(item))), Dependency::Soft);
        }
        let done = WaitEvent::Done { at: AT, object: item, by: Completer::Thread(Tid(7)) };
        assert_eq!(observe(done), [TunerInput::Done(item)]);
        // It never asked for it.
        observe(blocked(item, Some(Tid(7))));
        assert_eq!(observe(goes_on(item)), [TunerInput::Left(item, TASK)]);
        assert_eq!(observe(goes_on(item)), []);
        let counts: Vec<_> =
            attribution.wait_counts().map(|(_, _, _, count)| (count.times, count.hard)).collect();
        assert_eq!((counts, attribution.lost()), (vec![(4, 3)], (0, 0)));
    }

    #[test]
    fn a_dirty_inode_waits_for_earlier_flushers_and_for_who_begins_its_own() {
        let mut attribution = Attribution::default();
        let inode = |id| object(RelationKind::DirtyInode, id);
        assert_eq!(attribution.observe(begin(inode(1), None), |_| None), []);
        let writes = |id, worker| WaitEvent::RunBy { at: AT, object: inode(id), worker: Tid(worker) };
        assert_eq!(threads(&attribution.observe(writes(1, 7), |_| None)), [7]);
        assert_eq!(threads(&attribution.observe(begin(inode(2), None), |_| None)), [7]);
        // Another one: the first may go on with it.
        let inputs = attribution.observe(writes(2, 8), |_| None);
        assert_eq!((threads(&inputs), inputs.len()), (vec![8], 1));
        assert_eq!(threads(&attribution.observe(begin(inode(3), None), |_| None)), [7, 8]);
        assert_eq!(attribution.observe(writes(4, 9), |_| None), [], "nobody waits for that one");
        // One is at work on the file system, and said so before somebody waited.
        assert_eq!(threads(&attribution.observe(begin(inode(5), Some(Tid(10))), |_| None)), [7, 8, 10]);
        assert_eq!(threads(&attribution.observe(begin(inode(6), Some(Tid(8))), |_| None)), [7, 8]);
    }

    #[test]
    fn reclaim_waits_for_the_nodes_kswapd() {
        let mut attribution = Attribution::default();
        let node = object(RelationKind::Reclaim, 3);
        let kswapd = |node: Object| (node.id == 3).then_some(Tid(45));
        assert_eq!(threads(&attribution.observe(begin(node, None), kswapd)), [45]);
        attribution.observe(WaitEvent::Done { at: AT, object: node, by: Completer::Task }, kswapd);
        assert_eq!(attribution.wait_counts().next().unwrap().0, Completer::Thread(Tid(45)));
    }

    #[test]
    fn a_sleep_waits_for_the_timers_thread_of_its_cpu() {
        let mut attribution = Attribution::default();
        let sleep = object(RelationKind::TimedSleep, 3);
        let ktimers = |sleep: Object| (sleep.of == 5).then_some(Tid(12));
        assert_eq!(threads(&attribution.observe(begin(sleep, None), ktimers)), [12]);
        assert_eq!(
            attribution.waiting(RelationKind::TimedSleep).collect::<Vec<_>>(),
            [(TASK, Priority::MAX)]
        );
        assert_eq!(attribution.waiting(RelationKind::Reclaim).count(), 0);
    }

    #[test]
    fn what_is_never_done_is_given_up_and_counted() {
        let mut attribution = Attribution::default();
        let inode = object(RelationKind::DirtyInode, 9);
        attribution.observe(begin(inode, None), |_| None);
        assert_eq!(attribution.expire(PATIENCE), []);
        assert_eq!(attribution.expire(PATIENCE + Nanos(1)), [TunerInput::Done(inode)]);
        assert_eq!((attribution.lost(), attribution.open().len()), ((1, 0), 0));
    }
}
