// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store in a bucket of a real S3 server: what holds in a folder holds there.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on says why and panics")]

mod common;

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use common::s3::{BUCKET, KEY, SECRET, in_a_bucket};
use common::{add, expected, files, intervals, later, name, rows, run, sums};
use latebound_fleet::{
    Cache, Choice, CompactOptions, Level, NewRuns, Store, Table, fetch_object, objects_below,
};
use latebound_model::RunState;

#[test]
fn a_bucket_adds_rolls_up_verifies_and_prunes_as_a_folder_does() {
    in_a_bucket("a_bucket_adds_rolls_up_verifies_and_prunes_as_a_folder_does", |server, _, _| {
        let place = server.store("lab/2026");
        let error = Store::open(&place).unwrap_err().to_string();
        assert!(error.contains(&place) && error.contains("latebound store add"), "{error}");
        let store = Store::open_or_create(&place).unwrap();
        assert_eq!(store.location(), place);
        assert_eq!(add(&store, 0..220).unwrap(), 4);
        assert_eq!(add(&Store::open(&place).unwrap(), 0..221).unwrap(), 1);
        assert_eq!((sums(&store), intervals(&store)), (expected(0..221), 221));
        let mut running = run(221);
        running.state = RunState::Running;
        let mut new = NewRuns::new();
        new.push(&running, "a.run", None).unwrap();
        store.add(new).unwrap();
        add(&store, [221]).unwrap();
        assert_eq!((sums(&store), intervals(&store)), (expected(0..222), 222));
        // For other programs a file is a URL, and on this machine a copy in a private folder.
        let files = store.files(Table::ALL, &Choice::default()).unwrap();
        let url = &files.tables[&Table::Series][0];
        assert!(url.starts_with(&format!("{place}/data/series/day=2026-11-2")), "{url}");
        let local = store.local_files(Table::ALL, &Choice::default(), Cache::of_user).unwrap();
        for (table, paths) in &files.tables {
            assert_eq!(local.tables[table].len(), paths.len(), "{table}");
        }
        // What does not count goes after an hour, and not before.
        let stray = server.files("lab/2026/data/series/day=2026-11-20/host=rt-00/00ff.parquet");
        fs::write(&stray, "of a dead writer").unwrap();
        for to in [Level::Hour, Level::Day] {
            let grace = CompactOptions::to(to).grace;
            let document = store.compact(CompactOptions { grace, ..later(to) }).unwrap();
            assert_eq!((document.partitions.len(), document.removed_files), (4, 0));
            assert_eq!((sums(&store), intervals(&store)), (expected(0..222), 222));
        }
        assert!(stray.exists());
        assert!(store.compact(later(Level::Day)).unwrap().removed_files > 0);
        assert_eq!(sums(&store), expected(0..222));
        let listed = store.contents(&Choice::default()).unwrap();
        let live: u64 = listed.partitions.iter().map(|one| one.files).sum();
        assert_eq!(common::files(&server.files("lab/2026/data")).len() as u64, live);
        let verified = store.verify().unwrap();
        assert_eq!((verified.intervals, verified.files, verified.damaged), (222, live, Vec::new()));
        // Another store lies beside it, whose name begins alike.
        let beside = Store::open_or_create(server.store("lab/2026b")).unwrap();
        add(&beside, 0..2).unwrap();
        assert_eq!(store.prune("2027-01-01".parse().unwrap()).unwrap().partitions.len(), 4);
        assert_eq!((intervals(&store), intervals(&beside)), (0, 2));
        assert_eq!(common::files(&server.files("lab/2026/data")).len(), 0);
        let error = Store::open_or_create(server.store("lab")).unwrap_err().to_string();
        assert!(error.contains("is not empty"), "{error}");
    });
}

