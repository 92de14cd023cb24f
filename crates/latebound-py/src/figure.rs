// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pictures of a Run's page, those of `latebound report --pictures`.

use latebound_report::html;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::say;
use crate::run::Run;

/// One picture as SVG, which a notebook shows.
#[pyclass(frozen, module = "latebound")]
pub(crate) struct Figure {
    number: usize,
    label: String,
    svg: String,
}

#[pymethods]
impl Figure {
    /// Which one of the page, from 1 on.
    #[getter]
    fn number(&self) -> usize {
        self.number
    }

    /// What it shows.
    #[getter]
    fn label(&self) -> &str {
        &self.label
    }

    /// The picture: the text of the file that `latebound report --pictures` writes.
    #[getter]
    fn svg(&self) -> &str {
        &self.svg
    }

    fn _repr_svg_(&self) -> &str {
        &self.svg
    }

    fn __str__(&self) -> &str {
        &self.svg
    }

    fn __repr__(&self) -> String {
        format!("<latebound.Figure {}: {}>", self.number, self.label)
    }
}

/// The pictures of a Run's page, in the page's order.
pub(crate) fn drawn(py: Python<'_>, run: &latebound_model::Run) -> Vec<Figure> {
    let pictures = py.detach(|| html::pictures(run));
    pictures
        .into_iter()
        .map(|picture| Figure { number: picture.number, label: picture.label, svg: picture.svg })
        .collect()
}

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
