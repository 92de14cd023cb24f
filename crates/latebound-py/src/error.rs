// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one exception of the library: the command's message, in which no name steers a terminal.

use latebound_report::{printable_lines, sentence};
use pyo3::exceptions::PyException;
use pyo3::{PyErr, create_exception};

create_exception!(
    latebound,
    Error,
    PyException,
    "What latebound could not do; its text is the command's message: what failed, and what to do next."
);

/// An error of the tool's crates as Python's.
pub(crate) fn raise(error: &dyn std::error::Error) -> PyErr {
    say(&sentence(error))
}

/// A message as an error.
pub(crate) fn say(message: &str) -> PyErr {
    Error::new_err(printable_lines(message, false).into_owned())
}
