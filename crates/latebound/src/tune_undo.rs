// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune undo`, and what every verb of `tune` says of journals that others left. Owns these words; what is undone is for
//! `latebound-system` to say.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use latebound_model::Tid;
use latebound_report::printable;
use latebound_system::undo::{self, Ending, Outcome, Recovered, Undone};
use serde::Serialize;

use crate::cli::TuneUndoArgs;
use crate::output::Output;

/// What `tune undo` did.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    folder: String,
    journals: Vec<JournalAccount>,
}

/// One journal.
#[derive(Debug, Serialize)]
struct JournalAccount {
    journal: String,
    state: State,
    /// Its process, by the id in its own PID namespace; absent where that cannot be read.
    process: Option<Tid>,
    restored: usize,
    untouched: usize,
    gone: usize,
    unreadable: usize,
    /// What is not as it was, and why.
    left: Vec<String>,
    /// Why nothing was done.
    why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    GivenBack,
    AtWork,
    OtherNamespace,
    Failed,
}

pub(crate) fn run(args: &TuneUndoArgs, output: &Output) -> Result<()> {
    let journals = undo::recover(&args.journal)?.into_iter().map(JournalAccount::new).collect();
    let folder = args.journal.display().to_string();
    let document = Document { schema: "latebound.tune-undo/1", folder, journals };
    if output.is_json() {
        output.json(&document)?
    } else {
        output.text(&document.text())?
    }
    let is_failed = |one: &&JournalAccount| {
        matches!(one.state, State::OtherNamespace | State::Failed) || !one.left.is_empty()
    };
    match document.journals.iter().filter(is_failed).count() {
        0 => Ok(()),
        failed => bail!("not everything was given back, as {failed} of the journals above say"),
    }
}

impl JournalAccount {
    fn new(recovered: Recovered) -> JournalAccount {
        let account = |state, process, why| JournalAccount {
            journal: recovered.path.display().to_string(),
            state,
            process,
            restored: 0,
            untouched: 0,
            gone: 0,
            unreadable: 0,
            left: Vec::new(),
            why,
        };
        match &recovered.outcome {
            Outcome::Undone(Undone { restored, untouched, gone, left, unreadable }) => JournalAccount {
                restored: *restored,
                untouched: *untouched,
                gone: *gone,
                unreadable: *unreadable,
                left: left.iter().map(ToString::to_string).collect(),
                ..account(State::GivenBack, None, None)
            },
            Outcome::AtWork(owner) => {
                let why = "it is at work, or its watchdog is, and gives back at its end".to_owned();
                account(State::AtWork, owner.as_ref().map(|owner| owner.process.tid), Some(why))
            }
            Outcome::Elsewhere(owner) => {
                let why = undo::UndoError::Elsewhere(recovered.path.clone()).to_string();
                account(State::OtherNamespace, Some(owner.process.tid), Some(why))
            }
            Outcome::Failed(error) => account(State::Failed, None, Some(error.to_string())),
        }
    }
}

impl Document {
    fn text(&self) -> String {
        if self.journals.is_empty() {
            return format!("No tuner left a journal in {}.", printable(&self.folder));
        }
        let mut text = String::new();
        for one in &self.journals {
            let JournalAccount { restored, untouched, gone, unreadable, .. } = one;
            let name = printable(&one.journal);
            match (&one.why, one.process) {
                (None, _) => {
                    let _ = writeln!(
                        text,
                        "{name}: given back: {restored}; {untouched} were as before already, {gone} threads are gone."
                    );
                }
                (Some(why), Some(process)) => {
                    let _ = writeln!(text, "{name}, process {process}: {}", printable(why));
                }
                (Some(why), None) => {
                    let _ = writeln!(text, "{name}: {}", printable(why));
                }
            }
            if *unreadable > 0 {
                let _ = writeln!(text, "{unreadable} of its lines could not be read.");
            }
            for left in &one.left {
                let _ = writeln!(text, "Not as before: {left}");
            }
        }
        text
    }
}

/// Undoes what an earlier run left in this folder, and says so. An error where something there speaks against going on.
pub(crate) fn tidy(folder: &std::path::Path, output: &Output) -> Result<()> {
    for Recovered { path, outcome } in undo::recover(folder)? {
        match outcome {
            Outcome::Undone(undone) => {
                let restored = undone.restored;
                output.note(&format!(
                    "{} was left by a run that ended: {restored} priorities given back",
                    path.display()
                ));
                note_left(&undone, output);
            }
            // Whoever makes a journal beside it is refused.
            Outcome::AtWork(_) => {}
            Outcome::Elsewhere(_) => output.note(&undo::UndoError::Elsewhere(path).to_string()),
            Outcome::Failed(error) => bail!(error),
        }
    }
    Ok(())
}

/// What a watchdog says of its work.
pub(crate) fn tell(ending: &Ending, output: &Output) {
    let how = match ending.hung {
        true => "gave no sign of life and was killed",
        false => "ended without giving priorities back",
    };
    match &ending.undone {
        // It had not begun.
        Ok(undone) if !ending.hung && undone.restored == 0 && undone.left.is_empty() => {}
        Ok(undone) => {
            output.note(&format!(
                "latebound: the tuner {how}; its watchdog gave {} priorities back",
                undone.restored
            ));
            note_left(undone, output);
        }
        Err(error) => output.note(&format!("latebound: the tuner {how}, and its watchdog cannot: {error}")),
    }
}

fn note_left(undone: &Undone, output: &Output) {
    for left in &undone.left {
        output.note(&format!("Not as before: {left}"));
    }
}
