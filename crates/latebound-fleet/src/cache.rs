// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of a bucket's data files on this machine, for programs that read files.
//!
//! Owns that a copy has the bytes that were committed: a data file never changes, so a copy is good for ever. Copies are kept by the
//! SHA-256 of their bytes, in a folder that only its owner may enter; the ones that were not used for the longest time go first.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, TryStreamExt, stream};
use latebound_files::{Folder, is_temporary};

use crate::GRACE;
use crate::error::FleetError;
use crate::log::Damage;
use crate::place::path;
use crate::show::{Choice, DataFile, FilesDocument};
use crate::store::{AT_ONCE, MAX_DATA_BYTES, Store};
use crate::tables::Table;

/// So many bytes of copies stay at most, unless they were used within the last hour.
const LIMIT: u64 = 16 << 30;

/// More names than a cache has.
const MOST_NAMES: usize = 1 << 22;

/// What the name of a copy ends with.
const SUFFIX: &str = ".parquet";

/// A folder with copies of data files.
#[derive(Debug)]
pub struct Cache {
    folder: Folder,
    path: PathBuf,
    limit: u64,
}

impl Cache {
    /// That of this user: `latebound/store` in `XDG_CACHE_HOME` or `~/.cache`.
    pub fn of_user() -> Result<Cache, FleetError> {
        let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = of("XDG_CACHE_HOME").or_else(|| of("HOME").map(|home| home.join(".cache")));
        let source = || {
            std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "neither XDG_CACHE_HOME nor HOME names a folder",
            )
        };
        let caches = caches.ok_or_else(|| FleetError::Cache { path: "~/.cache".into(), source: source() })?;
        Cache::at(&caches.join("latebound/store"), LIMIT)
    }

    /// The one in this folder, which is made where it is not there, with at most so many bytes.
    pub fn at(path: &Path, limit: u64) -> Result<Cache, FleetError> {
        let failed = |source| FleetError::Cache { path: path.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let folder = Folder::open(path).map_err(failed)?;
        let mode = folder.handle().metadata().map_err(failed)?.permissions().mode();
        if !folder.is_mine().map_err(failed)? || mode & 0o022 != 0 {
            let why = "others may write there, who could put anything in a copy's place";
            return Err(failed(std::io::Error::new(std::io::ErrorKind::PermissionDenied, why)));
        }
        Ok(Cache { folder, path: path.to_owned(), limit })
    }

    /// The path of a file's copy, if there is one as long as the file. From now on it counts as used.
    fn has(&self, name: &OsStr, bytes: u64) -> Option<PathBuf> {
        let file = self.folder.open_file(name).ok()?;
        if file.metadata().ok()?.len() != bytes {
            return None;
        }
        // Where the time cannot be set, the copy goes earlier.
        let _ = file.set_modified(SystemTime::now());
        Some(self.path.join(name))
    }

    fn keep(&self, name: &OsStr, bytes: &[u8]) -> Result<PathBuf, FleetError> {
        let path = self.path.join(name);
        let failed = |source| FleetError::Cache { path: path.clone(), source };
        self.folder.replace_with_mode(name, 0o600, |file| file.write_all(bytes)).map_err(failed)?;
        Ok(path)
    }

    /// Removes copies, those that were not used for the longest time first, until the rest is within the limit. What was used within the
    /// last hour stays: a program may be about to open it.
    fn shrink(&self) -> Result<(), FleetError> {
        let failed = |source| FleetError::Cache { path: self.path.clone(), source };
        let mut copies: Vec<(SystemTime, OsString, u64)> = Vec::new();
        for name in self.folder.names(MOST_NAMES).map_err(failed)? {
            // Another may have removed it just now.
            let Ok(metadata) = self.folder.open_file(&name).and_then(|file| file.metadata()) else {
                continue;
            };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if is_copy(&name) {
                copies.push((used, name, metadata.size()));
            } else if is_temporary(&name) && is_old(used) {
                let _ = self.folder.remove_file(&name);
            }
        }
        copies.sort();
        let mut all: u64 = copies.iter().map(|(.., bytes)| bytes).sum();
        for (_, name, bytes) in copies.iter().filter(|(used, ..)| is_old(*used)) {
            if all <= self.limit {
                break;
            }
            let _ = self.folder.remove_file(name);
            all -= bytes;
        }
        Ok(())
    }
}

