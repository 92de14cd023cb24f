// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of a comparison: the settings that differ first, then the differences with their intervals, then the
//! distributions that they are of.

use latebound_compare::{Against, Comparison, Family, Measure, SettingKind, Side, SideSummary, VerdictWord};
use latebound_model::Histogram;

use super::{document, parts};
use crate::markup::Markup;
use crate::svg::{self, Difference, Layer, MatrixRow};
use crate::terminal::compare::{
    cause_text, forecast_text, headline, middle_text, ratio_text, runs_text, share_text, state_text,
    value_text, values_text, verdict_text,
};
use crate::text::grouped;

/// A series of the sides, all Runs of a side together.
#[derive(Clone, Debug)]
pub struct Distributions {
    /// Of what: as [`Measure::of`].
    pub of: String,
    /// Name and values of each side, the base first.
    pub sides: Vec<(String, Histogram)>,
}

impl Distributions {
    /// What the sides, the base first, have in common.
    pub fn common(sides: &[&Side]) -> Vec<Distributions> {
        let Some((base, others)) = sides.split_first() else { return Vec::new() };
        let of = |side: &Side, of: &str| -> Option<Histogram> {
            side.distributions().find(|(name, _)| name == of).map(|(_, histogram)| histogram.clone())
        };
        base.distributions()
            .filter(|(name, histogram)| {
                histogram.count() > 0 && others.iter().any(|side| of(side, name).is_some())
            })
            .map(|(name, histogram)| {
                let others = others.iter().filter_map(|side| Some((side.name.clone(), of(side, &name)?)));
                let sides = std::iter::once((base.name.clone(), histogram.clone())).chain(others).collect();
                Distributions { of: name, sides }
            })
            .collect()
    }
}

const WIDTH: f64 = 980.0;

/// The page.
pub fn compare_page(comparison: &Comparison, distributions: &[Distributions]) -> String {
    let names: Vec<&str> = comparison.against.iter().map(|against| against.side.name.as_str()).collect();
    let title = format!("{} against {}", names.join(", "), comparison.base.name);
    document(
        concat!("latebound ", env!("CARGO_PKG_VERSION")),
        &title,
        |m| top(m, comparison),
        |m| {
            for (at, against) in comparison.against.iter().enumerate() {
                side(m, comparison, against, at);
            }
            // What is not compared is not drawn: of two distributions of one measurement one is enough.
            let compared = |series: &&Distributions| {
                comparison.against.iter().flat_map(|a| &a.measures).any(|measure| measure.of == series.of)
            };
            drawn(m, &distributions.iter().filter(compared).collect::<Vec<_>>());
            forecasts(m, comparison);
            footer(m, comparison);
        },
    )
}

fn top(m: &mut Markup, comparison: &Comparison) {
    m.element("p", &[("class", "kicker")], |m| {
        m.leaf("b", &[], "latebound compare");
        let sides = std::iter::once(&comparison.base).chain(comparison.against.iter().map(|a| &a.side));
        for side in sides {
            m.text(&parts::prose(&format!(" · {}: {}", side.name, runs_text(side))));
        }
    })
    .line();
    for against in &comparison.against {
        for why in &against.unlike {
            let text = format!("Unlike, {} against {}: {why}.", against.side.name, comparison.base.name);
            m.leaf("p", &[("class", "banner loss")], &parts::prose(&text)).line();
        }
        m.element("h1", &[], |m| {
            m.text(&format!("{} against {}: ", against.side.name, comparison.base.name));
            m.leaf("b", &[], &headline(against));
        })
        .line();
    }
    if !comparison.gates.is_empty() {
        parts::table(m, &["Condition", "Side", "On", "Came out", "Why"], &[], |m| {
            for ruling in &comparison.gates {
                m.element("tr", &[], |m| {
                    m.leaf("td", &[("class", "name")], &ruling.gate);
                    m.leaf("td", &[], &ruling.side);
                    m.leaf("td", &[], &format!("{} {}", ruling.of, ruling.statistic));
                    m.element("td", &[], |m| {
                        m.leaf("b", &[], state_text(ruling.state));
                    });
                    m.leaf("td", &[], &parts::prose(&ruling.why));
                })
                .line();
            }
        });
    }
}

