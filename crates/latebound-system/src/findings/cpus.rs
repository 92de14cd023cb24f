// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who else may use the CPUs: hardware threads, the scheduler's balancing, the tick, RCU, work items.

use latebound_model::{CauseKind, Cpu, CpuSet, Finding, Nanos, Severity};

use super::{Context, bearing, finding, mended};
use crate::boot_option;
use crate::snapshot::CPUS;

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = vec![
        smt(context),
        bearing(isolation(context), &[CauseKind::TaskFirst]),
        bearing(nohz_full(context), &[CauseKind::TimerInterrupt]),
    ];
    findings.extend(rcu_callbacks(context));
    findings.extend(workqueues(context).map(|found| bearing(found, &[CauseKind::TaskFirst])));
    findings
}

fn smt(context: &Context<'_>) -> Finding {
    let (id, title) = ("smt", "Hardware threads that share a core");
    let source = format!("{CPUS}/smt/active");
    match context.system.smt {
        Some(false) => finding(id, title, Severity::Good, "0", source, ""),
        Some(true) => {
            let cost = "a busy sibling takes execution units and cache from the same core: the same path takes longer, \
                        by as much as the sibling does, and no event of this CPU shows it";
            mended(
                finding(id, title, Severity::Warning, "1", &source, cost),
                format!("echo off > {CPUS}/smt/control"),
            )
        }
        None => {
            let cost = "a busy sibling on the same core makes the same path take longer";
            match context.survey.root.value(&source) {
                Err(error) => context.unread(id, title, &error, cost),
                Ok(value) => {
                    finding(id, title, Severity::Unknown, format!("\"{value}\" is not 0 or 1"), source, cost)
                }
            }
        }
    }
}

/// Isolated CPUs of cgroup version 2 partitions (`cpuset.cpus.partition` = isolated), kernel 6.6 and later.
const PARTITIONS: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";

/// The upper half of the CPUs: a set to begin with, that leaves room for the rest of the system.
fn upper_half(online: &CpuSet) -> Option<CpuSet> {
    let half = CpuSet::new(online.iter().skip(online.len().div_ceil(2)));
    (!half.is_empty()).then_some(half)
}

/// CPUs that are kept free, by the command line or by cgroups.
pub(super) fn isolated(context: &Context<'_>) -> CpuSet {
    let booted = context.system.isolated.clone().unwrap_or_default();
    let partitions = context.survey.root.cpus(PARTITIONS).unwrap_or_default();
    CpuSet::new(booted.iter().chain(partitions.iter()))
}

fn isolation(context: &Context<'_>) -> Finding {
    let (id, title) = ("cpu-isolation", "Isolated CPUs");
    let source = format!("{CPUS}/isolated");
    let cost_if_none = "the scheduler balances every thread over every CPU, so anybody may run where a real-time \
                        thread is about to; a real-time thread preempts them, their cache misses and locks stay";
    let (Some(_), Some(online)) = (&context.system.isolated, &context.system.online) else {
        return match context.survey.root.cpus(&source) {
            Err(error) => context.unread(id, title, &error, cost_if_none),
            Ok(_) => {
                finding(id, title, Severity::Unknown, "the online CPUs cannot be read", source, cost_if_none)
            }
        };
    };
    let isolated = isolated(context);
    if isolated.is_empty() {
        let note = finding(id, title, Severity::Note, "none", source, cost_if_none);
        return match upper_half(online) {
            Some(cpus) => mended(
                note,
                boot_option::add(context.survey.root, &format!("isolcpus=managed_irq,domain,{cpus}")),
            ),
            None => note,
        };
    }
    if online.iter().all(|cpu| isolated.contains(cpu)) {
        let cost =
            "no CPU is left for the rest of the system: nothing is balanced, everything stays where it began";
        return finding(id, title, Severity::Warning, isolated.to_string(), source, cost);
    }
    let cost = "the scheduler balances nothing onto these CPUs; threads run there only where they are put";
    finding(id, title, Severity::Good, isolated.to_string(), source, cost)
}

fn nohz_full(context: &Context<'_>) -> Finding {
    let (id, title) = ("nohz-full", "CPUs that stop the tick while one thread runs");
    let source = format!("{CPUS}/nohz_full");
    let per_second = context.system.hz.map_or_else(|| "100 to 1000".to_owned(), |hz| hz.to_string());
    let period = context.system.hz.filter(|&hz| hz > 0).map(|hz| Nanos(1_000_000_000 / u64::from(hz)));
    let every = period.map_or_else(String::new, |period| format!(" (every {period})"));
    let cost = format!("a running thread is interrupted by the tick {per_second} times a second{every}");
    let Some(cpus) = &context.system.nohz_full else {
        return match context.survey.root.value(&source) {
            Err(error) => context.unread(id, title, &error, cost),
            Ok(value) => {
                finding(id, title, Severity::Unknown, format!("\"{value}\" is not a CPU list"), source, cost)
            }
        };
    };
    if !cpus.is_empty() {
        let cost =
            "the tick stops while one thread alone runs there; each entry into the kernel costs more for it";
        return finding(id, title, Severity::Good, cpus.to_string(), source, cost);
    }
    let built = context.survey.config_is_on("NO_HZ_FULL");
    if let (Some(asked), Some(false)) = (context.survey.boot_option("nohz_full"), built) {
        let value = format!("nohz_full={asked} has no effect: CONFIG_NO_HZ_FULL is not set");
        return finding(id, title, Severity::Warning, value, "/proc/cmdline", cost);
    }
    let isolated = isolated(context);
    let value = if built == Some(false) { "none (CONFIG_NO_HZ_FULL is not set)" } else { "none" };
    let note = finding(id, title, Severity::Note, value, source, cost);
    match isolated.is_empty() || built == Some(false) {
        true => note,
        false => mended(note, boot_option::add(context.survey.root, &format!("nohz_full={isolated}"))),
    }
}

