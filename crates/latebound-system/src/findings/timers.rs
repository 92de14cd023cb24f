// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timers: how finely they fire, where, and those that the kernel sets for itself.

use latebound_model::{CauseKind, Finding, Nanos, Severity};

use super::{Context, bearing, finding, mended};

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    vec![
        resolution(context),
        migration(context),
        bearing(nmi_watchdog(context), &[CauseKind::Nmi]),
        soft_watchdog(context),
    ]
}

fn resolution(context: &Context<'_>) -> Finding {
    let (id, title) = ("high-resolution-timers", "High-resolution timers");
    let period = context.system.hz.filter(|&hz| hz > 0).map(|hz| Nanos(1_000_000_000 / u64::from(hz)));
    let tick = period.map_or_else(|| "a tick".to_owned(), |period| format!("a tick ({period})"));
    let cost = format!("without them every sleep ends at a tick: up to {tick} late");
    match (context.survey.boot_option("highres"), context.survey.config_is_on("HIGH_RES_TIMERS")) {
        (Some("off" | "0" | "n"), _) => mended(
            finding(id, title, Severity::Danger, "highres=off", "/proc/cmdline", cost),
            "# remove highres=off from the kernel command line in the boot loader, then reboot",
        ),
        (_, Some(true)) => {
            finding(id, title, Severity::Good, "CONFIG_HIGH_RES_TIMERS=y", context.survey.config_source(), "")
        }
        (_, Some(false)) => finding(
            id,
            title,
            Severity::Danger,
            "CONFIG_HIGH_RES_TIMERS is not set",
            context.survey.config_source(),
            cost,
        ),
        (_, None) => context.unread_config(id, title, cost),
    }
}

fn migration(context: &Context<'_>) -> Finding {
    let (id, title) = ("timer-migration", "Timer migration");
    let source = "/proc/sys/kernel/timer_migration";
    let cost = "a timer armed on an idle CPU may fire on another that is awake: its softirq runs where a thread is working";
    match context.survey.root.number::<u32>(source) {
        Ok(0) => finding(id, title, Severity::Good, "0", source, "a timer fires on the CPU that armed it"),
        Ok(value) => mended(
            finding(id, title, Severity::Note, value.to_string(), source, cost),
            "sysctl -w kernel.timer_migration=0",
        ),
        Err(error) => context.unread(id, title, &error, cost),
    }
}

fn threshold(context: &Context<'_>) -> u64 {
    context.survey.root.number("/proc/sys/kernel/watchdog_thresh").unwrap_or(10)
}

fn nmi_watchdog(context: &Context<'_>) -> Finding {
    let (id, title) = ("nmi-watchdog", "NMI watchdog");
    let source = "/proc/sys/kernel/nmi_watchdog";
    let cost = format!(
        "a performance counter interrupts each CPU after every {} s of work with an NMI, which nothing can mask",
        threshold(context)
    );
    match context.survey.root.number::<u32>(source) {
        Ok(0) => finding(id, title, Severity::Good, "0", source, ""),
        // From 6.5 on a kernel may have each CPU watch the next one by its timer instead (CONFIG_HARDLOCKUP_DETECTOR_BUDDY).
        Ok(value) if context.survey.config_is_on("HARDLOCKUP_DETECTOR_BUDDY") == Some(true) => {
            let cost = "each CPU looks after the next one when the soft-lockup watchdog's timer fires; there is no NMI";
            finding(id, title, Severity::Note, value.to_string(), source, cost)
        }
        Ok(value) => mended(
            finding(id, title, Severity::Warning, value.to_string(), source, cost),
            "sysctl -w kernel.nmi_watchdog=0",
        ),
        Err(error) if error.is_absent() && context.survey.root.exists("/proc/sys/kernel") => {
            finding(id, title, Severity::Good, "not in this kernel", source, "")
        }
        Err(error) => context.unread(id, title, &error, cost),
    }
}

fn soft_watchdog(context: &Context<'_>) -> Finding {
    let (id, title) = ("soft-watchdog", "Soft-lockup watchdog");
    let source = "/proc/sys/kernel/soft_watchdog";
    // A fifth of twice the threshold, and the stopper thread goes before every other (Linux 6.12, kernel/watchdog.c,
    // `set_sample_period`, `softlockup_fn`).
    let every = Nanos(threshold(context).saturating_mul(400_000_000));
    let cost = format!(
        "on each CPU of watchdog_cpumask a timer fires every {every} and has migration/N run, which goes before every \
         real-time thread: two switches each time"
    );
    match context.survey.root.number::<u32>(source) {
        Ok(0) => finding(id, title, Severity::Good, "0", source, ""),
        Ok(value) => mended(
            finding(id, title, Severity::Note, value.to_string(), source, cost),
            "sysctl -w kernel.soft_watchdog=0",
        ),
        Err(error) if error.is_absent() && context.survey.root.exists("/proc/sys/kernel") => {
            finding(id, title, Severity::Good, "not in this kernel", source, "")
        }
        Err(error) => context.unread(id, title, &error, cost),
    }
}
