// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loads whose threads know nothing of each other: computing, hogging, sleeping, forking, touching memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::Builder;

use latebound_model::{Cpu, CpuSet, Histogram, Nanos, Policy};
use latebound_syscall::sched::{self, Scheduling};
use latebound_syscall::{clock, memory as pages, process};

use crate::deadline::Deadline;
use crate::user;
use crate::work::{Begun, Work};

/// Runs so many threads of one kind; the sum of what they did, and the first thing that failed. Calls `begun` when they are
/// started.
pub(crate) fn threads<F>(
    name: &str,
    count: u32,
    unit: &'static str,
    begun: Begun<'_>,
    body: F,
) -> Result<Work, String>
where
    F: Fn(u32) -> (u64, Result<(), String>) + Sync,
{
    let mut work = Work::of(unit);
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for index in 0..count {
            let body = &body;
            let thread = Builder::new().name(name.to_owned()).stack_size(64 * 1024);
            match thread.spawn_scoped(scope, move || body(index)) {
                Ok(thread) => running.push(thread),
                Err(error) => {
                    let why =
                        format!("only {index} of {count} threads could be started ({error}); ask for fewer");
                    work.error = Some(why);
                    break;
                }
            }
        }
        begun();
        for thread in running {
            match thread.join() {
                Ok((done, result)) => {
                    work.done += done;
                    work.error = work.error.take().or(result.err());
                }
                Err(_) => work.error = Some("a thread of the load panicked".to_owned()),
            }
        }
    });
    Ok(work)
}

/// The CPUs that the load may use.
pub(crate) fn allowed() -> Result<CpuSet, String> {
    sched::affinity().map_err(|error| format!("the affinity could not be read ({error})"))
}

/// The calling thread on this CPU alone.
pub(crate) fn pin(cpu: Cpu, allowed: &CpuSet) -> Result<(), String> {
    sched::set_affinity(&CpuSet::new([cpu]))
        .map_err(|error| format!("cannot be pinned to CPU {cpu} ({error}); choose from {allowed}"))
}

/// So many steps of a random number generator, from a state that is not 0.
pub(crate) fn steps(mut state: u64, count: u32) -> u64 {
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state)
}

/// Computes, on one CPU or on all; a unit is a thousand steps of a random number generator, timed from its begin to its end:
/// what took the CPU away from it shows.
pub(crate) fn cpu(
    count: Option<u32>,
    cpu: Option<Cpu>,
    until: Deadline,
    begun: Begun<'_>,
) -> Result<Work, String> {
    let allowed = allowed()?;
    let count = count.unwrap_or(if cpu.is_some() { 1 } else { allowed.len() as u32 });
    let latency = Mutex::new(Histogram::new());
    let mut work = threads("load-cpu", count, "thousand steps", begun, |index| {
        if let Some(Err(why)) = cpu.map(|cpu| pin(cpu, &allowed)) {
            return (0, Err(why));
        }
        let (mut state, mut took) = (u64::from(index) + 1, Histogram::new());
        let mut begun = clock::now();
        while !until.over() {
            state = steps(state, 1_000);
            let now = clock::now();
            took.record(now.saturating_sub(begun));
            begun = now;
        }
        if let Ok(mut all) = latency.lock() {
            all.merge(&took);
        }
        (took.count(), Ok(()))
    })?;
    work.latency = latency.into_inner().ok();
    Ok(work)
}

/// How often a hog looks whether the others are there.
const GATHERING: Nanos = Nanos::from_millis(5);

/// A real-time thread that is busy for a part of each period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hog {
    /// SCHED_FIFO or SCHED_RR.
    pub(crate) policy: Policy,
    /// Its priority.
    pub(crate) priority: u32,
    /// How long it is busy, by the clock.
    pub(crate) busy: Nanos,
    /// In each period of this length.
    pub(crate) period: Nanos,
}

