// SPDX-License-Identifier: MIT OR Apache-2.0
//! The root under which every file is read. Owns all file access of the crate; never writes.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::str::FromStr;

use latebound_model::CpuSet;

/// Where `/proc`, `/sys`, `/dev` and `/boot` are found: the live system, or a tree that stands for one.
///
/// Paths are always given as the system names them (`/proc/stat`), and errors name them so.
#[derive(Clone, Debug)]
pub struct Root {
    base: PathBuf,
    denied: Vec<String>,
}

/// Why a file gave no value.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused or has no such file.
    #[error("{path}: {source}")]
    Os {
        /// The file, as the system names it.
        path: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file was read but holds something else than expected.
    #[error("{path} holds \"{value}\", which is not {expected}")]
    Unexpected {
        /// The file, as the system names it.
        path: String,
        /// What it holds, shortened.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
}

impl ReadError {
    /// For a value that is not what the file should hold.
    pub(crate) fn unexpected(path: &str, value: &str, expected: &'static str) -> ReadError {
        ReadError::Unexpected { path: path.to_owned(), value: value.chars().take(60).collect(), expected }
    }

    /// The file, as the system names it.
    pub fn path(&self) -> &str {
        match self {
            ReadError::Os { path, .. } | ReadError::Unexpected { path, .. } => path,
        }
    }

    /// Whether there is no such file.
    pub fn is_absent(&self) -> bool {
        matches!(self, ReadError::Os { source, .. }
            if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
    }

    /// Whether the file is there but may not be read (EACCES, or EPERM as from a locked-down kernel).
    pub fn is_denied(&self) -> bool {
        matches!(self, ReadError::Os { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// The reason without the path.
    pub fn reason(&self) -> String {
        match self {
            ReadError::Os { source, .. } => format!("cannot be read: {source}"),
            ReadError::Unexpected { value, expected, .. } => format!("\"{value}\" is not {expected}"),
        }
    }
}

impl Root {
    /// The system that this process runs on.
    pub fn live() -> Root {
        Root::at("/")
    }

    /// A tree of files that stands for a system.
    pub fn at(base: impl Into<PathBuf>) -> Root {
        Root { base: base.into(), denied: Vec::new() }
    }

    /// The same system, seen by somebody who may not read these files and folders: each read answers EACCES.
    /// Root cannot be refused by file modes, so this is how an unprivileged view is had as root.
    #[must_use]
    pub fn denying(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Root {
        self.denied.extend(paths.into_iter().map(Into::into));
        self
    }

    /// The place of a file of the system in this tree.
    fn locate(&self, path: &str) -> Result<PathBuf, ReadError> {
        let covers = |denied: &String| {
            path.strip_prefix(denied.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let fail =
            |errno| ReadError::Os { path: path.to_owned(), source: io::Error::from_raw_os_error(errno) };
        if self.denied.iter().any(covers) {
            return Err(fail(libc::EACCES));
        }
        // A cgroup path may hold ".." (a cgroup outside of the namespace's root): never leave the tree for it.
        if path.split('/').any(|part| part == "..") {
            return Err(fail(libc::ENOENT));
        }
        Ok(self.base.join(path.trim_start_matches('/')))
    }

    /// The bytes of a file. Files of `/proc` and `/sys` say that they are empty or a page long: read to the end.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        fs::read(self.locate(path)?).map_err(|source| ReadError::Os { path: path.to_owned(), source })
    }

    /// The first bytes of a file that is a device: it has no end, or answers each read anew.
    pub(crate) fn first_bytes<const N: usize>(&self, path: &str) -> Result<[u8; N], ReadError> {
        let fail = |source| ReadError::Os { path: path.to_owned(), source };
        let mut bytes = [0; N];
        let mut file = fs::File::open(self.locate(path)?).map_err(fail)?;
        file.read_exact(&mut bytes).map_err(fail)?;
        Ok(bytes)
    }

    /// Opens a file to be read again and again.
    pub(crate) fn open(&self, path: &str) -> Result<fs::File, ReadError> {
        let fail = |source| ReadError::Os { path: path.to_owned(), source };
        fs::File::open(self.locate(path)?).map_err(fail)
    }

    /// The text of a file; bytes that are not UTF-8 are replaced.
    pub fn text(&self, path: &str) -> Result<String, ReadError> {
        let bytes = self.bytes(path)?;
        Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }

    /// The text of a file with one value: without white space and NULs around it.
    pub fn value(&self, path: &str) -> Result<String, ReadError> {
        Ok(self.text(path)?.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
    }

    /// A number.
    pub fn number<T: FromStr>(&self, path: &str) -> Result<T, ReadError> {
        let value = self.value(path)?;
        value.parse().map_err(|_| ReadError::unexpected(path, &value, "a number"))
    }

    /// A list of CPUs in the kernel's form; `(null)` is how some kernels write an empty one.
    pub fn cpus(&self, path: &str) -> Result<CpuSet, ReadError> {
        let value = self.value(path)?;
        match value.as_str() {
            "(null)" => Ok(CpuSet::default()),
            list => list.parse().map_err(|_| ReadError::unexpected(path, list, "a CPU list")),
        }
    }

    /// The names in a folder, sorted.
    pub fn names(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let fail = |source| ReadError::Os { path: path.to_owned(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(self.locate(path)?).map_err(fail)? {
            // An entry that vanished or is not UTF-8 is no file that this crate reads.
            if let Some(name) = entry.ok().and_then(|entry| entry.file_name().into_string().ok()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The names of the folders in a folder, sorted; links are none.
    pub(crate) fn folders(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let fail = |source| ReadError::Os { path: path.to_owned(), source };
        let entries = fs::read_dir(self.locate(path)?).map_err(fail)?.filter_map(Result::ok);
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut names: Vec<String> =
            folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The number of the inode of a folder.
    pub(crate) fn folder_number(&self, path: &str) -> Result<u64, ReadError> {
        let fail = |source| ReadError::Os { path: path.to_owned(), source };
        let status = fs::symlink_metadata(self.locate(path)?).map_err(fail)?;
        if !status.is_dir() {
            return Err(fail(io::Error::from_raw_os_error(libc::ENOTDIR)));
        }
        Ok(status.ino())
    }

    /// Whether there is something by this name that may be looked at.
    pub fn exists(&self, path: &str) -> bool {
        self.locate(path).is_ok_and(|path| path.exists())
    }
}
