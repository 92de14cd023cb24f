// SPDX-License-Identifier: MIT OR Apache-2.0
//! Activations that happen anyway, paired from events: what `observe` shows where no BPF program counts in the kernel.
//!
//! Owns the pairing of each request with its start and its end, over all CPUs. The moments and the names are those of the programs of
//! `latebound-probe` (`src/observe/*.bpf.c`), so that both give the same series. Takes numbers and short names; never reads a clock, a
//! file or a trace.

mod kept;
mod lost;
mod softirq;
mod threads;

use std::collections::{BTreeSet, VecDeque};

use foldhash::HashMap;
use latebound_model::{
    Activation, Context, Cpu, Loss, Mechanism, Nanos, Quantity, SOFTIRQ_NAMES, Series, Tid, softirq_name,
};

use kept::{Distributions, Late, Name, Origin, Seen, SubjectId};
use lost::{Losses, Lost};
use threads::Threads;

pub use kept::Names;
pub use softirq::{Began, Raised, SoftirqRule};
pub use threads::{LookUp, ThreadKind};

/// As many requests of each mechanism are remembered until they start; what is more is counted as lost.
const WAITING: usize = 1 << 16;
/// As many requests of one disk that name no sector are remembered.
const WITHOUT_SECTOR: usize = 64;

/// When and where something happened, and who was current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When, on `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// On which CPU.
    pub cpu: Cpu,
    /// The current thread.
    pub tid: Tid,
    /// What ran on top of it.
    pub context: Context,
}

/// A thread as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its id.
    pub tid: Tid,
    /// The kernel's priority.
    pub prio: i32,
    /// Its name of at most 15 bytes, with zeros behind them.
    pub comm: [u8; 16],
}

