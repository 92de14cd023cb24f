// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison for the terminal: what differs in the settings, what to keep in mind, the numbers with their verdicts, causes,
//! forecasts. Owns the wording of verdicts, which the page shares.

use latebound_compare::{
    Against, Comparison, Estimate, Family, Forecast, GateState, Measure, Ruling, SettingKind, Share,
    SideSummary, Unit, ValueOnRuns, VerdictWord,
};
use latebound_model::Nanos;

use super::table::{self, Cell, Column, Line};
use super::{Style, Tone, Writer};
use crate::text::grouped;

/// As many causes are listed.
const CAUSES: usize = 8;

/// The comparison as text. `all` lists also mechanisms of the kernel about which nothing can be said.
pub fn comparison(comparison: &Comparison, all: bool, style: &Style) -> String {
    let mut w = Writer::new(style);
    for against in &comparison.against {
        w.blank();
        one(&mut w, comparison, against, all);
    }
    w.finish()
}

fn one(w: &mut Writer<'_>, comparison: &Comparison, against: &Against, all: bool) {
    let name = &against.side.name;
    w.paragraph(
        0,
        0,
        [
            (Tone::Strong, format!("{name} against {}: ", comparison.base.name).as_str()),
            (Tone::Plain, headline(against).as_str()),
        ],
    );
    w.line(Tone::Soft, &format!("base: {}", runs_text(&comparison.base)));
    w.line(Tone::Soft, &format!("{name}: {}", runs_text(&against.side)));
    w.blank();
    settings(w, against);
    for (tone, lead, sentences) in
        [(Tone::Danger, "Unlike: ", &against.unlike), (Tone::Warning, "Keep in mind: ", &against.cautions)]
    {
        for sentence in sentences {
            w.paragraph(0, 2, [(tone, lead), (Tone::Plain, format!("{sentence}.").as_str())]);
        }
    }
    w.blank();
    measures(w, against, Family::Main, true);
    for family in [Family::Cpus, Family::Mechanisms] {
        if against.measures.iter().any(|measure| measure.family == family) {
            w.blank();
            measures(w, against, family, all);
        }
    }
    w.blank();
    causes(w, against);
    forecasts(w, &comparison.base, &against.side);
    gates(w, comparison, name);
    w.blank();
    let ways = match against.exact {
        true => format!("all {} ways", grouped(against.relabellings)),
        false => format!("{} of the ways", grouped(against.relabellings)),
    };
    w.line(
        Tone::Soft,
        &format!(
            "Whole Runs were compared ({ways} of dealing them to the two sides{}). Comparing a system with itself calls \
             any difference at all in at most {} of cases, for the conditions in docs/src/guide/compare.md. A difference is called \
             where its whole interval lies beyond {}. Ratios are new over base with 95 % intervals. Where Runs \
             are not enough, so many a side would tell a difference of {} four times out of five.",
            if against.turns { ", each with its neighbours in time" } else { "" },
            share_text(comparison.level),
            share_text(comparison.least_effect),
            share_text(comparison.margin)
        ),
    );
}

/// How the conditions of `--fail-if` came out.
fn gates(w: &mut Writer<'_>, comparison: &Comparison, side: &str) {
    let mine: Vec<&Ruling> = comparison.gates.iter().filter(|ruling| ruling.side == side).collect();
    if mine.is_empty() {
        return;
    }
    w.blank();
    w.line(Tone::Plain, "Conditions of --fail-if:");
    for ruling in mine {
        let tone = match ruling.state {
            GateState::Failed => Tone::Danger,
            GateState::Passed => Tone::Good,
            GateState::Undecided => Tone::Warning,
        };
        let rest = format!("{}: {} {}: {}", ruling.gate, ruling.of, ruling.statistic, ruling.why);
        w.item(2, (tone, state_text(ruling.state)), 10, [(Tone::Plain, rest.as_str())]);
    }
}

/// `failed`, `passed`, `undecided`.
pub(crate) fn state_text(state: GateState) -> &'static str {
    match state {
        GateState::Failed => "failed",
        GateState::Passed => "passed",
        GateState::Undecided => "undecided",
    }
}

/// `worse 3, better 1, no difference larger than 5 % 4, not enough runs 2`.
pub(crate) fn headline(against: &Against) -> String {
    let main = || against.measures.iter().filter(|measure| measure.family == Family::Main);
    if main().next().is_none() {
        return "nothing that both sides have can be compared".to_owned();
    }
    let words = [
        (VerdictWord::Worse, "worse"),
        (VerdictWord::Better, "better"),
        (VerdictWord::NoDifferenceLargerThan, "no difference that matters"),
        (VerdictWord::NotEnoughRuns, "not enough runs to say"),
    ];
    let parts: Vec<String> = words
        .into_iter()
        .filter_map(|(verdict, word)| {
            let count = main().filter(|measure| measure.verdict == verdict).count();
            (count > 0).then(|| format!("{word} {count}"))
        })
        .collect();
    parts.join(", ")
}

