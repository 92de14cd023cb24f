// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency against throughput of several systems, as a picture of its own and as a page: picture, and a table in the manner of
//! mmtests.

use latebound_compare::experiment::{Plan, slug};
use latebound_compare::{Estimate, Tradeoff, Workload};
use latebound_model::Emulation;

use super::pictures::{Picture, standalone};
use super::{document, parts};
use crate::markup::Markup;
use crate::svg::{self, TradeoffPanel, TradeoffPoint};
use crate::terminal::gain_rows;

/// What the page shows.
#[derive(Clone, Debug)]
pub struct TradeoffPage<'a> {
    /// The systems and their numbers.
    pub tradeoff: &'a Tradeoff,
    /// Where the times come from, where that limits what they say.
    pub origin: Option<String>,
    /// How it was measured.
    pub facts: String,
    /// A workload's name and where its comparison is.
    pub links: Vec<(String, String)>,
}

impl TradeoffPage<'_> {
    /// Of an experiment of this plan. Each workload's comparison lies beside the page, in the folder of its name.
    pub fn new<'a>(tradeoff: &'a Tradeoff, plan: &Plan, emulation: Option<&Emulation>) -> TradeoffPage<'a> {
        let origin = emulation.map(|emulation| {
            format!(
                "Emulated ({}, {} clock): times compare with each other, never with hardware.",
                emulation.by, emulation.clock
            )
        });
        let link = |name: &String| (name.clone(), format!("{}/compare.html", slug(name)));
        TradeoffPage {
            tradeoff,
            origin,
            facts: format!("{} Runs of {} each, probe period {}", plan.runs, plan.duration, plan.period),
            links: plan.workloads.iter().map(link).collect(),
        }
    }
}

const LABEL: &str = "Latency against throughput of each preemption model";
const WIDTH: f64 = 980.0;

fn spread(estimate: &Estimate) -> [f64; 3] {
    [estimate.low.unwrap_or(estimate.min), estimate.median, estimate.high.unwrap_or(estimate.max)]
}

fn panel(workload: &Workload) -> TradeoffPanel {
    TradeoffPanel {
        title: workload.name.clone(),
        across: format!("{} a second", workload.throughput_of.as_deref().unwrap_or("units")),
        upward: workload.latency_of.clone().unwrap_or_default(),
        points: workload
            .points
            .iter()
            .map(|point| TradeoffPoint {
                name: point.model.clone(),
                throughput: spread(&point.throughput),
                latency: spread(&point.latency),
                frontier: point.frontier,
            })
            .collect(),
    }
}

impl TradeoffPage<'_> {
    fn draw(&self, width: f64) -> Option<Markup> {
        let panels: Vec<TradeoffPanel> = self.tradeoff.workloads.iter().map(panel).collect();
        let points = || self.tradeoff.workloads.iter().flat_map(|workload| &workload.points);
        let lines = match points().all(|point| point.latency.low.is_some() && point.throughput.low.is_some())
        {
            true => "Dots: medians over Runs. Lines: their 95 % intervals.",
            false => "Dots: medians over Runs. Lines: from the minimum to the maximum Run.",
        };
        let mut face = vec![self.facts.as_str()];
        face.extend(self.origin.as_deref());
        face.push(lines);
        face.push("Lower right is better; by the medians nobody beats those on the dashed line in both.");
        face.push("Axes do not begin at 0; with values far apart they are logarithmic.");
        svg::tradeoff(LABEL, &face, &panels, width)
    }
}

/// The picture as a file of its own. `None` where no workload has a point.
pub fn tradeoff_picture(page: &TradeoffPage<'_>) -> Option<Picture> {
    standalone((page.draw(WIDTH)?.into_string().split("</svg>").next()?, 1))
}

/// The page.
pub fn tradeoff_page(shown: &TradeoffPage<'_>) -> String {
    document(
        concat!("latebound ", env!("CARGO_PKG_VERSION")),
        LABEL,
        |m| {
            m.element("p", &[("class", "kicker")], |m| {
                m.leaf("b", &[], "latebound compare preemption")
                    .text(" · ")
                    .text(&parts::prose(&shown.facts));
            });
            if let Some(origin) = &shown.origin {
                m.leaf("p", &[("class", "banner"), ("id", "emulated")], origin);
            }
        },
        |m| {
            parts::picture(m, LABEL, "", WIDTH, |width| shown.draw(width));
            for workload in &shown.tradeoff.workloads {
                table(m, shown, workload);
            }
        },
    )
}

fn table(m: &mut Markup, shown: &TradeoffPage<'_>, workload: &Workload) {
    let (heads, rows) = gain_rows(workload);
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let lead = "In brackets the gain over the first system, in percent; more is better. A star: called, with all of this workload's \
                numbers and systems taken into account.";
    parts::section(m, "", &workload.name, lead, |m| {
        let numeric: Vec<usize> = (2..heads.len()).collect();
        parts::table(m, &heads, &numeric, |m| {
            for row in rows {
                m.element("tr", &[], |m| {
                    for (at, cell) in row.iter().enumerate() {
                        let class = if at < 2 { "name" } else { "n" };
                        m.leaf("td", &[("class", class)], &parts::prose(cell));
                    }
                })
                .line();
            }
        });
        if let Some((_, link)) = shown.links.iter().find(|(name, _)| *name == workload.name) {
            m.element("p", &[], |m| {
                m.leaf("a", &[("href", link)], "All numbers, intervals and distributions of this workload");
            });
        }
    });
}
