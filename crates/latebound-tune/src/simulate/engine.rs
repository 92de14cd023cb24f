// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulation: preemptive fixed priorities as `SCHED_FIFO` has them, one run queue for each CPU. Owns the schedule.
//!
//! Order within a priority, as the kernel has it (sched(7); kernel/sched/syscalls.c, __sched_setscheduler, 6.12): who
//! becomes ready goes to the tail; who is preempted stays at the head; who is raised while ready goes to the tail of its
//! new priority, who is lowered to the head.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use latebound_model::Nanos;

use super::{Outcome, Responses, Step, Workload, WorkloadError};
use crate::policy::{self, PageShare, PolicyKind};
use crate::waiters::Waiters;
use latebound_model::Dependency;
use latebound_model::{Priority, Scheduling};

/// Simulates a workload under a policy.
pub fn simulate(workload: &Workload, kind: PolicyKind) -> Result<Outcome, WorkloadError> {
    workload.check()?;
    let mut engine = Engine::new(workload, kind);
    engine.run();
    Ok(engine.outcome())
}

/// A thread of either sort, on a CPU's queue or not.
#[derive(Clone, Debug)]
struct Thread {
    cpu: u32,
    rank: u8,
    /// Place within its priority: the lower the sooner. `None`: it sleeps.
    place: Option<i64>,
    remaining: Nanos,
}

#[derive(Clone, Debug)]
struct Request {
    task: usize,
    demand: Nanos,
    dependency: Dependency,
    wait: bool,
}

/// What a device gives on when it is done.
#[derive(Clone, Debug)]
enum Arrival {
    /// To a kernel thread.
    Request(usize, Request),
    /// Nothing: it wakes a task.
    WakeUp(usize),
}

#[derive(Clone, Debug, Default)]
struct Progress {
    /// The activation at work.
    activation: usize,
    step: usize,
    /// How many are released.
    released: usize,
    busy: bool,
}

struct Engine<'a> {
    workload: &'a Workload,
    kind: PolicyKind,
    now: Nanos,
    /// Tasks first, servers then.
    threads: Vec<Thread>,
    progress: Vec<Progress>,
    queues: Vec<VecDeque<Request>>,
    waiters: Vec<Waiters>,
    /// What is with a device, by when it is done and the order of asking.
    devices: BTreeMap<(Nanos, u64), Arrival>,
    asked: u64,
    arriving: bool,
    tail: i64,
    head: i64,
    outcome: Outcome,
}