/// What happened, as far as activations are made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened<'a> {
    /// The handler of a device's interrupt begins.
    IrqEntry {
        /// The Linux interrupt number.
        irq: u32,
        /// The handler's name.
        name: &'a [u8],
    },
    /// It ends.
    IrqExit {
        /// The Linux interrupt number.
        irq: u32,
        /// Whether it asks for its thread.
        wakes_thread: bool,
    },
    /// The handler of a processor's vector begins: its name.
    VectorEntry(&'a str),
    /// It ends.
    VectorExit(&'a str),
    /// A softirq is asked for: its number.
    SoftirqRaise(u32),
    /// Its handler begins.
    SoftirqEntry(u32),
    /// It ends.
    SoftirqExit(u32),
    /// A tasklet's function begins.
    TaskletEntry {
        /// The tasklet's address.
        tasklet: u64,
        /// The function's address.
        function: u64,
    },
    /// It ends.
    TaskletExit {
        /// The tasklet's address.
        tasklet: u64,
    },
    /// An hrtimer is armed.
    TimerStart {
        /// Its address.
        timer: u64,
        /// When it has to have expired, slack included, on its own clock.
        expires: i64,
    },
    /// It is armed no more.
    TimerCancel {
        /// Its address.
        timer: u64,
    },
    /// Its callback begins.
    TimerEntry {
        /// Its address.
        timer: u64,
        /// What the kernel took for now, on the timer's clock: it is read once for all timers of an interrupt.
        now: i64,
    },
    /// It ends.
    TimerExit {
        /// Its address.
        timer: u64,
    },
    /// A work item is asked for.
    WorkQueue {
        /// Its address.
        work: u64,
    },
    /// Its queue lets it through.
    WorkActivate {
        /// Its address.
        work: u64,
    },
    /// Its function begins.
    WorkStart {
        /// Its address.
        work: u64,
        /// The function's address.
        function: u64,
    },
    /// It ends.
    WorkEnd {
        /// Its address.
        work: u64,
    },
    /// A thread is on a run queue because it was woken.
    Wakeup(Named),
    /// A CPU goes from one thread to another.
    Switch {
        /// Who ran.
        prev: Named,
        /// Who runs.
        next: Named,
    },
    /// A thread is made.
    Fork {
        /// By whom.
        parent: Tid,
        /// The new one.
        child: Tid,
    },
    /// A block request begins.
    BlockStart {
        /// The disk (`dev_t` of the kernel).
        device: u32,
        /// The first sector; 0 where it has none.
        sector: u64,
        /// Its length in bytes, where it may end in parts.
        bytes: Option<u32>,
    },
    /// It ends, or a part of it does.
    BlockEnd {
        /// The disk.
        device: u32,
        /// The first sector.
        sector: u64,
        /// How many bytes ended, where it may end in parts.
        bytes: Option<u32>,
    },
}

/// What one CPU is at.
#[derive(Clone, Debug, Default)]
struct CpuState {
    irq: Option<(Nanos, Option<SubjectId>)>,
    vectors: HashMap<String, Option<Nanos>>,
    softirqs: SoftirqRule,
    softirq: Option<(u32, Nanos)>,
    tasklet: Option<(u64, Nanos, Option<SubjectId>)>,
    /// The callback that runs in a hard interrupt, and the one that runs in a softirq.
    timers: [Option<(u64, Nanos)>; 2],
    /// The thread that is watched and runs, since when, and what it is counted as.
    thread: Option<(Tid, Nanos, Option<SubjectId>)>,
    /// The item that runs in a softirq, or on top of another.
    bh_work: Option<(u64, Nanos, Option<SubjectId>)>,
    /// Who runs.
    running: Option<Seen>,
}

/// A worker of a workqueue.
#[derive(Clone, Copy, Debug, Default)]
struct Worker {
    /// Since it was woken and ran no item yet.
    woken: Option<Nanos>,
    /// What it runs.
    item: Option<(u64, Nanos, Option<SubjectId>)>,
}

/// A work item that was asked for.
#[derive(Clone, Copy, Debug)]
struct Queued {
    origin: Origin,
    activated: Option<Nanos>,
}

/// Requests of block devices that have not ended.
#[derive(Clone, Debug, Default)]
struct Blocks {
    /// By disk and first sector, with the bytes that are left.
    by_sector: HashMap<(u32, u64), (Origin, Option<u32>)>,
    /// Of each disk, those that name none, in their order.
    without: HashMap<u32, VecDeque<Origin>>,
}

/// The handlers of one interrupt line by their names, and what each is counted as.
type Handlers = Vec<(Vec<u8>, Option<SubjectId>)>;

/// Pairs events to activations and counts them. Events come by time; where some are missing, [`Activations::lost`] says so.
pub struct Activations {
    kept: Distributions,
    losses: Losses,
    threads: Threads,
    cpus: Vec<CpuState>,
    /// What the clocks of timers are ahead of `CLOCK_MONOTONIC` by; one of them is 0.
    clock_offsets: Vec<i64>,
    irqs: HashMap<u32, Handlers>,
    vectors: HashMap<String, Option<SubjectId>>,
    softirqs: [Option<SubjectId>; SOFTIRQ_NAMES.len()],
    timers: [Option<SubjectId>; 2],
    tasklets: HashMap<u64, Option<SubjectId>>,
    works: HashMap<u64, Option<SubjectId>>,
    disks: HashMap<u32, Option<SubjectId>>,
    armed: HashMap<u64, i64>,
    queued: HashMap<u64, Queued>,
    workers: HashMap<Tid, Worker>,
    woken: HashMap<Tid, Origin>,
    blocks: Blocks,
    /// The latest event.
    latest: Nanos,
}

impl std::fmt::Debug for Activations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Activations").field("latest", &self.latest).finish_non_exhaustive()
    }
}

/// More CPUs than any kernel has: what an event claims is not believed beyond.
const CPUS: u32 = 1 << 16;

