// SPDX-License-Identifier: MIT OR Apache-2.0
//! The module latebound_bound beside the BPF programs, in a kernel of the lab that has the events of a bound: both run the
//! same model on the same events, so both have to see the same.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on ends, and says what it saw"
)]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use latebound_abi::{BoundCpu, BoundRecord, CallerClasses, Symbol};
use latebound_lab::{Event, Job, Lab, Machine, Module, Payload};
use latebound_model::{Cpu, CpuSet};
use latebound_probe::{BoundModule, BoundProbe};

#[test]
fn live_lab_the_module_sees_the_interrupts_of_bpf_and_breaks_no_rule() {
    let written: Mutex<Vec<u8>> = Mutex::default();
    let listener = |event: Event<'_>| match event {
        Event::Stdout(bytes) | Event::Stderr(bytes) => written.lock().unwrap().extend_from_slice(bytes),
        Event::StartsAgain => written.lock().unwrap().clear(),
        Event::Note(text) => println!("{text}"),
        Event::Progress(_) => {}
    };
    let stop = AtomicBool::new(false);
    let lab = Lab::new(Lab::default_cache().unwrap(), &listener, &stop);
    let kernel = latebound_lab::obtain(&lab, &"traced:6.12-rt".parse().unwrap()).unwrap();
    let this = std::env::current_exe().unwrap();
    let words = [this.to_str().unwrap(), "--ignored", "--exact", "--nocapture", "within_the_guest"];
    let job = Job {
        machine: Machine::default(),
        payload: Payload::Command(words.map(str::to_owned).to_vec()),
        timeout: Duration::from_secs(180),
        program: None,
        interrupt: false,
        module: Some(Module::Own("latebound_bound")),
        directory: "/".into(),
    };
    let folder = tempfile::tempdir().unwrap();
    let result = latebound_lab::run(&lab, &kernel, &job, &folder.path().join("job.run"), false);
    let said = String::from_utf8_lossy(&written.into_inner().unwrap()).into_owned();
    println!("{said}");
    let outcome = result.unwrap_or_else(|failure| panic!("{}\n{said}", failure.error));
    assert_eq!(outcome.status, 0, "{said}");
    assert!(said.contains("1 passed"), "{said}");
    println!("booted in {:?}, done in {:?}", outcome.boot, outcome.total);
}

/// Interrupts by source: how many, and when they began.
type Interrupts = BTreeMap<String, Vec<u64>>;

#[derive(Default)]
struct BoundLog {
    interrupts: BTreeMap<Cpu, Interrupts>,
    windows: BTreeMap<(Cpu, String), u64>,
    wrong: Vec<String>,
}

impl BoundLog {
    fn add(&mut self, cpu: Cpu, record: BoundRecord) {
        match record {
            BoundRecord::Interrupt { source, start_ns: start, .. } => {
                self.interrupts.entry(cpu).or_default().entry(format!("{source:?}")).or_default().push(start)
            }
            BoundRecord::Window(window) => {
                let window = window.window;
                self.windows.insert((cpu, format!("{:?}", window.kind)), window.duration_ns);
            }
            other => self.wrong.push(format!("CPU {cpu}: {other:?}")),
        }
    }
}

fn callers() -> CallerClasses {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let mut symbols: Vec<(u64, &str)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let start = u64::from_str_radix(words.next()?, 16).ok()?;
            matches!(words.next()?, "t" | "T").then_some((start, words.next()?))
        })
        .collect();
    symbols.sort_unstable();
    CallerClasses::from_symbols(symbols.iter().map(|&(start, name)| Symbol { start, name })).unwrap()
}

fn is_sound(who: &str, cpu: Cpu, state: &BoundCpu) {
    let counts = state.counts();
    println!("{who}, CPU {cpu}: {counts:?}");
    assert!(counts.model.events > 10_000, "{who}, CPU {cpu}: the load was there: {counts:?}");
    assert_eq!(
        (counts.refused, counts.violations, counts.strange_flags),
        (0, 0, 0),
        "{who}, CPU {cpu}: {counts:?}"
    );
    assert_eq!(counts.model.lost, 0, "{who}, CPU {cpu}");
}

#[test]
#[ignore = "the test above runs it, in a guest that has the module"]
fn within_the_guest() {
    let callers = callers();
    let cpus: CpuSet = "0-1".parse().unwrap();
    let mut load = Command::new("hackbench")
        .args(["--groups", "1", "--loops", "1000000"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Above the load, which on a slow host keeps a reader off for so long that the rings fill. What is started above stays below.
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters live through the call; 0 is this thread.
    assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) }, 0);
    let mut module = BoundModule::start(&cpus, &callers).unwrap();
    let mut programs = BoundProbe::start(&cpus, &callers, (6, 12)).unwrap();
    let (mut by_module, mut by_programs) = (BoundLog::default(), BoundLog::default());
    let started = Instant::now();
    loop {
        let is_last = started.elapsed() >= Duration::from_secs(4);
        if is_last {
            programs.stop();
            module.stop();
        }
        for cpu in cpus.iter() {
            module.take(cpu, usize::MAX, |record| by_module.add(cpu, record));
            programs.take(cpu, usize::MAX, |record| by_programs.add(cpu, record));
        }
        if is_last {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    load.kill().unwrap();
    load.wait().unwrap();
    assert!(BoundModule::start(&cpus, &callers).is_err(), "one opener at a time");

    assert!(
        by_module.wrong.is_empty() && by_programs.wrong.is_empty(),
        "{:?}\n{:?}",
        by_module.wrong,
        by_programs.wrong
    );
    for cpu in cpus.iter() {
        is_sound("module", cpu, &module.cpu(cpu).unwrap());
        is_sound("programs", cpu, &programs.cpu(cpu).unwrap());
        for kind in ["Poid", "Psd", "Dst"] {
            let of = |seen: &BoundLog| seen.windows.get(&(cpu, kind.to_owned())).copied();
            println!(
                "CPU {cpu}: longest {kind}: module {:?} ns, programs {:?} ns",
                of(&by_module),
                of(&by_programs)
            );
            assert!(of(&by_module).is_some() && of(&by_programs).is_some(), "CPU {cpu}: no {kind}");
        }
        same_interrupts(cpu, &by_module.interrupts[&cpu], &by_programs.interrupts[&cpu]);
    }
    drop(module);
    drop(BoundModule::start(&cpus, &callers).unwrap());
}

/// While both were there, both saw as many of each; but for one at either end.
fn same_interrupts(cpu: Cpu, module: &Interrupts, programs: &Interrupts) {
    let all = || programs.values().flatten();
    let (first, last) = (*all().min().unwrap(), *all().max().unwrap());
    assert!(all().count() > 100, "CPU {cpu}: {programs:?}");
    for (source, starts) in programs {
        let there =
            module.get(source).into_iter().flatten().filter(|&&start| (first..=last).contains(&start));
        let (there, here) = (there.count(), starts.len());
        println!("CPU {cpu}: {source}: module {there}, programs {here}");
        assert!(there.abs_diff(here) <= 2, "CPU {cpu}: {source}: module {there}, programs {here}");
    }
}
