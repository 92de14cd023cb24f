// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency against throughput of several systems, as a picture of its own and as a page: picture, and a table in the manner of
//! mmtests.

use latebound_compare::experiment::{Plan, slug};
use latebound_compare::{Estimate, Tradeoff, Workload};
use latebound_model::Emulation;

use super::pictures::{Picture, standalone};
use super::{document, parts};
use crate::markup::Markup;
use crate::svg::{self, SizeLine, SizePanel, TradeoffPanel, TradeoffPoint};
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
const SIZES: &str = "Throughput of each preemption model by the size of a message";
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

/// A workload's name without the size of its first load's messages, and that size in bytes: `tcp:nagle=on` and 14 of `tcp:size=14,nagle=on`.
/// `None` where it names no size in bytes.
fn sized(name: &str) -> Option<(String, u32)> {
    let (first, others) = name.split_once('+').map_or((name, None), |(first, others)| (first, Some(others)));
    let (load, options) = first.split_once(':')?;
    let size = options.split(',').find_map(|option| option.trim().strip_prefix("size=")?.parse().ok())?;
    let rest: Vec<&str> = options.split(',').filter(|option| !option.trim().starts_with("size=")).collect();
    let load = if rest.is_empty() { load.to_owned() } else { format!("{load}:{}", rest.join(",")) };
    Some((load + &others.map(|others| format!("+{others}")).unwrap_or_default(), size))
}

/// A panel for each load that was measured with several sizes.
fn size_panels(tradeoff: &Tradeoff) -> Vec<SizePanel> {
    let mut kinds: Vec<(String, Vec<(u32, &Workload)>)> = Vec::new();
    for workload in &tradeoff.workloads {
        let Some((kind, size)) = sized(&workload.name) else { continue };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, workloads)) => workloads.push((size, workload)),
            None => kinds.push((kind, vec![(size, workload)])),
        }
    }
    let panel = |(kind, mut workloads): (String, Vec<(u32, &Workload)>)| {
        workloads.sort_by_key(|(size, _)| *size);
        let of = workloads.iter().find_map(|(_, workload)| workload.throughput_of.as_deref());
        let line = |model: &String| {
            let point = |(size, workload): &(u32, &Workload)| {
                let point = workload.points.iter().find(|point| point.model == *model)?;
                Some((*size, spread(&point.throughput)))
            };
            SizeLine { name: model.clone(), points: workloads.iter().filter_map(point).collect() }
        };
        let lines = tradeoff.models.iter().map(line).filter(|line| line.points.len() > 1).collect();
        SizePanel { title: kind, upward: format!("{} a second", of.unwrap_or("units")), lines }
    };
    kinds.into_iter().filter(|(_, workloads)| workloads.len() > 1).map(panel).collect()
}

impl TradeoffPage<'_> {
    fn draw_sizes(&self, width: f64) -> Option<Markup> {
        let mut face = vec![self.facts.as_str()];
        face.extend(self.origin.as_deref());
        face.push("Dots: medians over Runs. Upright lines: as in the picture of latency against throughput.");
        face.push("Axes do not begin at 0; sizes far apart are on a logarithmic axis.");
        svg::by_size(SIZES, &face, &size_panels(self.tradeoff), width)
    }

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

/// Throughput by size as a file of its own. `None` where no load was measured with several sizes.
pub fn by_size_picture(page: &TradeoffPage<'_>) -> Option<Picture> {
    standalone((page.draw_sizes(WIDTH)?.into_string().split("</svg>").next()?, 1))
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
            if !size_panels(shown.tradeoff).is_empty() {
                parts::picture(m, SIZES, "", WIDTH, |width| shown.draw_sizes(width));
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_known_by_its_size_and_by_what_else_it_is() {
        let of = |name| sized(name).map(|(kind, size)| format!("{kind} {size}"));
        for (name, kind) in [
            ("tcp:size=14", "tcp 14"),
            ("tcp:size=14,nagle=on", "tcp:nagle=on 14"),
            ("udp:rate=10,size=850,cpus=0-1", "udp:rate=10,cpus=0-1 850"),
            ("tcp:size=300+cpu:threads=4", "tcp+cpu:threads=4 300"),
        ] {
            assert_eq!(of(name).as_deref(), Some(kind), "{name}");
        }
        // Another load's size, bytes with a unit, and none.
        for name in ["ipc", "ipc:groups=1+tcp:size=14", "memory:size=64MiB", "sqlite"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
