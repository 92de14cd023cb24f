// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mechanisms that were observed: a line for each series, by mechanism.

use latebound_model::{Mechanism, Nanos, Run};

use super::parts::{number, number_cell, quantile, section, table, time_cell};
use crate::digest;
use crate::markup::Markup;
use crate::rows::{Row, observe_rows};
use crate::svg;

/// As many lines of a mechanism stand on the page at once; the others, which are less late, open on demand.
const LISTED: usize = 14;

pub(super) fn write(m: &mut Markup, run: &Run) {
    let series = digest::observed(run);
    let lead = "Activations that happened anyway, from request to start where not said otherwise. Merged: further requests that one start served.";
    let rows = observe_rows(&series);
    section(m, "observed", "Mechanisms observed", if rows.is_empty() { "" } else { lead }, |m| {
        if rows.is_empty() {
            m.leaf("p", &[], "No mechanism was observed in this Run.");
            return;
        }
        // One axis for all sparklines, so that they can be compared down the page.
        let low = series.iter().filter_map(|s| s.histogram.min()).min().unwrap_or(Nanos(1));
        let high = series.iter().filter_map(|s| s.histogram.max()).max().unwrap_or(Nanos(2));
        let line = |m: &mut Markup, row: &Row| {
            let lossy = row.is_lossy();
            m.element("tr", &[], |m| {
                m.leaf("td", &[("class", "name")], &row.label);
                m.element("td", &[("class", "spark")], |m| {
                    if let Some(spark) =
                        series.get(row.series).and_then(|s| svg::spark(&s.histogram, low, high))
                    {
                        m.append(&spark);
                    }
                });
                number_cell(m, row.count);
                for shown in [row.p50, row.p99, row.p99_9] {
                    m.element("td", &[("class", "n")], |m| quantile(m, shown, row.count, lossy));
                }
                time_cell(m, row.max, row.count, lossy);
                number_cell(m, row.merged);
                number_cell(m, row.cross_cpu);
                for lost in [row.clipped, row.losses] {
                    m.leaf("td", &[("class", "n")], &lost.map_or_else(|| "not counted".to_owned(), number));
                }
            })
            .line();
        };
        let heads = [
            "Subject",
            "Distribution",
            "n",
            "p50",
            "p99",
            "p99.9",
            "max",
            "merged",
            "other CPU",
            "clipped",
            "lost",
        ];
        let numeric = [2, 3, 4, 5, 6, 7, 8, 9, 10];
        let of = |mechanism: Mechanism| rows.iter().filter(move |row| row.mechanism == mechanism);
        table(m, &heads, &numeric, |m| {
            for mechanism in Mechanism::ALL {
                let mut rows = of(mechanism).take(LISTED).peekable();
                if rows.peek().is_some() {
                    m.element("tr", &[], |m| {
                        m.leaf(
                            "th",
                            &[("class", "group"), ("colspan", "11"), ("scope", "rowgroup")],
                            mechanism.name(),
                        );
                    });
                    rows.for_each(|row| line(m, row));
                }
            }
        });
        for mechanism in Mechanism::ALL {
            let count = of(mechanism).count();
            if count > LISTED {
                m.element("details", &[], |m| {
                    m.leaf("summary", &[], &format!("{} more of {}", count - LISTED, mechanism.name()));
                    table(m, &heads, &numeric, |m| of(mechanism).skip(LISTED).for_each(|row| line(m, row)));
                })
                .line();
            }
        }
    });
}
