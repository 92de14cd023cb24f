// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store takes Runs, counts each once, rolls them up exactly, and says what is damaged.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use jiff::Timestamp;
use latebound_fleet::{
    AddOutcome, Choice, CompactOptions, FleetError, Level, NewRuns, SimulatedFleet, Store, Table,
};
use latebound_model::{
    Evidence, Histogram, Mechanism, Nanos, Quantity, Run, RunState, Series, Subject, Summary,
};
use parquet::record::Field;
use tempfile::TempDir;

use crate::common::{add, expected, files, intervals, later, long, rows, run, sums, text};

fn store() -> (TempDir, Store) {
    let folder = TempDir::new().unwrap();
    let store = Store::open_or_create(folder.path().join("store")).unwrap();
    (folder, store)
}

fn outcome(store: &Store, run: &Run) -> Result<AddOutcome, FleetError> {
    let mut new = NewRuns::new();
    new.push(run, "a.run", None)?;
    Ok(store.add(new)?.runs[0].outcome)
}

#[test]
fn runs_of_one_call_are_one_commit_for_each_day_and_host() {
    let (folder, store) = store();
    // 206 Runs are one day; two hosts, two days.
    assert_eq!(add(&store, 0..220).unwrap(), 4);
    assert_eq!(files(&folder.path().join("store/commits")).len(), 4);
    assert_eq!(sums(&store), expected(0..220));
    // The same again, and one more.
    assert_eq!(add(&store, 0..221).unwrap(), 1);
    assert_eq!((sums(&store), intervals(&store)), (expected(0..221), 221));
    let listed = store.contents(&Choice::default()).unwrap();
    assert_eq!(listed.partitions.iter().map(|one| one.intervals).sum::<u64>(), 221);
    assert_eq!(listed.partitions.len(), 4);
    let one = Choice {
        from: Some("2026-11-21".parse().unwrap()),
        hosts: vec!["rt-01".to_owned()],
        ..Choice::default()
    };
    assert_eq!(store.contents(&one).unwrap().partitions.len(), 1);
}

#[test]
fn a_run_given_twice_in_one_call_counts_once_by_its_later_state() {
    let (_folder, store) = store();
    let mut running = run(3);
    running.state = RunState::Running;
    running.duration = Nanos::from_secs(30);
    let mut new = NewRuns::new();
    for one in [&run(3), &running, &run(3)] {
        new.push(one, "a.run", None).unwrap();
    }
    let outcomes: Vec<_> = store.add(new).unwrap().runs.iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == AddOutcome::Added).count(), 1);
    assert_eq!((sums(&store), intervals(&store)), (expected([3]), 1));
}

#[test]
fn a_later_state_of_a_run_takes_the_place_of_an_earlier_one() {
    let (_folder, store) = store();
    add(&store, [1]).unwrap();
    let mut running = run(3);
    running.state = RunState::Running;
    running.duration = Nanos::from_secs(30);
    let values: Histogram = Histogram::new();
    running.series[0].summary = Summary::of(&values);
    running.series[0].histogram = values;
    assert_eq!(outcome(&store, &running).unwrap(), AddOutcome::Added);
    assert_ne!(sums(&store), expected([1, 3]));
    assert_eq!(outcome(&store, &running).unwrap(), AddOutcome::Present);
    // It goes on, so it is not rolled up, whatever its hour is.
    let soon: Timestamp = "2026-11-20T05:00:00Z".parse().unwrap();
    store.compact(CompactOptions { now: soon, ..later(Level::Hour) }).unwrap();
    assert_eq!(outcome(&store, &run(3)).unwrap(), AddOutcome::Replaced);
    assert_eq!((sums(&store), intervals(&store)), (expected([1, 3]), 2));
    // An earlier state comes too late.
    assert_eq!(outcome(&store, &running).unwrap(), AddOutcome::Present);
    assert_eq!(sums(&store), expected([1, 3]));
}

#[test]
fn a_later_state_of_a_run_that_is_rolled_up_is_refused() {
    let (_folder, store) = store();
    let mut running = run(3);
    running.state = RunState::Running;
    outcome(&store, &running).unwrap();
    let before = sums(&store);
    store.compact(later(Level::Hour)).unwrap();
    let error = outcome(&store, &run(3)).unwrap_err();
    assert!(matches!(error, FleetError::RolledUp { .. }), "{error}");
    assert!(error.to_string().contains("add a Run once it has ended"), "{error}");
    assert_eq!(sums(&store), before);
}

