// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a saved trace as a stream of Arrow, with the columns of events.parquet.
//!
//! A thread reads the trace and is ahead of whoever takes the stream by a few parts; memory does not grow with the trace.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use latebound_documents::{Cancel, visit_events};
use latebound_model::Event;
use latebound_report::{printable_lines, sentence};
use latebound_store::StoredTable;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::{raise, say};
use crate::stream::{Batches, ROWS, batches, names, schema_capsule, shape, stream_capsule};
use crate::work::beside;

/// So many parts are ready at most, beside the one that is being made.
const AHEAD: usize = 2;

/// Opens a saved trace (trace.dat, perf.data, ftrace text, or a Run with a table of events) as a stream of its events.
#[pyfunction]
#[pyo3(signature = (path, *, instance = ""))]
pub(crate) fn read_trace(py: Python<'_>, path: PathBuf, instance: &str) -> PyResult<Events> {
    let path = std::path::absolute(&path).map_err(|error| raise(&error))?;
    let columns = StoredTable::of_events([]).and_then(|none| shape(&none)).map_err(|error| raise(&error))?;
    let events =
        Events { path, instance: instance.to_owned(), schema: columns.schema, first: Mutex::new(None) };
    // What cannot be read is an error here, and not where somebody takes the stream.
    let first = events.begin(py)?;
    *events.first.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(first);
    Ok(events)
}

/// The events of a saved trace. pandas, Polars, pyarrow and DuckDB take them as they are, by the Arrow PyCapsule interface.
/// Each stream reads the trace from its beginning.
#[pyclass(frozen, module = "latebound")]
pub(crate) struct Events {
    path: PathBuf,
    instance: String,
    schema: SchemaRef,
    /// A stream that has begun and that nobody has taken yet.
    first: Mutex<Option<Reading>>,
}

impl Events {
    /// Begins to read, and waits for the first part.
    fn begin(&self, py: Python<'_>) -> PyResult<Reading> {
        let (path, instance) = (self.path.clone(), self.instance.clone());
        beside(py, move |_| Reading::begin(path, instance))?.map_err(|message| say(&message))
    }
}

#[pymethods]
impl Events {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        names(&self.schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// A stream of the events. Another schema that is asked for is passed over, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let begun = self.first.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let reading = match begun {
            Some(reading) => reading,
            None => self.begin(py)?,
        };
        let name = self.path.display().to_string();
        stream_capsule(py, Batches::of(self.schema.clone(), name, reading))
    }

    fn __repr__(&self) -> String {
        format!("<latebound.Events of {}>", self.path.display())
    }
}

type Part = Result<RecordBatch, String>;

/// A trace that a thread reads. The thread ends where this is dropped.
struct Reading {
    first: Option<Part>,
    rest: Receiver<Part>,
    cancel: Cancel,
}

impl Reading {
    /// Starts the thread and waits for the first part, or for what keeps the trace from being read.
    fn begin(path: PathBuf, instance: String) -> Result<Reading, String> {
        let (sender, rest) = sync_channel(AHEAD);
        let cancel = Cancel::default();
        let theirs = cancel.clone();
        thread::Builder::new()
            .name("latebound-events".to_owned())
            .spawn(move || {
                let read = catch_unwind(AssertUnwindSafe(|| read(&path, &instance, &theirs, &sender)));
                let ended = read.unwrap_or_else(|_| Err("the reading ended in the middle".to_owned()));
                if let Err(message) = ended {
                    // Nobody takes it any more where this fails.
                    let _ = sender.send(Err(message));
                }
            })
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        match rest.recv() {
            Ok(Ok(first)) => Ok(Reading { first: Some(Ok(first)), rest, cancel }),
            Ok(Err(message)) => Err(message),
            // A trace without events.
            Err(_) => Ok(Reading { first: None, rest, cancel }),
        }
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.first.take().or_else(|| self.rest.recv().ok())?;
        Some(part.map_err(|message| ArrowError::ExternalError(message.into())))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.cancel.set();
    }
}

/// Reads a trace and sends its events part by part.
fn read(path: &Path, instance: &str, cancel: &Cancel, parts: &SyncSender<Part>) -> Result<(), String> {
    let said = |error: &dyn std::error::Error| printable_lines(&sentence(error), false).into_owned();
    let mut events = Vec::with_capacity(ROWS);
    let mut failed = None;
    let visited = visit_events(path, instance, cancel, |event| {
        // What comes after the end of the stream is passed over until the reading has ended.
        if cancel.is_set() || failed.is_some() {
            return;
        }
        events.push(event);
        if events.len() == ROWS {
            let full = std::mem::replace(&mut events, Vec::with_capacity(ROWS));
            failed = send(full, cancel, parts).err();
        }
    });
    if cancel.is_set() {
        return Ok(());
    }
    visited.map_err(|error| said(&error))?;
    match failed {
        Some(message) => Err(message),
        None => send(events, cancel, parts),
    }
}

fn send(events: Vec<Event>, cancel: &Cancel, parts: &SyncSender<Part>) -> Result<(), String> {
    if events.is_empty() {
        return Ok(());
    }
    // By way of Parquet, so that the columns have one definition.
    let table = StoredTable::of_events(events).map_err(|error| sentence(&error))?;
    for part in batches(&table).map_err(|error| sentence(&error))? {
        let part = part.map_err(|error| error.to_string())?;
        if parts.send(Ok(part)).is_err() {
            cancel.set();
            return Ok(());
        }
    }
    Ok(())
}
