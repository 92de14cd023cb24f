// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several systems under several workloads as a table in the manner of mmtests' compare-kernels: a column for each system, a row
//! for each number, in brackets the gain over the first system.

use latebound_compare::{Family, Measure, Tradeoff, Unit, VerdictWord, Workload};

use super::compare::value_text;
use super::table::{self, Column, Line};
use super::{Style, Tone, Writer};

/// The table as text.
pub fn tradeoff(tradeoff: &Tradeoff, style: &Style) -> String {
    let mut w = Writer::new(style);
    for workload in &tradeoff.workloads {
        w.blank();
        w.line(Tone::Strong, &workload.name);
        for caution in workload.comparison.against.iter().flat_map(|against| &against.unlike) {
            w.paragraph(0, 2, [(Tone::Danger, "Unlike: "), (Tone::Plain, caution.as_str())]);
        }
        let (heads, rows) = gain_rows(workload);
        // What a number is of stands over its rows: beside them, seven systems would leave no room for it.
        let statistic = Column::name(&heads[1]);
        let systems = heads[2..].iter().map(|head| Column::number(head, 0));
        let heads: Vec<Column<'_>> = std::iter::once(statistic).chain(systems).collect();
        let mut lines: Vec<Line> = Vec::new();
        for series in rows.chunk_by(|one, next| one[0] == next[0]) {
            lines.push(Line::Group(series[0][0].clone()));
            let cells = |row: &Vec<String>| Line::Cells(row[1..].iter().map(Into::into).collect());
            lines.extend(series.iter().map(cells));
        }
        table::write(&mut w, 2, &heads, &lines);
        let best: Vec<&str> =
            workload.points.iter().filter(|point| point.frontier).map(|point| point.model.as_str()).collect();
        if !best.is_empty() {
            w.line(
                Tone::Plain,
                &format!(
                    "  Best trade-offs (not beaten in both latency and throughput): {}.",
                    best.join(", ")
                ),
            );
        }
    }
    w.blank();
    w.line(
        Tone::Soft,
        "In brackets the gain over the first system: above zero is better. * called better or worse: of a system compared \
         with itself any star at all in a workload's table turns up in at most 5 % of cases. Medians of Runs.",
    );
    w.finish()
}

/// Heads and rows of a workload's table: of what, which number, and for each system its median with its gain.
pub(crate) fn gain_rows(workload: &Workload) -> (Vec<String>, Vec<Vec<String>>) {
    let comparison = &workload.comparison;
    let mut heads = vec![String::new(), String::new(), comparison.base.name.clone()];
    heads.extend(comparison.against.iter().map(|against| against.side.name.clone()));
    let mut keys: Vec<(&str, &str)> = Vec::new();
    let all = || comparison.against.iter().flat_map(|against| &against.measures);
    for measure in all().filter(|measure| measure.family == Family::Main) {
        let key = (measure.of.as_str(), measure.statistic.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let rows = keys
        .into_iter()
        .map(|(of, statistic)| {
            let found: Vec<Option<&Measure>> = comparison
                .against
                .iter()
                .map(|against| against.measures.iter().find(|m| m.of == of && m.statistic == statistic))
                .collect();
            let base = found.iter().flatten().next().map(|m| value_text(&m.unit, m.base.median));
            let mut row = vec![of.to_owned(), statistic.to_owned(), base.unwrap_or_default()];
            row.extend(found.into_iter().map(|measure| measure.map_or_else(|| "-".to_owned(), gain)));
            row
        })
        .collect();
    (heads, rows)
}

/// `34.1 us (-12.0 %)*`.
fn gain(measure: &Measure) -> String {
    let value = value_text(&measure.unit, measure.new.median);
    let share = measure.new.median / measure.base.median;
    // As mmtests counts: of a latency what is saved, of a throughput what is added.
    let gain = match measure.unit {
        Unit::Nanoseconds => 1.0 - share,
        Unit::PerSecond(_) => share - 1.0,
    };
    let star = if matches!(measure.verdict, VerdictWord::Better | VerdictWord::Worse) { "*" } else { " " };
    if gain.is_finite() {
        format!("{value} ({:+.1} %){star}", gain * 100.0)
    } else {
        format!("{value}{star}")
    }
}
