// SPDX-License-Identifier: MIT OR Apache-2.0
//! A measurement: its options, its threads, and what comes out of it.
//!
//! Owns the life of the measuring threads and of what is held while they run (locked memory, the idle-state
//! request). Whatever it holds is given back when it is dropped; nothing is left changed.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};

use latebound_model::{
    Activation, CStateControl, Cpu, CpuSet, Evidence, Loss, LossKind, MeasureSettings, Mechanism, Missing,
    MissingKind, Nanos, Policy, Quantity, Series, Subject, Task, Tid,
};
use latebound_syscall::{clock, memory, sched};

use crate::error::MeasureError;
use crate::permission::{is_real_time, may_lock_without_limit};
use crate::privileges;
use crate::recorder::{Plan, Reader, Recorder};
use crate::wakeup::{self, Ended, Setup};

/// Between the last thread being there and the first expiry, beside the time that each thread needs to take its plan.
const LEAD: Nanos = Nanos::from_millis(2);

/// The shortest period that is taken.
pub const SHORTEST_PERIOD: Nanos = Nanos::from_micros(1);

/// Longer times than this are refused: 146 years, so that no sum of two times overflows.
const LONGEST: Nanos = Nanos(u64::MAX / 4);

/// How to measure wake-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureOptions {
    /// One measuring thread for each of these.
    pub cpus: CpuSet,
    /// `Fifo`, `RoundRobin`, `Deadline` or `Other`.
    pub policy: Policy,
    /// 1 to 99 for `Fifo` and `RoundRobin`; the others have none and ignore it.
    pub priority: u32,
    /// Between two expiries of one thread.
    pub period: Nanos,
    /// Between the first expiries of one thread and the next.
    pub offset: Nanos,
    /// How long; `None` until stopped.
    pub duration: Option<Nanos>,
    /// Hold `/dev/cpu_dma_latency` at this value, in whole microseconds rounded down. It keeps processors out of
    /// idle states, so the system measured is not the system as it was; `None` leaves it alone.
    pub dma_latency: Option<Nanos>,
    /// Timer slack of the measuring threads, which the kernel applies to `Other` only; `None` leaves it alone.
    pub timer_slack: Option<Nanos>,
    /// The length of a block of block maxima.
    pub block: Nanos,
    /// A wake-up worse than the worst but so many of its thread is handed out by [`Measurement::drain_late`].
    pub worst_kept: usize,
    /// Which memory of the process does not leave it meanwhile.
    pub locked: LockedMemory,
}

/// Which memory of the process stays in it while it measures, so that no measuring thread waits for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockedMemory {
    /// All that is mapped at the start, and what is touched later. All of the program's file is read.
    All,
    /// What was or is touched. A page that a measuring thread touches for the first time is a page fault of that thread, once: for a service that
    /// measures for months.
    Touched,
}

impl MeasureOptions {
    /// `SCHED_FIFO` 80 every millisecond, threads half a millisecond apart, blocks of a second, until stopped, with all memory locked.
    pub fn new(cpus: CpuSet) -> MeasureOptions {
        MeasureOptions {
            cpus,
            policy: Policy::Fifo,
            priority: 80,
            period: Nanos::from_millis(1),
            offset: Nanos::from_micros(500),
            duration: None,
            dma_latency: None,
            timer_slack: None,
            block: Nanos::from_secs(1),
            worst_kept: 16,
            locked: LockedMemory::All,
        }
    }

    fn check(&self) -> Result<(), MeasureError> {
        if self.cpus.is_empty() {
            return Err(MeasureError::NoCpus);
        }
        if self.period < SHORTEST_PERIOD {
            return Err(MeasureError::PeriodTooShort { period: self.period });
        }
        let duration = self.duration.unwrap_or_default();
        for (what, value) in [
            ("a period", self.period),
            ("an offset", Nanos(self.offset.0.saturating_mul(self.cpus.len() as u64))),
            ("a duration", duration),
            ("a block", self.block),
        ] {
            if value > LONGEST {
                return Err(MeasureError::TooLong { what, value });
            }
        }
        if self.duration.is_some() && duration < self.period {
            return Err(MeasureError::DurationTooShort { duration, period: self.period });
        }
        if self.block < self.period {
            return Err(MeasureError::BlockTooShort { block: self.block, period: self.period });
        }
        match self.policy {
            Policy::Fifo | Policy::RoundRobin if !(1..=99).contains(&self.priority) => {
                Err(MeasureError::Priority { policy: self.policy, priority: self.priority })
            }
            Policy::Fifo | Policy::RoundRobin | Policy::Deadline | Policy::Other => Ok(()),
            policy => Err(MeasureError::PolicyUnsupported { policy }),
        }
    }

