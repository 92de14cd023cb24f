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
    if find("timerlat").is_some() {
        return Err(malformed(
            "rtla timerlat was used: rteval adds the counts of interrupts, kernel threads and user threads up to one histogram, and \
             leaves out what lay above its buckets; import what rtla timerlat hist prints"
                .to_owned(),
        ));
    }
    let measured =
        find("cyclictest").ok_or_else(|| malformed("there is no measurement of cyclictest".to_owned()))?;
    let command = measured.attribute("command_line").unwrap_or_default();
    let mut run = build::run("rteval", root.attribute("version").unwrap_or_default(), command);
    let text_of = |name: &str| find(name).and_then(|node| node.text()).map(|text| text.trim().to_owned());
    (run.system.hostname, run.system.kernel_release) = (text_of("node"), text_of("kernel"));
    run.system.machine = text_of("arch");
    if let Some(info) = find("run_info") {
        // Whole numbers, or fractions where Python 3 divided for a version written for Python 2.
        let number = |name: &str| info.attribute(name).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
        let parts = [("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0)];
        let seconds: f64 = parts.iter().map(|(name, each)| number(name).max(0.0) * each).sum();
        run.duration = Nanos(build::micros(seconds * 1e6));
        let part = |name: &str| {
            let node = info.children().find(|node| node.tag_name().name() == name);
            node.and_then(|node| node.text()).unwrap_or_default().trim().to_owned()
        };
        run.started_at = format!("{} {}", part("date"), part("time")).trim().to_owned();
    }
    let cores = measured.children().filter(|node| node.tag_name().name() == "core");
    for core in cores {
        let (mut counted, samples) =
            core_of(core).ok_or_else(|| malformed("a bucket is no number".to_owned()))?;
        if counted.buckets.is_empty() && counted.max.is_none() {
            continue;
        }
        counted.check(samples.filter(|_| !counted.buckets.is_empty())).map_err(malformed)?;
        let of = Of {
            tool: "rteval",
            mechanism: Mechanism::TimerWakeup,
            quantity: Quantity::LatencyNaive,
            subject: "measure",
        };
        build::add(&mut run, of, &counted);
    }
    if run.series.is_empty() {
        return Err(malformed(
            "no core has a histogram: rteval leaves the statistics of cyclictest out where a latency passed its last bucket; run it \
             with more --cyclictest-buckets"
                .to_owned(),
        ));
    }
    build::note_omission(&mut run);
    build::note_microseconds(&mut run);
    Ok(run)
}

/// What a core's element says, and how many samples it says there are: those of the buckets (`RunData.bucket`).
fn core_of(core: Node<'_, '_>) -> Option<(Counted, Option<u64>)> {
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
    let max = number("maximum").map(build::micros);
    let greatest = buckets.iter().map(|(value, _)| *value).max();
    let counted = Counted {
        // The greatest latency may be the one of the bucket that there is none for: `get_max() > buckets` lets it pass.
        above: u64::from(greatest.is_some_and(|greatest| max.is_some_and(|max| max > greatest))),
        max,
        cpu: core.attribute("id").and_then(|id| id.parse().ok()),
        buckets,
    };
    let samples = number("samples").map(|samples| samples.clamp(0.0, build::MOST as f64) as u64);
    Some((counted.clone(), samples.map(|samples| samples.saturating_add(counted.above))))
}
