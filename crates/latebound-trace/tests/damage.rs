// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every shape of trace.dat written and read back, and traces that are cut, mutated, foreign or absurd.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use latebound_model::{Cpu, EventKind};
use latebound_trace::{
    Buffer, CpuData, CpuStream, Discontinuity, DiscontinuityKind, Item, ReadAt, Tally, TextOffset,
    TraceError, TraceFile, TraceRecord, for_each_event,
};
use proptest::collection::vec;
use proptest::prelude::*;
use support::{Synthetic, SyntheticPage, big_trace, fixture};

/// Everything that a reader can do with a file, none of which may panic. Gives the events read.
fn read_all(bytes: &[u8]) -> Result<u64, TraceError> {
    let trace = TraceFile::open(bytes)?;
    let decoder = trace.decoder()?;
    let _ = trace.symbols().map(|symbols| symbols.describe(u64::MAX / 2));
    let _ = trace.command_lines();
    let mut events = 0;
    for buffer in trace.buffers() {
        for cpu in &buffer.cpus {
            let mut stream = trace.cpu_events(buffer, cpu)?;
            let mut reported = 0;
            stream.for_each(|item| match item {
                Item::Event(event) => {
                    if let TraceRecord::KernelStack { frames } = decoder.decode(event.data).record {
                        frames.iter().for_each(drop);
                    }
                }
                Item::Discontinuity(_) => reported += 1,
            })?;
            events += stream.tally().events;
            assert!(
                stream.tally().is_whole() || reported > 0,
                "a discontinuity was counted but not reported"
            );
            assert_same_ahead(&trace, buffer, cpu);
        }
        let mut merged = trace.events(buffer)?;
        let mut count = 0;
        while let Some(item) = merged.next_item()? {
            count += u64::from(matches!(item, Item::Event(_)));
        }
        let tallied: u64 = merged.tallies().iter().map(|(_, tally)| tally.events).sum();
        assert_eq!(count, tallied);
    }
    Ok(events)
}

/// All that a stream gave: events by their times and bytes, discontinuities, the error that it ended with.
#[derive(Debug, PartialEq)]
struct Given {
    events: Vec<(u64, Vec<u8>)>,
    /// With how many events before it.
    discontinuities: Vec<(usize, Discontinuity)>,
    error: Option<String>,
    tally: Tally,
}

fn given<R: ReadAt>(mut stream: CpuStream<'_, R>) -> Given {
    let (mut events, mut discontinuities) = (Vec::new(), Vec::new());
    let read = stream.for_each(|item| match item {
        Item::Event(event) => events.push((event.time, event.data.to_vec())),
        Item::Discontinuity(discontinuity) => discontinuities.push((events.len(), discontinuity)),
    });
    Given { events, discontinuities, error: read.err().map(|error| error.to_string()), tally: stream.tally() }
}

/// Whether a CPU reads the same where another thread inflates its chunks ahead. Gives what it reads as.
fn assert_same_ahead<R: ReadAt + Sync>(
    trace: &TraceFile<R>,
    buffer: &Buffer,
    cpu: &CpuData,
) -> Option<Given> {
    // Nothing can be read of a CPU that cannot be begun with, either way.
    let Ok(stream) = trace.cpu_events(buffer, cpu) else {
        assert!(trace.cpu_events_ahead(buffer, cpu, 0).is_err());
        return None;
    };
    let alone = given(stream);
    for budget in [0, 8 << 20] {
        let with_ahead = std::thread::scope(|scope| {
            let (stream, ahead) = trace.cpu_events_ahead(buffer, cpu, budget).unwrap();
            scope.spawn(|| ahead.run());
            given(stream)
        });
        assert!(with_ahead == alone, "{budget} bytes ahead of {}", cpu.cpu);
    }
    let (stream, ahead) = trace.cpu_events_ahead(buffer, cpu, 0).unwrap();
    drop(ahead);
    assert!(given(stream) == alone, "nobody goes ahead of {}", cpu.cpu);
    Some(alone)
}