#[test]
fn rolling_up_is_exact_and_leaves_the_worst() {
    let (folder, store) = store();
    add(&store, 0..60).unwrap();
    add(&store, 60..220).unwrap();
    for (to, level) in [(Level::Hour, "hour"), (Level::Day, "day")] {
        let document = store.compact(later(to)).unwrap();
        assert_eq!((document.partitions.len(), &document.damaged[..]), (4, &[][..]), "{level}");
        let sum =
            |of: fn(&latebound_fleet::Compacted) -> u64| document.partitions.iter().map(of).sum::<u64>();
        match to {
            Level::Day => {
                assert!(sum(|one| one.bytes_after) < sum(|one| one.bytes_before), "{document:?}")
            }
            _ => assert!(sum(|one| one.files_after) < sum(|one| one.files_before), "{document:?}"),
        }
        assert_eq!((sums(&store), intervals(&store)), (expected(0..220), 220), "{level}");
        assert_eq!(store.verify().unwrap().damaged, []);
        let mut totals = 0;
        rows(&store, Table::Series, |row| {
            let total = row["total"] == Field::Bool(true);
            totals += u64::from(total);
            assert_eq!(row["cpu"] == Field::Null, total, "{row:?}");
            assert_eq!(text(&row["level"]), if total { level } else { "hour" });
        });
        assert_eq!(totals as usize % expected(0..220).len(), 0);
        let mut worst = 0;
        rows(&store, Table::Worst, |row| {
            if row["rank"] == Field::Int(1) && row["cause_rank"] == Field::Int(1) {
                worst += 1;
                assert_eq!(text(&row["cause_comm"]), "memhog");
                assert_eq!(text(&row["level"]), level);
            }
        });
        assert_eq!(worst, if to == Level::Day { 4 } else { 2 * 26 }, "{level}");
        // Settings do not change, so each day of a host has one row of each.
        let mut release = 0;
        rows(&store, Table::Settings, |row| release += u64::from(text(&row["name"]) == "kernel_release"));
        assert_eq!(release, 4);
    }
    // With no grace, files that do not count are gone; a second time there is nothing to do.
    let listed = store.contents(&Choice::default()).unwrap();
    let live: u64 = listed.partitions.iter().map(|one| one.files).sum();
    assert_eq!(files(&folder.path().join("store/data")).len() as u64, live);
    assert_eq!(files(&folder.path().join("store/commits")).len(), 4);
    assert_eq!(store.compact(later(Level::Day)).unwrap().partitions, []);
    // What comes late joins the sums.
    add(&store, 220..230).unwrap();
    add(&store, [0]).unwrap();
    store.compact(later(Level::Day)).unwrap();
    assert_eq!((sums(&store), intervals(&store)), (expected(0..230), 230));
}

#[test]
fn an_hour_that_is_not_over_is_not_rolled_up() {
    let (_folder, store) = store();
    add(&store, 0..20).unwrap();
    // 02:30: the hour of midnight ended more than an hour ago, that of one o'clock did not.
    let now = "2026-11-20T02:30:00Z".parse().unwrap();
    store.compact(CompactOptions { now, ..later(Level::Hour) }).unwrap();
    let mut levels = std::collections::BTreeMap::new();
    rows(&store, Table::Intervals, |row| {
        *levels.entry(text(&row["level"])).or_insert(0) += long(&row["intervals"]);
    });
    assert_eq!(levels, [("hour".to_owned(), 9), ("interval".to_owned(), 11)].into());
    assert_eq!(sums(&store), expected(0..20));
}

#[test]
fn files_stay_for_an_hour_after_they_were_replaced() {
    let (folder, store) = store();
    add(&store, 0..10).unwrap();
    let before = store.files(Table::ALL, &Choice::default()).unwrap();
    let stray = folder.path().join("store/data/series/day=2026-11-20/host=rt-00/00ff.parquet");
    fs::write(&stray, "of a dead writer").unwrap();
    let document =
        store.compact(CompactOptions { grace: CompactOptions::to(Level::Hour).grace, ..later(Level::Hour) });
    assert_eq!(document.unwrap().removed_files, 0);
    assert!(before.tables.values().flatten().all(|path| fs::exists(path).unwrap()));
    let unfinished = stray.with_file_name("00aa.parquet#1");
    fs::write(&unfinished, "half").unwrap();
    assert!(store.compact(later(Level::Hour)).unwrap().removed_files > 10);
    assert!(!before.tables.values().flatten().any(|path| fs::exists(path).unwrap()));
    assert!(!stray.exists() && !unfinished.exists());
    assert_eq!(sums(&store), expected(0..10));
}

