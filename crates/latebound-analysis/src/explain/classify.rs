// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which cause one instant of a latency belongs to.

use std::collections::BTreeMap;
use std::rc::Rc;

use latebound_model::{
    CauseKind, Cpu, Event, EventKind, InterruptKind, KnownBy, Mechanism, Nanos, Stack, Standstill, Task, Tid,
    WaitThrough, softirq_name,
};

use super::limits;
use super::machine::Machine;
use super::precedence::{goes_before, is_real_time};
use super::quota::Quotas;
use super::thread::{Life, State};
use super::timeline::{Frame, OpenFrame, Timeline, Top, What};

/// What makes two instants belong to the same cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) kind: CauseKind,
    pub(super) subject: String,
    pub(super) irq: Option<u32>,
    pub(super) tid: Option<Tid>,
    pub(super) work: Option<String>,
    /// The control group for which the kernel does it.
    pub(super) group: Option<String>,
    /// The chain of waits behind which the cause lies.
    pub(super) via: Vec<(WaitThrough, Tid, KnownBy)>,
}

impl Key {
    pub(super) fn named(kind: CauseKind, subject: impl Into<String>) -> Key {
        Key { kind, subject: subject.into(), irq: None, tid: None, work: None, group: None, via: Vec::new() }
    }

    pub(super) fn unaccounted() -> Key {
        Key::named(CauseKind::Unaccounted, "")
    }
}

/// The cause of an instant, and the thread where it is one.
pub(super) type Verdict = (Key, Option<Task>);

pub(super) fn nameless(kind: CauseKind) -> Verdict {
    (Key::named(kind, ""), None)
}

pub(super) fn handler(frame: &Frame) -> Verdict {
    match frame {
        Frame::Interrupt(kind) => {
            let irq = match kind {
                InterruptKind::Device { irq, .. } => Some(*irq),
                _ => None,
            };
            (Key { irq, ..Key::named(CauseKind::Interrupt, kind.to_string()) }, None)
        }
        Frame::Softirq(vector) => (Key::named(CauseKind::Softirq, softirq_name(*vector)), None),
    }
}

pub(super) fn by_task(kind: CauseKind, task: &Task, top: &Top) -> Verdict {
    let work = top.work.as_ref().map(|function| function.to_string());
    let key = Key { tid: Some(task.tid), work, ..Key::named(kind, task.comm.clone()) };
    (key, Some(task.clone()))
}

/// What carried the wake-up.
#[derive(Clone, Debug)]
enum Carrier {
    /// No event tells, or another thread woke it.
    Unknown,
    /// A hard interrupt's handler, since this moment.
    Hard(Rc<OpenFrame>),
    /// A softirq's handler: a timer of the softirq kind.
    Soft {
        frame: Rc<OpenFrame>,
        /// When it was raised, and the handler in which.
        raised: Option<(Nanos, Option<Rc<OpenFrame>>)>,
        /// The thread in whose context it ran.
        runner: Option<Rc<Task>>,
    },
}

/// A stack that was taken in the interval.
#[derive(Clone, Debug)]
pub(super) struct TakenStack {
    pub(super) tid: Tid,
    /// Taken while it held the CPU, not when it gave it up.
    pub(super) held: bool,
    pub(super) stack: Stack,
}

/// Whose case it is, and from when to when.
pub(super) struct Subject<'t> {
    pub(super) tid: Tid,
    /// The thread as the caller names it, where no event does.
    pub(super) task: Option<&'t Task>,
    /// The CPU that it needed, where no event tells.
    pub(super) cpu: Cpu,
    pub(super) mechanism: Mechanism,
    pub(super) from: Nanos,
    pub(super) to: Nanos,
}

