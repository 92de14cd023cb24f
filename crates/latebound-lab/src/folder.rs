// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder for one job, hidden beside the place of its result and gone with the job. One that a dead process left is
//! removed by the next job in the same place.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::LabError;

const SUFFIX: &str = ".latebound-lab";

/// A folder for one job, removed with the value. It holds flock(2) on itself: one without a holder is a dead one's.
pub(crate) struct JobFolder {
    pub(crate) place: PathBuf,
    _lock: File,
}

impl JobFolder {
    /// Beside the place of the result, so that the Run can be put there by renaming it; the guest sees it too, which
    /// it would not below /run or /dev/shm.
    pub(crate) fn make(beside: &Path) -> Result<JobFolder, LabError> {
        let parent =
            beside.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = fs::canonicalize(parent).map_err(LabError::io("find the folder", parent))?;
        remove_what_the_dead_left(&parent);
        let name = beside.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        for number in 0.. {
            let place = parent.join(format!(".{name}.{}.{number}{SUFFIX}", std::process::id()));
            match fs::create_dir(&place) {
                Ok(()) => {
                    let lock = File::open(&place).map_err(LabError::io("open the folder", &place))?;
                    // Not every file system can lock a folder (NFS); there, nobody removes what another left.
                    let _ = lock.try_lock();
                    return Ok(JobFolder { place, _lock: lock });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(LabError::Io { doing: "make the folder", path: place, source }),
            }
        }
        Err(LabError::unexpected(parent.display().to_string(), "no name is free for a folder in it"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, LabError> {
        let path = self.path(name);
        fs::write(&path, text).map_err(LabError::io("write", &path))?;
        Ok(path)
    }
}

impl Drop for JobFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// Removes folders whose process is dead; whatever cannot be removed stays, it does no harm. Both signs must be there: no
/// lock, and no process of the number in the name, as a folder is not locked in the moment in which it is made.
fn remove_what_the_dead_left(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(maker) else { continue };
        if Path::new("/proc").join(process.to_string()).exists() {
            continue;
        }
        let unlocked = File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok());
        if unlocked {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process in `.NAME.PID.N.latebound-lab`.
fn maker(name: &str) -> Option<u32> {
    let (rest, number) = name.strip_prefix('.')?.strip_suffix(SUFFIX)?.rsplit_once('.')?;
    let (_, process) = rest.rsplit_once('.')?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_process_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        // Beyond any number that a process can have (PID_MAX_LIMIT, 2^22).
        let made = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.join("share")).unwrap();
            path
        };
        let dead = made(".a.b.run.4294967295.3.latebound-lab");
        let mine = made(&format!(".other.run.{}.0.latebound-lab", std::process::id()));
        let held = made(".held.run.4294967294.0.latebound-lab");
        let holder = File::open(&held).unwrap();
        holder.try_lock().unwrap();
        let strange = made(".latebound-lab");
        let job = JobFolder::make(&folder.path().join("x.run")).unwrap();
        assert!(!dead.exists());
        assert!(mine.exists() && held.exists() && strange.exists() && job.place.exists());
        let place = job.place.clone();
        drop(job);
        assert!(!place.exists());
    }
}
