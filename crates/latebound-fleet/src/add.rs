// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adding Runs to a store.
//!
//! Owns that a Run counts once, whoever adds it how often. Data files come first, under names that nothing else has; then one commit for
//! each day and host makes them count. A writer that dies before leaves files that no commit names.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use latebound_model::{Run, RunState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::FleetError;
use crate::log::{Added, Commit, Counted, Level, State, tables_of};
use crate::partition::Partition;
use crate::place::path;
use crate::rollup::{RollUp, Unit};
use crate::rows::{Kept, NewInterval, hex};
use crate::store::{Found, MAX_DOCUMENT_BYTES, Store, new_name};
use crate::tables::Rows;
use crate::{COMMIT_SCHEMA, GRACE, TOOL};

/// So often another writer may be first.
pub(crate) const TRIES: u32 = 1_000;

/// Runs on their way into a store. Those that can be read again (`'r` is of what they are read from) take next to no memory.
#[derive(Debug, Default)]
pub struct NewRuns<'r> {
    of: BTreeMap<Partition, BTreeMap<String, NewInterval<'r>>>,
    results: Vec<AddResult>,
    by_hour: bool,
}

/// What became of a Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AddOutcome {
    /// It counts from now on.
    Added,
    /// It replaced an earlier state of the same Run.
    Replaced,
    /// It, or a later state of it, counted before.
    Present,
}

/// A Run that was to be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AddResult {
    /// What the Run is called.
    pub source: String,
    /// Tells it from every other.
    pub interval: String,
    /// The day on which it began.
    pub day: String,
    /// Its host.
    pub host: String,
    /// What became of it.
    pub outcome: AddOutcome,
}

/// What `latebound store add` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AddDocument {
    /// `latebound.store-add/1`
    pub schema: &'static str,
    /// Where the store lies.
    pub store: String,
    /// The Runs, by day and host.
    pub runs: Vec<AddResult>,
    /// How many commits that took: one for each day and host at most.
    pub commits: u64,
}

impl AddDocument {
    /// The schema's name.
    pub const SCHEMA: &str = "latebound.store-add/1";
}

impl<'r> NewRuns<'r> {
    /// None yet.
    pub fn new() -> NewRuns<'r> {
        NewRuns::default()
    }

    /// Rows of hours are written in place of those of single Runs: CPUs are summed, and the worst stay. What is written is the sum of the Runs
    /// that are new, so that a Run counts once all the same.
    pub fn by_hour(mut self, by_hour: bool) -> NewRuns<'r> {
        self.by_hour = by_hour;
        self
    }

    /// One more. `source` is the name of its folder, `host` is used in place of the name of the host in the Run. Of two states of one Run
    /// the later one is taken.
    pub fn push(&mut self, run: &Run, source: &str, host: Option<&str>) -> Result<(), FleetError> {
        self.put(NewInterval::of(run, source, host)?);
        Ok(())
    }

    /// As [`NewRuns::push`], and its rows are not kept: they are made of what `read` gives when they are written. `None` says that the Run
    /// is gone; then it is not added. An error is why it cannot be read.
    pub fn push_again(
        &mut self,
        run: &Run,
        source: &str,
        host: Option<&str>,
        read: impl Fn() -> Result<Option<Run>, String> + 'r,
    ) -> Result<(), FleetError> {
        let new = NewInterval::of(run, source, host)?;
        self.put(NewInterval { kept: Kept::Again(Box::new(read)), ..new });
        Ok(())
    }

    pub(crate) fn put(&mut self, new: NewInterval<'r>) {
        let of = self.of.entry(new.partition.clone()).or_default();
        match of.get_mut(&new.id) {
            Some(there) if is_later((new.state, new.end_us), (there.state, there.end_us)) => {
                let earlier = std::mem::replace(there, new);
                self.results.push(result(&earlier, AddOutcome::Present));
            }
            Some(_) => self.results.push(result(&new, AddOutcome::Present)),
            None => _ = of.insert(new.id.clone(), new),
        }
    }
}

