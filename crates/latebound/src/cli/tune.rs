// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound tune`. Holds no behaviour.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use latebound_model::Nanos;
use latebound_system::undo::FOLDER;

/// Show which kernel threads hold up real-time tasks, and let their priority follow
///
/// A real-time task that writes a file waits for a worker that writes it back; one that reads a disk, for the thread of
/// its interrupt. Any fixed priority of such a thread is wrong for some of these tasks. `map` shows who waits for whom; `run` lets
/// the priority of each kernel thread follow from the tasks that wait for it; `fit` searches the weights for that.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune map --duration 30s
  latebound tune run --dry-run --duration 1m
  latebound tune config > tune.toml
  latebound tune prove -- ./my-control-loop
  latebound tune fit workload.json --loss 5")]
pub(crate) struct TuneArgs {
    #[command(subcommand)]
    pub(crate) command: TuneCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TuneCommand {
    Map(TuneMapArgs),
    Run(TuneRunArgs),
    Undo(TuneUndoArgs),
    Prove(TuneProveArgs),
    Show(TuneShowArgs),
    Tasks(TuneTasksArgs),
    Record(TuneRecordArgs),
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
  latebound tune map --duration 1m --html map.html
  latebound tune map --config tune.toml")]
pub(crate) struct TuneMapArgs {
    /// How long to watch [default: until Ctrl-C].
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// The configuration file [default: what `latebound tune config` prints].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Write the map as an HTML page as well; an existing file is replaced.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Let the priority of kernel threads follow from the tasks that wait for them
///
/// Each change is written to an undo journal before it is made. All of it is undone at the end, by a watchdog within 100 ms
/// if this process is killed or hangs, and by `tune undo` or at the next start otherwise. The exit status is 1 where something could not be
/// given back, and a second run beside one with the same journal folder is refused. Where the kernel module latebound_tune is loaded, it raises threads some
/// microseconds after a wait begins; this process then does the rest.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune run --dry-run --duration 1m
  latebound tune run --config tune.toml
  insmod kmod/latebound_tune.ko && latebound tune run --by module")]
pub(crate) struct TuneRunArgs {
    /// Report what would be changed, and change nothing.
    #[arg(long, conflicts_with = "journal")]
    pub(crate) dry_run: bool,

    /// How long to run [default: until Ctrl-C].
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// The configuration file [default: what `latebound tune config` prints].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The policy [default: the configuration's].
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<TunePolicy>,

    /// What raises threads when a wait begins [default: module if it is loaded, else daemon].
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "dry_run")]
    pub(crate) by: Option<RaiseBy>,

    /// The folder of the undo journal.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    pub(crate) journal: PathBuf,

    /// The file of metrics, written every five seconds for node_exporter's textfile collector; its name ends in .prom [default: the
    /// configuration's].
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
}

/// What raises threads, the faster one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RaiseBy {
    /// The kernel module latebound_tune, for disks, work items and page reclaim; this process for all else.
    Module,
    /// This process alone.
    Daemon,
}

/// Undo the changes that a dead tuner left
///
/// A tuner gives every priority back at its end, and its watchdog does where it dies or hangs. Where both were killed at once, their
/// journal holds what is left to undo: this undoes it. A running tuner is left alone. The exit status is 1 where something is not as it
/// was.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune undo
  latebound tune undo --journal /run/mine --format json")]
pub(crate) struct TuneUndoArgs {
    /// The folder of the undo journals.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    pub(crate) journal: PathBuf,
}

/// A policy as it is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TunePolicy {
    /// Nothing is changed.
    Off,
    /// What the configuration gives each class.
    Static,
    /// The highest that waits: equation (1).
    Pip,
    /// The weighted mean of those that wait: equation (2).
    WeightedAverage,
}

