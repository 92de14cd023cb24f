// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is written to the two streams.

use std::ffi::OsStr;
use std::fs;
use std::io::pipe;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use crate::tool::{Ran, assert_says, done, folder, last_cpu, latebound, live, ran};

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
fn colours_are_written_only_on_request_or_to_a_terminal() {
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

/// One of each class that steers a terminal or turns the reading: C0, DEL, C1 (one with a code in UTF-8 that begins a control
/// sequence), bidirectional marks, embeddings and isolates, separators.
const STEERING: &str = "\u{7}\r\u{1b}\u{7f}\u{80}\u{9b}\u{9f}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";

#[track_caller]
fn assert_steers_nothing(text: &str, of: &str) {
    let found: Vec<char> = text.chars().filter(|c| STEERING.contains(*c) || *c == '\0').collect();
    assert!(found.is_empty(), "{found:?} of {of} in {text:?}");
}

#[test]
fn no_argument_steers_the_terminal_through_a_message() {
    let folder = folder();
    let name = format!("x{STEERING}y\nlatebound: all is well");
    fs::write(folder.path().join("tune.toml"), format!("policy = \"{STEERING}\"\n[{STEERING}")).unwrap();
    for arguments in [
        &[name.as_str()][..],
        &["measure", &format!("--{name}")],
        &["measure", "--period", &name],
        &["check", "--load", &name],
        &["measure", "--policy", &name],
        &["report", &name],
        &["explain", "--comm", &name],
        &["doctor", "--root", &name],
        &["tune", "map", "--duration", "1ms", "--config", "tune.toml"],
    ] {
        let ran = ran(latebound(folder.path()).args(arguments));
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
        assert_steers_nothing(&ran.err, &format!("{arguments:?}"));
        assert_says(&ran.err, &["\\x1b", "\\u{9b}", "\\u{202e}"]);
        assert!(!ran.err.contains("\nlatebound: all is well"), "{ran:?}");
    }
}

/// A Run of a few wake-ups with such names wherever a name comes from the system or the command line.
fn hostile_run(folder: &Path) {
    done(folder, &["measure", "--policy", "other", "--duration", "50ms", "--output", "h.run"]);
    let file = folder.join("h.run/run.json");
    let mut run: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let name = serde_json::json!(format!("x{STEERING}"));
    run["system"]["hostname"] = name.clone();
    run["system"]["kernel_release"] = name.clone();
    run["command"] = serde_json::json!([name, name]);
    run["loads"] =
        serde_json::json!([{"name": name, "arguments": name, "done": null, "unit": name, "error": name}]);
    run["losses"] = serde_json::json!([{"kind": "map_full", "place": name, "count": 3}]);
    run["missing"] = serde_json::json!([{"what": name, "why": name, "remedy": name}]);
    run["findings"][0]["title"] = name.clone();
    run["findings"][0]["value"] = name.clone();
    run["findings"][0]["remedy"] = name.clone();
    for series in run["series"].as_array_mut().unwrap() {
        series["subject"]["task"]["comm"] = name.clone();
    }
    fs::write(&file, serde_json::to_vec(&run).unwrap()).unwrap();
}

#[test]
fn no_name_of_a_run_steers_the_terminal_in_any_format() {
    let folder = folder();
    hostile_run(folder.path());
    fs::create_dir(folder.path().join("pictures")).unwrap();
    for arguments in [
        &["report", "h.run"][..],
        &["report", "h.run", "--format", "json"],
        &["report", "h.run", "--html", "-"],
        &["explain", "h.run"],
        &["compare", "h.run", "--against", "h.run/run.json", "--anyway"],
        &["report", "h.run", "--pictures", "pictures"],
    ] {
        let ran = ran(latebound(folder.path()).args(arguments));
        assert_steers_nothing(&ran.out, &format!("{arguments:?}"));
        assert_steers_nothing(&ran.err, &format!("{arguments:?}"));
    }
    let report = done(folder.path(), &["report", "h.run"]);
    assert_says(&report.out, &["\\x1b", "\\u{9b}", "\\u{202e}"]);
    let json = done(folder.path(), &["report", "h.run", "--format", "json"]);
    let saved = latebound_store::read_run(folder.path().join("h.run")).unwrap();
    assert_eq!(json.run(), saved);
    for picture in fs::read_dir(folder.path().join("pictures")).unwrap() {
        let path = picture.unwrap().path();
        assert_steers_nothing(&fs::read_to_string(&path).unwrap(), &path.display().to_string());
    }
    // With colours, too: what is left of escapes is what the tool itself writes.
    let coloured = done(folder.path(), &["report", "h.run", "--color", "always"]).out;
    let mut rest = coloured.as_str();
    while let Some((_, after)) = rest.split_once('\x1b') {
        let end = after.find('m').unwrap();
        let code = &after[..end];
        assert!(
            code.starts_with('[') && code[1..].bytes().all(|b| b.is_ascii_digit() || b == b';'),
            "{code:?}"
        );
        rest = &after[end..];
    }
    assert_steers_nothing(&coloured.replace('\x1b', ""), "--color always");
}

#[test]
fn an_argument_that_is_no_utf8_is_no_panic() {
    let folder = folder();
    let bytes = OsStr::from_bytes;
    for (code, arguments) in [
        (
            0,
            &[bytes(b"measure"), bytes(b"--duration"), bytes(b"50ms"), bytes(b"-o"), bytes(b"o\xff.run")][..],
        ),
        (0, &[bytes(b"check"), bytes(b"--duration"), bytes(b"50ms"), bytes(b"-o"), bytes(b"p\xff.run")]),
        (0, &[bytes(b"report"), bytes(b"o\xff.run")]),
        (1, &[bytes(b"report"), bytes(b"q\xff.run")]),
        (1, &[bytes(b"measure"), bytes(b"--period"), bytes(b"\xff")]),
        (1, &[bytes(b"measure"), bytes(b"--duration"), bytes(b"50ms"), bytes(b"--"), bytes(b"\xff")]),
        (1, &[bytes(b"\xff")]),
    ] {
        let ran = ran(latebound(folder.path()).args(arguments));
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(
            !ran.err.contains("panicked") && (code == 0 || !ran.err.is_empty()),
            "{arguments:?}: {ran:?}"
        );
    }
}
