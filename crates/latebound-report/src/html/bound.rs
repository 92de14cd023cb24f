// SPDX-License-Identifier: MIT OR Apache-2.0
//! How late it can get: the verdict, what it is made of, the views beside each other, the witness, and how it grew.

use latebound_model::{Bound, CpuBound, Evidence, Nanos, Run, Variable, Verdict, ViewKind};

use super::parts::{number, number_cell, picture, prose, section, table, time, time_cell, value};
use super::since_start;
use crate::digest;
use crate::markup::Markup;
use crate::svg;

/// As many CPUs are drawn and listed; of more, those with the largest values.
const CPUS: usize = 16;
/// As many CPUs have their windows, interrupts and witness on the page.
const DETAILED: usize = 4;
/// As many reasons and notes are listed.
const SENTENCES: usize = 24;

pub(super) fn write(m: &mut Markup, run: &Run) {
    let Some(bound) = &run.bound else { return };
    let is_bound = bound.verdict == Verdict::Bound;
    let title = if is_bound { "How late it can get" } else { "How late it may get: an observed estimate" };
    let lead = format!("From {}.", digest::evidence_text(bound.evidence));
    section(m, "bound", title, &lead, |m| {
        if !is_bound {
            m.leaf("p", &[("class", "banner")], "This is not a bound, because:");
        }
        sentences(m, &bound.reasons);
        sentences(m, &bound.notes);
        let cpus = digest::worst_first(bound);
        let Some(worst) = cpus.first() else {
            m.leaf("p", &[], "No CPU was observed.");
            return;
        };
        let shown = &cpus[..cpus.len().min(CPUS)];
        let which = match cpus.len() > CPUS {
            true => format!("the {CPUS} of {} CPUs with the largest values", cpus.len()),
            false => format!("{}; a mark shows the worst wake-up of the same time", bound.view.name()),
        };
        picture(m, "What it is made of.", &which, 1280.0, |width| {
            svg::decomposition("What each CPU's latency is made of", shown, bound.view, width)
        });
        m.element("div", &[("class", "pair")], |m| {
            let on = format!("CPU {}", worst.cpu);
            picture(m, "The views beside each other.", &on, 630.0, |width| {
                svg::views("The seven views of the interrupts", worst, bound.view, width)
            });
            let note = match worst.growth.len() {
                0 => on.clone(),
                n => format!("{on}, {n} samples"),
            };
            picture(m, "Whether it still grew.", &note, 630.0, |width| {
                svg::growth("How the values grew over the time", worst, bound.view, width)
            });
        });
        table_of_views(m, bound, shown);
        for cpu in cpus.iter().take(DETAILED) {
            detail(m, run, bound, cpu);
        }
        violations(m, bound);
    });
}

fn sentences(m: &mut Markup, all: &[String]) {
    if all.is_empty() {
        return;
    }
    m.element("ul", &[], |m| {
        for sentence in all.iter().take(SENTENCES) {
            m.leaf("li", &[], &prose(sentence));
        }
        if all.len() > SENTENCES {
            m.leaf("li", &[], &format!("and {} more, in run.json", all.len() - SENTENCES));
        }
    });
}

fn table_of_views(m: &mut Markup, bound: &Bound, cpus: &[&CpuBound]) {
    let mut heads = vec!["CPU"];
    heads.extend(ViewKind::ALL.iter().map(|kind| kind.name()));
    heads.extend(["worst wake-up seen", "interrupts"]);
    let numeric: Vec<usize> = (1..heads.len()).collect();
    table(m, &heads, &numeric, |m| {
        for cpu in cpus {
            m.element("tr", &[], |m| {
                m.leaf("td", &[("class", "cpu")], &format!("CPU {}", cpu.cpu));
                for (kind, view) in cpu.views.iter() {
                    m.element("td", &[("class", "n")], |m| match view.latency {
                        Some(latency) if kind == bound.view => {
                            m.element("b", &[], |m| value(m, Some(latency), 1, false));
                        }
                        Some(latency) => value(m, Some(latency), 1, false),
                        None => {
                            let why = prose(&digest::no_value(view));
                            m.leaf("span", &[("class", "none"), ("title", &why)], "none");
                        }
                    });
                }
                match &cpu.measured {
                    Some(seen) => time_cell(m, Some(seen.latency), 1, false),
                    None => time_cell(m, None, 0, false),
                }
                number_cell(m, cpu.interrupts.iter().fold(0, |sum, of| of.count.saturating_add(sum)));
            })
            .line();
        }
    });
}

