// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histogram of the tool: exact counts in buckets at most 0.8 % wide.

use latebound_model::Nanos;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::document::value;
use crate::error::say;

/// Counts of durations in nanoseconds. It never changes: `merge` gives a new one.
#[pyclass(frozen, eq, module = "latebound")]
#[derive(Clone, PartialEq)]
pub(crate) struct Histogram(pub(crate) latebound_model::Histogram);

#[pymethods]
impl Histogram {
    /// Of these values, in nanoseconds.
    #[new]
    #[pyo3(signature = (values = None))]
    fn new(values: Option<&Bound<'_, PyAny>>) -> PyResult<Histogram> {
        let mut histogram = latebound_model::Histogram::new();
        if let Some(values) = values {
            for value in values.try_iter()? {
                histogram.record(Nanos(value?.extract()?));
            }
        }
        Ok(Histogram(histogram))
    }

    /// How many values were counted.
    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    /// The exact sum of all values.
    #[getter]
    fn sum(&self) -> u128 {
        self.0.sum()
    }

    /// The exact minimum value; None where nothing was counted.
    #[getter]
    fn min(&self) -> Option<u64> {
        self.0.min().map(|value| value.0)
    }

    /// The exact maximum value; None where nothing was counted.
    #[getter]
    fn max(&self) -> Option<u64> {
        self.0.max().map(|value| value.0)
    }

    /// The mean, rounded down; None where nothing was counted.
    #[getter]
    fn mean(&self) -> Option<u64> {
        self.0.mean().map(|value| value.0)
    }

    /// The quantile by nearest rank, as the maximum value of its bucket; None where the values are too few for it.
    fn quantile(&self, q: f64) -> PyResult<Option<u64>> {
        if !(0.0..=1.0).contains(&q) {
            return Err(PyValueError::new_err(format!("{q} is no quantile; give a number from 0 to 1")));
        }
        Ok(self.0.quantile(q).map(|value| value.0))
    }

    /// How many values lie in buckets wholly at or above this value.
    fn count_at_or_above(&self, threshold: u64) -> u64 {
        self.0.count_at_or_above(Nanos(threshold))
    }

    /// The buckets that are not empty, as `(minimum value, maximum value, count)`.
    fn buckets(&self) -> Vec<(u64, u64, u64)> {
        self.0.buckets().map(|bucket| (bucket.low.0, bucket.high.0, bucket.count)).collect()
    }

    /// A histogram of the values of this one and of the others: exact, in any order.
    #[pyo3(signature = (*others))]
    fn merge(&self, others: Vec<PyRef<'_, Histogram>>) -> PyResult<Histogram> {
        let mut merged = self.0.clone();
        for other in others {
            // What a file says may be more than there ever was.
            let fits = merged.count().checked_add(other.0.count()).is_some()
                && merged.sum().checked_add(other.0.sum()).is_some();
            if !fits {
                return Err(say("the histograms have more values together than a histogram can count"));
            }
            merged.merge(&other.0);
        }
        Ok(Histogram(merged))
    }

    fn __add__(&self, other: PyRef<'_, Histogram>) -> PyResult<Histogram> {
        self.merge(vec![other])
    }

    fn __len__(&self) -> usize {
        self.0.buckets().count()
    }

    /// As in run.json.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        value(py, &self.0)
    }

    fn __repr__(&self) -> String {
        match (self.min(), self.max()) {
            (Some(min), Some(max)) => {
                format!("<latebound.Histogram of {} values, {min} to {max} ns>", self.count())
            }
            _ => "<latebound.Histogram of no values>".to_owned(),
        }
    }
}
