// SPDX-License-Identifier: MIT OR Apache-2.0
//! How willing the kernel is to switch, and what was built into it that makes it slow.

use latebound_model::{CauseKind, Finding, Nanos, PreemptionModel, Severity};

use super::{Context, bearing, finding, mended, some_of};
use crate::boot_option;
use crate::preemption::DEBUGFS;

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    vec![
        bearing(model(context), &[CauseKind::InterruptDelayed, CauseKind::Softirq, CauseKind::PreemptionOff]),
        bearing(tick(context), &[CauseKind::TimerInterrupt]),
        bearing(debug_kernel(context), &[CauseKind::InterruptDelayed, CauseKind::PreemptionOff]),
    ]
}

const MODEL: &str = "Preemption model";

fn model(context: &Context<'_>) -> Finding {
    let survey = context.survey;
    let preemption = &survey.preemption;
    let id = "preemption-model";
    let Some(model) = preemption.model else {
        let cost =
            "a kernel that does not preempt system calls holds a woken thread up for as long as they last";
        return match &preemption.debugfs {
            Some(error) => {
                let unread = context.unread(id, MODEL, error, cost);
                Finding { value: format!("{}; {}", preemption.value, unread.value), ..unread }
            }
            None => finding(id, MODEL, Severity::Unknown, &preemption.value, &preemption.source, cost),
        };
    };
    let (severity, cost) = match model {
        PreemptionModel::None => (
            Severity::Warning,
            "a woken thread waits until the system call on its CPU sleeps, ends or offers to give way \
             (cond_resched): the longest such stretch is the latency, and it has no limit",
        ),
        PreemptionModel::Voluntary => (
            Severity::Warning,
            "a woken thread waits until the system call on its CPU sleeps, ends or offers to give way \
             (might_sleep, cond_resched): shorter stretches than with none, still without a limit",
        ),
        PreemptionModel::Lazy => (
            Severity::Note,
            "real-time threads preempt as with full; fair threads give way to each other at the next tick; \
             spinlocks, interrupt handlers and softirqs still go first and have no limit",
        ),
        PreemptionModel::Full => (
            Severity::Note,
            "real-time threads preempt system calls; spinlocks, interrupt handlers and softirqs \
             (2 ms a burst, kernel/softirq.c) still go first",
        ),
        PreemptionModel::Rt => (
            Severity::Good,
            "only stretches with preemption or interrupts off go first; `bound` can add them up",
        ),
    };
    let value = match &preemption.debugfs {
        Some(error) => format!("{} ({} {})", preemption.value, error.path(), error.reason()),
        None => preemption.value.clone(),
    };
    let model_finding = finding(id, MODEL, severity, value, &preemption.source, cost);
    if severity == Severity::Good {
        return model_finding;
    }
    let writable = preemption.debugfs.is_none() && context.is_admin();
    let remedy = match (preemption.dynamic, model) {
        (Some(true), PreemptionModel::None | PreemptionModel::Voluntary) if writable => {
            format!("echo full > {DEBUGFS}")
        }
        (Some(true), PreemptionModel::None | PreemptionModel::Voluntary) => {
            boot_option::add(survey.root, "preempt=full")
        }
        _ => boot_option::install_rt_kernel(survey.root, survey.facts.machine.as_deref()),
    };
    mended(model_finding, remedy)
}

fn tick(context: &Context<'_>) -> Finding {
    let (id, title) = ("tick-rate", "Scheduler tick");
    let Some(hz) = context.system.hz.filter(|&hz| hz > 0) else {
        return context.unread_config(id, title, "a tick comes every 1 to 10 ms (HZ=1000 to 100)");
    };
    let period = Nanos(1_000_000_000 / u64::from(hz));
    let cost = format!(
        "what waits for a tick waits up to {period}: time slices, lazy preemption, timers that are no hrtimers"
    );
    let severity = if hz >= 1000 { Severity::Good } else { Severity::Note };
    finding(id, title, severity, format!("CONFIG_HZ={hz}"), context.survey.config_source(), cost)
}

/// Options that put checks into every lock, allocation or access.
const DEBUG_OPTIONS: [(&str, &str); 10] = [
    ("PROVE_LOCKING", "every lock is checked against all orders seen"),
    ("DEBUG_LOCK_ALLOC", "every lock is tracked"),
    ("LOCK_STAT", "every contended lock is timed"),
    ("KASAN", "every access to memory is checked"),
    ("KCSAN", "accesses to memory are stalled to find races"),
    ("KMSAN", "every access to memory is checked"),
    ("DEBUG_OBJECTS", "every timer and work item is tracked"),
    ("DEBUG_KMEMLEAK", "memory is scanned every ten minutes"),
    ("IRQSOFF_TRACER", "each irq on or off is a function call"),
    ("PREEMPT_TRACER", "each preempt on or off is a function call"),
];

fn debug_kernel(context: &Context<'_>) -> Finding {
    let (id, title) = ("kernel-debugging", "Debugging built into the kernel");
    let cost = "checks in every lock or access make the kernel several times as slow and its maxima longer";
    let Ok(config) = &context.survey.config else {
        return context.unread_config(id, title, cost);
    };
    let on: Vec<String> = DEBUG_OPTIONS
        .iter()
        .filter(|(option, _)| config.is_on(option))
        .map(|(option, meaning)| format!("CONFIG_{option} ({meaning})"))
        .collect();
    // The two tracers are what a bound needs, and cost far less than the checkers do.
    let checks = DEBUG_OPTIONS.iter().take(8).any(|(option, _)| config.is_on(option));
    match (on.is_empty(), checks) {
        (true, _) => finding(id, title, Severity::Good, "none of the costly options", &config.source, ""),
        (false, true) => finding(id, title, Severity::Warning, some_of(&on, 4), &config.source, cost),
        (false, false) => {
            let cost = "one more call wherever preemption or interrupts go on or off; needed for a bound";
            finding(id, title, Severity::Note, some_of(&on, 4), &config.source, cost)
        }
    }
}
