// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of a partition: numbered commits, and the state that they add up to.
//!
//! Owns which data files count. A commit is created if absent, so that of two writers one is first and the other one reads on. A commit
//! that is a snapshot says all that the ones before it said: nobody needs to read those, and after a while they go. Never changes a
//! commit.

use std::collections::BTreeMap;

use jiff::Timestamp;
use latebound_model::RunState;
use object_store::path::Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::COMMIT_SCHEMA;
use crate::error::FleetError;
use crate::partition::Partition;
use crate::place::COMMITS;
use crate::store::{Found, MAX_DOCUMENT_BYTES, Store, changed_at};
use crate::tables::{FIRST, TABLES_VERSION, Table};

/// Up to which length of time rows were added up.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Not at all: the rows of single Runs.
    #[default]
    Interval,
    /// To hours.
    Hour,
    /// To days.
    Day,
}

impl Level {
    /// The word in the column `level`.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Interval => crate::tables::INTERVAL,
            Level::Hour => crate::tables::HOUR,
            Level::Day => crate::tables::DAY,
        }
    }
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Commit {
    /// `latebound.store-commit/1`
    pub schema: String,
    /// When it was made (RFC 3339), by the clock of the writer.
    pub at: String,
    /// What made it, with its version.
    pub tool: String,
    /// The version of the tables that its files have; of several the newest. A reader that does not know it must not leave it out.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub tables: u32,
    /// Whether it holds the whole state, so that the commits before it need not be read.
    #[serde(default)]
    pub snapshot: bool,
    /// Up to which level the partition is rolled up.
    pub level: Level,
    /// Data files that count from now on.
    pub adds: Vec<Added>,
    /// Data files that no longer count, by their paths.
    pub removes: Vec<String>,
    /// Runs that count from now on.
    pub intervals: Vec<Counted>,
}

/// A data file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Added {
    /// The table.
    pub table: Table,
    /// Its path in the store.
    pub file: String,
    /// How many rows it has.
    pub rows: u64,
    /// How long it is.
    pub bytes: u64,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
    /// The version of the tables with which its table last changed when it was written: later columns are not in it.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub tables: u32,
    /// The one Run whose rows it holds, where a later state of that Run may replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}

fn first() -> u32 {
    FIRST
}

/// By reference, as serde gives it.
fn is_first(version: &u32) -> bool {
    *version == FIRST
}

/// The version of the tables that these files need.
pub(crate) fn tables_of<'a>(files: impl IntoIterator<Item = &'a Added>) -> u32 {
    files.into_iter().map(|file| file.tables).max().unwrap_or(FIRST)
}

/// A Run that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// Tells it from every other.
    pub id: String,
    /// How far it got.
    pub state: RunState,
    /// When it began, in microseconds of the wall clock.
    pub start_us: i64,
    /// Until when it is known.
    pub end_us: i64,
}

/// The commits of a partition by number: where each is, and when it was made by the clock of the store.
pub(crate) type Commits = BTreeMap<u64, (Path, Timestamp)>;

/// What is wrong with a file of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// What is wrong.
    pub why: String,
}

/// What the commits of a partition add up to.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The number of the next commit.
    pub(crate) next: u64,
    /// Data files that count, by path.
    pub(crate) files: BTreeMap<String, Added>,
    /// Runs that count, by id.
    pub(crate) intervals: BTreeMap<String, Counted>,
    /// Up to which level it is rolled up.
    pub(crate) level: Level,
    /// Commits that could not be read. What they said is left out.
    pub(crate) damaged: Vec<Damage>,
    /// When the last snapshot was made, by the clock of the store.
    pub(crate) snapshot_at: Option<Timestamp>,
    /// Since when a file does not count any more, by the clock of the store.
    pub(crate) removed: BTreeMap<String, Timestamp>,
    /// How many commits were read.
    pub(crate) commits: usize,
    /// Commits that nobody needs, and since when.
    pub(crate) outdated: Vec<(Path, Timestamp)>,
}

