// SPDX-License-Identifier: MIT OR Apache-2.0
//! A spool within its limit, on a full disk, held by one process, beside one who takes Runs away, and what it leaves alone.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says why and panics")]

mod common;
mod spooled;
mod tiny_disk;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use common::sample_run;
use latebound_model::{LossKind, MissingKind, Run};
use latebound_store::{Removed, RunFolder, Shortage, Shrunk, Spool, SpoolReader, StoreError, read_run};
use spooled::{detailed_run, thinned_run};
use tiny_disk::on_a_tiny_disk;

const LIMIT: u64 = 1 << 40;

fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn word(number: u64) -> String {
    format!("20261127T{number:06}Z")
}

/// A Run that has nothing but sums.
fn sums(number: u64) -> Run {
    let mut run = sample_run(number);
    (run.worst, run.worst_of_series) = Default::default();
    run
}

fn runs(runs: u64) -> Shrunk {
    Shrunk { runs, thinned: 0 }
}

fn thinned(thinned: u64) -> Shrunk {
    Shrunk { runs: 0, thinned }
}

#[test]
fn the_oldest_runs_go_where_the_limit_is_passed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("spool");
    let mut spool = Spool::open(&path, LIMIT).unwrap();
    let run = sums(1);
    let (written, removed) = spool.write(&word(0), &run);
    assert_eq!(read_run(written.unwrap()).unwrap(), run);
    assert_eq!((removed, spool.runs()), (Removed::default(), 1));
    let one = spool.bytes();
    drop(spool);

    let mut spool = Spool::open(&path, 3 * one + one / 2).unwrap();
    for number in 1..3 {
        assert_eq!(spool.write(&word(number), &run).1, Removed::default());
    }
    let (written, removed) = spool.write(&word(3), &run);
    written.unwrap();
    assert_eq!(removed, Removed { by_limit: runs(1), ..Removed::default() });
    let expected: Vec<String> = (1..4).map(|number| format!("serve-{}.run", word(number))).collect();
    assert_eq!(names(&path), expected);
    assert_eq!((spool.runs(), spool.bytes()), (3, 3 * one));
    // The second of the same second does not replace the first.
    let (written, _) = spool.write(&word(3), &run);
    assert!(written.unwrap().ends_with(format!("serve-{}-1.run", word(3))));
}

#[test]
fn the_newest_run_stays_even_where_it_alone_passes_the_limit() {
    let place = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(place.path(), 1).unwrap();
    for number in 0..3 {
        spool.write(&word(number), &sample_run(1)).0.unwrap();
    }
    assert_eq!(names(place.path()), [format!("serve-{}.run", word(2))]);
}

#[test]
fn what_others_put_into_a_spool_is_neither_counted_nor_removed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    fs::create_dir(path.join("serve-20250101T000000Z.run")).unwrap();
    fs::write(path.join("serve-20250101T000000Z.run/file"), "theirs").unwrap();
    std::os::unix::fs::symlink("/etc", path.join("serve-20250102T000000Z.run")).unwrap();
    fs::write(path.join("note"), "theirs").unwrap();
    let mut spool = Spool::open(path, 1).unwrap();
    assert_eq!(spool.runs(), 0);
    for number in 0..2 {
        spool.write(&word(number), &sample_run(1)).0.unwrap();
    }
    assert_eq!(spool.runs(), 1);
    let kept = names(path);
    for name in ["serve-20250101T000000Z.run", "serve-20250102T000000Z.run", "note"] {
        assert!(kept.iter().any(|one| one == name), "{kept:?}");
    }
    // A Run that holds more than a Run is not removed either, and is no longer counted.
    fs::write(path.join(format!("serve-{}.run/mine", word(1))), "theirs").unwrap();
    let (written, removed) = spool.write(&word(2), &sample_run(1));
    written.unwrap();
    assert_eq!(removed, Removed::default());
    assert!(path.join(format!("serve-{}.run/mine", word(1))).exists());
}

#[test]
fn runs_that_were_taken_away_no_longer_count() {
    let place = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(place.path(), LIMIT).unwrap();
    for number in 0..3 {
        spool.write(&word(number), &sample_run(1)).0.unwrap();
    }
    fs::remove_dir_all(place.path().join(format!("serve-{}.run", word(0)))).unwrap();
    spool.write(&word(3), &sample_run(1)).0.unwrap();
    assert_eq!(spool.runs(), 3);
}

