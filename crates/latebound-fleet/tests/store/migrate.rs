// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores of earlier versions of the tables are read for ever, and become stores of today's.
//!
//! `golden/store-1` was written by the first version that wrote stores (of commit 66d404f's parent), and `golden/store-2` by the last one that wrote
//! the second version of the tables (f690c4a): three simulated Runs and one of cyclictest each, and in the second one a result of work on a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use latebound_fleet::{Choice, Level, Store, TABLES_VERSION, Table};
use parquet::record::Field;
use tempfile::TempDir;

use crate::common::{add, bucket, copy, expected_values, files, intervals, later, rows, sums, values};
use crate::random_kills::{self, Delays};

const STORE: &str = "LATEBOUND_FLEET_TEST_MIGRATE";
const USUAL_KILLS: u64 = 30;

/// What each golden store holds: Runs and values.
const RUNS: u64 = 4;
const VALUES: u64 = 21_602_097;

/// Of both versions.
const VERSIONS: [u32; 2] = [1, 2];

/// How many files and rows the store of a version has.
fn files_and_rows(version: u32) -> (u64, u64) {
    // The result of work and its file came with the second version. That of f690c4a simulates three settings more.
    if version == 1 { (14, 4134) } else { (15, 4138) }
}

/// A copy of the golden store of a version, at this place.
pub(crate) fn golden(version: u32, to: &Path) -> PathBuf {
    let golden = format!("{}/tests/golden/store-{version}", env!("CARGO_MANIFEST_DIR"));
    copy(Path::new(&golden), to);
    to.to_owned()
}

/// The same, in a folder of its own.
fn store_of(version: u32) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = golden(version, &folder.path().join("store"));
    (folder, path)
}

/// The rows of all tables without what came later, and buckets by their numbers, in an order that does not depend on the files.
pub(crate) fn content(store: &Store) -> Vec<String> {
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
fn a_store_of_an_earlier_version_is_read_and_written_as_one_of_today() {
    for version in VERSIONS {
        let (_folder, path) = store_of(version);
        let store = Store::open(&path).unwrap();
        let verified = store.verify().unwrap();
        assert_eq!((verified.files, verified.rows), files_and_rows(version));
        assert_eq!((verified.damaged, verified.intervals), (Vec::new(), RUNS));
        assert_eq!((intervals(&store), values(&store)), (RUNS, VALUES));
        // Runs of today lie beside those of then, and all roll up together.
        add(&store, 0..4).unwrap();
        assert_eq!((intervals(&store), store.verify().unwrap().damaged), (RUNS + 4, Vec::new()));
        let before = sums(&store);
        let document = store.compact(later(Level::Day)).unwrap();
        assert_eq!((document.damaged, intervals(&store)), (Vec::new(), RUNS + 4));
        assert_eq!(values(&store), VALUES + expected_values(0..4));
        assert!(sums(&store) == before);
        let rolled_up = store.migrate().unwrap().partitions;
        assert_eq!(rolled_up, [], "rolling up writes files of today");
    }
}

#[test]
fn stores_of_all_versions_have_the_same_sums() {
    let of = |version| {
        let (_folder, path) = store_of(version);
        let store = Store::open(&path).unwrap();
        let before = sums(&store);
        store.migrate().unwrap();
        assert!(sums(&store) == before, "of version {version}, migrated");
        before
    };
    let [first, second] = VERSIONS.map(of);
    assert_eq!((first.len(), second.len()), (2, 2));
    assert!(first == second);
}

#[test]
fn migrating_writes_the_columns_of_today_and_changes_nothing_else() {
    for version in VERSIONS {
        let (_folder, path) = store_of(version);
        let store = Store::open(&path).unwrap();
        let before = content(&store);
        let document = store.migrate().unwrap();
        assert_eq!((document.tables, &document.damaged[..]), (TABLES_VERSION, &[][..]));
        // Of the tables only those are written again that have changed since. A table that came later has no file.
        let has_changed = |table: &&Table| table.version() > version && **table != Table::Results;
        let older = Table::ALL.iter().filter(has_changed).count() as u64;
        for partition in &document.partitions {
            assert_eq!((partition.files_before, partition.files_after), (older, older), "{partition:?}");
        }
        assert_eq!(document.partitions.len(), 2);
        assert!(content(&store) == before);
        // The command line came with the second version, and simulated Runs have none.
        let mut commands = Vec::new();
        rows(&store, Table::Intervals, |row| commands.push(row["command"].clone()));
        let known = |field: &&Field| **field != Field::Null;
        assert_eq!(commands.iter().filter(known).count() > 0, version > 1, "{commands:?}");
        let verified = store.verify().unwrap();
        assert_eq!((verified.files, verified.damaged), (files_and_rows(version).0, Vec::new()));
        assert_eq!(store.migrate().unwrap().partitions, [], "a second time there is nothing to do");
    }
}

#[test]
fn a_damaged_partition_is_named_and_the_others_migrate() {
    let (_folder, path) = store_of(1);
    let damaged = files(&path.join("data/intervals")).remove(0);
    fs::write(&damaged, "cut").unwrap();
    let store = Store::open(&path).unwrap();
    let document = store.migrate().unwrap();
    assert_eq!((document.partitions.len(), document.damaged.len()), (1, 1), "{document:?}");
    assert!(damaged.ends_with(&document.damaged[0].file), "{document:?}");
}

#[test]
fn a_commit_of_later_tables_is_an_error_that_names_the_version() {
    let (_folder, path) = store_of(1);
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
    if let Some(path) = std::env::var_os(STORE) {
        Store::open(path).unwrap().migrate().unwrap();
        return;
    }
    let (kills, mut delays) = (random_kills::asked().unwrap_or(USUAL_KILLS), Delays::new());
    let (_golden, golden) = store_of(1);
    let before = content(&Store::open(&golden).unwrap());
    let migrating = |path: &Path| {
        let mut this = Command::new(std::env::current_exe().unwrap());
        this.args(["--exact", TEST]).env(STORE, path).stdout(Stdio::null()).spawn().unwrap()
    };
    // The shortest of a few: after a pause of the machine most of the others would be over before they are killed.
    let spans = (0..3).map(|_| {
        let (_folder, path) = store_of(1);
        let started = Instant::now();
        assert!(migrating(&path).wait().unwrap().success());
        started.elapsed()
    });
    let span = spans.min().unwrap() * 3 / 2;
    let (mut unfinished, mut written) = (0, 0);
    for kill in 0..kills {
        let (_folder, path) = store_of(1);
        let mut child = migrating(&path);
        std::thread::sleep(delays.below(span));
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
    eprintln!("{unfinished} of {kills} were still at it; {written} partitions were written before a kill");
    assert!(unfinished > kills / 10);
}
