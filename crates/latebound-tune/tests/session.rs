// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session on recorded waits: what is inherited, changed and suppressed, in which order, and when the next poll is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::rc::Rc;

use latebound_model::{
    Completer, Dependency, DonatedWaits, Loss, Missing, Nanos, NewThread, Object, Priority, RelationKind,
};
use latebound_model::{Scheduling, ThreadWaits, Tid, WaitEvent};
use latebound_tune::document::TuneMap;
use latebound_tune::{
    Actuator, Answer, Change, Config, Helper, PolicyKind, ReclaimPages, ReclaimShare, Request, Session,
    ThreadClass, ThreadName, Threads, WaitSource, worker_id,
};

/// What a session did at its edges, in order.
type Log = Rc<RefCell<Vec<String>>>;

fn say(log: &Log, line: String) {
    log.borrow_mut().push(line);
}

fn said(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.borrow_mut())
}

fn number(priority: Option<Priority>) -> u8 {
    priority.map_or(0, Priority::get)
}

/// Waits that were recorded, a list for each poll.
#[derive(Default)]
struct Recording {
    polls: VecDeque<Vec<WaitEvent>>,
    counts: Vec<WaitEvent>,
    /// Whether each poll leaves some unread.
    more: bool,
    unread: Rc<Cell<bool>>,
    /// The levels of soft and hard waits; 100 stands for somebody else.
    levels: BTreeMap<(RelationKind, u64), (u8, u8)>,
    watched: Rc<RefCell<BTreeMap<Tid, u8>>>,
    log: Log,
}

impl Recording {
    fn set(&mut self, kind: RelationKind, device: u64, levels: (u8, u8)) -> bool {
        let before = self.levels.insert((kind, device), levels);
        if before != Some(levels) {
            say(&self.log, format!("suppress {} {device} to {levels:?}", kind.name()));
        }
        before.is_some_and(|before| before.0 > levels.0 || before.1 > levels.1)
    }
}

impl WaitSource for Recording {
    type Error = Infallible;

    fn poll_waits(&mut self, events: &mut Vec<WaitEvent>, _: impl FnMut()) -> Result<bool, Infallible> {
        events.extend(self.polls.pop_front().unwrap_or_default());
        Ok(self.more)
    }

    fn poll_counts(&mut self) -> Vec<WaitEvent> {
        std::mem::take(&mut self.counts)
    }

    fn donate(
        &mut self,
        thread: Tid,
        priority: Option<Priority>,
        waits: DonatedWaits,
    ) -> Result<(), Infallible> {
        let what = match waits {
            DonatedWaits::All => "",
            DonatedWaits::QueuedItems => " for what it queues",
        };
        say(&self.log, format!("donate {} to {thread}{what}", number(priority)));
        Ok(())
    }

    fn suppress_wakeups(
        &mut self,
        kind: RelationKind,
        device: u64,
        to: Priority,
    ) -> Result<bool, Infallible> {
        Ok(self.set(kind, device, (to.get(), 0)))
    }

    fn suppress_worker(&mut self, worker: Tid, soft: Priority, hard: Priority) -> Result<bool, Infallible> {
        Ok(self.set(RelationKind::WorkItem, worker_id(worker), (soft.get(), hard.get())))
    }

    fn suppress_elsewhere(&mut self, kind: RelationKind, device: u64) -> Result<bool, Infallible> {
        Ok(self.set(kind, device, (100, 0)))
    }

    fn unsuppress(&mut self, kind: RelationKind, device: u64) -> bool {
        let was = self.levels.remove(&(kind, device)).is_some();
        if was {
            say(&self.log, format!("unsuppress {} {device}", kind.name()));
        }
        was
    }

    fn is_suppressed(&self, kind: RelationKind, device: u64, one: Priority, dependency: Dependency) -> bool {
        let level = |&(soft, hard): &(u8, u8)| if dependency == Dependency::Hard { hard } else { soft };
        self.levels.get(&(kind, device)).is_some_and(|levels| one.get() <= level(levels))
    }

    fn has_unread(&self) -> bool {
        self.unread.get()
    }

    fn watch(&mut self, thread: Tid, highest: u8) -> Result<(), Infallible> {
        self.watched.borrow_mut().insert(thread, highest);
        Ok(())
    }

    fn thread_waits(&self, thread: Tid) -> Option<ThreadWaits> {
        self.watched.borrow().contains_key(&thread).then(|| ThreadWaits {
            number: 3,
            longest_inversion_by: Some((Tid(99), "busy".to_owned())),
            ..ThreadWaits::default()
        })
    }

