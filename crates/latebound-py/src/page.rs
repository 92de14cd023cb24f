// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of a fleet, and the pages of its hosts, in a folder.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use latebound_compare::{Comparison, Options, Side};
use latebound_documents::{Division, DocumentError, read_fleet};
use latebound_files::Folder;
use latebound_fleet::{Choice, Day, Store};
use latebound_report::html::{self, Distributions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

use crate::document::Document;
use crate::error::raise;
use crate::work::beside;

/// The folder of the hosts' pages, and the page of their comparison, below that of the fleet.
const HOSTS: &str = "hosts";
const COMPARE: &str = "compare.html";

/// The page of a host.
#[derive(Serialize)]
struct HostPage {
    host: String,
    href: String,
}

/// What was read of the hosts of a store.
#[derive(Serialize)]
struct Hosts {
    hosts: u64,
    days: Option<(String, String)>,
    pages: Vec<HostPage>,
    setting: Option<String>,
    comparison: Option<Comparison>,
    left_out: Vec<(String, String)>,
    damaged: Vec<String>,
}

/// Why the pages were not written.
#[derive(Debug)]
enum PageError {
    Document(DocumentError),
    Write(PathBuf, io::Error),
}

impl From<DocumentError> for PageError {
    fn from(error: DocumentError) -> PageError {
        PageError::Document(error)
    }
}

impl std::fmt::Display for PageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PageError::Document(error) => error.fmt(f),
            PageError::Write(path, _) => write!(f, "cannot write {}", path.display()),
        }
    }
}

impl std::error::Error for PageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PageError::Document(error) => std::error::Error::source(error),
            PageError::Write(_, error) => Some(error),
        }
    }
}

/// Reads each host of a store once, and writes into a folder that is there: the report of each of these hosts below `hosts`, and
/// `compare.html`, the comparison of all hosts by the values of a setting.
#[pyfunction]
#[pyo3(signature = (store, folder, hosts, *, setting = None, base = None, against = vec![], since = None, until = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn fleet_hosts(
    py: Python<'_>,
    store: PathBuf,
    folder: PathBuf,
    hosts: BTreeSet<String>,
    setting: Option<String>,
    base: Option<String>,
    against: Vec<String>,
    since: Option<&str>,
    until: Option<&str>,
) -> PyResult<Document> {
    let day =
        |text: Option<&str>| text.map(|text| text.parse::<Day>().map_err(PyValueError::new_err)).transpose();
    let choice = Choice { from: day(since)?, to: day(until)?, hosts: Vec::new() };
    let division = setting.map(|setting| Division { setting, base, against });
    let made = beside(py, move |_| written(&store, &folder, &hosts, &choice, division.as_ref()))?;
    Document::of(&made.map_err(|error| raise(&error))?)
}

fn written(
    store: &Path,
    folder: &Path,
    wanted: &BTreeSet<String>,
    choice: &Choice,
    division: Option<&Division>,
) -> Result<Hosts, PageError> {
    let write = |path: PathBuf, page: String| {
        latebound_files::write(&path, page).map_err(|error| PageError::Write(path, error))
    };
    let store = Store::open(store).map_err(DocumentError::from)?;
    let (mut hosts, mut pages, mut days) = (0, Vec::new(), None::<(Day, Day)>);
    let (sides, damaged) = read_fleet(&store, choice, division, |of, export| {
        hosts += 1;
        days = match (days, of.days()) {
            (Some(all), Some(one)) => Some((all.0.min(one.0), all.1.max(one.1))),
            (all, one) => all.or(one),
        };
        if !wanted.contains(&of.host) {
            return Ok(());
        }
        let stem = of.file_stem();
        write(folder.join(HOSTS).join(format!("{stem}.html")), html::page(&export.run))?;
        // In an address, the name of the file is encoded once more.
        let href = format!("{HOSTS}/{}.html", stem.replace('%', "%25"));
        pages.push(HostPage { host: of.host.clone(), href });
        Ok::<(), PageError>(())
    })?;
    let options = Options { level: 0.05, margin: 0.05, least_effect: 0.01, seed: 1 };
    let comparison = sides.as_ref().and_then(|sides| sides.compare(&options));
    if let (Some(comparison), Some(sides)) = (&comparison, &sides) {
        let all: Vec<&Side> = sides.sides.iter().collect();
        write(folder.join(COMPARE), html::compare_page(comparison, &Distributions::common(&all)))?;
    }
    let left_out = sides.iter().flat_map(|sides| &sides.left_out);
    let left_out = left_out.map(|one| (one.host.clone(), one.why.clone())).collect();
    let damaged = damaged.iter().map(|one| format!("{}: {}", one.file, one.why)).collect();
    let setting = division.map(|division| division.setting.clone());
    let days = days.map(|(first, last)| (first.to_string(), last.to_string()));
    Ok(Hosts { hosts, days, pages, setting, comparison, left_out, damaged })
}

/// The page of a fleet, of a JSON document with the fields of `FleetPage`.
#[pyfunction]
pub(crate) fn fleet_page(py: Python<'_>, document: &str) -> PyResult<String> {
    let page: html::FleetPage = serde_json::from_str(document).map_err(|error| raise(&error))?;
    Ok(py.detach(|| html::fleet_page(&page)))
}

/// Gives two folders beside each other each other's names, at one moment.
#[pyfunction]
pub(crate) fn exchange(one: PathBuf, other: PathBuf) -> PyResult<()> {
    let swapped = Folder::above(&one).and_then(|(folder, first)| {
        let (_, second) = Folder::above(&other)?;
        folder.exchange(&first, &second)
    });
    swapped.map_err(|error| raise(&PageError::Write(other, error)))
}
