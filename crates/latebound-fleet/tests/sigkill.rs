// SPDX-License-Identifier: MIT OR Apache-2.0
//! A writer killed at any moment loses nothing that it had added, and nothing counts twice: in a folder, and in a bucket.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says why and panics")]

mod common;
#[path = "../../latebound-store/tests/random_kills/mod.rs"]
mod random_kills;

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::s3::in_a_bucket;
use common::{add, expected, expected_values, intervals, later, sums, values};
use latebound_fleet::{Choice, Level, Store};
use random_kills::Delays;

const STORE: &str = "LATEBOUND_FLEET_TEST_STORE";
const BESIDE: &str = "LATEBOUND_FLEET_TEST_BESIDE";
const FIRST: &str = "LATEBOUND_FLEET_TEST_FIRST";
/// A prime, so that no period of a writer's can hide behind it.
const USUAL_KILLS: u64 = 101;
/// On a busy machine fewer are enough, where no number was asked for: when this time is over, and the fewest are done.
const USUAL_TIME: Duration = Duration::from_secs(30);
const FEWEST_KILLS: u64 = 40;

/// Where a store lies, and what its writers say beside it.
struct Place {
    /// As it is typed.
    store: OsString,
    /// Where the store keeps its data files, as files.
    data: PathBuf,
    /// The folder of the file that says how many Runs were added.
    beside: PathBuf,
    /// What a process needs in its environment to reach the store.
    settings: Vec<(&'static str, String)>,
}

/// Adds one Run after the other, and says so after each; rolls up in between.
fn write_for_ever(store: &OsStr, beside: &Path, first: u64) -> ! {
    let store = Store::open_or_create(store).unwrap();
    let mut said = OpenOptions::new().create(true).append(true).open(beside.join("said")).unwrap();
    for number in first.. {
        add(&store, [number]).unwrap();
        said.write_all(b"x").unwrap();
        match number % 5 {
            1 => assert_eq!(store.compact(later(Level::Hour)).unwrap().damaged, []),
            4 => assert_eq!(store.compact(later(Level::Day)).unwrap().damaged, []),
            _ => {}
        }
    }
    unreachable!("numbers have no end")
}

/// Whether this process is one that a test started to write, and does so then for ever.
fn is_a_writer() -> bool {
    let Some(store) = std::env::var_os(STORE) else { return false };
    let of = |name: &str| std::env::var_os(name).unwrap();
    let first = of(FIRST).to_str().unwrap().parse().unwrap();
    write_for_ever(&store, Path::new(&of(BESIDE)), first)
}

#[test]
fn a_store_is_whole_after_its_writers_were_killed_at_any_moment() {
    if is_a_writer() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let store = folder.path().join("store");
    whole_after_kills(
        "a_store_is_whole_after_its_writers_were_killed_at_any_moment",
        &Place {
            data: store.join("data"),
            store: store.into(),
            beside: folder.path().to_owned(),
            settings: Vec::new(),
        },
    );
}

#[test]
fn a_bucket_is_whole_after_its_writers_were_killed_at_any_moment() {
    const TEST: &str = "a_bucket_is_whole_after_its_writers_were_killed_at_any_moment";
    if is_a_writer() {
        return;
    }
    in_a_bucket(TEST, |server, settings, beside| {
        let place = Place {
            store: server.store("lab").into(),
            data: server.files("lab/data"),
            beside: beside.to_owned(),
            settings,
        };
        whole_after_kills(TEST, &place);
    });
}

fn whole_after_kills(test: &str, place: &Place) {
    let asked = random_kills::asked();
    let (mut kills, mut delays) = (asked.unwrap_or(USUAL_KILLS), Delays::new());
    let said = place.beside.join("said");
    // How long a writer needs for a Run, roughly: kills lie within several.
    let warm = Instant::now();
    let store = Store::open_or_create(&place.store).unwrap();
    add(&store, [0]).unwrap();
    fs::write(&said, "x").unwrap();
    let span = warm.elapsed().clamp(Duration::from_millis(20), Duration::from_millis(100)) * 6;
    let (mut counted, mut unsaid, mut grown, mut looking) = (1, 0, 0, Duration::ZERO);
    let mut kill = 0;
    while kill < kills {
        if asked.is_none() && kill >= FEWEST_KILLS && warm.elapsed() > USUAL_TIME {
            // The last one is looked at as a whole.
            kills = kill + 1;
        }
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(STORE, &place.store)
            .env(BESIDE, &place.beside)
            .envs(place.settings.iter().cloned())
            .env(FIRST, counted.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(delays.below(span));
        let ended = writer.try_wait().unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert_eq!(ended, None, "the writer failed by itself at kill {kill}");
        let said_now = fs::read(&said).unwrap().len() as u64;
        let store = Store::open(&place.store).unwrap();
        let looked = Instant::now();
        let there = intervals(&store);
        // One may count of which there was no time to say so.
        assert!(
            there == said_now || there == said_now + 1,
            "kill {kill}: {said_now} were added and {there} count"
        );
        if there != counted {
            assert_eq!(values(&store), expected_values(0..there), "kill {kill}: {there} Runs count");
        }
        // Every byte and every bucket takes longer than the rest together.
        if kill % 10 == 0 || kill + 1 == kills {
            assert_eq!(store.verify().unwrap().damaged, [], "kill {kill}");
            assert!(
                sums(&store) == expected(0..there),
                "kill {kill}: {there} Runs count and the sums differ"
            );
        }
        looking += looked.elapsed();
        unsaid += there - said_now;
        grown += u64::from(there > counted);
        counted = there;
        fs::write(&said, vec![b'x'; there as usize]).unwrap();
        kill += 1;
    }
    eprintln!(
        "{counted} Runs after {kills} kills, {unsaid} of them before they were said; {looking:?} of {:?} looking",
        warm.elapsed()
    );
    assert!(grown > kills / 10, "the kills came before anything was written");
    // What the dead ones left goes away.
    let store = Store::open(&place.store).unwrap();
    store.compact(later(Level::Day)).unwrap();
    assert!(sums(&store) == expected(0..counted));
    let live: u64 =
        store.contents(&Default::default()).unwrap().partitions.iter().map(|partition| partition.files).sum();
    assert_eq!(common::files(&place.data).len() as u64, live);
}

/// Seven days of two hosts, of which all but the last two are to go.
const DAYS: std::ops::Range<u64> = 0..7;
const KEPT: std::ops::Range<u64> = 5..7;
const KEPT_FROM: &str = "2026-11-25";

/// The numbers of Runs of these days: one of each host at the begin of each day.
fn of_days(days: std::ops::Range<u64>) -> impl Iterator<Item = u64> + Clone {
    // So many Runs begin on a day.
    const OF_DAY: u64 = 206;
    days.flat_map(|day| [day * OF_DAY, day * OF_DAY + 1])
}

#[test]
fn pruning_killed_at_any_moment_removes_whole_days_and_no_others() {
    const TEST: &str = "pruning_killed_at_any_moment_removes_whole_days_and_no_others";
    let before = KEPT_FROM.parse().unwrap();
    if let Some(store) = std::env::var_os(STORE) {
        Store::open(store).unwrap().prune(before).unwrap();
        return;
    }
    let (kills, mut delays) = (random_kills::asked().unwrap_or(USUAL_KILLS), Delays::new());
    // In memory where there is such a folder: a copy for each kill would wait for the disk.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let whole = folder.path().join("whole");
    add(&Store::open_or_create(&whole).unwrap(), of_days(DAYS)).unwrap();
    let (old, kept) = (of_days(DAYS.start..KEPT.start), of_days(KEPT));
    let copied = |name: &str| {
        let path = folder.path().join(name);
        common::copy(&whole, &path);
        path
    };
    let pruning = |path: &Path| {
        let mut this = Command::new(std::env::current_exe().unwrap());
        this.args(["--exact", TEST]).env(STORE, path).stdout(Stdio::null()).spawn().unwrap()
    };
    let first = copied("first");
    let started = Instant::now();
    assert!(pruning(&first).wait().unwrap().success());
    let span = started.elapsed() * 3 / 2;
    let mut halfway = 0;
    for kill in 0..kills {
        let path = copied(&kill.to_string());
        let mut pruning = pruning(&path);
        std::thread::sleep(delays.below(span));
        let _ = pruning.kill();
        pruning.wait().unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!(store.verify().unwrap().damaged, [], "kill {kill}");
        // Days of a host are there or are gone, each as a whole.
        let contents = store.contents(&Choice::default()).unwrap();
        assert_eq!(contents.damaged, [], "kill {kill}");
        let is_there = |number: &u64| {
            let run = common::run(*number);
            let is = |day: &str, host: &str| {
                run.started_at.starts_with(day) && run.system.hostname.as_deref() == Some(host)
            };
            contents.partitions.iter().any(|one| is(&one.day, &one.host) && one.intervals > 0)
        };
        let left: Vec<u64> = old.clone().filter(is_there).collect();
        assert!(kept.clone().all(|number| is_there(&number)), "kill {kill}: {contents:?}");
        assert!(
            sums(&store) == expected(left.iter().copied().chain(kept.clone())),
            "kill {kill}: {left:?} are left"
        );
        halfway += u64::from(!left.is_empty() && left.len() < old.clone().count());
        store.prune(before).unwrap();
        assert!(sums(&store) == expected(kept.clone()), "kill {kill}, and then to the end");
        // The removed days can come again, and count once.
        if kill % 10 == 0 {
            add(&store, of_days(DAYS)).unwrap();
            assert!(sums(&store) == expected(of_days(DAYS)), "kill {kill}, and then added again");
        }
        fs::remove_dir_all(path).unwrap();
    }
    eprintln!("{kills} kills within {span:?}, {halfway} of them halfway");
    assert!(halfway > 0, "no kill came while days were going");
}
