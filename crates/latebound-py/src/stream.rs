// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of Parquet as streams of Arrow, and the way to hand one to another library (the Arrow PyCapsule interface).
//!
//! Nothing of a file is believed: an Arrow schema in it is passed over, and a panic of the reader becomes an error, because no
//! panic may reach the library that asks for the next part.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use latebound_store::{StoreError, StoredTable};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::raise;

/// So many rows are a part of a stream.
pub(crate) const ROWS: usize = 1 << 16;

const CONTRADICTION: &str = "its reader met a contradiction; the file is damaged";

/// What a table is: its columns, and how many rows it has.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// The columns.
    pub(crate) schema: SchemaRef,
    /// The rows.
    pub(crate) rows: u64,
}

/// The columns and the number of rows of a table.
pub(crate) fn shape(table: &StoredTable) -> Result<Shape, StoreError> {
    guarded(table, || {
        let builder = builder(table)?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows())
            .map_err(|_| table.inconsistent("it has less than no rows".to_owned()))?;
        Ok(Shape { schema: builder.schema().clone(), rows })
    })
}

/// The rows of a table, part by part.
pub(crate) fn batches(table: &StoredTable) -> Result<Batches, StoreError> {
    guarded(table, || {
        let inner = builder(table)?
            .with_batch_size(ROWS)
            .build()
            .map_err(|error| table.inconsistent(error.to_string()))?;
        Ok(Batches {
            schema: inner.schema(),
            inner: Some(Box::new(inner)),
            name: table.path().display().to_string(),
        })
    })
}

fn builder(table: &StoredTable) -> Result<ParquetRecordBatchReaderBuilder<StoredTable>, StoreError> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(table.clone(), options)
        .map_err(|error| table.inconsistent(error.to_string()))?;
    table.check(builder.metadata())?;
    Ok(builder)
}

fn guarded<T>(table: &StoredTable, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(table.inconsistent(CONTRADICTION.to_owned())))
}

/// Parts of a table that come one after the other; none after an error.
pub(crate) struct Batches {
    schema: SchemaRef,
    inner: Option<Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>>,
    /// What is read, for errors.
    name: String,
}

impl Batches {
    /// Of parts with these columns that something else makes.
    pub(crate) fn of(
        schema: SchemaRef,
        name: String,
        inner: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
    ) -> Batches {
        Batches { schema, inner: Some(Box::new(inner)), name }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let inner = self.inner.as_mut()?;
        let next = catch_unwind(AssertUnwindSafe(|| inner.next()));
        let next = next.unwrap_or_else(|_| Some(Err(ArrowError::ExternalError(CONTRADICTION.into()))));
        if !matches!(next, Some(Ok(_))) {
            self.inner = None;
        }
        next.map(|part| {
            part.map_err(|error| ArrowError::ExternalError(format!("{}: {error}", self.name).into()))
        })
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A stream as a capsule that another library takes.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    reader: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
}

/// A schema as a capsule that another library takes.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| raise(&error))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// The names of the columns.
pub(crate) fn names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}
