// SPDX-License-Identifier: MIT OR Apache-2.0
//! `compare` and `import`, as people and scripts use them. Runs that differ by a known factor are made from one that was
//! imported.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::tool::{assert_says, done, folder, latebound, ran};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../latebound-import/tests/samples").join(name)
}

/// Histograms in cyclictest's words: every value times `factor`, with some scatter from one to the next.
fn results(folder: &Path, name: &str, factor: u64, count: u64) -> Vec<String> {
    (0..count)
        .map(|at| {
            let file = format!("{name}{at}.txt");
            let lines: String =
                (10..40).map(|value| format!("{:06} {}\n", value * factor + at, 100 + 7 * at)).collect();
            let total = 30 * (100 + 7 * at);
            let (min, max) = (10 * factor + at, 39 * factor + at);
            let ends = format!("# Min Latencies: {min:05}\n# Max Latencies: {max:05}\n");
            let text =
                format!("# Histogram\n{lines}# Total: {total:09}\n{ends}# Histogram Overflows: 00000\n");
            fs::write(folder.join(&file), text).unwrap();
            file
        })
        .collect()
}

fn compare(folder: &Path, base: &[String], new: &[String], more: &[&str]) -> crate::tool::Ran {
    ran(latebound(folder).arg("compare").args(base).arg("--against").args(new).args(more))
}

#[test]
fn twice_as_late_is_called_worse_and_fails_only_where_that_was_asked_for() {
    let folder = folder();
    let (base, new) = (results(folder.path(), "base", 1, 6), results(folder.path(), "new", 4, 6));
    let compared = compare(folder.path(), &base, &new, &[]);
    assert_eq!(compared.code, Some(0), "{compared:?}");
    assert_says(
        &compared.out,
        &["new against base: worse", "p99", "worse (p 0.002)", "6+6", "Whole Runs were compared"],
    );
    assert_eq!(compare(folder.path(), &base, &new, &["--fail-if", "worse"]).code, Some(2));
    assert_eq!(compare(folder.path(), &new, &base, &["--fail-if", "worse"]).code, Some(0));
    assert_says(&compare(folder.path(), &new, &base, &[]).out, &["better (p 0.002)"]);
}

#[test]
fn a_condition_decides_the_exit_status_and_is_on_record_for_pipelines() {
    let folder = folder();
    let (base, new) = (results(folder.path(), "base", 1, 6), results(folder.path(), "new", 4, 6));
    let gates = ["--fail-if", "timer.p99 worse by 100%", "--fail-if", "timer.max not within 1000%"];
    let files = ["--junit", "compare.xml", "--markdown", "compare.md"];
    let compared = compare(folder.path(), &base, &new, &[gates.as_slice(), files.as_slice()].concat());
    assert_eq!(compared.code, Some(2), "{compared:?}");
    assert_says(
        &compared.out,
        &["failed", "timer.p99 worse by 100%", "passed", "timer.max not within 1000%"],
    );
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_says(
        &read("compare.xml"),
        &[
            "failures=\"1\"",
            "name=\"p99\"><failure message=\"timer.p99 worse by 100%: worse by",
            "skipped=\"0\"",
        ],
    );
    assert_says(
        &read("compare.md"),
        &["## new against base: worse", "| timer.p99 worse by 100% |", "**failed**", "| 6+6 |"],
    );
    // By less than was asked for: nothing fails. Of one Run a side nothing can be said, and that is not a failure.
    let by_more = compare(folder.path(), &base, &new, &["--fail-if", "timer.p99 worse by 900%"]);
    assert_eq!(by_more.code, Some(0), "{by_more:?}");
    let few = compare(folder.path(), &base[..1], &new[..1], &["--fail-if", "worse", "--junit", "-"]);
    assert_eq!(few.code, Some(0), "{few:?}");
    assert!(
        few.out.starts_with("<?xml") && few.out.contains("<skipped message=\"worse: there are too few Runs"),
        "{few:?}"
    );
    let strict = compare(folder.path(), &base[..1], &new[..1], &["--fail-if", "timer.p99 not within 10%"]);
    assert_eq!(strict.code, Some(2), "{strict:?}");
}

#[test]
fn a_condition_that_could_never_come_true_is_an_error() {
    let folder = folder();
    let (base, new) = (results(folder.path(), "base", 1, 1), results(folder.path(), "new", 1, 1));
    for (gate, expected) in [
        ("softirq.p99 worse by 10%", "names nothing that was compared"),
        ("ipc messages.rate worse", "there is: timer.p50"),
        ("timer.p99 above 100us", "is not a condition"),
    ] {
        let compared = compare(folder.path(), &base, &new, &["--fail-if", gate]);
        assert_eq!(compared.code, Some(1), "{gate}: {compared:?}");
        assert_says(&compared.err, &[expected]);
    }
}

#[test]
fn the_document_has_its_shape_and_repeats() {
    let folder = folder();
    let (base, new) = (results(folder.path(), "base", 1, 6), results(folder.path(), "new", 4, 6));
    let compared = compare(folder.path(), &base, &new, &["--format", "json", "--seed", "9"]);
    let document: Value = serde_json::from_str(&compared.out).unwrap();
    assert_eq!(document["schema"], "latebound.compare/1");
    assert_eq!(document["base"]["runs"].as_array().unwrap().len(), 6);
    let measure = &document["against"][0]["measures"][0];
    assert_eq!((&measure["statistic"], &measure["verdict"]), (&"p50".into(), &"worse".into()));
    assert!(measure["ratio_low"].as_f64().unwrap() > 2.0);
    assert_eq!(compare(folder.path(), &base, &new, &["--format", "json", "--seed", "9"]).out, compared.out);
}

