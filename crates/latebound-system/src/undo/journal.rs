// SPDX-License-Identifier: MIT OR Apache-2.0
//! This process's file of changes: written before each. Owns the order of writing and changing.
//!
//! The file is locked for as long as this process or its watchdog lives, which share its opening: so everybody else, also in another
//! container, sees that nobody else may undo it. Neither of the two needs its name: this process undoes from memory, the watchdog from
//! the open file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::changes::{Changes, Undone};
use super::entry::{Entry, Owner};
use super::error::UndoError;
use super::folder::{Folder, read};
use super::handle::ThreadHandle;
use super::recover;
use super::schedule::{Schedule, ThreadIdentity, schedule_of};
use crate::root::Root;

/// The journal of this process.
#[derive(Debug)]
pub struct Journal {
    folder: Folder,
    name: String,
    path: PathBuf,
    file: File,
    root: Root,
    changes: Changes,
}

impl Journal {
    /// Makes an empty journal in this folder, which is made where it is not there; `/run/latebound` is the usual one. Refused where the
    /// folder is not this user's or root's alone, or another process is at work with a journal in it.
    pub fn create(folder: &Path) -> Result<Journal, UndoError> {
        let folder = Folder::make(folder)?;
        let owner = Owner::this().map_err(|source| UndoError::Journal {
            path: folder.place(""),
            step: "saying whose it is",
            source,
        })?;
        // Until the first line is in it: who looks for what was left would take an empty one for that.
        let _alone = folder.lock()?;
        recover::refuse_living(&folder, &owner)?;
        let (name, file) = folder.create()?;
        let mut journal = Journal {
            path: folder.place(&name),
            folder,
            name,
            file,
            root: Root::live(),
            changes: Changes::default(),
        };
        journal.write(&Entry::Owner(owner))?;
        Ok(journal)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it still lies there. Without that, what it says is lost where this process and its watchdog end together.
    pub fn is_there(&self) -> bool {
        self.folder.holds(&self.name, &self.file)
    }

    /// What a thread was before this journal's first change of it.
    pub fn original(&self, thread: ThreadIdentity) -> Option<Schedule> {
        self.changes.original(thread)
    }

    /// Writes down what a thread is, then sets it. Returns what it was.
    ///
    /// What is known of a thread is written once for each value that it is set to, so that a journal stays small however
    /// often priorities change.
    pub fn change(&mut self, thread: ThreadIdentity, to: Schedule) -> Result<Schedule, UndoError> {
        if !thread.is_there(&self.root) {
            return Err(UndoError::Gone(thread.tid));
        }
        self.change_there(thread, to)
    }

    /// [`Journal::change`] of a thread that is held: no file is read.
    pub fn change_held(&mut self, thread: &ThreadHandle, to: Schedule) -> Result<Schedule, UndoError> {
        if !thread.is_there() {
            return Err(UndoError::Gone(thread.identity().tid));
        }
        self.change_there(thread.identity(), to)
    }

    fn change_there(&mut self, thread: ThreadIdentity, to: Schedule) -> Result<Schedule, UndoError> {
        let is = schedule_of(thread.tid).map_err(|_| UndoError::Gone(thread.tid))?;
        if is == to {
            return Ok(is);
        }
        if !self.changes.has(thread, to) {
            let was = self.changes.original(thread).unwrap_or(is);
            self.write(&Entry::Thread { thread, was, set: to })?;
            self.changes.add(thread, was, to);
        }
        // Between the look at the start time and this call the thread may have ended and its id be given away. Ids are given
        // in a circle (kernel/pid.c, idr_alloc_cyclic), so that all others would have to be used up meanwhile.
        let given = self.changes.given_back(thread, to, is);
        given.apply(thread.tid).map_err(|source| UndoError::Refused {
            thread: thread.tid,
            was: is,
            to,
            source,
        })?;
        Ok(is)
    }

    /// Nothing of this thread has to be undone any more if it is as it was before the first change of it. Its lines stay in the file, and undo
    /// nothing then.
    pub fn forget(&mut self, thread: ThreadIdentity) {
        if self.original(thread).is_some_and(|was| schedule_of(thread.tid).is_ok_and(|is| is == was)) {
            self.changes.forget(thread);
        }
    }

    /// Writes down what a thread is, and that somebody else may set it to any FIFO priority up to this from now on: whoever undoes takes
    /// those for this journal's doing. Sets nothing.
    pub fn permit(&mut self, thread: ThreadIdentity, up_to: u32) -> Result<(), UndoError> {
        if self.changes.permitted(thread) >= up_to {
            return Ok(());
        }
        if !thread.is_there(&self.root) {
            return Err(UndoError::Gone(thread.tid));
        }
        let is = schedule_of(thread.tid).map_err(|_| UndoError::Gone(thread.tid))?;
        let was = self.changes.original(thread).unwrap_or(is);
        self.write(&Entry::Raises { thread, was, up_to })?;
        self.changes.permit(thread, was, up_to);
        Ok(())
    }

    fn write(&mut self, entry: &Entry) -> Result<(), UndoError> {
        self.file.write_all(entry.line().as_bytes()).map_err(|source| UndoError::Journal {
            path: self.path.clone(),
            step: "writing",
            source,
        })
    }

    /// Undoes everything, by what this process remembers, and removes the journal; it stays where the system refused something, for
    /// [`recover`](super::recover) to try again.
    pub fn undo(self) -> Undone {
        let undone = self.changes.undo(&self.root);
        self.close(&undone);
        undone
    }

    /// The same by what is in the file, whatever became of its name: for who did not see the changes.
    pub(super) fn undo_by_file(&self) -> Result<Undone, UndoError> {
        let text = read(&self.file).map_err(|source| UndoError::Journal {
            path: self.path.clone(),
            step: "reading",
            source,
        })?;
        let lines = text.split('\n').filter(|line| !line.is_empty());
        let (changes, unreadable) = Changes::read(lines.skip(1));
        let undone = Undone { unreadable, ..changes.undo(&self.root) };
        self.close(&undone);
        Ok(undone)
    }

    fn close(&self, undone: &Undone) {
        if !undone.was_refused() {
            // One that cannot be removed says what is so no more; the next start removes it.
            let _ = self.folder.remove(&self.name, &self.file);
        }
    }
}
