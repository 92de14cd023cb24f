// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder of Runs that a service writes one after the other, within a limit: the oldest detail goes first, and then the oldest Runs.
//!
//! Each Run comes into its place whole, by one rename, and leaves it by one. Its detail leaves it by one too, of a record without it. Only Runs
//! that a spool named are counted, changed and removed; whoever takes some away meanwhile disturbs nothing. One process at a time holds a spool, by
//! flock(2) on the folder.

use std::collections::{HashMap, VecDeque};
use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::ops::AddAssign;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use latebound_files::Folder;
use latebound_model::Run;

use crate::RUN_FILE;
use crate::error::StoreError;
use crate::folder::{FOLDER_MODE, RunFolder, remove_run, thin_run};
use crate::read::read_run;

/// What the names of a spool's Runs begin and end with.
const PREFIX: &str = "serve-";
const SUFFIX: &str = ".run";

/// On a full disk, so many of the oldest Runs go at most for one new one: the space may be another's to fill.
const MOST_FOR_ONE: u64 = 8;

/// And so many Runs lose their detail: of each at least a page.
const MOST_THINNED_FOR_ONE: u64 = 64;

/// More names than a spool holds: a Run each second for two years.
const MOST_NAMES: usize = 1 << 26;

/// A folder of Runs, held by this process.
#[derive(Debug)]
pub struct Spool {
    folder: Folder,
    path: PathBuf,
    limit: u64,
    /// Oldest first.
    runs: VecDeque<Spooled>,
}

/// A Run in the spool.
#[derive(Debug)]
struct Spooled {
    name: OsString,
    /// On disk.
    bytes: u64,
    /// Whether it may have detail whose removal makes it smaller. Of a Run that an earlier process wrote that shows once it is read.
    may_be_thinned: bool,
}

/// What was removed for a new Run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Because the spool was larger than its limit.
    pub by_limit: Shrunk,
    /// Because the disk was full.
    pub by_disk: Shrunk,
}

/// How many Runs were removed, and how many lost their detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Runs that were removed whole.
    pub runs: u64,
    /// Runs that have sums left, and no [detail](Run::remove_detail).
    pub thinned: u64,
}

impl AddAssign for Shrunk {
    fn add_assign(&mut self, other: Shrunk) {
        self.runs += other.runs;
        self.thinned += other.thinned;
    }
}

impl AddAssign for Removed {
    fn add_assign(&mut self, other: Removed) {
        self.by_limit += other.by_limit;
        self.by_disk += other.by_disk;
    }
}

/// Why a spool gets smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// It would be larger than its limit.
    Limit,
    /// The disk is full.
    Disk,
}

impl Shortage {
    /// In words.
    pub const fn why(self) -> &'static str {
        match self {
            Shortage::Limit => "the spool reached its limit",
            Shortage::Disk => "the disk was full",
        }
    }

    /// What to do against it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Shortage::Limit => "raise --spool-limit, or take Runs away in time",
            Shortage::Disk => "free space on the disk of the spool",
        }
    }
}

impl Spool {
    /// Opens the folder of this path, which is made where it is not there.
    pub fn open(path: &Path, limit: u64) -> Result<Spool, StoreError> {
        let make = |source| StoreError::MakeFolder { path: path.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path).map_err(make)?;
        let folder = Folder::open(path).map_err(make)?;
        if !folder.is_mine().map_err(make)? {
            let why = "the spool belongs to another user, who could put anything in a Run's place";
            return Err(make(io::Error::new(io::ErrorKind::PermissionDenied, why)));
        }
        if folder.is_locked_by_another() {
            return Err(StoreError::Busy { path: path.to_owned() });
        }
        let mut spool = Spool { folder, path: path.to_owned(), limit, runs: VecDeque::new() };
        spool.look_again().map_err(make)?;
        Ok(spool)
    }

    /// How many Runs it holds.
    pub fn runs(&self) -> u64 {
        self.runs.len() as u64
    }

    /// How many bytes they take on disk.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// Writes a Run under a name made of this word (a time). Where the spool gets larger than its limit or the disk is full, the oldest Runs lose
    /// their detail; where none has any that takes room, or the disk has no room for the shorter record, the oldest Runs are removed. The newest
    /// one stays as it is. The second of the pair is counted also where the first is an error.
    pub fn write(&mut self, word: &str, run: &Run) -> (Result<PathBuf, StoreError>, Removed) {
        let mut removed = Removed::default();
        if let Err(source) = self.look_again() {
            return (Err(StoreError::MakeFolder { path: self.path.clone(), source }), removed);
        }
        let name = self.free_name(word);
        let path = self.path.join(&name);
        let write = |folder: &Folder| RunFolder::create_in(folder, &name, path.clone())?.checkpoint(run);
        let mut written = write(&self.folder);
        while written.as_ref().is_err_and(is_full) {
            let Shrunk { runs, thinned } = removed.by_disk;
            if runs >= MOST_FOR_ONE
                || thinned >= MOST_THINNED_FOR_ONE
                || !self.shrink(0, Shortage::Disk, &mut removed.by_disk)
            {
                break;
            }
            written = write(&self.folder);
        }
        if written.is_ok() {
            let bytes = self.size(&name).unwrap_or(0);
            self.runs.push_back(Spooled { name, bytes, may_be_thinned: run.has_detail() });
            while self.bytes() > self.limit && self.shrink(1, Shortage::Limit, &mut removed.by_limit) {}
        }
        (written.map(|()| path), removed)
    }