    fn settings(&self) -> MeasureSettings {
        let micros = |value: Nanos| Nanos::from_micros(dma_micros(value) as u64);
        MeasureSettings {
            cpus: self.cpus.clone(),
            policy: self.policy,
            priority: if is_real_time(self.policy) { self.priority } else { 0 },
            period: self.period,
            offset: self.offset,
            c_states: self
                .dma_latency
                .map_or(CStateControl::Untouched, |value| CStateControl::DmaLatency(micros(value))),
            block: self.block,
            timer_slack: self.timer_slack,
        }
    }
}

/// What `/dev/cpu_dma_latency` takes: microseconds in a signed 32-bit number.
fn dma_micros(value: Nanos) -> i32 {
    i32::try_from(value.0 / 1_000).unwrap_or(i32::MAX)
}

/// What was measured, so far or in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// How.
    pub settings: MeasureSettings,
    /// The start that all threads share, on `CLOCK_MONOTONIC`.
    pub started_at: Nanos,
    /// How long it went on so far.
    pub duration: Nanos,
    /// Whether it ended before its time.
    pub interrupted: bool,
    /// Two for each thread: latency free of coordinated omission, and naive.
    pub series: Vec<Series>,
    /// What was lost, over all threads.
    pub losses: Vec<Loss>,
    /// What could not be had, and why.
    pub missing: Vec<Missing>,
}

struct Worker {
    cpu: Cpu,
    pinned: bool,
    task: Task,
    name: String,
    recorder: Arc<Recorder>,
    reader: Mutex<Reader>,
    thread: Option<JoinHandle<Result<Ended, MeasureError>>>,
    ended: Option<Ended>,
}

/// A running measurement. Dropping it stops it.
pub struct Measurement {
    settings: MeasureSettings,
    started_at: Nanos,
    planned: Option<Nanos>,
    workers: Vec<Worker>,
    threads: Vec<(Cpu, Tid)>,
    stop: Arc<AtomicBool>,
    missing: Vec<Missing>,
    stopped_at: Mutex<Option<Nanos>>,
    _held: MeasuringState,
}

/// What is held while measuring, and given back in the order of the fields.
struct MeasuringState {
    _dma_latency: Option<File>,
    _memory: Option<MemoryLock>,
}

/// Locked memory, unlocked when the last of its kind goes.
struct MemoryLock;

static LOCKS: AtomicU32 = AtomicU32::new(0);

impl MemoryLock {
    /// Locks the process's memory, unless a limit stands in the way: with one, `MCL_FUTURE` would make later
    /// mappings of the whole process fail instead.
    fn take(which: LockedMemory) -> Result<MemoryLock, Missing> {
        let limit = memory::lock_limit();
        let missing = |why: String| Missing {
            kind: MissingKind::Condition,
            what: "locked memory".to_owned(),
            why,
            remedy: "run as root, or raise the limit with: ulimit -l unlimited".to_owned(),
        };
        if limit != u64::MAX && !may_lock_without_limit(Path::new("/")) {
            return Err(missing(format!(
                "RLIMIT_MEMLOCK is {} KiB and CAP_IPC_LOCK is not held: page faults of the measuring threads are \
                 possible, though their buffers were touched in advance",
                limit / 1024
            )));
        }
        let locked = match which {
            LockedMemory::All => memory::lock_all(),
            LockedMemory::Touched => memory::lock_touched(),
        };
        locked.map_err(|error| missing(format!("mlockall answered \"{error}\"")))?;
        LOCKS.fetch_add(1, Ordering::Relaxed);
        Ok(MemoryLock)
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        if LOCKS.fetch_sub(1, Ordering::Relaxed) == 1 {
            memory::unlock_all();
        }
    }
}

/// Holds `/dev/cpu_dma_latency` at this value, in whole microseconds rounded down, for as long as the file is open: processors stay
/// out of C-states that take longer to leave; of all of them at zero.
pub fn hold_dma_latency(value: Nanos) -> Result<File, MeasureError> {
    let hold = || {
        let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
        // The request lasts as long as the file is open (kernel/power/qos.c, cpu_latency_qos_release).
        file.write_all(&dma_micros(value).to_ne_bytes())?;
        Ok(file)
    };
    hold().map_err(|source| MeasureError::DmaLatency { value, source })
}

