// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system that a Run was taken on, as far as it bears on latency. Every field that could not be read is absent.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{CpuSet, DurationError, Nanos};

/// How willing the kernel is to switch while it runs kernel code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreemptionModel {
    /// `PREEMPT_NONE`: only at return to user space and where kernel code sleeps or asks.
    None,
    /// `PREEMPT_VOLUNTARY`: also at `might_sleep`.
    Voluntary,
    /// `PREEMPT_LAZY` (6.13 and later): real-time threads as in full, fair threads at the tick.
    Lazy,
    /// `PREEMPT`: wherever no lock is held.
    Full,
    /// `PREEMPT_RT`: also in most locks and interrupt handlers, which are threads.
    Rt,
}

/// One idle state of the processor, as cpuidle lists it for the first CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuIdleState {
    /// Its name: `C1E`, `HLT`.
    pub name: String,
    /// How long leaving it takes, by the driver's word.
    pub exit_latency: Nanos,
    /// Whether it is switched off.
    pub disabled: bool,
}

/// The fair server of kernel 6.12 and later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FairServer {
    /// Runtime that fair threads get for sure.
    pub runtime: Nanos,
    /// In each period of this length.
    pub period: Nanos,
    /// Whether the two were read (debugfs), or are the defaults of the kernel's source.
    pub read: bool,
}

/// Real-time throttling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RtThrottling {
    /// `sched_rt_runtime_us`; `None` where it is -1: switched off.
    pub runtime: Option<Nanos>,
    /// `sched_rt_period_us`.
    pub period: Nanos,
}

impl fmt::Display for RtThrottling {
    /// `950 ms of 1.00 s`, which [`FromStr`] reads; `off`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.runtime {
            Some(runtime) => write!(f, "{runtime} of {}", self.period),
            None => f.write_str("off"),
        }
    }
}

impl FromStr for RtThrottling {
    type Err = DurationError;

    /// Where it is off, the text has no period, so nothing comes back.
    fn from_str(text: &str) -> Result<RtThrottling, DurationError> {
        let (runtime, period) =
            text.split_once(" of ").ok_or_else(|| DurationError::NoNumber(text.to_owned()))?;
        Ok(RtThrottling { runtime: Some(runtime.parse()?), period: period.parse()? })
    }
}

/// The CPU quota of a control group (CFS bandwidth control, kernel/sched/fair.c), and how often it was used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuQuota {
    /// The group's path in its hierarchy: `/kubepods/pod1`.
    pub group: String,
    /// The folder of its files.
    pub folder: String,
    /// 1 or 2: the version of the hierarchy.
    pub version: u32,
    /// How much CPU time its threads may use together in each period.
    pub quota: Nanos,
    /// The period.
    pub period: Nanos,
    /// How much unused quota it may save up; `None` where the kernel has no bursts (before 5.14).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Nanos>,
    /// How many of the threads that were asked for are in it or below.
    pub threads: u64,
    /// `nr_periods` of its `cpu.stat`: periods in which its threads ran; since the group was made, or during the Run.
    pub periods: Option<u64>,
    /// `nr_throttled`: periods in which the quota was used up.
    pub throttled_periods: Option<u64>,
    /// `throttled_time` or `throttled_usec`: for how long its queues were held, summed over CPUs.
    pub throttled: Option<Nanos>,
}

impl CpuQuota {
    /// The same with the counts since an earlier reading of the same group.
    #[must_use]
    pub fn since(mut self, earlier: &CpuQuota) -> CpuQuota {
        let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        self.periods = less(self.periods, earlier.periods);
        self.throttled_periods = less(self.throttled_periods, earlier.throttled_periods);
        self.throttled = less(self.throttled.map(|t| t.0), earlier.throttled.map(|t| t.0)).map(Nanos);
        self
    }
}

