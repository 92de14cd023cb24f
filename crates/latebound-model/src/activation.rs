// SPDX-License-Identifier: MIT OR Apache-2.0
//! An activation: something is requested, later starts, and later ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanism::Mechanism;
use crate::name::Name;
use crate::priority::Policy;
use crate::units::{Cpu, Nanos, Tid};

/// A thread as the kernel named it at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Thread id; 0 is the idle task of whichever CPU it was seen on. Negative where the id is not on record: it then tells the threads of
    /// one activation from each other.
    pub tid: Tid,
    /// The name of the thread (`comm`), at most 15 bytes, with bytes that are not UTF-8 replaced.
    pub comm: Name,
    /// The scheduling policy; `None` where the event did not carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The kernel's `task_struct::prio`: -1 deadline, 0 to 98 real time (99 minus the user's priority), 100 to 139
    /// fair (120 plus nice). Includes an inherited priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prio: Option<i32>,
    /// Whether it is a thread of the kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel: bool,
}

impl Task {
    /// Whether this is the idle task.
    pub fn is_idle(&self) -> bool {
        self.tid.0 == 0
    }

    /// Whether its priority is one of SCHED_FIFO and SCHED_RR, its own or inherited (`MAX_RT_PRIO`, include/linux/sched/prio.h). That of a
    /// deadline thread is none.
    pub fn has_rt_priority(&self) -> bool {
        self.prio.is_some_and(|prio| (0..100).contains(&prio))
    }

    /// The priority as the field writes it: `FIFO 80`, `nice 0`, `deadline`; by the kernel's priority where
    /// the policy is not known.
    pub fn priority_text(&self) -> String {
        if self.is_idle() {
            return "idle".to_owned();
        }
        match (self.policy, self.prio) {
            (Some(Policy::Deadline), _) => "DEADLINE".to_owned(),
            (Some(policy @ (Policy::Fifo | Policy::RoundRobin)), Some(prio)) => {
                format!("{} {}", policy.name(), 99 - prio)
            }
            (Some(policy), Some(prio)) if prio < 100 => format!("{} boosted to {}", policy.name(), 99 - prio),
            (Some(Policy::Other), Some(prio)) => format!("nice {}", prio - 120),
            (Some(policy), _) => policy.name().to_owned(),
            (None, Some(prio)) if prio < 0 => "DEADLINE".to_owned(),
            (None, Some(prio)) if prio < 100 => format!("RT {}", 99 - prio),
            (None, Some(prio)) => format!("nice {}", prio - 120),
            (None, None) => String::new(),
        }
    }
}

/// Where code was running when it made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Context {
    /// A thread, for itself.
    Task,
    /// A softirq handler; the current thread is only the one it interrupted.
    Softirq,
    /// A hard interrupt handler.
    HardIrq,
    /// A non-maskable interrupt handler.
    Nmi,
}

/// Something that was requested, started and ended. Latency is `started_at - requested_at`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Activation {
    /// The series that it belongs to ([`Series::id`](crate::Series::id)).
    #[serde(default)]
    pub series: String,
    /// By which mechanism.
    pub mechanism: Mechanism,
    /// What exactly: `NET_RX`, a work function, an interrupt's name.
    pub subject: String,
    /// When it was first asked for.
    pub requested_at: Nanos,
    /// When the mechanism let it through, where there is such a step: a work item leaves `max_active` waiting, a timer that
    /// expired wakes its thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activated_at: Option<Nanos>,
    /// When its own code began.
    pub started_at: Nanos,
    /// When its own code ended, where that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Nanos>,
    /// It had not ended by `ended_at`, which is when it was looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// Who asked, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Task>,
    /// In which context the request was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester_context: Option<Context>,
    /// Who ran it, where that is a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<Task>,
    /// The CPU of the request, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_cpu: Option<Cpu>,
    /// The CPU of the start.
    pub started_cpu: Cpu,
    /// Further requests that this one activation served.
    pub merged: u64,
    /// Periods that passed while it was late.
    pub missed: u64,
}

impl Activation {
    /// A thread that was due to run and ran, as nothing but its clock or the scheduler tells it.
    pub fn of_thread(
        series: String,
        mechanism: Mechanism,
        thread: Task,
        cpu: Cpu,
        requested_at: Nanos,
        started_at: Nanos,
    ) -> Activation {
        Activation {
            series,
            mechanism,
            subject: thread.comm.to_string(),
            requested_at,
            activated_at: None,
            started_at,
            ended_at: None,
            open: false,
            requester: None,
            requester_context: None,
            runner: Some(thread),
            requested_cpu: None,
            started_cpu: cpu,
            merged: 0,
            missed: 0,
        }
    }

    /// The thread that ran it; the idle task (0) where none did.
    pub fn runner_tid(&self) -> Tid {
        self.runner.as_ref().map_or(Tid(0), |runner| runner.tid)
    }

    /// When what is known of it ends: its end, or its start where that is all.
    pub fn until(&self) -> Nanos {
        self.ended_at.unwrap_or(self.started_at)
    }

    /// From the request to its end, or to its start where that is all that is known: how late a job or a wake-up was.
    pub fn length(&self) -> Nanos {
        self.until().saturating_sub(self.requested_at)
    }

    /// From the request to the start.
    pub fn latency(&self) -> Nanos {
        self.started_at.saturating_sub(self.requested_at)
    }
}
