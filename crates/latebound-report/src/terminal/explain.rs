// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst wake-ups of `explain`: of a Run, or of a saved trace.

use latebound_analysis::blame;
use latebound_model::{Cause, CpuQuota, Cycle, Explanation, Histogram, Loss, Nanos, Run, Task, ThreadJobs};

use super::table::{self, Cell, Column, Line};
use super::verbs::{bar, failed_loads};
use super::{Style, Tone, Writer};
use crate::text::{grouped, loss_text, percent, printable, task_text, to_nanos, total};
use crate::{digest, job};

/// The worst wake-ups of a Run, worst first, between the loads that failed and the quotas of the watched threads' groups.
pub fn explained(run: &Run, style: &Style) -> String {
    let head = failed_loads(run, style);
    if run.worst.is_empty() {
        return head + "No wake-up of a watched thread was seen.";
    }
    let each = run.worst.iter().map(|worst| explanation(worst, run.started_monotonic, style));
    let mut text =
        head + &first_sight(run, style) + &threads(&run.jobs, style) + &each.collect::<Vec<_>>().join("\n");
    text.push_str(&blamed(&run.worst, style));
    if !run.quotas.is_empty() {
        text.push('\n');
        text.push_str(&quotas(&run.quotas, style));
    }
    text
}

/// The worst job in a sentence, and what to change.
fn first_sight(run: &Run, style: &Style) -> String {
    let Some(worst) = run.worst.first().filter(|worst| worst.ended_at.is_some()) else {
        return String::new();
    };
    let mut w = Writer::new(style);
    let sentence = job::at_first_sight(worst, run);
    let pieces = sentence.0.iter().map(|piece| {
        let tone = if piece.strong { Tone::Strong } else { Tone::Plain };
        (tone, piece.text.as_str())
    });
    w.paragraph(0, 0, pieces.collect::<Vec<_>>());
    for hint in job::hints(&run.worst) {
        w.item(0, (Tone::Note, "Change:"), 9, [(Tone::Plain, hint.as_str())]);
    }
    w.finish() + "\n"
}

/// The rows of the table of blame; what is below is told in one.
const BLAMED: usize = 8;

/// Who took the time of the jobs that were explained; nothing where none were.
fn blamed(worst: &[Explanation], style: &Style) -> String {
    let jobs: Vec<Explanation> = worst.iter().filter(|worst| worst.ended_at.is_some()).cloned().collect();
    if jobs.is_empty() {
        return String::new();
    }
    let rows = blame(&jobs);
    let all: u128 = rows.iter().map(|row| row.total).sum();
    let mut lines: Vec<Line> = Vec::new();
    let mut line = |total: u128, jobs: String, longest: String, who: String| {
        lines.push(Line::Cells(vec![
            to_nanos(total).to_string().into(),
            percent(total, all).into(),
            jobs.into(),
            longest.into(),
            who.into(),
        ]));
    };
    for row in rows.iter().take(BLAMED) {
        line(row.total, grouped(row.jobs as u64), row.longest.to_string(), job::culprit_text(&row.culprit));
    }
    let rest: u128 = rows.iter().skip(BLAMED).map(|row| row.total).sum();
    if rest > 0 {
        line(rest, String::new(), String::new(), format!("{} others", rows.len() - BLAMED));
    }
    let mut w = Writer::new(style);
    let title = match jobs.len() {
        1 => "Who took the time of this job:".to_owned(),
        count => format!("Who took the time of these {count} jobs:"),
    };
    w.paragraph(0, 0, [(Tone::Strong, title.as_str())]);
    let heads = [
        Column::number("time", 0),
        Column::number("part", 0),
        Column::number("jobs", 1),
        Column::number("longest", 1),
        Column::name("who"),
    ];
    table::write(&mut w, 2, &heads, &lines);
    format!("\n{}", w.finish())
}

