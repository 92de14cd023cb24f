// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a Run's folder appears, is replaced, and is read back.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says why and panics")]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{activations, sample_run};
use latebound_files::Folder;
use latebound_model::{CauseKind, Nanos, RunState};
use latebound_store::{RunFolder, StoreError, read_run};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("my.run");
    (folder, run)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn write(path: &Path, generation: u64) {
    RunFolder::create(path, true).unwrap().finish(&sample_run(generation), Some("<!doctype html>")).unwrap();
}

#[test]
fn what_is_written_is_read_back_from_the_folder_and_from_run_json() {
    let (_keep, path) = place();
    let mut folder = RunFolder::create(&path, false).unwrap();
    folder.write_activations(&activations(10), &[]).unwrap();
    let mut run = sample_run(5);
    folder.finish(&run, Some("<p>")).unwrap();
    let read = read_run(&path).unwrap();
    assert_eq!(read, read_run(path.join("run.json")).unwrap());
    let rows: Vec<_> = read.tables.iter().map(|table| (table.file.as_str(), table.rows)).collect();
    let buckets: usize = run.series.iter().map(|series| series.histogram.buckets().count()).sum();
    assert_eq!(
        rows,
        [
            ("activations.parquet", 10),
            ("histograms.parquet", buckets as u64),
            ("block_maxima.parquet", 41 + 39 + 41 + 41),
            ("worst_spans.parquet", 9)
        ]
    );
    run.tables = read.tables.clone();
    assert_eq!(read, run);
    assert_eq!(fs::read_to_string(path.join("report.html")).unwrap(), "<p>");
}

#[test]
fn the_folder_is_not_there_before_the_first_checkpoint_and_whole_after() {
    let (above, path) = place();
    let mut folder = RunFolder::create(&path, false).unwrap();
    assert!(!path.exists());
    folder.checkpoint(&sample_run(1)).unwrap();
    assert_eq!(names(&path), ["run.json"]);
    assert_eq!(read_run(&path).unwrap(), sample_run(1));
    folder.checkpoint(&sample_run(2)).unwrap();
    assert_eq!(read_run(&path).unwrap().duration, Nanos(2));
    folder.finish(&sample_run(3), None).unwrap();
    assert_eq!(
        names(&path),
        ["block_maxima.parquet", "histograms.parquet", "run.json", "worst_spans.parquet"]
    );
    assert_eq!(names(above.path()), ["my.run"]);
}

#[test]
fn a_writer_that_gives_up_before_its_first_checkpoint_leaves_nothing() {
    let (above, path) = place();
    drop(RunFolder::create(&path, false).unwrap());
    assert!(names(above.path()).is_empty());
}

#[test]
fn an_existing_run_is_replaced_only_on_request_and_with_all_its_files() {
    let (above, path) = place();
    write(&path, 1);
    let error = RunFolder::create(&path, false).unwrap_err().to_string();
    assert!(error.contains("--force") && error.contains("--output") && error.contains("my.run"), "{error}");
    let mut folder = RunFolder::create(&path, true).unwrap();
    assert_eq!(read_run(&path).unwrap().duration, Nanos(1), "the old Run stays until there is a new one");
    folder.checkpoint(&sample_run(2)).unwrap();
    assert_eq!(names(&path), ["run.json"], "nothing of the old Run is left beside the new one");
    assert_eq!(names(above.path()), ["my.run"]);
    assert_eq!(read_run(&path).unwrap().duration, Nanos(2));
}

#[test]
fn an_empty_folder_is_only_used_when_asked_for() {
    let (_keep, path) = place();
    fs::create_dir(&path).unwrap();
    let error = RunFolder::create(&path, false).unwrap_err().to_string();
    assert!(error.contains("empty") && error.contains("--force"), "{error}");
    RunFolder::create(&path, true).unwrap().checkpoint(&sample_run(1)).unwrap();
    assert_eq!(read_run(&path).unwrap().duration, Nanos(1));
}

