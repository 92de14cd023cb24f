// SPDX-License-Identifier: MIT OR Apache-2.0
//! rteval's summary.xml (rteval 3, rteval/modules/measurement/cyclictest.py, `MakeReport`): a histogram for each core below
//! `Measurements/Profile/cyclictest`. rteval leaves all statistics out where a latency passed its last bucket, which is the
//! Run that matters most: such a file is refused with that reason, not taken for a good one.

use latebound_model::{Load, Mechanism, Nanos, PreemptionModel, Quantity, Run};
use roxmltree::{Document, Node, ParsingOptions};

use crate::build::{self, Of, ToolDistribution};
use crate::error::ImportError;
use crate::number::{At, MICROSECOND, MOST, SECOND};
use crate::options;
use crate::split::Part;

/// Elements that a report may have, so that nesting and entities cannot ask for more memory than the file's size allows.
const MOST_NODES: u32 = 4_000_000;
const OF: Of<'static> = Of {
    tool: "rteval",
    mechanism: Mechanism::TimerWakeup,
    quantity: Quantity::LatencyNaive,
    subject: "measure",
};

pub(crate) fn import(part: Part<'_>) -> Result<Run, ImportError> {
    let malformed = |what: String| ImportError::Malformed { tool: OF.tool, what };
    // What follows the report up to the next result is not of it.
    const END: &str = "</rteval>";
    let text = part.text.trim_start();
    let text = text.find(END).map_or(text, |at| &text[..at + END.len()]);
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
    let mut run = build::run(OF.tool, root.attribute("version").unwrap_or_default(), command);
    if !command.is_empty() {
        run.settings = options::settings("cyclictest", command);
        run.settings.remove(options::RANGE);
    }
    let text_of = |name: &str| find(name).and_then(|node| node.text()).map(|text| text.trim().to_owned());
    (run.system.hostname, run.system.kernel_release) = (text_of("node"), text_of("kernel"));
    run.system.machine = text_of("arch");
    let realtime = find("kernel").and_then(|kernel| kernel.attribute("is_RT")) == Some("1");
    run.system.preemption = realtime.then_some(PreemptionModel::Rt);
    let line = |node: Node<'_, '_>| {
        let row = document.text_pos_at(node.range().start).row;
        // The declaration may stand behind other results in the file.
        At { tool: OF.tool, line: usize::try_from(row).unwrap_or(0) + part.first - 1 }
    };
    if let Some(info) = find("run_info") {
        run_info(&mut run, info, line(info))?;
    }
    loads(&mut run, root);
    for core in measured.children().filter(|node| node.tag_name().name() == "core") {
        let (counted, samples) = core_of(core, &line)?;
        if counted.buckets.is_empty() && counted.max.is_none() {
            continue;
        }
        counted.check(samples.filter(|_| !counted.buckets.is_empty())).map_err(malformed)?;
        build::add(&mut run, OF, &counted);
    }
    if run.series.is_empty() {
        return Err(malformed(
            "no core has a histogram: rteval leaves the statistics of cyclictest out where a latency passed its last bucket; run it \
             with more --cyclictest-buckets"
                .to_owned(),
        ));
    }
    if measured.children().any(|node| node.tag_name().name() == "abort_report") {
        build::ended_early(
            &mut run,
            "the time after a late wake-up",
            "rteval was run with a threshold and ended at the first value above it",
        );
    }
    build::note_omission(&mut run);
    build::note_microseconds(&mut run);
    Ok(run)
}

/// When it began, and how long it took.
fn run_info(run: &mut Run, info: Node<'_, '_>, at: At) -> Result<(), ImportError> {
    // Whole numbers, or fractions where Python 3 divided for a version written for Python 2.
    let mut time = 0u64;
    for (name, seconds) in [("days", 86_400), ("hours", 3600), ("minutes", 60), ("seconds", 1)] {
        if let Some(number) = info.attribute(name) {
            time = time.saturating_add(at.time(number, seconds * SECOND)?);
        }
    }
    run.duration = Nanos(time.min(MOST));
    let part = |name: &str| {
        let node = info.children().find(|node| node.tag_name().name() == name);
        node.and_then(|node| node.text()).unwrap_or_default().trim().to_owned()
    };
    let (date, clock) = (part("date"), part("time"));
    if !date.is_empty() {
        // Of the machine's own zone, which is not named.
        run.started_at = format!("{date}T{clock}").trim_end_matches('T').to_owned();
    }
    Ok(())
}

/// What ran beside: a command line for each (rteval/modules/loads/__init__.py, `CommandLineLoad.MakeReport`).
fn loads(run: &mut Run, root: Node<'_, '_>) {
    let Some(loads) = root.descendants().find(|node| node.tag_name().name() == "loads") else { return };
    build::set(run, "CPUs of the loads", loads.attribute("loadcpus").unwrap_or_default());
    for load in loads.children().filter(|node| node.tag_name().name() == "command_line") {
        run.loads.push(Load {
            name: load.attribute("name").unwrap_or("command").to_owned(),
            arguments: load.text().unwrap_or_default().trim().to_owned(),
            done: None,
            unit: String::new(),
            error: None,
        });
    }
}

/// What a core's element says, and how many samples it says there are: those of the buckets (`RunData.bucket`).
fn core_of(
    core: Node<'_, '_>,
    line: &impl Fn(Node<'_, '_>) -> At,
) -> Result<(ToolDistribution, Option<u64>), ImportError> {
    let child = |name: &str| core.descendants().find(|node| node.tag_name().name() == name);
    let number = |name: &str| -> Result<Option<u64>, ImportError> {
        let Some(node) = child(name) else { return Ok(None) };
        line(node).time(node.text().unwrap_or_default().trim(), MICROSECOND).map(Some)
    };
    let mut buckets = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for bucket in core.descendants().filter(|node| node.tag_name().name() == "bucket") {
        let at = line(bucket);
        let attribute = |name: &str| bucket.attribute(name).unwrap_or_default();
        let value = at.time(attribute("index"), MICROSECOND)?;
        if !known.insert(value) {
            return Err(at.malformed("its bucket is listed twice"));
        }
        buckets.push((value, at.count(attribute("value"))?));
    }
    let (min, max) = (number("minimum")?, number("maximum")?);
    let highest = buckets.iter().map(|(value, _)| *value).max();
    let counted = ToolDistribution {
        // The maximum latency may be the one of the bucket that there is none for: `get_max() > buckets` lets it pass.
        above: u64::from(highest.is_some_and(|highest| max.is_some_and(|max| max > highest))),
        limit: highest.map_or(0, |highest| highest.saturating_add(MICROSECOND)),
        min,
        // Of the buckets alone.
        mean: None,
        max,
        cpu: core.attribute("id").and_then(|id| id.parse().ok()),
        buckets,
        only: None,
        resolution: MICROSECOND,
    };
    let samples = match child("samples") {
        Some(node) => Some(line(node).count(node.text().unwrap_or_default().trim())?),
        None => None,
    };
    let all = samples.map(|samples| samples.saturating_add(counted.above));
    Ok((counted, all))
}
