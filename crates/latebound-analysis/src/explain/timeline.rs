// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was on top of one CPU at each instant, rebuilt from its events.
//!
//! A CPU runs a thread; over it softirq handlers, over those hard interrupts, over all of them NMIs. Entries open a frame,
//! exits close it. What was open before the first event is told by the exits and the switch that come without their
//! beginnings. Where the recorder lost events nothing is said.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use latebound_model::{Event, EventKind, InterruptKind, Nanos, Task, Tid};

use super::precedence::rank;

/// A handler that runs over the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A hard interrupt's.
    Interrupt(InterruptKind),
    /// A softirq's.
    Softirq(u32),
}

/// A frame with the moment it was opened; `None` where that was before the first event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenFrame {
    pub(super) frame: Frame,
    pub(super) since: Option<Nanos>,
}

/// What ran on a CPU for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Top {
    /// The innermost handler.
    pub(super) frame: Option<Rc<OpenFrame>>,
    /// The thread underneath; `None` where no event tells.
    pub(super) task: Option<Rc<Task>>,
    /// The work item's function that the thread runs, where it is a worker.
    pub(super) work: Option<Rc<str>>,
    /// Whether the thread is inside `__schedule`.
    pub(super) scheduling: bool,
    /// Whether the thread was told to give way, lazily: it need not before it returns to user space, and at a tick it is told at once.
    pub(super) told_lazily: bool,
}

/// A state of the CPU, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Events were lost here.
    Lost,
    /// The hypervisor ran something else.
    Stolen,
    /// An NMI's handler ran.
    Nmi,
    /// This ran.
    Top(Top),
}

/// Disjoint intervals in order.
type Intervals = Vec<(Nanos, Nanos)>;

/// One CPU's history.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    /// From each of these moments to the next this was so; the first begins at zero.
    base: Vec<(Nanos, Option<Top>)>,
    nmis: Intervals,
    stolen: Intervals,
    /// Events before which the CPU changed to another thread without an event of that switch.
    unseen: Vec<Nanos>,
}

/// The threads as the events name them.
struct Names(HashMap<i32, Rc<Task>>);

impl Names {
    fn of(events: &[&Event]) -> Names {
        let mut names = HashMap::new();
        for event in events {
            match &event.kind {
                EventKind::Switch { prev, next, .. } => {
                    for task in [prev, next] {
                        names.entry(task.tid.0).or_insert_with(|| Rc::new(task.clone()));
                    }
                }
                EventKind::Waking { task } => {
                    names.entry(task.tid.0).or_insert_with(|| Rc::new(task.clone()));
                }
                _ => {}
            }
        }
        Names(names)
    }

    /// A thread that no event names has neither name nor priority.
    fn get(&self, tid: Tid) -> Rc<Task> {
        self.0.get(&tid.0).cloned().unwrap_or_else(|| Rc::new(Task { tid, ..Task::default() }))
    }
}

/// Who was current when the event was made, where it says so and can be taken at its word: an NMI can come after the
/// event of a switch and before the switch itself, and the stack of who is switched out is taken there, and its quota read.
pub(super) fn current_at(event: &Event) -> Option<Tid> {
    match &event.kind {
        EventKind::Switch { prev, .. } => Some(prev.tid),
        EventKind::Nmi { .. }
        | EventKind::KernelStack { .. }
        | EventKind::Quota { .. }
        | EventKind::Stolen { .. }
        | EventKind::Lost { .. } => None,
        _ => event.current,
    }
}

/// Who ran from each switch on, by the switch's place among the events of a CPU.
fn runners(events: &[&Event]) -> HashMap<usize, Rc<Task>> {
    let mut runners = HashMap::new();
    let mut leaves: Option<&Task> = None;
    for (index, event) in events.iter().enumerate().rev() {
        let EventKind::Switch { prev, next, .. } = &event.kind else { continue };
        let runner = match leaves {
            Some(left) if left.tid == next.tid && left != next => as_it_ran(next, left),
            _ => next.clone(),
        };
        runners.insert(index, Rc::new(runner));
        leaves = Some(prev);
    }
    runners
}

