// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound store`: exit statuses, both streams, and names that would steer a terminal.

use std::fs;
use std::path::Path;

use crate::tool::{Ran, done, folder, latebound};

const SAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../latebound-import/tests/samples/cyclictest.json");

fn ran(folder: &Path, arguments: &[&str]) -> Ran {
    crate::tool::ran(latebound(folder).args(arguments))
}

fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// A store with a Run of this host.
#[track_caller]
fn store(folder: &Path, host: &str) {
    done(folder, &["import", SAMPLE, "--output", "a.run"]);
    let added = done(folder, &["store", "add", "--store", "fleet", "--host", host, "a.run"]);
    assert_eq!(added.err, "");
}

#[test]
fn a_damaged_store_is_named_and_ends_with_status_1() {
    let folder = folder();
    store(folder.path(), "rt-07");
    let verified = ran(folder.path(), &["store", "verify", "--store", "fleet", "--format", "json"]);
    assert_eq!((verified.code, json(&verified)["intervals"].as_u64()), (Some(0), Some(1)));
    let paths = ran(folder.path(), &["store", "files", "--store", "fleet", "--table", "buckets"]);
    let path = paths.out.trim_end();
    assert!(path.starts_with('/') && !path.contains('\n'), "{path}");
    fs::write(path, "cut").unwrap();
    for verb in ["verify", "files"] {
        let ran = self::ran(folder.path(), &["store", verb, "--store", "fleet", "--format", "json"]);
        assert_eq!(ran.code, Some(1), "{verb}: {ran:?}");
        assert_eq!(json(&ran)["damaged"].as_array().unwrap().len(), 1, "{verb}");
        assert!(ran.err.contains("data/buckets/") && ran.err.contains("backup"), "{verb}: {ran:?}");
    }
    // What was pruned can be added again.
    done(folder.path(), &["store", "prune", "--store", "fleet", "--before", "2027-01-01"]);
    let added = done(folder.path(), &["store", "add", "--store", "fleet", "--host", "rt-07", "a.run"]);
    assert!(added.out.starts_with("1 Run added"), "{added:?}");
    done(folder.path(), &["store", "verify", "--store", "fleet"]);
}

#[test]
fn a_store_is_for_its_owner_and_its_group() {
    use std::os::unix::fs::PermissionsExt;
    fn look(path: &Path) -> usize {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0, "{} has the mode {mode:o}", path.display());
        let below = path.is_dir().then(|| fs::read_dir(path).unwrap());
        1 + below.into_iter().flatten().map(|entry| look(&entry.unwrap().path())).sum::<usize>()
    }
    let folder = folder();
    store(folder.path(), "rt-07");
    assert!(look(&folder.path().join("fleet")) > 20);
}

#[test]
fn a_host_in_a_list_steers_no_terminal_and_makes_no_line() {
    let folder = folder();
    store(folder.path(), "a\u{1b}[31m\n2026-11-21  b");
    let listed = ran(folder.path(), &["store", "list", "--store", "fleet"]);
    assert_eq!(listed.out.lines().count(), 2, "{listed:?}");
    assert!(listed.out.contains("a\\x1b[31m\\x0a2026-11-21  b"), "{listed:?}");
}

#[test]
fn nothing_is_added_where_one_of_the_runs_cannot_be_read() {
    let folder = folder();
    done(folder.path(), &["import", SAMPLE, "--output", "a.run"]);
    let added = ran(folder.path(), &["store", "add", "--store", "fleet", "a.run", "nothing"]);
    assert_eq!(added.code, Some(1), "{added:?}");
    assert!(added.err.contains("nothing") && !folder.path().join("fleet").exists(), "{added:?}");
    let listed = ran(folder.path(), &["store", "list", "--store", "fleet"]);
    assert_eq!(listed.code, Some(1), "{listed:?}");
}
