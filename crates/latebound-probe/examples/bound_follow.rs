// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows every CPU's events for a live bound and does nothing with them: what `benches/bound-live-vs-trace-cmd` measures.
//!
//!     bound_follow programs|module SECONDS
//!     bound_follow object SECONDS FILE       any BPF programs, only attached
//!
//! Says when it follows, and after so many seconds what it counted.
#![allow(clippy::print_stdout, reason = "what it says is what it is for")]

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use latebound_abi::{BoundCpu, CallerClasses, Symbol};
use latebound_model::{Cpu, CpuSet};
use latebound_probe::{BoundModule, BoundProbe};
use libbpf_rs::ObjectBuilder;

fn callers() -> Result<CallerClasses, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/kallsyms")?;
    let mut symbols: Vec<(u64, &str)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let start = u64::from_str_radix(words.next()?, 16).ok()?;
            matches!(words.next()?, "t" | "T").then_some((start, words.next()?))
        })
        .collect();
    symbols.sort_unstable();
    let symbols = symbols.into_iter().map(|(start, name)| Symbol { start, name });
    Ok(CallerClasses::from_symbols(symbols)?)
}

/// As (6, 12).
fn version() -> Result<(u32, u32), Box<dyn Error>> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err(format!("{release} is not a kernel's version").into()),
    }
}

enum Follower {
    Programs(Box<BoundProbe>),
    Module(BoundModule),
}

impl Follower {
    /// Takes a CPU's records; returns its state and how many words they were.
    fn take(&mut self, cpu: Cpu) -> (Option<BoundCpu>, usize) {
        match self {
            Follower::Programs(of) => {
                let words = of.take(cpu, usize::MAX, |_| {});
                (of.cpu(cpu), words)
            }
            Follower::Module(of) => {
                let words = of.take(cpu, usize::MAX, |_| {});
                (of.cpu(cpu), words)
            }
        }
    }
}

fn attach(file: &str, until: Instant) -> Result<(), Box<dyn Error>> {
    let object = ObjectBuilder::default().open_file(file)?.load()?;
    let links = object.progs_mut().map(|program| program.attach()).collect::<Result<Vec<_>, _>>()?;
    println!("follows {} events", links.len());
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (what, seconds, file) = match words.as_slice() {
        [what, seconds] => (what, seconds, None),
        [what, seconds, file] => (what, seconds, Some(file)),
        _ => return Err("say how and for how many seconds, for example: bound_follow module 10".into()),
    };
    let until = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    if let (Some(file), "object") = (file, what.as_str()) {
        return attach(file, until);
    }
    let cpus: CpuSet = fs::read_to_string("/sys/devices/system/cpu/online")?.trim().parse()?;
    let mut follower = match what.as_str() {
        "programs" => Follower::Programs(Box::new(BoundProbe::start(&cpus, &callers()?, version()?)?)),
        "module" => Follower::Module(BoundModule::start(&cpus, &callers()?)?),
        other => return Err(format!("{other:?} is neither programs, module, nor object with a file").into()),
    };
    println!("follows");
    let mut written = 0;
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
        for cpu in cpus.iter() {
            written += follower.take(cpu).1;
        }
    }
    for cpu in cpus.iter() {
        let state = follower.take(cpu).0.ok_or("the memory is shorter than a CPU's state")?;
        println!("CPU {cpu}: {:?}", state.counts());
    }
    println!("{written} words written");
    Ok(())
}
