// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders of priority among kernel threads that are known to deadlock or starve, and real-time threads above those
//! that they may be waiting for.
//!
//! The rules: irq_work above RCU above ksoftirqd (the other way round deadlocked, meta-nilrt pull request 722);
//! ktimers not below ksoftirqd (commit message of stable-rt c1d68f0da449; tuned pull request 464 sets them equal);
//! migration as it is; a thread that waits for an interrupt not above its handler's thread, which is FIFO 50
//! (`sched_set_fifo`: half of MAX_RT_PRIO). Equal priorities are the kernel's own default and are let pass.

use latebound_model::{CauseKind, Finding, Policy, PreemptionModel, Severity};

use super::{Context, bearing, finding, mended, some_of};
use crate::threads::Thread;

const SOURCE: &str = "/proc/*/stat";

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    order(context).into_iter().map(|found| bearing(found, &[CauseKind::TaskFirst])).collect()
}

fn order(context: &Context<'_>) -> Vec<Finding> {
    let (id, title) = ("kernel-thread-priorities", "Priorities of kernel threads");
    let cost = "an order that the kernel does not expect deadlocks or starves it";
    let threads = match &context.survey.threads {
        Ok(threads) => threads,
        Err(error) => return vec![context.unread(id, title, error, cost)],
    };
    let kernel: Vec<&Thread> = threads.iter().filter(|thread| thread.kernel).collect();
    if kernel.is_empty() {
        let value = "no kernel thread can be seen (another pid namespace, or hidepid)";
        return vec![mended(
            finding(id, title, Severity::Unknown, value, SOURCE, cost),
            "sudo latebound doctor  # outside of the container",
        )];
    }
    let mut broken: Vec<Finding> = [
        softirq_above_rcu,
        stalld_above_kernel,
        irq_work_below_rcu,
        timers_below_softirq,
        migration_changed,
        above_interrupt_threads,
    ]
    .iter()
    .filter_map(|rule| rule(context, threads))
    .collect();
    let severity = if broken.is_empty() { Severity::Good } else { Severity::Note };
    broken.insert(
        0,
        finding(id, title, severity, summary(&kernel), SOURCE, "no order known to deadlock or starve"),
    );
    if severity != Severity::Good
        && let Some(first) = broken.first_mut()
    {
        first.cost = "see the findings that follow".to_owned();
    }
    broken
}

