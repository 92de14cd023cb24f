// SPDX-License-Identifier: MIT OR Apache-2.0
//! No reader of foreign bytes takes memory by a number that it reads: each is given what others wrote, whole and damaged, and holds at
//! most so many bytes for a byte of it, and a constant (docs/src/reference/fuzzing.md has the table). One test alone, since the whole process is counted.
#![allow(missing_docs, clippy::unwrap_used)]

mod counting;
#[path = "../../latebound-lab/src/parsing.rs"]
mod parsing;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use counting::Counting;
use latebound_analysis::KernelFacts;
use latebound_analysis::bound::Observations;
use latebound_compare::experiment::Plan;
use latebound_saved::{SavedOptions, Watched, explain_saved, observe_saved};
use latebound_system::undo;
use latebound_trace::{PerfTrace, Symbols, TextTrace, TraceFile, TraceKind, for_each_event};
use latebound_tune::Config;
use latebound_tune::simulate::Workload;
use parsing::ImageHeader;

static HELD: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

fn count(change: isize) {
    let held = HELD.fetch_add(change, Relaxed) + change;
    MOST.fetch_max(held, Relaxed);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(count);

/// A reader, and what it may hold.
struct Reader {
    name: &'static str,
    read: fn(&[u8]),
    /// For each byte of the input.
    each: usize,
    /// Besides.
    base: usize,
    /// What it held of all that it was given.
    held: Mutex<MemoryPeak>,
}

/// The most that a reader held.
#[derive(Default)]
struct MemoryPeak {
    inputs: u32,
    bytes: usize,
    /// For each byte of an input of [`NOT_SMALL`] bytes or more.
    each: f64,
    /// Of what it may hold for that input.
    share: f64,
}

/// Of a shorter input the constant part is most of what is held.
const NOT_SMALL: usize = 4096;

impl Reader {
    const fn new(name: &'static str, read: fn(&[u8]), each: usize, base: usize) -> Reader {
        let held = Mutex::new(MemoryPeak { inputs: 0, bytes: 0, each: 0.0, share: 0.0 });
        Reader { name, read, each, base, held }
    }
}

const MIB: usize = 1 << 20;

static SAVED: [Reader; 3] = [
    Reader::new("trace", trace, 64, 48 * MIB),
    Reader::new("explain", explain, 512, 64 * MIB),
    Reader::new("bound", bound, 512, 64 * MIB),
];
static IMPORT: Reader = Reader::new("import", import, 8192, MIB);
static RUN: Reader = Reader::new("run", run, 1024, MIB);
static OBSERVATIONS: Reader = Reader::new("observations", observations, 512, MIB);
static TUNE: Reader = Reader::new("tune", tune, 1024, MIB);
static SYSTEM: Reader = Reader::new("system", system, 256, MIB);

static EXPERIMENT: Reader = Reader::new("experiment", experiment, 1024, MIB);
static LAB: Reader = Reader::new("lab", lab, 256, MIB);

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
    let _ = explain_saved(
        || Ok(bytes),
        "",
        &Watched::RealTime,
        &latebound_analysis::cycle::CycleChoice::Recognised,
        3,
        &KernelFacts::default(),
    );
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

fn experiment(bytes: &[u8]) {
    let _ = Plan::parse(bytes);
}

fn lab(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk().and_then(|header| ImageHeader::parse(*header)) {
        let _ = (header.release(), header.payload());
    }
    let _ = parsing::release(bytes);
    let text = String::from_utf8_lossy(bytes);
    let names: Vec<String> = text.lines().map(str::to_owned).collect();
    let _ = (parsing::choose_image(&names, "6.12", true, "amd64"), parsing::series(&names, false, "amd64"));
    let _ = (parsing::newest_images(&names, "amd64"), parsing::depends(&text), parsing::candidate(&text));
    let _ = (
        parsing::mirror(&text, "Debian"),
        parsing::named_compiler(&text),
        parsing::without_line(&text, "x=y"),
    );
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
        let mut held = reader.held.lock().unwrap();
        held.inputs += 1;
        held.bytes = held.bytes.max(most);
        if bytes.len() >= NOT_SMALL {
            held.each = held.each.max(most as f64 / bytes.len() as f64);
        }
        held.share = held.share.max(most as f64 / limit as f64);
        drop(held);
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
    let mut observed = 0;
    for (file, bytes) in files("latebound-trace/tests/fixtures", &["tracefs.txt", "report.txt"]) {
        // A trace for jobs has no events of preemption, and gives no observations.
        let Ok(saved) = observe_saved(bytes.as_slice(), &SavedOptions::default()) else { continue };
        hold(&OBSERVATIONS, &file, &saved.observations.to_json().unwrap(), 100);
        observed += 1;
    }
    assert!(observed >= 2, "{observed} fixtures gave observations");
    hold(&TUNE, Path::new("config.toml"), Config::COMMENTED.as_bytes(), 200);
    for (file, bytes) in files("../docs/src/reference", &["tune-workload.json"]) {
        hold(&TUNE, &file, &bytes, 200);
    }
    let symbols: String =
        (0..2_000).map(|at| format!("{:x} t f{at}\n", 0xffff_ffff_8100_0000_u64 + at)).collect();
    hold(&SYSTEM, Path::new("kallsyms"), symbols.as_bytes(), 100);
    let names: Vec<String> = (0..400).map(|name| format!("\"ipc:groups={name}\"")).collect();
    let plan = format!(
        r#"{{"schema":"latebound.experiment/1","systems":["none","full"],"workloads":[{}],
        "runs":6,"duration":1000000,"period":1000,"machine":null}}"#,
        names.join(",")
    );
    Plan::parse(plan.as_bytes()).unwrap();
    hold(&EXPERIMENT, Path::new("experiment.json"), plan.as_bytes(), 200);
    let packages: String = (0..400).map(|at| format!("linux-image-6.12.{at}+deb12-amd64\n")).collect();
    hold(&LAB, Path::new("pkgnames"), packages.as_bytes(), 200);
    let mut image = vec![0; 4096];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    hold(&LAB, Path::new("vmlinuz"), &image, 200);

    eprintln!("{:12} {:>7} {:>12} {:>10} {:>14}", "reader", "inputs", "most bytes", "a byte", "of its limit");
    for reader in SAVED.iter().chain([&IMPORT, &RUN, &OBSERVATIONS, &TUNE, &SYSTEM, &EXPERIMENT, &LAB]) {
        let held = reader.held.lock().unwrap();
        assert!(held.inputs > 0 && held.each > 0.0, "{} was given nothing", reader.name);
        eprintln!(
            "{:12} {:>7} {:>12} {:>10.1} {:>12.1} %",
            reader.name,
            held.inputs,
            held.bytes,
            held.each,
            100.0 * held.share
        );
    }
}
