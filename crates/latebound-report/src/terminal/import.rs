// SPDX-License-Identifier: MIT OR Apache-2.0
//! What another tool measured: every series with its numbers, what was done, how it was measured, and what is not known.

use latebound_model::{Run, RunState, Series};

use super::table::{self, Cell, Column, Line};
use super::verbs::{quantile, time};
use super::{Style, Tone, Writer};
use crate::tail::Tail;
use crate::text::{any_lost, grouped, loss_text, percent};

/// The results of another tool: its settings, the numbers of each series, work done, what was lost and what it does not say.
/// `which` names one of several results of a file.
pub fn imported(run: &Run, which: Option<&str>, style: &Style) -> String {
    let mut w = Writer::new(style);
    if let Some(which) = which {
        w.line(Tone::Strong, which);
    }
    let mut head = format!("{} {}", run.tool.name, run.tool.version).trim().to_owned();
    if run.duration.0 > 0 {
        head.push_str(&format!(", {}", run.duration));
    }
    if let Some(kernel) = &run.system.kernel_release {
        head.push_str(&format!(", kernel {kernel}"));
    }
    if !run.started_at.is_empty() {
        head.push_str(&format!(", {}", run.started_at));
    }
    w.line(Tone::Plain, &head);
    if !run.settings.is_empty() {
        let settings: Vec<String> =
            run.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        w.item(0, (Tone::Soft, "Settings:"), 10, [(Tone::Plain, settings.join("; ").as_str())]);
    }
    if run.state != RunState::Complete {
        w.line(Tone::Warning, "It ended before its time: all numbers are of the time so far.");
    }
    w.blank();
    series(&mut w, &run.series);
    w.blank();
    work(&mut w, run);
    w.blank();
    for loss in run.losses.iter().filter(|loss| loss.count != Some(0)) {
        w.item(0, (Tone::Warning, "Lost:"), 6, [(Tone::Plain, loss_text(loss).as_str())]);
    }
    for missing in &run.missing {
        w.item(0, (Tone::Soft, "Not known:"), 11, [(Tone::Plain, missing.to_string().as_str())]);
    }
    w.finish()
}

fn series(w: &mut Writer<'_>, all: &[Series]) {
    if all.is_empty() {
        return;
    }
    let lines: Vec<Line> = all.iter().map(line).collect();
    let heads = [
        Column::name(""),
        Column::number("CPU", 0),
        Column::number("n", 0),
        Column::number("min", 3),
        Column::number("mean", 2),
        Column::number("p50", 0),
        Column::number("p99", 0),
        Column::number("p99.9", 0),
        Column::number("max", 0),
        Column::number("above", 1),
    ];
    table::write(w, 2, &heads, &lines);
    let mut notes: Vec<String> = Vec::new();
    let mut say = |text: String| {
        if !notes.contains(&text) {
            notes.push(text);
        }
    };
    for one in all {
        let tail = Tail::of([one]);
        if tail.beyond.is_some_and(|beyond| beyond > 0) {
            let limit = tail.limit;
            say(format!(
                "> {limit}: the histogram ends at {limit}; of the values above only the maximum is known."
            ));
            if one.summary.mean.is_some() {
                say("Means of histograms that end are the tool's own, of all values.".to_owned());
            }
        }
        if one.histogram.count() == 0 && one.summary.count > 0 {
            say("Without a histogram all numbers are the tool's own.".to_owned());
        }
    }
    for note in notes {
        w.paragraph(2, 2, [(Tone::Soft, note.as_str())]);
    }
}

fn line(one: &Series) -> Line {
    let (tail, histogram, summary) = (Tail::of([one]), &one.histogram, &one.summary);
    let lossy = any_lost(&one.losses) && tail.beyond.is_none();
    // Without a distribution the summary is all there is.
    let count = tail.count(histogram).max(summary.count);
    let mut cells: Vec<Cell> = vec![
        one.subject.name.as_str().into(),
        one.subject.cpu.map_or_else(|| "–".to_owned(), |cpu| cpu.to_string()).into(),
        grouped(count).into(),
        time(summary.min, lossy),
        time(summary.mean, lossy),
    ];
    cells.extend([0.5, 0.99, 0.999].map(|q| quantile(tail.quantile(histogram, q), lossy)));
    cells.push(Cell { tone: Tone::Strong, ..time(summary.max, lossy) });
    cells.push(match tail.above() {
        Some(0) => "0".into(),
        Some(above) => {
            Cell::new(Tone::Warning, format!("{} ({})", grouped(above), percent(above.into(), count.into())))
        }
        None => Cell::new(Tone::Warning, "some"),
    });
    Line::Cells(cells)
}

fn work(w: &mut Writer<'_>, run: &Run) {
    for done in &run.throughput {
        let seconds = done.duration.as_secs_f64();
        let mut text = format!("{}: {} {} in {}", done.name, grouped(done.done), done.unit, done.duration);
        if seconds > 0.0 {
            text.push_str(&format!(", {} a second", grouped((done.done as f64 / seconds).round() as u64)));
        }
        if let Some(offered) = done.offered {
            text.push_str(&format!("; {} were sent", grouped(offered)));
        }
        w.line(Tone::Strong, &text);
    }
    for load in &run.loads {
        let text = format!("Load: {} {}", load.name, load.arguments);
        w.line(Tone::Soft, text.trim());
    }
}
