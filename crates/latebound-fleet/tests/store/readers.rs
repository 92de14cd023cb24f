// SPDX-License-Identifier: MIT OR Apache-2.0
//! DuckDB and pyarrow read the files that a store names, and their sums are those of the histograms.

use std::path::Path;

use latebound_fleet::{Choice, Level, Store, Table};

use crate::common::{
    add, expected, later,
    runs::{output_of, python, repository},
};

#[test]
fn duckdb_and_pyarrow_add_up_to_the_histograms_at_every_level() {
    let folder = tempfile::TempDir::new().unwrap();
    let store = Store::open_or_create(folder.path().join("store")).unwrap();
    add(&store, 0..40).unwrap();
    let sums: Vec<serde_json::Value> = expected(0..40)
        .into_iter()
        .map(|((host, day, id), histogram)| {
            let (min, max) = (histogram.min().map(|min| min.0), histogram.max().map(|max| max.0));
            let buckets: Vec<_> = histogram.buckets().map(|one| (one.low.0, one.high.0, one.count)).collect();
            let sum = histogram.sum().to_string();
            serde_json::json!([host, day, id, histogram.count(), sum, min, max, buckets])
        })
        .collect();
    std::fs::write(folder.path().join("sums"), serde_json::to_vec(&sums).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers.py");
    for level in [None, Some(Level::Hour), Some(Level::Day)] {
        if let Some(level) = level {
            store.compact(later(level)).unwrap();
        }
        let files = store.files(Table::ALL, &Choice::default()).unwrap();
        std::fs::write(folder.path().join("files"), serde_json::to_vec(&files).unwrap()).unwrap();
        let text = output_of(python().arg(&script).arg(folder.path()));
        assert!(text.contains("\"runs\": 40"), "{level:?}: {text}");
    }
}

/// The program of a page's fenced block of this language, with the views that a store's files make.
fn blocks<'p>(page: &'p str, word: &str) -> Vec<&'p str> {
    let fence = format!("```{word}\n");
    page.split(fence.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn the_examples_of_the_page_run_and_find_something() {
    let folder = tempfile::TempDir::new().unwrap();
    let store = Store::open_or_create(folder.path().join("fleet")).unwrap();
    add(&store, 0..40).unwrap();
    store.compact(later(Level::Hour)).unwrap();
    let files = store.files(Table::ALL, &Choice::default()).unwrap();
    std::fs::write(folder.path().join("files.json"), serde_json::to_vec(&files).unwrap()).unwrap();
    // In place of the command, what it prints.
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("latebound"), "#!/bin/sh\ncat files.json\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("latebound"), mode).unwrap();
    let page = std::fs::read_to_string(repository().join("docs/src/reference/store.md")).unwrap();
    let (programs, questions) = (blocks(&page, "python"), blocks(&page, "sql"));
    assert!(programs.len() == 1 && questions.len() >= 2);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    for question in questions {
        let question = question.trim_end().trim_end_matches(';');
        let program = format!(
            "{}\nfound = duckdb.sql(\"\"\"{question}\"\"\").fetchall()\nassert found, 'no rows'\nprint('rows:', len(found))\n",
            programs[0]
        );
        let text = output_of(python().current_dir(folder.path()).env("PATH", &path).args(["-c", &program]));
        assert!(text.contains("rows:") && text.contains("rt-01"), "{text}");
    }
}

#[test]
fn the_page_of_the_store_names_every_column() {
    let page = std::fs::read_to_string(repository().join("docs/src/reference/store.md")).unwrap();
    for table in Table::ALL {
        let section = page.split("\n### ").find(|part| part.starts_with(&format!("`{table}`")));
        let section = section.unwrap_or_else(|| panic!("no section of {table}"));
        for column in table.columns() {
            let common = page.contains(&format!("\n| `{column}` |"));
            assert!(
                section.contains(&format!("\n| `{column}` |"))
                    || (common && ["day", "host"].contains(&column)),
                "{table} lacks {column}"
            );
        }
    }
}
