// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan of an experiment, `experiment.json`: which systems run which workloads how often, in which order, and where each Run lies.
//! Pure. What it reads may be somebody else's: a plan that is read is held to all that a new one is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use latebound_model::{MissingKind, Nanos, PreemptionModel, Run, RunState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The plan's name in the folder of the experiment.
pub const PLAN_FILE: &str = "experiment.json";
/// The largest plan in bytes.
pub const MAX_PLAN_BYTES: u64 = 1 << 20;
const PLAN_SCHEMA: &str = "latebound.experiment/1";
/// The most Runs of one system with one workload.
const MOST_RUNS: u32 = 1_000;
/// The most Runs in all: of a second each, more than a day.
const MOST_CELLS: usize = 100_000;

/// Why something is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It is not JSON of a plan's shape.
    #[error("it is no plan")]
    Json(#[from] serde_json::Error),
    /// It is of another schema.
    #[error("it is of schema {0}, and {PLAN_SCHEMA} is read")]
    Schema(String),
    /// A system or a workload is given twice.
    #[error("the {what} {name} is given twice")]
    Twice {
        /// `system` or `workload`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A system or a workload has no name.
    #[error("a {0} has no name")]
    NoName(&'static str),
    /// There are fewer than two systems.
    #[error("one system alone cannot be compared; name two at least")]
    OneSystem,
    /// There is no workload.
    #[error("there is no workload; name one with --load")]
    NoWorkload,
    /// No Run, or too many, of each system with each workload.
    #[error("{0} Runs of each: from 1 to {MOST_RUNS} can be made")]
    Runs(u32),
    /// Too many Runs in all.
    #[error(
        "{systems} systems, {workloads} workloads and {runs} Runs of each are more than {MOST_CELLS} Runs; plan fewer"
    )]
    Cells {
        /// How many systems.
        systems: usize,
        /// How many workloads.
        workloads: usize,
        /// How many Runs of each.
        runs: u32,
    },
    /// A time of nothing.
    #[error("{option} {time} measures nothing; give it more")]
    NoTime {
        /// The option that sets it.
        option: &'static str,
        /// Its value.
        time: Nanos,
    },
}

/// What is to be run, and how.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// `latebound.experiment/1`.
    schema: String,
    /// Kernels of the lab, or models of this machine; the first is the baseline.
    pub systems: Vec<String>,
    /// The loads of each, as `--load` takes them, joined with `+`.
    pub workloads: Vec<String>,
    /// How often each system runs each workload.
    pub runs: u32,
    /// How long a Run measures.
    pub duration: Nanos,
    /// The period of the measuring threads.
    pub period: Nanos,
    /// The machine of the lab; absent where this machine itself is measured.
    pub machine: Option<PlannedMachine>,
}

/// A machine of the lab, as its options are written.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedMachine {
    /// `--clock`.
    pub clock: String,
    /// How many CPUs it has.
    pub cpus: u32,
    /// Its memory.
    pub memory_mib: u64,
    /// What is added to the kernel's command line.
    pub append: Vec<String>,
    /// Whether it is emulated even where it could be virtualised.
    pub emulate: bool,
    /// After so long a machine is given up.
    pub timeout: Nanos,
}

/// One Run of a plan.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Which of the plan's systems.
    pub system: usize,
    /// Which of the plan's workloads.
    pub workload: usize,
    /// From 1 on.
    pub run: u32,
    /// The folder of the Run.
    pub place: PathBuf,
}

impl Plan {
    /// A new plan.
    ///
    /// # Errors
    /// What no plan can be.
    pub fn new(
        (systems, workloads): (Vec<String>, Vec<String>),
        runs: u32,
        (duration, period): (Nanos, Nanos),
        machine: Option<PlannedMachine>,
    ) -> Result<Plan, PlanError> {
        let schema = PLAN_SCHEMA.to_owned();
        Plan { schema, systems, workloads, runs, duration, period, machine }.checked()
    }

    /// A plan as JSON.
    ///
    /// # Errors
    /// What is no plan, and what no plan can be.
    pub fn parse(json: &[u8]) -> Result<Plan, PlanError> {
        let plan: Plan = serde_json::from_slice(json)?;
        if plan.schema != PLAN_SCHEMA {
            return Err(PlanError::Schema(plan.schema));
        }
        plan.checked()
    }

    /// The same with so many Runs of each system with each workload.
    ///
    /// # Errors
    /// More Runs than a plan can have.
    pub fn with_runs(self, runs: u32) -> Result<Plan, PlanError> {
        Plan { runs, ..self }.checked()
    }

    fn checked(self) -> Result<Plan, PlanError> {
        for (what, names) in [("system", &self.systems), ("workload", &self.workloads)] {
            let mut seen = BTreeSet::new();
            if let Some(twice) = names.iter().find(|name| !seen.insert(slug(name))) {
                return Err(PlanError::Twice { what, name: twice.clone() });
            }
            if names.iter().any(String::is_empty) {
                return Err(PlanError::NoName(what));
            }
        }
        if self.systems.len() < 2 {
            return Err(PlanError::OneSystem);
        }
        if self.workloads.is_empty() {
            return Err(PlanError::NoWorkload);
        }
        if self.runs == 0 || self.runs > MOST_RUNS {
            return Err(PlanError::Runs(self.runs));
        }
        let pairs = self.systems.len().saturating_mul(self.workloads.len());
        if pairs.saturating_mul(self.runs as usize) > MOST_CELLS {
            return Err(PlanError::Cells {
                systems: self.systems.len(),
                workloads: self.workloads.len(),
                runs: self.runs,
            });
        }
        for (option, time) in [("--duration", self.duration), ("--period", self.period)] {
            if time == Nanos::ZERO {
                return Err(PlanError::NoTime { option, time });
            }
        }
        Ok(self)
    }

