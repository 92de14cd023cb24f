// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of `defer timeline`: the lanes around the trigger, and how far the edges went apart.

use latebound_model::Run;

use super::parts::{number_cell, picture, section, table, time_cell};
use super::{command, document, losses, system};
use crate::digest;
use crate::scope::{Overlay, Scope, ScopeAccount};
use crate::svg;
use crate::terminal::EdgeRow;

/// The page.
pub fn scope_page(
    run: &Run,
    scope: Option<&Scope>,
    overlays: &[Overlay],
    edges: &[EdgeRow<'_>],
    account: &ScopeAccount,
) -> String {
    let title = scope.map_or("latebound defer timeline", |scope| scope.title.as_str());
    document(
        &format!("{} {}", run.tool.name, run.tool.version),
        title,
        |m| {
            super::failed_loads(m, run);
            if let Some(text) = digest::emulation_text(run) {
                m.leaf("p", &[("class", "banner"), ("id", "emulated")], &text).line();
            }
            m.leaf("h1", &[("id", "answer")], title);
        },
        |m| {
            if let Some(scope) = scope {
                let note = "Hold the pointer over a bar for what it is and how long it took.";
                picture(m, "Who ran when", note, 1240.0, |width| svg::scope(scope, width));
            }
            for overlay in overlays {
                let note =
                    "All triggers laid over each other, as an oscilloscope with persistence shows them.";
                picture(m, &overlay.title, note, 1240.0, |width| svg::overlay(overlay, width));
            }
            if !account.held.is_empty() {
                let lead = "What else ran while the run that the lanes are triggered on waited, and while it ran. Levels interrupt each other, so the times overlap.";
                section(m, "held", "Beside that run", lead, |m| {
                    table(m, &["What", "while it waits", "while it runs"], &[1, 2], |m| {
                        for (name, waiting, running) in &account.held {
                            m.element("tr", &[], |m| {
                                m.leaf("td", &[("class", "name")], name);
                                time_cell(m, Some(*waiting), 1, false);
                                time_cell(m, Some(*running), 1, false);
                            })
                            .line();
                        }
                    });
                });
            }
            if account.lost_by.iter().any(|(_, count)| *count > 0) {
                let lead = "Raises without a run of their own. They add up to the raises less the runs that the module counted.";
                section(m, "lost", "Lost raises", lead, |m| {
                    table(m, &["Cause", "raises"], &[1], |m| {
                        for (name, count) in account.lost_by.iter().filter(|(_, count)| *count > 0) {
                            m.element("tr", &[], |m| {
                                m.leaf("td", &[("class", "name")], name);
                                number_cell(m, *count);
                            })
                            .line();
                        }
                    });
                });
            }
            let lead = "How far each edge went apart: of top halves after their interrupt was due, of bottom halves after they were raised; and how long bottom halves took.";
            section(m, "edges", "Edges", lead, |m| {
                table(m, &["Edge", "Over", "n", "minimum", "median", "maximum"], &[2, 3, 4, 5], |m| {
                    for edge in edges {
                        let count = edge.values.count();
                        m.element("tr", &[], |m| {
                            m.leaf("td", &[("class", "name")], edge.name);
                            m.leaf("td", &[("class", "name")], &edge.over);
                            number_cell(m, count);
                            for value in [edge.values.min(), edge.values.quantile(0.5), edge.values.max()] {
                                time_cell(m, value, count, false);
                            }
                        })
                        .line();
                    }
                });
            });
            system::loads(m, run);
            losses(m, run);
            system::snapshot(m, run);
            command(m, run);
        },
    )
}
