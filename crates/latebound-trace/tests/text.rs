// SPDX-License-Identifier: MIT OR Apache-2.0
//! ftrace text against the binary trace of the same recording.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;

use latebound_model::{Cpu, Nanos, Tid};
use latebound_trace::{
    DiscontinuityKind, Item, PerfTrace, Tally, TextTrace, TraceError, TraceFile, TraceItem, TraceRecord,
};
use proptest::prelude::*;
use support::{fixture, said};

/// Every event of a binary trace: CPU, time cut to `unit`, thread, flags, preemption count, record.
fn binary(name: &str, unit: u64, exact_state: bool) -> Vec<(Cpu, u64, Tid, u8, u8, String)> {
    let trace = TraceFile::open(fixture(name)).unwrap();
    let (decoder, symbols) = (trace.decoder().unwrap(), trace.symbols().unwrap());
    let mut stream = trace.events(trace.buffer("").unwrap()).unwrap();
    let mut events = Vec::new();
    while let Some(item) = stream.next_item().unwrap() {
        let Item::Event(event) = item else { continue };
        let decoded = decoder.decode(event.data);
        let said = said(&decoded, &symbols, decoder.vector_names(), exact_state);
        events.push((
            event.cpu,
            event.time / unit,
            decoded.tid,
            decoded.flags.0,
            decoded.preempt_count,
            said,
        ));
    }
    events
}

type Events = Vec<(Cpu, u64, Tid, u8, u8, String)>;

fn text(
    bytes: &[u8],
    unit: u64,
    exact_state: bool,
) -> (Events, Vec<DiscontinuityKind>, BTreeMap<Cpu, Tally>) {
    let trace = TextTrace::open(bytes).unwrap();
    let symbols = trace.symbols();
    let (mut events, mut discontinuities) = (Vec::new(), Vec::new());
    let tallies = trace
        .for_each(|item| match item {
            TraceItem::Event(event) => {
                let decoded = event.decoded;
                let said = said(&decoded, &symbols, trace.vector_names(), exact_state);
                let at = event.at.0 / unit;
                events.push((event.cpu, at, decoded.tid, decoded.flags.0, decoded.preempt_count, said));
            }
            TraceItem::Discontinuity(discontinuity) => discontinuities.push(discontinuity.kind),
        })
        .unwrap();
    (events, discontinuities, tallies)
}

#[test]
fn the_text_of_trace_cmd_says_what_the_binary_trace_says() {
    let (mut events, discontinuities, tallies) = text(&fixture("v7-zstd.report.txt"), 1, false);
    let mut expected = binary("v7-zstd.trace.dat", 1, false);
    // trace-cmd 3.1.6 prints no state of the CPU, and its plugin names what do_idle is inlined for.
    for event in &mut expected {
        (event.3, event.4) = (0, 0);
    }
    events.sort();
    expected.sort();
    assert_eq!(events.len(), 278);
    assert_eq!(events, expected);
    assert!(discontinuities.is_empty() && tallies.values().all(Tally::is_whole));
    assert!(!TextTrace::open(fixture("v7-zstd.report.txt")).unwrap().has_flags());
}

#[test]
fn the_text_with_latencies_says_what_the_binary_trace_says() {
    let (mut events, discontinuities, tallies) = text(&fixture("v7-zstd.latency.txt"), 1, false);
    let mut expected = binary("v7-zstd.trace.dat", 1, false);
    // Of the flags it shows what the reader asks for.
    for event in events.iter_mut().chain(&mut expected) {
        event.3 &= 0x1d;
    }
    events.sort();
    expected.sort();
    assert_eq!(events.len(), 278);
    assert_eq!(events, expected);
    assert!(discontinuities.is_empty() && tallies.values().all(Tally::is_whole));
    assert!(TextTrace::open(fixture("v7-zstd.latency.txt")).unwrap().has_flags());
}

