// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing a file to a place that somebody named.

use std::io::{self, Write};
use std::path::Path;

use crate::folder::Folder;

/// Writes a file whole or not at all. A regular file that is there is replaced; anything else is refused.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let (folder, name) = Folder::above(path)?;
    folder.replace(&name, |file| file.write_all(bytes.as_ref()))
}

/// As [`write`], without waiting for the disk: after a loss of power the file may be gone. For what is soon written again.
pub fn write_in_memory(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let (folder, name) = Folder::above(path)?;
    folder.replace_in_memory(&name, |file| file.write_all(bytes.as_ref()))
}
