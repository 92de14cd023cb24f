// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as Markdown, for the summary of a pipeline or a comment on a change. Names that come from the measured
//! systems cannot leave their cell.

use std::fmt::Write;

use latebound_compare::{Against, Comparison, Family, VerdictWord};

use crate::terminal::compare::{
    headline, middle_text, ratio_text, runs_text, share_text, state_text, values_text, verdict_text,
};
use crate::text::{grouped, printable};

/// The comparison as Markdown (GitHub's and GitLab's dialect, for the tables).
pub fn markdown(comparison: &Comparison) -> String {
    let mut out = String::new();
    for against in &comparison.against {
        side(&mut out, comparison, against);
    }
    let _ = writeln!(
        out,
        "Whole Runs were compared. Comparing a system with itself calls any difference at all in at most {} of cases. Ratios are new \
         over base with 95 % intervals.",
        share_text(comparison.level)
    );
    out
}

/// Text that stays text: nothing in it begins a link, markup, an HTML element or another cell.
fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '#' | '&' | '!' | '@' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

fn row(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn head(out: &mut String, names: &[&str], numeric: &[usize]) {
    row(out, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let rules: Vec<String> =
        (0..names.len()).map(|at| if numeric.contains(&at) { "---:" } else { "---" }.to_owned()).collect();
    row(out, &rules);
}

fn side(out: &mut String, comparison: &Comparison, against: &Against) {
    let name = &against.side.name;
    let _ =
        writeln!(out, "## {} against {}: {}\n", cell(name), cell(&comparison.base.name), headline(against));
    let mine: Vec<_> = comparison.gates.iter().filter(|ruling| ruling.side == *name).collect();
    if !mine.is_empty() {
        head(out, &["condition", "on", "came out", "why"], &[]);
        for ruling in mine {
            let state = state_text(ruling.state);
            let of = format!("{} {}", ruling.of, ruling.statistic);
            row(out, &[cell(&ruling.gate), cell(&of), format!("**{state}**"), cell(&ruling.why)]);
        }
        out.push('\n');
    }
    let _ = writeln!(out, "- base: {}", cell(&runs_text(&comparison.base)));
    let _ = writeln!(out, "- {}: {}\n", cell(name), cell(&runs_text(&against.side)));
    if against.settings.is_empty() {
        out.push_str("No setting on record differs.\n\n");
    } else {
        head(out, &["what differs", "base", "new"], &[]);
        for setting in &against.settings {
            let sides = [values_text(&setting.base), values_text(&setting.new)];
            row(out, &[cell(&setting.name), cell(&sides[0]), cell(&sides[1])]);
        }
        out.push('\n');
    }
    for (lead, sentences) in [("Unlike", &against.unlike), ("Keep in mind", &against.cautions)] {
        for sentence in sentences {
            let _ = writeln!(out, "> **{lead}:** {}.\n", cell(sentence));
        }
    }
    let shown = || {
        let called = [VerdictWord::Better, VerdictWord::Worse];
        let of =
            move |m: &&latebound_compare::Measure| m.family == Family::Main || called.contains(&m.verdict);
        against.measures.iter().filter(of)
    };
    if shown().next().is_none() {
        return;
    }
    head(out, &["of", "", "base", "new", "new/base", "verdict", "Runs", "values"], &[2, 3, 6, 7]);
    for measure in shown() {
        let verdict = verdict_text(measure);
        let verdict = match measure.verdict {
            VerdictWord::Better | VerdictWord::Worse => format!("**{verdict}**"),
            _ => verdict,
        };
        row(
            out,
            &[
                cell(&measure.of),
                cell(&measure.statistic),
                middle_text(measure, &measure.base),
                middle_text(measure, &measure.new),
                ratio_text(measure),
                verdict.replace('<', "&lt;"),
                format!("{}+{}", measure.base.runs, measure.new.runs),
                grouped(measure.base.values + measure.new.values),
            ],
        );
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_cell_or_become_markup() {
        assert_eq!(cell("a|b <i>[x](y)\n`c`"), "a\\|b \\<i\\>\\[x\\](y)\\\\x0a\\`c\\`");
    }
}
