// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of changes: written before each, read by whoever undoes them. Owns the order of writing and changing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use latebound_model::Tid;

use super::entry::Entry;
use super::handle::ThreadHandle;
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

/// Something that was changed and is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Somebody else has changed it since; that is left alone.
    Foreign {
        /// The thread.
        thread: Tid,
        /// What it is now.
        is: Schedule,
        /// What it was at first.
        was: Schedule,
    },
    /// The system refused to set it back.
    Refused {
        /// The thread.
        thread: Tid,
        /// What it was at first.
        was: Schedule,
        /// What the system answered.
        error: String,
    },
}

/// What undoing did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// How many threads were set back.
    pub restored: usize,
    /// How many were as before already.
    pub untouched: usize,
    /// How many are gone.
    pub gone: usize,
    /// What is not as it was, and why.
    pub left: Vec<Left>,
    /// Lines that could not be read: a last line that was cut off was never acted upon.
    pub unreadable: usize,
}

/// The journal of this process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    root: Root,
    first: BTreeMap<ThreadIdentity, Schedule>,
    written: BTreeSet<(ThreadIdentity, [u64; 7])>,
    permitted: BTreeMap<ThreadIdentity, u32>,
}

const ENDING: &str = "undo";

impl Journal {
    /// Makes an empty journal in this folder, which is made where it is not there; `/run/latebound` is the usual one.
    pub fn create(folder: &Path) -> Result<Journal, UndoError> {
        let root = Root::live();
        let path = folder.join(format!("{}.{ENDING}", std::process::id()));
        let fail = |step| {
            let path = path.clone();
            move |source| UndoError::Journal { path, step, source }
        };
        fs::create_dir_all(folder).map_err(fail("making the folder"))?;
        let owner = ThreadIdentity::of(&root, Tid(std::process::id() as i32))
            .map_err(|error| fail("reading the own start time")(io::Error::other(error)))?;
        let boot = boot(&root).map_err(fail("reading the boot's id"))?;
        // One that is left by an earlier process of the same id has to be undone first, not written over.
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(fail("making the file"))?;
        file.write_all(Entry::Owner { boot, owner }.line().as_bytes()).map_err(fail("writing"))?;
        Ok(Journal {
            path,
            file,
            root,
            first: BTreeMap::new(),
            written: BTreeSet::new(),
            permitted: BTreeMap::new(),
        })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a thread was before this journal's first change of it.
    pub fn original(&self, thread: ThreadIdentity) -> Option<Schedule> {
        self.first.get(&thread).copied()
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
        let was = *self.first.get(&thread).unwrap_or(&is);
        if !self.written.contains(&(thread, key(to))) {
            self.write(&Entry::Thread { thread, was, set: to })?;
            self.first.insert(thread, was);
            self.written.insert((thread, key(to)));
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
        if self.permitted.get(&thread).is_some_and(|&known| known >= up_to) {
            return Ok(());
        }
        if !thread.is_there(&self.root) {
            return Err(UndoError::Gone(thread.tid));
        }
        let is = schedule_of(thread.tid).map_err(|_| UndoError::Gone(thread.tid))?;
        let was = *self.first.get(&thread).unwrap_or(&is);
        self.write(&Entry::Raises { thread, was, up_to })?;
        self.first.insert(thread, was);
        self.permitted.insert(thread, up_to);
        Ok(())
    }

    fn write(&mut self, entry: &Entry) -> Result<(), UndoError> {
        self.file.write_all(entry.line().as_bytes()).map_err(|source| UndoError::Journal {
            path: self.path.clone(),
            step: "writing",
            source,
        })
    }

    /// Undoes everything and removes the journal.
    pub fn undo(self) -> Result<Undone, UndoError> {
        undo_file(&self.path)
    }
}

/// Undoes what a journal says, whoever wrote it, and removes it. One that is not there any more was undone already.
pub fn undo_file(path: &Path) -> Result<Undone, UndoError> {
    let fail = |step| move |source| UndoError::Journal { path: path.to_owned(), step, source };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Undone::default()),
        file => file.map_err(fail("opening"))?,
    };
    // Two that undo at once would take each other's work for somebody else's.
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
        return Err(fail("locking")(io::Error::last_os_error()));
    }
    if !path.exists() {
        return Ok(Undone::default());
    }
    let text = fs::read(path).map_err(fail("reading"))?;
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.split('\n').filter(|line| !line.is_empty());
    let root = Root::live();
    let mut undone = Undone::default();
    match lines.next().map(Entry::parse) {
        Some(Some(Entry::Owner { boot: then, .. })) => {
            if boot(&root).is_ok_and(|now| now == then) {
                undone = undo_lines(&root, lines);
            }
        }
        // An empty file, or a first line that was cut off with nothing behind it: nothing was changed yet.
        None => {}
        Some(None) if lines.next().is_none() => {}
        _ => return Err(UndoError::Foreign(path.to_owned())),
    }
    fs::remove_file(path).map_err(fail("removing"))?;
    Ok(undone)
}

/// Undoes the journals in a folder whose processes are gone. For each, what came of it.
pub fn recover(folder: &Path) -> Vec<(PathBuf, Result<Undone, UndoError>)> {
    let root = Root::live();
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
        .filter(|path| !is_owned(&root, path))
        .collect();
    paths.sort_unstable();
    paths.into_iter().map(|path| (path.clone(), undo_file(&path))).collect()
}

/// Whether the process that writes a journal is alive.
fn is_owned(root: &Root, path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    match text.lines().next().and_then(Entry::parse) {
        Some(Entry::Owner { owner, boot: then }) => {
            boot(root).is_ok_and(|now| now == then) && owner.is_there(root)
        }
        _ => false,
    }
}

fn undo_lines<'a>(root: &Root, lines: impl Iterator<Item = &'a str>) -> Undone {
    let mut undone = Undone::default();
    let mut threads: BTreeMap<ThreadIdentity, (Schedule, Vec<Schedule>)> = BTreeMap::new();
    for line in lines {
        match Entry::parse(line) {
            Some(Entry::Thread { thread, was, set }) => {
                threads.entry(thread).or_insert((was, Vec::new())).1.push(set);
            }
            Some(Entry::Raises { thread, was, up_to }) => {
                let set = (1..=up_to.min(99)).map(Schedule::fifo);
                threads.entry(thread).or_insert((was, Vec::new())).1.extend(set);
            }
            _ => undone.unreadable += 1,
        }
    }
    for (thread, (was, set)) in threads {
        let Some(is) = thread.is_there(root).then(|| schedule_of(thread.tid).ok()).flatten() else {
            undone.gone += 1;
            continue;
        };
        if is == was {
            undone.untouched += 1;
        } else if !set.contains(&is) {
            undone.left.push(Left::Foreign { thread: thread.tid, is, was });
        } else {
            match was.apply(thread.tid) {
                Ok(()) => undone.restored += 1,
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => undone.gone += 1,
                Err(error) => {
                    undone.left.push(Left::Refused { thread: thread.tid, was, error: error.to_string() });
                }
            }
        }
    }
    undone
}

fn key(schedule: Schedule) -> [u64; 7] {
    let Schedule { policy, flags, nice, priority, reservation: [runtime, deadline, period] } = schedule;
    [u64::from(policy.number()), flags, nice as u64, u64::from(priority), runtime, deadline, period]
}

/// Which boot this is: a journal of another one speaks of threads that are gone with it.
fn boot(root: &Root) -> io::Result<String> {
    root.value("/proc/sys/kernel/random/boot_id").map_err(io::Error::other)
}
