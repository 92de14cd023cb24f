// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound lab`: the same verbs, in a virtual machine with any kernel.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use latebound_lab::{
    Accelerator, Architecture, BisectDocument, BisectError, BisectPlan, Clock, Event, Job, Kernel,
    KernelName, KernelsDocument, Lab, LabError, Machine, MatrixPlan, Metric, Origin, Payload, Probe,
};
use latebound_report::html;

use crate::cli::{Format, LabArgs, LabBisectArgs, LabCommand, LabMatrixArgs, LabRunArgs, MachineArgs};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{self, Progress, Stop};

pub(crate) fn run(args: &LabArgs, output: &Output) -> Result<Outcome> {
    // Many guests' results would make no sense one after the other; theirs is the table or the verdict.
    let shows = matches!(args.command, LabCommand::Run(_));
    with_lab(output, &Stop::on_signals()?, shows, |lab| command(lab, args, output))
}

/// A lab whose progress is shown, and its guests' output where that is asked for.
pub(super) fn with_lab<T>(
    output: &Output,
    stop: &Stop,
    shows: bool,
    work: impl FnOnce(&Lab<'_>) -> Result<T>,
) -> Result<T> {
    // A person reads along. Who else reads gets the output of one machine, of that in which the job came to its end.
    let reads_along = std::io::stdout().is_terminal();
    let state = Mutex::new((Progress::new(None), Vec::new(), output.foreign_out(), output.foreign_error()));
    let write = |bytes: &[u8]| {
        let mut stdout = std::io::stdout().lock();
        // Whoever reads may have gone; the guest goes on, its Run is still wanted.
        let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
    };
    let listener = |event: Event<'_>| {
        let Ok(mut state) = state.lock() else { return };
        let (progress, held, foreign_out, foreign_error) = &mut *state;
        match event {
            Event::Progress(text) => progress.show(|| text.to_owned()),
            Event::Note(text) => {
                progress.clear();
                output.note(&format!("latebound: {text}"));
            }
            Event::Stdout(_) if !shows => {}
            Event::Stdout(bytes) if reads_along => {
                progress.clear();
                write(&foreign_out.take(bytes));
            }
            Event::Stdout(bytes) => held.extend_from_slice(bytes),
            Event::StartsAgain => held.clear(),
            Event::Stderr(bytes) => {
                progress.clear();
                let _ = std::io::stderr().write_all(&foreign_error.take(bytes));
            }
        }
    };
    let done = work(&Lab::new(Lab::default_cache()?, &listener, stop.flag()));
    if let Ok((progress, mut held, mut foreign_out, mut foreign_error)) = state.into_inner() {
        held.extend(foreign_out.end());
        let rest = foreign_error.end();
        if !(held.is_empty() && rest.is_empty()) {
            progress.clear();
            write(&held);
            let _ = std::io::stderr().write_all(&rest);
        }
    }
    done
}

fn command(lab: &Lab<'_>, args: &LabArgs, output: &Output) -> Result<Outcome> {
    match &args.command {
        LabCommand::Run(args) => one(lab, args, output),
        LabCommand::Matrix(args) => matrix(lab, args, output),
        LabCommand::Bisect(args) => bisect(lab, args, output),
        LabCommand::Kernels => {
            let kernels = latebound_lab::kernels(lab)?;
            match output.is_json() {
                true => output.document(&KernelsDocument::new(&kernels))?,
                false => output.text(&latebound_lab::kernels_table(&kernels))?,
            }
            Ok(Outcome::Done)
        }
        LabCommand::Build(args) => {
            output.prints("lab build", Some(Format::Human))?;
            for name in &args.kernels {
                let of = args.arch.unwrap_or_else(Architecture::host);
                let kernel = latebound_lab::obtain_for(lab, &name.parse()?, of)?;
                output.text(&format!("{name}: {}", kernel.image.display()))?;
            }
            Ok(Outcome::Done)
        }
    }
}

/// The job that the arguments describe.
pub(super) fn job(machine: &MachineArgs, words: &[String], usual: Clock) -> Result<Job> {
    let clock = machine.clock.unwrap_or(usual);
    let payload = match words.split_first() {
        Some((first, command)) if first == "exec" => {
            if command.is_empty() {
                bail!("exec needs a command; type: latebound lab run --kernel KERNEL -- exec uname -a");
            }
            Payload::Command(command.to_vec())
        }
        _ => Payload::Verb {
            binary: std::env::current_exe().context("cannot find this program's own file")?,
            arguments: words.to_vec(),
        },
    };
    Ok(Job {
        machine: Machine {
            cpus: machine.cpus.unwrap_or(if clock.counts_instructions() { 1 } else { 2 }),
            memory_mib: latebound_lab::parse_bytes(&machine.memory).context("--memory")? >> 20,
            append: machine.append.clone(),
            disk_bytes: machine
                .disk
                .as_deref()
                .map(latebound_lab::parse_bytes)
                .transpose()
                .context("--disk")?,
            net: machine.net,
            clock,
            accelerator: if machine.emulate { Accelerator::Emulation } else { Accelerator::Auto },
        },
        payload,
        timeout: machine.timeout.to_duration(),
        module: machine.module.clone(),
        directory: std::env::current_dir().context("cannot find the current folder")?,
        program: None,
        interrupt: false,
    })
}

