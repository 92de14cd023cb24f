// SPDX-License-Identifier: MIT OR Apache-2.0
//! A workload from what a system did: who ran for how long, who slept, and which kernel thread ended the sleep.
//!
//! Owns what an activation and a request are in a stream of scheduler events. What it cannot tell:
//!
//! * An activation begins where a real-time task is woken out of an interruptible sleep: by an interrupt, by another task, or by a kernel thread that it
//!   did not ask; then it begins where that thread was woken, and the thread's part is the first of it. It ends where the task sleeps for
//!   the last time before the next. Sleeps that no signal ends (state D) are within one, and so is waiting for what was asked for.
//! * What a kernel thread did between being woken (or the end of the service before) and waking a task was for that task.
//! * A task that never sleeps so has an activation for each of its waits.
//! * The time of interrupts is that of the thread that they interrupted; from a wake-up on, until the switch, that of the woken
//!   thread, if it comes before the one that runs: so what waking and switching cost is its own.
//! * Who becomes real-time while it is recorded is a real-time task from then on, and stays one. The policy tells that, as a priority may be
//!   inherited over a lock. Saved traces have no policy: there it is the priority at a wake-up out of an interruptible sleep.
//! * Each thread stays on the CPU that it ran on most. Ordinary tasks are left out; a kernel thread without real-time
//!   priority has the processor for itself when no real-time thread runs.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use latebound_model::{Cpu, Event, EventKind, Nanos, Policy, SwitchReason, Task, Tid};

use super::{Server, SimulatedTask, Step, Work, Workload};
use crate::class::ThreadClass;
use crate::config::Config;
use latebound_model::Priority;

/// What was recorded, and how far it is what the system did.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadRecording {
    /// How many switches and wake-ups it was made of.
    pub events: u64,
    /// To be simulated.
    pub workload: Workload,
    /// Activations of which the begin or the end was not seen. They are simulated as far as they were seen, and no response time is recorded
    /// of them.
    pub cut_off: u64,
    /// How often events were lost. What was under way then is cut off.
    pub losses: u64,
    /// How many events that were, as far as it is known.
    pub lost_events: u64,
    /// The part of all run time that was not on the CPU that its thread has in the workload.
    pub elsewhere: f64,
    /// Threads that are not in the workload though they ran, with why.
    pub left_out: Vec<(String, &'static str)>,
}

/// Makes a workload from events, which must come in the order of time, over all CPUs.
#[derive(Debug)]
pub struct WorkloadRecorder {
    own: Option<Tid>,
    started: Option<Nanos>,
    last: Nanos,
    threads: BTreeMap<Tid, Thread>,
    cpus: BTreeMap<Cpu, OnCpu>,
    /// What kernel threads did that no task waited for, nor started: by when it came.
    unasked: Vec<(Nanos, Tid, Nanos)>,
    events: u64,
    losses: u64,
    lost_events: u64,
}

/// What runs on a CPU.
#[derive(Debug, Default)]
struct OnCpu {
    current: Option<Tid>,
    since: Nanos,
    /// Until when what it ran is counted to something already.
    counted: Nanos,
    /// How many are nested.
    interrupts: u32,
}

#[derive(Debug, Default)]
struct Thread {
    name: String,
    kernel: bool,
    /// `task_struct::prio`, as it was met first, or first as a real-time task: who inherits a priority has its own again.
    prio: Option<i32>,
    /// How many softirqs it runs, or that run on top of it. With PREEMPT_RT it may be preempted meanwhile.
    softirqs: u32,
    ran: Nanos,
    on: BTreeMap<Cpu, u64>,
    sleeps_since: Option<(Nanos, SwitchReason)>,
    /// It is ready and has not run since.
    woken: Option<Nanos>,
    open: Option<Open>,
    done: Vec<Draft>,
    service: Option<Service>,
}

/// An activation under way.
#[derive(Debug)]
struct Open {
    draft: Draft,
    /// How long the task had run when its last step began.
    ran: Nanos,
}

#[derive(Debug)]
struct Draft {
    release: Nanos,
    steps: Vec<Part>,
    ended: Nanos,
    /// Whether its begin and its end were seen.
    whole: bool,
    /// The waits within: how many steps there were when one was over, and when.
    waits: Vec<(usize, Nanos)>,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Run(Nanos),
    Sleep(Nanos),
    Ask { server: Tid, after: Nanos, demand: Nanos, wait: bool },
}

/// What a kernel thread does since it was woken, or since it woke somebody.
#[derive(Debug)]
struct Service {
    since: Nanos,
    ran: Nanos,
    /// The step of a task that woke it: the task, which of its activations, which step.
    asked: Option<(Tid, usize, usize)>,
}

