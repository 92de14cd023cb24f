// SPDX-License-Identifier: MIT OR Apache-2.0
//! How it is seen on the running kernel that a task is blocked until a work item is done. Owns the choice; what is done then is in
//! flush.bpf.c.

use latebound_model::{Missing, MissingKind};

use crate::kernel::{KernelBtf, Need};

/// Where all waits for one item are (kernel/workqueue.c, 4.19 to 7.3).
const FUNCTION: &str = "__flush_work";

/// What hooks it, the end before the begin: tracing programs, and probes.
pub(super) const PROGRAMS: [[&str; 2]; 2] =
    [["relation_flushed", "relation_flush"], ["relation_flushed_probe", "relation_flush_probe"]];

/// What hooks it, and how a work item is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flushes {
    /// In the order in which they are attached: the end before the begin.
    pub(super) programs: &'static [&'static str],
    pub(super) pwq_shift: u32,
    pub(super) pool_shift: u32,
}

impl Flushes {
    /// Why not, where it cannot be seen. Whether a probe may be attached is only known when that was tried.
    pub(super) fn find(kernel: &KernelBtf) -> Result<Flushes, String> {
        if kernel.lacks(Need::Function(FUNCTION)).is_some() {
            return Err(format!("this kernel has no function {FUNCTION}, or has it inside of others"));
        }
        let constant = |name: &str| kernel.work_constant(name).and_then(|shift| u32::try_from(shift).ok());
        // WORK_STRUCT_FLAG_BITS was the same before 6.9 (e9a8e01f9b13).
        let pwq_shift = constant("WORK_STRUCT_PWQ_SHIFT").or_else(|| constant("WORK_STRUCT_FLAG_BITS"));
        let pool_shift = constant("WORK_OFFQ_POOL_SHIFT");
        let (Some(pwq_shift @ 0..64), Some(pool_shift @ 0..64)) = (pwq_shift, pool_shift) else {
            return Err("this kernel does not say how its work items are laid out".to_owned());
        };
        let programs =
            if kernel.lacks(Need::Entry(FUNCTION)).is_none() { &PROGRAMS[0] } else { &PROGRAMS[1] };
        Ok(Flushes { programs, pwq_shift, pool_shift })
    }
}

/// What follows where it cannot be seen.
pub(super) fn missing(why: String) -> Missing {
    Missing {
        kind: MissingKind::Relations,
        what: "tasks that are blocked until a work item is done: they count as those that can go on meanwhile"
            .to_owned(),
        why,
        remedy: "boot a kernel with CONFIG_FUNCTION_TRACER or CONFIG_KPROBES that lets programs into its functions"
            .to_owned(),
    }
}