/// The threads whose jobs were followed, or were to be: a line each.
fn threads(jobs: &[ThreadJobs], style: &Style) -> String {
    if jobs.is_empty() {
        return String::new();
    }
    let mut w = Writer::new(style);
    for thread in jobs {
        let Some(cycle) = &thread.cycle else {
            let text = format!(
                "{}: no wait between jobs was recognised, so its wake-ups are explained; name the wait with --cycle",
                task_text(&thread.task)
            );
            w.item(0, (Tone::Note, "Jobs:"), 7, [(Tone::Plain, text.as_str())]);
            continue;
        };
        let mut text = cycle_text(&thread.task, cycle);
        text.push_str(&format!(" {} completed", grouped(thread.jobs)));
        if let (Some(deadline), Some(least), Some(most)) =
            (thread.deadline, thread.late_at_least, thread.late_at_most)
        {
            let late = if least == most {
                grouped(least)
            } else {
                format!("{} to {}", grouped(least), grouped(most))
            };
            text.push_str(&format!(", {late} after more than {deadline}"));
        }
        text.push('.');
        w.item(0, (Tone::Note, "Jobs:"), 7, [(Tone::Plain, text.as_str())]);
    }
    w.finish() + "\n"
}

/// What a saved trace explains.
#[derive(Clone, Copy, Debug)]
pub struct SavedWakeups<'a> {
    /// All wake-ups of the watched threads.
    pub latencies: &'a Histogram,
    /// The threads whose jobs are explained, and the wait between two of them.
    pub cycles: &'a [(Task, Cycle)],
    /// The responses of all their jobs.
    pub responses: &'a Histogram,
    /// What the trace lacks.
    pub losses: &'a [Loss],
    /// The worst wake-ups, worst first.
    pub worst: &'a [Explanation],
    /// The begin of the trace, from which times are counted.
    pub start: Nanos,
}

impl SavedWakeups<'_> {
    /// The text: how many wake-ups there are, the losses, each of the worst.
    pub fn text(&self, style: &Style) -> String {
        let count = grouped(self.latencies.count());
        let mut text = match self.latencies.max() {
            Some(max) => format!("{count} wake-ups of watched threads in the trace, up to {max} late.\n"),
            None => "No wake-up of a watched thread is in the trace.\n".to_owned(),
        };
        if let Some(max) = self.responses.max() {
            let count = grouped(self.responses.count());
            text.push_str(&format!("{count} jobs, response up to {max}.\n"));
        }
        for (task, cycle) in self.cycles {
            text.push_str("Jobs:  ");
            text.push_str(&cycle_text(task, cycle));
            text.push('\n');
        }
        for loss in self.losses {
            text.push_str(&format!("Lost: {}\n", loss_text(loss)));
        }
        for worst in self.worst {
            text.push('\n');
            text.push_str(&explanation(worst, self.start, style));
        }
        text.push_str(&blamed(self.worst, style));
        text
    }
}

/// Between which wait the jobs of a thread lie, in a sentence.
pub(super) fn cycle_text(task: &Task, cycle: &Cycle) -> String {
    let (thread, site, sureness) = (task_text(task), &cycle.site, cycle.sureness.name());
    let period = cycle.period.map_or_else(String::new, |period| format!(", every {period}"));
    printable(&format!("{thread}: from one wait in {site} to the next ({sureness}){period}.")).into_owned()
}

/// The CPU quotas of the groups that the watched threads are in: a paragraph each.
fn quotas(quotas: &[CpuQuota], style: &Style) -> String {
    let mut w = Writer::new(style);
    for quota in quotas {
        let text = digest::quota_text(quota);
        w.item(0, (Tone::Note, "Quota:"), 7, [(Tone::Plain, text.as_str())]);
    }
    w.finish()
}

