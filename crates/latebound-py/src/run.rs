// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Run, its series, and the way to open one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use latebound_store::RUN_FILE;
use pyo3::prelude::*;

use crate::document::{text, value};
use crate::error::raise;
use crate::figure::{Figure, drawn};
use crate::histogram::Histogram;
use crate::table::{Table, table_names};

/// Reads the Run in this folder, or in this run.json.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, path: PathBuf) -> PyResult<Run> {
    let run = py.detach(|| latebound_store::read_run(&path)).map_err(|error| raise(&error))?;
    Ok(Run { run: Arc::new(run), folder: folder(&path) })
}

/// Where the tables of a Run lie: beside its run.json.
fn folder(path: &Path) -> Option<PathBuf> {
    // Whatever becomes of the working directory.
    let path = std::path::absolute(path).ok()?;
    if path.is_dir() {
        return Some(path);
    }
    // What lies beside a record of another name may be the tables of another Run.
    path.file_name().filter(|name| *name == RUN_FILE).and(path.parent()).map(Path::to_owned)
}

/// The record of one measurement. Each field of run.json is an attribute.
#[pyclass(frozen, module = "latebound")]
pub(crate) struct Run {
    pub(crate) run: Arc<latebound_model::Run>,
    folder: Option<PathBuf>,
}

impl Run {
    fn record(&self) -> &latebound_model::Run {
        &self.run
    }
}

/// An attribute for each of these fields of a record, beside other methods.
macro_rules! with_fields {
    ($class:ident: $($name:ident),+; $($rest:tt)*) => {
        #[pymethods]
        impl $class {
            $(
                #[getter]
                fn $name(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                    value(py, &self.record().$name)
                }
            )+
            $($rest)*
        }
    };
}

with_fields! { Run:
    schema, tool, verb, command, state, started_at, started_monotonic, planned, duration, system, evidence, measure, settings, loads, worst,
    worst_of_series, bound, findings, system_management_interrupts, quotas, jobs, on_late, stretch, blame, throughput, losses, missing,
    tables;

    /// The distributions.
    #[getter]
    fn series(&self) -> Vec<Series> {
        (0..self.run.series.len()).map(|place| Series { run: self.run.clone(), place }).collect()
    }

    /// The names of the tables that `table` gives.
    #[getter]
    fn table_names(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| table_names(&self.run, self.folder.as_deref()))
    }

    /// The table of this name.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        Table::of(py, &self.run, self.folder.as_deref(), name)
    }

    /// The pictures of the Run's page.
    fn figures(&self, py: Python<'_>) -> Vec<Figure> {
        drawn(py, &self.run)
    }

    /// As in run.json.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        value(py, &*self.run)
    }

    /// The text that `latebound report RUN --format json` prints, without the line break at its end.
    fn to_json(&self) -> PyResult<String> {
        text(&*self.run)
    }

    fn __repr__(&self) -> String {
        format!("<latebound.Run of {}, {} series>", self.run.verb, self.run.series.len())
    }
}

/// One distribution of a Run. Each field of a series in run.json is an attribute.
#[pyclass(frozen, module = "latebound")]
pub(crate) struct Series {
    run: Arc<latebound_model::Run>,
    place: usize,
}

impl Series {
    fn record(&self) -> &latebound_model::Series {
        &self.run.series[self.place]
    }
}

with_fields! { Series:
    id, mechanism, quantity, subject, deferral, condition, evidence, summary, merged, missed, cross_cpu, losses, block_maxima, censored,
    resolution;

    /// All values.
    #[getter]
    fn histogram(&self) -> Histogram {
        Histogram(self.record().histogram.clone())
    }

    /// As in run.json.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        value(py, self.record())
    }

    fn __repr__(&self) -> PyResult<String> {
        let series = self.record();
        Ok(format!("<latebound.Series {}, {} values>", series.id, series.histogram.count()))
    }
}
