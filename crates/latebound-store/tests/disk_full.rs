// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk that fills: the error says so, and what was written before stays whole.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says why and panics")]

mod common;
mod tiny_disk;

use std::io::Write;
use std::path::Path;

use common::sample_run;
use latebound_model::Nanos;
use latebound_store::{RunFolder, StoreError, read_run};
use tiny_disk::on_a_tiny_disk;

const DISK_BYTES: u64 = 128 << 10;

/// What has to be true of an error that a full disk gave.
fn assert_says_disk_full(error: &StoreError, path: &Path) {
    let text = error.to_string();
    let StoreError::Write { bytes, .. } = error else { panic!("{error:?}") };
    for part in [&format!("{bytes} bytes"), path.to_str().unwrap(), "No space left", "--output"] {
        assert!(text.contains(part), "\"{part}\" is not in: {text}");
    }
}

/// Writes pages until there is no room for another one.
fn fill(file: &Path) {
    let mut file = std::fs::File::create(file).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn a_full_disk_is_named_with_path_and_bytes_and_the_old_state_is_there() {
    let Some(disk) =
        on_a_tiny_disk("a_full_disk_is_named_with_path_and_bytes_and_the_old_state_is_there", DISK_BYTES)
    else {
        return;
    };
    let path = Path::new(&disk).join("my.run");
    let mut folder = RunFolder::create(&path, false).unwrap();
    folder.checkpoint(&sample_run(1)).unwrap();
    let filler = Path::new(&disk).join("filler");
    fill(&filler);
    let error = folder.checkpoint(&sample_run(2)).unwrap_err();
    assert_says_disk_full(&error, &path.join("run.json"));
    assert_eq!(read_run(&path).unwrap(), sample_run(1));
    let error = folder.finish(&sample_run(3), Some(&"<p>".repeat(40_000))).unwrap_err();
    assert_says_disk_full(&error, &path);
    assert_eq!(read_run(&path).unwrap(), sample_run(1));
    // With room again the same place can be written.
    std::fs::remove_file(filler).unwrap();
    RunFolder::create(&path, true).unwrap().checkpoint(&sample_run(4)).unwrap();
    assert_eq!(read_run(&path).unwrap().duration, Nanos(4));
}

#[test]
fn a_disk_that_is_full_from_the_start_leaves_nothing_behind() {
    let Some(disk) = on_a_tiny_disk("a_disk_that_is_full_from_the_start_leaves_nothing_behind", DISK_BYTES)
    else {
        return;
    };
    let filler = Path::new(&disk).join("filler");
    fill(&filler);
    let path = Path::new(&disk).join("my.run");
    let mut folder = RunFolder::create(&path, false).unwrap();
    let error = folder.checkpoint(&sample_run(1)).unwrap_err();
    assert_says_disk_full(&error, &path.join("run.json"));
    drop(folder);
    let names: Vec<_> = std::fs::read_dir(&disk).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["filler"]);
}