/// What the ids of results of work on files begin with; those of Runs do not.
pub(crate) const RESULT_PREFIX: &str = "result-";

/// Whether an id is that of a result.
fn is_result(id: &str) -> bool {
    id.starts_with(RESULT_PREFIX)
}

impl State {
    /// The data files that hold one Run alone.
    pub(crate) fn files_of(&self, interval: &str) -> impl Iterator<Item = &Added> {
        self.files.values().filter(move |file| file.interval.as_deref() == Some(interval))
    }

    /// How many Runs count.
    pub(crate) fn runs(&self) -> u64 {
        self.intervals.keys().filter(|id| !is_result(id)).count() as u64
    }

    /// Takes what a commit says, or says why it is left out.
    fn apply(&mut self, commit: Commit, at: Timestamp) -> Result<(), String> {
        // No writer makes such a commit. It is there where Runs were added again because a commit was damaged, which was then mended.
        let twice =
            |one: &&Counted| self.intervals.contains_key(&one.id) && self.files_of(&one.id).next().is_none();
        if !commit.snapshot
            && let Some(one) = commit.intervals.iter().find(twice)
        {
            let id = one.id.chars().take(80).collect::<String>();
            return Err(format!("it adds the Run {}, which an earlier commit has added", id.escape_debug()));
        }
        if commit.snapshot {
            self.files.clear();
            self.intervals.clear();
        }
        for file in commit.removes {
            self.files.remove(&file);
            self.removed.insert(file, at);
        }
        // Where a commit between could not be read, the earlier state of a Run is still there, and would count beside the later one.
        let again: Vec<String> = match commit.snapshot {
            true => Vec::new(),
            false => commit
                .intervals
                .iter()
                .flat_map(|one| self.files_of(&one.id))
                .map(|file| file.file.clone())
                .collect(),
        };
        for file in again {
            self.files.remove(&file);
            self.removed.insert(file, at);
        }
        for added in commit.adds {
            self.removed.remove(&added.file);
            self.files.insert(added.file.clone(), added);
        }
        self.intervals.extend(commit.intervals.into_iter().map(|one| (one.id.clone(), one)));
        self.level = if commit.snapshot { commit.level } else { self.level.max(commit.level) };
        Ok(())
    }
}

impl Store {
    /// Every partition that has a log with its commits, in order of day and host, and names in the folder of logs that mean nothing.
    pub(crate) fn partitions(&self) -> Result<(BTreeMap<Partition, Commits>, Vec<Damage>), FleetError> {
        let (mut found, mut foreign) = (BTreeMap::<Partition, Commits>::new(), Vec::new());
        for meta in self.list(&Path::from(COMMITS))? {
            match Partition::of_commit(&meta.location) {
                Some((partition, number)) => {
                    let at = changed_at(&meta);
                    found.entry(partition).or_default().insert(number, (meta.location, at));
                }
                None => {
                    let why = "its name is that of no commit".to_owned();
                    foreign.push(Damage { file: meta.location.to_string(), why });
                }
            }
        }
        Ok((found, foreign))
    }

    /// The state of a partition.
    pub(crate) fn state(&self, partition: &Partition) -> Result<State, FleetError> {
        let mut commits = Commits::new();
        for meta in self.list(&partition.log())? {
            if let Some((found, number)) = Partition::of_commit(&meta.location)
                && found == *partition
            {
                let at = changed_at(&meta);
                commits.insert(number, (meta.location, at));
            }
        }
        self.wait(self.state_of(partition, &commits))
    }