#[test]
fn calls_and_waits_read_alike_from_text_and_binary_traces() {
    let of_jobs = |said: &str| {
        let begins = ["Call", "PageFault", "Block", "Contention", "Signal"];
        begins.iter().any(|begin| said.starts_with(begin))
    };
    let (mut events, ..) = text(&fixture("jobs.report.txt"), 1, false);
    let mut expected = binary("jobs.trace.dat", 1, false);
    expected.retain(|event| of_jobs(&event.5));
    for event in &mut expected {
        (event.3, event.4) = (0, 0);
    }
    events.sort();
    expected.sort();
    assert_eq!(events, expected);
    // By the lines of trace-cmd: 50 calls with their ends, 48 faults, 17 steps of requests, a lock, a signal.
    assert_eq!(events.len(), 50 + 50 + 48 + 17 + 2 + 1);
    let said = |what: &str| events.iter().any(|event| event.5 == what);
    assert!(said("CallEntry { number: 230, arguments: [1, 1] }"));
    assert!(said("Block { step: Queued, device: 266338304, sector: 518, bytes: 1024, write: false }"));
    assert!(said("Block { step: Completed, device: 266338304, sector: 518, bytes: 1024, write: false }"));
}

/// Three events of two CPUs, and a stack, as tracefs writes them.
fn counted(promised: u64) -> String {
    format!(
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: {promised}/{promised}   #P:2\n#\n\
         a-7 [000] d..1. 1.000001: softirq_raise: vec=9 [action=RCU]\n\
         a-7 [001] d..1. 1.000002: softirq_raise: vec=9 [action=RCU]\n\
         a-7 [001] d..1. 1.000003: <stack trace>\n => schedule\n => vfs_read\n\
         CPU:1 [LOST 2 EVENTS]\n\
         a-7 [001] d..1. 1.000004: softirq_raise: vec=9 [action=RCU]\n"
    )
}

#[test]
fn a_text_with_fewer_lines_than_its_header_counts_has_lost_the_rest() {
    let lost = DiscontinuityKind::Overwritten { events: Some(2) };
    // More entries than were counted came after the header.
    for promised in [0, 5, 6] {
        assert_eq!(text(counted(promised).as_bytes(), 1, true).1, [lost], "{promised}");
    }
    let (events, discontinuities, tallies) = text(counted(54_346).as_bytes(), 1, true);
    assert_eq!(
        (events.len(), &discontinuities[..]),
        (3, &[lost, DiscontinuityKind::Missing { events: 54_340 }][..])
    );
    assert_eq!(tallies[&Cpu(0)].missing, 54_340);
    assert!(!tallies[&Cpu(0)].is_whole());
    assert!(TextTrace::open(counted(6).as_bytes()).unwrap().is_counted());
    assert!(!TextTrace::open(fixture("v7-zstd.report.txt")).unwrap().is_counted());
}

#[test]
fn a_text_that_is_cut_anywhere_is_not_whole() {
    let whole = counted(6);
    let first = whole.find("RCU]\n").unwrap() + 5;
    for end in first..whole.len() {
        let (_, _, tallies) = text(&whole.as_bytes()[..end], 1, true);
        assert!(
            tallies.values().any(|tally| tally.missing + tally.cut_off_bytes > 0),
            "cut after {end} bytes"
        );
    }
}

#[test]
fn tracefs_text_agrees_with_the_binary_trace_and_tells_missing_events() {
    let (events, discontinuities, tallies) = text(&fixture("tracefs.txt"), 1_000, true);
    // tracefs rounds to microseconds (print_lat_context's `do_div` after adding 500).
    let expected = binary("v7-overwritten.trace.dat", 1, true);
    assert_eq!(events.len(), 138);
    for event in &events {
        let found = expected.iter().any(|binary| {
            (binary.0, (binary.1 + 500) / 1_000) == (event.0, event.1)
                && (binary.2, binary.4, &binary.5) == (event.2, event.4, &event.5)
                && binary.3 & 0x5d == event.3 & 0x5d
        });
        assert!(found, "{event:?} is not in the binary trace");
    }
    // "entries-in-buffer/entries-written: 528/1625": some are lost, of which CPU is not said.
    assert_eq!(discontinuities[..2], [DiscontinuityKind::Overwritten { events: None }; 2]);
    // And the fixture has 138 of the 528.
    assert_eq!(discontinuities[2..], [DiscontinuityKind::Missing { events: 390 }]);
    assert!(tallies.values().all(|tally| !tally.is_whole()));
}