impl Activations {
    /// Nothing yet. `look_up` is asked for threads that were there before.
    pub fn new(look_up: LookUp) -> Activations {
        let mut kept = Distributions::default();
        let mut text = |mechanism, name: &str| kept.add(mechanism, Name::Text(name.to_owned()), None);
        let mut softirqs = [None; SOFTIRQ_NAMES.len()];
        for (vector, subject) in softirqs.iter_mut().enumerate() {
            *subject = text(Mechanism::Softirq, softirq_name(vector as u32));
        }
        let timers = [text(Mechanism::Hrtimer, "hard"), text(Mechanism::Hrtimer, "soft")];
        Activations {
            kept,
            losses: Losses::default(),
            threads: Threads::new(look_up),
            cpus: Vec::new(),
            clock_offsets: vec![0],
            irqs: HashMap::default(),
            vectors: HashMap::default(),
            softirqs,
            timers,
            tasklets: HashMap::default(),
            works: HashMap::default(),
            disks: HashMap::default(),
            armed: HashMap::default(),
            queued: HashMap::default(),
            workers: HashMap::default(),
            woken: HashMap::default(),
            blocks: Blocks::default(),
            latest: Nanos(0),
        }
    }

    /// A thread that is there.
    pub fn know_thread(&mut self, tid: Tid, kind: ThreadKind, comm: &[u8]) {
        self.threads.know(tid, kind, comm);
    }

    /// What the clocks of timers are ahead of `CLOCK_MONOTONIC` by: realtime, boot time and TAI.
    pub fn set_clock_offsets(&mut self, offsets: &[i64]) {
        self.clock_offsets = [0].iter().chain(offsets).copied().collect();
    }

    /// Events of a CPU are missing here. What they may have begun or ended is forgotten, so that nothing is paired across the gap.
    pub fn lost(&mut self, cpu: Cpu) {
        let requests = self.armed.len() + self.queued.len() + self.woken.len() + self.blocks.len();
        self.losses.add(Lost::Forgotten, requests as u64);
        self.armed.clear();
        self.queued.clear();
        self.workers.clear();
        self.woken.clear();
        self.blocks = Blocks::default();
        self.threads.forget();
        if let Some(state) = self.cpus.get_mut(cpu.0 as usize) {
            *state = CpuState::default();
        }
    }

    /// All series that hold values, of these mechanisms.
    pub fn series(&self, mechanisms: &BTreeSet<Mechanism>, names: &dyn Names) -> Vec<Series> {
        self.kept.series(mechanisms, names)
    }

    /// The worst activation of each series that keeps its requester, worst first.
    pub fn worst(&self, mechanisms: &BTreeSet<Mechanism>, names: &dyn Names) -> Vec<Activation> {
        self.kept.worst(mechanisms, names)
    }

    /// What could not be paired or had no room: each count only grows.
    pub fn losses(&self) -> Vec<Loss> {
        self.losses.all(self.kept.negative, self.kept.full)
    }

    /// How many work items were asked for longer than `longer` before the latest event and were not seen to start.
    pub fn still_queued(&self, longer: Nanos) -> u64 {
        let since = self.latest.saturating_sub(longer);
        self.queued.values().filter(|queued| queued.origin.at < since).count() as u64
    }

    fn state(&mut self, cpu: Cpu) -> &mut CpuState {
        let at = cpu.0.min(CPUS) as usize;
        if self.cpus.len() <= at {
            self.cpus.resize_with(at + 1, CpuState::default);
        }
        &mut self.cpus[at]
    }

    fn origin(&mut self, moment: &Moment) -> Origin {
        let running = self.state(moment.cpu).running.filter(|seen| seen.tid == moment.tid);
        let mut requester = running.unwrap_or(Seen { tid: moment.tid, ..Seen::default() });
        requester.kernel = self.threads.kind(moment.tid).is_kernel();
        if running.is_none() {
            requester.comm = self.threads.comm(moment.tid).unwrap_or_default();
        }
        Origin { at: moment.at, cpu: moment.cpu, context: moment.context, requester }
    }

    fn count(&mut self, subject: Option<SubjectId>, quantity: Quantity, earlier: Nanos, later: Nanos) {
        match subject {
            Some(subject) => self.kept.count(subject, quantity, earlier, later),
            None => self.kept.full += 1,
        }
    }

