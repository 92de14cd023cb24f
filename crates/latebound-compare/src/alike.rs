// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether two sides may be compared at all, and what to keep in mind where they may.

use latebound_model::Quantity;

use crate::document::Setting;
use crate::facts::{RunFacts, SeriesKey, Side};
use crate::settings::{Difference, Significance};

/// What makes the sides unlike: a difference between them need not come from what the reader thinks of.
pub(crate) fn unlike(base: &Side, new: &Side, differences: &[Difference]) -> Vec<String> {
    let mut found = Vec::new();
    let both = || base.runs.iter().chain(&new.runs);
    let emulated = both().filter(|run| run.emulation.is_some()).count();
    if emulated > 0 && emulated < both().count() {
        found.push(format!(
            "{emulated} of {} Runs are of an emulated machine: its times say nothing about real ones",
            both().count()
        ));
    } else if differences.iter().any(|one| one.significance == Significance::Emulation) {
        found.push("the emulated machines had different clocks or emulators".to_owned());
    }
    let failed = both().filter(|run| !run.load_errors.is_empty()).count();
    if failed > 0 {
        let first = both().find_map(|run| run.load_errors.first()).map(String::as_str).unwrap_or_default();
        found.push(format!("in {failed} of {} Runs a load failed: {first}", both().count()));
    }
    let mut tools: Vec<&str> = both().map(|run| run.tool.as_str()).collect();
    tools.sort();
    tools.dedup();
    if tools.len() > 1 {
        found.push(format!(
            "they were measured by different tools ({}), whose clocks, priorities and defaults differ",
            tools.join(", ")
        ));
    }
    for Difference { significance, setting } in differences {
        match significance {
            Significance::Load => found.push(format!("the loads differ: {}", values(setting))),
            Significance::Quantity => {
                found.push(format!("{} differs: {}", setting.name, values(setting)));
            }
            Significance::System
            | Significance::Hardware
            | Significance::Emulation
            | Significance::Harmless
            | Significance::Caution => {}
        }
    }
    found
}

/// `1.00 ms against 200 us`.
fn values(setting: &Setting) -> String {
    let side = |values: &[crate::document::ValueOnRuns]| {
        let shown: Vec<&str> = values.iter().map(|v| v.value.as_deref().unwrap_or("not set")).collect();
        shown.join(" or ")
    };
    format!("{} against {}", side(&setting.base), side(&setting.new))
}