/// The families that the rules are about, with the priorities met in each.
fn summary(kernel: &[&Thread]) -> String {
    let families = [
        "migration",
        "irq_work",
        "irq",
        "ktimers",
        "ksoftirqd",
        "rcu_preempt",
        "rcu_sched",
        "rcuc",
        "rcub",
        "kworker",
    ];
    let shown = families.iter().filter_map(|family| {
        let mut priorities: Vec<String> = kernel
            .iter()
            .filter(|thread| thread.family() == *family)
            .map(|thread| thread.priority_text())
            .collect();
        priorities.sort_unstable();
        priorities.dedup();
        (!priorities.is_empty()).then(|| format!("{family} {}", priorities.join("/")))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn family<'a>(threads: &'a [Thread], names: &'a [&str]) -> impl Iterator<Item = &'a Thread> {
    threads.iter().filter(move |thread| thread.kernel && names.contains(&thread.family()))
}

/// The first of those that go first.
fn highest<'a>(threads: impl Iterator<Item = &'a Thread>) -> Option<&'a Thread> {
    threads.reduce(|first, thread| if thread.rank() > first.rank() { thread } else { first })
}

/// RCU's threads that grace periods and callbacks need (kernel/rcu/tree.c, tree_plugin.h, tree_nocb.h).
const RCU: [&str; 6] = ["rcu_preempt", "rcu_sched", "rcuc", "rcub", "rcuog", "rcuop"];

fn shown(thread: &Thread) -> String {
    format!("{} ({}) {}", thread.comm, thread.tid, thread.priority_text())
}

/// The command that sets these threads to one priority.
fn set(threads: &[&Thread], priority: u32) -> String {
    let tids: Vec<String> = threads.iter().map(|thread| thread.tid.to_string()).collect();
    match priority {
        0 => format!("for t in {}; do chrt -o -p 0 $t; done", tids.join(" ")),
        _ => format!("for t in {}; do chrt -f -p {priority} $t; done", tids.join(" ")),
    }
}

/// One rule: of these threads none may be below that one.
fn lower(
    low: Vec<&Thread>,
    high: Option<&Thread>,
    id: &str,
    title: &str,
    severity: Severity,
    cost: &str,
) -> Option<Finding> {
    let high = high?;
    let low: Vec<&Thread> = low.into_iter().filter(|thread| thread.rank() < high.rank()).collect();
    if low.is_empty() {
        return None;
    }
    let names: Vec<String> = low.iter().map(|thread| shown(thread)).collect();
    let value = format!("{} below {}", some_of(&names, 4), shown(high));
    Some(mended(finding(id, title, severity, value, SOURCE, cost), set(&low, high.rank().min(98))))
}

/// Mended by lowering ksoftirqd: raising RCU would put it above irq_work, which is the next rule.
fn softirq_above_rcu(context: &Context<'_>, threads: &[Thread]) -> Option<Finding> {
    let rcu = family(threads, &RCU).min_by_key(|thread| thread.rank())?;
    let above: Vec<&Thread> =
        family(threads, &["ksoftirqd"]).filter(|thread| thread.rank() > rcu.rank()).collect();
    if above.is_empty() {
        return None;
    }
    let names: Vec<String> = above.iter().map(|thread| shown(thread)).collect();
    let value = format!("{} above {}", some_of(&names, 4), shown(rcu));
    // Without PREEMPT_RT most softirqs run before every thread anyway, and the deadlock was not seen.
    let (severity, cost) = match context.system.preemption {
        Some(PreemptionModel::Rt) => (
            Severity::Danger,
            "a softirq that waits for RCU keeps RCU from running: a deadlock (meta-nilrt pull request 722)",
        ),
        _ => (
            Severity::Warning,
            "RCU's grace periods wait for bursts of softirqs; with PREEMPT_RT it is a deadlock",
        ),
    };
    let found = finding("softirq-above-rcu", "ksoftirqd above RCU", severity, value, SOURCE, cost);
    Some(mended(found, set(&above, rcu.rank())))
}

/// A FIFO stalld above the threads that it should rescue froze systems under memory pressure
/// (performance-addon-operators pull request 462).
fn stalld_above_kernel(_: &Context<'_>, threads: &[Thread]) -> Option<Finding> {
    let guarded = family(threads, &["ksoftirqd", "rcub", "rcuc"]).min_by_key(|thread| thread.rank())?;
    let stalld = threads
        .iter()
        .filter(|thread| !thread.kernel && thread.comm == "stalld" && thread.policy != Policy::Deadline)
        .find(|thread| thread.rank() > guarded.rank())?;
    let value = format!("{} above {}", shown(stalld), shown(guarded));
    let cost = "stalld that waits for memory or a lock keeps those from running that would bring it: the system froze \
                (performance-addon-operators pull request 462)";
    let found = finding(
        "stalld-above-kernel-threads",
        "stalld above kernel threads",
        Severity::Warning,
        value,
        SOURCE,
        cost,
    );
    Some(mended(found, set(&[stalld], guarded.rank())))
}

fn irq_work_below_rcu(_: &Context<'_>, threads: &[Thread]) -> Option<Finding> {
    lower(
        family(threads, &["irq_work"]).collect(),
        highest(family(threads, &RCU)),
        "irq-work-below-rcu",
        "irq_work below RCU",
        Severity::Danger,
        "RCU asks irq_work to end a grace period and keeps it from running (meta-nilrt pull request 722)",
    )
}

fn timers_below_softirq(_: &Context<'_>, threads: &[Thread]) -> Option<Finding> {
    lower(
        family(threads, &["ktimers", "ktimersoftd"]).collect(),
        highest(family(threads, &["ksoftirqd"])),
        "timers-below-softirq",
        "ktimers below ksoftirqd",
        Severity::Warning,
        "timers wait behind network and block softirqs, for as long as those go on (meta-nilrt pull request 710)",
    )
}

/// The stopper threads are in a class of their own above all others; `stat` shows it as FIFO 99 (kernel/sched/core.c,
/// `sched_set_stop_task`).
fn migration_changed(_: &Context<'_>, threads: &[Thread]) -> Option<Finding> {
    let changed: Vec<String> =
        family(threads, &["migration"]).filter(|thread| thread.rank() != 99).map(shown).collect();
    (!changed.is_empty()).then(|| {
        let cost =
            "moving threads between CPUs, CPU hotplug and stop_machine wait for it with all others stopped";
        finding(
            "migration-priority",
            "migration is not FIFO 99",
            Severity::Danger,
            some_of(&changed, 4),
            SOURCE,
            cost,
        )
    })
}

fn above_interrupt_threads(_: &Context<'_>, threads: &[Thread]) -> Option<Finding> {
    let highest = highest(family(threads, &["irq"]))?;
    let above: Vec<&Thread> = threads
        .iter()
        .filter(|thread| !thread.kernel && thread.is_real_time() && thread.rank() > highest.rank())
        .collect();
    if above.is_empty() {
        return None;
    }
    let names: Vec<String> = above.iter().map(|thread| shown(thread)).collect();
    let value = format!("{} above {}", some_of(&names, 4), shown(highest));
    let cost = "one that waits for a device waits for a thread that it keeps from running; one that does not sleep \
                holds up every device of its CPU. Right for threads that wait for timers only";
    Some(finding(
        "above-interrupt-threads",
        "Threads above all interrupt threads",
        Severity::Note,
        value,
        SOURCE,
        cost,
    ))
}
