// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run without the kernel module: requested by user space and BPF programs, on a stock kernel.
//!
//! Owns the threads and descriptors of the run, which end with it. The same plan goes in and the same values come out as with
//! the module.

mod called;
mod disk;
mod eventfd;
mod loopback;
mod page;
mod requester;
mod waiter;

use std::cell::Cell;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latebound_abi::defer::{BURST_MAX, Counts, DeferMechanism, PERIOD_MIN_NS, Record};
use latebound_model::{Cpu, Policy, Tid};
use latebound_probe::{
    DeferOverflow, DeferPart, DeferProbe, DeferShared, DeferTrigger, KernelBtf, ProbeError,
};
use latebound_syscall::clock;

use crate::error::DeferError;
use crate::ksoftirqd::Ksoftirqd;
use crate::plan::{BpfMechanism, By, Context, Mechanism, Request, Runner, Settings};
use crate::run::{Progress, TAKE_EVERY};
use crate::tally::SeriesTally;
use crate::thread::{allowed_cpus, pin, set_scheduler, this_thread};
use called::Guest;
use disk::{Disk, Reader, Reading};
use eventfd::signal;
use loopback::Loopback;
use page::Page;
use requester::{Act, Requested, Turn, request_all, set_timer, settle};
use waiter::{Awaited, Waiter};

/// What the running kernel lets be requested without the module.
#[derive(Clone, Debug)]
pub struct StockKernel {
    lacking: Vec<(DeferPart, String)>,
    disk: PathBuf,
}

impl StockKernel {
    /// Reads what it has of these; direct I/O reads a file in this folder, or this block device.
    pub fn read(mechanisms: &[Mechanism], disk: &Path) -> Result<StockKernel, DeferError> {
        let both = |&mechanism: &Mechanism| {
            [Context::TASK, Context::SOFTIRQ].into_iter().filter_map(move |context| part(mechanism, context))
        };
        let parts: Vec<DeferPart> = mechanisms.iter().flat_map(both).collect();
        let mut lacking = DeferPart::lacking(&parts, KernelBtf::load()?);
        let is_lacking = lacking.iter().any(|(part, _)| *part == DeferPart::Read);
        if parts.contains(&DeferPart::Read) && !is_lacking {
            lacking.extend(Disk::refused(disk)?.map(|why| (DeferPart::Read, why)));
        }
        Ok(StockKernel { lacking, disk: disk.to_owned() })
    }

    /// Why a mechanism cannot be had here; `None` where it can.
    pub fn lacking(&self, mechanism: Mechanism) -> Option<String> {
        if !By::Bpf.has(mechanism) {
            return Some("it takes the kernel module latebound_defer".to_owned());
        }
        if let Some(why) = self.refused(mechanism, Context::TASK) {
            return Some(why);
        }
        let failed = match mechanism {
            Mechanism::Bpf(BpfMechanism::NetRx) => {
                Loopback::open().err().map(|error| ("the loopback device cannot be used", error))
            }
            Mechanism::Bpf(BpfMechanism::Membarrier) => {
                called::register().err().map(|error| ("membarrier cannot be used", error))
            }
            _ => None,
        };
        failed.map(|(what, error)| format!("{what}: {error}"))
    }

