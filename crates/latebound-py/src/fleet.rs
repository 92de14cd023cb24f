// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store of many machines' Runs, for the questions that are asked of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use latebound_fleet::{Cache, Choice, Store, Table};
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

/// The tables of a store: of each its columns with their types, by the words of SQL.
#[pyfunction]
pub(crate) fn store_tables() -> BTreeMap<&'static str, Vec<(&'static str, &'static str)>> {
    Table::ALL.iter().map(|table| (table.name(), table.typed_columns())).collect()
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
