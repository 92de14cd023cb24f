// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan of an experiment, `experiment.json`: which systems run which workloads how often, in which order, and where each Run lies.
//! Pure. What it reads may be somebody else's: a plan that is read is held to all that a new one is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use latebound_model::Nanos;
use serde::{Deserialize, Serialize};

/// The plan's name in the folder of the experiment.
pub(crate) const PLAN_FILE: &str = "experiment.json";
/// The largest plan in bytes.
pub(crate) const MAX_PLAN_BYTES: u64 = 1 << 20;
const PLAN_SCHEMA: &str = "latebound.experiment/1";
/// The most Runs of one system with one workload.
const MOST_RUNS: u32 = 1_000;
/// The most Runs in all: of a second each, more than a day.
const MOST_CELLS: usize = 100_000;

/// What is to be run, and how.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    schema: String,
    /// Kernels of the lab, or models of this machine; the first is the baseline.
    pub(crate) systems: Vec<String>,
    pub(crate) workloads: Vec<String>,
    /// How often each system runs each workload.
    pub(crate) runs: u32,
    pub(crate) duration: Nanos,
    pub(crate) period: Nanos,
    /// The machine of the lab; absent where this machine itself is measured.
    pub(crate) machine: Option<PlannedMachine>,
}

/// A machine of the lab, as its options are written.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlannedMachine {
    pub(crate) clock: String,
    pub(crate) cpus: u32,
    pub(crate) memory_mib: u64,
    pub(crate) append: Vec<String>,
    pub(crate) emulate: bool,
    pub(crate) timeout: Nanos,
}

/// One Run of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Which of the plan's systems.
    pub(crate) system: usize,
    /// Which of the plan's workloads.
    pub(crate) workload: usize,
    /// From 1 on.
    pub(crate) run: u32,
    pub(crate) place: PathBuf,
}

impl Plan {
    /// A new plan.
    ///
    /// # Errors
    /// What no plan can be.
    pub(crate) fn new(
        (systems, workloads): (Vec<String>, Vec<String>),
        runs: u32,
        (duration, period): (Nanos, Nanos),
        machine: Option<PlannedMachine>,
    ) -> Result<Plan> {
        let schema = PLAN_SCHEMA.to_owned();
        Plan { schema, systems, workloads, runs, duration, period, machine }.checked()
    }

    /// A plan as JSON.
    ///
    /// # Errors
    /// What is no plan, and what no plan can be.
    pub(crate) fn parse(json: &[u8]) -> Result<Plan> {
        let plan: Plan = serde_json::from_slice(json).context("it is no plan")?;
        if plan.schema != PLAN_SCHEMA {
            bail!("it is of schema {}, and {PLAN_SCHEMA} is read", plan.schema);
        }
        plan.checked()
    }

    /// The same with so many Runs of each system with each workload.
    ///
    /// # Errors
    /// More Runs than a plan can have.
    pub(crate) fn with_runs(self, runs: u32) -> Result<Plan> {
        Plan { runs, ..self }.checked()
    }

    fn checked(self) -> Result<Plan> {
        for (what, names) in [("system", &self.systems), ("workload", &self.workloads)] {
            let mut seen = BTreeSet::new();
            if let Some(twice) = names.iter().find(|name| !seen.insert(slug(name))) {
                bail!("the {what} {twice} is given twice");
            }
            if names.iter().any(String::is_empty) {
                bail!("a {what} has no name");
            }
        }
        if self.systems.len() < 2 {
            bail!("one system alone cannot be compared; name two at least");
        }
        if self.workloads.is_empty() {
            bail!("there is no workload; name one with --load");
        }
        if self.runs == 0 || self.runs > MOST_RUNS {
            bail!("{} Runs of each: from 1 to {MOST_RUNS} can be made", self.runs);
        }
        let pairs = self.systems.len().saturating_mul(self.workloads.len());
        if pairs.saturating_mul(self.runs as usize) > MOST_CELLS {
            bail!(
                "{} systems, {} workloads and {} Runs of each are more than {MOST_CELLS} Runs; plan fewer",
                self.systems.len(),
                self.workloads.len(),
                self.runs
            );
        }
        for (option, time) in [("--duration", self.duration), ("--period", self.period)] {
            if time == Nanos::ZERO {
                bail!("{option} {time} measures nothing; give it more");
            }
        }
        Ok(self)
    }

    /// Where a Run lies.
    pub(crate) fn place(&self, folder: &Path, workload: usize, system: usize, run: u32) -> PathBuf {
        let (workload, system) = (slug(&self.workloads[workload]), slug(&self.systems[system]));
        folder.join(workload).join(system).join(format!("{run}.run"))
    }

    /// Every Run, in the order in which they are made: by turns, so that what changes over the time falls on all alike.
    pub(crate) fn cells<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = Cell> + 'a {
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
    pub(crate) fn words(&self, workload: usize) -> Vec<String> {
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
    pub(crate) fn boots<'a>(&self, lacking: &'a [Cell]) -> Vec<Vec<&'a Cell>> {
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
}

/// The loads of a workload: `tcp:size=300+cpu:threads=8`.
pub(crate) fn loads(workload: &str) -> impl Iterator<Item = &str> {
    workload.split('+').map(str::trim)
}

/// A name for files: never that of the folder itself or the one above.
pub(crate) fn slug(name: &str) -> String {
    let only_dots = name.bytes().all(|byte| byte == b'.');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c) || (c == '.' && !only_dots);
    name.chars().map(|c| if plain(c) { c } else { '-' }).collect()
}
