// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store that is open, and the few operations on objects that everything is made of: create if absent, read whole, list, remove.
//!
//! Owns that an object is whole or absent, that nothing is waited for and no link is followed in a folder, and that no object of
//! others takes more memory than it may. Knows no commit and no table.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::bucket::{Bucket, Location, is_refused};
use crate::error::FleetError;
use crate::{MARKER, STORE_SCHEMA};

/// The largest marker and the largest commit that are read, in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 64 << 20;

/// The largest data file that is read, in bytes.
pub(crate) const MAX_DATA_BYTES: u64 = 4 << 30;

/// So many objects are read at once, where many are.
pub(crate) const AT_ONCE: usize = 8;

/// An object is written to a bucket so often, where it is not known what became of it, with this pause between.
const PUT_TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);

/// The document that makes a folder or a part of a bucket a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StoreDocument {
    /// `latebound.store/1`
    pub schema: String,
}

/// A store of many machines' Runs that is open.
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    /// Where it lies, where that is a folder.
    root: Option<PathBuf>,
    /// Which bucket it is, where it is one.
    bucket: Option<Bucket>,
    runtime: Runtime,
    /// Whether it was seen that a name is given once.
    gives_once: AtomicBool,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is beneath may hold keys.
        f.debug_struct("Store").field("location", &self.location()).finish_non_exhaustive()
    }
}

/// What an object that was to be read turned out to be.
#[derive(Debug)]
pub(crate) enum Found {
    Bytes(Bytes),
    Absent,
    /// It is no object that may be read, and why.
    Refused(String),
}

impl Store {
    /// Opens the store at this place: a folder, or `s3://BUCKET/PREFIX`.
    pub fn open(place: impl AsRef<OsStr>) -> Result<Store, FleetError> {
        let store = match Location::of(place.as_ref())? {
            Location::Folder(folder) => Store::in_folder(&folder)?,
            Location::Bucket { name, prefix } => Store::in_bucket(&name, &prefix)?,
        };
        if store.has_marker()? {
            return Ok(store);
        }
        // A bucket that is not there says so only where it is listed.
        store.is_empty()?;
        Err(FleetError::NoStore { path: store.location() })
    }

    /// Opens the store at this place, and makes it where there is none: in a folder that is empty or not there, or where no name of the
    /// bucket begins with the prefix.
    pub fn open_or_create(place: impl AsRef<OsStr>) -> Result<Store, FleetError> {
        let store = match Location::of(place.as_ref())? {
            Location::Folder(folder) => {
                make_folder(&folder)?;
                Store::in_folder(&folder)?
            }
            Location::Bucket { name, prefix } => Store::in_bucket(&name, &prefix)?,
        };
        // Another may be making the same store: what lies beside is looked at before the marker is looked for again.
        if store.has_marker()? || (!store.is_empty()? && store.has_marker()?) {
            return Ok(store);
        }
        if !store.is_empty()? && !store.has_marker()? {
            return Err(FleetError::NotEmpty { path: store.location() });
        }
        store.create()?;
        Ok(store)
    }

    /// The store in these objects, of whatever kind they are; it is made where there is none.
    pub fn in_objects(objects: Arc<dyn ObjectStore>) -> Result<Store, FleetError> {
        let store = Store::of(objects, None, None)?;
        if !store.has_marker()? {
            store.create()?;
        }
        Ok(store)
    }

    fn in_folder(folder: &FsPath) -> Result<Store, FleetError> {
        let open = |source| FleetError::Open { path: folder.to_owned(), source };
        let root = fs::canonicalize(folder).map_err(open)?;
        if !root.is_dir() {
            return Err(open(std::io::ErrorKind::NotADirectory.into()));
        }
        let objects = LocalFileSystem::new_with_prefix(&root)
            .map_err(|source| open(std::io::Error::other(source)))?
            .with_fsync(true);
        Store::of(Arc::new(objects), Some(root), None)
    }

    fn in_bucket(name: &str, prefix: &Path) -> Result<Store, FleetError> {
        let (bucket, objects) = Bucket::open(name, prefix)?;
        Store::of(objects, None, Some(bucket))
    }

