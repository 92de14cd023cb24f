// SPDX-License-Identifier: MIT OR Apache-2.0
//! sockperf 3.7: what it prints at the end of ping-pong, under-load and throughput. Its latency is half of the round trip unless
//! `--full-rtt` was given; its percentiles become a distribution that is exact at them and nowhere else.

use std::collections::BTreeMap;

use latebound_model::{
    Evidence, Histogram, Loss, LossKind, Mechanism, Nanos, Quantity, Run, Series, Subject, Throughput,
    bucket_index,
};

use crate::build;
use crate::error::ImportError;
use crate::number::{At, MICROSECOND, SECOND};
use crate::split::Part;

const TOOL: &str = "sockperf";

pub(crate) fn import(part: Part<'_>) -> Result<Run, ImportError> {
    let malformed = |what: &str| ImportError::Malformed { tool: TOOL, what: what.to_owned() };
    let text = Text(part);
    let version =
        text.find("version #").map_or("", |(_, rest)| rest.split_whitespace().next().unwrap_or_default());
    let mut run = build::run(TOOL, version, TOOL);
    let protocol = if part.text.contains("# TCP") { "TCP" } else { "UDP" };
    build::set(&mut run, "protocol", protocol);
    settings(&mut run, text);
    if let Some((at, total)) = text.find("Total of ") {
        // Throughput mode: nothing comes back, so there is no latency.
        let sent = at.count(word(total))?;
        let (_, time) = total
            .split_once(" sent in ")
            .ok_or_else(|| at.malformed("the time in which the messages were sent is missing"))?;
        run.duration = Nanos(at.time(word(time), SECOND)?);
        build::set(&mut run, "mode", "throughput");
        run.throughput.push(throughput(&format!("sockperf {protocol} sent"), sent, None, run.duration));
    } else {
        let (at, valid) = text.find("[Valid Duration]").ok_or_else(|| {
            malformed(
                "neither a total nor a valid duration is printed: was it cut off, or is it of a server?",
            )
        })?;
        run.duration = Nanos(at.time(word(after(at, valid, "RunTime=")?), SECOND)?);
        let count = |name| at.count(word(after(at, valid, name)?).trim_end_matches(';'));
        let (sent, received) = (count("SentMessages=")?, count("ReceivedMessages=")?);
        run.throughput.push(throughput(
            &format!("sockperf {protocol} replies"),
            received,
            Some(sent),
            run.duration,
        ));
        let half = text.find("Summary: Round trip is").is_none();
        let subject = format!("sockperf {protocol} {}", if half { "half round trip" } else { "round trip" });
        let histogram = percentiles(text)?.ok_or_else(|| {
            malformed("the percentiles are not whole, or do not rise from the minimum to the maximum; was it cut off?")
        })?;
        let subject = Subject { name: subject, task: None, cpu: None };
        let mut series =
            Series::new(Mechanism::Operation, Quantity::LatencyNaive, subject, Evidence::User, histogram);
        dropped(&mut run, &mut series, text)?;
        run.series.push(series);
        build::note(
            &mut run,
            "latencies between sockperf's percentiles",
            "sockperf prints ten percentiles; every value is counted at the next percentile above it",
            "run it with --full-log to keep every message",
        );
        build::note(
            &mut run,
            "latency free of coordinated omission",
            "sockperf takes the time from when a message was sent, not from when it was due",
            "measure with latebound, which counts from when it was due",
        );
    }
    if text.find("interrupted by signal").is_some() {
        build::ended_early(&mut run, "the rest of its time", "sockperf was interrupted by a signal");
    }
    build::note_end(&mut run, part.text);
    Ok(run)
}

/// What it was told to do, as far as it prints that: all of it in the log of `--full-log`, little elsewhere.
fn settings(run: &mut Run, text: Text<'_>) {
    if let Some((_, options)) = text.find("using the following parameters:") {
        for option in options.split_whitespace().filter_map(|word| word.strip_prefix("--")) {
            let (name, value) = option.split_once('=').unwrap_or((option, "yes"));
            match name {
                "msg-size" => build::set(run, "message size", format!("{value} bytes")),
                "mps" => build::set(run, "messages a second", value),
                // How long it was to take is no way of measuring.
                "time" => {}
                name => build::set(run, name, value),
            }
        }
    }
    if let Some((_, size)) = text.find("using msg-size=") {
        build::set(run, "message size", format!("{} bytes", word(size).trim_end_matches('.')));
    }
    if let Some((_, how)) = text.find("sockperf: using ") {
        build::set(run, "waits with", how.trim());
    }
    if !run.settings.contains_key("message size") {
        build::note(
            run,
            "the size of the messages and their rate",
            "sockperf prints them in the file of --full-log alone",
            "run it with --full-log FILE and import that file, or compare only results of the same command",
        );
    }
}

