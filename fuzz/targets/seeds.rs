// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the seeds of each target into a folder for each: what the crates' tests read, and small traces made here.
//!
//!     seeds FOLDER
//!
//! It is built like a target, because all that it links has the fuzzer's counters in it, and ends before the first input.
#![no_main]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/latebound-store/tests/common/mod.rs"]
mod runs;
#[path = "../../crates/latebound-trace/tests/support/mod.rs"]
mod traces;

use latebound_fleet::RunStream;
use latebound_model::Run;
use latebound_saved::{SavedOptions, observe_saved};
use latebound_tune::Config;
use traces::{SYNTHETIC_SYMBOLS, Synthetic, SyntheticPage};

/// A result of [`write`] and of what it calls.
type Done<T> = Result<T, Box<dyn std::error::Error>>;

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates");

/// A target's folder of seeds.
struct Seeds {
    folder: PathBuf,
}

impl Seeds {
    fn of(target: &str, root: &Path) -> io::Result<Seeds> {
        let folder = root.join(target);
        fs::create_dir_all(&folder)?;
        Ok(Seeds { folder })
    }

    fn add(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        fs::write(self.folder.join(name), bytes)
    }

    /// The files of a crate's folder whose names end like this.
    fn files(&self, folder: &str, end: &str) -> io::Result<()> {
        for file in fs::read_dir(format!("{CRATES}/{folder}"))? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            if name.ends_with(end) && file.file_type()?.is_file() {
                self.add(&name, &fs::read(file.path())?)?;
            }
        }
        Ok(())
    }
}

fuzz_target!(init: write_and_end(), |_bytes: &[u8]| {});

fn write_and_end() {
    let written = write();
    if let Err(error) = &written {
        eprintln!("seeds: {error}");
    }
    std::process::exit(i32::from(written.is_err()));
}

fn write() -> Done<()> {
    let root = std::env::args_os().nth(1).map(PathBuf::from).ok_or("which folder? Type: seeds FOLDER")?;
    for target in ["trace", "explain"] {
        saved_traces(&Seeds::of(target, &root)?)?;
    }
    let samples = Seeds::of("import", &root)?;
    for end in [".txt", ".json", ".xml"] {
        samples.files("latebound-import/tests/samples", end)?;
    }
    sent(&Seeds::of("stream", &root)?)?;
    measured(&samples, &Seeds::of("run", &root)?, &Seeds::of("compare", &root)?)?;
    observed(&Seeds::of("observations", &root)?)?;
    let tune = Seeds::of("tune", &root)?;
    tune.add("workload.json", &fs::read(format!("{CRATES}/../docs/src/reference/tune-workload.json"))?)?;
    tune.add("config.toml", Config::COMMENTED.as_bytes())?;
    live_pages(&Seeds::of("pages", &root)?)?;
    told_by_the_system(&Seeds::of("system", &root)?)?;
    told_to_the_lab(&Seeds::of("lab", &root)?)?;
    Ok(())
}

/// The events of a saved trace as pages of a ring buffer (kernel/trace/ring_buffer.c, struct buffer_data_page): each CPU's in a seed.
fn live_pages(seeds: &Seeds) -> Done<()> {
    let trace = fs::read(format!("{CRATES}/latebound-trace/tests/fixtures/jobs.trace.dat"))?;
    let trace = latebound_trace::TraceFile::open(trace.as_slice())?;
    let buffer = trace.buffer("")?;
    let (mut pages, mut entries, mut begin, mut last) = (Vec::new(), Vec::new(), 0u64, 0u64);
    let mut full = |begin: u64, entries: &mut Vec<u8>| {
        let mut page =
            [&begin.to_le_bytes()[..], &(entries.len() as u64).to_le_bytes(), entries.as_slice()].concat();
        page.resize(4096, 0);
        pages.extend(page);
        entries.clear();
    };
    let mut stream = trace.events(buffer)?;
    while let Some(item) = stream.next_item()? {
        let latebound_trace::Item::Event(event) = item else { continue };
        let (length, data) = (event.data.len().next_multiple_of(4), event.data);
        if entries.len() + length + 8 > 4080 || (event.time - last) >> 27 != 0 {
            if !entries.is_empty() {
                full(begin, &mut entries);
            }
            (begin, last) = (event.time, event.time);
        }
        if entries.is_empty() {
            (begin, last) = (event.time, event.time);
        }
        entries.extend((((event.time - last) as u32) << 5).to_le_bytes());
        entries.extend((length as u32 + 4).to_le_bytes());
        entries.extend(data);
        entries.resize(entries.len().next_multiple_of(4), 0);
        last = event.time;
    }
    full(begin, &mut entries);
    for (number, part) in pages.chunks(8 * 4096).take(6).enumerate() {
        seeds.add(&format!("jobs-{number}"), part)?;
    }
    Ok(())
}