#[test]
fn pruned_days_are_gone_and_can_be_added_again() {
    let (folder, store) = store();
    add(&store, 0..220).unwrap();
    let document = store.prune("2026-11-21".parse().unwrap()).unwrap();
    assert_eq!(document.partitions.len(), 2);
    assert!(
        !files(&folder.path().join("store/data")).iter().any(|path| path.to_str().unwrap().contains("11-20"))
    );
    assert_eq!(sums(&store), expected(206..220));
    assert_eq!(store.contents(&Choice::default()).unwrap().partitions.len(), 2);
    assert_eq!(store.prune("2026-11-21".parse().unwrap()).unwrap().partitions, []);
    add(&store, [5]).unwrap();
    assert_eq!(sums(&store), expected(206..220).into_iter().chain(expected([5])).collect());
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let (folder, _store) = store();
    let path = folder.path().join("store");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let store = Store::open_or_create(path).unwrap();
                // Each Run is added by two of them.
                for number in (0..24).filter(|number| number % 4 == writer || (number + 1) % 4 == writer) {
                    add(&store, [number]).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let store = Store::open(&path).unwrap();
            for _ in 0..10 {
                let keep =
                    CompactOptions { grace: CompactOptions::to(Level::Hour).grace, ..later(Level::Hour) };
                assert_eq!(store.compact(keep).unwrap().damaged, []);
            }
        });
    });
    let store = Store::open(&path).unwrap();
    assert_eq!((sums(&store), intervals(&store)), (expected(0..24), 24));
    assert_eq!(store.verify().unwrap().damaged, []);
}

