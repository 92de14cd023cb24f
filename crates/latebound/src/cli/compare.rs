// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound compare` and `latebound import`. Holds no behaviour.

use std::path::PathBuf;

use clap::{ArgAction, Args, FromArgMatches, Subcommand, value_parser};
use latebound_compare::{Gate, GateError};
use latebound_model::Nanos;

use super::MachineArgs;

/// Say what differs between Runs, by how much, and how sure that is
///
/// The Runs before --against are the baseline; each --against takes the Runs of another side. Settings that differ come
/// first. Then each number (quantiles of latency, maximum values, throughput) with its interval and one of four verdicts:
/// better, worse, no difference larger than so much, not enough runs. Whole Runs are compared, never their samples, so a
/// verdict needs several Runs a side: six at least, better eight. docs/src/guide/compare.md says what each verdict means.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound compare base-*.run --against new-*.run
  latebound compare none-*.run --against full-*.run --against rt-*.run
  latebound compare base-*.run --against new-*.run --html compare.html
  latebound compare base-*.run --against new-*.run --fail-if 'timer.p99.9 worse by 10%' --junit compare.xml

Exit status:
  0  it was done
  1  an error, or the sides are unlike and --anyway was not given
  2  a condition of --fail-if came true")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct CompareArgs {
    #[command(subcommand)]
    pub(crate) command: Option<CompareCommand>,

    #[command(flatten)]
    pub(crate) sides: SideArgs,

    /// How often a comparison of a system with itself may call any difference at all.
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub(crate) level: f64,

    /// A relative difference that does not matter.
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub(crate) margin: f64,

    /// A difference is called where its whole interval lies beyond this relative difference.
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    pub(crate) least_effect: f64,

    /// Compare sides that are unlike (emulated with real, other loads, policies, periods or units): what is unlike is said.
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Also list single CPUs and what the kernel put off (softirqs, work items, …) where nothing can be said about them.
    #[arg(long)]
    pub(crate) all: bool,

    /// End with exit status 2 where this comes true; may be given more than once. 'worse': any latency that was timed, or
    /// throughput, is called worse. 'timer.p99.9 worse by 10%': that number is, and by so much by estimate. 'operation.p99
    /// not within 10%': it is not shown to be less than so much worse. Numbers are MECHANISM.STATISTIC (timer, operation,
    /// softirq, …; p50, p99, p99.9, p99.99, max), throughput, or a name of the table (ipc messages.rate).
    #[arg(long, value_name = "CONDITION", value_parser = gate)]
    pub(crate) fail_if: Vec<Gate>,

    /// Write a page (HTML) to this file (- for standard output, in place of the text): what differs, the differences with their
    /// intervals, the distributions.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write JUnit XML to this file (- for standard output, in place of the text): a case for each number.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Write Markdown to this file (- for standard output, in place of the text), for the summary of a pipeline.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// The seed of the random numbers; the same Runs with the same seed give the same answer.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CompareCommand {
    Preemption(PreemptionArgs),
}

/// Hold the kernel's preemption models against each other: latency and throughput of the same work
///
/// Runs each workload on each kernel several times, in turns: in virtual machines, or with --here on this machine with the
/// kernel that runs now, to be resumed after the next boot. Then it draws latency against throughput, a point a
/// model with its interval, and writes a table of each model's gain over the first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound compare preemption --output models --clock instructions --jobs 2
  latebound compare preemption --output models --load ipc --load tcp:size=14 --load sqlite+cpu:threads=8 --runs 5
  latebound compare preemption --resume models --runs 8
  latebound compare preemption --here --output models   (boot with preempt=full, then: --resume models)

A workload is a load as --load of measure takes it, or several with + between them; the first one's throughput is drawn.")]
pub(crate) struct PreemptionArgs {
    /// The kernels, with commas between them; the first is the baseline.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["here", "resume"],
          default_value = "debian:6.12@none,debian:6.12@voluntary,debian:6.12@full,debian:6.12-rt")]
    pub(crate) kernels: Vec<String>,

    /// Measure on this machine, the kernel that runs now; the other models after their boots, with --resume.
    #[arg(long, conflicts_with_all = ["resume", "jobs", "cpus", "memory", "append", "disk", "net", "clock", "emulate", "timeout", "module"])]
    pub(crate) here: bool,

    /// The models that --here is to have in the end, with commas between them; the first is the baseline.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "here",
        default_value = "none,voluntary,full"
    )]
    pub(crate) models: Vec<String>,

    /// A workload; may be given more than once. ipc, tcp:size=300, udp:size=300 and sqlite where not given.
    #[arg(long, value_name = "LOAD", conflicts_with = "resume")]
    pub(crate) load: Vec<String>,

    /// How often each kernel runs each workload; 6 where not given, the fewest with a 95 % interval of their own.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) runs: Option<u32>,

    /// For how long each time.
    #[arg(long, value_name = "TIME", default_value = "10s", conflicts_with = "resume")]
    pub(crate) duration: Nanos,

    /// From one wake-up of the probe threads to the next; no multiple of the tick.
    #[arg(long, value_name = "TIME", default_value = "997us", conflicts_with = "resume")]
    pub(crate) period: Nanos,

    /// How many machines run at once; more than one only by instructions, where they cannot disturb each other.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,

    /// The folder for the Runs, the page, the picture and the table; latebound-preemption-TIME where not given.
    #[arg(long, short, value_name = "FOLDER", conflicts_with = "resume")]
    pub(crate) output: Option<PathBuf>,

    /// Go on in this folder with what it lacks, by the plan that is in it. Give --runs for more of them.
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
                    .help("Runs of the baseline: folders, their run.json, or results of other tools as `import` takes them")
                    .required(true)
                    .num_args(1..)
                    .value_parser(value_parser!(PathBuf)),
            )
            .arg(
                clap::Arg::new("against")
                    .long("against")
                    .value_name("RUN")
                    .help("Runs of another side; give --against again for a third")
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

/// Make a Run of another tool's results
///
/// Reads text, JSON or histograms of cyclictest, oslat and jitterdebugger, JSON of the other rt-tests, histograms of rtla
/// timerlat and osnoise, rteval's summary.xml, and what hackbench and sockperf print; which it is, the content tells. The Run
/// says how the tool was run and what it left out: values above its histogram, periods that a late wake-up hid. A quantile
/// among values above a histogram is printed as "> 400 us". A file may hold several results, one appended to the other: each
/// is a Run of its own. `latebound compare` also takes such files as they are.
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
    /// What the other tool wrote; - is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The folder of the Run, numbered where the file has several results; where not given, nothing is written.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Replace a Run that is there already.
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
