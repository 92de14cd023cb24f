// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst wake-ups of `explain`: of a Run, or of a saved trace.

use latebound_model::{
    Cause, CpuQuota, Cycle, Explanation, Histogram, Loss, Missing, MissingKind, Nanos, Run, Task, ThreadJobs,
    ThreadMarks,
};

use super::blame::blame_table;
use super::groups::group_table;
use super::late::late_lines;
use super::table::{self, Cell, Column, Line};
use super::verbs::{bar, failed_loads, say};
use super::{Style, Tone, Writer};
use crate::digest::{self, job, threads};
use crate::text::{grouped, loss_text, percent, printable, priority_text, task_text, to_nanos, total};

/// The worst wake-ups of a Run, worst first, between the loads that failed and the quotas of the watched threads' groups.
pub fn explained(run: &Run, style: &Style) -> String {
    let head = failed_loads(run, style) + &late_lines(run, style);
    if run.worst.is_empty() {
        return head
            + "No wake-up of a watched thread was seen.\n"
            + &thread_lines(&run.jobs, style)
            + &unseen(run, style);
    }
    let each = run.worst.iter().map(|worst| explanation(worst, run.started_monotonic, style));
    let mut text = head
        + &job_answer(&run.worst, &run.jobs, style)
        + &thread_lines(&run.jobs, style)
        + &unseen(run, style)
        + &each.collect::<Vec<_>>().join("\n");
    text.push_str(&blame_table(&run.worst, style));
    text.push_str(&group_table(&run.worst, style));
    text.push_str(&changes(&run.worst, style));
    if !run.quotas.is_empty() {
        text.push('\n');
        text.push_str(&quotas(&run.quotas, style));
    }
    text
}

/// Results that are not there, such as jobs whose marks nobody reached: a line each.
fn unseen(run: &Run, style: &Style) -> String {
    let mut w = Writer::new(style);
    let mut missing = run.missing.iter().filter(|missing| missing.kind == MissingKind::Results).peekable();
    if missing.peek().is_none() {
        return String::new();
    }
    for missing in missing {
        w.item(0, (Tone::Note, "Missing:"), 9, [(Tone::Plain, missing.to_string().as_str())]);
    }
    if !run.worst.is_empty() {
        w.blank();
    }
    w.finish()
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
    /// Events that jobs are explained by and that the trace has none of.
    pub missing: &'a [Missing],
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
            text.push_str(&format!("Jobs:  {}\n", cycle_text(task, cycle)));
        }
        for loss in self.losses {
            text.push_str(&format!("Lost: {}\n", loss_text(loss)));
        }
        let mut w = Writer::new(style);
        for missing in self.missing {
            w.item(0, (Tone::Note, "Missing:"), 9, [(Tone::Plain, missing.to_string().as_str())]);
        }
        text.push_str(&w.finish());
        let answer = job_answer(self.worst, &[], style);
        if !answer.is_empty() {
            text.push('\n');
            text.push_str(answer.trim_end_matches('\n'));
            text.push('\n');
        }
        for worst in self.worst {
            text.push('\n');
            text.push_str(&explanation(worst, self.start, style));
        }
        text.push_str(&blame_table(self.worst, style));
        text.push_str(&changes(self.worst, style));
        text
    }
}

/// The answer of the worst job above all else, and an empty line; nothing where no job is explained.
fn job_answer(worst: &[Explanation], threads: &[ThreadJobs], style: &Style) -> String {
    let Some(worst) = job::worst(worst).filter(|worst| job::is_job(worst)) else { return String::new() };
    let mut w = Writer::new(style);
    say(&mut w, "", &job::job_answer(worst, threads).capitalised().say("."));
    w.blank();
    w.finish()
}

/// So many threads have a line of their own.
const THREADS_SHOWN: usize = 12;

/// The threads whose jobs were followed, or were to be: a line each; of many those that were late most often.
fn thread_lines(jobs: &[ThreadJobs], style: &Style) -> String {
    if jobs.is_empty() {
        return String::new();
    }
    let mut w = Writer::new(style);
    let mut shown = threads::shown(jobs, THREADS_SHOWN);
    shown.truncate(THREADS_SHOWN);
    for thread in &shown {
        let by = match (&thread.cycle, &thread.marks) {
            (Some(cycle), _) => Some(cycle_text(&thread.task, cycle)),
            (None, Some(marks)) => Some(marks_text(&thread.task, marks)),
            (None, None) => None,
        };
        let Some(mut text) = by else {
            let text = format!(
                "{}: no wait between jobs was recognised, so its wake-ups are explained; name the wait with --cycle",
                task_text(&thread.task)
            );
            w.item(0, (Tone::Note, "Jobs:"), 7, [(Tone::Plain, text.as_str())]);
            continue;
        };
        text.push_str(&format!(" {} completed", grouped(thread.jobs)));
        if let (Some(deadline), Some(late)) = (thread.deadline, threads::late_text(thread)) {
            text.push_str(&format!(", {late} after more than {deadline}"));
        }
        if let Some(overrun) = threads::overrun_text(thread) {
            text.push_str(&format!(", {overrun}"));
        }
        if let Some(missed) = thread.missed.filter(|&missed| missed > 0) {
            text.push_str(&format!(", {} missed", grouped(missed)));
        }
        if let Some(open_for) = thread.open_for {
            text.push_str(&format!(", and one was not over after {open_for}"));
        }
        text.push('.');
        if let Some(sleeps) = thread.sleeps_before.filter(|&sleeps| sleeps > 0) {
            text.push_str(&format!(
                " At least {} before that was recognised are not counted.",
                grouped(sleeps)
            ));
        }
        text.push_str(&thread.marks.as_ref().map_or_else(String::new, threads::unpaired_text));
        w.item(0, (Tone::Note, "Jobs:"), 7, [(Tone::Plain, text.as_str())]);
    }
    if shown.len() < jobs.len() {
        let text =
            format!("{} more threads; --format json has them", grouped((jobs.len() - shown.len()) as u64));
        w.item(0, (Tone::Note, "Jobs:"), 7, [(Tone::Plain, text.as_str())]);
    }
    w.finish() + "\n"
}

