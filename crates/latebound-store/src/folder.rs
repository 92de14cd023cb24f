// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Run's folder while it is being written.
//!
//! Until its first checkpoint the folder is a hidden sibling under a name that nobody can guess; then one rename puts it in its
//! place. From then on only whole files are put into it, `run.json` last, because it names the others. The writer
//! holds flock(2) on the folder: a hidden sibling of this user's without a holder is what a dead writer left, and is removed by the
//! next one. Everything is reached through held descriptors (`latebound-files`), as other users may write to the folder above.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use latebound_files::{Folder, is_temporary};
use latebound_model::{Activation, Event, Explanation, Run, Table, WorkloadCurve};
use serde::Deserialize;

use crate::error::StoreError;
use crate::events;
use crate::read::{MAX_RUN_BYTES, encode_run, parse_run};
use crate::tables::{self, EncodedTable, InterruptRow};
use crate::{REPORT_FILE, RUN_FILE, TRACE_FILE};

/// More files than a Run has, or a dead writer can leave of it.
const MOST_FILES: usize = 1_000;

/// A disk gives room back by pages: less than one is not worth what would be lost for it.
const LEAST_FREED: usize = 4096;

/// Who may read a Run: its owner and its group, as far as the umask lets them. It tells names of threads, of files and of functions of
/// the system that was measured.
const FILE_MODE: u32 = 0o640;
/// As [`FILE_MODE`], for the folder.
pub(crate) const FOLDER_MODE: u32 = 0o750;

/// A Run's folder that is being written by this process.
#[derive(Debug)]
pub struct RunFolder {
    /// Where the Run is to be.
    path: PathBuf,
    /// The folder above it.
    parent: Folder,
    /// Its name there.
    name: OsString,
    /// Its name until the first checkpoint; `None` after it.
    hidden: Option<OsString>,
    /// Whether what is in its place may go.
    overwrite: bool,
    /// Tables that were written and that the last `run.json` will name.
    tables: Vec<Table>,
    /// The folder, locked where the file system can: says that its writer lives.
    folder: Folder,
}

/// What is in the place of a Run to come.
enum There {
    Nothing,
    Empty,
    /// A Run, and its files.
    Run(Folder, Vec<OsString>),
}

impl RunFolder {
    /// Prepares to write a Run to `path`. Nothing is to be seen there before the first [`RunFolder::checkpoint`].
    ///
    /// With `overwrite` an empty folder or a Run is replaced, in one step; anything else never is.
    pub fn create(path: impl AsRef<Path>, overwrite: bool) -> Result<RunFolder, StoreError> {
        let path = resolve(path.as_ref())?;
        let make = |source| StoreError::MakeFolder { path: path.clone(), source };
        let (parent, name) = Folder::above(&path).map_err(make)?;
        RunFolder::in_folder(parent, name, path, overwrite)
    }

    /// As [`RunFolder::create`], for a Run of this name in a folder that is held open, whatever becomes of the names above it. `path` is
    /// only named in errors. Nothing is replaced.
    pub fn create_in(parent: &Folder, name: &OsStr, path: PathBuf) -> Result<RunFolder, StoreError> {
        let make = |source| StoreError::MakeFolder { path: path.clone(), source };
        let same = parent.child(".".as_ref()).map_err(make)?;
        RunFolder::in_folder(same, name.to_owned(), path, false)
    }

    fn in_folder(
        parent: Folder,
        name: OsString,
        path: PathBuf,
        overwrite: bool,
    ) -> Result<RunFolder, StoreError> {
        let make = |source| StoreError::MakeFolder { path: path.clone(), source };
        what_is_there(&parent, &name, &path, overwrite)?;
        remove_what_dead_writers_left(&parent);
        let (hidden, folder) = parent.make_locked(FOLDER_MODE).map_err(make)?;
        let hidden = Some(hidden);
        Ok(RunFolder { parent, name, hidden, overwrite, tables: Vec::new(), folder, path })
    }