    fn expired(&self) -> u64 {
        2
    }

    fn losses(&self) -> Vec<Loss> {
        Vec::new()
    }

    fn missing(&self) -> &[Missing] {
        &[]
    }
}

/// Threads of a system that is not there. A task that is not among them is a user task named after its id.
#[derive(Clone, Default)]
struct System {
    threads: Rc<RefCell<BTreeMap<Tid, (&'static str, Scheduling)>>>,
    ended: Rc<RefCell<BTreeSet<Tid>>>,
    share: Rc<Cell<Option<ReclaimShare>>>,
}

impl Threads for System {
    fn thread(&self, tid: Tid) -> Option<ThreadName> {
        if self.ended.borrow().contains(&tid) {
            return None;
        }
        let threads = self.threads.borrow();
        let (comm, kernel) = match threads.get(&tid) {
            Some((comm, _)) => ((*comm).to_owned(), true),
            None => (format!("task-{tid}"), false),
        };
        Some(ThreadName { tid, comm, kernel })
    }

    fn scheduling(&self, tid: Tid) -> Option<Scheduling> {
        self.threads.borrow().get(&tid).map(|one| one.1)
    }

    fn reclaim_share(&self, _: &[Tid]) -> ReclaimShare {
        self.share.get().unwrap_or(ReclaimShare::Unknown)
    }
}

/// A helper that answers when the test does.
#[derive(Clone, Default)]
struct Slow {
    full: Rc<Cell<bool>>,
    requests: Rc<RefCell<Vec<Request>>>,
    answers: Rc<RefCell<VecDeque<Answer>>>,
    boosts: Rc<RefCell<Vec<u8>>>,
}

impl Helper for Slow {
    fn request(&self, request: Request) -> bool {
        if !self.full.get() {
            self.requests.borrow_mut().push(request);
        }
        !self.full.get()
    }

    fn answer(&self) -> Option<Answer> {
        self.answers.borrow_mut().pop_front()
    }

    fn boost(&self, priority: Priority) -> bool {
        self.boosts.borrow_mut().push(priority.get());
        true
    }
}

/// Makes changes in the system that is not there.
struct Hands {
    system: System,
    log: Log,
    raises: u64,
}

impl Actuator for Hands {
    fn created(&mut self, thread: &NewThread) {
        say(&self.log, format!("open {} {}", thread.tid, thread.name()));
    }

    fn let_go(&mut self, thread: Tid) {
        say(&self.log, format!("let go {thread}"));
    }

    fn change(&mut self, change: &Change) -> Result<(), String> {
        say(&self.log, format!("change {} from {} to {}", change.thread, change.from, change.to));
        match self.system.threads.borrow_mut().get_mut(&change.thread) {
            Some(one) if one.0 != "kworker/refused" => one.1 = change.to,
            Some(_) => return Err("refused".to_owned()),
            None => return Err("gone".to_owned()),
        }
        Ok(())
    }

    fn changed(&mut self, raises: u64) {
        self.raises += raises;
        say(&self.log, format!("changed, {raises} raises"));
    }

    fn report(&mut self, change: &Change, comm: Option<&str>, error: Option<String>) {
        let (comm, error) = (comm.unwrap_or("unknown"), error.unwrap_or_default());
        say(&self.log, format!("report {} {comm} {error}", change.thread).trim_end().to_owned());
    }
}

const DISK: u64 = 8;
const IRQ: Tid = Tid(1);
const WORKER: Tid = Tid(2);
const KSWAPD: Tid = Tid(3);

/// A session with its edges.
struct Scene {
    session: Session<Recording, System, Slow>,
    hands: Hands,
    system: System,
    helper: Slow,
    log: Log,
    unread: Rc<Cell<bool>>,
    watched: Rc<RefCell<BTreeMap<Tid, u8>>>,
}

impl Scene {
    /// Of a daemon, with these polls to come.
    fn daemon(polls: Vec<Vec<WaitEvent>>) -> Scene {
        Scene::new(polls, Vec::new(), false, true)
    }

    /// Of `tune map`, which has no helper.
    fn map(polls: Vec<Vec<WaitEvent>>) -> Scene {
        Scene::new(polls, Vec::new(), false, false)
    }

