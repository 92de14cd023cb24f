// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound compare preemption`: the same work on each preemption model, several times and in turns, in the lab or over the
//! boots of this machine. Owns the plan, which is in the folder, so that what is lacking can be made later.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use latebound_compare::{Options, Side, TRADEOFF_SCHEMA, Tradeoff, workload};
use latebound_lab::{Accelerator, Clock, Job, Kernel, KernelName, Lab, LabError, Machine, Payload};
use latebound_measure::LoadSpec;
use latebound_model::{Nanos, PreemptionModel, Run, RunState};
use latebound_report::html::{self, TradeoffPage};
use latebound_report::terminal;
use latebound_system::{Facts, Root};
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::cli::PreemptionArgs;
use crate::output::Output;
use crate::session::Stop;

/// The plan, in the folder of the experiment.
const PLAN_FILE: &str = "experiment.json";
const PLAN_SCHEMA: &str = "latebound.experiment/1";
/// The seed's pairs: messages within the machine, over TCP and UDP, and something closer to a system.
const WORKLOADS: [&str; 4] = ["ipc", "tcp:size=300", "udp:size=300", "sqlite"];
/// The fewest Runs whose median has a 95 % interval (two halves of Runs on one side: 1 - 2^(1 - 6)).
const RUNS: u32 = 6;
/// Any difference at all is called in at most this share of comparisons of a system with itself; smaller ones than the margin do
/// not matter.
const OPTIONS: Options = Options { level: 0.05, margin: 0.05, least_effect: 0.01, seed: 1 };

