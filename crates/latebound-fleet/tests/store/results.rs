// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of spread work become rows of a store: each once, whole, and through a roll-up.

use std::collections::BTreeMap;
use std::thread;

use latebound_fleet::{AddOutcome, Choice, Level, NewResult, SimulatedFleet, Store, Table, UNKNOWN_HOST};
use latebound_model::Bound;
use parquet::record::Field;
use tempfile::TempDir;

use crate::common::{add, later};

/// Five hours after the begin of 2026-11-20, the day of the first Runs, which are of its first hour.
const START_US: i64 = 1_795_132_800_000_000 + 5 * 3_600_000_000;

fn store() -> (TempDir, Store) {
    let folder = TempDir::new().unwrap();
    let store = Store::open_or_create(folder.path().join("store")).unwrap();
    (folder, store)
}

fn bound() -> Bound {
    let day = "2026-11-26".parse().unwrap();
    let fleet = SimulatedFleet {
        cpus: 2,
        day,
        interval_us: 60_000_000,
        intervals: 1,
        wakeups_per_second: 1000,
        seed: 1,
    };
    (0..20).find_map(|number| fleet.host(number).run(0).bound).unwrap()
}

pub(crate) fn result(file: &str, host: Option<&str>) -> NewResult {
    NewResult {
        kind: "bound".to_owned(),
        file: file.to_owned(),
        sha256: Some(format!("of {file}")),
        host: host.map(str::to_owned),
        start_us: START_US,
        made_us: 7,
        options: "{}".to_owned(),
        error: None,
        took_us: 1_000,
        tool_version: "0.1.0".to_owned(),
        document: Some(serde_json::to_string(&bound()).unwrap()),
    }
}

fn failed(file: &str) -> NewResult {
    NewResult { error: Some("it is cut".to_owned()), document: None, sha256: None, ..result(file, None) }
}

fn rows(store: &Store, table: Table) -> Vec<BTreeMap<String, Field>> {
    let mut found = Vec::new();
    crate::common::rows(store, table, |row| found.push(row));
    found
}

#[test]
fn a_result_counts_once_and_no_run() {
    let (_folder, store) = store();
    let new = || vec![result("a.dat", Some("rt-07")), result("b.dat", Some("rt-07")), failed("c.dat")];
    let added = store.add_results(new()).unwrap();
    assert_eq!((added.commits, added.runs.len()), (2, 3));
    let again = store.add_results(new()).unwrap();
    assert!(again.commits == 0 && again.runs.iter().all(|run| run.outcome == AddOutcome::Present));
    assert_eq!(rows(&store, Table::Results).len(), 3);
    let listed = store.contents(&Choice::default()).unwrap();
    let hosts: Vec<_> = listed.partitions.iter().map(|one| (one.host.as_str(), one.intervals)).collect();
    assert_eq!(hosts, [("rt-07", 0), (UNKNOWN_HOST, 0)]);
    assert_eq!(store.verify().unwrap().intervals, 0);
    // Other bytes, other options, another version and a success after a failure are other results.
    let other = |change: fn(&mut NewResult)| {
        let mut one = result("a.dat", Some("rt-07"));
        change(&mut one);
        store.add_results(vec![one]).unwrap().commits
    };
    assert_eq!(other(|one| one.sha256 = Some("other".to_owned())), 1);
    assert_eq!(other(|one| one.options = "{\"view\":1}".to_owned()), 1);
    assert_eq!(other(|one| one.tool_version = "9".to_owned()), 1);
    assert_eq!(other(|one| (one.made_us, one.took_us) = (99, 99)), 0);
    assert_eq!(
        store.add_results(vec![NewResult { host: None, ..result("c.dat", None) }]).unwrap().commits,
        1
    );
}

#[test]
fn a_bound_is_a_row_for_each_view_too_and_survives_a_roll_up() {
    let (_folder, store) = store();
    add(&store, 0..3).unwrap();
    store.add_results(vec![result("a.dat", Some("rt-00")), failed("c.dat")]).unwrap();
    let of_results = |store: &Store| {
        let start = Field::Long(START_US);
        rows(store, Table::Bounds).iter().filter(|row| row["start_us"] == start).count()
    };
    let views: usize = bound().cpus.iter().map(|cpu| cpu.views.iter().count()).sum();
    assert!(views > 0);
    assert_eq!(of_results(&store), views);
    let before = rows(&store, Table::Results);
    store.compact(later(Level::Hour)).unwrap();
    assert_eq!((rows(&store, Table::Results), of_results(&store)), (before, views));
    assert_eq!(store.add_results(vec![result("a.dat", Some("rt-00"))]).unwrap().commits, 0);
}

#[test]
fn many_writers_add_the_same_results_and_each_counts_once() {
    let (folder, store) = store();
    let place = folder.path().join("store");
    thread::scope(|scope| {
        for writer in 0..4 {
            let place = &place;
            scope.spawn(move || {
                let store = Store::open(place).unwrap();
                for batch in 0..5 {
                    let numbers = (batch * 4)..(batch * 4 + 4);
                    let new =
                        numbers.map(|at| result(&format!("{}.dat", (at + writer * 4) % 20), Some("rt-07")));
                    store.add_results(new.collect()).unwrap();
                }
            });
        }
    });
    assert_eq!(rows(&store, Table::Results).len(), 20);
    assert_eq!(store.verify().unwrap().damaged, Vec::new());
}

#[test]
fn a_result_of_no_day_or_no_host_is_refused_and_what_is_no_bound_is_kept() {
    let (_folder, store) = store();
    let no_day = NewResult { start_us: -1, ..result("a.dat", None) };
    assert!(store.add_results(vec![no_day]).unwrap_err().to_string().contains("1970"));
    assert!(store.add_results(vec![result("a.dat", Some(""))]).unwrap_err().to_string().contains("--host"));
    let foreign = NewResult { document: Some("{\"schema\":\"x\"}".to_owned()), ..result("a.dat", None) };
    store.add_results(vec![foreign]).unwrap();
    assert_eq!((rows(&store, Table::Results).len(), rows(&store, Table::Bounds).len()), (1, 0));
}