/// Runs of our own and of what other tools wrote, and pairs of each.
fn measured(samples: &Seeds, seeds: &Seeds, pairs: &Seeds) -> Done<()> {
    let own: Vec<Run> = (1..=4).map(runs::sample_run).collect();
    let mut texts = own.iter().map(serde_json::to_vec).collect::<Result<Vec<_>, _>>()?;
    pairs.add("own", &texts.join(&0x1e))?;
    for file in fs::read_dir(&samples.folder)? {
        let file = file?;
        let bytes = fs::read(file.path())?;
        let name = file.file_name().to_string_lossy().into_owned();
        if let Ok(run) = latebound_import::import(&bytes).map(|mut runs| runs.remove(0)) {
            texts.push(serde_json::to_vec(&run)?);
            pairs.add(&name, &[bytes.as_slice(), &bytes].join(&0x1e))?;
        }
    }
    for (text, number) in texts.iter().zip(1..) {
        seeds.add(&format!("run-{number}.json"), text)?;
    }
    Ok(())
}

/// Runs as one machine sends them to another: none, one, and several with the same one twice.
fn sent(seeds: &Seeds) -> Done<()> {
    for (name, generations) in [("none", &[][..]), ("one", &[1]), ("several", &[1, 2, 1])] {
        let mut stream = RunStream::default();
        for &generation in generations {
            stream.push(&runs::sample_run(generation), &format!("{generation}.run"), Some("rt-07"))?;
        }
        seeds.add(name, &stream.finish())?;
    }
    Ok(())
}

/// What the fixtures show, as documents.
fn observed(seeds: &Seeds) -> Done<()> {
    for name in ["tracefs.txt", "v7-zstd.report.txt"] {
        let text = fs::read(format!("{CRATES}/latebound-trace/tests/fixtures/{name}"))?;
        let saved = observe_saved(text.as_slice(), &SavedOptions::default())?;
        seeds.add(name, &saved.observations.to_json()?)?;
    }
    let small = r#"{"schema":"latebound.observations/1","cpus":[{"cpu":3,"poid_ns":30,"psd_ns":40,"dst_ns":20,"paie_ns":10,"interrupts":[
{"kind":"irq","vector":236,"name":"local_timer","start_ns":0,"duration_ns":10},{"kind":"irq","vector":33,"start_ns":2000,"duration_ns":40},
{"kind":"nmi","start_ns":2500,"duration_ns":40}]}]}"#;
    seeds.add("small.json", small.as_bytes())?;
    Ok(())
}

/// Symbols, type information, a journal, and texts of the command line.
fn told_by_the_system(seeds: &Seeds) -> io::Result<()> {
    seeds.add("kallsyms", SYNTHETIC_SYMBOLS.as_bytes())?;
    seeds.add("kallsyms-roles", b"ffffffff81000000 T _stext\nffffffff81000100 t __schedule\nffffffff81000180 T preempt_schedule_irq\n\
        ffffffff81000200 T schedule\nffffffffa0000010 t probe\t[module]\n")?;
    seeds.add(
        "btf",
        b"\x9f\xeb\x01\0\x18\0\0\0\0btf_trace_sched_switch\0x\0btf_trace_irq_disable\0btf_trace_cut",
    )?;
    seeds.add("journal", b"latebound-undo-2 b00-7 4026531836 77 1234\nthread 9 55 0 0 0 0 0 0 0 1 0 0 50 0 0 0\nraises 9 55 0 0 0 0 0 0 0 60\n")?;
    seeds.add("cpus", b"0-3,6")?;
    seeds.add("duration", b"200.5us")?;
    seeds.add("gate", b"timer.p99.9 worse by 10%")
}