    /// Where the Run is, or will be after the first checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the Run so far. From the first checkpoint on, the folder is there and can be read at any moment.
    pub fn checkpoint(&mut self, run: &Run) -> Result<(), StoreError> {
        self.write_run(run, Vec::new())
    }

    /// Writes single activations as a table, which [`RunFolder::finish`] names in `run.json`; those of `explained` with the cause that
    /// took the most of their latency, and jobs among them with the time for which they ran and were blocked.
    pub fn write_activations(
        &mut self,
        activations: &[Activation],
        explained: &[Explanation],
    ) -> Result<(), StoreError> {
        self.write_table(tables::activations(activations, explained)?)
    }

    /// Writes events of the kernel as a table, in the order in which they come.
    pub fn write_events(&mut self, events: impl IntoIterator<Item = Event>) -> Result<(), StoreError> {
        self.write_table(events::table(events)?)
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

    /// Writes a Run from a folder whose writer is not believed: only files that a Run has, of at most `limit` bytes each, and
    /// with a page of one's own in the place of what is there.
    pub fn take_over(
        mut self,
        from: &Folder,
        limit: u64,
        report: impl FnOnce(&Run) -> String,
    ) -> Result<Run, StoreError> {
        let shown = self.path.join(RUN_FILE);
        let failed = |name: &str, source| StoreError::Read { path: self.path.join(name), source };
        let bytes = from.read(RUN_FILE.as_ref(), MAX_RUN_BYTES).map_err(|source| failed(RUN_FILE, source))?;
        let run = parse_run(&bytes, &shown)?;
        let copied = run.tables.iter().map(|table| table.file.as_str());
        let lanes = from.has_file(TRACE_FILE.as_ref()).then_some(TRACE_FILE);
        for name in copied.chain(lanes) {
            if name != TRACE_FILE && !tables::FILES.contains(&name) {
                let why = format!("it names a table {name:?}, which no latebound writes");
                return Err(StoreError::Inconsistent { path: shown, why });
            }
            let source = from.open_file(name.as_ref()).map_err(|source| failed(name, source))?;
            let bytes = source.metadata().map_err(|source| failed(name, source))?.len();
            if bytes > limit {
                let path = self.path.join(name);
                return Err(StoreError::TooLarge { path, found: bytes, limit, unit: "bytes" });
            }
            // It may grow meanwhile.
            let mut source = source.take(limit);
            self.folder
                .replace(name.as_ref(), |file| io::copy(&mut source, file).map(drop))
                .map_err(|source| StoreError::Write { path: self.path.join(name), bytes, source })?;
        }
        self.put(REPORT_FILE, report(&run).as_bytes())?;
        self.write_run(&run, run.tables.clone())?;
        Ok(run)
    }

    /// Writes a file whole. Errors name the place that the user knows.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.folder.replace_with_mode(name.as_ref(), FILE_MODE, |file| file.write_all(bytes)).map_err(
            |source| StoreError::Write { path: self.path.join(name), bytes: bytes.len() as u64, source },
        )
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
        let make = |source| StoreError::MakeFolder { path: self.path.clone(), source };
        // Once more: something may have been put there since.
        if let There::Run(old, files) = what_is_there(&self.parent, &self.name, &self.path, self.overwrite)? {
            self.parent
                .exchange(hidden, &self.name)
                .map_err(|source| StoreError::CannotReplace { path: self.path.clone(), source })?;
            // The old Run is now hidden. Should this fail, the next writer in the same folder removes it.
            let _ = remove(&self.parent, hidden, &old, &files);
        } else {
            // rename(2) puts a folder in the place of nothing or of an empty folder, and of nothing else.
            self.parent.rename(hidden, &self.name).map_err(|source| match source.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                    StoreError::Exists { path: self.path.clone(), empty: false }
                }
                _ => make(source),
            })?;
        }
        self.hidden = None;
        self.parent.sync().map_err(make)
    }
}

