// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads whose jobs were followed: which are shown, and what is known of each, in words.

use std::cmp::Reverse;

use latebound_model::{Histogram, Nanos, Quantity, Run, Series, Sureness, ThreadJobs, ThreadMarks, Tid};

use super::Sentence;
use crate::text::{grouped, printable};

/// The threads, so many at once: of more those that were late most often, and these come first.
pub(crate) fn shown(jobs: &[ThreadJobs], most: usize) -> Vec<&ThreadJobs> {
    let mut shown: Vec<&ThreadJobs> = jobs.iter().collect();
    if shown.len() > most {
        shown.sort_by_key(|thread| Reverse((thread.open_for, thread.late_at_most, thread.jobs)));
    }
    shown
}

/// A number that the buckets of a distribution tell within limits.
pub(crate) fn at_least_to_most(least: u64, most: u64) -> String {
    match least == most {
        true => grouped(least),
        false => format!("{} to {}", grouped(least), grouped(most)),
    }
}

/// Where the jobs of a thread begin and end; `None` where no place was recognised.
pub(crate) fn place_text(thread: &ThreadJobs) -> Option<String> {
    let text = match (&thread.cycle, &thread.marks) {
        (Some(cycle), _) => format!("waits in {}", cycle.site),
        (None, Some(marks)) => {
            let end = marks.marks.end.as_ref().map_or_else(|| "the next".to_owned(), ToString::to_string);
            format!("from {} to {end}", marks.marks.begin)
        }
        (None, None) => return None,
    };
    Some(printable(&text).into_owned())
}

/// How sure that place is: marks are what the user named.
pub(crate) fn sureness_text(thread: &ThreadJobs) -> &'static str {
    let of_marks = thread.marks.as_ref().map(|_| Sureness::Sure);
    let sureness = thread.cycle.as_ref().map(|cycle| cycle.sureness).or(of_marks);
    sureness.map_or("", Sureness::name)
}

/// Marks that begin or end no job of their own, in a sentence; nothing where there are none.
pub(crate) fn unpaired_text(marks: &ThreadMarks) -> String {
    let mut text = String::new();
    if marks.begun_again > 0 {
        text.push_str(&format!(" Begun again before an end: {}.", grouped(marks.begun_again)));
    }
    if marks.ended_alone > 0 {
        text.push_str(&format!(" Ends without a begin: {}.", grouped(marks.ended_alone)));
    }
    text
}

/// How many jobs took longer than the period, where that is not the deadline.
pub(crate) fn overrun_text(thread: &ThreadJobs) -> Option<String> {
    let (least, most) = (thread.overrun_at_least?, thread.overrun_at_most?);
    (thread.deadline != thread.period())
        .then(|| format!("{} after more than the period", at_least_to_most(least, most)))
}

/// How many jobs took longer than the deadline, where there is one.
pub(crate) fn late_text(thread: &ThreadJobs) -> Option<String> {
    Some(at_least_to_most(thread.late_at_least?, thread.late_at_most?))
}

/// The responses of a thread's jobs.
pub(crate) fn responses(run: &Run, tid: Tid) -> Option<&Series> {
    run.series.iter().find(|series| {
        series.quantity == Quantity::Response
            && series.subject.task.as_ref().is_some_and(|task| task.tid == tid)
            && series.histogram.count() > 0
    })
}

/// How long the responses of all followed threads were; `None` where no job was seen to its end.
pub(crate) fn answer(run: &Run) -> Option<Sentence> {
    let of_each = run.jobs.iter().filter_map(|thread| responses(run, thread.task.tid));
    let histograms: Vec<&Histogram> = of_each.map(|series| &series.histogram).collect();
    let max = histograms.iter().filter_map(|histogram| histogram.max()).max()?;
    let count = histograms.iter().fold(0u64, |sum, one| sum.saturating_add(one.count()));
    let of = match histograms.len() {
        1 => " of one thread".to_owned(),
        threads => format!(" of {threads} threads"),
    };
    let jobs = if count == 1 { " job" } else { " jobs" };
    let sentence = Sentence::default().say("Responses up to ").stress(max.to_string()).say(" over ");
    let sentence = sentence.stress(grouped(count)).say(format!("{jobs}{of}"));
    let with_deadline =
        run.jobs.iter().filter_map(|thread| Some((thread.late_at_least?, thread.late_at_most?)));
    let late = with_deadline.reduce(|sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)));
    Some(match late {
        None => sentence.say("; no deadline is known."),
        Some((0, 0)) => sentence.say("; none took longer than its deadline."),
        Some((least, most)) => {
            sentence.say("; ").stress(at_least_to_most(least, most)).say(" took longer than their deadline.")
        }
    })
}

/// The response that a job of this thread should not exceed, where it is known.
pub(crate) fn deadline(run: &Run, tid: Tid) -> Option<Nanos> {
    run.jobs.iter().find(|thread| thread.task.tid == tid)?.deadline
}
