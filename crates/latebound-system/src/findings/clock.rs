// SPDX-License-Identifier: MIT OR Apache-2.0
//! What time costs to read, and who else has the processor while it passes.

use latebound_model::{CauseKind, Finding, Severity};

use super::{Context, bearing, finding, mended};
use crate::platform::Platform;

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    let stopped = &[CauseKind::Stolen, CauseKind::StoodStill];
    vec![clocksource(context), bearing(hypervisor(context), stopped), bearing(steal(context), stopped)]
}

const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0";

fn clocksource(context: &Context<'_>) -> Finding {
    let (id, title) = ("clocksource", "Clock source");
    let source = format!("{CLOCKS}/current_clocksource");
    let clock = match context.survey.root.value(&source) {
        Ok(clock) => clock,
        Err(error) => {
            let cost = "a clock outside of the processor makes each clock read about a microsecond long";
            return context.unread(id, title, &error, cost);
        }
    };
    let (severity, cost) = match clock.as_str() {
        "tsc" | "arch_sys_counter" | "timebase" | "tod" | "riscv_clocksource" => {
            (Severity::Good, "a register of the processor, read without a system call: tens of nanoseconds")
        }
        "kvm-clock" | "hyperv_clocksource_tsc_page" => (
            Severity::Good,
            "the processor's counter with the hypervisor's scale, read without a system call",
        ),
        "xen" | "hyperv_clocksource_msr" => {
            (Severity::Note, "each read may be a system call or an exit to the hypervisor")
        }
        "jiffies" | "refined-jiffies" => (
            Severity::Danger,
            "time moves in ticks: nothing shorter than 1 to 10 ms can be timed or measured",
        ),
        // Both are read over a bus that takes about a microsecond, by a system call, with every CPU in one queue.
        "hpet" | "acpi_pm" => (
            Severity::Warning,
            "each read is a system call and an access to a slow device, of the order of a microsecond, and the kernel \
             reads it at every switch and timer",
        ),
        _ => (Severity::Note, "not one of the usual ones; how long a read takes is not known here"),
    };
    let available = context.survey.root.value(&format!("{CLOCKS}/available_clocksource")).unwrap_or_default();
    let found = finding(id, title, severity, format!("{clock} (available: {available})"), source, cost);
    let fast = ["tsc", "arch_sys_counter", "kvm-clock"];
    match fast.into_iter().find(|fast| available.split_whitespace().any(|word| word == *fast)) {
        Some(fast) if severity > Severity::Note => {
            mended(found, format!("echo {fast} > {CLOCKS}/current_clocksource"))
        }
        None if severity > Severity::Note => mended(
            found,
            "dmesg | grep -iE 'clocksource|tsc'  # says why the processor's counter was given up",
        ),
        _ => found,
    }
}

fn hypervisor(context: &Context<'_>) -> Finding {
    let (id, title) = ("hypervisor", "Hypervisor");
    let survey = context.survey;
    let platform = Platform::read(survey.root, survey.facts, survey.boot_option("latebound.clock"));
    if let Some(emulation) = &context.system.emulation {
        let cost = "every instruction is emulated: counts, causes and orderings hold, times say nothing about hardware";
        let value = format!("{}, clock: {}", emulation.by, emulation.clock);
        let source = match survey.facts.hypervisor_signature {
            Some(_) => "CPUID leaf 0x40000000, /proc/cpuinfo",
            None => "/proc/cpuinfo, /sys/class/dmi/id",
        };
        return finding(id, "Emulated machine", Severity::Warning, value, source, cost);
    }
    match &context.system.hypervisor {
        Some(name) => {
            let cost = "the hypervisor may run something else at any moment for as long as it likes; this system sees \
                        only that time has passed";
            finding(id, title, Severity::Warning, name, platform.hypervisor_source, cost)
        }
        None if platform.known => {
            // Only x86 has CPUID.
            let source = match context.system.machine.as_deref() {
                Some("x86_64") | None => "CPUID, /sys/hypervisor, DMI, /proc/cpuinfo",
                Some(_) => "/sys/hypervisor, the device tree, DMI, /proc/cpuinfo",
            };
            finding(id, title, Severity::Good, "none found", source, "")
        }
        None => {
            let cost = "a hypervisor may run something else at any moment";
            match survey.root.text("/proc/cpuinfo") {
                Err(error) => context.unread(id, title, &error, cost),
                Ok(_) => {
                    finding(id, title, Severity::Unknown, "/proc/cpuinfo is empty", "/proc/cpuinfo", cost)
                }
            }
        }
    }
}

/// Stolen ticks and all ticks of the `cpu` line: user nice system idle iowait irq softirq steal (proc_stat(5)); guest
/// time, which follows, is contained in user time.
fn stolen(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
    Some((*ticks.get(7)?, ticks.iter().fold(0, |all, &ticks| all.saturating_add(ticks))))
}

fn steal(context: &Context<'_>) -> Finding {
    let (id, title, source) = ("steal-time", "Time stolen by the hypervisor since boot", "/proc/stat");
    let cost = "while it is stolen nothing runs here, interrupts included";
    let text = match context.survey.root.text(source) {
        Ok(text) => text,
        Err(error) => return context.unread(id, title, &error, cost),
    };
    let Some((stolen, all)) = stolen(&text) else {
        return finding(id, title, Severity::Unknown, "there is no cpu line with eight counts", source, cost);
    };
    let percent = if all == 0 { 0.0 } else { stolen as f64 * 100.0 / all as f64 };
    let value = format!("{stolen} of {all} ticks ({percent:.3} %)");
    match (stolen, context.is_guest()) {
        (0, false) => finding(id, title, Severity::Good, value, source, ""),
        (0, true) => {
            let cost = "none was reported; a hypervisor need not report it";
            finding(id, title, Severity::Note, value, source, cost)
        }
        _ => {
            let severity = if percent >= 0.1 { Severity::Warning } else { Severity::Note };
            finding(id, title, severity, value, source, cost)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stolen;

    #[test]
    fn stolen_time_is_the_eighth_count_and_guest_time_does_not_count_twice() {
        assert_eq!(stolen("cpu  10 0 20 60 0 0 0 10 7 0\ncpu0 1 1 1 1 1 1 1 1\n"), Some((10, 100)));
        assert_eq!(stolen("cpu  10 0 20 60"), None);
        assert_eq!(stolen("cpu0 1 2 3 4 5 6 7 8"), None);
        assert_eq!(stolen(""), None);
    }
}
