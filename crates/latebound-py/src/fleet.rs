// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store of many machines' Runs, for the questions that are asked of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use latebound_fleet::{Cache, Choice, DataFile, NewResult, Store, Table};
use pyo3::prelude::*;

use crate::document::Document;
use crate::error::raise;
use crate::work::beside;

/// The confidence of the interval of a return level.
const CONFIDENCE: f64 = 0.95;

/// The files of a store that count, by table, and what is damaged: what `latebound store files --format json` prints. Files of a bucket are
/// copied into the cache of this user, once; the paths are those of the copies.
#[pyfunction]
pub(crate) fn store_files(py: Python<'_>, store: PathBuf) -> PyResult<Document> {
    let made = beside(py, move |_| {
        Store::open(&store)
            .and_then(|store| store.local_files(Table::ALL, &Choice::default(), Cache::of_user))
    })?;
    Document::of(&made.map_err(|error| raise(&error))?)
}

/// The data files of a store that count, by table, and what is damaged. Nothing is copied: see [`store_copies`].
#[pyfunction]
pub(crate) fn store_data_files(py: Python<'_>, store: PathBuf) -> PyResult<Document> {
    let made = beside(py, move |_| {
        Store::open(&store).and_then(|store| store.data_files(Table::ALL, &Choice::default()))
    })?;
    Document::of(&made.map_err(|error| raise(&error))?)
}

/// Copies data files of a store, each with its SHA-256 and its length, into the cache of this user, where they are not there yet. Gives of each the
/// path of its copy, or why there is none.
#[pyfunction]
pub(crate) fn store_copies(
    py: Python<'_>,
    store: PathBuf,
    files: Vec<(String, String, u64)>,
) -> PyResult<Vec<(Option<PathBuf>, Option<String>)>> {
    let files: Vec<DataFile> =
        files.into_iter().map(|(file, sha256, bytes)| DataFile { file, sha256, bytes }).collect();
    let made = beside(py, move |_| {
        let cache = Cache::of_user()?;
        Store::open(&store)?.copies(&files, &cache)
    })?;
    let made = made.map_err(|error| raise(&error))?;
    Ok(made
        .into_iter()
        .map(|copy| match copy {
            Ok(path) => (Some(path), None),
            Err(damage) => (None, Some(damage.why)),
        })
        .collect())
}

/// Adds results of work on files to a store, and makes the store where there is none. `results` is a JSON list with the fields of
/// `NewResult` each. Gives what became of each.
#[pyfunction]
pub(crate) fn store_add_results(py: Python<'_>, store: PathBuf, results: &str) -> PyResult<Document> {
    let results: Vec<NewResult> = serde_json::from_str(results).map_err(|error| raise(&error))?;
    let made =
        beside(py, move |_| Store::open_or_create(&store).and_then(|store| store.add_results(results)))?;
    Document::of(&made.map_err(|error| raise(&error))?)
}

/// The URLs of all objects below `s3://BUCKET/NAME`, in the order of their names.
#[pyfunction]
pub(crate) fn objects_below(py: Python<'_>, url: String) -> PyResult<Vec<String>> {
    let found = beside(py, move |_| latebound_fleet::objects_below(&url))?;
    found.map_err(|error| raise(&error))
}

/// Copies an object of a bucket to a file that is not there yet.
#[pyfunction]
pub(crate) fn fetch_object(py: Python<'_>, url: String, to: PathBuf) -> PyResult<()> {
    let done = beside(py, move |_| latebound_fleet::fetch_object(&url, &to))?;
    done.map_err(|error| raise(&error))
}

/// The host that a Run or a saved trace names, the start of the Run, and when the file was last changed, in microseconds since 1970.
#[pyfunction]
pub(crate) fn origin(py: Python<'_>, path: PathBuf) -> PyResult<(Option<String>, Option<String>, i64)> {
    let found = beside(py, move |_| latebound_documents::origin(&path))?;
    let found = found.map_err(|error| raise(&error))?;
    Ok((found.host, found.started_at, found.changed_us))
}

/// The tables of a store: of each its columns with their types, by the words of SQL.
#[pyfunction]
pub(crate) fn store_tables() -> BTreeMap<&'static str, Vec<(&'static str, &'static str)>> {
    Table::ALL.iter().map(|table| (table.name(), table.typed_columns())).collect()
}

/// Columns of files of earlier versions of the tables that stand for one of today: of each table their names and types.
#[pyfunction]
pub(crate) fn store_earlier_columns() -> BTreeMap<&'static str, Vec<(&'static str, &'static str)>> {
    Table::ALL.iter().map(|table| (table.name(), table.earlier_columns().to_vec())).collect()
}

/// The smallest and the largest value of each bucket, in nanoseconds, by its number.
#[pyfunction]
pub(crate) fn bucket_edges() -> Vec<(i64, i64)> {
    latebound_fleet::bucket_edges()
}

/// The value that one of so many blocks is expected to pass, by the maxima of blocks that were seen: the lower end of its interval, the
/// level, and the upper end, which is `None` where there is none. `None` where the maxima are too few or do not fit.
#[pyfunction]
pub(crate) fn return_level(
    py: Python<'_>,
    maxima: Vec<u64>,
    blocks: f64,
) -> PyResult<Option<(u64, u64, Option<u64>)>> {
    let found = beside(py, move |_| {
        let values: Vec<f64> = maxima.iter().map(|&value| value as f64).collect();
        latebound_stats::return_level(&values, blocks, CONFIDENCE)
    })?;
    // A float that is too large for a number becomes the largest one, and one below zero becomes zero.
    Ok(found.map(|(level, interval)| {
        let high = interval.high.is_finite().then_some(interval.high.round() as u64);
        (interval.low.round() as u64, level.round() as u64, high)
    }))
}
