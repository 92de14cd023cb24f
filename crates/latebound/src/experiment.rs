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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let systems = names(["debian:6.12@none", "debian:6.12-rt"]);
        let workloads = names(["tcp:size=14+cpu:threads=2", "sqlite"]);
        let times = (Nanos::from_secs(1), Nanos::from_micros(997));
        Plan::new((systems, workloads), 2, times, None).unwrap()
    }

    fn cells(plan: &Plan) -> Vec<Cell> {
        plan.cells(Path::new("models")).collect()
    }

    #[test]
    fn systems_take_turns_and_every_run_has_a_place_of_its_own() {
        let cells = cells(&plan());
        let order: Vec<(u32, usize, usize)> =
            cells.iter().map(|cell| (cell.run, cell.workload, cell.system)).collect();
        assert_eq!(order[..5], [(1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1), (2, 0, 0)]);
        let places: BTreeSet<&PathBuf> = cells.iter().map(|cell| &cell.place).collect();
        assert_eq!(places.len(), 8);
        assert!(cells[0].place.ends_with("tcp-size-14-cpu-threads-2/debian-6.12-none/1.run"));
    }

    #[test]
    fn the_folders_of_a_name_of_dots_are_not_the_folders_above() {
        let systems = [".", "..", "../linux"].map(str::to_owned).to_vec();
        let times = (Nanos::from_secs(1), Nanos::from_micros(997));
        let plan = Plan::new((systems, vec!["ipc".to_owned()]), 1, times, None).unwrap();
        let places: Vec<PathBuf> = cells(&plan).into_iter().map(|cell| cell.place).collect();
        let expected = ["-", "--", "..-linux"].map(|name| PathBuf::from(format!("models/ipc/{name}/1.run")));
        assert_eq!(places, expected);
    }

    #[test]
    fn a_machine_runs_every_workload_that_lacks_a_run_and_begins_with_another_each_time() {
        let plan = plan();
        let mut cells = cells(&plan);
        cells.retain(|cell| !(cell.run == 2 && cell.system == 1 && cell.workload == 0));
        let boots: Vec<Vec<usize>> =
            plan.boots(&cells).iter().map(|boot| boot.iter().map(|cell| cell.workload).collect()).collect();
        assert_eq!(boots, [vec![1, 0], vec![1, 0], vec![0, 1], vec![1]]);
    }

    #[test]
    fn a_workload_may_be_several_loads() {
        let words = plan().words(0);
        assert_eq!(words[5..], ["--load", "tcp:size=14", "--load", "cpu:threads=2"]);
        assert_eq!(words[..5], ["measure", "--period", "997000ns", "--duration", "1000000000ns"]);
    }

    #[test]
    fn a_plan_that_is_read_back_is_held_to_what_a_new_one_is() {
        let text = serde_json::to_string(&plan()).unwrap();
        assert_eq!(Plan::parse(text.as_bytes()).unwrap(), plan());
        let many: Vec<String> = (0..60_000).map(|name| format!("\"{name}\"")).collect();
        for (from, to, why) in [
            (PLAN_SCHEMA, "latebound.experiment/9", "schema latebound.experiment/9"),
            ("\"sqlite\"", "\"\"", "a workload has no name"),
            ("\"sqlite\"", "\"tcp size=14 cpu threads=2\"", "given twice"),
            (",\"debian:6.12-rt\"", "", "two at least"),
            ("\"tcp:size=14+cpu:threads=2\",\"sqlite\"", "", "no workload"),
            ("\"runs\":2", "\"runs\":4294967295", "4294967295 Runs of each"),
            ("\"runs\":2", "\"runs\":0", "0 Runs of each"),
            ("\"sqlite\"", &many.join(","), "more than 100000 Runs"),
            ("\"period\":997000", "\"period\":0", "--period 0 ns"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = Plan::parse(text.replace(from, to).as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
