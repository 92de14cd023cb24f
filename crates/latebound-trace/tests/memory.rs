// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much memory reading takes. One test alone, since the peak is that of the whole process.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use latebound_trace::{Item, ReadAt, TraceFile};
use support::{Synthetic, SyntheticPage, big_trace};

/// `VmHWM`, the peak, or `VmRSS`, what is held now.
fn kilobytes(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':')).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Reads everything, merged, with symbols.
fn read<R: ReadAt>(source: R) -> u64 {
    let trace = TraceFile::open(source).unwrap();
    let symbols = trace.symbols().unwrap();
    let mut merged = trace.events(trace.buffer("").unwrap()).unwrap();
    let mut events = 0;
    while let Some(item) = merged.next_item().unwrap() {
        events += u64::from(matches!(item, Item::Event(_)));
    }
    assert!(!symbols.is_empty());
    events
}

#[test]
fn reading_stays_within_64_mib_for_a_million_events_and_for_4096_cpus() {
    if let Some(file) = big_trace() {
        assert_eq!(read(file), 1_051_409);
        let peak = kilobytes("VmHWM");
        assert!(peak < 64 * 1024, "{peak} kB");
    }
    let page = |time| SyntheticPage { time, missed: None, events: (0..20).map(|at| (at, 1)).collect() };
    let cpus = (0..4096).map(|cpu| (0..6).map(|at| page(cpu + at * 10_000)).collect()).collect();
    let trace = Synthetic { compression: "zstd", cpus, ..Synthetic::default() };
    // Through a file, so that the trace itself is not counted.
    let path = std::env::temp_dir().join(format!("latebound-trace-memory-{}", std::process::id()));
    std::fs::write(&path, trace.bytes()).unwrap();
    drop(trace);
    // What the allocator keeps of it would hide what reading takes.
    // SAFETY: takes a number; memory that is in use stays.
    unsafe { libc::malloc_trim(0) };
    // Writing 5 resets the peak to what is held now (proc_pid_clear_refs(5)); writing the trace took more.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = kilobytes("VmRSS");
    assert!(kilobytes("VmHWM") < before + 4096, "the peak was not reset");
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read(file), 4096 * 120);
    let taken = kilobytes("VmHWM").saturating_sub(before);
    assert!(taken < 64 * 1024, "{taken} kB");
}
