// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a mark is: the places of a file at which the kernel lets a program in, or the trace point. Reads, and attaches nothing.
//!
//! The file is opened once and stays what it is, whatever becomes of its name.

mod elf;
mod near;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use latebound_model::Mark;
use object::ReadCache;

use crate::error::ProbeError;

/// Larger files are not read: what is asked of them is read whole.
const LARGEST: u64 = 4 << 30;
/// Where trace points are.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// One place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// From the begin of the file, in bytes.
    pub(crate) offset: u64,
    /// Of a static probe: where its count of listeners is in the file; 0 where it has none.
    pub(crate) semaphore: u64,
}

/// What a mark is at.
#[derive(Debug)]
pub(crate) enum At {
    /// These places of an open file.
    File(File, Vec<Place>),
    /// A trace point.
    Tracepoint,
}

/// Finds the places of a mark.
///
/// # Errors
/// The file or the trace point is not there or cannot be read, or the file has no such place: with names that are near.
pub(crate) fn find(mark: &Mark) -> Result<At, ProbeError> {
    let failed = |why: String| ProbeError::Mark { mark: escaped(&mark.to_string()), why };
    match mark {
        Mark::Tracepoint { system, event } => {
            let found = TRACEFS.iter().map(Path::new).find(|folder| folder.join("sched").exists());
            let events = found.ok_or_else(|| {
                failed(
                    "trace points are not to be seen; run with sudo, or type: mount -t tracefs tracefs /sys/kernel/tracing"
                        .to_owned(),
                )
            })?;
            tracepoint(events, system, event).map_err(failed)?;
            Ok(At::Tracepoint)
        }
        Mark::Function { path, .. } | Mark::Return { path, .. } | Mark::Static { path, .. } => {
            let file = open(path).map_err(failed)?;
            let cache = ReadCache::new(&file);
            let places = match mark {
                Mark::Function { symbol, offset, .. } => elf::function(&cache, symbol, *offset),
                Mark::Return { symbol, .. } => elf::function(&cache, symbol, 0),
                Mark::Static { provider, name, .. } => elf::static_probe(&cache, provider, name),
                Mark::Tracepoint { .. } => Ok(Vec::new()),
            };
            Ok(At::File(file, places.map_err(failed)?))
        }
    }
}

/// Whether the number of this event, `raw_syscalls/sys_enter`, can be read: perf asks for it.
pub(crate) fn is_event(event: &str) -> bool {
    TRACEFS.iter().any(|folder| File::open(Path::new(folder).join(event).join("id")).is_ok())
}

/// Opens a file to read; one that is no ordinary file is none, and is not waited for.
fn open(path: &str) -> Result<File, String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| format!("the file cannot be opened: {error}"))?;
    let about = file.metadata().map_err(|error| format!("the file cannot be read: {error}"))?;
    if !about.is_file() {
        return Err("that is no ordinary file".to_owned());
    }
    if about.len() > LARGEST {
        return Err(format!("the file has {} bytes, and {LARGEST} are the most", about.len()));
    }
    Ok(file)
}

fn tracepoint(events: &Path, system: &str, event: &str) -> Result<(), String> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        folders.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    if events.join(system).join(event).join("id").exists() {
        return Ok(());
    }
    if !events.join(system).is_dir() {
        let near = near::said(system, names(events).iter().map(String::as_str));
        return Err(format!("{} has no {system}{near}", events.display()));
    }
    let folder = events.join(system);
    let near = near::said(event, names(&folder).iter().map(String::as_str));
    Err(format!("{} has no {event}{near}", folder.display()))
}

/// A name of a file or of its symbols, as it is printed.
fn escaped(text: &str) -> String {
    text.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(mark: &str) -> String {
        find(&mark.parse().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn a_file_that_is_none_is_refused_with_the_reason() {
        assert!(
            why("uprobe:/nowhere/at/all:main").contains("No such file"),
            "{}",
            why("uprobe:/nowhere/at/all:main")
        );
        assert!(why("uprobe:/tmp:main").contains("no ordinary file"));
        assert!(
            why("uprobe:/proc/self/cmdline:main").contains("no ELF file"),
            "{}",
            why("uprobe:/proc/self/cmdline:main")
        );
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo\u{7}");
        let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
        // SAFETY: the name lives through the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let said = why(&format!("uprobe:{}:main", fifo.display()));
        assert!(said.contains("no ordinary file") && !said.contains('\u{7}'), "{said:?}");
    }

    #[test]
    fn a_trace_point_that_is_not_there_is_named_with_near_ones() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("sched/sched_switch")).unwrap();
        std::fs::write(folder.path().join("sched/sched_switch/id"), "1").unwrap();
        assert_eq!(tracepoint(folder.path(), "sched", "sched_switch"), Ok(()));
        let said = tracepoint(folder.path(), "sched", "sched_swich").unwrap_err();
        assert!(said.ends_with("has no sched_swich; near it: sched_switch"), "{said}");
        let said = tracepoint(folder.path(), "shed", "x").unwrap_err();
        assert!(said.ends_with("has no shed; near it: sched"), "{said}");
    }
}
