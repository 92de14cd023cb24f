// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was done where threads were late, and of which stretch of time a Run is, in sentences.

use latebound_model::{Late, LateAction, OnLate, Run};

use crate::text::{grouped, printable, task_text};

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", grouped(count)) }
}

fn late_text(late: &Late) -> String {
    let what = if late.is_job { "a job of" } else { "a wake-up of" };
    let took = if late.open { "was not over after" } else { "took" };
    format!("{what} {} {took} {} on CPU {}", printable(&task_text(&late.task)), late.length, late.cpu)
}

/// Of a Run that holds a saved stretch: why it was saved, and what it holds.
pub(crate) fn stretch_text(run: &Run) -> Option<String> {
    let stretch = run.stretch.as_ref()?;
    let since = |at: latebound_model::Nanos| at.saturating_sub(run.started_monotonic);
    let events = run.tables.iter().find(|table| table.file == "events.parquet");
    let events = events.map_or_else(
        || "its events are not there".to_owned(),
        |table| format!("its {} events are in events.parquet", grouped(table.rows)),
    );
    Some(format!(
        "Saved by trigger {}: {}, more than {}. The stretch goes from +{} to +{}; {events}.",
        stretch.trigger,
        late_text(&stretch.late),
        stretch.limit,
        since(stretch.from),
        since(stretch.to),
    ))
}

/// How often something was late, and what was saved.
pub(crate) fn on_late_text(done: &OnLate) -> String {
    let mut text =
        format!("something took more than {} and was acted on {}", done.limit, times(done.triggers));
    if done.resting > 0 {
        text.push_str(&format!(
            "; {} more came before the rest of {} was over or the actions were done",
            grouped(done.resting),
            done.rest
        ));
    }
    text.push('.');
    if let Some(folder) = &done.folder {
        text.push_str(&format!(" {} saved in {}", grouped(done.saves.len() as u64), printable(folder)));
        if done.unsaved > 0 {
            text.push_str(&format!(
                "; {} more were not saved, because that is as many as were asked for",
                grouped(done.unsaved)
            ));
        }
        text.push('.');
    }
    text
}

/// One action, and how often it came to what.
pub(crate) fn action_text(action: &LateAction) -> String {
    let mut text = format!("{}: done {}", printable(&action.action), times(action.done));
    for (count, what) in [
        (action.failed, "failed"),
        (action.timed_out, "ended at the limit"),
        (action.cancelled, "ended with the Run"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {what} {}", times(count)));
        }
    }
    if let Some(why) = &action.last_failure {
        text.push_str(&format!(" (the last time: {})", printable(why)));
    }
    text
}

/// One save: its Run, and what was late.
pub(crate) fn save_text(save: &latebound_model::Save) -> String {
    format!("{}: {}", printable(&save.run), late_text(&save.late))
}