/// What is to be run, and how.
#[derive(Debug, Serialize, Deserialize)]
struct Plan {
    schema: String,
    /// Kernels of the lab, or models of this machine; the first is the baseline.
    systems: Vec<String>,
    workloads: Vec<String>,
    runs: u32,
    duration: Nanos,
    period: Nanos,
    /// The machine of the lab; absent where this machine itself is measured.
    machine: Option<PlannedMachine>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PlannedMachine {
    clock: String,
    cpus: u32,
    memory_mib: u64,
    append: Vec<String>,
    emulate: bool,
    timeout: Nanos,
}

/// One Run that is lacking.
#[derive(Clone, Debug)]
struct Cell {
    system: usize,
    workload: usize,
    run: u32,
    place: PathBuf,
}

pub(crate) fn run(args: &PreemptionArgs, output: &Output) -> Result<Outcome> {
    let stop = Stop::on_signals()?;
    let (folder, plan) = plan(args)?;
    let lacking = lacking(&folder, &plan);
    let failed = match &plan.machine {
        Some(machine) => in_lab(args, (&folder, &plan, machine), &lacking, &stop, output)?,
        None => here(&plan, &lacking, &stop, output)?,
    };
    let tradeoff = conclude(&folder, &plan, output)?;
    if output.is_json() {
        output.json(&tradeoff)?;
    }
    if let Some(error) = failed.first() {
        bail!(
            "{} of {} Runs failed, the first: {error}; go on with: latebound compare preemption --resume {}",
            failed.len(),
            lacking.len(),
            folder.display()
        );
    }
    Ok(Outcome::Done)
}

/// The folder and its plan: a new one, or the one that is there.
fn plan(args: &PreemptionArgs) -> Result<(PathBuf, Plan)> {
    if let Some(folder) = &args.resume {
        let file = folder.join(PLAN_FILE);
        let text = latebound_files::read(&file, crate::session::MAX_DOCUMENT_BYTES).with_context(|| {
            format!("cannot read {}; name a folder that compare preemption has begun", file.display())
        })?;
        let mut plan: Plan =
            serde_json::from_slice(&text).with_context(|| format!("{} is no plan", file.display()))?;
        if plan.schema != PLAN_SCHEMA {
            bail!("{} is of schema {}, and {PLAN_SCHEMA} is read", file.display(), plan.schema);
        }
        if plan.machine.is_none() && args.jobs != 1 {
            bail!(
                "--jobs {} does nothing here: {} was begun with --here, on this machine alone; leave it out",
                args.jobs,
                folder.display()
            );
        }
        if let Some(runs) = args.runs.filter(|runs| *runs != plan.runs) {
            plan.runs = runs;
            write(&file, serde_json::to_vec_pretty(&plan)?)?;
        }
        return Ok((folder.clone(), plan));
    }
    let workloads = match args.load.as_slice() {
        [] => WORKLOADS.map(str::to_owned).to_vec(),
        given => given.to_vec(),
    };
    for load in workloads.iter().flat_map(|workload| loads(workload)) {
        load.parse::<LoadSpec>()?;
    }
    let machine = match args.here {
        true => None,
        false => {
            for name in &args.kernels {
                name.parse::<KernelName>()?;
            }
            let machine = &args.machine;
            for (option, is_given) in [
                ("--disk", machine.disk.is_some()),
                ("--net", machine.net > 0),
                ("--module", machine.module.is_some()),
            ] {
                if is_given {
                    bail!(
                        "{option} does nothing here: no workload uses it; leave it out, or measure with: latebound lab matrix {option} …"
                    );
                }
            }
            let job = super::lab::job(&args.machine, &["measure".to_owned()], Clock::INSTRUCTIONS)?;
            Some(PlannedMachine {
                clock: job.machine.clock.to_string(),
                cpus: job.machine.cpus,
                memory_mib: job.machine.memory_mib,
                append: job.machine.append,
                emulate: args.machine.emulate,
                timeout: args.machine.timeout,
            })
        }
    };
    let plan = Plan {
        schema: PLAN_SCHEMA.to_owned(),
        systems: if args.here { args.models.clone() } else { args.kernels.clone() },
        workloads,
        runs: args.runs.unwrap_or(RUNS),
        duration: args.duration,
        period: args.period,
        machine,
    };
    for (what, names) in [("system", &plan.systems), ("workload", &plan.workloads)] {
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(slug(name))) {
            bail!("the {what} {twice} is given twice");
        }
    }
    if plan.systems.len() < 2 {
        bail!("one system alone cannot be compared; name two at least");
    }
    let folder = super::lab::folder_for("preemption", args.output.as_ref())?;
    fs::create_dir(&folder).with_context(|| {
        format!(
            "cannot make the folder {}; give --output another name, or go on in it with --resume",
            folder.display()
        )
    })?;
    write(&folder.join(PLAN_FILE), serde_json::to_vec_pretty(&plan)?)?;
    Ok((folder, plan))
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    latebound_files::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The loads of a workload: `tcp:size=300+cpu:threads=8`.
fn loads(workload: &str) -> impl Iterator<Item = &str> {
    workload.split('+').map(str::trim)
}

/// A name for files.
fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '-' };
    name.chars().map(plain).collect()
}

fn place(folder: &Path, plan: &Plan, workload: usize, system: usize, run: u32) -> PathBuf {
    folder.join(slug(&plan.workloads[workload])).join(slug(&plan.systems[system])).join(format!("{run}.run"))
}

/// What is not there yet, in the order in which it is made: by turns, so that what changes over the time falls on all alike.
fn lacking(folder: &Path, plan: &Plan) -> Vec<Cell> {
    let mut cells = Vec::new();
    for run in 1..=plan.runs {
        for workload in 0..plan.workloads.len() {
            for system in 0..plan.systems.len() {
                let place = place(folder, plan, workload, system, run);
                if !is_whole(&place) {
                    cells.push(Cell { system, workload, run, place });
                }
            }
        }
    }
    cells
}

fn is_whole(place: &Path) -> bool {
    whole(place).is_some()
}

/// The Run, where it ran for its whole time and every load beside it. A load that says nothing at its end may have been gone long
/// before: in a machine by instructions on a busy host, a page of a library that is fetched late takes it virtual seconds.
fn whole(place: &Path) -> Option<Run> {
    let run = latebound_store::read_run(place).ok()?;
    let asked = run.command.iter().filter(|word| *word == "--load").count();
    let ran = run.loads.iter().filter(|load| load.error.is_none()).count();
    (run.state == RunState::Complete && ran == asked).then_some(run)
}

