// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Run: the one record that every verb that measures writes and every verb that reads takes.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activation::Activation;
use crate::bound::Bound;
use crate::cause::Explanation;
use crate::cgroup::GroupBlame;
use crate::evidence::{EvidenceLevel, Loss, LossKind, Missing, MissingKind};
use crate::finding::Finding;
use crate::job::ThreadJobs;
use crate::late::{OnLate, Stretch};
use crate::priority::Policy;
use crate::series::Series;
use crate::system::{CpuQuota, SystemSnapshot};
use crate::units::{CpuSet, Nanos};

/// The schema that this version writes. The number after the slash changes when a reader of the old one would
/// misunderstand the new one; fields may be added without that.
pub const RUN_SCHEMA: &str = "latebound.run/1";

/// How far a Run got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It is still going on, or ended without a word (SIGKILL, power): all that it holds is true of the time so far.
    Running,
    /// It was asked to end early and did: the results are of the time so far.
    Interrupted,
    /// It ran for as long as it was meant to.
    Complete,
}

/// Which verb made a Run; in JSON its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum RunVerb {
    /// `bound`
    Bound,
    /// `check`
    Check,
    /// `defer`
    Defer,
    /// `explain`
    Explain,
    /// `import`: the results of another tool.
    Import,
    /// `measure`
    Measure,
    /// `observe`
    Observe,
    /// `tune prove`
    TuneProve,
    /// A verb that this version does not know, by its name.
    Other(String),
}

impl RunVerb {
    /// The words by which it is typed.
    pub fn name(&self) -> &str {
        match self {
            RunVerb::Bound => "bound",
            RunVerb::Check => "check",
            RunVerb::Defer => "defer",
            RunVerb::Explain => "explain",
            RunVerb::Import => "import",
            RunVerb::Measure => "measure",
            RunVerb::Observe => "observe",
            RunVerb::TuneProve => "tune prove",
            RunVerb::Other(name) => name,
        }
    }
}

impl fmt::Display for RunVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<String> for RunVerb {
    fn from(name: String) -> RunVerb {
        use RunVerb::*;
        let known = [Bound, Check, Defer, Explain, Import, Measure, Observe, TuneProve];
        known.into_iter().find(|verb| verb.name() == name).unwrap_or(Other(name))
    }
}

impl From<RunVerb> for String {
    fn from(verb: RunVerb) -> String {
        verb.name().to_owned()
    }
}

/// What wrote the Run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// `latebound`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What was done about idle states while measuring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CStateControl {
    /// Nothing: the system's own behaviour was measured.
    Untouched,
    /// `/dev/cpu_dma_latency` was held at this value.
    DmaLatency(Nanos),
}

/// How wake-ups were measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureSettings {
    /// CPUs with a measuring thread each.
    pub cpus: CpuSet,
    /// The threads' policy.
    pub policy: Policy,
    /// Their real-time priority; 0 where the policy has none.
    pub priority: u32,
    /// The period.
    pub period: Nanos,
    /// Between the threads' first expiries.
    pub offset: Nanos,
    /// What was done about idle states.
    pub c_states: CStateControl,
    /// How long a block of [`crate::BlockMaxima`] is.
    pub block: Nanos,
    /// The threads' timer slack, where it was set; the kernel applies it to fair policies only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_slack: Option<Nanos>,
}

/// A load that ran beside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// The built-in load's name, or `command`.
    pub name: String,
    /// Its parameters as they were given; of a command its name, and how many arguments were not kept, or the whole command line with
    /// `--keep-arguments`.
    pub arguments: String,
    /// Units of work done (messages, forks, bytes), where it counts them.
    pub done: Option<u64>,
    /// What the unit is.
    pub unit: String,
    /// What failed while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Load {
    /// Its name and its parameters, as they are typed behind `--load`.
    pub fn text(&self) -> String {
        format!("{} {}", self.name, self.arguments).trim().to_owned()
    }

    /// Whether a thread of this name is one of a built-in load. Names are all that a thread which has ended leaves: where the threads
    /// that a load started are known by their ids, those decide.
    pub fn names_thread(comm: &str) -> bool {
        comm.starts_with("load-")
    }
}

/// What was achieved in so much time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// What: `ipc messages`.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// How many.
    pub done: u64,
    /// In how long.
    pub duration: Nanos,
    /// How many were offered, where the load has a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<u64>,
}

/// A Parquet file beside `run.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// The file's name in the Run's folder.
    pub file: String,
    /// What a row is.
    pub description: String,
    /// How many rows it has.
    pub rows: u64,
}

