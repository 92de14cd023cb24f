// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is in a store: its partitions, and the files that other programs read.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::FleetError;
use crate::log::{Added, Damage, Level, State};
use crate::partition::{Day, Partition};
use crate::place::DATA;
use crate::store::{AT_ONCE, Store};
use crate::tables::Table;

/// Which partitions.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Those of this day and later ones.
    pub from: Option<Day>,
    /// Those of this day and earlier ones.
    pub to: Option<Day>,
    /// Those of these hosts; of all where there are none.
    pub hosts: Vec<String>,
}

impl Choice {
    pub(crate) fn has(&self, partition: &Partition) -> bool {
        self.from.is_none_or(|from| partition.day >= from)
            && self.to.is_none_or(|to| partition.day <= to)
            && (self.hosts.is_empty() || self.hosts.contains(&partition.host))
    }
}

/// A partition and what its log adds up to.
pub(crate) type PartitionState = (Partition, State);

/// A day of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// The day.
    pub day: String,
    /// The host.
    pub host: String,
    /// Up to which level it is rolled up.
    pub level: Level,
    /// How many Runs count.
    pub intervals: u64,
    /// How many data files count.
    pub files: u64,
    /// How many rows they have.
    pub rows: u64,
    /// How long they are.
    pub bytes: u64,
}

/// What `latebound store list` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListDocument {
    /// `latebound.store-list/1`
    pub schema: &'static str,
    /// Where the store lies.
    pub store: String,
    /// The days of the hosts.
    pub partitions: Vec<Listed>,
    /// Commits that cannot be read; what they said is left out.
    pub damaged: Vec<Damage>,
}

/// What `latebound store files` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FilesDocument {
    /// `latebound.store-files/1`
    pub schema: &'static str,
    /// Where the store lies.
    pub store: String,
    /// The paths of the files of each table; a table without rows has none.
    pub tables: BTreeMap<Table, Vec<String>>,
    /// Files that are missing or shorter or longer than they were, and commits that cannot be read. They are left out.
    pub damaged: Vec<Damage>,
}

/// A data file, for a machine that copies it: see [`Store::copies`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// Its path in the store.
    pub file: String,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
    /// How long it is.
    pub bytes: u64,
}

impl From<&Added> for DataFile {
    fn from(added: &Added) -> DataFile {
        DataFile { file: added.file.clone(), sha256: added.sha256.clone(), bytes: added.bytes }
    }
}

/// The data files of a store by table, and what is damaged and left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DataFiles {
    /// The files of each table; a table without rows has none.
    pub tables: BTreeMap<Table, Vec<DataFile>>,
    /// As of [`FilesDocument`].
    pub damaged: Vec<Damage>,
}

/// What `latebound push` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PushDocument {
    /// `latebound.push/1`
    pub schema: &'static str,
    /// Where the store lies.
    pub store: String,
    /// Runs that count from now on.
    pub added: u64,
    /// Runs that counted before: an earlier push was ended between its commit and the spool.
    pub present: u64,
    /// Runs that could not be read. They are still in the spool.
    pub left: Vec<Damage>,
}

impl PushDocument {
    /// The schema's name.
    pub const SCHEMA: &str = "latebound.push/1";
}

/// What `latebound store simulate` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SimulateDocument {
    /// `latebound.store-simulate/1`
    pub schema: &'static str,
    /// Where the store lies.
    pub store: String,
    /// How many hosts there are.
    pub hosts: u32,
    /// How many Runs of them were added.
    pub added: u64,
}

impl SimulateDocument {
    /// The schema's name.
    pub const SCHEMA: &str = "latebound.store-simulate/1";
}

impl Store {
    /// The states of the partitions of a choice.
    pub(crate) fn states(&self, choice: &Choice) -> Result<(Vec<PartitionState>, Vec<Damage>), FleetError> {
        let (mut partitions, mut damaged) = self.partitions()?;
        partitions.retain(|partition, _| choice.has(partition));
        let read = stream::iter(&partitions).map(|(partition, commits)| async move {
            self.state_of(partition, commits).await.map(|state| (partition.clone(), state))
        });
        let states: Vec<PartitionState> = self.wait(read.buffered(AT_ONCE).try_collect())?;
        damaged.extend(states.iter().flat_map(|(_, state)| state.damaged.iter().cloned()));
        Ok((states, damaged))
    }

    /// What the partitions hold, by their logs alone.
    pub fn contents(&self, choice: &Choice) -> Result<ListDocument, FleetError> {
        let (states, damaged) = self.states(choice)?;
        let listed = |(partition, state): &(Partition, State)| Listed {
            day: partition.day.to_string(),
            host: partition.host.clone(),
            level: state.level,
            intervals: state.runs(),
            files: state.files.len() as u64,
            rows: state.files.values().map(|file| file.rows).sum(),
            bytes: state.files.values().map(|file| file.bytes).sum(),
        };
        // One that was pruned holds nothing.
        let partitions = states.iter().filter(|(_, state)| !state.files.is_empty()).map(listed).collect();
        let schema = "latebound.store-list/1";
        Ok(ListDocument { schema, store: self.location(), partitions, damaged })
    }

    /// The files of these tables, for other programs: those that count and are as long as they were.
    pub fn files(&self, tables: &[Table], choice: &Choice) -> Result<FilesDocument, FleetError> {
        let found = self.data_files(tables, choice)?;
        let paths = |files: &Vec<DataFile>| files.iter().map(|one| self.path_for_others(&one.file)).collect();
        Ok(FilesDocument {
            tables: found.tables.iter().map(|(table, files)| (*table, paths(files))).collect(),
            ..self.files_document(tables, found.damaged)
        })
    }

    /// As [`Store::files`], with what tells whether a copy is the file. None is read.
    pub fn data_files(&self, tables: &[Table], choice: &Choice) -> Result<DataFiles, FleetError> {
        let (states, damaged) = self.states(choice)?;
        let tables_of = tables.iter().map(|table| (*table, Vec::new())).collect();
        let mut found = DataFiles { tables: tables_of, damaged };
        let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
        for table in tables {
            let below = Path::from_iter([DATA, table.name()]);
            sizes.extend(self.list(&below)?.into_iter().map(|meta| (meta.location.to_string(), meta.size)));
        }
        for file in states.iter().flat_map(|(_, state)| state.files.values()) {
            let Some(files) = found.tables.get_mut(&file.table) else { continue };
            match sizes.get(&file.file) {
                Some(size) if *size == file.bytes => files.push(file.into()),
                Some(size) => {
                    let why = format!("it has {size} bytes and was written with {}", file.bytes);
                    found.damaged.push(Damage { file: file.file.clone(), why });
                }
                None => {
                    let why = "it is missing".to_owned();
                    found.damaged.push(Damage { file: file.file.clone(), why });
                }
            }
        }
        Ok(found)
    }

    /// A document without files.
    pub(crate) fn files_document(&self, tables: &[Table], damaged: Vec<Damage>) -> FilesDocument {
        FilesDocument {
            schema: "latebound.store-files/1",
            store: self.location(),
            tables: tables.iter().map(|table| (*table, Vec::new())).collect(),
            damaged,
        }
    }
}