    /// What to type where a mechanism cannot be had.
    pub fn remedy(mechanism: Mechanism) -> &'static str {
        match mechanism {
            Mechanism::Bpf(BpfMechanism::DirectIo) => {
                "--disk FOLDER on a disk's file system, or --disk /dev/DEVICE, which is only read"
            }
            _ => "another kernel: latebound lab run --kernel …",
        }
    }

    fn refused(&self, mechanism: Mechanism, context: Context) -> Option<String> {
        let part = part(mechanism, context)?;
        self.lacking.iter().find(|(lacking, _)| *lacking == part).map(|(_, why)| why.clone())
    }

    /// Whether it can be requested from there on some kernel: from a thread; and from a softirq what a program can ask for.
    pub fn is_requested_from(mechanism: Mechanism, context: Context) -> bool {
        context == Context::TASK || context == Context::SOFTIRQ && part(mechanism, context).is_some()
    }

    /// Why it cannot be requested from there on this kernel, though from a thread; `None` where it can.
    pub fn lacking_from(&self, mechanism: Mechanism, context: Context) -> Option<String> {
        self.refused(mechanism, context)
    }

    /// Whether it can be asked to run on another CPU than the requester's.
    pub fn can_be_remote(&self, mechanism: Mechanism) -> bool {
        is_waited(mechanism) || self.is_always_remote(mechanism)
    }

    /// Whether it never runs on the requester's CPU.
    pub fn is_always_remote(&self, mechanism: Mechanism) -> bool {
        mechanism == Mechanism::Bpf(BpfMechanism::Membarrier)
    }

    /// A CPU that this process may use other than this one.
    pub fn another_cpu(&self, cpu: Cpu) -> Option<Cpu> {
        allowed_cpus().into_iter().find(|other| *other != cpu)
    }

    /// Whether it can be requested again before it has started.
    pub fn can_burst(&self, mechanism: Mechanism) -> bool {
        // Only a reader that sleeps can be seen to be woken; and one read is under way at a time.
        !matches!(mechanism, Mechanism::Bpf(BpfMechanism::Ringbuf | BpfMechanism::DirectIo))
    }
}

/// The programs that it takes; `None` where system calls and threads are enough.
fn part(mechanism: Mechanism, context: Context) -> Option<DeferPart> {
    let from_softirq = context == Context::SOFTIRQ;
    match mechanism {
        Mechanism::Module(DeferMechanism::Direct) if from_softirq => Some(DeferPart::SoftDirect),
        Mechanism::Module(DeferMechanism::Direct) => Some(DeferPart::Direct),
        Mechanism::Module(_) => None,
        Mechanism::Bpf(of) => match of {
            BpfMechanism::Timer if from_softirq => Some(DeferPart::SoftTimer),
            BpfMechanism::Work if from_softirq => Some(DeferPart::SoftWork),
            _ if from_softirq => None,
            BpfMechanism::Timer => Some(DeferPart::Timer),
            BpfMechanism::Work => Some(DeferPart::Work),
            BpfMechanism::Ringbuf => Some(DeferPart::Ring),
            BpfMechanism::NetRx => Some(DeferPart::Packet),
            BpfMechanism::Membarrier => Some(DeferPart::Call),
            BpfMechanism::PerfOverflow => Some(DeferPart::Overflow),
            BpfMechanism::DirectIo => Some(DeferPart::Read),
            BpfMechanism::Timerfd => None,
        },
    }
}

/// Whether a thread of ours waits for it and stamps its start.
fn is_waited(mechanism: Mechanism) -> bool {
    mechanism.runner() == Runner::UserThread
}

/// A run with all its threads made and its programs attached, before anything is requested.
#[derive(Debug)]
pub struct ByBpf {
    probe: DeferProbe,
    requests: Vec<Request>,
    settings: Settings,
    halt: Arc<AtomicBool>,
    /// Set when threads that wait are to end with their next read, which `wake` brings about.
    over: Arc<AtomicBool>,
    wake: Vec<Wake>,
    waiters: Vec<JoinHandle<io::Result<()>>>,
    overflows: Vec<DeferOverflow>,
    /// Of each series that reads.
    readings: Vec<(u32, Arc<Reading>)>,
    /// The thread that sleeps on a ring, and what wakes it.
    sleeper: Option<Sleeper>,
    records: Receiver<Record>,
    /// Sends the word to begin; ends the requester unheard where it is dropped.
    go: Option<Sender<()>>,
    requester: Option<JoinHandle<Result<Requested, DeferError>>>,
    requester_tid: Tid,
}

/// The reader of a ring.
#[derive(Debug)]
struct Sleeper {
    wake: DeferTrigger,
    series: u32,
    thread: JoinHandle<Result<(), ProbeError>>,
}