impl<'a> Engine<'a> {
    fn new(workload: &'a Workload, kind: PolicyKind) -> Engine<'a> {
        let thread = |cpu, priority: Option<Priority>| Thread {
            cpu,
            rank: priority.map_or(0, Priority::get),
            place: None,
            remaining: Nanos::ZERO,
        };
        let tasks = workload.tasks.iter().map(|task| thread(task.cpu, task.priority));
        let servers = workload.servers.iter().map(|server| thread(server.cpu, server.default));
        let none = Responses { times: Vec::new(), unfinished: 0 };
        let mut engine = Engine {
            workload,
            kind,
            now: Nanos::ZERO,
            threads: tasks.chain(servers).collect(),
            progress: vec![Progress::default(); workload.tasks.len()],
            queues: vec![VecDeque::new(); workload.servers.len()],
            waiters: vec![Waiters::default(); workload.servers.len()],
            devices: BTreeMap::new(),
            asked: 0,
            arriving: false,
            tail: 0,
            head: 0,
            outcome: Outcome {
                tasks: vec![none; workload.tasks.len()],
                served: vec![Nanos::ZERO; workload.servers.len()],
                changes: 0,
            },
        };
        (0..workload.servers.len()).for_each(|server| engine.follow_policy(server));
        engine.outcome.changes = 0;
        engine
    }

    fn run(&mut self) {
        loop {
            self.release();
            self.arrive();
            let running = self.running();
            // What ends when no clock comes so far ends never.
            let ends =
                running.iter().filter_map(|&thread| self.now.checked_add(self.threads[thread].remaining));
            let releases = self.workload.tasks.iter().zip(&self.progress).filter_map(|(task, progress)| {
                task.activations.get(progress.released).map(|work| work.release)
            });
            let arrivals = self.devices.keys().next().map(|key| key.0);
            let Some(next) = ends.chain(releases).chain(arrivals).min() else { return };
            if next > self.workload.duration {
                return;
            }
            let passed = next.saturating_sub(self.now);
            self.now = next;
            for &thread in &running {
                let state = &mut self.threads[thread];
                state.remaining = state.remaining.saturating_sub(passed);
                if let Some(server) = thread.checked_sub(self.progress.len()) {
                    self.outcome.served[server] += passed;
                }
            }
            for thread in running {
                if self.threads[thread].remaining == Nanos::ZERO && self.threads[thread].place.is_some() {
                    self.finish(thread);
                }
            }
        }
    }

    fn outcome(mut self) -> Outcome {
        for ((task, progress), responses) in
            self.workload.tasks.iter().zip(&self.progress).zip(&mut self.outcome.tasks)
        {
            let within =
                task.activations.iter().filter(|work| work.release <= self.workload.duration).count();
            responses.unfinished = within.max(progress.released) - responses.times.len();
        }
        self.outcome
    }

    /// Who runs on each CPU: the highest priority, then the first in its order.
    fn running(&self) -> Vec<usize> {
        let mut best: BTreeMap<u32, (Reverse<u8>, i64, usize)> = BTreeMap::new();
        for (number, thread) in self.threads.iter().enumerate() {
            if let Some(place) = thread.place {
                let one = (Reverse(thread.rank), place, number);
                best.entry(thread.cpu).and_modify(|best| *best = one.min(*best)).or_insert(one);
            }
        }
        best.into_values().map(|(_, _, number)| number).collect()
    }

    fn wake(&mut self, thread: usize) {
        if self.threads[thread].place.is_none() {
            self.tail += 1;
            self.threads[thread].place = Some(self.tail);
        }
    }

    fn release(&mut self) {
        for task in 0..self.progress.len() {
            let works = &self.workload.tasks[task].activations;
            while works.get(self.progress[task].released).is_some_and(|work| work.release <= self.now) {
                self.progress[task].released += 1;
            }
            self.begin_next(task);
        }
    }

    /// Takes up the next activation, if one is released and none is at work.
    fn begin_next(&mut self, task: usize) {
        let progress = &mut self.progress[task];
        if !progress.busy && progress.activation < progress.released {
            progress.busy = true;
            progress.step = 0;
            self.go_on(task);
        }
    }

    /// Does what takes no time, up to the next step that does.
    fn go_on(&mut self, task: usize) {
        loop {
            let Progress { activation, step, .. } = self.progress[task];
            let work = &self.workload.tasks[task].activations[activation];
            let Some(&step) = work.steps.get(step) else {
                let took = self.now.saturating_sub(work.release);
                self.outcome.tasks[task].times.push(took);
                self.progress[task].activation += 1;
                self.progress[task].busy = false;
                if self.progress[task].activation < self.progress[task].released {
                    // It goes on without having slept.
                    self.progress[task].busy = true;
                    self.progress[task].step = 0;
                    continue;
                }
                self.threads[task].place = None;
                return;
            };
            self.progress[task].step += 1;
            match step {
                Step::Run(demand) => {
                    self.threads[task].remaining = demand;
                    self.wake(task);
                    return;
                }
                Step::Sleep(time) => {
                    self.threads[task].place = None;
                    self.asked += 1;
                    if let Some(due) = self.now.checked_add(time) {
                        self.devices.insert((due, self.asked), Arrival::WakeUp(task));
                    }
                    return;
                }
                Step::Ask { server, after, demand, wait, hard } => {
                    let dependency = if hard { Dependency::Hard } else { Dependency::Soft };
                    self.ask(server, after, Request { task, demand, dependency, wait });
                    if wait {
                        self.threads[task].place = None;
                        return;
                    }
                }
            }
        }
    }

    fn ask(&mut self, server: usize, after: Nanos, request: Request) {
        if let Some(priority) = self.workload.tasks[request.task].priority {
            self.waiters[server].add(priority, request.dependency);
            self.follow_policy(server);
        }
        self.asked += 1;
        if let Some(due) = self.now.checked_add(after) {
            self.devices.insert((due, self.asked), Arrival::Request(server, request));
        }
        self.arrive();
    }

    /// Requests that the devices are done with go to their kernel threads.
    ///
    /// What is asked for while they go arrives in the same loop: calling itself for each would need a stack as deep as there are steps.
    fn arrive(&mut self) {
        if std::mem::replace(&mut self.arriving, true) {
            return;
        }
        while let Some(entry) = self.devices.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (server, request) = match entry.remove() {
                Arrival::Request(server, request) => (server, request),
                Arrival::WakeUp(task) => {
                    self.go_on(task);
                    continue;
                }
            };
            let thread = self.progress.len() + server;
            if self.queues[server].is_empty() {
                self.threads[thread].remaining = request.demand;
                self.wake(thread);
            }
            self.queues[server].push_back(request);
        }
        self.arriving = false;
    }

    /// A thread has run for as long as its step or request takes.
    fn finish(&mut self, thread: usize) {
        let Some(server) = thread.checked_sub(self.progress.len()) else { return self.go_on(thread) };
        let Some(request) = self.queues[server].pop_front() else { return };
        match self.queues[server].front() {
            Some(next) => self.threads[thread].remaining = next.demand,
            None => self.threads[thread].place = None,
        }
        if let Some(priority) = self.workload.tasks[request.task].priority {
            self.waiters[server].remove(priority, request.dependency);
            self.follow_policy(server);
        }
        if request.wait {
            self.go_on(request.task);
        }
    }

    /// Sets a kernel thread to what those that wait for it say.
    fn follow_policy(&mut self, server: usize) {
        let spec = &self.workload.servers[server];
        let default = spec.default.map_or(Scheduling::other(0), Scheduling::fifo);
        let fixed = spec.fixed.or(spec.default);
        let target =
            policy::target(self.kind, &self.waiters[server], spec.weight, PageShare::ALL, default, fixed);
        let thread = &mut self.threads[self.progress.len() + server];
        let rank = target.rank();
        if rank == thread.rank {
            return;
        }
        self.outcome.changes += 1;
        if thread.place.is_some() {
            if rank > thread.rank {
                self.tail += 1;
                thread.place = Some(self.tail);
            } else {
                self.head -= 1;
                thread.place = Some(self.head);
            }
        }
        thread.rank = rank;
    }
}