fn is_old(used: SystemTime) -> bool {
    used.elapsed().is_ok_and(|age: Duration| age >= GRACE)
}

/// The name of a file's copy; `None` where what its commit says is no SHA-256: it becomes a path.
fn name_of(file: &DataFile) -> Option<OsString> {
    let name = OsString::from(format!("{}{SUFFIX}", file.sha256));
    is_copy(&name).then_some(name)
}

fn is_copy(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(hex))
}

impl Store {
    /// As [`Store::files`], with paths on this machine: of a bucket, each file that counts is copied once into the cache, and compared with
    /// what its commit says.
    pub fn local_files(
        &self,
        tables: &[Table],
        choice: &Choice,
        cache: impl FnOnce() -> Result<Cache, FleetError>,
    ) -> Result<FilesDocument, FleetError> {
        if self.root().is_some() {
            return self.files(tables, choice);
        }
        let cache = cache()?;
        let (states, damaged) = self.states(choice)?;
        let files = states.iter().flat_map(|(_, state)| state.files.values());
        let wanted = files.filter(|file| tables.contains(&file.table));
        let (of, wanted): (Vec<Table>, Vec<DataFile>) = wanted.map(|file| (file.table, file.into())).unzip();
        let mut document = self.files_document(tables, damaged);
        for (table, copy) in of.into_iter().zip(self.copies(&wanted, &cache)?) {
            match copy {
                Ok(path) => {
                    document.tables.entry(table).or_default().push(path.display().to_string());
                }
                Err(damage) => document.damaged.push(damage),
            }
        }
        Ok(document)
    }

    /// The copies of data files of this store in a cache, in their order: each is made where it is not there. The inner error is a damage.
    pub fn copies(
        &self,
        files: &[DataFile],
        cache: &Cache,
    ) -> Result<Vec<Result<PathBuf, Damage>>, FleetError> {
        let fetched = stream::iter(files).map(|file| self.fetch(file, cache)).buffered(AT_ONCE);
        let fetched = self.wait(fetched.try_collect())?;
        cache.shrink()?;
        Ok(fetched)
    }

    /// The copy of a file. The inner error is a damage.
    async fn fetch(&self, file: &DataFile, cache: &Cache) -> Result<Result<PathBuf, Damage>, FleetError> {
        let damage = |why: String| Ok(Err(Damage { file: file.file.clone(), why }));
        let Some(name) = name_of(file) else {
            return damage("its commit gives no SHA-256".to_owned());
        };
        if let Some(path) = cache.has(&name, file.bytes) {
            return Ok(Ok(path));
        }
        match file.bytes_of(self.get_soon(&path(&file.file), MAX_DATA_BYTES).await?) {
            Ok(bytes) => Ok(Ok(cache.keep(&name, &bytes)?)),
            Err(why) => damage(why),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

    use std::collections::BTreeSet;

    use super::*;

    fn name(digit: char) -> OsString {
        format!("{}{SUFFIX}", digit.to_string().repeat(64)).into()
    }

    #[test]
    fn the_copies_that_were_not_used_for_longest_go_first() {
        let place = tempfile::TempDir::new().unwrap();
        let path = place.path().join("a/b");
        let cache = Cache::at(&path, 250).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        for (digit, hours) in [('a', 4u64), ('b', 2), ('c', 3), ('d', 0)] {
            let kept = cache.keep(&name(digit), &[7; 100]).unwrap();
            let file = fs::File::options().write(true).open(kept).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        }
        fs::write(path.join("mine"), "").unwrap();
        // It counts as used now.
        assert!(cache.has(&name('a'), 100).is_some());
        assert_eq!(cache.has(&name('a'), 99), None);
        cache.shrink().unwrap();
        let left: BTreeSet<OsString> =
            fs::read_dir(&path).unwrap().map(|one| one.unwrap().file_name()).collect();
        // Used within the hour, two stay whatever the limit is; the others go, the older one first.
        assert_eq!(left, [name('a'), name('d'), "mine".into()].into());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_no_cache() {
        let place = tempfile::TempDir::new().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = Cache::at(place.path(), 1).unwrap_err().to_string();
        assert!(error.contains("others may write"), "{error}");
    }
}
