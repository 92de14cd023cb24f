// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this system can show, by the four levels of evidence. Owns what each level needs; never loads a program, so
//! "available" means that nothing that can be read stands against it.

use std::collections::BTreeSet;

use latebound_model::{Evidence, EvidenceLevel, PreemptionModel};

use crate::permissions::{Capability, Limit, limit};
use crate::release::Release;
use crate::root::Root;
use crate::survey::Survey;

pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Without these no wake-up can be explained.
const CORE: [&str; 7] = [
    "sched_switch",
    "sched_waking",
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_raise",
    "softirq_entry",
    "softirq_exit",
];

/// Without these a mechanism is missing, but the rest can be said.
const MORE: [(&str, &str); 6] = [
    ("hrtimer_expire_entry", "hrtimers"),
    ("workqueue_execute_start", "work items"),
    ("tasklet_entry", "tasklets"),
    ("block_rq_issue", "block requests"),
    ("writeback_start", "writeback"),
    ("nmi_handler", "NMIs"),
];

const SCHEDULER: [&str; 3] = ["sched_entry_tp", "sched_exit_tp", "sched_set_need_resched_tp"];

const BOUND: [&str; 4] = ["preempt_disable", "preempt_enable", "irq_disable", "irq_enable"];

/// The four levels, weakest first.
pub(crate) fn levels(survey: &Survey<'_>) -> Vec<EvidenceLevel> {
    let trace_points = TracePoints::read(survey.root);
    let events = events(survey, &trace_points);
    let scheduler = scheduler(survey, &trace_points, &events);
    let bound = bound(survey, &trace_points, &events);
    vec![user(survey), events, scheduler, bound]
}

fn level(evidence: Evidence, available: bool, reason: impl Into<String>) -> EvidenceLevel {
    EvidenceLevel { evidence, available, reason: reason.into() }
}

fn user(survey: &Survey<'_>) -> EvidenceLevel {
    let may = match &survey.capabilities {
        Ok(capabilities) => Some(capabilities.has(Capability::SYS_NICE)),
        Err(_) => None,
    };
    let limit = limit(survey.root, "Max realtime priority");
    let reason = match (may, limit) {
        (Some(true), _) | (_, Ok(Limit { soft: None | Some(1..), .. })) => "measured wake-up latency",
        (_, Ok(_)) => {
            "measured wake-up latency, of ordinary threads only: neither CAP_SYS_NICE nor RLIMIT_RTPRIO allows \
             real-time ones"
        }
        _ => "measured wake-up latency; whether of real-time threads could not be read",
    };
    level(Evidence::User, true, reason)
}

/// The trace points that BPF programs can attach to, by the BTF types that the kernel makes for each
/// (`btf_trace_NAME`, include/trace/bpf_probe.h; since 5.5).
enum TracePoints {
    Known(BTreeSet<String>),
    Unreadable(String),
}

impl TracePoints {
    fn read(root: &Root) -> TracePoints {
        match root.bytes(BTF) {
            Ok(bytes) => TracePoints::Known(trace_point_names(&bytes)),
            Err(error) if error.is_absent() => TracePoints::Unreadable(format!(
                "the kernel carries no type information ({BTF} is not there); it needs CONFIG_DEBUG_INFO_BTF=y"
            )),
            Err(error) => TracePoints::Unreadable(error.to_string()),
        }
    }

    /// Those of the names that are not there.
    fn missing<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        match self {
            TracePoints::Known(known) => {
                names.iter().copied().filter(|name| !known.contains(*name)).collect()
            }
            TracePoints::Unreadable(_) => names.to_vec(),
        }
    }
}

/// The string section of BTF is names that end with a NUL; a name is found without reading the types, for no other
/// string has this prefix.
pub fn trace_point_names(btf: &[u8]) -> BTreeSet<String> {
    let prefix = b"\0btf_trace_";
    memchr::memmem::find_iter(btf, prefix)
        .filter_map(|at| {
            let name = btf.get(at + prefix.len()..)?;
            let end = memchr::memchr(0, name)?;
            Some(String::from_utf8_lossy(name.get(..end)?).into_owned())
        })
        .collect()
}

