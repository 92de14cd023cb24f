// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound store`. Holds no behaviour.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use latebound_fleet::{Day, Level, Table};
use latebound_model::Nanos;

const EXAMPLES: &str = "\
Examples:
  latebound store add --store fleet latebound-check.run
  latebound store list --store fleet
  latebound store files --store fleet --table buckets
  latebound store compact --store fleet --to hour";

/// Keep the Runs of many machines in one store, for any program that reads Parquet
///
/// A store is a folder, or a part of an S3 bucket, with Parquet tables by day and host. Each Run that is added counts once. Other programs
/// read the files that `store files` names. The settings of a bucket come from the environment: AWS_ENDPOINT_URL, AWS_REGION,
/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ALLOW_HTTP.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    Add(StoreAddArgs),
    List(StoreListArgs),
    Files(StoreFilesArgs),
    Verify(StoreVerifyArgs),
    Compact(StoreCompactArgs),
    Prune(StorePruneArgs),
    Migrate(StoreMigrateArgs),
    Simulate(StoreSimulateArgs),
    Export(StoreExportArgs),
}

/// Where the store lies.
#[derive(Debug, Args)]
pub(crate) struct StorePlace {
    /// The store: a folder, or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "PLACE")]
    pub(crate) store: PathBuf,
}

/// Which days and hosts of it.
#[derive(Debug, Args)]
pub(crate) struct StoreChoice {
    /// Only this day and later ones, such as 2026-11-27 (UTC).
    #[arg(long, value_name = "DAY")]
    pub(crate) from: Option<Day>,

    /// Only this day and earlier ones.
    #[arg(long, value_name = "DAY")]
    pub(crate) to: Option<Day>,

    /// Only this host; may be given more than once.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
}

