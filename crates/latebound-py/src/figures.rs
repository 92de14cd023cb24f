// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pictures of a Run, all of them or one by its number or label.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::say;
use crate::figure::{Figure, drawn};
use crate::run::Run;

/// All pictures of a Run, in the order of its page.
#[pyfunction]
pub(crate) fn figures(py: Python<'_>, run: PyRef<'_, Run>) -> Vec<Figure> {
    drawn(py, &run.run)
}

/// The picture of this number, or the first one with this text in its label.
#[pyfunction]
pub(crate) fn figure(py: Python<'_>, run: PyRef<'_, Run>, kind: &Bound<'_, PyAny>) -> PyResult<Figure> {
    let mut all = drawn(py, &run.run);
    let found = if let Ok(number) = kind.extract::<usize>() {
        all.iter().position(|figure| figure.number == number)
    } else if let Ok(words) = kind.extract::<String>() {
        let words = words.to_lowercase();
        all.iter().position(|figure| figure.label.to_lowercase().contains(&words))
    } else {
        return Err(PyTypeError::new_err("a kind of picture is its number, or a part of its label"));
    };
    match found {
        Some(found) => Ok(all.swap_remove(found)),
        None if all.is_empty() => Err(say("this Run has no pictures")),
        None => {
            let kind = kind.repr()?.to_string();
            let labels: Vec<String> =
                all.iter().map(|figure| format!("{} \"{}\"", figure.number, figure.label)).collect();
            Err(say(&format!("this Run has no picture {kind}; it has: {}", labels.join(", "))))
        }
    }
}
