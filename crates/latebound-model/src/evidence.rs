// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a number rests on, what was lost on the way to it, and what could not be had at all.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a number rests on, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Clock reads of a user-space thread.
    User,
    /// Trace points of a stock kernel, through BPF or tracefs.
    Events,
    /// The scheduler's own entry, exit and need-resched trace points (6.16 and later).
    Scheduler,
    /// Preemption and interrupt on/off trace points on PREEMPT_RT: enough for a bound.
    Bound,
}

impl Evidence {
    /// Every level, weakest first.
    pub const ALL: [Evidence; 4] = [Evidence::User, Evidence::Events, Evidence::Scheduler, Evidence::Bound];

    /// The word used for it.
    pub const fn name(self) -> &'static str {
        match self {
            Evidence::User => "user",
            Evidence::Events => "events",
            Evidence::Scheduler => "scheduler",
            Evidence::Bound => "bound",
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether this system gives a level of evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceLevel {
    /// The level.
    pub evidence: Evidence,
    /// Whether it can be had here.
    pub available: bool,
    /// What can be said with it, or why it cannot be had and what would give it.
    pub reason: String,
}

/// Where events of the kernel come from: a rung of the ladder of evidence, the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rung {
    /// BPF programs, loaded by the type information (BTF) that the kernel shows.
    Bpf,
    /// BPF programs, loaded by a file with the kernel's type information.
    BtfFile,
    /// The kernel's own trace buffers (tracefs).
    Tracefs,
    /// No events: user space alone.
    User,
}

impl Rung {
    /// The word used for it.
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Bpf => "bpf",
            Rung::BtfFile => "btf file",
            Rung::Tracefs => "tracefs",
            Rung::User => "user space",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a system reaches a rung.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RungLevel {
    /// The rung.
    pub rung: Rung,
    /// Whether nothing that can be read stands against it.
    pub available: bool,
    /// What it gives, or why it cannot be reached and what would change that.
    pub reason: String,
}

/// In which way something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LossKind {
    /// A BPF program was skipped because it was already running on that CPU.
    ProgramSkipped,
    /// A map had no room for another entry.
    MapFull,
    /// A ring buffer had no room.
    RingFull,
    /// The flight recorder overwrote events before they were read.
    Overwritten,
    /// An end was seen without its beginning, or a beginning without its end.
    Unpaired,
    /// A time difference came out negative.
    NegativeDelta,
    /// A value lay above what the probe's histogram holds.
    Clipped,
    /// A late wake-up was not kept: the list of late ones was full, or the spool had no room for it.
    SampleDropped,
    /// A message was sent and never answered.
    MessageDropped,
}

impl LossKind {
    /// The name people read.
    pub const fn name(self) -> &'static str {
        match self {
            LossKind::ProgramSkipped => "program runs skipped",
            LossKind::MapFull => "entries refused by a full map",
            LossKind::RingFull => "records refused by a full ring",
            LossKind::Overwritten => "events overwritten before they were read",
            LossKind::Unpaired => "events without their other half",
            LossKind::NegativeDelta => "negative time differences",
            LossKind::Clipped => "values above the histogram",
            LossKind::SampleDropped => "late wake-ups not kept",
            LossKind::MessageDropped => "messages that were never answered",
        }
    }
}

/// So much was lost, of this, in this way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// In which way.
    pub kind: LossKind,
    /// Where: the probe or program, with the CPU where that matters.
    pub place: String,
    /// How many; `None` where even that is not known.
    pub count: Option<u64>,
}

impl Loss {
    /// In which way and where: two accounts with the same key count the same losses.
    pub fn key(&self) -> (LossKind, &str) {
        (self.kind, &self.place)
    }
}

/// What sort of thing is missing: what code decides by, and never by the wording of [`Missing::what`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MissingKind {
    /// Why late wake-ups were late: all explanations, or some.
    Explanations,
    /// A load that was asked for, or a part of its work.
    Load,
    /// A mechanism, a part of its durations, or a context that it is requested from.
    Mechanism,
    /// Events of the kernel: a trace point that it lacks, a program that it refused, events that were not read.
    Events,
    /// Measured latencies: of a CPU, of a stretch of time, of requests that were never made, of the tool whose results were read.
    Measurement,
    /// What the measurement should have run with: a CPU, a policy, locked memory, privileges.
    Condition,
    /// Relations of waiting: who waits for which thread, or for what.
    Relations,
    /// Names of what was seen: numbers or addresses stand in their place.
    Names,
    /// What the system is: its settings, or a counter of its hardware.
    System,
    /// A part of the results: a curve, a single value, a file on disk.
    Results,
    /// Anything else, and what a reader does not know the kind of.
    #[default]
    #[serde(other)]
    Other,
}

/// Something that this Run does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// What sort of thing.
    #[serde(default)]
    pub kind: MissingKind,
    /// What: `observe`, `explain`, `tasklets`.
    pub what: String,
    /// Why: what failed, with the value that was met.
    pub why: String,
    /// What to type or change to have it.
    pub remedy: String,
}

impl Missing {
    /// What is missing, why, and what to do to have it.
    pub fn new(
        kind: MissingKind,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Missing {
        Missing { kind, what: what.into(), why: why.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.what, self.why, self.remedy)
    }
}
