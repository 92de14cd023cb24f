// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers that answer late, twice, or not at all, and servers that overwrite.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::sync::atomic::AtomicU32;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, PutMultipartOptions, PutResult, Result,
};

use super::*;
use crate::bucket::Bucket;
use crate::{Choice, CompactOptions, Level};

/// What becomes of the next puts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Puts {
    /// The object is there, and the answer says so or not.
    Kept { answered: bool },
    /// Nothing arrives.
    Lost,
    /// The condition is ignored.
    Overwrite,
}

/// Objects in memory behind a way that has faults.
#[derive(Debug)]
struct Faulty {
    objects: InMemory,
    /// For so many puts.
    left: AtomicU32,
    puts: Puts,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, at: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        let faulty =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        let silence = || Error::Generic { store: "faulty", source: "no answer in time".into() };
        match self.puts {
            _ if !faulty => self.objects.put_opts(at, payload, options).await,
            Puts::Lost => Err(silence()),
            Puts::Overwrite => {
                options.mode = PutMode::Overwrite;
                self.objects.put_opts(at, payload, options).await
            }
            Puts::Kept { answered } => {
                let put = self.objects.put_opts(at, payload, options).await?;
                if answered { Ok(put) } else { Err(silence()) }
            }
        }
    }
    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(at, options).await
    }
    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.objects.get_opts(at, options).await
    }
    fn delete_stream(&self, all: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(all)
    }
    fn list(&self, below: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(below)
    }
    async fn list_with_delimiter(&self, below: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(below).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

/// A store in a bucket, of which `left` puts have a fault once it is made.
fn store(puts: Puts, left: u32) -> Store {
    let (bucket, _) = Bucket::open("fleet", &Path::default()).unwrap();
    let objects = Faulty { objects: InMemory::new(), left: AtomicU32::new(0), puts };
    let objects = Arc::new(objects);
    let store = Store::of(objects.clone(), None, Some(bucket)).unwrap();
    store.create().unwrap();
    objects.left.store(left, Ordering::Relaxed);
    store
}

#[test]
fn a_put_whose_answer_was_lost_is_not_taken_for_anothers() {
    let path = Path::from("commits/a");
    for left in 0..3 {
        let store = store(Puts::Kept { answered: false }, left);
        assert!(store.create_object(&path, "ours".into()).unwrap(), "{left} answers lost");
        assert!(!store.create_object(&path, "theirs".into()).unwrap());
        // The same length, and other bytes.
        assert!(!store.create_object(&path, "hers".into()).unwrap());
    }
}

#[test]
fn a_put_that_never_arrives_is_tried_again_and_ends() {
    let path = Path::from("commits/a");
    assert!(store(Puts::Lost, PUT_TRIES - 1).create_object(&path, "ours".into()).unwrap());
    let error = store(Puts::Lost, PUT_TRIES).create_object(&path, "ours".into()).unwrap_err().to_string();
    assert!(error.contains("cannot write commits/a of the store s3://fleet: "), "{error}");
    assert!(error.contains("AWS_ENDPOINT_URL"), "{error}");
}

#[test]
fn a_server_that_overwrites_takes_no_commit() {
    let store = store(Puts::Overwrite, u32::MAX);
    let error = store.prune("2027-01-01".parse().unwrap()).map(|_| store.check_gives_once());
    let error = error.unwrap().unwrap_err().to_string();
    assert!(error.contains("If-None-Match") && error.contains("s3://fleet"), "{error}");
    // Nothing is there yet, so looking and summing up is right.
    assert_eq!(store.contents(&Choice::default()).unwrap().partitions, []);
    assert_eq!(store.compact(CompactOptions::to(Level::Day)).unwrap().partitions, []);
}
