// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs of each followed thread: how many, against which deadline, how they were spread, and the worst of them.

use latebound_model::{Explanation, Nanos, Run, Series, ThreadJobs};

use super::parts::{number, number_cell, picture, section, table, time, time_cell};
use super::worst::case_id;
use super::{is_lossy, since_start};
use crate::digest::{self, job, threads};
use crate::markup::Markup;
use crate::palette;
use crate::svg::{self, Limits};
use crate::text::{any_lost, name_id_text, percent, priority_text, who_text};

/// As many threads stand in the table at once; the others open on demand.
const LISTED: usize = 12;
/// As many threads have their picture on the page at once; those of others open on demand.
const PICTURES: usize = 4;
/// As many jobs stand in the table at once; the others open on demand.
const JOBS: usize = 20;

/// Whether there are jobs to speak of.
pub(super) fn has_jobs(run: &Run) -> bool {
    !run.jobs.is_empty() || job::any_job(&run.worst)
}

pub(super) fn write(m: &mut Markup, run: &Run) {
    if !has_jobs(run) {
        return;
    }
    let lead = "A job goes from its release to its completion, and its response is the time between the two. Late: a response above the \
                deadline. Missed: a release of the period that had no job.";
    section(m, "jobs", "Jobs", lead, |m| {
        let shown = threads::shown(&run.jobs, LISTED);
        let (first, rest) = shown.split_at(shown.len().min(LISTED));
        thread_table(m, run, first);
        folded(m, rest, &format!("{} more threads", number(rest.len() as u64)), |m| {
            thread_table(m, run, rest)
        });
        responses(m, run, &shown);
        worst_jobs(m, run);
    });
}

/// What opens on demand; nothing where there is nothing.
fn folded<T>(m: &mut Markup, rest: &[T], summary: &str, fill: impl FnOnce(&mut Markup)) {
    if rest.is_empty() {
        return;
    }
    m.element("details", &[], |m| {
        m.leaf("summary", &[], summary);
        fill(m);
    })
    .line();
}

fn thread_table(m: &mut Markup, run: &Run, shown: &[&ThreadJobs]) {
    if shown.is_empty() {
        return;
    }
    let heads = [
        "Thread",
        "Policy",
        "Period",
        "Deadline",
        "Completed",
        "Late",
        "Missed",
        "Longest",
        "Between two jobs",
        "How sure",
    ];
    table(m, &heads, &[2, 3, 4, 5, 6, 7], |m| {
        for thread in shown {
            m.element("tr", &[], |m| thread_row(m, thread, threads::responses(run, thread.task.tid))).line();
        }
    });
}

fn thread_row(m: &mut Markup, thread: &ThreadJobs, responses: Option<&Series>) {
    m.element("td", &[("class", "name")], |m| {
        m.leaf("b", &[], &name_id_text(&thread.task));
    });
    m.leaf("td", &[("class", "kind")], &priority_text(&thread.task));
    let Some(place) = threads::place_text(thread) else {
        let none =
            "no wait between jobs was recognised, so the wake-ups are explained; name the wait with --cycle";
        m.leaf("td", &[("class", "main soft"), ("colspan", "8")], none);
        return;
    };
    optional_cell(m, thread.period().map(time), "no regular distance between two releases is known");
    optional_cell(m, thread.deadline.map(time), "no deadline was given, and no period is known");
    number_cell(m, thread.jobs);
    match threads::late_text(thread) {
        Some(late) if thread.late_at_most > Some(0) => {
            m.element("td", &[("class", "n danger")], |m| {
                m.text(&late);
                if thread.late_at_least == thread.late_at_most {
                    let share = percent(thread.late_at_most.unwrap_or(0).into(), thread.jobs.into());
                    m.empty("br", &[]).leaf("small", &[], &share);
                }
            });
        }
        late => optional_cell(m, late, "there is no deadline"),
    }
    optional_cell(m, thread.missed.map(number), "no period is known");
    let (longest, lossy) = (responses.and_then(|one| one.histogram.max()), responses.is_some_and(is_lossy));
    time_cell(m, longest, thread.jobs, lossy);
    m.element("td", &[("class", "main")], |m| {
        m.text(&place);
        let notes = notes(thread);
        if !notes.is_empty() {
            m.empty("br", &[]).leaf("small", &[], &notes.join(" "));
        }
    });
    m.leaf("td", &[("class", "kind")], threads::sureness_text(thread));
}

/// A cell with a number, or an en dash that says why there is none.
fn optional_cell(m: &mut Markup, shown: Option<String>, why_not: &str) {
    m.element("td", &[("class", "n")], |m| match shown {
        Some(shown) => {
            m.text(&shown);
        }
        None => {
            m.leaf("span", &[("class", "none"), ("title", why_not)], "–");
        }
    });
}

/// What else is known of the jobs of a thread, in sentences.
fn notes(thread: &ThreadJobs) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(open_for) = thread.open_for {
        notes.push(format!("One job was not over after {}.", time(open_for)));
    }
    if let Some(overrun) = threads::overrun_text(thread) {
        notes.push(format!("{overrun}."));
    }
    if let Some(sleeps) = thread.sleeps_before.filter(|&sleeps| sleeps > 0) {
        notes.push(format!("At least {} before that was recognised are not counted.", number(sleeps)));
    }
    if let Some(marks) = &thread.marks {
        notes.push(threads::unpaired_text(marks).trim_start().to_owned());
    }
    notes.retain(|note| !note.is_empty());
    notes
}