    fn new(polls: Vec<Vec<WaitEvent>>, counts: Vec<WaitEvent>, more: bool, daemon: bool) -> Scene {
        let (log, system, helper) = (Log::default(), System::default(), Slow::default());
        let source =
            Recording { polls: polls.into(), counts, more, log: Rc::clone(&log), ..Recording::default() };
        let (unread, watched) = (Rc::clone(&source.unread), Rc::clone(&source.watched));
        let config = Config::parse("").unwrap();
        let session = Session::new(config, source, system.clone(), daemon.then(|| helper.clone()));
        let hands = Hands { system: system.clone(), log: Rc::clone(&log), raises: 0 };
        let mut scene = Scene { session, hands, system, helper, log, unread, watched };
        scene.add(IRQ, "irq/29-virtio", 50);
        scene.add(WORKER, "kworker/0:1", 0);
        scene.add(KSWAPD, "kswapd0", 0);
        scene
    }

    fn add(&mut self, tid: Tid, comm: &'static str, rank: u8) {
        self.system.threads.borrow_mut().insert(tid, (comm, fifo(rank)));
        self.session.add_thread(self.system.thread(tid).unwrap(), at(0));
    }

    /// One poll pass. Returns the start of the first of the highest waits, and whether to poll again.
    fn pass(&mut self, ms: u64) -> (Option<Nanos>, bool) {
        let Ok(first) = self.session.poll(at(ms), || {});
        let Ok(again) = self.session.apply(at(ms), false, &mut self.hands);
        (first, again)
    }

    fn housekeeping(&mut self, ms: u64) {
        let Ok(()) = self.session.housekeeping(at(ms));
    }

