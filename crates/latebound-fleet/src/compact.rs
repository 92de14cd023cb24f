// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making a store smaller: rolling up, removing old days, and removing what nobody needs.
//!
//! Owns that a sum takes the place of its parts in one commit. Never touches a partition whose log is damaged, except to prune it, because
//! what looks useless there may be all that is left.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path as FsPath;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use latebound_model::RunState;
use object_store::path::Path;
use schemars::JsonSchema;
use serde::Serialize;

use crate::add::{TRIES, Written};
use crate::at_once::at_once;
use crate::error::FleetError;
use crate::log::{Added, Commit, Damage, Level, State, tables_of};
use crate::partition::{DAY_US, Day, HOUR_US, Partition};
use crate::place::{COMMITS, DATA, path};
use crate::rollup::{RollUp, Unit};
use crate::show::{Choice, PartitionState};
use crate::store::{Store, changed_at};
use crate::tables::{Rows, Table};
use crate::{COMMIT_SCHEMA, GRACE, TOOL};

/// Files are put together above this number, also where nothing is to be added up.
const MANY_FILES: usize = 64;

/// An hour or a day is added up so long after its end: Runs that began in it may still come.
const SETTLED_US: i64 = HOUR_US;

/// A Run that goes on is added up so long after it was last heard of. Until then a later state may replace it.
const SILENT_US: i64 = DAY_US;

/// How a store is rolled up.
#[derive(Clone, Copy, Debug)]
pub struct CompactOptions {
    /// To hours or to days.
    pub to: Level,
    /// The time: hours and days that ended an hour before are rolled up.
    pub now: Timestamp,
    /// For so long a file stays that does not count.
    pub grace: Duration,
}

impl CompactOptions {
    /// To this level, by the clock.
    pub fn to(level: Level) -> CompactOptions {
        CompactOptions { to: level, now: Timestamp::now(), grace: GRACE }
    }
}

/// A partition that became smaller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Compacted {
    /// The day.
    pub day: String,
    /// The host.
    pub host: String,
    /// How many data files counted before.
    pub files_before: u64,
    /// How many count now.
    pub files_after: u64,
    /// How long they were.
    pub bytes_before: u64,
    /// How long they are.
    pub bytes_after: u64,
}

/// What `latebound store compact` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CompactDocument {
    /// `latebound.store-compact/1`
    pub schema: &'static str,
    /// Where the store lies.
    pub store: String,
    /// The partitions that were changed.
    pub partitions: Vec<Compacted>,
    /// How many files were removed that nobody needs.
    pub removed_files: u64,
    /// How long they were.
    pub removed_bytes: u64,
    /// Files that are damaged. Their partitions were left as they are.
    pub damaged: Vec<Damage>,
}

/// What `latebound store prune` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PruneDocument {
    /// `latebound.store-prune/1`
    pub schema: &'static str,
    /// Where the store lies.
    pub store: String,
    /// The partitions that were emptied, as `files_before` and `bytes_before` of each say.
    pub partitions: Vec<Compacted>,
}

/// How rolling up or migrating a partition ended.
pub(crate) enum Outcome {
    Nothing,
    Done(Compacted),
    Damaged(Vec<Damage>),
    /// Others took away what was added up.
    Again,
}

impl Store {
    /// Rolls up, puts small files together, and removes what nobody needs.
    pub fn compact(&self, options: CompactOptions) -> Result<CompactDocument, FleetError> {
        let (done, damaged) = self.each_partition(|partition| self.compact_one(partition, options))?;
        let (removed_files, removed_bytes) = self.clean(options.grace)?;
        let schema = "latebound.store-compact/1";
        let store = self.location();
        Ok(CompactDocument { schema, store, partitions: done, removed_files, removed_bytes, damaged })
    }

    /// Does something to each partition, again where others changed it meanwhile: what was done, and what is damaged. Partitions have
    /// nothing to do with each other, so each processor has one.
    pub(crate) fn each_partition(
        &self,
        act: impl Fn(&Partition) -> Result<Outcome, FleetError> + Sync,
    ) -> Result<(Vec<Compacted>, Vec<Damage>), FleetError> {
        let (partitions, mut damaged) = self.partitions()?;
        let partitions: Vec<Partition> = partitions.into_keys().collect();
        let outcomes = at_once(&partitions, |partition| {
            for _ in 0..TRIES {
                match act(partition)? {
                    Outcome::Again => {}
                    outcome => return Ok(outcome),
                }
            }
            Err(FleetError::Contended { partition: partition.clone(), tries: TRIES })
        })?;
        let mut done = Vec::new();
        for outcome in outcomes {
            match outcome {
                Outcome::Nothing | Outcome::Again => {}
                Outcome::Done(compacted) => done.push(compacted),
                Outcome::Damaged(of) => damaged.extend(of),
            }
        }
        Ok((done, damaged))
    }