#[test]
fn what_latebound_did_not_write_is_never_replaced() {
    let (above, path) = place();
    let refused = |path: &Path, reason: &str| {
        let error = RunFolder::create(path, true).unwrap_err();
        assert!(matches!(error, StoreError::NotARun { .. }), "{error:?}");
        assert!(error.to_string().contains(reason) && error.to_string().contains("--output"), "{error}");
    };
    fs::create_dir(&path).unwrap();
    fs::write(path.join("run.json"), r#"{"schema":"trainer.run/1"}"#).unwrap();
    refused(&path, "has no run.json of latebound");
    fs::remove_dir_all(&path).unwrap();
    write(&path, 1);
    // A table that the record does not name is somebody's, whatever its name ends in.
    for name in ["notes.txt", "mine.parquet", "activations.parquet", ".run.json.tmp"] {
        fs::write(path.join(name), "mine").unwrap();
        refused(&path, &format!("{name:?}"));
        assert_eq!(fs::read_to_string(path.join(name)).unwrap(), "mine");
        fs::remove_file(path.join(name)).unwrap();
    }
    let page = path.join("report.html");
    fs::remove_file(&page).unwrap();
    symlink("/etc/hostname", &page).unwrap();
    refused(&path, "\"report.html\"");
    assert!(page.is_symlink());
    let file = above.path().join("file");
    fs::write(&file, "mine").unwrap();
    refused(&file, "is not a folder");
    let link = above.path().join("link");
    symlink("nowhere", &link).unwrap();
    refused(&link, "is not a folder");
    assert!(link.is_symlink());
}

#[test]
fn a_record_cannot_have_what_is_no_table_removed() {
    let (_keep, path) = place();
    write(&path, 1);
    let text = fs::read_to_string(path.join("run.json")).unwrap();
    let named = text.replace("histograms.parquet", "notes.txt");
    assert_ne!(named, text);
    fs::write(path.join("run.json"), named).unwrap();
    fs::rename(path.join("histograms.parquet"), path.join("notes.txt")).unwrap();
    let error = RunFolder::create(&path, true).unwrap_err();
    assert!(error.to_string().contains("notes.txt"), "{error}");
    assert!(path.join("notes.txt").is_file());
}

#[test]
fn what_is_put_there_while_the_new_run_begins_is_kept() {
    let (above, path) = place();
    write(&path, 1);
    let mut folder = RunFolder::create(&path, true).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    folder.checkpoint(&sample_run(2)).unwrap_err();
    drop(folder);
    assert_eq!(fs::read_to_string(path.join("notes.txt")).unwrap(), "mine");
    assert_eq!(names(above.path()), ["my.run"]);
}

#[test]
fn of_a_writer_that_is_not_believed_only_a_runs_files_are_taken() {
    let (above, path) = place();
    let theirs = above.path().join("theirs");
    write(&theirs, 1);
    let from = Folder::open(&theirs).unwrap();
    let refused = |said: &str| {
        let error = RunFolder::create(&path, true)
            .unwrap()
            .take_over(&from, 1 << 20, |_| String::new())
            .unwrap_err()
            .to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(names(above.path()), ["theirs"]);
    };
    let table = theirs.join("histograms.parquet");
    let kept = fs::read(&table).unwrap();
    fs::remove_file(&table).unwrap();
    symlink("/etc/hostname", &table).unwrap();
    refused("a symbolic link");
    fs::remove_file(&table).unwrap();
    assert!(Command::new("mkfifo").arg(&table).status().unwrap().success());
    refused("a pipe");
    fs::remove_file(&table).unwrap();
    fs::File::create(&table).unwrap().set_len(1 << 40).unwrap();
    refused("at most");
    fs::write(&table, &kept).unwrap();
    let text = fs::read_to_string(theirs.join("run.json")).unwrap();
    fs::write(theirs.join("run.json"), text.replace("histograms.parquet", "x.sh")).unwrap();
    refused("x.sh");
    fs::write(theirs.join("run.json"), text).unwrap();
    fs::write(theirs.join("strange"), "").unwrap();
    RunFolder::create(&path, true).unwrap().take_over(&from, 1 << 20, |_| "our page".to_owned()).unwrap();
    assert_eq!(fs::read(path.join("histograms.parquet")).unwrap(), kept);
    assert_eq!(fs::read_to_string(path.join("report.html")).unwrap(), "our page");
    assert_eq!(read_run(&path).unwrap(), read_run(&theirs).unwrap());
    assert!(!path.join("strange").exists());
}

#[test]
fn any_name_will_do() {
    let (above, _) = place();
    let longest = "x".repeat(255);
    for name in ["a:b,c.run", "-o", "a b'\"", longest.as_str()]
        .map(OsStr::new)
        .into_iter()
        .chain([OsStr::from_bytes(b"\xff\xfe.run"), OsStr::from_bytes(b"\n")])
    {
        let path = above.path().join(name);
        write(&path, 1);
        write(&path, 2);
        assert_eq!(read_run(&path).unwrap().duration, Nanos(2));
    }
    assert_eq!(fs::read_dir(above.path()).unwrap().count(), 6);
}

#[test]
fn a_run_that_another_writer_is_at_is_not_replaced() {
    let (_keep, path) = place();
    let mut first = RunFolder::create(&path, false).unwrap();
    first.checkpoint(&sample_run(1)).unwrap();
    for overwrite in [false, true] {
        let error = RunFolder::create(&path, overwrite).unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    }
    drop(first);
    RunFolder::create(&path, true).unwrap();
}

#[test]
fn the_second_writer_to_a_new_place_is_refused_and_the_first_is_whole() {
    let (above, path) = place();
    let mut first = RunFolder::create(&path, false).unwrap();
    let mut second = RunFolder::create(&path, false).unwrap();
    first.checkpoint(&sample_run(1)).unwrap();
    let error = second.checkpoint(&sample_run(2)).unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    drop(second);
    assert_eq!(read_run(&path).unwrap().duration, Nanos(1));
    assert_eq!(names(above.path()), ["my.run"]);
}

#[test]
fn what_dead_writers_left_is_removed_and_nothing_else_is() {
    let (above, path) = place();
    let made = |name: &str, file: &str| {
        let folder = above.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(file), "half a ").unwrap();
        folder
    };
    let dead = made(".latebound-0123456789abcdef.tmp", ".latebound-0123456789abcdee.tmp");
    let kept = [
        made(".latebound-0123456789abcde0.tmp", "notes.txt"),
        made(".latebound-0123456789abcde.tmp", ".latebound-0123456789abcdee.tmp"),
        made(".my.run.1.0.latebound-tmp", ".latebound-0123456789abcdee.tmp"),
        made("my.run.bak", "notes.txt"),
    ];
    let alive = RunFolder::create(&path, false).unwrap();
    assert!(!dead.exists());
    let mut second = RunFolder::create(&path, false).unwrap();
    second.checkpoint(&sample_run(1)).unwrap();
    assert_eq!(names(above.path()).len(), kept.len() + 2, "the living one's is kept");
    drop(alive);
    assert!(kept.iter().all(|folder| fs::read_dir(folder).unwrap().count() == 1));
}