/// One line of `/proc/interrupts` with its affinity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptLine {
    /// The Linux number, or the architecture's name (`LOC`, `RES`).
    pub id: String,
    /// The handlers' names.
    pub name: String,
    /// How often it came on each CPU since boot, in the order of the online CPUs.
    pub counts: Vec<u64>,
    /// Where it may be delivered.
    pub affinity: Option<CpuSet>,
}

/// How far the machine's time can be believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Emulation {
    /// Who emulates: `qemu-tcg`.
    pub by: String,
    /// Which clock the machine sees: `host`, `instructions` (8 ns for each), or `instructions:1ns`.
    pub clock: String,
}

/// The system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SystemSnapshot {
    /// `uname -n`.
    pub hostname: Option<String>,
    /// `uname -r`.
    pub kernel_release: Option<String>,
    /// `uname -v`.
    pub kernel_version: Option<String>,
    /// `uname -m`.
    pub machine: Option<String>,
    /// `/proc/cmdline`.
    pub command_line: Option<String>,
    /// The preemption model in force.
    pub preemption: Option<PreemptionModel>,
    /// Ticks a second.
    pub hz: Option<u32>,
    /// Kernel configuration options that bear on latency, with their values; `n` where not set.
    pub config: BTreeMap<String, String>,
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// The processor's microcode revision.
    pub microcode: Option<String>,
    /// CPUs that are on line.
    pub online: Option<CpuSet>,
    /// CPUs that this process may use.
    pub allowed: Option<CpuSet>,
    /// `isolcpus`.
    pub isolated: Option<CpuSet>,
    /// `nohz_full`.
    pub nohz_full: Option<CpuSet>,
    /// Whether more than one hardware thread shares a core.
    pub smt: Option<bool>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The hypervisor, where there is one.
    pub hypervisor: Option<String>,
    /// Set where the machine itself is emulated.
    pub emulation: Option<Emulation>,
    /// The clock source in use.
    pub clocksource: Option<String>,
    /// cpufreq's governor of the first CPU.
    pub governor: Option<String>,
    /// cpuidle's driver.
    pub idle_driver: Option<String>,
    /// cpuidle's governor.
    pub idle_governor: Option<String>,
    /// Idle states of the first CPU.
    pub idle_states: Vec<CpuIdleState>,
    /// Real-time throttling.
    pub rt_throttling: Option<RtThrottling>,
    /// The fair server.
    pub fair_server: Option<FairServer>,
    /// `timer_migration`.
    pub timer_migration: Option<bool>,
    /// `transparent_hugepage/enabled`.
    pub transparent_hugepage: Option<String>,
    /// Bytes of swap in all and in use.
    pub swap_bytes: Option<(u64, u64)>,
    /// Whether irqbalance runs.
    pub irqbalance: Option<bool>,
    /// Interrupts with their counts and affinity.
    pub interrupts: Vec<InterruptLine>,
}

/// The first two numbers of a kernel's release, (6, 12) of `6.12.57-rt`; `None` where it does not begin with them.
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_comes_back_from_its_text_unless_it_is_off() {
        let throttling =
            |runtime: Option<u64>| RtThrottling { runtime: runtime.map(Nanos), period: Nanos::from_secs(1) };
        for (value, text) in [
            (throttling(Some(950_000_000)), "950 ms of 1.00 s"),
            (throttling(Some(0)), "0 ns of 1.00 s"),
            (throttling(Some(1_000_000_000)), "1.00 s of 1.00 s"),
        ] {
            assert_eq!(value.to_string(), text);
            assert_eq!(text.parse(), Ok(value));
        }
        let off = throttling(None).to_string();
        assert_eq!(off, "off");
        for text in ["off", "", "950 ms", "950 ms of", "of 1 s", "950 of 1 s"] {
            assert!(text.parse::<RtThrottling>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_version_is_the_first_two_numbers_of_a_release() {
        assert_eq!(kernel_version("6.12.57+deb13-rt-amd64"), Some((6, 12)));
        assert_eq!(kernel_version("7.0-rc1"), Some((7, 0)));
        assert_eq!(kernel_version("linux"), None);
    }
}