/// The distribution of each thread's responses.
fn responses(m: &mut Markup, run: &Run, shown: &[&ThreadJobs]) {
    let drawn: Vec<(&ThreadJobs, &Series)> = shown
        .iter()
        .filter(|thread| threads::place_text(thread).is_some())
        .filter_map(|thread| Some((*thread, threads::responses(run, thread.task.tid)?)))
        .collect();
    let (first, rest) = drawn.split_at(drawn.len().min(PICTURES));
    pictures(m, first);
    folded(m, rest, &format!("The responses of {} more threads", number(rest.len() as u64)), |m| {
        pictures(m, rest)
    });
}

fn pictures(m: &mut Markup, drawn: &[(&ThreadJobs, &Series)]) {
    let draw = |m: &mut Markup, (thread, series): &(&ThreadJobs, &Series), wide: f64| {
        let limits = Limits { deadline: thread.deadline, period: thread.period() };
        let caption = format!("Responses of {}.", who_text(&thread.task));
        let label = format!("Histogram of the responses of {}, against the deadline", who_text(&thread.task));
        picture(m, &caption, &counts(thread, series), wide, |width| {
            svg::against_deadline(&label, &series.histogram, limits, width)
        });
    };
    match drawn {
        [] => {}
        [one] => draw(m, one, 1280.0),
        several => {
            m.element("div", &[("class", "pair")], |m| several.iter().for_each(|one| draw(m, one, 630.0)));
        }
    }
}

/// How many jobs are behind a picture, and how many are not in it.
fn counts(thread: &ThreadJobs, series: &Series) -> String {
    let mut counts = vec![format!("{} completed", number(series.histogram.count()))];
    if let (Some(late), Some(deadline)) = (threads::late_text(thread), thread.deadline) {
        counts.push(format!("{late} after more than {deadline}"));
    }
    if let Some(missed) = thread.missed {
        counts.push(format!("{} missed", number(missed)));
    }
    if thread.open_for.is_some() {
        counts.push("1 not over".to_owned());
    }
    for loss in series.losses.iter().filter(|loss| loss.count != Some(0)) {
        counts.push(format!("lost: {}", crate::text::loss_text(loss)));
    }
    counts.join(", ")
}

/// The worst jobs, one a row, with links to their lanes.
fn worst_jobs(m: &mut Markup, run: &Run) {
    let jobs: Vec<(usize, &Explanation)> =
        run.worst.iter().enumerate().filter(|(_, one)| job::is_job(one)).collect();
    if jobs.is_empty() {
        return;
    }
    m.leaf("h3", &[("id", "worst-jobs")], "The worst jobs");
    let lead = "Wake-up: from the release to the start. From there on, running: its own code, system calls and page faults, without what \
                interrupted them; blocked: asleep, for whatever reason. The rest of the response is what kept the ready thread from its CPU.";
    m.leaf("p", &[("class", "lead")], lead);
    let (first, rest) = jobs.split_at(jobs.len().min(JOBS));
    job_table(m, run, first);
    folded(m, rest, &format!("{} more jobs", number(rest.len() as u64)), |m| job_table(m, run, rest));
}

fn job_table(m: &mut Markup, run: &Run, jobs: &[(usize, &Explanation)]) {
    let heads =
        ["", "Thread", "Release", "Response", "Of deadline", "Wake-up", "Running", "Blocked", "First cause"];
    table(m, &heads, &[2, 3, 4, 5, 6, 7], |m| {
        for (place, explanation) in jobs {
            m.element("tr", &[], |m| job_row(m, run, *place, explanation)).line();
        }
    });
}

fn job_row(m: &mut Markup, run: &Run, place: usize, explanation: &Explanation) {
    m.element("td", &[], |m| {
        m.leaf("a", &[("href", &format!("#{}", case_id(place)))], &format!("#{}", place + 1));
    });
    m.leaf("td", &[("class", "name")], &name_id_text(&explanation.task));
    m.leaf("td", &[("class", "n")], &since_start(run, explanation.requested_at));
    let (response, lossy) = (explanation.length(), any_lost(&explanation.losses));
    m.element("td", &[("class", "n")], |m| {
        super::value(m, Some(response), 1, lossy);
        if explanation.open {
            m.empty("br", &[]).leaf("small", &[], "not over");
        }
    });
    let deadline = threads::deadline(run, explanation.task.tid).filter(|&deadline| deadline > Nanos::ZERO);
    match deadline {
        Some(deadline) => {
            let class = if response > deadline { "n danger" } else { "n" };
            m.leaf("td", &[("class", class)], &percent(response.0.into(), deadline.0.into()));
        }
        None => optional_cell(m, None, "there is no deadline"),
    }
    let times = explanation.job_times().unwrap_or_default();
    let unknown = "of some of the time nothing tells whether the thread ran or slept";
    job_time(m, times.wakeup, "the job begins at a mark, where its thread runs");
    job_time(m, times.running, unknown);
    job_time(m, times.blocked, unknown);
    m.element("td", &[("class", "main")], |m| {
        if let Some(cause) = digest::causes(explanation).first() {
            m.leaf("i", &[("class", &format!("swatch {}", palette::class(cause.kind)))], "");
            m.text(&format!("{} ", digest::cause_text(cause))).leaf("b", &[], &time(cause.duration));
        }
    });
}

/// A cell with a time of which all is known, or an en dash that says why not.
fn job_time(m: &mut Markup, shown: Option<Nanos>, why_not: &str) {
    match shown {
        Some(_) => time_cell(m, shown, 1, false),
        None => optional_cell(m, None, why_not),
    }
}
