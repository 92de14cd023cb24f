// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies, affinity and timer slack of the calling thread.

use std::io;

use latebound_model::{Cpu, CpuSet, Nanos, Policy, Tid};

use crate::check;

/// `SCHED_FLAG_RESET_ON_FORK` (include/uapi/linux/sched.h): what this thread starts does not inherit its priority.
const RESET_ON_FORK: u64 = 1;

/// The calling thread's id.
pub fn tid() -> Tid {
    // SAFETY: gettid has no preconditions.
    Tid(unsafe { libc::gettid() })
}

/// The CPU that the calling thread is on at this moment.
pub fn current_cpu() -> Cpu {
    // SAFETY: sched_getcpu has no preconditions.
    Cpu(u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0))
}

/// What a thread is scheduled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// `SCHED_OTHER`, with the nice value of the calling thread.
    Other,
    /// `SCHED_FIFO` or `SCHED_RR` with a priority.
    RealTime {
        /// Which of the two.
        policy: Policy,
        /// 1 to 99.
        priority: u32,
    },
    /// `SCHED_DEADLINE`, with the deadline at the end of the period.
    Deadline {
        /// CPU time in each period.
        runtime: Nanos,
        /// The period.
        period: Nanos,
    },
}

/// Sets how the calling thread is scheduled.
pub fn set_scheduling(scheduling: Scheduling) -> io::Result<()> {
    let mut attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: Policy::Other.number(),
        sched_flags: RESET_ON_FORK,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    match scheduling {
        // SAFETY: getpriority takes integers only.
        Scheduling::Other => attr.sched_nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) },
        Scheduling::RealTime { policy, priority } => {
            attr.sched_policy = policy.number();
            attr.sched_priority = priority;
        }
        Scheduling::Deadline { runtime, period } => {
            attr.sched_policy = Policy::Deadline.number();
            attr.sched_runtime = runtime.0;
            attr.sched_deadline = period.0;
            attr.sched_period = period.0;
        }
    }
    // SAFETY: the kernel reads `size` bytes of a live sched_attr; 0 names the calling thread.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) }).map(drop)
}

/// Restricts the calling thread to these CPUs.
pub fn set_affinity(cpus: &CpuSet) -> io::Result<()> {
    let words = cpus.iter().last().map_or(1, |cpu| cpu.0 as usize / 64 + 1);
    let mut mask = vec![0u64; words];
    cpus.iter().for_each(|cpu| mask[cpu.0 as usize / 64] |= 1 << (cpu.0 % 64));
    // SAFETY: the kernel reads that many bytes of a live buffer; 0 names the calling thread. On 64-bit little-endian
    // and big-endian alike the mask is an array of unsigned longs (kernel/sched/syscalls.c).
    check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, words * 8, mask.as_ptr()) }).map(drop)
}

/// The CPUs that the calling thread may use.
pub fn affinity() -> io::Result<CpuSet> {
    affinity_of(Tid(0))
}

/// The CPUs that a thread may use; 0 is the calling one.
pub fn affinity_of(tid: Tid) -> io::Result<CpuSet> {
    let mut mask = vec![0u64; CpuSet::MAX_CPUS as usize / 64];
    // SAFETY: the kernel writes at most that many bytes into a live buffer, and returns how many.
    let bytes = check(unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, tid.0, mask.len() * 8, mask.as_mut_ptr())
    })?;
    let bits = (0..bytes as u32 * 8).filter(|&bit| mask[bit as usize / 64] >> (bit % 64) & 1 == 1);
    Ok(CpuSet::new(bits.map(Cpu)))
}

/// Sets the calling thread's timer slack, which the kernel applies to fair policies only.
pub fn set_timer_slack(slack: Nanos) -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes an integer.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.0 as libc::c_ulong, 0, 0, 0) }.into()).map(drop)
}

/// The soft limit on real-time priorities for processes without `CAP_SYS_NICE`.
pub fn rt_priority_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_RTPRIO, &raw mut limit) };
    limit.rlim_cur
}
