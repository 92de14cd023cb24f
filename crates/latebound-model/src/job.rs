// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs: activations of a thread that are known to their end, and the wait that lies between two of them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activation::Task;
use crate::event::CallObject;
use crate::mark::ThreadMarks;
use crate::name::Name;
use crate::units::Nanos;

/// A place of a program at which it waits: a system call on one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct WaitSite {
    /// The name of the system call; `None` where the recording does not show calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Name>,
    /// What the call works on. The owner of a futex changes and tells no place from another, so it is `None` here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<CallObject>,
    /// Whether a timer ended it: tells places apart where the recording does not show calls; `None` where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_timer: Option<bool>,
}

impl WaitSite {
    /// The place of a system call.
    pub fn of_call(call: &str, object: Option<CallObject>) -> WaitSite {
        let object = object.map(|object| match object {
            CallObject::Futex { address, inherits, .. } => {
                CallObject::Futex { address, inherits, owner: None }
            }
            other => other,
        });
        WaitSite { call: Some(call.into()), object, by_timer: None }
    }
}

impl fmt::Display for WaitSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.call, self.by_timer) {
            (Some(call), _) => f.write_str(call)?,
            (None, Some(true)) => f.write_str("a sleep that a timer ends")?,
            (None, _) => f.write_str("a sleep")?,
        }
        match self.object {
            Some(CallObject::Sleep { absolute: true }) => f.write_str(" until a time"),
            Some(CallObject::File { fd, .. }) => write!(f, " on descriptor {fd}"),
            Some(CallObject::Futex { address, .. }) => write!(f, " at {address:#x}"),
            Some(CallObject::Sleep { absolute: false }) | None => Ok(()),
        }
    }
}

/// How sure it is that a wait lies between two jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sureness {
    /// The thread spends no longer there than elsewhere, and not regularly.
    Guess,
    /// It comes regularly, or the thread spends most of its sleep there.
    Likely,
    /// The user named it; or it is the only one, or regular and ended by timers.
    Sure,
}

impl Sureness {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Sureness::Guess => "a guess",
            Sureness::Likely => "likely",
            Sureness::Sure => "sure",
        }
    }
}

/// The wait between two jobs of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cycle {
    /// Where.
    pub site: WaitSite,
    /// How sure that is.
    pub sureness: Sureness,
    /// The distance between two releases, where they are regular or the user said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Nanos>,
}

/// What is known of the jobs of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadJobs {
    /// The thread.
    pub task: Task,
    /// The wait between two of them; `None` where marks begin and end them, or where none was recognised, so that its wake-ups were
    /// explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Cycle>,
    /// The marks that begin and end them; `None` where a wait lies between two of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<ThreadMarks>,
    /// How many completed.
    pub jobs: u64,
    /// Sleeps at the place before it was recognised, at least: jobs between them are not among `jobs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleeps_before: Option<u64>,
    /// The response that no job should exceed, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Nanos>,
    /// How many exceeded it, as far as the buckets of the distribution tell: at least so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_at_least: Option<u64>,
    /// And at most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_at_most: Option<u64>,
    /// How many releases of the period had no job, because the jobs before took too long; those that later jobs made up for are none.
    /// `None` where no period is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    /// How many jobs took longer than the period, as far as the buckets of the distribution tell: at least so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrun_at_least: Option<u64>,
    /// And at most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrun_at_most: Option<u64>,
    /// For how long a job was on when the Run ended, where that is longer than its deadline: it is none of `jobs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_for: Option<Nanos>,
}

impl ThreadJobs {
    /// The distance between two releases, where they are regular or the user said it.
    pub fn period(&self) -> Option<Nanos> {
        let of_marks = self.marks.as_ref().and_then(|marks| marks.period);
        self.cycle.as_ref().and_then(|cycle| cycle.period).or(of_marks)
    }
}
