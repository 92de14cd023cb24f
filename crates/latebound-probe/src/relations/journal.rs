// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether it can be seen on the running kernel that a task waits for the journal of a file system. Owns the choice; what is done then is in
//! journal.bpf.c.

use std::path::Path;

use latebound_model::{Missing, MissingKind};

use crate::kernel::{KernelBtf, Need};

/// Where all waits for a transaction are (fs/jbd2/journal.c, 6.1 to 7.3).
const FUNCTION: &str = "jbd2_log_wait_commit";

/// The module that has it, where it is one, and its type information (kernel/bpf/btf.c, 5.11): there as long as the module is loaded.
const MODULE: &str = "/sys/module/jbd2";
const MODULE_TYPES: &str = "/sys/kernel/btf/jbd2";

/// What hooks it, the end before the begin.
pub(super) const PROGRAMS: [&str; 2] = ["relation_committed", "relation_commit"];

/// The programs that see it, none where the kernel has no journal of this kind: nobody can wait for one then. Whether a module's function
/// lets programs in is only known when that was tried.
pub(super) fn programs(kernel: &KernelBtf) -> Result<&'static [&'static str], Missing> {
    if Path::new(MODULE_TYPES).exists() {
        return Ok(&PROGRAMS);
    }
    if kernel.lacks(Need::Function(FUNCTION)).is_some() {
        return match Path::new(MODULE).exists() {
            true => Err(missing("this kernel's module jbd2 has no type information".to_owned())),
            false => Ok(&[]),
        };
    }
    match kernel.lacks(Need::Entry(FUNCTION)) {
        None => Ok(&PROGRAMS),
        Some(_) => Err(missing(format!("this kernel lets no program into {FUNCTION}"))),
    }
}

/// What follows where the kernel refuses the programs.
pub(super) fn missing(why: String) -> Missing {
    Missing {
        kind: MissingKind::Relations,
        what: "tasks that are blocked until the journal of a file system is written: they are seen only where its thread wakes them often"
            .to_owned(),
        why,
        remedy: "boot a kernel with CONFIG_FUNCTION_TRACER and CONFIG_DEBUG_INFO_BTF_MODULES that lets programs into its functions"
            .to_owned(),
    }
}