    /// Takes the next event.
    pub fn observe(&mut self, moment: &Moment, happened: &Happened<'_>) {
        let (at, cpu) = (moment.at, moment.cpu);
        self.latest = self.latest.max(at);
        match *happened {
            Happened::IrqEntry { irq, name } => {
                let subject = self.irq(irq, name);
                self.state(cpu).irq = Some((at, subject));
            }
            Happened::IrqExit { irq, wakes_thread } => self.irq_ends(moment, irq, wakes_thread),
            Happened::VectorEntry(name) => self.vector_begins(cpu, name, at),
            Happened::VectorExit(name) => self.vector_ends(cpu, name, at),
            Happened::SoftirqRaise(vector) => {
                let raised = self.state(cpu).softirqs.raised(vector, at);
                if raised == Some(Raised::Merged) {
                    self.softirq_merged(vector);
                }
            }
            Happened::SoftirqEntry(vector) => self.softirq_begins(cpu, vector, at),
            Happened::SoftirqExit(vector) => match self.state(cpu).softirq.take() {
                Some((running, since)) if running == vector => {
                    let subject = self.softirqs.get(vector as usize).copied().flatten();
                    self.count(subject, Quantity::Execution, since, at);
                }
                _ => self.losses.add(Lost::SoftirqExit, 1),
            },
            Happened::TaskletEntry { tasklet, function } => {
                let subject = of_function(&mut self.tasklets, &mut self.kept, Mechanism::Tasklet, function);
                self.state(cpu).tasklet = Some((tasklet, at, subject));
            }
            Happened::TaskletExit { tasklet } => match self.state(cpu).tasklet.take() {
                Some((running, since, subject)) if running == tasklet => {
                    self.count(subject, Quantity::Execution, since, at);
                }
                _ => self.losses.add(Lost::TaskletUnpaired, 1),
            },
            Happened::TimerStart { timer, expires } => {
                if self.armed.len() < WAITING || self.armed.contains_key(&timer) {
                    self.armed.insert(timer, expires);
                } else {
                    self.losses.add(Lost::NoRoom, 1);
                }
            }
            Happened::TimerCancel { timer } => {
                self.armed.remove(&timer);
            }
            Happened::TimerEntry { timer, now } => self.timer_begins(moment, timer, now),
            Happened::TimerExit { timer } => self.timer_ends(cpu, timer, at),
            Happened::WorkQueue { work } => self.work_queued(moment, work),
            Happened::WorkActivate { work } => {
                if let Some(queued) = self.queued.get_mut(&work) {
                    queued.activated = Some(at);
                }
            }
            Happened::WorkStart { work, function } => self.work_begins(moment, work, function),
            Happened::WorkEnd { work } => self.work_ends(moment, work),
            Happened::Wakeup(task) => self.woken(moment, &task),
            Happened::Switch { prev, next } => self.switched(moment, &prev, &next),
            Happened::Fork { parent, child } => self.threads.made(parent, child),
            Happened::BlockStart { device, sector, bytes } => {
                self.block_begins(moment, device, sector, bytes);
            }
            Happened::BlockEnd { device, sector, bytes } => self.block_ends(moment, device, sector, bytes),
        }
    }

    /// What a handler is counted as. Shared lines have a handler, thus a series, for each device.
    fn irq(&mut self, irq: u32, name: &[u8]) -> Option<SubjectId> {
        let handlers = self.irqs.entry(irq).or_default();
        if let Some((_, subject)) = handlers.iter().find(|(known, _)| known == name) {
            return *subject;
        }
        let text = Name::Text(format!("{irq}-{}", String::from_utf8_lossy(name)));
        let subject = self.kept.add(Mechanism::HardIrq, text, None);
        if subject.is_some() {
            handlers.push((name.to_vec(), subject));
        }
        subject
    }

    fn irq_ends(&mut self, moment: &Moment, irq: u32, wakes_thread: bool) {
        let Some((since, subject)) = self.state(moment.cpu).irq.take() else {
            self.losses.add(Lost::IrqUnpaired, 1);
            return;
        };
        self.count(subject, Quantity::Execution, since, moment.at);
        if !wakes_thread {
            return;
        }
        let handler = self.irqs.get(&irq).and_then(|all| all.iter().find(|(_, known)| *known == subject));
        let Some(tid) = handler.and_then(|(name, _)| self.threads.of_interrupt(irq, name)) else { return };
        // A thread that runs takes the request up by itself, without a wake-up.
        if self.threads.is_running(tid) || self.request_thread(moment, tid) {
            return;
        }
        if let Some(Some(subject)) = self.threads.subject(tid) {
            self.kept.merged(subject);
        }
    }

