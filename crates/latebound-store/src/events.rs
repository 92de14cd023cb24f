// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of the kernel's events in a stretch of time, and the way back from it.
//!
//! A row has what people ask for in columns of its own, and the whole event as JSON, as in the model. Reading takes that alone. Every file is
//! taken for one from elsewhere.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use latebound_files::Folder;
use latebound_model::{Cpu, Event, EventKind, Nanos, Task, Tid};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::columns::Values;
use crate::error::StoreError;
use crate::stored::StoredTable;
use crate::tables::{EVENTS_FILE, EncodedTable, columns};

/// An event as JSON is no longer: a stack has 61 frames of names.
const MAX_EVENT_BYTES: usize = 1 << 16;

const AT: &str = "at_ns";
const CPU: &str = "cpu";
const CURRENT: &str = "current_tid";
const EVENT: &str = "event";

struct Row {
    event: Event,
    /// The word of the model.
    kind: String,
    json: String,
}

impl Row {
    fn of(event: Event) -> Row {
        let json = serde_json::to_string(&event.kind).unwrap_or_default();
        // {"switch":{…}}, or "scheduler_entry" where there is no more to say.
        let kind = json.split('"').nth(1).unwrap_or_default().to_owned();
        Row { event, kind, json }
    }

    /// The thread that it is about: of a switch, the one that runs from then on.
    fn task(&self) -> Option<&Task> {
        match &self.event.kind {
            EventKind::Waking { task } => Some(task),
            EventKind::Switch { next, .. } => Some(next),
            _ => None,
        }
    }

    fn tid(&self) -> Option<i32> {
        match &self.event.kind {
            EventKind::Migrate { tid, .. } | EventKind::NeedResched { tid, .. } => Some(tid.0),
            EventKind::SwitchedOut { tid, .. } => Some(tid.0),
            _ => self.task().map(|task| task.tid.0),
        }
    }
}

pub(crate) fn table(events: impl IntoIterator<Item = Event>) -> Result<EncodedTable, StoreError> {
    let columns = columns! {
        "at_ns": U64(|row: &Row| row.event.at.0),
        "cpu": U32(|row: &Row| row.event.cpu.0),
        "kind": Text(|row: &Row| &row.kind),
        "current_tid": OptionalI32(|row: &Row| row.event.current.map(|tid| tid.0)),
        "tid": OptionalI32(|row: &Row| row.tid()),
        "comm": OptionalText(|row: &Row| row.task().map(|task| task.comm.as_str())),
        "event": Text(|row: &Row| &row.json),
    };
    let rows = events.into_iter().map(Row::of);
    crate::tables::table(EVENTS_FILE, "one event of the kernel in the saved stretch", &columns, rows)
}

impl StoredTable {
    /// The table that the writer makes of these events.
    pub fn of_events(events: impl IntoIterator<Item = Event>) -> Result<StoredTable, StoreError> {
        Ok(StoredTable::of(table(events)?))
    }
}

/// Whether the folder of a Run has a table of events.
pub fn has_events(run: &Path) -> bool {
    Folder::open(run).is_ok_and(|folder| folder.has_file(EVENTS_FILE.as_ref()))
}

/// Gives the events of the folder of a Run to `visit`, in the order of the table: CPU by CPU, by time.
pub fn visit_events(run: &Path, mut visit: impl FnMut(Event)) -> Result<(), StoreError> {
    let table = StoredTable::open(run, EVENTS_FILE)?;
    // The reader of Parquet trusts what it has checked, and panics where that contradicts itself.
    let read = catch_unwind(AssertUnwindSafe(|| rows(&table, &mut visit)));
    read.unwrap_or_else(|_| {
        Err(table.inconsistent("its reader met a contradiction; the file is damaged".to_owned()))
    })
}

fn rows(table: &StoredTable, visit: &mut impl FnMut(Event)) -> Result<(), StoreError> {
    let wrong = |why| table.inconsistent(why);
    let text = |error: ParquetError| wrong(error.to_string());
    let reader = SerializedFileReader::new(table.clone()).map_err(text)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let place = |name: &str| {
        let found = schema.columns().iter().position(|column| column.name() == name);
        found.ok_or_else(|| wrong(format!("it has no column {name}")))
    };
    let places = [place(AT)?, place(CPU)?, place(CURRENT)?, place(EVENT)?];
    table.check(reader.metadata())?;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(text)?;
        let column = |at: usize| group.get_column_reader(places[at]).map_err(text);
        let (ColumnReader::Int64ColumnReader(at), ColumnReader::Int32ColumnReader(cpu)) =
            (column(0)?, column(1)?)
        else {
            return Err(wrong("its times or CPUs are no numbers".to_owned()));
        };
        let (ColumnReader::Int32ColumnReader(current), ColumnReader::ByteArrayColumnReader(json)) =
            (column(2)?, column(3)?)
        else {
            return Err(wrong("its threads are no numbers, or its events no texts".to_owned()));
        };
        let mut columns = Columns {
            at: Values::<Int64Type>::new(at),
            cpu: Values::<Int32Type>::new(cpu),
            current: Values::<Int32Type>::new(current),
            json: Values::<ByteArrayType>::new(json),
        };
        while let Some(events) = columns.next().map_err(wrong)? {
            events.into_iter().for_each(&mut *visit);
        }
    }
    Ok(())
}

/// The columns of a group of rows, read a part at a time.
struct Columns {
    at: Values<Int64Type>,
    cpu: Values<Int32Type>,
    current: Values<Int32Type>,
    json: Values<ByteArrayType>,
}

impl Columns {
    fn next(&mut self) -> Result<Option<Vec<Event>>, String> {
        let count = self.at.read()?;
        if [self.cpu.read()?, self.current.read()?, self.json.read()?] != [count; 3] {
            return Err("its columns differ in length".to_owned());
        }
        let mut events = Vec::with_capacity(count);
        for row in 0..count {
            let event = |why: &str| format!("row {row} of a group {why}");
            let (Some(at), Some(cpu), Some(json)) =
                (self.at.value(row), self.cpu.value(row), self.json.value(row))
            else {
                return Err(event("has no time, CPU or event"));
            };
            if json.len() > MAX_EVENT_BYTES {
                return Err(event("is too long"));
            }
            let kind = serde_json::from_slice(json.data())
                .map_err(|error| event(&format!("is no event: {error}")))?;
            let current = self.current.value(row).map(|tid| Tid(*tid));
            let (at, cpu) = (Nanos(at.cast_unsigned()), Cpu(cpu.cast_unsigned()));
            events.push(Event { at, cpu, kind, current });
        }
        Ok((count > 0).then_some(events))
    }
}
