// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound tune`. Holds no behaviour.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use latebound_model::Nanos;
use latebound_system::undo::FOLDER;

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
    /// For how long to watch; until Ctrl-C where not given.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// The configuration; the defaults where not given (`latebound tune config` prints them).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Draw it on a page as well; a file that is there is replaced.
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
    /// Say what would be changed, and change nothing.
    #[arg(long, conflicts_with = "journal")]
    pub(crate) dry_run: bool,

    /// For how long; until Ctrl-C where not given.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// The configuration; the defaults where not given (`latebound tune config` prints them).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The policy, in place of the configuration's.
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<TunePolicy>,

    /// Who raises threads where a wait begins; the first of these that can be had where not given.
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "dry_run")]
    pub(crate) by: Option<RaiseBy>,

    /// Where the undo journal lies.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    pub(crate) journal: PathBuf,

    /// Write what it does to this file every five seconds, for node_exporter's textfile collector: end its name in .prom. In place of the
    /// configuration's.
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
}

/// Who raises threads, the faster one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RaiseBy {
    /// The kernel module latebound_tune, for disks, work items and page reclaim; this process for all else.
    Module,
    /// This process alone.
    Daemon,
}

/// Give back what a tuner that is gone left changed
///
/// A tuner gives every priority back at its end, and its watchdog does where it dies or hangs. Where both were killed at once, their
/// journal says what is left to do: this does it. A tuner that is at work is left alone. The exit status is 1 where something is not as it
/// was.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune undo
  latebound tune undo --journal /run/mine --format json")]
pub(crate) struct TuneUndoArgs {
    /// Where the undo journals lie.
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

/// Run the same workload under each policy in turns, and say what each did to response times
///
/// The command is started afresh for each round and policy; the policies take turns, so that what changes on the machine over
/// the time falls on all alike. Timed are the real-time tasks of the command, and all others, from when a sleep was over (or
/// should have been) until the next one; and what the disks moved. `latebound compare` then says what differs from "off", and how
/// sure that is: four rounds at least. Without a policy no tuner runs at all, so that its cost is in the comparison.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune prove -- ./my-control-loop
  latebound tune prove --rounds 8 --duration 20s --output proof -- ./my-control-loop
  latebound tune prove --policy off,pip --config tune.toml --format json -- ./my-control-loop > proof.json")]
pub(crate) struct TuneProveArgs {
    /// The policies, the base first; static belongs to them where the configuration gives a class a priority.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["off", "pip", "weighted-average"])]
    pub(crate) policy: Vec<TunePolicy>,

    /// How often each policy is run.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// For how long each time.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,

    /// What is left out at the beginning of each time.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) settle: Nanos,

    /// The configuration; the defaults where not given (`latebound tune config` prints them).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// A folder for a Run of each round, and for prove.json and pictures; made, and refused where it is there.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Where the undo journal lies.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    pub(crate) journal: PathBuf,

    /// The workload: a program that runs for as long as it is let, and its arguments.
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<String>,
}

/// Print what `tune prove` found again, or draw it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune show proof/prove.json
  latebound tune show proof.json --pictures pictures
  latebound tune show a-10ms.json a-100ms.json --pictures pictures")]
pub(crate) struct TuneShowArgs {
    /// Documents of `tune prove`. Of several, the cumulative distributions of each task are drawn together, a picture for each policy.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Write response over time, cumulative distribution and memory as SVG to this folder instead; made where it is not there.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) pictures: Option<PathBuf>,
}

/// Run real-time tasks that write, read and compute: a workload to prove something by
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
    /// Where the files of the tasks lie, or are made; they stay.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,

    /// For how long.
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
    /// A saved trace (trace.dat, perf.data or ftrace text); the running system where not given.
    #[arg(value_name = "TRACE", conflicts_with = "duration")]
    pub(crate) trace: Option<PathBuf>,

    /// For how long; Ctrl-C ends it earlier and keeps what there is.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,

    /// Where the workload goes.
    #[arg(long, short, value_name = "FILE", default_value = "workload.json")]
    pub(crate) output: PathBuf,

    /// Replace a file that is there.
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

    /// By how many per cent any task's worst response may get worse than with the policy off.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) loss: f64,

    /// The most simulations.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) simulations: usize,
}