/// `measure` and its options for a workload.
fn words(plan: &Plan, workload: usize) -> Vec<String> {
    let mut words: Vec<String> = ["measure", "--period"].map(str::to_owned).to_vec();
    words.extend([format!("{}ns", plan.period.0), "--duration".to_owned(), format!("{}ns", plan.duration.0)]);
    words.extend(loads(&plan.workloads[workload]).flat_map(|load| ["--load".to_owned(), load.to_owned()]));
    words
}

/// Makes what is lacking in virtual machines; what failed, in words.
fn in_lab(
    args: &PreemptionArgs,
    (folder, plan, machine): (&Path, &Plan, &PlannedMachine),
    lacking: &[Cell],
    stop: &Stop,
    output: &Output,
) -> Result<Vec<String>> {
    let clock: Clock = machine.clock.parse()?;
    if args.jobs == 0 || (args.jobs > 1 && clock == Clock::Host) {
        bail!(
            "--jobs {}: machines on the host's clock would measure each other; use --clock instructions, or leave --jobs out",
            args.jobs
        );
    }
    let binary = std::env::current_exe().context("cannot find this program's own file")?;
    let directory = std::env::current_dir().context("cannot find the current folder")?;
    let boots = boots(plan, lacking);
    let job = |boot: &[&Cell]| Job {
        machine: Machine {
            cpus: machine.cpus,
            memory_mib: machine.memory_mib,
            append: machine.append.clone(),
            disk_bytes: None,
            net: 0,
            clock,
            accelerator: if machine.emulate { Accelerator::Emulation } else { Accelerator::Auto },
        },
        payload: Payload::Verbs {
            binary: binary.clone(),
            each: boot.iter().map(|cell| (words(plan, cell.workload), cell.place.clone())).collect(),
        },
        timeout: machine.timeout.to_duration(),
        module: None,
        directory: directory.clone(),
        // What an interrupt cuts short is made again by --resume.
        interrupt: false,
    };
    super::lab::with_lab(output, stop, false, |lab| {
        let kernels = plan
            .systems
            .iter()
            .map(|name| latebound_lab::obtain(lab, &name.parse()?))
            .collect::<Result<Vec<Kernel>, LabError>>()?;
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..args.jobs.min(boots.len()) {
                scope.spawn(|| {
                    while let Some(boot) = boots.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let Some(first) = boot.first().filter(|_| !stop.is_set()) else { return };
                        let system = &plan.systems[first.system];
                        let name = format!("boot {} of {} on {system}", first.run, plan.runs);
                        output.note(&format!("latebound: {name}, {} workloads", boot.len()));
                        let console = folder.join("consoles").join(format!("{}-{}", slug(system), first.run));
                        if let Err(error) = one(lab, &kernels[first.system], &job(boot), boot, &console) {
                            output.note(&format!("latebound: {name} failed: {error}"));
                            if let Ok(mut failed) = failed.lock() {
                                failed.push(format!("{name}: {error}"));
                            }
                        }
                    }
                });
            }
        });
        Ok(failed.into_inner().unwrap_or_default())
    })
}

/// What one machine runs before the next is booted: one Run of each workload that lacks it. Which of them comes first moves on
/// from boot to boot, so that none is always the one after the boot.
fn boots<'a>(plan: &Plan, lacking: &'a [Cell]) -> Vec<Vec<&'a Cell>> {
    let mut boots = Vec::new();
    for run in 1..=plan.runs {
        for system in 0..plan.systems.len() {
            let mut boot: Vec<&Cell> =
                lacking.iter().filter(|cell| cell.run == run && cell.system == system).collect();
            if !boot.is_empty() {
                let by = run as usize % boot.len();
                boot.rotate_left(by);
                boots.push(boot);
            }
        }
    }
    boots
}

