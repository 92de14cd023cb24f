// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files as Python names them: one, or several.

use std::path::PathBuf;

use pyo3::FromPyObject;

/// One path, or several in a list or a tuple.
#[derive(FromPyObject)]
pub(crate) enum Paths {
    /// One.
    #[pyo3(transparent)]
    One(PathBuf),
    /// Several.
    #[pyo3(transparent)]
    Several(Vec<PathBuf>),
}

impl From<Paths> for Vec<PathBuf> {
    fn from(paths: Paths) -> Vec<PathBuf> {
        match paths {
            Paths::One(path) => vec![path],
            Paths::Several(paths) => paths,
        }
    }
}
