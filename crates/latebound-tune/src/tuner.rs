// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what happens to what to change: relations, equations, ceilings, rules and pace put together. Owns their order;
//! each part is elsewhere. Decides on given inputs and times only, so that a recorded sequence decides the same again.

use std::collections::{BTreeMap, BTreeSet};

use latebound_model::{Nanos, Tid};

use crate::class::ThreadClass;
use crate::config::Config;
use crate::edges::Edges;
use crate::governor::{Governor, Pace};
use crate::policy::{self, PageShare, PolicyKind};
use crate::relations::Relations;
use crate::rules::{self, Member, Roster, Violation};
use crate::waiters::Waiters;
use latebound_model::Dependency;
use latebound_model::{Object, Relation, RelationKind};
use latebound_model::{Priority, Scheduling};

/// Something that was observed.
#[derive(Clone, Debug, PartialEq)]
pub enum TunerInput {
    /// A kernel thread is there, scheduled so. What it is at first is its default.
    Thread(Tid, Member),
    /// A thread or task is gone.
    Gone(Tid),
    /// A task begins to wait.
    Begin(Relation),
    /// An object is done: nobody waits for it any more.
    Done(Object),
    /// A task no longer waits for an object, whichever threads stood between, and did not for the whole hold.
    Left(Object, Tid),
    /// A task's real-time priority is another; `None`: it is no real-time task any more.
    TaskPriority(Tid, Option<Priority>),
    /// A kernel thread woke a task of this priority so often.
    Woke(Tid, Tid, Priority, u64),
    /// The share of the LRU pages that belong to real-time tasks.
    PageShare(PageShare),
}

/// One change to make, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The thread.
    pub thread: Tid,
    /// What it is scheduled as.
    pub from: Scheduling,
    /// What it is to be.
    pub to: Scheduling,
    /// How many relations stand behind it.
    pub waiters: u64,
    /// The highest that waits.
    pub highest: Option<Priority>,
}

/// A change that was wanted and is not made as wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldChange {
    /// The thread.
    pub thread: Tid,
    /// What the policy wanted.
    pub wanted: Scheduling,
    /// What it got instead; `None`: it stays as it is.
    pub instead: Option<Scheduling>,
    /// Why.
    pub violation: Violation,
}

/// What the policy says of one thread now.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What it was at first.
    pub default: Scheduling,
    /// What the equation gives.
    pub by_policy: Scheduling,
    /// What it may be: by the ceiling of its class and by the rules; `None`: it stays as it is.
    pub permitted: Option<Scheduling>,
    /// The rules that stood against it.
    pub violations: Vec<Violation>,
}

/// What the policy says, as far as one thread alone is concerned.
struct Asked {
    default: Scheduling,
    by_policy: Scheduling,
    /// By the ceiling of its class, and by its default where it may not be below.
    permitted: Scheduling,
}

/// What is waited for over and over lingers for so many holds at most.
const MOST_HOLDS: u64 = 10;

/// The same where tasks cannot go on meanwhile, directly or over a kernel thread: each reaction to such a wait makes it longer.
const MOST_HOLDS_BLOCKED: u64 = 100;

/// Whose waits end together: all of an object that was done, or those of one task that left it.
type Waits = (Object, Option<Tid>);

/// What was done of late.
#[derive(Clone, Copy, Debug)]
struct Ended {
    /// When, unless it has begun again.
    at: Option<Nanos>,
    /// How long it lingers.
    lingers: Nanos,
    /// How many holds that may be.
    most_holds: u64,
}