impl Drop for RunFolder {
    /// Without a checkpoint there is no Run, so nothing is left.
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let files = self.folder.names(MOST_FILES).unwrap_or_default();
            let _ = remove(&self.parent, hidden, &self.folder, &files);
        }
    }
}

/// Removes these files of a folder, and the folder if it is empty then. The record goes last: by it alone the others are known
/// for a Run's, also by whoever comes after a process that was killed here.
fn remove(parent: &Folder, name: &OsStr, folder: &Folder, files: &[OsString]) -> io::Result<()> {
    let (record, others): (Vec<_>, Vec<_>) = files.iter().partition(|file| *file == RUN_FILE);
    for file in others.into_iter().chain(record) {
        match folder.remove_file(file) {
            // One that was unfinished when it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    parent.remove_folder(name)
}

/// Removes a Run of this name: it leaves its place in one step, so that nobody meets a part of it. An error where anything else is there, or where
/// its writer lives.
pub(crate) fn remove_run(parent: &Folder, name: &OsStr) -> Result<(), StoreError> {
    let path = PathBuf::from(name);
    let There::Run(run, files) = what_is_there(parent, name, &path, true)? else {
        return Err(StoreError::NotARun { path, what: "is no Run".to_owned() });
    };
    let gone = |source| StoreError::MakeFolder { path: path.clone(), source };
    match parent.make_locked(FOLDER_MODE) {
        Ok((hidden, _empty)) => {
            // rename(2) puts a folder in the place of an empty one.
            parent.rename(name, &hidden).map_err(|source| {
                let _ = parent.remove_folder(&hidden);
                gone(source)
            })?;
            remove(parent, &hidden, &run, &files).map_err(gone)
        }
        // A full disk may have no room for another name.
        Err(_) => remove(parent, name, &run, &files).map_err(gone),
    }
}

/// Puts a record without [detail](Run::remove_detail) in the place of a Run's own, in one step, and then removes the files beside it. Whether that
/// made a Run smaller that is still there: not where it has little or no detail, or where somebody takes it away meanwhile.
pub(crate) fn thin_run(
    parent: &Folder,
    name: &OsStr,
    remove_detail: impl FnOnce(&mut Run),
) -> Result<bool, StoreError> {
    let path = Path::new(name).join(RUN_FILE);
    let There::Run(run, files) = what_is_there(parent, name, Path::new(name), true)? else {
        return Ok(false);
    };
    // By a descriptor without the lock: whoever takes the Run away does not wait for the disk.
    let folder = run.child(".".as_ref()).map_err(|source| StoreError::Read { path: path.clone(), source })?;
    drop(run);
    let old = folder.read(RUN_FILE.as_ref(), MAX_RUN_BYTES);
    let old = old.map_err(|source| StoreError::Read { path: path.clone(), source })?;
    let mut record = parse_run(&old, &path)?;
    if !record.has_detail() {
        return Ok(false);
    }
    remove_detail(&mut record);
    let new = encode_run(&record, &path)?;
    let others = || files.iter().filter(|file| *file != RUN_FILE);
    if old.len().saturating_sub(new.len()) < LEAST_FREED && others().next().is_none() {
        return Ok(false);
    }
    folder
        .replace_with_mode(RUN_FILE.as_ref(), FILE_MODE, |file| file.write_all(&new))
        .map_err(|source| StoreError::Write { path, bytes: new.len() as u64, source })?;
    // The new record names none of them. What stays here goes with the Run.
    others().for_each(|file| drop(folder.remove_file(file)));
    let there = parent.child(name).and_then(|there| there.identity());
    Ok(there.is_ok_and(|there| folder.identity().is_ok_and(|thinned| thinned == there)))
}

/// The absolute path, through symbolic links where something is there.
fn resolve(path: &Path) -> Result<PathBuf, StoreError> {
    fs::canonicalize(path)
        .or_else(|_| std::path::absolute(path))
        .map_err(|source| StoreError::MakeFolder { path: path.to_owned(), source })
}

/// What is in the place of a Run to come; an error where nothing may be written there.
fn what_is_there(parent: &Folder, name: &OsStr, path: &Path, overwrite: bool) -> Result<There, StoreError> {
    let not_a_run = |what: String| StoreError::NotARun { path: path.to_owned(), what };
    let exists = |empty| StoreError::Exists { path: path.to_owned(), empty };
    let there = match parent.child(name) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(There::Nothing),
        // ELOOP of a symbolic link among them.
        Err(_) if !parent.is_folder(name) => return Err(not_a_run("is not a folder".to_owned())),
        Err(error) => return Err(not_a_run(format!("cannot be opened ({error})"))),
    };
    let names = there.names(MOST_FILES).map_err(|error| not_a_run(format!("cannot be listed ({error})")))?;
    if names.is_empty() {
        return if overwrite { Ok(There::Empty) } else { Err(exists(true)) };
    }
    let named = files_of_run(&there);
    let strange: Vec<&OsString> = names
        .iter()
        .filter(|name| !(named.iter().flatten().any(|ours| ours == *name) || is_temporary(name)))
        // A file that is gone by now was an unfinished one. Asked in this order: its writer can take it away between the two.
        .chain(names.iter().filter(|name| !there.has_file(name) && there.has(name)))
        .collect();
    if named.is_none() {
        return Err(not_a_run(format!("has no {RUN_FILE} of latebound")));
    }
    if !strange.is_empty() {
        return Err(not_a_run(format!("holds {}, which its {RUN_FILE} does not name", listed(&strange))));
    }
    if there.is_locked_by_another() {
        return Err(StoreError::Busy { path: path.to_owned() });
    }
    if overwrite { Ok(There::Run(there, names)) } else { Err(exists(false)) }
}

/// A few names for an error.
fn listed(names: &[&OsString]) -> String {
    const SHOWN: usize = 5;
    let mut shown: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    shown.sort();
    shown.dedup();
    let more = shown.len().saturating_sub(SHOWN);
    shown.truncate(SHOWN);
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The names of a Run's files by its own record; `None` where no latebound wrote a record there.
///
/// A record without tables is that of a writer that was ended on its way: its tables have the names that latebound gives.
fn files_of_run(folder: &Folder) -> Option<Vec<OsString>> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
        #[serde(default)]
        tables: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        file: String,
    }
    let bytes = folder.read(RUN_FILE.as_ref(), MAX_RUN_BYTES).ok()?;
    let head: Head = serde_json::from_slice(&bytes).ok()?;
    if !head.schema.starts_with("latebound.run/") {
        return None;
    }
    let mut files: Vec<OsString> = [RUN_FILE, REPORT_FILE, TRACE_FILE].map(OsString::from).into();
    if head.tables.is_empty() {
        files.extend(tables::FILES.map(OsString::from));
    }
    // A record may come from elsewhere: it cannot name what is no table.
    let tables = head.tables.into_iter().map(|table| table.file);
    files.extend(tables.filter(|file| file.ends_with(".parquet")).map(OsString::from));
    Some(files)
}

/// Removes hidden folders of this user's whose writer is dead, where nothing but a Run's files is in them. Whatever cannot be
/// removed stays: it does no harm.
fn remove_what_dead_writers_left(parent: &Folder) {
    for (name, folder) in parent.left_by_the_dead() {
        let Ok(files) = folder.names(MOST_FILES) else { continue };
        let ours = files_of_run(&folder).unwrap_or_default();
        if files.iter().all(|file| is_temporary(file) || ours.contains(file)) {
            let _ = remove(parent, &name, &folder, &files);
        }
    }
}
