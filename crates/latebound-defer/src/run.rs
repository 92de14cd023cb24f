// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of the module, from the plan to what became of it.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latebound_abi::defer as abi;
use latebound_model::{Cpu, Policy, Tid};
use latebound_syscall::clock;

use crate::device::Device;
use crate::error::DeferError;
use crate::ksoftirqd::Ksoftirqd;
use crate::plan::{Request, Settings};
use crate::tally::SeriesTally;
use crate::thread::{pin, schedule, set_scheduler, this_cpu};

/// How often starts are taken. The interval is long, since it is work beside what is measured.
pub(crate) const TAKE_EVERY: Duration = Duration::from_millis(20);

/// How many records are taken at once.
const BATCH: usize = 1024;

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Starts taken so far.
    pub starts: u64,
    /// Triggers in all.
    pub triggers: u64,
}

/// A run with all its threads and items made, before anything is requested.
///
/// Made before the loads begin: under a load that takes a CPU for itself each of some dozen threads would wait for its
/// creation, a second each on a kernel that gives fair threads 50 ms of a second.
#[derive(Debug)]
pub struct DeferMeasurement {
    device: Arc<Device>,
    requests: Vec<Request>,
    settings: Settings,
    requester: Tid,
    /// For each series of the module, which request it belongs to.
    owners: Vec<usize>,
    waiters: Vec<JoinHandle<io::Result<()>>>,
}

impl DeferMeasurement {
    /// Makes everything that the requests need.
    pub fn new(
        device: Device,
        settings: &Settings,
        requests: &[Request],
    ) -> Result<DeferMeasurement, DeferError> {
        let mut plan = abi::Plan {
            abi: abi::ABI,
            cpu: settings.cpu.0,
            period_ns: settings.period.0,
            jitter_ns: settings.jitter.0,
            timer_ns: settings.timer.0,
            ring_records: settings.ring_records,
            train: settings.train,
            pause_ns: settings.pause.0,
            flags: if settings.top_halves { abi::TOP_HALVES } else { 0 },
            requester_tid: 0,
        };
        device.plan(&mut plan)?;
        schedule(plan.requester_tid, settings.requester)?;
        let mut prepared = DeferMeasurement {
            device: Arc::new(device),
            requests: requests.to_vec(),
            settings: *settings,
            requester: Tid(plan.requester_tid),
            owners: Vec::new(),
            waiters: Vec::new(),
        };
        for (owner, request) in requests.iter().enumerate() {
            for share in request.shares() {
                prepared.add(owner, &Request { triggers: share, ..*request })?;
            }
        }
        Ok(prepared)
    }

    fn add(&mut self, owner: usize, request: &Request) -> Result<(), DeferError> {
        let series = add(&self.device, &self.settings, request)?;
        self.owners.push(owner);
        if series.runner_tid != 0 {
            schedule(series.runner_tid, request.runner)?;
        }
        if self.device.kernel().is_waited(request.mechanism) {
            let (device, cpu, runner) = (Arc::clone(&self.device), request.cpu, request.runner);
            self.waiters.push(std::thread::spawn(move || wait(&device, series.index, cpu, runner)));
        }
        Ok(())
    }