/// What a kernel thread did for a task that it wakes.
#[derive(Debug)]
struct Served {
    by: Tid,
    /// Since when; `None`: it was at work for another, and this task waited for that.
    since: Option<Nanos>,
    /// How long it ran.
    demand: Nanos,
    /// Whether the task had woken it.
    was_asked: bool,
}

impl Default for WorkloadRecorder {
    fn default() -> WorkloadRecorder {
        WorkloadRecorder::new()
    }
}

impl WorkloadRecorder {
    /// One that has seen nothing.
    pub fn new() -> WorkloadRecorder {
        WorkloadRecorder {
            own: None,
            started: None,
            last: Nanos::ZERO,
            threads: BTreeMap::new(),
            cpus: BTreeMap::new(),
            unasked: Vec::new(),
            events: 0,
            losses: 0,
            lost_events: 0,
        }
    }

    /// The same, and this thread is no part of the workload: it is the one that records.
    pub fn without(own: Tid) -> WorkloadRecorder {
        WorkloadRecorder { own: Some(own), ..WorkloadRecorder::new() }
    }

    /// Takes the next event.
    pub fn observe(&mut self, event: &Event) {
        self.started.get_or_insert(event.at);
        self.last = self.last.max(event.at);
        self.events += u64::from(matches!(event.kind, EventKind::Switch { .. } | EventKind::Waking { .. }));
        let on = self.cpus.entry(event.cpu).or_default();
        match &event.kind {
            EventKind::InterruptEntry(_) => on.interrupts += 1,
            EventKind::InterruptExit(_) => on.interrupts = on.interrupts.saturating_sub(1),
            EventKind::SoftirqEntry { .. } => {
                if let Some(thread) = on.current.and_then(|tid| self.threads.get_mut(&tid)) {
                    thread.softirqs += 1;
                }
            }
            EventKind::SoftirqExit { .. } => {
                if let Some(thread) = on.current.and_then(|tid| self.threads.get_mut(&tid)) {
                    thread.softirqs = thread.softirqs.saturating_sub(1);
                }
            }
            EventKind::Switch { prev, reason, next } => self.switch(event, prev, *reason, next),
            EventKind::Waking { task } => self.waking(event, task),
            EventKind::Lost { events } => self.lose(events.unwrap_or(0)),
            _ => {}
        }
    }

    fn switch(&mut self, event: &Event, prev: &Task, reason: SwitchReason, next: &Task) {
        let on = self.cpus.entry(event.cpu).or_default();
        // A switch never happens within an interrupt: an exit was not recorded.
        on.interrupts = 0;
        let known = on.current == Some(prev.tid);
        let (since, counted) = (on.since, on.counted);
        (on.current, on.since) = (Some(next.tid), event.at);
        // What it cost to let the next one run is not what this one did.
        let goes_before = next.prio.zip(prev.prio).is_none_or(|(next, prev)| next < prev) || prev.is_idle();
        let woken = self.threads.get_mut(&next.tid).and_then(|thread| thread.woken.take());
        let switching = match woken {
            Some(at) if known && goes_before => event.at.saturating_sub(at.max(since).max(counted)),
            _ => Nanos::ZERO,
        };
        let ran = if known { event.at.saturating_sub(since).saturating_sub(switching) } else { Nanos::ZERO };
        if !prev.is_idle() {
            let thread = self.threads.entry(prev.tid).or_default();
            thread.learn(prev);
            thread.ran += ran;
            *thread.on.entry(event.cpu).or_default() += ran.0;
            if reason != SwitchReason::Preempted {
                thread.sleeps_since = Some((event.at, reason));
                thread.end_step();
                if let Some(open) = &mut thread.open {
                    open.draft.ended = event.at;
                }
                self.end_service(prev.tid);
            }
        }
        if !next.is_idle() {
            let thread = self.threads.entry(next.tid).or_default();
            thread.learn(next);
            thread.sleeps_since = None;
            thread.ran += switching;
            *thread.on.entry(event.cpu).or_default() += switching.0;
            if !thread.kernel && thread.is_real_time() && thread.open.is_none() {
                // It was under way before this was recorded.
                thread.open = Some(Open::new(event.at, Vec::new(), event.at, thread.ran, false));
            }
            if thread.kernel && thread.service.is_none() {
                // Its wake-up was not seen.
                thread.service = Some(Service { since: event.at, ran: thread.ran, asked: None });
            }
        }
    }

