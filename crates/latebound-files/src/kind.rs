// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a name stands for. Owns that regular files alone are read and replaced.

use std::io;

use rustix::fs::{FileType, Stat};

/// What a name stands for, in the words of an error.
pub(crate) fn kind(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    }
}

/// Refuses what is no regular file.
pub(crate) fn regular(stat: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it is a folder and not a regular file; name a file in it",
        )),
        FileType::Fifo => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a pipe and not a regular file; save what comes through it to a file first",
        )),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("it is {} and not a regular file", kind(stat)),
        )),
    }
}
