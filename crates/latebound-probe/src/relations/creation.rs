// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether it can be seen on the running kernel that a task waits until a kernel thread is created. Owns the choice; what is done then is in
//! creation.bpf.c.

use latebound_model::{Missing, MissingKind};

use crate::kernel::{KernelBtf, KernelField, Need};

/// What hooks it, the ends before the begin: tracing programs alone, and with probes where tasks wait.
pub(super) const PROGRAMS: [[&str; 3]; 2] = [
    ["relation_created", "relation_reset", "relation_create"],
    ["relation_created_probe", "relation_reset", "relation_create_probe"],
];

/// Where tasks wait for a thread (kernel/kthread.c, 6.12 to 7.3).
const WAITS: &str = "__kthread_create_on_node";
/// Where a new thread has reset its policy (kernel/locking/rtmutex_api.c, 6.12 to 7.3).
const RESET: &str = "rt_mutex_adjust_pi";

/// By what a new thread is told from others: what it is to do.
const FIELDS: [KernelField; 2] = [KernelField::TaskWorkerPrivate, KernelField::KthreadThreadfn];

/// The programs that see it; why they cannot, where they cannot.
pub(super) fn programs(kernel: &KernelBtf) -> Result<&'static [&'static str], Missing> {
    if kernel.lacks(Need::Entry(RESET)).is_some() {
        return Err(missing(format!("this kernel lets no program into {RESET}")));
    }
    if kernel.lacks(Need::Function(WAITS)).is_some() {
        return Err(missing(format!("this kernel has no function {WAITS}, or has it inside of others")));
    }
    // Before that came, who is of the policy already to which it sets itself got out before rt_mutex_adjust_pi (__sched_setscheduler): a new thread
    // would be seen only if kthreadd was raised before it made the thread.
    if !kernel.has_field(KernelField::EntityCustomSlice) {
        return Err(missing("this kernel does not say when a new thread has reset its policy".to_owned()));
    }
    if !FIELDS.into_iter().all(|field| kernel.has_field(field)) {
        return Err(missing("this kernel does not say what a new thread is to do".to_owned()));
    }
    // Whether a probe may be attached is only known when that was tried.
    Ok(if kernel.lacks(Need::Entry(WAITS)).is_none() { &PROGRAMS[0] } else { &PROGRAMS[1] })
}

/// What follows where the kernel refuses the programs.
pub(super) fn missing(why: String) -> Missing {
    Missing {
        kind: MissingKind::Relations,
        what: "tasks that are blocked until a kernel thread is created: they wait for kthreadd and the new thread unseen"
            .to_owned(),
        why,
        remedy: "boot a kernel of 6.12 or later with CONFIG_FUNCTION_TRACER, and on arm64 CONFIG_KPROBES, that lets programs into its functions"
            .to_owned(),
    }
}
