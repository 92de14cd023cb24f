// SPDX-License-Identifier: MIT OR Apache-2.0
//! A writer killed at any moment leaves the state before or the state after, never a mixture.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says why and panics")]

mod common;
mod random_kills;
mod spooled;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::sample_run;
use latebound_model::{Nanos, Run, RunState};
use latebound_store::{HISTOGRAMS_FILE, RunFolder, Shortage, Spool, read_run};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use random_kills::Delays;
use spooled::{detailed_run, thinned_run};

const PLACE: &str = "LATEBOUND_STORE_TEST_PLACE";
const FIRST: &str = "LATEBOUND_STORE_TEST_FIRST";

/// How often a writer is killed: a prime, so that no period of the writer's can hide behind it.
const USUAL_KILLS: u64 = 61;

/// Writes one Run after the other to the same place, each with three checkpoints, until it is killed. The Run's
/// duration numbers the states.
fn write_for_ever(path: &Path, first: u64) -> ! {
    let mut generation = first;
    loop {
        let mut folder = RunFolder::create(path, true).unwrap();
        for _ in 0..3 {
            folder.checkpoint(&sample_run(generation)).unwrap();
            generation += 1;
        }
        let mut run = sample_run(generation);
        run.state = RunState::Complete;
        folder.finish(&run, Some(&format!("<p>{generation}</p>"))).unwrap();
        generation += 1;
    }
}

/// Starts this program's test of this name as a writer, waits, and kills it.
fn kill_writer(test: &str, path: &Path, first: u64, wait: impl FnOnce()) {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(PLACE, path)
        .env(FIRST, first.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait();
    let ended = writer.try_wait().unwrap();
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(ended, None, "the writer of {first} and later failed by itself");
}

/// The place and the first number, where this process is a writer that a test started.
fn as_writer() -> Option<(PathBuf, u64)> {
    let place = std::env::var_os(PLACE)?;
    Some((place.into(), std::env::var(FIRST).unwrap().parse().unwrap()))
}

fn counts_in_table(file: &Path) -> BTreeMap<String, u64> {
    let reader = SerializedFileReader::new(fs::File::open(file).unwrap()).unwrap();
    let mut counts = BTreeMap::new();
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        *counts.entry(row.get_string(0).unwrap().clone()).or_default() += row.get_ulong(7).unwrap();
    }
    counts
}

/// Reads the state, demands that it is one of those that were written, and gives its number and whether it is the last
/// one of its Run, with tables and page.
fn check_state(path: &Path) -> (u64, bool) {
    let read = read_run(path).unwrap();
    let generation = read.duration.0;
    let mut written = sample_run(generation);
    written.state = read.state;
    written.tables = read.tables.clone();
    assert_eq!(read, written, "state {generation} is a mixture");
    if !read.tables.is_empty() {
        assert_eq!(read.state, RunState::Complete, "a state in progress names tables");
        assert_eq!(fs::read_to_string(path.join("report.html")).unwrap(), format!("<p>{generation}</p>"));
        assert_eq!(read.tables.len(), 3);
        let counts = counts_in_table(&path.join(HISTOGRAMS_FILE));
        let expected: BTreeMap<_, _> = read
            .series
            .iter()
            .filter(|series| series.histogram.count() > 0)
            .map(|series| (series.id.clone(), series.histogram.count()))
            .collect();
        assert_eq!(counts, expected, "state {generation}: the table is of another state than run.json");
    }
    (generation, !read.tables.is_empty())
}

#[test]
fn a_run_can_be_read_after_its_writer_was_killed_at_any_moment() {
    if let Some((place, first)) = as_writer() {
        write_for_ever(&place, first);
    }
    let above = tempfile::TempDir::new().unwrap();
    let path = above.path().join("my.run");
    let (kills, mut delays) = (random_kills::asked().unwrap_or(USUAL_KILLS), Delays::new());
    let mut last = None;
    let mut met: BTreeMap<&str, u32> = BTreeMap::new();
    for kill in 0..5 * kills {
        if kill >= kills && met.len() == 2 {
            break;
        }
        let next = last.map_or(0, |generation: u64| generation + 1);
        // A busy machine needs longer to come as far as a whole Run.
        let delay = delays.below(Duration::from_millis(150) * (1 + kill / kills) as u32);
        kill_writer("a_run_can_be_read_after_its_writer_was_killed_at_any_moment", &path, next, || {
            std::thread::sleep(delay);
        });
        if !path.exists() {
            assert_eq!(last, None, "kill {kill} took away the Run that was there");
            continue;
        }
        let (generation, whole) = check_state(&path);
        assert!(last.is_none_or(|last| generation >= last), "kill {kill} went back to state {generation}");
        last = Some(generation);
        *met.entry(if whole { "whole" } else { "on its way" }).or_default() += 1;
    }
    eprintln!("{kills} kills met {met:?}");
    assert!(met.len() == 2, "the kills met only {met:?}: the test did not see both kinds of states");
    // The next writer is not disturbed by what the dead ones left, and takes it away.
    let mut folder = RunFolder::create(&path, true).unwrap();
    folder.checkpoint(&sample_run(7)).unwrap();
    assert_eq!(read_run(&path).unwrap().duration, Nanos(7));
    let names: Vec<_> = fs::read_dir(above.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["my.run"]);
}