/// The events of one CPU as time and caller, and the discontinuities.
fn events(trace: &TraceFile<Vec<u8>>, cpu: usize) -> (Vec<(u64, i32)>, Vec<DiscontinuityKind>) {
    let buffer = trace.buffer("").unwrap();
    let decoder = trace.decoder().unwrap();
    let (mut events, mut discontinuities) = (Vec::new(), Vec::new());
    let mut stream = trace.cpu_events(buffer, &buffer.cpus[cpu]).unwrap();
    stream
        .for_each(|item| match item {
            Item::Event(event) => {
                let decoded = decoder.decode(event.data);
                assert_eq!((decoded.tid.0, decoded.preempt_count, decoded.flags.irqs_off()), (77, 2, true));
                let TraceRecord::IrqDisable { caller, parent } = decoded.record else {
                    panic!("{decoded:?}")
                };
                assert_eq!(parent, TextOffset(0x210));
                events.push((event.time, caller.0));
            }
            Item::Discontinuity(discontinuity) => discontinuities.push(discontinuity.kind),
        })
        .unwrap();
    // The other way to read gives the same, in the same order.
    let mut one_by_one = trace.cpu_events(buffer, &buffer.cpus[cpu]).unwrap();
    let (mut count, mut reported) = (0, Vec::new());
    while let Some(item) = one_by_one.next_item().unwrap() {
        match item {
            Item::Event(event) => {
                assert_eq!(event.time, events[count].0);
                count += 1;
            }
            Item::Discontinuity(discontinuity) => reported.push(discontinuity.kind),
        }
    }
    assert_eq!((count, &reported), (events.len(), &discontinuities));
    assert_eq!(one_by_one.tally(), stream.tally());
    (events, discontinuities)
}

fn any_page() -> impl Strategy<Value = SyntheticPage> {
    let delta = prop_oneof![8 => 0u64..1 << 27, 1 => 1u64 << 27..1 << 40];
    let missed =
        prop_oneof![4 => Just(None), 1 => Just(Some(None)), 1 => (1u64..1 << 30).prop_map(|n| Some(Some(n)))];
    (0u64..1 << 50, missed, vec((delta, any::<i32>()), 0..10))
        .prop_map(|(time, missed, events)| SyntheticPage { time, missed, events })
}

