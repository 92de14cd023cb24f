// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound serve`. Holds no behaviour.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use latebound_model::{CpuSet, Nanos};

use super::MechanismName;

/// Observe for months as a service, with metrics for Prometheus and a spool of Runs
///
/// Observes as `observe` does, until it is stopped; with --measure it measures periodic wake-ups too, and with
/// --explain-unit and its like it explains the worst wake-ups of chosen threads. Each interval becomes a Run in the spool.
/// Metrics are given over HTTP to this machine, and over TLS to others: native histograms to a Prometheus that asks for
/// them, classic histograms to others. The first line of standard output is the address of the metrics.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latebound serve
  latebound serve --interval 10s --spool /var/lib/latebound/spool --spool-limit 200MiB
  latebound serve --mechanism softirq --mechanism work --listen 127.0.0.1:0 --duration 1h
  latebound serve --measure --measure-period 10ms --explain-unit postgresql --explain-unit nginx
  latebound serve --measure --bound bound.run

  latebound serve --listen 0.0.0.0:9760 --tls-cert cert.pem --tls-key key.pem --token-file token
  latebound serve --otlp http://127.0.0.1:4318 --otlp-every 15s

OTEL_RESOURCE_ATTRIBUTES in the environment (name=value,name=value) adds attributes to what --otlp pushes.

Exit status:
  0  it was stopped (SIGTERM, Ctrl-C) or its time was over; the last interval is in the spool
  1  an error; the message says what failed and what to type next")]
pub(crate) struct ServeArgs {
    /// The length of an interval, 1 s at least. Intervals end at whole multiples of it by the wall clock.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) interval: Nanos,

    /// The folder for the Runs; it is created if it does not exist.
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/latebound/spool")]
    pub(crate) spool: PathBuf,

    /// The most bytes that the spool may take on disk (KiB, MiB, GiB); the oldest detail is removed first, then the oldest Runs.
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    pub(crate) spool_limit: u64,

    /// The address for the metrics: of this machine alone (127.0.0.1, [::1]), or, with --tls-cert, --tls-key and --token-file,
    /// any; with port 0 the kernel chooses a port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9760")]
    pub(crate) listen: SocketAddr,

    /// Give the metrics over TLS, with the certificates in this PEM file: the own one first. A changed file is used for
    /// connections from 10 s later on.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM. The file must belong to root or to this user, and be closed to others.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Answer only who brings the token in this file (Authorization: Bearer TOKEN). The same rules hold as for the key.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Also push the metrics to a receiver of OTLP over HTTP (http://127.0.0.1:4318, https://HOST:PORT/PATH; without a path
    /// to /v1/metrics). Histograms are exponential, of scale 5: a quantile is at most 2.15 % below and 2.99 % above the exact
    /// one; counts, sums and extremes are exact.
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,

    /// How often to push, 1 s at least [default: --interval].
    #[arg(long, value_name = "TIME", requires = "otlp")]
    pub(crate) otlp_every: Option<Nanos>,

    /// Trust the certificates in this PEM file for --otlp [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "otlp")]
    pub(crate) otlp_ca: Option<PathBuf>,

    /// Send the headers in this file to the receiver, one on a line (Authorization: Bearer TOKEN). The same rules hold as for
    /// the key.
    #[arg(long, value_name = "FILE", requires = "otlp")]
    pub(crate) otlp_headers: Option<PathBuf>,

    /// Observe only these mechanisms [default: all].
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) mechanism: Vec<MechanismName>,

    /// How long to observe [default: until SIGTERM or Ctrl-C].
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    #[command(flatten)]
    pub(crate) watch: ServeWatchArgs,
}

/// What is measured and explained beside.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measure and explain")]
pub(crate) struct ServeWatchArgs {
    /// Also measure how late periodic wake-ups are, with a real-time thread on each CPU.
    #[arg(long)]
    pub(crate) measure: bool,

    /// The CPUs to measure, such as 0-3,6 [default: all that this process may use].
    #[arg(long, value_name = "LIST", requires = "measure")]
    pub(crate) measure_cpus: Option<CpuSet>,

    /// The time from one wake-up to the next.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub(crate) measure_period: Nanos,

    /// The real-time priority of the measuring threads, 1 to 99 [default: 95].
    #[arg(long, value_name = "N", requires = "measure")]
    pub(crate) measure_priority: Option<u32>,

    /// Explain the worst wake-ups of the threads of this unit of systemd, one unit for each time that it is given; without a
    /// kind the name is that of a service. A unit that does not run is watched from a few seconds after its start on.
    #[arg(long, value_name = "NAME")]
    pub(crate) explain_unit: Vec<String>,

    /// Explain the worst wake-ups of the threads of this control group (version 2), such as /system.slice/nginx.service, and
    /// of the groups below it.
    #[arg(long, value_name = "PATH")]
    pub(crate) explain_cgroup: Vec<String>,

    /// Explain the worst wake-ups of the threads of this container of Docker, Podman, containerd or CRI-O, by its id or the
    /// beginning of its id. A container that does not run is watched from a few seconds after its start on.
    #[arg(long, value_name = "ID")]
    pub(crate) explain_container: Vec<String>,

    /// Explain the worst wake-ups of all real-time threads.
    #[arg(long)]
    pub(crate) explain_rt: bool,

    /// Give the bound of this Run beside what is measured, in the metrics and in each interval. It must be of this host and
    /// its kernel.
    #[arg(long, value_name = "RUN")]
    pub(crate) bound: Option<PathBuf>,

    /// How many of the worst wake-ups of an interval are explained: of each unit, group and container, and of the measuring
    /// threads.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) worst: usize,

    /// Memory for the last events of each CPU, in MiB, for each unit, group and container, and for the measuring threads.
    #[arg(long, value_name = "MIB", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) recorder_memory: u32,
}

/// A number of bytes: `200MiB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|one: char| !one.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        unit => return Err(format!("the unit \"{unit}\" is not known; write 200MiB, 1GiB")),
    };
    let number: u64 =
        number.parse().map_err(|_| "it does not begin with a whole number; write 200MiB, 1GiB")?;
    number.checked_mul(1 << shift).ok_or_else(|| "it is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn a_number_of_bytes_has_a_binary_unit() {
        assert_eq!(bytes("200MiB"), Ok(200 << 20));
        assert_eq!((bytes("1 GiB"), bytes("7")), (Ok(1 << 30), Ok(7)));
        for wrong in ["", "MiB", "1MB", "1.5GiB", "-1", "99999999999TiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