/// A thread that was one thing when it got the CPU and another when it left it: a program that was started by another, or that gave itself a
/// policy. No event tells from when on. It has its last name. Of two priorities it has the one that goes first: who rises goes on where it ran, and
/// who falls, or loses an inherited priority, has to leave at once.
fn as_it_ran(came: &Task, left: &Task) -> Task {
    let rises = match (rank(came), rank(left)) {
        (Some(came), Some(left)) => left < came,
        (came, _) => came.is_none(),
    };
    let shown = if rises { left } else { came };
    Task { policy: shown.policy, prio: shown.prio, ..left.clone() }
}

fn within(intervals: &Intervals, at: Nanos) -> bool {
    let after = intervals.partition_point(|(start, _)| *start <= at);
    after > 0 && at < intervals[after - 1].1
}

pub(super) fn merged(mut intervals: Intervals) -> Intervals {
    intervals.retain(|(start, end)| start < end);
    intervals.sort_unstable();
    let mut out: Intervals = Vec::with_capacity(intervals.len());
    for (start, end) in intervals {
        match out.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
    }
    out
}

impl Timeline {
    /// The history that these events of one CPU, in order of time, tell. On PREEMPT_RT softirqs are preemptible: they
    /// live through a switch, with the thread that runs them.
    pub(super) fn new(events: &[&Event], softirqs_preemptible: bool) -> Timeline {
        let mut timeline = Timeline::default();
        let mut unknown_from = Nanos::ZERO;
        let mut rest = events;
        loop {
            let lost = rest.iter().position(|event| matches!(event.kind, EventKind::Lost { .. }));
            let (segment, after) = rest.split_at(lost.unwrap_or(rest.len()));
            timeline.add_segment(unknown_from, segment, softirqs_preemptible);
            let Some((marker, tail)) = after.split_first() else { break };
            let last_known = segment.last().map_or(unknown_from, |event| event.at);
            timeline.push(last_known, None);
            unknown_from = marker.at;
            rest = tail;
        }
        timeline.nmis = merged(
            events
                .iter()
                .filter_map(|event| match event.kind {
                    EventKind::Nmi { duration } => Some((event.at.saturating_sub(duration), event.at)),
                    _ => None,
                })
                .collect(),
        );
        timeline.stolen = merged(stolen(events));
        timeline
    }

    fn push(&mut self, at: Nanos, top: Option<Top>) {
        match self.base.last_mut() {
            Some(last) if last.0 == at => last.1 = top,
            Some(last) if last.1 == top => {}
            _ => self.base.push((at, top)),
        }
    }

    fn add_segment(&mut self, from: Nanos, events: &[&Event], softirqs_preemptible: bool) {
        let inferred = unmatched_exits(events, softirqs_preemptible);
        let first_task = events.iter().find_map(|event| match &event.kind {
            EventKind::Switch { prev, .. } => Some(Rc::new(prev.clone())),
            // A CPU that idles all the time is interrupted, and switches to nobody.
            _ if current_at(event) == Some(Tid(0)) => Some(Rc::default()),
            _ => None,
        });
        let mut state = State { task: first_task, softirqs_preemptible, ..State::default() };
        state.open_inferred(&inferred, None, None);
        self.push(from, Some(state.top()));
        let (names, runners) = (Names::of(events), runners(events));
        let mut before = from;
        for (index, event) in events.iter().enumerate() {
            if let Some(current) = current_at(event)
                && state.task.as_ref().is_some_and(|task| task.tid != current)
            {
                // A switch came to pass since the event before, and made no event. Inside the scheduler that is where
                // it was; elsewhere nobody knows from when on who had the CPU.
                self.unseen.push(event.at);
                if !state.scheduling {
                    self.push(before, Some(Top::default()));
                }
                state.change_to(names.get(current));
            }
            before = event.at;
            match runners.get(&index) {
                Some(runner) => state.change_to(runner.clone()),
                None => state.apply(event),
            }
            state.open_inferred(&inferred, Some(index), Some(event.at));
            self.push(event.at, Some(state.top()));
        }
    }

