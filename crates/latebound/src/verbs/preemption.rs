// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound compare preemption`: the same work on each preemption model, several times and in turns, in the lab or over the
//! boots of this machine. The plan is in the folder, so that what is lacking can be made later.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use latebound_compare::experiment::{
    self, Cell, MAX_PLAN_BYTES, PLAN_FILE, Plan, PlannedMachine, loads, slug,
};
use latebound_compare::{Side, Tradeoff};
use latebound_lab::{Accelerator, Clock, Job, Kernel, KernelName, Lab, LabError, Machine, Payload};
use latebound_load::LoadSpec;
use latebound_model::{PreemptionModel, Run};
use latebound_report::html::{self, Distributions, TradeoffPage};
use latebound_report::terminal;
use latebound_system::{Facts, Root};

use crate::cli::PreemptionArgs;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::Stop;

/// The seed's pairs: messages within the machine, over TCP and UDP, and something closer to a system.
const WORKLOADS: [&str; 4] = ["ipc", "tcp:size=300", "udp:size=300", "sqlite"];
/// The fewest Runs whose median has a 95 % interval (two halves of Runs on one side: 1 - 2^(1 - 6)).
const RUNS: u32 = 6;

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
        let text = latebound_files::read(&file, MAX_PLAN_BYTES).with_context(|| {
            format!("cannot read {}; name a folder that compare preemption has begun", file.display())
        })?;
        let mut plan = Plan::parse(&text).with_context(|| format!("cannot go on by {}", file.display()))?;
        understood(&plan).with_context(|| format!("cannot go on by {}", file.display()))?;
        if plan.machine.is_none() && args.jobs != 1 {
            bail!(
                "--jobs {} does nothing here: {} was begun with --here, on this machine alone; leave it out",
                args.jobs,
                folder.display()
            );
        }
        if let Some(runs) = args.runs.filter(|runs| *runs != plan.runs) {
            plan = plan.with_runs(runs)?;
            write(&file, serde_json::to_vec_pretty(&plan)?)?;
        }
        return Ok((folder.clone(), plan));
    }
    let workloads = match args.load.as_slice() {
        [] => WORKLOADS.map(str::to_owned).to_vec(),
        given => given.to_vec(),
    };
    let machine = match args.here {
        true => None,
        false => {
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
    let systems = if args.here { args.models.clone() } else { args.kernels.clone() };
    let runs = args.runs.unwrap_or(RUNS);
    let plan = Plan::new((systems, workloads), runs, (args.duration, args.period), machine)?;
    understood(&plan)?;
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

/// Refuses names that mean nothing before anything is begun.
fn understood(plan: &Plan) -> Result<()> {
    for load in plan.workloads.iter().flat_map(|workload| loads(workload)) {
        load.parse::<LoadSpec>()?;
    }
    if let Some(machine) = &plan.machine {
        machine.clock.parse::<Clock>()?;
        for name in &plan.systems {
            name.parse::<KernelName>()?;
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    latebound_files::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// What is not there yet, in the order in which it is made.
fn lacking(folder: &Path, plan: &Plan) -> Vec<Cell> {
    plan.cells(folder).filter(|cell| !is_whole(&cell.place)).collect()
}

fn is_whole(place: &Path) -> bool {
    whole(place).is_some()
}

/// The Run, where it counts.
fn whole(place: &Path) -> Option<Run> {
    latebound_store::read_run(place).ok().filter(experiment::is_whole)
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
    let boots = plan.boots(lacking);
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
            each: boot.iter().map(|cell| (plan.words(cell.workload), cell.place.clone())).collect(),
        },
        timeout: machine.timeout.to_duration(),
        module: None,
        directory: directory.clone(),
        // What an interrupt cuts short is made again by --resume.
        program: None,
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
    if let Some(why) = experiment::why_not_whole(&run) {
        bail!("not the whole load ran: {why}");
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
    let model = experiment::model_name(model);
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
            .args(plan.words(cell.workload))
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
    let others = plan.others_lacking(now, lacking);
    if let Some(next) = others.first() {
        output.note(&format!(
            "latebound: still without Runs: {}; next, {} and go on with --resume",
            others.join(", "),
            experiment::how_to_boot(next)
        ));
    }
    Ok(failed)
}

/// Reads what is there, writes picture, page and table, and prints the table.
fn conclude(folder: &Path, plan: &Plan, output: &Output) -> Result<Tradeoff> {
    let mut tradeoff = Tradeoff::new(names(folder, plan));
    let mut emulation = None;
    for (at, name) in plan.workloads.iter().enumerate() {
        let mut sides = Vec::new();
        for (system, model) in tradeoff.models.iter().enumerate() {
            let mut side = Side::new(model);
            for run in 1..=plan.runs {
                let place = plan.place(folder, at, system, run);
                if let Some(run) = whole(&place) {
                    emulation = emulation.or(run.system.emulation.clone());
                    side.add(&run, &place.strip_prefix(folder).unwrap_or(&place).display().to_string());
                }
            }
            sides.push(side);
        }
        if let Some((found, sides)) = tradeoff.add(name, sides) {
            let distributions = Distributions::common(&sides.iter().collect::<Vec<_>>());
            let page = html::compare_page(&found.comparison, &distributions);
            write(&folder.join(slug(name)).join("compare.html"), page)?;
        }
    }
    if tradeoff.workloads.is_empty() {
        output.note(&format!(
            "latebound: nothing can be compared yet: no workload has Runs of two models in {}",
            folder.display()
        ));
        return Ok(tradeoff);
    }
    let page = TradeoffPage::new(&tradeoff, plan, emulation.as_ref());
    write(&folder.join("preemption.json"), serde_json::to_vec_pretty(&tradeoff)?)?;
    write(&folder.join("preemption.html"), html::tradeoff_page(&page))?;
    if let Some(picture) = html::tradeoff_picture(&page) {
        write(&folder.join("preemption.svg"), picture.svg)?;
    }
    if let Some(picture) = html::by_size_picture(&page) {
        write(&folder.join("preemption-sizes.svg"), picture.svg)?;
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

/// What the systems are called, by the first Run of each that can be read.
fn names(folder: &Path, plan: &Plan) -> Vec<String> {
    let model = |system: usize| -> Option<PreemptionModel> {
        let mut places = (0..plan.workloads.len())
            .flat_map(|at| (1..=plan.runs).map(move |run| plan.place(folder, at, system, run)));
        places.find_map(|place| latebound_store::read_run(place).ok())?.system.preemption
    };
    let models: Vec<Option<PreemptionModel>> = (0..plan.systems.len()).map(model).collect();
    experiment::names(&plan.systems, &models)
}