/// What a thread is to serve, in times since the start that all of them share, and where it records.
type Go = (Plan, Recorder);
/// A thread's index, its plan with the times of the clock, and its recorder.
type Began = (usize, Plan, Arc<Recorder>);
/// A thread's index, and its id and whether it is pinned, or why it could not be prepared.
type Ready = (usize, Result<(Tid, bool), MeasureError>);
type Starting = (Cpu, mpsc::Sender<Go>, JoinHandle<Result<Ended, MeasureError>>);

/// Ends threads that were started but got no plan.
fn abandon(starting: Vec<Starting>) {
    for (_, go, thread) in starting {
        // Without a sender the thread finds no plan and ends.
        drop(go);
        let _ = thread.join();
    }
}

/// The start that the measuring threads share. They choose it themselves, when the last of them is there: the thread that
/// starts them may be kept from its CPU for longer than any lead, and the first wake-up would be late by that.
struct Start {
    threads: Barrier,
    lead: Nanos,
    /// Nanoseconds of the clock; 0 until it is chosen.
    at: AtomicU64,
}

impl Start {
    fn new(threads: usize) -> Start {
        // The last thread to take its plan must sleep before the first expiry.
        let lead = LEAD + Nanos(200_000 * threads as u64);
        Start { threads: Barrier::new(threads), lead, at: AtomicU64::new(0) }
    }

    /// Waits for the others; the same time for each of them, a little from now.
    fn agree(&self) -> Nanos {
        if self.threads.wait().is_leader() {
            self.at.store((clock::now() + self.lead).0, Ordering::Relaxed);
        }
        // The barrier's lock orders the store before what the others read.
        self.threads.wait();
        Nanos(self.at.load(Ordering::Relaxed))
    }
}

/// The life of a measuring thread: prepare, report, wait for the plan and for the others, serve it.
fn thread_main(
    setup: Setup,
    ready: &mpsc::Sender<Ready>,
    index: usize,
    go: &mpsc::Receiver<Go>,
    start: &Start,
    began: &mpsc::Sender<Began>,
    stop: &AtomicBool,
) -> Result<Ended, MeasureError> {
    let prepared = setup.apply().and_then(|pinned| {
        // From here on it only sleeps and reads the clock.
        privileges::keep_only(privileges::MEASURING).map_err(|source| MeasureError::Thread {
            cpu: setup.cpu,
            what: "give its privileges up",
            source,
        })?;
        Ok(pinned)
    });
    let pinned = matches!(prepared, Ok(true));
    // Nobody listens any more only where the start failed; then no plan comes either.
    let _ = ready.send((index, prepared.map(|pinned| (sched::tid(), pinned))));
    let Ok((plan, mut recorder)) = go.recv() else { return Ok(Ended::Stopped) };
    let plan = plan.starting_at(start.agree());
    recorder.set_plan(plan);
    let recorder = Arc::new(recorder);
    let _ = began.send((index, plan, Arc::clone(&recorder)));
    wakeup::run(&plan, &recorder, pinned.then_some(setup.cpu), stop).map_err(|source| MeasureError::Thread {
        cpu: setup.cpu,
        what: "sleep",
        source,
    })
}

