// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder that is held open, and what is in it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{
    Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat, accessat, fchmod, fstat, mkdirat,
    openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::kind::{kind, regular};
use crate::read::{READING, whole};

/// The mode of a new file before the umask, as open(2) is given it.
pub const FILE_MODE: u32 = 0o666;

/// The mode of a new folder before the umask.
pub const FOLDER_MODE: u32 = 0o777;

/// What the name of everything unfinished begins with.
pub const TEMPORARY_PREFIX: &str = ".latebound-";

/// What it ends with.
pub const TEMPORARY_SUFFIX: &str = ".tmp";

/// How deep a tree may be that is removed: each level holds a descriptor.
const DEPTH: usize = 200;

/// How often another name is tried. Names are of 64 random bits; who can guess them can make no end of them.
const TRIES: usize = 16;

/// A folder, by its descriptor: everything in it is reached from there, wherever its name leads meanwhile. No
/// symbolic link is followed in it.
#[derive(Debug)]
pub struct Folder {
    handle: File,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens the folder of this path. Symbolic links on the way are followed: whoever named it chose them.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Folder { handle: openat(CWD, path, FOLDER, Mode::empty())?.into() })
    }

    /// Opens the folder in which a path's last name lies, and gives that name.
    pub fn above(path: &Path) -> io::Result<(Folder, OsString)> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path does not end in a name"))?;
        Ok((Folder::open(path.parent().unwrap_or(Path::new("/")))?, name.to_owned()))
    }

    /// Opens a folder in this one.
    pub fn child(&self, name: &OsStr) -> io::Result<Folder> {
        Ok(Folder { handle: openat(&self.handle, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?.into() })
    }

    /// Makes a folder in this one, and opens it; an error where something of that name is there. What is given is empty and this
    /// user's own: an owner of this folder could have put another in its place between the two steps.
    pub fn make(&self, name: &OsStr, mode: u32) -> io::Result<Folder> {
        mkdirat(&self.handle, name, Mode::from_raw_mode(mode))?;
        let made = self.child(name)?;
        if !made.is_mine()? || !made.names(1)?.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "another user puts folders in the place of new ones there; choose a folder that is yours",
            ));
        }
        Ok(made)
    }

    /// Makes a folder under a name that nobody can guess.
    pub fn make_temporary(&self, mode: u32) -> io::Result<(OsString, Folder)> {
        self.unique(|name| self.make(name, mode))
    }

    /// Makes a folder under a name that nobody can guess, and locks it: as long as it is held, whoever looks for what the dead left
    /// sees that its maker lives. Not every file system can lock a folder (NFS); there nobody may remove what another left. An error where this
    /// folder is gone.
    pub fn make_locked(&self, mode: u32) -> io::Result<(OsString, Folder)> {
        // Another may have taken the folder for a dead one's and removed it, before it was opened or before it was locked.
        loop {
            let (name, made) = match self.make_temporary(mode) {
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && fstat(&self.handle)?.st_nlink > 0 =>
                {
                    continue;
                }
                made => made?,
            };
            // Who has the lock is about to remove it.
            if matches!(made.handle.try_lock(), Err(TryLockError::WouldBlock)) {
                continue;
            }
            let there = self.child(&name).and_then(|there| there.identity());
            if there.is_ok_and(|there| made.identity().is_ok_and(|ours| ours == there)) {
                return Ok((name, made));
            }
        }
    }

    /// The folders of this user's in it that [`Folder::make_locked`] made and whose maker is gone, now locked by this process.
    pub fn left_by_the_dead(&self) -> Vec<(OsString, Folder)> {
        let names = self.names(usize::MAX - 1).unwrap_or_default();
        let dead = |name: OsString| {
            let folder = self.child(&name).ok()?;
            (folder.is_mine().ok()? && folder.lock()).then_some((name, folder))
        };
        names.into_iter().filter(|name| is_temporary(name)).filter_map(dead).collect()
    }

    /// Runs `make` with new names until one is free.
    fn unique<T>(&self, make: impl Fn(&OsStr) -> io::Result<T>) -> io::Result<(OsString, T)> {
        for _ in 0..TRIES {
            let name = temporary_name();
            match make(&name) {
                Ok(made) => return Ok((name, made)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is free for a temporary file"))
    }

    /// The descriptor.
    pub fn handle(&self) -> &File {
        &self.handle
    }

    /// Device and inode.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let stat = fstat(&self.handle)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Whether it belongs to the user of this process.
    pub fn is_mine(&self) -> io::Result<bool> {
        Ok(fstat(&self.handle)?.st_uid == rustix::process::geteuid().as_raw())
    }

    /// Takes the lock on the folder (flock(2)) where it is free and the file system can; whether another holds it.
    ///
    /// A lock that is let go is still held by every child between its fork and its exec, so it is asked for again for a while.
    pub fn is_locked_by_another(&self) -> bool {
        const PATIENCE: Duration = Duration::from_millis(200);
        let asked_at = Instant::now();
        while matches!(self.handle.try_lock(), Err(TryLockError::WouldBlock)) {
            if asked_at.elapsed() >= PATIENCE {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Takes the lock; whether this process has it now.
    pub fn lock(&self) -> bool {
        self.handle.try_lock().is_ok()
    }

    /// The names in it, in order; of more than `limit` one more than that.
    pub fn names(&self, limit: usize) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
            if names.len() > limit {
                break;
            }
        }
        names.sort();
        Ok(names)
    }

    fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Whether a regular file of this name is there.
    pub fn has_file(&self, name: &OsStr) -> bool {
        self.stat(name).is_ok_and(|stat| regular(&stat).is_ok())
    }

    /// Whether anything of this name is there.
    pub fn has(&self, name: &OsStr) -> bool {
        self.stat(name).is_ok()
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        regular(&self.stat(name)?)?;
        let file = File::from(openat(&self.handle, name, READING | OFlags::NOFOLLOW, Mode::empty())?);
        regular(&fstat(&file)?)?;
        Ok(file)
    }

    /// The bytes of a regular file of at most `limit` bytes.
    pub fn read(&self, name: &OsStr, limit: u64) -> io::Result<Vec<u8>> {
        whole(self.open_file(name)?, limit)
    }

    /// Makes a new file; an error where anything of that name is there.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.handle, name, flags, Mode::from_raw_mode(mode))?))
    }

    /// Opens a file that is there from earlier or makes it, to write to or to lock; nothing of it is cut off.
    pub fn open_or_create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let file = File::from(openat(&self.handle, name, flags, Mode::from_raw_mode(mode))?);
        regular(&fstat(&file)?)?;
        Ok(file)
    }

    /// Puts a file of this name there, or in the place of the regular file that is there: a reader meets the old one or the new one,
    /// whole, also after a loss of power. The new one has the mode of the old one.
    ///
    /// Nothing is put in the place of anything else, a symbolic link above all.
    pub fn replace(&self, name: &OsStr, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        self.replace_with_mode(name, FILE_MODE, write)
    }

    /// As [`Folder::replace`], where no old file says so with this mode before the umask.
    pub fn replace_with_mode(
        &self,
        name: &OsStr,
        mode: u32,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        self.put(name, mode, true, write)
    }

    /// As [`Folder::replace`], but after a loss of power there may be neither file: for what is soon written again, where nobody may
    /// wait for a disk.
    pub fn replace_in_memory(
        &self,
        name: &OsStr,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        self.put(name, FILE_MODE, false, write)
    }

    /// Whether a file of this name can be put there, as far as that can be told before: nothing but a regular file is there, and the
    /// folder may be written to.
    pub fn can_replace(&self, name: &OsStr) -> io::Result<()> {
        self.replaceable(name)?;
        Ok(accessat(&self.handle, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
    }

    /// The regular file of this name; an error where anything else has it.
    fn replaceable(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match self.stat(name) {
            Ok(old) if regular(&old).is_ok() => Ok(Some(old)),
            Ok(other) => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("it is {}, which is not replaced; choose another name", kind(&other)),
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn put(
        &self,
        name: &OsStr,
        mode: u32,
        lasting: bool,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let old = self.replaceable(name)?;
        let (temporary, mut file) = self.unique(|name| self.create_new(name, mode))?;
        let put = || {
            if let Some(old) = &old {
                fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o777))?;
            }
            write(&mut file)?;
            if lasting {
                file.sync_all()?;
            }
            self.rename(&temporary, name)?;
            if lasting { self.sync() } else { Ok(()) }
        };
        put().inspect_err(|_| {
            // Gives the space back; the error that matters is the one before it.
            let _ = self.remove_file(&temporary);
        })
    }

    /// Gives something in this folder another name in it; a file there is replaced (rename(2)).
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.handle, from, &self.handle, to)?)
    }

    /// Puts each of two in the other's place, in one step (renameat2(2), `RENAME_EXCHANGE`).
    pub fn exchange(&self, one: &OsStr, other: &OsStr) -> io::Result<()> {
        Ok(renameat_with(&self.handle, one, &self.handle, other, RenameFlags::EXCHANGE)?)
    }

    /// Removes what is no folder; a symbolic link itself.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes all that is in it. Symbolic links are removed, not followed.
    pub fn empty(&self) -> io::Result<()> {
        self.empty_to(DEPTH)
    }

    fn empty_to(&self, depth: usize) -> io::Result<()> {
        for name in self.names(usize::MAX - 1)? {
            match self.remove_file(&name) {
                // EISDIR on Linux, EPERM by POSIX (unlink(2)).
                Err(error) if self.is_folder(&name) => {
                    let Some(depth) = depth.checked_sub(1) else { return Err(error) };
                    self.child(&name)?.empty_to(depth)?;
                    self.remove_folder(&name)?;
                }
                result => result?,
            }
        }
        Ok(())
    }

    /// Whether a folder of this name is there.
    pub fn is_folder(&self, name: &OsStr) -> bool {
        self.stat(name).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// Makes its entries last.
    pub fn sync(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.handle) {
            // Some network file systems cannot sync a folder; their servers order the operations themselves.
            Err(Errno::INVAL) => Ok(()),
            result => Ok(result?),
        }
    }
}