/// Only worth a word where CPUs are isolated.
fn rcu_callbacks(context: &Context<'_>) -> Option<Finding> {
    let (id, title) = ("rcu-callbacks", "RCU callbacks on isolated CPUs");
    let isolated = isolated(context);
    if isolated.is_empty() {
        return None;
    }
    // nohz_full CPUs are offloaded without being asked for (kernel/rcu/tree_nocb.h, `rcu_init_nohz`).
    let asked = context.survey.boot_option("rcu_nocbs");
    let listed: CpuSet = match asked {
        Some("all") => context.system.online.clone().unwrap_or_default(),
        Some(list) => list.parse().unwrap_or_default(),
        None => CpuSet::default(),
    };
    let nohz_full = context.system.nohz_full.clone().unwrap_or_default();
    let all_by_default = context.survey.config_is_on("RCU_NOCB_CPU_DEFAULT_ALL") == Some(true);
    let offloaded = |cpu: Cpu| all_by_default || listed.contains(cpu) || nohz_full.contains(cpu);
    let left = CpuSet::new(isolated.iter().filter(|&cpu| !offloaded(cpu)));
    let value = asked.map_or_else(|| "no rcu_nocbs".to_owned(), |list| format!("rcu_nocbs={list}"));
    if left.is_empty() {
        let cost = "callbacks run in threads (rcuo*), which can be kept on other CPUs";
        return Some(finding(id, title, Severity::Good, value, "/proc/cmdline", cost));
    }
    let cost = format!(
        "callbacks run in a softirq on the isolated CPUs {left}, in batches behind their threads' backs"
    );
    Some(mended(
        finding(id, title, Severity::Warning, value, "/proc/cmdline", cost),
        boot_option::add(context.survey.root, &format!("rcu_nocbs={isolated}")),
    ))
}

/// Only worth a word where CPUs are isolated.
fn workqueues(context: &Context<'_>) -> Option<Finding> {
    let (id, title) = ("workqueue-cpumask", "CPUs for unbound work items");
    let source = "/sys/devices/virtual/workqueue/cpumask";
    let isolated = isolated(context);
    if isolated.is_empty() {
        return None;
    }
    let cost = "unbound work items (writeback, file systems) may run on isolated CPUs";
    let mask = match context.survey.root.value(source) {
        Ok(mask) => mask,
        Err(error) => return Some(context.unread(id, title, &error, cost)),
    };
    let Some(cpus) = parse_mask(&mask) else {
        return Some(finding(
            id,
            title,
            Severity::Unknown,
            format!("\"{mask}\" is not a CPU mask"),
            source,
            cost,
        ));
    };
    let within = CpuSet::new(cpus.iter().filter(|&cpu| isolated.contains(cpu)));
    if within.is_empty() {
        return Some(finding(
            id,
            title,
            Severity::Good,
            mask,
            source,
            "unbound work items keep off isolated CPUs",
        ));
    }
    let online = context.system.online.clone().unwrap_or_default();
    let housekeeping = CpuSet::new(online.iter().filter(|&cpu| !isolated.contains(cpu)));
    let value = format!("{mask} (isolated CPUs in it: {within})");
    Some(mended(
        finding(id, title, Severity::Warning, value, source, cost),
        format!("echo {} > {source}", mask_text(&housekeeping)),
    ))
}

/// A CPU mask in the kernel's form: hexadecimal words of 32 bits, the highest first.
fn parse_mask(text: &str) -> Option<CpuSet> {
    let mut cpus = Vec::new();
    for (word, base) in text.trim().rsplit(',').zip((0u32..).step_by(32)) {
        let bits = u32::from_str_radix(word, 16).ok()?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| Cpu(base + bit)));
    }
    Some(CpuSet::new(cpus))
}

/// The same form written.
fn mask_text(cpus: &CpuSet) -> String {
    let words = cpus.iter().last().map_or(1, |last| last.0 / 32 + 1);
    let mut mask = vec![0u32; words as usize];
    for cpu in cpus.iter() {
        if let Some(word) = mask.get_mut((cpu.0 / 32) as usize) {
            *word |= 1 << (cpu.0 % 32);
        }
    }
    let mut words = mask.iter().rev();
    let first = words.next().map(|word| format!("{word:x}")).unwrap_or_default();
    words.fold(first, |text, word| format!("{text},{word:08x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_masks_are_read_and_written_in_the_kernels_form() {
        for (mask, cpus) in
            [("3", "0-1"), ("ff00", "8-15"), ("1,00000001", "0,32"), ("80000000,00000000", "63")]
        {
            assert_eq!(parse_mask(mask).unwrap().to_string(), cpus);
            assert_eq!(mask_text(&cpus.parse().unwrap()), mask);
        }
        assert_eq!(parse_mask("xyz"), None);
    }

    proptest::proptest! {
        #[test]
        fn every_mask_that_is_written_is_read_back(cpus in proptest::collection::btree_set(0u32..4096, 1..40)) {
            let set = CpuSet::new(cpus.into_iter().map(Cpu));
            proptest::prop_assert_eq!(parse_mask(&mask_text(&set)), Some(set));
        }
    }
}
