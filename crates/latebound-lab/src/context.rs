// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every part of the lab is given: where it may keep things, whom it tells how far it is, and when to stop.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use latebound_files::{FILE_MODE, Folder};

use crate::error::LabError;

/// What the lab tells while it works.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// What it does now and how far it is: a line that takes the place of the last one.
    Progress(&'a str),
    /// Something that the user should know and that stays.
    Note(&'a str),
    /// The guest's job wrote to its standard output.
    Stdout(&'a [u8]),
    /// The guest's job wrote to its standard error.
    Stderr(&'a [u8]),
    /// The job begins again in a new machine: what it wrote to its standard output so far is of the old one.
    StartsAgain,
}

/// The lab: a cache folder, a listener and a stop flag.
pub struct Lab<'a> {
    cache: PathBuf,
    listener: &'a (dyn Fn(Event<'_>) + Sync),
    stop: &'a AtomicBool,
}

impl<'a> Lab<'a> {
    /// A lab that keeps kernels, packages and tools in this folder.
    pub fn new(cache: PathBuf, listener: &'a (dyn Fn(Event<'_>) + Sync), stop: &'a AtomicBool) -> Lab<'a> {
        Lab { cache, listener, stop }
    }

    /// The usual folder: `latebound` under `XDG_CACHE_HOME`, or under `~/.cache`.
    pub fn default_cache() -> Result<PathBuf, LabError> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        base.map(|base| base.join("latebound")).ok_or_else(|| {
            LabError::unexpected(
                "the cache folder",
                "neither XDG_CACHE_HOME nor HOME is set to a path; set one of them",
            )
        })
    }

    /// Where the lab keeps things.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    pub(crate) fn progress(&self, text: &str) {
        (self.listener)(Event::Progress(text));
    }

    pub(crate) fn note(&self, text: &str) {
        (self.listener)(Event::Note(text));
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        (self.listener)(event);
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A folder in the cache, made where it is not there.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.cache.join(name);
        fs::create_dir_all(&path).map_err(LabError::io("make the folder", &path))?;
        is_safe(&self.cache)?;
        is_safe(&path)?;
        Ok(path)
    }

    /// Whether a folder of a folder of the cache is there already. Anything else by that name is refused: what a link leads to is not what
    /// the lab put there.
    pub(crate) fn has(&self, folder: &Path) -> Result<bool, LabError> {
        match fs::symlink_metadata(folder) {
            Ok(found) if found.is_dir() => Ok(true),
            Ok(_) => Err(LabError::unexpected(
                folder.display().to_string(),
                "is no folder; look at it, then remove it",
            )),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(LabError::io("look at", folder)(error)),
        }
    }

    /// Keeps other processes out of one thing in the cache until the file is dropped.
    pub(crate) fn lock(&self, name: &str, what: &str) -> Result<File, LabError> {
        let path = self.folder("locks")?.join(name);
        let file = Folder::above(&path)
            .and_then(|(folder, name)| folder.open_or_create(&name, FILE_MODE))
            .map_err(LabError::io("make", &path))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) if self.stopped() => return Err(LabError::Stopped),
                Err(fs::TryLockError::WouldBlock) => {
                    self.progress(&format!("waiting for another latebound that is busy with {what}"));
                    std::thread::sleep(std::time::Duration::from_millis(200));
                }
                Err(fs::TryLockError::Error(source)) => {
                    return Err(LabError::Io { doing: "lock", path, source });
                }
            }
        }
    }
}

/// Refuses a folder of the cache that another user could put kernels and programs into.
fn is_safe(folder: &Path) -> Result<(), LabError> {
    let found = fs::metadata(folder).map_err(LabError::io("look at", folder))?;
    // SAFETY: these only return numbers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let by_others = found.mode() & 0o002 != 0 || (found.mode() & 0o020 != 0 && found.gid() != group);
    if found.uid() == user && !by_others {
        return Ok(());
    }
    let how = if by_others { "can be written to by others" } else { "belongs to another user" };
    Err(LabError::unexpected(
        folder.display().to_string(),
        format!(
            "the folder {how}, and what lies there is run; set XDG_CACHE_HOME to a folder that is yours alone"
        ),
    ))
}

/// A key for a name in the cache: FNV-1a, 64 bits (RFC 9923). Whoever uses it compares the whole input besides.
pub(crate) fn key(input: &str) -> String {
    let hash = input.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_cache_that_others_can_write_to_is_refused() {
        let cache = tempfile::tempdir().unwrap();
        let (stop, listener) = (AtomicBool::new(false), |_: Event<'_>| {});
        let lab = Lab::new(cache.path().to_owned(), &listener, &stop);
        lab.folder("kernels").unwrap();
        fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = lab.folder("kernels").unwrap_err().to_string();
        assert!(error.contains("by others") && error.contains("XDG_CACHE_HOME"), "{error}");
    }

    /// Needs root, to give a folder away.
    #[test]
    fn live_a_folder_of_the_cache_that_is_another_users_is_refused() {
        let cache = tempfile::tempdir().unwrap();
        let (stop, listener) = (AtomicBool::new(false), |_: Event<'_>| {});
        let lab = Lab::new(cache.path().to_owned(), &listener, &stop);
        let packages = lab.folder("packages").unwrap();
        std::os::unix::fs::chown(&packages, Some(12_345), None).unwrap();
        let error = lab.folder("packages").unwrap_err().to_string();
        assert!(error.contains("packages") && error.contains("another user"), "{error}");
        assert!(crate::folder::Part::make(&lab, "packages").is_err());
        lab.folder("headers").unwrap();
    }

    #[test]
    fn keys_are_fnv_1a() {
        // Test vectors of the algorithm's authors (draft-eastlake-fnv, appendix).
        assert_eq!(super::key(""), "cbf29ce484222325");
        assert_eq!(super::key("foobar"), "85944171f73967e8");
    }
}
