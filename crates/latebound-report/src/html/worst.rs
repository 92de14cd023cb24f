// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst cases, each as a timeline beside causes that add up, and the causes over all of them.

use latebound_analysis::Culprit;
use latebound_model::{Cause, CauseKind, Explanation, Run};

use super::groups;
use super::parts::{number, picture, prose, section, table, time, value};
use super::since_start;
use crate::digest::blame::{blamed, culprit_text};
use crate::digest::{self, job};
use crate::markup::Markup;
use crate::palette;
use crate::svg;
use crate::text::{any_lost, loss_text, percent, task_text, to_nanos, total};

/// As many cases stand open on the page; the others open on demand.
const OPEN: usize = 3;
/// As many subjects are named for a kind of cause.
const SUBJECTS: usize = 4;

pub(super) fn write(m: &mut Markup, run: &Run) {
    if run.worst.is_empty() {
        return;
    }
    let has_jobs = job::any_job(&run.worst);
    let lead = match has_jobs {
        true => {
            "From the release of a job to its completion. The causes fill the interval without a gap. In the lanes, an arrow leads from \
             a thread that begins to wait to the thread that it waits for."
        }
        false => {
            "From the moment the thread was due to the moment it ran. The causes fill the interval without a gap."
        }
    };
    section(m, "worst", "The worst cases", lead, |m| {
        for (place, explanation) in run.worst.iter().enumerate() {
            if place < OPEN {
                m.element("article", &[("class", "case"), ("id", &case_id(place))], |m| {
                    m.element("header", &[], |m| head(m, run, explanation, place));
                    body(m, explanation);
                })
                .line();
            } else {
                m.element("details", &[("class", "case"), ("id", &case_id(place))], |m| {
                    m.element("summary", &[], |m| {
                        head_short(m, run, explanation);
                        strip(m, explanation);
                    });
                    m.element("header", &[], |m| head(m, run, explanation, place));
                    body(m, explanation);
                })
                .line();
            }
        }
    });
    causes(m, run);
    if has_jobs {
        blame_table(m, run);
    }
    groups::write(m, &run.worst);
    if has_jobs {
        changes(m, run);
    }
}

/// By which the case at this place is linked to.
pub(super) fn case_id(place: usize) -> String {
    format!("case-{}", place + 1)
}

fn head(m: &mut Markup, run: &Run, explanation: &Explanation, place: usize) {
    m.leaf("h3", &[], &format!("#{}", place + 1));
    m.element("b", &[], |m| value(m, Some(explanation.length()), 1, any_lost(&explanation.losses)));
    let what = match job::is_job(explanation) {
        true if explanation.open => "and not over,",
        true => "response",
        false => "late",
    };
    m.leaf("span", &[], &format!("{what} on CPU {}", explanation.cpu));
    if job::is_job(explanation) && !explanation.begins_at_a_mark() {
        m.leaf("span", &[], &format!("{} to the start", time(explanation.latency())));
    }
    m.leaf("span", &[], &task_text(&explanation.task));
    m.leaf("span", &[], explanation.mechanism.name());
    m.leaf("span", &[], &since_start(run, explanation.requested_at));
}

fn head_short(m: &mut Markup, run: &Run, explanation: &Explanation) {
    m.leaf("b", &[], &time(explanation.length()));
    let at = since_start(run, explanation.requested_at);
    m.leaf("span", &[("class", "where")], &format!("CPU {}, {at}", explanation.cpu));
}

/// The causes as parts of one bar.
fn strip(m: &mut Markup, explanation: &Explanation) {
    let sum = total(explanation.causes.iter().map(|cause| cause.duration)).max(1);
    m.element("span", &[("class", "strip")], |m| {
        for cause in digest::causes(explanation) {
            let share = cause.duration.0 as f64 / sum as f64 * 100.0;
            if share >= 0.1 {
                let width = format!("width:{share:.2}%");
                let title = format!("{}, {}", digest::cause_text(cause), time(cause.duration));
                m.leaf(
                    "i",
                    &[("class", palette::class(cause.kind)), ("style", &width), ("title", &title)],
                    "",
                );
            }
        }
    });
}

