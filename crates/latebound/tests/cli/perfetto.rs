// SPDX-License-Identifier: MIT OR Apache-2.0
//! `explain --perfetto`: what is written is read back with Perfetto's published schema, and held against the explanations.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use latebound_analysis::explain;
use latebound_model::{Explanation, Run};
use serde_json::Value;

use crate::read_back::by_script;
use crate::tool::{assert_says, done, folder, latebound, ran};

#[allow(dead_code, reason = "the cases are explained here, not compared")]
#[path = "../../../latebound-analysis/tests/support/mod.rs"]
mod corpus;

const OLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/older/unexplained.json");
const TRACE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../latebound-trace/tests/fixtures/v7-zstd.trace.dat");

/// The explained jobs of the corpus: chains of waits, locks, page faults, interrupts.
fn jobs() -> Vec<Explanation> {
    let text = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../latebound-analysis/tests/corpus/6-job.md"
    ));
    let explained = |case: corpus::Case<'_>| {
        let parsed = corpus::parse(case.events);
        explain(&parsed.late, &parsed.events, &parsed.facts)
    };
    corpus::cases(&text.unwrap()).into_iter().map(explained).collect()
}

/// A Run with these explanations, in a file.
fn write_run(path: &Path, worst: Vec<Explanation>) {
    let run = Run { worst, ..serde_json::from_slice(&fs::read(OLDER).unwrap()).unwrap() };
    fs::write(path, serde_json::to_vec(&run).unwrap()).unwrap();
}

/// Holds what was read against the explanations.
#[track_caller]
fn assert_holds(read: &Value, worst: &[Explanation]) {
    let summary = |job: &Value| {
        let of = |name: &str| job[name].clone();
        (
            of("release_ns").as_u64(),
            of("start_ns").as_u64(),
            of("response_ns").as_u64(),
            of("name"),
            of("track"),
        )
    };
    let mut found: Vec<_> = read["jobs"].as_array().unwrap().iter().map(summary).collect();
    let mut expected: Vec<_> = worst
        .iter()
        .map(|one| {
            let what = if one.ended_at.is_some() { "job" } else { "wake-up" };
            (
                Some(one.requested_at.0),
                Some(one.started_at.0),
                one.ended_at.map(|_| one.length().0),
                Value::from(format!("{what} {}", one.length())),
                Value::from(format!("jobs of {}", one.task.comm)),
            )
        })
        .collect();
    let key = |one: &(Option<u64>, Option<u64>, Option<u64>, Value, Value)| format!("{one:?}");
    found.sort_by_key(key);
    expected.sort_by_key(key);
    assert_eq!(found, expected);
    let links: usize = worst
        .iter()
        .flat_map(|one| {
            one.spans.iter().filter(|span| span.start < span.end).map(|span| &one.causes[span.cause])
        })
        .map(|cause| cause.via.len())
        .sum();
    assert_eq!((read["kept"].as_u64(), read["flows"].as_u64()), (Some(links as u64), Some(links as u64)));
}

#[test]
fn perfetto_reads_the_jobs_of_a_stored_run_with_their_chains_of_waits() {
    let folder = folder();
    let jobs = jobs();
    assert!(jobs.iter().all(|job| job.ended_at.is_some()));
    assert!(jobs.iter().flat_map(|job| &job.causes).any(|cause| cause.via.len() > 1), "a chain of two");
    write_run(&folder.path().join("run.json"), jobs.clone());
    done(folder.path(), &["explain", "run.json", "--worst", "100", "--perfetto", "all.pftrace"]);
    let read = |name: &str| by_script("perfetto_trace.py", &[folder.path().join(name).as_os_str()]);
    assert_holds(&read("all.pftrace"), &jobs);
    // Those that are shown, and no others; a file that is there is replaced.
    done(folder.path(), &["explain", "run.json", "--worst", "2", "--perfetto", "all.pftrace"]);
    assert_holds(&read("all.pftrace"), &jobs[..2]);
}

#[test]
fn perfetto_reads_the_wake_ups_of_a_saved_trace() {
    let folder = folder();
    let shown = done(
        folder.path(),
        &["explain", "--trace", TRACE, "--rt", "--perfetto", "worst.pftrace", "--format", "json"],
    );
    let worst: Vec<Explanation> = serde_json::from_str(&shown.out).unwrap();
    assert!(!worst.is_empty());
    assert_holds(&by_script("perfetto_trace.py", &[folder.path().join("worst.pftrace").as_os_str()]), &worst);
}

#[test]
fn a_perfetto_file_is_refused_at_once_where_it_cannot_be_written() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    write_run(&at("run.json"), Vec::new());
    fs::write(at("aim"), "theirs").unwrap();
    symlink("aim", at("link")).unwrap();
    for (file, parts) in [
        ("no/x.pftrace", &["cannot write no/x.pftrace", "a folder that is there"][..]),
        ("link", &["cannot write link", "choose another name"]),
        (".", &["cannot write ."]),
    ] {
        for source in [&["run.json"][..], &["--trace", TRACE, "--rt"], &["--rt", "--duration", "1h"]] {
            let ran = ran(latebound(folder.path()).arg("explain").args(source).args(["--perfetto", file]));
            assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{source:?}: {ran:?}");
            assert_says(&ran.err, parts);
        }
    }
    assert_eq!(fs::read_to_string(at("aim")).unwrap(), "theirs");
}