fn detail(m: &mut Markup, run: &Run, bound: &Bound, cpu: &CpuBound) {
    m.element("article", &[("class", "case")], |m| {
        m.element("header", &[], |m| {
            m.leaf("h3", &[], &format!("CPU {}", cpu.cpu));
            let view = cpu.views.get(bound.view);
            match view.latency {
                Some(latency) => {
                    m.element("b", &[], |m| value(m, Some(latency), 1, false));
                    if let Some(low) = view.at_least {
                        let text =
                            format!("at most {} above the exact value", time(latency.saturating_sub(low)));
                        m.leaf("span", &[], &text);
                    }
                }
                None => {
                    m.leaf("span", &[], &prose(&digest::no_value(view)));
                }
            }
            if let Some(text) = digest::growth_text(cpu, bound.view) {
                m.leaf("span", &[], &prose(&text));
            }
        });
        let note = match bound.view {
            ViewKind::Replay => "the interval of the recording that gives the value",
            _ => "each source in the interval of the recording in which it was the worst",
        };
        picture(m, "The witness.", note, 1240.0, |width| {
            svg::witness("What the value rests on, over time", cpu, bound.view, width)
        });
        m.element("div", &[("class", "parts")], |m| {
            windows(m, run, bound.evidence, cpu);
            sources(m, cpu);
        });
    })
    .line();
}

fn windows(m: &mut Markup, run: &Run, evidence: Evidence, cpu: &CpuBound) {
    table(m, &["Blocking", "Time", "When", "Who"], &[1, 2], |m| {
        for variable in Variable::ALL {
            let window = cpu.windows.iter().find(|window| window.variable == variable);
            m.element("tr", &[], |m| {
                m.element("td", &[("class", "name")], |m| {
                    let swatch = format!("swatch {}", digest::variable_class(variable));
                    m.leaf("i", &[("class", &swatch)], "").leaf("b", &[], variable.name());
                    m.empty("br", &[]).leaf("small", &[], digest::variable_text(variable, evidence));
                });
                m.element("td", &[("class", "n")], |m| value(m, Some(cpu.variable(variable)), 1, false));
                let when = window.map(|window| since_start(run, window.start)).unwrap_or_default();
                m.leaf("td", &[("class", "n")], &when);
                let who = match window {
                    Some(window) => {
                        let whole = window.end.saturating_sub(window.start);
                        let within = whole.saturating_sub(window.duration);
                        let net = match within {
                            Nanos::ZERO => String::new(),
                            within => format!("; {within} of interrupts not counted"),
                        };
                        format!("{}{net}", digest::window_text(window))
                    }
                    None if cpu.variable(variable) == Nanos::ZERO => "no such window".to_owned(),
                    None => "window not kept".to_owned(),
                };
                m.leaf("td", &[("class", "name")], &prose(&who));
            })
            .line();
        }
    });
}

fn sources(m: &mut Markup, cpu: &CpuBound) {
    if cpu.interrupts.is_empty() {
        m.leaf("p", &[], "No interrupt was seen.");
        return;
    }
    let heads = ["Interrupt", "Count", "Longest", "Closest two", "In all"];
    table(m, &heads, &[1, 2, 3, 4], |m| {
        for of in cpu.interrupts.iter().take(32) {
            m.element("tr", &[], |m| {
                m.element("td", &[("class", "name")], |m| {
                    let swatch = format!("swatch {}", digest::source_class(&of.source));
                    m.leaf("i", &[("class", &swatch)], "").text(&of.source.to_string());
                });
                m.leaf("td", &[("class", "n")], &number(of.count));
                time_cell(m, Some(of.longest), of.count, false);
                time_cell(m, of.shortest_gap, of.count, false);
                time_cell(m, Some(of.total), of.count, false);
            })
            .line();
        }
    });
}

fn violations(m: &mut Markup, bound: &Bound) {
    if bound.violations.is_empty() {
        return;
    }
    m.element("details", &[], |m| {
        let count = bound.violations.len();
        m.leaf(
            "summary",
            &[],
            &format!("Rules of the model that were broken, with the events before ({count})"),
        );
        for violation in bound.violations.iter().take(SENTENCES) {
            m.leaf("p", &[], &format!("CPU {}: {}", violation.cpu, violation.rule));
            m.element("pre", &[], |m| {
                for event in &violation.events {
                    m.text(event).line();
                }
            });
        }
    })
    .line();
}