/// So many Runs with detail fit into the spool.
const FIT: u64 = 6;

/// Writes Runs into a spool that is at its limit, and says so after each, until it is killed.
fn spool_for_ever(path: &Path, first: u64) -> ! {
    let mut said = OpenOptions::new().create(true).append(true).open(path.join("said")).unwrap();
    let one = {
        let beside = tempfile::TempDir::new().unwrap();
        let mut spool = Spool::open(beside.path(), 1).unwrap();
        spool.write("1", &detailed_run(1)).0.unwrap();
        spool.bytes()
    };
    let mut spool = Spool::open(path, FIT * one).unwrap();
    for number in first.. {
        spool.write(&format!("{number:09}"), &detailed_run(number)).0.unwrap();
        said.write_all(b"x").unwrap();
    }
    unreachable!("numbers have no end")
}

#[test]
fn a_spool_is_whole_after_it_was_killed_while_detail_and_runs_went() {
    if let Some((place, first)) = as_writer() {
        spool_for_ever(&place, first);
    }
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path();
    let (kills, mut delays) = (random_kills::asked().unwrap_or(USUAL_KILLS), Delays::new());
    let (mut said, mut next, mut gone_before, mut in_the_middle) = (0, 0, 0, 0);
    let count_said = || fs::read(path.join("said")).map_or(0, |said| said.len() as u64);
    let mut span = Duration::ZERO;
    for kill in 0..=kills {
        let test = "a_spool_is_whole_after_it_was_killed_while_detail_and_runs_went";
        kill_writer(test, path, next, || {
            if kill > 0 {
                return std::thread::sleep(delays.below(span));
            }
            // The first comes as far as Runs that go whole: the others lie within what the start and some Runs take.
            let started = Instant::now();
            while count_said() < 3 * FIT {
                assert!(started.elapsed() < Duration::from_secs(60), "{} of {FIT} Runs", count_said());
                std::thread::sleep(Duration::from_millis(1));
            }
            span = started.elapsed() / 3;
        });
        let said_now = count_said();
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|one| one.unwrap().file_name()).collect();
        names.retain(|name| name.to_string_lossy().starts_with("serve-"));
        names.sort();
        let runs: Vec<Run> = names.iter().map(|name| read_run(path.join(name)).unwrap()).collect();
        // A Run may be there of which there was no time to say so.
        let there = runs.last().map_or(0, |run| run.duration.0 + 1);
        let written = next + (said_now - said);
        assert!(
            there == written || there == written + 1,
            "kill {kill}: {written} were written, {there} are there"
        );
        in_the_middle += there - written;
        (said, next) = (said_now, there);
        // The newest are there without a gap, each as it was or without its detail.
        for (run, number) in runs.iter().rev().zip((0..there).rev()) {
            let expected = match run.has_detail() {
                true => detailed_run(number),
                false => thinned_run(number, Shortage::Limit),
            };
            assert!(*run == expected, "kill {kill}: Run {number} is a mixture");
        }
        let first_whole = runs.iter().position(Run::has_detail).unwrap_or(0);
        assert!(runs[first_whole..].iter().all(Run::has_detail), "kill {kill}: the oldest detail goes first");
        let gone = there - runs.len() as u64;
        assert!(there < FIT || runs.len() as u64 >= FIT, "kill {kill}: {gone} of {there} went");
        // A Run goes only where the newest alone has detail; one more may have come since.
        assert!(
            gone == gone_before || runs.len() - first_whole <= 2,
            "kill {kill}: a Run went before detail"
        );
        gone_before = gone;
        let temporaries = fs::read_dir(path).unwrap().count() - names.len() - 1;
        assert!(temporaries <= 2, "kill {kill}: what the dead left is not removed");
    }
    eprintln!(
        "{kills} kills within {span:?}: {next} Runs were written, {in_the_middle} of them not said, {gone_before} went whole"
    );
    assert!(gone_before > 0, "no Run went whole");
}
