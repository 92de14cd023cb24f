// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound compare` and `latebound import`. Holds no behaviour.

use std::path::PathBuf;

use clap::{ArgAction, Args, FromArgMatches, value_parser};

/// Say what differs between Runs, by how much, and how sure that is
///
/// The Runs before --against are the baseline; each --against takes the Runs of another side. Settings that differ come
/// first. Then each number (quantiles of latency, greatest values, throughput) with its interval and one of four verdicts:
/// better, worse, no difference larger than so much, not enough runs. Whole Runs are compared, never their samples, so a
/// verdict needs several Runs a side: four at least, better eight. docs/compare.md says what each verdict means.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound compare base-*.run --against new-*.run
  latebound compare none-*.run --against full-*.run --against rt-*.run
  latebound compare base-*.run --against new-*.run --margin 10% --fail-if-worse --format json

Exit status:
  0  it was done
  1  an error, or the sides are unlike and --anyway was not given
  2  --fail-if-worse was given and something is worse")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) sides: SideArgs,

    /// How often a comparison of a system with itself may call any difference at all.
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub(crate) level: f64,

    /// A relative difference that does not matter.
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub(crate) margin: f64,

    /// Compare sides that are unlike (emulated with real, other loads, other periods): what is unlike is said.
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Also list what the kernel put off (softirqs, work items, …) where nothing can be said about it.
    #[arg(long)]
    pub(crate) all: bool,

    /// End with exit status 2 where the verdict on a latency that was timed, or on throughput, is worse.
    #[arg(long)]
    pub(crate) fail_if_worse: bool,

    /// The seed of the random numbers; the same Runs with the same seed give the same answer.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
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
/// Reads text, JSON or histograms of cyclictest, oslat and jitterdebugger, histograms of rtla timerlat and osnoise, rteval's
/// summary.xml, and what hackbench and sockperf print; which it is, the content tells. The Run says what the tool left out:
/// values above its histogram, periods that a late wake-up hid, settings. `latebound compare` also takes such files as they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cyclictest -m -p95 -a -t -h400 -D60 -q > cyclictest.txt
  latebound import cyclictest.txt --output cyclictest.run
  latebound import timerlat.txt --format json")]
pub(crate) struct ImportArgs {
    /// What the other tool wrote.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The folder of the Run; where not given, a summary is printed and nothing written.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Replace a Run that is there already.
    #[arg(long)]
    pub(crate) force: bool,
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