fn result(interval: &NewInterval<'_>, outcome: AddOutcome) -> AddResult {
    AddResult {
        source: interval.source.clone(),
        interval: interval.id.clone(),
        day: interval.partition.day.to_string(),
        host: interval.partition.host.clone(),
        outcome,
    }
}

/// Whether a state of a Run is a later one than another of the same Run.
fn is_later(one: (RunState, i64), other: (RunState, i64)) -> bool {
    let ended = |state| state != RunState::Running;
    (ended(one.0), one.1) > (ended(other.0), other.1)
}

/// Data files that were written, and when the first of them was.
pub(crate) struct Written {
    pub(crate) files: Vec<Added>,
    since: (Instant, SystemTime),
}

impl Written {
    /// Those of several, as one.
    pub(crate) fn join(self, other: Written) -> Written {
        let since = (self.since.0.min(other.since.0), self.since.1.min(other.since.1));
        Written { files: [self.files, other.files].concat(), since }
    }

    /// Whether so much time has gone by that somebody may take them for those of a dead writer.
    pub(crate) fn is_old(&self) -> bool {
        // The monotonic clock stands still while the machine sleeps.
        let by_wall = self.since.1.elapsed().unwrap_or(Duration::ZERO);
        self.since.0.elapsed().max(by_wall) > GRACE / 2
    }
}

/// The files of new Runs.
enum Files {
    Written(Vec<Written>),
    /// The Run of this id is gone, and nothing was written.
    Gone(String),
}

impl Store {
    /// Writes rows as data files of a partition that no commit names yet.
    pub(crate) fn write_rows(
        &self,
        partition: &Partition,
        rows: Rows,
        interval: Option<&str>,
    ) -> Result<Written, FleetError> {
        let mut written = Written { files: Vec::new(), since: (Instant::now(), SystemTime::now()) };
        for (table, bytes, rows) in rows.into_files()? {
            loop {
                let file = partition.data(table, &new_name());
                let (length, sha256) = (bytes.len() as u64, hex(&Sha256::digest(&bytes)));
                match self.create_object(&path(&file), bytes.clone().into()) {
                    Ok(true) => {
                        let interval = interval.map(str::to_owned);
                        let tables = table.version();
                        let (bytes, added) = (length, &mut written.files);
                        added.push(Added { table, file, rows, bytes, sha256, tables, interval });
                        break;
                    }
                    // The name is taken: there are 2^128 others.
                    Ok(false) => {}
                    Err(error) => {
                        self.discard(&written);
                        return Err(error);
                    }
                }
            }
        }
        Ok(written)
    }

    /// Removes data files that no commit will name; what is left of them goes with those of dead writers.
    pub(crate) fn discard(&self, written: &Written) {
        for file in &written.files {
            let _ = self.remove(&path(&file.file));
        }
    }

    /// Adds Runs: each counts once, however often it is added. One commit for each day and host. Where an error is given, the Runs of
    /// earlier days and hosts may count already; adding all of them again is right.
    pub fn add(&self, new: NewRuns<'_>) -> Result<AddDocument, FleetError> {
        let (mut runs, mut commits) = (new.results, 0);
        for (partition, intervals) in new.of {
            let mut intervals: Vec<NewInterval<'_>> = intervals.into_values().collect();
            let outcomes = self.add_to(&partition, &mut intervals, new.by_hour)?;
            commits += u64::from(outcomes.iter().any(|outcome| *outcome != AddOutcome::Present));
            runs.extend(intervals.iter().zip(outcomes).map(|(interval, outcome)| result(interval, outcome)));
        }
        runs.sort_by(|a, b| (&a.day, &a.host, &a.source).cmp(&(&b.day, &b.host, &b.source)));
        Ok(AddDocument { schema: AddDocument::SCHEMA, store: self.location(), runs, commits })
    }

