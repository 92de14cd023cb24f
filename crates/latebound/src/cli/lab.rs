// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound lab`. Holds no behaviour.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use latebound_lab::{Clock, Module};
use latebound_model::Nanos;

/// Run latebound, or any command, in a virtual machine with the kernel you name
///
/// The machine has the host's file system inside, with a layer over it that takes what the guest writes and is gone
/// with it. Results come back as a Run, marked as emulated. Kernels and tools are kept under the user's cache;
/// nothing is installed on this system.
///
/// Kernels: debian:6.12 and debian:6.12-rt (packages of the distribution, or of Debian's archive; debian:7 is the
/// newest 7.x), debian:6.12@full (booted with another preemption model: none, voluntary, full, lazy), traced:6.12-rt
/// (built here with preemption and interrupt events, which a bound needs), checked:6.12-rt (which also checks memory
/// and locks, its own and those of modules), or the path of a kernel image or a source tree.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound lab run --kernel debian:6.12-rt -- check --duration 10s --load ipc
  latebound lab run --kernel debian:6.12@full -- exec uname -a
  latebound lab matrix --kernels debian:6.12@none,debian:6.12@full,debian:6.12-rt --runs 5 -- check --duration 5s
  latebound lab kernels")]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    Run(LabRunArgs),
    Matrix(LabMatrixArgs),
    Bisect(LabBisectArgs),
    /// List which kernels are here, which can be had, and what each can show
    Kernels,
    Build(LabBuildArgs),
}

/// Run one job on one kernel
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound lab run --kernel debian:6.12-rt -- check --duration 10s --load ipc
  latebound lab run --kernel traced:6.12-rt --output rt.run -- check --duration 5s
  latebound lab run --kernel debian:6.12 --clock instructions -- measure --duration 5s
  latebound lab run --kernel debian:6.12 --disk 256MiB --net 2 -- exec lsblk")]
pub(crate) struct LabRunArgs {
    /// The kernel.
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: String,

    /// The folder of the Run; latebound-lab-TIME.run where not given. The console log lies beside it.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Replace a Run that is there already.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// A verb of latebound with its options, or `exec` and any command.
    #[arg(last = true, value_name = "JOB", required = true)]
    pub(crate) job: Vec<String>,
}

/// Run one job on many kernels, several times each
///
/// The kernels take turns, so that what changes on the host over the time falls on all of them alike.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound lab matrix --kernels debian:6.12@none,debian:6.12@full,debian:6.12-rt --runs 5 -- check --duration 5s
  latebound lab matrix --kernels debian:6.12,debian:6.12-rt --clock instructions --jobs 2 -- measure --duration 5s")]
pub(crate) struct LabMatrixArgs {
    /// The kernels, with commas between them.
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    pub(crate) kernels: Vec<String>,

    /// How often each kernel is run.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) runs: u32,

    /// How many machines run at once; more than one only by instructions, where they cannot disturb each other.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,

    /// The folder of the matrix, with a Run for each run; latebound-matrix-TIME where not given.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// A verb of latebound with its options.
    #[arg(last = true, value_name = "JOB", required = true)]
    pub(crate) job: Vec<String>,
}

/// Find the first bad one of many kernels, or of the commits of a source tree
///
/// Runs by instructions, because a latency on the host's clock repeats badly; and each kernel as often as it takes to be
/// sure. A kernel that does not boot is skipped. The verdict says how certain it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound lab bisect --good debian:6.1 --between debian:6.12@none --bad debian:6.12 \\
      --metric timer.p99.9 --over 80us -- measure --duration 5s
  latebound lab bisect --tree ~/linux --good v6.12 --bad HEAD --metric timer.max --over 80us -- check --duration 5s")]
pub(crate) struct LabBisectArgs {
    /// The good kernel, or with --tree the good commit.
    #[arg(long, value_name = "KERNEL|COMMIT")]
    pub(crate) good: String,

    /// The bad kernel, or with --tree the bad commit.
    #[arg(long, value_name = "KERNEL|COMMIT")]
    pub(crate) bad: String,

    /// Kernels between the two, in order, with commas between them.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "tree")]
    pub(crate) between: Vec<String>,

    /// A kernel's git repository: its commits are built and run.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) tree: Option<PathBuf>,

    /// Build the commits with PREEMPT_RT.
    #[arg(long, requires = "tree")]
    pub(crate) rt: bool,

    /// What is compared: MECHANISM.max, MECHANISM.mean or MECHANISM.p99.9, such as timer.max or softirq.p99.
    #[arg(long, value_name = "METRIC")]
    pub(crate) metric: String,

    /// A value above this is bad.
    #[arg(long, value_name = "TIME")]
    pub(crate) over: Nanos,

    /// How often the good and the bad end are run.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) ends: u32,

    /// How often a kernel in between is run at most.
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) repeats: u32,

    /// The folder for the Runs; latebound-bisect-TIME where not given.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// A verb of latebound with its options.
    #[arg(last = true, value_name = "JOB", required = true)]
    pub(crate) job: Vec<String>,
}

/// Download or build kernels now, so that later runs start at once
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound lab build traced:6.12-rt
  latebound lab build debian:6.12 debian:6.12-rt traced:6.12")]
pub(crate) struct LabBuildArgs {
    /// The kernels.
    #[arg(value_name = "KERNEL", required = true)]
    pub(crate) kernels: Vec<String>,
}

/// The machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machine")]
pub(crate) struct MachineArgs {
    /// How many CPUs; 2 where not given, 1 by instructions.
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<u32>,

    /// Memory.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) memory: String,

    /// An option for the kernel's command line; may be given more than once.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) append: Vec<String>,

    /// A virtio disk on a scratch file: /dev/vda in the guest.
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<String>,

    /// Virtio network cards, joined two by two: eth0 with eth1.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) net: u32,

    /// Which time the machine sees: host, what holds up the host shows in the guest; or instructions, eight nanoseconds for each
    /// of them: the host's load leaves no mark, and the machine has one CPU. instructions:1ns is a machine eight times as fast that
    /// takes eight times as long. Where not given, bisect and compare preemption count instructions, the others take the host's.
    #[arg(long, value_name = "NAME")]
    pub(crate) clock: Option<Clock>,

    /// Do not try KVM.
    #[arg(long)]
    pub(crate) emulate: bool,

    /// How long a machine may run in all, booting included.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    pub(crate) timeout: Nanos,

    /// A module of latebound's own (latebound_bound, latebound_defer, latebound_tune), or a folder with a Kbuild file: built for the kernel and loaded
    /// before the job.
    #[arg(long, value_name = "MODULE")]
    pub(crate) module: Option<Module>,
}