/// One late activation for `explain`: its causes with bars, the stacks that were taken, what is known of the pattern.
/// `origin` is the start of the Run.
fn explanation(explanation: &Explanation, origin: Nanos, style: &Style) -> String {
    let mut w = Writer::new(style);
    let latency = explanation.length();
    let late = latency.to_string();
    let due = explanation.requested_at.saturating_sub(origin);
    let thread = task_text(&explanation.task);
    let rest = match explanation.ended_at {
        None => {
            format!(" late: {thread} on CPU {}, {}, due at +{due}", explanation.cpu, explanation.mechanism)
        }
        Some(_) => format!(
            " from release to completion: a job of {thread}, {}, due at +{due}, started after {} on CPU {}",
            explanation.mechanism,
            explanation.latency(),
            explanation.cpu
        ),
    };
    w.paragraph(0, 2, [(Tone::Strong, late.as_str()), (Tone::Plain, rest.as_str())]);
    for signature in &explanation.signatures {
        w.paragraph(2, 2, [(Tone::Note, signature.sentence())]);
    }
    for still in &explanation.standstills {
        let text = digest::standstill_text(still);
        w.paragraph(2, 4, [(Tone::Note, text.as_str())]);
    }
    for loss in explanation.losses.iter().filter(|loss| loss.count != Some(0)) {
        let text = loss_text(loss);
        w.paragraph(2, 4, [(Tone::Warning, "Lost within the interval: "), (Tone::Plain, text.as_str())]);
    }
    if let Some(text) = digest::does_not_add_up(explanation) {
        w.paragraph(2, 2, [(Tone::Danger, text.as_str())]);
    }
    let causes = digest::causes(explanation);
    let sum = total(explanation.causes.iter().map(|cause| cause.duration));
    let mut lines: Vec<Line> = Vec::new();
    cause_lines(&causes, 0, latency, &mut lines);
    lines.push(Line::Cells(vec![
        Cell::new(Tone::Strong, to_nanos(sum).to_string()),
        Cell::new(Tone::Strong, percent(sum, latency.0.into())),
        "".into(),
        "".into(),
        Cell::new(Tone::Strong, "sum of the causes"),
    ]));
    let heads = [
        Column::number("time", 0),
        Column::number("part", 0),
        Column { shrinks: false, spare: 2, ..Column::name("") },
        Column::number("spans", 1),
        Column::name("cause"),
    ];
    table::write(&mut w, 2, &heads, &lines);
    for text in job::links(explanation) {
        w.paragraph(2, 4, [(Tone::Plain, text.as_str())]);
    }
    for cause in causes {
        let frames = cause.stack.as_ref().map_or(&[][..], |stack| &stack.0);
        let what = match (&cause.detail, frames.is_empty()) {
            (None, true) => continue,
            (Some(detail), true) => format!(": {detail}"),
            (Some(detail), false) => format!(": {detail}; kernel stack:"),
            (None, false) => ": kernel stack:".to_owned(),
        };
        let name = job::last_text(cause);
        w.paragraph(2, 4, [(Tone::Strong, name.as_str()), (Tone::Plain, what.as_str())]);
        for frame in frames {
            w.paragraph(4, 6, [(Tone::Plain, frame.as_str())]);
        }
    }
    w.finish()
}

/// The causes behind the same first `depth` links of their chains: those without a further link, and one line for all that share the next,
/// with what is behind it below.
fn cause_lines(causes: &[&Cause], depth: usize, latency: Nanos, lines: &mut Vec<Line>) {
    let indent = "· ".repeat(depth);
    for part in job::parts(causes, depth) {
        let took = job::sum(part.iter().copied());
        let text = match part[0].via.get(depth) {
            Some(link) => job::waits_for(link),
            None => job::last_text(part[0]),
        };
        let spans = part.iter().map(|cause| cause.spans).fold(0, u64::saturating_add);
        lines.push(Line::Cells(vec![
            took.to_string().into(),
            percent(took.0.into(), latency.0.into()).into(),
            if depth == 0 { bar(took.0.into(), latency.0.into(), 16).into() } else { "".into() },
            grouped(spans).into(),
            format!("{indent}{text}").into(),
        ]));
        if part[0].via.len() > depth {
            cause_lines(&part, depth + 1, latency, lines);
        }
    }
}
