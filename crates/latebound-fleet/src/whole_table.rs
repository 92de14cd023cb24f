// SPDX-License-Identifier: MIT OR Apache-2.0
//! One table of a store for a program that takes it row by row: file after file, with the columns of today.
//!
//! Owns that a file of an earlier version has today's columns, and that bytes are those that were committed. One file is in memory at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::FleetError;
use crate::log::{Added, Damage};
use crate::show::Choice;
use crate::store::Store;
use crate::tables::{Rows, Table};

/// The files of a table that counted when it was opened.
#[derive(Clone, Debug)]
pub struct WholeTable {
    store: Arc<Store>,
    table: Table,
    files: VecDeque<Added>,
}

/// A file of a table.
#[derive(Clone, Debug)]
pub struct TableFile {
    /// Its path in the store.
    pub file: String,
    /// A file of Parquet with today's columns.
    pub bytes: Bytes,
}

impl Store {
    /// The rows of a table in the partitions of a choice, and the commits that cannot be read and are left out.
    pub fn whole_table(
        self: Arc<Store>,
        table: Table,
        choice: &Choice,
    ) -> Result<(WholeTable, Vec<Damage>), FleetError> {
        let (states, damaged) = self.states(choice)?;
        let files = states.iter().flat_map(|(_, state)| state.files.values());
        let files = files.filter(|file| file.table == table).cloned().collect();
        Ok((WholeTable { store: self, table, files }, damaged))
    }
}

impl WholeTable {
    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// A file without rows.
    pub fn empty_file(&self) -> Result<TableFile, FleetError> {
        let bytes = Rows::empty_file(self.table)?.into();
        Ok(TableFile { file: self.table.name().to_owned(), bytes })
    }

    fn read(&self, file: Added) -> Result<TableFile, FleetError> {
        let damaged = |why| FleetError::Damaged { file: file.file.clone(), why };
        let bytes = self.store.data(&file)?.map_err(damaged)?;
        if file.tables >= self.table.version() {
            return Ok(TableFile { file: file.file, bytes });
        }
        let mut rows = Rows::default();
        rows.read(self.table, bytes, file.tables).map_err(damaged)?;
        match rows.into_files()?.pop() {
            Some((_, bytes, _)) => Ok(TableFile { file: file.file, bytes: bytes.into() }),
            None => self.empty_file(),
        }
    }
}

impl Iterator for WholeTable {
    type Item = Result<TableFile, FleetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let file = self.files.pop_front()?;
        Some(self.read(file))
    }
}
