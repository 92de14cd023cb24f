// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a Run of `defer` says.

use latebound_model::{Quantity, Run, Series};

use super::{Sentence, loads_text};
use crate::text::grouped;

/// Which way was the least late at worst and which the latest, under the loads where there were any.
pub(super) fn late(run: &Run) -> Sentence {
    let has = |load: &str| run.series.iter().any(|series| series.subject.name.ends_with(load));
    let load = if has(", loaded") { ", loaded" } else { ", idle" };
    let mut latest: Vec<&Series> = run
        .series
        .iter()
        .filter(|series| series.quantity == Quantity::Latency && series.histogram.count() > 0)
        .filter(|series| series.subject.name.ends_with(load) && !series.subject.name.starts_with("direct "))
        .collect();
    latest.sort_by_key(|series| series.histogram.max());
    let (Some(least), Some(most)) = (latest.first(), latest.last()) else {
        return Sentence::default().say("Nothing that was requested has started in this Run.");
    };
    let name = |series: &Series| series.subject.name.trim_end_matches(load).to_owned();
    let max = |series: &Series| series.histogram.max().map(|max| max.to_string()).unwrap_or_default();
    let count: u128 = latest.iter().map(|series| u128::from(series.histogram.count())).sum();
    let sentence = Sentence::default().say("Of ").stress(grouped(count)).say(" starts of deferred work ");
    let sentence = match load {
        ", loaded" => sentence.say(loads_text(&run.loads)),
        _ => sentence.say("with no load of ours"),
    };
    sentence
        .say(", the latest of each way was from ")
        .stress(max(least))
        .say(format!(" ({}) to ", name(least)))
        .stress(max(most))
        .say(format!(" ({}).", name(most)))
}
