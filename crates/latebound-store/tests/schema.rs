// SPDX-License-Identifier: MIT OR Apache-2.0
//! The published schema is that of the types, and real Runs follow it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

mod common;

use std::fs;
use std::path::Path;

use common::{output_of, python, repository, sample_run};
use latebound_model::Run;
use latebound_store::RunFolder;

fn validator(schema: &Path, documents: &[&Path]) -> std::process::Command {
    let mut command = python();
    command.arg(repository().join("scripts/validate-run.py")).arg("--schema").arg(schema).args(documents);
    command
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let path = repository().join("schema/run.schema.json");
    let schema = serde_json::to_string_pretty(&Run::json_schema()).unwrap() + "\n";
    if std::env::var_os("LATEBOUND_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &schema).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == schema,
        "{} is not what Run::json_schema() gives; look at the change, then take it over with: \
         LATEBOUND_BLESS=1 cargo test -p latebound-store --test schema",
        path.display()
    );
}

#[test]
fn written_runs_follow_the_schema_and_damaged_ones_do_not() {
    let folder = tempfile::TempDir::new().unwrap();
    let schema = folder.path().join("schema.json");
    fs::write(&schema, Run::json_schema().to_string()).unwrap();
    let path = folder.path().join("my.run");
    let mut writing = RunFolder::create(&path, false).unwrap();
    writing.checkpoint(&sample_run(1)).unwrap();
    let first = folder.path().join("first.json");
    fs::copy(path.join("run.json"), &first).unwrap();
    writing.finish(&sample_run(2), None).unwrap();
    output_of(&mut validator(&schema, &[&first, &path.join("run.json")]));
    let text = fs::read_to_string(&first).unwrap();
    for (from, to) in [
        (r#""verb":"check""#, r#""verb":7"#),
        (r#""mechanism":"timer_wakeup""#, r#""mechanism":"magic""#),
        (r#""rule":"log-linear/128""#, r#""rule":"linear""#),
        (r#""started_monotonic":"#, r#""started":"#),
    ] {
        let damaged = folder.path().join("damaged.json");
        assert!(text.contains(from), "{from}");
        fs::write(&damaged, text.replacen(from, to, 1)).unwrap();
        let output = validator(&schema, &[&damaged]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{to}: {output:?}");
    }
}