    /// What ran at this moment, whatever took the CPU away from it.
    pub(super) fn top(&self, at: Nanos) -> Option<&Top> {
        let after = self.base.partition_point(|(start, _)| *start <= at);
        after.checked_sub(1).and_then(|index| self.base.get(index)).and_then(|(_, top)| top.as_ref())
    }

    /// What was so at this moment and until the next of [`Timeline::cuts`].
    pub(super) fn at(&self, at: Nanos) -> What {
        match self.top(at) {
            None => What::Lost,
            Some(_) if within(&self.stolen, at) => What::Stolen,
            Some(_) if within(&self.nmis, at) => What::Nmi,
            Some(top) => What::Top(top.clone()),
        }
    }

    /// Where in `[from, to]` the CPU had no thread to run: its idle task, also where a handler ran over it. What is not known is left out.
    pub(super) fn idle(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = (Nanos, Nanos)> + '_ {
        let first = self.base.partition_point(|(start, _)| *start <= from).saturating_sub(1);
        let states = self.base.get(first..).unwrap_or_default();
        let ends = states.iter().skip(1).map(|(start, _)| *start).chain([to]);
        states
            .iter()
            .zip(ends)
            .take_while(move |((start, _), _)| *start < to)
            .filter(|((_, top), _)| {
                top.as_ref().and_then(|top| top.task.as_ref()).is_some_and(|task| task.is_idle())
            })
            .map(move |((start, _), end)| (from.max(*start), end.min(to)))
            .filter(|(start, end)| start < end)
    }

    /// How much of `[start, end]` the hypervisor says that it took.
    pub(super) fn stolen_within(&self, start: Nanos, end: Nanos) -> Nanos {
        let overlap = |(from, to): &(Nanos, Nanos)| to.0.min(end.0).saturating_sub(from.0.max(start.0));
        Nanos(self.stolen.iter().map(overlap).sum())
    }

    /// How many switches in `[from, to]` made no event.
    pub(super) fn unseen_switches(&self, from: Nanos, to: Nanos) -> u64 {
        self.unseen.iter().filter(|at| (from..=to).contains(*at)).count() as u64
    }

    /// Every moment inside `(from, to)` at which something changed.
    pub(super) fn cuts(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = Nanos> + '_ {
        let ends = self.nmis.iter().chain(&self.stolen).flat_map(|&(start, end)| [start, end]);
        self.base.iter().map(|(start, _)| *start).chain(ends).filter(move |at| from < *at && *at < to)
    }
}

/// Where stolen time lay. The hypervisor's account is read now and then, so only a window is known: from the account
/// before to this one. While a virtual CPU does not run it makes no events, so stolen time lies in the longest gaps
/// between events of the window, and at their ends: what ends a gap is what was held up.
fn stolen(events: &[&Event]) -> Intervals {
    let mut out = Vec::new();
    let mut window_from: Option<usize> = None;
    for (index, event) in events.iter().enumerate() {
        let EventKind::Stolen { duration } = event.kind else { continue };
        if duration > Nanos::ZERO {
            let first = window_from.unwrap_or(0);
            let mut gaps: Intervals =
                events[first..=index].windows(2).map(|pair| (pair[0].at, pair[1].at)).collect();
            gaps.sort_by_key(|(start, end)| std::cmp::Reverse(end.saturating_sub(*start)));
            let mut left = duration;
            for (start, end) in gaps {
                if left == Nanos::ZERO {
                    break;
                }
                let taken = left.min(end.saturating_sub(start));
                out.push((end.saturating_sub(taken), end));
                left = left.saturating_sub(taken);
            }
        }
        window_from = Some(index);
    }
    out
}

/// Frames whose exit comes without an entry, by the event behind which they must have been opened: `None` for before
/// the first event.
type Inferred = BTreeMap<Option<usize>, Vec<Frame>>;

