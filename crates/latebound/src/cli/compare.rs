// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound compare` and `latebound import`. Holds no behaviour.

use std::path::PathBuf;

use clap::{ArgAction, Args, FromArgMatches, Subcommand, value_parser};
use latebound_compare::{Gate, GateError};
use latebound_model::Nanos;

use super::MachineArgs;

/// Compare Runs: what differs, by how much, and how sure that is
///
/// The Runs before --against are the baseline; each --against takes the Runs of another side. The output begins with
/// the settings that differ. Then each number (quantiles of latency, maximum values, throughput) has an interval and
/// one of four verdicts: better, worse, no difference larger than a share, not enough runs. Whole Runs are compared,
/// never their samples, so a verdict needs several Runs of each side: at least six; eight are better.
/// docs/src/guide/compare.md explains each verdict.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound compare base-*.run --against new-*.run
  latebound compare none-*.run --against full-*.run --against rt-*.run
  latebound compare base-*.run --against new-*.run --html compare.html
  latebound compare base-*.run --against new-*.run --fail-if 'timer.p99.9 worse by 10%' --junit compare.xml

Exit status:
  0  the comparison was made
  1  an error, or the sides are unlike and --anyway was not given
  2  a condition of --fail-if is true")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct CompareArgs {
    #[command(subcommand)]
    pub(crate) command: Option<CompareCommand>,

    #[command(flatten)]
    pub(crate) sides: SideArgs,

    /// The maximum share of comparisons of a system with itself in which any number is called better or worse.
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub(crate) level: f64,

    /// The largest relative difference that does not matter.
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub(crate) margin: f64,

    /// A number is called better or worse only if its whole interval lies beyond this relative difference.
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    pub(crate) least_effect: f64,

    /// Compare sides that are unlike (emulated and real machines; other loads, policies, periods or units). The
    /// output lists what is unlike.
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Also list numbers of single CPUs and of deferred work (softirqs, work items, …) that have no verdict.
    #[arg(long)]
    pub(crate) all: bool,

    /// End with exit status 2 if this condition is true; may be given more than once. 'worse': any timed latency or
    /// throughput is called worse. 'timer.p99.9 worse by 10%': this number is called worse, and its estimate is at
    /// least 10 % worse. 'operation.p99 not within 10%': the Runs do not show that this number is less than 10 %
    /// worse. A number is MECHANISM.STATISTIC (timer, operation, softirq, …; p50, p99, p99.9, p99.99, max),
    /// throughput, or a name of the table (ipc messages.rate).
    #[arg(long, value_name = "CONDITION", value_parser = gate)]
    pub(crate) fail_if: Vec<Gate>,

    /// Write an HTML page to this file (- for standard output, in place of the text): settings that differ, ratios
    /// with their intervals, distributions.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write JUnit XML to this file (- for standard output, in place of the text), with one test case for each
    /// number.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Write Markdown to this file (- for standard output, in place of the text), for the summary of a pipeline.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// The seed of the random numbers; the same Runs with the same seed give the same result.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CompareCommand {
    Preemption(PreemptionArgs),
}

/// Compare the kernel's preemption models: latency and throughput of the same work
///
/// Runs each workload on each kernel several times, in turns: in virtual machines, or with --here on this machine
/// with the running kernel (--resume continues after the next boot). Then it draws latency against throughput, with
/// one point and its interval for each model, and writes a table of each model's gain over the first model.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound compare preemption --output models --clock instructions --jobs 2
  latebound compare preemption --output models --load ipc --load tcp:size=14 --load sqlite+cpu:threads=8 --runs 5
  latebound compare preemption --resume models --runs 8
  latebound compare preemption --here --output models   (boot with preempt=full, then: --resume models)

