// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where interrupts may land, who moves them and what their handlers run as.

use latebound_model::{CauseKind, CpuSet, Finding, PreemptionModel, Severity};

use super::{Context, bearing, cpus, finding, mended, some_of};
use crate::boot_option;
use crate::interrupts::is_device;

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    let placed = &[CauseKind::Interrupt, CauseKind::Softirq];
    vec![
        bearing(affinity(context), placed),
        bearing(irqbalance(context), placed),
        bearing(handlers(context), &[CauseKind::Softirq]),
    ]
}

fn affinity(context: &Context<'_>) -> Finding {
    let (id, title) = ("interrupt-affinity", "Where interrupts may come");
    let source = "/proc/irq/*/smp_affinity_list";
    let cost = "each interrupt goes before every thread of its CPU: its handler, the softirq it raises, and \
                the caches both leave behind";
    let devices: Vec<_> = context.system.interrupts.iter().filter(|line| is_device(line)).collect();
    if context.system.interrupts.is_empty() {
        return match context.survey.root.text("/proc/interrupts") {
            Err(error) => context.unread(id, title, &error, cost),
            Ok(_) => finding(id, title, Severity::Unknown, "no line could be read", "/proc/interrupts", cost),
        };
    }
    if !devices.is_empty() && devices.iter().all(|line| line.affinity.is_none()) {
        let value = "no affinity could be read";
        return finding(id, title, Severity::Unknown, value, source, cost);
    }
    let isolated = cpus::isolated(context);
    if isolated.is_empty() {
        let value = format!(
            "no CPU is isolated; {} device interrupts may come anywhere they are allowed",
            devices.len()
        );
        return finding(id, title, Severity::Note, value, source, cost);
    }
    let reaching: Vec<_> = devices
        .iter()
        .filter_map(|line| Some((line, line.affinity.as_ref()?)))
        .filter(|(line, affinity)| !line.name.is_empty() && affinity.iter().any(|cpu| isolated.contains(cpu)))
        .collect();
    if reaching.is_empty() {
        let value = format!("none of {} device interrupts may come on {isolated}", devices.len());
        return finding(id, title, Severity::Good, value, source, "");
    }
    let shown: Vec<String> =
        reaching.iter().map(|(line, affinity)| format!("{} {} ({affinity})", line.id, line.name)).collect();
    let value =
        format!("{} of {} may come on {isolated}: {}", reaching.len(), devices.len(), some_of(&shown, 6));
    let online = context.system.online.clone().unwrap_or_default();
    let housekeeping = CpuSet::new(online.iter().filter(|&cpu| !isolated.contains(cpu)));
    let numbers: Vec<&str> = reaching.iter().map(|(line, _)| line.id.as_str()).collect();
    let found = finding(id, title, Severity::Warning, value, source, cost);
    if housekeeping.is_empty() {
        return found;
    }
    // Interrupts whose queues the kernel spreads itself refuse this with EIO: those follow isolcpus=managed_irq.
    mended(
        found,
        format!(
            "for i in {}; do echo {housekeeping} > /proc/irq/$i/smp_affinity_list; done",
            numbers.join(" ")
        ),
    )
}

fn irqbalance(context: &Context<'_>) -> Finding {
    let (id, title) = ("irqbalance", "irqbalance");
    let cost =
        "moves interrupts between CPUs every 10 s by load: a CPU that was quiet becomes the one they come to";
    match context.system.irqbalance {
        Some(true) => mended(
            finding(id, title, Severity::Warning, "running", "/proc/*/stat", cost),
            "systemctl disable --now irqbalance",
        ),
        Some(false) => finding(id, title, Severity::Good, "not running", "/proc/*/stat", ""),
        None => match &context.survey.threads {
            Err(error) => context.unread(id, title, error, cost),
            Ok(_) => mended(
                finding(id, title, Severity::Unknown, "the processes of others are hidden", "/proc", cost),
                "sudo latebound doctor",
            ),
        },
    }
}

fn handlers(context: &Context<'_>) -> Finding {
    let (id, title) = ("interrupt-threads", "Interrupt handlers as threads");
    let cost = "interrupt handlers and softirqs go before every thread, whatever its priority";
    if context.system.preemption == Some(PreemptionModel::Rt) {
        let value = "PREEMPT_RT: all but timers and a few handlers are threads";
        let cost = "a real-time thread above their priority (50) goes before them";
        return finding(id, title, Severity::Good, value, &context.survey.preemption.source, cost);
    }
    let line = match &context.survey.command_line {
        Ok(_) => "/proc/cmdline",
        Err(error) => return context.unread(id, title, error, cost),
    };
    if context.survey.boot_option("threadirqs").is_some() {
        let cost = "a real-time thread above their priority (50) goes before them; softirqs still go first";
        return finding(id, title, Severity::Good, "threadirqs", line, cost);
    }
    let note = finding(id, title, Severity::Note, "no threadirqs", line, cost);
    match context.survey.config_is_on("IRQ_FORCED_THREADING") {
        Some(false) => note,
        _ => mended(note, boot_option::add(context.survey.root, "threadirqs")),
    }
}
