// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where tracefs lies, and instances that ended runs left behind.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::TracefsError;

/// By the two usual places (Documentation/trace/ftrace.rst, "The File System").
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// How the names of this tool's instances begin; 32 hexadecimal digits follow.
pub(crate) const PREFIX: &str = "latebound-";
const DIGITS: usize = 32;

/// A mounted tracefs.
#[derive(Clone, Debug)]
pub struct Tracefs {
    folder: PathBuf,
}

impl Tracefs {
    /// The one that is mounted at a usual place.
    pub fn find() -> Result<Tracefs, TracefsError> {
        let mut refused = None;
        for place in PLACES {
            let folder = PathBuf::from(place);
            // Debugfs mounts it there when it is looked into.
            match fs::read_dir(&folder) {
                Ok(_) if is_tracefs(&folder) => return Ok(Tracefs { folder }),
                Err(source) if source.kind() == std::io::ErrorKind::PermissionDenied => {
                    refused.get_or_insert(TracefsError::NotAllowed { path: folder, source });
                }
                _ => {}
            }
        }
        Err(refused.unwrap_or(TracefsError::NotMounted))
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the kernel has an event.
    pub fn has_event(&self, system: &str, name: &str) -> bool {
        self.folder.join("events").join(system).join(name).join("format").exists()
    }

    /// The events of a system, by name.
    pub fn events_of(&self, system: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join("events").join(system)).into_iter().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| self.has_event(system, name))
            .collect();
        names.sort();
        names
    }
}

fn is_tracefs(folder: &Path) -> bool {
    let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: every field of statfs is an integer, for which zero is a value.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in a zero byte, and the pointer is to a live statfs.
    let asked = unsafe { libc::statfs(path.as_ptr(), &raw mut found) };
    asked == 0 && found.f_type as u64 == libc::TRACEFS_MAGIC as u64
}

/// Whether an instance of this name is one of this tool's.
fn is_own(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX);
    digits.is_some_and(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Removes instances of this tool that no process uses any more, and gives their names. The kernel removes none of which a file is open
/// (kernel/trace/trace.c, instance_rmdir()), as every running one has.
pub fn remove_stale(tracefs: &Tracefs) -> Vec<String> {
    let folder = tracefs.folder.join("instances");
    let names = fs::read_dir(&folder).into_iter().flatten();
    let own =
        names.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).filter(|name| is_own(name));
    own.filter(|name| fs::remove_dir(folder.join(name)).is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_own_by_its_whole_name_alone() {
        assert!(is_own("latebound-0123456789abcdef0123456789abcdef"));
        for other in [
            "latebound-",
            "latebound-0123456789ABCDEF0123456789abcdef",
            "latebound-0123456789abcdef0123456789abcde",
            "latebound-0123456789abcdef0123456789abcdef0",
            "x-latebound-0123456789abcdef0123456789abcdef",
            "foo",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }
}
