// SPDX-License-Identifier: MIT OR Apache-2.0
//! sockperf 3.7: what it prints at the end of ping-pong, under-load and throughput. Its latency is half of the round trip unless
//! `--full-rtt` was given; its percentiles become a distribution that is exact at them and nowhere else.

use latebound_model::{
    Evidence, Histogram, Mechanism, Nanos, Quantity, Run, Series, Subject, Throughput, bucket_index,
};

use crate::ImportError;
use crate::build;

pub(crate) fn import(text: &str) -> Result<Run, ImportError> {
    let malformed = |what: &str| ImportError::Malformed { tool: "sockperf", what: what.to_owned() };
    let version = between(text, "version #", " ").unwrap_or_default();
    let mut run = build::run("sockperf", version, "sockperf");
    let seconds = |text: Option<&str>| {
        text.and_then(|text| text.trim().parse::<f64>().ok())
            .map_or(Nanos::ZERO, |s| Nanos(build::micros(s * 1e6)))
    };
    let count = |text: Option<&str>| {
        text.and_then(|text| text.trim().parse::<u64>().ok()).map(|n| n.min(build::MOST))
    };
    let tcp = text.contains("# TCP");
    let protocol = if tcp { "TCP" } else { "UDP" };
    if let Some((_, total)) = text.split_once("Total of ") {
        // Throughput mode: nothing comes back, so there is no latency.
        let sent = count(total.split_whitespace().next())
            .ok_or_else(|| malformed("the messages sent are no number"))?;
        run.duration = seconds(between(total, " sent in ", " "));
        run.throughput.push(throughput(&format!("sockperf {protocol} sent"), sent, run.duration));
    } else {
        let valid = text
            .split_once("[Valid Duration]")
            .map(|(_, rest)| rest)
            .ok_or_else(|| malformed("neither a total nor a valid duration is printed; was it cut off?"))?;
        run.duration = seconds(between(valid, "RunTime=", " "));
        let received = count(between(valid, "ReceivedMessages=", "\n"))
            .ok_or_else(|| malformed("the messages received are no number"))?;
        run.throughput.push(throughput(&format!("sockperf {protocol} replies"), received, run.duration));
        let half = !text.contains("Summary: Round trip is");
        let subject = format!("sockperf {protocol} {}", if half { "half round trip" } else { "round trip" });
        let histogram = percentiles(text).ok_or_else(|| {
            malformed("the percentiles are not whole, or do not rise from the least to the greatest; was it cut off?")
        })?;
        let subject = Subject { name: subject, task: None, cpu: None };
        run.series.push(Series::new(
            Mechanism::Operation,
            Quantity::LatencyNaive,
            subject,
            Evidence::User,
            histogram,
        ));
        build::note(
            &mut run,
            "latencies between sockperf's percentiles",
            "sockperf prints ten percentiles; every value is counted at the next percentile above it",
            "run it with --full-log to keep every message",
        );
        let dropped = count(between(text, "# dropped messages = ", ";")).unwrap_or(0);
        if dropped > 0 {
            build::note(
                &mut run,
                &format!("{dropped} messages"),
                "sockperf dropped them: they were never answered, and their latency is in no number",
                "lower --mps until none is dropped",
            );
        }
        build::note(
            &mut run,
            "latency free of coordinated omission",
            "sockperf takes the time from when a message was sent, not from when it was due",
            "measure with latebound, which counts from when it was due",
        );
    }
    build::note_end(&mut run, text);
    Ok(run)
}

fn throughput(name: &str, done: u64, duration: Nanos) -> Throughput {
    Throughput { name: name.to_owned(), unit: "messages".to_owned(), done, duration, offered: None }
}

/// What stands between two texts; up to the end where the second does not come.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after).map_or(rest, |(it, _)| it))
}

/// The distribution from `Total N observations`, the percentiles and the extremes.
fn percentiles(text: &str) -> Option<Histogram> {
    let total: u64 = between(text, "sockperf: Total ", " observations")?.trim().parse().ok()?;
    let total = total.min(build::MOST);
    let value = |line: &str| line.rsplit('=').next()?.trim().parse::<f64>().ok().map(build::micros);
    let line = |name: &str| text.lines().find(|line| line.contains(name)).and_then(value);
    let (min, max) = (line("<MIN> observation")?, line("<MAX> observation")?);
    let mean =
        between(text, "avg-latency=", " ").or_else(|| between(text, "avg-rtt=", " "))?.parse::<f64>().ok()?;
    let mut points: Vec<(f64, u64)> = text
        .lines()
        .filter_map(|line| {
            let percent: f64 = between(line, "---> percentile ", " ")?.trim().parse().ok()?;
            Some((percent / 100.0, value(line)?))
        })
        .filter(|(q, _)| (0.0..1.0).contains(q))
        .collect();
    points.push((1.0, max));
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    if total == 0 || min > max || points.windows(2).any(|pair| pair[0].1 > pair[1].1) || points[0].1 < min {
        return None;
    }
    // One value at each extreme, the others at the percentile that ends their stretch.
    let mut counts: std::collections::BTreeMap<usize, u64> = std::collections::BTreeMap::new();
    *counts.entry(bucket_index(min)).or_default() += 1;
    let mut before = 1;
    for (q, at) in points {
        let rank = ((q * total as f64).ceil() as u64).clamp(before, total);
        *counts.entry(bucket_index(at)).or_default() += rank - before;
        before = rank;
    }
    if total == 1 {
        counts = std::iter::once((bucket_index(max), 1)).collect();
    }
    let sum = (mean.max(0.0) * 1000.0 * total as f64).min(1e30) as u128;
    let min = if total == 1 { max } else { min };
    counts.retain(|_, count| *count > 0);
    // The stretch that ends at the greatest value may be empty where there are few values.
    if total > 1 && !counts.contains_key(&bucket_index(max)) {
        return None;
    }
    Histogram::from_parts(counts, Nanos(min), Nanos(max), sum)
}