/// Messages without an answer, and those that came twice or late.
fn dropped(run: &mut Run, series: &mut Series, text: Text<'_>) -> Result<(), ImportError> {
    for (name, what) in [
        ("# dropped messages = ", "dropped"),
        ("# duplicated messages = ", "duplicated"),
        ("# out-of-order messages = ", "out-of-order"),
    ] {
        let Some((at, rest)) = text.find(name) else { continue };
        let count = at.count(word(rest).trim_end_matches(';'))?;
        if count == 0 {
            continue;
        }
        if what == "dropped" {
            let place = series.id.clone();
            series.losses.push(Loss { kind: LossKind::MessageDropped, place, count: Some(count) });
            run.losses.extend(series.losses.iter().cloned());
        }
        let (why, remedy) = match what {
            "dropped" => (
                "sockperf dropped them: they were never answered, and their latency is in no number",
                "lower --mps until none is dropped",
            ),
            _ => ("sockperf left them out of its numbers", "lower --mps until there is none"),
        };
        build::note(run, &format!("{count} {what} messages"), why, remedy);
    }
    Ok(())
}

fn throughput(name: &str, done: u64, offered: Option<u64>, duration: Nanos) -> Throughput {
    Throughput { name: name.to_owned(), unit: "messages".to_owned(), done, duration, offered }
}

/// The text, of which lines are found by what stands in them.
#[derive(Clone, Copy)]
struct Text<'t>(Part<'t>);

impl<'t> Text<'t> {
    /// What stands behind the first such words, and where.
    fn find(self, words: &str) -> Option<(At, &'t str)> {
        self.0.lines().find_map(|(line, text)| {
            let (_, rest) = text.split_once(words)?;
            Some((At { tool: TOOL, line }, rest))
        })
    }
}

fn after<'t>(at: At, text: &'t str, name: &str) -> Result<&'t str, ImportError> {
    let (_, rest) = text
        .split_once(name)
        .ok_or_else(|| at.malformed(&format!("\"{name}\" is missing; was it cut off?")))?;
    Ok(rest)
}

fn word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// The distribution from `Total N observations`, the percentiles and the extremes; `None` where they are not whole.
fn percentiles(text: Text<'_>) -> Result<Option<Histogram>, ImportError> {
    let value = |name: &str| -> Result<Option<u64>, ImportError> {
        text.find(name)
            .map(|(at, rest)| at.time(word(rest.trim_start_matches([' ', '='])), MICROSECOND))
            .transpose()
    };
    let mean = match value("avg-latency=")? {
        None => value("avg-rtt=")?,
        mean => mean,
    };
    let total = text.find("sockperf: Total ").map(|(at, rest)| at.count(word(rest))).transpose()?;
    let (Some(total), Some(min), Some(max), Some(mean)) =
        (total, value("<MIN> observation")?, value("<MAX> observation")?, mean)
    else {
        return Ok(None);
    };
    let mut points: Vec<(u64, u64)> = Vec::new();
    for (line, text) in text.0.lines() {
        let at = At { tool: TOOL, line };
        let Some((_, rest)) = text.split_once("---> percentile ") else { continue };
        let Some((percent, time)) = rest.split_once('=') else { return Ok(None) };
        // Thousandths of a percent, which is how finely it prints them.
        let rank = at.time(percent.trim(), 1000)?;
        if rank >= 100_000 {
            return Err(at.bad(percent.trim(), "not a percentile below 100"));
        }
        points.push((rank, at.time(time.trim(), MICROSECOND)?));
    }
    points.push((100_000, max));
    points.sort_unstable();
    let rise = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    if total == 0 || points.len() < 2 || !rise || points[0].1 < min || mean < min || mean > max {
        return Ok(None);
    }
    // One value at each extreme, the others at the percentile that ends their stretch.
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    *counts.entry(bucket_index(min)).or_default() += 1;
    let mut before = 1;
    for (share, at) in points {
        let rank = u128::from(share) * u128::from(total);
        let rank = u64::try_from(rank.div_ceil(100_000)).unwrap_or(total).clamp(before, total);
        *counts.entry(bucket_index(at)).or_default() += rank - before;
        before = rank;
    }
    if total == 1 {
        counts = std::iter::once((bucket_index(max), 1)).collect();
    }
    let sum = u128::from(mean) * u128::from(total);
    let min = if total == 1 { max } else { min };
    counts.retain(|_, count| *count > 0);
    // The stretch that ends at the maximum value may be empty where there are few values.
    if total > 1 && !counts.contains_key(&bucket_index(max)) {
        return Ok(None);
    }
    Ok(Histogram::from_parts(counts, Nanos(min), Nanos(max), sum))
}
