// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound lab`. Holds no behaviour.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use latebound_lab::{Architecture, Clock, Module};
use latebound_model::Nanos;

/// Run latebound, or any command, in a virtual machine with the kernel that you name
///
/// The machine sees the host's file system through a writable layer in memory. The layer takes everything that the
/// guest writes, and ends with the machine. The result is a Run on the host, marked as emulated. Kernels and tools
/// are kept in the user's cache. The lab installs nothing on this system.
///
/// Kernels: debian:6.12 and debian:6.12-rt (packages of the distribution, or of Debian's archive; debian:7 is the
/// newest 7.x), debian:6.12@full (booted with another preemption model: none, voluntary, full, lazy), traced:6.12-rt
/// (built on this host with the preemption and interrupt events that a bound needs), checked:6.12-rt (a traced kernel
/// that also checks the memory and locks of itself and its modules), or the path of a kernel image or a source tree.
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
    /// List the kernels in the cache, the kernels that are available, and the evidence that each gives
    Kernels,
    Build(LabBuildArgs),
}

/// Run one job on one kernel
///
/// With --arch the machine has another architecture than this host. It has busybox, a static latebound (/bin/latebound) and the
/// modules of its kernel. Of the host it sees only the folder in which you type the command, as /host.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound lab run --kernel debian:6.12-rt -- check --duration 10s --load ipc
  latebound lab run --kernel traced:6.12-rt --output rt.run -- check --duration 5s
  latebound lab run --kernel debian:6.12 --clock instructions -- measure --duration 5s
  latebound lab run --kernel debian:6.12-rt --arch arm64 -- measure --duration 5s
  latebound lab run --kernel debian:6.12 --disk 256MiB --net 2 -- exec lsblk")]
pub(crate) struct LabRunArgs {
    /// The kernel.
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: String,

    /// The architecture of the machine: amd64 or arm64 [default: the host's]. Another than the host's is emulated. Its kernels are
    /// Debian's (debian:) or built on this host (traced:, checked:).
    #[arg(long, value_name = "NAME")]
    pub(crate) arch: Option<Architecture>,

    /// The static latebound for a machine of another architecture [default: what `make static ARCH=aarch64` builds].
    #[arg(long, value_name = "FILE", requires = "arch")]
    pub(crate) binary: Option<PathBuf>,

    /// The folder of the Run [default: latebound-lab-TIME.run]. The console log is beside it.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Replace an existing Run.
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
/// The kernels take turns, so that a change of the host over time affects all of them equally.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound lab matrix --kernels debian:6.12@none,debian:6.12@full,debian:6.12-rt --runs 5 -- check --duration 5s
  latebound lab matrix --kernels debian:6.12,debian:6.12-rt --clock instructions --jobs 2 -- measure --duration 5s")]
pub(crate) struct LabMatrixArgs {
    /// The kernels, with commas between them.
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    pub(crate) kernels: Vec<String>,

    /// How often each kernel runs the job.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) runs: u32,

    /// How many machines run at once. More than one needs --clock instructions, because such machines do not disturb
    /// each other.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,

    /// The folder of the matrix, with one Run of each job [default: latebound-matrix-TIME].
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// A verb of latebound with its options.
    #[arg(last = true, value_name = "JOB", required = true)]
    pub(crate) job: Vec<String>,
}

/// Find the first bad kernel of a list, or the first bad commit of a source tree
///
/// The clock counts instructions, because a latency by the host's clock does not repeat well. Each kernel runs until
/// its verdict is sure enough. A kernel that does not boot is skipped. The result has its certainty.
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

    /// The git repository of a kernel; its commits are built and run.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) tree: Option<PathBuf>,

    /// Build the commits with PREEMPT_RT.
    #[arg(long, requires = "tree")]
    pub(crate) rt: bool,

    /// The number to compare: MECHANISM.max, MECHANISM.mean or a quantile such as MECHANISM.p99.9. Examples:
    /// timer.max, softirq.p99.
    #[arg(long, value_name = "METRIC")]
    pub(crate) metric: String,

    /// A value above this is bad.
    #[arg(long, value_name = "TIME")]
    pub(crate) over: Nanos,

    /// How often the good and the bad end run.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) ends: u32,

    /// The maximum number of runs of a kernel between the ends.
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) repeats: u32,

    /// The folder for the Runs [default: latebound-bisect-TIME].
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
  latebound lab build debian:6.12 debian:6.12-rt traced:6.12
  latebound lab build --arch arm64 debian:6.12-rt")]
pub(crate) struct LabBuildArgs {
    /// The architecture of the kernels: amd64 or arm64 [default: the host's].
    #[arg(long, value_name = "NAME")]
    pub(crate) arch: Option<Architecture>,

    /// The kernels.
    #[arg(value_name = "KERNEL", required = true)]
    pub(crate) kernels: Vec<String>,
}

/// The machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machine")]
pub(crate) struct MachineArgs {
    /// The number of CPUs [default: 2, or 1 with --clock instructions].
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<u32>,

    /// The memory of the machine.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) memory: String,

    /// An option for the kernel's command line; may be given more than once.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) append: Vec<String>,

    /// Add a virtio disk on a scratch file; it is /dev/vda in the guest.
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<String>,

    /// The number of virtio network cards, connected in pairs: eth0 with eth1.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) net: u32,

    /// The clock of the machine. host: the host's time, so pauses of the host are in the figures. instructions: 8 ns
    /// for each instruction, so the host's load is not in the figures; the machine has one CPU. With instructions:1ns
    /// the machine is eight times as fast and takes eight times as long [default: instructions for bisect and compare
    /// preemption, host for the others].
    #[arg(long, value_name = "NAME")]
    pub(crate) clock: Option<Clock>,

    /// Emulate the machine in software; do not try KVM.
    #[arg(long)]
    pub(crate) emulate: bool,

    /// The maximum time that a machine may run, including its boot.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    pub(crate) timeout: Nanos,

    /// One of latebound's modules (latebound_bound, latebound_defer, latebound_tune), or a folder with a Kbuild file.
    /// The module is built for the kernel and loaded before the job.
    #[arg(long, value_name = "MODULE")]
    pub(crate) module: Option<Module>,
}