    /// What became of each; those that are gone meanwhile are taken out.
    fn add_to(
        &self,
        partition: &Partition,
        intervals: &mut Vec<NewInterval<'_>>,
        by_hour: bool,
    ) -> Result<Vec<AddOutcome>, FleetError> {
        let mut written: Option<(Vec<AddOutcome>, Vec<Written>)> = None;
        for _ in 0..TRIES {
            let state = self.state(partition)?;
            let outcomes = match outcomes(partition, &state, intervals) {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    self.discard_all(written);
                    return Err(error);
                }
            };
            // Somebody else may have added some of them meanwhile.
            let usable = |(of, files): &(Vec<AddOutcome>, Vec<Written>)| {
                *of == outcomes && !files.iter().any(Written::is_old)
            };
            if !written.as_ref().is_some_and(usable) {
                self.discard_all(written.take());
            }
            if outcomes.iter().all(|outcome| *outcome == AddOutcome::Present) {
                return Ok(outcomes);
            }
            let files = match &written {
                Some((_, files)) => files,
                None => match self.write_new(partition, intervals, &outcomes, by_hour)? {
                    Files::Written(files) => &written.insert((outcomes.clone(), files)).1,
                    Files::Gone(id) => {
                        intervals.retain(|interval| interval.id != id);
                        continue;
                    }
                },
            };
            let level = if by_hour { Level::Hour } else { Level::Interval };
            let commit = commit(&state, intervals, &outcomes, files, level);
            match self.push(partition, state.next, &commit) {
                Ok(true) if self.counts(partition, state.next, &commit)? => return Ok(outcomes),
                Ok(_) => {}
                Err(error) => {
                    // The commit may be there where an error came behind it: then its files must stay.
                    if self.is_absent(partition, state.next) {
                        self.discard_all(written);
                    }
                    return Err(error);
                }
            }
        }
        self.discard_all(written);
        Err(FleetError::Contended { partition: partition.clone(), tries: TRIES })
    }

    /// Whether it is sure that there is no commit of this number, and that none comes of a write that failed.
    pub(crate) fn is_absent(&self, partition: &Partition, number: u64) -> bool {
        !self.may_come_late()
            && matches!(self.get(&partition.commit(number), MAX_DOCUMENT_BYTES), Ok(Found::Absent))
    }

    fn discard_all(&self, written: Option<(Vec<AddOutcome>, Vec<Written>)>) {
        written.iter().flat_map(|(_, files)| files).for_each(|files| self.discard(files));
    }

    /// The data files of the Runs that do not count yet. Of one that still goes on they are its own, so that its later state can take
    /// their place; all others share theirs, rolled up where that is asked for.
    fn write_new(
        &self,
        partition: &Partition,
        intervals: &[NewInterval<'_>],
        outcomes: &[AddOutcome],
        by_hour: bool,
    ) -> Result<Files, FleetError> {
        let (mut all, mut shared) = (Vec::new(), Rows::default());
        // Also of an hour that goes on: what comes later is added to it.
        let mut sums = by_hour.then(|| RollUp::new(Unit::Hour, i64::MAX));
        let overflow = |what| FleetError::Overflow { partition: partition.clone(), what };
        // Run by Run, so that where they are rolled up, the rows of one are there at a time.
        for (interval, _) in new(intervals, outcomes) {
            let Some(rows) = interval.rows()? else { return Ok(Files::Gone(interval.id.clone())) };
            match &mut sums {
                _ if interval.state == RunState::Running => {
                    all.push((rows.into_owned(), Some(interval.id.as_str())));
                }
                Some(sums) => sums.add(&rows).map_err(overflow)?,
                None => shared.append(rows.into_owned()),
            }
        }
        match sums {
            Some(sums) => shared = sums.finish(),
            None => shared.sort(),
        }
        all.push((shared, None));
        let mut written: Vec<Written> = Vec::new();
        for (rows, interval) in all {
            match self.write_rows(partition, rows, interval) {
                Ok(files) => written.push(files),
                Err(error) => {
                    written.iter().for_each(|files| self.discard(files));
                    return Err(error);
                }
            }
        }
        Ok(Files::Written(written))
    }

    /// Whether a commit that was just made is part of the state. It is not where this process stood still for so long that others
    /// summed up and removed the commits before it; then it is taken back.
    pub(crate) fn counts(
        &self,
        partition: &Partition,
        number: u64,
        commit: &Commit,
    ) -> Result<bool, FleetError> {
        let state = self.state(partition)?;
        if state.next == number + 1
            || commit.intervals.iter().all(|one| state.intervals.contains_key(&one.id))
        {
            return Ok(true);
        }
        self.remove(&partition.commit(number))?;
        Ok(false)
    }
}

