// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folders in the lab's cache that are of use for a time: of a job, gone with it, and of what is being made. Those that a dead process left
//! are removed when the next one is made.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use latebound_files::Folder;

use crate::context::Lab;
use crate::error::LabError;

/// Where the folders of jobs lie in the cache.
const JOBS: &str = "jobs";

/// A folder for one job, removed with the value. Its name is of plain characters, as parts of it go through programs that take
/// lists of paths apart; nobody but this user can enter it, as a guest can put anything there.
pub(crate) struct JobFolder {
    pub(crate) place: PathBuf,
    pub(crate) folder: Folder,
    above: Folder,
    name: OsString,
}

impl JobFolder {
    pub(crate) fn make(lab: &Lab<'_>) -> Result<JobFolder, LabError> {
        let (place, folder, above, name) = make_locked(lab, JOBS, 0o700)?;
        Ok(JobFolder { place, folder, above, name })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, LabError> {
        let path = self.path(name);
        self.folder
            .replace(name.as_ref(), |file| file.write_all(text.as_bytes()))
            .map_err(LabError::io("write", &path))?;
        Ok(path)
    }
}

impl Drop for JobFolder {
    fn drop(&mut self) {
        let _ = self.folder.empty().and_then(|()| self.above.remove_folder(&self.name));
    }
}

/// A folder for what is being made, until it is whole and put in its place. What fails stays, with its log, until the next one is made there.
pub(crate) struct Part {
    path: PathBuf,
    /// Keeps the lock.
    _folder: Folder,
}

impl Part {
    /// In this folder of the cache.
    pub(crate) fn make(lab: &Lab<'_>, folder: &str) -> Result<Part, LabError> {
        let (path, folder, ..) = make_locked(lab, folder, 0o755)?;
        Ok(Part { path, _folder: folder })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts all of it in its place.
    pub(crate) fn put(self, place: &Path) -> Result<(), LabError> {
        fs::rename(&self.path, place).map_err(LabError::io("put in its place", place))
    }

    /// Puts one thing that is in it in its place, and removes the rest.
    pub(crate) fn put_one(self, name: &str, place: &Path) -> Result<(), LabError> {
        fs::rename(self.path.join(name), place).map_err(LabError::io("put in its place", place))?;
        remove(&self.path)
    }
}

/// Makes a folder in a folder of the cache, under a name that nobody can guess, and locks it. Gives its path, itself, the folder that it is in, and
/// its name there.
fn make_locked(
    lab: &Lab<'_>,
    place: &str,
    mode: u32,
) -> Result<(PathBuf, Folder, Folder, OsString), LabError> {
    let place = lab.folder(place)?;
    let failed = |source| LabError::Io { doing: "make a folder in", path: place.clone(), source };
    let above = Folder::open(&place).map_err(failed)?;
    for (name, folder) in above.left_by_the_dead() {
        // Whatever cannot be removed stays; it does no harm.
        let _ = folder.empty().and_then(|()| above.remove_folder(&name));
    }
    let (name, folder) = above.make_locked(mode).map_err(failed)?;
    let path = std::path::absolute(&place).map_err(failed)?.join(&name);
    Ok((path, folder, above, name))
}

/// Removes a folder and all that is in it; a folder that is not there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::Io { doing: "remove", path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn what_a_dead_process_left_is_removed_and_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        let (stop, listener) = (AtomicBool::new(false), |_: crate::Event<'_>| {});
        let lab = Lab::new(cache.path().to_owned(), &listener, &stop);
        let jobs = lab.folder(JOBS).unwrap();
        let dead = jobs.join(".latebound-0123456789abcdef.tmp");
        fs::create_dir_all(dead.join("share/deep")).unwrap();
        symlink(cache.path(), dead.join("share/link")).unwrap();
        let strange = jobs.join("mine");
        fs::create_dir(&strange).unwrap();
        let alive = JobFolder::make(&lab).unwrap();
        assert!(!dead.exists());
        let job = JobFolder::make(&lab).unwrap();
        assert!(strange.exists() && alive.place.exists() && job.place.exists());
        assert_eq!(fs::metadata(&job.place).unwrap().permissions().mode() & 0o777, 0o700);
        job.write("file", "text").unwrap();
        let place = job.place.clone();
        drop(job);
        assert!(!place.exists() && alive.place.exists());
    }

    #[test]
    fn what_is_made_is_put_in_its_place_and_nothing_else_stays() {
        let cache = tempfile::tempdir().unwrap();
        let (stop, listener) = (AtomicBool::new(false), |_: crate::Event<'_>| {});
        let lab = Lab::new(cache.path().to_owned(), &listener, &stop);
        let place = lab.folder("things").unwrap();
        let names = || {
            let mut names: Vec<String> = fs::read_dir(&place)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let part = Part::make(&lab, "things").unwrap();
        fs::create_dir(part.path().join("files")).unwrap();
        fs::write(part.path().join("log"), "").unwrap();
        let other = Part::make(&lab, "things").unwrap();
        assert!(part.path().is_dir(), "its maker lives");
        part.put_one("files", &place.join("one")).unwrap();
        fs::write(other.path().join("file"), "").unwrap();
        other.put(&place.join("all")).unwrap();
        assert_eq!(names(), ["all", "one"]);
        assert!(place.join("all/file").is_file());
        // What failed stays for its log, until the next one is made.
        let failed = Part::make(&lab, "things").unwrap();
        assert!(failed.put_one("files", &place.join("two")).is_err());
        assert_eq!(names().len(), 3);
        Part::make(&lab, "things").unwrap().put(&place.join("two")).unwrap();
        assert_eq!(names(), ["all", "one", "two"]);
    }
}