    /// The state of a partition that these commits make.
    pub(crate) async fn state_of(
        &self,
        partition: &Partition,
        commits: &Commits,
    ) -> Result<State, FleetError> {
        let mut state = State::default();
        let Some((&last, _)) = commits.last_key_value() else { return Ok(state) };
        state.next = last.saturating_add(1);
        // Back to the last snapshot, then forward.
        let mut read = Vec::new();
        let mut at = last;
        let since = loop {
            let path = partition.commit(at);
            let time = commits.get(&at).map_or(Timestamp::MIN, |(_, time)| *time);
            let there = match commits.contains_key(&at) {
                true => Some(self.commit(partition, &path).await?),
                false => None,
            };
            match there {
                Some(Ok(commit)) => {
                    let snapshot = commit.snapshot;
                    read.push((commit, time, path));
                    if snapshot {
                        break Some((at, time));
                    }
                }
                Some(Err(why)) => state.damaged.push(Damage { file: path.to_string(), why }),
                None => {
                    let why = "it is missing from the log".to_owned();
                    state.damaged.push(Damage { file: path.to_string(), why });
                    // A number from elsewhere must not make a list without an end.
                    match commits.range(..at).next_back() {
                        Some((&before, _)) => at = before + 1,
                        None => break None,
                    }
                }
            }
            match at.checked_sub(1) {
                Some(before) => at = before,
                None => break None,
            }
        };
        state.damaged.reverse();
        state.commits = read.len();
        for (commit, time, path) in read.into_iter().rev() {
            if let Err(why) = state.apply(commit, time) {
                state.damaged.push(Damage { file: path.to_string(), why });
            }
        }
        if let Some((snapshot, time)) = since {
            state.snapshot_at = Some(time);
            let outdated = commits.range(..snapshot).map(|(_, (path, at))| (path.clone(), (*at).max(time)));
            state.outdated = outdated.collect();
        }
        Ok(state)
    }

    /// A commit; the inner error says why it cannot be used.
    async fn commit(&self, partition: &Partition, path: &Path) -> Result<Result<Commit, String>, FleetError> {
        /// What is looked at first: only with the right schema do the other fields mean what they say.
        #[derive(Deserialize)]
        struct Head {
            schema: String,
            #[serde(default = "first")]
            tables: u32,
        }
        let bytes = match self.get_soon(path, MAX_DOCUMENT_BYTES).await? {
            Found::Bytes(bytes) => bytes,
            Found::Absent => return Ok(Err("it is missing from the log".to_owned())),
            Found::Refused(why) => return Ok(Err(why)),
        };
        let head: Head = match serde_json::from_slice(&bytes) {
            Ok(head) => head,
            Err(error) => return Ok(Err(format!("it is no commit: {error}"))),
        };
        if head.schema != COMMIT_SCHEMA {
            // Left out, it would make sums that are wrong without a word.
            let (file, found) = (path.to_string(), head.schema);
            return Err(FleetError::OtherSchema { file, found, known: COMMIT_SCHEMA });
        }
        if head.tables > TABLES_VERSION {
            let file = path.to_string();
            return Err(FleetError::OtherTables { file, found: head.tables, known: TABLES_VERSION });
        }
        let commit: Commit = match serde_json::from_slice(&bytes) {
            Ok(commit) => commit,
            Err(error) => return Ok(Err(format!("it is no commit: {error}"))),
        };
        let outside = |file: &String| partition.table_of(file).is_none();
        let wrong = |added: &&Added| partition.table_of(&added.file) != Some(added.table);
        let named = commit.adds.iter().find(wrong).map(|added| &added.file);
        if let Some(file) = named.or_else(|| commit.removes.iter().find(|file| outside(file))) {
            return Ok(Err(format!(
                "it names \"{}\", which is no file of its partition",
                file.escape_debug()
            )));
        }
        Ok(Ok(commit))
    }

    /// Adds a commit to a log; `false` where another one has its number.
    pub(crate) fn push(
        &self,
        partition: &Partition,
        number: u64,
        commit: &Commit,
    ) -> Result<bool, FleetError> {
        self.check_gives_once()?;
        let path = partition.commit(number);
        let mut bytes = serde_json::to_vec(commit)
            .map_err(|error| FleetError::Damaged { file: path.to_string(), why: error.to_string() })?;
        bytes.push(b'\n');
        self.create_object(&path, bytes.into())
    }
}
