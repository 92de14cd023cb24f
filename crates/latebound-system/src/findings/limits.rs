// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this process may do about its own lateness: real-time priority, locked memory, CPUs.

use latebound_model::{CauseKind, CpuSet, Finding, Severity};

use super::{Context, bearing, finding, mended};
use crate::cgroup;
use crate::permissions::{Capability, Limit, limit};

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    vec![rt_priority(context), bearing(locked_memory(context), &[CauseKind::Blocked]), cpuset(context)]
}

const LIMITS: &str = "/proc/self/limits";

/// Limits for everybody who logs in from now on, in the form of pam_limits.
const RAISE: &str = "printf '%s - rtprio 99\\n%s - memlock unlimited\\n' \"$USER\" \"$USER\" | sudo tee \
                     /etc/security/limits.d/latebound.conf  # then log in again";

fn shown(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}

fn rt_priority(context: &Context<'_>) -> Finding {
    let (id, title) = ("rt-permission", "Permission to be real-time");
    let cost = "without it threads stay SCHED_OTHER and wait for every other thread's time slice";
    let capabilities = match &context.survey.capabilities {
        Ok(capabilities) => *capabilities,
        Err(error) => return context.unread(id, title, error, cost),
    };
    if capabilities.has(Capability::SYS_NICE) {
        return finding(id, title, Severity::Good, "CAP_SYS_NICE", "/proc/self/status", "");
    }
    match limit(context.survey.root, "Max realtime priority") {
        Ok(Limit { soft: Some(0), .. }) => mended(
            finding(id, title, Severity::Warning, "no CAP_SYS_NICE, RLIMIT_RTPRIO 0", LIMITS, cost),
            RAISE,
        ),
        Ok(Limit { soft, .. }) => {
            let value = format!("no CAP_SYS_NICE, RLIMIT_RTPRIO {}", shown(soft));
            let cost = "FIFO and RR up to this priority; SCHED_DEADLINE needs CAP_SYS_NICE";
            finding(id, title, Severity::Note, value, LIMITS, cost)
        }
        Err(error) => context.unread(id, title, &error, cost),
    }
}

fn locked_memory(context: &Context<'_>) -> Finding {
    let (id, title) = ("memory-lock", "Permission to lock memory");
    let cost = "without it a page can be taken away, and bringing it back costs a page fault: \
                microseconds from memory, milliseconds from a disk";
    if context.survey.capabilities.as_ref().is_ok_and(|all| all.has(Capability::IPC_LOCK)) {
        return finding(id, title, Severity::Good, "CAP_IPC_LOCK", "/proc/self/status", "");
    }
    match limit(context.survey.root, "Max locked memory") {
        Ok(Limit { soft: None, .. }) => {
            finding(id, title, Severity::Good, "RLIMIT_MEMLOCK unlimited", LIMITS, "")
        }
        Ok(Limit { soft, .. }) => {
            let value = format!("no CAP_IPC_LOCK, RLIMIT_MEMLOCK {} bytes", shown(soft));
            mended(finding(id, title, Severity::Warning, value, LIMITS, cost), RAISE)
        }
        Err(error) => context.unread(id, title, &error, cost),
    }
}

fn cpuset(context: &Context<'_>) -> Finding {
    let (id, title) = ("allowed-cpus", "CPUs that this process may use");
    let system = context.system;
    let (Some(online), Some(allowed)) = (&system.online, &system.allowed) else {
        let error = context.survey.root.cpus("/sys/devices/system/cpu/online").err();
        let cost = "only these CPUs can be measured";
        return match error {
            Some(error) => context.unread(id, title, &error, cost),
            None => finding(
                id,
                title,
                Severity::Unknown,
                "sched_getaffinity gave nothing",
                "sched_getaffinity",
                cost,
            ),
        };
    };
    let outside = CpuSet::new(online.iter().filter(|&cpu| !allowed.contains(cpu)));
    let isolated = system.isolated.clone().unwrap_or_default();
    if outside.is_empty() {
        return finding(id, title, Severity::Good, format!("{allowed} of {online}"), "sched_getaffinity", "");
    }
    // The scheduler keeps threads off isolated CPUs by itself; those who want one ask for it.
    let only_isolated = outside.iter().all(|cpu| isolated.contains(cpu));
    let value = format!("{allowed} of {online}; without {outside}");
    let file = match cgroup::place(context.survey.root, "cpuset") {
        Ok(Some(place)) if place.version == 1 => Some(format!("{}/cpuset.effective_cpus", place.folder)),
        Ok(Some(place)) => Some(format!("{}/cpuset.cpus.effective", place.folder)),
        _ => None,
    };
    let by_cgroup = file.and_then(|file| Some((context.survey.root.cpus(&file).ok()?, file)));
    let source = match &by_cgroup {
        Some((cpus, file)) if outside.iter().any(|cpu| !cpus.contains(cpu)) => file.as_str(),
        _ => "sched_getaffinity",
    };
    let cost = "the other CPUs cannot be measured, and whoever else runs on these is in the way";
    let severity = if only_isolated { Severity::Note } else { Severity::Warning };
    let finding = finding(id, title, severity, value, source, cost);
    match source {
        "sched_getaffinity" => mended(finding, format!("taskset -pc {online} $$")),
        file => mended(
            finding,
            format!("cat {file}  # who manages this cgroup (systemd, container) must widen it"),
        ),
    }
}
