// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of the module, from the plan to what became of it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use latebound_abi::defer as abi;
use latebound_model::{Cpu, Policy};

use crate::device::Device;
use crate::error::DeferError;
use crate::plan::{Request, Settings};
use crate::tally::Measured;

/// How often starts are taken. Seldom, since it is work beside what is measured.
const TAKE_EVERY: Duration = Duration::from_millis(20);

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Starts taken so far.
    pub starts: u64,
    /// Triggers in all.
    pub triggers: u64,
}

/// Requests all of this, interleaved, until each series had its triggers and all of them have started; until `stop`;
/// or until nothing has started for as long as the settings say.
pub fn run(
    device: Device,
    settings: &Settings,
    requests: &[Request],
    stop: &AtomicBool,
    mut progress: impl FnMut(Progress),
) -> Result<Vec<Measured>, DeferError> {
    let mut plan = abi::Plan {
        abi: abi::ABI,
        cpu: settings.cpu.0,
        period_ns: settings.period.0,
        // A quarter, so that requests meet every phase of the tick.
        jitter_ns: settings.period.0 / 4,
        timer_ns: settings.timer.0,
        ring_records: settings.ring_records,
        requester_tid: 0,
    };
    device.plan(&mut plan)?;
    schedule(plan.requester_tid, settings.requester)?;
    let mut waited = Vec::new();
    for request in requests {
        let series = add(&device, settings, request)?;
        if series.runner_tid != 0 {
            schedule(series.runner_tid, settings.runner)?;
        }
        if device.kernel().is_waited(request.mechanism) {
            waited.push((series.index, request.cpu));
        }
    }
    let mut measured: Vec<Measured> =
        requests.iter().map(|request| Measured::new(*request, settings.cpu)).collect();
    let triggers = requests.iter().map(|request| u64::from(request.triggers)).sum();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        device.start()?;
        for (index, cpu) in waited {
            let device = &device;
            threads.push(scope.spawn(move || wait(device, index, cpu, settings.runner)));
        }
        let taken = take(&device, settings, stop, &mut measured, |starts| {
            progress(Progress { starts, triggers });
        });
        // Also where taking failed: the threads end with the run.
        device.stop()?;
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(|source| {
                DeferError::Io { doing: "waiting for requests in a user thread", source }
            })?;
        }
        taken
    })?;
    // What was still in the ring when the run was stopped.
    let mut buffer = vec![abi::Record::default(); 1024];
    while let Some(count) = device.read(&mut buffer)?.filter(|count| *count > 0) {
        tally(&mut measured, &buffer[..count]);
    }
    for (index, measured) in measured.iter_mut().enumerate() {
        measured.counts = device.counts(index as u32)?;
    }
    Ok(measured)
}

fn add(device: &Device, settings: &Settings, request: &Request) -> Result<abi::Series, DeferError> {
    let nanos = |value: latebound_model::Nanos| u32::try_from(value.0).unwrap_or(u32::MAX);
    let busy = request.busy.0 > 0;
    let mut series = abi::Series {
        mechanism: request.mechanism.number(),
        context: request.context.number(),
        flags: if busy { abi::BUSY } else { 0 } | if request.open_loop { abi::OPEN_LOOP } else { 0 },
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

fn tally(measured: &mut [Measured], records: &[abi::Record]) {
    for record in records {
        if let Some(measured) = measured.get_mut(record.series as usize) {
            measured.add(record);
        }
    }
}

fn take(
    device: &Device,
    settings: &Settings,
    stop: &AtomicBool,
    measured: &mut [Measured],
    mut progress: impl FnMut(u64),
) -> Result<(), DeferError> {
    let mut buffer = vec![abi::Record::default(); 1024];
    let mut starts = 0;
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) && last.elapsed() < settings.patience.to_duration() {
        let Some(count) = device.read(&mut buffer)? else { break };
        if count > 0 {
            last = Instant::now();
            starts += count as u64;
            tally(measured, &buffer[..count]);
        }
        progress(starts);
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
        wait.started_ns = now_ns();
        // SAFETY: sched_getcpu has no preconditions.
        wait.started_cpu = u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0);
        if wait.requested_ns == 0 {
            return Ok(());
        }
    }
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill; CLOCK_MONOTONIC is there on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn pin(cpu: Cpu) -> io::Result<()> {
    let mut mask = vec![0u64; cpu.0 as usize / 64 + 1];
    mask[cpu.0 as usize / 64] = 1 << (cpu.0 % 64);
    // SAFETY: the kernel reads that many bytes of a live buffer; 0 names the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, mask.len() * 8, mask.as_ptr()) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn schedule(tid: i32, scheduling: Option<(Policy, u32)>) -> Result<(), DeferError> {
    set_scheduler(tid, scheduling).map_err(|source| DeferError::Refused {
        what: format!("the policy and priority {scheduling:?} of thread {tid}"),
        source,
    })
}

/// The module's threads end with the run, and ours too: there is nothing to put back.
fn set_scheduler(tid: i32, scheduling: Option<(Policy, u32)>) -> io::Result<()> {
    let Some((policy, priority)) = scheduling else { return Ok(()) };
    // SAFETY: all zeroes is a value of this structure of integers.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = i32::try_from(priority).unwrap_or(i32::MAX);
    // SAFETY: the kernel reads a live sched_param.
    match unsafe { libc::sched_setscheduler(tid, policy.number() as i32, &raw const param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