#[test]
fn a_perf_data_says_what_perf_script_says_of_it() {
    let mut trace = PerfTrace::open(fixture("sched.perf.data")).unwrap();
    assert!(
        trace.decoder().problems().is_empty() && trace.formats().by_name("sched", "sched_switch").is_some()
    );
    assert_eq!(trace.clock().name(), "mono", "recorded with -k mono");
    let (symbols, vectors) = (trace.symbols().clone(), trace.decoder().vector_names().to_vec());
    let mut events = Vec::new();
    let tallies = trace
        .for_each(|item| match item {
            TraceItem::Event(event) => {
                let said = said(&event.decoded, &symbols, &vectors, true);
                events.push((event.cpu, event.at.0, event.decoded.tid, 0, 0, said));
            }
            TraceItem::Discontinuity(discontinuity) => panic!("{discontinuity:?}"),
        })
        .unwrap();
    let (expected, discontinuities, _) = text(&fixture("sched.perf.txt"), 1, true);
    assert_eq!((events.len(), discontinuities.len()), (36, 0));
    assert_eq!(events, expected);
    assert_eq!(tallies.values().map(|tally| tally.events).sum::<u64>(), 36);
}

#[test]
fn a_perf_data_that_cannot_be_read_says_why() {
    let open = |bytes: Vec<u8>| PerfTrace::open(bytes).err().unwrap().to_string();
    let whole = fixture("sched.perf.data");
    assert!(open(Vec::new()).contains("empty"));
    assert!(open(b"garbage in".to_vec()).contains("garbage"));
    assert!(open(whole[..whole.len() - 100].to_vec()).contains("ends early"));
    let mut absurd = whole.clone();
    absurd[48..56].fill(0x7f);
    assert!(open(absurd).contains("ends early"));
    let mut piped = whole.clone();
    piped[8..16].copy_from_slice(&16u64.to_le_bytes());
    assert!(open(piped).contains("perf inject"));
}

#[test]
fn a_text_of_more_cpus_and_vectors_than_there_are_is_held_in_bounds() {
    let line = |cpu: u32, what: &str| format!("a-7 [{cpu}] d.h1. 1.0: {what}\n");
    let cpus: String = (0..=1 << 16).map(|cpu| line(cpu, "v_entry: vector=1")).collect();
    let error = TextTrace::open(cpus.as_bytes()).err().unwrap().to_string();
    assert!(error.contains("the CPUs of the text") && error.contains("65537"), "{error}");
    let vectors: String = (0..20_000).map(|at| line(0, &format!("v{at:05}_entry: vector=1"))).collect();
    let trace = TextTrace::open(vectors.as_bytes()).unwrap();
    assert_eq!(trace.vector_names().len(), 4096);
    let mut seen = Vec::new();
    let visit = |item: TraceItem<'_>| match item {
        TraceItem::Event(event) => match event.decoded.record {
            TraceRecord::VectorEntry { vector, .. } => seen.push(vector.0),
            other => panic!("{other:?}"),
        },
        TraceItem::Discontinuity(discontinuity) => panic!("{discontinuity:?}"),
    };
    trace.for_each(visit).unwrap();
    assert_eq!((seen.len(), seen[0], seen[4095], seen[4096]), (20_000, 0, 4095, u16::MAX));
    let long = line(0, &format!("{}_entry: vector=1", "v".repeat(2000)));
    assert!(TextTrace::open(long.as_bytes()).unwrap().vector_names().is_empty());
}

