// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every case of `tests/corpus/*.md`: prose for people, a block `events`, and a block `explanation` that must come out.

#![allow(clippy::unwrap_used)]

mod support;

use std::fmt::Write as _;
use std::path::Path;

use latebound_analysis::{Culprit, blame, explain};
use latebound_model::{Explanation, KnownBy};

fn shown(explanation: &Explanation) -> String {
    let mut out = String::new();
    let origin = explanation.requested_at.0;
    for cause in &explanation.causes {
        let mut line = format!("{:>7}  {}", cause.duration.0, cause.kind.name());
        if !cause.subject.is_empty() {
            write!(line, ": {}", cause.subject).unwrap();
        }
        if let Some(task) = &cause.task {
            write!(line, " ({})", task.priority_text()).unwrap();
        }
        for link in &cause.via {
            let how = if link.known_by == KnownBy::Owner { "holds" } else { "woke" };
            write!(line, " < {} {how} {}", link.task.comm, link.through.name()).unwrap();
        }
        if cause.spans > 1 {
            write!(line, " in {} spans", cause.spans).unwrap();
        }
        if let Some(detail) = &cause.detail {
            write!(line, "; {detail}").unwrap();
        }
        if let Some(idle) = &cause.idle_meanwhile {
            let cpus: Vec<String> = idle.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
            write!(line, "; CPU {} idle for {}", cpus.join(" and "), idle.time.0).unwrap();
        }
        if let Some(stack) = &cause.stack {
            write!(line, "; stack {}", stack.0.join(" < ")).unwrap();
        }
        writeln!(out, "{line}").unwrap();
    }
    let spans: Vec<String> = explanation
        .spans
        .iter()
        .map(|span| format!("{}-{}:{}", span.start.0 - origin, span.end.0 - origin, span.cause + 1))
        .collect();
    writeln!(out, "spans {}", spans.join(" ")).unwrap();
    for signature in &explanation.signatures {
        writeln!(out, "signature {signature:?}").unwrap();
    }
    for still in &explanation.standstills {
        let (from, to) = (still.start.0.saturating_sub(origin), still.end.0 - origin);
        let sure = if still.sure { "" } else { " perhaps" };
        write!(out, "stood still{sure} {from}-{to} in {}", still.within).unwrap();
        if let (Some(median), Some(p99)) = (still.median, still.p99) {
            write!(out, ", {} of median {} and p99 {}", still.usual_count, median.0, p99.0).unwrap();
        }
        for cpu in &still.other_cpus {
            write!(out, ", as CPU {cpu}").unwrap();
        }
        writeln!(out).unwrap();
    }
    for loss in &explanation.losses {
        let count = loss.count.map_or("?".to_owned(), |count| count.to_string());
        writeln!(out, "lost {count} in {}", loss.place).unwrap();
    }
    out
}

#[test]
fn every_case_of_the_corpus_is_explained_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut cases, mut wrong) = (0, String::new());
    for file in files.iter().filter(|file| file.extension().is_some_and(|ext| ext == "md")) {
        let text = std::fs::read_to_string(file).unwrap();
        let mut rebuilt = text.clone();
        for case in support::cases(&text) {
            cases += 1;
            let parsed = support::parse(case.events);
            let explanation = explain(&parsed.late, &parsed.events, &parsed.facts);
            assert!(explanation.adds_up(), "{}: {}", file.display(), case.title);
            let blamed: u128 = blame(std::slice::from_ref(&explanation)).iter().map(|row| row.total).sum();
            assert_eq!(blamed, u128::from(explanation.length().0), "{}: {}", file.display(), case.title);
            let got = shown(&explanation);
            if got.trim() != case.expected.trim() {
                write!(wrong, "\n{}: {}\nexpected\n{}got\n{got}", file.display(), case.title, case.expected)
                    .unwrap();
                rebuilt = rebuilt.replacen(
                    &format!("```explanation\n{}```", case.expected),
                    &format!("```explanation\n{got}```"),
                    1,
                );
            }
        }
        if std::env::var_os("LATEBOUND_BLESS").is_some() {
            std::fs::write(file, rebuilt).unwrap();
        }
    }
    assert!(cases >= 20, "only {cases} cases were found");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn whoever_keeps_the_holder_of_a_lock_is_to_blame_not_the_holder() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/6-job.md");
    let text = std::fs::read_to_string(file).unwrap();
    let case = support::cases(&text)
        .into_iter()
        .find(|case| case.title.ends_with("A lock whose holder is preempted"))
        .expect("the case");
    let parsed = support::parse(case.events);
    let rows = blame(&[explain(&parsed.late, &parsed.events, &parsed.facts)]);
    let name = |culprit: &Culprit| match culprit {
        Culprit::Thread(task) => task.comm.to_string(),
        other => format!("{other:?}"),
    };
    let shown: Vec<(String, u128, u64)> =
        rows.iter().map(|row| (name(&row.culprit), row.total, row.longest.0)).collect();
    let expected = [
        ("backup", 50_000, 50_000),
        ("logger", 32_900, 19_000),
        ("Itself", 16_000, 7_000),
        ("Interrupt(\"timer\")", 100, 100),
    ];
    assert_eq!(shown, expected.map(|(name, total, longest)| (name.to_owned(), total, longest)));
}
