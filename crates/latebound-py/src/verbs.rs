// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command's verbs make of files: bound, explain, compare.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use latebound_analysis::cycle::CycleChoice;
use latebound_compare::{Gate, Options};
use latebound_documents::{
    DocumentError, MAX_DOCUMENT_BYTES, bound_of, explain_trace, read_observations, refuse_unlike, sides,
};
use latebound_model::{Tid, ViewKind};
use latebound_saved::{SavedOptions, Watched};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::document::Document;
use crate::error::raise;
use crate::path::Paths;
use crate::work::beside;

/// How late threads can get by these recordings of one system: what `latebound bound FILE… --format json` prints.
#[pyfunction]
#[pyo3(signature = (*files, view = "sliding-window", preempt_rt = false, kallsyms = None, instance = ""))]
pub(crate) fn bound(
    py: Python<'_>,
    files: Vec<PathBuf>,
    view: &str,
    preempt_rt: bool,
    kallsyms: Option<PathBuf>,
    instance: &str,
) -> PyResult<Document> {
    let instance = instance.to_owned();
    let view = view_of(view)?;
    let made = beside(py, move |cancel| {
        let kallsyms = kallsyms
            .map(|path| {
                latebound_files::read(&path, MAX_DOCUMENT_BYTES)
                    .map_err(|source| DocumentError::Read { path, source })
            })
            .transpose()?;
        let options = SavedOptions { instance, preempt_rt, kallsyms };
        let saved = read_observations(&files, &options, cancel)?;
        let (_, bound) = bound_of(&saved, view)?;
        Ok::<_, DocumentError>(Document::of(&bound))
    })?;
    made.map_err(|error| raise(&error))?
}

fn view_of(name: &str) -> PyResult<ViewKind> {
    let word = |view: &ViewKind| {
        let word = serde_json::to_value(view).unwrap_or_default();
        word.as_str().unwrap_or_default().replace('_', "-")
    };
    let found = ViewKind::ALL.into_iter().find(|view| word(view) == name.replace('_', "-"));
    found.ok_or_else(|| {
        let names: Vec<String> = ViewKind::ALL.iter().map(word).collect();
        PyValueError::new_err(format!("{name:?} is no view; there are: {}", names.join(", ")))
    })
}

/// The worst wake-ups and jobs of a saved trace, explained: what `latebound explain --trace FILE --format json` prints.
#[pyfunction]
#[pyo3(signature = (trace, *, comm = None, tid = None, rt = false, cycle = None, worst = 10))]
pub(crate) fn explain(
    py: Python<'_>,
    trace: PathBuf,
    comm: Option<String>,
    tid: Option<Tids>,
    rt: bool,
    cycle: Option<String>,
    worst: usize,
) -> PyResult<Document> {
    let watched = match (comm, tid, rt) {
        (Some(comm), None, false) => Watched::Comm(comm),
        (None, Some(tids), false) => Watched::Threads(Vec::from(tids).into_iter().collect()),
        (None, None, true) => Watched::RealTime,
        _ => return Err(PyValueError::new_err("whose wake-ups? Give one of comm=, tid= and rt=True")),
    };
    let cycle = match cycle.as_deref() {
        None if rt => CycleChoice::Off,
        None | Some("auto") => CycleChoice::Recognised,
        Some("off") => CycleChoice::Off,
        Some(call) => CycleChoice::Call(call.to_owned()),
    };
    let made = beside(py, move |cancel| {
        let found = explain_trace(&trace, &watched, &cycle, worst, cancel)?;
        Ok::<_, DocumentError>(Document::of(&found.worst))
    })?;
    made.map_err(|error| raise(&error))?
}

/// One thread, or several.
#[derive(FromPyObject)]
pub(crate) enum Tids {
    #[pyo3(transparent)]
    One(i32),
    #[pyo3(transparent)]
    Several(Vec<i32>),
}

impl From<Tids> for Vec<Tid> {
    fn from(tids: Tids) -> Vec<Tid> {
        match tids {
            Tids::One(tid) => vec![Tid(tid)],
            Tids::Several(tids) => tids.into_iter().map(Tid).collect(),
        }
    }
}

/// What differs between sides of Runs, and how sure that is: what `latebound compare BASE… --against … --format json` prints.
#[pyfunction]
#[pyo3(signature = (base, *against, level = 0.05, margin = 0.05, least_effect = 0.01, anyway = false, fail_if = vec![], seed = 1))]
#[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn compare(
    py: Python<'_>,
    base: Paths,
    against: Vec<Paths>,
    level: f64,
    margin: f64,
    least_effect: f64,
    anyway: bool,
    fail_if: Vec<String>,
    seed: u64,
) -> PyResult<Document> {
    for (name, share) in [("level", level), ("margin", margin), ("least_effect", least_effect)] {
        if !(share > 0.0 && share < 1.0) {
            return Err(PyValueError::new_err(format!(
                "{name}={share} is no share; give a number between 0 and 1"
            )));
        }
    }
    if against.is_empty() {
        return Err(PyValueError::new_err("compare against which Runs? Give them after the baseline"));
    }
    let gates: Vec<Gate> = fail_if
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, latebound_compare::GateError>>()
        .map_err(|error| raise(&error))?;
    let base: Vec<PathBuf> = base.into();
    let against: Vec<Vec<PathBuf>> = against.into_iter().map(Vec::from).collect();
    let options = Options { level, margin, least_effect, seed };
    let made = beside(py, move |_| {
        let (base, others) = sides(&base, &against)?;
        let mut comparison = latebound_compare::compare(&base, &others, &options);
        if !anyway {
            refuse_unlike(&comparison)?;
        }
        Ok::<_, DocumentError>(comparison.rule(&gates).map(|()| Document::of(&comparison)))
    })?;
    made.map_err(|error| raise(&error))?.map_err(|error| raise(&error))?
}

/// From now on, at most so many threads of this process read a trace at once.
#[pyfunction]
pub(crate) fn limit_threads(limit: NonZeroUsize) {
    latebound_saved::limit_threads(limit);
}