/// Finds exits without entries. Such a frame was opened no earlier than the last event that shows it closed: a switch or
/// a scheduler's event shows all closed, a softirq's event all softirqs (they do not nest), a vector's event all
/// interrupts, a device's event all devices' (interrupts are masked while a handler runs, but a vector may dispatch a
/// device's handler).
fn unmatched_exits(events: &[&Event], softirqs_preemptible: bool) -> Inferred {
    let mut inferred = Inferred::new();
    let mut open: Vec<Frame> = Vec::new();
    let mut parked: HashMap<i32, Vec<Frame>> = HashMap::new();
    // By kind of frame: softirqs, devices, vectors.
    let mut closed: [Option<usize>; 3] = [None; 3];
    let place = |frame: &Frame| match frame {
        Frame::Softirq(_) => 0,
        Frame::Interrupt(InterruptKind::Device { .. }) => 1,
        Frame::Interrupt(InterruptKind::Vector { .. }) => 2,
    };
    for (index, event) in events.iter().enumerate() {
        let here = Some(index);
        let ended = match &event.kind {
            EventKind::InterruptEntry(kind) => {
                open.push(Frame::Interrupt(kind.clone()));
                continue;
            }
            EventKind::SoftirqEntry { vector } => {
                open.push(Frame::Softirq(*vector));
                continue;
            }
            EventKind::InterruptExit(kind) => Frame::Interrupt(kind.clone()),
            EventKind::SoftirqExit { vector } => Frame::Softirq(*vector),
            EventKind::SchedulerEntry | EventKind::SchedulerExit => {
                open.retain(|frame| softirqs_preemptible && matches!(frame, Frame::Softirq(_)));
                closed = if softirqs_preemptible { [closed[0], here, here] } else { [here; 3] };
                continue;
            }
            EventKind::Switch { prev, next, .. } => {
                open.retain(|frame| softirqs_preemptible && matches!(frame, Frame::Softirq(_)));
                parked.insert(prev.tid.0, std::mem::take(&mut open));
                open = parked.remove(&next.tid.0).unwrap_or_default();
                closed = [here; 3];
                continue;
            }
            _ => continue,
        };
        match open.iter().rposition(|found| *found == ended) {
            Some(place) => open.truncate(place),
            None => inferred.entry(closed[place(&ended)]).or_default().push(ended.clone()),
        }
        match ended {
            Frame::Softirq(_) => closed[0] = here,
            Frame::Interrupt(InterruptKind::Device { .. }) => closed[1] = here,
            Frame::Interrupt(InterruptKind::Vector { .. }) => closed[1..].fill(here),
        }
    }
    inferred
}

#[derive(Default)]
struct State {
    task: Option<Rc<Task>>,
    frames: Vec<Rc<OpenFrame>>,
    /// Softirqs of threads that were switched out in the middle of them, which PREEMPT_RT allows.
    parked: HashMap<i32, Vec<Rc<OpenFrame>>>,
    work: HashMap<i32, Rc<str>>,
    scheduling: bool,
    told_lazily: bool,
    softirqs_preemptible: bool,
}

impl State {
    fn top(&self) -> Top {
        Top {
            frame: self.frames.last().cloned(),
            task: self.task.clone(),
            work: self.task.as_ref().and_then(|task| self.work.get(&task.tid.0)).cloned(),
            scheduling: self.scheduling && self.frames.is_empty(),
            told_lazily: self.told_lazily,
        }
    }

    fn open_inferred(&mut self, inferred: &Inferred, behind: Option<usize>, since: Option<Nanos>) {
        // The innermost closes first, so it is opened last.
        for frame in inferred.get(&behind).into_iter().flatten().rev() {
            self.frames.push(Rc::new(OpenFrame { frame: frame.clone(), since }));
        }
    }

    fn open(&mut self, frame: Frame, at: Nanos) {
        // No handler interrupts itself: an older one of the same name lost its exit.
        self.close(&frame);
        self.frames.push(Rc::new(OpenFrame { frame, since: Some(at) }));
    }

    fn close(&mut self, frame: &Frame) {
        if let Some(place) = self.frames.iter().rposition(|open| open.frame == *frame) {
            self.frames.truncate(place);
        }
    }

    /// Another thread has the CPU.
    fn change_to(&mut self, next: Rc<Task>) {
        // No interrupt lives through a switch; a softirq does on PREEMPT_RT, with the thread that runs it.
        self.keep_preemptible();
        let frames = std::mem::take(&mut self.frames);
        if let Some(prev) = self.task.as_ref().filter(|_| !frames.is_empty()) {
            self.parked.insert(prev.tid.0, frames);
        }
        self.frames = self.parked.remove(&next.tid.0).unwrap_or_default();
        self.task = Some(next);
        self.scheduling = false;
        self.told_lazily = false;
    }

