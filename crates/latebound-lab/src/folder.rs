// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder for one job, in the lab's cache and gone with the job. One that a dead process left is removed by the next job.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

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
        let jobs = lab.folder(JOBS)?;
        let failed =
            |source| LabError::Io { doing: "make a folder for the job in", path: jobs.clone(), source };
        let above = Folder::open(&jobs).map_err(failed)?;
        for (name, folder) in above.left_by_the_dead() {
            // Whatever cannot be removed stays; it does no harm.
            let _ = folder.empty().and_then(|()| above.remove_folder(&name));
        }
        let (name, folder) = above.make_locked(0o700).map_err(failed)?;
        let place = std::path::absolute(&jobs).map_err(failed)?.join(&name);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
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
}
