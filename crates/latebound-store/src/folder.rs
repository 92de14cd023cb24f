// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Run's folder while it is being written.
//!
//! Until its first checkpoint the folder is a hidden sibling, `.NAME.PID.N.latebound-tmp`; then one rename puts it in its
//! place. From then on only whole files are put into it, `run.json` last, because it names the others. The writer
//! holds flock(2) on the folder: a hidden sibling without a holder is what a dead writer left, and is removed by the next one.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use latebound_model::{Activation, Run, Table, WorkloadCurve};
use serde::Deserialize;

use crate::atomic::{exchange, replace_file, sync_folder, temporary_name};
use crate::error::StoreError;
use crate::read::encode_run;
use crate::tables::{self, EncodedTable, InterruptRow};
use crate::{REPORT_FILE, RUN_FILE, TRACE_FILE};

const SIBLING_SUFFIX: &str = ".latebound-tmp";

/// A Run's folder that is being written by this process.
#[derive(Debug)]
pub struct RunFolder {
    /// Where the Run is to be.
    path: PathBuf,
    /// The folder above it.
    parent: PathBuf,
    /// Where the files are until the first checkpoint; `None` after it.
    hidden: Option<PathBuf>,
    /// Whether a Run is in the place and has to go.
    replaces: bool,
    /// Tables that were written and that the last `run.json` will name.
    tables: Vec<Table>,
    /// The folder, locked where the file system can: says that its writer lives.
    _lock: File,
}

impl RunFolder {
    /// Prepares to write a Run to `path`. Nothing is to be seen there before the first [`RunFolder::checkpoint`].
    ///
    /// With `overwrite` an empty folder or a Run is replaced, in one step; anything else never is.
    pub fn create(path: impl AsRef<Path>, overwrite: bool) -> Result<RunFolder, StoreError> {
        let path = resolve(path.as_ref())?;
        let replaces = may_write(&path, overwrite)?;
        let make = |source| StoreError::MakeFolder { path: path.clone(), source };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Err(make(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path does not end in a folder's name that is UTF-8",
            )));
        };
        remove_what_dead_writers_left(parent, name);
        let (hidden, lock) = make_hidden(parent, name).map_err(make)?;
        Ok(RunFolder {
            parent: parent.to_owned(),
            hidden: Some(hidden),
            replaces,
            tables: Vec::new(),
            _lock: lock,
            path,
        })
    }

    /// Where the Run is, or will be after the first checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the Run so far. From the first checkpoint on, the folder is there and can be read at any moment.
    pub fn checkpoint(&mut self, run: &Run) -> Result<(), StoreError> {
        self.write_run(run, Vec::new())
    }

    /// Writes single activations as a table, which [`RunFolder::finish`] names in `run.json`.
    pub fn write_activations(&mut self, activations: &[Activation]) -> Result<(), StoreError> {
        self.write_table(tables::activations(activations)?)
    }

    /// Writes single interrupts as a table.
    pub fn write_interrupts<'a>(
        &mut self,
        rows: impl IntoIterator<Item = InterruptRow<'a>>,
    ) -> Result<(), StoreError> {
        self.write_table(tables::interrupts(rows)?)
    }

    /// Writes workload curves as a table.
    pub fn write_workload_curves(&mut self, curves: &[WorkloadCurve]) -> Result<(), StoreError> {
        self.write_table(tables::workload_curves(curves)?)
    }

    /// Writes lanes of time for a trace viewer.
    pub fn write_trace(&mut self, json: &str) -> Result<(), StoreError> {
        self.put(TRACE_FILE, json.as_bytes())
    }

    /// Writes the tables, the page and at last the Run that names them. Before all these, the Run without them: where
    /// the disk has no room for the page, it may have room for that.
    pub fn finish(self, run: &Run, report_html: Option<&str>) -> Result<(), StoreError> {
        self.finish_with(run, |_| report_html.map(str::to_owned)).map(drop)
    }

    /// As [`RunFolder::finish`], with a page made of the Run as it is written: with its tables. Gives that Run.
    pub fn finish_with(
        mut self,
        run: &Run,
        report: impl FnOnce(&Run) -> Option<String>,
    ) -> Result<Run, StoreError> {
        self.write_run(run, Vec::new())?;
        for table in [tables::histograms(run)?, tables::block_maxima(run)?, tables::worst_spans(run)?] {
            self.write_table(table)?;
        }
        let run = Run { tables: std::mem::take(&mut self.tables), ..run.clone() };
        if let Some(page) = report(&run) {
            self.put(REPORT_FILE, page.as_bytes())?;
        }
        self.write_run(&run, run.tables.clone())?;
        Ok(run)
    }

    /// Writes a file whole. Errors name the place that the user knows.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let folder = self.hidden.as_deref().unwrap_or(&self.path);
        replace_file(folder, name, bytes).map_err(|source| StoreError::Write {
            path: self.path.join(name),
            bytes: bytes.len() as u64,
            source,
        })
    }

    fn write_table(&mut self, table: EncodedTable) -> Result<(), StoreError> {
        self.put(table.file, &table.bytes)?;
        self.tables.retain(|written| written.file != table.file);
        self.tables.push(Table {
            file: table.file.to_owned(),
            description: table.description.to_owned(),
            rows: table.rows,
        });
        Ok(())
    }

    fn write_run(&mut self, run: &Run, tables: Vec<Table>) -> Result<(), StoreError> {
        let run = Run { tables, ..run.clone() };
        let bytes = encode_run(&run, &self.path.join(RUN_FILE))?;
        self.put(RUN_FILE, &bytes)?;
        self.publish()
    }

    /// Puts the folder in its place, in one step.
    fn publish(&mut self) -> Result<(), StoreError> {
        let Some(hidden) = &self.hidden else { return Ok(()) };
        if self.replaces {
            exchange(hidden, &self.path)
                .map_err(|source| StoreError::CannotReplace { path: self.path.clone(), source })?;
            // The old Run is now hidden. Should this fail, the next writer to the same place removes it.
            let _ = fs::remove_dir_all(hidden);
        } else {
            // rename(2) puts a folder in the place of nothing or of an empty folder, and of nothing else.
            fs::rename(hidden, &self.path).map_err(|source| match source.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                    StoreError::Exists { path: self.path.clone(), empty: false }
                }
                _ => StoreError::MakeFolder { path: self.path.clone(), source },
            })?;
        }
        self.hidden = None;
        sync_folder(&self.parent).map_err(|source| StoreError::MakeFolder { path: self.path.clone(), source })
    }
}