/// Run a trial: the same workload under each policy in turns, with the response times compared
///
/// Each turn starts the command anew; the policies take turns, so that what changes on the machine over
/// the time falls on all alike. A response is the time from the end of a sleep (or from when it should have ended) until the next
/// sleep, of the real-time tasks of the command and of all others; the bytes that the disks moved are counted too. The comparison
/// with "off" is that of `latebound compare`, and needs four rounds at least. Under "off" no tuner runs at all, so that its cost is in the
/// comparison.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune prove -- ./my-control-loop
  latebound tune prove --rounds 8 --duration 20s --output trial -- ./my-control-loop
  latebound tune prove --policy off,pip --config tune.toml --format json -- ./my-control-loop > trial.json")]
pub(crate) struct TuneProveArgs {
    /// The policies, the base first; static is added where the configuration gives a class a priority.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["off", "pip", "weighted-average"])]
    pub(crate) policy: Vec<TunePolicy>,

    /// Turns of each policy.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// The measured time of each turn.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,

    /// The time before that in each turn, which is not measured.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) settle: Nanos,

    /// The configuration file [default: what `latebound tune config` prints].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// A new folder for the Run of each turn, prove.json and pictures; one that exists is refused.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// The folder of the undo journal.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    pub(crate) journal: PathBuf,

    /// The workload: a program that runs until it is ended, and its arguments.
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<String>,
}

/// Print or draw the result of `tune prove` again
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune show trial/prove.json
  latebound tune show trial.json --pictures pictures
  latebound tune show a-10ms.json a-100ms.json --pictures pictures")]
pub(crate) struct TuneShowArgs {
    /// Documents of `tune prove`. Of several, the cumulative distributions of each task are drawn together, a picture for each policy.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Write response over time, cumulative distribution and memory as SVG to this folder instead; it is made where it does not exist.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) pictures: Option<PathBuf>,
}

/// Run real-time tasks that write, read and compute: a workload for a trial
///
/// Each task repeats its work, and sleeps for what is left of its period. It is KIND:key=value,… with the kind write, read,
/// spin or echo (bytes through a pseudo terminal and back), and of name, priority, period, bytes, file, direct, sync, busy, cpu and catch-up what differs from
/// write:priority=50,period=10ms,bytes=4096,file=16MiB; a period of 0us is no pause.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune tasks --folder /mnt write:priority=45,bytes=16,period=250us read:priority=40,bytes=100KiB,period=0us,direct
  latebound tune tasks --folder /mnt --duration 30s write:priority=60,bytes=800KiB,period=200ms spin:priority=40,busy=350us,period=400us")]
pub(crate) struct TuneTasksArgs {
    /// The folder of the tasks' files, which are made where they do not exist, and stay.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,

    /// How long to run.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub(crate) duration: Nanos,

    /// The tasks.
    #[arg(value_name = "TASK", required = true)]
    pub(crate) tasks: Vec<String>,
}

/// Record what real-time tasks and kernel threads do, as a workload for `tune fit`
///
/// Live by BPF, or from a saved trace with sched_switch and sched_waking of all CPUs. Record with no tuner at work, so that the
/// simulation can be held against what was recorded.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune record --duration 10s --output workload.json && latebound tune fit workload.json
  latebound tune record trace.dat --output workload.json")]
pub(crate) struct TuneRecordArgs {
    /// A saved trace (trace.dat, perf.data or ftrace text) [default: the running system].
    #[arg(value_name = "TRACE", conflicts_with = "duration")]
    pub(crate) trace: Option<PathBuf>,

    /// How long to record; Ctrl-C ends it earlier and keeps what was recorded.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,

    /// The file of the workload.
    #[arg(long, short, value_name = "FILE", default_value = "workload.json")]
    pub(crate) output: PathBuf,

    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Simulate a workload under each policy, and search the best weights for it
///
/// The workload is a JSON file of tasks and kernel threads with what they have to do (docs/src/guide/tune.md). Where it has recorded
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

    /// How much longer than with the policy off any task's worst response may get, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) loss: f64,

    /// The most simulations.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) simulations: usize,
}
