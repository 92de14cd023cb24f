// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound tune`. Holds no behaviour.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use latebound_model::Nanos;

/// Show which kernel threads hold up real-time tasks, and let their priority follow
///
/// A real-time task that writes a file waits for a worker that writes it back; one that reads a disk, for the thread of
/// its interrupt. Their fixed priorities are wrong for somebody all the time. `map` shows who waits for whom; `run` lets
/// the priority of each kernel thread follow from the tasks that wait for it; `fit` searches the weights for that.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune map --duration 30s
  latebound tune run --dry-run --duration 1m
  latebound tune config > tune.toml
  latebound tune fit workload.json --loss 5")]
pub(crate) struct TuneArgs {
    #[command(subcommand)]
    pub(crate) command: TuneCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TuneCommand {
    Map(TuneMapArgs),
    Run(TuneRunArgs),
    Fit(TuneFitArgs),
    /// Print the default configuration, with what each value means
    Config,
    /// Print the JSON Schema of the configuration
    Schema,
}

/// Watch who waits for which kernel thread, and show what the policy would make of it
///
/// Changes nothing. Needs BPF. For each kernel thread: the real-time tasks that waited for it and over what, the priority
/// that it runs at and the one that the policy wants, and how often it was ready and did not run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune map
  latebound tune map --duration 1m --format json
  latebound tune map --config tune.toml")]
pub(crate) struct TuneMapArgs {
    /// For how long to watch; until Ctrl-C where not given.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// The configuration; the defaults where not given (`latebound tune config` prints them).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Let the priority of kernel threads follow from the tasks that wait for them
///
/// Each change is written to an undo journal before it is made. All of it is undone at the end, by a watchdog within 100 ms
/// if this process is killed, and at the next start otherwise.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune run --dry-run --duration 1m
  latebound tune run --config tune.toml")]
pub(crate) struct TuneRunArgs {
    /// Say what would be changed, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// For how long; until Ctrl-C where not given.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// The configuration; the defaults where not given (`latebound tune config` prints them).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where the undo journal lies.
    #[arg(long, value_name = "FOLDER", default_value = "/run/latebound")]
    pub(crate) journal: PathBuf,
}

/// Simulate a workload under each policy, and search the best weights for it
///
/// The workload is a JSON file of tasks and kernel threads with what they have to do (docs/tune.md). Where it has recorded
/// response times, the simulation is compared with them first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune fit workload.json
  latebound tune fit workload.json --loss 2.5 --format json")]
pub(crate) struct TuneFitArgs {
    /// The workload.
    #[arg(value_name = "FILE")]
    pub(crate) workload: PathBuf,

    /// By how many per cent any task's worst response may get worse than with the policy off.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) loss: f64,

    /// The most simulations.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) simulations: usize,
}
