// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a Run of `defer` says.

use latebound_model::{Condition, Deferral, Quantity, Run, Series};

use super::{Sentence, loads_text};
use crate::text::grouped;

/// Which way was the minimum late at worst and which the worst, under the loads where there were any.
pub(super) fn late(run: &Run) -> Sentence {
    let is_idle = |series: &Series| series.condition == Some(Condition::Idle);
    let is_direct =
        |series: &Series| series.deferral.as_ref().is_some_and(|way| way.mechanism == Deferral::DIRECT);
    // A load times its own operations, which are series too and start nothing that was put off.
    let deferred = || run.series.iter().filter(|series| series.deferral.is_some());
    let is_loaded = deferred().any(|series| !is_idle(series));
    let mut worst: Vec<&Series> = deferred()
        .filter(|series| series.quantity == Quantity::Latency && series.histogram.count() > 0)
        .filter(|series| is_idle(series) != is_loaded && !is_direct(series))
        .collect();
    worst.sort_by_key(|series| series.histogram.max());
    let (Some(lowest), Some(most)) = (worst.first(), worst.last()) else {
        return Sentence::default().say("Nothing that was requested has started in this Run.");
    };
    let name = |series: &Series| match (&series.deferral, &series.condition) {
        (Some(way), Some(Condition::Idle | Condition::Loaded)) => way.to_string(),
        _ => series.subject.name.clone(),
    };
    let max = |series: &Series| series.histogram.max().map(|max| max.to_string()).unwrap_or_default();
    let count: u128 = worst.iter().map(|series| u128::from(series.histogram.count())).sum();
    let sentence = Sentence::default().say("Of ").stress(grouped(count)).say(" starts of deferred work ");
    let sentence = match is_loaded {
        true => sentence.say(loads_text(&run.loads)),
        false => sentence.say("with no load of ours"),
    };
    sentence
        .say(", the worst of each way was from ")
        .stress(max(lowest))
        .say(format!(" ({}) to ", name(lowest)))
        .stress(max(most))
        .say(format!(" ({}).", name(most)))
}
