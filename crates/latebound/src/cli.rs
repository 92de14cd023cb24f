// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one definition of every verb and option: the parser, the help, the man pages and the completions all come
//! from here. Holds no behaviour.

mod bound;
mod compare;
mod defer;
mod group;
mod lab;
mod late;
mod push;
mod serve;
mod store;
mod tune;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use latebound_analysis::cycle::CycleChoice;
use latebound_load::LoadProcess;
use latebound_model::{CpuSet, JobMarks, Keep, Mark, Nanos, Policy, Tid};

pub(crate) use bound::{BoundArgs, FollowBy};
pub(crate) use compare::{CompareArgs, CompareCommand, ImportArgs, PreemptionArgs};
pub(crate) use defer::{
    AlignName, DeferAdviseArgs, DeferArgs, DeferBy, DeferCommand, DeferLostArgs, DeferRunArgs,
    DeferTimelineArgs, KeepArgs, TrainArgs, TriggerName,
};
pub(crate) use group::GroupArgs;
pub(crate) use lab::{LabArgs, LabBisectArgs, LabCommand, LabMatrixArgs, LabRunArgs, MachineArgs};
pub(crate) use late::{Action, LateArgs, Signal, recorded_command};
pub(crate) use push::PushArgs;
pub(crate) use serve::{ServeArgs, ServeWatchArgs};
pub(crate) use store::{
    StoreAddArgs, StoreArgs, StoreChoice, StoreCommand, StoreCompactArgs, StoreExportArgs, StoreFilesArgs,
    StoreListArgs, StoreMigrateArgs, StorePruneArgs, StoreSimulateArgs, StoreVerifyArgs,
};
pub(crate) use tune::{
    RaiseBy, TuneArgs, TuneCommand, TuneFitArgs, TuneMapArgs, TunePolicy, TuneProveArgs, TuneRecordArgs,
    TuneRunArgs, TuneShowArgs, TuneTasksArgs, TuneUndoArgs,
};

const EXIT_STATUS: &str = "\
Exit status:
  0  the verb did its work
  1  an error, or a failed load or command (the results so far are kept);
     the message says what failed and what to type next
  2  a latency exceeded --max-latency";

/// What stands below the help of `latebound` itself.
fn after_help() -> String {
    format!("{EXIT_STATUS}\n\nWords of results: {} of latebound's source", latebound_report::GLOSSARY)
}

/// How late can this Linux system be, why, and what can be done about it?
///
/// latebound measures, explains and records the latencies of a Linux system that has to answer in time. Start with
/// `latebound check`: it reads the system's settings, measures, explains the worst wake-ups and writes a report.
#[derive(Debug, Parser)]
#[command(name = "latebound", version, propagate_version = true, max_term_width = 100, after_help = after_help())]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,

    /// The format of the results.
    ///
    /// `human` is text for people; `json` is one JSON document on standard output. Without this option `observe`
    /// prints json if standard output is not a terminal; every other verb prints human.
    #[arg(long, value_enum, global = true)]
    pub(crate) format: Option<Format>,

    /// When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never.
    #[arg(long, value_enum, global = true, default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Human,
    Json,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Check(CheckArgs),
    Measure(MeasureArgs),
    Explain(ExplainArgs),
    Observe(ObserveArgs),
    Serve(ServeArgs),
    Push(PushArgs),
    Bound(BoundArgs),
    Compare(CompareArgs),
    Import(ImportArgs),
    Defer(DeferArgs),
    Doctor(DoctorArgs),
    Report(ReportArgs),
    Tune(TuneArgs),
    Lab(LabArgs),
    Store(StoreArgs),
    /// Print the JSON Schema of run.json
    ///
    /// Every Run names its schema. A reader of a schema version reads every later Run of that version.
    Schema,
    #[command(hide = true)]
    Generate(GenerateArgs),
    #[command(name = LoadProcess::ENTRY, hide = true)]
    Load(LoadArgs),
    /// Run the commands of `--do` for the process that started this one
    #[command(name = LATE_COMMANDS, hide = true)]
    LateCommands,
}

/// The hidden verb of the process that runs the commands of `--do`.
pub(crate) const LATE_COMMANDS: &str = "late-commands";

