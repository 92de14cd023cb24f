// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads that request or wait do to themselves: where they run, how they are scheduled.

use std::io;

use latebound_model::{Cpu, Policy, Tid};

use crate::error::DeferError;

/// The CPU that the caller runs on.
pub(crate) fn this_cpu() -> Cpu {
    // SAFETY: sched_getcpu has no preconditions.
    Cpu(u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0))
}

/// The id of the calling thread.
pub(crate) fn this_thread() -> Tid {
    // SAFETY: gettid has no preconditions.
    Tid(unsafe { libc::gettid() })
}

/// The CPUs that the caller may use.
pub(crate) fn allowed_cpus() -> Vec<Cpu> {
    let mut mask = [0u64; 128];
    // SAFETY: the kernel writes at most that many bytes to a live buffer; 0 names the calling thread.
    let bytes =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    let words = usize::try_from(bytes).unwrap_or(0) / 8;
    let bits = (0..words).flat_map(|word| (0..64).map(move |bit| (word, bit)));
    bits.filter(|&(word, bit)| mask[word] >> bit & 1 == 1)
        .map(|(word, bit)| Cpu((word * 64 + bit) as u32))
        .collect()
}

pub(crate) fn pin(cpu: Cpu) -> io::Result<()> {
    let mut mask = vec![0u64; cpu.0 as usize / 64 + 1];
    mask[cpu.0 as usize / 64] = 1 << (cpu.0 % 64);
    // SAFETY: the kernel reads that many bytes of a live buffer; 0 names the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, mask.len() * 8, mask.as_ptr()) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) fn schedule(tid: i32, scheduling: Option<(Policy, u32)>) -> Result<(), DeferError> {
    set_scheduler(tid, scheduling).map_err(|source| DeferError::Refused {
        what: format!("the policy and priority {scheduling:?} of thread {tid}"),
        source,
    })
}

/// The module's threads end with the run, and ours too: there is nothing to put back.
pub(crate) fn set_scheduler(tid: i32, scheduling: Option<(Policy, u32)>) -> io::Result<()> {
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