/// Those that do not count yet.
fn new<'i, 'r>(
    intervals: &'i [NewInterval<'r>],
    outcomes: &'i [AddOutcome],
) -> impl Iterator<Item = (&'i NewInterval<'r>, AddOutcome)> {
    let with = intervals.iter().zip(outcomes.iter().copied());
    with.filter(|(_, outcome)| *outcome != AddOutcome::Present)
}

/// What is to become of each Run.
fn outcomes(
    partition: &Partition,
    state: &State,
    intervals: &[NewInterval<'_>],
) -> Result<Vec<AddOutcome>, FleetError> {
    let outcome = |new: &NewInterval<'_>| match state.intervals.get(&new.id) {
        None => Ok(AddOutcome::Added),
        Some(there) if !is_later((new.state, new.end_us), (there.state, there.end_us)) => {
            Ok(AddOutcome::Present)
        }
        Some(_) if state.files_of(&new.id).next().is_some() => Ok(AddOutcome::Replaced),
        Some(_) => {
            Err(FleetError::RolledUp { source_name: new.source.clone(), partition: partition.clone() })
        }
    };
    intervals.iter().map(outcome).collect()
}

fn commit(
    state: &State,
    intervals: &[NewInterval<'_>],
    outcomes: &[AddOutcome],
    files: &[Written],
    level: Level,
) -> Commit {
    let replaced = new(intervals, outcomes).filter(|(_, outcome)| *outcome == AddOutcome::Replaced);
    let removes = replaced.flat_map(|(new, _)| state.files_of(&new.id)).map(|file| file.file.clone());
    let counted = |new: &NewInterval<'_>| Counted {
        id: new.id.clone(),
        state: new.state,
        start_us: new.start_us,
        end_us: new.end_us,
    };
    let adds: Vec<Added> = files.iter().flat_map(|files| files.files.iter().cloned()).collect();
    Commit {
        schema: COMMIT_SCHEMA.to_owned(),
        at: Timestamp::now().to_string(),
        tool: TOOL.to_owned(),
        tables: tables_of(&adds),
        snapshot: false,
        level,
        adds,
        removes: removes.collect(),
        intervals: new(intervals, outcomes).map(|(new, _)| counted(new)).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

    use super::*;
    use crate::SimulatedFleet;
    use crate::partition::Day;
    use object_store::memory::InMemory;
    use std::sync::Arc;

    fn one(id: &str, snapshot: bool) -> Commit {
        let counted = Counted { id: id.to_owned(), state: RunState::Complete, start_us: 0, end_us: 1 };
        Commit {
            snapshot,
            intervals: vec![counted],
            ..commit(&State::default(), &[], &[], &[], Level::Interval)
        }
    }

    #[test]
    fn a_commit_that_comes_before_a_snapshot_is_taken_back() {
        let store = Store::in_objects(Arc::new(InMemory::new())).unwrap();
        let partition = Partition::new(Day::of(0).unwrap(), "a").unwrap();
        for (number, id) in ["0", "1", "2"].into_iter().enumerate() {
            assert!(store.push(&partition, number as u64, &one(id, false)).unwrap());
        }
        assert!(!store.push(&partition, 1, &one("x", false)).unwrap(), "a number has one commit");
        // Others sum up, and remove commits while the writer of another one stands still.
        let mut all = one("0", true);
        all.intervals.extend(["1", "2"].map(|id| one(id, false).intervals.remove(0)));
        assert!(store.push(&partition, 3, &all).unwrap());
        assert!(store.counts(&partition, 3, &all).unwrap());
        let outdated = store.state(&partition).unwrap().outdated;
        assert_eq!(outdated.len(), 3);
        for (path, _) in outdated {
            store.remove(&path).unwrap();
        }
        let late = one("late", false);
        assert!(store.push(&partition, 1, &late).unwrap());
        assert!(!store.counts(&partition, 1, &late).unwrap());
        assert!(store.is_absent(&partition, 1));
        let state = store.state(&partition).unwrap();
        assert_eq!((state.intervals.len(), state.next, state.damaged), (3, 4, Vec::new()));
        // In time it counts.
        assert!(store.push(&partition, 4, &late).unwrap());
        assert!(store.counts(&partition, 4, &late).unwrap());
        assert!(store.push(&partition, 5, &one("5", false)).unwrap());
        assert!(store.counts(&partition, 4, &late).unwrap());
    }

    #[test]
    fn runs_that_are_read_again_count_unless_they_are_gone() {
        let fleet = SimulatedFleet {
            cpus: 2,
            day: Day::of(0).unwrap(),
            interval_us: 60_000_000,
            intervals: 3,
            wakeups_per_second: 100,
            seed: 1,
        };
        let host = fleet.host(0);
        let store = |read: &dyn Fn(u32) -> Result<Option<Run>, String>| {
            let store = Store::in_objects(Arc::new(InMemory::new())).unwrap();
            let mut new = NewRuns::new().by_hour(true);
            for number in 0..3 {
                new.push_again(&host.run(number), &number.to_string(), None, move || read(number)).unwrap();
            }
            store.add(new).map(|added| {
                let added: Vec<String> = added.runs.into_iter().map(|run| run.source).collect();
                let partition = Partition::new(fleet.day, "sim-00000").unwrap();
                (added, store.state(&partition).unwrap().intervals.len())
            })
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(store(&|number| Ok(Some(host.run(number)))).unwrap(), (names(&["0", "1", "2"]), 3));
        let without = |number| Ok((number != 1).then(|| host.run(number)));
        assert_eq!(store(&without).unwrap(), (names(&["0", "2"]), 2));
        assert_eq!(store(&|_| Ok(None)).unwrap(), (Vec::new(), 0));
        let error = |read: &dyn Fn(u32) -> Result<Option<Run>, String>| store(read).unwrap_err().to_string();
        assert!(error(&|_| Err("it is locked".to_owned())).contains("not again: it is locked"));
        assert!(error(&|_| Ok(Some(host.run(0)))).contains("another Run"));
    }

    #[test]
    fn a_gap_in_a_log_is_damage_and_a_number_from_elsewhere_ends() {
        let store = Store::in_objects(Arc::new(InMemory::new())).unwrap();
        let partition = Partition::new(Day::of(0).unwrap(), "a").unwrap();
        for number in [0, 2, u64::MAX] {
            store.push(&partition, number, &one(&number.to_string(), false)).unwrap();
        }
        let state = store.state(&partition).unwrap();
        assert_eq!((state.intervals.len(), state.damaged.len()), (3, 2), "{:?}", state.damaged);
        let foreign = object_store::path::Path::from("commits/other.json");
        store.create_object(&foreign, "{}".into()).unwrap();
        assert_eq!(store.contents(&crate::Choice::default()).unwrap().damaged.len(), 3);
    }
}