    fn keep_preemptible(&mut self) {
        let keep = self.softirqs_preemptible;
        self.frames.retain(|open| keep && matches!(open.frame, Frame::Softirq(_)));
    }

    fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::InterruptEntry(kind) => self.open(Frame::Interrupt(kind.clone()), event.at),
            EventKind::InterruptExit(kind) => self.close(&Frame::Interrupt(kind.clone())),
            EventKind::SoftirqEntry { vector } => self.open(Frame::Softirq(*vector), event.at),
            EventKind::SoftirqExit { vector } => self.close(&Frame::Softirq(*vector)),
            EventKind::SchedulerEntry => {
                self.keep_preemptible();
                self.scheduling = true;
            }
            // Whoever leaves the scheduler has no order any more (kernel/sched/core.c, __schedule, clear_tsk_need_resched).
            EventKind::SchedulerExit => {
                self.scheduling = false;
                self.told_lazily = false;
            }
            EventKind::NeedResched { tid, lazy } | EventKind::NeedReschedFound { tid, lazy } => {
                let current = self.task.as_ref().is_some_and(|task| task.tid == *tid);
                self.told_lazily = *lazy && current;
            }
            EventKind::WorkStart { function, .. } => {
                if let Some(task) = &self.task {
                    self.work.insert(task.tid.0, function.as_str().into());
                }
            }
            EventKind::WorkEnd { .. } => {
                if let Some(task) = &self.task {
                    self.work.remove(&task.tid.0);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::{Cpu, Policy, SwitchReason};

    fn task(tid: i32, comm: &str, policy: Policy, prio: i32) -> Task {
        Task { tid: Tid(tid), comm: comm.into(), policy: Some(policy), prio: Some(prio), kernel: false }
    }

    fn switch(at: u64, prev: &Task, next: &Task) -> Event {
        let kind =
            EventKind::Switch { prev: prev.clone(), reason: SwitchReason::Blocked, next: next.clone() };
        Event { at: Nanos(at), cpu: Cpu(0), current: None, kind }
    }

    /// Who runs at 15, where it got the CPU as `came` at 10 and left it as `left` at 20.
    fn runner(came: &Task, left: &Task) -> Option<Task> {
        let other = task(9, "other", Policy::Other, 120);
        let events = [switch(10, &other, came), switch(20, left, &other)];
        let timeline = Timeline::new(&events.iter().collect::<Vec<_>>(), false);
        timeline.top(Nanos(15)).and_then(|top| top.task.as_deref().cloned())
    }

    #[test]
    fn a_program_that_makes_itself_real_time_is_what_it_became() {
        let (came, left) = (task(1, "chrt", Policy::Other, 120), task(1, "hog", Policy::Fifo, 39));
        assert_eq!(runner(&came, &left), Some(left));
    }

    #[test]
    fn a_thread_that_falls_was_before_others_until_it_left() {
        let (came, left) = (task(1, "old", Policy::Fifo, 39), task(1, "new", Policy::Other, 120));
        assert_eq!(runner(&came, &left), Some(task(1, "new", Policy::Fifo, 39)));
        // It inherited a priority over a mutex.
        let (came, left) = (task(1, "a", Policy::Other, 9), task(1, "a", Policy::Other, 120));
        assert_eq!(runner(&came, &left), Some(came));
    }

    #[test]
    fn a_thread_whose_priority_was_not_known_has_that_with_which_it_left() {
        let came = Task { policy: None, prio: None, ..task(1, "a", Policy::Fifo, 39) };
        let left = task(1, "a", Policy::Fifo, 39);
        assert_eq!(runner(&came, &left), Some(left.clone()));
        assert_eq!(runner(&left, &came), Some(left));
    }

    #[test]
    fn where_another_leaves_than_came_nobody_knows_who_ran() {
        let (came, another) = (task(1, "a", Policy::Other, 120), task(2, "b", Policy::Fifo, 39));
        assert_eq!(runner(&came, &another), None);
    }
}
