// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mechanisms by which Linux starts something later than it was requested.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mechanism of the kernel that turns a request into a later start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mechanism {
    /// A timer expires and the thread that sleeps on it runs.
    TimerWakeup,
    /// A thread is woken by anything and runs.
    ThreadWakeup,
    /// A thread whose group has used up its CPU quota (CFS bandwidth control) may run again. Its distribution holds the
    /// time for which the quota held it.
    QuotaWait,
    /// A device's interrupt handler (`irq:irq_handler_entry`). The hardware's request leaves no event.
    HardIrq,
    /// An interrupt vector of the processor itself: local timer, reschedule, function call, irq_work.
    Vector,
    /// A softirq vector, from its first raise to its handler.
    Softirq,
    /// A tasklet, through the TASKLET or HI softirq.
    Tasklet,
    /// An irq_work item.
    IrqWork,
    /// A work item of a workqueue, from queueing to its function.
    Work,
    /// An interrupt thread (`irq/N-name`), from its wake-up by the primary handler to running.
    ThreadedIrq,
    /// A kernel thread that is not an interrupt thread or a worker, from its wake-up to running.
    KernelThread,
    /// An hrtimer, from its expiry time to its callback.
    Hrtimer,
    /// A block request, from its start to its completion.
    BlockRequest,
    /// An operation of a workload (a message, a transaction), from when it was due to when it was done.
    Operation,
    /// A plain call by the requester: what measuring itself costs.
    Direct,
}

impl Mechanism {
    /// Every mechanism, in the order in which tables list them.
    pub const ALL: [Mechanism; 15] = [
        Mechanism::TimerWakeup,
        Mechanism::ThreadWakeup,
        Mechanism::QuotaWait,
        Mechanism::HardIrq,
        Mechanism::Vector,
        Mechanism::Softirq,
        Mechanism::Tasklet,
        Mechanism::IrqWork,
        Mechanism::Work,
        Mechanism::ThreadedIrq,
        Mechanism::KernelThread,
        Mechanism::Hrtimer,
        Mechanism::BlockRequest,
        Mechanism::Operation,
        Mechanism::Direct,
    ];

    /// The name people read: `softirq`, `block request`.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::TimerWakeup => "timer wake-up",
            Mechanism::ThreadWakeup => "thread wake-up",
            Mechanism::QuotaWait => "quota wait",
            Mechanism::HardIrq => "hard interrupt",
            Mechanism::Vector => "vector",
            Mechanism::Softirq => "softirq",
            Mechanism::Tasklet => "tasklet",
            Mechanism::IrqWork => "irq_work",
            Mechanism::Work => "work item",
            Mechanism::ThreadedIrq => "threaded interrupt",
            Mechanism::KernelThread => "kernel thread",
            Mechanism::Hrtimer => "hrtimer",
            Mechanism::BlockRequest => "block request",
            Mechanism::Operation => "operation",
            Mechanism::Direct => "direct call",
        }
    }

    /// The word for it on command lines: `timer`, `hard-irq`.
    pub const fn word(self) -> &'static str {
        match self {
            Mechanism::TimerWakeup => "timer",
            Mechanism::ThreadWakeup => "thread",
            Mechanism::QuotaWait => "quota",
            Mechanism::HardIrq => "hard-irq",
            Mechanism::Vector => "vector",
            Mechanism::Softirq => "softirq",
            Mechanism::Tasklet => "tasklet",
            Mechanism::IrqWork => "irq-work",
            Mechanism::Work => "work",
            Mechanism::ThreadedIrq => "threaded-irq",
            Mechanism::KernelThread => "kernel-thread",
            Mechanism::Hrtimer => "hrtimer",
            Mechanism::BlockRequest => "block",
            Mechanism::Operation => "operation",
            Mechanism::Direct => "direct",
        }
    }

    /// The mechanism that a word stands for.
    pub fn of_word(word: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.word() == word)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The softirq vectors by number (`enum` in include/linux/interrupt.h, unchanged from 5.15 to 6.18).
pub const SOFTIRQ_NAMES: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The name of a softirq vector; `softirq` for a number that no kernel has.
pub fn softirq_name(vector: u32) -> &'static str {
    SOFTIRQ_NAMES.get(vector as usize).copied().unwrap_or("softirq")
}
