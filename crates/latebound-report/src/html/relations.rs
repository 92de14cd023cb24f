// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waits for which kernel thread, as a page: the picture, and all that the picture has no room for.

use super::{document, parts};
use crate::svg::{self, RelationServer, RelationTask};

/// A map to show.
#[derive(Clone, Debug, Default)]
pub struct RelationMap {
    /// The tasks, highest first.
    pub tasks: Vec<RelationTask>,
    /// What serves them.
    pub servers: Vec<RelationServer>,
    /// What is said of all of it: how long it was watched, and under which policy.
    pub lead: String,
    /// What is said as text, as `tune map` prints it.
    pub text: String,
    /// What was lost, a line for each.
    pub lost: Vec<String>,
}

const LABEL: &str = "Real-time tasks, and the kernel threads that they waited for";
const WIDTH: f64 = 980.0;

/// The page.
pub fn relations_page(map: &RelationMap) -> String {
    document(
        concat!("latebound ", env!("CARGO_PKG_VERSION")),
        LABEL,
        |m| {
            m.element("p", &[("class", "kicker")], |m| {
                m.leaf("b", &[], "latebound tune map").text(" · ").text(&map.lead);
            });
            for lost in &map.lost {
                m.leaf("p", &[("class", "banner loss")], lost);
            }
        },
        |m| {
            let note = "Lines are the wider the more often it waited. A box with a coloured edge runs below or above what the policy wants.";
            parts::picture(m, LABEL, note, WIDTH, |width| {
                svg::relations(LABEL, &map.tasks, &map.servers, width)
            });
            m.leaf("pre", &[], &map.text);
        },
    )
}
