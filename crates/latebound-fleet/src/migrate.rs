// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bringing a store to today's tables.
//!
//! Owns that files of earlier versions of the tables are written again with today's columns, in one commit for each partition. After a kill
//! the partitions that were done stay so, and the next call does the others. Readers need none of this: they read every earlier version.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compact::{Compacted, Outcome, damaged};
use crate::error::FleetError;
use crate::log::{Added, Damage};
use crate::partition::Partition;
use crate::store::Store;
use crate::tables::TABLES_VERSION;

/// What `latebound store migrate` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MigrateDocument {
    /// `latebound.store-migrate/1`
    pub schema: &'static str,
    /// Where the store lies.
    pub store: String,
    /// The version of the tables that the store has now.
    pub tables: u32,
    /// The partitions that were changed, with the files that were written again.
    pub partitions: Vec<Compacted>,
    /// Files that are damaged. Their partitions were left as they are.
    pub damaged: Vec<Damage>,
}

impl Store {
    /// Writes files of earlier versions of the tables again, with today's columns.
    pub fn migrate(&self) -> Result<MigrateDocument, FleetError> {
        let (partitions, damaged) = self.each_partition(|partition| self.migrate_one(partition))?;
        let (schema, store) = ("latebound.store-migrate/1", self.location());
        Ok(MigrateDocument { schema, store, tables: TABLES_VERSION, partitions, damaged })
    }

    fn migrate_one(&self, partition: &Partition) -> Result<Outcome, FleetError> {
        let state = self.state(partition)?;
        if !state.damaged.is_empty() {
            return Ok(Outcome::Damaged(state.damaged));
        }
        let older: Vec<&Added> =
            state.files.values().filter(|file| file.tables < file.table.version()).collect();
        // A Run that goes on keeps files of its own.
        let mut groups: BTreeMap<_, Vec<&Added>> = BTreeMap::new();
        for file in &older {
            groups.entry((file.table, file.interval.as_deref())).or_default().push(file);
        }
        let mut written = None;
        for ((_, interval), files) in groups {
            let wrote = match self.read_all(&files) {
                Ok(mut rows) => {
                    rows.sort();
                    self.write_rows(partition, rows, interval)
                }
                Err(error) => {
                    written.iter().for_each(|files| self.discard(files));
                    return damaged(error);
                }
            };
            match wrote {
                Ok(files) => {
                    written = Some(match written.take() {
                        Some(before) => files.join(before),
                        None => files,
                    });
                }
                Err(error) => {
                    written.iter().for_each(|files| self.discard(files));
                    return Err(error);
                }
            }
        }
        match written {
            Some(written) => self.replace(partition, &older, written, state.level),
            None => Ok(Outcome::Nothing),
        }
    }
}
