// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kept a job between its start and its completion, and, for each wait on somebody, what kept that one.
//!
//! Every instant of the interval goes to one cause, behind a chain of waits that may be empty. Decisions that the data leaves open:
//! - A thread that sleeps waits for the owner of what it waits on, where that is known; else for the thread that ends its sleep.
//! - An interrupt that ends a sleep stands for nobody, with one exception: a network softirq delivers what a thread sent (loopback) where
//!   that thread raised it outside of any handler. Where the raise was not seen it is taken for that of the thread that it runs on top
//!   of, unless that is the idle task or a thread that runs softirqs for others.
//! - A timer that ends a sleep is the sleeper's own, but for a sleep until a block request is done.
//! - A kernel worker that ends a sleep does so in a work item, which is what was waited for, unless it was for a lock.
//! - Whoever is waited for is looked at in the same way, over the time of the wait only.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use latebound_model::{
    BlockStep, CallObject, CauseKind, Cpu, EventKind, FileKind, KnownBy, Mechanism, Nanos, SleepKind, Task,
    Tid, WaitLink, WaitThrough,
};

use super::classify::{Case, Key, Subject, Verdict, by_task, expiry_in_progress, handler, nameless};
use super::machine::Machine;
use super::requests::Request;
use super::story::{Sleep, Story};
use super::thread::State;
use super::timeline::{Frame, Top, What};

/// Chains are followed so far. Real ones are short; each link looks at all events once more.
const LINKS: usize = 12;

/// The TIMER softirq (include/linux/interrupt.h): timeouts of waits come from it where no hrtimer is used.
const TIMER_SOFTIRQ: u32 = 1;
/// NET_RX: messages are delivered in it.
const NET_RX_SOFTIRQ: u32 = 3;
/// BLOCK: requests are completed in it.
const BLOCK_SOFTIRQ: u32 = 4;

/// A stretch with one cause.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    pub(super) key: Key,
    pub(super) task: Option<Task>,
    pub(super) via: Vec<WaitLink>,
}

impl Piece {
    fn of(start: Nanos, end: Nanos, (key, task): Verdict) -> Piece {
        Piece { start, end, key, task, via: Vec::new() }
    }
}

/// One thread of a chain.
struct Thread<'m> {
    case: Case<'m>,
    story: Story,
}

/// The threads of a job.
pub(super) struct Job<'m> {
    machine: &'m Machine<'m>,
    from: Nanos,
    started: Nanos,
    to: Nanos,
    cpu: Cpu,
    threads: RefCell<BTreeMap<Tid, Rc<Thread<'m>>>>,
    /// Whose system calls are known to be recorded: those of the job's own thread, where any are.
    own: Tid,
    shows_calls: bool,
}

impl<'m> Job<'m> {
    /// The job of a thread, up to its completion.
    pub(super) fn new(machine: &'m Machine<'m>, release: &Subject<'_>, to: Nanos) -> Job<'m> {
        let is_call =
            |kind: &EventKind| matches!(kind, EventKind::SystemCallEntry { .. } | EventKind::SystemCallExit);
        let shows_calls = machine.sorted.iter().any(|event| is_call(&event.kind));
        Job {
            machine,
            from: release.from,
            started: release.to,
            to,
            cpu: release.cpu,
            threads: RefCell::default(),
            own: release.tid,
            shows_calls,
        }
    }

    /// Whether the thread ran between the release and the start: then it was at the job before.
    pub(super) fn is_behind(&self) -> bool {
        let thread = self.thread(self.own);
        let pieces = thread.case.life.pieces(self.from, self.started);
        pieces.iter().any(|(_, _, state)| matches!(state, State::Running(_)))
    }

    fn thread(&self, tid: Tid) -> Rc<Thread<'m>> {
        if let Some(known) = self.threads.borrow().get(&tid) {
            return Rc::clone(known);
        }
        let subject = Subject {
            tid,
            task: None,
            cpu: self.cpu,
            mechanism: Mechanism::ThreadWakeup,
            from: self.from,
            to: self.to,
        };
        let case = Case::new(&subject, self.machine);
        let thread = Rc::new(Thread { case, story: Story::new(self.machine, tid) });
        self.threads.borrow_mut().insert(tid, Rc::clone(&thread));
        thread
    }

