// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is written to the two streams.

use std::fs;
use std::io::pipe;
use std::process::Stdio;

use crate::tool::{Ran, done, folder, last_cpu, latebound, live, ran};

#[test]
fn live_every_verb_prints_one_json_document_and_nothing_else() {
    let _live = live();
    let folder = folder();
    let cpu = last_cpu();
    for arguments in [
        &["check", "--duration", "300ms", "--cpus", &cpu, "--output", "a.run"][..],
        &["measure", "--duration", "100ms", "--cpus", &cpu],
        &["observe", "--duration", "200ms"],
        &["explain", "--rt", "--duration", "200ms"],
        &["explain", "a.run"],
        &["report", "a.run"],
        &["doctor"],
        &["schema"],
    ] {
        let ran = done(folder.path(), &[arguments, &["--format", "json"]].concat());
        // serde_json refuses anything behind the document.
        let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert!(document.is_object(), "{arguments:?}");
        assert_eq!(ran.err, "", "{arguments:?}");
        if !matches!(arguments[0], "doctor" | "schema") {
            assert_eq!(ran.run().schema, latebound_model::RUN_SCHEMA, "{arguments:?}");
        }
    }
    // Errors go to the other stream.
    let failed = ran(latebound(folder.path()).args(["report", "nowhere", "--format", "json"]));
    assert_eq!((failed.code, failed.out.as_str()), (Some(1), ""));
}

#[test]
fn the_json_of_a_saved_run_is_the_saved_run() {
    let folder = folder();
    let measure =
        ["measure", "--policy", "other", "--duration", "50ms", "--output", "a.run", "--format", "json"];
    let printed = done(folder.path(), &measure).run();
    let saved = latebound_store::read_run(folder.path().join("a.run")).unwrap();
    assert_eq!(printed, saved);
    assert_eq!(done(folder.path(), &["report", "a.run", "--format", "json"]).run(), saved);
    let page = done(folder.path(), &["report", "a.run", "--html", "-"]).out;
    done(folder.path(), &["report", "a.run", "--html", "b.html"]);
    for file in ["a.run/report.html", "b.html"] {
        let other = fs::read_to_string(folder.path().join(file)).unwrap();
        // Not assert_eq!, which would print both.
        assert!(other.trim_end() == page.trim_end(), "{file} is not the page that report prints");
    }
}

#[test]
fn colours_are_written_only_where_they_are_asked_for_or_a_terminal_shows_them() {
    let folder = folder();
    let colourful = |arguments: &[&str], no_color: &str| {
        let ran = ran(latebound(folder.path()).arg("doctor").args(arguments).env("NO_COLOR", no_color));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.out.contains('\x1b')
    };
    assert!(!colourful(&[], ""));
    assert!(!colourful(&["--color", "never"], ""));
    assert!(colourful(&["--color", "always"], ""));
    // What was typed says more than the environment.
    assert!(colourful(&["--color", "always"], "1"));
}

#[test]
fn a_reader_that_went_away_is_no_error_and_changes_no_status() {
    let folder = folder();
    for (arguments, status) in [
        (&["doctor"][..], 0),
        (&["schema"], 0),
        (&["--help"], 0),
        (&["measure", "--policy", "other", "--duration", "50ms", "--format", "json"], 0),
        (&["measure", "--policy", "other", "--duration", "50ms", "--max-latency", "1ns"], 2),
    ] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let child =
            latebound(folder.path()).args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (Some(status), ""), "{arguments:?}");
    }
}

#[test]
fn a_standard_output_that_is_full_is_an_error() {
    let folder = folder();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let child = latebound(folder.path()).arg("schema").stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("cannot write to standard output: No space left"), "{}", ran.err);
}