    fn compact_one(&self, partition: &Partition, options: CompactOptions) -> Result<Outcome, FleetError> {
        let state = self.state(partition)?;
        if !state.damaged.is_empty() {
            return Ok(Outcome::Damaged(state.damaged));
        }
        let now = options.now.as_microsecond();
        let goes_on = |file: &&Added| {
            let of = file.interval.as_ref().and_then(|id| state.intervals.get(id));
            of.is_some_and(|of| of.state == RunState::Running && of.end_us.saturating_add(SILENT_US) > now)
        };
        let inputs: Vec<&Added> = state.files.values().filter(|file| !goes_on(file)).collect();
        let over_by = now.saturating_sub(SETTLED_US);
        let mut rows = match self.read_all(inputs.iter().filter(|file| file.table == Table::Intervals)) {
            Ok(rows) => rows,
            Err(error) => return damaged(error),
        };
        let units = match options.to {
            Level::Day => &[Unit::Hour, Unit::Day][..],
            _ => &[Unit::Hour],
        };
        let joins = |unit: &Unit| {
            let ends = |us| Unit::is_over(*unit, us, over_by);
            rows.intervals.iter().any(|row| *row.level == *unit.below() && ends(row.start_us))
        };
        let rolls = units.iter().any(joins);
        if !rolls && inputs.len() <= MANY_FILES {
            return Ok(Outcome::Nothing);
        }
        drop(std::mem::take(&mut rows));
        let overflow = |what| FleetError::Overflow { partition: partition.clone(), what };
        let mut sums = RollUp::new(Unit::Hour, over_by);
        for file in &inputs {
            match self.read_all([file]) {
                Ok(rows) => sums.add(&rows).map_err(overflow)?,
                Err(error) => return damaged(error),
            }
        }
        let mut rows = sums.finish();
        if options.to == Level::Day {
            let mut sums = RollUp::new(Unit::Day, over_by);
            sums.add(&rows).map_err(overflow)?;
            rows = sums.finish();
        }
        let written = self.write_rows(partition, rows, None)?;
        let level = if rolls { state.level.max(options.to) } else { state.level };
        self.replace(partition, &inputs, written, level)
    }