    fn vector_begins(&mut self, cpu: Cpu, name: &str, at: Nanos) {
        let vectors = &mut self.state(cpu).vectors;
        match vectors.get_mut(name) {
            Some(since) => *since = Some(at),
            None => drop(vectors.insert(name.to_owned(), Some(at))),
        }
    }

    fn vector_ends(&mut self, cpu: Cpu, name: &str, at: Nanos) {
        let Some(since) = self.state(cpu).vectors.get_mut(name).and_then(Option::take) else {
            self.losses.add(Lost::VectorUnpaired, 1);
            return;
        };
        let subject = match self.vectors.get(name) {
            Some(subject) => *subject,
            None => {
                let subject = self.kept.add(Mechanism::Vector, Name::Text(name.to_owned()), None);
                self.vectors.insert(name.to_owned(), subject);
                subject
            }
        };
        self.count(subject, Quantity::Execution, since, at);
    }

    fn softirq_merged(&mut self, vector: u32) {
        if let Some(subject) = self.softirqs.get(vector as usize).copied().flatten() {
            self.kept.merged(subject);
        }
    }

    fn softirq_begins(&mut self, cpu: Cpu, vector: u32, at: Nanos) {
        let state = self.state(cpu);
        state.softirq = Some((vector, at));
        let Some((began, merged)) = state.softirqs.began(vector) else { return };
        match began {
            Began::Paired(requested) => {
                let subject = self.softirqs.get(vector as usize).copied().flatten();
                self.count(subject, Quantity::Latency, requested, at);
            }
            Began::NotRaised => self.losses.add(Lost::SoftirqNotRaised, 1),
            Began::Unclear => self.losses.add(Lost::SoftirqUnclear, 1),
        }
        (0..SOFTIRQ_NAMES.len() as u32)
            .filter(|other| merged >> other & 1 != 0)
            .for_each(|other| self.softirq_merged(other));
    }

    /// Late is from the expiry, slack included, to the callback on the timer's own clock; the clock is the one whose offset makes the
    /// event's `now`, which is read once for all timers of an interrupt, the nearest before the event.
    fn timer_begins(&mut self, moment: &Moment, timer: u64, now: i64) {
        // Only timers of softirqs expire outside of a hard interrupt (kernel/time/hrtimer.c, hrtimer_run_softirq).
        let soft = usize::from(moment.context != Context::HardIrq);
        self.state(moment.cpu).timers[soft] = Some((timer, moment.at));
        let Some(expires) = self.armed.remove(&timer) else {
            self.losses.add(Lost::TimerNotArmed, 1);
            return;
        };
        let at = i64::try_from(moment.at.0).unwrap_or(i64::MAX);
        let behind = |offset: &i64| at.saturating_add(*offset).saturating_sub(now);
        let clock = self.clock_offsets.iter().filter(|offset| behind(offset) >= 0).min_by_key(|o| behind(o));
        match clock {
            Some(offset) => {
                let late = at.saturating_add(*offset).saturating_sub(expires);
                let late = Nanos(u64::try_from(late).unwrap_or(0));
                self.count(self.timers[soft], Quantity::Latency, Nanos(0), late);
            }
            None => self.losses.add(Lost::TimerClock, 1),
        }
    }

    fn timer_ends(&mut self, cpu: Cpu, timer: u64, at: Nanos) {
        let running = &mut self.state(cpu).timers;
        let found = running.iter_mut().position(|one| one.is_some_and(|(running, _)| running == timer));
        match found.and_then(|soft| Some((soft, running[soft].take()?))) {
            Some((soft, (_, since))) => self.count(self.timers[soft], Quantity::Execution, since, at),
            None => self.losses.add(Lost::TimerUnpaired, 1),
        }
    }

    fn work_queued(&mut self, moment: &Moment, work: u64) {
        let queued = Queued { origin: self.origin(moment), activated: None };
        if self.queued.len() >= WAITING && !self.queued.contains_key(&work) {
            self.losses.add(Lost::NoRoom, 1);
        } else if self.queued.insert(work, queued).is_some() {
            self.losses.add(Lost::WorkReplaced, 1);
        }
    }

