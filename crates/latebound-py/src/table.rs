// SPDX-License-Identifier: MIT OR Apache-2.0
//! One table: of a Run, by its Parquet file or by run.json as the writer would have made it; or of a store.

use std::io::ErrorKind;
use std::path::Path;

use latebound_files::Folder;
use latebound_fleet::WholeTable;
use latebound_model::Run;
use latebound_store::{StoreError, StoredTable, TABLE_FILES};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::{raise, say};
use crate::files_in_turn::FilesInTurn;
use crate::stream::{Batches, Shape, batches, names, schema_capsule, shape, stream_capsule};

/// A table of a Run or of a store. pandas, Polars, pyarrow and DuckDB take it as it is, by the Arrow PyCapsule interface.
#[pyclass(frozen, module = "latebound")]
pub(crate) struct Table {
    name: String,
    source: Source,
    shape: Shape,
}

/// Where the rows come from.
enum Source {
    Run(StoredTable),
    Store(WholeTable),
}

/// Why there is no table.
enum NoTable {
    Unknown,
    NotThere(Vec<String>),
    Store(StoreError),
}

impl From<StoreError> for NoTable {
    fn from(error: StoreError) -> NoTable {
        NoTable::Store(error)
    }
}

impl Table {
    /// The table of this name of a Run that was read in `folder`.
    pub(crate) fn of(py: Python<'_>, run: &Run, folder: Option<&Path>, name: &str) -> PyResult<Table> {
        match py.detach(|| find(run, folder, name)) {
            Ok((stored, shape)) => Ok(Table { name: name.to_owned(), source: Source::Run(stored), shape }),
            Err(NoTable::Unknown) => {
                let known: Vec<&str> = TABLE_FILES.iter().map(|file| stem(file)).collect();
                Err(PyValueError::new_err(format!("{name:?} is no table; there are: {}", known.join(", "))))
            }
            Err(NoTable::NotThere(there)) => Err(say(&format!(
                "there is no table {name} beside this run.json, which does not hold its rows; there are: {}",
                there.join(", ")
            ))),
            Err(NoTable::Store(error)) => Err(raise(&error)),
        }
    }
}

impl Table {
    /// A table of a store.
    pub(crate) fn of_store(name: &str, rows: WholeTable, shape: Shape) -> Table {
        Table { name: name.to_owned(), source: Source::Store(rows), shape }
    }

    fn batches(&self) -> Result<Batches, StoreError> {
        match &self.source {
            Source::Run(stored) => batches(stored),
            Source::Store(files) => {
                let (schema, name) = (self.shape.schema.clone(), self.name.clone());
                Ok(Batches::of(schema, name, FilesInTurn::of(files.clone())))
            }
        }
    }
}

/// The name of a table by its file.
fn stem(file: &str) -> &str {
    file.strip_suffix(".parquet").unwrap_or(file)
}

/// The names of the tables that a Run has in `folder` or that can be made of its record.
pub(crate) fn table_names(run: &Run, folder: Option<&Path>) -> Vec<String> {
    let folder = folder.and_then(|folder| Folder::open(folder).ok());
    let is_there = |file: &str| {
        let named = run.tables.iter().any(|table| table.file == file);
        named && folder.as_ref().is_some_and(|folder| folder.has_file(file.as_ref()))
    };
    let is_made = |file: &str| matches!(StoredTable::of_run(run, file), Ok(Some(_)));
    TABLE_FILES
        .iter()
        .filter(|file| is_there(file) || is_made(file))
        .map(|file| stem(file).to_owned())
        .collect()
}

fn find(run: &Run, folder: Option<&Path>, name: &str) -> Result<(StoredTable, Shape), NoTable> {
    let file = *TABLE_FILES.iter().find(|file| stem(file) == name).ok_or(NoTable::Unknown)?;
    let named = run.tables.iter().find(|table| table.file == file);
    if let (Some(folder), Some(named)) = (folder, named) {
        match StoredTable::open(folder, file) {
            Ok(stored) => {
                let shape = shape(&stored)?;
                if shape.rows != named.rows {
                    let why = format!("it has {} rows, and run.json says {}", shape.rows, named.rows);
                    return Err(stored.inconsistent(why).into());
                }
                return Ok((stored, shape));
            }
            // run.json alone was kept.
            Err(StoreError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    let stored =
        StoredTable::of_run(run, file)?.ok_or_else(|| NoTable::NotThere(table_names(run, folder)))?;
    let shape = shape(&stored)?;
    Ok((stored, shape))
}

#[pymethods]
impl Table {
    /// The name of the table.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// How many rows it has.
    #[getter]
    fn num_rows(&self) -> u64 {
        self.shape.rows
    }

    /// The names of its columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        names(&self.shape.schema)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.shape.rows).unwrap_or(usize::MAX)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.shape.schema)
    }

    /// A stream of the rows. Another schema that is asked for is passed over, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = py.detach(|| self.batches()).map_err(|error| raise(&error))?;
        stream_capsule(py, reader)
    }

    fn __repr__(&self) -> String {
        format!("<latebound.Table {}, {} rows>", self.name, self.shape.rows)
    }
}
