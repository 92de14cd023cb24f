// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound bound`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use latebound_analysis::bound::ViewKind;
use latebound_model::{CpuSet, Nanos};

use super::{EXIT_STATUS, LoadChoice, RecordArgs, serve};

/// The options of a live observation. clap asks for no FILE beside one of these, with which a FILE conflicts.
const LIVE: [&str; 7] = ["duration", "cpus", "by", "trace_buffer", "no_measure", "load", "command"];

/// Bound how late threads can get, on this system or from a saved trace
///
/// cyclictest measures how late a thread was; `bound` computes how late a thread can get. It combines the longest
/// observed blocking windows and the worst observed bursts of interrupts by Theorem 8 of "Demystifying the Real-Time
/// Linux Scheduling Latency" (ECRTS 2020). Without a FILE it observes this system, as root, until --duration is over
/// or Ctrl-C, and measures wake-ups at the same time; its memory does not grow with time. With a FILE it reads
/// trace.dat, perf.data, ftrace text or observations.json, recognised by content, without root. The value is called a
/// bound only if the kernel was PREEMPT_RT, nothing was lost and no rule of the model was violated. Otherwise it is
/// an estimate, with every reason.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound bound --duration 1h
  latebound bound --duration 10m --cpus 2-3 --load ipc --load io --format json
  insmod kmod/latebound_bound.ko && latebound bound --by module --duration 10m
  trace-cmd record -C mono -e preemptirq -e irq_vectors -e irq -e nmi \\
      -e sched_switch -e sched_waking -e sched_wakeup sleep 10
  latebound bound trace.dat
  latebound bound trace.dat --view replay --max-latency 150us
  latebound bound trace.dat --output trace.run && xdg-open trace.run/report.html
  latebound bound trace.dat --observations seen.json && latebound bound seen.json --format json

A bound needs a kernel with PREEMPT_TRACER and IRQSOFF_TRACER; other kernels give an estimate.

{EXIT_STATUS}"))]
pub(crate) struct BoundArgs {
    /// A recording [default: this system is observed live]. Several files are several recordings of one system: the
    /// largest value counts.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// The assumption about the arrival of interrupts (the view). The witness of this view is shown, and
    /// --max-latency is compared with its value.
    #[arg(long, value_enum, value_name = "NAME", default_value_t = ViewName::SlidingWindow)]
    pub(crate) view: ViewName,

    /// State that the traced kernel was PREEMPT_RT, if the trace does not show it. The result records that this
    /// option was given.
    #[arg(long, requires = "files", conflicts_with_all = LIVE)]
    pub(crate) preempt_rt: bool,

    /// The traced kernel's /proc/kallsyms, for traces without symbols (perf.data).
    #[arg(long, value_name = "FILE", requires = "files", conflicts_with_all = LIVE)]
    pub(crate) kallsyms: Option<PathBuf>,

    /// Read this instance of a trace.dat instead of the top buffer.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, requires = "files", conflicts_with_all = LIVE)]
    pub(crate) instance: String,

    /// Also write the observations to this file, as a document that `latebound bound` reads.
    #[arg(long, value_name = "FILE", requires = "files", conflicts_with_all = LIVE)]
    pub(crate) observations: Option<PathBuf>,

    /// End with exit status 2 if the view's latency is above this on any CPU, or does not converge.
    #[arg(long, value_name = "TIME")]
    pub(crate) max_latency: Option<Nanos>,

    /// How long to observe this system [default: until q or Ctrl-C].
    #[arg(long, value_name = "TIME", conflicts_with = "files", help_heading = "Live")]
    pub(crate) duration: Option<Nanos>,

    /// The CPUs to observe, such as 0-3,6 [default: all that this process may use].
    #[arg(long, value_name = "LIST", conflicts_with = "files", help_heading = "Live")]
    pub(crate) cpus: Option<CpuSet>,

    /// The method of observation [default: the first of these that is available].
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "files", help_heading = "Live")]
    pub(crate) by: Option<FollowBy>,

    /// The trace buffer of each CPU, with --by tracefs (KiB, MiB): a larger one loses less [default: 32MiB for a bound,
    /// and all CPUs together at most 256MiB and an eighth of the memory; 4MiB for an estimate].
    #[arg(long, value_name = "BYTES", value_parser = serve::bytes, conflicts_with = "files", help_heading = "Live")]
    pub(crate) trace_buffer: Option<u64>,

    /// Do not measure wake-ups at the same time (one thread on each CPU, fifo 95, every millisecond). Otherwise the
    /// bound is compared with them.
    #[arg(long, conflicts_with = "files", help_heading = "Live")]
    pub(crate) no_measure: bool,

    #[command(flatten)]
    pub(crate) load: LoadChoice,

    #[command(flatten)]
    pub(crate) record: RecordArgs,
}

/// What follows CPUs, the better one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FollowBy {
    /// The thread model in BPF programs.
    Bpf,
    /// The thread model in the kernel module latebound_bound, for kernels without BPF.
    Module,
    /// Scheduler and interrupt events alone, by BPF, which every kernel has: never a bound.
    Estimate,
    /// The kernel's trace buffers, read by latebound: the thread model where the kernel has the events preemptirq, otherwise
    /// the events of `estimate`.
    Tracefs,
}

impl FollowBy {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            FollowBy::Bpf => "bpf",
            FollowBy::Module => "module",
            FollowBy::Estimate => "estimate",
            FollowBy::Tracefs => "tracefs",
        }
    }
}

/// A view as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewName {
    /// No interrupts at all.
    None,
    /// The longest interrupt and the longest NMI, each once.
    WorstSingle,
    /// The longest interrupt of every source, once.
    EachOnce,
    /// The interrupts exactly as they came.
    Replay,
    /// Every source in its own worst window.
    SlidingWindow,
    /// As sliding-window, with each interrupt as long as the longest of its source.
    SlidingWindowOwcet,
    /// Every source at its shortest distance and its longest duration.
    Sporadic,
}

impl From<ViewName> for ViewKind {
    fn from(name: ViewName) -> ViewKind {
        match name {
            ViewName::None => ViewKind::None,
            ViewName::WorstSingle => ViewKind::WorstSingle,
            ViewName::EachOnce => ViewKind::EachOnce,
            ViewName::Replay => ViewKind::Replay,
            ViewName::SlidingWindow => ViewKind::SlidingWindow,
            ViewName::SlidingWindowOwcet => ViewKind::SlidingWindowOwcet,
            ViewName::Sporadic => ViewKind::Sporadic,
        }
    }
}