#[test]
fn two_processes_cannot_hold_one_spool() {
    let place = tempfile::tempdir().unwrap();
    let spool = Spool::open(place.path(), LIMIT).unwrap();
    assert!(matches!(Spool::open(place.path(), LIMIT), Err(StoreError::Busy { .. })));
    drop(spool);
    Spool::open(place.path(), LIMIT).unwrap();
}

/// A spool with Runs of these numbers that have detail, the bytes of one of them, and of one without its detail.
fn spool_of(path: &Path, numbers: std::ops::Range<u64>) -> (u64, u64) {
    let beside = tempfile::tempdir().unwrap();
    let mut one = Spool::open(beside.path(), 1).unwrap();
    let mut bytes = |run: &Run| {
        one.write(&word(0), run).0.unwrap();
        one.bytes()
    };
    let (whole, thin) = (bytes(&detailed_run(1)), bytes(&thinned_run(1, Shortage::Limit)));
    let mut spool = Spool::open(path, LIMIT).unwrap();
    for number in numbers {
        assert_eq!(spool.write(&word(number), &detailed_run(number)).1, Removed::default());
    }
    (whole, thin)
}

/// What the record of a Run and its folder take on disk.
fn spool_bytes_of(run: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let blocks = |path: &Path| fs::metadata(path).unwrap().blocks();
    512 * (blocks(run) + blocks(&run.join("run.json")))
}

fn place_of(spool: &Path, number: u64) -> PathBuf {
    spool.join(format!("serve-{}.run", word(number)))
}

#[test]
fn the_oldest_detail_goes_first_and_is_told_while_sums_stay() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let (whole, thin) = spool_of(path, 0..4);
    assert!(thin + 4096 < whole, "{thin} of {whole} bytes");
    // Room for four and for one without detail.
    let mut spool = Spool::open(path, 4 * whole + thin).unwrap();
    let (written, removed) = spool.write(&word(4), &detailed_run(4));
    written.unwrap();
    assert_eq!(removed, Removed { by_limit: thinned(1), ..Removed::default() });
    assert_eq!((spool.runs(), spool.bytes()), (5, 4 * whole + thin));
    for number in 1..5 {
        assert_eq!(read_run(place_of(path, number)).unwrap(), detailed_run(number));
    }
    let (run, before) = (read_run(place_of(path, 0)).unwrap(), detailed_run(0));
    assert!(run.worst.is_empty() && run.worst_of_series.is_empty());
    let (lost, losses) = run.losses.split_last().unwrap();
    let removed = (before.worst.len() + before.worst_of_series.len()) as u64;
    assert_eq!((lost.kind, &*lost.place, lost.count), (LossKind::SampleDropped, "spool", Some(removed)));
    let (missing, others) = run.missing.split_last().unwrap();
    assert_eq!(missing.kind, MissingKind::Explanations);
    assert!(missing.why.contains(&removed.to_string()) && missing.why.contains("its limit"), "{missing}");
    assert!(missing.remedy.contains("--spool-limit"), "{missing}");
    // All else is as it was.
    let rest = Run { losses: losses.to_vec(), missing: others.to_vec(), ..run };
    assert_eq!(rest, Run { worst: Vec::new(), worst_of_series: Vec::new(), ..before });
}

#[test]
fn whole_runs_go_only_when_no_older_one_has_detail() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let (whole, thin) = spool_of(path, 0..3);
    let limit = 3 * whole + thin;
    let (mut total, mut last) = (Shrunk::default(), 3);
    // From time to time another process goes on with what is there.
    while last < 30 {
        let mut spool = Spool::open(path, limit).unwrap();
        for number in last..last + 3 {
            let (written, removed) = spool.write(&word(number), &detailed_run(number));
            written.unwrap();
            assert_eq!(removed.by_disk, Shrunk::default());
            let Shrunk { runs, thinned } = removed.by_limit;
            (total.runs, total.thinned) = (total.runs + runs, total.thinned + thinned);
            let there: Vec<Run> = names(path).iter().map(|name| read_run(path.join(name)).unwrap()).collect();
            assert!(spool.bytes() <= limit && there.len() as u64 == spool.runs());
            let first_whole = there.iter().position(Run::has_detail).unwrap();
            assert!(there[first_whole..].iter().all(Run::has_detail), "the oldest detail goes first");
            assert!(runs == 0 || first_whole + 1 == there.len(), "a Run went while another had detail");
            // They are the newest without a gap.
            for (run, number) in there.iter().rev().zip((0..=number).rev()) {
                let expected = if run.has_detail() {
                    detailed_run(number)
                } else {
                    thinned_run(number, Shortage::Limit)
                };
                assert_eq!(*run, expected);
            }
        }
        last += 3;
    }
    assert_eq!(total.runs + names(path).len() as u64, last);
    assert_eq!(total.thinned, last - 1, "each lost its detail once, and the newest has it");
}

