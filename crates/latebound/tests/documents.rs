// SPDX-License-Identifier: MIT OR Apache-2.0
//! The schemas of the JSON documents are those of their types, and documents follow them. `run.json` and the tuner's configuration are held by
//! tests of their crates.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use latebound_compare::{Comparison, Tradeoff};
use latebound_model::{Bound, CauseKind, Explanation};
use latebound_tune::simulate::Workload;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Name of the file below `schema`, title, and schema of each document.
fn schemas() -> [(&'static str, &'static str, schemars::Schema); 5] {
    [
        ("bound", "latebound bound", schemars::schema_for!(Bound)),
        ("compare", "latebound compare", schemars::schema_for!(Comparison)),
        ("preemption", "latebound compare preemption", schemars::schema_for!(Tradeoff)),
        ("explanations", "latebound explain --trace", schemars::schema_for!(Vec<Explanation>)),
        ("tune-workload", "latebound tune record", schemars::schema_for!(Workload)),
    ]
}

fn path(name: &str) -> PathBuf {
    repository().join(format!("schema/{name}.schema.json"))
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    for (name, title, schema) in schemas() {
        let mut schema = schema.to_value();
        schema["title"] = title.into();
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("LATEBOUND_BLESS").is_some_and(|value| value == "1") {
            fs::write(path(name), &text).unwrap();
        }
        assert!(
            fs::read_to_string(path(name)).unwrap_or_default() == text,
            "{} is not what its type gives; look at the change, then take it over with: \
             LATEBOUND_BLESS=1 cargo test -p latebound --test documents",
            path(name).display()
        );
    }
}

/// What the tool prints.
fn printed(arguments: &[&str], into: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(arguments)
        .args(["--format", "json"])
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    fs::write(into, output.stdout).unwrap();
}

/// What a validator that others made says against the document.
fn objections(name: &str, document: &Path) -> Option<String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let python = cache.or(home).unwrap().join("latebound/python/bin/python");
    assert!(python.exists(), "{} is missing; type: scripts/install-packages.sh test", python.display());
    let output = Command::new(python)
        .env_remove("PYTHONPATH")
        .arg(repository().join("scripts/validate-run.py"))
        .arg("--schema")
        .args([&path(name), document])
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (!output.status.success()).then(|| said(&output.stdout) + &said(&output.stderr))
}

#[test]
fn documents_follow_their_schemas_and_damaged_ones_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    printed(&["bound", "docs/src/reference/bound-observations.json"], &place("bound"));
    let samples = "crates/latebound-import/tests/samples";
    let [three, broken] = ["three", "break"].map(|name| format!("{samples}/cyclictest-{name}.txt"));
    printed(&["compare", &three, "--against", &broken], &place("compare"));
    let trace = "crates/latebound-trace/tests/fixtures/v7-zstd.trace.dat";
    printed(&["explain", "--trace", trace, "--comm", "bash"], &place("explanations"));
    fs::copy(repository().join("docs/src/reference/tune-workload.json"), place("tune-workload")).unwrap();
    // It has names of older documents, which are read and not written.
    let tradeoff: Tradeoff =
        serde_json::from_str(include_str!("../../latebound-report/tests/preemption.json")).unwrap();
    fs::write(place("preemption"), serde_json::to_string(&tradeoff).unwrap()).unwrap();
    for (name, _, _) in schemas() {
        assert_eq!(objections(name, &place(name)), None, "{name}");
        let text = fs::read_to_string(place(name)).unwrap();
        // A number in place of the first text, and of the first list.
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let damaged = match &mut value {
            serde_json::Value::Array(all) => {
                assert!(!all.is_empty(), "{name}: nothing was explained");
                all[0]["causes"] = 7.into();
                value
            }
            value => {
                let list =
                    value.as_object_mut().unwrap().values_mut().find(|field| field.is_array()).unwrap();
                *list = 7.into();
                value.take()
            }
        };
        fs::write(place("damaged"), damaged.to_string()).unwrap();
        assert!(
            objections(name, &place("damaged")).is_some_and(|said| said.contains("is not of type")),
            "{name}"
        );
    }
}

#[test]
fn every_kind_of_cause_has_a_section_in_the_manual() {
    let page = fs::read_to_string(repository().join("docs/src/reference/causes.md")).unwrap();
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let schema = schemars::schema_for!(CauseKind).to_value();
    let kinds: Vec<&str> =
        schema["oneOf"].as_array().unwrap().iter().map(|kind| kind["const"].as_str().unwrap()).collect();
    assert!(kinds.len() >= 17, "{kinds:?}");
    for kind in kinds {
        let section = sections.iter().find(|section| section.contains(&format!("\n`{kind}`\n")));
        let section =
            section.unwrap_or_else(|| panic!("docs/src/reference/causes.md has no section of `{kind}`"));
        for part in ["- **Looks like:** ", "- **Prove:** ", "- **Mend:** "] {
            assert!(section.contains(part), "{kind} lacks {part}");
        }
    }
}

/// The names in `"latebound.NAME/NUMBER"` of the sources below a folder.
fn names(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for rest in text.split("\"latebound.").skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
                if rest[end..].starts_with('/') {
                    found.insert(rest[..end].to_owned());
                }
            }
        }
    }
}

#[test]
fn the_manual_lists_every_document_that_a_source_names() {
    let page = fs::read_to_string(repository().join("docs/src/reference/documents.md")).unwrap();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(repository().join("crates")).unwrap() {
        names(&entry.unwrap().path().join("src"), &mut found);
    }
    assert!(found.len() >= 20, "{found:?}");
    for name in found {
        assert!(
            page.contains(&format!("`latebound.{name}/")),
            "docs/src/reference/documents.md lacks {name}"
        );
    }
}