fn side(m: &mut Markup, comparison: &Comparison, against: &Against, at: usize) {
    let id = |what: &str| if at == 0 { what.to_owned() } else { format!("{what}-{}", at + 1) };
    let name = &against.side.name;
    let title = |what: &str| match comparison.against.len() {
        1 => what.to_owned(),
        _ => format!("{what}: {name} against {}", comparison.base.name),
    };
    parts::section(m, &id("settings"), &title("What differs in the settings"), "", |m| {
        settings(m, comparison, against);
    });
    let lead = format!(
        "A dot is the ratio of a Run of {name} to one of {}, the line its 95 % interval. Within the band ({}) a difference does not matter.",
        comparison.base.name,
        share_text(comparison.margin)
    );
    parts::section(m, &id("differences"), &title("Differences"), &lead, |m| {
        differences(m, comparison, against);
    });
    if !against.causes.is_empty() {
        let lead = "Shares of the time of all worst cases of a side, with a bootstrap interval over Runs.";
        parts::section(m, &id("causes"), &title("Where the time of the worst cases went"), lead, |m| {
            parts::table(m, &["Cause", &comparison.base.name, name], &[], |m| {
                for cause in &against.causes {
                    m.element("tr", &[], |m| {
                        m.leaf("td", &[("class", "name")], &cause.cause);
                        m.leaf("td", &[], &cause_text(&cause.base));
                        m.leaf("td", &[], &cause_text(&cause.new));
                    })
                    .line();
                }
            });
        });
    }
}

/// The ratios with their intervals, as a picture and as a table.
pub(super) fn differences(m: &mut Markup, comparison: &Comparison, against: &Against) {
    let rows: Vec<Difference> = shown(against).into_iter().filter_map(difference).collect();
    parts::picture(m, "", "", WIDTH, |width| {
        svg::differences("Differences with their intervals", &rows, comparison.margin, width)
    });
    measures(m, comparison, against);
}

fn settings(m: &mut Markup, comparison: &Comparison, against: &Against) {
    if against.settings.is_empty() {
        m.leaf("p", &[], "No setting on record differs.");
    } else {
        parts::table(m, &["Setting", &comparison.base.name, &against.side.name], &[], |m| {
            for setting in &against.settings {
                m.element("tr", &[], |m| {
                    m.element("td", &[("class", "name")], |m| {
                        if setting.kind == SettingKind::System {
                            m.text(&setting.name);
                        } else {
                            m.leaf("b", &[], &setting.name);
                        }
                    });
                    for values in [&setting.base, &setting.new] {
                        m.leaf("td", &[("class", "name")], &parts::prose(&values_text(values)));
                    }
                })
                .line();
            }
        });
    }
    if !against.cautions.is_empty() {
        m.leaf("h3", &[], "Keep in mind");
        m.element("ul", &[], |m| {
            for caution in &against.cautions {
                m.leaf("li", &[], &parts::prose(caution));
            }
        });
    }
}

/// What was timed and throughput always; of what the kernel put off only what is called.
fn shown(against: &Against) -> Vec<&Measure> {
    let called = |verdict| matches!(verdict, VerdictWord::Better | VerdictWord::Worse);
    let of = |measure: &&Measure| measure.family == Family::Main || called(measure.verdict);
    against.measures.iter().filter(of).collect()
}

fn difference(measure: &Measure) -> Option<Difference> {
    Some(Difference {
        of: measure.of.clone(),
        name: measure.statistic.clone(),
        ratio: measure.ratio?,
        interval: measure.ratio_low.zip(measure.ratio_high),
        class: match measure.verdict {
            VerdictWord::Worse => "s1",
            VerdictWord::Better => "s2",
            VerdictWord::NoDifferenceLargerThan => "s0",
            VerdictWord::NotEnoughRuns => "cpu",
        },
        words: verdict_text(measure),
    })
}