pub(crate) fn runs_text(side: &SideSummary) -> String {
    let first = side.runs.first().map(|run| run.path.as_str()).unwrap_or_default();
    let rest = match side.runs.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let runs = if side.runs.len() == 1 { "Run" } else { "Runs" };
    format!("{} {runs}, {} in all ({first}{rest})", side.runs.len(), Nanos(side.measured_ns))
}

fn settings(w: &mut Writer<'_>, against: &Against) {
    if against.settings.is_empty() {
        w.line(Tone::Plain, "No setting on record differs.");
        return;
    }
    let lines: Vec<Line> = against
        .settings
        .iter()
        .map(|setting| {
            let tone = if setting.kind == SettingKind::System { Tone::Plain } else { Tone::Warning };
            Line::Cells(vec![
                Cell::new(tone, setting.name.clone()),
                values_text(&setting.base).into(),
                values_text(&setting.new).into(),
            ])
        })
        .collect();
    let heads = [Column::name("what differs"), Column::name("base"), Column::name("new")];
    table::write(w, 0, &heads, &lines);
    w.blank();
}

/// `full`, or `full (3), none (2)` where a side is not of one kind.
pub(crate) fn values_text(values: &[ValueOnRuns]) -> String {
    let shown = |value: &ValueOnRuns| value.value.clone().unwrap_or_else(|| "-".to_owned());
    match values {
        [one] => shown(one),
        many => {
            let parts: Vec<String> =
                many.iter().map(|value| format!("{} ({})", shown(value), value.runs)).collect();
            parts.join(", ")
        }
    }
}

fn measures(w: &mut Writer<'_>, against: &Against, family: Family, all: bool) {
    let mine: Vec<&Measure> = against.measures.iter().filter(|measure| measure.family == family).collect();
    let shown: Vec<&Measure> = mine
        .iter()
        .filter(|measure| all || matches!(measure.verdict, VerdictWord::Better | VerdictWord::Worse))
        .copied()
        .collect();
    let hidden = mine.len() - shown.len();
    if family != Family::Main {
        let (what, title) = match family {
            Family::Cpus => ("of single CPUs", "Single CPUs"),
            _ => ("of what the kernel put off", "What the kernel put off"),
        };
        let text = match shown.is_empty() {
            true => format!("Of {} numbers {what}, none can be told apart.", mine.len()),
            false if hidden > 0 => {
                format!("{title} ({hidden} more numbers that cannot be told apart: --all):")
            }
            false => format!("{title}:"),
        };
        w.line(Tone::Plain, &text);
    }
    if shown.is_empty() {
        return;
    }
    let (mut lines, mut last) = (Vec::new(), "");
    for measure in shown {
        if measure.of != last {
            lines.push(Line::Group(measure.of.clone()));
            last = &measure.of;
        }
        lines.push(Line::Cells(vec![
            format!("  {}", measure.statistic).into(),
            middle_text(measure, &measure.base).into(),
            middle_text(measure, &measure.new).into(),
            ratio_text(measure).into(),
            Cell::new(tone(measure.verdict), verdict_text(measure)),
            runs_of(&measure.base, &measure.new).into(),
            grouped(measure.base.values + measure.new.values).into(),
        ]));
    }
    let heads = [
        Column { shrinks: false, ..Column::name("") },
        Column::number("base", 0),
        Column::number("new", 0),
        Column { shrinks: false, spare: 1, ..Column::name("new/base") },
        Column { shrinks: false, ..Column::name("verdict") },
        Column::number("Runs", 2),
        Column::number("values", 3),
    ];
    table::write(w, 0, &heads, &lines);
}

fn runs_of(base: &Estimate, new: &Estimate) -> String {
    format!("{}+{}", base.runs, new.runs)
}

fn tone(verdict: VerdictWord) -> Tone {
    match verdict {
        VerdictWord::Better => Tone::Good,
        VerdictWord::Worse => Tone::Danger,
        VerdictWord::NoDifferenceLargerThan => Tone::Plain,
        VerdictWord::NotEnoughRuns => Tone::Soft,
    }
}

/// A number of a measure: `12.3 us`, `20 000/s`.
pub(crate) fn value_text(unit: &Unit, value: f64) -> String {
    match unit {
        Unit::Nanoseconds => Nanos(value.max(0.0).round() as u64).to_string(),
        Unit::PerSecond(_) if value < 100.0 => format!("{value:.1}/s"),
        Unit::PerSecond(_) => format!("{}/s", grouped(value.round() as u64)),
    }
}

/// The middle of a side's Runs: `12.3 us`, `> 400 us` where nothing else is known.
pub(crate) fn middle_text(measure: &Measure, side: &Estimate) -> String {
    let text = value_text(&measure.unit, side.median);
    if side.above { format!("> {text}") } else { text }
}

