// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound tune`. Holds no behaviour.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use latebound_model::Nanos;
use latebound_system::undo::FOLDER;

/// Show which kernel threads delay real-time tasks, and let them inherit priorities
///
/// A real-time task that writes a file waits for a worker that writes the file back. A task that reads a disk waits
/// for the thread of the disk's interrupt. Any fixed priority of such a thread is wrong for some of these tasks.
/// `map` shows which task waits for which kernel thread. `run` computes the priority of each kernel thread from the
/// tasks that wait for it. `fit` searches the weights of this computation.
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
    /// Print the default configuration, with the meaning of each value
    Config,
    /// Print the JSON Schema of the configuration
    Schema,
}

/// Show which tasks wait for which kernel threads, and the priorities that the policy gives
///
/// Changes nothing. Needs BPF. For each kernel thread it shows the real-time tasks that waited for the thread and the
/// objects of these waits, the priority of the thread and the priority that the policy wants, and how often the
/// thread was ready and did not run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune map
  latebound tune map --duration 1m --format json
  latebound tune map --duration 1m --html map.html
  latebound tune map --config tune.toml")]
pub(crate) struct TuneMapArgs {
    /// How long to observe [default: until Ctrl-C].
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// The configuration file [default: what `latebound tune config` prints].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Write the map as an HTML page as well; an existing file is replaced.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Let kernel threads inherit the priority of the tasks that wait for them
///
/// Each change is written to an undo journal before it is made. At the end all changes are undone. If this process is
/// killed or hangs, a watchdog undoes them; it does so within 100 ms after a kill. If the watchdog is killed too,
/// `tune undo` or the next start undoes them. The exit status is 1 if a priority could not be restored. A second run
/// with the same journal folder at the same time is refused. If the kernel module latebound_tune is loaded, it raises
/// threads some microseconds after a wait begins, and this process does the rest.
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

    /// The file of metrics, written every 5 s for node_exporter's textfile collector; its name ends in .prom
    /// [default: the configuration's].
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
}

/// What raises threads, the faster one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RaiseBy {
    /// The kernel module latebound_tune for disks, work items and page reclaim; this process for all other waits.
    Module,
    /// This process alone.
    Daemon,
}

/// Undo the changes that a dead tuner left
///
/// A tuner restores every priority at its end. If the tuner dies or hangs, its watchdog restores them. If both were
/// killed at once, their journal lists the changes that are left, and this command undoes them. It does not touch the
/// changes of a running tuner. The exit status is 1 if a priority could not be restored.
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
    /// The priority that the configuration gives each class.
    Static,
    /// The maximum priority of the waiting tasks: equation (1).
    Pip,
    /// The weighted mean of the priorities of the waiting tasks: equation (2).
    WeightedAverage,
}

/// Run a trial: the same workload under each policy in turns, with the response times compared
///
/// Each turn starts the command anew. The policies take turns, so that a change of the machine over time affects all
/// of them equally. A response is the time from the end of a sleep (or from the moment at which it should have ended)
/// until the next sleep. It is measured for the real-time tasks of the command and for all other real-time tasks. The
/// bytes that the disks moved are counted too. The comparison with "off" is that of `latebound compare`, and needs at
/// least four rounds. Under "off" no tuner runs at all, so the comparison contains the cost of the tuner.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune prove -- ./my-control-loop
  latebound tune prove --rounds 8 --duration 20s --output trial -- ./my-control-loop
  latebound tune prove --policy off,pip --config tune.toml --format json -- ./my-control-loop > trial.json")]
pub(crate) struct TuneProveArgs {
    /// The policies, with the base first; static is added if the configuration gives a class a priority.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["off", "pip", "weighted-average"])]
    pub(crate) policy: Vec<TunePolicy>,

    /// The number of turns of each policy.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// The measured time of each turn.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,

    /// The time before the measured time in each turn.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) settle: Nanos,

    /// The configuration file [default: what `latebound tune config` prints].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// A new folder for the Run of each turn, prove.json and pictures; an existing folder is refused.
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
    /// Documents of `tune prove`. For several documents, one picture for each policy shows the cumulative
    /// distributions of each task together.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Write pictures (response over time, cumulative distribution, memory) as SVG to this folder instead of
    /// printing; the folder is created if it does not exist.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) pictures: Option<PathBuf>,
}

/// Run real-time tasks that write, read and compute: a workload for a trial
///
/// Each task repeats its work, and sleeps for the rest of its period. A task is KIND:key=value,… The kind is write,
/// read, spin or echo (bytes through a pseudo terminal and back). The keys are name, priority, period, bytes, file,
/// direct, sync, fsync, busy, cpu and catch-up. The defaults are write:priority=50,period=10ms,bytes=4096,file=16MiB.
/// A period of 0us means no pause. With sync a write ends when its bytes are on the disk, with fsync when all of its
/// file is, which waits for the file system's journal.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune tasks --folder /mnt write:priority=45,bytes=16,period=250us read:priority=40,bytes=100KiB,period=0us,direct
  latebound tune tasks --folder /mnt --duration 30s write:priority=60,bytes=800KiB,period=200ms spin:priority=40,busy=350us,period=400us")]
pub(crate) struct TuneTasksArgs {
    /// The folder of the tasks' files. Missing files are created, and all files stay.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,

    /// How long to run.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub(crate) duration: Nanos,

    /// The tasks.
    #[arg(value_name = "TASK", required = true)]
    pub(crate) tasks: Vec<String>,
}

/// Record the work of real-time tasks and kernel threads as a workload for `tune fit`
///
/// Records live by BPF, or from a saved trace with sched_switch and sched_waking of all CPUs. Record without a tuner,
/// so that `tune fit` can compare the simulation with the recording.
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
/// The workload is a JSON file of tasks and kernel threads and their work (docs/src/guide/tune.md). If it has
/// recorded response times, the simulation is first compared with these.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound tune fit workload.json
  latebound tune fit workload.json --loss 2.5 --format json")]
pub(crate) struct TuneFitArgs {
    /// The workload.
    #[arg(value_name = "FILE")]
    pub(crate) workload: PathBuf,

    /// The maximum increase of any task's worst response over the policy off, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) loss: f64,

    /// The maximum number of simulations.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) simulations: usize,
}