fn one(lab: &Lab<'_>, args: &LabRunArgs, output: &Output) -> Result<Outcome> {
    output.prints("lab run (its job does: write --format behind --)", None)?;
    let name: KernelName = args.kernel.parse()?;
    // A row of kernels is not worth waiting for a job that counts for nothing.
    let mut job = Job { interrupt: true, ..job(&args.machine, &args.job, Clock::Host)? };
    let of = args.arch.unwrap_or_else(Architecture::host);
    if !of.is_host() {
        job.program = guest_program(of, args.binary.as_deref(), &job.payload)?;
    } else if args.binary.is_some() {
        bail!(
            "--binary is for a machine of another architecture; one of {of} runs this program, so leave --binary out"
        );
    }
    let place = match &args.output {
        Some(place) => place.clone(),
        None => session::unused_default("lab")?,
    };
    let kernel = latebound_lab::obtain_for(lab, &name, of)?;
    let outcome = latebound_lab::run(lab, &kernel, &job, &place, args.force).map_err(LabError::from)?;
    let by = if outcome.kvm { "KVM" } else { "software emulation" };
    let run = outcome.run.as_ref().map(|run| format!("Run: {}, ", run.display())).unwrap_or_default();
    output.note(&format!(
        "latebound: {run}console: {}; {name} by {by}, clock: {}, {:.1} s to boot, {:.1} s in all",
        outcome.console.display(),
        job.machine.clock,
        outcome.boot.as_secs_f64(),
        outcome.total.as_secs_f64(),
    ));
    match (outcome.status, &job.payload) {
        (0, _) => Ok(Outcome::Done),
        (2, Payload::Verb { .. }) => Ok(Outcome::LimitPassed),
        (status, _) => bail!("the job in the guest ended with status {status}"),
    }
}

/// The static latebound for a machine of another architecture. A command can do without.
fn guest_program(of: Architecture, asked: Option<&Path>, payload: &Payload) -> Result<Option<PathBuf>> {
    if let Some(program) = asked {
        return Ok(Some(program.to_owned()));
    }
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let places = static_places(of, &own);
    if let Some(found) = places.iter().find(|place| place.is_file()) {
        return Ok(Some(found.clone()));
    }
    if matches!(payload, Payload::Command(_)) {
        return Ok(None);
    }
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    bail!(
        "there is no latebound for {of}: neither {}; type in latebound's source: make static ARCH={}, or give the file with --binary",
        places.join(" nor "),
        of.machine()
    )
}

/// Where a static latebound of another architecture lies: beside this program with the architecture in its name, or where the source's
/// `make static` has put it, if this program was built there.
fn static_places(of: Architecture, own: &Path) -> Vec<PathBuf> {
    let machine = of.machine();
    let mut places = vec![own.with_file_name(format!("latebound-{machine}"))];
    // target/release/latebound and target/debug/latebound: the folder above is cargo's.
    if let Some(target) = own.parent().and_then(Path::parent) {
        places.push(target.join(format!("static/{machine}-unknown-linux-gnu/release/latebound")));
    }
    places
}

fn matrix(lab: &Lab<'_>, args: &LabMatrixArgs, output: &Output) -> Result<Outcome> {
    let kernels = args.kernels.iter().map(|name| name.parse()).collect::<Result<Vec<KernelName>, _>>()?;
    let job = job(&args.machine, &args.job, Clock::Host)?;
    let folder = folder_for("matrix", args.output.as_ref())?;
    let plan = MatrixPlan { kernels, runs: args.runs, jobs: args.jobs, job };
    let matrix = latebound_lab::matrix(lab, &plan, &folder)?;
    let shown = pictured(&matrix, &args.job);
    let page = folder.join("matrix.html");
    let write = |path: &Path, text: &str| {
        latebound_files::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&page, &html::matrix_page(&shown))?;
    if let Some(picture) = html::matrix_picture(&shown) {
        write(&folder.join("matrix.svg"), &picture.svg)?;
    }
    match output.is_json() {
        true => output.json(&matrix)?,
        false => output.text(&format!(
            "{}\nRuns: {}\nPicture: {}\n",
            matrix.table(),
            folder.display(),
            page.display()
        ))?,
    }
    match matrix.rows.iter().any(|row| row.failed > 0) {
        true => bail!("some runs failed; the Runs of the others are in {}", folder.display()),
        false => Ok(Outcome::Done),
    }
}

