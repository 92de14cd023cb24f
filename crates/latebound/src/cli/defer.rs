// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound defer`. Holds no behaviour.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use latebound_defer::{By, Context, Mechanism};
use latebound_model::{CpuSet, Keep, Nanos};

use super::{EXIT_STATUS, LoadChoice, PolicyName, RecordArgs};

/// Request and time every way that the kernel has to put work off
///
/// Work items, tasklets, softirqs, kernel threads, threaded interrupts, irq_work, timers, calls to other CPUs, RCU
/// callbacks, task_work and waiting threads, from task, softirq and hard interrupt context. That takes the kernel module
/// latebound_defer, which is built in kmod/ and loaded by you, or by `latebound lab run --module latebound_defer`.
/// Without it `run` measures what user space and BPF programs can request.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound lab run --kernel debian:6.12-rt --module latebound_defer -- defer run --count 200 --period 1ms
  latebound defer run --mechanism tasklet,work,kthread,user --count 10000")]
pub(crate) struct DeferArgs {
    #[command(subcommand)]
    pub(crate) command: DeferCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeferCommand {
    Run(Box<DeferRunArgs>),
    Lost(DeferLostArgs),
    Timeline(DeferTimelineArgs),
    Advise(DeferAdviseArgs),
}

/// What requests and stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeferBy {
    /// The kernel module latebound_defer: every mechanism, from every context.
    Module,
    /// User space and BPF programs, on a stock kernel: some mechanisms, from task context, three from softirqs too.
    Bpf,
}

fn mechanisms(by: By) -> String {
    let names: Vec<&str> =
        Mechanism::all().filter(|&mechanism| by.has(mechanism)).map(Mechanism::name).collect();
    names.join(", ")
}

/// Which activations are recorded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Record")]
pub(crate) struct KeepArgs {
    /// Which activations the Run's `activations.parquet` has, of at most 1 048 576 [default: the worst of each series].
    #[arg(long, value_name = "all|worst:N", requires = "output")]
    pub(crate) keep: Option<Keep>,
}

/// Trains of interrupts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Trains")]
pub(crate) struct TrainArgs {
    /// The CPU that the interrupts come to.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) cpu: u32,

    /// Interrupts in a train.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) irqs: u32,

    /// From one interrupt of a train to the next.
    #[arg(long, value_name = "TIME", default_value = "100us")]
    pub(crate) period: Nanos,

    /// How long the bottom half runs; at most 1 ms.
    #[arg(long, value_name = "TIME", default_value = "120us")]
    pub(crate) execution: Nanos,

    /// From one train to the next.
    #[arg(long, value_name = "TIME", default_value = "20ms")]
    pub(crate) pause: Nanos,
}

/// Count the softirqs that are lost when interrupts come faster than their bottom half runs
///
/// One bit says that a softirq is raised, so a raise that finds it set has no run of its own. Trains of interrupts are made by a
/// hard hrtimer; each raises a bottom half that takes longer than the time between two. Then the same with a counter: the
/// bottom half requests itself again until each interrupt had its run. With loads all of it twice: idle, and beside them.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound defer lost
  latebound defer lost --mechanism tasklet,softirq_irq_poll --irqs 40 --trains 100
  latebound lab run --kernel debian:6.12 --append threadirqs --module latebound_defer -- defer lost \\
      --load rt-hog:priority=50,busy=10ms,period=10ms,cpu=0

{EXIT_STATUS}"))]
pub(crate) struct DeferLostArgs {
    /// The bottom halves, with commas between them: tasklet, tasklet_hi, softirq_irq_poll, softirq_net_rx; tasklet where not
    /// given.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) mechanism: Vec<Mechanism>,

    /// How many trains.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) trains: u32,

    #[command(flatten)]
    pub(crate) train: TrainArgs,
    #[command(flatten)]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
}

/// What the scope is triggered on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TriggerName {
    /// The worst run.
    Late,
    /// The run into which most raises were merged.
    Lost,
}

/// Show interrupts, their bottom halves, ksoftirqd and the load over time, triggered on a late or lost run
///
/// Trains of interrupts as of `defer lost`, for a while; the train that holds the worst run, or the run that most raises were
/// merged into, is drawn as lanes. Below, how far each edge went apart over the first 10 s and over all. With --output the
/// lanes are also report.html, and trace.json, which Perfetto (ui.perfetto.dev) opens.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound defer timeline --irqs 1 --period 1ms --pause 1ms --execution 60us --duration 5m --output scope.run
  latebound defer timeline --trigger lost --load rt-hog:priority=50,busy=10ms,period=10ms,cpu=0
  latebound lab run --kernel debian:6.12 --module latebound_defer -- defer timeline --counter

{EXIT_STATUS}"))]
pub(crate) struct DeferTimelineArgs {
    /// How long.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,

    /// What to trigger on.
    #[arg(long, value_enum, value_name = "NAME", default_value = "late")]
    pub(crate) trigger: TriggerName,

    /// The bottom half: tasklet, tasklet_hi, softirq_irq_poll, softirq_net_rx.
    #[arg(long, value_name = "NAME", default_value = "tasklet")]
    pub(crate) mechanism: Mechanism,

    /// Let the bottom half request itself again until each interrupt had its run.
    #[arg(long)]
    pub(crate) counter: bool,

    #[command(flatten)]
    pub(crate) train: TrainArgs,
    #[command(flatten)]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
}

