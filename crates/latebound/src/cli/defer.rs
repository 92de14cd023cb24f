// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound defer`. Holds no behaviour.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use latebound_defer::{By, Context, Mechanism};
use latebound_model::{CpuSet, Keep, Nanos};

use super::{EXIT_STATUS, LoadChoice, PolicyName, RecordArgs};

/// Request and time every mechanism by which the kernel defers work
///
/// Requests work items, tasklets, softirqs, kernel threads, threaded interrupts, irq_work, timers, calls to other
/// CPUs, RCU callbacks, task_work and waiting threads, from task, softirq and hard interrupt context. These requests
/// need the kernel module latebound_defer. Build it in kmod/ and load it, or use `latebound lab run --module
/// latebound_defer`. Without the module `run` measures the mechanisms that user space and BPF programs can request.
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

/// The part that requests work and takes the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeferBy {
    /// The kernel module latebound_defer: every mechanism, from every context.
    Module,
    /// User space and BPF programs, on a stock kernel: some mechanisms from task context, three of them also from
    /// softirqs.
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
    /// The activations that are written to the Run's `activations.parquet`, at most 1 048 576 [default: the worst of
    /// each series].
    #[arg(long, value_name = "all|worst:N", requires = "output")]
    pub(crate) keep: Option<Keep>,
}

/// Trains of interrupts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Trains")]
pub(crate) struct TrainArgs {
    /// The CPU that gets the interrupts.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) cpu: u32,

    /// The number of interrupts in a train.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) irqs: u32,

    /// The time from one interrupt of a train to the next.
    #[arg(long, value_name = "TIME", default_value = "100us")]
    pub(crate) period: Nanos,

    /// How long the bottom half runs; at most 1 ms.
    #[arg(long, value_name = "TIME", default_value = "120us")]
    pub(crate) execution: Nanos,

    /// The time from one train to the next.
    #[arg(long, value_name = "TIME", default_value = "20ms")]
    pub(crate) pause: Nanos,
}

/// Count the softirqs that are lost when interrupts come faster than their bottom half runs
///
/// One bit says that a softirq is raised, so a raise that finds the bit set has no run of its own. A hard hrtimer
/// generates trains of interrupts. Each interrupt raises a bottom half that takes longer than the time between two
/// interrupts. Then the measurement is repeated with a counter: the bottom half requests itself again until each
/// interrupt had its run. With loads, everything is measured twice: idle and under load.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound defer lost
  latebound defer lost --mechanism tasklet,softirq_irq_poll --irqs 40 --trains 100
  latebound lab run --kernel debian:6.12 --append threadirqs --module latebound_defer -- defer lost \\
      --load rt-hog:priority=50,busy=10ms,period=10ms,cpu=0

{EXIT_STATUS}"))]
pub(crate) struct DeferLostArgs {
    /// The bottom halves, with commas between them: tasklet, tasklet_hi, softirq_irq_poll, softirq_net_rx [default:
    /// tasklet].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) mechanism: Vec<Mechanism>,

    /// The number of trains.
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

/// The event that selects the train to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TriggerName {
    /// The worst run.
    Late,
    /// The run that took longest.
    Long,
    /// The run into which the most raises were merged.
    Lost,
}

/// The edge at which all triggers of an overlay lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AlignName {
    /// The begin of the top half: shows how late the bottom half begins.
    TopHalf,
    /// The begin of the bottom half: shows how long it takes.
    BottomHalf,
}

/// Show interrupts, their bottom halves, ksoftirqd and the load over time, triggered on a late or lost run
///
/// Generates trains of interrupts as `defer lost` does. Draws one train as lanes: the train with the worst run, with
/// the longest run, or with the run into which the most raises were merged. Other interrupts and softirqs have lanes of
/// their own. The table below shows how far each edge varies, and how long bottom halves take, over the first 10 s and
/// over the whole time; lost raises follow by cause. With --output the lanes are also written as trace.json, which
/// Perfetto (ui.perfetto.dev) opens, and as report.html, which also has overlays: all triggers of the time laid over
/// each other.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound defer timeline --irqs 1 --period 1ms --pause 1ms --execution 60us --duration 5m --output scope.run
  latebound defer timeline --trigger lost --load rt-hog:priority=50,busy=10ms,period=10ms,cpu=0
  latebound lab run --kernel debian:6.12 --module latebound_defer -- defer timeline --counter

{EXIT_STATUS}"))]
pub(crate) struct DeferTimelineArgs {
    /// How long to measure.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,

    /// The event that selects the train to draw.
    #[arg(long, value_enum, value_name = "NAME", default_value = "late")]
    pub(crate) trigger: TriggerName,

    /// The edge at which all triggers of an overlay lie; with a comma between two, an overlay of each.
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_value = "top-half")]
    pub(crate) align: Vec<AlignName>,

    /// The longest time that an overlay shows before and after the trigger [default: from one train to the next].
    #[arg(long, value_name = "TIME")]
    pub(crate) window: Option<Nanos>,

    /// Also write the pictures of report.html into this folder: 1.svg, 2.svg, …
    #[arg(long, value_name = "FOLDER")]
    pub(crate) pictures: Option<PathBuf>,

    /// Let the bottom half do a fixed amount of work, which takes --execution if nothing interrupts it. Otherwise it ends
    /// when that time is over, and an interrupt in its middle does not make it longer.
    #[arg(long)]
    pub(crate) fixed_work: bool,

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

/// List the mechanisms that met a latency budget in a Run of `defer run`, with margins
///
/// Reads a Run that `defer run --output FOLDER` wrote (`lab run` copies the Run to the host by itself). If the Run
/// has figures under load, only these figures count. A mechanism with a lost request or start is not advised.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound defer advise FOLDER --budget 50us --may-sleep
  latebound defer advise FOLDER --budget 1ms --context hardirq