A workload is one load, as for --load of measure, or several loads with + between them. The picture shows the throughput of
the first load.")]
pub(crate) struct PreemptionArgs {
    /// The kernels, with commas between them; the first is the baseline.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["here", "resume"],
          default_value = "debian:6.12@none,debian:6.12@voluntary,debian:6.12@full,debian:6.12-rt")]
    pub(crate) kernels: Vec<String>,

    /// Measure the running kernel on this machine. Measure each other model with --resume after its boot.
    #[arg(long, conflicts_with_all = ["resume", "jobs", "cpus", "memory", "append", "disk", "net", "clock", "emulate", "timeout", "module"])]
    pub(crate) here: bool,

    /// The models to compare with --here, with commas between them; the first is the baseline.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "here",
        default_value = "none,voluntary,full"
    )]
    pub(crate) models: Vec<String>,

    /// A workload; may be given more than once [default: ipc, tcp:size=300, udp:size=300 and sqlite].
    #[arg(long, value_name = "LOAD", conflicts_with = "resume")]
    pub(crate) load: Vec<String>,

    /// How often each kernel runs each workload [default: 6, the minimum that gives a 95 % interval for one side
    /// alone].
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) runs: Option<u32>,

    /// The duration of each run.
    #[arg(long, value_name = "TIME", default_value = "10s", conflicts_with = "resume")]
    pub(crate) duration: Nanos,

    /// The time from one wake-up of the measuring threads to the next. Choose a period of which the tick period is no
    /// multiple.
    #[arg(long, value_name = "TIME", default_value = "997us", conflicts_with = "resume")]
    pub(crate) period: Nanos,

    /// How many machines run at once. More than one needs --clock instructions, because such machines do not disturb
    /// each other.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,

    /// The folder for the Runs, the page, the picture and the table [default: latebound-preemption-TIME].
    #[arg(long, short, value_name = "FOLDER", conflicts_with = "resume")]
    pub(crate) output: Option<PathBuf>,

    /// Continue in this folder: make the missing Runs of its plan. A larger --runs adds Runs.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["cpus", "memory", "append", "disk", "net", "clock", "emulate", "timeout", "module"])]
    pub(crate) resume: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

/// The Runs of each side. Written by hand, because only the parser's matches tell where one `--against` ends and the next
/// begins.
#[derive(Debug)]
pub(crate) struct SideArgs {
    pub(crate) base: Vec<PathBuf>,
    pub(crate) against: Vec<Vec<PathBuf>>,
}

impl Args for SideArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
            .arg(
                clap::Arg::new("base")
                    .value_name("BASE")
                    .help("Runs of the baseline: folders, their run.json, or results of other tools, as for `import`")
                    .required(true)
                    .num_args(1..)
                    .value_parser(value_parser!(PathBuf)),
            )
            .arg(
                clap::Arg::new("against")
                    .long("against")
                    .value_name("RUN")
                    .help("Runs of another side; give --against again for a third side")
                    .required(true)
                    .num_args(1..)
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(PathBuf)),
            )
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SideArgs {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<SideArgs, clap::Error> {
        Ok(SideArgs {
            base: matches.get_many::<PathBuf>("base").into_iter().flatten().cloned().collect(),
            against: matches
                .get_occurrences::<PathBuf>("against")
                .into_iter()
                .flatten()
                .map(|side| side.cloned().collect())
                .collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = SideArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Make a Run from another tool's results
///
/// Reads text, JSON or histograms of cyclictest, oslat and jitterdebugger, JSON of the other rt-tests, histograms of
/// rtla timerlat and osnoise, rteval's summary.xml, and the output of hackbench and sockperf. The content tells which
/// tool wrote the file. The Run records the tool's settings and the values that the tool left out: values above its
/// histogram, periods that a late wake-up hid. A quantile above the end of the histogram is printed as "> 400 us". A
/// file may hold several results, one after the other: each becomes its own Run. `latebound compare` also takes such
/// files directly.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cyclictest -m -p95 -a -t -h400 -D60 -q > cyclictest.txt
  latebound import cyclictest.txt --output cyclictest.run
  latebound import timerlat.txt --format json
  hackbench -g4 | latebound import -
  for i in 1 2 3; do cyclictest -p95 -t -h400 -D60 -q; done > three.txt
  latebound import three.txt --output three.run    (three.1.run, three.2.run, three.3.run)")]
pub(crate) struct ImportArgs {
    /// The file that the other tool wrote; - is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The folder of the Run, with a number in its name if the file has several results [default: no Run is written].
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Replace an existing Run.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

fn gate(text: &str) -> Result<Gate, GateError> {
    text.parse()
}

/// `5%` or `0.05`: above nothing and below all.
fn share(text: &str) -> Result<f64, String> {
    let number = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.trim().parse(),
    };
    number
        .ok()
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(|| format!("\"{text}\" is not a share; write it as 5% or 0.05"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct Only {
        #[command(flatten)]
        args: CompareArgs,
    }

    #[test]
    fn each_against_is_a_side_of_its_own() {
        let only = Only::parse_from([
            "compare",
            "a",
            "b",
            "--against",
            "c",
            "d",
            "--margin",
            "10%",
            "--against",
            "e",
        ]);
        assert_eq!(only.args.sides.base, ["a", "b"].map(PathBuf::from));
        assert_eq!(only.args.sides.against, [vec!["c".into(), "d".into()], vec![PathBuf::from("e")]]);
        assert!((only.args.margin - 0.1).abs() < 1e-12);
        assert!(Only::try_parse_from(["compare", "a"]).is_err());
        assert!(Only::try_parse_from(["compare", "a", "--against", "b", "--level", "5"]).is_err());
    }
}
