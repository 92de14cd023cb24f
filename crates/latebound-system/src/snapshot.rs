// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system as data: every field of [`SystemSnapshot`] that can be read. Owns where each of them is read; never
//! judges a value.

use latebound_model::{Cpu, CpuSet, FairServer, Nanos, RtThrottling, SystemSnapshot};

use crate::permissions::field;
use crate::platform::{self, Platform};
use crate::release::Release;
use crate::root::{ReadError, Root};
use crate::survey::Survey;
use crate::{idle, interrupts};

pub(crate) const CPUS: &str = "/sys/devices/system/cpu";

/// The kernel from which on the fair server guards fair threads in place of RT throttling (commits a110a81c52a9 and
/// 5f6bd380c7bd, both 6.12).
pub(crate) const FAIR_SERVER_SINCE: Release = Release(6, 12);

/// Where debugfs has one folder for each CPU with the fair server's settings.
pub(crate) const FAIR_SERVER: &str = "/sys/kernel/debug/sched/fair_server";

/// Reads all of it.
pub(crate) fn take(survey: &Survey<'_>) -> SystemSnapshot {
    let root = survey.root;
    let facts = survey.facts;
    let line = |path: &str| root.value(path).ok().filter(|value| !value.is_empty());
    let cpus = |file: &str| root.cpus(&format!("{CPUS}/{file}")).ok();
    let online = cpus("online");
    let first = first_cpu(online.as_ref());
    let platform = Platform::read(root, facts, survey.boot_option("latebound.clock"));
    let meminfo = root.text("/proc/meminfo").unwrap_or_default();
    let kilobytes =
        |name: &str| field(&meminfo, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024);
    SystemSnapshot {
        hostname: facts.hostname.clone(),
        kernel_release: facts.kernel_release.clone(),
        kernel_version: facts.kernel_version.clone(),
        machine: facts.machine.clone(),
        command_line: survey.command_line.as_ref().ok().cloned(),
        preemption: survey.preemption.model,
        hz: survey.config.as_ref().ok().and_then(|config| config.get("HZ")?.parse().ok()),
        config: survey.config.as_ref().map(|config| config.recorded()).unwrap_or_default(),
        cpu_model: platform::cpu_model(root),
        microcode: platform::microcode(root),
        allowed: facts.allowed.clone().or_else(|| allowed(root).ok()),
        isolated: cpus("isolated"),
        nohz_full: nohz_full(survey),
        smt: smt(root, first),
        memory_bytes: kilobytes("MemTotal"),
        hypervisor: platform.hypervisor,
        emulation: platform.emulation,
        clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governor: line(&format!("{CPUS}/cpu{first}/cpufreq/scaling_governor")),
        idle_driver: line(&format!("{CPUS}/cpuidle/current_driver")),
        idle_governor: line(&format!("{CPUS}/cpuidle/current_governor"))
            .or_else(|| line(&format!("{CPUS}/cpuidle/current_governor_ro"))),
        idle_states: idle::states(root, first).unwrap_or_default(),
        rt_throttling: rt_throttling(root).ok(),
        fair_server: fair_server(survey, first),
        timer_migration: root.number::<u32>("/proc/sys/kernel/timer_migration").ok().map(|value| value != 0),
        transparent_hugepage: line("/sys/kernel/mm/transparent_hugepage/enabled").map(|value| chosen(&value)),
        swap_bytes: kilobytes("SwapTotal")
            .zip(kilobytes("SwapFree"))
            .map(|(all, free)| (all, all.saturating_sub(free))),
        irqbalance: irqbalance(survey),
        interrupts: interrupts::read(root).unwrap_or_default(),
        online,
    }
}

/// The first CPU that is on line: CPU 0 may be off line on ARM.
pub(crate) fn first_cpu(online: Option<&CpuSet>) -> Cpu {
    online.and_then(|cpus| cpus.iter().next()).unwrap_or_default()
}

/// The word in brackets of a list like `always [madvise] never`; the whole where there are none.
pub(crate) fn chosen(value: &str) -> String {
    let inside = value.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    inside.unwrap_or(value).to_owned()
}

fn allowed(root: &Root) -> Result<CpuSet, ReadError> {
    let path = "/proc/self/status";
    let text = root.text(path)?;
    let list = field(&text, "Cpus_allowed_list").unwrap_or_default();
    list.parse().map_err(|_| ReadError::unexpected(path, list, "a Cpus_allowed_list"))
}

/// The file is there only in kernels with CONFIG_NO_HZ_FULL (drivers/base/cpu.c); without it the option on the
/// command line is not heard, and no CPU is nohz_full.
fn nohz_full(survey: &Survey<'_>) -> Option<CpuSet> {
    match survey.root.cpus(&format!("{CPUS}/nohz_full")) {
        Ok(cpus) => Some(cpus),
        Err(error) if error.is_absent() && survey.root.exists(CPUS) => Some(CpuSet::default()),
        Err(_) => None,
    }
}

fn smt(root: &Root, first: Cpu) -> Option<bool> {
    if let Ok(active) = root.number::<u32>(&format!("{CPUS}/smt/active")) {
        return Some(active != 0);
    }
    let siblings = root.cpus(&format!("{CPUS}/cpu{first}/topology/thread_siblings_list")).ok()?;
    Some(siblings.len() > 1)
}

/// `sched_rt_runtime_us` and `sched_rt_period_us`.
pub(crate) fn rt_throttling(root: &Root) -> Result<RtThrottling, ReadError> {
    let runtime: i64 = root.number("/proc/sys/kernel/sched_rt_runtime_us")?;
    let period: u64 = root.number("/proc/sys/kernel/sched_rt_period_us")?;
    Ok(RtThrottling {
        runtime: u64::try_from(runtime).ok().map(|micros| Nanos(micros.saturating_mul(1_000))),
        period: Nanos(period.saturating_mul(1_000)),
    })
}

/// One CPU's fair server, in nanoseconds (Linux 6.12, kernel/sched/debug.c).
pub(crate) fn read_fair_server(root: &Root, cpu: Cpu) -> Result<FairServer, ReadError> {
    let folder = format!("{FAIR_SERVER}/cpu{cpu}");
    Ok(FairServer {
        runtime: Nanos(root.number(&format!("{folder}/runtime"))?),
        period: Nanos(root.number(&format!("{folder}/period"))?),
        read: true,
    })
}

fn fair_server(survey: &Survey<'_>, cpu: Cpu) -> Option<FairServer> {
    match read_fair_server(survey.root, cpu) {
        Ok(server) => Some(server),
        // The defaults are 50 ms of each second (Linux 6.12, kernel/sched/deadline.c).
        Err(_) if survey.is_since(FAIR_SERVER_SINCE) == Some(true) => {
            Some(FairServer { runtime: Nanos::from_millis(50), period: Nanos::from_secs(1), read: false })
        }
        Err(_) => None,
    }
}

/// Whether a process named irqbalance runs. Where /proc hides the processes of others (`hidepid`), this cannot be
/// known: process 1 is always there for those who may see.
fn irqbalance(survey: &Survey<'_>) -> Option<bool> {
    let threads = survey.threads.as_ref().ok()?;
    if threads.iter().any(|thread| thread.comm == "irqbalance") {
        return Some(true);
    }
    threads.iter().any(|thread| thread.tid.0 == 1).then_some(false)
}
