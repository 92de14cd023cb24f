// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking at every byte of a store. Changes nothing.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::FleetError;
use crate::log::{Added, Damage};
use crate::place::path;
use crate::rows::hex;
use crate::show::{Choice, DataFile};
use crate::store::{Found, MAX_DATA_BYTES, Store};

/// What `latebound store verify` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerifyDocument {
    /// `latebound.store-verify/1`
    pub schema: &'static str,
    /// Where the store lies.
    pub store: String,
    /// How many days of hosts it has.
    pub partitions: u64,
    /// How many Runs count.
    pub intervals: u64,
    /// How many data files count and are whole.
    pub files: u64,
    /// How many rows they have.
    pub rows: u64,
    /// How long they are.
    pub bytes: u64,
    /// Files that are damaged, and commits that cannot be read.
    pub damaged: Vec<Damage>,
}

impl Store {
    /// Reads every file that counts, and compares it with what its commit says.
    pub fn verify(&self) -> Result<VerifyDocument, FleetError> {
        let (states, damaged) = self.states(&Choice::default())?;
        let (schema, store) = ("latebound.store-verify/1", self.location());
        let mut document = VerifyDocument {
            schema,
            store,
            partitions: 0,
            intervals: 0,
            files: 0,
            rows: 0,
            bytes: 0,
            damaged,
        };
        for (_, state) in &states {
            document.partitions += 1;
            document.intervals += state.runs();
            for file in state.files.values() {
                let rows = match self.data(file)? {
                    Ok(bytes) => file.table.check(bytes, file.tables),
                    Err(why) => Err(why),
                };
                let why = match rows {
                    Ok(rows) if rows == file.rows => {
                        document.files += 1;
                        document.rows += rows;
                        document.bytes += file.bytes;
                        continue;
                    }
                    Ok(rows) => format!("it has {rows} rows and was written with {}", file.rows),
                    Err(why) => why,
                };
                document.damaged.push(Damage { file: file.file.clone(), why });
            }
        }
        Ok(document)
    }

    /// The bytes of a data file, if they are those that were written; the inner error says what they are instead.
    pub(crate) fn data(&self, file: &Added) -> Result<Result<Bytes, String>, FleetError> {
        Ok(DataFile::from(file).bytes_of(self.get(&path(&file.file), MAX_DATA_BYTES)?))
    }
}

impl DataFile {
    /// The bytes of the file, if what was found are those that were written; the error says what they are instead.
    pub(crate) fn bytes_of(&self, found: Found) -> Result<Bytes, String> {
        let bytes = match found {
            Found::Bytes(bytes) => bytes,
            Found::Absent => return Err("it is missing".to_owned()),
            Found::Refused(why) => return Err(why),
        };
        if bytes.len() as u64 != self.bytes {
            return Err(format!("it has {} bytes and was written with {}", bytes.len(), self.bytes));
        }
        if hex(&Sha256::digest(&bytes)) != self.sha256 {
            return Err("its bytes are not those that were written (SHA-256)".to_owned());
        }
        Ok(bytes)
    }
}
