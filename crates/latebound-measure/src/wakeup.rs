// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measuring thread: how it is prepared, and the loop that it runs.
//!
//! The loop calls the system for nothing but its sleep, allocates nothing, locks nothing, and ends by its own clock. A
//! loop without an end asks once in 65536 wake-ups whether it still sleeps at all, and ends where it does not: at a
//! period that cannot be served, a real-time thread would keep everything else from its CPU.
//! Between the kernel's return and the clock read stands one indirect call, into the vDSO.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use latebound_model::{Cpu, CpuSet, Nanos, Policy};
use latebound_syscall::clock::{self, Clock, sleep_until};
use latebound_syscall::memory;
use latebound_syscall::sched::{self, Scheduling};

use crate::error::MeasureError;
use crate::permission::{self, Refusal};
use crate::recorder::{Plan, Recorder, Writer};

/// Sleeps longer than this are cut, so that a stop is noticed within it.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(100);

/// How a measuring thread is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) cpu: Cpu,
    pub(crate) policy: Policy,
    pub(crate) priority: u32,
    pub(crate) period: Nanos,
    pub(crate) timer_slack: Option<Nanos>,
}

impl Setup {
    fn scheduling(&self) -> Scheduling {
        match self.policy {
            Policy::Fifo | Policy::RoundRobin => {
                Scheduling::RealTime { policy: self.policy, priority: self.priority }
            }
            // A quarter leaves admission control room for every CPU, and the loop some hundred times what it needs.
            Policy::Deadline => Scheduling::Deadline { runtime: self.runtime(), period: self.period },
            _ => Scheduling::Other,
        }
    }

    /// At minimum DL_SCALE's 1024 ns (kernel/sched/deadline.c, __checkparam_dl).
    fn runtime(&self) -> Nanos {
        Nanos((self.period.0 / 4).max(1_024))
    }

    /// Prepares the calling thread; whether it is pinned to its CPU.
    pub(crate) fn apply(&self) -> Result<bool, MeasureError> {
        let thread_error = |what| move |source| MeasureError::Thread { cpu: self.cpu, what, source };
        let before = sched::affinity().map_err(thread_error("read its affinity"))?;
        sched::set_affinity(&CpuSet::new([self.cpu]))
            .map_err(|source| self.affinity_error(source, &before))?;
        if let Some(slack) = self.timer_slack {
            sched::set_timer_slack(slack).map_err(thread_error("set its timer slack"))?;
        }
        memory::prefault_stack();
        let error = match sched::set_scheduling(self.scheduling()) {
            Ok(()) => return Ok(true),
            Err(error) => error,
        };
        // A deadline task's affinity must span its root domain, which is one CPU only in an exclusive cpuset
        // (kernel/sched/syscalls.c, __sched_setscheduler: EPERM; 5.15 to 6.18).
        if self.policy == Policy::Deadline && error.raw_os_error() == Some(libc::EPERM) {
            sched::set_affinity(&before).map_err(thread_error("be unpinned for SCHED_DEADLINE"))?;
            return sched::set_scheduling(self.scheduling())
                .map(|()| false)
                .map_err(|error| self.refused(error));
        }
        Err(self.refused(error))
    }

    fn refused(&self, source: io::Error) -> MeasureError {
        let root = Path::new("/");
        let Refusal { cause, remedy } = if self.policy == Policy::Deadline {
            permission::deadline_refusal(root, &source, self.runtime(), self.period)
        } else {
            permission::real_time_refusal(root, self.priority, sched::rt_priority_limit())
        };
        MeasureError::PolicyRefused { policy: self.policy, cause, remedy, source }
    }

    fn affinity_error(&self, source: io::Error, allowed: &CpuSet) -> MeasureError {
        let cpu = self.cpu;
        match online() {
            Some(online) if !online.contains(cpu) => MeasureError::CpuOffline { cpu, online },
            _ if source.raw_os_error() == Some(libc::EINVAL) => {
                MeasureError::CpuNotAllowed { cpu, allowed: allowed.clone() }
            }
            _ => MeasureError::Thread { cpu, what: "be pinned to it", source },
        }
    }
}

/// The CPUs that are on line, where that can be read.
fn online() -> Option<CpuSet> {
    std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?.parse().ok()
}

/// How a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Every period up to the end was served.
    ByItsClock,
    /// It was stopped before.
    Stopped,
    /// It had no end and no longer slept.
    Sleepless,
}

/// Watches a loop without an end for whether it leaves its CPU to others.
struct Sleepless {
    wakeups: u32,
    checked: Nanos,
    cpu_time: Nanos,
}

impl Sleepless {
    const EVERY: u32 = 1 << 16;

    fn new(now: Nanos) -> Sleepless {
        Sleepless { wakeups: 0, checked: now, cpu_time: clock::thread_cpu_time() }
    }

    /// Whether the thread had more than nine tenths of its CPU lately. RT throttling leaves it 95 %.
    #[inline]
    fn check(&mut self, now: Nanos) -> bool {
        self.wakeups += 1;
        if self.wakeups < Sleepless::EVERY {
            return false;
        }
        let before = std::mem::replace(self, Sleepless::new(now));
        let (passed, had) = (now - before.checked, self.cpu_time - before.cpu_time);
        u128::from(had.0) * 10 > u128::from(passed.0) * 9
    }
}

/// Serves periods until the plan's end or until it is told to stop.
pub(crate) fn run(
    plan: &Plan,
    recorder: &Recorder,
    pinned: Option<Cpu>,
    stop: &AtomicBool,
) -> io::Result<Ended> {
    let clock = Clock::fastest();
    let mut writer = Writer::new(recorder);
    let mut expected = plan.first;
    let mut before = Cpu(u32::MAX);
    let mut sleepless = (plan.end.0 == u64::MAX).then(|| Sleepless::new(clock.now()));
    while expected < plan.end {
        while expected.saturating_sub(clock.now()) > LONGEST_SLEEP {
            sleep_until(clock.now() + Nanos(LONGEST_SLEEP.0 / 2));
            if stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
        }
        if pinned.is_none() {
            before = sched::current_cpu();
        }
        let slept = sleep_until(expected);
        let now = clock.now();
        if slept != 0 {
            if -slept != libc::EINTR as isize {
                return Err(io::Error::from_raw_os_error(-slept as i32));
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            continue;
        }
        let cpu = match pinned {
            Some(cpu) => cpu,
            None => {
                let cpu = sched::current_cpu();
                if cpu != before {
                    writer.moved();
                }
                cpu
            }
        };
        expected = writer.record(expected, now, cpu);
        if stop.load(Ordering::Relaxed) {
            return Ok(if expected < plan.end { Ended::Stopped } else { Ended::ByItsClock });
        }
        if sleepless.as_mut().is_some_and(|sleepless| sleepless.check(now)) {
            return Ok(Ended::Sleepless);
        }
    }
    Ok(Ended::ByItsClock)
}