/// Why BPF programs cannot be loaded, as far as it can be read; `None` where nothing stands against it.
pub(crate) fn bpf_refused(survey: &Survey<'_>) -> Option<String> {
    if let Ok(lockdown) = survey.root.value("/sys/kernel/security/lockdown")
        && lockdown.contains("[confidentiality]")
    {
        return Some(
            "the kernel is locked down for confidentiality, which forbids BPF to read it".to_owned(),
        );
    }
    match &survey.capabilities {
        // CAP_SYS_ADMIN contains both (capabilities(7)).
        Ok(all)
            if all.has(Capability::SYS_ADMIN)
                || (all.has(Capability::BPF) && all.has(Capability::PERFMON)) =>
        {
            None
        }
        Ok(_) => Some(
            "BPF needs CAP_BPF and CAP_PERFMON, which this process does not have; run as root".to_owned(),
        ),
        Err(error) => Some(format!("the capabilities of this process could not be read: {error}")),
    }
}

fn events(survey: &Survey<'_>, trace_points: &TracePoints) -> EvidenceLevel {
    let no = |reason: String| level(Evidence::Events, false, reason);
    let mut against = Vec::new();
    against.extend(bpf_refused(survey));
    if survey.config_is_on("BPF_SYSCALL") == Some(false) {
        against.push("the kernel is built without CONFIG_BPF_SYSCALL".to_owned());
    }
    match trace_points {
        TracePoints::Unreadable(why) => against.push(why.clone()),
        TracePoints::Known(_) => {
            let missing = trace_points.missing(&CORE);
            if !missing.is_empty() {
                against.push(format!("the kernel has no trace points {}", missing.join(", ")));
            }
        }
    }
    if !against.is_empty() {
        return no(against.join("; "));
    }
    let without: Vec<&str> = MORE
        .iter()
        .filter(|(name, _)| !trace_points.missing(&[*name]).is_empty())
        .map(|(_, mechanism)| *mechanism)
        .collect();
    let reason = match without.is_empty() {
        true => "activations of every mechanism, and the causes of late ones".to_owned(),
        false => {
            format!("activations and causes, without {} (no trace point in this kernel)", without.join(", "))
        }
    };
    level(Evidence::Events, true, reason)
}

fn scheduler(survey: &Survey<'_>, trace_points: &TracePoints, events: &EvidenceLevel) -> EvidenceLevel {
    let missing = trace_points.missing(&SCHEDULER);
    let reason = match (events.available, trace_points, missing.is_empty()) {
        (true, _, true) => {
            return level(
                Evidence::Scheduler,
                true,
                "blocking split into \"preemption off\" and \"scheduler\", as observed",
            );
        }
        (false, TracePoints::Unreadable(_), _) => "needs the level of events".to_owned(),
        (false, _, true) => "the trace points are there; needs the level of events".to_owned(),
        (_, _, _) => {
            let since = match survey.is_since(Release(6, 16)) {
                Some(true) => "this kernel should have them from 6.16 on and was built without",
                _ => "kernel 6.16 and later have them",
            };
            format!("the kernel has no trace points {}; {since}", missing.join(", "))
        }
    };
    level(Evidence::Scheduler, false, reason)
}

fn bound(survey: &Survey<'_>, trace_points: &TracePoints, events: &EvidenceLevel) -> EvidenceLevel {
    let mut against = Vec::new();
    match survey.preemption.model {
        Some(PreemptionModel::Rt) => {}
        Some(_) => against.push("the kernel is not PREEMPT_RT".to_owned()),
        None => against.push("whether the kernel is PREEMPT_RT could not be read".to_owned()),
    }
    let missing = trace_points.missing(&BOUND);
    match trace_points {
        TracePoints::Unreadable(_) => against.push("its trace points could not be read".to_owned()),
        TracePoints::Known(_) if !missing.is_empty() => against.push(format!(
            "it has no trace points {} (CONFIG_PREEMPT_TRACER, CONFIG_IRQSOFF_TRACER)",
            missing.join(", ")
        )),
        TracePoints::Known(_) => {}
    }
    if !events.available {
        against.push("needs the level of events".to_owned());
    }
    match against.is_empty() {
        true => level(Evidence::Bound, true, "a bound in the sense of Theorem 8, as long as nothing is lost"),
        false => level(Evidence::Bound, false, against.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_points_are_found_by_whole_names_in_the_string_section() {
        let btf = b"\x9f\xeb\x01\0rest\0btf_trace_sched_switch\0x\0xbtf_trace_no\0btf_trace_irq_disable\0btf_trace_cut";
        let names: Vec<String> = trace_point_names(btf).into_iter().collect();
        assert_eq!(names, ["irq_disable", "sched_switch"]);
        assert!(trace_point_names(b"").is_empty());
    }
}
