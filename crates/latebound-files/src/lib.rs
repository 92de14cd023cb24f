// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files in places that other users may write to too.
//!
//! Owns how the workspace opens a file that somebody named, and how it writes one: it reads regular files only and never waits for
//! one, and writes under a name that nobody can guess, which a rename then gives its place. What belongs together is reached
//! through one held descriptor ([`Folder`]), so that a folder that is moved or replaced meanwhile changes nothing. It never follows
//! a symbolic link in the place of a file that it writes, and never removes what its caller did not name.

mod folder;
mod kind;
mod read;
mod trusted;
mod write;

pub use folder::{FILE_MODE, FOLDER_MODE, Folder, TEMPORARY_PREFIX, TEMPORARY_SUFFIX, is_temporary};
pub use read::{open, read, read_text};
pub use trusted::{Secrecy, Version, read_trusted};
pub use write::{write, write_in_memory};