    /// Requests all of it, interleaved, until each series had its triggers and all of them have started; until `stop`;
    /// until the time of the settings is over; or until nothing has started for as long as they say.
    ///
    /// `ended` is called when nothing is to be measured any more, and before what still waits is waited for: the place to
    /// take loads away. Every record also goes to `each`, with the number of its request and what became of that so far.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        mut progress: impl FnMut(Progress),
        mut each: impl FnMut(usize, &SeriesTally, &abi::Record),
        ended: impl FnOnce(),
    ) -> Result<Vec<SeriesTally>, DeferError> {
        let new = |request: &Request| SeriesTally::new(*request, self.settings.cpu, self.requester);
        let mut measured: Vec<SeriesTally> = self.requests.iter().map(new).collect();
        let triggers = self.requests.iter().map(|request| u64::from(request.triggers)).sum();
        let ksoftirqd = Ksoftirqd::of_this_kernel();
        let ended_at = Cell::new(None);
        let owners = std::mem::take(&mut self.owners);
        let mut tally = |records: &[abi::Record]| {
            for record in records {
                let Some(&owner) = owners.get(record.series as usize) else { continue };
                if let Some(measured) = measured.get_mut(owner) {
                    each(owner, measured, record);
                    measured.add(record, &ksoftirqd, ended_at.get());
                }
            }
        };
        self.device.start()?;
        let taken = take(&self.device, &self.settings, stop, &mut tally, |starts| {
            progress(Progress { starts, triggers });
        });
        ended_at.set(Some(clock::now()));
        ended();
        // Also where taking failed: the threads end with the run.
        self.end()?;
        taken?;
        // What was still in the ring when the run was stopped.
        let mut buffer = vec![abi::Record::default(); BATCH];
        while let Some(count) = self.device.read(&mut buffer)?.filter(|count| *count > 0) {
            tally(&buffer[..count]);
        }
        for (index, owner) in (0..).zip(&owners) {
            measured[*owner].add_counts(&self.device.counts(index)?);
        }
        Ok(measured)
    }

    fn end(&mut self) -> Result<(), DeferError> {
        self.device.stop()?;
        for thread in self.waiters.drain(..) {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(|source| {
                DeferError::Io { doing: "waiting for requests in a user thread", source }
            })?;
        }
        Ok(())
    }
}

impl Drop for DeferMeasurement {
    fn drop(&mut self) {
        // The threads in WAIT hold the device; without a stop they would wait, and hold it, for ever.
        let _ = self.device.stop();
        for thread in self.waiters.drain(..) {
            let _ = thread.join();
        }
    }
}

fn add(device: &Device, settings: &Settings, request: &Request) -> Result<abi::Series, DeferError> {
    let nanos = |value: latebound_model::Nanos| u32::try_from(value.0).unwrap_or(u32::MAX);
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let mut series = abi::Series {
        mechanism: request.mechanism.number(),
        context: request.context.number(),
        flags: flag(request.busy.0 > 0, abi::BUSY)
            | flag(request.open_loop, abi::OPEN_LOOP)
            | flag(request.counter, abi::COUNTER)
            | flag(request.fixed_work, abi::FIXED_WORK),
        cpu: request.cpu.0,
        triggers: request.triggers,
        burst: request.burst,
        execution_ns: nanos(request.execution),
        busy_ns: nanos(request.busy),
        ..abi::Series::default()
    };
    device.add(&mut series, || request.label(settings.cpu))?;
    Ok(series)
}

fn take(
    device: &Device,
    settings: &Settings,
    stop: &AtomicBool,
    tally: &mut impl FnMut(&[abi::Record]),
    mut progress: impl FnMut(u64),
) -> Result<(), DeferError> {
    let mut buffer = vec![abi::Record::default(); BATCH];
    let mut starts = 0;
    let begun = Instant::now();
    let mut last = begun;
    while let Some(count) = device.read(&mut buffer)? {
        if count > 0 {
            last = Instant::now();
            starts += count as u64;
            tally(&buffer[..count]);
        }
        progress(starts);
        // After the read: this thread may itself have been kept from running for longer than it is patient.
        let is_over = settings.limit.is_some_and(|limit| begun.elapsed() >= limit.to_duration());
        if stop.load(Ordering::Relaxed) || is_over || last.elapsed() >= settings.patience.to_duration() {
            break;
        }
        if count < buffer.len() {
            std::thread::sleep(TAKE_EVERY);
        }
    }
    Ok(())
}

/// A user thread as a mechanism: wakes, reads the clock, and says so with its next call.
fn wait(device: &Device, index: u32, cpu: Cpu, runner: Option<(Policy, u32)>) -> io::Result<()> {
    pin(cpu)?;
    set_scheduler(0, runner)?;
    let mut wait = abi::Wait { index, ..abi::Wait::default() };
    loop {
        match device.wait(&mut wait) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        }
        wait.started_ns = clock::now().0;
        wait.started_cpu = this_cpu().0;
        if wait.requested_ns == 0 {
            return Ok(());
        }
    }
}