#[test]
fn unlike_sides_are_refused_until_they_are_compared_anyway() {
    let folder = folder();
    let base = results(folder.path(), "base", 1, 4);
    let other = vec![sample("jitterdebugger.json").display().to_string()];
    let refused = compare(folder.path(), &base, &other, &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_says(&refused.err, &["different tools (cyclictest, jitterdebugger)", "--anyway"]);
    assert!(refused.out.is_empty());
    let anyway = compare(folder.path(), &base, &other, &["--anyway"]);
    assert_eq!(anyway.code, Some(0), "{anyway:?}");
    assert_says(&anyway.out, &["Unlike: they were measured by different tools"]);
}

#[test]
fn a_run_that_is_given_twice_or_is_none_is_named() {
    let folder = folder();
    let base = results(folder.path(), "base", 1, 2);
    let twice = compare(folder.path(), &base, &base[..1], &[]);
    assert_eq!(twice.code, Some(1));
    assert_says(&twice.err, &["base0.txt is given twice"]);
    fs::write(folder.path().join("notes.txt"), "nothing of the kind\n").unwrap();
    let none = compare(folder.path(), &base, &["notes.txt".to_owned()], &[]);
    assert_eq!(none.code, Some(1));
    assert_says(&none.err, &["notes.txt", "is no result of cyclictest", "nothing of the kind"]);
    let missing = compare(folder.path(), &base, &["gone.run".to_owned()], &[]);
    assert_eq!(missing.code, Some(1));
    assert_says(&missing.err, &["gone.run"]);
}

#[test]
fn an_import_prints_limits_where_values_lay_above_the_histogram() {
    let folder = folder();
    let shown = |name: &str| done(folder.path(), &["import", &sample(name).display().to_string()]).out;
    // "# Total: 2881 2922", "# Histogram Overflows: 118 78", "# Avg Latencies: 35 35", "# Max Latencies: 459 599".
    let cut = shown("cyclictest-hist.txt");
    assert_says(&cut, &["> 60.0 us", "459 us", "118 (3.9 %)", "78 (2.6 %)", "35.0 us", "2999", "3000"]);
    assert!(!cut.contains("99.9 % came within"), "{cut}");
    // "C: 3000 Min: 15 Act: 38 Avg: 34 Max: 794".
    assert_says(&shown("cyclictest.txt"), &["3000", "15.0 us", "34.0 us", "794 us", "the tool's own"]);
    assert_says(&shown("oslat.txt"), &["oslat turn", "413 ms", "2068", "> 32.0 us"]);
    assert_says(&shown("rtla7-osnoise-hist.txt"), &["osnoise noise", "277 571", "233 ms"]);
    assert_says(&shown("hackbench.txt"), &["160 000 messages in 483 ms", "331 263 a second", "groups 2"]);
    assert_says(
        &shown("sockperf-ul.txt"),
        &[
            "sockperf UDP half round trip",
            "18.0 ms",
            "133 messages",
            "14 701 were sent",
            "15 messages that were never",
        ],
    );
    let run = done(
        folder.path(),
        &["import", &sample("cyclictest-hist.txt").display().to_string(), "--format", "json"],
    )
    .run();
    let summary = &run.series[0].summary;
    assert_eq!((summary.p99, summary.mean.map(|mean| mean.0)), (None, Some(35_000)));
    assert_eq!(run.series[0].censored.map(|censored| censored.above.0), Some(60_000));
}

#[test]
fn appended_results_are_folders_of_their_own_and_runs_of_one_side() {
    let folder = folder();
    let file = sample("cyclictest-three.txt").display().to_string();
    let compared = done(folder.path(), &["import", &file, "--output", "three.run"]);
    assert_says(&compared.out, &["Result 1 of 3", "Result 3 of 3"]);
    for name in ["three.1.run", "three.2.run", "three.3.run"] {
        let run = done(folder.path(), &["report", name, "--format", "json"]).run();
        assert_eq!(run.series.len(), 1, "{name}");
    }
    assert!(!folder.path().join("three.run").exists());
    let other = sample("cyclictest-hist.txt").display().to_string();
    let compared = ran(latebound(folder.path()).args([
        "compare",
        &file,
        "--against",
        &other,
        "--anyway",
        "--format",
        "json",
    ]));
    let json: Value = serde_json::from_str(&compared.out).unwrap();
    assert_eq!(json["against"][0]["measures"][0]["base"]["runs"], 3, "{}", compared.err);
}

#[test]
fn import_reads_standard_input() {
    use std::io::Write as _;
    let folder = folder();
    let mut child = latebound(folder.path())
        .args(["import", "-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let text = fs::read(sample("hackbench.txt")).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let shown = child.wait_with_output().unwrap();
    assert!(shown.status.success());
    assert_says(&String::from_utf8_lossy(&shown.stdout), &["hackbench messages: 160 000"]);
}

#[test]
fn an_imported_result_becomes_a_run_that_other_verbs_read() {
    let folder = folder();
    let file = sample("rtla-timerlat-hist.txt").display().to_string();
    done(folder.path(), &["import", &file, "--output", "timerlat.run"]);
    let run = done(folder.path(), &["report", "timerlat.run", "--format", "json"]).run();
    assert_eq!((run.verb.name(), run.tool.name.as_str(), run.series.len()), ("import", "rtla", 4));
    assert!(folder.path().join("timerlat.run/report.html").is_file());
    let again = ran(latebound(folder.path()).args(["import", &file, "--output", "timerlat.run"]));
    assert_eq!(again.code, Some(1));
    assert_says(&again.err, &["--force"]);
    done(folder.path(), &["compare", "timerlat.run", "--against", &file]);
}
