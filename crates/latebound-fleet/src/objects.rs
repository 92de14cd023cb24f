// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files in a bucket that belong to no store: saved traces and Runs, for work that is spread over machines.
//!
//! Owns that what was fetched is one version of the object, and all of it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path as FsPath;
use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use tokio::runtime::Runtime;

use crate::bucket::{Bucket, Location};
use crate::error::FleetError;

/// So much is asked for at once: a request has a time limit, an object may be larger than any.
const PART_BYTES: u64 = 16 << 20;

/// A larger object is not copied: the copies of several tasks lie on one disk at a time.
const MOST_BYTES: u64 = 64 << 30;

/// More objects are not listed.
const MOST_OBJECTS: usize = 1 << 20;

/// A bucket, and what of it a URL names.
struct Named {
    bucket: Bucket,
    objects: Arc<dyn ObjectStore>,
    key: Path,
    runtime: Runtime,
}

impl Named {
    fn of(url: &str) -> Result<Named, FleetError> {
        let Location::Bucket { name, prefix: key } = Location::of(url.as_ref())? else {
            let why = "it is no object of a bucket, s3://BUCKET/NAME";
            return Err(FleetError::Place { place: url.chars().take(200).collect(), why });
        };
        let (bucket, objects) = Bucket::open(&name, &Path::default())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| FleetError::Open { path: url.into(), source })?;
        Ok(Named { bucket, objects, key, runtime })
    }

    fn failed(&self, what: &'static str, source: &Error) -> FleetError {
        self.bucket.failed(what, self.key.as_ref(), source)
    }
}

/// The URLs of all objects whose names begin with that of this URL and a slash, in the order of their names.
pub fn objects_below(url: &str) -> Result<Vec<String>, FleetError> {
    let named = Named::of(url)?;
    let prefix = (!named.key.as_ref().is_empty()).then_some(&named.key);
    let listed = named.objects.list(prefix).try_fold(Vec::new(), |mut all, object| async move {
        if all.len() == MOST_OBJECTS {
            let why = format!("it has more than {MOST_OBJECTS} objects");
            return Err(Error::Generic { store: "S3", source: why.into() });
        }
        all.push(object.location);
        Ok(all)
    });
    let mut found = named.runtime.block_on(listed).map_err(|source| named.failed("list", &source))?;
    found.sort();
    Ok(found.iter().map(|path| format!("{}/{path}", named.bucket.url)).collect())
}

/// Copies an object to a file that is not there yet, which only this user may read. The file gets the object's time. An object that changes meanwhile is
/// an error.
pub fn fetch_object(url: &str, to: &FsPath) -> Result<(), FleetError> {
    let named = Named::of(url)?;
    let local = |source| FleetError::Fetched { path: to.to_owned(), source };
    let read = |source| match source {
        Error::NotFound { .. } => FleetError::NoObject { url: url.to_owned() },
        source => named.failed("read", &source),
    };
    let meta = named.runtime.block_on(named.objects.head(&named.key)).map_err(read)?;
    if meta.size > MOST_BYTES {
        return Err(FleetError::TooLong { url: url.to_owned(), bytes: meta.size, limit: MOST_BYTES });
    }
    let mut file: File =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(local)?;
    let mut at = 0;
    while at < meta.size {
        let range = GetRange::Bounded(at..meta.size.min(at + PART_BYTES));
        let options =
            GetOptions { range: Some(range), if_match: meta.e_tag.clone(), ..GetOptions::default() };
        let part = async { named.objects.get_opts(&named.key, options).await?.bytes().await };
        let part = named.runtime.block_on(part).map_err(read)?;
        if part.is_empty() {
            return Err(local(std::io::ErrorKind::UnexpectedEof.into()));
        }
        file.write_all(&part).map_err(local)?;
        at += part.len() as u64;
    }
    file.set_modified(meta.last_modified.into()).map_err(local)
}