/// Add Runs to a store
///
/// Makes the store if there is none. All Runs of one day and host become one commit: a reader sees all of them or none. A Run that is
/// in the store already is not counted again. Several processes, on several machines, may add at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound store add --store /srv/fleet latebound-check.run
  latebound store add --store s3://fleet/lab latebound-check.run
  latebound store add --store /srv/fleet --host rt-07 nightly/*.run")]
pub(crate) struct StoreAddArgs {
    #[command(flatten)]
    pub(crate) place: StorePlace,

    /// Write rows of whole hours in place of those of single Runs, as `store compact` would.
    #[arg(long)]
    pub(crate) by_hour: bool,

    /// The name of the host, in place of the name in the Run.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,

    /// The Runs: folders, or their run.json; or - for a stream of Runs on standard input, which `latebound push` sends over ssh.
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,
}

/// List the days and hosts of a store, with their Runs, rows and bytes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound store list --store /srv/fleet
  latebound store list --store /srv/fleet --host rt-07 --from 2026-11-01 --format json")]
pub(crate) struct StoreListArgs {
    #[command(flatten)]
    pub(crate) place: StorePlace,
    #[command(flatten)]
    pub(crate) choice: StoreChoice,
}

/// Print the paths of the Parquet files that count, for other programs
///
/// Reading all files below `data` counts too much: files that were rolled up stay for an hour, and a writer may be about to commit
/// others. A missing or cut file is left out and named on standard error, and the exit status is 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound store files --store /srv/fleet --table series
  latebound store files --store /srv/fleet --from 2026-11-20 --format json")]
pub(crate) struct StoreFilesArgs {
    #[command(flatten)]
    pub(crate) place: StorePlace,

    /// Only this table: series, buckets, worst, spans, settings, machines, losses, bounds, blocks, intervals or results; may be given
    /// more than once [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Vec<Table>,

    #[command(flatten)]
    pub(crate) choice: StoreChoice,
}

/// Read every file that counts and compare it with what was written
///
/// Names each file that is missing, cut or changed, and each commit that cannot be read; then the exit status is 1. Other readers leave
/// them out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound store verify --store /srv/fleet")]
pub(crate) struct StoreVerifyArgs {
    #[command(flatten)]
    pub(crate) place: StorePlace,
}

/// Roll up Runs to hours or days, and remove files that nobody needs
///
/// Rolling up adds distributions up exactly and keeps the worst activations. An hour or day is rolled up one hour after its end. A Run that
/// still goes on is left alone until it has been silent for a day. Files that no longer count are removed after an hour, so that programs
/// that read them can finish.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound store compact --store /srv/fleet --to hour
  latebound store compact --store /srv/fleet --to day")]
pub(crate) struct StoreCompactArgs {
    #[command(flatten)]
    pub(crate) place: StorePlace,

    /// What rows are added up to.
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = RollTo::Hour)]
    pub(crate) to: RollTo,
}

/// What rows are added up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RollTo {
    Hour,
    Day,
}

impl From<RollTo> for Level {
    fn from(to: RollTo) -> Level {
        match to {
            RollTo::Hour => Level::Hour,
            RollTo::Day => Level::Day,
        }
    }
}

/// Remove old days from a store
///
/// The files are removed at once. A program that reads them meanwhile may fail.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound store prune --store /srv/fleet --before 2026-01-01")]
pub(crate) struct StorePruneArgs {
    #[command(flatten)]
    pub(crate) place: StorePlace,

    /// Remove the days before this one, such as 2026-11-27 (UTC).
    #[arg(long, value_name = "DAY")]
    pub(crate) before: Day,
}

/// Write files of earlier versions again, with the columns of today
///
/// Every latebound reads the stores of earlier ones, where what came later has no value. After this, all files have today's columns, for
/// programs that want all files alike. Each day of a host is one commit. After a kill, the same command does the rest.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound store migrate --store /srv/fleet")]
pub(crate) struct StoreMigrateArgs {
    #[command(flatten)]
    pub(crate) place: StorePlace,
}

/// Add the Runs of hosts that do not exist to a store, to try questions and sizes before there are machines
///
/// The same seed gives the same fleet. Hosts are called sim-00000 and so on. Kernels, processors, hosts and CPUs differ in their
/// wake-up latencies, and an eighth of the hosts gets the governor powersave at some time, and with it twice the latencies. Hosts
/// that are there already are not added again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound store simulate --store /tmp/fleet --hosts 10 --cpus 4 --day 2026-11-26 --duration 1h
  latebound store simulate --store /var/tmp/fleet --hosts 1000 --cpus 64 --day 2026-11-26 --interval 1h")]
pub(crate) struct StoreSimulateArgs {
    #[command(flatten)]
    pub(crate) place: StorePlace,

    /// Write rows of whole hours in place of those of single Runs, as `store compact` would.
    #[arg(long)]
    pub(crate) by_hour: bool,

    /// How many hosts.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) hosts: u32,

    /// How many CPUs each host has.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) cpus: u32,

    /// The day on which they begin, such as 2026-11-26 (UTC).
    #[arg(long, value_name = "DAY")]
    pub(crate) day: Day,

    /// For how long each host measures.
    #[arg(long, default_value = "24h")]
    pub(crate) duration: Nanos,

    /// How long a Run is: whole minutes.
    #[arg(long, default_value = "1m")]
    pub(crate) interval: Nanos,

    /// How many wake-ups each CPU has in a second.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) wakeups: u32,

    /// What the chance begins with.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Write all that a store holds of a host as one Run
///
/// The Run holds the distributions of all chosen days, added up exactly over Runs and CPUs, the worst activations, losses, and the settings
/// as they were last. What a store does not keep is listed as missing. `latebound report` and `latebound compare` take the Run as any
/// other: hosts with one kernel against hosts with another is a comparison in which each host counts once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound store export --store /srv/fleet --host rt-07 --output rt-07.run
  latebound store export --store /srv/fleet --host rt-07 --from 2026-11-20 --format json")]
pub(crate) struct StoreExportArgs {
    #[command(flatten)]
    pub(crate) place: StorePlace,

    /// The host.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: String,

    /// Only this day and later ones, such as 2026-11-27 (UTC).
    #[arg(long, value_name = "DAY")]
    pub(crate) from: Option<Day>,

    /// Only this day and earlier ones.
    #[arg(long, value_name = "DAY")]
    pub(crate) to: Option<Day>,

    /// Write the Run to this folder, with its page report.html.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Replace an earlier Run at --output.
    #[arg(long)]
    pub(crate) force: bool,
}