/// Measure this system, explain its worst wake-ups and write a report
///
/// Reads the system's settings, wakes a real-time thread on every chosen CPU at every period, observes deferred work
/// of the kernel at the same time, explains the worst wake-ups cause by cause, and writes a Run: a folder with
/// run.json, report.html and Parquet tables. If a part is not possible (no root, no BPF), the output names it, and
/// latebound does the rest.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound check
  latebound check --duration 10s --load ipc
  latebound check --cpus 1-3 --load ipc:rate=20000 --load io --max-latency 100us
  latebound check --duration 1m -- stress-ng --vm 2 --timeout 60

{EXIT_STATUS}"))]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) wakeups: WakeupArgs,
    #[command(flatten)]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    #[command(flatten)]
    pub(crate) recorder: RecorderArgs,

    /// Do not observe the kernel's mechanisms (softirqs, work items, …) during the measurement.
    #[arg(long)]
    pub(crate) no_observe: bool,

    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

/// Measure how late periodic wake-ups are
///
/// One thread on each chosen CPU sleeps until an absolute time, once in each period, and reads the clock when it
/// runs. A late wake-up loses no period. The distribution free of coordinated omission counts every period that was
/// due. The naive distribution counts each wake-up once, as cyclictest does. No BPF program runs during the
/// measurement.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound measure --duration 10s
  latebound measure --cpus 1 --priority 80 --period 200us --duration 1m --output base.run
  latebound measure --policy other --max-latency 5ms --format json

{EXIT_STATUS}"))]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    pub(crate) wakeups: WakeupArgs,
    #[command(flatten)]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
}

/// Explain the worst wake-ups of any thread, cause by cause
///
/// Observes threads that do their own work. Takes their worst wake-ups, and cuts the time from the expiry of the
/// timer (or from the wake-up) to running into named causes that add up to the latency. With a Run, shows the
/// explanations of the Run. With a saved trace, explains the wake-ups of the trace. Live observation is by BPF; where
/// the kernel takes no BPF programs, its own trace buffers (tracefs) are read in their place, and the output says so.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true).multiple(false))]
#[command(after_help = format!("\
Examples:
  latebound explain --pid 4711 --duration 30s
  latebound explain --pid 4711 --cycle epoll_wait --period 4ms --deadline 2ms
  latebound explain --pid 4711 --begin usdt:/usr/bin/app:app:frame_begin --end usdt:/usr/bin/app:app:frame_end
  latebound explain --comm jackd --worst 20
  latebound explain --rt --duration 1m --load ipc
  latebound explain --unit nginx --duration 1m
  latebound explain --container 3f2a9d1c --cycle off
  latebound explain --pid 4711 --source tracefs --duration 30s
  latebound explain latebound-check.run --worst 3
  latebound explain --trace trace.dat --rt
  latebound explain latebound-check.run --perfetto worst.pftrace
  latebound explain --comm control --on-late 2ms --do save --do marker --do stop

{EXIT_STATUS}"))]
pub(crate) struct ExplainArgs {
    /// A Run whose explanations are shown; nothing is observed live.
    #[arg(value_name = "RUN", group = "whom", conflicts_with_all = ["duration", "load", "command", "output", "recorder_memory"])]
    pub(crate) run: Option<PathBuf>,

    /// Explain the worst wake-ups of this saved trace (trace.dat, perf.data, ftrace text, or a Run of --do save), without
    /// root. Needs --comm, --tid or --rt.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "pid", "cgroup", "unit", "container", "duration", "load", "command", "output", "recorder_memory"])]
    pub(crate) trace: Option<PathBuf>,

    /// Observe every thread of this process, including threads that it starts later.
    #[arg(long, value_name = "PID", group = "whom", value_parser = parse_tid)]
    pub(crate) pid: Option<Tid>,

    /// Observe this thread; may be given more than once.
    #[arg(long, value_name = "TID", group = "whom", value_parser = parse_tid)]
    pub(crate) tid: Vec<Tid>,

    /// Observe every thread with this name (comm, at most 15 bytes).
    #[arg(long, value_name = "NAME", group = "whom")]
    pub(crate) comm: Option<String>,

    /// Observe every thread that runs with a real-time or deadline policy.
    #[arg(long, group = "whom")]
    pub(crate) rt: bool,

    #[command(flatten)]
    pub(crate) group: GroupArgs,

    /// The wait between two jobs of a thread: the name of a system call, "auto" to recognise it, or "off" to explain
    /// wake-ups alone [default: auto; with --rt: off].
    #[arg(long, value_name = "CALL", value_parser = parse_cycle, conflicts_with = "run")]
    pub(crate) cycle: Option<CycleChoice>,