#[test]
fn callers_of_preempt_and_irq_events_keep_their_names() {
    let lines = "\
        a-7 [000] d..1. 1.000001: preempt_disable: caller=schedule+0x27/0x90 parent=vfs_write+0x103/0x2f0 [mod]\n\
        a-7 [000] d..1. 1.000002: irq_disable: caller=__schedule+0x419/0x900 parent=schedule+0x2e/0x90\n\
        a-7 [000] dNh1. 1.000003: nmi_handler: perf_event_nmi_handler() delta_ns: 1234 handled: 1\n\
        CPU:1 [LOST 3 EVENTS]\n\
        a-7 [001] d.h1. 0.5: ipi_entry: (Rescheduling interrupts)\n\
        a-7 [001] d.h1. 0.4: ipi_exit: (Rescheduling interrupts)\n\
        nonsense\n";
    let trace = TextTrace::open(lines.as_bytes()).unwrap();
    let symbols = trace.symbols();
    let mut callers = Vec::new();
    let mut discontinuities = Vec::new();
    let tallies = trace
        .for_each(|item| match item {
            TraceItem::Event(event) => match event.decoded.record {
                TraceRecord::PreemptDisable { caller, parent }
                | TraceRecord::IrqDisable { caller, parent } => {
                    callers.push(symbols.describe(symbols.address(caller).unwrap()));
                    callers.push(symbols.describe(symbols.address(parent).unwrap()));
                }
                TraceRecord::Nmi { duration_ns, .. } => {
                    assert_eq!((duration_ns, event.at), (1234, Nanos(1_000_003_000)));
                    assert!(event.decoded.flags.need_resched() && event.decoded.flags.hardirq());
                }
                TraceRecord::VectorEntry { vector, .. } | TraceRecord::VectorExit { vector, .. } => {
                    assert_eq!(trace.vector_names()[usize::from(vector.0)], "Rescheduling interrupts");
                }
                other => panic!("{other:?}"),
            },
            TraceItem::Discontinuity(discontinuity) => {
                discontinuities.push((discontinuity.cpu, discontinuity.page, discontinuity.kind))
            }
        })
        .unwrap();
    assert_eq!(callers, ["schedule+0x27", "vfs_write+0x103", "__schedule+0x419", "schedule+0x2e"]);
    assert_eq!(symbols.ranges(&["sched"], |name| (name == "schedule").then_some(())).len(), 1);
    assert_eq!(
        discontinuities,
        [
            (Cpu(1), 4, DiscontinuityKind::Overwritten { events: Some(3) }),
            (Cpu(1), 6, DiscontinuityKind::Backwards { by: 100_000_000 }),
            (Cpu(0), 7, DiscontinuityKind::Damaged { bytes: 8 }),
        ]
    );
    assert_eq!((tallies[&Cpu(0)].events, tallies[&Cpu(1)].overwritten), (3, 3));
}

#[test]
fn a_text_without_an_event_is_refused() {
    assert!(matches!(TextTrace::open(&b""[..]), Err(TraceError::Empty)));
    let error = TextTrace::open(&b"Dear reader,\n"[..]).err().unwrap().to_string();
    assert!(error.contains("Dear reader"), "{error}");
    assert!(TextTrace::open(&b"# tracer: nop\n"[..]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: support::cases(64), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_text_never_panics_and_loses_no_line_in_silence(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..200), cut: prop::sample::Index,
    ) {
        let mut bytes = fixture("tracefs.txt");
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()));
        if let Ok(trace) = TextTrace::open(bytes) {
            let symbols = trace.symbols();
            let mut discontinuities = 0u64;
            let tallies = trace.for_each(|item| match item {
                TraceItem::Event(event) => {
                    let _ = said(&event.decoded, &symbols, trace.vector_names(), true);
                }
                TraceItem::Discontinuity(_) => discontinuities += 1,
            }).unwrap();
            prop_assert!(discontinuities > 0 || tallies.values().all(Tally::is_whole));
        }
    }

    #[test]
    fn a_mutated_perf_data_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0usize..9), 1..12),
    ) {
        let mut bytes = fixture("sched.perf.data");
        for (at, value, run) in changes {
            let at = at.index(bytes.len());
            let end = (at + run).min(bytes.len());
            bytes[at..end].fill(value);
        }
        if let Ok(mut trace) = PerfTrace::open(bytes) {
            let _ = trace.for_each(|_| {});
        }
    }
}
