// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables are read by the programs that people have: DuckDB, pyarrow and pandas.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

mod common;

use std::fs;
use std::path::Path;

use common::{activations, chain, output_of, python, repository, sample_run, sources, workload_curves};
use latebound_model::{Activation, Cause, CauseKind, Cpu, Explanation, Nanos, RunState, Span};
use latebound_store::{InterruptRow, RunFolder};

/// A job that ran for 150 ns and waited for a lock for 450 ns.
fn job(late: &Activation) -> Explanation {
    let parts = [
        (CauseKind::OwnCode, 450, true),
        (CauseKind::Scheduler, 300, false),
        (CauseKind::OwnCode, 100, false),
        (CauseKind::SystemCall, 50, false),
    ];
    let sample = sample_run(1).worst.remove(0);
    let causes = parts.map(|(kind, ns, waits)| Cause {
        kind,
        duration: Nanos(ns),
        via: if waits { chain() } else { Vec::new() },
        ..sample.causes[2].clone()
    });
    let span = |from: u64, to: u64, cause| Span {
        start: late.requested_at + Nanos(from),
        end: late.requested_at + Nanos(to),
        cause,
    };
    Explanation {
        series: late.series.clone(),
        requested_at: late.requested_at,
        started_at: late.started_at,
        ended_at: late.ended_at,
        causes: causes.into(),
        spans: vec![span(0, 300, 1), span(300, 400, 2), span(400, 850, 0), span(850, 900, 3)],
        ..sample
    }
}

fn write(path: &Path, how_many_activations: u64) {
    let mut folder = RunFolder::create(path, false).unwrap();
    let mut all = activations(how_many_activations);
    // Two of them are jobs.
    all[8].series = "thread_wakeup/app/9/response".to_owned();
    all[11].series = all[8].series.clone();
    // The causes of one of them are known, and of one that is none.
    let (late, run) = (&all[7], sample_run(1));
    let mut explained = latebound_model::Explanation {
        ended_at: None,
        open: false,
        series: late.series.clone(),
        requested_at: late.requested_at,
        started_at: late.started_at,
        ..run.worst[0].clone()
    };
    explained.causes[0].via = chain();
    folder.write_activations(&all, &[explained, job(&all[8])]).unwrap();
    let [vector, nmi] = sources();
    let rows = (0..how_many_activations).map(|i| InterruptRow {
        cpu: Cpu(1),
        source: if i % 3 == 0 { &nmi } else { &vector },
        start: Nanos(i * 1_000),
        duration: Nanos(40),
    });
    folder.write_interrupts(rows).unwrap();
    folder.write_workload_curves(&workload_curves()).unwrap();
    folder.write_events(common::events(how_many_activations)).unwrap();
    let mut run = sample_run(1);
    run.state = RunState::Complete;
    folder.finish(&run, None).unwrap();
}

#[test]
fn duckdb_pyarrow_and_pandas_count_what_run_json_counts() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("my.run");
    // More activations than one row group holds.
    write(&path, 70_001);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers.py");
    let text = output_of(python().arg(script).arg(&path));
    let values = 2_000 + 1_900 + 2_000 + 1_990;
    assert_eq!(text.matches(&format!("\"values\": {values}")).count(), 3, "{text}");
}

/// The fenced blocks of a Markdown text: the word after the fence, the line, and what is in it.
fn blocks(text: &str) -> Vec<(String, usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(word), None) => open = Some((word.to_owned(), number + 1, String::new())),
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.2 += line;
                block.2.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn the_examples_of_the_format_page_run_and_find_something() {
    let folder = tempfile::TempDir::new().unwrap();
    for name in ["my.run", "other.run"] {
        write(&folder.path().join(name), 1_000);
    }
    let page = fs::read_to_string(repository().join("docs/src/reference/run.md")).unwrap();
    let mut ran = Vec::new();
    for (word, line, text) in blocks(&page) {
        let program = match word.as_str() {
            "python" => text,
            "sql" => format!(
                "import duckdb\nresult = duckdb.sql('''{text}''')\nassert len(result), 'no rows'\nprint(result)\n"
            ),
            _ => continue,
        };
        let output = output_of(python().current_dir(folder.path()).arg("-c").arg(&program));
        assert!(
            !output.trim().is_empty(),
            "the example at line {line} of docs/src/reference/run.md prints nothing"
        );
        ran.push(word);
    }
    let count = |word| ran.iter().filter(|ran| *ran == word).count();
    assert!(count("python") >= 3 && count("sql") >= 4, "the page has too few examples: {ran:?}");
}