    /// A place at which a job of a thread begins, instead of after a wait: uprobe:FILE:SYMBOL[+0xOFFSET], uretprobe:FILE:SYMBOL,
    /// usdt:FILE:PROVIDER:NAME or tracepoint:SYSTEM:EVENT. Without --end the next begin ends the job.
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["run", "trace", "cycle"])]
    pub(crate) begin: Option<Mark>,

    /// The place at which that job ends, in the same thread.
    #[arg(long, value_name = "PLACE", requires = "begin")]
    pub(crate) end: Option<Mark>,

    /// The distance between two releases of the jobs [default: recognised, where they are regular]. Releases without a job and
    /// jobs that take longer than this are counted.
    #[arg(long, value_name = "TIME", value_parser = parse_length, conflicts_with_all = ["run", "trace"])]
    pub(crate) period: Option<Nanos>,

    /// The longest response that a job may have [default: the period, where one is known]. With this option a longer one
    /// ends with exit status 2.
    #[arg(long, value_name = "TIME", conflicts_with = "run")]
    pub(crate) deadline: Option<Nanos>,

    /// How long to observe [default: until Ctrl-C].
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// End with exit status 2 if a wake-up took longer than this.
    #[arg(long, value_name = "TIME")]
    pub(crate) max_latency: Option<Nanos>,

    /// Also write the explanations to this file, as a Perfetto trace for https://ui.perfetto.dev. An existing file is
    /// replaced.
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) late: LateArgs,
    #[command(flatten)]
    pub(crate) recorder: RecorderArgs,
    #[command(flatten)]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
}

/// Observe deferred work of the kernel: how often, how late, how long
///
/// Observes hard interrupts, vectors, softirqs, tasklets, irq_work, work items, interrupt threads, kernel threads,
/// hrtimers and block requests. BPF programs keep the histograms in the kernel; where the kernel takes no BPF
/// programs, its own trace buffers (tracefs) are read in their place, and the output says so. On a terminal the
/// result is a live table (q or Ctrl-C ends it), otherwise JSON.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound observe
  latebound observe --mechanism softirq --mechanism work --duration 10s
  latebound observe --duration 30s --format json --output quiet.run
  latebound observe --source tracefs --trace-buffer 16MiB --duration 10s

{EXIT_STATUS}"))]
pub(crate) struct ObserveArgs {
    /// Observe only these mechanisms [default: all].
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) mechanism: Vec<MechanismName>,

    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// How long to observe [default: until q or Ctrl-C].
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    #[command(flatten)]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
}

/// Show which evidence this system can give, and which settings cause latency
///
/// Reads settings and changes none. Each finding has the value, its cost and the command that mends it. Works without
/// root, and names the settings that it could not read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound doctor
  sudo latebound doctor --format json
  latebound doctor --all")]
pub(crate) struct DoctorArgs {
    /// Also list settings that are good.
    #[arg(long)]
    pub(crate) all: bool,

    /// Read /proc, /sys and /boot below this folder, for example a copy from another system.
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// Make the report of a Run again, or print its summary
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound report latebound-check.run
  latebound report latebound-check.run --html report.html
  latebound report latebound-check.run --pictures pictures")]
pub(crate) struct ReportArgs {
    /// The Run: its folder or its run.json.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,

    /// Write the page to this file (- for standard output) instead of printing the summary.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write the page's pictures as SVG files to this folder instead of printing the summary; the folder is created
    /// if it does not exist.
    #[arg(long, value_name = "FOLDER", conflicts_with = "html")]
    pub(crate) pictures: Option<PathBuf>,
}

/// Write man pages or completions, all made from the definition of the options
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// What to write.
    #[arg(value_enum)]
    pub(crate) what: Generated,
    /// The folder to write to; it is created if it does not exist.
    pub(crate) folder: PathBuf,
}

/// What `generate` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Generated {
    Man,
    Completions,
}

/// Run one built-in load in this process; used by the other verbs.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// What the parent wrote.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

/// How wake-ups are measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "Wake-ups")]
pub(crate) struct WakeupArgs {
    /// The CPUs to measure, with one thread on each, such as 0-3,6 [default: all that this process may use].
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuSet>,

