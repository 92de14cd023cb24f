// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journals of others: whose writer lives, what the dead left, and undoing that. Owns the rule of which journal is acted upon.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::changes::{Changes, Undone};
use super::entry::{Entry, Owner};
use super::error::UndoError;
use super::folder::{Folder, patiently, read, try_lock};
use crate::root::Root;

/// A journal that was met, and what came of it.
#[derive(Debug)]
pub struct Recovered {
    /// Where it lies, or lay.
    pub path: PathBuf,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a journal.
#[derive(Debug)]
pub enum Outcome {
    /// Its writer or the watchdog of that lives; `None` where it cannot be read who that is. It is left alone.
    AtWork(Option<Owner>),
    /// Its writer is gone, and its thread ids mean nothing here: it was written in another PID namespace. It is left alone.
    Elsewhere(Owner),
    /// It was undone, and is gone where nothing was refused.
    Undone(Undone),
    /// It is not acted upon, or it cannot be.
    Failed(UndoError),
}

/// What a dead process left, as somebody who only looks sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOver {
    /// The journal, or the folder of journals.
    pub path: PathBuf,
    /// How many threads are as that process set them, and not as they were before.
    pub raised: usize,
    /// Why that is not known.
    pub unknown: Option<String>,
}

/// Undoes the journals in a folder whose writers are gone. For each that is there, what came of it.
pub fn recover(folder: &Path) -> Result<Vec<Recovered>, UndoError> {
    let Some(folder) = Folder::open(folder)? else { return Ok(Vec::new()) };
    let _alone = folder.lock()?;
    let own = this(&folder)?;
    let mut recovered = Vec::new();
    for name in folder.names()? {
        let outcome = match folder.file(&name).map(|file| file.map(|file| one(&folder, &name, &file, &own))) {
            Ok(None) => continue,
            Ok(Some(Ok(outcome))) => outcome,
            Ok(Some(Err(error))) | Err(error) => Outcome::Failed(error),
        };
        recovered.push(Recovered { path: folder.place(&name), outcome });
    }
    Ok(recovered)
}

/// Looks at the journals in a folder, and changes nothing: what those whose writers are gone left.
pub fn left_over(folder: &Path) -> Vec<LeftOver> {
    let unknown =
        |path: &Path, error: String| LeftOver { path: path.to_owned(), raised: 0, unknown: Some(error) };
    let looked = || -> Result<Vec<LeftOver>, UndoError> {
        let Some(folder) = Folder::open(folder)? else { return Ok(Vec::new()) };
        let own = this(&folder)?;
        let mut left = Vec::new();
        for name in folder.names()? {
            let path = folder.place(&name);
            let raised = folder.file(&name).and_then(|file| match file {
                Some(file) => raised(&path, &file, &own),
                None => Ok(0),
            });
            match raised {
                Ok(0) => {}
                Ok(raised) => left.push(LeftOver { path, raised, unknown: None }),
                Err(error) => left.push(unknown(&path, error.to_string())),
            }
        }
        Ok(left)
    };
    looked().unwrap_or_else(|error| vec![unknown(folder, error.to_string())])
}

/// Refused where a writer lives whose journal is in this folder.
pub(super) fn refuse_living(folder: &Folder, own: &Owner) -> Result<(), UndoError> {
    for name in folder.names()? {
        let path = folder.place(&name);
        let Ok(Some(file)) = folder.file(&name) else { continue };
        if let Lock::Held(Some(owner)) = lock(&path, &file, own)? {
            return Err(UndoError::InUse { path, process: owner.process.tid });
        }
    }
    Ok(())
}

fn this(folder: &Folder) -> Result<Owner, UndoError> {
    Owner::this().map_err(failed(&folder.place(""), "saying who reads it"))
}

fn failed(path: &Path, step: &'static str) -> impl FnOnce(io::Error) -> UndoError {
    let path = path.to_owned();
    move |source| UndoError::Journal { path, step, source }
}

/// What is in a journal.
enum Content {
    /// Nothing that was acted upon: an empty file, or a first line that was cut off with nothing behind it.
    Empty,
    /// The first line, the changes, and how many lines could not be read.
    Whole(Owner, Changes, usize),
}

