// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pictures of a Run's page, those of `latebound report --pictures`.

use latebound_report::html;
use pyo3::prelude::*;

/// One picture as SVG, which a notebook shows.
#[pyclass(frozen, module = "latebound")]
pub(crate) struct Figure {
    pub(crate) number: usize,
    pub(crate) label: String,
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