/// What to keep in mind.
pub(crate) fn cautions(base: &Side, new: &Side, differences: &[Difference]) -> Vec<String> {
    let mut found = Vec::new();
    let both = || base.runs.iter().chain(&new.runs);
    if both().all(|run| run.emulation.is_some()) {
        found.push(
            "all Runs are of an emulated machine: their order and ratios mean something, their times do not"
                .to_owned(),
        );
    }
    let of = |wanted| {
        let of_it = move |one: &&Difference| one.significance == wanted;
        differences.iter().filter(of_it).map(|one| &one.setting)
    };
    for setting in of(Significance::Hardware) {
        found.push(format!("other hardware, {}: {}", setting.name, values(setting)));
    }
    for setting in of(Significance::Caution) {
        found.push(format!("{} differs: {}", setting.name, values(setting)));
    }
    let dropped = |side: &Side| side.runs.iter().filter(|run| run.dropped).count();
    if dropped(base) + dropped(new) > 0 {
        found.push(format!(
            "fewer operations were done than were offered in {} of {} Runs of base and {} of {} of {}: the rate was not kept",
            dropped(base),
            base.runs.len(),
            dropped(new),
            new.runs.len(),
            new.name
        ));
    }
    for (side, of) in [(base, |s: &Setting| s.base.len()), (new, |s: &Setting| s.new.len())]
        as [(&Side, fn(&Setting) -> usize); 2]
    {
        let settings = differences.iter().map(|one| &one.setting);
        let varying: Vec<&str> =
            settings.filter(|setting| of(setting) > 1).map(|setting| setting.name.as_str()).collect();
        if !varying.is_empty() {
            found.push(format!(
                "the Runs of side {} are not alike themselves: {}",
                side.name,
                varying.join(", ")
            ));
        }
    }
    let count = |what: &dyn Fn(&RunFacts) -> bool| both().filter(|run| what(run)).count();
    let all = both().count();
    let incomplete = count(&|run| !run.name.complete);
    if incomplete > 0 {
        found.push(format!("{incomplete} of {all} Runs ended before their time"));
    }
    let lossy = count(&|run| run.series.values().any(|series| series.lost));
    if lossy > 0 {
        found.push(format!("in {lossy} of {all} Runs some values were lost; the Runs say which"));
    }
    if count(&|run| run.imported) > 0 {
        found.push("settings of the system are not on record where results were imported".to_owned());
    }
    let starts = |side: &Side| -> Option<(jiff::Timestamp, jiff::Timestamp)> {
        let starts: Vec<jiff::Timestamp> = side.runs.iter().map(|run| run.started).collect::<Option<_>>()?;
        Some((*starts.iter().min()?, *starts.iter().max()?))
    };
    let several = base.runs.len() > 1 && new.runs.len() > 1;
    match (starts(base), starts(new)) {
        (Some((base_first, base_last)), Some((new_first, new_last)))
            if several && (base_last < new_first || new_last < base_first) =>
        {
            found.push(
                "one side was measured wholly before the other: what changed on the machine over that time looks like a \
                 difference between them; take turns to rule it out"
                    .to_owned(),
            );
        }
        (Some(_), Some(_)) => {}
        _ => found.push(
            "not every Run says when it began, so that nobody knows whether the sides took turns".to_owned(),
        ),
    }
    found
}

/// Which series of both sides are compared: one free of coordinated omission where all Runs have it, otherwise the other.
pub(crate) fn common_series(base: &Side, new: &Side) -> Vec<SeriesKey> {
    let on = |side: &Side, key: &SeriesKey| side.runs.iter().any(|run| run.series.contains_key(key));
    let mut keys: Vec<SeriesKey> = base.runs.iter().flat_map(|run| run.series.keys().cloned()).collect();
    keys.sort();
    keys.dedup();
    keys.retain(|key| on(new, key));
    let twin = |key: &SeriesKey| SeriesKey { quantity: Quantity::Latency, ..key.clone() };
    let everywhere =
        |key: &SeriesKey| base.runs.iter().chain(&new.runs).all(|run| run.series.contains_key(key));
    let free: Vec<SeriesKey> = keys
        .iter()
        .filter(|key| key.quantity == Quantity::LatencyNaive && everywhere(&twin(key)))
        .cloned()
        .collect();
    keys.retain(|key| !free.contains(key));
    let naive: Vec<SeriesKey> =
        keys.iter().filter(|key| key.quantity == Quantity::LatencyNaive).map(twin).collect();
    keys.retain(|key| !naive.contains(key));
    keys
}

/// Series that only one side has, in words.
pub(crate) fn one_sided(base: &Side, new: &Side) -> Vec<String> {
    let names = |side: &Side| {
        let mut names: Vec<String> = side
            .runs
            .iter()
            .flat_map(|run| {
                let series = run.series.keys().map(|key| format!("{} {}", key.mechanism, key.subject));
                series.chain(run.rates.keys().map(|(name, _)| name.clone()))
            })
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let (ours, theirs) = (names(base), names(new));
    let mut found = Vec::new();
    for (side, mine, others) in [(base, &ours, &theirs), (new, &theirs, &ours)] {
        let only: Vec<&String> = mine.iter().filter(|name| !others.contains(name)).collect();
        if let Some(first) = only.first() {
            let rest = if only.len() > 1 { format!(" and {} more", only.len() - 1) } else { String::new() };
            found.push(format!("only side {} has {first}{rest}; not compared", side.name));
        }
    }
    found
}
