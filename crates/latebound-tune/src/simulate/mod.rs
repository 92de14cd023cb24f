// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a policy would have done to recorded work: fixed-priority scheduling of tasks and of kernel threads that serve
//! their requests.
//!
//! Owns the workload, how one is made of recorded events, the simulation and the search for weights. Reads no file and no clock. What it
//! leaves out: caches, the cost of switching and of changing a priority, migration between CPUs (each thread stays on
//! its own), and bandwidth limits of real-time and fair scheduling.

mod engine;
mod fit;
mod recorded;

use latebound_model::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::{PolicyKind, Weight};
use latebound_model::Priority;

pub use engine::simulate;
pub use fit::{Agreement, Fit, FitOptions, agreement, fit};
pub use recorded::{WorkloadRecorder, WorkloadRecording};

/// Tasks and kernel threads with what they have to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Until when is simulated; what is not finished then is counted as such.
    pub duration: Nanos,
    /// The kernel threads.
    pub servers: Vec<Server>,
    /// The tasks.
    pub tasks: Vec<SimulatedTask>,
}

/// A kernel thread: serves one request after the other, in the order of their arrival.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// The CPU that it runs on.
    pub cpu: u32,
    /// Its priority with nobody waiting; absent: it runs when no real-time thread does.
    #[serde(default)]
    pub default: Option<Priority>,
    /// What the static policy gives it; its default where absent.
    #[serde(default)]
    pub fixed: Option<Priority>,
    /// w of equation (2).
    pub weight: Weight,
}

/// A task with all its activations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulatedTask {
    /// Its name.
    pub name: String,
    /// The CPU that it runs on.
    pub cpu: u32,
    /// Its real-time priority; absent: it runs when no real-time thread does, and raises nobody.
    #[serde(default)]
    pub priority: Option<Priority>,
    /// In the order of their release. One that is released before the last has ended begins after it.
    pub activations: Vec<Work>,
}

/// One activation of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// When it is released.
    pub release: Nanos,
    /// What it does, one after the other.
    pub steps: Vec<Step>,
    /// The response time that was recorded, to check the simulation against.
    #[serde(default)]
    pub recorded: Option<Nanos>,
}

/// One thing that an activation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// It runs for so long.
    Run(Nanos),
    /// It sleeps for so long: a device, a lock or another task ends that, not a kernel thread.
    Sleep(Nanos),
    /// It asks a kernel thread for something.
    Ask {
        /// Which, by its place in the workload.
        server: usize,
        /// How long until the kernel thread has something to do: the device's time.
        #[serde(default)]
        after: Nanos,
        /// How long the kernel thread runs for it.
        demand: Nanos,
        /// Whether the task sleeps until it is done.
        wait: bool,
        /// Whether it counts as the maximum, not in the mean.
        #[serde(default)]
        hard: bool,
    },
}

/// A workload that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// A step asks a kernel thread that is not there.
    #[error("task {task} asks server {server}, but there are {servers}; servers are counted from 0")]
    NoServer {
        /// The task.
        task: String,
        /// What was asked for.
        server: usize,
        /// How many there are.
        servers: usize,
    },
    /// Releases that are not in order.
    #[error(
        "task {task}: activation {place} is released before the one before it; order them by their release"
    )]
    Unordered {
        /// The task.
        task: String,
        /// Which, counted from 0.
        place: usize,
    },
}

/// What became of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Responses {
    /// From release to end, of each activation that ended, in their order.
    pub times: Vec<Nanos>,
    /// How many had not ended at the end of the simulation.
    pub unfinished: usize,
}

impl Responses {
    /// The longest.
    pub fn worst(&self) -> Option<Nanos> {
        self.times.iter().max().copied()
    }

    /// The 99th percentile: the smallest that so many of a hundred do not exceed (nearest rank). `None` of fewer than a hundred.
    pub fn p99(&self) -> Option<Nanos> {
        let mut times = self.times.clone();
        let rank = (times.len() * 99).div_ceil(100).checked_sub(1).filter(|_| times.len() >= 100)?;
        Some(*times.select_nth_unstable(rank).1)
    }

    /// The mean, rounded down.
    pub fn mean(&self) -> Option<Nanos> {
        let number = self.times.len() as u128;
        let sum: u128 = self.times.iter().map(|time| u128::from(time.0)).sum();
        // A mean is at most the maximum.
        (number > 0).then(|| Nanos((sum / number) as u64))
    }
}

/// What a simulation gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Outcome {
    /// For each task of the workload.
    pub tasks: Vec<Responses>,
    /// For how long each kernel thread ran.
    pub served: Vec<Nanos>,
    /// How often the priority of a kernel thread changed.
    pub changes: u64,
}

impl Workload {
    /// Whether it can be simulated.
    pub fn check(&self) -> Result<(), WorkloadError> {
        for task in &self.tasks {
            let mut last = Nanos::ZERO;
            for (place, work) in task.activations.iter().enumerate() {
                if work.release < last {
                    return Err(WorkloadError::Unordered { task: task.name.clone(), place });
                }
                last = work.release;
                for step in &work.steps {
                    if let &Step::Ask { server, .. } = step
                        && server >= self.servers.len()
                    {
                        let (task, servers) = (task.name.clone(), self.servers.len());
                        return Err(WorkloadError::NoServer { task, server, servers });
                    }
                }
            }
        }
        Ok(())
    }

    /// The JSON Schema of a workload.
    pub fn json_schema() -> schemars::Schema {
        schemars::schema_for!(Workload)
    }
}

/// The policies that a comparison shows, in their order.
pub const COMPARED: [PolicyKind; 4] =
    [PolicyKind::Off, PolicyKind::Static, PolicyKind::Pip, PolicyKind::WeightedAverage];
