// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and folders that appear whole or not at all, on disk and not only in the page cache.
//!
//! Rests on rename(2) being atomic for other processes, and on an fsync of the file before it and of the folder
//! after it for the order in which the two reach the disk.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Replaces `folder/name` by these bytes. A reader meets the old file or the new one.
pub(crate) fn replace_file(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = folder.join(name);
    let temporary = folder.join(temporary_name(name));
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        sync_folder(folder)
    };
    write().inspect_err(|_| {
        // Gives the space back; the error that matters is the one before it.
        let _ = fs::remove_file(&temporary);
    })
}

/// The name of the unfinished copy of a file.
pub(crate) fn temporary_name(name: &str) -> String {
    format!(".{name}.tmp")
}

/// Makes the entries of a folder last.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some network file systems cannot sync a folder; their servers order the operations themselves.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        result => result,
    }
}

/// Puts each of two folders in the other's place, in one step (renameat2(2), `RENAME_EXCHANGE`).
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let one = CString::new(one.as_os_str().as_bytes())?;
    let other = CString::new(other.as_os_str().as_bytes())?;
    // SAFETY: both pointers are to NUL-terminated strings that live until the call returns.
    let result = unsafe {
        libc::renameat2(libc::AT_FDCWD, one.as_ptr(), libc::AT_FDCWD, other.as_ptr(), libc::RENAME_EXCHANGE)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