/// How a thread that waits is brought to its end.
#[derive(Debug)]
enum Wake {
    Timer(Arc<OwnedFd>),
    Event(Arc<OwnedFd>),
}

impl ByBpf {
    /// Makes everything that the requests need.
    pub fn new(kernel: &StockKernel, settings: &Settings, requests: &[Request]) -> Result<ByBpf, DeferError> {
        refuse_what_cannot_be_had(settings, requests)?;
        let mut parts: Vec<DeferPart> = Vec::new();
        for part in requests.iter().filter_map(|request| part(request.mechanism, request.context)) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        let probe = DeferProbe::start(&parts)?;
        let (sender, records) = channel();
        let mut run = ByBpf {
            probe,
            requests: requests.to_vec(),
            settings: *settings,
            halt: Arc::default(),
            over: Arc::default(),
            wake: Vec::new(),
            waiters: Vec::new(),
            overflows: Vec::new(),
            readings: Vec::new(),
            sleeper: None,
            records,
            go: None,
            requester: None,
            requester_tid: Tid(0),
        };
        let mut turns = Vec::new();
        for (series, request) in (0..).zip(requests) {
            turns.push(Turn {
                series,
                act: run.make(kernel, series, request, &sender)?,
                left: request.triggers,
                burst: request.burst,
                open_loop: request.open_loop,
                triggers: 0,
                turns_missed: 0,
                refused: 0,
            });
        }
        let requester = run.start_requester(turns)?;
        run.requester_tid = Tid(requester.cast_signed());
        for (series, request) in (0..).zip(requests) {
            if part(request.mechanism, request.context) == Some(DeferPart::Overflow) {
                run.watch_faults(series, request, requester, &sender)?;
            }
        }
        Ok(run)
    }

    /// The event counts one thread, and so is made once that is there.
    fn watch_faults(
        &mut self,
        series: u32,
        request: &Request,
        requester: u32,
        sender: &Sender<Record>,
    ) -> Result<(), DeferError> {
        let overflow = self.probe.overflow(series, requester)?;
        let bell = Arc::new(event()?);
        let copy = overflow.descriptor().try_clone_to_owned();
        let copy = copy.map_err(|source| DeferError::Io { doing: "keeping an event of perf", source })?;
        self.wait(series, request, Awaited::Overflow(copy, Arc::clone(&bell)), sender)?;
        self.wake.push(Wake::Event(bell));
        self.overflows.push(overflow);
        Ok(())
    }

