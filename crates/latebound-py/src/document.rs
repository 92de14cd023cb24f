// SPDX-License-Identifier: MIT OR Apache-2.0
//! A JSON document as the command prints it, and as Python values.

use latebound_report::printable_json;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use serde::Serialize;

use crate::error::raise;

/// The text that the command prints for a value with `--format json`, without the line break at its end.
pub(crate) fn text<T: Serialize + ?Sized>(value: &T) -> PyResult<String> {
    let text = serde_json::to_string_pretty(value).map_err(|error| raise(&error))?;
    Ok(printable_json(&text).into_owned())
}

/// A value as Python has it: dictionaries, lists, numbers, texts.
pub(crate) fn value<T: Serialize + ?Sized>(py: Python<'_>, value: &T) -> PyResult<Py<PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| raise(&error))?;
    loads(py, &text)
}

fn loads(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    Ok(py.import("json")?.call_method1("loads", (text,))?.unbind())
}

/// A JSON document that the command prints with `--format json`: its text, and its value.
#[pyclass(frozen, module = "latebound")]
pub(crate) struct Document {
    text: String,
    data: PyOnceLock<Py<PyAny>>,
}

impl Document {
    /// The document of a value.
    pub(crate) fn of<T: Serialize + ?Sized>(value: &T) -> PyResult<Document> {
        Ok(Document { text: text(value)?, data: PyOnceLock::new() })
    }
}

#[pymethods]
impl Document {
    /// The document as Python values: a dictionary, or a list.
    #[getter]
    fn data(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.data.get_or_try_init(py, || loads(py, &self.text))?.clone_ref(py))
    }

    /// The text that the command prints, without the line break at its end.
    fn to_json(&self) -> &str {
        &self.text
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Ok(self.data(py)?.bind(py).get_item(key)?.unbind())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.data(py)?.bind(py).len()
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.data(py)?.bind(py).try_iter()?.into_any().unbind())
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.data(py)?.bind(py).contains(key)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let data = self.data(py)?;
        let schema = data.bind(py).get_item("schema").and_then(|schema| schema.extract::<String>());
        let entries = self.__len__(py)?;
        Ok(match schema {
            Ok(schema) => format!("<latebound.Document {schema}>"),
            Err(_) => format!("<latebound.Document of {entries} entries>"),
        })
    }
}