impl Content {
    /// From a journal's text; `None` where it is none that this version writes.
    fn of(text: &str) -> Option<Content> {
        let mut lines = text.split('\n').filter(|line| !line.is_empty());
        match lines.next().map(Entry::parse) {
            None => Some(Content::Empty),
            Some(Some(Entry::Owner(owner))) => {
                let (changes, unreadable) = Changes::read(lines);
                Some(Content::Whole(owner, changes, unreadable))
            }
            Some(None) if lines.next().is_none() => Some(Content::Empty),
            Some(_) => None,
        }
    }
}

fn content(path: &Path, file: &File) -> Result<Content, UndoError> {
    let text = read(file).map_err(failed(path, "reading"))?;
    Content::of(&text).ok_or_else(|| UndoError::Foreign(path.to_owned()))
}

/// What the text of a journal says, whoever wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalText {
    /// Whose it is; `None` of one in which nothing was acted upon.
    pub owner: Option<Owner>,
    /// Of how many threads it speaks.
    pub threads: usize,
    /// How many lines could not be read.
    pub unreadable: usize,
}

/// Reads the text of a journal and acts upon nothing; `None` where it is none that this version writes.
pub fn read_journal(text: &str) -> Option<JournalText> {
    Some(match Content::of(text)? {
        Content::Empty => JournalText::default(),
        Content::Whole(owner, changes, unreadable) => {
            JournalText { owner: Some(owner), threads: changes.len(), unreadable }
        }
    })
}

enum Lock {
    /// Nobody else holds it, and nobody else can until the file is closed.
    Taken,
    /// By its writer or its watchdog.
    Held(Option<Owner>),
}

/// Takes the lock of a journal. A watchdog whose process is gone is about to undo and to end: that is waited for.
fn lock(path: &Path, file: &File, own: &Owner) -> Result<Lock, UndoError> {
    let fail = || failed(path, "locking");
    let attempt = || try_lock(file, FlockOperation::NonBlockingLockExclusive);
    if attempt().map_err(fail())? {
        return Ok(Lock::Taken);
    }
    let owner = match content(path, file) {
        Ok(Content::Whole(owner, ..)) => Some(owner),
        _ => None,
    };
    let is_gone = |owner: &Owner| owner.namespace == own.namespace && !owner.process.is_there(&Root::live());
    if owner.as_ref().is_some_and(is_gone) && patiently(attempt).map_err(fail())? {
        return Ok(Lock::Taken);
    }
    Ok(Lock::Held(owner))
}

fn one(folder: &Folder, name: &str, file: &File, own: &Owner) -> Result<Outcome, UndoError> {
    let path = folder.place(name);
    if let Lock::Held(owner) = lock(&path, file, own)? {
        return Ok(Outcome::AtWork(owner));
    }
    let undone = match content(&path, file)? {
        Content::Empty => Undone::default(),
        // Its threads are gone with that boot.
        Content::Whole(owner, ..) if owner.boot != own.boot => Undone::default(),
        Content::Whole(_, changes, unreadable) if changes.is_empty() => {
            Undone { unreadable, ..Undone::default() }
        }
        Content::Whole(owner, ..) if owner.namespace != own.namespace => {
            return Ok(Outcome::Elsewhere(owner));
        }
        Content::Whole(_, changes, unreadable) => Undone { unreadable, ..changes.undo(&Root::live()) },
    };
    if !undone.was_refused() {
        folder.remove(name, file)?;
    }
    Ok(Outcome::Undone(undone))
}

fn raised(path: &Path, file: &File, own: &Owner) -> Result<usize, UndoError> {
    // Shared, so that two that look are not in each other's way; it ends with the file.
    let free = try_lock(file, FlockOperation::NonBlockingLockShared).map_err(failed(path, "locking"))?;
    match content(path, file)? {
        Content::Whole(owner, changes, _) if free && owner.boot == own.boot && !changes.is_empty() => {
            match owner.namespace == own.namespace {
                true => Ok(changes.still(&Root::live())),
                false => Err(UndoError::Elsewhere(path.to_owned())),
            }
        }
        _ => Ok(0),
    }
}