#[test]
fn a_damaged_or_missing_object_of_a_bucket_is_named_and_left_out() {
    in_a_bucket("a_damaged_or_missing_object_of_a_bucket_is_named_and_left_out", |server, _, _| {
        let store = Store::open_or_create(server.store("lab")).unwrap();
        add(&store, 0..4).unwrap();
        let all = files(&server.files("lab/data/buckets"));
        let mut bytes = fs::read(&all[0]).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&all[0], &bytes).unwrap();
        fs::remove_file(&all[1]).unwrap();
        let verified = store.verify().unwrap().damaged;
        assert_eq!(verified.len(), 2, "{verified:?}");
        // Who copies files one by one learns the same: what is missing from the list, what was changed from its copy.
        let found = store.data_files(&[Table::Buckets], &Choice::default()).unwrap();
        let copied = store.copies(&found.tables[&Table::Buckets], &Cache::of_user().unwrap()).unwrap();
        let mut damaged: Vec<_> = copied.into_iter().map(Result::unwrap_err).chain(found.damaged).collect();
        damaged.sort();
        assert_eq!(damaged, verified);
        let local = store.local_files(Table::ALL, &Choice::default(), Cache::of_user).unwrap();
        assert_eq!((local.damaged, local.tables[&Table::Buckets].len()), (verified, 0));
        let again = store.local_files(Table::ALL, &Choice::default(), Cache::of_user).unwrap();
        assert_eq!(again.tables, local.tables);
    });
}

#[test]
fn more_objects_than_a_server_lists_at_once_all_count() {
    in_a_bucket("more_objects_than_a_server_lists_at_once_all_count", |server, _, _| {
        let store = Store::open_or_create(server.store("lab")).unwrap();
        add(&store, [0]).unwrap();
        // A server of S3 gives 1000 names at once.
        let folder = server.files("lab/data/series/day=2026-11-20/host=rt-00");
        for number in 0..2100 {
            fs::write(folder.join(format!("{number:032x}.parquet")), "x").unwrap();
        }
        assert!(store.compact(later(Level::Hour)).unwrap().removed_files >= 2100);
        assert!(files(&folder).len() < 3);
        assert_eq!(sums(&store), expected([0]));
    });
}

#[test]
fn of_many_writers_of_one_name_one_is_first() {
    in_a_bucket("of_many_writers_of_one_name_one_is_first", |server, _, _| {
        const WRITERS: u64 = 8;
        const EACH: u64 = 6;
        let place = server.store("lab");
        let (committed, begun) = (AtomicU64::new(0), Instant::now());
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (place, committed) = (&place, &committed);
                scope.spawn(move || {
                    let store = Store::open_or_create(place).unwrap();
                    for number in 0..EACH {
                        // All of the same host and day: each commit needs a number that others want, too.
                        let mut new = NewRuns::new();
                        let number = 2 * (writer * EACH + number);
                        new.push(&run(number), &name(number), None).unwrap();
                        committed.fetch_add(store.add(new).unwrap().commits, Ordering::Relaxed);
                    }
                });
            }
        });
        println!("{WRITERS} writers: {} commits in {:?}", WRITERS * EACH, begun.elapsed());
        let all = || (0..WRITERS * EACH).map(|number| 2 * number);
        let store = Store::open(&place).unwrap();
        assert_eq!(committed.into_inner(), WRITERS * EACH);
        assert_eq!(files(&server.files("lab/commits")).len() as u64, WRITERS * EACH);
        assert!(sums(&store) == expected(all()));
        assert_eq!((intervals(&store), store.verify().unwrap().damaged), (WRITERS * EACH, Vec::new()));
        // No file of a writer that came second is left.
        let live: u64 =
            store.contents(&Choice::default()).unwrap().partitions.iter().map(|one| one.files).sum();
        assert_eq!(files(&server.files("lab/data")).len() as u64, live);
    });
}

