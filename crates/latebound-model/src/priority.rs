// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread is scheduled as: its policy, its real-time priority or its nice value.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A scheduling policy (include/uapi/linux/sched.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// `SCHED_OTHER`, called `SCHED_NORMAL` in the kernel.
    Other,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    RoundRobin,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_DEADLINE`.
    Deadline,
    /// `SCHED_EXT`.
    Ext,
}

impl Policy {
    /// From the kernel's number; `None` for a number that is no policy.
    pub const fn from_number(number: u32) -> Option<Policy> {
        Some(match number {
            0 => Policy::Other,
            1 => Policy::Fifo,
            2 => Policy::RoundRobin,
            3 => Policy::Batch,
            5 => Policy::Idle,
            6 => Policy::Deadline,
            7 => Policy::Ext,
            _ => return None,
        })
    }

    /// The kernel's number.
    pub const fn number(self) -> u32 {
        match self {
            Policy::Other => 0,
            Policy::Fifo => 1,
            Policy::RoundRobin => 2,
            Policy::Batch => 3,
            Policy::Idle => 5,
            Policy::Deadline => 6,
            Policy::Ext => 7,
        }
    }

    /// The name without `SCHED_`: `FIFO`.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Other => "OTHER",
            Policy::Fifo => "FIFO",
            Policy::RoundRobin => "RR",
            Policy::Batch => "BATCH",
            Policy::Idle => "IDLE",
            Policy::Deadline => "DEADLINE",
            Policy::Ext => "EXT",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A real-time priority as user space counts: 1 (lowest) to 99 (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
#[schemars(with = "u8", extend("minimum" = 1, "maximum" = 99))]
pub struct Priority(u8);

/// A number that is no real-time priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a real-time priority; give 1 (lowest) to 99 (highest)")]
pub struct NoPriority(u8);

impl Priority {
    /// The lowest.
    pub const MIN: Priority = Priority(1);
    /// The highest.
    pub const MAX: Priority = Priority(99);

    /// From a number of 1 to 99.
    pub const fn new(number: u8) -> Option<Priority> {
        if number >= 1 && number <= 99 { Some(Priority(number)) } else { None }
    }

    /// The number, 1 to 99.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for Priority {
    type Error = NoPriority;

    fn try_from(number: u8) -> Result<Priority, NoPriority> {
        Priority::new(number).ok_or(NoPriority(number))
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> u8 {
        priority.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A thread's policy with what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Scheduling {
    /// The policy.
    pub policy: Policy,
    /// 1 to 99 for FIFO and round robin; absent for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// -20 to 19; matters to the fair policies only.
    pub nice: i8,
}

impl Scheduling {
    /// `SCHED_FIFO` at this priority.
    pub const fn fifo(priority: Priority) -> Scheduling {
        Scheduling { policy: Policy::Fifo, priority: Some(priority), nice: 0 }
    }

    /// `SCHED_OTHER` at this nice value.
    pub const fn other(nice: i8) -> Scheduling {
        Scheduling { policy: Policy::Other, priority: None, nice }
    }

    /// Who goes first: the higher the sooner. Deadline (100) above real time (1 to 99) above all others (0).
    pub fn rank(self) -> u8 {
        match self.policy {
            Policy::Deadline => 100,
            Policy::Fifo | Policy::RoundRobin => self.priority.map_or(0, Priority::get),
            _ => 0,
        }
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.policy, self.priority) {
            (policy, Some(priority)) => write!(f, "{policy} {priority}"),
            (policy @ (Policy::Other | Policy::Batch), None) if self.nice != 0 => {
                write!(f, "{policy} nice {}", self.nice)
            }
            (policy, None) => write!(f, "{policy}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_1_to_99_are_real_time_priorities() {
        assert_eq!(Priority::new(0), None);
        assert_eq!(Priority::new(100), None);
        assert_eq!((Priority::MIN.get(), Priority::MAX.get()), (1, 99));
        assert!(serde_json::from_str::<Priority>("100").is_err());
    }

    #[test]
    fn scheduling_is_written_as_people_say_it() {
        let shown = |scheduling: Scheduling| scheduling.to_string();
        assert_eq!(shown(Scheduling::fifo(Priority::MAX)), "FIFO 99");
        assert_eq!(shown(Scheduling::other(-20)), "OTHER nice -20");
        assert_eq!(shown(Scheduling::other(0)), "OTHER");
    }
}
