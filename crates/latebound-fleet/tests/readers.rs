// SPDX-License-Identifier: MIT OR Apache-2.0
//! DuckDB and pyarrow read the files that a store names, and their sums are those of the histograms.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

mod common;

use std::path::Path;

use common::{
    add, expected, later,
    runs::{output_of, python, repository},
};
use latebound_fleet::{Choice, Level, Store, Table};

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
