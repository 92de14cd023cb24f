// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores of earlier versions of the tables are read for ever, and become stores of today's.
//!
//! `golden/store-1` was written by the first version that wrote stores: three simulated Runs, and one of cyclictest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use latebound_fleet::{Choice, Level, Store, TABLES_VERSION, Table};
use parquet::record::Field;
use tempfile::TempDir;

use crate::common::{add, bucket, expected_values, files, intervals, later, rows, values};

const STORE: &str = "LATEBOUND_FLEET_TEST_MIGRATE";

/// What the golden store holds: Runs, files, rows and values.
const RUNS: u64 = 4;
const FILES: u64 = 14;
const ROWS: u64 = 4134;
const VALUES: u64 = 21_602_097;

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if path.is_dir() { copy(&path, &to) } else { _ = fs::copy(&path, &to).unwrap() }
    }
}

/// A copy of the golden store.
fn first() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/store-1");
    let path = folder.path().join("store");
    copy(&golden, &path);
    (folder, path)
}

/// The rows of all tables without what came later, and buckets by their numbers, in an order that does not depend on the files.
fn content(store: &Store) -> Vec<String> {
    let mut all = Vec::new();
    for table in Table::ALL {
        rows(store, *table, |mut row| {
            row.remove("command");
            if *table == Table::Buckets {
                let number = bucket(&row);
                row.retain(|name, _| !name.starts_with("bucket"));
                row.insert("bucket".into(), Field::Int(number as i32));
            }
            all.push(format!("{table} {row:?}"));
        });
    }
    all.sort();
    all
}

#[test]
fn a_store_of_the_first_version_is_read_and_written_as_one_of_today() {
    let (_folder, path) = first();
    let store = Store::open(&path).unwrap();
    let verified = store.verify().unwrap();
    assert_eq!((verified.intervals, verified.files, verified.rows), (RUNS, FILES, ROWS));
    assert_eq!((verified.damaged, intervals(&store), values(&store)), (Vec::new(), RUNS, VALUES));
    // Runs of today lie beside those of then, and all roll up together.
    add(&store, 0..4).unwrap();
    assert_eq!((intervals(&store), store.verify().unwrap().damaged), (RUNS + 4, Vec::new()));
    let document = store.compact(later(Level::Day)).unwrap();
    assert_eq!((document.damaged, intervals(&store)), (Vec::new(), RUNS + 4));
    assert_eq!(values(&store), VALUES + expected_values(0..4));
    assert_eq!(store.migrate().unwrap().partitions, [], "rolling up writes files of today");
}

#[test]
fn migrating_writes_the_columns_of_today_and_changes_nothing_else() {
    let (_folder, path) = first();
    let store = Store::open(&path).unwrap();
    let before = content(&store);
    let document = store.migrate().unwrap();
    assert_eq!((document.tables, &document.damaged[..]), (TABLES_VERSION, &[][..]));
    // Of the tables only those are written again that have changed since. A table that came later has no file.
    let has_changed = |table: &&Table| table.version() > 1 && **table != Table::Results;
    let older = Table::ALL.iter().filter(has_changed).count() as u64;
    for partition in &document.partitions {
        assert_eq!((partition.files_before, partition.files_after), (older, older), "{partition:?}");
    }
    assert_eq!(document.partitions.len(), 2);
    assert!(content(&store) == before);
    rows(&store, Table::Intervals, |row| assert_eq!(row["command"], Field::Null));
    let verified = store.verify().unwrap();
    assert_eq!((verified.files, verified.damaged), (FILES, Vec::new()));
    assert_eq!(store.migrate().unwrap().partitions, [], "a second time there is nothing to do");
}

#[test]
fn a_damaged_partition_is_named_and_the_others_migrate() {
    let (_folder, path) = first();
    let damaged = files(&path.join("data/intervals")).remove(0);
    fs::write(&damaged, "cut").unwrap();
    let store = Store::open(&path).unwrap();
    let document = store.migrate().unwrap();
    assert_eq!((document.partitions.len(), document.damaged.len()), (1, 1), "{document:?}");
    assert!(damaged.ends_with(&document.damaged[0].file), "{document:?}");
}

#[test]
fn a_commit_of_later_tables_is_an_error_that_names_the_version() {
    let (_folder, path) = first();
    let commit = files(&path.join("commits")).remove(0);
    let text = fs::read_to_string(&commit).unwrap();
    fs::write(
        &commit,
        text.replacen("\"tool\"", "\"tables\":7,\"tool\"", 1).replace("\"losses\"", "\"unheard_of\""),
    )
    .unwrap();
    let error = Store::open(&path).unwrap().contents(&Choice::default()).unwrap_err().to_string();
    assert!(error.contains("needs version 7 of the tables") && error.contains("newer"), "{error}");
}

#[test]
fn migrating_killed_at_any_moment_loses_nothing_and_goes_on() {
    const TEST: &str = "migrate::migrating_killed_at_any_moment_loses_nothing_and_goes_on";
    const KILLS: u64 = 30;
    if let Some(path) = std::env::var_os(STORE) {
        Store::open(path).unwrap().migrate().unwrap();
        return;
    }
    let mut seed = u64::from(std::process::id()) * 2 + 1;
    eprintln!("the delays follow from the seed {seed}");
    let (_golden, golden) = first();
    let before = content(&Store::open(&golden).unwrap());
    let (mut unfinished, mut written) = (0, 0);
    for kill in 0..KILLS {
        let (_folder, path) = first();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST])
            .env(STORE, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        std::thread::sleep(Duration::from_micros(seed % 40_000));
        unfinished += u64::from(child.try_wait().unwrap().is_none());
        let _ = child.kill();
        child.wait().unwrap();
        let store = Store::open(&path).unwrap();
        assert!(content(&store) == before, "kill {kill}");
        assert_eq!(store.verify().unwrap().damaged, [], "kill {kill}");
        let left = store.migrate().unwrap().partitions.len();
        written += 2 - left;
        assert!(content(&store) == before, "kill {kill}, and then to the end");
        assert_eq!(store.migrate().unwrap().partitions, []);
    }
    eprintln!("{unfinished} of {KILLS} were still at it; {written} partitions were written before a kill");
    assert!(unfinished > KILLS / 10);
}
