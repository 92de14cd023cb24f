// SPDX-License-Identifier: MIT OR Apache-2.0
//! No reader of foreign bytes takes memory by a number that it reads: each is given what others wrote, whole and damaged, and holds at
//! most so many bytes for a byte of it, and a constant (docs/fuzzing.md has the table). One test alone, since the whole process is counted.
#![allow(missing_docs, clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use latebound_analysis::bound::{Observations, SavedOptions, observe_saved};
use latebound_analysis::{KernelFacts, Watched, explain_saved};
use latebound_system::undo;
use latebound_trace::{PerfTrace, Symbols, TextTrace, TraceFile, TraceKind, for_each_event};
use latebound_tune::Config;
use latebound_tune::simulate::Workload;

/// Counts what is held, and the most that ever was.
struct Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

fn count(change: isize) {
    let held = HELD.fetch_add(change, Relaxed) + change;
    MOST.fetch_max(held, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A reader, and what it may hold.
struct Reader {
    name: &'static str,
    read: fn(&[u8]),
    /// For each byte of the input.
    each: usize,
    /// Besides.
    base: usize,
}

const MIB: usize = 1 << 20;

const SAVED: [Reader; 3] = [
    Reader { name: "trace", read: trace, each: 64, base: 48 * MIB },
    Reader { name: "explain", read: explain, each: 512, base: 64 * MIB },
    Reader { name: "bound", read: bound, each: 512, base: 64 * MIB },
];
const IMPORT: Reader = Reader { name: "import", read: import, each: 8192, base: MIB };
const RUN: Reader = Reader { name: "run", read: run, each: 1024, base: MIB };
const OBSERVATIONS: Reader = Reader { name: "observations", read: observations, each: 512, base: MIB };
const TUNE: Reader = Reader { name: "tune", read: tune, each: 1024, base: MIB };
const SYSTEM: Reader = Reader { name: "system", read: system, each: 256, base: MIB };

fn trace(bytes: &[u8]) {
    let _ = match TraceKind::of(bytes) {
        Ok(TraceKind::TraceDat) => TraceFile::open(bytes).and_then(|trace| {
            let _ = (trace.decoder(), trace.symbols(), trace.command_lines());
            trace.buffers().iter().try_for_each(|buffer| for_each_event(&trace, buffer, drop).map(drop))
        }),
        Ok(TraceKind::PerfData) => {
            PerfTrace::open(bytes).and_then(|mut trace| trace.for_each(|_| {}).map(drop))
        }
        Ok(TraceKind::Text) => TextTrace::open(bytes).and_then(|trace| trace.for_each(|_| {}).map(drop)),
        Err(error) => Err(error),
    };
}

fn explain(bytes: &[u8]) {
    let _ = explain_saved(|| Ok(bytes), "", &Watched::RealTime, 3, &KernelFacts::default());
}

fn bound(bytes: &[u8]) {
    let saved = observe_saved(bytes, &SavedOptions::default());
    let _ = saved.map(|saved| saved.observations.views().map(drop));
}

fn import(bytes: &[u8]) {
    let _ = latebound_import::import(bytes);
}

fn run(bytes: &[u8]) {
    let _ = latebound_store::parse_run(bytes, Path::new("run.json"));
}

fn observations(bytes: &[u8]) {
    let _ = Observations::from_json(bytes).map(|observations| observations.views().map(drop));
}

fn tune(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (Config::parse(&text), serde_json::from_str::<Workload>(&text));
}

fn system(bytes: &[u8]) {
    Symbols::parse(bytes.to_vec()).describe(0xffff_ffff_8100_0100);
    undo::read_journal(&String::from_utf8_lossy(bytes));
    latebound_system::trace_point_names(bytes);
}

/// xorshift64: the same damage everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit.max(1)
    }

    /// Numbers that are too large where a size may stand, in binary and in digits; bytes of all kinds; an end too early; a part twice.
    fn damage(&mut self, whole: &[u8]) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => {
                    let size = [1_u64 << 20, 1 << 26, 1 << 31, u64::MAX >> 1][self.below(4)];
                    let little = [size.to_le_bytes(), size.to_be_bytes()][self.below(2)];
                    let wide = [4, 8][self.below(2)];
                    let end = (at + wide).min(bytes.len());
                    bytes[at..end].copy_from_slice(&little[..end - at]);
                }
                1 => {
                    let digits = (at..bytes.len()).find(|&at| bytes[at].is_ascii_digit()).unwrap_or(at);
                    bytes.splice(digits..digits, *b"4294967295");
                }
                2 => bytes[at] = self.below(256) as u8,
                3 => bytes.truncate(at.max(1)),
                _ => {
                    let end = (at + self.below(400)).min(bytes.len());
                    let part = bytes[at..end].repeat(1 + self.below(8));
                    bytes.splice(at..at, part);
                }
            }
        }
        bytes
    }
}

fn files(folder: &str, ends: &[&str]) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| ends.iter().any(|end| file.to_str().unwrap().ends_with(end)));
    files.sort();
    assert!(!files.is_empty());
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

/// Gives a reader this input, whole and damaged, and fails where it held too much.
fn hold(reader: &Reader, file: &Path, whole: &[u8], damages: u64) {
    for number in 0..=damages {
        let bytes = match number {
            0 => whole.to_vec(),
            number => Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).damage(whole),
        };
        let before = HELD.load(Relaxed);
        MOST.store(before, Relaxed);
        (reader.read)(&bytes);
        let most = (MOST.load(Relaxed) - before) as usize;
        let limit = reader.each * bytes.len() + reader.base;
        assert!(
            most <= limit,
            "{} held {most} bytes for {} bytes of {} (damage {number}), and may hold {limit}",
            reader.name,
            bytes.len(),
            file.display()
        );
    }
}

#[test]
fn no_reader_takes_memory_by_a_number_that_it_reads() {
    // Its panics are errors of the file, and caught: hundreds of them need not be printed.
    std::panic::set_hook(Box::new(|panic| {
        if !panic.location().is_some_and(|place| place.file().contains("linux-perf-")) {
            eprintln!("{panic}");
        }
    }));
    for (file, bytes) in files("latebound-trace/tests/fixtures", &[".dat", ".data", ".txt"]) {
        SAVED.iter().for_each(|reader| hold(reader, &file, &bytes, 100));
    }
    for (file, bytes) in files("latebound-import/tests/samples", &[".txt", ".json", ".xml"]) {
        hold(&IMPORT, &file, &bytes, 60);
        let Ok(runs) = latebound_import::import(&bytes) else { continue };
        for one in runs.iter().take(1) {
            hold(&RUN, &file, &serde_json::to_vec(one).unwrap(), 40);
        }
    }
    for (file, bytes) in files("latebound-trace/tests/fixtures", &["tracefs.txt", "report.txt"]) {
        let saved = observe_saved(bytes.as_slice(), &SavedOptions::default()).unwrap();
        hold(&OBSERVATIONS, &file, &saved.observations.to_json().unwrap(), 100);
    }
    hold(&TUNE, Path::new("config.toml"), Config::COMMENTED.as_bytes(), 200);
    for (file, bytes) in files("../docs", &["tune-workload.json"]) {
        hold(&TUNE, &file, &bytes, 200);
    }
    let symbols: String =
        (0..2_000).map(|at| format!("{:x} t f{at}\n", 0xffff_ffff_8100_0000_u64 + at)).collect();
    hold(&SYSTEM, Path::new("kallsyms"), symbols.as_bytes(), 100);
}