#[test]
fn errors_of_a_bucket_say_what_to_do_and_show_no_key() {
    const TEST: &str = "errors_of_a_bucket_say_what_to_do_and_show_no_key";
    const ASKED: &str = "LATEBOUND_TEST_ERROR_OF";
    if let Some(place) = std::env::var_os(ASKED) {
        let error = Store::open_or_create(&place).unwrap_err();
        println!("{error}\n{error:?}");
        return;
    }
    in_a_bucket(TEST, |_, settings, _| {
        let ours = format!("s3://{BUCKET}/lab");
        let elsewhere = "s3://nobodys-bucket/lab";
        for (place, change, says) in [
            (&*ours, ("AWS_SECRET_ACCESS_KEY", "wrong"), "AWS_SECRET_ACCESS_KEY"),
            (&*ours, ("AWS_ACCESS_KEY_ID", "AKNOBODYSKEY"), "AWS_ACCESS_KEY_ID"),
            (&*ours, ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"), "AWS_ENDPOINT_URL"),
            (&*ours, ("AWS_ALLOW_HTTP", "false"), "AWS_ALLOW_HTTP"),
            (elsewhere, ("AWS_REGION", "us-east-1"), "make the bucket"),
        ] {
            let begun = Instant::now();
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", TEST, "--nocapture"])
                .env(ASKED, place)
                .envs(settings.iter().cloned())
                .env(change.0, change.1)
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("1 passed"), "{text}");
            println!("{change:?} ({:?}): {text}", begun.elapsed());
            assert!(text.contains(says) && text.contains(place), "{change:?}: {text}");
            for never in [KEY, SECRET, "AKNOBODYSKEY"] {
                assert!(!text.contains(never), "{change:?}: {text}");
            }
        }
    });
}

#[test]
fn tables_of_a_bucket_have_the_rows_of_a_folder() {
    in_a_bucket("tables_of_a_bucket_have_the_rows_of_a_folder", |server, _, folder| {
        let places = [folder.join("store").into_os_string(), server.store("lab").into()];
        let of = places.map(|place| {
            let store = Store::open_or_create(place).unwrap();
            add(&store, 0..30).unwrap();
            store.compact(later(Level::Hour)).unwrap();
            let mut all: Vec<String> = Vec::new();
            for table in Table::ALL {
                rows(&store, *table, |row| all.push(format!("{table} {row:?}")));
            }
            all
        });
        assert!(!of[0].is_empty() && of[0] == of[1]);
    });
}

#[test]
fn an_object_is_fetched_in_parts_and_only_where_it_is_whole() {
    in_a_bucket("an_object_is_fetched_in_parts_and_only_where_it_is_whole", |server, _, _| {
        let folder = tempfile::tempdir().unwrap();
        let traces = server.files("traces");
        fs::create_dir_all(traces.join("b")).unwrap();
        // Of three parts, none of which is like another.
        let large: Vec<u8> = (0..(34u32 << 20) / 4).flat_map(u32::to_le_bytes).collect();
        fs::write(traces.join("b/large.dat"), &large).unwrap();
        fs::write(traces.join("a.dat"), "").unwrap();
        fs::write(server.files("traces-of-others"), "none of these").unwrap();
        let url = |name: &str| server.store(name);
        let below = objects_below(&url("traces/")).unwrap();
        assert_eq!(below, [url("traces/a.dat"), url("traces/b/large.dat")]);
        assert_eq!(objects_below(&url("none/")).unwrap(), Vec::<String>::new());

        let to = |name: &str| folder.path().join(name);
        fetch_object(&below[0], &to("empty")).unwrap();
        assert_eq!(fs::metadata(to("empty")).unwrap().len(), 0);
        fetch_object(&below[1], &to("large")).unwrap();
        assert!(fs::read(to("large")).unwrap() == large);
        let times = [to("large"), traces.join("b/large.dat")]
            .map(|path| fs::metadata(path).unwrap().modified().unwrap());
        let apart = times[0].duration_since(times[1]).unwrap_or_else(|error| error.duration());
        assert!(apart.as_secs() < 1, "{apart:?}");
        // What is there is never written over.
        let error = fetch_object(&below[0], &to("large")).unwrap_err().to_string();
        assert!(error.contains("exists") && fs::metadata(to("large")).unwrap().len() == large.len() as u64);
        // It takes no room: nothing was written to it.
        fs::File::create(traces.join("endless.dat")).unwrap().set_len((64 << 30) + 1).unwrap();
        for (url, said) in [
            (url("traces/none.dat"), "there is no object"),
            (url("traces/endless.dat"), "68719476737 bytes"),
            ("/tmp/a.dat".to_owned(), "s3://BUCKET/NAME"),
        ] {
            let error = fetch_object(&url, &to("none")).unwrap_err().to_string();
            assert!(error.contains(said) && !to("none").exists(), "{error}");
        }
    });
}