Exit status:
  0  a mechanism met the budget
  1  an error; the message says what failed and what to type next
  2  no mechanism met the budget")]
pub(crate) struct DeferAdviseArgs {
    /// The folder of the Run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,

    /// The maximum latency of a start.
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Nanos,

    /// List only mechanisms whose work may sleep (wait for memory, a lock, a device).
    #[arg(long)]
    pub(crate) may_sleep: bool,

    /// The contexts of the requests: task, softirq, hardirq [default: any].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) context: Vec<Context>,
}

/// Measure the mechanisms, interleaved, idle and then under load
///
/// Each period requests one start, of one series after the other. A series is a mechanism, the context of its
/// request, and the CPU on which it runs. If an earlier request of a series has not started, the series misses its
/// turn, and the missed turn is counted. With loads, everything is measured twice: idle and under load. The line
/// "direct" shows the cost of the measurement itself.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  latebound defer run
  latebound defer run --mechanism tasklet,work,kthread,user --requester-policy rr --limit 30s \
      --load rt-hog:threads=10,policy=rr,priority=1,busy=10ms,period=10ms,cpu=0
  latebound defer run --axes --mechanism work,tasklet,kthread,user,irq_thread --output axes.run
  latebound defer run --mechanism user --runner-policy other,rr --runner-priority 1,20 \
      --load rt-hog:threads=10,policy=rr,priority=1,busy=10ms,period=10ms,cpu=0
  latebound defer run --mechanism work --context hardirq --busy 200us
  latebound defer run --mechanism tasklet --context hardirq --burst 14
  latebound defer run --by bpf --load io
  latebound lab run --kernel debian:6.12-rt --module latebound_defer -- defer run --count 200 --period 1ms

Mechanisms by the module: {}.

Mechanisms by BPF: {}.

{EXIT_STATUS}", mechanisms(By::Module), mechanisms(By::Bpf)))]
pub(crate) struct DeferRunArgs {
    /// The part that requests work and takes the times [default: module if it is loaded, else bpf].
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) by: Option<DeferBy>,

    /// The mechanisms, with commas between them [default: all that are available].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) mechanism: Vec<Mechanism>,

    /// The contexts of the requests: task, softirq, hardirq [default: all]. By BPF all mechanisms are requested from
    /// task; direct, bpf_timer and bpf_wq also from softirq.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) context: Vec<Context>,

    /// The CPU on which requests are made.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) cpu: u32,

    /// The CPUs on which the work runs, for mechanisms that can be sent to another CPU [default: the requesting CPU].
    #[arg(long, value_name = "LIST")]
    pub(crate) to: Option<CpuSet>,

    /// The number of triggers of each series.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) count: u32,

    /// The number of requests in each trigger, directly one after the other. A mechanism that merges requests starts
    /// once for all of them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) burst: u32,

    /// The time between two triggers; up to a quarter is added at random.
    #[arg(long, value_name = "TIME", default_value = "200us")]
    pub(crate) period: Nanos,

    /// The time from setting an hrtimer to its expiry [default: 50 us].
    #[arg(long, value_name = "TIME")]
    pub(crate) timer: Option<Nanos>,

    /// The place that direct_io reads: a folder, in which a file without a name is created, or a block device, which
    /// is only read [default: /var/tmp].
    #[arg(long, value_name = "PLACE")]
    pub(crate) disk: Option<PathBuf>,

    /// How long each item keeps its CPU; at most 1 ms.
    #[arg(long, value_name = "TIME", default_value = "0us")]
    pub(crate) execution: Nanos,

    /// Also measure work items and kthread_worker behind an item that keeps their pool busy for this time; at most
    /// 100 ms.
    #[arg(long, value_name = "TIME")]
    pub(crate) busy: Option<Nanos>,

    /// Request also while an earlier request of the series waits. The new request is merged, or waits behind the
    /// earlier one.
    #[arg(long)]
    pub(crate) open_loop: bool,

    /// The policy of the thread that requests from task context.
    #[arg(long, value_enum, value_name = "NAME", default_value = "other")]
    pub(crate) requester_policy: PolicyName,

    /// The real-time priority of this thread, only for fifo and rr [default: 20].
    #[arg(long, value_name = "N")]
    pub(crate) requester_priority: Option<u32>,

    /// The policies of the threads that run kthread, kthread_worker, task_work and user, with commas between them.
    /// Without the module: of the threads of user, timerfd, perf_overflow and direct_io, and of the thread that
    /// membarrier calls. With several policies, these mechanisms have one series for each, in turns [default: other].
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) runner_policy: Vec<PolicyName>,

    /// The real-time priorities of these threads, with commas between them; fifo and rr have one series for each
    /// [default: 20].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) runner_priority: Vec<u32>,

    /// Give up on requests if nothing has started for this time.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) patience: Nanos,

    /// Show below each quantile its 95 % confidence interval, which holds for every distribution.
    #[arg(long)]
    pub(crate) intervals: bool,

    /// Measure under each load alone, one after the other, instead of under all of them at once.
    #[arg(long, requires = "load")]
    pub(crate) each_load: bool,

    /// Measure under several conditions: idle, without C-states, in bursts of 16, and under each of these loads
    /// alone: fair threads, a real-time thread below interrupt threads, a real-time thread above them, packets,
    /// memory, fdatasync.
    #[arg(long, conflicts_with_all = ["load", "command", "each_load"])]
    pub(crate) axes: bool,

    /// End each measurement, idle and under load, after this time. The output names the requests that are left.
    #[arg(long, value_name = "TIME")]
    pub(crate) limit: Option<Nanos>,

    #[command(flatten)]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
}
