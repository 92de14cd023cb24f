// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound bound`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use latebound_analysis::bound::ViewKind;
use latebound_model::Nanos;

use super::{EXIT_STATUS, RecordArgs};

/// Bound how late threads can get, from a saved trace
///
/// cyclictest says what happened; this says how late it could have become: the longest blocking windows and the worst
/// bursts of interrupts that the trace shows, put together by Theorem 8 of "Demystifying the Real-Time Linux Scheduling
/// Latency" (ECRTS 2020). Reads trace.dat, perf.data, ftrace text and observations.json, told apart by their content,
/// without root. The values are called a bound only where the kernel was PREEMPT_RT, nothing was lost and no rule of the
/// model was broken; otherwise they are an estimate, with every reason.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  trace-cmd record -C mono -e preemptirq -e irq_vectors -e irq -e nmi \\
      -e sched_switch -e sched_waking -e sched_wakeup sleep 10
  latebound bound trace.dat
  latebound bound trace.dat --view replay --max-latency 150us
  latebound bound trace.dat --output trace.run && xdg-open trace.run/report.html
  latebound bound trace.dat --observations seen.json && latebound bound seen.json --format json

The kernel needs PREEMPT_TRACER and IRQSOFF_TRACER for the preemptirq events.

{EXIT_STATUS}"))]
pub(crate) struct BoundArgs {
    /// What was recorded. Several files are taken for several recordings of one system: the largest counts.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// How the interrupts are thought to arrive: the view whose witness is shown and that --max-latency is held against.
    #[arg(long, value_enum, value_name = "NAME", default_value_t = ViewName::SlidingWindow)]
    pub(crate) view: ViewName,

    /// Say that the traced kernel was PREEMPT_RT where the trace cannot; it is kept on record that you said so.
    #[arg(long)]
    pub(crate) preempt_rt: bool,

    /// The traced kernel's /proc/kallsyms, for traces without symbols (perf.data).
    #[arg(long, value_name = "FILE")]
    pub(crate) kallsyms: Option<PathBuf>,

    /// Read this instance of a trace.dat instead of the top buffer.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) instance: String,

    /// Also write what was observed to this file, as a document that `latebound bound` reads.
    #[arg(long, value_name = "FILE")]
    pub(crate) observations: Option<PathBuf>,

    /// End with exit status 2 where the view's latency is above this on any CPU, or does not converge.
    #[arg(long, value_name = "TIME")]
    pub(crate) max_latency: Option<Nanos>,

    #[command(flatten)]
    pub(crate) record: RecordArgs,
}

/// A view as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewName {
    /// No interrupts at all.
    None,
    /// The longest interrupt and the longest NMI, once.
    WorstSingle,
    /// The longest of every source, once.
    EachOnce,
    /// The interrupts as they came.
    Replay,
    /// Every source in its own worst window.
    SlidingWindow,
    /// The same, each interrupt as long as the source's longest.
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
