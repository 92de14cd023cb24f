// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a saved trace of any kind: an error, or events and flaws that are counted as they are told.
//!
//! Start from the fixtures: cargo +nightly fuzz run read_trace fuzz/corpus/read_trace crates/latebound-trace/tests/fixtures
#![no_main]

use latebound_trace::{Item, PerfTrace, Record, TextTrace, TraceFile, TraceKind, for_each_event};
use libfuzzer_sys::fuzz_target;

fn read_dat(bytes: &[u8]) -> Result<(), latebound_trace::TraceError> {
    let trace = TraceFile::open(bytes)?;
    let decoder = trace.decoder()?;
    // Damaged names are an error of their own, and no reason not to read the events.
    let _ = (trace.symbols().map(|symbols| symbols.describe(1)), trace.command_lines());
    for buffer in trace.buffers() {
        for cpu in &buffer.cpus {
            let mut stream = trace.cpu_events(buffer, cpu)?;
            let (mut events, mut flaws) = (0, 0);
            stream.for_each(|item| match item {
                Item::Event(event) => {
                    events += 1;
                    if let Record::KernelStack { frames } = decoder.decode(event.data).record {
                        std::hint::black_box(frames.iter().count());
                    }
                }
                Item::Flaw(_) => flaws += 1,
            })?;
            let tally = stream.tally();
            assert_eq!(tally.events, events);
            assert!(tally.is_whole() || flaws > 0);
        }
        for_each_event(&trace, buffer, |event| drop(std::hint::black_box(event)))?;
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _ = match TraceKind::of(bytes) {
        Ok(TraceKind::TraceDat) => read_dat(bytes),
        Ok(TraceKind::PerfData) => {
            PerfTrace::open(bytes).and_then(|mut trace| trace.for_each(|_| {}).map(drop))
        }
        Ok(TraceKind::Text) => TextTrace::open(bytes).and_then(|trace| trace.for_each(|_| {}).map(drop)),
        Err(error) => Err(error),
    };
});