fn body(m: &mut Markup, explanation: &Explanation) {
    for signature in &explanation.signatures {
        m.leaf("p", &[("class", "signature")], &prose(signature.sentence()));
    }
    for still in &explanation.standstills {
        m.leaf("p", &[("class", "signature")], &prose(&digest::standstill_text(still)));
    }
    for loss in explanation.losses.iter().filter(|loss| loss.count != Some(0)) {
        m.leaf("p", &[("class", "lossnote")], &format!("Lost within the interval: {}.", loss_text(loss)));
    }
    if let Some(text) = digest::does_not_add_up(explanation) {
        m.leaf("p", &[("class", "banner loss")], &text);
    }
    m.element("div", &[("class", "parts")], |m| {
        m.element("div", &[], |m| {
            picture(m, "", "", 700.0, |width| svg::timeline(explanation, width));
            picture(m, "", "", 700.0, |width| svg::enlarged(explanation, width));
        });
        table(m, &["Cause", "Time", "Part", "Spans"], &[1, 2, 3], |m| {
            cause_rows(m, explanation);
            m.element("tr", &[("class", "sum")], |m| {
                let sum = total(explanation.causes.iter().map(|cause| cause.duration));
                m.leaf("td", &[], "Sum of the causes");
                let title = format!("{} ns", number(sum));
                m.element("td", &[("class", "n")], |m| {
                    m.leaf("span", &[("title", &title)], &time(to_nanos(sum)));
                });
                m.leaf("td", &[("class", "n")], &percent(sum, explanation.length().0.into()));
                m.leaf("td", &[], "");
            });
        });
    });
}

/// The causes, those behind one chain of waits together under it.
fn cause_rows(m: &mut Markup, explanation: &Explanation) {
    let chains = job::chains(explanation);
    let is_chained = chains.iter().any(|chain| !chain.via.is_empty());
    for chain in &chains {
        if is_chained {
            m.element("tr", &[], |m| {
                let attributes = [("class", "group"), ("colspan", "4"), ("scope", "rowgroup")];
                m.element("th", &attributes, |m| {
                    for (place, text) in chain.head().iter().enumerate() {
                        if place > 0 {
                            m.empty("br", &[]);
                        }
                        m.text(&prose(text));
                    }
                });
            })
            .line();
        }
        for cause in &chain.causes {
            cause_row(m, cause, explanation);
        }
    }
    for cause in job::rest(explanation) {
        cause_row(m, cause, explanation);
    }
}

fn cause_row(m: &mut Markup, cause: &Cause, explanation: &Explanation) {
    let length = explanation.length();
    m.element("tr", &[], |m| {
        m.element("td", &[("class", "name")], |m| {
            m.leaf("i", &[("class", &format!("swatch {}", palette::class(cause.kind)))], "");
            m.text(cause.kind.name());
            if !cause.subject.is_empty() {
                m.text(digest::before_subject(cause.kind)).leaf("b", &[], &cause.subject);
            }
            let task = cause.task.as_ref().map(|task| {
                let who = task_text(task);
                // The subject is the name already: what is left are the thread id and the priority.
                match who.strip_prefix(&cause.subject) {
                    Some(rest) if !cause.subject.is_empty() => {
                        rest.trim_start().trim_start_matches('(').trim_end_matches(')').to_owned()
                    }
                    _ => who,
                }
            });
            let details: Vec<String> =
                [task, job::more_text(cause, &explanation.task)].into_iter().flatten().collect();
            if !details.is_empty() {
                m.empty("br", &[]).leaf("small", &[], &details.join("; "));
            }
            if let Some(stack) = cause.stack.as_ref().filter(|stack| !stack.0.is_empty()) {
                m.element("details", &[], |m| {
                    m.leaf("summary", &[], "Kernel stack");
                    m.element("pre", &[], |m| {
                        for frame in &stack.0 {
                            m.text(frame).line();
                        }
                    });
                });
            }
        });
        m.element("td", &[("class", "n")], |m| value(m, Some(cause.duration), 1, false));
        m.leaf("td", &[("class", "n")], &percent(cause.duration.0.into(), length.0.into()));
        m.leaf("td", &[("class", "n")], &number(cause.spans));
    })
    .line();
}

