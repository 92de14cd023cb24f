// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound serve`: what the kernel puts off, and what is measured and explained beside, for months: metrics for who asks, and a Run of each
//! interval.
//!
//! One thread observes ([`watched`]) and makes the metrics ([`service`]). Another has the connections ([`crate::metrics_server`]), and a third one writes to
//! the spool ([`writer`]): a disk that takes its time holds no answer up. What an interval and a metric say is for `latebound-metrics`,
//! where a Run lies for `latebound-store`.

mod service;
mod watched;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use latebound_model::{Bound, Nanos, RunVerb, SystemSnapshot};
use latebound_report::printable;
use latebound_store::{Spool, StoreError};
use latebound_system::{Facts, Root};
use percent_encoding::percent_decode_str;

use crate::cli::ServeArgs;
use crate::metrics_server;
use crate::metrics_server::access::{Access, AccessFiles};
use crate::otlp_client::{Client, PushTo, Target};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::service_manager::notify;
use crate::session::{self, Stop, monotonic};

use service::{Attributes, Clock, Push, Service};
use watched::Watched;
use writer::{Writer, reason};

/// What OpenTelemetry reads attributes of a resource from (opentelemetry.io/docs/specs/otel/resource/sdk).
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SHORTEST: Nanos = Nanos::from_secs(1);

pub(crate) fn run(args: &ServeArgs, output: &Output) -> Result<Outcome> {
    output.prints("serve", None)?;
    if args.interval < SHORTEST {
        bail!("--interval {} is shorter than {SHORTEST}; choose a longer one", args.interval);
    }
    let files =
        AccessFiles { tls: args.tls_cert.clone().zip(args.tls_key.clone()), token: args.token_file.clone() };
    files.allow(args.listen)?;
    Access::read(&files)?;
    let push = pushes(args)?;
    let whom = watched::chosen(&args.watch)?;
    for absent in whom.iter().filter_map(watched::Chosen::absent) {
        output.note(&format!("{absent}. It is watched once it runs"));
    }
    let doctor = latebound_system::doctor(&Root::live(), &Facts::live());
    let mut head = session::new_run(RunVerb::Observe, doctor, Some(args.interval));
    head.bound = args.watch.bound.as_deref().map(|path| bound_of(path, &head.system)).transpose()?;
    let stop = Stop::on_signals()?;
    let listener = metrics_server::bind(args.listen)?;
    let address = listener.local_addr().context("cannot tell the address of the metrics")?;
    let spool = Spool::open(&args.spool, args.spool_limit).map_err(|error| {
        let why = match error {
            StoreError::Busy { .. } => "another latebound serve writes to it".to_owned(),
            error => reason(&error),
        };
        anyhow!("cannot use the spool {}: {why}; choose another with --spool", args.spool.display())
    })?;
    let began = (SystemClock.wall(), SystemClock.monotonic());
    let watched = Watched::start(args, whom, &mut head)?;
    let needs = Needs { measure: watched.is_measuring(), ..Needs::default() };
    privileges::give_up(Work::Serve, needs, &mut head);
    // Again, without what was given up: what can be read now can be read when it is replaced.
    let access = Access::read(&files).context("privileges were given up, as they are while it runs")?;
    let scheme = if access.is_encrypted() { "https" } else { "http" };
    // Its thread has no more privileges than this one.
    let server = metrics_server::start(listener, access)?;
    let writer = Writer::start(spool)?;
    let mut service = Service::new(args, watched, SystemClock, began, writer, head, output);
    if let Some((target, resource, every)) = push {
        service.push_to(Push::new(Client::start(target)?, resource, every));
    }
    notify("READY=1").context("cannot tell NOTIFY_SOCKET that this is ready")?;
    output.text(&format!("{scheme}://{address}/metrics\n"))?;
    service.serve(&server, &stop)?;
    let _ = notify("STOPPING=1");
    let last = service.write_the_rest();
    service.push_the_rest();
    last.context("the last interval is lost").map(|()| Outcome::Done)
}

/// The bound of a Run, which has to be one of this system.
fn bound_of(path: &Path, system: &SystemSnapshot) -> Result<Bound> {
    let run = latebound_store::read_run(path)?;
    let Some(mut bound) = run.bound else {
        bail!("{} has no bound; `latebound bound --output RUN` makes a Run that has one", path.display());
    };
    for (what, of_run, of_system) in [
        ("host", &run.system.hostname, &system.hostname),
        ("kernel", &run.system.kernel_release, &system.kernel_release),
    ] {
        if of_run != of_system {
            let name =
                |name: &Option<String>| name.as_deref().map_or("unknown".into(), printable).into_owned();
            bail!(
                "the bound in {} is of the {what} {}, and this is {}; find the bound of this one with `latebound bound`",
                path.display(),
                name(of_run),
                name(of_system)
            );
        }
    }
    // Each interval has it: without what only people look at, and without what was measured when it was found.
    bound.keep_witnesses(0);
    for cpu in &mut bound.cpus {
        cpu.measured = None;
    }
    Ok(bound)
}

/// Where to, of what and how often metrics are pushed.
fn pushes(args: &ServeArgs) -> Result<Option<(Target, Attributes, Nanos)>> {
    let Some(url) = args.otlp.clone() else { return Ok(None) };
    let every = args.otlp_every.unwrap_or(args.interval);
    if every < SHORTEST {
        bail!("--otlp-every {every} is shorter than {SHORTEST}; choose a longer one");
    }
    let to = PushTo { url, ca: args.otlp_ca.clone(), headers: args.otlp_headers.clone() };
    let given = std::env::var(RESOURCE).unwrap_or_default();
    let host = Facts::live().hostname.unwrap_or_default();
    Ok(Some((Target::read(&to)?, resource(&given, &host)?, every)))
}

/// What metrics are of: this service on this machine, and what the environment says of them, which goes before.
fn resource(given: &str, host: &str) -> Result<Attributes> {
    let mut attributes: BTreeMap<String, String> = [
        ("service.name", "latebound"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", host),
        ("host.name", host),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    for one in given.split(',').filter(|one| !one.trim().is_empty()) {
        let decoded = |text: &str| percent_decode_str(text.trim()).decode_utf8().map(String::from);
        let pair =
            one.split_once('=').and_then(|(name, value)| Some((decoded(name).ok()?, decoded(value).ok()?)));
        let Some((name, value)) = pair.filter(|(name, _)| !name.is_empty()) else {
            bail!(
                "{RESOURCE} has \"{one}\", which is not of the form name=value; write name=value,name=value, other signs as %2C"
            );
        };
        attributes.insert(name, value);
    }
    Ok(attributes.into_iter().collect())
}

/// The clocks of this machine.
struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn monotonic(&self) -> Nanos {
        monotonic()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::*;

    #[test]
    fn the_environment_goes_before_what_is_known_of_the_resource() {
        let of = |given: &str| resource(given, "machine").unwrap().into_iter().collect::<BTreeMap<_, _>>();
        let usual = of("");
        assert_eq!((usual["service.name"].as_str(), usual["host.name"].as_str()), ("latebound", "machine"));
        let given = of(" host.name=node , k8s.pod.name=a%2Cb=c,");
        assert_eq!((given["host.name"].as_str(), given["k8s.pod.name"].as_str()), ("node", "a,b=c"));
        assert_eq!(given["service.instance.id"], "machine");
        let error = resource("a=b,nonsense", "machine").unwrap_err().to_string();
        assert!(error.contains("nonsense") && error.contains("%2C"), "{error}");
    }
}