    fn make(
        &mut self,
        kernel: &StockKernel,
        series: u32,
        request: &Request,
        sender: &Sender<Record>,
    ) -> Result<Act, DeferError> {
        let io = |doing| move |source| DeferError::Io { doing, source };
        let trigger = match part(request.mechanism, request.context) {
            Some(part) => self.probe.trigger(part, series)?,
            None => None,
        };
        Ok(match (request.mechanism, trigger) {
            (mechanism, Some(trigger)) => {
                if mechanism == Mechanism::Bpf(BpfMechanism::Ringbuf) {
                    let (sleeper, over) = (self.probe.sleeper(series)?, Arc::clone(&self.over));
                    let thread = std::thread::spawn(move || sleeper.sleep(&over));
                    // A trigger of its own, to wake it by in the end.
                    self.sleeper = self.probe.trigger(DeferPart::Ring, series)?.map(|wake| Sleeper {
                        wake,
                        series,
                        thread,
                    });
                }
                Act::Program(trigger)
            }
            (Mechanism::Bpf(BpfMechanism::NetRx), _) => {
                Act::Packet(Loopback::open().map_err(io("opening a socket to itself"))?)
            }
            (Mechanism::Bpf(BpfMechanism::Membarrier), _) => {
                called::register().map_err(io("registering for membarrier"))?;
                let bell = Arc::new(event()?);
                let guest = Guest::new(request.cpu, Arc::clone(&bell));
                let (visit, over) = (guest.visit(), Arc::clone(&self.over));
                let serve = move || visit.serve(|| over.load(Ordering::Acquire));
                self.waiters.push(start_pinned(request.cpu, request.runner, serve)?);
                self.wake.push(Wake::Event(bell));
                Act::Call(guest)
            }
            (Mechanism::Bpf(BpfMechanism::PerfOverflow), _) => {
                Act::Fault(Page::map().map_err(io("mapping a page to touch"))?)
            }
            (Mechanism::Bpf(BpfMechanism::DirectIo), _) => {
                let disk =
                    Disk::open(&kernel.disk).map_err(io("opening what is read past the page cache"))?;
                let bell = Arc::new(event()?);
                let reading = Arc::new(Reading::new(Arc::clone(&bell)));
                let named = self.probe.reader(series)?;
                let reader = Reader { series, disk, reading: Arc::clone(&reading), named };
                let (shared, over) = (self.probe.shared(), Arc::clone(&self.over));
                let records = sender.clone();
                let serve = move || reader.serve(&shared, &over, &records);
                self.waiters.push(start_pinned(request.cpu, request.runner, serve)?);
                self.wake.push(Wake::Event(bell));
                self.readings.push((series, Arc::clone(&reading)));
                Act::Read(reading)
            }
            (Mechanism::Bpf(BpfMechanism::Timerfd), _) => {
                let fd = Arc::new(timer()?);
                self.wait(series, request, Awaited::Count(Arc::clone(&fd)), sender)?;
                self.wake.push(Wake::Timer(Arc::clone(&fd)));
                Act::Timerfd(fd)
            }
            _ => {
                let fd = Arc::new(event()?);
                self.wait(series, request, Awaited::Count(Arc::clone(&fd)), sender)?;
                self.wake.push(Wake::Event(Arc::clone(&fd)));
                Act::Eventfd(fd)
            }
        })
    }

    fn wait(
        &mut self,
        series: u32,
        request: &Request,
        awaited: Awaited,
        sender: &Sender<Record>,
    ) -> Result<(), DeferError> {
        let waiter = Waiter { series, awaited, requester: self.settings.cpu };
        let (shared, over, records) = (self.probe.shared(), Arc::clone(&self.over), sender.clone());
        let wait = move || waiter.wait(&shared, &over, &records);
        self.waiters.push(start_pinned(request.cpu, request.runner, wait)?);
        Ok(())
    }

    /// The number of its thread.
    fn start_requester(&mut self, turns: Vec<Turn>) -> Result<u32, DeferError> {
        let (go, begin) = channel();
        let (ready, begun) = channel();
        let (settings, shared, halt) = (self.settings, self.probe.shared(), Arc::clone(&self.halt));
        let thread = std::thread::spawn(move || {
            let prepared = pin(settings.cpu).and_then(|()| set_scheduler(0, settings.requester));
            let tid = this_thread().0.unsigned_abs();
            shared.set_requester(tid, settings.cpu.0);
            let is_ready = prepared.is_ok();
            if ready.send(prepared.map(|()| tid)).is_err() || !is_ready || begin.recv().is_err() {
                return Ok(Requested { turns, triggers_late: 0 });
            }
            let requested = request_all(turns, &settings, &shared, &halt)?;
            settle(&requested.turns, &shared, &halt, DRAIN);
            Ok(requested)
        });
        self.go = Some(go);
        self.requester = Some(thread);
        let what = || format!("CPU {} and the policy of the thread that requests", self.settings.cpu);
        match begun.recv() {
            Ok(prepared) => prepared.map_err(|source| DeferError::Refused { what: what(), source }),
            Err(_) => Err(DeferError::Io {
                doing: "starting the thread that requests",
                source: io::ErrorKind::Other.into(),
            }),
        }
    }