#[test]
fn detail_of_less_than_a_page_is_not_removed() {
    let place = tempfile::tempdir().unwrap();
    let mut run = sums(1);
    run.worst_of_series = common::activations(1);
    let mut spool = Spool::open(place.path(), LIMIT).unwrap();
    spool.write(&word(0), &run).0.unwrap();
    let limit = 2 * spool.bytes();
    drop(spool);
    let mut spool = Spool::open(place.path(), limit).unwrap();
    assert_eq!(spool.write(&word(1), &run).1, Removed::default());
    assert_eq!(spool.write(&word(2), &run).1.by_limit, runs(1));
    assert_eq!(read_run(place_of(place.path(), 1)).unwrap(), run);
}

#[test]
fn files_beside_the_record_and_what_a_killed_writer_left_go_with_detail() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let run_path = place_of(path, 0);
    let mut folder = RunFolder::create(&run_path, false).unwrap();
    folder.write_activations(&common::activations(3), &[]).unwrap();
    folder.write_trace("{}").unwrap();
    folder.finish(&detailed_run(0), Some("<p>page</p>")).unwrap();
    fs::write(run_path.join(".latebound-0123456789abcdef.tmp"), "cut").unwrap();
    assert!(names(&run_path).len() >= 6, "{:?}", names(&run_path));
    let mut spool = Spool::open(path, LIMIT).unwrap();
    spool.write(&word(1), &sums(1)).0.unwrap();
    // A byte too few for a second one of these.
    let limit = 2 * spool.bytes() - spool_bytes_of(&run_path) - 1;
    drop(spool);
    let removed = Spool::open(path, limit).unwrap().write(&word(2), &sums(1)).1;
    assert_eq!(removed.by_limit, thinned(1));
    assert_eq!(names(&run_path), ["run.json"]);
    assert_eq!(read_run(&run_path).unwrap(), thinned_run(0, Shortage::Limit));
}

#[test]
fn a_run_that_is_taken_away_while_detail_goes_is_taken_once() {
    const RUNS: u64 = 300;
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let (whole, thin) = spool_of(path, 0..0);
    let is_over = AtomicBool::new(false);
    let take = |taken: &mut BTreeSet<u64>, thin: &mut u64| {
        let reader = SpoolReader::open(path).unwrap();
        // The newest first, and not all: so it is at the same Runs as the writer.
        for name in reader.runs().unwrap().into_iter().rev().skip(1) {
            let Some(run) = reader.read(&name).unwrap() else { continue };
            let number = run.duration.0;
            *thin += u64::from(!run.has_detail());
            let expected =
                if run.has_detail() { detailed_run(number) } else { thinned_run(number, Shortage::Limit) };
            assert_eq!(run, expected);
            if number % 3 == 0 {
                reader.remove(&name).unwrap();
                assert!(taken.insert(number), "{number} was taken before");
            }
        }
    };
    let (taken, thinned, total) = std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let (mut taken, mut thin) = (BTreeSet::new(), 0);
            while !is_over.load(Ordering::Relaxed) {
                take(&mut taken, &mut thin);
            }
            (taken, thin)
        });
        let mut spool = Spool::open(path, 4 * whole + 4 * thin).unwrap();
        let mut total = Shrunk::default();
        for number in 0..RUNS {
            let (written, removed) = spool.write(&word(number), &detailed_run(number));
            written.unwrap();
            total += removed.by_limit;
        }
        is_over.store(true, Ordering::Relaxed);
        let (taken, thinned) = taker.join().unwrap();
        (taken, thinned, total)
    });
    // What a taker could not remove, as a record came into it meanwhile, goes with the next Run.
    spool_of(path, RUNS..RUNS + 1);
    let number = |name: String| read_run(path.join(name)).unwrap().duration.0;
    let left: BTreeSet<u64> = names(path).into_iter().map(number).collect();
    eprintln!("{} taken, {thinned} reads without detail, {total:?}, {} left", taken.len(), left.len());
    assert!(left.is_disjoint(&taken), "{left:?} are left and {taken:?} were taken");
    // One that the spool removed while it was to be taken is counted by both.
    assert!((taken.len() + left.len()) as u64 + total.runs > RUNS, "{total:?}, {left:?}, {taken:?}");
    assert!(total.thinned > 0 && !taken.is_empty());
}

