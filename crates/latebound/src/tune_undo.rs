// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune undo`, and what every verb of `tune` reports of journals that others left. What is undone is for `latebound-system`.

use anyhow::{Result, bail};
use latebound_report::terminal;
use latebound_system::undo::{self, Ending, Outcome, Recovered, Undone};
use latebound_tune::document::{JournalAccount, JournalState, TuneUndo};

use crate::cli::TuneUndoArgs;
use crate::output::Output;

pub(crate) fn run(args: &TuneUndoArgs, output: &Output) -> Result<()> {
    let journals = undo::recover(&args.journal)?.iter().map(account).collect();
    let folder = args.journal.display().to_string();
    let document = TuneUndo { schema: TuneUndo::SCHEMA, folder, journals };
    if output.is_json() {
        output.json(&document)?
    } else {
        output.text(&terminal::tune_undo(&document))?
    }
    let is_failed = |one: &&JournalAccount| {
        matches!(one.state, JournalState::OtherNamespace | JournalState::Failed) || !one.left.is_empty()
    };
    match document.journals.iter().filter(is_failed).count() {
        0 => Ok(()),
        failed => bail!("not everything was given back, as {failed} of the journals above say"),
    }
}

/// What became of one journal, as the document has it.
fn account(recovered: &Recovered) -> JournalAccount {
    let empty = |state, process, why| JournalAccount {
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
            ..empty(JournalState::GivenBack, None, None)
        },
        Outcome::AtWork(owner) => {
            let why = "it is at work, or its watchdog is, and gives back at its end".to_owned();
            empty(JournalState::AtWork, owner.as_ref().map(|owner| owner.process.tid), Some(why))
        }
        Outcome::Elsewhere(owner) => {
            let why = undo::UndoError::Elsewhere(recovered.path.clone()).to_string();
            empty(JournalState::OtherNamespace, Some(owner.process.tid), Some(why))
        }
        Outcome::Failed(error) => empty(JournalState::Failed, None, Some(error.to_string())),
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

/// Reports what a watchdog did.
pub(crate) fn report(ending: &Ending, output: &Output) {
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