    /// As [`crate::Prepared::run`].
    pub fn run(
        mut self,
        stop: &AtomicBool,
        mut progress: impl FnMut(Progress),
        mut each: impl FnMut(usize, &SeriesTally, &Record),
        ended: impl FnOnce(),
    ) -> Result<Vec<SeriesTally>, DeferError> {
        let new = |request: &Request| SeriesTally::new(*request, self.settings.cpu, self.requester_tid);
        let mut measured: Vec<SeriesTally> = self.requests.iter().map(new).collect();
        let triggers = self.requests.iter().map(|request| u64::from(request.triggers)).sum();
        let ksoftirqd = Ksoftirqd::of_this_kernel();
        let ended_at = Cell::new(None);
        let mut tally = |records: &[Record]| {
            for record in records {
                let request = record.series as usize;
                if let Some(measured) = measured.get_mut(request) {
                    each(request, measured, record);
                    measured.add(record, &ksoftirqd, ended_at.get());
                }
            }
        };
        // The requester waits for it; where it has failed, joining it says why.
        let _ = self.go.take().map(|go| go.send(()));
        let taken = self.take(stop, &mut tally, |starts| progress(Progress { starts, triggers }));
        ended_at.set(Some(clock::now()));
        ended();
        // Also where taking failed: the threads end with the run.
        let requested = self.end_requests();
        let drained = self.drain(&mut tally);
        let shared = self.probe.shared();
        // Before threads are woken to their end, which counts as a request too.
        let counts: Vec<Counts> =
            (0..self.requests.len() as u32).map(|series| shared.counts(series)).collect();
        let waited = self.end_waiters();
        taken.and(drained).and(waited)?;
        if let Some(source) = (0..self.requests.len() as u32).find_map(|series| shared.failed(series)) {
            return Err(DeferError::Io { doing: "requesting deferred work from a softirq", source });
        }
        for measured in &mut measured {
            let part = part(measured.request.mechanism, measured.request.context);
            measured.skipped = part.map_or(0, |part| self.probe.skipped(part));
        }
        let Requested { turns, triggers_late } = requested?;
        for turn in &turns {
            let counts = counts[turn.series as usize];
            let readings = self.readings.iter().filter(|(series, _)| *series == turn.series);
            let measured = &mut measured[turn.series as usize];
            measured.unseen = readings.map(|(_, reading)| reading.unseen()).sum();
            measured.add_counts(&Counts {
                triggers: turn.triggers,
                requests: counts.requests + turn.refused + measured.unseen,
                refused: turn.refused,
                turns_missed: turn.turns_missed,
                triggers_late,
                ..counts
            });
        }
        Ok(measured)
    }

    fn poll(&mut self) -> Result<Vec<Record>, DeferError> {
        let mut records = self.probe.poll()?;
        records.extend(self.records.try_iter());
        Ok(records)
    }

    fn is_waited_for(&self, shared: &DeferShared) -> bool {
        (0..self.requests.len() as u32).any(|series| shared.is_stepping(series) || shared.waiting(series) > 0)
            || self.readings.iter().any(|(_, reading)| reading.is_under_way())
    }

    fn take(
        &mut self,
        stop: &AtomicBool,
        tally: &mut impl FnMut(&[Record]),
        mut progress: impl FnMut(u64),
    ) -> Result<(), DeferError> {
        let shared = self.probe.shared();
        let begun = Instant::now();
        let (mut last, mut starts) = (begun, 0);
        loop {
            let is_requested = self.requester.as_ref().is_none_or(JoinHandle::is_finished);
            let is_done = is_requested && !self.is_waited_for(&shared);
            let records = self.poll()?;
            if !records.is_empty() {
                last = Instant::now();
                starts += records.len() as u64;
                tally(&records);
            }
            progress(starts);
            let is_over = self.settings.limit.is_some_and(|limit| begun.elapsed() >= limit.to_duration());
            if is_done
                || is_over
                || stop.load(Ordering::Relaxed)
                || last.elapsed() >= self.settings.patience.to_duration()
            {
                return Ok(());
            }
            std::thread::sleep(TAKE_EVERY);
        }
    }

