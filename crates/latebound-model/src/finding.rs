// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `doctor` says of a system: the value read, what it costs, the command that mends it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cause::CauseKind;

/// How much a finding matters to somebody who has to answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Worth knowing; changes nothing by itself.
    Note,
    /// Costs latency, or hides it.
    Warning,
    /// Can hold a real-time thread up for milliseconds to for ever.
    Danger,
    /// Could not be read.
    Unknown,
}

impl Severity {
    /// The word used for it.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Good => "good",
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Danger => "danger",
            Severity::Unknown => "unknown",
        }
    }
}

/// One setting or property of the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// A stable name: `preemption-model`, `rt-throttling`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// One line: what it is.
    pub title: String,
    /// The value read, as the kernel writes it; why it could not be read where it could not.
    pub value: String,
    /// Where it was read.
    pub source: String,
    /// What it costs, in numbers where they are known.
    pub cost: String,
    /// The kinds of cause whose time the setting decides, so that it is what to change where they took most of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bears_on: Vec<CauseKind>,
    /// The command that mends it; `None` where nothing has to or can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
