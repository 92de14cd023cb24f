// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real traces, line by line against what `trace-cmd report` says of them (fixtures/golden.txt, tests/make-golden).
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use std::fmt::Write;

use latebound_model::Cpu;
use latebound_trace::{DiscontinuityKind, Item, ReadAt, TraceFile};
use support::{Cksum, Names, big_trace, fixture, report_line};

struct Golden<'a> {
    buffer: &'a str,
    cpu: Cpu,
    lines: u64,
    checksum: u32,
    first: &'a str,
    last: &'a str,
}

fn golden<'a>(text: &'a str, file: &str) -> Vec<Golden<'a>> {
    let parse = |line: &'a str| {
        let [_, buffer, cpu, lines, checksum, first, last] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let number = |text: &str| text.parse::<u32>().unwrap();
        Golden {
            buffer,
            cpu: Cpu(number(cpu)),
            lines: u64::from(number(lines)),
            checksum: number(checksum),
            first,
            last,
        }
    };
    text.lines().filter(|line| line.split('|').next() == Some(file)).map(parse).collect()
}

fn compare<R: ReadAt>(file: &str, source: R) {
    let text = String::from_utf8(fixture("golden.txt")).unwrap();
    let expected = golden(&text, file);
    assert!(!expected.is_empty(), "{file} is not in golden.txt");
    let trace = TraceFile::open(source).unwrap();
    let names = Names::of(&trace);
    assert!(names.decoder.problems().is_empty() && trace.formats().problems().is_empty());
    let mut seen = 0;
    for buffer in trace.buffers() {
        for cpu in &buffer.cpus {
            let mut stream = trace.cpu_events(buffer, cpu).unwrap();
            let (mut checksum, mut lines, mut first, mut last) =
                (Cksum::default(), 0, String::new(), String::new());
            stream
                .for_each(|item| {
                    let Item::Event(event) = item else { return };
                    last.clear();
                    let nanoseconds = buffer.clock.is_time();
                    write!(last, "{}", report_line(&trace, &names, nanoseconds, &event)).unwrap();
                    if lines == 0 {
                        first.clone_from(&last);
                    }
                    lines += 1;
                    checksum.add(last.as_bytes());
                    checksum.add(b"\n");
                })
                .unwrap();
            if lines == 0 {
                continue;
            }
            let golden =
                expected.iter().find(|golden| (golden.buffer, golden.cpu) == (&*buffer.name, cpu.cpu));
            let golden =
                golden.unwrap_or_else(|| panic!("trace-cmd has no events of {:?} {}", buffer.name, cpu.cpu));
            let place = format!("{file} {:?} CPU {}", buffer.name, cpu.cpu);
            assert_eq!(first, golden.first, "{place}");
            assert_eq!(last, golden.last, "{place}");
            assert_eq!(
                (lines, checksum.finish()),
                (golden.lines, golden.checksum),
                "{place}: lines and checksum"
            );
            assert_eq!(stream.tally().events, lines, "{place}");
            seen += 1;
        }
    }
    assert_eq!(seen, expected.len(), "{file}: buffers and CPUs with events");
}

#[test]
fn a_version_7_trace_reads_as_trace_cmd_reads_it() {
    compare("v7-zstd.trace.dat", fixture("v7-zstd.trace.dat"));
}

#[test]
fn a_version_6_trace_with_an_instance_reads_as_trace_cmd_reads_it() {
    compare("v6-instance.trace.dat", fixture("v6-instance.trace.dat"));
}

#[test]
fn a_trace_in_cycles_with_an_instance_reads_as_trace_cmd_reads_it() {
    let trace = TraceFile::open(fixture("v7-tsc-instance.trace.dat")).unwrap();
    assert_eq!(trace.clock().name(), "x86-tsc");
    assert!(!trace.clock().is_time(), "the file has no rate for the cycles");
    compare("v7-tsc-instance.trace.dat", fixture("v7-tsc-instance.trace.dat"));
}

#[test]
fn overwritten_events_are_reported_with_place_and_count() {
    compare("v7-overwritten.trace.dat", fixture("v7-overwritten.trace.dat"));
    let trace = TraceFile::open(fixture("v7-overwritten.trace.dat")).unwrap();
    let buffer = trace.buffer("").unwrap();
    // trace-cmd report: "CPU:0 [497 EVENTS DROPPED]", "CPU:1 [600 EVENTS DROPPED]", before the first event.
    for (cpu, events) in buffer.cpus.iter().zip([497, 600]) {
        let mut stream = trace.cpu_events(buffer, cpu).unwrap();
        let first = match stream.next_item().unwrap() {
            Some(Item::Discontinuity(discontinuity)) => discontinuity,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (first.kind, first.after),
            (DiscontinuityKind::Overwritten { events: Some(events) }, None)
        );
        while stream.next_item().unwrap().is_some() {}
        assert_eq!(stream.tally().overwritten, events);
        assert!(!stream.tally().is_whole());
        assert!(trace.stats().iter().any(|stats| stats.cpu == cpu.cpu && stats.overrun == events));
    }
}

#[test]
fn a_million_real_events_read_as_trace_cmd_reads_them() {
    let Some(file) = big_trace() else { return };
    compare("hackbench-rt-2cpu.trace.dat", file);
}

#[test]
fn a_merge_has_the_events_of_every_cpu_in_the_order_of_their_times() {
    let Some(file) = big_trace() else { return };
    let trace = TraceFile::open(file).unwrap();
    let buffer = trace.buffer("").unwrap();
    let mut merged = trace.events(buffer).unwrap();
    let mut streams: Vec<_> = buffer.cpus.iter().map(|cpu| trace.cpu_events(buffer, cpu).unwrap()).collect();
    let (mut last, mut count) = (0, 0);
    while let Some(item) = merged.next_item().unwrap() {
        let Item::Event(event) = item else { panic!("{item:?}") };
        assert!(event.time >= last);
        let stream = streams.iter_mut().find(|stream| stream.cpu() == event.cpu).unwrap();
        assert_eq!(stream.next_item().unwrap(), Some(Item::Event(event)));
        (last, count) = (event.time, count + 1);
    }
    assert_eq!(count, 1_051_409);
    assert!(streams.iter_mut().all(|stream| stream.next_item().unwrap().is_none()));
}