fn causes(m: &mut Markup, run: &Run) {
    let totals = digest::cause_totals(&run.worst);
    let sum: u128 = totals.iter().map(|total| total.total).sum();
    let longest = totals.first().map_or(1, |total| total.total.max(1));
    let cases = run.worst.len();
    let lead = format!("{} in all, over the {cases} worst cases above.", to_nanos(sum));
    section(m, "causes", "What took the time", &lead, |m| {
        let heads = ["Cause", "", "Time", "Part", "Cases", "Most in one", "Mainly"];
        table(m, &heads, &[2, 3, 4, 5], |m| {
            for total in &totals {
                m.element("tr", &[], |m| {
                    m.element("td", &[("class", "kind")], |m| {
                        m.leaf("i", &[("class", &format!("swatch {}", palette::class(total.kind)))], "");
                        m.text(total.kind.name());
                    });
                    m.element("td", &[("class", "bar-cell")], |m| {
                        let width = format!("width:{:.2}%", total.total as f64 / longest as f64 * 100.0);
                        m.leaf("i", &[("class", palette::class(total.kind)), ("style", &width)], "");
                    });
                    m.leaf("td", &[("class", "n")], &time(to_nanos(total.total)));
                    m.leaf("td", &[("class", "n")], &percent(total.total, sum));
                    m.leaf("td", &[("class", "n")], &format!("{} of {cases}", total.cases));
                    m.element("td", &[("class", "n")], |m| value(m, Some(total.most), 1, false));
                    let mut names: Vec<String> = total
                        .subjects
                        .iter()
                        .take(SUBJECTS)
                        .map(|(name, time_in)| format!("{name} {}", time(to_nanos(*time_in))))
                        .collect();
                    if total.subjects.len() > SUBJECTS {
                        names.push(format!("{} more", total.subjects.len() - SUBJECTS));
                    }
                    m.leaf("td", &[("class", "main")], &names.join(", "));
                })
                .line();
            }
        });
    });
}

/// Whom the time of the jobs belongs to.
fn blame_table(m: &mut Markup, run: &Run) {
    let rows = blamed(&run.worst);
    let sum: u128 = rows.iter().map(|row| row.total).sum();
    let longest = rows.first().map_or(1, |row| row.total.max(1));
    let lead =
        format!("{} in all jobs above. Of a chain of waits, whoever kept the last one.", to_nanos(sum));
    section(m, "blame", "Who made whom late", &lead, |m| {
        table(m, &["Who", "", "Jobs", "Time", "Part", "Longest"], &[2, 3, 4, 5], |m| {
            for row in &rows {
                m.element("tr", &[], |m| {
                    m.leaf("td", &[("class", "name")], &culprit_text(&row.culprit));
                    m.element("td", &[("class", "bar-cell")], |m| {
                        let width = format!("width:{:.2}%", row.total as f64 / longest as f64 * 100.0);
                        m.leaf("i", &[("class", culprit_class(&row.culprit)), ("style", &width)], "");
                    });
                    m.leaf("td", &[("class", "n")], &number(row.jobs as u64));
                    m.leaf("td", &[("class", "n")], &time(to_nanos(row.total)));
                    m.leaf("td", &[("class", "n")], &percent(row.total, sum));
                    m.element("td", &[("class", "n")], |m| value(m, Some(row.longest), 1, false));
                })
                .line();
            }
        });
    });
}

/// The colour of a culprit: that of the cause which it stands for most often.
const fn culprit_class(culprit: &Culprit) -> &'static str {
    palette::class(match culprit {
        Culprit::Itself => CauseKind::OwnCode,
        Culprit::Thread(_) | Culprit::KernelThread(_) => CauseKind::TaskFirst,
        Culprit::Interrupt(_) => CauseKind::Interrupt,
        Culprit::Softirq(_) => CauseKind::Softirq,
        Culprit::Quota(_) => CauseKind::Quota,
        Culprit::Throttling => CauseKind::Throttled,
        Culprit::Processor(_) => CauseKind::IdleExit,
        Culprit::Hypervisor => CauseKind::Stolen,
        Culprit::Device(_) => CauseKind::BlockIo,
        _ => CauseKind::Unaccounted,
    })
}

/// What to change, by what the jobs met.
fn changes(m: &mut Markup, run: &Run) {
    let hints = job::hints(&run.worst);
    if hints.is_empty() {
        return;
    }
    let lead = "One line a kind of cause that was seen, by the time that it concerns.";
    section(m, "hints", "What to change in these jobs", lead, |m| {
        table(m, &["Time", "What to change"], &[0], |m| {
            for hint in &hints {
                m.element("tr", &[], |m| {
                    m.leaf("td", &[("class", "n")], &time(to_nanos(hint.time)));
                    m.leaf("td", &[("class", "name")], &prose(&hint.text));
                })
                .line();
            }
        });
    });
}