/// Name the ways that met a budget, with margins, by what `defer run` measured
///
/// Reads a Run that `defer run --output FOLDER` wrote (`lab run` brings it back by itself). Where it was measured beside
/// loads, only those figures count. A way of which a request or a start was lost is not advised.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound defer advise FOLDER --budget 50us --may-sleep
  latebound defer advise FOLDER --budget 1ms --context hardirq

Exit status:
  0  a way met the budget
  1  an error; the message says what failed and what to type next
  2  none did")]
pub(crate) struct DeferAdviseArgs {
    /// The folder of the Run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,

    /// How late a start may be.
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Nanos,

    /// Only ways whose work may sleep (wait for memory, a lock, a device).
    #[arg(long)]
    pub(crate) may_sleep: bool,

    /// From where it is requested: task, softirq, hardirq; any where not given.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) context: Vec<Context>,
}

/// Measure the mechanisms, interleaved, idle and then under load
///
/// One start is requested at each period, of one series after the other: a series is a mechanism requested from a
/// context, to run on a CPU. Where an earlier request of a series has not started, its turn passes (it is counted).
/// With loads everything is measured twice: idle, and beside them. The line "direct" is what the harness costs.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound defer run
  latebound defer run --mechanism tasklet,work,kthread,user --requester-policy rr --limit 30s \
      --load rt-hog:threads=10,policy=rr,priority=1,busy=10ms,period=10ms,cpu=0
  latebound defer run --axes --mechanism work,tasklet,kthread,irq_thread --output axes.run
  latebound defer run --mechanism work --context hardirq --busy 200us
  latebound defer run --mechanism tasklet --context hardirq --burst 14
  latebound defer run --by bpf --load io
  latebound lab run --kernel debian:6.12-rt --module latebound_defer -- defer run --count 200 --period 1ms

Mechanisms by the module: {}.

Mechanisms by BPF: {}.

{EXIT_STATUS}", mechanisms(By::Module), mechanisms(By::Bpf)))]
pub(crate) struct DeferRunArgs {
    /// What requests and stamps: the kernel module, or user space and BPF programs; the module where it is loaded.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) by: Option<DeferBy>,

    /// The mechanisms, with commas between them; all that can be had where not given.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) mechanism: Vec<Mechanism>,

    /// Where requests come from: task, softirq, hardirq; all where not given. By BPF from task, and direct, bpf_timer and
    /// bpf_wq from softirq.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) context: Vec<Context>,

    /// The CPU that requests.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) cpu: u32,

    /// CPUs to run on, where the mechanism can be sent to another; the requesting one where not given.
    #[arg(long, value_name = "LIST")]
    pub(crate) to: Option<CpuSet>,

    /// Triggers of each series.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) count: u32,

    /// Requests in each trigger, right one after the other; mechanisms that merge start once for all of them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) burst: u32,

    /// Between two triggers, to which up to a quarter is added at random.
    #[arg(long, value_name = "TIME", default_value = "200us")]
    pub(crate) period: Nanos,

    /// How far ahead hrtimers are set; 50 us where not given.
    #[arg(long, value_name = "TIME")]
    pub(crate) timer: Option<Nanos>,

    /// What direct_io reads: a file that is made in this folder and has no name, or a block device, which is only read; /var/tmp
    /// where not given.
    #[arg(long, value_name = "PLACE")]
    pub(crate) disk: Option<PathBuf>,

    /// How long each item keeps its CPU; at most 1 ms.
    #[arg(long, value_name = "TIME", default_value = "0us")]
    pub(crate) execution: Nanos,

    /// Also measure work items and kthread_worker behind an item that keeps their pool busy for so long; at most 100 ms.
    #[arg(long, value_name = "TIME")]
    pub(crate) busy: Option<Nanos>,

    /// Request also while an earlier request of the series waits: it is merged, or waits behind.
    #[arg(long)]
    pub(crate) open_loop: bool,

    /// The policy of the thread that requests from task context.
    #[arg(long, value_enum, value_name = "NAME", default_value = "other")]
    pub(crate) requester_policy: PolicyName,

    /// Its real-time priority; only for fifo and rr; 20 where not given.
    #[arg(long, value_name = "N")]
    pub(crate) requester_priority: Option<u32>,

    /// The policy of kthread, kthread_worker, task_work and user; without the module of user, timerfd, perf_overflow and direct_io,
    /// and of the thread that membarrier calls.
    #[arg(long, value_enum, value_name = "NAME", default_value = "other")]
    pub(crate) runner_policy: PolicyName,

    /// Their real-time priority; only for fifo and rr; 20 where not given.
    #[arg(long, value_name = "N")]
    pub(crate) runner_priority: Option<u32>,

    /// Give up on requests when nothing has started for so long.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) patience: Nanos,

    /// Show below each quantile the interval in which it lies with 95 % confidence, whatever the distribution.
    #[arg(long)]
    pub(crate) intervals: bool,

    /// Measure under each load alone, one after the other, instead of under all of them at once.
    #[arg(long, requires = "load")]
    pub(crate) each_load: bool,

    /// Measure idle, without C-states, in bursts of 16, and alone under each of: fair threads, a real-time thread below and one
    /// above interrupt threads, packets, memory, fdatasync.
    #[arg(long, conflicts_with_all = ["load", "command", "each_load"])]
    pub(crate) axes: bool,

    /// End each measurement, idle and under load, after so long; what was not requested by then is named.
    #[arg(long, value_name = "TIME")]
    pub(crate) limit: Option<Nanos>,

    #[command(flatten)]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
}
