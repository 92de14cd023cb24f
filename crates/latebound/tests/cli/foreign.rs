// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places where another user planted pipes and links: an error at once, and nothing of anybody is touched. Also places where nothing
//! can be written to.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use latebound_store::read_run;

use crate::tool::{Ran, assert_says, done, folder, in_own_mounts, latebound, live, ran};

const SAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../latebound-import/tests/samples/cyclictest.json");

/// A command as another user, who owns nothing here.
fn as_another(folder: &Path, script: &str) {
    let status = Command::new("setpriv")
        .args(["--reuid", "12345", "--regid", "12345", "--clear-groups", "--", "sh", "-c", script])
        .current_dir(folder)
        .status();
    assert!(status.expect("setpriv is installed").success(), "{script}");
}

/// Runs the binary, and fails where it waits for somebody who never comes.
#[track_caller]
fn at_once(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = latebound(folder);
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("latebound {arguments:?} waits");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn live_pipes_of_another_user_are_an_error_at_once() {
    let _live = live();
    let folder = folder();
    as_another(folder.path(), "mkfifo pipe && mkdir a.run && mkfifo a.run/run.json && ln -s pipe link");
    for arguments in [
        ["bound", "pipe"].as_slice(),
        &["bound", "link"],
        &["bound", SAMPLE, "--kallsyms", "pipe"],
        &["explain", "--trace", "pipe", "--comm", "x"],
        &["explain", "pipe"],
        &["explain", "a.run"],
        &["import", "pipe"],
        &["report", "a.run"],
        &["compare", "a.run", "--against", "pipe"],
        &["compare", SAMPLE, "--against", "pipe"],
        &["compare", "preemption", "--resume", "a.run"],
        &["defer", "advise", "a.run", "--budget", "1ms"],
        &["tune", "map", "--config", "pipe"],
        &["tune", "fit", "pipe"],
        &["tune", "show", "pipe"],
        &["tune", "record", "pipe", "--output", "x"],
        &["lab", "run", "--kernel", "./pipe", "--output", "x.run", "--", "doctor"],
    ] {
        let ran = at_once(folder.path(), arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        assert!(!ran.err.is_empty() && !ran.err.contains("Usage:"), "{arguments:?}: {ran:?}");
    }
    assert_says(&at_once(folder.path(), &["import", "pipe"]).err, &["pipe", "save what comes through it"]);
}

#[test]
fn live_links_and_pipes_in_the_place_of_results_are_refused() {
    let _live = live();
    let folder = folder();
    let kept = tempfile::tempdir().unwrap();
    let aim = kept.path().join("aim");
    fs::write(&aim, "root's").unwrap();
    let link = format!(
        "mkfifo pipe && for name in link 1.svg a.run .a.run.1.0.latebound-tmp; do ln -s {} $name; done",
        aim.display()
    );
    as_another(folder.path(), &link);
    done(folder.path(), &["import", SAMPLE, "--output", "mine.run"]);
    for arguments in [
        ["report", "mine.run", "--html", "link"].as_slice(),
        &["report", "mine.run", "--html", "pipe"],
        &["report", "mine.run", "--pictures", "."],
        &["compare", "mine.run", "mine.run", "--html", "link"],
        &["compare", "mine.run", "mine.run", "--junit", "pipe"],
        &["import", SAMPLE, "--output", "a.run"],
        &["import", SAMPLE, "--output", "a.run", "--force"],
        &["tune", "record", "--output", "link", "--force"],
        &["tune", "record", "--output", "pipe", "--force"],
    ] {
        let ran = at_once(folder.path(), arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
    }
    assert_eq!(fs::read_to_string(&aim).unwrap(), "root's");
    assert_eq!(fs::read_dir(kept.path()).unwrap().count(), 1);
    // What is planted beside a result is no matter.
    as_another(folder.path(), "mkfifo .latebound-0000000000000000.tmp .page.html.tmp page.html.part");
    done(folder.path(), &["report", "mine.run", "--html", "page.html"]);
    done(folder.path(), &["import", SAMPLE, "--output", "mine.run", "--force"]);
}

#[test]
fn what_a_record_does_not_name_is_not_replaced_with_force() {
    let folder = folder();
    done(folder.path(), &["import", SAMPLE, "--output", "a.run"]);
    let mine = folder.path().join("a.run/mine.parquet");
    fs::write(&mine, "mine").unwrap();
    let refused = ran(latebound(folder.path()).args(["import", SAMPLE, "--output", "a.run", "--force"]));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_says(&refused.err, &["mine.parquet", "does not name", "--output"]);
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
}

#[test]
fn any_file_name_will_do_for_a_run() {
    let folder = folder();
    let names: [&[u8]; 5] = [b"a:b.run", b"a,b=c.run", b" 'a\"b' .run", b"\xff\xfe.run", b"-x.run"];
    for name in names.map(std::ffi::OsStr::from_bytes) {
        let mut output = std::ffi::OsString::from("--output=");
        output.push(name);
        let ran = latebound(folder.path()).args(["import", SAMPLE]).arg(output).output().unwrap();
        assert!(ran.status.success(), "{name:?}: {ran:?}");
        assert!(!read_run(folder.path().join(name)).unwrap().series.is_empty(), "{name:?}");
    }
}

#[test]
fn above_a_limit_on_file_sizes_nothing_is_left_and_why_is_reported() {
    let folder = folder();
    let script = format!("ulimit -f 0; exec \"$0\" import {SAMPLE} --output a.run 2>&1 | cat");
    let ran = ran(Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_latebound")])
        .current_dir(folder.path())
        .stdin(Stdio::null()));
    assert_says(&ran.out, &["a.run", "ulimit -f"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{ran:?}");
}

#[test]
fn live_on_a_full_disk_nothing_is_left_and_the_reason_is_reported() {
    let _live = live();
    let folder = folder();
    fs::create_dir(folder.path().join("disk")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64k tmpfs disk && cat /dev/zero >disk/filler 2>/dev/null; \
         \"$0\" import {SAMPLE} --output disk/a.run; test $? = 1 && ls -A disk"
    );
    let ran = in_own_mounts(folder.path(), &script);
    assert_says(&ran.err, &["disk/a.run", "the disk is full"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "filler\n"), "{ran:?}");
}