/// The matrix as the report draws it.
fn pictured(matrix: &latebound_lab::Matrix, job: &[String]) -> html::Matrix {
    let kernel = |row: &latebound_lab::Row| html::MatrixKernel {
        name: row.kernel.clone(),
        release: row.release.clone(),
        preemption: row.preemption,
        evidence: row.evidence,
        runs: row.latencies.clone(),
        failed: row.failed,
        lost: row.lost,
    };
    html::Matrix {
        job: job.join(" "),
        emulation: matrix.emulation.clone(),
        kernels: matrix.rows.iter().map(kernel).collect(),
    }
}

/// `latebound-matrix-TIME`, or what was asked for.
pub(super) fn folder_for(what: &str, asked: Option<&PathBuf>) -> Result<PathBuf> {
    match asked {
        Some(folder) => Ok(folder.clone()),
        None => Ok(session::unused_default(what)?.with_extension("")),
    }
}

fn bisect(lab: &Lab<'_>, args: &LabBisectArgs, output: &Output) -> Result<Outcome> {
    let metric: Metric = args.metric.parse()?;
    let job = job(&args.machine, &args.job, Clock::INSTRUCTIONS)?;
    let folder = folder_for("bisect", args.output.as_ref())?;
    std::fs::create_dir(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let plan = BisectPlan { over: args.over, ends: args.ends, repeats: args.repeats };
    let mut runs = 0;
    let mut once = |kernel: &Kernel| {
        runs += 1;
        let place = folder.join(format!("{runs:03}-{}.run", kernel.name.file_name()));
        probe(lab, kernel, &job, &metric, &place)
    };
    let (names, result) = match &args.tree {
        Some(tree) => {
            let commits = latebound_lab::commits(lab, tree, &args.good, &args.bad, args.rt)?;
            let mut built: Option<(usize, Kernel)> = None;
            let result = latebound_lab::bisect(commits.hashes.len(), &plan, |index| {
                if built.as_ref().is_none_or(|(here, _)| *here != index) {
                    built = None;
                    match commits.kernel(lab, index) {
                        Ok(kernel) => built = Some((index, kernel)),
                        // A commit that does not compile is skipped like one that does not boot.
                        Err(error @ LabError::Program { .. }) => return Ok(Probe::Skip(error.to_string())),
                        Err(error) => return Err(error),
                    }
                }
                match &built {
                    Some((_, kernel)) => once(kernel),
                    None => Ok(Probe::Skip("it was not built".to_owned())),
                }
            });
            (commits.hashes.clone(), result)
        }
        None => {
            let row = std::iter::once(&args.good).chain(&args.between).chain(std::iter::once(&args.bad));
            let names = row.map(|name| name.parse()).collect::<Result<Vec<KernelName>, _>>()?;
            if names
                .iter()
                .any(|name| matches!(&name.origin, Origin::Path(path) if path.as_os_str().is_empty()))
            {
                bail!("a kernel's name is empty");
            }
            let kernels =
                names.iter().map(|name| latebound_lab::obtain(lab, name)).collect::<Result<Vec<_>, _>>()?;
            let result = latebound_lab::bisect(kernels.len(), &plan, |index| once(&kernels[index]));
            (names.iter().map(ToString::to_string).collect(), result)
        }
    };
    let verdict = match result {
        Ok(verdict) => verdict,
        Err(BisectError::Run(error)) => return Err(error.into()),
        Err(BisectError::Ends { why, judged }) => {
            output.text(&latebound_lab::judged_text(&names, &judged, args.over))?;
            bail!("{why}, so there is nothing to find between them; look at --metric and --over");
        }
    };
    if output.is_json() {
        output.document(&BisectDocument::new(&names, &metric, args.over, &verdict))?;
    } else {
        output.text(&verdict.text(&names, &metric, args.over))?;
    }
    Ok(Outcome::Done)
}

/// Runs a kernel once and reads the metric.
fn probe(
    lab: &Lab<'_>,
    kernel: &Kernel,
    job: &Job,
    metric: &Metric,
    place: &Path,
) -> Result<Probe, LabError> {
    let run = match latebound_lab::run(lab, kernel, job, place, false) {
        Ok(outcome) => outcome.run,
        Err(failure) if failure.boot_failure => return Ok(Probe::Skip(failure.error.to_string())),
        Err(failure) => return Err(failure.error),
    };
    let run = run.ok_or_else(|| {
        LabError::Machine("the job wrote no Run; bisect needs check, measure, explain or observe".to_owned())
    })?;
    let value = metric.of(&latebound_store::read_run(run)?);
    let value = value.ok_or_else(|| {
        LabError::Machine(format!(
            "the Run has no {metric}, or too few values for it; give the job a longer --duration"
        ))
    })?;
    Ok(Probe::Value(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_program_is_looked_for_beside_this_one_and_where_make_puts_it() {
        let places = static_places(Architecture::Arm64, Path::new("/src/target/release/latebound"));
        assert_eq!(
            places,
            [
                Path::new("/src/target/release/latebound-aarch64"),
                Path::new("/src/target/static/aarch64-unknown-linux-gnu/release/latebound")
            ]
        );
    }
}
