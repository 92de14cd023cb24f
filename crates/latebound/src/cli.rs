// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one definition of every verb and option: the parser, the help, the man pages and the completions all come
//! from here. Holds no behaviour.

mod bound;
mod compare;
mod defer;
mod lab;
mod tune;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use latebound_load::LoadProcess;
use latebound_model::{CpuSet, Keep, Nanos, Policy, Tid};

pub(crate) use bound::{BoundArgs, FollowBy};
pub(crate) use compare::{CompareArgs, CompareCommand, ImportArgs, PreemptionArgs};
pub(crate) use defer::{
    DeferAdviseArgs, DeferArgs, DeferBy, DeferCommand, DeferLostArgs, DeferRunArgs, DeferTimelineArgs,
    KeepArgs, TrainArgs, TriggerName,
};
pub(crate) use lab::{LabArgs, LabBisectArgs, LabCommand, LabMatrixArgs, LabRunArgs, MachineArgs};
pub(crate) use tune::{
    RaiseBy, TuneArgs, TuneCommand, TuneFitArgs, TuneMapArgs, TunePolicy, TuneProveArgs, TuneRecordArgs,
    TuneRunArgs, TuneShowArgs, TuneTasksArgs, TuneUndoArgs,
};

const EXIT_STATUS: &str = "\
Exit status:
  0  it was done
  1  an error, or a load or command beside failed (what was measured is kept);
     the message says what failed and what to type next
  2  a latency passed --max-latency";

/// What stands below the help of `latebound` itself.
fn after_help() -> String {
    format!("{EXIT_STATUS}\n\nWords of results: {} of latebound's source", latebound_report::GLOSSARY)
}

/// How late can this Linux system be, why, and what can be done about it?
///
/// latebound measures, explains and records the latencies of a Linux system that has to answer in time. Start
/// with `latebound check`: it looks at the system, measures, explains the worst wake-ups and writes a report.
#[derive(Debug, Parser)]
#[command(name = "latebound", version, propagate_version = true, max_term_width = 100, after_help = after_help())]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,

    /// How to print results.
    ///
    /// `human` is text for people; `json` is one JSON document on standard output. When this is not given, `observe`
    /// prints json where standard output is not a terminal; every other verb prints human.
    #[arg(long, value_enum, global = true)]
    pub(crate) format: Option<Format>,

    /// When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never.
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
    Bound(BoundArgs),
    Compare(CompareArgs),
    Import(ImportArgs),
    Defer(DeferArgs),
    Doctor(DoctorArgs),
    Report(ReportArgs),
    Tune(TuneArgs),
    Lab(LabArgs),
    /// Print the JSON Schema of run.json
    ///
    /// Every Run names the schema it was written by; a reader of one version reads every later Run of that version.
    Schema,
    #[command(hide = true)]
    Generate(GenerateArgs),
    #[command(name = LoadProcess::ENTRY, hide = true)]
    Load(LoadArgs),
}

/// Measure this system, explain its worst wake-ups and write a report
///
/// Looks at the system's settings, wakes a real-time thread on every chosen CPU at every period, watches what the
/// kernel puts off meanwhile, explains the worst wake-ups cause by cause, and writes it all to a Run: a folder with
/// run.json, report.html and Parquet tables. What cannot be had here (no root, no BPF) is said, and the rest is done.
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

    /// Do not watch the kernel's mechanisms (softirqs, work items, …) beside.
    #[arg(long)]
    pub(crate) no_observe: bool,
}

/// Measure how late periodic wake-ups are
///
/// One thread per chosen CPU sleeps until an absolute time, once a period, and reads the clock when it runs. A late
/// wake-up loses no period: the distribution free of coordinated omission counts every period that was due, the
/// naive one counts a wake-up once, as cyclictest does. Nothing but the thread's own sleep runs while it measures.
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
/// Watches threads that run anyway. For the worst of their wake-ups the time from the expiry of the timer (or from
/// the wake-up) to running is cut into named causes that add up to the whole. With a Run, shows the explanations it
/// holds; with a saved trace, explains what that shows. Live it needs BPF.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true).multiple(false))]
#[command(after_help = format!("\
Examples:
  latebound explain --pid 4711 --duration 30s
  latebound explain --comm jackd --worst 20
  latebound explain --rt --duration 1m --load ipc
  latebound explain latebound-check.run --worst 3
  latebound explain --trace trace.dat --rt

{EXIT_STATUS}"))]
pub(crate) struct ExplainArgs {
    /// A Run whose explanations are shown; nothing is watched then.
    #[arg(value_name = "RUN", group = "whom", conflicts_with_all = ["duration", "load", "command", "output", "recorder_memory"])]
    pub(crate) run: Option<PathBuf>,

    /// Explain the worst wake-ups of this saved trace (trace.dat, perf.data or ftrace text), without root; with --comm, --tid
    /// or --rt.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "pid", "duration", "load", "command", "output", "recorder_memory"])]
    pub(crate) trace: Option<PathBuf>,

    /// Watch every thread of this process, those that it starts later included.
    #[arg(long, value_name = "PID", group = "whom", value_parser = parse_tid)]
    pub(crate) pid: Option<Tid>,