/// All that is known, and what follows.
#[derive(Clone, Debug)]
pub struct Tuner {
    config: Config,
    relations: Relations,
    edges: Edges,
    /// What is done and when it stops to count: who waits again within the hold finds all as it was, and who waits now and then
    /// counts between two waits.
    lingering: BTreeMap<Waits, Nanos>,
    ended: BTreeMap<Waits, Ended>,
    /// When those that began no more are forgotten.
    forget_at: Nanos,
    /// Who could not go on without this thread in the object's life before and asks for it again, and until when that counts as it did: it
    /// is likely to be blocked on it again at once.
    hardened: BTreeMap<(Tid, Object, Tid), Nanos>,
    /// When a learned relation ends, by (thread, task).
    learned: BTreeMap<(Tid, Tid), Nanos>,
    roster: Roster,
    defaults: BTreeMap<Tid, Scheduling>,
    /// Threads that a rule keeps from what they should be: asked again when another one changes.
    limited: BTreeSet<Tid>,
    held: BTreeMap<Tid, HeldChange>,
    share: PageShare,
    governor: Governor,
    /// The highest that the policy ever wanted for a thread.
    highest: BTreeMap<Tid, Scheduling>,
    /// Threads that were decided upon since somebody asked.
    decided: BTreeSet<Tid>,
    /// Threads of which R_k changed since the last [`Tuner::take_donations`].
    donations: BTreeSet<Tid>,
    /// [`Tuner::suppression_level`] of one thread, until it is decided upon again or is changed; `None`: it may not be raised.
    suppression_levels: BTreeMap<Tid, Option<Priority>>,
}

impl Tuner {
    /// Knows nobody yet.
    pub fn new(config: Config) -> Tuner {
        let capacity = config.limits.relations as usize;
        Tuner {
            relations: Relations::new(capacity),
            edges: Edges::new(config.edge_rule(), capacity),
            lingering: BTreeMap::new(),
            ended: BTreeMap::new(),
            forget_at: Nanos::ZERO,
            hardened: BTreeMap::new(),
            learned: BTreeMap::new(),
            roster: Roster::default(),
            defaults: BTreeMap::new(),
            limited: BTreeSet::new(),
            held: BTreeMap::new(),
            share: PageShare::ALL,
            // What is done lingers for the hold already: what then is wanted is wanted now.
            governor: Governor::new(Pace { hold: Nanos::ZERO, ..config.pace() }),
            highest: BTreeMap::new(),
            decided: BTreeSet::new(),
            donations: BTreeSet::new(),
            suppression_levels: BTreeMap::new(),
            config,
        }
    }

    /// Takes one observation in.
    pub fn input(&mut self, input: TunerInput, now: Nanos) {
        match input {
            TunerInput::Thread(tid, member) => {
                self.defaults.entry(tid).or_insert(member.scheduling);
                self.governor.is(tid, member.scheduling);
                self.roster.insert(tid, member);
                self.decide(tid, now);
            }
            TunerInput::Gone(tid) => self.gone(tid),
            TunerInput::Begin(relation) => {
                let all_of_it = (relation.object, None);
                let its_own = (relation.object, Some(relation.task));
                self.again(all_of_it, now);
                self.again(its_own, now);
                self.lingering.remove(&its_own);
                let key = (relation.thread, relation.object, relation.task);
                let mut dependency = relation.dependency;
                // Of another life of the object's name: who waited in that one no longer does.
                if self.lingering.remove(&all_of_it).is_some() {
                    let was_hard = |was: &Relation| was.dependency == Dependency::Hard;
                    if dependency == Dependency::Soft
                        && self.relations.get(key.0, key.1, key.2).is_some_and(was_hard)
                    {
                        dependency = Dependency::Hard;
                        self.hardened.insert(key, now + self.config.limits.hold.0);
                    }
                    self.relations.end_object(relation.object);
                }
                if relation.dependency == Dependency::Hard {
                    self.hardened.remove(&key);
                }
                self.begin(Relation { dependency, ..relation });
            }
            TunerInput::Done(object) => self.linger((object, None), now),
            // A task waits no more, since the hold. A thread that waits for others may have to wait again as soon as they do.
            TunerInput::Left(object, task) if self.roster.get(task).is_some() => {
                self.linger((object, Some(task)), now);
            }
            TunerInput::Left(object, task) => {
                self.relations.end_object_of(object, task);
            }
            TunerInput::TaskPriority(task, Some(priority)) => {
                self.relations.task_priority(task, priority);
            }
            TunerInput::TaskPriority(task, None) => self.end_task(task),
            TunerInput::Woke(thread, task, priority, times) => self.woke(thread, task, priority, times, now),
            TunerInput::PageShare(share) => {
                self.share = share;
                let kswapd: Vec<Tid> = self.of_class(|class| class == ThreadClass::Kswapd);
                kswapd.into_iter().for_each(|tid| self.decide(tid, now));
            }
        }
        self.follow(now);
    }

