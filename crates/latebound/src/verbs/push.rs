// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound push`: from the spool of one machine to the store of all.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use latebound_fleet::{AddOutcome, Damage, NewRuns, PushDocument, Store};
use latebound_report::printable;
use latebound_store::SpoolReader;

use crate::cli::PushArgs;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::Stop;

/// So many Runs become one commit: what is held in memory, and what is sent again after a kill.
const AT_ONCE: usize = 60;

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

/// Everything that is in the spool now.
fn push(args: &PushArgs, stop: &Stop) -> Result<PushDocument> {
    let spool = SpoolReader::open(&args.spool).with_context(|| {
        format!(
            "cannot read the spool {}; name the one of `latebound serve` with --spool",
            args.spool.display()
        )
    })?;
    let store = Store::open_or_create(&args.store)?;
    let mut pushed = PushDocument {
        schema: PushDocument::SCHEMA,
        store: store.location(),
        added: 0,
        present: 0,
        left: Vec::new(),
    };
    for names in spool.runs()?.chunks(AT_ONCE) {
        if stop.is_set() {
            break;
        }
        let (mut runs, mut read): (_, Vec<&OsString>) = (NewRuns::new(), Vec::new());
        for name in names {
            let shown = name.to_string_lossy().into_owned();
            let taken = match spool.read(name) {
                Ok(None) => continue,
                Ok(Some(run)) => runs.push(&run, &shown, args.host.as_deref()).map_err(anyhow::Error::from),
                Err(error) => Err(error.into()),
            };
            match taken {
                Ok(()) => read.push(name),
                Err(error) => pushed.left.push(Damage { file: shown, why: format!("{error:#}") }),
            }
        }
        let document = store.add(runs)?;
        for run in &document.runs {
            match run.outcome {
                AddOutcome::Present => pushed.present += 1,
                AddOutcome::Added | AddOutcome::Replaced => pushed.added += 1,
            }
        }
        // They count now: from here on a kill leaves them in both places, and they count once all the same.
        for name in read {
            spool.remove(name)?;
        }
    }
    Ok(pushed)
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
