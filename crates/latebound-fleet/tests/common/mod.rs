// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs with known sums, and the sums that a store holds.

#![allow(dead_code, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

#[path = "../../../latebound-store/tests/common/mod.rs"]
pub(crate) mod runs;

pub(crate) mod s3;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use latebound_fleet::{Cache, Choice, CompactOptions, FleetError, Level, NewRuns, Store, Table};
use latebound_model::{Histogram, Nanos, Run, RunState, Summary};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

/// The Run of this number: one in seven minutes from 2026-11-20, on one of two hosts, with values of its own.
pub(crate) fn run(number: u64) -> Run {
    let mut run = runs::sample_run(number);
    let begin: Timestamp = "2026-11-20T00:03:00Z".parse().unwrap();
    run.started_at = (begin + Duration::from_secs(number * 420)).to_string();
    run.duration = Nanos::from_secs(60);
    run.system.hostname = Some(format!("rt-{:02}", number % 2));
    run.state = RunState::Complete;
    for series in &mut run.series {
        let mut histogram = Histogram::new();
        let values = if series.histogram.count() == 0 { 0 } else { 20 + number % 5 };
        runs::values(number + series.id.len() as u64, values as usize)
            .into_iter()
            .for_each(|value| histogram.record(value));
        series.summary = Summary::of(&histogram);
        series.histogram = histogram;
        series.block_maxima = None;
    }
    run
}

/// What a Run is called.
pub(crate) fn name(number: u64) -> String {
    format!("{number}.run")
}

/// Adds Runs in one call.
pub(crate) fn add(store: &Store, numbers: impl IntoIterator<Item = u64>) -> Result<u64, FleetError> {
    let mut new = NewRuns::new();
    for number in numbers {
        new.push(&run(number), &name(number), None)?;
    }
    Ok(store.add(new)?.commits)
}

/// Far behind every Run, so that all hours and days are over; nothing has grace.
pub(crate) fn later(to: Level) -> CompactOptions {
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    CompactOptions { to, now, grace: Duration::ZERO }
}

/// The distributions by host, day and id of the series, with the CPUs added up.
pub(crate) type Sums = BTreeMap<(String, String, String), Histogram>;

/// Those of Runs.
pub(crate) fn expected(numbers: impl IntoIterator<Item = u64>) -> Sums {
    let mut sums = Sums::new();
    for number in numbers {
        let run = run(number);
        for series in &run.series {
            let id = match series.subject.cpu {
                Some(cpu) => series.id.replace(&format!("/cpu{cpu}"), ""),
                None => series.id.clone(),
            };
            let host = run.system.hostname.clone().unwrap();
            sums.entry((host, run.started_at[..10].to_owned(), id)).or_default().merge(&series.histogram);
        }
    }
    sums
}

/// Gives each row of a table of the store, as its values by name.
pub(crate) fn rows(store: &Store, table: Table, mut visit: impl FnMut(BTreeMap<String, Field>)) {
    let document = store.local_files(&[table], &Choice::default(), Cache::of_user).unwrap();
    // Damaged commits are left out, as every reader does.
    assert!(
        document.damaged.iter().all(|damage| damage.file.starts_with("commits/")),
        "{:?}",
        document.damaged
    );
    for path in document.tables.values().flatten() {
        let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
        for row in reader.get_row_iter(None).unwrap() {
            visit(row.unwrap().into_columns().into_iter().collect());
        }
    }
}

pub(crate) fn text(field: &Field) -> String {
    match field {
        Field::Str(text) => text.clone(),
        Field::Date(day) => {
            let day = Timestamp::from_second(i64::from(*day) * 86_400).unwrap();
            day.to_string()[..10].to_owned()
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn long(field: &Field) -> u64 {
    match field {
        Field::Long(value) => u64::try_from(*value).unwrap(),
        Field::Int(value) => u64::try_from(*value).unwrap(),
        Field::Null => 0,
        other => panic!("{other:?}"),
    }
}

fn sum(field: &Field) -> u128 {
    match field {
        Field::Decimal(decimal) => {
            decimal.data().iter().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte))
        }
        other => panic!("{other:?}"),
    }
}

/// The number of the bucket of a row, whatever version of the tables wrote it.
pub(crate) fn bucket(row: &BTreeMap<String, Field>) -> usize {
    match row.get("bucket") {
        Some(bucket) => long(bucket) as usize,
        None => latebound_model::bucket_index(long(&row["bucket_low_ns"])),
    }
}

/// The distributions that the store holds, made of its buckets and of the numbers beside them.
pub(crate) fn sums(store: &Store) -> Sums {
    type Parts = (BTreeMap<usize, u64>, Option<u64>, u64, u128);
    let mut parts: BTreeMap<(String, String, String), Parts> = BTreeMap::new();
    let key =
        |row: &BTreeMap<String, Field>| (text(&row["host"]), text(&row["day"]), text(&row["series_id"]));
    rows(store, Table::Series, |row| {
        if row["total"] == Field::Bool(true) {
            let (_, min, max, total) = parts.entry(key(&row)).or_default();
            if long(&row["count"]) > 0 {
                *min = Some(min.map_or(long(&row["min_ns"]), |min| min.min(long(&row["min_ns"]))));
            }
            *max = (*max).max(long(&row["max_ns"]));
            *total += sum(&row["sum_ns"]);
        }
    });
    rows(store, Table::Buckets, |row| {
        if row["total"] == Field::Bool(true) {
            *parts.get_mut(&key(&row)).unwrap().0.entry(bucket(&row)).or_default() += long(&row["count"]);
        }
    });
    let whole = |(buckets, min, max, sum): Parts| {
        Histogram::from_parts(buckets, Nanos(min.unwrap_or(0)), Nanos(max), sum)
            .expect("the parts belong together")
    };
    parts.into_iter().map(|(key, parts)| (key, whole(parts))).collect()
}

/// How many Runs the table of intervals counts.
pub(crate) fn intervals(store: &Store) -> u64 {
    let mut count = 0;
    rows(store, Table::Intervals, |row| count += long(&row["intervals"]));
    count
}

/// How many values are counted, by the numbers of the series.
pub(crate) fn values(store: &Store) -> u64 {
    let mut count = 0;
    rows(store, Table::Series, |row| {
        if row["total"] == Field::Bool(true) {
            count += long(&row["count"]);
        }
    });
    count
}

/// How many values Runs have: each has four series that are not empty.
pub(crate) fn expected_values(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().map(|number| 4 * (20 + number % 5)).sum()
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if path.is_dir() { copy(&path, &to) } else { _ = fs::copy(&path, &to).unwrap() }
    }
}

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
