// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that were written before messages, findings and series had typed kinds: they open, and say what they said then.
//!
//! Each `golden/older/NAME.json` was written, and each text beside it printed, by the last version without these kinds; it took every
//! condition of `axes.advise.txt` for idle.

use std::fs;
use std::path::Path;

use crate::tool::{done, folder, latebound, ran};

const OLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/older");

#[track_caller]
fn assert_same(name: &str, printed: &str) {
    let expected = fs::read_to_string(Path::new(OLDER).join(format!("{name}.txt"))).unwrap();
    assert_eq!(printed, expected, "{name}");
}

#[test]
fn older_runs_open_and_their_digest_is_the_same() {
    let folder = folder();
    for name in ["mended", "device", "processor", "unexplained", "deferred", "axes"] {
        let saved = format!("{OLDER}/{name}.json");
        let text = fs::read_to_string(&saved).unwrap();
        for newer in
            ["\"kind\": \"explanations\"", "\"condition\"", "\"deferral\"", "\"bears_on\"", "\"irq\":"]
        {
            assert!(!text.contains(newer), "{name} is not of an older version: {newer}");
        }
        assert_same(name, &done(folder.path(), &["report", &saved]).out);
    }
}

#[test]
fn advice_on_an_older_run_of_defer_is_the_same() {
    let folder = folder();
    for (name, code) in [("deferred", 0), ("axes", 2)] {
        let saved = format!("{OLDER}/{name}.json");
        let mut advise = latebound(folder.path());
        let ran = ran(advise.args(["defer", "advise", "--budget", "50us", &saved]));
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert_same(&format!("{name}.advise"), &ran.out);
    }
}

#[test]
fn an_older_run_written_anew_has_its_kinds_and_reads_the_same() {
    let folder = folder();
    for (name, kinds) in [
        ("mended", r#""task_first""#),
        ("device", r#""irq": 27"#),
        ("unexplained", r#""kind": "explanations""#),
        ("deferred", r#""condition": "loaded""#),
    ] {
        let written =
            done(folder.path(), &["report", "--format", "json", &format!("{OLDER}/{name}.json")]).out;
        assert!(written.contains(kinds), "{name}: {written}");
        let anew = folder.path().join("run.json");
        fs::write(&anew, &written).unwrap();
        assert_same(name, &done(folder.path(), &["report", "run.json"]).out);
    }
}