    /// Watch this thread; may be given more than once.
    #[arg(long, value_name = "TID", group = "whom", value_parser = parse_tid)]
    pub(crate) tid: Vec<Tid>,

    /// Watch every thread with this name (comm, at most 15 bytes).
    #[arg(long, value_name = "NAME", group = "whom")]
    pub(crate) comm: Option<String>,

    /// Watch every thread that runs with a real-time or deadline policy.
    #[arg(long, group = "whom")]
    pub(crate) rt: bool,

    /// For how long to watch; until Ctrl-C where not given.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// End with exit status 2 where a wake-up took longer than this.
    #[arg(long, value_name = "TIME")]
    pub(crate) max_latency: Option<Nanos>,

    #[command(flatten)]
    pub(crate) recorder: RecorderArgs,
    #[command(flatten)]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
}

/// Watch everything that the kernel puts off: how often, how late, how long
///
/// Hard interrupts, vectors, softirqs, tasklets, irq_work, work items, interrupt threads, kernel threads, hrtimers and
/// block requests, with histograms kept in the kernel. On a terminal a live table (q or Ctrl-C ends it), otherwise JSON.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound observe
  latebound observe --mechanism softirq --mechanism work --duration 10s
  latebound observe --duration 30s --format json --output quiet.run

{EXIT_STATUS}"))]
pub(crate) struct ObserveArgs {
    /// Watch only these mechanisms.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) mechanism: Vec<MechanismName>,

    /// For how long; until q or Ctrl-C where not given.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    #[command(flatten)]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
}

/// Say what this system can show, and which settings make it late
///
/// Reads settings and changes none. Each finding has the value read, what it costs and the command that mends it. Works
/// without root and says what it could not read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound doctor
  sudo latebound doctor --format json
  latebound doctor --all")]
pub(crate) struct DoctorArgs {
    /// Also list what is as it should be.
    #[arg(long)]
    pub(crate) all: bool,

    /// Read /proc, /sys and /boot below this folder: a copy of another system's.
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

    /// Write the page's pictures as SVG files to this folder instead of printing the summary; made where it is not there.
    #[arg(long, value_name = "FOLDER", conflicts_with = "html")]
    pub(crate) pictures: Option<PathBuf>,
}

/// Write man pages or completions, all made from the definition of the options
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// What to write.
    #[arg(value_enum)]
    pub(crate) what: Generated,
    /// The folder to write to; made where it is not there.
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
    /// CPUs with a measuring thread each, as 0-3,6; all that this process may use where not given.
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuSet>,

    /// The scheduling policy of the measuring threads; fifo where not given, or other where the kernel refuses fifo.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) policy: Option<PolicyName>,

    /// Their real-time priority, 1 to 99, of fifo and rr; 95 where not given.
    #[arg(long, value_name = "N")]
    pub(crate) priority: Option<u32>,

    /// From one wake-up to the next.
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub(crate) period: Nanos,

    /// Between the first wake-ups of one CPU and the next, so that they do not all fall together.
    #[arg(long, value_name = "TIME", default_value = "0us")]
    pub(crate) offset: Nanos,

    /// For how long to measure.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) duration: Nanos,

    /// Hold /dev/cpu_dma_latency at this value, which keeps CPUs out of deeper idle states; the system's own behaviour
    /// is measured where not given. (cyclictest holds 0.)
    #[arg(long, value_name = "TIME")]
    pub(crate) dma_latency: Option<Nanos>,

    /// Allow the kernel to fire the timers of --policy other so much later; the process's own value where not given.
    #[arg(long, value_name = "TIME")]
    pub(crate) timer_slack: Option<Nanos>,

    /// Keep the maximum latency of every stretch of this length; of 1 s, or of a longer period, where not given.
    #[arg(long, value_name = "TIME")]
    pub(crate) block: Option<Nanos>,

    /// End with exit status 2 where a latency was greater than this.
    #[arg(long, value_name = "TIME")]
    pub(crate) max_latency: Option<Nanos>,
}

/// What runs beside.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadChoice {
    /// A load to run beside: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options as
    /// ipc:rate=20000,groups=1. May be given more than once. Each ends by its own clock.
    #[arg(long, value_name = "LOAD")]
    pub(crate) load: Vec<String>,

    /// Keep the command's arguments in the Run; its name alone is kept where not given, because arguments may hold secrets.
    #[arg(long, requires = "command")]
    pub(crate) keep_arguments: bool,

    /// A command to run beside, as whom latebound was started; it is ended with the measurement. One that cannot be started, or ends
    /// by itself with a status other than 0, is a load that failed: exit status 1.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Where the Run goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Record")]
pub(crate) struct RecordArgs {
    /// The folder of the Run; check writes latebound-check-TIME.run where not given, the other verbs write none.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Replace a Run that is there already.
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

    /// Which activations the Run's `activations.parquet` has, of at most 1 048 576 [default: those that are explained].
    #[arg(long, value_name = "all|worst:N")]
    pub(crate) keep: Option<Keep>,

    /// Memory for each CPU's last events, in MiB; more explains longer waits under heavier loads.
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
