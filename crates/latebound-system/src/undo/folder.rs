// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder that journals lie in. Owns whom a folder and a file are taken from: what another user may have put there or may change is
//! never opened as a journal. All files are reached from the open folder, so that no name is looked up twice.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::error::UndoError;

const ENDING: &str = ".undo";
/// For a lock that somebody holds only while he looks or tidies up.
const PATIENCE: Duration = Duration::from_secs(5);
/// A journal has a line for each thread and priority: this is more than a hundred thousand threads need.
const MOST_BYTES: u64 = 1 << 30;
/// Journals of one process that cannot be told apart by its id.
const MOST_NAMES: u32 = 100;

/// An open folder of this user or of root, which nobody else may write to.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

impl Folder {
    /// Opens it; where it is not there it is made, for its owner alone whatever the umask is.
    pub(super) fn make(path: &Path) -> Result<Folder, UndoError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(fail(path, "making the folder"))?;
        Folder::open(path)?.ok_or_else(|| fail(path, "opening the folder")(io::ErrorKind::NotFound.into()))
    }

    /// Opens it; `None` where there is none.
    pub(super) fn open(path: &Path) -> Result<Option<Folder>, UndoError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            fd => fd.map_err(|error| fail(path, "opening the folder")(error.into()))?,
        };
        let stat =
            rustix::fs::fstat(&fd).map_err(|error| fail(path, "looking at the folder")(error.into()))?;
        refuse_others(path, &stat)?;
        Ok(Some(Folder { path: path.to_owned(), fd }))
    }

    /// Where a file of this name lies.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Keeps others who make, undo or remove journals here out until the file is dropped.
    pub(super) fn lock(&self) -> Result<File, UndoError> {
        let step = "locking the folder";
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Opened again: a lock belongs to an opening, and this one is to end before the folder is closed.
        let fd = rustix::fs::openat(&self.fd, ".", flags, Mode::empty())
            .map_err(|error| fail(&self.path, step)(error.into()))?;
        let file = File::from(fd);
        match patiently(|| try_lock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(true) => Ok(file),
            Ok(false) => Err(fail(&self.path, step)(io::Error::new(
                io::ErrorKind::WouldBlock,
                "another latebound is at work in it; try again when it has ended",
            ))),
            Err(error) => Err(fail(&self.path, step)(error)),
        }
    }

    /// Makes an empty file that is locked for as long as it is open, here or in a child, and its name.
    pub(super) fn create(&self) -> Result<(String, File), UndoError> {
        let own = std::process::id();
        let flags = OFlags::RDWR
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        for number in 1..=MOST_NAMES {
            // One that is left by an earlier process of the same id, or by one of the same id in another PID namespace, stays.
            let name = match number {
                1 => format!("{own}{ENDING}"),
                number => format!("{own}-{number}{ENDING}"),
            };
            let path = self.place(&name);
            let file = match rustix::fs::openat(&self.fd, &name, flags, Mode::RUSR | Mode::WUSR) {
                Err(Errno::EXIST) => continue,
                fd => File::from(fd.map_err(|error| fail(&path, "making the file")(error.into()))?),
            };
            // Who looks for what was left may hold it for a moment.
            let locked = patiently(|| try_lock(&file, FlockOperation::NonBlockingLockExclusive));
            return match locked {
                Ok(true) => Ok((name, file)),
                Ok(false) => Err(fail(&path, "locking")(io::ErrorKind::WouldBlock.into())),
                Err(error) => Err(fail(&path, "locking")(error)),
            };
        }
        Err(fail(&self.place(&format!("{own}{ENDING}")), "making the file")(
            io::ErrorKind::AlreadyExists.into(),
        ))
    }

    /// The names of journals, sorted.
    pub(super) fn names(&self) -> Result<Vec<String>, UndoError> {
        let fail = |error: Errno| fail(&self.path, "listing the folder")(error.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if let Ok(name) = entry.file_name().to_str()
                && name.ends_with(ENDING)
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Opens a file that is there; `None` where it is gone.
    pub(super) fn file(&self, name: &str) -> Result<Option<File>, UndoError> {
        let path = self.place(name);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            fd => File::from(fd.map_err(|error| fail(&path, "opening")(error.into()))?),
        };
        let stat =
            rustix::fs::fstat(&file).map_err(|error| fail(&path, "looking at the file")(error.into()))?;
        let why = match () {
            () if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => "it is no regular file",
            () if stat.st_nlink > 1 => "it has more than one name",
            () => {
                refuse_others(&path, &stat)?;
                return Ok(Some(file));
            }
        };
        Err(UndoError::Untrusted { path, why: why.to_owned() })
    }

    /// Whether this open file is the one of this name.
    pub(super) fn holds(&self, name: &str, file: &File) -> bool {
        let there = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let here = rustix::fs::fstat(file);
        matches!((there, here), (Ok(there), Ok(here)) if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino))
    }

    /// Takes the name of this open file away. What it says is done with, also where the name cannot be taken away.
    pub(super) fn remove(&self, name: &str, file: &File) -> Result<(), UndoError> {
        let emptied = file.set_len(0);
        if !self.holds(name, file) {
            return Ok(());
        }
        match (rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()), emptied) {
            (Ok(()), _) | (_, Ok(())) => Ok(()),
            (Err(error), _) => Err(fail(&self.place(name), "removing")(error.into())),
        }
    }
}

/// Whether the lock could be had.
pub(super) fn try_lock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Tries until it is so, or for a while.
pub(super) fn patiently(mut attempt: impl FnMut() -> io::Result<bool>) -> io::Result<bool> {
    let until = Instant::now() + PATIENCE;
    while !attempt()? {
        if Instant::now() >= until {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

/// All that is in an open file.
pub(super) fn read(mut file: &File) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn fail<'a>(path: &'a Path, step: &'static str) -> impl Fn(io::Error) -> UndoError + 'a {
    move |source| UndoError::Journal { path: path.to_owned(), step, source }
}

fn refuse_others(path: &Path, stat: &Stat) -> Result<(), UndoError> {
    let own = rustix::process::geteuid();
    let why = match (stat.st_uid, stat.st_mode & 0o7777) {
        (owner, _) if owner != 0 && owner != own.as_raw() => {
            format!("it belongs to the user with id {owner}")
        }
        (_, mode) if mode & 0o022 != 0 => format!("others may write to it (mode {mode:04o})"),
        _ => return Ok(()),
    };
    Err(UndoError::Untrusted { path: path.to_owned(), why })
}
