// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a file that somebody named.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, statat};

use crate::kind::regular;

/// How a file is opened for reading: without waiting for a pipe's writer or a device, without a terminal, not for children.
pub(crate) const READING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a regular file for reading. Symbolic links on the way are followed: whoever named the file chose them.
///
/// Anything else is an error at once, also a pipe without a writer.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a device can do something (watchdog, tape), so what is plainly none of ours is not even opened.
    regular(&statat(CWD, path, AtFlags::empty())?)?;
    let file = File::from(openat(CWD, path, READING, Mode::empty())?);
    regular(&fstat(&file)?)?;
    Ok(file)
}

/// The bytes of a regular file of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    whole(open(path)?, limit)
}

/// The text of a regular file of at most `limit` bytes, in UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("it is not UTF-8: {error}")))
}

/// Reads to the end; the length in the inode is not believed, the kernel's own files say 0 there.
pub(crate) fn whole(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {limit} bytes, the most that is read"),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn pipes_folders_sockets_and_devices_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        rustix::fs::mkfifoat(CWD, at("pipe"), Mode::RUSR).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        symlink(at("pipe"), at("link")).unwrap();
        for (path, said) in [
            (at("pipe"), "a pipe"),
            (at("link"), "a pipe"),
            (at("socket"), "a socket"),
            (folder.path().to_owned(), "a folder"),
            ("/dev/zero".into(), "a device"),
        ] {
            let error = read(&path, 10).unwrap_err().to_string();
            assert!(error.contains(said), "{path:?}: {error}");
        }
    }

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "text");
        assert_eq!(read(&path, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
        // The kernel gives its own files no length.
        assert!(!read(Path::new("/proc/version"), 4096).unwrap().is_empty());
    }
}
