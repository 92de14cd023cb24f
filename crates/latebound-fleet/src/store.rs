// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store that is open, and the few operations on objects that everything is made of: create if absent, read whole, list, remove.
//!
//! Owns that an object is whole or absent, that nothing is waited for and no link is followed in a folder, and that no object of
//! others takes more memory than it may. Knows no commit and no table.

use std::fmt;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use jiff::Timestamp;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::error::FleetError;
use crate::{MARKER, STORE_SCHEMA};

/// The largest marker and the largest commit that are read, in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 64 << 20;

/// The largest data file that is read, in bytes.
pub(crate) const MAX_DATA_BYTES: u64 = 4 << 30;

/// The document that makes a folder a store.
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
    runtime: Runtime,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("objects", &self.objects).finish_non_exhaustive()
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
    /// Opens the store in this folder.
    pub fn open(folder: impl AsRef<FsPath>) -> Result<Store, FleetError> {
        let store = Store::in_folder(folder.as_ref())?;
        match store.has_marker()? {
            true => Ok(store),
            false => Err(FleetError::NoStore { path: store.location() }),
        }
    }

    /// Opens the store in this folder, and makes it where there is none: in a folder that is empty or not there.
    pub fn open_or_create(folder: impl AsRef<FsPath>) -> Result<Store, FleetError> {
        let folder = folder.as_ref();
        let open = |source| FleetError::Open { path: folder.to_owned(), source };
        match fs::create_dir(folder) {
            // What is in the folder lasts; its own name has to last, too. Where a folder cannot be synced, its server orders operations itself.
            Ok(()) => {
                let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
                let _ = fs::File::open(above.unwrap_or(FsPath::new("."))).map_err(open)?.sync_all();
            }
            Err(source) if source.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(open(source)),
        }
        let store = Store::in_folder(folder)?;
        // Another may be making the same store: what lies beside is looked at before the marker is looked for again.
        if store.has_marker()? || (!store.is_empty(folder)? && store.has_marker()?) {
            return Ok(store);
        }
        if !store.is_empty(folder)? && !store.has_marker()? {
            return Err(FleetError::NotEmpty { path: store.location() });
        }
        store.create()?;
        Ok(store)
    }

    /// The store in these objects, of whatever kind they are; it is made where there is none.
    pub fn in_objects(objects: Arc<dyn ObjectStore>) -> Result<Store, FleetError> {
        let store = Store::of(objects, None)?;
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
        Store::of(Arc::new(objects), Some(root))
    }

    fn of(objects: Arc<dyn ObjectStore>, root: Option<PathBuf>) -> Result<Store, FleetError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let path = root.clone().unwrap_or_default();
        let runtime = runtime.map_err(|source| FleetError::Open { path, source })?;
        Ok(Store { objects, root, runtime })
    }

    /// Whether nothing but a marker on its way is in the folder.
    fn is_empty(&self, folder: &FsPath) -> Result<bool, FleetError> {
        let open = |source| FleetError::Open { path: folder.to_owned(), source };
        for entry in fs::read_dir(folder).map_err(open)? {
            let name = entry.map_err(open)?.file_name();
            if !name.to_string_lossy().starts_with(MARKER) {
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
        let marker = StoreDocument { schema: STORE_SCHEMA.to_owned() };
        let mut bytes = serde_json::to_vec(&marker).unwrap_or_default();
        bytes.push(b'\n');
        // Whoever was faster made the same.
        self.create_object(&Path::from(MARKER), bytes.into()).map(drop)
    }

    /// Where it lies, for people.
    pub fn location(&self) -> String {
        match &self.root {
            Some(root) => root.display().to_string(),
            None => self.objects.to_string(),
        }
    }

    /// The path of an object for other programs: in a folder an absolute one.
    pub(crate) fn path_for_others(&self, file: &str) -> String {
        match &self.root {
            Some(root) => root.join(file).display().to_string(),
            None => file.to_owned(),
        }
    }

    /// The folder, where it is one.
    pub(crate) fn root(&self) -> Option<&FsPath> {
        self.root.as_deref()
    }

    /// Writes an object that is not there yet, whole and lasting; `false` where there is one of that name.
    pub(crate) fn create_object(&self, path: &Path, bytes: Bytes) -> Result<bool, FleetError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.runtime.block_on(self.objects.put_opts(path, PutPayload::from(bytes), options)) {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. }) => Ok(false),
            Err(source) => Err(FleetError::Objects { what: "write", file: path.to_string(), source }),
        }
    }

    /// Reads an object of at most `limit` bytes.
    pub(crate) fn get(&self, path: &Path, limit: u64) -> Result<Found, FleetError> {
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
        match self.runtime.block_on(read) {
            Ok(found) => Ok(found),
            Err(Error::NotFound { .. }) => Ok(Found::Absent),
            Err(source) => Err(FleetError::Objects { what: "read", file: path.to_string(), source }),
        }
    }

    /// The objects below a path.
    pub(crate) fn list(&self, below: &Path) -> Result<Vec<ObjectMeta>, FleetError> {
        match self.runtime.block_on(self.objects.list(Some(below)).try_collect()) {
            Ok(found) => Ok(found),
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            Err(source) => Err(FleetError::Objects { what: "list", file: below.to_string(), source }),
        }
    }

    /// Removes an object; it is no error that there is none.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), FleetError> {
        match self.runtime.block_on(self.objects.delete(path)) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(FleetError::Objects { what: "remove", file: path.to_string(), source }),
        }
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