impl Drop for RunFolder {
    /// Without a checkpoint there is no Run, so nothing is left.
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = fs::remove_dir_all(hidden);
        }
    }
}

/// The absolute path, through symbolic links where something is there.
fn resolve(path: &Path) -> Result<PathBuf, StoreError> {
    fs::canonicalize(path)
        .or_else(|_| std::path::absolute(path))
        .map_err(|source| StoreError::MakeFolder { path: path.to_owned(), source })
}

/// Whether a Run is at `path` that has to be replaced; an error where nothing may be written there.
fn may_write(path: &Path, overwrite: bool) -> Result<bool, StoreError> {
    let not_a_run = |what: String| StoreError::NotARun { path: path.to_owned(), what };
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return match fs::symlink_metadata(path) {
                Ok(_) => Err(not_a_run("is not a folder".to_owned())),
                Err(source) => Err(StoreError::MakeFolder { path: path.to_owned(), source }),
            };
        }
        Err(error) => return Err(not_a_run(format!("cannot be listed ({error})"))),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| not_a_run(format!("cannot be listed ({error})")))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_ours(&name) || entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return Err(not_a_run(format!("holds \"{name}\", which latebound did not write")));
        }
        names.push(name);
    }
    if names.is_empty() {
        return if overwrite {
            Ok(false)
        } else {
            Err(StoreError::Exists { path: path.to_owned(), empty: true })
        };
    }
    if !is_run_file(&path.join(RUN_FILE)) {
        return Err(not_a_run(format!("has no {RUN_FILE} of latebound")));
    }
    match File::open(path).map(|folder| folder.try_lock()) {
        Ok(Err(TryLockError::WouldBlock)) => Err(StoreError::Busy { path: path.to_owned() }),
        _ if overwrite => Ok(true),
        _ => Err(StoreError::Exists { path: path.to_owned(), empty: false }),
    }
}

/// Whether latebound writes files of this name into a Run's folder.
fn is_ours(name: &str) -> bool {
    let whole = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".tmp")).unwrap_or(name);
    (whole == RUN_FILE || whole == REPORT_FILE || whole == TRACE_FILE || whole.ends_with(".parquet"))
        && (whole == name || temporary_name(whole) == name)
}

/// Whether this is a `run.json` of any latebound.
fn is_run_file(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let head = File::open(path)
        .ok()
        .and_then(|file| serde_json::from_reader::<_, Head>(io::BufReader::new(file)).ok());
    head.is_some_and(|head| head.schema.starts_with("latebound.run/"))
}

/// Makes a hidden folder beside the one to come, and locks it.
fn make_hidden(parent: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let pid = std::process::id();
    let mut number = 0u64;
    loop {
        let hidden = parent.join(format!(".{name}.{pid}.{number}{SIBLING_SUFFIX}"));
        number += 1;
        match fs::create_dir(&hidden) {
            Ok(()) => {}
            // Another thread's, or that of a process of the same number in another pid namespace.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        let Ok(folder) = File::open(&hidden) else { continue };
        // Not every file system can lock a folder (NFS); there, nobody removes what another left.
        let _ = folder.try_lock();
        // Another writer may have taken the folder for a dead one's before it was locked.
        let ours = folder.metadata()?;
        if fs::metadata(&hidden).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok((hidden, folder));
        }
    }
}

/// Removes hidden folders for the Run `name` whose writer is dead. Whatever cannot be removed stays: it does no harm.
fn remove_what_dead_writers_left(parent: &Path, name: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let file_name = entry.file_name();
        if !file_name.to_str().is_some_and(|found| is_hidden_sibling(found, name)) {
            continue;
        }
        let Ok(folder) = File::open(entry.path()) else { continue };
        if folder.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether `found` is `.NAME.PID.N.latebound-tmp`.
fn is_hidden_sibling(found: &str, name: &str) -> bool {
    let numbers = found
        .strip_prefix('.')
        .and_then(|rest| rest.strip_prefix(name))
        .and_then(|rest| rest.strip_prefix('.'))
        .and_then(|rest| rest.strip_suffix(SIBLING_SUFFIX))
        .and_then(|rest| rest.split_once('.'));
    numbers.is_some_and(|(pid, number)| {
        [pid, number].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    })
}