    fn work_begins(&mut self, moment: &Moment, work: u64, function: u64) {
        let at = moment.at;
        let subject = of_function(&mut self.works, &mut self.kept, Mechanism::Work, function);
        let is_worker = self.threads.kind(moment.tid) == ThreadKind::Worker;
        // Items of a softirq (WQ_BH, 6.9 and later) run on top of whichever thread, even a worker at work.
        let worker = (is_worker && moment.context == Context::Task)
            .then(|| self.workers.entry(moment.tid).or_default())
            .filter(|worker| worker.item.is_none());
        let woken = match worker {
            Some(worker) => {
                worker.item = Some((work, at, subject));
                worker.woken.take()
            }
            None => {
                self.state(moment.cpu).bh_work = Some((work, at, subject));
                None
            }
        };
        let Some(queued) = self.queued.remove(&work) else {
            self.losses.add(Lost::WorkNotQueued, 1);
            return;
        };
        let Some(subject) = subject else {
            self.kept.full += 1;
            return;
        };
        let runner = Some(self.origin(moment).requester);
        let Queued { origin, activated } = queued;
        self.kept.late(
            subject,
            Late { origin: &origin, activated_at: activated, started_at: at, cpu: moment.cpu, runner },
        );
        if let Some(activated) = activated {
            self.kept.count(subject, Quantity::QueueToActivate, origin.at, activated);
            self.kept.count(subject, Quantity::ActivateToStart, activated, at);
            if origin.cpu != moment.cpu {
                self.kept.crossed(subject, Quantity::ActivateToStart);
            }
        }
        if let Some(woken) = woken {
            self.kept.count(subject, Quantity::WakeToStart, woken, at);
        }
    }

    fn work_ends(&mut self, moment: &Moment, work: u64) {
        let bh = &mut self.state(moment.cpu).bh_work;
        let ended = match bh {
            Some((running, ..)) if *running == work => bh.take(),
            _ => self.workers.get_mut(&moment.tid).and_then(|worker| {
                let ended = worker.item.take_if(|(running, ..)| *running == work);
                worker.woken = worker.woken.filter(|_| ended.is_none());
                ended
            }),
        };
        match ended {
            Some((_, since, subject)) => self.count(subject, Quantity::Execution, since, moment.at),
            None => self.losses.add(Lost::WorkEnd, 1),
        }
    }

    /// Notes that a thread is asked for; `false` where it was before and has not run.
    fn request_thread(&mut self, moment: &Moment, tid: Tid) -> bool {
        if self.woken.contains_key(&tid) {
            return false;
        }
        if self.woken.len() >= WAITING {
            self.losses.add(Lost::NoRoom, 1);
        } else {
            let origin = self.origin(moment);
            self.woken.insert(tid, origin);
        }
        true
    }

    fn woken(&mut self, moment: &Moment, task: &Named) {
        match self.threads.seen(task.tid, &task.comm) {
            // Woken without an item it is to run one; else the wake-up is the function's own affair.
            ThreadKind::Worker => {
                let worker = self.workers.entry(task.tid).or_default();
                if worker.item.is_none() {
                    worker.woken = Some(moment.at);
                }
            }
            // Woken while it still runs, it stays where it is, and nothing starts.
            ThreadKind::Kernel if !self.threads.is_running(task.tid) => {
                self.request_thread(moment, task.tid);
            }
            _ => {}
        }
    }