    fn waking(&mut self, event: &Event, task: &Task) {
        let waker = self.waker(event).map(|tid| (tid, self.ran(tid, event)));
        if let (Some(_), Some(on)) = (waker, self.cpus.get_mut(&event.cpu)) {
            on.counted = event.at;
        }
        let woken = self.threads.entry(task.tid).or_default();
        woken.learn(task);
        let Some((slept, reason)) = woken.sleeps_since.take() else { return };
        woken.woken = Some(event.at);
        if reason == SwitchReason::Blocked && task.policy.is_none() {
            woken.become_real_time(task.prio);
        }
        let (kernel, real_time) = (woken.kernel, woken.is_real_time());
        if kernel {
            let asked = waker.and_then(|(tid, ran)| self.ask(tid, ran, task.tid));
            if let Some(thread) = self.threads.get_mut(&task.tid) {
                thread.service = Some(Service { since: event.at, ran: thread.ran, asked });
            }
        } else if real_time {
            let served = waker.and_then(|(tid, ran)| self.serve(tid, event.at, ran, task.tid));
            let within = reason == SwitchReason::Uninterruptible
                || served.as_ref().is_some_and(|served| served.was_asked);
            let Some(woken) = self.threads.get_mut(&task.tid) else { return };
            let part = |since: Nanos| match &served {
                Some(served) => Part::Ask {
                    server: served.by,
                    after: served.since.map_or(Nanos::ZERO, |begun| begun.saturating_sub(since)),
                    demand: served.demand,
                    wait: true,
                },
                None => Part::Sleep(event.at.saturating_sub(since)),
            };
            if within {
                let ran = woken.ran;
                let open = woken.open.get_or_insert_with(|| Open::new(slept, Vec::new(), slept, ran, false));
                open.draft.steps.push(part(slept));
                open.draft.waits.push((open.draft.steps.len(), event.at));
                open.ran = ran;
                return;
            }
            woken.done.extend(woken.open.take().map(|open| open.draft));
            let begun = served.as_ref().and_then(|served| served.since).map(|since| since.max(slept));
            let release = begun.unwrap_or(event.at);
            let steps = if served.is_some() { vec![part(release)] } else { Vec::new() };
            woken.open = Some(Open::new(release, steps, event.at, woken.ran, true));
        }
    }

    /// How long a thread has run, with what no switch has told yet.
    fn ran(&self, tid: Tid, event: &Event) -> Nanos {
        let running = self.cpus.get(&event.cpu).filter(|on| on.current == Some(tid));
        let since = running.map_or(Nanos::ZERO, |on| event.at.saturating_sub(on.since));
        self.threads.get(&tid).map_or(Nanos::ZERO, |thread| thread.ran) + since
    }

    /// The thread that wakes, where a thread does: not an interrupt, and not a softirq on top of one that it does not belong to.
    fn waker(&self, event: &Event) -> Option<Tid> {
        let on = self.cpus.get(&event.cpu).filter(|on| on.interrupts == 0)?;
        let tid = event.current.or(on.current).filter(|tid| tid.0 != 0)?;
        let thread = self.threads.get(&tid)?;
        let class = ThreadClass::of(&thread.name, true, false);
        let runs_softirqs =
            matches!(class, Some(ThreadClass::Ksoftirqd | ThreadClass::Ktimers | ThreadClass::Interrupt));
        (thread.softirqs == 0 || runs_softirqs).then_some(tid)
    }

    /// A task wakes a kernel thread: a step of its activation, whose length is known when the thread is done.
    fn ask(&mut self, tid: Tid, ran: Nanos, server: Tid) -> Option<(Tid, usize, usize)> {
        let thread = self.threads.get_mut(&tid).filter(|thread| !thread.kernel && thread.is_real_time())?;
        let open = thread.open.as_mut()?;
        open.run_until(ran);
        open.draft.steps.push(Part::Ask { server, after: Nanos::ZERO, demand: Nanos::ZERO, wait: false });
        Some((tid, thread.done.len(), open.draft.steps.len() - 1))
    }

    /// A kernel thread wakes a task.
    fn serve(&mut self, tid: Tid, at: Nanos, ran: Nanos, task: Tid) -> Option<Served> {
        let thread = self.threads.get_mut(&tid).filter(|thread| thread.kernel)?;
        let service = thread.service.replace(Service { since: at, ran, asked: None })?;
        let demand = ran.saturating_sub(service.ran);
        let Some(asked) = service.asked else {
            return Some(Served { by: tid, since: Some(service.since), demand, was_asked: false });
        };
        if asked.0 == task {
            return Some(Served { by: tid, since: Some(service.since), demand, was_asked: true });
        }
        // It was at work for another, and this one waited for that: behind it in the same queue, with nothing of its own.
        self.set_demand(asked, demand);
        Some(Served { by: tid, since: None, demand: Nanos::ZERO, was_asked: false })
    }