    fn timeout(&self, ms: u64) -> u64 {
        self.session.timeout(Nanos::from_millis(250), at(ms)).0 / 1_000_000
    }
}

fn fifo(rank: u8) -> Scheduling {
    Priority::new(rank).map_or(Scheduling::other(0), Scheduling::fifo)
}

fn at(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn disk() -> Object {
    Object { kind: RelationKind::BlockIo, of: DISK, id: 0 }
}

fn item(id: u64) -> Object {
    Object { kind: RelationKind::WorkItem, of: 0, id }
}

fn reclaim() -> Object {
    Object { kind: RelationKind::Reclaim, of: 0, id: 0 }
}

fn begin(ms: u64, object: Object, task: i32, priority: u8, thread: Option<Tid>) -> WaitEvent {
    let priority = Priority::new(priority).unwrap();
    WaitEvent::Begin { at: at(ms), object, task: Tid(task), priority, thread, dependency: Dependency::Soft }
}

fn done(ms: u64, object: Object, by: Tid) -> WaitEvent {
    WaitEvent::Done { at: at(ms), object, by: Completer::Thread(by) }
}

/// The interrupt thread is met as the disk's.
fn served(ms: u64, times: u64) -> WaitEvent {
    let (by, task, priority) = (Completer::Thread(IRQ), Tid(20), Priority::new(60).unwrap());
    WaitEvent::Served { at: at(ms), object: disk(), by, task, priority, times }
}

fn woke(task: i32) -> WaitEvent {
    let (by, priority) = (Completer::Softirq, Priority::new(10).unwrap());
    WaitEvent::Woke { at: at(1), by, task: Tid(task), priority, times: 1, network: false }
}

#[test]
fn apply_donates_then_changes_then_suppresses() {
    let mut scene = Scene::daemon(vec![vec![begin(1, item(5), 20, 50, Some(WORKER))]]);
    let (first, again) = scene.pass(1);
    assert_eq!((first, again), (Some(at(1)), false));
    // 0.8 * 50; one more waiter raises it again where 0.8 * (50 + p) / 2 rounds to more than 40: p of 51 gives 40.4, of 52 40.8. A blocked
    // one raises it from 41 on.
    let expected = [
        "donate 50 to 2",
        "change 2 from OTHER to FIFO 40",
        "changed, 1 raises",
        "report 2 kworker/0:1",
        "suppress work items 2 to (51, 40)",
        "suppress page reclaim 0 to (1, 0)",
    ];
    assert_eq!(said(&scene.log), expected);
    // Nothing happens twice.
    scene.pass(2);
    assert_eq!(said(&scene.log), ["changed, 0 raises"]);
}

fn commit(ms: u64, priority: u8) -> WaitEvent {
    let priority = Priority::new(priority).unwrap();
    let object = Object { kind: RelationKind::JournalCommit, of: 4, id: 20 };
    let (task, thread, dependency) = (Tid(20), Some(Tid(4)), Dependency::Hard);
    WaitEvent::Begin { at: at(ms), object, task, priority, thread, dependency }
}

/// All of the priority, since the task is blocked; and its next commits wake nobody as long as the thread has it. One of 91 more that can go
/// on would not raise it: 0.8 * (60 + 91) / 2 = 60.4.
#[test]
fn a_journal_s_thread_inherits_what_a_blocked_task_has_and_donates_it() {
    let journal = Tid(4);
    let lower = begin(3, item(9), 21, 10, None);
    let mut scene = Scene::daemon(vec![vec![commit(1, 60)], vec![commit(2, 60), lower], vec![commit(4, 61)]]);
    scene.add(journal, "jbd2/vda-8", 0);
    scene.pass(1);
    let expected = [
        "donate 60 to 4",
        "change 4 from OTHER to FIFO 60",
        "changed, 1 raises",
        "report 4 jbd2/vda-8",
        "suppress work items 4 to (91, 60)",
        "suppress page reclaim 0 to (1, 0)",
    ];
    assert_eq!(said(&scene.log), expected);
    assert_eq!(scene.pass(3).0, Some(at(3)), "the next commit is not urgent");
    assert_eq!(scene.pass(4).0, Some(at(4)));
}

const KTHREADD: Tid = Tid(5);
const NEW: Tid = Tid(30);

fn creation(by: Tid) -> Object {
    Object { kind: RelationKind::ThreadCreation, of: worker_id(by), id: 20 }
}

fn creates(ms: u64) -> WaitEvent {
    let (priority, dependency) = (Priority::new(60).unwrap(), Dependency::Hard);
    let (object, task, thread) = (creation(KTHREADD), Tid(20), Some(KTHREADD));
    WaitEvent::Begin { at: at(ms), object, task, priority, thread, dependency }
}

fn created(ms: u64) -> WaitEvent {
    let mut comm = [0; 16];
    comm[..11].copy_from_slice(b"irq/30-disk");
    let thread = NewThread { tid: NEW, started: at(ms), comm, scheduling: Scheduling::other(0) };
    let (object, task, priority) = (creation(NEW), Tid(20), Priority::new(60).unwrap());
    WaitEvent::Created { at: at(ms), object, task, priority, thread }
}

/// What the probe reports when the creator goes on.
fn creation_over(ms: u64) -> Vec<WaitEvent> {
    let left = WaitEvent::Left { at: at(ms), object: creation(NEW), task: Tid(20) };
    vec![done(ms, creation(KTHREADD), KTHREADD), left]
}

fn scene_of_creation(polls: Vec<Vec<WaitEvent>>) -> Scene {
    let mut scene = Scene::daemon([vec![Vec::new()], polls].concat());
    scene.add(KTHREADD, "kthreadd", 0);
    scene.system.threads.borrow_mut().insert(NEW, ("irq/30-disk", Scheduling::other(0)));
    scene.pass(0);
    said(&scene.log);
    scene
}

/// kthreadd lingers, since its creator may need another one at once; the new thread does not.
#[test]
fn kthreadd_and_the_thread_that_it_creates_inherit_what_the_creator_has() {
    let mut scene = scene_of_creation(vec![vec![creates(1)], vec![created(2)], creation_over(3), Vec::new()]);
    // It is known by the event alone.
    scene.system.ended.borrow_mut().insert(NEW);
    assert_eq!(scene.pass(1).0, Some(at(1)));
    let raise = |tid: Tid, comm: &str| {
        [
            format!("change {tid} from OTHER to FIFO 60"),
            "changed, 1 raises".to_owned(),
            format!("report {tid} {comm}"),
        ]
    };
    let mut expected = raise(KTHREADD, "kthreadd").to_vec();
    expected.push("suppress work items 5 to (91, 60)".to_owned());
    let changes = |scene: &Scene| -> Vec<String> {
        said(&scene.log).into_iter().filter(|line| !line.contains("page reclaim")).collect()
    };
    assert_eq!(changes(&scene), expected);
    assert_eq!(scene.pass(2).0, Some(at(2)), "a thread that is being created is urgent");
    let mut expected = vec!["open 30 irq/30-disk".to_owned()];
    expected.extend(raise(NEW, "irq/30-disk"));
    assert_eq!(changes(&scene), expected);
    scene.pass(3);
    let back = [
        "change 30 from FIFO 60 to OTHER",
        "changed, 0 raises",
        "report 30 irq/30-disk",
        "donate 0 to 30",
        "let go 30",
    ];
    assert_eq!(changes(&scene), back);
    assert_eq!((scene.session.name(NEW), scene.session.tuner().default_of(NEW)), (None, None));
    assert_eq!(scene.system.threads.borrow()[&KTHREADD].1, fifo(60));
    scene.pass(500);
    assert_eq!(scene.system.threads.borrow()[&KTHREADD].1, Scheduling::other(0));
}

/// As interrupt threads do, before the tuner has looked again.
#[test]
fn a_created_thread_that_gave_itself_a_policy_keeps_it() {
    let mut scene = scene_of_creation(vec![vec![creates(1), created(2)], creation_over(3)]);
    scene.pass(2);
    scene.system.threads.borrow_mut().get_mut(&NEW).unwrap().1 = fifo(50);
    scene.pass(3);
    assert_eq!(scene.system.threads.borrow()[&NEW].1, fifo(50));
    assert_eq!(scene.session.tuner().default_of(NEW), None);
}

/// Of a creation that was over before the tuner looked nothing is left.
#[test]
fn a_created_thread_that_nobody_waits_for_any_more_is_let_go() {
    let mut all = vec![creates(1), created(2)];
    all.extend(creation_over(3));
    let mut scene = scene_of_creation(vec![all]);
    scene.pass(3);
    assert_eq!((scene.session.name(NEW), scene.session.tuner().default_of(NEW)), (None, None));
    assert!(!said(&scene.log).iter().any(|line| line.starts_with("change 30")));
}

#[test]
fn a_disk_is_suppressed_up_to_what_its_thread_runs_at() {
    let mut scene = Scene::daemon(vec![
        vec![served(1, 0)],
        vec![begin(2, disk(), 20, 60, None)],
        vec![WaitEvent::Left { at: at(3), object: disk(), task: Tid(20) }],
    ]);
    let level = |scene: &Scene| scene.session.source().levels[&(RelationKind::BlockIo, DISK)];
    scene.pass(1);
    assert_eq!(level(&scene), (50, 0));
    // min(1.2 * 60, 60), and a second task of 61 would give 61.
    scene.pass(2);
    assert_eq!((level(&scene), scene.system.threads.borrow()[&IRQ].1), ((60, 0), fifo(60)));
    // It fell: what began meanwhile, and is urgent now, woke nobody.
    scene.unread.set(true);
    let (_, again) = scene.pass(3);
    assert_eq!((level(&scene), again), ((50, 0), true));
}

#[test]
fn a_poll_that_leaves_events_unread_is_followed_by_another() {
    let mut scene = Scene::new(Vec::new(), Vec::new(), true, true);
    scene.unread.set(true);
    assert_eq!((scene.pass(1).1, scene.session.has_unread()), (true, false));
    scene.unread.set(false);
    assert!(!scene.pass(2).1);
}

#[test]
fn the_first_of_the_highest_urgent_waits_is_what_a_poll_answers() {
    let suppressed = begin(3, disk(), 20, 50, None);
    let mut scene = Scene::daemon(vec![
        vec![served(1, 0)],
        vec![
            suppressed,
            begin(4, item(1), 21, 30, Some(WORKER)),
            begin(5, item(2), 22, 40, Some(WORKER)),
            begin(6, item(3), 23, 40, Some(WORKER)),
        ],
        vec![suppressed],
    ]);
    assert_eq!(scene.pass(1).0, None);
    // The disk's, of 50, was suppressed.
    assert_eq!(scene.pass(7).0, Some(at(5)));
    assert_eq!(scene.pass(8).0, Some(at(3)));
}

#[test]
fn polls_that_raise_nobody_become_rarer_and_a_raise_ends_that() {
    let mut scene = Scene::daemon(vec![
        vec![served(1, 0)],
        vec![begin(2, disk(), 20, 40, None)],
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        vec![begin(9, disk(), 21, 60, None)],
    ]);
    scene.pass(1);
    assert_eq!(scene.timeout(1), 250, "nobody waits");
    let mut timeouts = Vec::new();
    for ms in 2..=9 {
        scene.pass(ms);
        timeouts.push(scene.timeout(ms));
    }
    // Half of the hold of 10 ms, doubled by the two polls so far; the last one raises the thread.
    assert_eq!(timeouts, [20, 40, 80, 160, 250, 250, 250, 5]);
    assert_eq!(scene.hands.raises, 1);
    for ms in 10..40 {
        scene.pass(ms);
    }
    assert_eq!(scene.timeout(40), 250);
}

#[test]
fn what_is_due_ends_a_sleep_earlier() {
    let mut scene =
        Scene::daemon(vec![vec![begin(1, item(5), 20, 50, Some(WORKER))], vec![done(2, item(5), WORKER)]]);
    scene.pass(1);
    scene.pass(2);
    // It counts for the hold of 10 ms more.
    assert_eq!(scene.session.timeout(at(250), at(11)), at(1));
    said(&scene.log);
    scene.pass(12);
    let expected =
        ["donate 0 to 2", "change 2 from FIFO 40 to OTHER", "changed, 0 raises", "report 2 kworker/0:1"];
    assert_eq!(said(&scene.log)[..4], expected);
    assert!(!scene.session.source().levels.contains_key(&(RelationKind::WorkItem, 2)));
}

/// The flush of a disk: the task waits for the journal's thread, that one for the disk, whose interrupt thread queues the next step for a worker.
/// What the worker waits for itself is waited for by nobody, so nobody is raised in a circle.
#[test]
fn an_interrupt_thread_inherits_for_queued_items_from_kernel_threads_too() {
    let (journal, last) = (Tid(4), Tid(8));
    let mut scene = Scene::daemon(vec![
        vec![served(1, 0), commit(1, 60), begin(1, disk(), journal.0, 60, None)],
        vec![begin(2, item(5), IRQ.0, 60, Some(WORKER))],
        vec![begin(3, item(6), WORKER.0, 60, Some(last))],
    ]);
    scene.add(journal, "jbd2/vda-8", 0);
    scene.add(last, "kworker/0:8", 0);
    let mut pass = |ms| {
        scene.pass(ms);
        let mut lines = said(&scene.log);
        lines.retain(|line| line.starts_with("donate") || line.starts_with("change "));
        lines
    };
    let first = [
        "donate 60 to 1 for what it queues",
        "donate 60 to 4",
        "change 1 from FIFO 50 to FIFO 60",
        "change 4 from OTHER to FIFO 60",
    ];
    assert_eq!(pass(1), first);
    // 0.8 * 60: nobody is known to be blocked on the item.
    assert_eq!(pass(2), ["donate 0 to 2", "change 2 from OTHER to FIFO 48"]);
    assert_eq!(pass(3), Vec::<String>::new(), "workers inherit from tasks alone");
}

#[test]
fn a_worker_raised_elsewhere_is_suppressed_until_it_is_raised_here() {
    let mut scene = Scene::daemon(vec![
        vec![begin(1, item(5), 20, 50, Some(WORKER))],
        Vec::new(),
        vec![begin(3, item(6), 21, 60, Some(WORKER))],
    ]);
    let level = |scene: &Scene| scene.session.source().levels.get(&(RelationKind::WorkItem, 2)).copied();
    let Ok(()) = scene.session.worker_raised_elsewhere(WORKER);
    scene.pass(1);
    assert_eq!(level(&scene), Some((100, 0)));
    scene.session.worker_raised_here(WORKER);
    assert_eq!(level(&scene), None);
    scene.pass(2);
    assert_eq!(level(&scene), None, "it did not change");
    // 0.8 * 55 = 44; 0.8 * (110 + p) / 3 rounds to 45 from p of 57 on.
    scene.pass(3);
    assert_eq!(level(&scene), Some((56, 44)));
}

#[test]
fn a_disk_is_suppressed_whole_where_all_its_threads_are_raised_elsewhere() {
    let mut scene = Scene::daemon(vec![vec![served(1, 0)]]);
    let disks = [(RelationKind::BlockIo, DISK, IRQ)];
    scene.pass(1);
    let nodes = [(RelationKind::Reclaim, 0, KSWAPD)];
    assert_eq!(scene.session.servers(), disks.into_iter().chain(nodes).collect::<Vec<_>>());
    scene.session.raised_elsewhere(BTreeSet::from(disks));
    said(&scene.log);
    scene.pass(2);
    assert_eq!(said(&scene.log)[1..], ["suppress block I/O 8 to (100, 0)"]);
    // Said again it changes nothing.
    scene.session.raised_elsewhere(BTreeSet::from(disks));
    scene.pass(3);
    assert_eq!(said(&scene.log), ["changed, 0 raises"]);
    scene.session.raised_elsewhere(BTreeSet::new());
    scene.pass(4);
    assert_eq!(said(&scene.log)[1..], ["suppress block I/O 8 to (50, 0)"]);
}

#[test]
fn a_change_by_somebody_else_is_learned_and_not_made_again() {
    let mut scene = Scene::daemon(vec![vec![begin(1, item(5), 20, 50, Some(WORKER))]]);
    let Ok(first) = scene.session.poll(at(1), || {});
    scene.system.threads.borrow_mut().insert(WORKER, ("kworker/0:1", fifo(40)));
    scene.session.changed_elsewhere(WORKER, at(1));
    let Ok(_) = scene.session.apply(at(1), true, &mut scene.hands);
    assert_eq!((first, scene.hands.raises, scene.timeout(1)), (Some(at(1)), 0, 5));
    assert!(said(&scene.log).iter().all(|line| !line.starts_with("change ")));
}

#[test]
fn a_thread_that_ended_is_forgotten_by_a_change_that_fails() {
    let mut scene = Scene::daemon(vec![vec![begin(1, item(5), 20, 50, Some(WORKER))]]);
    scene.system.threads.borrow_mut().remove(&WORKER);
    scene.pass(1);
    let expected = [
        "donate 50 to 2",
        "change 2 from OTHER to FIFO 40",
        "changed, 0 raises",
        "donate 0 to 2",
        "report 2 unknown gone",
        "suppress page reclaim 0 to (1, 0)",
    ];
    assert_eq!(said(&scene.log), expected);
    assert!(scene.session.name(WORKER).is_none() && scene.session.tuner().roster().get(WORKER).is_none());
}

#[test]
fn a_thread_that_ended_has_nothing_to_give_back() {
    let polls = vec![vec![begin(1, item(5), 20, 50, Some(WORKER))], vec![done(2, item(5), WORKER)]];
    let mut scene = Scene::daemon(polls);
    for ms in 1..=2 {
        scene.pass(ms);
    }
    scene.system.threads.borrow_mut().remove(&WORKER);
    for ms in 3..=40 {
        scene.pass(ms);
    }
    let said = said(&scene.log);
    let given_back = said.iter().filter(|line| *line == "change 2 from FIFO 40 to OTHER").count();
    let reported = said.iter().filter(|line| line.starts_with("report 2 ")).count();
    assert_eq!((given_back, reported), (1, 1), "{said:#?}");
    assert!(scene.session.tuner().roster().get(WORKER).is_none());
}

#[test]
fn a_change_that_is_refused_is_as_the_system_says() {
    let mut scene = Scene::daemon(vec![vec![begin(1, item(5), 20, 50, Some(Tid(4)))]]);
    scene.add(Tid(4), "kworker/refused", 0);
    scene.pass(1);
    assert!(said(&scene.log).contains(&"report 4 kworker/refused refused".to_owned()));
    assert_eq!(scene.session.tuner().roster().get(Tid(4)).unwrap().scheduling, fifo(0));
    assert_eq!(scene.hands.raises, 0);
}

#[test]
fn a_worker_that_writes_back_is_a_flusher_from_then_on() {
    let inode = Object { kind: RelationKind::DirtyInode, of: 3, id: 7 };
    let mut scene = Scene::daemon(vec![vec![begin(1, inode, 20, 50, None), done(2, inode, WORKER)]]);
    scene.pass(2);
    assert_eq!(scene.session.tuner().roster().get(WORKER).unwrap().class, ThreadClass::Flusher);
}

#[test]
fn names_of_tasks_are_asked_for_once_and_again_where_there_was_no_room() {
    let wait = |ms| vec![begin(ms, item(ms), 20, 50, Some(WORKER))];
    let mut scene = Scene::daemon(vec![wait(1), wait(2), wait(3)]);
    scene.helper.full.set(true);
    scene.pass(1);
    scene.helper.full.set(false);
    scene.pass(2);
    scene.pass(3);
    assert_eq!(*scene.helper.requests.borrow(), [Request::Name(Tid(20))]);
    assert_eq!(scene.session.name(Tid(20)), None);
    scene.helper.answers.borrow_mut().push_back(Answer::Name(Tid(20), scene.system.thread(Tid(20))));
    scene.housekeeping(4);
    assert_eq!(scene.session.name(Tid(20)), Some("task-20"));
}

#[test]
fn names_are_kept_up_to_a_bound() {
    // Three are of kernel threads.
    const MAX: i32 = 100_000 - 3;
    let first = 1_000;
    let tasks = first..first + MAX + 2;
    let mut scene = Scene::map(vec![tasks.map(woke).collect()]);
    let Ok(_) = scene.session.poll(at(1), || {});
    let last = first + MAX - 1;
    assert_eq!(scene.session.name(Tid(last)), Some(format!("task-{last}").as_str()));
    assert_eq!((scene.session.name(Tid(last + 1)), scene.session.name(Tid(last + 2))), (None, None));
}

#[test]
fn names_of_forgotten_accounts_are_forgotten() {
    // One more than a daemon keeps: half of that is left.
    let tasks = 1_000..1_000 + 2_049;
    let mut scene = Scene::new(Vec::new(), tasks.clone().map(woke).collect(), false, true);
    for tid in tasks.clone() {
        scene.session.add_thread(scene.system.thread(Tid(tid)).unwrap(), at(0));
    }
    scene.housekeeping(1);
    let named: Vec<i32> = tasks.filter(|&tid| scene.session.name(Tid(tid)).is_some()).collect();
    assert_eq!((named.len(), named.first(), named.last()), (1_024, Some(&2_025), Some(&3_048)));
    assert_eq!(scene.session.name(WORKER), Some("kworker/0:1"));
    assert_eq!(scene.session.attribution().forgotten(), 1_025);
}

#[test]
fn kswapd_follows_the_share_of_pages_that_was_read() {
    let mut scene = Scene::map(vec![vec![begin(1, reclaim(), 20, 60, None)]]);
    let pages = ReclaimPages { of_tasks: 1, all: 4 };
    scene.system.share.set(Some(ReclaimShare::Pages(pages)));
    scene.pass(1);
    assert_eq!(scene.system.threads.borrow()[&KSWAPD].1, fifo(48), "all pages count at first");
    scene.housekeeping(2);
    scene.pass(3);
    assert_eq!(scene.system.threads.borrow()[&KSWAPD].1, fifo(12), "a quarter of 0.8 * 60");
    let shares = scene.session.page_shares().unwrap();
    assert_eq!((shares.asked, shares.measured, shares.last), (1, 1, Some(0.25)));
    assert_eq!(scene.session.reclaim_pages(), Some(pages));
    scene.system.share.set(Some(ReclaimShare::Unknown));
    scene.housekeeping(4);
    scene.pass(5);
    assert_eq!(scene.system.threads.borrow()[&KSWAPD].1, fifo(48));
    scene.system.share.set(Some(ReclaimShare::TasksEnded));
    scene.housekeeping(6);
    let shares = scene.session.page_shares().unwrap();
    assert_eq!((shares.asked, shares.measured, shares.unknown), (3, 1, 1));
}

#[test]
fn a_helper_late_with_the_share_is_boosted_to_the_lowest_waiter() {
    let waits = vec![begin(1, reclaim(), 20, 60, None), begin(1, reclaim(), 21, 30, None)];
    let mut scene = Scene::daemon(vec![waits]);
    scene.pass(1);
    scene.housekeeping(2);
    let share = Request::Share(vec![Tid(20), Tid(21)]);
    assert_eq!(scene.helper.requests.borrow().last(), Some(&share));
    assert_eq!(scene.helper.boosts.borrow().len(), 0);
    scene.housekeeping(3);
    assert_eq!(*scene.helper.boosts.borrow(), [30]);
    let pages = ReclaimPages { of_tasks: 1, all: 2 };
    scene.helper.answers.borrow_mut().push_back(Answer::Share(ReclaimShare::Pages(pages)));
    scene.housekeeping(4);
    assert_eq!((scene.helper.boosts.borrow().len(), scene.session.reclaim_pages()), (1, Some(pages)));
    assert_eq!(scene.session.page_shares().unwrap().asked, 2, "answered, it is asked again");
}

#[test]
fn a_map_watches_the_threads_that_were_waited_for_and_names_all() {
    let mut scene = Scene::map(vec![vec![
        begin(1, item(5), 20, 50, Some(WORKER)),
        done(2, item(5), WORKER),
        begin(3, item(6), 21, 30, Some(WORKER)),
        woke(22),
    ]]);
    let Ok(_) = scene.session.poll(at(3), || {});
    let Ok(()) = scene.session.donate();
    scene.housekeeping(3);
    // The highest of those that wait: the first one counts for the hold.
    assert_eq!(*scene.watched.borrow(), BTreeMap::from([(WORKER, 50)]));
    let map = TuneMap::of(&scene.session, PolicyKind::WeightedAverage, at(3));
    let [thread] = map.threads.as_slice() else { panic!("{:?}", map.threads) };
    // 0.8 * 50 with the first alone.
    assert_eq!((thread.tid, thread.runs_at, thread.by_policy), (WORKER, fifo(0), fifo(40)));
    assert_eq!(thread.waits.as_ref().unwrap().longest_inversion_by.as_deref(), Some("busy (99)"));
    let [waiter] = thread.waiters.as_slice() else { panic!("{:?}", thread.waiters) };
    assert_eq!((waiter.comm.as_deref(), waiter.times, waiter.hard), (Some("task-20"), 1, 0));
    assert_eq!(map.softirq[0].comm.as_deref(), Some("task-22"));
    assert_eq!((map.open, map.expired), (BTreeMap::from([(RelationKind::WorkItem, 1)]), 2));
}
