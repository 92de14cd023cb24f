// SPDX-License-Identifier: MIT OR Apache-2.0
//! hackbench (rt-tests 2.4, src/hackbench/hackbench.c): how long a known number of messages took, which is a throughput. It
//! has no rate, so a slower kernel is given the same load for longer.

use latebound_model::{Load, Nanos, Run, Throughput};

use crate::ImportError;
use crate::build;

pub(crate) fn import(text: &str) -> Result<Run, ImportError> {
    let malformed = |what: &str| ImportError::Malformed { tool: "hackbench", what: what.to_owned() };
    let numbers = |line: &str| -> Vec<u64> {
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    let line = |start: &str| text.lines().map(str::trim).find(|line| line.starts_with(start));
    let setup = line("Running in ").ok_or_else(|| malformed("the number of groups is missing"))?;
    let messages =
        line("Each sender will pass").ok_or_else(|| malformed("the number of messages is missing"))?;
    let time = line("Time:").and_then(|line| line.strip_prefix("Time:")?.trim().parse::<f64>().ok());
    let seconds =
        time.filter(|seconds| *seconds > 0.0).ok_or_else(|| malformed("the time is no number above zero"))?;
    let &[groups, descriptors, ..] = numbers(setup).as_slice() else {
        return Err(malformed("the number of groups or descriptors is missing"));
    };
    let &[each, bytes, ..] = numbers(messages).as_slice() else {
        return Err(malformed("the number of messages or their size is missing"));
    };
    // Half of a group's descriptors send; every sender sends `each` messages to every receiver of its group (`sender`).
    let senders = descriptors / 2;
    let done = [senders, senders, each]
        .into_iter()
        .try_fold(groups, u64::checked_mul)
        .filter(|done| *done <= build::MOST);
    let done = done.ok_or_else(|| malformed("there are more messages than can be"))?;
    let mode =
        setup.strip_prefix("Running in ").and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    let mut run = build::run("hackbench", "", "hackbench");
    run.duration = Nanos(build::micros(seconds * 1e6));
    run.loads.push(Load {
        name: "hackbench".to_owned(),
        arguments: format!(
            "{groups} groups of {descriptors} descriptors, {mode}, {each} messages of {bytes} bytes"
        ),
        done: Some(done),
        unit: "messages".to_owned(),
        error: None,
    });
    run.throughput.push(Throughput {
        name: "hackbench messages".to_owned(),
        unit: "messages".to_owned(),
        done,
        duration: run.duration,
        offered: None,
    });
    build::note_end(&mut run, text);
    build::note(
        &mut run,
        "an offered rate",
        "hackbench sends as fast as the system lets it",
        "use the load ipc with a rate, which gives every system the same load",
    );
    Ok(run)
}
