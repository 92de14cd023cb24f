// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads beside a measurement: from the command line to processes, and from their results into the Run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use latebound_load::{LoadProcess, LoadSpec};
use latebound_model::{CpuSet, Load, Missing, MissingKind, Nanos, Run, Series, Summary, Tid};

use crate::cli::LoadChoice;
use crate::session::{Progress, Stop};

/// A load's own clock runs so much longer than the measurement, whose start comes when all loads have begun; it is stopped with
/// the measurement, and its own clock only matters where that fails.
const SLACK: Nanos = Nanos::from_secs(330);

/// For measurements without a planned end: a year, after which even a forgotten load ends.
const OPEN_ENDED: Nanos = Nanos::from_secs(365 * 24 * 3600);

/// Loads that were asked for and do not run yet.
#[derive(Debug)]
pub(crate) struct Loads {
    specs: Vec<LoadSpec>,
    /// How a command's arguments are recorded, where they are not kept.
    command: Option<String>,
}

impl Loads {
    /// Reads the options, before anything is started.
    pub(crate) fn parse(choice: &LoadChoice) -> Result<Loads> {
        let mut specs = choice.load.iter().map(|text| text.parse()).collect::<Result<Vec<LoadSpec>, _>>()?;
        if !choice.command.is_empty() {
            specs.push(LoadSpec::command(choice.command.clone())?);
        }
        let command = (!choice.keep_arguments).then(|| without_arguments(&choice.command)).flatten();
        Ok(Loads { specs, command })
    }

    /// No load.
    pub(crate) fn none() -> Loads {
        Loads { specs: Vec::new(), command: None }
    }

    /// One load, as it is written on the command line.
    pub(crate) fn one(text: &str) -> Result<Loads> {
        Ok(Loads { specs: vec![text.parse()?], command: None })
    }

    /// Each by itself, with what it is called.
    pub(crate) fn each(self) -> impl Iterator<Item = (String, Loads)> {
        let command = self.command;
        self.specs.into_iter().map(move |spec| {
            let name = match (&spec, &command) {
                (LoadSpec::Command { .. }, Some(command)) => command.clone(),
                _ => spec.to_string().replace(", ", ","),
            };
            (name, Loads { specs: vec![spec], command: command.clone() })
        })
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Starts them all, each as a process of its own, and waits until each has all its threads, or has ended, or `stop` is
    /// set. Fails where one takes longer than that may take: what would be measured is a system without all of its load.
    ///
    /// Call it from the main thread: they end with the thread that started them.
    pub(crate) fn start(self, duration: Option<Nanos>, cpus: &CpuSet, stop: &Stop) -> Result<Running> {
        self.start_while(duration, cpus, stop, || Ok(()))
    }

    /// The same, and calls `meanwhile` every few milliseconds until they have begun: for who has rings that fill.
    pub(crate) fn start_while(
        self,
        duration: Option<Nanos>,
        cpus: &CpuSet,
        stop: &Stop,
        mut meanwhile: impl FnMut() -> Result<()>,
    ) -> Result<Running> {
        let duration = duration.map_or(OPEN_ENDED, |duration| duration + SLACK);
        let program = Path::new("/proc/self/exe");
        let processes = self.specs.iter().map(|spec| {
            LoadProcess::spawn(program, spec, duration, cpus)
                .with_context(|| format!("cannot start the load {spec}"))
        });
        let running = Running { processes: processes.collect::<Result<_>>()?, command: self.command };
        let started = Instant::now();
        let mut progress = Progress::new(None);
        while !stop.is_set() && !running.processes.iter().all(LoadProcess::has_begun) {
            ensure!(
                started.elapsed() < BEGINNING,
                "a load has not begun within {} s; give it fewer threads, or this machine less to do",
                BEGINNING.as_secs()
            );
            progress.show(|| "waiting until all loads have begun".to_owned());
            meanwhile()?;
            std::thread::sleep(POLL);
        }
        progress.clear();
        Ok(running)
    }
}

/// Loads that run. Dropping them ends them.
#[derive(Debug)]
pub(crate) struct Running {
    processes: Vec<LoadProcess>,
    /// How a command's arguments are recorded, where they are not kept.
    command: Option<String>,
}

/// How long loads may take to begin: on a busy emulated machine a thread of a hundred takes a second to be made, and a database
/// two minutes.
const BEGINNING: Duration = Duration::from_secs(300);

/// How often the loads are asked whether they have begun.
const POLL: Duration = Duration::from_millis(2);

/// From when a load has all its threads until all of them do what it is for.
const UNDER_WAY: Duration = Duration::from_secs(2);

impl Running {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// The processes that run them.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.processes.iter().filter_map(LoadProcess::pid).collect()
    }