    /// The changes to make now. They count as made; where one fails, say so with [`Tuner::is`].
    pub fn changes(&mut self, now: Nanos) -> Vec<Change> {
        self.fade(now);
        let mut changes = Vec::new();
        // What one change permits may be another: ktimers first, ksoftirqd then. Each round changes something.
        loop {
            let due = self.governor.due(now);
            if due.is_empty() {
                return changes;
            }
            for due in due {
                // The last check: what was decided when it was wanted may be forbidden by a change made since.
                if let Err(violation) =
                    rules::check(&self.roster, due.thread, due.to, self.config.watchdog.priority)
                {
                    self.governor.is(due.thread, due.from);
                    self.limited.insert(due.thread);
                    self.held.insert(
                        due.thread,
                        HeldChange { thread: due.thread, wanted: due.to, instead: None, violation },
                    );
                    continue;
                }
                self.roster.set(due.thread, due.to);
                self.suppression_levels.remove(&due.thread);
                let waiters = self.relations.waiters(due.thread);
                changes.push(Change {
                    thread: due.thread,
                    from: due.from,
                    to: due.to,
                    waiters: waiters.map_or(0, Waiters::number),
                    highest: waiters.and_then(Waiters::maximum),
                });
            }
            for thread in std::mem::take(&mut self.limited) {
                self.decide(thread, now);
            }
        }
    }

    /// What a thread really is: a change that failed, or one that somebody else made.
    pub fn is(&mut self, thread: Tid, scheduling: Scheduling) {
        self.roster.set(thread, scheduling);
        self.suppression_levels.remove(&thread);
        self.governor.is(thread, scheduling);
    }

    /// Somebody else who goes by this tuner's word, [`crate::Ahead`], changed a thread: it is decided upon again.
    pub fn changed(&mut self, thread: Tid, scheduling: Scheduling, now: Nanos) {
        self.is(thread, scheduling);
        self.decide(thread, now);
    }

    /// The threads that may have to be other than they were decided to be when this was asked last.
    pub fn take_decided(&mut self) -> BTreeSet<Tid> {
        std::mem::take(&mut self.decided)
    }