    /// The causes of the job's own thread in `[from, to]`.
    pub(super) fn pieces(&self, from: Nanos, to: Nanos) -> Vec<Piece> {
        self.of_thread(self.own, from, to, &[])
    }

    /// The causes of a thread in `[from, to]`; `waiting` are those that wait for it, the job's own first.
    fn of_thread(&self, tid: Tid, from: Nanos, to: Nanos, waiting: &[Tid]) -> Vec<Piece> {
        let thread = self.thread(tid);
        let mut cuts: Vec<Nanos> = thread.case.cuts();
        cuts.extend(thread.story.cuts(from, to));
        cuts.sort_unstable();
        cuts.dedup();
        let mut pieces = Vec::new();
        for (start, end, state) in thread.case.life.pieces(from, to) {
            if state == State::Sleeping {
                pieces.extend(self.slept(tid, &thread, start, end, waiting));
                continue;
            }
            let first = cuts.partition_point(|cut| *cut <= start);
            let mut at = start;
            for cut in cuts[first..].iter().copied().take_while(|cut| *cut < end).chain([end]) {
                let verdict = match state {
                    State::Running(cpu) => self.running(tid, &thread, cpu, at),
                    _ => thread.case.classify(at),
                };
                pieces.push(Piece::of(at, cut, verdict));
                at = cut;
            }
        }
        pieces
    }

    /// The thread has this CPU.
    fn running(&self, tid: Tid, thread: &Thread<'_>, cpu: Cpu, at: Nanos) -> Verdict {
        let what = self.machine.timelines.get(&cpu).map_or(What::Lost, |timeline| timeline.at(at));
        let top: Top = match what {
            What::Lost => return nameless(CauseKind::Unaccounted),
            What::Stolen => return nameless(CauseKind::Stolen),
            _ if thread.case.stood_still(cpu, at) => return nameless(CauseKind::StoodStill),
            What::Nmi => return nameless(CauseKind::Nmi),
            What::Top(top) => top,
        };
        if let Some(open) = &top.frame {
            return handler(&open.frame);
        }
        if top.task.as_ref().is_none_or(|task| task.tid != tid) {
            return nameless(CauseKind::Unaccounted);
        }
        if let Some(reclaim) = reclaim(&thread.story, at) {
            return nameless(reclaim);
        }
        if let Some(fault) = thread.story.fault(at) {
            let kind = match fault.major {
                Some(true) => "major",
                Some(false) => "minor",
                None => "of unknown kind",
            };
            let subject = match fault.mapping.as_str() {
                "" => kind.to_owned(),
                mapping => format!("{kind}, {mapping}"),
            };
            return (Key::named(CauseKind::PageFault, subject), None);
        }
        let shows_calls = thread.story.shows_calls || (tid == self.own && self.shows_calls);
        let doing = thread.story.doing(at);
        if let Some(call) = doing.and_then(|doing| doing.call.as_ref()) {
            // The way back from the wait that the release ended. A job that a mark begins has none: it is released and started at once.
            let is_release = call.entered.is_none_or(|entered| entered <= self.started);
            if tid == self.own && at >= self.started && self.from < self.started && is_release {
                return nameless(CauseKind::ReturnToUser);
            }
            return (Key { tid: Some(tid), ..Key::named(CauseKind::SystemCall, call.name.clone()) }, None);
        }
        if doing.is_some_and(|doing| doing.signals > 0) {
            return nameless(CauseKind::SignalHandler);
        }
        if top.scheduling {
            return nameless(CauseKind::Scheduler);
        }
        let kind = if shows_calls { CauseKind::OwnCode } else { CauseKind::Ran };
        by_task(kind, thread.case.task_at(at), &top)
    }