    /// Where a Run lies.
    pub fn place(&self, folder: &Path, workload: usize, system: usize, run: u32) -> PathBuf {
        let (workload, system) = (slug(&self.workloads[workload]), slug(&self.systems[system]));
        folder.join(workload).join(system).join(format!("{run}.run"))
    }

    /// Every Run, in the order in which they are made: by turns, so that what changes over the time falls on all alike.
    pub fn cells<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = Cell> + 'a {
        let each = move |run| {
            (0..self.workloads.len()).flat_map(move |workload| {
                (0..self.systems.len()).map(move |system| Cell {
                    system,
                    workload,
                    run,
                    place: self.place(folder, workload, system, run),
                })
            })
        };
        (1..=self.runs).flat_map(each)
    }

    /// `measure` and its options for a workload.
    pub fn words(&self, workload: usize) -> Vec<String> {
        let mut words: Vec<String> = ["measure", "--period"].map(str::to_owned).to_vec();
        words.extend([
            format!("{}ns", self.period.0),
            "--duration".to_owned(),
            format!("{}ns", self.duration.0),
        ]);
        words
            .extend(loads(&self.workloads[workload]).flat_map(|load| ["--load".to_owned(), load.to_owned()]));
        words
    }

    /// What one machine runs before the next is booted: one Run of each workload that lacks it. Which of them comes first moves on
    /// from boot to boot, so that none is always the one after the boot. In the order in which they are booted.
    pub fn boots<'a>(&self, lacking: &'a [Cell]) -> Vec<Vec<&'a Cell>> {
        let mut boots = BTreeMap::<(u32, usize), Vec<&Cell>>::new();
        for cell in lacking {
            boots.entry((cell.run, cell.system)).or_default().push(cell);
        }
        for ((run, _), boot) in &mut boots {
            let by = *run as usize % boot.len();
            boot.rotate_left(by);
        }
        boots.into_values().collect()
    }

    /// The systems other than this one that lack Runs, in the plan's order.
    pub fn others_lacking(&self, system: usize, lacking: &[Cell]) -> Vec<&str> {
        let lacks = |at: usize| at != system && lacking.iter().any(|cell| cell.system == at);
        let systems = self.systems.iter().enumerate();
        systems.filter(|(at, _)| lacks(*at)).map(|(_, name)| name.as_str()).collect()
    }
}

/// The loads of a workload: `tcp:size=300+cpu:threads=8`.
pub fn loads(workload: &str) -> impl Iterator<Item = &str> {
    workload.split('+').map(str::trim)
}

/// A name for files: never that of the folder itself or the one above.
pub fn slug(name: &str) -> String {
    let only_dots = name.bytes().all(|byte| byte == b'.');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c) || (c == '.' && !only_dots);
    name.chars().map(|c| if plain(c) { c } else { '-' }).collect()
}

/// Whether a Run counts: it ran for its whole time and every load beside it. A load that says nothing at its end may have been gone
/// long before: in a machine by instructions on a busy host, a page of a library that is fetched late takes it virtual seconds.
pub fn is_whole(run: &Run) -> bool {
    let asked = run.command.iter().filter(|word| *word == "--load").count();
    let ran = run.loads.iter().filter(|load| load.error.is_none()).count();
    run.state == RunState::Complete && ran == asked
}

/// Why a Run does not count, in the words of the load that did not run; `None` of one that counts.
pub fn why_not_whole(run: &Run) -> Option<String> {
    if is_whole(run) {
        return None;
    }
    let of_load = run.loads.iter().find_map(|load| load.error.clone());
    let missing = || run.missing.iter().find(|missing| missing.kind == MissingKind::Load);
    let why = of_load.or_else(|| missing().map(|missing| missing.why.clone()));
    Some(why.unwrap_or_else(|| "it ended early".to_owned()))
}

/// How a machine is booted with a model of preemption, by the name that [`model_name`] gives it.
pub fn how_to_boot(model: &str) -> String {
    match model {
        "rt" => "boot a kernel built with CONFIG_PREEMPT_RT".to_owned(),
        model => format!("boot with preempt={model} on the kernel's command line"),
    }
}

/// What the systems of a plan are called: by the models that their Runs report, where these are known and differ. `models` has
/// one for each system.
pub fn names(systems: &[String], models: &[Option<PreemptionModel>]) -> Vec<String> {
    let names: Vec<String> = systems
        .iter()
        .zip(models)
        .map(|(system, model)| model.map_or_else(|| system.clone(), model_name))
        .collect();
    let distinct: BTreeSet<&String> = names.iter().collect();
    if distinct.len() == systems.len() { names } else { systems.to_vec() }
}

/// A model as the kernel's `preempt=` names it.
pub fn model_name(model: PreemptionModel) -> String {
    serde_json::to_value(model).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
