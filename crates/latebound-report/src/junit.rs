// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as JUnit XML, for pipelines that show test results: a suite for each side, a case for each number. A case
//! fails where a condition of `--fail-if` came true on it, and is skipped where the Runs are too few to say.

use latebound_compare::{Against, Comparison, Family, GateState, Measure, Ruling};

use crate::markup::Markup;
use crate::terminal::compare::{middle_text, ratio_text, verdict_text};

/// The comparison as a JUnit file. It knows no time that a test took: none is written.
pub fn junit(comparison: &Comparison) -> String {
    let mut xml = Markup::new();
    xml.own("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml.element("testsuites", &[("name", "latebound compare")], |m| {
        m.line();
        comparison.against.iter().for_each(|against| suite(m, comparison, against));
    });
    xml.line();
    xml.into_string()
}

fn suite(m: &mut Markup, comparison: &Comparison, against: &Against) {
    let rulings_of = |measure: &Measure| -> Vec<&Ruling> {
        let of = |ruling: &&Ruling| {
            ruling.side == against.side.name
                && ruling.of == measure.of
                && ruling.statistic == measure.statistic
        };
        comparison.gates.iter().filter(of).collect()
    };
    let cases: Vec<(&Measure, Vec<&Ruling>)> = against
        .measures
        .iter()
        .map(|measure| (measure, rulings_of(measure)))
        .filter(|(measure, rulings)| measure.family == Family::Main || !rulings.is_empty())
        .collect();
    let is = |rulings: &[&Ruling], state: GateState| rulings.iter().any(|ruling| ruling.state == state);
    let failed = cases.iter().filter(|(_, rulings)| is(rulings, GateState::Failed)).count();
    let skipped = cases
        .iter()
        .filter(|(_, rulings)| !is(rulings, GateState::Failed) && is(rulings, GateState::Undecided))
        .count();
    let name = format!("{} against {}", against.side.name, comparison.base.name);
    let counts = [cases.len(), failed, skipped].map(|count| count.to_string());
    let attributes = [
        ("name", name.as_str()),
        ("tests", &counts[0]),
        ("failures", &counts[1]),
        ("errors", "0"),
        ("skipped", &counts[2]),
    ];
    m.element("testsuite", &attributes, |m| {
        m.line();
        for (measure, rulings) in &cases {
            case(m, measure, rulings);
        }
        let said: Vec<String> = [("Unlike", &against.unlike), ("Keep in mind", &against.cautions)]
            .into_iter()
            .flat_map(|(lead, sentences)| sentences.iter().map(move |said| format!("{lead}: {said}.")))
            .collect();
        if !said.is_empty() {
            m.leaf("system-err", &[], &said.join(" ")).line();
        }
    })
    .line();
}

fn case(m: &mut Markup, measure: &Measure, rulings: &[&Ruling]) {
    m.element("testcase", &[("classname", &measure.of), ("name", &measure.statistic)], |m| {
        let of = |state: GateState| -> Option<String> {
            let message: Vec<String> = rulings
                .iter()
                .filter(|ruling| ruling.state == state)
                .map(|ruling| format!("{}: {}", ruling.gate, ruling.why))
                .collect();
            (!message.is_empty()).then(|| message.join("; "))
        };
        if let Some(message) = of(GateState::Failed) {
            m.leaf("failure", &[("message", &message)], &message);
        } else if let Some(message) = of(GateState::Undecided) {
            m.empty("skipped", &[("message", &message)]);
        }
        let numbers = format!(
            "base {}, new {}, new/base {}, {}; {} and {} Runs, {} values",
            middle_text(measure, &measure.base),
            middle_text(measure, &measure.new),
            ratio_text(measure),
            verdict_text(measure),
            measure.base.runs,
            measure.new.runs,
            measure.base.values + measure.new.values,
        );
        m.leaf("system-out", &[], &numbers);
    })
    .line();
}