    /// The thread slept in `[from, to]`, which may be a part of that sleep.
    fn slept(&self, tid: Tid, thread: &Thread<'_>, from: Nanos, to: Nanos, waiting: &[Tid]) -> Vec<Piece> {
        let whole = |verdict| vec![Piece::of(from, to, verdict)];
        let (start, end) = thread.case.life.sleep_around(from);
        let sleep = start.and_then(|start| thread.story.sleep(start));
        match sleep.map(|sleep| sleep.kind) {
            Some(SleepKind::Stopped) => return whole(nameless(CauseKind::Stopped)),
            Some(SleepKind::Frozen) => return whole(nameless(CauseKind::Frozen)),
            _ => {}
        }
        let at = start.unwrap_or(from);
        let through = through(&thread.story, sleep, at);
        if let Some(owner) = owner(&thread.story, at).filter(|owner| *owner != tid) {
            return self.waited(tid, owner, through, KnownBy::Owner, (from, to), waiting);
        }
        let Some(end) = end else {
            return whole(nameless(CauseKind::WaitedForUnknown));
        };
        let waking = thread.case.life.wakings.iter().rev().find(|(at, _)| *at == end);
        // A saved trace does not tell how a thread sleeps, and shows what was done just before the thread was woken.
        if sleep.is_none() && waking.is_some_and(|(at, cpu)| self.completed_a_request(*at, *cpu)) {
            return self.block_io(tid, end, from, to);
        }
        match waking.map(|(at, cpu)| self.waker(*at, *cpu)) {
            Some(Waker::Thread(waker)) if waker != tid => {
                self.waited(tid, waker, through, KnownBy::Waker, (from, to), waiting)
            }
            // A device may complete its requests by a timer of its own.
            Some(Waker::Timer) if sleep.is_some_and(|sleep| sleep.kind == SleepKind::BlockIo) => {
                self.block_io(tid, end, from, to)
            }
            Some(Waker::Timer) => {
                // Between two passes it waits for a while that others free some (mm/vmscan.c, reclaim_throttle).
                if let Some(reclaim) = reclaim(&thread.story, at) {
                    return whole(nameless(reclaim));
                }
                let call = sleep.and_then(|sleep| sleep.call.clone());
                // A saved trace tells the call by its entry alone.
                let entered = || Some(thread.story.doing(at)?.call.as_ref()?.name.clone());
                whole((Key::named(CauseKind::OwnSleep, call.or_else(entered).unwrap_or_default()), None))
            }
            Some(Waker::Handler { .. }) if sleep.is_some_and(|sleep| sleep.kind == SleepKind::BlockIo) => {
                self.block_io(tid, end, from, to)
            }
            Some(Waker::Handler { frame: Frame::Softirq(BLOCK_SOFTIRQ) }) => {
                self.block_io(tid, end, from, to)
            }
            Some(Waker::Handler { frame }) => {
                let (key, _) = handler(&frame);
                whole((Key { kind: CauseKind::WaitedForInterrupt, ..key }, None))
            }
            Some(Waker::Thread(_) | Waker::Unknown) | None => {
                let unknown = if sleep.is_some_and(|sleep| sleep.kind == SleepKind::BlockIo) {
                    CauseKind::BlockIo
                } else {
                    CauseKind::WaitedForUnknown
                };
                whole(nameless(unknown))
            }
        }
    }

    /// Whether what runs on a CPU at this moment has completed a block request, and nothing else began or ended there since.
    fn completed_a_request(&self, at: Nanos, cpu: Cpu) -> bool {
        let mut before = self.machine.sorted.iter().rev().filter(|event| event.cpu == cpu && event.at <= at);
        let told = before.find_map(|event| match &event.kind {
            EventKind::BlockRequest { step: BlockStep::Completed, .. } => Some(true),
            EventKind::InterruptEntry(_)
            | EventKind::InterruptExit(_)
            | EventKind::SoftirqEntry { .. }
            | EventKind::SoftirqExit { .. }
            | EventKind::Switch { .. } => Some(false),
            _ => None,
        });
        told.unwrap_or(false)
    }

