// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdicts of `defer advise`, and the conditions that they hold for.

use latebound_model::{Condition, Load, Nanos, Run};

use super::table::{self, Cell, Column, Line};
use super::verbs::time;
use super::{Style, Tone, Writer};
use crate::digest;
use crate::text::{grouped, printable};

/// One way to put work off beside the budget.
#[derive(Clone, Debug)]
pub struct AdviceRow {
    /// What, from where: `work_highpri from hardirq`.
    pub name: String,
    /// Whether every start came within the budget and none was lost.
    pub is_met: bool,
    /// The worst start.
    pub max: Nanos,
    /// What was left of the budget; below zero what was missing.
    pub margin_ns: i128,
    /// How many starts.
    pub starts: u64,
    /// How many came later than the budget.
    pub late: u64,
    /// Whether some were lost.
    pub is_lossy: bool,
    /// With 95 % confidence at least this share comes within the budget.
    pub share: f64,
}

/// What met the budget above what did not.
pub fn advice_table(rows: &[AdviceRow], budget: Nanos, style: &Style) -> String {
    let mut w = Writer::new(style);
    let mut lines = Vec::new();
    let names = [format!("every start within {budget}"), format!("not within {budget}")];
    for (is_met, name) in [true, false].into_iter().zip(names) {
        let mut group = rows.iter().filter(|row| row.is_met == is_met).peekable();
        if group.peek().is_some() {
            lines.push(Line::Group(name));
            lines.extend(group.map(line));
        }
    }
    let heads = [
        Column { shrinks: false, ..Column::name("mechanism") },
        Column::number("worst", 0),
        Column::number("margin", 0),
        Column::number("starts", 0),
        Column::number("late", 1),
        Column::number("within, at least", 2),
    ];
    table::write(&mut w, 0, &heads, &lines);
    if rows.iter().any(|row| row.is_lossy) {
        w.line(
            Tone::Warning,
            "* requests of this line were lost; the true figure may be worse, so it is not advised",
        );
    }
    w.line(
        Tone::Soft,
        "within, at least: the share of starts, with 95 % confidence, if starts are alike and independent",
    );
    w.finish()
}

fn line(row: &AdviceRow) -> Line {
    let margin = Nanos(u64::try_from(row.margin_ns.unsigned_abs()).unwrap_or(u64::MAX));
    let (sign, tone) = if row.margin_ns < 0 { ("-", Tone::Danger) } else { ("", Tone::Good) };
    Line::Cells(vec![
        format!("  {}", row.name).into(),
        time(Some(row.max), row.is_lossy),
        Cell::new(tone, format!("{sign}{margin}")),
        grouped(row.starts).into(),
        grouped(row.late).into(),
        // Rounded down: a share is not to look like all.
        format!("{:.4} %", (row.share * 1e6).floor() / 1e4).into(),
    ])
}

/// The conditions that the verdicts hold for, each once: the kernel, the loads, the clock of an emulated machine.
pub fn advice_conditions<'a>(run: &Run, conditions: impl IntoIterator<Item = &'a Condition>) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut seen: Vec<&Condition> = Vec::new();
    for condition in conditions {
        if !seen.contains(&condition) {
            seen.push(condition);
            texts.push(condition_text(run, condition));
        }
    }
    let conditions = match texts.as_slice() {
        [one] => one.clone(),
        several => format!("each at its worst of: {}", several.join("; ")),
    };
    let kernel = run.system.kernel_release.as_deref().unwrap_or("an unknown kernel");
    let emulated = digest::emulation_text(run).map(|text| format!("\n{text}")).unwrap_or_default();
    format!("Measured on Linux {}, {conditions}.{emulated}\n", printable(kernel))
}

fn condition_text(run: &Run, condition: &Condition) -> String {
    match condition {
        Condition::Idle => "idle".to_owned(),
        Condition::Loaded => {
            let name = |load: &Load| format!("{} {}", load.name, load.arguments).trim_end().to_owned();
            format!("under {}", printable(&run.loads.iter().map(name).collect::<Vec<_>>().join("; ")))
        }
        Condition::Load(load) => format!("under {}", printable(load)),
        Condition::Awake => "with no C-states".to_owned(),
        Condition::Bursts => "in bursts".to_owned(),
        Condition::Trains => "in trains".to_owned(),
        other => printable(&other.to_string()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_met_the_budget_stands_first_with_what_was_left_of_it() {
        let row = |name: &str, max, late, is_lossy: bool| AdviceRow {
            name: name.to_owned(),
            is_met: late == 0 && !is_lossy,
            max: Nanos::from_micros(max),
            margin_ns: 50_000 - i128::from(max) * 1_000,
            starts: 3_000,
            late,
            is_lossy,
            share: 0.999_001_9,
        };
        let rows = [
            row("tasklet from hardirq", 12, 0, false),
            row("work from task", 950_000, 3, false),
            row("rcu from task", 9, 0, true),
        ];
        let text = advice_table(&rows, Nanos::from_micros(50), &Style::default());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1].join(" "), "every start within 50.0 us");
        assert_eq!(lines[2].join(" "), "tasklet from hardirq 12.0 us 38.0 us 3000 0 99.9001 %");
        assert_eq!(lines[3].join(" "), "not within 50.0 us");
        assert_eq!(lines[4].join(" "), "work from task 950 ms -950 ms 3000 3 99.9001 %");
        assert!(text.contains("9.00 us*") && text.replace('\n', " ").contains("not advised"), "{text}");
    }
}