/// A file that takes all that is free on the disk.
fn filler(disk: &Path) -> File {
    let mut file = File::create(disk.join("filler")).unwrap();
    fill(&mut file);
    file
}

fn fill(file: &mut File) {
    while file.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn on_a_full_disk_the_oldest_runs_make_room() {
    let Some(disk) = on_a_tiny_disk("on_a_full_disk_the_oldest_runs_make_room", 512 << 10) else { return };
    let path = disk.join("spool");
    let mut spool = Spool::open(&path, LIMIT).unwrap();
    let run = sums(1);
    for number in 0..4 {
        spool.write(&word(number), &run).0.unwrap();
    }
    // Another fills the disk.
    let mut file = filler(&disk);
    let (written, removed) = spool.write(&word(4), &run);
    assert_eq!(read_run(written.unwrap()).unwrap(), run);
    assert!(removed.by_disk.runs >= 1 && removed.by_limit == Shrunk::default(), "{removed:?}");
    assert_eq!(spool.runs(), 5 - removed.by_disk.runs);
    for name in names(&path) {
        read_run(path.join(name)).unwrap();
    }
    // Where nothing is left to remove it fails, and says that the disk is full.
    while spool.runs() > 0 {
        for name in names(&path) {
            fs::remove_dir_all(path.join(name)).unwrap();
        }
        fill(&mut file);
        let (written, _) = spool.write(&word(5), &run);
        let error = written.unwrap_err().to_string();
        assert!(error.contains("No space left"), "{error}");
    }
    assert!(names(&path).is_empty(), "{:?}", names(&path));
}

#[test]
fn on_a_full_disk_detail_goes_first_where_the_shorter_record_fits() {
    const TEST: &str = "on_a_full_disk_detail_goes_first_where_the_shorter_record_fits";
    let Some(disk) = on_a_tiny_disk(TEST, 2 << 20) else { return };
    let path = disk.join("spool");
    let (_, thin) = spool_of(&path, 0..4);
    let mut spool = Spool::open(&path, LIMIT).unwrap();
    let file = filler(&disk);
    let all = file.metadata().unwrap().len();
    file.set_len(all - thin).unwrap();
    let (written, removed) = spool.write(&word(4), &detailed_run(4));
    assert_eq!(read_run(written.unwrap()).unwrap(), detailed_run(4));
    assert_eq!(removed, Removed { by_disk: thinned(1), ..Removed::default() });
    assert_eq!(read_run(place_of(&path, 0)).unwrap(), thinned_run(0, Shortage::Disk));
    for number in 1..4 {
        assert_eq!(read_run(place_of(&path, number)).unwrap(), detailed_run(number));
    }
}

#[test]
fn on_a_full_disk_a_run_goes_whole_where_no_shorter_record_fits() {
    const TEST: &str = "on_a_full_disk_a_run_goes_whole_where_no_shorter_record_fits";
    let Some(disk) = on_a_tiny_disk(TEST, 2 << 20) else { return };
    let path = disk.join("spool");
    spool_of(&path, 0..4);
    let mut spool = Spool::open(&path, LIMIT).unwrap();
    let mut file = filler(&disk);
    let (written, removed) = spool.write(&word(4), &detailed_run(4));
    assert_eq!(read_run(written.unwrap()).unwrap(), detailed_run(4));
    assert_eq!(removed, Removed { by_disk: runs(1), ..Removed::default() });
    // The same where the limit is reached at the same time.
    drop(spool);
    fill(&mut file);
    let whole = Spool::open(&path, LIMIT).unwrap().bytes() / 4;
    file.set_len(file.metadata().unwrap().len() - whole).unwrap();
    let mut spool = Spool::open(&path, 4 * whole).unwrap();
    let (written, removed) = spool.write(&word(5), &detailed_run(5));
    written.unwrap();
    assert_eq!(removed, Removed { by_limit: runs(1), ..Removed::default() });
    let there: Vec<Run> = names(&path).iter().map(|name| read_run(path.join(name)).unwrap()).collect();
    assert_eq!(there, [2, 3, 4, 5].map(detailed_run));
}