impl Measurement {
    /// Starts one measuring thread on each CPU; returns when all of them are about to serve their first period.
    ///
    /// What helps but is not needed and could not be had is in [`Measured::missing`]; what was asked for and
    /// could not be had is an error, and no thread is left behind.
    pub fn start(options: MeasureOptions) -> Result<Measurement, MeasureError> {
        options.check()?;
        let mut missing = Vec::new();
        let held = MeasuringState {
            _dma_latency: options.dma_latency.map(hold_dma_latency).transpose()?,
            _memory: MemoryLock::take(options.locked).map_err(|why| missing.push(why)).ok(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, prepared) = mpsc::channel();
        let (begin, began) = mpsc::channel();
        let start = Arc::new(Start::new(options.cpus.len()));
        let mut starting: Vec<Starting> = Vec::new();
        for (index, cpu) in options.cpus.iter().enumerate() {
            let setup = Setup {
                cpu,
                policy: options.policy,
                priority: options.priority,
                period: options.period,
                timer_slack: options.timer_slack,
            };
            let (go, plan) = mpsc::channel::<Go>();
            let (ready, begin) = (ready.clone(), begin.clone());
            let (start, stop) = (Arc::clone(&start), Arc::clone(&stop));
            let thread = Builder::new()
                .name(format!("measure/{cpu}"))
                .stack_size(256 * 1024)
                .spawn(move || thread_main(setup, &ready, index, &plan, &start, &begin, &stop));
            match thread {
                Ok(thread) => starting.push((cpu, go, thread)),
                Err(source) => {
                    abandon(starting);
                    return Err(MeasureError::Thread { cpu, what: "be started", source });
                }
            }
        }
        drop((ready, begin));
        let mut tids = vec![(Tid(0), false); starting.len()];
        let mut failure = None;
        for (index, prepared) in prepared.iter().take(starting.len()) {
            match prepared {
                Ok(prepared) => tids[index] = prepared,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(error) = failure {
            abandon(starting);
            return Err(error);
        }
        let unpinned: Vec<Cpu> = starting
            .iter()
            .zip(&tids)
            .filter(|(_, (_, pinned))| !pinned)
            .map(|((cpu, ..), _)| *cpu)
            .collect();
        if !unpinned.is_empty() {
            missing.push(Missing {
        kind: MissingKind::Condition,
                what: "one CPU for each measuring thread".to_owned(),
                why: format!(
                    "the kernel refuses to pin SCHED_DEADLINE threads to part of a root domain: the threads meant \
                     for CPU {} may run on any CPU",
                    CpuSet::new(unpinned)
                ),
                remedy: "make an exclusive cpuset of one CPU and start latebound inside it".to_owned(),
            });
        }
        // The recorders are made, and their memory touched, before the threads agree on a start: on a slow machine that
        // takes tens of milliseconds.
        let plan = |index: usize| Plan {
            start: Nanos::ZERO,
            first: Nanos(options.offset.0 * index as u64),
            end: options.duration.unwrap_or(Nanos(u64::MAX)),
            period: options.period,
            block: options.block,
            worst_kept: options.worst_kept,
        };
        let readers: Vec<_> = (0..starting.len()).map(|index| Reader::new(&plan(index))).collect();
        let recorders: Vec<_> = (0..starting.len()).map(|index| Recorder::new(plan(index))).collect();
        for (index, ((_, go, _), recorder)) in starting.iter().zip(recorders).enumerate() {
            // A thread that is gone has no receiver, and brings nothing back below.
            let _ = go.send((plan(index), recorder));
        }
        let mut begun: Vec<Began> = began.iter().take(starting.len()).collect();
        begun.sort_by_key(|(index, ..)| *index);
        let started_at = begun.first().map_or_else(clock::now, |(_, plan, _)| plan.start);
        let mut workers = Vec::new();
        for ((((cpu, _, thread), (tid, pinned)), (_, plan, recorder)), mut reader) in
            starting.into_iter().zip(tids).zip(begun).zip(readers)
        {
            reader.set_start(plan.start);
            workers.push(Worker {
                cpu,
                pinned,
                task: task_of(tid, cpu, &options),
                name: if pinned { "measure".to_owned() } else { format!("measure-{cpu}") },
                recorder,
                reader: Mutex::new(reader),
                thread: Some(thread),
                ended: None,
            });
        }
        Ok(Measurement {
            settings: options.settings(),
            started_at,
            planned: options.duration,
            threads: workers.iter().map(|worker| (worker.cpu, worker.task.tid)).collect(),
            workers,
            stop,
            missing,
            stopped_at: Mutex::new(None),
            _held: held,
        })
    }

    /// The measuring threads, by the CPU that each was made for.
    pub fn threads(&self) -> &[(Cpu, Tid)] {
        &self.threads
    }

    /// The start that all threads share, on `CLOCK_MONOTONIC`: the first thread's first expiry.
    pub fn started_at(&self) -> Nanos {
        self.started_at
    }

    /// Takes the worst wake-ups that came since the last call. Call it every few milliseconds: what waits
    /// too long is dropped, and counted.
    pub fn drain_late(&self) -> Vec<Activation> {
        let mut taken = Vec::new();
        for worker in &self.workers {
            let mut reader = worker.reader.lock().unwrap_or_else(PoisonError::into_inner);
            reader.drain_stalls(&worker.recorder);
            reader.drain_late(&worker.recorder, |late| {
                let series = format!("timer_wakeup/measure/cpu{}/latency", late.cpu);
                let (task, mechanism) = (worker.task.clone(), Mechanism::TimerWakeup);
                let (requested_at, started_at) = (late.requested_at, late.started_at);
                let served =
                    Activation::of_thread(series, mechanism, task, late.cpu, requested_at, started_at);
                taken.push(Activation { missed: late.missed, ..served });
            });
        }
        taken
    }

    /// What was measured so far. Threads are read one after another and go on meanwhile; each one's histogram
    /// and counts are of one moment.
    pub fn snapshot(&self) -> Measured {
        let stopped_at = *self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner);
        let so_far = stopped_at.unwrap_or_else(clock::now).saturating_sub(self.started_at);
        // The last period is served a period before the end.
        let complete = self.workers.iter().all(|worker| worker.ended == Some(Ended::ByItsClock));
        let mut series = Vec::new();
        let mut losses = Vec::new();
        for worker in &self.workers {
            self.read_worker(worker, &mut series, &mut losses);
        }
        Measured {
            settings: self.settings.clone(),
            started_at: self.started_at,
            duration: self
                .planned
                .map_or(so_far, |planned| if complete { planned } else { planned.min(so_far) }),
            interrupted: self
                .workers
                .iter()
                .any(|worker| worker.ended.is_some_and(|it| it != Ended::ByItsClock)),
            series,
            losses,
            missing: self.missing.clone(),
        }
    }

    fn read_worker(&self, worker: &Worker, series: &mut Vec<Series>, losses: &mut Vec<Loss>) {
        let recorded = worker.reader.lock().unwrap_or_else(PoisonError::into_inner).read(&worker.recorder);
        let place = || format!("measure/{}", worker.cpu);
        let lost = |kind, count| (count > 0).then(|| Loss { kind, place: place(), count: Some(count) });
        let early = lost(LossKind::NegativeDelta, recorded.early);
        losses.extend(lost(LossKind::SampleDropped, recorded.late_dropped));
        losses.extend(early.clone());
        for (quantity, histogram, maxima) in [
            (Quantity::Latency, recorded.free, recorded.free_maxima),
            (Quantity::LatencyNaive, recorded.naive, recorded.naive_maxima),
        ] {
            let subject = Subject {
                name: worker.name.clone(),
                task: Some(worker.task.clone()),
                cpu: worker.pinned.then_some(worker.cpu),
            };
            let mut one = Series::new(Mechanism::TimerWakeup, quantity, subject, Evidence::User, histogram);
            one.missed = recorded.missed;
            one.cross_cpu = recorded.moved;
            one.losses.extend(early.clone());
            one.block_maxima = Some(maxima);
            series.push(one);
        }
    }

    /// Asks every thread to end after its next wake-up, or within a tenth of a second where the period is longer.
    pub fn stop(&self) {
        let mut stopped_at = self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner);
        stopped_at.get_or_insert_with(clock::now);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether every thread has ended.
    pub fn is_finished(&self) -> bool {
        self.workers.iter().all(|worker| worker.thread.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Waits for the end, or for the stop that was asked for, and gives everything that was measured, exactly.
    pub fn finish(mut self) -> Result<Measured, MeasureError> {
        let mut failure = None;
        for worker in &mut self.workers {
            let Some(thread) = worker.thread.take() else { continue };
            match thread.join() {
                Ok(Ok(ended)) => {
                    worker.ended = Some(ended);
                    if ended == Ended::Sleepless {
                        self.missing.push(Missing {
        kind: MissingKind::Measurement,
                            what: format!("the rest of the measurement on CPU {}", worker.cpu),
                            why: format!(
                                "a period of {} left the thread no time to sleep, and without an end it would have \
                                 kept everything else from its CPU",
                                self.settings.period
                            ),
                            remedy: "pass a longer --period, or a --duration".to_owned(),
                        });
                    }
                }
                Ok(Err(error)) => failure = Some(error),
                Err(_) => failure = Some(MeasureError::Panicked { cpu: worker.cpu }),
            }
            if failure.is_some() {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(self.snapshot()),
        }
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // What it measured is no longer wanted, so neither is why it failed.
                let _ = thread.join();
            }
        }
    }
}

/// The thread as the kernel will name it: FIFO 80 has the kernel's priority 19.
fn task_of(tid: Tid, cpu: Cpu, options: &MeasureOptions) -> Task {
    let prio = match options.policy {
        Policy::Fifo | Policy::RoundRobin => Some(99 - options.priority as i32),
        Policy::Deadline => Some(-1),
        _ => None,
    };
    Task { tid, comm: format!("measure/{cpu}").into(), policy: Some(options.policy), prio, kernel: false }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_the_same_for_all_and_after_the_last_was_there() {
        let start = Start::new(3);
        let came: Vec<(Nanos, Nanos)> = std::thread::scope(|scope| {
            let threads: Vec<_> = [0, 1, 20]
                .map(|late_ms| {
                    let start = &start;
                    scope.spawn(move || {
                        std::thread::sleep(std::time::Duration::from_millis(late_ms));
                        (clock::now(), start.agree())
                    })
                })
                .into_iter()
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let last = came.iter().map(|(at, _)| *at).max().unwrap();
        assert!(came.iter().all(|(_, agreed)| *agreed == came[0].1), "{came:?}");
        assert!(came[0].1 >= last + LEAD, "{came:?}");
    }
}
