// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a person wants to see beside the values: who blocked, when, from where to where, and the latest thread that
//! the same recording shows. Owns these records and their JSON; decides nothing about the bound.

use latebound_model::{Nanos, Tid};
use serde::{Deserialize, Serialize};

use super::Variables;
use super::document::nanos;

/// One of the four blocking variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variable {
    /// Preemption or interrupts off to postpone the scheduler.
    Poid,
    /// Preemption off to schedule.
    Psd,
    /// The scheduling tail.
    Dst,
    /// Preemption and interrupts on while the thread was to give way.
    Paie,
}

impl Variable {
    /// All four, in the order in which they are shown.
    pub const ALL: [Variable; 4] = [Variable::Poid, Variable::Dst, Variable::Paie, Variable::Psd];

    /// Its name in the paper, without the D.
    pub const fn name(self) -> &'static str {
        match self {
            Variable::Poid => "POID",
            Variable::Psd => "PSD",
            Variable::Dst => "DST",
            Variable::Paie => "PAIE",
        }
    }

    /// What it is, in words.
    pub const fn sentence(self) -> &'static str {
        match self {
            Variable::Poid => "preemption or interrupts off, to postpone the scheduler",
            Variable::Psd => "preemption off, to schedule",
            Variable::Dst => "the scheduling tail, from interrupts off for the switch",
            Variable::Paie => "everything on, although the thread was to give way",
        }
    }

    /// Its value.
    pub const fn of(self, variables: &Variables) -> Nanos {
        match self {
            Variable::Poid => variables.poid,
            Variable::Psd => variables.psd,
            Variable::Dst => variables.dst,
            Variable::Paie => variables.paie,
        }
    }
}

/// One end of a blocking window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowEdge {
    /// The function that turned something off or on, as `function+0x12`.
    pub caller: String,
    /// The thread that ran.
    pub tid: Tid,
    /// Its name; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
}

/// The longest window of a blocking variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockingWindow {
    /// Of which variable.
    pub variable: Variable,
    /// When it began.
    #[serde(rename = "start_ns", deserialize_with = "nanos")]
    pub start: Nanos,
    /// When it ended.
    #[serde(rename = "end_ns", deserialize_with = "nanos")]
    pub end: Nanos,
    /// How long it was, net of interrupts and NMIs.
    #[serde(rename = "duration_ns", deserialize_with = "nanos")]
    pub duration: Nanos,
    /// Who began it.
    pub begin: WindowEdge,
    /// Who ended it.
    pub finish: WindowEdge,
}

/// The latest wake-up of a recording that the theorem speaks of: the woken thread was the most urgent one of the CPU
/// from the wake-up until it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredWakeup {
    /// From `sched_waking` to `sched_switch`.
    #[serde(rename = "latency_ns", deserialize_with = "nanos")]
    pub latency: Nanos,
    /// When it was woken.
    #[serde(rename = "woken_ns", deserialize_with = "nanos")]
    pub woken: Nanos,
    /// The woken thread.
    pub tid: Tid,
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Whether the CPU was idle when it was woken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_idle: bool,
}