/// Everything that is known of one thread in an interval.
pub(super) struct Case<'m> {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    pub(super) cpu: Cpu,
    pub(super) task: Task,
    pub(super) life: Life,
    pub(super) events: &'m BTreeMap<Cpu, Vec<&'m Event>>,
    pub(super) timelines: &'m BTreeMap<Cpu, Timeline>,
    pub(super) stacks: Vec<TakenStack>,
    /// When a quota held the thread.
    pub(super) quota: Quotas,
    /// Where the CPUs stood still, or may have, around the interval.
    standstills: Rc<[Standstill]>,
    woken: Option<(Nanos, Cpu)>,
    carrier: Carrier,
    slack_end: Nanos,
    /// Whether the events show when a CPU is told to give way.
    shows_orders: bool,
    /// Stretches in which the scheduler passed the thread over.
    throttled: Vec<(Nanos, Nanos)>,
}

fn since(frame: &OpenFrame) -> Nanos {
    frame.since.unwrap_or(Nanos::ZERO)
}

impl<'m> Case<'m> {
    pub(super) fn new(subject: &Subject<'_>, machine: &'m Machine<'m>) -> Case<'m> {
        let Subject { tid, from, to, .. } = *subject;
        let life = Life::new(&machine.sorted, tid);
        let woken = life.woken(from, to);
        let named = life.named().cloned().or_else(|| subject.task.cloned());
        let mut case = Case {
            from,
            to,
            cpu: subject.cpu,
            task: named.unwrap_or_else(|| Task { tid, ..Task::default() }),
            life,
            events: &machine.events,
            timelines: &machine.timelines,
            stacks: Vec::new(),
            quota: Quotas::new(&machine.sorted, tid, to),
            standstills: machine.standstills(from, to),
            woken,
            carrier: Carrier::Unknown,
            slack_end: from,
            shows_orders: machine.shows_orders,
            throttled: Vec::new(),
        };
        case.find_carrier(subject.mechanism);
        case.find_throttled();
        case.find_stacks();
        case
    }

    fn find_carrier(&mut self, mechanism: Mechanism) {
        let Some((woken_at, cpu)) = self.woken else { return };
        if mechanism != Mechanism::TimerWakeup {
            return;
        }
        let (Some(timeline), Some(events)) = (self.timelines.get(&cpu), self.events.get(&cpu)) else {
            return;
        };
        let expiry = expiry_in_progress(events, woken_at);
        let top = timeline.top(woken_at);
        let frame = top.and_then(|top| top.frame.clone());
        self.carrier = match (frame, expiry) {
            (Some(frame), _) => match frame.frame {
                Frame::Interrupt(_) => Carrier::Hard(frame),
                Frame::Softirq(vector) => {
                    let began = since(&frame);
                    let raised = events
                        .iter()
                        .rev()
                        .filter(|event| event.at <= began)
                        .find(|event| event.kind == EventKind::SoftirqRaise { vector })
                        .map(|event| (event.at, timeline.top(event.at).and_then(|top| top.frame.clone())));
                    Carrier::Soft { frame, raised, runner: top.and_then(|top| top.task.clone()) }
                }
            },
            // A kernel that shows the timer but not its interrupt.
            (None, Some(expiry)) => Carrier::Hard(Rc::new(OpenFrame {
                frame: Frame::Interrupt(latebound_model::InterruptKind::Vector { name: "timer".into() }),
                since: Some(expiry.at),
            })),
            (None, None) => Carrier::Unknown,
        };
        let came = match &self.carrier {
            Carrier::Unknown => return,
            Carrier::Hard(frame) => since(frame),
            Carrier::Soft { frame, raised, .. } => raised.as_ref().map_or(since(frame), |(at, _)| *at),
        };
        if let Some(EventKind::HrtimerExpireEntry { expires, .. }) = expiry.map(|event| &event.kind) {
            self.slack_end = (*expires).min(came).max(self.from);
        }
    }

    /// Finds where the scheduler chose a thread that must come after this one although this one waited on its queue.
    fn find_throttled(&mut self) {
        let waits: Vec<(Nanos, Nanos)> = self.life.waits(self.from, self.to).collect();
        let mut throttled = Vec::new();
        for (start, end) in waits {
            for (cpu, events) in self.events {
                let mut passed_over: Option<(Nanos, Nanos)> = None;
                let mut entered: Option<Nanos> = None;
                for event in events.iter().filter(|event| start <= event.at && event.at < end) {
                    let here = self.life.place(event.at) == Some(*cpu);
                    let woken = self.life.wakings.iter().any(|(at, _)| *at == start);
                    let local = self.life.wakings.iter().any(|(at, waker)| *at == start && waker == cpu);
                    // Who loses the CPU stays on its queue.
                    let margin = if local || !woken { Nanos::ZERO } else { limits::QUEUED_REMOTELY };
                    let settled = event.at.saturating_sub(start) >= margin;
                    let chosen = match &event.kind {
                        EventKind::SchedulerEntry => {
                            entered = Some(event.at);
                            continue;
                        }
                        EventKind::Switch { next, .. } => {
                            entered = None;
                            Some(next.clone())
                        }
                        EventKind::SchedulerExit => match entered.take() {
                            Some(_) => self.task_on(*cpu, event.at),
                            None => continue,
                        },
                        _ => continue,
                    };
                    let lower = chosen.is_some_and(|chosen| {
                        // No CPU idles beside a fair thread on its queue. What another CPU woke or moved may not be there yet: the
                        // interrupt that queues it, or has the queue looked at, waits as long as a hypervisor holds the CPU.
                        let sent = woken && !local || self.life.moves(start, event.at);
                        let mine = self.task_at(event.at);
                        let unqueued = chosen.is_idle() && sent && !is_real_time(mine);
                        chosen.tid != self.task.tid && !unqueued && goes_before(mine, &chosen) == Some(true)
                    });
                    // Whom a quota holds the scheduler passes over for that reason.
                    if here && settled && lower && !self.quota.passes_over(event.at, *cpu) {
                        let first = passed_over.map_or(event.at, |(first, _)| first);
                        passed_over = Some((first, event.at));
                    }
                }
                if let Some((first, last)) = passed_over {
                    // Whom the scheduler may take it has the CPU told to give way for, and until that happens preemption is off. Without
                    // that order the thread was passed over from the start.
                    let told = |event: &&Event| {
                        start <= event.at
                            && event.at <= first
                            && matches!(event.kind, EventKind::NeedResched { .. })
                    };
                    let from = if self.shows_orders && !events.iter().any(told) { start } else { first };
                    let ordered = events
                        .iter()
                        .find(|event| {
                            event.at > last
                                && event.at < end
                                && matches!(event.kind, EventKind::NeedResched { .. })
                        })
                        .map_or(end, |event| event.at);
                    throttled.push((from, ordered));
                }
            }
        }
        self.throttled = throttled;
    }

    fn find_stacks(&mut self) {
        for (cpu, events) in self.events {
            for (index, event) in events.iter().enumerate() {
                let EventKind::KernelStack { stack } = &event.kind else { continue };
                if event.at < self.from || event.at > self.to {
                    continue;
                }
                let switched =
                    events[..index].iter().rev().take_while(|before| before.at == event.at).find_map(
                        |before| match &before.kind {
                            EventKind::Switch { prev, .. } => Some(prev.tid),
                            _ => None,
                        },
                    );
                let owner = switched.or_else(|| self.task_on(*cpu, event.at).map(|task| task.tid));
                if let Some(tid) = owner {
                    self.stacks.push(TakenStack { tid, held: switched.is_none(), stack: stack.clone() });
                }
            }
        }
    }

    /// The thread with the priority that it had at this moment, as far as the events tell.
    pub(super) fn task_at(&self, at: Nanos) -> &Task {
        self.life.named_at(at).unwrap_or(&self.task)
    }

    fn task_on(&self, cpu: Cpu, at: Nanos) -> Option<Task> {
        self.timelines.get(&cpu)?.top(at)?.task.as_deref().cloned()
    }

    /// Whether a mark of lost events stands for losses before this moment: the last event before it is earlier than
    /// `to`.
    pub(super) fn lost_before(&self, mark: &Event, to: Nanos) -> bool {
        let events = self.events.get(&mark.cpu).map_or(&[][..], Vec::as_slice);
        let before = events.iter().rev().find(|event| event.at < mark.at);
        before.is_none_or(|before| before.at < to)
    }

    /// Every moment inside the interval at which the cause can change.
    pub(super) fn cuts(&self) -> Vec<Nanos> {
        let (from, to) = (self.from, self.to);
        let inside = |at: &Nanos| from < *at && *at < to;
        let mut cuts: Vec<Nanos> = self
            .timelines
            .values()
            .flat_map(|timeline| timeline.cuts(from, to).collect::<Vec<_>>())
            .collect();
        cuts.extend(self.life.cuts(from, to));
        cuts.extend(self.quota.cuts().filter(inside));
        cuts.extend(self.standstills.iter().flat_map(|still| [still.start, still.end]).filter(inside));
        let mut more = vec![self.slack_end];
        more.extend(self.throttled.iter().flat_map(|(start, end)| [*start, *end]));
        match &self.carrier {
            Carrier::Unknown => {}
            Carrier::Hard(frame) => more.extend(frame.since),
            Carrier::Soft { frame, raised, .. } => {
                more.extend(frame.since);
                more.extend(raised.as_ref().map(|(at, _)| *at));
            }
        }
        cuts.extend(more.into_iter().filter(inside));
        cuts
    }

    /// The cause of the piece that begins at this moment.
    pub(super) fn classify(&self, at: Nanos) -> Verdict {
        let state = self.life.state(at);
        let woken = self.woken.is_some_and(|(woken_at, _)| woken_at <= at);
        let cpu = match state {
            State::Running(cpu) => cpu,
            State::Ready => self.life.place(at).unwrap_or(self.cpu),
            State::Sleeping if !woken => self.woken.map_or(self.cpu, |(_, cpu)| cpu),
            State::Sleeping => return nameless(CauseKind::Blocked),
            State::Unknown => self.cpu,
        };
        if state == State::Sleeping && at < self.slack_end {
            return nameless(CauseKind::TimerSlack);
        }
        let what = self.timelines.get(&cpu).map_or(What::Lost, |timeline| timeline.at(at));
        if state == State::Ready
            && what != What::Lost
            && let Some(group) = self.quota.holds(at, cpu)
        {
            return (Key::named(CauseKind::Quota, group), None);
        }
        let top = match what {
            What::Lost => return nameless(CauseKind::Unaccounted),
            What::Stolen => return nameless(CauseKind::Stolen),
            _ if self.stood_still(cpu, at) => return nameless(CauseKind::StoodStill),
            What::Nmi => return nameless(CauseKind::Nmi),
            What::Top(top) => top,
        };
        match state {
            State::Sleeping => self.before_waking(at, &top),
            State::Ready => self.waiting(at, &top),
            State::Running(_) => self.running(&top, woken),
            State::Unknown => match (&top.frame, &top.task) {
                (Some(open), _) => handler(&open.frame),
                _ => nameless(CauseKind::Unaccounted),
            },
        }
    }

    pub(super) fn stood_still(&self, cpu: Cpu, at: Nanos) -> bool {
        let here = |still: &Standstill| still.cpu == cpu && still.start <= at && at < still.end;
        self.standstills.iter().any(|still| still.sure && here(still))
    }

    /// The standstills that bear on the latency: of the CPU that the thread needed at that time.
    pub(super) fn standstills_inside(&self) -> Vec<Standstill> {
        let needed = |still: &&Standstill| {
            let at = still.start.max(self.from);
            at < still.end.min(self.to) && self.needed_cpu(at) == still.cpu
        };
        self.standstills.iter().filter(needed).cloned().collect()
    }

    fn needed_cpu(&self, at: Nanos) -> Cpu {
        match self.life.state(at) {
            State::Running(cpu) => cpu,
            State::Ready => self.life.place(at).unwrap_or(self.cpu),
            State::Sleeping => self.woken.map_or(self.cpu, |(_, cpu)| cpu),
            State::Unknown => self.cpu,
        }
    }

    /// The thread sleeps; its timer is due.
    fn before_waking(&self, at: Nanos, top: &Top) -> Verdict {
        let frame = top.frame.as_ref();
        match &self.carrier {
            Carrier::Unknown => {
                frame.map_or_else(|| nameless(CauseKind::Unaccounted), |open| handler(&open.frame))
            }
            Carrier::Hard(own) if at >= since(own) => match frame {
                Some(open) if open != own => handler(&open.frame),
                _ => self.timer_interrupt(&own.frame),
            },
            Carrier::Hard(_) => self.interrupt_due(top),
            Carrier::Soft { frame: own, raised, runner } => {
                let came = raised.as_ref().map_or(since(own), |(raised_at, _)| *raised_at);
                let raiser = raised.as_ref().and_then(|(_, raiser)| raiser.as_ref());
                match frame {
                    Some(open) if Some(open) == raiser => self.timer_interrupt(&open.frame),
                    Some(open) => handler(&open.frame),
                    None if at < came => self.interrupt_due(top),
                    None => self.softirq_due(top, runner.as_deref()),
                }
            }
        }
    }

    fn timer_interrupt(&self, frame: &Frame) -> Verdict {
        let (key, _) = handler(frame);
        (Key { kind: CauseKind::TimerInterrupt, ..key }, None)
    }

    /// The timer's interrupt was due and has not come.
    fn interrupt_due(&self, top: &Top) -> Verdict {
        match (&top.frame, &top.task) {
            (Some(open), _) => handler(&open.frame),
            (None, None) => nameless(CauseKind::Unaccounted),
            (None, Some(task)) if task.is_idle() => nameless(CauseKind::IdleExit),
            (None, Some(task)) => by_task(CauseKind::InterruptDelayed, task, top),
        }
    }

    /// The timer's softirq was raised and has not begun: softirqs were off, or the thread that runs them had to wait.
    fn softirq_due(&self, top: &Top, runner: Option<&Task>) -> Verdict {
        match &top.task {
            None => nameless(CauseKind::Unaccounted),
            Some(task) if task.is_idle() => nameless(CauseKind::IdleExit),
            Some(_) if top.scheduling => nameless(CauseKind::Scheduler),
            Some(task) => match runner.filter(|runner| runner.tid != task.tid) {
                Some(runner) if goes_before(runner, task) != Some(true) => {
                    by_task(CauseKind::TaskFirst, task, top)
                }
                _ => by_task(CauseKind::PreemptionOff, task, top),
            },
        }
    }

    /// The thread is ready and waits for the CPU.
    fn waiting(&self, at: Nanos, top: &Top) -> Verdict {
        if let Some(open) = &top.frame {
            return handler(&open.frame);
        }
        let Some(task) = &top.task else { return nameless(CauseKind::Unaccounted) };
        if top.scheduling || task.tid == self.task.tid {
            return nameless(CauseKind::Scheduler);
        }
        let throttled = self.throttled.iter().any(|(start, end)| *start <= at && at < *end);
        match goes_before(self.task_at(at), task) {
            _ if task.is_idle() && !throttled => nameless(CauseKind::IdleExit),
            Some(true) if throttled => by_task(CauseKind::Throttled, task, top),
            Some(true) => by_task(CauseKind::PreemptionOff, task, top),
            Some(false) if top.told_lazily => by_task(CauseKind::LazyPreemption, task, top),
            Some(false) => by_task(CauseKind::TaskFirst, task, top),
            None => nameless(CauseKind::Unaccounted),
        }
    }

    /// The thread has the CPU.
    fn running(&self, top: &Top, woken: bool) -> Verdict {
        match (&top.frame, &top.task) {
            (Some(open), _) => handler(&open.frame),
            (None, Some(task)) if task.tid != self.task.tid => nameless(CauseKind::Unaccounted),
            (None, _) if woken => nameless(CauseKind::ReturnToUser),
            (None, _) => by_task(CauseKind::TaskFirst, &self.task, top),
        }
    }
}

/// The timer whose callback was running at this moment.
pub(super) fn expiry_in_progress<'a>(events: &[&'a Event], at: Nanos) -> Option<&'a Event> {
    let before = events.iter().rev().filter(|event| event.at <= at);
    let found = before.copied().find(|event| {
        matches!(
            event.kind,
            EventKind::HrtimerExpireEntry { .. }
                | EventKind::HrtimerExpireExit { .. }
                | EventKind::Switch { .. }
        )
    })?;
    matches!(found.kind, EventKind::HrtimerExpireEntry { .. }).then_some(found)
}