    /// Takes what was requested before the end, as long as it comes.
    fn drain(&mut self, tally: &mut impl FnMut(&[Record])) -> Result<(), DeferError> {
        let shared = self.probe.shared();
        let mut last = Instant::now();
        while self.is_waited_for(&shared) && last.elapsed() < DRAIN {
            let records = self.poll()?;
            if !records.is_empty() {
                last = Instant::now();
                tally(&records);
            }
            std::thread::sleep(TAKE_EVERY);
        }
        // A start is counted right before its record can be read, by a program that may still run.
        std::thread::sleep(TAKE_EVERY);
        tally(&self.poll()?);
        Ok(())
    }

    fn end_requests(&mut self) -> Result<Requested, DeferError> {
        self.halt.store(true, Ordering::Relaxed);
        drop(self.go.take());
        match self.requester.take() {
            Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Ok(Requested::default()),
        }
    }

    fn end_waiters(&mut self) -> Result<(), DeferError> {
        self.over.store(true, Ordering::Release);
        if let Some(Sleeper { wake, series, thread }) = self.sleeper.take() {
            // It can only be woken where it sleeps.
            while !thread.is_finished() {
                wake.request(series, 1, 0)?;
                std::thread::sleep(Duration::from_millis(1));
            }
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let failed = |source| DeferError::Io { doing: "waiting for requests in a user thread", source };
        for wake in self.wake.drain(..) {
            match wake {
                Wake::Timer(fd) => set_timer(&fd, clock::now().0),
                Wake::Event(fd) => signal(&fd),
            }
            .map_err(failed)?;
        }
        for thread in self.waiters.drain(..) {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(failed)?;
        }
        Ok(())
    }
}

/// How long what was requested may take to start once nothing is in its way any more.
const DRAIN: Duration = Duration::from_secs(2);

impl Drop for ByBpf {
    fn drop(&mut self) {
        let _ = self.end_requests();
        let _ = self.end_waiters();
    }
}

/// Starts a thread that runs on one CPU, at this policy and priority.
fn start_pinned(
    cpu: Cpu,
    scheduling: Option<(Policy, u32)>,
    run: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<JoinHandle<io::Result<()>>, DeferError> {
    let (ready, begun) = channel();
    let thread = std::thread::spawn(move || {
        let prepared = pin(cpu).and_then(|()| set_scheduler(0, scheduling));
        let is_ready = prepared.is_ok();
        if ready.send(prepared).is_err() || !is_ready { Ok(()) } else { run() }
    });
    let what = || format!("a thread on CPU {cpu} of that policy and priority");
    match begun.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(source)) => Err(DeferError::Refused { what: what(), source }),
        Err(_) => Err(DeferError::Refused { what: what(), source: io::ErrorKind::Other.into() }),
    }
}

fn refuse_what_cannot_be_had(settings: &Settings, requests: &[Request]) -> Result<(), DeferError> {
    let refuse = |what: &str| {
        Err(DeferError::Refused { what: what.to_owned(), source: io::ErrorKind::Unsupported.into() })
    };
    if settings.period.0 < PERIOD_MIN_NS {
        return refuse("a period below 10 us");
    }
    if requests.len() > DeferProbe::SERIES_MAX {
        return refuse("more than 32 series without the module");
    }
    if requests.iter().any(|request| request.burst > BURST_MAX) {
        return refuse("a burst of more than 1024 requests");
    }
    if requests.iter().any(|request| request.busy.0 > 0 || request.execution.0 > 0 || request.counter) {
        return refuse("--busy and --execution without the module (--by module)");
    }
    Ok(())
}

fn own(fd: i32, doing: &'static str) -> Result<OwnedFd, DeferError> {
    if fd < 0 {
        return Err(DeferError::Io { doing, source: io::Error::last_os_error() });
    }
    // SAFETY: a descriptor that the kernel just made, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn timer() -> Result<OwnedFd, DeferError> {
    // SAFETY: no pointers.
    own(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) }, "making a timerfd")
}

fn event() -> Result<OwnedFd, DeferError> {
    // SAFETY: no pointers.
    own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }, "making an eventfd")
}
