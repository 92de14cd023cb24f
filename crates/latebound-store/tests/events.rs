// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of events: what is written is read back, and bytes from elsewhere are an error.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use std::fs;
use std::path::Path;

use latebound_model::Event;
use latebound_store::{EVENTS_FILE, RunFolder, has_events, visit_events};

mod common;

use common::{events, sample_run};

fn write(path: &Path, how_many: u64) {
    let mut folder = RunFolder::create(path, false).unwrap();
    folder.write_events(events(how_many)).unwrap();
    let run = folder.finish_with(&sample_run(1), |_| None).unwrap();
    let table = run.tables.iter().find(|table| table.file == EVENTS_FILE).unwrap();
    assert_eq!(table.rows, how_many);
}

fn read(path: &Path) -> Result<Vec<Event>, String> {
    let mut all = Vec::new();
    visit_events(path, |event| all.push(event)).map_err(|error| error.to_string())?;
    Ok(all)
}

#[test]
fn events_are_read_back_as_they_were_written() {
    let folder = tempfile::TempDir::new().unwrap();
    // None, fewer and more than a group of rows and a part that is read at once.
    for (name, how_many) in [("none.run", 0), ("few.run", 100), ("many.run", 70_001)] {
        let path = folder.path().join(name);
        write(&path, how_many);
        assert!(has_events(&path));
        assert_eq!(read(&path).unwrap(), events(how_many));
    }
    assert!(!has_events(folder.path()));
}

#[test]
fn events_behind_a_link_or_of_another_shape_are_not_read() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("my.run");
    write(&path, 10);
    let file = path.join(EVENTS_FILE);
    fs::copy(path.join("histograms.parquet"), &file).unwrap();
    assert!(read(&path).unwrap_err().contains("has no column at_ns"));
    fs::rename(&file, folder.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &file).unwrap();
    assert!(!has_events(&path) && read(&path).is_err());
}

#[test]
fn damaged_events_are_an_error_or_events_and_never_a_panic() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("my.run");
    write(&path, 200);
    let file = path.join(EVENTS_FILE);
    let whole = fs::read(&file).unwrap();
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        // Every byte in turn, in one of several ways.
        bytes[at] = match at % 3 {
            0 => !bytes[at],
            1 => 0xff,
            _ => bytes[at].wrapping_add(1),
        };
        fs::write(&file, &bytes).unwrap();
        refused += u32::from(read(&path).is_err());
        if at % 16 == 0 {
            fs::write(&file, &whole[..at]).unwrap();
            assert!(read(&path).is_err(), "cut at {at}");
        }
    }
    assert!(refused > 100, "{refused} of {} bytes matter", whole.len());
}