/// Runs a program as a user that owns nothing.
fn as_another(words: &[&OsStr]) -> bool {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "12345", "--regid", "12345", "--clear-groups", "--"]).args(words);
    command.status().expect("setpriv is installed").success()
}

#[test]
fn what_another_user_plants_beside_a_run_is_not_waited_for_nor_removed() {
    // SAFETY: geteuid only returns a number.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("only root can be another user: the planted files are this user's here");
    }
    let (above, path) = place();
    fs::set_permissions(above.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let plant = format!(
        "cd '{}' && mkfifo .latebound-0000000000000001.tmp .my.run.1.0.latebound-tmp && \
         ln -s / .latebound-0000000000000002.tmp && mkdir .latebound-0000000000000003.tmp && \
         echo theirs >.latebound-0000000000000003.tmp/run.json",
        above.path().display()
    );
    // SAFETY: as above.
    let planted = match unsafe { libc::geteuid() } {
        0 => as_another(&["sh", "-c", &plant].map(OsStr::new)),
        _ => Command::new("sh").args(["-c", &plant]).status().unwrap().success(),
    };
    assert!(planted);
    write(&path, 1);
    assert_eq!(names(above.path()).len(), 5);
    assert!(above.path().join(".latebound-0000000000000003.tmp/run.json").is_file());
    // In the Run itself: a pipe in the place of a file is neither waited for nor written to.
    fs::remove_file(path.join("run.json")).unwrap();
    assert!(Command::new("mkfifo").arg(path.join("run.json")).status().unwrap().success());
    for error in [read_run(&path).unwrap_err(), read_run(path.join("run.json")).unwrap_err()] {
        assert!(error.to_string().contains("a pipe"), "{error}");
    }
    let error = RunFolder::create(&path, true).unwrap_err().to_string();
    assert!(error.contains("no run.json"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_made_says_what_to_type() {
    let (above, _) = place();
    let error = RunFolder::create(above.path().join("no/such/my.run"), false).unwrap_err().to_string();
    assert!(error.contains("mkdir -p") && error.contains("no/such/my.run"), "{error}");
}

#[test]
fn a_run_that_contradicts_itself_is_neither_written_nor_read() {
    let (_keep, path) = place();
    write(&path, 1);
    let text = fs::read_to_string(path.join("run.json")).unwrap();
    let mut run = sample_run(2);
    run.worst[1].causes[0].duration = Nanos(59_999);
    assert_eq!(run.worst[1].causes[0].kind, CauseKind::PreemptionOff);
    let error = RunFolder::create(&path, true).unwrap().checkpoint(&run).unwrap_err().to_string();
    assert!(error.contains("worst activation 2") && error.contains("add up"), "{error}");
    assert_eq!(read_run(&path).unwrap().duration, Nanos(1));
    for (from, to, why) in [
        (r#""duration":60000"#, r#""duration":60001"#, "add up"),
        (r#""cpu1/latency""#, r#""cpu1/latency""#, ""),
        ("timer_wakeup/measure/cpu0/latency_naive", "timer_wakeup/measure/cpu0/latency", "two series"),
        (r#""summary":{"count":2000"#, r#""summary":{"count":2001"#, "2001"),
        ("histograms.parquet", "../histograms.parquet", "not the name of a file"),
    ] {
        fs::write(path.join("run.json"), text.replace(from, to)).unwrap();
        match read_run(&path) {
            Ok(_) => assert!(why.is_empty(), "{to} was accepted"),
            Err(error) => assert!(!why.is_empty() && error.to_string().contains(why), "{error}"),
        }
    }
}

#[test]
fn another_schema_is_refused_with_both_versions_though_fields_differ() {
    let (_keep, path) = place();
    fs::write(&path, r#"{"schema":"latebound.run/2","series":{"all":"different"}}"#).unwrap();
    let error = read_run(&path).unwrap_err().to_string();
    assert!(error.contains("latebound.run/2") && error.contains("latebound.run/1"), "{error}");
}

#[test]
fn fields_that_this_version_does_not_know_are_accepted() {
    let (_keep, path) = place();
    write(&path, 1);
    let text = fs::read_to_string(path.join("run.json")).unwrap();
    let more = text
        .replacen('{', r#"{"weather":{"wind":[1,2]},"#, 1)
        .replace(r#""mechanism":"#, r#""new":0,"mechanism":"#);
    assert_ne!(more, text);
    fs::write(path.join("run.json"), more).unwrap();
    assert_eq!(read_run(&path).unwrap().duration, Nanos(1));
}

#[test]
fn a_place_without_a_run_says_what_to_give() {
    let (above, path) = place();
    for place in [&path, &above.path().to_owned()] {
        let error = read_run(place).unwrap_err().to_string();
        assert!(error.contains("No such file") && error.contains("run.json"), "{error}");
    }
    fs::write(&path, "not json").unwrap();
    let error = read_run(&path).unwrap_err().to_string();
    assert!(error.contains("is not a Run") && error.contains("line 1"), "{error}");
}

#[test]
fn a_file_larger_than_any_run_is_not_read_into_memory() {
    let (_keep, path) = place();
    let file = fs::File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    let error = read_run(&path).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { unit: "bytes", .. }), "{error:?}");
    let many = format!(r#"{{"schema":"latebound.run/1","series":[{}1]}}"#, "1,".repeat(1 << 14));
    fs::write(&path, many).unwrap();
    let error = read_run(&path).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { unit: "series", .. }), "{error:?}");
}

#[test]
fn an_interrupted_state_is_kept_as_it_was() {
    let (_keep, path) = place();
    let mut run = sample_run(1);
    run.state = RunState::Interrupted;
    RunFolder::create(&path, false).unwrap().finish(&run, None).unwrap();
    assert_eq!(read_run(&path).unwrap().state, RunState::Interrupted);
}