/// `1.08 (1.02 to 1.15)`; an end that is not known is named as such.
pub(crate) fn ratio_text(measure: &Measure) -> String {
    let number = |ratio: f64| match ratio {
        r if !(0.001..1e6).contains(&r) => format!("{r:.1e}"),
        r if r < 0.995 => format!("{r:.3}"),
        r if r < 9.995 => format!("{r:.2}"),
        r => format!("{r:.0}"),
    };
    match (measure.ratio, measure.ratio_low, measure.ratio_high) {
        (Some(ratio), Some(low), Some(high)) => {
            format!("{} ({} to {})", number(ratio), number(low), number(high))
        }
        (Some(ratio), ..) => number(ratio),
        (None, Some(low), None) => format!("> {}", number(low)),
        (None, None, Some(high)) => format!("< {}", number(high)),
        _ => "-".to_owned(),
    }
}

/// `4.2 %`.
pub(crate) fn share_text(share: f64) -> String {
    match share * 100.0 {
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// The verdict with what it rests on: `worse (p 0.016)`.
pub(crate) fn verdict_text(measure: &Measure) -> String {
    let p = measure.p_adjusted.map(|p| match p {
        p if p < 0.001 => "p < 0.001".to_owned(),
        p => format!("p {p:.3}"),
    });
    let called = |word: &str| match &p {
        Some(p) => format!("{word} ({p})"),
        None => word.to_owned(),
    };
    match measure.verdict {
        VerdictWord::Better => called("better"),
        VerdictWord::Worse => called("worse"),
        VerdictWord::NoDifferenceLargerThan => {
            format!("no difference larger than {}", share_text(measure.no_larger_than.unwrap_or(0.0)))
        }
        VerdictWord::NotEnoughRuns => match measure.runs_needed {
            Some(runs) => format!("not enough runs ({} a side)", grouped(runs)),
            None => "not enough runs".to_owned(),
        },
    }
}

fn causes(w: &mut Writer<'_>, against: &Against) {
    if against.causes.is_empty() {
        return;
    }
    let cases = |of: fn(&latebound_compare::CauseShare) -> &Share| of(&against.causes[0]).cases;
    w.line(
        Tone::Plain,
        &format!(
            "Where the time of the worst cases went ({} and {} cases):",
            cases(|cause| &cause.base),
            cases(|cause| &cause.new)
        ),
    );
    let lines: Vec<Line> = against
        .causes
        .iter()
        .take(CAUSES)
        .map(|cause| {
            Line::Cells(vec![
                cause.cause.clone().into(),
                cause_text(&cause.base).into(),
                cause_text(&cause.new).into(),
            ])
        })
        .collect();
    let heads = [Column { shrinks: false, ..Column::name("") }, Column::name("base"), Column::name("new")];
    table::write(w, 2, &heads, &lines);
    w.blank();
}

/// `64 % (51 to 72 %)`.
pub(crate) fn cause_text(share: &Share) -> String {
    if share.cases == 0 {
        return "-".to_owned();
    }
    match (share.low, share.high) {
        (Some(low), Some(high)) => {
            format!("{:.0} % ({:.0} to {:.0} %)", share.share * 100.0, low * 100.0, high * 100.0)
        }
        _ => format!("{:.0} %", share.share * 100.0),
    }
}

fn forecasts(w: &mut Writer<'_>, base: &SideSummary, new: &SideSummary) {
    let mut any = false;
    for side in [base, new] {
        for forecast in &side.forecasts {
            if !any {
                w.line(Tone::Plain, "Maximum values to expect (a forecast from block maxima, not a bound):");
                any = true;
            }
            w.item(
                2,
                (Tone::Strong, side.name.as_str()),
                8,
                [(Tone::Plain, forecast_text(forecast).as_str())],
            );
        }
    }
}

/// `timer wake-up measure, once an hour: 143 us (120 to 190 us), …`.
pub(crate) fn forecast_text(forecast: &Forecast) -> String {
    let head = &forecast.of;
    let rest = format!("{} blocks of {}", grouped(forecast.blocks), Nanos(forecast.block_ns));
    if let Some(why) = &forecast.why_not {
        return format!("{head}: no forecast; {why}");
    }
    let levels: Vec<String> = forecast
        .levels
        .iter()
        .map(|level| {
            let time = match Nanos(level.once_in_ns).0 / 1_000_000_000 {
                3600 => "once an hour".to_owned(),
                86_400 => "once a day".to_owned(),
                604_800 => "once a week".to_owned(),
                seconds => format!("once in {seconds} s"),
            };
            let at = |value: f64| Nanos(value.clamp(0.0, 9.2e18) as u64).to_string();
            let high = level.high_ns.map_or_else(|| "any".to_owned(), at);
            format!("{time} {} ({} to {high})", at(level.value_ns), at(level.low_ns))
        })
        .collect();
    let fit = forecast.fit_p.map(|p| format!(", fit p {p:.2}")).unwrap_or_default();
    format!("{head}: {}; from {rest}{fit}", levels.join(", "))
}
