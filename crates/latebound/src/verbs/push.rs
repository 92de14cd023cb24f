// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound push`: from the spool of one machine to the store of all.

mod ssh;

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jiff::{SignedDuration, Timestamp};
use latebound_fleet::{AddOutcome, Damage, NewRuns, PushDocument, RunStream, Store};
use latebound_model::Run;
use latebound_report::printable;
use latebound_store::SpoolReader;

use crate::cli::PushArgs;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::Stop;
use ssh::SshPlace;

/// So many Runs become one commit: what is held in memory, and what is sent again after a kill.
const AT_ONCE: usize = 60;

/// The same where they are rolled up: an hour of Runs of 10 s. One of them is in memory at a time, and their sum.
const AT_ONCE_BY_HOUR: usize = 360;

/// An hour is over so long after its end: its last Run is in the spool then.
const SETTLED: SignedDuration = SignedDuration::from_mins(5);

/// Above so many bytes a commit takes no more Runs, where they are sent.
const BYTES_AT_ONCE: usize = 64 << 20;

/// How often it is looked whether it is to end.
const LOOK: Duration = Duration::from_millis(250);

pub(crate) fn run(args: &PushArgs, output: &Output) -> Result<Outcome> {
    let stop = Stop::on_signals()?;
    let Some(every) = args.every else {
        let pushed = push(args, &stop)?;
        tell(&pushed, output)?;
        if !pushed.left.is_empty() {
            bail!("{} Runs of the spool could not be read (see above) and stay there", pushed.left.len());
        }
        return Ok(Outcome::Done);
    };
    if every.0 == 0 {
        bail!("--every {every} is no time between two looks; type 1m or 5m");
    }
    while !stop.is_set() {
        match push(args, &stop) {
            Ok(pushed) if pushed.added + pushed.present > 0 || !pushed.left.is_empty() => {
                tell(&pushed, output)?
            }
            Ok(_) => {}
            // The spool keeps what the store cannot take now.
            Err(error) => output.error(&error),
        }
        let again = Instant::now() + every.to_duration();
        while !stop.is_set() && Instant::now() < again {
            std::thread::sleep(LOOK.min(again - Instant::now()));
        }
    }
    Ok(Outcome::Done)
}

/// Where Runs go.
enum Target {
    Store(Store),
    Ssh(SshPlace),
}

impl Target {
    fn open(place: &Path) -> Result<Target> {
        match SshPlace::of(place)? {
            Some(ssh) => Ok(Target::Ssh(ssh)),
            None => Ok(Target::Store(Store::open_or_create(place)?)),
        }
    }

    fn location(&self) -> String {
        match self {
            Target::Store(store) => store.location(),
            Target::Ssh(place) => place.to_string(),
        }
    }

    /// Adds Runs: what became of each. They are on the disk of the store then.
    fn add(&self, batch: Batch<'_>, by_hour: bool) -> Result<Vec<AddOutcome>> {
        match self {
            Target::Store(store) => {
                let added = store.add(batch.runs.by_hour(by_hour))?;
                Ok(added.runs.into_iter().map(|run| run.outcome).collect())
            }
            Target::Ssh(place) => place.add(batch.stream, by_hour),
        }
    }
}

/// Runs that become one commit.
#[derive(Default)]
struct Batch<'a> {
    /// As rows. A Run that makes none is found before anything is sent.
    runs: NewRuns<'a>,
    /// As bytes, where they are sent.
    stream: RunStream,
    /// What they are called in the spool.
    names: Vec<&'a OsString>,
    /// The hour of the first of them, in hours since 1970, where it is known.
    hour: Option<i64>,
}

/// The hour in which a Run began.
fn hour_of(run: &Run) -> Option<i64> {
    let start: Timestamp = run.started_at.parse().ok()?;
    Some(start.as_second().div_euclid(3600))
}

/// Everything that is in the spool now.
fn push(args: &PushArgs, stop: &Stop) -> Result<PushDocument> {
    let spool = SpoolReader::open(&args.spool).with_context(|| {
        format!(
            "cannot read the spool {}; name the one of `latebound serve` with --spool",
            args.spool.display()
        )
    })?;
    let target = Target::open(&args.store)?;
    let mut pushed = PushDocument {
        schema: PushDocument::SCHEMA,
        store: target.location(),
        added: 0,
        present: 0,
        left: Vec::new(),
    };
    let names = spool.runs()?;
    let mut batch = Batch::default();
    let most = if args.by_hour { AT_ONCE_BY_HOUR } else { AT_ONCE };
    let now = Timestamp::now().checked_sub(SETTLED)?.as_second().div_euclid(3600);
    for name in &names {
        if stop.is_set() {
            return Ok(pushed);
        }
        let shown = name.to_string_lossy().into_owned();
        let read = spool.read(name);
        if args.by_hour
            && let Ok(Some(run)) = &read
        {
            let hour = hour_of(run);
            // Not for ever: when the clock is set back, Runs are of a time that is far ahead.
            if hour.is_some_and(|hour| hour == now || hour == now + 1) {
                continue;
            }
            if !batch.names.is_empty() && hour != batch.hour {
                send(&spool, &target, std::mem::take(&mut batch), args.by_hour, &mut pushed)?;
            }
            batch.hour = hour;
        }
        let mut take = |run: Run| -> Result<()> {
            let host = args.host.as_deref();
            match args.by_hour {
                true => {
                    let again = || spool.read(name).map_err(|error| error.to_string());
                    batch.runs.push_again(&run, &shown, host, again)?;
                }
                false => batch.runs.push(&run, &shown, host)?,
            }
            if let Target::Ssh(_) = target {
                batch.stream.push(&run, &shown, args.host.as_deref())?;
            }
            Ok(())
        };
        let taken = match read {
            Ok(None) => continue,
            Ok(Some(run)) => take(run),
            Err(error) => Err(error.into()),
        };
        match taken {
            Ok(()) => batch.names.push(name),
            Err(error) => pushed.left.push(Damage { file: shown, why: format!("{error:#}") }),
        }
        if batch.names.len() >= most || batch.stream.bytes() >= BYTES_AT_ONCE {
            send(&spool, &target, std::mem::take(&mut batch), args.by_hour, &mut pushed)?;
        }
    }
    send(&spool, &target, batch, args.by_hour, &mut pushed)?;
    Ok(pushed)
}

fn send(
    spool: &SpoolReader,
    target: &Target,
    mut batch: Batch<'_>,
    by_hour: bool,
    pushed: &mut PushDocument,
) -> Result<()> {
    let names = std::mem::take(&mut batch.names);
    if names.is_empty() {
        return Ok(());
    }
    for outcome in target.add(batch, by_hour)? {
        match outcome {
            AddOutcome::Present => pushed.present += 1,
            AddOutcome::Added | AddOutcome::Replaced => pushed.added += 1,
        }
    }
    // They count now: from here on a kill leaves them in both places, and they count once all the same.
    for name in names {
        spool.remove(name)?;
    }
    Ok(())
}

fn tell(pushed: &PushDocument, output: &Output) -> Result<()> {
    for left in &pushed.left {
        output.note(&format!(
            "latebound: {} stays in the spool: {}",
            printable(&left.file),
            printable(&left.why)
        ));
    }
    if output.is_json() {
        return output.document(pushed);
    }
    let present = match pushed.present {
        0 => String::new(),
        present => format!("; {present} were there before and count once"),
    };
    let plural = if pushed.added == 1 { "Run" } else { "Runs" };
    output.text(&format!("{} {plural} moved to {}{present}\n", pushed.added, printable(&pushed.store)))
}