    fn of(
        objects: Arc<dyn ObjectStore>,
        root: Option<PathBuf>,
        bucket: Option<Bucket>,
    ) -> Result<Store, FleetError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let path = root.clone().unwrap_or_default();
        let runtime = runtime.map_err(|source| FleetError::Open { path, source })?;
        Ok(Store { objects, root, bucket, runtime, gives_once: AtomicBool::new(false) })
    }

    /// Whether nothing but a marker on its way is at its place.
    fn is_empty(&self) -> Result<bool, FleetError> {
        if let Some(folder) = &self.root {
            let open = |source| FleetError::Open { path: folder.to_owned(), source };
            for entry in fs::read_dir(folder).map_err(open)? {
                let name = entry.map_err(open)?.file_name();
                if !name.to_string_lossy().starts_with(MARKER) {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let first: Vec<_> = self.wait(self.objects.list(None).take(2).collect());
        for found in first {
            let found = found.map_err(|source| self.failed("list", "the objects", source))?;
            if found.location.as_ref() != MARKER {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the marker is there; an error where it is one of another schema.
    fn has_marker(&self) -> Result<bool, FleetError> {
        let file = MARKER.to_owned();
        match self.get(&Path::from(MARKER), MAX_DOCUMENT_BYTES)? {
            Found::Absent => Ok(false),
            Found::Refused(why) => Err(FleetError::Damaged { file, why }),
            Found::Bytes(bytes) => {
                let marker: StoreDocument = serde_json::from_slice(&bytes)
                    .map_err(|error| FleetError::Damaged { file: file.clone(), why: error.to_string() })?;
                match marker.schema == STORE_SCHEMA {
                    true => Ok(true),
                    false => Err(FleetError::OtherSchema { file, found: marker.schema, known: STORE_SCHEMA }),
                }
            }
        }
    }

    fn create(&self) -> Result<(), FleetError> {
        // Whoever was faster made the same.
        self.create_object(&Path::from(MARKER), marker()).map(drop)
    }

    /// Where it lies, for people.
    pub fn location(&self) -> String {
        match (&self.root, &self.bucket) {
            (Some(root), _) => root.display().to_string(),
            (None, Some(bucket)) => bucket.url.clone(),
            (None, None) => self.objects.to_string(),
        }
    }

    /// The path of an object for other programs: in a folder an absolute one, of a bucket a URL.
    pub(crate) fn path_for_others(&self, file: &str) -> String {
        match (&self.root, &self.bucket) {
            (Some(root), _) => root.join(file).display().to_string(),
            (None, Some(bucket)) => format!("{}/{file}", bucket.url),
            (None, None) => file.to_owned(),
        }
    }

    /// The folder, where it is one.
    pub(crate) fn root(&self) -> Option<&FsPath> {
        self.root.as_deref()
    }

    fn failed(&self, what: &'static str, file: &str, source: Error) -> FleetError {
        match &self.bucket {
            Some(bucket) => bucket.failed(what, file, &source),
            None => FleetError::Objects { what, file: file.to_owned(), source },
        }
    }

    /// Writes an object that is not there yet, whole and lasting; `false` where there is one of that name with other bytes. In a bucket also
    /// `true` where there is one with these bytes: no two writers make the same, so the answer to an earlier request was lost.
    pub(crate) fn create_object(&self, path: &Path, bytes: Bytes) -> Result<bool, FleetError> {
        let mut tries = if self.bucket.is_some() { PUT_TRIES } else { 1 };
        loop {
            tries -= 1;
            match self.put(path, bytes.clone()) {
                Ok(()) => return Ok(true),
                Err(Error::AlreadyExists { .. }) if self.bucket.is_none() => return Ok(false),
                Err(error @ Error::AlreadyExists { .. }) => {
                    match self.get(path, bytes.len() as u64)? {
                        Found::Bytes(found) => return Ok(found == bytes),
                        Found::Refused(_) => return Ok(false),
                        // A server says so, too, while another request for the name is under way, or the object was just removed.
                        Found::Absent if tries > 0 => {}
                        Found::Absent => return Err(self.failed("write", path.as_ref(), error)),
                    }
                }
                // It is not known whether the object is there now.
                Err(error) if tries > 0 && !is_refused(&error) => {}
                Err(error) => return Err(self.failed("write", path.as_ref(), error)),
            }
            self.wait(async { tokio::time::sleep(PAUSE).await });
        }
    }

    fn put(&self, path: &Path, bytes: Bytes) -> Result<(), Error> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        self.wait(self.objects.put_opts(path, PutPayload::from(bytes), options)).map(drop)
    }

    /// Whether a write that failed may still take place: a request may be on its way to a bucket when nobody waits for it any more.
    pub(crate) fn may_come_late(&self) -> bool {
        self.bucket.is_some()
    }

    /// Sees once that the server gives a name once: a second marker must be refused. Where it is not, commits would overwrite each other.
    pub(crate) fn check_gives_once(&self) -> Result<(), FleetError> {
        if self.root.is_some() || self.gives_once.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.put(&Path::from(MARKER), marker()) {
            Err(Error::AlreadyExists { .. }) => {
                self.gives_once.store(true, Ordering::Relaxed);
                Ok(())
            }
            Ok(()) => Err(FleetError::Overwrites { store: self.location() }),
            Err(error) => Err(self.failed("write", MARKER, error)),
        }
    }

    /// The result of a future.
    pub(crate) fn wait<T>(&self, of: impl Future<Output = T>) -> T {
        self.runtime.block_on(of)
    }

    /// Reads an object of at most `limit` bytes.
    pub(crate) fn get(&self, path: &Path, limit: u64) -> Result<Found, FleetError> {
        self.wait(self.get_soon(path, limit))
    }

    /// As [`Store::get`], for several at once.
    pub(crate) async fn get_soon(&self, path: &Path, limit: u64) -> Result<Found, FleetError> {
        if let Some(root) = &self.root {
            // Opening a pipe would wait, and a link may lead anywhere.
            match fs::symlink_metadata(root.join(path.as_ref())) {
                Ok(metadata) if !metadata.is_file() => {
                    return Ok(Found::Refused("it is no regular file".to_owned()));
                }
                _ => {}
            }
        }
        let read = async {
            let found = self.objects.get(path).await?;
            if found.meta.size > limit {
                let size = found.meta.size;
                return Ok(Found::Refused(format!("it has {size} bytes, and at most {limit} are read")));
            }
            found.bytes().await.map(Found::Bytes)
        };
        match read.await {
            Ok(found) => Ok(found),
            Err(Error::NotFound { .. }) => Ok(Found::Absent),
            Err(source) => Err(self.failed("read", path.as_ref(), source)),
        }
    }

    /// The objects below a path.
    pub(crate) fn list(&self, below: &Path) -> Result<Vec<ObjectMeta>, FleetError> {
        match self.wait(self.objects.list(Some(below)).try_collect()) {
            Ok(found) => Ok(found),
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            Err(source) => Err(self.failed("list", below.as_ref(), source)),
        }
    }

    /// Removes an object; it is no error that there is none.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), FleetError> {
        match self.wait(self.objects.delete(path)) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(self.failed("remove", path.as_ref(), source)),
        }
    }
}

/// The bytes of the marker.
fn marker() -> Bytes {
    let marker = StoreDocument { schema: STORE_SCHEMA.to_owned() };
    let mut bytes = serde_json::to_vec(&marker).unwrap_or_default();
    bytes.push(b'\n');
    bytes.into()
}

/// Makes a folder where there is none.
fn make_folder(folder: &FsPath) -> Result<(), FleetError> {
    let open = |source| FleetError::Open { path: folder.to_owned(), source };
    match fs::create_dir(folder) {
        // What is in the folder lasts; its own name has to last, too. Where a folder cannot be synced, its server orders operations itself.
        Ok(()) => {
            let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
            let _ = fs::File::open(above.unwrap_or(FsPath::new("."))).map_err(open)?.sync_all();
            Ok(())
        }
        Err(source) if source.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(open(source)),
    }
}

/// When an object was last changed, by the clock of the store.
pub(crate) fn changed_at(meta: &ObjectMeta) -> Timestamp {
    Timestamp::from_microsecond(meta.last_modified.timestamp_micros()).unwrap_or(Timestamp::MIN)
}

/// A name that nobody can guess and nothing else has: 128 bits. The standard library's hash keys are the kernel's random numbers.
pub(crate) fn new_name() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