    /// Makes it smaller by the oldest detail, or by the oldest Run, and never by these newest Runs. Whether there was anything to remove.
    fn shrink(&mut self, newest: usize, shortage: Shortage, shrunk: &mut Shrunk) -> bool {
        let older = self.runs.len().saturating_sub(newest);
        for at in 0..older {
            if !self.runs[at].may_be_thinned {
                continue;
            }
            let name = self.runs[at].name.clone();
            let remove_detail = |run: &mut Run| run.remove_detail("spool", shortage.why(), shortage.remedy());
            match thin_run(&self.folder, &name, remove_detail) {
                Err(error) if is_full(&error) => break,
                // Damaged, or not there any more.
                Ok(false) | Err(_) => self.runs[at].may_be_thinned = false,
                Ok(true) => {
                    let bytes = self.size(&name).unwrap_or(0);
                    self.runs[at] = Spooled { name, bytes, may_be_thinned: false };
                    shrunk.thinned += 1;
                    return true;
                }
            }
        }
        if older == 0 {
            return false;
        }
        let oldest = self.runs.pop_front();
        shrunk.runs += oldest.map_or(0, |oldest| u64::from(remove_run(&self.folder, &oldest.name).is_ok()));
        true
    }

    /// Forgets the Runs that are gone, and counts those that came.
    fn look_again(&mut self) -> io::Result<()> {
        let mut known: HashMap<OsString, Spooled> =
            self.runs.drain(..).map(|run| (run.name.clone(), run)).collect();
        let names = self.folder.names(MOST_NAMES)?.into_iter().filter(|name| is_spooled(name));
        let runs: VecDeque<Spooled> = names
            .filter_map(|name| {
                known.remove(&name).or_else(|| {
                    let bytes = self.size(&name)?;
                    Some(Spooled { name, bytes, may_be_thinned: true })
                })
            })
            .collect();
        self.runs = runs;
        Ok(())
    }

    /// What a Run takes on disk; `None` where there is no record of one.
    fn size(&self, name: &OsStr) -> Option<u64> {
        let folder = self.folder.child(name).ok()?;
        let record = folder.open_file(RUN_FILE.as_ref()).ok()?.metadata().ok()?;
        let own = folder.handle().metadata().ok()?;
        Some(512 * (record.blocks() + own.blocks()))
    }

    fn free_name(&self, word: &str) -> OsString {
        let name = |times: u64| match times {
            0 => format!("{PREFIX}{word}{SUFFIX}"),
            times => format!("{PREFIX}{word}-{times}{SUFFIX}"),
        };
        let mut times = 0;
        while self.folder.has(name(times).as_ref()) {
            times += 1;
        }
        name(times).into()
    }
}

/// The Runs in a spool that a service may be filling meanwhile, for whoever takes them away.
#[derive(Debug)]
pub struct SpoolReader {
    folder: Folder,
    path: PathBuf,
}

impl SpoolReader {
    /// Opens the folder of this path.
    pub fn open(path: &Path) -> Result<SpoolReader, StoreError> {
        let folder =
            Folder::open(path).map_err(|source| StoreError::Read { path: path.to_owned(), source })?;
        Ok(SpoolReader { folder, path: path.to_owned() })
    }

    /// The names of its Runs, oldest first.
    pub fn runs(&self) -> Result<Vec<OsString>, StoreError> {
        let names = self.folder.names(MOST_NAMES);
        let names = names.map_err(|source| StoreError::Read { path: self.path.clone(), source })?;
        let mut runs: Vec<OsString> = names.into_iter().filter(|name| is_spooled(name)).collect();
        runs.sort();
        Ok(runs)
    }

    /// A Run; `None` where it is gone.
    pub fn read(&self, name: &OsStr) -> Result<Option<Run>, StoreError> {
        match read_run(self.path.join(name)) {
            Ok(run) => Ok(Some(run)),
            Err(_) if !self.folder.has(name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a Run, whole; it is no error that it is gone.
    pub fn remove(&self, name: &OsStr) -> Result<(), StoreError> {
        match remove_run(&self.folder, name) {
            Err(_) if !self.folder.has(name) => Ok(()),
            other => other,
        }
    }
}

/// Whether a spool gave this name. Names of times sort by time.
fn is_spooled(name: &OsStr) -> bool {
    let word = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
    word.is_some_and(|word| {
        word.starts_with(|first: char| first.is_ascii_digit())
            && word.bytes().all(|byte| byte.is_ascii_digit() || b"TZ-".contains(&byte))
    })
}

fn is_full(error: &StoreError) -> bool {
    let kernel = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    kernel.is_some_and(|error| {
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::*;

    #[test]
    fn only_names_that_a_spool_gave_are_its_own() {
        for name in ["serve-20261127T021500Z.run", "serve-20261127T021500Z-1.run"] {
            assert!(is_spooled(name.as_ref()), "{name}");
        }
        for name in
            ["serve-.run", "serve-x.run", "latebound-check.run", "serve-20261127T021500Z", "serve-2/..run"]
        {
            assert!(!is_spooled(name.as_ref()), "{name}");
        }
    }
}