    fn end_service(&mut self, tid: Tid) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let Some(service) = thread.service.take() else { return };
        let demand = thread.ran.saturating_sub(service.ran);
        if demand == Nanos::ZERO {
            return;
        }
        match service.asked {
            Some(asked) => self.set_demand(asked, demand),
            None => self.unasked.push((service.since, tid, demand)),
        }
    }

    fn set_demand(&mut self, (tid, activation, step): (Tid, usize, usize), ran: Nanos) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let draft = match activation.cmp(&thread.done.len()) {
            Ordering::Less => thread.done.get_mut(activation),
            Ordering::Equal => thread.open.as_mut().map(|open| &mut open.draft),
            // It was under way when events were lost.
            Ordering::Greater => None,
        };
        if let Some(Part::Ask { demand, .. }) = draft.and_then(|draft| draft.steps.get_mut(step)) {
            *demand = ran;
        }
    }

    /// Nothing that was under way is known to be whole.
    fn lose(&mut self, events: u64) {
        self.losses += 1;
        self.lost_events += events;
        for thread in self.threads.values_mut() {
            thread.cut_off();
            thread.service = None;
            thread.sleeps_since = None;
            thread.woken = None;
        }
        for on in self.cpus.values_mut() {
            *on = OnCpu::default();
        }
    }

    /// The workload so far.
    pub fn finish(mut self) -> WorkloadRecording {
        let started = self.started.unwrap_or(Nanos::ZERO);
        for thread in self.threads.values_mut() {
            thread.end_step();
            thread.cut_off();
            thread.done.retain(|draft| draft.whole || !draft.steps.is_empty());
            if thread.done.iter().all(|draft| !draft.whole) {
                thread.done = thread.done.drain(..).flat_map(Draft::by_waits).collect();
            }
        }
        let (mut all, mut at_home, mut left_out) = (0, 0, Vec::new());
        let ran = |thread: &&Thread| thread.ran > Nanos::ZERO;
        for thread in self.threads.values().filter(ran) {
            all += thread.ran.0;
            at_home += thread.on.values().max().copied().unwrap_or(0);
        }
        let served: Vec<Tid> =
            self.threads.iter().filter(|(_, one)| one.kernel && ran(one)).map(|(&tid, _)| tid).collect();
        let place = |tid: Tid| served.binary_search(&tid).ok();
        let usual = Config::default();
        let servers = served.iter().filter_map(|tid| {
            let thread = self.threads.get(tid)?;
            let class = ThreadClass::of(&thread.name, true, false)?;
            let weight = usual.rules(class).weight;
            Some(Server {
                name: thread.called(*tid),
                cpu: thread.home(),
                default: thread.priority(),
                fixed: None,
                weight,
            })
        });
        let servers: Vec<Server> = servers.collect();
        let (mut tasks, mut cut_off) = (Vec::new(), 0);
        for (&tid, thread) in self.threads.iter().filter(|(_, one)| !one.kernel && ran(one)) {
            if Some(tid) == self.own {
                left_out.push((thread.called(tid), "it is the one that recorded"));
            } else if thread.prio.is_some_and(|prio| prio < 0) {
                left_out.push((
                    thread.called(tid),
                    "it has a SCHED_DEADLINE reservation, which is not simulated",
                ));
            } else if thread.is_real_time() {
                cut_off += thread.done.iter().filter(|draft| !draft.whole).count() as u64;
                let works = thread.done.iter().map(|draft| draft.work(started, &place)).collect();
                tasks.push(SimulatedTask {
                    name: thread.called(tid),
                    cpu: thread.home(),
                    priority: thread.priority(),
                    activations: works,
                });
            }
        }
        self.unasked.sort_by_key(|one| one.0);
        let others = self.unasked.iter().filter_map(|&(at, tid, demand)| {
            let step =
                Step::Ask { server: place(tid)?, after: Nanos::ZERO, demand, wait: false, hard: false };
            Some(Work { release: at.saturating_sub(started), steps: vec![step], recorded: None })
        });
        let others: Vec<Work> = others.collect();
        if !others.is_empty() {
            tasks.push(SimulatedTask {
                name: OTHERS.to_owned(),
                cpu: 0,
                priority: None,
                activations: others,
            });
        }
        let elsewhere = if all == 0 { 0.0 } else { (all - at_home) as f64 / all as f64 };
        let workload = Workload { duration: self.last.saturating_sub(started), servers, tasks };
        let (events, losses, lost_events) = (self.events, self.losses, self.lost_events);
        WorkloadRecording { events, workload, cut_off, losses, lost_events, elsewhere, left_out }
    }
}