    /// Gives a load that is to leave nothing of a CPU the time to do so.
    pub(crate) fn settle(&self) {
        if !self.is_empty() {
            std::thread::sleep(UNDER_WAY);
        }
    }

    /// Ends them and puts what they did into the Run.
    pub(crate) fn finish(mut self, run: &mut Run) {
        self.processes.iter_mut().for_each(LoadProcess::stop);
        let recorded = |load: Load| match &self.command {
            Some(command) if load.name == LoadSpec::COMMAND => Load { arguments: command.clone(), ..load },
            _ => load,
        };
        for process in self.processes {
            let (name, arguments) = (process.name().to_owned(), process.arguments().to_owned());
            match process.wait() {
                Ok(mut done) => {
                    done.load = recorded(done.load);
                    run.missing.extend(without_load(&done.load));
                    run.loads.push(done.load);
                    run.throughput.extend(done.throughput);
                    done.series.into_iter().for_each(|series| add(run, series));
                }
                // It was killed, or died: that it ran at all is not known.
                Err(error) => {
                    let error = Some(error.to_string());
                    let load = recorded(Load { name, arguments, done: None, unit: String::new(), error });
                    run.missing.extend(without_load(&load));
                    run.loads.push(load);
                }
            }
        }
    }
}

/// The threads of these processes and of all processes that they started, as far as they have not ended.
pub(crate) fn threads_of(processes: &[u32]) -> BTreeSet<Tid> {
    let mut threads = BTreeSet::new();
    let mut left = processes.to_vec();
    while let Some(process) = left.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for task in tasks.flatten() {
            let Some(tid) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if threads.insert(Tid(tid)) {
                // A kernel without CONFIG_PROC_CHILDREN has no such file.
                let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
                left.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            }
        }
    }
    threads
}

/// An error where a load of the Run failed, for the exit status: results under no load are not what was asked for, and they are
/// kept and printed all the same.
pub(crate) fn demand_all(run: &Run) -> Result<()> {
    let failed: Vec<String> = run
        .loads
        .iter()
        .filter_map(|load| Some(format!("the load {} failed: {}", load.name, load.error.as_deref()?)))
        .collect();
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

/// Adds a load's series to the Run, into the one of the same load where it ran twice.
fn add(run: &mut Run, series: Series) {
    match run.series.iter_mut().find(|other| other.id == series.id) {
        Some(same) => {
            same.histogram.merge(&series.histogram);
            same.summary = Summary::of(&same.histogram);
            same.missed += series.missed;
        }
        None => run.series.push(series),
    }
}

/// A command line as it is recorded where its arguments are not kept: they may hold what is nobody else's business.
fn without_arguments(command: &[String]) -> Option<String> {
    match command {
        [] => None,
        [program] => Some(program.clone()),
        [program, arguments @ ..] => Some(format!("{program} ({} arguments not kept)", arguments.len())),
    }
}

/// What a load that failed leaves out. Its figures would be read as figures under load.
fn without_load(load: &Load) -> Option<Missing> {
    load.error.as_ref().map(|error| Missing {
        kind: MissingKind::Load,
        what: format!("the load {} {}", load.name, load.arguments).trim_end().to_owned(),
        why: error.clone(),
        remedy: "mend that and measure again: the figures are those of a system without all of this load"
            .to_owned(),
    })
}

/// The child's side.
pub(crate) fn run_as_load(arguments: &[OsString]) -> Result<()> {
    Ok(latebound_load::load_main(arguments.iter().cloned())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_process_are_its_own_and_those_of_its_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = Tid(std::process::id() as i32);
        let threads = threads_of(&[std::process::id()]);
        let of_child = threads_of(&[child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(threads.contains(&own), "{threads:?}");
        assert_eq!(of_child, BTreeSet::from([Tid(child.id() as i32)]));
        if fs::exists(format!("/proc/{own}/task/{own}/children")).unwrap() {
            assert!(threads.is_superset(&of_child), "{threads:?}");
        }
        assert!(threads_of(&[child.id()]).is_empty());
    }
}
