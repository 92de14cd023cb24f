// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk that fills: the error says so, and what the store held before is whole.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use latebound_fleet::{FleetError, Level, Store};

use crate::common::{add, expected, files, intervals, later, sums};
use crate::migrate::{content, golden};
use crate::results::result;
use crate::tiny_disk::on_a_tiny_disk;

const DISK_BYTES: u64 = 1 << 20;

/// Fills the disk, and then gives it room page by page until `write` succeeds; how many bytes that took. After each failure `check` looks whether
/// the store is as it was.
fn until_it_fits(disk: &Path, write: impl Fn() -> Result<(), FleetError>, check: impl Fn()) -> u64 {
    let filler = disk.join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let all = file.metadata().unwrap().len();
    for room in (0..64u64).map(|pages| pages * 4096) {
        file.set_len(all - room).unwrap();
        let Err(error) = write() else { return room };
        assert!(error.is_full(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("the disk is full") && text.contains("latebound store prune"), "{text}");
        check();
    }
    panic!("it does not fit into 64 pages");
}

#[test]
fn a_full_disk_is_named_and_the_store_is_as_it_was() {
    let Some(disk) = on_a_tiny_disk("disk_full::a_full_disk_is_named_and_the_store_is_as_it_was", DISK_BYTES)
    else {
        return;
    };
    let path = Path::new(&disk).join("store");
    let store = Store::open_or_create(&path).unwrap();
    add(&store, 0..6).unwrap();
    let holds = || assert_eq!((sums(&store), intervals(&store)), (expected(0..6), 6));
    // Each host by itself.
    let rolled_up = until_it_fits(&disk, || store.compact(later(Level::Day)).map(drop), holds);
    holds();
    let before = files(&path);
    let as_it_was = || {
        assert_eq!(files(&path), before, "something was left behind");
        holds();
    };
    let added = until_it_fits(&disk, || add(&store, [6]).map(drop), as_it_was);
    assert!(rolled_up > 0 && added > 0, "the disk was not full");
    fs::remove_file(disk.join("filler")).unwrap();
    add(&store, 0..9).unwrap();
    assert_eq!((sums(&store), intervals(&store)), (expected(0..9), 9));
    assert_eq!(store.verify().unwrap().damaged, []);
}

#[test]
fn results_on_a_full_disk_are_added_whole_or_not_at_all() {
    const TEST: &str = "disk_full::results_on_a_full_disk_are_added_whole_or_not_at_all";
    let Some(disk) = on_a_tiny_disk(TEST, DISK_BYTES) else { return };
    let path = disk.join("store");
    let store = Store::open_or_create(&path).unwrap();
    add(&store, 0..2).unwrap();
    store.add_results(vec![result("a.dat", Some("rt-00"))]).unwrap();
    let (before, held) = (files(&path), content(&store));
    let write = || store.add_results(vec![result("b.dat", Some("rt-00"))]).map(drop);
    let room = until_it_fits(&disk, write, || {
        assert_eq!(files(&path), before, "something was left behind");
        assert!(content(&store) == held);
    });
    assert!(room > 0, "the disk was not full");
    // The first is there as it was, beside the second.
    let now = content(&store);
    assert!(held.iter().all(|row| now.contains(row)) && now.len() > held.len());
    assert_eq!((intervals(&store), store.verify().unwrap().damaged), (2, Vec::new()));
}

#[test]
fn migrating_on_a_full_disk_changes_a_partition_whole_or_not_at_all() {
    const TEST: &str = "disk_full::migrating_on_a_full_disk_changes_a_partition_whole_or_not_at_all";
    let Some(disk) = on_a_tiny_disk(TEST, DISK_BYTES) else { return };
    for version in [1, 2] {
        let path = golden(version, &disk.join(version.to_string()));
        let store = Store::open(&path).unwrap();
        let before = content(&store);
        let room = until_it_fits(
            &disk,
            || store.migrate().map(drop),
            || {
                assert!(content(&store) == before);
                assert_eq!(store.verify().unwrap().damaged, []);
            },
        );
        assert!(room > 0, "the disk was not full");
        assert!(content(&store) == before);
        assert_eq!(store.migrate().unwrap().partitions, []);
        fs::remove_file(disk.join("filler")).unwrap();
    }
}

#[test]
fn pruning_frees_a_disk_that_has_no_room_for_its_commit() {
    const TEST: &str = "disk_full::pruning_frees_a_disk_that_has_no_room_for_its_commit";
    let Some(disk) = on_a_tiny_disk(TEST, DISK_BYTES) else { return };
    let path = disk.join("store");
    let store = Store::open_or_create(&path).unwrap();
    // Two days of two hosts.
    add(&store, (0..4).chain(206..210)).unwrap();
    let before = "2026-11-21".parse().unwrap();
    let room = until_it_fits(
        &disk,
        || {
            let pruned = store.prune(before)?;
            assert_eq!(pruned.partitions.len(), 2);
            Ok(())
        },
        || panic!("it failed"),
    );
    assert_eq!(room, 0, "the days that go give the room");
    assert_eq!((sums(&store), intervals(&store)), (expected(206..210), 4));
    assert_eq!(store.verify().unwrap().damaged, []);
    assert!(!files(&path.join("data")).iter().any(|path| path.to_str().unwrap().contains("11-20")));
    // What it gave is free.
    add(&store, [210]).unwrap();
    assert_eq!(sums(&store), expected(206..211));
}

#[test]
fn a_prune_that_was_killed_on_a_full_disk_is_finished_by_the_next() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = Store::open_or_create(&path).unwrap();
    add(&store, (0..4).chain(206..210)).unwrap();
    // The file was to give room for the commit that was never made.
    let old = files(&path.join("data/buckets/day=2026-11-20"));
    fs::remove_file(&old[0]).unwrap();
    let damaged = store.verify().unwrap().damaged;
    assert!(damaged.len() == 1 && old[0].ends_with(&damaged[0].file), "{damaged:?}");
    let pruned = store.prune("2026-11-21".parse().unwrap()).unwrap();
    assert_eq!(pruned.partitions.len(), 2);
    assert_eq!((sums(&store), store.verify().unwrap().damaged), (expected(206..210), Vec::new()));
}
