// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was done where a watched thread was later than a limit, and the stretch of time that was saved of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activation::Task;
use crate::units::{Cpu, Nanos};

/// What happened of `--on-late`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OnLate {
    /// Above this a wake-up or job is late.
    pub limit: Nanos,
    /// For so long after a trigger another late one does nothing.
    pub rest: Nanos,
    /// How often the actions were begun.
    pub triggers: u64,
    /// Late ones that did nothing, because the actions of the one before were not done or its rest was not over.
    pub resting: u64,
    /// The actions in their order.
    pub actions: Vec<LateAction>,
    /// The folder that holds the saves; `None` where nothing is to be saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The saves, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saves: Vec<Save>,
    /// Triggers that saved nothing because there were as many saves as were asked for.
    #[serde(default)]
    pub unsaved: u64,
}

/// One action, and how often it came to what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LateAction {
    /// As it was typed; of a command only that it is one, unless `--keep-arguments` was given.
    pub action: String,
    /// How often it was done; of a command, that it ended with status 0.
    pub done: u64,
    /// How often it failed: a command with another status or a signal, too.
    #[serde(default)]
    pub failed: u64,
    /// Commands that were ended at their time limit.
    #[serde(default)]
    pub timed_out: u64,
    /// Commands that were ended with the Run.
    #[serde(default)]
    pub cancelled: u64,
    /// How it failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
}

/// A stretch that was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Save {
    /// Its Run, in the folder of the saves.
    pub run: String,
    /// What was late.
    pub late: Late,
}

/// A late wake-up or job, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Late {
    /// The thread.
    pub task: Task,
    /// The CPU on which it started.
    pub cpu: Cpu,
    /// When it was due, on `CLOCK_MONOTONIC`.
    pub requested_at: Nanos,
    /// The latency of a wake-up, the response of a job.
    pub length: Nanos,
    /// Whether it is a job.
    pub is_job: bool,
    /// Whether that was not over, so that `length` is how long it was on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// The stretch of time that a Run was saved of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stretch {
    /// Its begin, on `CLOCK_MONOTONIC`.
    pub from: Nanos,
    /// Its end.
    pub to: Nanos,
    /// Which trigger saved it, from 1.
    pub trigger: u64,
    /// The limit that was exceeded.
    pub limit: Nanos,
    /// What was late.
    pub late: Late,
}
