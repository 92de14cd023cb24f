// SPDX-License-Identifier: MIT OR Apache-2.0
//! The schemas of the JSON documents are those of their types, and documents follow them. `run.json` and the tuner's configuration are held by
//! tests of their crates.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use latebound_analysis::bound::Observations;
use latebound_compare::experiment::{Plan, PlannedMachine};
use latebound_compare::{Comparison, Tradeoff};
use latebound_defer::{AdviceDocument, DeferDocument, LostDocument, TimelineDocument};
use latebound_fleet::{
    AddDocument, Commit, CompactDocument, FilesDocument, ListDocument, MigrateDocument, PruneDocument,
    PushDocument, SimulateDocument, StoreDocument, VerifyDocument,
};
use latebound_lab::{BisectDocument, KernelsDocument, Matrix};
use latebound_model::{Bound, CauseKind, Explanation, Nanos};
use latebound_system::DoctorDocument;
use latebound_tune::document::{TuneFit, TuneMap, TuneRecord, TuneRun, TuneUndo};
use latebound_tune::simulate::Workload;
use latebound_tune::trial::Trial;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, schema_for};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The schema of a document that is only ever written: every field that is always printed is required. What is read as well may lack
/// fields that older versions did not write.
fn written<T: JsonSchema>() -> schemars::Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// Name of the file below `schema`, title, and schema of each document. The name is that in `latebound.NAME/NUMBER`, where the document
/// has one.
fn schemas() -> [(&'static str, &'static str, schemars::Schema); 32] {
    let mut all = [
        ("advice", "latebound defer advise", written::<AdviceDocument<'static>>()),
        ("bisect", "latebound lab bisect", written::<BisectDocument<'static>>()),
        ("bound", "latebound bound", schema_for!(Bound)),
        ("compare", "latebound compare", schema_for!(Comparison)),
        ("defer", "latebound defer run", written::<DeferDocument<'static>>()),
        ("doctor", "latebound doctor", written::<DoctorDocument<'static>>()),
        ("experiment", "experiment.json of latebound compare preemption", schema_for!(Plan)),
        ("explanations", "latebound explain --trace", schema_for!(Vec<Explanation>)),
        ("kernels", "latebound lab kernels", written::<KernelsDocument<'static>>()),
        ("lost", "latebound defer lost", written::<LostDocument<'static>>()),
        ("matrix", "latebound lab matrix", schema_for!(Matrix)),
        ("observations", "latebound bound --observations", Observations::json_schema()),
        ("preemption", "latebound compare preemption", schema_for!(Tradeoff)),
        ("push", "latebound push", written::<PushDocument>()),
        ("store", "latebound-store.json of a store", schema_for!(StoreDocument)),
        ("store-add", "latebound store add", written::<AddDocument>()),
        ("store-commit", "a commit of a store", schema_for!(Commit)),
        ("store-compact", "latebound store compact", written::<CompactDocument>()),
        ("store-files", "latebound store files", written::<FilesDocument>()),
        ("store-list", "latebound store list", written::<ListDocument>()),
        ("store-migrate", "latebound store migrate", written::<MigrateDocument>()),
        ("store-prune", "latebound store prune", written::<PruneDocument>()),
        ("store-simulate", "latebound store simulate", written::<SimulateDocument>()),
        ("store-verify", "latebound store verify", written::<VerifyDocument>()),
        ("timeline", "latebound defer timeline", written::<TimelineDocument<'static>>()),
        ("tune-fit", "latebound tune fit", schema_for!(TuneFit)),
        ("tune-map", "latebound tune map", schema_for!(TuneMap)),
        ("tune-prove", "latebound tune prove", schema_for!(Trial)),
        ("tune-record", "account of latebound tune record", written::<TuneRecord>()),
        ("tune-run", "latebound tune run", schema_for!(TuneRun)),
        ("tune-undo", "latebound tune undo", schema_for!(TuneUndo)),
        ("tune-workload", "latebound tune record", schema_for!(Workload)),
    ];
    for (name, _, schema) in &mut all {
        // Else any document that has the same fields would be this one.
        if let Some(of) = schema.pointer_mut("/properties/schema").and_then(|field| field.as_object_mut()) {
            of.insert("const".to_owned(), format!("latebound.{name}/1").into());
        }
    }
    all
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

/// Puts a document of each schema into the folder, under its name: printed where that needs neither root nor a kernel, made of values, or
/// the golden document that a test of its crate holds to what is printed.
fn write_documents(folder: &Path) {
    let place = |name: &str| folder.join(name);
    let text = |name: &str| place(name).to_str().unwrap().to_owned();
    printed(&["bound", OBSERVATIONS, "--observations", &text("observations")], &place("bound"));
    let samples = "crates/latebound-import/tests/samples";
    let [three, broken] = ["three", "break"].map(|name| format!("{samples}/cyclictest-{name}.txt"));
    printed(&["compare", &three, "--against", &broken], &place("compare"));
    let trace = "crates/latebound-trace/tests/fixtures/v7-zstd.trace.dat";
    printed(&["explain", "--trace", trace, "--comm", "bash"], &place("explanations"));
    printed(&["doctor"], &place("doctor"));
    let deferred = "crates/latebound/tests/golden/older/deferred.json";
    printed(&["defer", "advise", "--budget", "50us", deferred], &place("advice"));
    printed(&["tune", "fit", WORKLOAD], &place("tune-fit"));
    printed(&["tune", "undo", "--journal", &text("nothing")], &place("tune-undo"));
    printed(&["tune", "show", "crates/latebound-report/tests/golden/tune-prove.json"], &place("tune-prove"));
    // A Run of another tool does not say when it was and on which host.
    printed(&["import", "crates/latebound-import/tests/samples/cyclictest-hist.txt"], &place("run"));
    let mut run: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(place("run")).unwrap()).unwrap();
    run["started_at"] = "2026-11-27T10:00:00Z".into();
    fs::create_dir(place("a.run")).unwrap();
    fs::write(place("a.run/run.json"), run.to_string()).unwrap();
    let store = text("fleet");
    printed(&["store", "add", "--store", &store, "--host", "rt-07", &text("a.run")], &place("store-add"));
    for verb in ["list", "files", "verify", "compact", "migrate"] {
        printed(&["store", verb, "--store", &store], &place(&format!("store-{verb}")));
    }
    let log = "commits/day=2026-11-27/host=rt-07/0000000000.json";
    for (file, name) in [("latebound-store.json", "store"), (log, "store-commit")] {
        fs::copy(Path::new(&store).join(file), place(name)).unwrap();
    }
    fs::create_dir(place("spool")).unwrap();
    fs::create_dir(place("spool/serve-20261127T100000Z.run")).unwrap();
    fs::write(place("spool/serve-20261127T100000Z.run/run.json"), run.to_string()).unwrap();
    let push = ["push", "--spool", &text("spool"), "--store", &store, "--host", "rt-07"];
    printed(&push, &place("push"));
    let simulate = [
        "store",
        "simulate",
        "--store",
        &text("simulated"),
        "--hosts",
        "1",
        "--cpus",
        "1",
        "--day",
        "2026-11-27",
    ];
    printed(&[&simulate[..], &["--duration", "1m"]].concat(), &place("store-simulate"));
    printed(&["store", "prune", "--store", &store, "--before", "2026-11-28"], &place("store-prune"));
    // The tasks of the trace are given real-time priorities.
    let trace =
        fs::read_to_string(repository().join("crates/latebound-trace/tests/fixtures/v7-zstd.report.txt"));
    let trace = trace.unwrap().replace("[120]", "[49]").replace("prio=120", "prio=49");
    fs::write(place("trace"), trace).unwrap();
    let record = ["tune", "record", &text("trace"), "--output", &text("tune-workload")];
    printed(&record, &place("tune-record"));
    for golden in ["defer/tests/golden/defer", "defer/tests/golden/lost", "defer/tests/golden/timeline"]
        .into_iter()
        .chain(["report/tests/golden/tune-map", "report/tests/golden/tune-run"])
    {
        let name = golden.rsplit('/').next().unwrap();
        fs::copy(repository().join(format!("crates/latebound-{golden}.json")), place(name)).unwrap();
    }
    let write = |name: &str, value: serde_json::Value| fs::write(place(name), value.to_string()).unwrap();
    // It has names of older documents, which are read and not written.
    let tradeoff: Tradeoff =
        serde_json::from_str(include_str!("../../latebound-report/tests/preemption.json")).unwrap();
    write("preemption", serde_json::to_value(tradeoff).unwrap());
    write("experiment", serde_json::to_value(plan()).unwrap());
    let (kernels, matrix) = (kernels(), matrix());
    write("kernels", serde_json::to_value(KernelsDocument::new(&kernels)).unwrap());
    write("matrix", serde_json::to_value(matrix).unwrap());
    let names = ["debian:6.12", "debian:6.13", "debian:6.14"].map(str::to_owned);
    let (metric, over) = ("timer.max".parse().unwrap(), Nanos::from_micros(100));
    write("bisect", serde_json::to_value(BisectDocument::new(&names, &metric, over, &verdict())).unwrap());
}

fn plan() -> Plan {
    let machine = PlannedMachine {
        clock: "instructions".to_owned(),
        cpus: 1,
        memory_mib: 512,
        append: vec!["quiet".to_owned()],
        emulate: true,
        timeout: Nanos::from_secs(60),
    };
    let systems = vec!["debian:6.12@none".to_owned(), "debian:6.12-rt".to_owned()];
    let times = (Nanos::from_secs(3), Nanos::from_micros(997));
    Plan::new((systems, vec!["ipc".to_owned()]), 8, times, Some(machine)).unwrap()
}

fn kernels() -> [latebound_lab::Listed; 1] {
    let user = latebound_model::EvidenceLevel {
        evidence: latebound_model::Evidence::User,
        available: true,
        reason: "measured wake-up latency".to_owned(),
    };
    let (name, what) = ("debian:6.12".to_owned(), "package linux-image-6.12 6.12.1-1".to_owned());
    [latebound_lab::Listed { name, here: true, what, evidence: vec![user] }]
}

fn matrix() -> Matrix {
    let cell = latebound_lab::Cell {
        kernel: "debian:6.12".to_owned(),
        run: 1,
        folder: Some("debian-6.12/1.run".into()),
        p50: Some(Nanos(30_000)),
        ..latebound_lab::Cell::default()
    };
    let failed =
        latebound_lab::Cell { run: 2, folder: None, error: Some("no boot".to_owned()), ..cell.clone() };
    let row = latebound_lab::Row {
        kernel: cell.kernel.clone(),
        preemption: Some(latebound_model::PreemptionModel::Full),
        evidence: Some(latebound_model::Evidence::Events),
        runs: 1,
        failed: 1,
        count: 12_000,
        lost: Some(0),
        p50: cell.p50,
        ..latebound_lab::Row::default()
    };
    Matrix {
        schema: "latebound.matrix/1",
        clock: "instructions".to_owned(),
        emulation: Vec::new(),
        rows: vec![row],
        cells: vec![cell, failed],
    }
}

/// The second of three kernels does not boot.
fn verdict() -> latebound_lab::Verdict {
    let judged = |index, values, bad, certainty, skipped: Option<&str>| latebound_lab::KernelVerdict {
        index,
        values,
        bad,
        certainty,
        skipped: skipped.map(str::to_owned),
    };
    latebound_lab::Verdict {
        first_bad: vec![1, 2],
        certainty: 0.9,
        judged: vec![
            judged(0, vec![Nanos(10_000)], Some(false), 1.0, None),
            judged(1, Vec::new(), None, 0.5, Some("no boot")),
            judged(2, vec![Nanos(200_000)], Some(true), 1.0, None),
        ],
    }
}

const OBSERVATIONS: &str = "docs/src/reference/bound-observations.json";
const WORKLOAD: &str = "docs/src/reference/tune-workload.json";

#[test]
fn documents_follow_their_schemas_and_damaged_ones_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    write_documents(folder.path());
    for (name, example) in [("observations", OBSERVATIONS), ("tune-workload", WORKLOAD)] {
        assert_eq!(objections(name, &repository().join(example)), None, "{example}");
    }
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
                // A document without a list has texts.
                let fields = value.as_object_mut().unwrap().values_mut();
                *fields.max_by_key(|field| field.is_array()).unwrap() = 7.into();
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

/// The documents that the library for Python writes. Their schemas are written by hand; `crates/latebound-py/tests/schemas.py` holds them to
/// what is written.
const BY_HAND: [(&str, &str); 2] = [
    (
        "answer",
        r#"{"schema": "latebound.answer/1", "question": "worst-hosts", "parameters": {"limit": 1, "since": "2026-11-27"},
            "columns": [{"name": "host", "meaning": "the host"}, {"name": "max_ns", "meaning": "the maximum"}],
            "rows": [{"host": "rt-07", "max_ns": null}]}"#,
    ),
    ("page", r#"{"schema": "latebound.page/1", "hosts": 40, "pages": 2}"#),
];

#[test]
fn schemas_that_are_written_by_hand_allow_a_document_and_no_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("document");
    for (name, document) in BY_HAND {
        fs::write(&place, document).unwrap();
        assert_eq!(objections(name, &place), None, "{name}");
        let value: serde_json::Value = serde_json::from_str(document).unwrap();
        for field in value.as_object().unwrap().keys() {
            let mut damaged = value.clone();
            damaged[field] = true.into();
            fs::write(&place, damaged.to_string()).unwrap();
            assert!(objections(name, &place).is_some(), "{name} allows any {field}");
        }
    }
}

/// The names in `"latebound.NAME/NUMBER"` of the sources below a folder.
fn names(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
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
fn every_document_that_a_source_names_has_a_schema_and_is_in_the_manual() {
    let page = fs::read_to_string(repository().join("docs/src/reference/documents.md")).unwrap();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(repository().join("crates")).unwrap() {
        names(&entry.unwrap().path().join("src"), &mut found);
    }
    names(&repository().join("crates/latebound-py/python"), &mut found);
    assert!(found.len() >= 22, "{found:?}");
    let schemas = schemas();
    let names: Vec<&str> =
        schemas.iter().map(|(name, ..)| *name).chain(BY_HAND.map(|(name, _)| name)).collect();
    for name in &found {
        assert!(
            page.contains(&format!("`latebound.{name}/")),
            "docs/src/reference/documents.md lacks {name}"
        );
        // That of a Run is held by a test of its crate.
        assert!(
            name == "run" || names.contains(&name.as_str()),
            "latebound.{name} has no schema; add it to schemas(), or to BY_HAND"
        );
    }
    for name in names {
        assert!(
            page.contains(&format!("`schema/{name}.schema.json`")),
            "docs/src/reference/documents.md lacks the schema of {name}"
        );
    }
}