    /// The thread waited for another one.
    fn waited(
        &self,
        tid: Tid,
        whom: Tid,
        through: WaitThrough,
        known_by: KnownBy,
        (from, to): (Nanos, Nanos),
        waiting: &[Tid],
    ) -> Vec<Piece> {
        let other = self.thread(whom);
        let task = other.case.task_at(from).clone();
        if waiting.contains(&whom) {
            let key = Key { tid: Some(whom), ..Key::named(CauseKind::Circle, task.comm.clone()) };
            return vec![Piece::of(from, to, (key, Some(task)))];
        }
        if waiting.len() >= LINKS {
            return vec![Piece::of(from, to, nameless(CauseKind::WaitedForUnknown))];
        }
        let mut path = waiting.to_vec();
        path.push(tid);
        let kernel_work = known_by == KnownBy::Waker && task.kernel && task.comm.starts_with("kworker/");
        let through = match through {
            WaitThrough::KernelLock | WaitThrough::Futex | WaitThrough::PiFutex => through,
            _ if kernel_work => WaitThrough::WorkItem,
            _ => through,
        };
        let mut pieces = self.of_thread(whom, from, to, &path);
        for piece in &mut pieces {
            piece.key.via.insert(0, (through, whom, known_by));
            piece.via.insert(0, WaitLink { through, task: task.clone(), known_by });
        }
        pieces
    }

    /// Who ended a sleep on this CPU at this moment.
    fn waker(&self, at: Nanos, cpu: Cpu) -> Waker {
        let (Some(events), Some(timeline)) =
            (self.machine.events.get(&cpu), self.machine.timelines.get(&cpu))
        else {
            return Waker::Unknown;
        };
        let Some(top) = timeline.top(at) else { return Waker::Unknown };
        if expiry_in_progress(events, at).is_some() {
            return Waker::Timer;
        }
        let task = top.task.as_ref().filter(|task| !task.is_idle());
        let open = top.frame.as_ref();
        match open.map(|open| open.frame.clone()) {
            Some(Frame::Softirq(TIMER_SOFTIRQ)) => Waker::Timer,
            Some(Frame::Softirq(NET_RX_SOFTIRQ)) => {
                let began = open.and_then(|open| open.since).unwrap_or(at);
                let raise = EventKind::SoftirqRaise { vector: NET_RX_SOFTIRQ };
                let raised = events.iter().rev().find(|event| event.at <= began && event.kind == raise);
                let sender = match raised.and_then(|raised| timeline.top(raised.at)) {
                    Some(raised) if raised.frame.is_some() => None,
                    Some(raised) => raised.task.as_deref().cloned(),
                    None => task.map(|task| (**task).clone()),
                };
                match sender.filter(|task| !task.is_idle() && !runs_softirqs(task)) {
                    Some(task) => Waker::Thread(task.tid),
                    None => Waker::Handler { frame: Frame::Softirq(NET_RX_SOFTIRQ) },
                }
            }
            Some(frame) => Waker::Handler { frame },
            None => task.map_or(Waker::Unknown, |task| Waker::Thread(task.tid)),
        }
    }

    /// A sleep of a thread that a completed request ended at `end`: the time in the device, and before that in front of it, behind what the device
    /// had to do first.
    fn block_io(&self, tid: Tid, end: Nanos, from: Nanos, to: Nanos) -> Vec<Piece> {
        let requests = self.machine.requests();
        let Some(own) = requests.completed_last(end) else {
            return vec![Piece::of(from, to, nameless(CauseKind::BlockIo))];
        };
        // What another thread of user space reads or writes is waited for: a page of both, or a place in the queue.
        let other = own.by.as_ref().filter(|task| task.tid != tid && !task.kernel);
        let mut name = own.name();
        if let Some(other) = other {
            name = format!("{name} of {}", other.comm);
        }
        let piece =
            |start: Nanos, end: Nanos, subject: String, whose: Option<&Task>, group: Option<&String>| {
                let tid = whose.map(|task| task.tid);
                let key = Key { tid, group: group.cloned(), ..Key::named(CauseKind::BlockIo, subject) };
                (start < end).then(|| Piece::of(start, end, (key, whose.cloned())))
            };
        let Some(issued) = own.issued.map(|at| at.clamp(from, to)) else {
            return piece(from, to, name, other, own.for_group()).into_iter().collect();
        };
        let queued = own.queued.map_or(from, |at| at.clamp(from, issued));
        let mut pieces = Vec::new();
        for (start, end, place) in [(from, queued, "not yet queued"), (queued, issued, "queued")] {
            let mut cuts = requests.changes(own, start, end);
            cuts.push(end);
            let mut at = start;
            for cut in cuts {
                let first = requests.before(own, at);
                let group = first.map_or(own.for_group(), Request::for_group);
                let mut subject = format!("{name}, {place}");
                if let Some(first) = first {
                    subject += &format!(" behind {}", first.name());
                    subject.extend(first.by.as_ref().map(|by| format!(" of {}", by.comm)));
                    subject.extend(group.map(|group| format!(" for {group}")));
                }
                let whose = first.map_or(other, |first| first.by.as_ref());
                pieces.extend(piece(at, cut, subject, whose, group));
                at = cut;
            }
        }
        pieces.extend(piece(issued, to, format!("{name}, in the device"), other, own.for_group()));
        pieces
    }
}