#[test]
fn a_damaged_data_file_is_named_and_left_out() {
    let (folder, store) = store();
    add(&store, 0..4).unwrap();
    let all = files(&folder.path().join("store/data/buckets"));
    let mut bytes = fs::read(&all[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&all[0], &bytes).unwrap();
    let damaged = store.verify().unwrap().damaged;
    assert_eq!(damaged.len(), 1);
    assert!(damaged[0].file.contains("host=rt-00") && damaged[0].why.contains("SHA-256"), "{damaged:?}");
    // Nothing is added up of it, and the other host is.
    let document = store.compact(later(Level::Hour)).unwrap();
    assert_eq!((document.partitions.len(), document.damaged), (1, damaged));
    // Cut, missing, or a link to elsewhere.
    for cut in 0..3 {
        fs::remove_file(&all[0]).unwrap();
        match cut {
            0 => fs::write(&all[0], &bytes[..middle]).unwrap(),
            1 => {}
            _ => symlink("/dev/zero", &all[0]).unwrap(),
        }
        assert_eq!(store.verify().unwrap().damaged.len(), 1, "{cut}");
        let files = store.files(&[Table::Buckets], &Choice::default()).unwrap();
        assert_eq!(files.tables[&Table::Buckets].len(), 1, "{cut}");
        assert_eq!(files.damaged.len(), 1, "{cut}");
        if cut == 1 {
            fs::write(&all[0], "").unwrap();
        }
    }
}

#[test]
fn a_damaged_commit_is_named_and_nothing_counts_twice() {
    let (folder, store) = store();
    let mut running = run(2);
    running.state = RunState::Running;
    outcome(&store, &running).unwrap();
    add(&store, [2]).unwrap();
    add(&store, [4]).unwrap();
    add(&store, [6]).unwrap();
    let commits = files(&folder.path().join("store/commits"));
    assert_eq!(commits.len(), 4);
    let whole = fs::read(&commits[1]).unwrap();
    for damage in ["cut", "gone", "outside"] {
        match damage {
            "cut" => fs::write(&commits[1], &whole[..whole.len() / 2]).unwrap(),
            "gone" => fs::remove_file(&commits[1]).unwrap(),
            _ => {
                let text = String::from_utf8(whole.clone()).unwrap();
                fs::write(&commits[1], text.replace("host=rt-00/", "host=rt-00/../../")).unwrap();
            }
        }
        let found = store.verify().unwrap().damaged;
        assert_eq!(found.len(), 1, "{damage}: {found:?}");
        assert!(found[0].file.ends_with("0000000001.json"), "{damage}: {found:?}");
        // The earlier state of the Run is there in place of the later one.
        assert_eq!(intervals(&store), 3, "{damage}");
        let files_before = files(&folder.path().join("store/data"));
        assert_eq!(store.compact(later(Level::Hour)).unwrap().partitions, []);
        assert_eq!(files(&folder.path().join("store/data")), files_before, "what may be needed was removed");
    }
    // Added again, it counts again, and once.
    fs::write(&commits[1], "").unwrap();
    add(&store, [2, 8]).unwrap();
    assert_eq!((sums(&store), intervals(&store)), (expected([2, 4, 6, 8]), 4));
    // Mended, the commit counts, and the one that took its place does not.
    fs::write(&commits[1], &whole).unwrap();
    let found = store.verify().unwrap().damaged;
    assert!(found.len() == 1 && found[0].why.contains("an earlier commit has added"), "{found:?}");
    assert_eq!((sums(&store), intervals(&store)), (expected([2, 4, 6]), 3));
    // A day that is pruned has no damage, and takes its Runs again.
    store.prune("2027-01-01".parse().unwrap()).unwrap();
    assert_eq!(store.verify().unwrap().damaged, []);
    add(&store, [2, 4, 6, 8]).unwrap();
    assert_eq!((sums(&store), intervals(&store)), (expected([2, 4, 6, 8]), 4));
    assert_eq!(store.compact(later(Level::Hour)).unwrap().damaged, []);
}

#[test]
fn other_schemas_are_refused_with_what_to_do() {
    let (folder, store) = store();
    add(&store, [2]).unwrap();
    let commit = files(&folder.path().join("store/commits")).remove(0);
    let text = fs::read_to_string(&commit).unwrap();
    fs::write(&commit, text.replace("store-commit/1", "store-commit/2")).unwrap();
    let error = store.verify().unwrap_err().to_string();
    assert!(error.contains("store-commit/2") && error.contains("store-commit/1"), "{error}");
    let marker = folder.path().join("store/latebound-store.json");
    for (text, said) in [
        (
            "{\"schema\": \"latebound.store/0\"}",
            "\"latebound.store/0\", and this latebound reads \"latebound.store/1\"",
        ),
        ("{", "damaged"),
    ] {
        fs::write(&marker, text).unwrap();
        let error = Store::open(folder.path().join("store")).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_store_is_made_among_nothing_else() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(error.contains("No such file"), "{error}");
    fs::create_dir(&path).unwrap();
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(error.contains("latebound store add"), "{error}");
    fs::write(path.join("mine"), "").unwrap();
    let error = Store::open_or_create(&path).unwrap_err().to_string();
    assert!(error.contains("is not empty"), "{error}");
    fs::remove_file(path.join("mine")).unwrap();
    Store::open_or_create(&path).unwrap();
    assert_eq!(files(&path), [path.join("latebound-store.json")]);
}

/// Rows of a table as text without the paths of files, sorted.
fn told(store: &Store, table: Table) -> Vec<String> {
    let mut all = Vec::new();
    rows(store, table, |row| all.push(format!("{row:?}")));
    all.sort();
    all
}

#[test]
fn runs_that_come_by_the_hour_are_what_a_roll_up_makes_of_them() {
    let ((_one, minutes), (_other, hours)) = (store(), store());
    add(&minutes, 0..60).unwrap();
    minutes.compact(later(Level::Hour)).unwrap();
    let by_hour = |numbers: std::ops::Range<u64>| {
        let mut new = NewRuns::new().by_hour(true);
        numbers.for_each(|number| new.push(&run(number), "a.run", None).unwrap());
        hours.add(new).unwrap().commits
    };
    assert_eq!(by_hour(0..60), 2);
    for table in [Table::Series, Table::Buckets, Table::Worst, Table::Spans, Table::Losses, Table::Bounds] {
        assert_eq!(told(&hours, table), told(&minutes, table), "{table:?}");
    }
    let listed = hours.contents(&Choice::default()).unwrap().partitions;
    assert!(listed.iter().all(|one| one.level == Level::Hour), "{listed:?}");
    // Some again with some more, which are of hours that have rows: what is new counts once.
    assert_eq!(by_hour(50..75), 2);
    assert_eq!((sums(&hours), intervals(&hours)), (expected(0..75), 75));
    hours.compact(later(Level::Day)).unwrap();
    assert_eq!((sums(&hours), intervals(&hours)), (expected(0..75), 75));
    assert_eq!(by_hour(0..75), 0);
}

#[test]
fn a_run_that_goes_on_stays_apart_from_the_sums_of_its_hour() {
    let (_folder, store) = store();
    let mut running = run(3);
    running.state = RunState::Running;
    let added = |run: &Run| {
        let mut new = NewRuns::new().by_hour(true);
        new.push(run, "a.run", None).unwrap();
        store.add(new).unwrap().runs[0].outcome
    };
    assert_eq!((added(&running), added(&run(3))), (AddOutcome::Added, AddOutcome::Replaced));
    assert_eq!((sums(&store), intervals(&store)), (expected([3]), 1));
}

#[test]
fn a_bound_is_beside_what_the_same_run_measured() {
    let (_folder, store) = store();
    let fleet = SimulatedFleet {
        cpus: 2,
        day: "2026-11-20".parse().unwrap(),
        interval_us: 60_000_000,
        intervals: 2,
        wakeups_per_second: 1000,
        seed: 1,
    };
    // Only hosts of real-time kernels have a bound.
    let with_bound = |number| fleet.host(number).run(0);
    let mut run = (0..20).map(with_bound).find(|run| run.bound.is_some()).unwrap();
    let cpus = &mut run.bound.as_mut().unwrap().cpus;
    cpus.iter_mut().for_each(|cpu| cpu.measured = None);
    let cpu = cpus[0].cpu;
    let series = |name: &str, quantity, value: u64| {
        let mut histogram = Histogram::new();
        histogram.record(Nanos(value));
        let subject = Subject { name: name.to_owned(), task: None, cpu: Some(cpu) };
        Series::new(Mechanism::TimerWakeup, quantity, subject, Evidence::User, histogram)
    };
    // The open loop's latency is not what a bound is of.
    run.series = vec![
        series("measure", Quantity::LatencyNaive, 7_654_321),
        series("measure", Quantity::Latency, 9_999_999),
    ];
    outcome(&store, &run).unwrap();
    let mut observed = BTreeMap::new();
    rows(&store, Table::Bounds, |row| {
        observed.insert(long(&row["cpu"]), row["observed_max_ns"].clone());
    });
    let other = run.bound.unwrap().cpus.iter().map(|one| one.cpu).find(|one| *one != cpu).unwrap();
    assert_eq!(observed[&u64::from(cpu.0)], Field::Long(7_654_321));
    assert_eq!(observed[&u64::from(other.0)], Field::Null);
}

#[test]
fn hostile_hosts_stay_in_their_partitions() {
    let (folder, store) = store();
    let hosts = ["../x", "a\nb", "..", "h#1", "%2e%2e", "host=a/day=b"];
    for host in hosts {
        let mut new = NewRuns::new();
        new.push(&run(2), "a.run", Some(host)).unwrap();
        store.add(new).unwrap();
    }
    let listed: Vec<String> =
        store.contents(&Choice::default()).unwrap().partitions.into_iter().map(|one| one.host).collect();
    assert_eq!(listed, {
        let mut all = hosts.map(str::to_owned);
        all.sort();
        all
    });
    let mut found = Vec::new();
    rows(&store, Table::Intervals, |row| found.push(text(&row["host"])));
    found.sort();
    assert_eq!(found, listed);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(
        fs::read_dir(folder.path().join("store/commits/day=2026-11-20")).unwrap().count(),
        hosts.len()
    );
    for host in ["x".repeat(300), String::new()] {
        let error = NewRuns::new().push(&run(2), "a.run", Some(&host)).unwrap_err().to_string();
        assert!(error.contains("--host"), "{error}");
    }
}

#[test]
fn runs_that_belong_to_no_day_or_hold_too_much_are_refused() {
    let refused = |change: fn(&mut Run)| {
        let mut run = run(2);
        change(&mut run);
        NewRuns::new().push(&run, "bad\n.run", None).unwrap_err().to_string()
    };
    for (error, said) in [
        (refused(|run| run.started_at = "yesterday".to_owned()), "\"yesterday\""),
        (refused(|run| run.started_at = "1969-12-31T23:59:59Z".to_owned()), "1970"),
        (refused(|run| run.system.hostname = None), "--host"),
        (
            refused(|run| {
                run.series[0].histogram.record(Nanos(u64::MAX));
                run.series[0].summary = Summary::of(&run.series[0].histogram);
            }),
            "18446744073709551615",
        ),
    ] {
        assert!(error.contains(said) && error.contains("bad\\n.run"), "{error}");
    }
}

#[test]
fn a_bucket_of_objects_is_a_store_too() {
    let objects = Arc::new(object_store::memory::InMemory::new());
    let store = Store::in_objects(objects.clone()).unwrap();
    add(&store, 0..20).unwrap();
    store.compact(later(Level::Day)).unwrap();
    let again = Store::in_objects(objects).unwrap();
    assert_eq!(add(&again, 0..20).unwrap(), 0);
    let verified = again.verify().unwrap();
    assert_eq!((verified.intervals, verified.damaged), (20, Vec::new()));
}
