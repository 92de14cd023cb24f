// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same job on several kernels, several times: a folder of Runs and a table.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use latebound_model::{Emulation, Evidence, Histogram, Mechanism, Nanos, PreemptionModel, Run};
use schemars::JsonSchema;
use serde::Serialize;

use crate::context::Lab;
use crate::error::LabError;
use crate::guest::{self, Job};
use crate::kernel::{self, Kernel};
use crate::machine::Clock;
use crate::metric;
use crate::name::KernelName;

/// The file that holds the table, in the folder of the matrix.
pub const MATRIX_FILE: &str = "matrix.json";

/// What a matrix is made of.
#[derive(Clone, Debug)]
pub struct MatrixPlan {
    /// The kernels.
    pub kernels: Vec<KernelName>,
    /// How often each is run.
    pub runs: u32,
    /// How many machines at once. More than one only by instructions: by the host's clock they would measure each other.
    pub jobs: usize,
    /// What runs.
    pub job: Job,
}

/// One run of one kernel.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Cell {
    /// The kernel's name.
    pub kernel: String,
    /// Which run, from 1.
    pub run: u32,
    /// The folder of the Run, below the folder of the matrix.
    pub folder: Option<PathBuf>,
    /// The median of its wake-up latencies.
    pub p50: Option<Nanos>,
    /// 99 %.
    pub p99: Option<Nanos>,
    /// 99.9 %.
    pub p99_9: Option<Nanos>,
    /// The maximum.
    pub max: Option<Nanos>,
    /// Why there is no Run.
    pub error: Option<String>,
}

/// All runs of one kernel.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Row {
    /// The kernel's name.
    pub kernel: String,
    /// What `uname -r` said in the guest.
    pub release: Option<String>,
    /// The preemption model, as the guest reports it.
    pub preemption: Option<PreemptionModel>,
    /// The strongest evidence that the guest had.
    pub evidence: Option<Evidence>,
    /// How many runs gave a Run.
    pub runs: u32,
    /// How many did not.
    pub failed: u32,
    /// Wake-ups in all runs together.
    pub count: u64,
    /// Latencies that were lost, in all runs together; `None` where not even that is known.
    pub lost: Option<u64>,
    /// Their median.
    pub p50: Option<Nanos>,
    /// 99 %.
    pub p99: Option<Nanos>,
    /// 99.9 %.
    pub p99_9: Option<Nanos>,
    /// The maximum of all runs.
    pub max: Option<Nanos>,
    /// The minimum of the runs' maximum: with `max`, how far the worst case varies from run to run.
    pub least_max: Option<Nanos>,
    /// The latencies of each run, to draw.
    #[serde(skip)]
    pub latencies: Vec<Histogram>,
}

/// A finished matrix.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Matrix {
    /// `latebound.matrix/1`.
    pub schema: &'static str,
    /// The clock of the machines: emulated times compare with each other only.
    pub clock: String,
    /// How the machines' times can be believed, as their Runs say; empty where a processor ran them.
    pub emulation: Vec<Emulation>,
    /// One row a kernel, in the order asked for.
    pub rows: Vec<Row>,
    /// Every run, in the order in which they were made.
    pub cells: Vec<Cell>,
}

