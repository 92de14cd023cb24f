// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thousand Runs of 64 CPUs, from files to the finished comparison: how long it takes and how much memory.
//!
//!     cargo run --release -p latebound-compare --example thousand_runs -- FOLDER 1000 64 make
//!     cargo run --release -p latebound-compare --example thousand_runs -- FOLDER 1000 64
//!
//! Runs are made first, by a process of their own, so that what making them takes is not counted: each CPU with both distributions of
//! 30 000 wake-ups and their block maxima, as `measure --duration 30s` writes them.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends where it cannot go on"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use latebound_compare::{Options, Side, compare};
use latebound_model::{
    BlockMaxima, Cpu, Evidence, Histogram, Mechanism, Nanos, Quantity, Run, RunState, RunVerb, Series,
    Subject,
};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, runs, cpus, make @ ..] = words.as_slice() else { panic!("give FOLDER RUNS CPUS [make]") };
    let (folder, runs, cpus) =
        (Path::new(folder), runs.parse::<u64>().unwrap(), cpus.parse::<u32>().unwrap());
    let file = |at: u64| -> PathBuf { folder.join(format!("{at}.json")) };
    if !make.is_empty() {
        fs::create_dir_all(folder).unwrap();
        (0..runs).for_each(|at| fs::write(file(at), serde_json::to_vec(&run(at, cpus)).unwrap()).unwrap());
        return;
    }
    let bytes: u64 = (0..runs).map(|at| fs::metadata(file(at)).unwrap().len()).sum();
    let begun = Instant::now();
    let mut sides = ["base", "new"].map(Side::new);
    for at in 0..runs {
        let run: Run = serde_json::from_slice(&fs::read(file(at)).unwrap()).unwrap();
        sides[(at % 2) as usize].add(&run, &file(at).display().to_string());
    }
    let read = begun.elapsed();
    let [base, new] = sides;
    let comparison =
        compare(&base, &[new], &Options { level: 0.05, margin: 0.05, least_effect: 0.01, seed: 1 });
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
    println!(
        "{runs} Runs of {cpus} CPUs ({} MiB of run.json): read in {:.2} s, compared in {:.2} s, peak memory {peak}, {} numbers compared",
        bytes >> 20,
        read.as_secs_f64(),
        (begun.elapsed() - read).as_secs_f64(),
        comparison.against[0].measures.len()
    );
}

fn run(seed: u64, cpus: u32) -> Run {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move || {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let mut series = Vec::new();
    for cpu in 0..cpus {
        let (mut histogram, mut maxima) = (Histogram::new(), Vec::new());
        for _ in 0..30 {
            let mut max = 0;
            for _ in 0..1000 {
                // A heavy tail over a body with some width: about as many filled buckets as a real Run under load has.
                let value = (20_000.0 * (1.0 + random()) * random().powf(-0.25).min(500.0)) as u64;
                histogram.record(Nanos(value));
                max = max.max(value);
            }
            maxima.push(Some(Nanos(max)));
        }
        for quantity in [Quantity::Latency, Quantity::LatencyNaive] {
            let subject = Subject { name: "measure".to_owned(), task: None, cpu: Some(Cpu(cpu)) };
            let mut one =
                Series::new(Mechanism::TimerWakeup, quantity, subject, Evidence::User, histogram.clone());
            one.block_maxima =
                Some(BlockMaxima { block: Nanos::from_secs(1), start: Nanos::ZERO, maxima: maxima.clone() });
            series.push(one);
        }
    }
    Run {
        state: RunState::Complete,
        started_at: format!("2026-01-01T{:02}:{:02}:{:02}Z", seed / 3600, seed / 60 % 60, seed % 60),
        duration: Nanos::from_secs(30),
        series,
        ..Run::new(RunVerb::Measure, "latebound", "0")
    }
}
