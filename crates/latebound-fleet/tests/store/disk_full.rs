// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk that fills: the error says so, and what the store held before is whole.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use latebound_fleet::{Level, Store};

use crate::common::{add, expected, files, intervals, later, sums};
use crate::tiny_disk::on_a_tiny_disk;

const DISK_BYTES: u64 = 1 << 20;

#[test]
fn a_full_disk_is_named_and_the_store_is_as_it_was() {
    let Some(disk) = on_a_tiny_disk("disk_full::a_full_disk_is_named_and_the_store_is_as_it_was", DISK_BYTES)
    else {
        return;
    };
    let path = Path::new(&disk).join("store");
    let store = Store::open_or_create(&path).unwrap();
    add(&store, 0..6).unwrap();
    let before = files(&path);
    let filler = Path::new(&disk).join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    // Page by page there is room for one file more of those that a Run needs.
    let all = file.metadata().unwrap().len();
    for room in (0..16u64).map(|pages| pages * 4096) {
        file.set_len(all - room).unwrap();
        let added = add(&store, [6]);
        if added.is_ok() {
            assert!(room > 0, "the disk was not full");
            break;
        }
        let error = added.unwrap_err();
        assert!(error.is_full(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("the disk is full") && text.contains("latebound store prune"), "{text}");
        assert_eq!(files(&path), before, "with room for {room} bytes something was left behind");
        assert_eq!((sums(&store), intervals(&store)), (expected(0..6), 6));
        assert!(store.compact(later(Level::Day)).is_err_and(|error| error.is_full()) || room > 0);
        assert_eq!((sums(&store), intervals(&store)), (expected(0..6), 6));
        if files(&path) != before {
            // There was room to roll up.
            break;
        }
    }
    drop(file);
    fs::remove_file(filler).unwrap();
    add(&store, 0..9).unwrap();
    assert_eq!((sums(&store), intervals(&store)), (expected(0..9), 9));
    assert_eq!(store.verify().unwrap().damaged, []);
}