/// An image, answers of apt, consoles and plans.
fn told_to_the_lab(seeds: &Seeds) -> io::Result<()> {
    let mut image = vec![0; 0x268];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
    image[0x20e..0x210].copy_from_slice(&0x68_u16.to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&8_u32.to_le_bytes());
    image.extend_from_slice(b"6.12.117+deb12-amd64 (x) #1\0");
    seeds.add("image", &image)?;
    seeds.add(
        "names",
        b"linux-image-6.1.0-9-amd64\nlinux-image-6.12.117+deb12-amd64\nlinux-image-6.12.9-rt-amd64\nlinux-image-6.12-amd64\n",
    )?;
    seeds.add("policy", b"linux-image-6.1:\n  Installed: (none)\n  Candidate: 6.1.1-1~deb12u1\n")?;
    seeds.add("depends", b"linux-image-6.1\n  Depends: linux-base-6.1\n  Depends: kmod\n")?;
    seeds.add("mirrors", b"Debian-Security http://a/\nDebian http://b/\n")?;
    seeds.add("variables", b"override ARCH = x86\nCC = $(CCACHE) $(CROSS_COMPILE)gcc-14\n")?;
    seeds.files("latebound-lab/tests/consoles", ".log")?;
    seeds.add("plan.json", br#"{"schema":"latebound.experiment/1","systems":["none","full"],"workloads":["ipc","tcp:size=14,mode=stream+cpu:threads=2"],
"runs":2,"duration":1000000,"period":1000,"machine":null}"#)?;
    seeds.add("plan-lab.json", br#"{"schema":"latebound.experiment/1","systems":["debian:6.12@none","traced:6.12-rt"],"workloads":["rt-hog:period=2ms"],
"runs":6,"duration":1000000,"period":1000,"machine":{"clock":"instructions:8ns","cpus":1,"memory_mib":1024,"append":["quiet"],"emulate":true,"timeout":600000000000}}"#)
}

/// Whole traces of each kind, and small ones: most of what is tried in a second is small.
fn saved_traces(seeds: &Seeds) -> io::Result<()> {
    for end in [".dat", ".data", ".txt"] {
        seeds.files("latebound-trace/tests/fixtures", end)?;
    }
    for name in ["tracefs.txt", "v7-zstd.report.txt", "v7-zstd.latency.txt", "sched.perf.txt"] {
        let text = fs::read_to_string(format!("{CRATES}/latebound-trace/tests/fixtures/{name}"))?;
        let first: String = text.split_inclusive('\n').take(30).collect();
        seeds.add(&format!("short-{name}"), first.as_bytes())?;
    }
    let page =
        |time, missed| SyntheticPage { time, missed, events: vec![(3, 0x100), (1 << 28, -5), (7, 0x200)] };
    for (version, big_endian, long, compression) in [
        (7, false, 8, "none"),
        (7, true, 4, "none"),
        (7, false, 8, "zstd"),
        (7, false, 4, "zlib"),
        (6, false, 8, "none"),
        (6, true, 8, "none"),
    ] {
        let cpus = vec![vec![page(100, None), page(1 << 29, Some(Some(9)))], vec![page(50, Some(None))]];
        let trace = Synthetic { version, big_endian, long, compression, page_size: 256, clock: "mono", cpus };
        seeds.add(&format!("made-{version}-{big_endian}-{long}-{compression}"), &trace.bytes())?;
    }
    Ok(())
}