fn one(lab: &Lab<'_>, kernel: &Kernel, job: &Job, boot: &[&Cell], console: &Path) -> Result<()> {
    for folder in
        boot.iter().map(|cell| &cell.place).chain([&console.to_owned()]).filter_map(|place| place.parent())
    {
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let outcome = latebound_lab::run(lab, kernel, job, console, true).map_err(LabError::from)?;
    for cell in boot {
        not_whole(&cell.place).with_context(|| format!("the job ended with status {}", outcome.status))?;
    }
    Ok(())
}

/// An error that says what is lacking of a Run that was just made, where it does not count.
fn not_whole(place: &Path) -> Result<()> {
    let run = latebound_store::read_run(place)?;
    if !is_whole(place) {
        let of_load = run.loads.iter().find_map(|load| load.error.clone());
        let why =
            of_load.or_else(|| run.missing.iter().find(|m| m.what.contains("load")).map(|m| m.why.clone()));
        bail!("not the whole load ran: {}", why.unwrap_or_else(|| "it ended early".to_owned()));
    }
    Ok(())
}

/// Makes what is lacking of the model that runs now, on this machine.
fn here(plan: &Plan, lacking: &[Cell], stop: &Stop, output: &Output) -> Result<Vec<String>> {
    if lacking.is_empty() {
        // Wherever it is looked at, with whatever kernel.
        return Ok(Vec::new());
    }
    let model = latebound_system::doctor(&Root::live(), &Facts::live()).system.preemption;
    let model = model.context("cannot tell this kernel's preemption model; latebound doctor says why")?;
    let model = name_of(model);
    let now = plan.systems.iter().position(|name| *name == model).with_context(|| {
        format!(
            "this kernel's preemption model is {model}, which is none of {}; boot one of these, or begin another folder and name it with --models",
            plan.systems.join(", ")
        )
    })?;
    let mut failed = Vec::new();
    for cell in lacking.iter().filter(|cell| cell.system == now) {
        if stop.is_set() {
            break;
        }
        let name = format!("run {} of {} with model {model}", cell.run, plan.workloads[cell.workload]);
        output.note(&format!("latebound: {name}"));
        if let Some(folder) = cell.place.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let status = Command::new("/proc/self/exe")
            .args(words(plan, cell.workload))
            .arg("--force")
            .arg("--output")
            .arg(&cell.place)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("cannot start this program again")?;
        if !status.success() {
            failed.push(format!("{name}: {status}"));
        } else if !stop.is_set()
            && let Err(why) = not_whole(&cell.place)
        {
            failed.push(format!("{name}: {why}"));
        }
    }
    let others: Vec<&str> = plan
        .systems
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != now && lacking.iter().any(|cell| cell.system == *at))
        .map(|(_, name)| name.as_str())
        .collect();
    if let Some(next) = others.first() {
        let how = match *next {
            "rt" => "boot a kernel built with CONFIG_PREEMPT_RT".to_owned(),
            next => format!("boot with preempt={next} on the kernel's command line"),
        };
        output.note(&format!(
            "latebound: still without Runs: {}; next, {how} and go on with --resume",
            others.join(", ")
        ));
    }
    Ok(failed)
}

