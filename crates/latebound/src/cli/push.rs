// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound push`. Holds no behaviour.

use std::path::PathBuf;

use clap::Args;
use latebound_model::Nanos;

/// Move the Runs of a spool into a store
///
/// The oldest come first. A Run leaves the spool after its commit is on the disk of the store, so a kill at any time loses nothing, and what
/// is pushed again counts once. A Run that cannot be read is named and stays in the spool; the others go on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound push --store /srv/fleet
  latebound push --store s3://fleet/lab --every 5m
  latebound push --store s3://fleet/lab --every 10m --by-hour
  latebound push --store ssh://fleet@collector/srv/fleet --every 5m
  latebound push --spool /var/lib/latebound/spool --store /srv/fleet --every 5m

Exit status:
  0  every Run of the spool is in the store; with --every, it was stopped (SIGTERM, Ctrl-C)
  1  an error; the message says what failed and what to type next")]
pub(crate) struct PushArgs {
    /// The folder that `latebound serve` writes to.
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/latebound/spool")]
    pub(crate) spool: PathBuf,

    /// The store: a folder, s3://BUCKET/PREFIX, or ssh://USER@HOST/FOLDER for a folder of another machine, which needs latebound there.
    /// It is made if there is none.
    #[arg(long, value_name = "PLACE")]
    pub(crate) store: PathBuf,

    /// The name of the host, in place of the name in the Runs.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,

    /// Write rows of whole hours in place of those of single Runs, as `store compact` would: here, before they are sent to a folder or a
    /// bucket; over ssh there. The Runs of an hour stay in the spool until it is over.
    #[arg(long)]
    pub(crate) by_hour: bool,

    /// Go on, and look again after so long; a store that is out of reach is tried again then [default: once].
    #[arg(long, value_name = "TIME")]
    pub(crate) every: Option<Nanos>,
}