    /// The scheduling policy of the measuring threads [default: fifo, or other if the kernel refuses fifo].
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) policy: Option<PolicyName>,

    /// The real-time priority of the measuring threads, 1 to 99, for fifo and rr [default: 95].
    #[arg(long, value_name = "N")]
    pub(crate) priority: Option<u32>,

    /// The time from one wake-up to the next.
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub(crate) period: Nanos,

    /// The time between the first wake-ups of one CPU and the next CPU, so that not all threads wake at the same
    /// moment.
    #[arg(long, value_name = "TIME", default_value = "0us")]
    pub(crate) offset: Nanos,

    /// How long to measure.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) duration: Nanos,

    /// Hold /dev/cpu_dma_latency at this value, which keeps CPUs out of deeper idle states; cyclictest holds 0
    /// [default: idle states are left alone].
    #[arg(long, value_name = "TIME")]
    pub(crate) dma_latency: Option<Nanos>,

    /// The timer slack of threads with --policy other: the kernel may fire their timers this much later [default: the
    /// slack of this process].
    #[arg(long, value_name = "TIME")]
    pub(crate) timer_slack: Option<Nanos>,

    /// The length of the blocks of time whose maximum latencies are kept [default: 1 s, or the period if it is
    /// longer].
    #[arg(long, value_name = "TIME")]
    pub(crate) block: Option<Nanos>,

    /// End with exit status 2 if a latency was greater than this.
    #[arg(long, value_name = "TIME")]
    pub(crate) max_latency: Option<Nanos>,
}

/// What runs beside.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadChoice {
    /// A load to run during the measurement: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory,
    /// with options such as ipc:rate=20000,groups=1. May be given more than once.
    #[arg(long, value_name = "LOAD")]
    pub(crate) load: Vec<String>,

    /// Keep the arguments of the command in the Run [default: only its name, because arguments may hold secrets].
    #[arg(long, requires = "command")]
    pub(crate) keep_arguments: bool,

    /// A command to run as a load, as the user that started latebound. The command is ended with the measurement. If
    /// the command cannot be started, or ends by itself with a status other than 0, the load has failed: exit status
    /// 1.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Where the Run goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Record")]
pub(crate) struct RecordArgs {
    /// The folder of the Run [default: latebound-check-TIME.run for check; the other verbs write no Run].
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Replace an existing Run.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

/// How worst cases are recorded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Explanations")]
pub(crate) struct RecorderArgs {
    /// How many of the worst wake-ups are explained.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) worst: usize,

    /// The activations that are written to the Run's `activations.parquet`, at most 1 048 576 [default: those that
    /// are explained].
    #[arg(long, value_name = "all|worst:N")]
    pub(crate) keep: Option<Keep>,

    /// Memory for the last events of each CPU, in MiB; more memory explains longer waits under heavier loads.
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) recorder_memory: u32,
}

impl RecorderArgs {
    /// Which activations are written one by one.
    pub(crate) fn keep(&self) -> Keep {
        self.keep.unwrap_or(Keep::Worst(self.worst))
    }

    /// How many of a thread's worst wake-ups decide what is late; `usize::MAX` where all are wanted.
    pub(crate) fn worst_of_a_thread(&self) -> usize {
        match self.keep() {
            Keep::All => usize::MAX,
            Keep::Worst(number) => number.max(self.worst),
        }
    }

    /// The recorder's options by these arguments, watching nobody yet.
    pub(crate) fn options(&self) -> latebound_probe::RecorderOptions {
        latebound_probe::RecorderOptions {
            memory_per_cpu: u64::from(self.recorder_memory.max(1)) << 20,
            ..latebound_probe::RecorderOptions::default()
        }
    }
}

/// A policy as it is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    Fifo,
    Rr,
    Deadline,
    Other,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Policy {
        match name {
            PolicyName::Fifo => Policy::Fifo,
            PolicyName::Rr => Policy::RoundRobin,
            PolicyName::Deadline => Policy::Deadline,
            PolicyName::Other => Policy::Other,
        }
    }
}

/// Where the events of `check`, `observe` and `explain` come from.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SourceArgs {
    /// Where the events come from: BPF programs in the kernel, or the kernel's own trace buffers, which are read and
    /// cost more [default: bpf; tracefs where BPF cannot be had].
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub(crate) source: Option<SourceName>,

    /// The trace buffer of each CPU, with --source tracefs (KiB, MiB): a larger one loses less
    /// [default: 4MiB, and all CPUs together at most 256MiB].
    #[arg(long, value_name = "BYTES", value_parser = serve::bytes)]
    pub(crate) trace_buffer: Option<u64>,
}