/// The model as the kernel's `preempt=` names it.
fn name_of(model: PreemptionModel) -> String {
    serde_json::to_value(model).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Reads what is there, writes picture, page and table, and prints the table.
fn conclude(folder: &Path, plan: &Plan, output: &Output) -> Result<Tradeoff> {
    let names = names(folder, plan);
    let mut tradeoff =
        Tradeoff { schema: TRADEOFF_SCHEMA.to_owned(), models: names.clone(), workloads: Vec::new() };
    let mut emulated = None;
    for (at, name) in plan.workloads.iter().enumerate() {
        let mut sides = Vec::new();
        for (system, model) in names.iter().enumerate() {
            let mut side = Side::new(model);
            for run in 1..=plan.runs {
                let place = place(folder, plan, at, system, run);
                if let Some(run) = whole(&place) {
                    emulated = emulated.or(run.system.emulation.clone());
                    side.add(&run, &place.strip_prefix(folder).unwrap_or(&place).display().to_string());
                }
            }
            if !side.runs.is_empty() {
                sides.push(side);
            }
        }
        if sides.len() < 2 {
            continue;
        }
        if let Some(found) = workload(name, &sides, &OPTIONS) {
            let page = html::compare_page(
                &found.comparison,
                &super::compare::distributions(&sides.iter().collect::<Vec<_>>()),
            );
            write(&folder.join(slug(name)).join("compare.html"), page)?;
            tradeoff.workloads.push(found);
        }
    }
    if tradeoff.workloads.is_empty() {
        output.note(&format!(
            "latebound: nothing can be compared yet: no workload has Runs of two models in {}",
            folder.display()
        ));
        return Ok(tradeoff);
    }
    let page = TradeoffPage {
        tradeoff: &tradeoff,
        origin: emulated.map(|way| {
            format!(
                "Emulated ({}, {} clock): times compare with each other, never with hardware.",
                way.by, way.clock
            )
        }),
        facts: format!("{} Runs of {} each, probe period {}", plan.runs, plan.duration, plan.period),
        links: plan
            .workloads
            .iter()
            .map(|name| (name.clone(), format!("{}/compare.html", slug(name))))
            .collect(),
    };
    write(&folder.join("preemption.json"), serde_json::to_vec_pretty(&tradeoff)?)?;
    write(&folder.join("preemption.html"), html::tradeoff_page(&page))?;
    if let Some(picture) = html::tradeoff_picture(&page) {
        write(&folder.join("preemption.svg"), picture.svg)?;
    }
    if !output.is_json() {
        output.text(&format!(
            "{}\nRuns: {}\nPicture: {}\n",
            terminal::tradeoff(&tradeoff, &output.style()),
            folder.display(),
            folder.join("preemption.html").display()
        ))?;
    }
    Ok(tradeoff)
}

/// What the systems are called: by the model that their Runs report, where these differ.
fn names(folder: &Path, plan: &Plan) -> Vec<String> {
    let model = |system: usize| -> Option<String> {
        let mut places = (0..plan.workloads.len())
            .flat_map(|at| (1..=plan.runs).map(move |run| place(folder, plan, at, system, run)));
        let run = places.find_map(|place| latebound_store::read_run(place).ok())?;
        Some(name_of(run.system.preemption?))
    };
    let names: Vec<String> = plan
        .systems
        .iter()
        .enumerate()
        .map(|(at, system)| model(at).unwrap_or_else(|| system.clone()))
        .collect();
    let distinct: HashSet<&String> = names.iter().collect();
    if distinct.len() == names.len() { names } else { plan.systems.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            schema: PLAN_SCHEMA.to_owned(),
            systems: vec!["debian:6.12@none".to_owned(), "debian:6.12-rt".to_owned()],
            workloads: vec!["tcp:size=14+cpu:threads=2".to_owned(), "sqlite".to_owned()],
            runs: 2,
            duration: Nanos::from_secs(1),
            period: Nanos::from_micros(997),
            machine: None,
        }
    }

    #[test]
    fn systems_take_turns_and_every_run_has_a_place_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let cells = lacking(folder.path(), &plan());
        let order: Vec<(u32, usize, usize)> =
            cells.iter().map(|cell| (cell.run, cell.workload, cell.system)).collect();
        assert_eq!(order[..5], [(1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1), (2, 0, 0)]);
        let places: HashSet<&PathBuf> = cells.iter().map(|cell| &cell.place).collect();
        assert_eq!(places.len(), 8);
        assert!(cells[0].place.ends_with("tcp-size-14-cpu-threads-2/debian-6.12-none/1.run"));
    }

    #[test]
    fn a_machine_runs_every_workload_that_lacks_a_run_and_begins_with_another_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let (plan, mut cells) = (plan(), lacking(folder.path(), &plan()));
        cells.retain(|cell| !(cell.run == 2 && cell.system == 1 && cell.workload == 0));
        let boots: Vec<Vec<usize>> =
            boots(&plan, &cells).iter().map(|boot| boot.iter().map(|cell| cell.workload).collect()).collect();
        assert_eq!(boots, [vec![1, 0], vec![1, 0], vec![0, 1], vec![1]]);
    }

    #[test]
    fn a_workload_may_be_several_loads() {
        let words = words(&plan(), 0);
        assert_eq!(words[5..], ["--load", "tcp:size=14", "--load", "cpu:threads=2"]);
        assert_eq!(words[..5], ["measure", "--period", "997000ns", "--duration", "1000000000ns"]);
    }
}
