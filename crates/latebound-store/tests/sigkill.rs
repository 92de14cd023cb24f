// SPDX-License-Identifier: MIT OR Apache-2.0
//! A writer killed at any moment leaves the state before or the state after, never a mixture.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says why and panics")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::sample_run;
use latebound_model::{Nanos, RunState};
use latebound_store::{HISTOGRAMS_FILE, RunFolder, read_run};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

const PLACE: &str = "LATEBOUND_STORE_TEST_PLACE";
const FIRST: &str = "LATEBOUND_STORE_TEST_FIRST";

/// How often the writer is killed: a prime, so that no period of the writer's can hide behind it.
const KILLS: u64 = 61;

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
    if let Some(place) = std::env::var_os(PLACE) {
        let first = std::env::var(FIRST).unwrap().parse().unwrap();
        write_for_ever(Path::new(&place), first);
    }
    let above = tempfile::TempDir::new().unwrap();
    let path = above.path().join("my.run");
    let mut seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    eprintln!("the delays follow from the seed {seed}");
    let mut last = None;
    let mut met: BTreeMap<&str, u32> = BTreeMap::new();
    for kill in 0..5 * KILLS {
        if kill >= KILLS && met.len() == 2 {
            break;
        }
        let next = last.map_or(0, |generation: u64| generation + 1);
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_run_can_be_read_after_its_writer_was_killed_at_any_moment", "--nocapture"])
            .env(PLACE, &path)
            .env(FIRST, next.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // A busy machine needs longer to come as far as a whole Run.
        std::thread::sleep(Duration::from_micros(seed % (150_000 * (1 + kill / KILLS))));
        let ended = writer.try_wait().unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert_eq!(ended, None, "the writer failed by itself at kill {kill}");
        if !path.exists() {
            assert_eq!(last, None, "kill {kill} took away the Run that was there");
            continue;
        }
        let (generation, whole) = check_state(&path);
        assert!(last.is_none_or(|last| generation >= last), "kill {kill} went back to state {generation}");
        last = Some(generation);
        *met.entry(if whole { "whole" } else { "on its way" }).or_default() += 1;
    }
    assert!(met.len() == 2, "the kills met only {met:?}: the test did not see both kinds of states");
    // The next writer is not disturbed by what the dead ones left, and takes it away.
    let mut folder = RunFolder::create(&path, true).unwrap();
    folder.checkpoint(&sample_run(7)).unwrap();
    assert_eq!(read_run(&path).unwrap().duration, Nanos(7));
    let names: Vec<_> = fs::read_dir(above.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["my.run"]);
}
