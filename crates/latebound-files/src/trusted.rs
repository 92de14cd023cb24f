// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that decide what a service does, or who may ask it: nobody but root and this user may have written them.

use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Stat, fstat, statat};

use crate::read::{open, whole};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    /// Anybody: a certificate.
    Public,
    /// Its owner and group: a private key, a token.
    Secret,
}

/// Which bytes a name stood for, as far as the file system tells: it changes where the file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    device: u64,
    inode: u64,
    bytes: i64,
    changed: (i64, i64),
}

impl Version {
    #[allow(clippy::useless_conversion, reason = "the widths of these fields differ between architectures")]
    /// Of the file of this path now. Symbolic links are followed.
    pub fn now(path: &Path) -> io::Result<Version> {
        let stat = statat(CWD, path, AtFlags::empty())?;
        let changed = (i64::from(stat.st_ctime), stat.st_ctime_nsec as i64);
        Ok(Version { device: stat.st_dev, inode: stat.st_ino, bytes: stat.st_size, changed })
    }
}

/// The bytes of a regular file of at most `limit` bytes. An error where the file belongs to another user than root and this
/// one, where others may write to it, or where others may read it though it is a secret.
pub fn read_trusted(path: &Path, limit: u64, secrecy: Secrecy) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let stat = fstat(&file)?;
    refuse(&stat, secrecy)?;
    whole(file, limit)
}

fn refuse(stat: &Stat, secrecy: Secrecy) -> io::Result<()> {
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    let own = rustix::process::geteuid().as_raw();
    if stat.st_uid != 0 && stat.st_uid != own {
        return refused(format!(
            "it belongs to the user with id {}; give it to root or to the user with id {own} (chown)",
            stat.st_uid
        ));
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o022 != 0 {
        return refused(format!(
            "others may write to it (mode {mode:04o}); type chmod go-w, and the file's name"
        ));
    }
    if secrecy == Secrecy::Secret && mode & 0o007 != 0 {
        return refused(format!(
            "everybody may read it (mode {mode:04o}); type chmod o-rwx, and the file's name"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn files_that_others_may_write_and_secrets_they_may_read_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        for (mode, public, secret) in [
            (0o600, true, true),
            (0o440, true, true),
            (0o644, true, false),
            (0o604, true, false),
            (0o660, false, false),
            (0o602, false, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            for (secrecy, expected) in [(Secrecy::Public, public), (Secrecy::Secret, secret)] {
                let read = read_trusted(&path, 4, secrecy);
                assert_eq!(read.is_ok(), expected, "{mode:o}, {secrecy:?}: {read:?}");
            }
        }
        let error = read_trusted(&path, 4, Secrecy::Secret).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
    }

    #[test]
    fn a_version_changes_where_a_file_is_written_or_its_link_moved() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a"), "text").unwrap();
        fs::write(at("b"), "text").unwrap();
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("a", at("link")).unwrap();
        assert_eq!(read_trusted(&at("link"), 4, Secrecy::Secret).unwrap(), b"text");
        let first = Version::now(&at("link")).unwrap();
        assert_eq!(Version::now(&at("a")).unwrap(), first);
        fs::write(at("a"), "texts").unwrap();
        assert_ne!(Version::now(&at("link")).unwrap(), first);
        fs::remove_file(at("link")).unwrap();
        symlink("b", at("link")).unwrap();
        assert_ne!(Version::now(&at("link")).unwrap(), first);
    }
}
