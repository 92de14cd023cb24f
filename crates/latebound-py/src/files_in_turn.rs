// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a table of a store as a stream of Arrow. Each stream reads the files that counted when it was opened, one at a time.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use latebound_fleet::{TableFile, WholeTable};
use latebound_store::StoredTable;

use crate::stream::{Batches, batches};

/// A file of a store as a table.
pub(crate) fn stored(file: TableFile) -> StoredTable {
    StoredTable::in_memory(file.bytes, file.file.into())
}

/// The parts of a table of a store, file after file.
pub(crate) struct FilesInTurn {
    files: WholeTable,
    parts: Option<Batches>,
}

impl FilesInTurn {
    /// From the first file on.
    pub(crate) fn of(files: WholeTable) -> FilesInTurn {
        FilesInTurn { files, parts: None }
    }
}

impl Iterator for FilesInTurn {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let failed = |error: &dyn std::error::Error| ArrowError::ExternalError(error.to_string().into());
        loop {
            if let Some(part) = self.parts.as_mut().and_then(Iterator::next) {
                return Some(part);
            }
            self.parts = match self.files.next()? {
                Ok(file) => match batches(&stored(file)) {
                    Ok(parts) => Some(parts),
                    Err(error) => return Some(Err(failed(&error))),
                },
                Err(error) => return Some(Err(failed(&error))),
            };
        }
    }
}