impl SourceArgs {
    /// An error where a buffer is given for a source that has none.
    pub(crate) fn check(self) -> anyhow::Result<()> {
        if self.source != Some(SourceName::Tracefs) && self.trace_buffer.is_some() {
            anyhow::bail!(
                "--trace-buffer is for the source tracefs; type --source tracefs as well, or leave it out"
            );
        }
        Ok(())
    }
}

/// A source of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceName {
    Bpf,
    Tracefs,
}

/// A mechanism as it is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MechanismName {
    HardIrq,
    Vector,
    Softirq,
    Tasklet,
    IrqWork,
    Work,
    ThreadedIrq,
    KernelThread,
    Hrtimer,
    Block,
}

impl From<MechanismName> for latebound_model::Mechanism {
    fn from(name: MechanismName) -> latebound_model::Mechanism {
        use latebound_model::Mechanism;
        match name {
            MechanismName::HardIrq => Mechanism::HardIrq,
            MechanismName::Vector => Mechanism::Vector,
            MechanismName::Softirq => Mechanism::Softirq,
            MechanismName::Tasklet => Mechanism::Tasklet,
            MechanismName::IrqWork => Mechanism::IrqWork,
            MechanismName::Work => Mechanism::Work,
            MechanismName::ThreadedIrq => Mechanism::ThreadedIrq,
            MechanismName::KernelThread => Mechanism::KernelThread,
            MechanismName::Hrtimer => Mechanism::Hrtimer,
            MechanismName::Block => Mechanism::BlockRequest,
        }
    }
}

impl ExplainArgs {
    /// The wait between two jobs. Whoever asks for all real-time threads asks for the scheduler's doing, not for each one's work.
    pub(crate) fn cycle(&self) -> CycleChoice {
        let default = if self.rt { CycleChoice::Off } else { CycleChoice::Recognised };
        self.cycle.clone().unwrap_or(default)
    }

    /// The marks that begin and end jobs, where the user named any.
    pub(crate) fn marks(&self) -> anyhow::Result<Option<JobMarks>> {
        let Some(begin) = self.begin.clone() else { return Ok(None) };
        if self.end.as_ref() == Some(&begin) {
            anyhow::bail!(
                "--begin and --end are the same place; leave --end out, and the next begin ends each job"
            );
        }
        Ok(Some(JobMarks { begin, end: self.end.clone() }))
    }
}

fn parse_cycle(text: &str) -> Result<CycleChoice, String> {
    let is_name = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    match text {
        "auto" => Ok(CycleChoice::Recognised),
        "off" => Ok(CycleChoice::Off),
        call if !call.is_empty() && is_name(call) => Ok(CycleChoice::Call(call.to_owned())),
        _ => Err(format!(
            "\"{text}\" is not the name of a system call; type one such as clock_nanosleep, epoll_wait, read or futex, or \"auto\" or \"off\""
        )),
    }
}

/// A time that is longer than none.
fn parse_length(text: &str) -> Result<Nanos, String> {
    let length: Nanos = text.parse().map_err(|error: latebound_model::DurationError| error.to_string())?;
    match length {
        Nanos::ZERO => Err("it is zero; type a time such as 1ms".to_owned()),
        _ => Ok(length),
    }
}

fn parse_tid(text: &str) -> Result<Tid, String> {
    match text.parse::<i32>() {
        Ok(tid) if tid > 0 => Ok(Tid(tid)),
        _ => {
            Err(format!("\"{text}\" is not the id of a process or thread; `ps -eLo pid,tid,comm` lists them"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_what_to_type() {
        let error = Cli::try_parse_from(["latebound", "measure", "--period", "200"]).unwrap_err().to_string();
        assert!(error.contains("200us"), "{error}");
    }

    #[test]
    fn a_command_beside_comes_after_two_dashes() {
        let cli = Cli::try_parse_from(["latebound", "check", "--", "stress-ng", "--vm", "2"]).unwrap();
        let Verb::Check(check) = cli.verb else { panic!("{cli:?}") };
        assert_eq!(check.load.command, ["stress-ng", "--vm", "2"]);
    }
}
