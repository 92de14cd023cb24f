// SPDX-License-Identifier: MIT OR Apache-2.0
//! This process's file of changes: written before each. Owns the order of writing and changing.
//!
//! The file is locked for as long as this process or its watchdog lives, which share its opening: so everybody else, also in another
//! container, sees that nobody else may undo it. Neither of the two needs its name: this process undoes from memory, the watchdog from
//! the open file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use latebound_model::Tid;

use super::changes::{Changes, Undone};
use super::entry::{Entry, Owner};
use super::folder::Folder;
use super::handle::ThreadHandle;
use super::recover;
use super::schedule::{Schedule, ThreadIdentity, schedule_of};
use crate::root::Root;

/// Why something could not be changed or undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// The journal cannot be made, written or read: nothing is changed then.
    #[error("the undo journal {}: {step} failed: {source}; nothing is changed without one{}", path.display(), remedy(source))]
    Journal {
        /// The file.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// Somebody else may have made or changed the folder or the file: nothing in it is acted upon.
    #[error(
        "{} is not taken for an undo journal: {why}; nothing in it is acted upon. Look at it, then remove it, or name another folder \
         (--journal)",
        path.display()
    )]
    Untrusted {
        /// The folder or file.
        path: PathBuf,
        /// What speaks against it.
        why: String,
    },
    /// Another process changes priorities and writes them down in the same folder.
    #[error("{} is in use: process {process} changes priorities; end that first (Ctrl-C, or systemctl stop latebound-tune)", path.display())]
    InUse {
        /// Its journal.
        path: PathBuf,
        /// Its process, by the id that it has in its own PID namespace.
        process: Tid,
    },
    /// Its writer is gone, and its thread ids mean nothing in this PID namespace.
    #[error(
        "the undo journal {} was written in another PID namespace (a container), whose thread ids mean nothing here; run latebound tune \
         undo in that one, or remove it where that one is gone",
        .0.display()
    )]
    Elsewhere(PathBuf),
    /// The journal's lines are not what this version writes.
    #[error("the undo journal {} is not one that this version writes; look at it, then remove it", .0.display())]
    Foreign(PathBuf),
    /// The thread cannot be set.
    #[error("thread {thread} cannot be set to {to}: {source}; it stays {was}")]
    Refused {
        /// The thread.
        thread: Tid,
        /// What it is.
        was: Schedule,
        /// What it was to be.
        to: Schedule,
        /// What the system answered.
        source: io::Error,
    },
    /// The thread is gone, or another one has its id now.
    #[error("thread {0} is gone; nothing is to be changed")]
    Gone(Tid),
    /// The process that is to undo cannot be started.
    #[error("the watchdog cannot be started: {0}")]
    Watchdog(String),
    /// The kernel module that raises threads does not do what is asked of it.
    #[error("the module latebound_tune cannot be used: {0}")]
    Raiser(String),
}

/// What helps where a journal cannot be written.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; run as root",
        io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::QuotaExceeded => {
            "; give a folder with room (--journal)"
        }
        _ => "",
    }
}

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
        to.apply(thread.tid).map_err(|source| UndoError::Refused {
            thread: thread.tid,
            was: is,
            to,
            source,
        })?;
        Ok(is)
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

/// All that is in an open file.
pub(super) fn read(mut file: &File) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A journal has a line for each thread and priority: this is more than a hundred thousand threads need.
const MOST_BYTES: u64 = 1 << 30;
