// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that has to be fetched, moved or searched while somebody waits for it.

use latebound_model::{CauseKind, Finding, Severity};

use super::{Context, bearing, finding, mended};
use crate::snapshot::chosen;

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    vec![
        bearing(swap(context), &[CauseKind::Blocked]),
        bearing(huge_pages(context), &[CauseKind::Blocked]),
        switch(context, &KSM),
        bearing(switch(context, &PROACTIVE_COMPACTION), &[CauseKind::Blocked]),
        bearing(switch(context, &COMPACTION_OF_LOCKED), &[CauseKind::Blocked]),
        bearing(switch(context, &NUMA_BALANCING), &[CauseKind::Blocked]),
    ]
}

fn swap(context: &Context<'_>) -> Finding {
    let (id, title, source) = ("swap", "Swap", "/proc/meminfo");
    let cost = "a page that was swapped out has to come back before its thread goes on: microseconds from zram, \
                100 us and more from flash, 10 ms and more from a disk; mlockall keeps a process out of it";
    match context.system.swap_bytes {
        Some((0, _)) => finding(id, title, Severity::Good, "none", source, ""),
        Some((all, used)) => {
            let value = format!("{} MiB, {} MiB in use", all >> 20, used >> 20);
            mended(finding(id, title, Severity::Warning, value, source, cost), "swapoff -a")
        }
        None => match context.survey.root.text(source) {
            Err(error) => context.unread(id, title, &error, cost),
            Ok(_) => {
                finding(id, title, Severity::Unknown, "SwapTotal and SwapFree are not in it", source, cost)
            }
        },
    }
}

fn huge_pages(context: &Context<'_>) -> Finding {
    let (id, title) = ("transparent-huge-pages", "Transparent huge pages");
    let source = "/sys/kernel/mm/transparent_hugepage/enabled";
    let cost = "a page fault clears 2 MiB instead of 4 KiB, and khugepaged takes the address space's lock for \
                writing while it puts pages together: every fault of the process waits for it";
    match context.survey.root.value(source) {
        Ok(value) if chosen(&value) == "always" => mended(
            finding(id, title, Severity::Warning, value, source, cost),
            format!("echo madvise > {source}"),
        ),
        Ok(value) if chosen(&value) == "madvise" => {
            finding(id, title, Severity::Good, value, source, "only where a program asks for them")
        }
        Ok(value) => finding(id, title, Severity::Good, value, source, ""),
        Err(error) if error.is_absent() && context.survey.root.exists("/sys/kernel/mm") => {
            finding(id, title, Severity::Good, "not in this kernel", source, "")
        }
        Err(error) => context.unread(id, title, &error, cost),
    }
}

/// A setting that is best at zero.
struct Switch {
    id: &'static str,
    title: &'static str,
    file: &'static str,
    /// The folder that is there in every kernel: with it and without the file, the kernel has no such setting.
    folder: &'static str,
    severity: Severity,
    cost: &'static str,
    remedy: &'static str,
}

const KSM: Switch = Switch {
    id: "ksm",
    title: "Merging of equal pages (KSM)",
    file: "/sys/kernel/mm/ksm/run",
    folder: "/sys/kernel/mm",
    severity: Severity::Warning,
    cost: "ksmd compares memory in the background, and the first write to a merged page is a page fault with a copy",
    remedy: "echo 2 > /sys/kernel/mm/ksm/run  # splits merged pages again",
};

const PROACTIVE_COMPACTION: Switch = Switch {
    id: "proactive-compaction",
    title: "Proactive compaction",
    file: "/proc/sys/vm/compaction_proactiveness",
    folder: "/proc/sys/vm",
    severity: Severity::Note,
    cost: "kcompactd moves pages in the background; who touches a page on its way waits for it",
    remedy: "sysctl -w vm.compaction_proactiveness=0",
};

/// The default is 0 on PREEMPT_RT for this very reason (Documentation/admin-guide/sysctl/vm.rst).
const COMPACTION_OF_LOCKED: Switch = Switch {
    id: "compaction-of-locked-memory",
    title: "Compaction of locked memory",
    file: "/proc/sys/vm/compact_unevictable_allowed",
    folder: "/proc/sys/vm",
    severity: Severity::Warning,
    cost: "compaction may move pages that mlock holds; a real-time thread that touches one meanwhile takes a page \
           fault and waits",
    remedy: "sysctl -w vm.compact_unevictable_allowed=0",
};

const NUMA_BALANCING: Switch = Switch {
    id: "numa-balancing",
    title: "NUMA balancing",
    file: "/proc/sys/kernel/numa_balancing",
    folder: "/proc/sys/kernel",
    severity: Severity::Warning,
    cost: "pages are made to fault now and then to see who uses them, and moved: page faults in the middle of work, \
           in locked memory too",
    remedy: "sysctl -w kernel.numa_balancing=0",
};

fn switch(context: &Context<'_>, switch: &Switch) -> Finding {
    let Switch { id, title, file, cost, .. } = switch;
    match context.survey.root.number::<u32>(file) {
        // KSM at 2 has stopped and split all pages again.
        Ok(value) if value == 0 || (value == 2 && *id == KSM.id) => {
            finding(id, title, Severity::Good, value.to_string(), *file, "")
        }
        Ok(value) => {
            mended(finding(id, title, switch.severity, value.to_string(), *file, *cost), switch.remedy)
        }
        Err(error) if error.is_absent() && context.survey.root.exists(switch.folder) => {
            finding(id, title, Severity::Good, "not in this kernel", *file, "")
        }
        Err(error) => context.unread(id, title, &error, *cost),
    }
}
