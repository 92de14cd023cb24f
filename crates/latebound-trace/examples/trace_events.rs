// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a whole trace.dat, typed, and says how many events it has, how long that took and what memory it took.
//!
//! `benches/trace-vs-trace-cmd` times it beside `trace-cmd report`; `--symbols` loads the symbols too, `--merged`
//! reads all CPUs in one stream by time, otherwise each CPU is read by a thread of its own.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::time::Instant;

use latebound_trace::{Decoder, Item, Tally, TraceFile, TraceRecord};

/// What reading left behind: a sum over typed values, so that no part of the work can be left out.
#[derive(Default)]
struct EventTotals {
    by_event: Vec<u64>,
    sum: u64,
    tally: Tally,
}

fn take(decoder: &Decoder, counted: &mut EventTotals, item: Item<'_>) {
    let Item::Event(event) = item else { return };
    let decoded = decoder.decode(event.data);
    let id = usize::from(decoded.id);
    if counted.by_event.len() <= id {
        counted.by_event.resize(id + 1, 0);
    }
    counted.by_event[id] += 1;
    let value = match decoded.record {
        TraceRecord::PreemptDisable { caller, parent } | TraceRecord::PreemptEnable { caller, parent } => {
            caller.0 as u64 ^ parent.0 as u64
        }
        TraceRecord::IrqDisable { caller, parent } | TraceRecord::IrqEnable { caller, parent } => {
            caller.0 as u64 ^ parent.0 as u64
        }
        TraceRecord::Switch { prev, prev_state, next } => {
            prev.tid.0 as u64 ^ prev.prio as u64 ^ prev_state ^ next.tid.0 as u64 ^ next.prio as u64
        }
        TraceRecord::Waking { task, target_cpu } | TraceRecord::Wakeup { task, target_cpu } => {
            task.tid.0 as u64 ^ task.prio as u64 ^ u64::from(target_cpu)
        }
        TraceRecord::VectorEntry { vector, number } | TraceRecord::VectorExit { vector, number } => {
            u64::from(vector.0) ^ u64::from(number.unwrap_or(0))
        }
        _ => 1,
    };
    counted.sum =
        counted.sum.wrapping_add(event.time ^ value ^ decoded.tid.0 as u64 ^ u64::from(decoded.flags.0));
}

fn cpu_seconds() -> f64 {
    // SAFETY: getrusage writes the whole structure that it is given a valid pointer to.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The most memory that this program had, in kilobytes; counted from its own start, unlike `ru_maxrss`.
fn peak_kilobytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let (options, files): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let [file] = files.as_slice() else {
        return Err("usage: trace_events [--merged] [--symbols] [--quiet] FILE".into());
    };
    let has = |option: &str| options.iter().any(|word| word == option);
    let begun = Instant::now();
    let trace = TraceFile::open(File::open(file)?)?;
    let decoder = trace.decoder()?;
    let symbols = has("--symbols").then(|| trace.symbols()).transpose()?;
    let opened = begun.elapsed();
    let buffer = trace.buffer("")?;
    let mut per_cpu = Vec::new();
    if has("--merged") {
        let mut counted = EventTotals::default();
        let mut stream = trace.events(buffer)?;
        while let Some(item) = stream.next_item()? {
            take(&decoder, &mut counted, item);
        }
        for (_, tally) in stream.tallies() {
            counted.tally.events += tally.events;
        }
        per_cpu.push(("all".to_owned(), counted));
    } else {
        per_cpu = std::thread::scope(|scope| {
            let (trace, decoder) = (&trace, &decoder);
            let read = |cpu| {
                move || {
                    let mut counted = EventTotals::default();
                    let mut stream = trace.cpu_events(buffer, cpu)?;
                    stream.for_each(|item| take(decoder, &mut counted, item))?;
                    counted.tally = stream.tally();
                    Ok((cpu.cpu.to_string(), counted))
                }
            };
            let threads: Vec<_> = buffer.cpus.iter().map(|cpu| scope.spawn(read(cpu))).collect();
            let joined =
                threads.into_iter().map(|thread| thread.join().map_err(|_| "a reading thread ended")?);
            joined.collect::<Result<Vec<_>, Box<dyn Error + Send + Sync>>>()
        })
        .map_err(|error| error.to_string())?;
    }
    let elapsed = begun.elapsed();
    let events: u64 = per_cpu.iter().map(|(_, counted)| counted.tally.events).sum();
    if !has("--quiet") {
        for (cpu, counted) in &per_cpu {
            println!("cpu {cpu}: {:?}, sum {:016x}", counted.tally, counted.sum);
            let name = |id: usize| match u16::try_from(id).ok().and_then(|id| trace.formats().by_id(id)) {
                Some(format) => format!("{}:{}", format.system, format.name),
                None => format!("event {id}"),
            };
            let counts: BTreeMap<_, _> = counted
                .by_event
                .iter()
                .enumerate()
                .filter(|(_, n)| **n > 0)
                .map(|(id, n)| (name(id), n))
                .collect();
            for (name, count) in counts {
                println!("  {count:>9} {name}");
            }
        }
    }
    if let Some(symbols) = symbols {
        println!("{} functions", symbols.len());
    }
    println!(
        "{events} events in {:.1} ms (opened after {:.1} ms), {:.1} ms of CPU time, {:.1} million events a second, peak {} kB",
        elapsed.as_secs_f64() * 1e3,
        opened.as_secs_f64() * 1e3,
        cpu_seconds() * 1e3,
        events as f64 / elapsed.as_secs_f64() / 1e6,
        peak_kilobytes().map_or_else(|| "unknown".to_owned(), |kilobytes| kilobytes.to_string())
    );
    Ok(())
}
