// SPDX-License-Identifier: MIT OR Apache-2.0
//! hackbench (rt-tests 2.4, src/hackbench/hackbench.c): how long a known number of messages took, which is a throughput. It
//! has no rate, so a slower kernel is given the same load for longer.

use latebound_model::{Load, Nanos, Run, Throughput};

use crate::build;
use crate::error::ImportError;
use crate::number::{At, MOST, SECOND};
use crate::split::Part;

const TOOL: &str = "hackbench";

pub(crate) fn import(part: Part<'_>) -> Result<Run, ImportError> {
    let malformed = |what: &str| ImportError::Malformed { tool: TOOL, what: what.to_owned() };
    let line = |start: &str| {
        part.lines()
            .find_map(|(number, line)| Some((At { tool: TOOL, line: number }, line.strip_prefix(start)?)))
    };
    let (at, setup) = line("Running in ").ok_or_else(|| malformed("the number of groups is missing"))?;
    let (mode, rest) = setup.split_once(" mode with ").unwrap_or_default();
    let (groups, rest) = rest.split_once(" groups using ").unwrap_or_default();
    let descriptors = rest.split_whitespace().next().unwrap_or_default();
    let (groups, descriptors) = (at.count(groups)?, at.count(descriptors)?);
    let (at, messages) =
        line("Each sender will pass ").ok_or_else(|| malformed("the number of messages is missing"))?;
    let (each, rest) = messages.split_once(" messages of ").unwrap_or_default();
    let bytes = rest.split_whitespace().next().unwrap_or_default();
    let (each, bytes) = (at.count(each)?, at.count(bytes)?);
    let (at, time) = line("Time:").ok_or_else(|| malformed("the time is missing; did it fail?"))?;
    let duration = at.time(time.trim(), SECOND)?;
    if duration == 0 {
        return Err(at.bad(time.trim(), "no time above zero"));
    }
    // Half of a group's descriptors send; every sender sends `each` messages to every receiver of its group (`sender`).
    let senders = descriptors / 2;
    let done = [senders, senders, each].into_iter().try_fold(groups, u64::checked_mul);
    let done =
        done.filter(|done| *done <= MOST).ok_or_else(|| malformed("there are more messages than can be"))?;
    let mut run = build::run(TOOL, "", TOOL);
    run.duration = Nanos(duration);
    for (name, value) in [
        ("mode", mode.to_owned()),
        ("groups", groups.to_string()),
        ("file descriptors a group", descriptors.to_string()),
        ("messages a sender", each.to_string()),
        ("message size", format!("{bytes} bytes")),
    ] {
        build::set(&mut run, name, value);
    }
    run.loads.push(Load {
        name: TOOL.to_owned(),
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
    build::note_end(&mut run, part.text);
    build::note(
        &mut run,
        "sockets or pipes",
        "hackbench does not print whether it was run with -p (pipes) or -i (inet sockets)",
        "compare only results of the same command",
    );
    build::note(
        &mut run,
        "an offered rate",
        "hackbench sends as fast as the system lets it",
        "use the load ipc with a rate, which gives every system the same load",
    );
    Ok(run)
}
