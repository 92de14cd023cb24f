// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and commands beside that fail: said first in every format, and status 1; what was measured is kept.

use std::fs;

use latebound_model::RunState;
use latebound_store::read_run;

use crate::tool::{assert_says, done, folder, last_cpu, latebound, live, ran};

/// What stands above every figure.
const HEADLINE: &str = "A load failed (";

#[test]
fn a_load_that_failed_is_said_first_and_is_status_1() {
    let folder = folder();
    for (nth, (load, why)) in [
        (&["--load", "io:path=/nonexist"][..], "/nonexist"),
        (&["--", "/nonexist"], "could not be started"),
        (&["--", "false"], "exit status: 1"),
        (&["--", "sh", "-c", "kill -9 $$"], "signal: 9"),
        // The load's own process, killed by its child.
        (&["--", "sh", "-c", "kill -9 $PPID; sleep 9"], "no result"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{nth}.run");
        let measure = ["measure", "--policy", "other", "--duration", "300ms", "--output", &name];
        let ran = ran(latebound(folder.path()).args(measure).args(load));
        assert_eq!(ran.code, Some(1), "{load:?}: {ran:?}");
        assert!(ran.out.starts_with(HEADLINE), "{load:?}: {ran:?}");
        assert_says(&ran.err, &["latebound: the load ", why]);
        let run = read_run(folder.path().join(&name)).unwrap();
        assert_eq!((run.state, run.series.len() >= 2), (RunState::Complete, true), "{load:?}");
        assert!(run.loads[0].error.as_deref().unwrap().contains(why), "{:?}", run.loads);
        let page = fs::read_to_string(folder.path().join(&name).join("report.html")).unwrap();
        assert_says(&page, &["id=\"failed-loads\"", HEADLINE]);
        let report = done(folder.path(), &["report", &name]).out;
        assert!(report.starts_with(HEADLINE), "{report}");
        assert_says(&report, &["not under load"]);
    }
    // A command that did what it was for is no failure, however early it ended.
    let fine = ["measure", "--policy", "other", "--duration", "300ms", "--output", "fine.run", "--", "true"];
    let fine = done(folder.path(), &fine);
    assert!(!fine.out.contains("failed"), "{fine:?}");

    let sides = ["compare", "fine.run", "--against", "0.run"];
    let refused = ran(latebound(folder.path()).args(sides));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_says(&refused.err, &["in 1 of 2 Runs a load failed", "/nonexist"]);
    for format in ["--markdown", "--junit", "--html"] {
        let compared = ran(latebound(folder.path()).args(sides).args(["--anyway", format, "-"]));
        assert_says(&compared.out, &["in 1 of 2 Runs a load failed"]);
    }
}

#[test]
fn live_every_verb_says_first_that_a_load_failed() {
    let _live = live();
    let folder = folder();
    let cpu = last_cpu();
    for (verb, options) in [
        ("check", &["--cpus", &cpu][..]),
        ("observe", &["--mechanism", "softirq", "--format", "human"]),
        ("explain", &["--rt"]),
        ("bound", &["--cpus", &cpu, "--by", "estimate"]),
    ] {
        let name = format!("{verb}.run");
        let ran = ran(latebound(folder.path())
            .args([verb, "--duration", "300ms", "--output", &name])
            .args(options)
            .args(["--", "/nonexist"]));
        assert_eq!(ran.code, Some(1), "{verb}: {ran:?}");
        assert!(ran.out.starts_with(HEADLINE), "{verb}: {ran:?}");
        assert_says(&ran.err, &["the load command failed", "/nonexist"]);
        let run = read_run(folder.path().join(&name)).unwrap();
        assert_eq!(run.state, RunState::Complete);
        let page = fs::read_to_string(folder.path().join(&name).join("report.html")).unwrap();
        assert_says(&page, &["id=\"failed-loads\"", HEADLINE]);
    }
    // Its document is not the Run.
    let bound = ["bound", "--duration", "300ms", "--cpus", &cpu, "--by", "estimate", "--format", "json"];
    let ran = ran(latebound(folder.path()).args(bound).args(["--", "/nonexist"]));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_says(&ran.out, &[HEADLINE]);
}