/// MAX_RT_PRIO (include/linux/sched/prio.h): ordinary threads begin here.
const FIRST_FAIR_PRIO: i32 = 100;

/// Who stands for interrupts, ordinary tasks and kernel threads where these start something. It takes no time itself.
const OTHERS: &str = "(others)";

impl Thread {
    fn learn(&mut self, task: &Task) {
        if task.comm != self.name {
            self.name = task.comm.to_string();
        }
        // Saved traces do not tell; then the name has to.
        let by_name =
            ThreadClass::of(&task.comm, true, false).is_some_and(|class| class != ThreadClass::Other);
        self.kernel |= task.kernel || by_name;
        match task.policy {
            None => self.prio = self.prio.or(task.prio),
            Some(Policy::Fifo | Policy::RoundRobin | Policy::Deadline) => self.become_real_time(task.prio),
            // Whatever it inherits just now.
            Some(_) => self.prio = self.prio.or(task.prio.map(|prio| prio.max(FIRST_FAIR_PRIO))),
        }
    }

    /// Ordinary until now, and of this priority from now on where that is a real-time one.
    fn become_real_time(&mut self, prio: Option<i32>) {
        if let (None | Some(FIRST_FAIR_PRIO..), Some(..FIRST_FAIR_PRIO)) = (self.prio, prio) {
            self.prio = prio;
        }
    }

    fn is_real_time(&self) -> bool {
        self.prio.is_some_and(|prio| (0..99).contains(&prio))
    }

    fn priority(&self) -> Option<Priority> {
        self.prio.and_then(|prio| Priority::new(u8::try_from(99 - prio).ok()?))
    }

    fn home(&self) -> u32 {
        self.on.iter().max_by_key(|(_, ran)| **ran).map_or(0, |(cpu, _)| cpu.0)
    }

    fn called(&self, tid: Tid) -> String {
        format!("{} {tid}", self.name)
    }

    fn cut_off(&mut self) {
        if let Some(mut open) = self.open.take() {
            open.draft.whole = false;
            self.done.push(open.draft);
        }
    }

    fn end_step(&mut self) {
        let ran = self.ran;
        if let Some(open) = &mut self.open {
            open.run_until(ran);
        }
    }
}

impl Open {
    fn new(release: Nanos, steps: Vec<Part>, ended: Nanos, ran: Nanos, whole: bool) -> Open {
        Open { draft: Draft { release, steps, ended, whole, waits: Vec::new() }, ran }
    }

    fn run_until(&mut self, ran: Nanos) {
        let took = ran.saturating_sub(self.ran);
        self.ran = ran;
        if took > Nanos::ZERO {
            self.draft.steps.push(Part::Run(took));
        }
    }
}

impl Draft {
    /// An activation for each wait and what went before it; what was seen of the last has no end.
    fn by_waits(self) -> Vec<Draft> {
        let mut drafts = Vec::new();
        let mut release = self.release;
        let mut steps = self.steps.into_iter();
        let mut taken = 0;
        for (until, at) in self.waits {
            let own = steps.by_ref().take(until - taken).collect();
            // What went before the first wait was not seen from its begin.
            let whole = taken > 0;
            drafts.push(Draft { release, steps: own, ended: at, whole, waits: Vec::new() });
            (taken, release) = (until, at);
        }
        let rest: Vec<Part> = steps.collect();
        if !rest.is_empty() {
            drafts.push(Draft { release, steps: rest, ended: self.ended, whole: false, waits: Vec::new() });
        }
        drafts
    }

    fn work(&self, started: Nanos, place: &impl Fn(Tid) -> Option<usize>) -> Work {
        let mut steps: Vec<Step> = Vec::new();
        for part in &self.steps {
            match *part {
                Part::Run(took) => match steps.last_mut() {
                    Some(Step::Run(before)) => *before += took,
                    _ => steps.push(Step::Run(took)),
                },
                Part::Sleep(time) => steps.push(Step::Sleep(time)),
                // What was asked for without waiting, and was done for another in the end.
                Part::Ask { demand: Nanos::ZERO, wait: false, .. } => {}
                Part::Ask { server, after, demand, wait } => {
                    if let Some(server) = place(server) {
                        steps.push(Step::Ask { server, after, demand, wait, hard: false });
                    }
                }
            }
        }
        Work {
            release: self.release.saturating_sub(started),
            steps,
            recorded: self.whole.then(|| self.ended.saturating_sub(self.release)),
        }
    }
}