/// So many of them on one CPU; a unit is one burst of one. Periods that passed while it was late or throttled are not made
/// up for.
pub(crate) fn rt_hog(
    hog: Hog,
    count: u32,
    cpu: Option<Cpu>,
    until: Deadline,
    begun: Begun<'_>,
) -> Result<Work, String> {
    let allowed = allowed()?;
    let cpu = cpu.or_else(|| allowed.iter().last()).unwrap_or_default();
    let Hog { policy, priority, busy, period } = hog;
    // None takes the CPU before all are there: at 100 % the first would keep the others from being started.
    let there = AtomicU32::new(0);
    // Threads have the rights of the one that starts them.
    let started = || drop(user::give_up_scheduling());
    threads("load-rt-hog", count, "bursts", &started, |_| {
        let prepared = pin(cpu, &allowed).and_then(|()| {
            sched::set_scheduling(Scheduling::RealTime { policy, priority })
                .map_err(|error| format!("SCHED_{policy} {priority} was refused ({error}); run as root"))
                .and_then(|()| user::give_up_scheduling())
        });
        if there.fetch_add(1, Ordering::Relaxed) + 1 == count {
            begun();
        }
        if prepared.is_err() {
            return (0, prepared);
        }
        while there.load(Ordering::Relaxed) < count && until.sleep_until(clock::now() + GATHERING) {}
        let (mut done, mut next) = (0, clock::now());
        while until.sleep_until(next) {
            let burst_end = clock::now() + busy;
            while clock::now() < burst_end {
                if until.over() {
                    return (done, Ok(()));
                }
            }
            done += 1;
            let passed = clock::now().saturating_sub(next).0 / period.0;
            next += Nanos(passed.max(1) * period.0);
        }
        (done, Ok(()))
    })
}

/// Sleeps to one absolute time after the other; a unit is one expiry.
pub(crate) fn timer(count: u32, period: Nanos, until: Deadline, begun: Begun<'_>) -> Result<Work, String> {
    threads("load-timer", count, "expiries", begun, |index| {
        // Spread over the period, so that they are interrupts of their own.
        let mut next = until.start() + Nanos(period.0 * u64::from(index) / u64::from(count));
        let mut done = 0;
        while until.sleep_until(next) {
            done += 1;
            let missed = clock::now().saturating_sub(next).0 / period.0;
            next += Nanos((missed + 1) * period.0);
        }
        (done, Ok(()))
    })
}

/// Starts processes that end at once and waits for them; a unit is one of them.
pub(crate) fn fork(workers: u32, until: Deadline, begun: Begun<'_>) -> Result<Work, String> {
    threads("load-fork", workers, "forks", begun, |_| {
        let mut done = 0;
        while !until.over() {
            match process::fork_and_reap() {
                Ok(()) => done += 1,
                Err(error) => return (done, Err(format!("fork answered \"{error}\"; check: ulimit -u"))),
            }
        }
        (done, Ok(()))
    })
}

/// Maps, touches and unmaps memory; a unit is one page touched. Takes no more than half of what is available.
pub(crate) fn memory(size: u64, count: u32, until: Deadline, begun: Begun<'_>) -> Result<Work, String> {
    let available = available_memory().ok_or("MemAvailable could not be read from /proc/meminfo")?;
    let wanted = size.saturating_mul(u64::from(count));
    if wanted > available / 2 {
        let each = (available / 2 / u64::from(count)) >> 20;
        return Err(format!(
            "{wanted} bytes are more than half of the {available} that are available; write memory:size={each}MiB"
        ));
    }
    let size =
        usize::try_from(size).map_err(|_| format!("{size} bytes are more than this machine can address"))?;
    threads("load-memory", count, "pages", begun, |_| {
        let mut done = 0;
        while !until.over() {
            match pages::touch_fresh_mapping(size, || !until.over()) {
                Ok(touched) => done += touched,
                Err(error) => return (done, Err(format!("mmap of {size} bytes answered \"{error}\""))),
            }
        }
        (done, Ok(()))
    })
}

fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
