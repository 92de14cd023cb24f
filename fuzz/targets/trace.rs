// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a saved trace of any kind: an error, or events and discontinuities that are counted as they are reported.
#![no_main]

use latebound_fuzz::within;
use latebound_trace::{
    Item, PerfTrace, TextTrace, TraceError, TraceFile, TraceKind, TraceRecord, for_each_event,
};
use libfuzzer_sys::fuzz_target;

fn read_dat(bytes: &[u8]) -> Result<(), TraceError> {
    let trace = TraceFile::open(bytes)?;
    let decoder = trace.decoder()?;
    // Damaged names are an error of their own, and no reason not to read the events.
    let _ = (trace.symbols().map(|symbols| symbols.describe(1)), trace.command_lines());
    for buffer in trace.buffers() {
        for cpu in &buffer.cpus {
            let mut stream = trace.cpu_events(buffer, cpu)?;
            let (mut events, mut discontinuities) = (0, 0);
            stream.for_each(|item| match item {
                Item::Event(event) => {
                    events += 1;
                    if let TraceRecord::KernelStack { frames } = decoder.decode(event.data).record {
                        std::hint::black_box(frames.iter().count());
                    }
                }
                Item::Discontinuity(_) => discontinuities += 1,
            })?;
            let tally = stream.tally();
            assert_eq!(tally.events, events);
            assert!(tally.is_whole() || discontinuities > 0);
        }
        for_each_event(&trace, buffer, |event| drop(std::hint::black_box(event)))?;
    }
    Ok(())
}

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    let read = || match TraceKind::of(bytes)? {
        TraceKind::TraceDat => read_dat(bytes),
        TraceKind::PerfData => PerfTrace::open(bytes)?.for_each(|_| {}).map(drop),
        TraceKind::Text => TextTrace::open(bytes)?.for_each(|_| {}).map(drop),
    };
    if let Err(error) = within(bytes, 64, 48 << 20, read) {
        assert!(!error.to_string().is_empty());
    }
});
