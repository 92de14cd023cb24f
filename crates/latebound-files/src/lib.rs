// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files in places that other users may write to too.
//!
//! Owns how the workspace opens a file that somebody named, and how it writes one: it reads regular files only and never waits for
//! one, and writes under a name that nobody can guess, which a rename then gives its place. What belongs together is reached
//! through one held descriptor ([`Folder`]), so that a folder that is moved or replaced meanwhile changes nothing. It never follows
//! a symbolic link in the place of a file that it writes, and never removes what its caller did not name.

mod folder;
mod read;
mod write;

pub use folder::{Folder, TEMPORARY_PREFIX, TEMPORARY_SUFFIX, is_temporary};
pub use read::{open, read, read_text};
pub use write::{write, write_in_memory};

use std::io;

use rustix::fs::{FileType, Stat};

/// The mode of a new file before the umask, as open(2) is given it.
pub const FILE_MODE: u32 = 0o666;

/// The mode of a new folder before the umask.
pub const FOLDER_MODE: u32 = 0o777;

/// What a name stands for, in the words of an error.
fn kind(stat: &Stat) -> &'static str {
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
fn regular(stat: &Stat) -> io::Result<()> {
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
