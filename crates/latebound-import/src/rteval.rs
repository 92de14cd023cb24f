// SPDX-License-Identifier: MIT OR Apache-2.0
//! rteval's summary.xml (rteval 3, rteval/modules/measurement/cyclictest.py, `MakeReport`): a histogram for each core below
//! `Measurements/Profile/cyclictest`. rteval leaves all statistics out where a latency passed its last bucket, which is the
//! Run that matters most: such a file is refused with that reason, not taken for a good one.

use latebound_model::{Mechanism, Nanos, Quantity, Run};
use roxmltree::{Document, Node, ParsingOptions};

use crate::ImportError;
use crate::build::{self, Counted, Of};

/// Elements that a report may have, so that nesting and entities cannot ask for more memory than the file's size allows.
const MOST_NODES: u32 = 4_000_000;

pub(crate) fn import(text: &str) -> Result<Run, ImportError> {
    let malformed = |what: String| ImportError::Malformed { tool: "rteval", what };
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document =
        Document::parse_with_options(text, options).map_err(|error| malformed(error.to_string()))?;
    let root = document.root_element();
    if root.tag_name().name() != "rteval" {
        return Err(malformed(format!("the outermost element is <{}>", root.tag_name().name())));
    }
    let find = |name: &str| root.descendants().find(|node| node.tag_name().name() == name);
    let measured = find("cyclictest").or_else(|| find("timerlat"));
    let measured =
        measured.ok_or_else(|| malformed("there is no measurement of cyclictest or timerlat".to_owned()))?;
    let tool = measured.tag_name().name();
    let command = measured.attribute("command_line").unwrap_or_default();
    let mut run = build::run("rteval", root.attribute("version").unwrap_or_default(), command);
    let text_of = |name: &str| find(name).and_then(|node| node.text()).map(|text| text.trim().to_owned());
    (run.system.hostname, run.system.kernel_release) = (text_of("node"), text_of("kernel"));
    run.system.machine = text_of("arch");
    if let Some(info) = find("run_info") {
        let number = |name: &str| info.attribute(name).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        let parts = [("days", 86_400), ("hours", 3600), ("minutes", 60), ("seconds", 1)];
        let seconds = parts
            .iter()
            .fold(0u64, |sum, (name, each)| sum.saturating_add(number(name).saturating_mul(*each)));
        run.duration = Nanos(seconds.saturating_mul(1_000_000_000).min(build::MOST));
        let part = |name: &str| {
            let node = info.children().find(|node| node.tag_name().name() == name);
            node.and_then(|node| node.text()).unwrap_or_default().trim().to_owned()
        };
        run.started_at = format!("{} {}", part("date"), part("time")).trim().to_owned();
    }
    let cores = measured.children().filter(|node| node.tag_name().name() == "core");
    for core in cores {
        let counted = core_of(core).ok_or_else(|| malformed("a bucket is no number".to_owned()))?;
        if counted.buckets.is_empty() && counted.max.is_none() {
            continue;
        }
        let of = Of {
            tool: "rteval",
            mechanism: Mechanism::TimerWakeup,
            quantity: Quantity::LatencyNaive,
            subject: "measure",
        };
        build::add(&mut run, of, &counted);
    }
    if run.series.is_empty() {
        return Err(malformed(format!(
            "no core has a histogram: rteval leaves the statistics of {tool} out where a latency passed its last bucket; run it with more --{tool}-buckets"
        )));
    }
    build::note_omission(&mut run);
    build::note_microseconds(&mut run);
    Ok(run)
}

fn core_of(core: Node<'_, '_>) -> Option<Counted> {
    let child = |name: &str| core.descendants().find(|node| node.tag_name().name() == name);
    let number = |name: &str| child(name).and_then(|node| node.text()?.trim().parse::<f64>().ok());
    let buckets: Vec<(u64, u64)> = core
        .descendants()
        .filter(|node| node.tag_name().name() == "bucket")
        .map(|bucket| {
            let index = bucket.attribute("index")?.parse::<f64>().ok()?;
            Some((build::micros(index), bucket.attribute("value")?.parse().ok()?))
        })
        .collect::<Option<_>>()?;
    let seen = buckets.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let samples = number("samples").map_or(seen, |samples| samples.clamp(0.0, build::MOST as f64) as u64);
    Some(Counted {
        above: if buckets.is_empty() { 0 } else { samples.saturating_sub(seen) },
        max: number("maximum").map(build::micros),
        cpu: core.attribute("id").and_then(|id| id.parse().ok()),
        buckets,
    })
}
