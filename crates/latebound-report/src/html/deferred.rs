// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `defer run` measured: every way of putting work off on one axis, and its numbers.

use latebound_model::{Condition, Quantity, Run, RunVerb, Series};

use super::parts::{number_cell, picture, section, table, time_cell};
use crate::markup::Markup;
use crate::svg::{self, DeferredGroup, DeferredRow};
use crate::text::any_lost;

const LABEL: &str = "From the request to the start of deferred work";

/// A series by what the tables call it.
struct Named<'a> {
    mechanism: &'a str,
    /// `hardirq`, with where it went: `hardirq, to CPU 1`.
    context: String,
    load: String,
    series: &'a Series,
}

fn named(series: &Series) -> Option<Named<'_>> {
    let (way, condition) = (series.deferral.as_ref()?, series.condition.as_ref()?);
    Some(Named { mechanism: &way.mechanism, context: way.origin(), load: condition.to_string(), series })
}

/// Whether the Run is one of deferred work, which then takes the place of what was observed.
pub(super) fn is_deferred(run: &Run) -> bool {
    run.verb == RunVerb::Defer
}

pub(super) fn write(m: &mut Markup, run: &Run) {
    if !is_deferred(run) {
        return;
    }
    let of = |quantity| {
        run.series
            .iter()
            .filter(move |series| series.quantity == quantity)
            .filter_map(named)
            .collect::<Vec<_>>()
    };
    let latencies = of(Quantity::Latency);
    let lead = "Requested by a kernel module, one after the other, and timed by one read of the clock at the request and one \
                at the start. The line “direct” is a plain call: what it shows is the harness.";
    section(m, "deferred", "Work put off", lead, |m| {
        let groups = groups(&latencies);
        picture(
            m,
            LABEL,
            "Lines: from the minimum to the maximum. Dots: p50, p99, p99.9; the big one is the maximum.",
            860.0,
            |width| svg::deferred(LABEL, &groups, width),
        );
        let executions = of(Quantity::Execution);
        rows(m, &latencies, &executions);
    });
}

fn groups<'a>(series: &'a [Named<'a>]) -> Vec<DeferredGroup<'a>> {
    let mut groups: Vec<DeferredGroup<'a>> = Vec::new();
    for one in series {
        let name = format!("from {}", one.context);
        let at = groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
            groups.push(DeferredGroup { name, rows: Vec::new() });
            groups.len() - 1
        });
        let rows = &mut groups[at].rows;
        let at = rows.iter().position(|row| row.name == one.mechanism).unwrap_or_else(|| {
            rows.push(DeferredRow { name: one.mechanism.to_owned(), idle: None, loaded: None });
            rows.len() - 1
        });
        let (row, histogram) = (&mut rows[at], &one.series.histogram);
        if one.series.condition == Some(Condition::Idle) {
            row.idle = Some(histogram);
        } else if row.loaded.is_none_or(|(_, worst)| worst.max() < histogram.max()) {
            row.loaded = Some((one.load.as_str(), histogram));
        }
    }
    groups
}

fn rows(m: &mut Markup, latencies: &[Named<'_>], executions: &[Named<'_>]) {
    let heads = [
        "Mechanism",
        "Requested from",
        "Load",
        "n",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "p99.99",
        "p99.999",
        "max",
        "ran p50",
        "merged",
        "waited",
        "other CPU",
    ];
    table(m, &heads, &[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], |m| {
        for one in latencies {
            let series = one.series;
            let histogram = &series.histogram;
            let (count, lossy) = (histogram.count(), any_lost(&series.losses));
            m.element("tr", &[], |m| {
                for text in [one.mechanism, &one.context, &one.load] {
                    m.leaf("td", &[("class", "name")], text);
                }
                number_cell(m, count);
                time_cell(m, histogram.mean(), count, lossy);
                for q in [0.5, 0.99, 0.999, 0.9999, 0.99999] {
                    time_cell(m, histogram.quantile(q), count, lossy);
                }
                time_cell(m, histogram.max(), count, lossy);
                let ran = executions.iter().find(|other| other.series.subject.name == series.subject.name);
                time_cell(m, ran.and_then(|ran| ran.series.histogram.quantile(0.5)), count, false);
                for count in [series.merged, series.missed, series.cross_cpu] {
                    number_cell(m, count);
                }
            })
            .line();
        }
    });
}