fn measures(m: &mut Markup, comparison: &Comparison, against: &Against) {
    let heads =
        ["Of", "", &comparison.base.name, &against.side.name, "Ratio (95 %)", "Verdict", "Runs", "Values"];
    parts::table(m, &heads, &[2, 3, 6, 7], |m| {
        for measure in shown(against) {
            let class = match measure.verdict {
                VerdictWord::Worse => "danger",
                VerdictWord::Better => "good",
                _ => "soft",
            };
            m.element("tr", &[], |m| {
                m.leaf("td", &[("class", "name")], &measure.of);
                m.leaf("td", &[], &measure.statistic);
                for side in [&measure.base, &measure.new] {
                    let title = format!(
                        "of {} Runs the minimum {}, the maximum {}",
                        side.runs,
                        value_text(&measure.unit, side.min),
                        value_text(&measure.unit, side.max)
                    );
                    let text = parts::prose(&middle_text(measure, side));
                    m.leaf("td", &[("class", "n"), ("title", &title)], &text);
                }
                m.leaf("td", &[], &ratio_text(measure));
                m.leaf("td", &[("class", class)], &verdict_text(measure));
                m.leaf("td", &[("class", "n")], &format!("{}+{}", measure.base.runs, measure.new.runs));
                parts::number_cell(m, measure.base.values + measure.new.values);
            })
            .line();
        }
    });
}

fn drawn(m: &mut Markup, distributions: &[&Distributions]) {
    if distributions.is_empty() {
        return;
    }
    let lead = "All Runs of a side together, so that their shapes can be seen; what is called above rests on whole Runs.";
    parts::section(m, "distributions", "Distributions", lead, |m| {
        for series in distributions {
            let rows: Vec<MatrixRow> = series
                .sides
                .iter()
                .map(|(name, histogram)| MatrixRow {
                    name: name.clone(),
                    facts: format!("{} values", grouped(histogram.count())),
                    runs: vec![histogram.clone()],
                })
                .collect();
            m.leaf("h3", &[], &series.of).line();
            parts::picture(m, "How many values fell where", "(both axes logarithmic)", WIDTH, |width| {
                svg::matrix(&format!("Distributions of {}", series.of), &[], &rows, width)
            });
            let layers: Vec<Layer<'_>> = series
                .sides
                .iter()
                .zip(["main", "s1", "s2", "s3", "naive"].into_iter().cycle())
                .map(|((name, histogram), class)| Layer { name, class, histogram })
                .collect();
            parts::picture(m, "Which part of them was later", "(both axes logarithmic)", WIDTH, |width| {
                svg::survival(&format!("Tails of {}", series.of), &layers, &[], width)
            });
        }
    });
}

fn forecasts(m: &mut Markup, comparison: &Comparison) {
    let sides: Vec<&SideSummary> =
        std::iter::once(&comparison.base).chain(comparison.against.iter().map(|a| &a.side)).collect();
    if sides.iter().all(|side| side.forecasts.is_empty()) {
        return;
    }
    let lead = "A forecast from the maxima of blocks of time, not a bound.";
    parts::section(m, "forecasts", "Maximum values to expect", lead, |m| {
        m.element("ul", &[], |m| {
            for side in sides {
                for forecast in &side.forecasts {
                    m.element("li", &[], |m| {
                        m.leaf("b", &[], &side.name);
                        m.text(": ").text(&parts::prose(&forecast_text(forecast)));
                    });
                }
            }
        });
    });
}

fn footer(m: &mut Markup, comparison: &Comparison) {
    m.element("footer", &[], |m| {
        let text = format!(
            "Whole Runs were compared by relabelling them; comparing a system with itself calls any difference at all in at most {} of \
             cases. Seed {}. docs/src/guide/compare.md says what each verdict means.",
            share_text(comparison.level),
            comparison.seed
        );
        m.text(&parts::prose(&text));
    });
}
