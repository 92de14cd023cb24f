// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a measurement could not start or go on: what failed, the value met, what to type next.

use std::io;

use latebound_model::{Cpu, CpuSet, Nanos, Policy};

/// Why a measurement could not start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The set of CPUs is empty.
    #[error("no CPU to measure on was given; name at least one, for example --cpus 1")]
    NoCpus,
    /// A CPU is not on line.
    #[error(
        "CPU {cpu} is not on line (on line are {online}); choose from those, for example --cpus {online}"
    )]
    CpuOffline {
        /// The CPU that was asked for.
        cpu: Cpu,
        /// The CPUs that are on line.
        online: CpuSet,
    },
    /// A CPU lies outside of the process's cpuset.
    #[error(
        "CPU {cpu} is on line but not allowed to this process, whose cpuset holds {allowed}; choose from those, \
         for example --cpus {allowed}, or move this shell into another cpuset"
    )]
    CpuNotAllowed {
        /// The CPU that was asked for.
        cpu: Cpu,
        /// The CPUs that the process may use.
        allowed: CpuSet,
    },
    /// The period is too short to mean anything.
    #[error("a period of {} ns is below the minimum of 1 us; pass for example --period 1ms", period.0)]
    PeriodTooShort {
        /// The period that was asked for.
        period: Nanos,
    },
    /// A block is shorter than a period.
    #[error("a block of {block} is shorter than a period of {period}; pass for example --block 1s")]
    BlockTooShort {
        /// The block that was asked for.
        block: Nanos,
        /// The period.
        period: Nanos,
    },
    /// The duration does not hold one period.
    #[error("a duration of {duration} is shorter than one period of {period}; pass a longer --duration")]
    DurationTooShort {
        /// The duration that was asked for.
        duration: Nanos,
        /// The period.
        period: Nanos,
    },
    /// A time lies centuries ahead.
    #[error("{what} of {value} does not fit the kernel's clock; pass a shorter one")]
    TooLong {
        /// Which of the options.
        what: &'static str,
        /// Its value.
        value: Nanos,
    },
    /// The priority is outside of the policy's range.
    #[error(
        "priority {priority} is not between 1 and 99, which SCHED_{policy} takes; pass for example --priority 80"
    )]
    Priority {
        /// The policy.
        policy: Policy,
        /// The priority that was asked for.
        priority: u32,
    },
    /// Measuring threads cannot have this policy.
    #[error("SCHED_{policy} is not a policy to measure with; pass --policy fifo, rr, deadline or other")]
    PolicyUnsupported {
        /// The policy that was asked for.
        policy: Policy,
    },
    /// The kernel refused the policy.
    #[error(
        "the kernel refused SCHED_{policy} ({source}): {cause}; {remedy}, or measure without it: --policy other"
    )]
    PolicyRefused {
        /// The policy that was asked for.
        policy: Policy,
        /// Why, as far as it can be told.
        cause: String,
        /// What to type.
        remedy: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// `/dev/cpu_dma_latency` could not be held.
    #[error(
        "/dev/cpu_dma_latency could not be held at {value} ({source}); run as root, or leave idle states alone by \
         not passing --dma-latency"
    )]
    DmaLatency {
        /// The value that was asked for.
        value: Nanos,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A measuring thread could not be started or prepared.
    #[error("the measuring thread for CPU {cpu} could not {what} ({source}); check limits with: ulimit -a")]
    Thread {
        /// Its CPU.
        cpu: Cpu,
        /// What it could not do.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A measuring thread ended by a panic.
    #[error("the measuring thread for CPU {cpu} died; this is a defect of latebound, please report it")]
    Panicked {
        /// Its CPU.
        cpu: Cpu,
    },
}