/// The record of one measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// [`RUN_SCHEMA`].
    pub schema: String,
    /// What wrote it.
    pub tool: Tool,
    /// Which verb.
    #[schemars(with = "String")]
    pub verb: RunVerb,
    /// The command line, word by word; without what follows `--`, unless `--keep-arguments` was given.
    pub command: Vec<String>,
    /// How far it got.
    pub state: RunState,
    /// Wall-clock time of the start (RFC 3339).
    pub started_at: String,
    /// `CLOCK_MONOTONIC` at the start, the zero of every time in the report.
    pub started_monotonic: Nanos,
    /// How long it was meant to take.
    pub planned: Option<Nanos>,
    /// How long it took so far.
    pub duration: Nanos,
    /// The system.
    pub system: SystemSnapshot,
    /// What this system can show.
    pub evidence: Vec<EvidenceLevel>,
    /// How wake-ups were measured, where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<MeasureSettings>,
    /// How another tool measured, where a Run was made of its results: names of settings (`period`, `policy`, `priority`,
    /// `message size`, `rate`) with their values and units, as text. Two Runs whose settings differ here are not alike.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Loads that ran beside.
    #[serde(default)]
    pub loads: Vec<Load>,
    /// Distributions.
    #[serde(default)]
    pub series: Vec<Series>,
    /// The worst activations, explained, worst first.
    #[serde(default)]
    pub worst: Vec<Explanation>,
    /// The worst activation of each series whose requests are seen one by one, worst first: who asked, where, and who ran it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst_of_series: Vec<Activation>,
    /// How late threads can get, where the events for that were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// What `doctor` found.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// How many system management interrupts came during the Run, by the processor's counter; `None` where it has none or it could
    /// not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_management_interrupts: Option<u32>,
    /// The groups with a CPU quota that the watched threads are in, with what happened during the Run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<CpuQuota>,
    /// The threads whose jobs were followed, or were to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<ThreadJobs>,
    /// What was done where a thread was late, where something was to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_late: Option<OnLate>,
    /// Of a Run that holds a saved stretch of time: which one. Its events are in `events.parquet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stretch: Option<Stretch>,
    /// Who made the threads of which group late, by what `worst` explains; most time first. Empty where no group is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blame: Vec<GroupBlame>,
    /// Work done beside the latencies.
    #[serde(default)]
    pub throughput: Vec<Throughput>,
    /// What was lost, over all series.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// What could not be had, and why.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// Parquet files beside this one.
    #[serde(default)]
    pub tables: Vec<Table>,
}

impl Run {
    /// A Run of which nothing is known but who writes it: it is [running](RunState::Running), has no time, no system and no results.
    pub fn new(verb: RunVerb, tool: impl Into<String>, version: impl Into<String>) -> Run {
        Run {
            schema: RUN_SCHEMA.to_owned(),
            tool: Tool { name: tool.into(), version: version.into() },
            verb,
            command: Vec::new(),
            state: RunState::Running,
            started_at: String::new(),
            started_monotonic: Nanos::ZERO,
            planned: None,
            duration: Nanos::ZERO,
            system: SystemSnapshot::default(),
            evidence: Vec::new(),
            measure: None,
            settings: BTreeMap::new(),
            loads: Vec::new(),
            series: Vec::new(),
            worst: Vec::new(),
            worst_of_series: Vec::new(),
            bound: None,
            findings: Vec::new(),
            system_management_interrupts: None,
            quotas: Vec::new(),
            jobs: Vec::new(),
            on_late: None,
            stretch: None,
            blame: Vec::new(),
            throughput: Vec::new(),
            losses: Vec::new(),
            missing: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Whether it holds anything that [`Run::remove_detail`] removes.
    pub fn has_detail(&self) -> bool {
        !(self.worst.is_empty() && self.worst_of_series.is_empty() && self.tables.is_empty())
    }

    /// Removes what does not add up: single activations with their causes, spans and stacks, and the names of the files beside the record.
    /// `losses` says how many activations `place` removed, `missing` says why and what to do against it.
    pub fn remove_detail(&mut self, place: &str, why: &str, remedy: &str) {
        let activations = self.worst.len() + self.worst_of_series.len();
        (self.worst, self.worst_of_series, self.tables) = Default::default();
        let (kind, place) = (LossKind::SampleDropped, place.to_owned());
        self.losses.push(Loss { kind, place, count: Some(activations as u64) });
        let (kind, what) = (MissingKind::Explanations, "single activations");
        let why = format!("the worst activations ({activations}) were removed: {why}");
        self.missing.push(Missing::new(kind, what, why, remedy));
    }

    /// The published JSON Schema of `run.json`.
    pub fn json_schema() -> serde_json::Value {
        let mut schema = schemars::schema_for!(Run).to_value();
        if let Some(object) = schema.as_object_mut() {
            object.insert("title".into(), "latebound Run".into());
            object.insert("$id".into(), RUN_SCHEMA.into());
        }
        schema
    }
}