/// Whether it is a thread that runs softirqs for whoever raised them (kernel/softirq.c, `softirq_threads` and, on PREEMPT_RT, `timer_thread`).
fn runs_softirqs(task: &Task) -> bool {
    task.kernel && (task.comm.starts_with("ksoftirqd/") || task.comm.starts_with("ktimers/"))
}

/// What ended a sleep.
enum Waker {
    /// A thread.
    Thread(Tid),
    /// A timer, which is the sleeper's own.
    Timer,
    /// A handler.
    Handler { frame: Frame },
    /// No event tells.
    Unknown,
}

/// The cause by which the thread frees memory at this moment, where it does.
fn reclaim(story: &Story, at: Nanos) -> Option<CauseKind> {
    let of_group = story.doing(at)?.reclaims_of_group?;
    Some(if of_group { CauseKind::GroupReclaim } else { CauseKind::Reclaim })
}

/// The owner of what the thread waits on, where that is known.
fn owner(story: &Story, at: Nanos) -> Option<Tid> {
    let doing = story.doing(at)?;
    if let Some((_, owner)) = doing.lock {
        return owner;
    }
    match doing.call.as_ref()?.object {
        Some(CallObject::Futex { owner, .. }) => owner,
        _ => None,
    }
}

/// Through what the thread waits that goes to sleep at this moment.
fn through(story: &Story, sleep: Option<&Sleep>, at: Nanos) -> WaitThrough {
    let doing = story.doing(at);
    if doing.is_some_and(|doing| doing.lock.is_some()) {
        return WaitThrough::KernelLock;
    }
    if story.fault(at).is_some() {
        return WaitThrough::PageFault;
    }
    let call = doing.and_then(|doing| doing.call.as_ref());
    match call.and_then(|call| call.object) {
        Some(CallObject::Futex { inherits: true, .. }) => return WaitThrough::PiFutex,
        Some(CallObject::Futex { .. }) => return WaitThrough::Futex,
        Some(CallObject::File { kind, .. }) => match kind {
            FileKind::Pipe => return WaitThrough::Pipe,
            FileKind::Socket => return WaitThrough::Socket,
            FileKind::EventFd => return WaitThrough::EventFd,
            FileKind::Epoll => return WaitThrough::Poll,
            FileKind::Regular => return WaitThrough::File,
            FileKind::TimerFd | FileKind::Other => {}
        },
        _ => {}
    }
    let name = call.map(|call| call.name.as_str()).filter(|name| !name.is_empty());
    let name = name.or_else(|| sleep.and_then(|sleep| sleep.call.as_deref()));
    match name {
        None => WaitThrough::Unknown,
        Some(name) if name.starts_with("futex") => WaitThrough::Futex,
        Some("wait4" | "waitid") => WaitThrough::Child,
        Some("poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait" | "epoll_pwait2") => {
            WaitThrough::Poll
        }
        Some(
            "recvfrom" | "recvmsg" | "recvmmsg" | "sendto" | "sendmsg" | "accept" | "accept4" | "connect",
        ) => WaitThrough::Socket,
        Some("fsync" | "fdatasync" | "msync" | "sync_file_range" | "syncfs") => WaitThrough::File,
        Some(_) => WaitThrough::SystemCall,
    }
}