    /// Rows of data files. The inner error is a damage.
    pub(crate) fn read_all<'a>(
        &self,
        files: impl IntoIterator<Item = &'a &'a Added>,
    ) -> Result<Rows, Result<Damage, FleetError>> {
        let mut rows = Rows::default();
        for file in files {
            let bytes = match self.data(file) {
                Ok(Ok(bytes)) => bytes,
                Ok(Err(why)) => return Err(Ok(Damage { file: file.file.clone(), why })),
                Err(error) => return Err(Err(error)),
            };
            match rows.read(file.table, bytes, file.tables) {
                Ok(found) if found == file.rows => {}
                Ok(found) => {
                    let why = format!("it has {found} rows and was written with {}", file.rows);
                    return Err(Ok(Damage { file: file.file.clone(), why }));
                }
                Err(why) => return Err(Ok(Damage { file: file.file.clone(), why })),
            }
        }
        Ok(rows)
    }

    /// Puts files in the place of others, in one commit.
    pub(crate) fn replace(
        &self,
        partition: &Partition,
        inputs: &[&Added],
        written: Written,
        level: Level,
    ) -> Result<Outcome, FleetError> {
        for _ in 0..TRIES {
            let state = self.state(partition)?;
            let there = inputs.iter().all(|file| state.files.contains_key(&file.file));
            if !there || !state.damaged.is_empty() || written.is_old() {
                self.discard(&written);
                return Ok(if state.damaged.is_empty() {
                    Outcome::Again
                } else {
                    Outcome::Damaged(state.damaged)
                });
            }
            let commit = snapshot(&state, inputs, &written.files, level);
            let bytes = |files: &[Added]| files.iter().map(|file| file.bytes).sum::<u64>();
            match self.push(partition, state.next, &commit) {
                Ok(true) if self.counts(partition, state.next, &commit)? => {
                    return Ok(Outcome::Done(Compacted {
                        day: partition.day.to_string(),
                        host: partition.host.clone(),
                        files_before: inputs.len() as u64,
                        files_after: written.files.len() as u64,
                        bytes_before: inputs.iter().map(|file| file.bytes).sum(),
                        bytes_after: bytes(&written.files),
                    }));
                }
                Ok(_) => {}
                Err(error) => {
                    if self.is_absent(partition, state.next) {
                        self.discard(&written);
                    }
                    return Err(error);
                }
            }
        }
        self.discard(&written);
        Err(FleetError::Contended { partition: partition.clone(), tries: TRIES })
    }

    /// Empties the partitions of the days before another, and removes their files at once.
    pub fn prune(&self, before: Day) -> Result<PruneDocument, FleetError> {
        let (partitions, _) = self.partitions()?;
        let mut done = Vec::new();
        for partition in partitions.into_keys().filter(|partition| partition.day < before) {
            let state = self.empty(&partition)?;
            for file in state.files.values() {
                self.remove(&path(&file.file))?;
            }
            if !state.files.is_empty() {
                done.push(Compacted {
                    day: partition.day.to_string(),
                    host: partition.host.clone(),
                    files_before: state.files.len() as u64,
                    files_after: 0,
                    bytes_before: state.files.values().map(|file| file.bytes).sum(),
                    bytes_after: 0,
                });
            }
        }
        Ok(PruneDocument { schema: "latebound.store-prune/1", store: self.location(), partitions: done })
    }

    /// Makes a partition hold nothing; the state that it had. On a full disk the largest files go before the commit that says so, which needs
    /// their room: after a kill in between they are damage, until the partition is pruned again.
    fn empty(&self, partition: &Partition) -> Result<State, FleetError> {
        let mut gone = 0;
        for _ in 0..TRIES {
            let state = self.state(partition)?;
            if state.files.is_empty() && state.intervals.is_empty() && state.damaged.is_empty() {
                return Ok(state);
            }
            let mut all: Vec<&Added> = state.files.values().collect();
            all.sort_by_key(|file| Reverse(file.bytes));
            let mut commit = snapshot(&state, &all, &[], Level::Interval);
            commit.intervals.clear();
            match self.push(partition, state.next, &commit) {
                Ok(true) => return Ok(state),
                Ok(false) => {}
                Err(error) if error.is_full() => {
                    self.remove(&path(&all.get(gone).ok_or(error)?.file))?;
                    gone += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Err(FleetError::Contended { partition: partition.clone(), tries: TRIES })
    }

    /// Removes files that do not count, and commits that nobody reads, once they are older than `grace`. How many data files, and how long
    /// they were.
    fn clean(&self, grace: Duration) -> Result<(u64, u64), FleetError> {
        // The files first: what is committed between the two counts.
        let found = self.list(&Path::from(DATA))?;
        let (states, _) = self.states(&Choice::default())?;
        let by_name: BTreeMap<String, &PartitionState> =
            states.iter().map(|of| (of.0.to_string(), of)).collect();
        let now = Timestamp::now();
        let is_old = |at: Timestamp| now.duration_since(at).unsigned_abs() >= grace && at <= now;
        let (mut files, mut bytes) = (0, 0);
        for meta in found {
            let file = meta.location.to_string();
            let at = changed_at(&meta);
            // data/TABLE/day=…/host=…/NAME: what is named otherwise is nobody's.
            let parts: Vec<&str> = file.split('/').collect();
            let [_, _, day, host, _] = parts[..] else { continue };
            let since = match by_name.get(&format!("{day}/{host}")) {
                Some((partition, state)) => {
                    let ours = partition.table_of(&file).is_some();
                    if !ours || !state.damaged.is_empty() || state.files.contains_key(&file) {
                        continue;
                    }
                    // Before the last snapshot nobody remembers when it was removed.
                    let removed = state.removed.get(&file).copied().or(state.snapshot_at);
                    removed.map_or(at, |removed| removed.max(at))
                }
                // The first commit of a partition was never made.
                None if Partition::is_data(&file) => at,
                None => continue,
            };
            if is_old(since) {
                self.remove(&meta.location)?;
                files += 1;
                bytes += meta.size;
            }
        }
        for (_, state) in &states {
            for (commit, _) in state.outdated.iter().filter(|(_, since)| is_old(*since)) {
                self.remove(commit)?;
            }
        }
        if let Some(root) = self.root() {
            for folder in [DATA, COMMITS] {
                clean_unfinished(&root.join(folder), grace, DEPTH);
            }
        }
        Ok((files, bytes))
    }
}

/// Folders of a store are no deeper.
const DEPTH: usize = 4;

/// Removes what a writer that died left of an object on its way: `object_store` writes to `NAME#NUMBER`, and lists no such name.
fn clean_unfinished(folder: &FsPath, grace: Duration, depth: usize) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // A link is no folder here.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            if let Some(depth) = depth.checked_sub(1) {
                clean_unfinished(&entry.path(), grace, depth);
            }
            continue;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let number = name.rsplit_once('#').map(|(_, number)| number);
        let unfinished = number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
        let old = |at: SystemTime| at.elapsed().is_ok_and(|age| age >= grace);
        if unfinished
            && kind.is_file()
            && entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(old)
        {
            // Another may have removed it just now.
            let _ = fs::remove_file(entry.path());
        }
    }
}

pub(crate) fn damaged(error: Result<Damage, FleetError>) -> Result<Outcome, FleetError> {
    error.map(|damage| Outcome::Damaged(vec![damage]))
}

/// A commit that holds the whole state: what counted, less `removes`, and `adds`.
fn snapshot(state: &State, removes: &[&Added], adds: &[Added], level: Level) -> Commit {
    let removed: BTreeSet<&String> = removes.iter().map(|file| &file.file).collect();
    let kept = state.files.values().filter(|file| !removed.contains(&file.file)).cloned();
    let adds: Vec<Added> = kept.chain(adds.iter().cloned()).collect();
    Commit {
        schema: COMMIT_SCHEMA.to_owned(),
        at: Timestamp::now().to_string(),
        tool: TOOL.to_owned(),
        tables: tables_of(&adds),
        snapshot: true,
        level,
        adds,
        removes: removed.into_iter().cloned().collect(),
        intervals: state.intervals.values().cloned().collect(),
    }
}