/// Between which wait the jobs of a thread lie, in a sentence.
fn cycle_text(task: &Task, cycle: &Cycle) -> String {
    let (thread, site, sureness) = (task_text(task), &cycle.site, cycle.sureness.name());
    let period = cycle.period.map_or_else(String::new, |period| format!(", every {period}"));
    printable(&format!("{thread}: from one wait in {site} to the next ({sureness}){period}.")).into_owned()
}

/// Between which marks the jobs of a thread lie, in a sentence.
fn marks_text(task: &Task, marks: &ThreadMarks) -> String {
    let thread = task_text(task);
    let end = marks.marks.end.as_ref().map_or_else(|| "the next".to_owned(), ToString::to_string);
    let period = marks.period.map_or_else(String::new, |period| format!(", every {period}"));
    printable(&format!("{thread}: from {} to {end}{period}.", marks.marks.begin)).into_owned()
}

/// Below jobs: what to change; nothing where no job gives a hint.
fn changes(worst: &[Explanation], style: &Style) -> String {
    let hints = job::hints(worst);
    if hints.is_empty() {
        return String::new();
    }
    let mut w = Writer::new(style);
    w.line(Tone::Strong, "What to change, by the time that it concerns");
    for hint in hints {
        let time = format!("{:>7}", to_nanos(hint.time).to_string());
        w.item(2, (Tone::Strong, &time), 11, [(Tone::Plain, hint.text.as_str())]);
    }
    format!("\n{}", w.finish())
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
    let length = explanation.length();
    head(&mut w, explanation, explanation.requested_at.saturating_sub(origin));
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
    let sum = total(explanation.causes.iter().map(|cause| cause.duration));
    let mut lines: Vec<Line> = cause_lines(explanation);
    lines.push(Line::Cells(vec![
        Cell::new(Tone::Strong, to_nanos(sum).to_string()),
        Cell::new(Tone::Strong, percent(sum, length.0.into())),
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
    for cause in digest::causes(explanation) {
        let frames = cause.stack.as_ref().map_or(&[][..], |stack| &stack.0);
        let what = match (digest::job::more_text(cause, &explanation.task), frames.is_empty()) {
            (None, true) => continue,
            (Some(detail), true) => format!(": {detail}"),
            (Some(detail), false) => format!(": {detail}; kernel stack:"),
            (None, false) => ": kernel stack:".to_owned(),
        };
        let name = digest::cause_text(cause);
        w.paragraph(2, 4, [(Tone::Strong, name.as_str()), (Tone::Plain, what.as_str())]);
        for frame in frames {
            w.paragraph(4, 6, [(Tone::Plain, frame.as_str())]);
        }
    }
    w.finish()
}

/// Who, how long, from when: of a job from its release to its completion.
fn head(w: &mut Writer<'_>, explanation: &Explanation, due: Nanos) {
    let (task, cpu, mechanism) = (&explanation.task, explanation.cpu, explanation.mechanism);
    if !job::is_job(explanation) {
        let late = explanation.latency().to_string();
        let rest = format!(" late: {} on CPU {cpu}, {mechanism}, due at +{due}", task_text(task));
        w.paragraph(0, 2, [(Tone::Strong, late.as_str()), (Tone::Plain, rest.as_str())]);
        return;
    }
    let name = format!("{}/{}: response ", if task.comm.is_empty() { "?" } else { &task.comm }, task.tid);
    let response = explanation.length().to_string();
    let priority = match priority_text(task) {
        text if text.is_empty() => text,
        text => format!(", {text}"),
    };
    let end = if explanation.open { "now, not completed" } else { "completion" };
    let rest = if explanation.begins_at_a_mark() {
        format!(" (begin at +{due} to {end}){priority}, on CPU {cpu}")
    } else {
        let latency = explanation.latency();
        format!(" (release at +{due} to {end}, {latency} to the start){priority}, on CPU {cpu}, {mechanism}")
    };
    w.paragraph(
        0,
        2,
        [(Tone::Plain, name.as_str()), (Tone::Strong, response.as_str()), (Tone::Plain, rest.as_str())],
    );
}

/// The causes, those behind one chain of waits together under it.
fn cause_lines(explanation: &Explanation) -> Vec<Line> {
    let chains = job::chains(explanation);
    let is_chained = chains.iter().any(|chain| !chain.via.is_empty());
    let mut lines = Vec::new();
    for chain in &chains {
        if is_chained {
            let head = chain.head();
            let texts = head.into_iter().enumerate();
            lines.extend(texts.map(|(place, text)| Line::Text(if place == 0 { 0 } else { 2 }, text)));
        }
        for cause in &chain.causes {
            let text = match chain.via {
                [] => digest::cause_text(cause),
                _ => job::predicate(cause),
            };
            lines.push(cause_line(cause, explanation.length(), text));
        }
    }
    for cause in job::rest(explanation) {
        lines.push(cause_line(cause, explanation.length(), digest::cause_text(cause)));
    }
    lines
}

fn cause_line(cause: &Cause, length: Nanos, text: String) -> Line {
    Line::Cells(vec![
        cause.duration.to_string().into(),
        percent(cause.duration.0.into(), length.0.into()).into(),
        bar(cause.duration.0.into(), length.0.into(), 16).into(),
        grouped(cause.spans).into(),
        text.into(),
    ])
}