/// Runs a matrix. One run that fails is on record and does not end the others.
///
/// The kernels take turns, so that what changes on the host over the time falls on all of them alike.
pub fn matrix(lab: &Lab<'_>, plan: &MatrixPlan, folder: &Path) -> Result<Matrix, LabError> {
    if plan.kernels.is_empty() || plan.runs == 0 || plan.jobs == 0 {
        return Err(LabError::Machine("a matrix needs at least one kernel, one run and one job".to_owned()));
    }
    if plan.jobs > 1 && plan.job.machine.clock == Clock::Host {
        return Err(LabError::Machine(format!(
            "--jobs {}: machines on the host's clock would measure each other; add --clock instructions --cpus 1, or leave --jobs out",
            plan.jobs
        )));
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
            if !empty {
                return Err(LabError::unexpected(
                    folder.display().to_string(),
                    "is there already and not empty; give --output another name",
                ));
            }
        }
        result => result.map_err(LabError::io("make the folder", folder))?,
    }
    let kernels = plan.kernels.iter().map(|name| kernel::obtain(lab, name)).collect::<Result<Vec<_>, _>>()?;
    for kernel in &kernels {
        let place = folder.join(kernel.name.file_name());
        fs::create_dir_all(&place).map_err(LabError::io("make the folder", &place))?;
    }
    let order: Vec<(u32, &Kernel)> =
        (1..=plan.runs).flat_map(|run| kernels.iter().map(move |kernel| (run, kernel))).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Cell, Option<Run>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.min(order.len()) {
            scope.spawn(|| {
                while let Some((at, (run, kernel))) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    order.get(at).map(|entry| (at, *entry))
                } {
                    if lab.stopped() {
                        return;
                    }
                    lab.note(&format!("run {run} of {} on {}", plan.runs, kernel.name));
                    let (cell, record) = one(lab, plan, kernel, run, folder);
                    if let Some(error) = &cell.error {
                        lab.note(&format!("run {run} on {} failed: {error}", kernel.name));
                    }
                    if let Ok(mut done) = done.lock() {
                        done.push((at, cell, record));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(at, ..)| *at);
    let rows = kernels
        .iter()
        .map(|kernel| {
            let name = kernel.name.to_string();
            let mine: Vec<(&Cell, Option<&Run>)> = done
                .iter()
                .filter(|(_, cell, _)| cell.kernel == name)
                .map(|(_, cell, run)| (cell, run.as_ref()))
                .collect();
            row(name, &mine)
        })
        .collect();
    let mut emulation: Vec<Emulation> = Vec::new();
    for way in done.iter().filter_map(|(.., run)| run.as_ref()?.system.emulation.as_ref()) {
        if !emulation.contains(way) {
            emulation.push(way.clone());
        }
    }
    let matrix = Matrix {
        schema: "latebound.matrix/1",
        clock: plan.job.machine.clock.to_string(),
        emulation,
        rows,
        cells: done.into_iter().map(|(_, cell, _)| cell).collect(),
    };
    let file = folder.join(MATRIX_FILE);
    let text = serde_json::to_vec_pretty(&matrix)
        .map_err(|error| LabError::unexpected(file.display().to_string(), error.to_string()))?;
    latebound_files::write(&file, text).map_err(LabError::io("write", &file))?;
    if lab.stopped() { Err(LabError::Stopped) } else { Ok(matrix) }
}

fn one(lab: &Lab<'_>, plan: &MatrixPlan, kernel: &Kernel, run: u32, folder: &Path) -> (Cell, Option<Run>) {
    let below = Path::new(&kernel.name.file_name()).join(format!("{run}.run"));
    let mut cell = Cell { kernel: kernel.name.to_string(), run, ..Cell::default() };
    let result = guest::run(lab, kernel, &plan.job, &folder.join(&below), false).map_err(LabError::from);
    let read = result.and_then(|outcome| match outcome.run {
        Some(place) => Ok(latebound_store::read_run(place)?),
        None => Err(LabError::Machine(format!("it ended with status {} and without a Run", outcome.status))),
    });
    match read {
        Ok(record) => {
            let latency = metric::latency(&record, Mechanism::TimerWakeup);
            (cell.p50, cell.p99) = (latency.quantile(0.5), latency.quantile(0.99));
            (cell.p99_9, cell.max) = (latency.quantile(0.999), latency.max());
            cell.folder = Some(below);
            (cell, Some(record))
        }
        Err(error) => {
            cell.error = Some(error.to_string());
            (cell, None)
        }
    }
}

/// Makes a kernel's row of its runs.
fn row(kernel: String, runs: &[(&Cell, Option<&Run>)]) -> Row {
    let records: Vec<&Run> = runs.iter().filter_map(|(_, run)| *run).collect();
    let latencies: Vec<Histogram> =
        records.iter().map(|run| metric::latency(run, Mechanism::TimerWakeup)).collect();
    let mut all = Histogram::new();
    latencies.iter().for_each(|run| all.merge(run));
    let losses = records.iter().flat_map(|run| metric::losses(run, Mechanism::TimerWakeup));
    let evidence =
        |run: &&Run| run.evidence.iter().filter(|level| level.available).map(|level| level.evidence).max();
    Row {
        kernel,
        release: records.first().and_then(|run| run.system.kernel_release.clone()),
        preemption: records.first().and_then(|run| run.system.preemption),
        evidence: records.iter().filter_map(evidence).min(),
        runs: u32::try_from(records.len()).unwrap_or(u32::MAX),
        failed: u32::try_from(runs.len() - records.len()).unwrap_or(u32::MAX),
        count: all.count(),
        lost: losses.map(|loss| loss.count).sum(),
        p50: all.quantile(0.5),
        p99: all.quantile(0.99),
        p99_9: all.quantile(0.999),
        max: all.max(),
        least_max: runs.iter().filter_map(|(cell, _)| cell.max).min(),
        latencies,
    }
}

impl Matrix {
    /// The table as text, one line a kernel.
    pub fn table(&self) -> String {
        let head = [
            "kernel",
            "preemption",
            "evidence",
            "runs",
            "wake-ups",
            "p50",
            "p99",
            "p99.9",
            "max",
            "lowest max",
        ];
        let time = |value: Option<Nanos>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let word = |value: Option<serde_json::Value>| {
            value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_else(|| "-".to_owned())
        };
        let mut lines: Vec<Vec<String>> = vec![head.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let runs = match row.failed {
                0 => row.runs.to_string(),
                failed => format!("{} ({failed} failed)", row.runs),
            };
            lines.push(vec![
                row.kernel.clone(),
                word(row.preemption.and_then(|model| serde_json::to_value(model).ok())),
                row.evidence.map_or_else(|| "-".to_owned(), |evidence| evidence.name().to_owned()),
                runs,
                row.count.to_string(),
                time(row.p50),
                time(row.p99),
                time(row.p99_9),
                time(row.max),
                time(row.least_max),
            ]);
        }
        let widths: Vec<usize> =
            (0..head.len()).map(|at| lines.iter().map(|line| line[at].len()).max().unwrap_or(0)).collect();
        let mut text = String::new();
        for line in &lines {
            let cells: Vec<String> = line
                .iter()
                .enumerate()
                .map(|(at, cell)| {
                    if at < 3 {
                        format!("{cell:<w$}", w = widths[at])
                    } else {
                        format!("{cell:>w$}", w = widths[at])
                    }
                })
                .collect();
            text += cells.join("  ").trim_end();
            text.push('\n');
        }
        text + &format!(
            "\nIn machines on the clock \"{}\": to compare with each other, not with hardware.\n",
            self.clock
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_kernel_and_says_that_times_are_emulated() {
        let row = |kernel: &str, max| Row {
            kernel: kernel.to_owned(),
            preemption: Some(PreemptionModel::Full),
            evidence: Some(Evidence::Events),
            runs: 4,
            failed: 1,
            count: 12_000,
            p50: Some(Nanos(30_000)),
            max,
            ..Row::default()
        };
        let matrix = Matrix {
            schema: "latebound.matrix/1",
            clock: "instructions".to_owned(),
            emulation: Vec::new(),
            rows: vec![row("debian:6.12@full", Some(Nanos(1_500_000))), row("traced:6.12", None)],
            cells: Vec::new(),
        };
        assert_eq!(
            matrix.table(),
            "\
kernel            preemption  evidence          runs  wake-ups      p50  p99  p99.9      max  lowest max
debian:6.12@full  full        events    4 (1 failed)     12000  30.0 us    -      -  1.50 ms           -
traced:6.12       full        events    4 (1 failed)     12000  30.0 us    -      -        -           -

In machines on the clock \"instructions\": to compare with each other, not with hardware.
"
        );
    }
}