/// `.latebound-0123456789abcdef.tmp`. The standard library's hash keys are the kernel's random numbers, and are there also while
/// that has few (getrandom(2), `GRND_INSECURE`).
fn temporary_name() -> OsString {
    let random = RandomState::new().build_hasher().finish();
    format!("{TEMPORARY_PREFIX}{random:016x}{TEMPORARY_SUFFIX}").into()
}

/// Whether this is the name of something unfinished.
pub fn is_temporary(name: &OsStr) -> bool {
    name.as_bytes()
        .strip_prefix(TEMPORARY_PREFIX.as_bytes())
        .and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX.as_bytes()))
        .is_some_and(|random| random.len() == 16 && random.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn place() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        (place, folder)
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let (place, folder) = place();
        let path = place.path().join("file");
        folder.replace("file".as_ref(), |file| file.write_all(b"one")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        folder.replace("file".as_ref(), |file| file.write_all(b"two")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let failed = folder.replace("file".as_ref(), |file| {
            file.write_all(b"thr")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(folder.names(10).unwrap(), ["file"]);
    }

    #[test]
    fn nothing_but_a_regular_file_is_replaced_or_opened() {
        let (place, folder) = place();
        let aim = place.path().join("aim");
        fs::write(&aim, "theirs").unwrap();
        symlink(&aim, place.path().join("link")).unwrap();
        rustix::fs::mkfifoat(&folder.handle, "pipe", Mode::RWXU).unwrap();
        for name in ["link", "pipe"] {
            folder.replace(name.as_ref(), |file| file.write_all(b"mine")).unwrap_err();
            folder.open_file(name.as_ref()).unwrap_err();
            folder.create_new(name.as_ref(), 0o600).unwrap_err();
            folder.open_or_create(name.as_ref(), 0o600).unwrap_err();
            assert!(!folder.has_file(name.as_ref()));
        }
        assert_eq!(fs::read_to_string(&aim).unwrap(), "theirs");
        assert_eq!(folder.names(10).unwrap(), ["aim", "link", "pipe"]);
    }

    #[test]
    fn what_is_emptied_does_not_reach_beyond_its_links() {
        let (place, folder) = place();
        let (kept, tree) = (place.path().join("kept"), place.path().join("tree"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "").unwrap();
        fs::write(tree.join("a/file"), "").unwrap();
        symlink(&kept, tree.join("a/b/link")).unwrap();
        folder.child("tree".as_ref()).unwrap().empty().unwrap();
        folder.remove_folder("tree".as_ref()).unwrap();
        assert!(kept.join("file").is_file());
    }

    #[test]
    fn a_held_folder_is_the_same_whatever_its_name_leads_to() {
        let (place, folder) = place();
        let (name, made) = folder.make_temporary(0o700).unwrap();
        assert!(is_temporary(&name) && !is_temporary("other".as_ref()));
        fs::rename(place.path().join(&name), place.path().join("moved")).unwrap();
        symlink("/proc", place.path().join(&name)).unwrap();
        made.replace("file".as_ref(), |file| file.write_all(b"x")).unwrap();
        assert!(place.path().join("moved/file").is_file());
        folder.child(&name).unwrap_err();
        let mode = fs::metadata(place.path().join("moved")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn in_a_folder_that_is_gone_none_is_made() {
        let (place, folder) = place();
        drop(place);
        assert_eq!(folder.make_locked(0o700).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_locked_folder_is_made_while_others_remove_those_of_the_dead() {
        let (_place, folder) = place();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        for (name, dead) in folder.left_by_the_dead() {
                            let _ = dead.empty().and_then(|()| folder.remove_folder(&name));
                        }
                    }
                });
            }
            let make = || {
                for _ in 0..2_000 {
                    let (name, made) = folder.make_locked(0o700)?;
                    let there = folder.child(&name).and_then(|there| there.identity())?;
                    assert_eq!(made.identity()?, there);
                    drop(made);
                }
                Ok::<(), io::Error>(())
            };
            let makers = [scope.spawn(make), scope.spawn(make)];
            let made = makers.map(|maker| maker.join());
            is_over.store(true, Ordering::Relaxed);
            made.into_iter().for_each(|made| made.unwrap().unwrap());
        });
    }
}