    /// The threads whose waiters changed since the last call, each with the priority that it inherits for its own waits.
    pub fn take_donations(&mut self) -> impl Iterator<Item = (Tid, ThreadClass, Option<Priority>)> + '_ {
        let changed = std::mem::take(&mut self.donations).into_iter();
        changed.filter_map(|thread| {
            let class = self.roster.get(thread)?.class;
            Some((thread, class, self.inherited(thread)))
        })
    }

    /// When [`Tuner::changes`] should be asked again, if nothing happens until then.
    pub fn next(&self) -> Option<Nanos> {
        let fades = self.learned.values().min().copied();
        let ends = self.lingering.values().min().copied();
        let softens = self.hardened.values().min().copied();
        [self.governor.next(), fades, ends, softens].into_iter().flatten().min()
    }

    /// What the policy says of a thread; `None` for one that is not known.
    pub fn plan(&self, thread: Tid) -> Option<Plan> {
        let none = Waiters::default();
        self.plan_for(thread, self.relations.waiters(thread).unwrap_or(&none))
    }

    /// What it would say if these waited.
    pub(crate) fn plan_for(&self, thread: Tid, waiters: &Waiters) -> Option<Plan> {
        let is = self.roster.get(thread)?.scheduling;
        let Asked { default, by_policy, permitted: asked } = self.asked_for(thread, waiters)?;
        let (permitted, violations) = match asked == is {
            true => (Some(asked), Vec::new()),
            false => rules::permitted(&self.roster, thread, asked, self.config.watchdog.priority),
        };
        Some(Plan { default, by_policy, permitted, violations })
    }

    /// The same before the rules between threads.
    fn asked_for(&self, thread: Tid, waiters: &Waiters) -> Option<Asked> {
        let class = self.roster.get(thread)?.class;
        let default = self.default_of(thread)?;
        let rules = self.config.rules(class);
        let share = self.share_of(class);
        let fixed = rules.fixed;
        let own = self.wakes_the_tuner(class, default);
        let by_policy = own.unwrap_or_else(|| {
            policy::target(self.config.policy, waiters, rules.weight, share, default, fixed)
        });
        let asked = match (by_policy == default, rules.ceiling) {
            _ if own.is_some() => by_policy,
            (true, _) => default,
            // Relations never change a class without a ceiling; a fixed priority does.
            (false, None) if fixed.is_none_or(|fixed| by_policy != Scheduling::fifo(fixed)) => default,
            (false, Some(ceiling)) if by_policy.rank() > ceiling.get() => Scheduling::fifo(ceiling),
            (false, _) => by_policy,
        };
        let floored = !rules.below_default && asked.rank() < default.rank();
        Some(Asked { default, by_policy, permitted: if floored { default } else { asked } })
    }

    /// What a thread was before anything was changed.
    pub fn default_of(&self, thread: Tid) -> Option<Scheduling> {
        self.defaults.get(&thread).copied()
    }

    /// Equation (3) is for kswapd alone.
    pub(crate) fn share_of(&self, class: ThreadClass) -> PageShare {
        if class == ThreadClass::Kswapd { self.share } else { PageShare::ALL }
    }

    /// What a thread that wakes the daemon should be.
    fn wakes_the_tuner(&self, class: ThreadClass, default: Scheduling) -> Option<Scheduling> {
        let below_watchdog = Scheduling::fifo(Priority::new(self.config.watchdog.priority.get() - 1)?);
        let does = class == ThreadClass::IrqWork
            && self.config.daemon.raise_irq_work
            && self.config.policy != PolicyKind::Off
            && self.config.rules(class).fixed.is_none();
        (does && default.rank() < below_watchdog.rank()).then_some(below_watchdog)
    }

    /// The priority up to which a new wait for these threads need not wake the tuner. They run at least as the policy wants them with that
    /// wait, or may not be raised, so that the next poll is early enough. Where none may be raised it is the highest.
    pub fn suppression_level(&mut self, threads: &[Tid]) -> Priority {
        let mut lowest = Priority::MAX;
        for &thread in threads {
            let level = match self.suppression_levels.get(&thread) {
                Some(&known) => known,
                None => {
                    let level = self.suppression_level_of(thread, Dependency::Soft);
                    self.suppression_levels.insert(thread, level);
                    level
                }
            };
            lowest = level.map_or(lowest, |level| level.min(lowest));
        }
        lowest
    }

    /// The same for a task that is blocked until this thread has done its item.
    pub fn hard_suppression_level(&self, thread: Tid) -> Priority {
        self.suppression_level_of(thread, Dependency::Hard).unwrap_or(Priority::MAX)
    }

    /// `None` where the thread is not known, or may not be raised.
    fn suppression_level_of(&self, thread: Tid, dependency: Dependency) -> Option<Priority> {
        let member = self.roster.get(thread)?;
        self.config.rules(member.class).ceiling?;
        let mut waiters = self.relations.waiters(thread).cloned().unwrap_or_default();
        let mut raises = |number: u8| {
            let Some(priority) = Priority::new(number) else { return false };
            waiters.add(priority, dependency);
            let asked = self.asked_for(thread, &waiters).map_or(0, |asked| asked.permitted.rank());
            waiters.remove(priority, dependency);
            asked > member.scheduling.rank()
        };
        // Who waits at more asks for no less: the first that raises is found by halves.
        let (mut suppressed, mut raising) = (0, Priority::MAX.get() + 1);
        while raising - suppressed > 1 {
            let between = suppressed.midpoint(raising);
            *(if raises(between) { &mut raising } else { &mut suppressed }) = between;
        }
        Some(Priority::new(suppressed).unwrap_or(Priority::MIN))
    }

    /// The relations of this moment.
    pub fn relations(&self) -> &Relations {
        &self.relations
    }

    /// The threads that are known.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// How many threads are above what they were at first, and how many there are.
    pub fn raised(&self) -> (u64, u64) {
        let above = |&(tid, member): &(Tid, &Member)| {
            self.defaults.get(&tid).is_some_and(|default| member.scheduling.rank() > default.rank())
        };
        (self.roster.iter().filter(above).count() as u64, self.roster.iter().count() as u64)
    }

    /// What rules keep from being as the policy wants it, now.
    pub fn held(&self) -> impl Iterator<Item = &HeldChange> {
        self.held.values()
    }

    /// The highest that the policy wanted for a thread so far, before ceilings and rules.
    pub fn highest_wanted(&self, thread: Tid) -> Option<Scheduling> {
        self.highest.get(&thread).copied()
    }

    /// How many relations, and how many wake-ups, there was no room for.
    pub fn lost(&self) -> (u64, u64) {
        (self.relations.lost(), self.edges.lost())
    }

    fn decide(&mut self, thread: Tid, now: Nanos) {
        self.suppression_levels.remove(&thread);
        let Some(plan) = self.plan(thread) else { return };
        self.decided.insert(thread);
        let highest = self.highest.entry(thread).or_insert(plan.by_policy);
        if plan.by_policy.rank() > highest.rank() {
            *highest = plan.by_policy;
        }
        self.held.remove(&thread);
        if let Some(violation) = plan.violations.first() {
            self.limited.insert(thread);
            let wanted = plan.by_policy;
            let held = HeldChange { thread, wanted, instead: plan.permitted, violation: violation.clone() };
            self.held.insert(thread, held);
        }
        let current = self.governor.current(thread);
        if let Some(wanted) = plan.permitted.or(current) {
            self.governor.want(thread, wanted, now);
        }
    }

    fn woke(&mut self, thread: Tid, task: Tid, priority: Priority, times: u64, now: Nanos) {
        if self.roster.get(thread).is_none() {
            return;
        }
        let Some(until) = self.edges.woke(thread, task, times, now) else { return };
        self.learned.insert((thread, task), until);
        let object = learned(task);
        self.relations.begin(Relation {
            thread,
            object,
            task,
            priority,
            dependency: Dependency::Soft,
            inherited: false,
        });
    }

    /// How long what ended lingers at least. Who left was held by the probe already.
    fn least(&self, (_, task): Waits) -> Nanos {
        task.map_or(self.config.limits.hold.0, |_| Nanos::ZERO)
    }

    fn linger(&mut self, waits: Waits, now: Nanos) {
        let (object, least) = (waits.0, self.least(waits));
        if !self.relations.has_object(object) {
            return;
        }
        let ended =
            self.ended.entry(waits).or_insert(Ended { at: None, lingers: least, most_holds: MOST_HOLDS });
        let is_blocking = |one: &Relation| one.dependency == Dependency::Hard || one.inherited;
        ended.most_holds = match self.relations.of_object(object).any(is_blocking) {
            true => MOST_HOLDS_BLOCKED,
            false => MOST_HOLDS,
        };
        ended.at = Some(now);
        self.lingering.insert(waits, now + ended.lingers);
    }

    /// What was done begins again. Where that is always as soon, it lingers twice as long from now on: a thread that falls back between one
    /// wait and the next costs changes, and each wait the time of a reaction. A few short pauses in a row leave it long: one sync queues the same
    /// item several times, and the next one only after its period.
    fn again(&mut self, waits: Waits, now: Nanos) {
        let least = self.least(waits);
        let Some(ended) = self.ended.get_mut(&waits) else { return };
        if let Some(at) = ended.at.take() {
            let twice = Nanos(now.saturating_sub(at).0.saturating_mul(2));
            let most = self.config.limits.hold.0.0.saturating_mul(ended.most_holds);
            let shorter = Nanos(ended.lingers.0 - ended.lingers.0 / 8);
            ended.lingers = if twice.0 <= most { twice.max(shorter).max(least) } else { least };
        }
    }

    fn fade(&mut self, now: Nanos) {
        let over: Vec<Waits> =
            self.lingering.iter().filter(|&(_, &until)| until <= now).map(|(&waits, _)| waits).collect();
        for waits in over {
            self.lingering.remove(&waits);
            match waits {
                (object, Some(task)) => self.relations.end_object_of(object, task),
                (object, None) => self.relations.end_object(object),
            };
        }
        if self.forget_at <= now {
            let hold = self.config.limits.hold.0.0;
            let longest = Nanos(hold.saturating_mul(MOST_HOLDS));
            self.ended.retain(|_, ended| {
                let longest = Nanos(hold.saturating_mul(ended.most_holds));
                ended.at.is_none_or(|at| now.saturating_sub(at) <= longest)
            });
            self.forget_at = now + longest;
        }
        let soft: Vec<(Tid, Object, Tid)> =
            self.hardened.iter().filter(|&(_, &until)| until <= now).map(|(&key, _)| key).collect();
        for key @ (thread, object, task) in soft {
            self.hardened.remove(&key);
            if let Some(&relation) = self.relations.get(thread, object, task) {
                self.relations.begin(Relation { dependency: Dependency::Soft, ..relation });
            }
        }
        let faded: Vec<(Tid, Tid)> =
            self.learned.iter().filter(|&(_, &until)| until <= now).map(|(&edge, _)| edge).collect();
        for (thread, task) in faded {
            self.learned.remove(&(thread, task));
            self.relations.end(thread, learned(task), task);
        }
        self.follow(now);
    }

    /// A task begins to wait. A kernel thread does so for those that wait for it: priority inheritance is transitive (L. Sha, R. Rajkumar,
    /// J. P. Lehoczky, "Priority Inheritance Protocols", IEEE Transactions on Computers 39(9), 1990, section III). Here over one thread, and
    /// over one interrupt thread after it: what the last one's servers wait for is not followed.
    fn begin(&mut self, relation: Relation) {
        if self.roster.get(relation.task).is_none() {
            self.relations.begin(relation);
        } else if let Some(priority) = self.inherited(relation.task)
            && relation.task != relation.thread
        {
            self.relations.begin(Relation { priority, inherited: true, ..relation });
        }
    }

    /// With which priority a kernel thread waits for others: the highest of the tasks that wait for it. An interrupt thread also has what other
    /// kernel threads inherited: it queues the next step of what these wait for. Nobody can inherit from it what it got from itself, since only workers
    /// run what it queues, and these inherit from tasks alone.
    fn inherited(&self, thread: Tid) -> Option<Priority> {
        match self.roster.get(thread).map(|member| member.class) {
            Some(ThreadClass::Interrupt) => self.relations.waiters(thread)?.maximum(),
            _ => self.relations.highest_task(thread),
        }
    }

    /// Decides on the threads for which others wait now.
    fn follow(&mut self, now: Nanos) {
        loop {
            let changed = self.relations.take_changed();
            if changed.is_empty() {
                return;
            }
            for thread in changed {
                // What it waits for itself; this changes who waits for others, and not with what those wait.
                match self.inherited(thread) {
                    Some(priority) => self.relations.task_priority(thread, priority),
                    // What it had done for them it may ask for as soon as they wait again.
                    None => {
                        let lingers = |object, of| self.lingering.contains_key(&(object, of));
                        let stays = |object| lingers(object, None) || lingers(object, Some(thread));
                        self.relations.end_task_besides(thread, stays)
                    }
                };
                self.donations.insert(thread);
                self.decide(thread, now);
            }
        }
    }

    fn end_task(&mut self, task: Tid) {
        self.relations.end_task(task);
        self.edges.forget(task);
        self.learned.retain(|&(_, one), _| one != task);
    }

    fn gone(&mut self, tid: Tid) {
        self.end_task(tid);
        self.relations.end_thread(tid);
        self.learned.retain(|&(thread, _), _| thread != tid);
        self.roster.remove(tid);
        self.defaults.remove(&tid);
        self.highest.remove(&tid);
        self.governor.forget(tid);
        self.limited.remove(&tid);
        self.held.remove(&tid);
        self.decided.remove(&tid);
        self.donations.remove(&tid);
        self.suppression_levels.remove(&tid);
    }

    fn of_class(&self, wanted: impl Fn(ThreadClass) -> bool) -> Vec<Tid> {
        self.roster.iter().filter(|(_, member)| wanted(member.class)).map(|(tid, _)| tid).collect()
    }
}

fn learned(task: Tid) -> Object {
    Object { kind: RelationKind::Wakeup, of: 0, id: u64::from(task.0.unsigned_abs()) }
}
