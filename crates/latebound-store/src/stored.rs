// SPDX-License-Identifier: MIT OR Apache-2.0
//! One table of a Run as bytes of Parquet: of its file, or made of the Run's record as the writer makes it.
//!
//! Owns what a reader of Parquet may take for granted of a file from elsewhere. Never interprets a row.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use latebound_files::Folder;
use latebound_model::Run;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};

use crate::columns::check;
use crate::error::StoreError;
use crate::tables::{self, BLOCK_MAXIMA_FILE, EncodedTable, HISTOGRAMS_FILE, WORST_SPANS_FILE};

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 4 << 30;
/// A reader that goes through a part of a file asks the kernel for so much at once.
const BLOCK: usize = 1 << 16;

/// A table as bytes of Parquet. Readers of the same table do not disturb each other: each read names its place.
#[derive(Clone, Debug)]
pub struct StoredTable {
    place: Place,
    bytes: u64,
    path: PathBuf,
}

#[derive(Clone, Debug)]
enum Place {
    File(Arc<File>),
    Memory(Bytes),
}

impl StoredTable {
    /// The table in this file of a Run's folder. No link is followed.
    pub fn open(run: &Path, file: &str) -> Result<StoredTable, StoreError> {
        let path = run.join(file);
        let read = |source| StoreError::Read { path: path.clone(), source };
        let opened = Folder::open(run).and_then(|folder| folder.open_file(file.as_ref())).map_err(read)?;
        let bytes = opened.metadata().map_err(read)?.len();
        if bytes > MAX_BYTES {
            return Err(StoreError::TooLarge { path, found: bytes, limit: MAX_BYTES, unit: "bytes" });
        }
        Ok(StoredTable { place: Place::File(Arc::new(opened)), bytes, path })
    }

    /// The table that the writer makes of a Run's record; `None` for tables whose rows the record does not hold.
    pub fn of_run(run: &Run, file: &str) -> Result<Option<StoredTable>, StoreError> {
        let table = match file {
            HISTOGRAMS_FILE => tables::histograms(run)?,
            BLOCK_MAXIMA_FILE => tables::block_maxima(run)?,
            WORST_SPANS_FILE => tables::worst_spans(run)?,
            _ => return Ok(None),
        };
        Ok(Some(StoredTable::of(table)))
    }

    pub(crate) fn of(table: EncodedTable) -> StoredTable {
        let bytes = table.bytes.len() as u64;
        StoredTable { place: Place::Memory(table.bytes.into()), bytes, path: table.file.into() }
    }

    /// A table that was read as a whole, from this place.
    pub fn in_memory(bytes: Bytes, path: PathBuf) -> StoredTable {
        StoredTable { bytes: bytes.len() as u64, place: Place::Memory(bytes), path }
    }

    /// Where it was read; of a table that was made, its file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An error about what stands in the table.
    pub fn inconsistent(&self, why: String) -> StoreError {
        StoreError::Inconsistent { path: self.path.clone(), why }
    }

    /// Whether all columns lie within the file: the reader of Parquet takes that for granted.
    pub fn check(&self, metadata: &ParquetMetaData) -> Result<(), StoreError> {
        check(metadata, self.bytes).map_err(|why| self.inconsistent(why))
    }
}

impl Length for StoredTable {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for StoredTable {
    type T = io::BufReader<Part>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(io::BufReader::with_capacity(BLOCK, Part { table: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Before memory is asked for.
        let end = start.checked_add(length as u64).filter(|end| *end <= self.bytes);
        if end.is_none() {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} lie outside the file")));
        }
        match &self.place {
            Place::Memory(bytes) => Ok(bytes.slice(start as usize..start as usize + length)),
            Place::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start)?;
                Ok(bytes.into())
            }
        }
    }
}

/// A table from one place on.
#[derive(Debug)]
pub struct Part {
    table: StoredTable,
    at: u64,
}

impl Read for Part {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &self.table.place {
            Place::File(file) => file.read_at(into, self.at)?,
            Place::Memory(bytes) => bytes.get(self.at as usize..).unwrap_or_default().read(into)?,
        };
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_table_in_a_file_and_in_memory_read_alike() {
        let folder = tempfile::tempdir().expect("a folder");
        let content: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        std::fs::write(folder.path().join("a.parquet"), &content).expect("a file");
        let file = StoredTable::open(folder.path(), "a.parquet").expect("it is there");
        let memory = StoredTable { place: Place::Memory(content.clone().into()), ..file.clone() };
        for table in [file, memory] {
            assert_eq!(table.len(), 100_000);
            assert_eq!(table.get_bytes(99_990, 10).expect("inside"), content[99_990..]);
            for (start, length) in [(99_990, 11), (u64::MAX, 1), (0, usize::MAX)] {
                assert!(table.get_bytes(start, length).is_err(), "{start} {length}");
            }
            // Two at once.
            let (mut one, mut other) =
                (table.get_read(0).expect("open"), table.get_read(50_000).expect("open"));
            let mut bytes = [[0; 1000]; 2];
            one.read_exact(&mut bytes[0]).expect("read");
            other.read_exact(&mut bytes[1]).expect("read");
            assert_eq!((&bytes[0][..], &bytes[1][..]), (&content[..1000], &content[50_000..51_000]));
            let mut rest = Vec::new();
            assert_eq!(table.get_read(200_000).expect("open").read_to_end(&mut rest).expect("the end"), 0);
        }
    }

    #[test]
    fn a_table_behind_a_link_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("elsewhere"), b"x").expect("a file");
        std::os::unix::fs::symlink("elsewhere", folder.path().join("a.parquet")).expect("a link");
        let error = StoredTable::open(folder.path(), "a.parquet").expect_err("a link");
        assert!(matches!(error, StoreError::Read { .. }), "{error}");
    }
}