fn any_trace() -> impl Strategy<Value = Synthetic> {
    let shape =
        (any::<bool>(), any::<bool>(), any::<bool>(), prop_oneof![Just("none"), Just("zstd"), Just("zlib")]);
    (shape, vec(vec(any_page(), 0..9), 0..4)).prop_map(|((six, big_endian, long_4, compression), cpus)| {
        Synthetic {
            version: if six { 6 } else { 7 },
            big_endian,
            long: if long_4 { 4 } else { 8 },
            compression: if six { "none" } else { compression },
            page_size: 512,
            clock: "mono",
            cpus,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: support::cases(96), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_in_either_byte_order_and_any_shape_is_read_back(written in any_trace()) {
        let trace = TraceFile::open(written.bytes()).unwrap();
        prop_assert_eq!((trace.version(), trace.big_endian()), (written.version, written.big_endian));
        prop_assert_eq!(trace.symbols().unwrap().text_start(), Some(0xffff_ffff_8100_0000));
        prop_assert!(trace.clock().name() == "mono");
        for (cpu, pages) in written.cpus.iter().enumerate() {
            let mut expected = Vec::new();
            let mut discontinuities = Vec::new();
            let mut last = 0;
            for page in pages {
                if let Some(events) = page.missed {
                    discontinuities.push(DiscontinuityKind::Overwritten { events });
                }
                if page.events.is_empty() {
                    discontinuities.push(DiscontinuityKind::EmptyPage);
                }
                let mut time = page.time;
                for &(delta, caller) in &page.events {
                    time += delta;
                    if time < last {
                        discontinuities.push(DiscontinuityKind::Backwards { by: last - time });
                    }
                    last = time;
                    expected.push((time, caller));
                }
            }
            let (read, reported) = events(&trace, cpu);
            prop_assert_eq!(&read, &expected);
            // An event of a page with backward time comes after the page's own discontinuities either way.
            prop_assert_eq!(reported, discontinuities);
        }
    }

    #[test]
    fn a_mutated_trace_gives_errors_or_discontinuities_and_never_a_panic(
        file in prop_oneof![
            Just("v7-zstd.trace.dat"), Just("v6-instance.trace.dat"), Just("v7-tsc-instance.trace.dat"),
            Just("v7-overwritten.trace.dat")
        ],
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0usize..9), 1..12),
    ) {
        let mut bytes = fixture(file);
        for (at, value, run) in changes {
            let at = at.index(bytes.len());
            let end = (at + run).min(bytes.len());
            bytes[at..end].fill(value);
        }
        let _ = read_all(&bytes);
    }

    #[test]
    fn a_cut_trace_gives_an_error_or_fewer_events_that_are_counted(at in any::<prop::sample::Index>(), six in any::<bool>()) {
        let bytes = fixture(if six { "v6-instance.trace.dat" } else { "v7-zstd.trace.dat" });
        let cut = &bytes[..at.index(bytes.len())];
        match read_all(cut) {
            Ok(events) if six => prop_assert!(events <= 33),
            // Behind the last options of version 7 there are only strings, which are not needed.
            Ok(events) => prop_assert_eq!(events, 278),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn mutated_pages_of_a_plain_trace_never_panic(
        changes in vec((any::<prop::sample::Index>(), any::<u32>()), 1..30), big_endian: bool,
    ) {
        let page = SyntheticPage { time: 1000, missed: None, events: (0..20).map(|at| (at, 5)).collect() };
        let trace = Synthetic { big_endian, page_size: 512, cpus: vec![vec![page; 6]; 2], ..Synthetic::default() };
        let mut bytes = trace.bytes();
        let pages = bytes.windows(8).position(|window| window == (if big_endian { 1000u64.to_be_bytes() } else { 1000u64.to_le_bytes() })).unwrap();
        for (at, value) in changes {
            let at = pages + at.index(12 * 512 - 4);
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let _ = read_all(&bytes);
    }
}

#[test]
fn a_file_that_is_no_trace_is_named_for_what_it_begins_with() {
    assert!(matches!(TraceFile::open(&b""[..]), Err(TraceError::Empty)));
    let error = TraceFile::open(&b"PERFILE2 and more"[..]).err().unwrap().to_string();
    assert!(error.contains("PERFILE2"), "{error}");
    let error = TraceFile::open(&b"\x17\x08\x44tracing5\0"[..]).err().unwrap().to_string();
    assert!(error.contains("version \"5\""), "{error}");
    let error = TraceFile::open(&b"\x17\x08\x44tracing6\0\x02\x08"[..]).err().unwrap().to_string();
    assert!(error.contains("byte order 2"), "{error}");
    let error = TraceFile::open(&b"\x17\x08\x44trac"[..]).err().unwrap().to_string();
    assert!(error.contains("not a trace"), "{error}");
    let mut bytes = Synthetic::default().bytes();
    let at = bytes.windows(5).position(|window| window == b"none\0").unwrap();
    bytes[at..at + 4].copy_from_slice(b"lzma");
    let error = TraceFile::open(bytes).err().unwrap().to_string();
    assert!(error.contains("\"lzma\"") && error.contains("trace-cmd convert"), "{error}");
}

#[test]
fn a_size_that_cannot_be_is_refused_before_it_is_allocated() {
    let trace = Synthetic { version: 6, cpus: vec![vec![SyntheticPage::default()]], ..Synthetic::default() };
    let bytes = trace.bytes();
    for (find, after, value, name) in [
        (&b"header_page\0"[..], 0, u64::MAX, "the page header"),
        (&b"preemptirq\0"[..], 4, 1 << 40, "the event formats"),
        (&b"flyrecord\0"[..], 0, u64::MAX, ""),
    ] {
        let mut bytes = bytes.clone();
        let at = bytes.windows(find.len()).position(|window| window == find).unwrap() + find.len() + after;
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        match TraceFile::open(bytes) {
            Err(error) => assert!(!name.is_empty() && error.to_string().contains(name), "{error}"),
            Ok(trace) => {
                // A CPU's data beyond the file is a discontinuity of that CPU.
                let (events, discontinuities) = events(&trace, 0);
                assert!(
                    events.is_empty() && matches!(discontinuities[..], [DiscontinuityKind::CutOff { .. }]),
                    "{discontinuities:?}"
                );
            }
        }
    }
    // A chunk that claims four gigabytes.
    let pages = vec![SyntheticPage { time: 9, missed: None, events: vec![(1, 1)] }];
    let trace = Synthetic { compression: "zstd", cpus: vec![pages], ..Synthetic::default() };
    let mut bytes = trace.bytes();
    let chunk = TraceFile::open(bytes.clone()).unwrap().cpus()[0].offset as usize + 4;
    bytes[chunk + 4..chunk + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    let (events, discontinuities) = events(&TraceFile::open(bytes).unwrap(), 0);
    assert!(
        events.is_empty() && matches!(discontinuities[..], [DiscontinuityKind::Damaged { .. }]),
        "{discontinuities:?}"
    );
}

#[test]
fn a_section_that_claims_more_than_its_bytes_hold_is_refused() {
    for compression in ["zstd", "zlib"] {
        let mut bytes = Synthetic { compression, ..Synthetic::default() }.bytes();
        // Behind the compressor's version and the place of the options: number, flags, description, size, stored and unpacked bytes.
        let first = bytes.windows(4).position(|window| window == b"1.0\0").unwrap() + 4 + 8;
        bytes[first + 20..first + 24].copy_from_slice(&(48_u32 << 20).to_le_bytes());
        match TraceFile::open(bytes) {
            Err(TraceError::TooLarge { size, limit, .. }) => assert!(size == 48 << 20 && limit < 1 << 20),
            other => panic!("{:?}", other.err()),
        }
    }
}

#[test]
fn options_that_lead_back_to_themselves_are_reported() {
    let mut bytes = Synthetic::default().bytes();
    let place = bytes.windows(4).position(|window| window == b"1.0\0").unwrap() + 4;
    let options: [u8; 8] = bytes[place..place + 8].try_into().unwrap();
    let end = bytes.len();
    bytes[end - 8..].copy_from_slice(&options);
    let error = TraceFile::open(bytes).err().unwrap().to_string();
    assert!(error.contains("loop"), "{error}");
}

#[test]
fn cpus_that_share_their_bytes_are_refused() {
    let page = |time| SyntheticPage { time, missed: None, events: vec![(1, 1)] };
    let cpus: Vec<_> = (0..40).map(|cpu| vec![page(cpu)]).collect();
    let mut bytes = Synthetic { version: 6, cpus, ..Synthetic::default() }.bytes();
    assert!(TraceFile::open(bytes.clone()).is_ok());
    let table = bytes.windows(10).position(|window| window == b"flyrecord\0").unwrap() + 10;
    let first: [u8; 8] = bytes[table..table + 8].try_into().unwrap();
    for cpu in 0..40 {
        bytes[table + cpu * 16..][..8].copy_from_slice(&first);
        bytes[table + cpu * 16 + 8..][..8].copy_from_slice(&(40 * 4096_u64).to_le_bytes());
    }
    let error = TraceFile::open(bytes).err().unwrap().to_string();
    assert!(error.contains("overlap"), "{error}");
}

#[test]
fn many_discontinuities_of_one_cpu_cost_the_events_of_another_nothing() {
    let events =
        |at: u64| SyntheticPage { time: at, missed: None, events: (0..20).map(|_| (1, 1)).collect() };
    let empty = vec![SyntheticPage::default(); 10_000];
    let cpus = vec![empty, (1..=10_000).map(|at| events(at * 100)).collect()];
    let trace = Synthetic { version: 6, page_size: 512, cpus, ..Synthetic::default() };
    let trace = TraceFile::open(trace.bytes()).unwrap();
    let processor = || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to the structure that it is given.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) }, 0);
        std::time::Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let before = processor();
    let mut lost = 0;
    let tallies = for_each_event(&trace, &trace.buffers()[0], |event| {
        lost += u32::from(matches!(event.kind, EventKind::Lost { .. }));
    });
    let took = processor() - before;
    assert_eq!((lost, tallies.unwrap()[1].1.events), (10_000, 200_000));
    assert!(took.as_millis() < 500, "{took:?}: one look at each discontinuity for each event takes seconds");
}

#[test]
fn a_trace_cut_within_its_pages_tells_what_is_gone() {
    let page = |time| SyntheticPage { time, missed: None, events: vec![(1, 1), (1, 2)] };
    let trace =
        Synthetic { version: 6, cpus: vec![vec![page(10), page(20), page(30)]], ..Synthetic::default() };
    let mut bytes = trace.bytes();
    bytes.truncate(bytes.len() - 5000);
    let trace = TraceFile::open(bytes).unwrap();
    let (events, discontinuities) = events(&trace, 0);
    assert_eq!(events, [(11, 1), (12, 2)]);
    assert_eq!(
        discontinuities,
        [DiscontinuityKind::CutOff { bytes: 5000 }, DiscontinuityKind::Damaged { bytes: 3192 }]
    );
}

#[test]
fn a_page_that_is_zeroed_or_emptied_is_reported_wherever_it_is() {
    let page = |time| SyntheticPage { time, missed: None, events: vec![(1, 1), (1, 2)] };
    let pages: Vec<_> = (1..=4).map(|at| page(at * 100)).collect();
    let trace = Synthetic { version: 6, cpus: vec![pages], ..Synthetic::default() };
    let whole = trace.bytes();
    let first = TraceFile::open(whole.clone()).unwrap().cpus()[0].offset as usize;
    let read = |bytes: Vec<u8>| events(&TraceFile::open(bytes).unwrap(), 0);
    assert_eq!(read(whole.clone()).1, []);
    for at in 0..4 {
        let start = first + at * 4096;
        for (what, from, to) in [("zeroed", 0, 4096), ("emptied", 8, 16)] {
            let mut bytes = whole.clone();
            bytes[start + from..start + to].fill(0);
            let (left, discontinuities) = read(bytes);
            assert_eq!(
                (left.len(), &discontinuities[..]),
                (6, &[DiscontinuityKind::EmptyPage][..]),
                "page {at} {what}"
            );
        }
        // The entries alone are gone: a first word of zeroes is no entry, and one of padding ends no full page.
        for entry in [0u32, 29] {
            let mut bytes = whole.clone();
            bytes[start + 16..start + 4096].fill(0);
            bytes[start + 16..start + 20].copy_from_slice(&entry.to_le_bytes());
            assert_eq!(read(bytes).1, [DiscontinuityKind::Damaged { bytes: 40 }], "page {at}, {entry}");
        }
    }
}

#[test]
fn a_broken_chunk_costs_its_pages_and_no_more() {
    let page = |time| SyntheticPage { time, missed: None, events: vec![(1, 1)] };
    let pages: Vec<_> = (1..=9).map(|at| page(at * 100)).collect();
    for compression in ["zstd", "zlib"] {
        let trace = Synthetic { compression, cpus: vec![pages.clone()], ..Synthetic::default() };
        let mut bytes = trace.bytes();
        let file = TraceFile::open(bytes.clone()).unwrap();
        let first = file.cpus()[0].offset as usize + 4;
        let stored = u32::from_le_bytes(bytes[first..first + 4].try_into().unwrap()) as usize;
        let second = first + 8 + stored;
        bytes[second + 8..second + 14].fill(0xff);
        let (events, discontinuities) = events(&TraceFile::open(bytes).unwrap(), 0);
        let times: Vec<_> = events.iter().map(|event| event.0).collect();
        assert_eq!(times, [101, 201, 301, 701, 801, 901], "{compression}");
        assert_eq!(discontinuities, [DiscontinuityKind::Damaged { bytes: 3 * 4096 }], "{compression}");
    }
}

#[test]
fn chunks_that_are_read_ahead_give_what_the_reader_alone_gives() {
    if let Some(file) = big_trace() {
        let trace = TraceFile::open(file).unwrap();
        let buffer = trace.buffer("").unwrap();
        let read = |cpu| assert_same_ahead(&trace, buffer, cpu).unwrap().tally.events;
        assert_eq!(buffer.cpus.iter().map(read).sum::<u64>(), 1_051_409);
    }
    // Chunks of three pages: those of the larger are more than is handed over at once.
    let page = |time| SyntheticPage { time, missed: None, events: (0..20).map(|at| (at, 1)).collect() };
    let pages: Vec<_> = (1..=20).map(|at| page(at * 10_000)).collect();
    for (page_size, compression) in [(512, "none"), (4096, "zstd"), (1 << 16, "zlib"), (1 << 17, "zstd")] {
        let trace =
            Synthetic { page_size, compression, cpus: vec![pages.clone(); 2], ..Synthetic::default() };
        let trace = TraceFile::open(trace.bytes()).unwrap();
        for cpu in trace.cpus() {
            let given = assert_same_ahead(&trace, trace.buffer("").unwrap(), cpu).unwrap();
            assert_eq!((given.tally.events, given.discontinuities.len()), (400, 0), "{page_size}");
        }
    }
}

#[test]
fn who_goes_ahead_of_a_stream_that_is_dropped_ends() {
    let page = |time| SyntheticPage { time, missed: None, events: vec![(1, 1)] };
    let cpus = vec![(1..=2000).map(|at| page(at * 100)).collect()];
    let trace = Synthetic { compression: "zstd", cpus, ..Synthetic::default() };
    let trace = TraceFile::open(trace.bytes()).unwrap();
    for read in [0, 1, 700] {
        std::thread::scope(|scope| {
            let (mut stream, ahead) =
                trace.cpu_events_ahead(trace.buffer("").unwrap(), &trace.cpus()[0], 0).unwrap();
            scope.spawn(|| ahead.run());
            for _ in 0..read {
                assert!(stream.next_item().unwrap().is_some());
            }
            // Here it goes; who goes ahead has to notice, or the scope never ends.
        });
    }
}

#[test]
fn four_thousand_cpus_are_merged_in_bounded_memory() {
    let page = |time| SyntheticPage { time, missed: None, events: vec![(1, 1), (5000, 2)] };
    let cpus: Vec<_> = (0..4096).map(|cpu| vec![page(cpu), page(cpu + 10_000)]).collect();
    let trace = Synthetic { compression: "zstd", cpus, ..Synthetic::default() };
    let trace = TraceFile::open(trace.bytes()).unwrap();
    let mut merged = trace.events(trace.buffer("").unwrap()).unwrap();
    let (mut last, mut count, mut seen) = (0, 0, vec![0; 4096]);
    while let Some(item) = merged.next_item().unwrap() {
        let Item::Event(event) = item else { panic!("{item:?}") };
        assert!(event.time >= last);
        (last, count) = (event.time, count + 1);
        seen[event.cpu.0 as usize] += 1;
    }
    assert_eq!(count, 4096 * 4);
    assert!(seen.iter().all(|&events| events == 4));
    assert_eq!(merged.tallies().last().map(|(cpu, _)| *cpu), Some(Cpu(4095)));
}

#[test]
fn an_instance_that_is_not_there_is_named_with_those_that_are() {
    let trace = TraceFile::open(fixture("v6-instance.trace.dat")).unwrap();
    let error = trace.buffer("other").err().unwrap().to_string();
    assert!(error.contains("\"other\"") && error.contains("\"inst\""), "{error}");
}
