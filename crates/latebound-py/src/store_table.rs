// SPDX-License-Identifier: MIT OR Apache-2.0
//! One table of a store.

use std::path::PathBuf;
use std::sync::Arc;

use latebound_fleet::{Choice, FleetError, Store};
use latebound_report::printable;
use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::prelude::*;

use crate::error::raise;
use crate::files_in_turn::stored;
use crate::stream::shape;
use crate::table::Table;
use crate::work::beside;

/// A table of a store, with the rows of all files that count: of these days and hosts, or of all. Damaged commits are left out, with a warning; a
/// damaged file is an error where its rows would come.
#[pyfunction]
#[pyo3(signature = (store, table, *, since = None, until = None, hosts = Vec::new()))]
pub(crate) fn store_table(
    py: Python<'_>,
    store: PathBuf,
    table: &str,
    since: Option<&str>,
    until: Option<&str>,
    hosts: Vec<String>,
) -> PyResult<Table> {
    let wrong = |why: String| PyValueError::new_err(why);
    let table: latebound_fleet::Table = table.parse().map_err(wrong)?;
    let day = |text: Option<&str>| text.map(str::parse).transpose().map_err(wrong);
    let choice = Choice { from: day(since)?, to: day(until)?, hosts };
    let opened = beside(py, move |_| {
        let (whole, damaged) = Arc::new(Store::open(&store)?).whole_table(table, &choice)?;
        let empty = whole.empty_file()?;
        Ok::<_, FleetError>((whole, damaged, empty))
    })?;
    let (whole, damaged, empty) = opened.map_err(|error| raise(&error))?;
    for damage in damaged {
        let text = format!("damaged, and left out: {}: {}", printable(&damage.file), printable(&damage.why));
        let text = std::ffi::CString::new(text).map_err(|error| raise(&error))?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
    }
    let mut columns = shape(&stored(empty)).map_err(|error| raise(&error))?;
    columns.rows = whole.rows();
    Ok(Table::of_store(table.name(), whole, columns))
}
