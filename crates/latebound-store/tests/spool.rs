// SPDX-License-Identifier: MIT OR Apache-2.0
//! A spool within its limit, on a full disk, held by one process, and what it leaves alone.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says why and panics")]

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use common::{output_of, sample_run};
use latebound_store::{Removed, Spool, StoreError, read_run};

const LIMIT: u64 = 1 << 40;

fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn word(number: u32) -> String {
    format!("20261127T02{number:02}00Z")
}

#[test]
fn the_oldest_runs_go_where_the_limit_is_passed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("spool");
    let mut spool = Spool::open(&path, LIMIT).unwrap();
    let run = sample_run(1);
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
    assert_eq!(removed, Removed { by_limit: 1, by_disk: 0 });
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

const DISK: &str = "LATEBOUND_STORE_TEST_SPOOL";

#[test]
fn on_a_full_disk_the_oldest_runs_make_room() {
    let Some(disk) = std::env::var_os(DISK) else {
        let disk = tempfile::TempDir::new().unwrap();
        // SAFETY: geteuid only returns a number.
        let root = unsafe { libc::geteuid() } == 0;
        let namespaces: &[&str] = if root { &["--mount"] } else { &["--mount", "--user", "--map-root-user"] };
        let script = "mount -t tmpfs -o size=512k tmpfs \"$1\" && exec \"$2\" --exact on_a_full_disk_the_oldest_runs_make_room --nocapture";
        output_of(
            Command::new("unshare")
                .args(namespaces)
                .args(["sh", "-c", script, "sh"])
                .arg(disk.path())
                .arg(std::env::current_exe().unwrap())
                .env(DISK, disk.path()),
        );
        return;
    };
    let disk = Path::new(&disk);
    let path = disk.join("spool");
    let mut spool = Spool::open(&path, LIMIT).unwrap();
    let run = sample_run(1);
    for number in 0..4 {
        spool.write(&word(number), &run).0.unwrap();
    }
    // Another fills the disk.
    let mut file = fs::File::create(disk.join("filler")).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let (written, removed) = spool.write(&word(4), &run);
    assert_eq!(read_run(written.unwrap()).unwrap(), run);
    assert!(removed.by_disk >= 1 && removed.by_limit == 0, "{removed:?}");
    assert_eq!(spool.runs(), 5 - removed.by_disk);
    for name in names(&path) {
        read_run(path.join(name)).unwrap();
    }
    // Where nothing is left to remove it fails, and says that the disk is full.
    while spool.runs() > 0 {
        for name in names(&path) {
            fs::remove_dir_all(path.join(name)).unwrap();
        }
        while file.write_all(&[0; 4096]).is_ok() {}
        let (written, _) = spool.write(&word(5), &run);
        let error = written.unwrap_err().to_string();
        assert!(error.contains("No space left"), "{error}");
    }
    assert!(names(&path).is_empty(), "{:?}", names(&path));
}