    fn switched(&mut self, moment: &Moment, prev: &Named, next: &Named) {
        let (at, cpu) = (moment.at, moment.cpu);
        if self.threads.seen(prev.tid, &prev.comm) == ThreadKind::Kernel {
            match self.state(cpu).thread.take() {
                Some((tid, since, subject)) if tid == prev.tid => {
                    self.count(subject, Quantity::Execution, since, at);
                }
                _ => self.losses.add(Lost::ThreadSwitch, 1),
            }
            self.threads.stops(prev.tid);
        }
        let kind = self.threads.seen(next.tid, &next.comm);
        let seen = Seen { tid: next.tid, prio: Some(next.prio), comm: next.comm, kernel: kind.is_kernel() };
        self.state(cpu).running = Some(seen);
        if kind != ThreadKind::Kernel {
            return;
        }
        self.threads.runs(next.tid);
        let subject = match self.threads.subject(next.tid) {
            Some(known) => known,
            None => {
                let text = seen.task().comm;
                // kernel/irq/manage.c setup_irq_thread names them so, 5.15 to 6.18.
                let mechanism = match text.starts_with("irq/") {
                    true => Mechanism::ThreadedIrq,
                    false => Mechanism::KernelThread,
                };
                let subject = self.kept.add(mechanism, Name::Text(text.into()), Some(seen));
                self.threads.set_subject(next.tid, subject);
                subject
            }
        };
        self.state(cpu).thread = Some((next.tid, at, subject));
        // Without a request it was preempted before and goes on.
        if let (Some(origin), Some(subject)) = (self.woken.remove(&next.tid), subject) {
            let late = Late { origin: &origin, activated_at: None, started_at: at, cpu, runner: Some(seen) };
            self.kept.late(subject, late);
        }
    }

    fn block_begins(&mut self, moment: &Moment, device: u32, sector: u64, bytes: Option<u32>) {
        let origin = self.origin(moment);
        if sector == 0 {
            let without = self.blocks.without.entry(device).or_default();
            if without.len() >= WITHOUT_SECTOR {
                without.pop_front();
                self.losses.add(Lost::BlockReplaced, 1);
            }
            without.push_back(origin);
        } else if self.blocks.by_sector.len() >= WAITING
            && !self.blocks.by_sector.contains_key(&(device, sector))
        {
            self.losses.add(Lost::NoRoom, 1);
        } else if self.blocks.by_sector.insert((device, sector), (origin, bytes)).is_some() {
            self.losses.add(Lost::BlockReplaced, 1);
        }
    }

    fn block_ends(&mut self, moment: &Moment, device: u32, sector: u64, bytes: Option<u32>) {
        let found = match sector {
            0 => self.blocks.without.get_mut(&device).and_then(VecDeque::pop_front),
            _ => match self.blocks.by_sector.remove(&(device, sector)) {
                // The rest of the request is found by the sector that is next.
                Some((origin, Some(all))) if bytes.is_some_and(|ended| ended < all && ended >= SECTOR) => {
                    let ended = bytes.unwrap_or(0);
                    let rest = (device, sector + u64::from(ended / SECTOR));
                    self.blocks.by_sector.insert(rest, (origin, Some(all - ended)));
                    return;
                }
                found => found.map(|(origin, _)| origin),
            },
        };
        let Some(origin) = found else {
            self.losses.add(Lost::BlockUnpaired, 1);
            return;
        };
        let kept = &mut self.kept;
        let known = self.disks.get(&device).copied();
        let subject = known.unwrap_or_else(|| {
            let subject = kept.add(Mechanism::BlockRequest, Name::Disk(device), None);
            self.disks.insert(device, subject);
            subject
        });
        match subject {
            Some(subject) => self.kept.late(
                subject,
                // Who saw it end is an accident.
                Late {
                    origin: &origin,
                    activated_at: None,
                    started_at: moment.at,
                    cpu: moment.cpu,
                    runner: None,
                },
            ),
            None => self.kept.full += 1,
        }
    }
}

impl Blocks {
    fn len(&self) -> usize {
        self.by_sector.len() + self.without.values().map(VecDeque::len).sum::<usize>()
    }
}

/// A sector of the block layer (include/linux/blk_types.h, SECTOR_SHIFT).
const SECTOR: u32 = 512;

/// What a function is counted as.
fn of_function(
    known: &mut HashMap<u64, Option<SubjectId>>,
    kept: &mut Distributions,
    mechanism: Mechanism,
    function: u64,
) -> Option<SubjectId> {
    if let Some(subject) = known.get(&function) {
        return *subject;
    }
    let subject = kept.add(mechanism, Name::Function(function), None);
    if known.len() < WAITING {
        known.insert(function, subject);
    }
    subject
}

#[cfg(test)]
mod tests;
