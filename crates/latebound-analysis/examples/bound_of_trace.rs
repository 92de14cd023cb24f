// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a trace.dat through the thread model and prints, per CPU, the longest windows, broken rules and all views.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::fs::File;
use std::time::Instant;

use latebound_abi::{CallerClass, InterruptSource, ModelEvent, ModelEventKind, ModelWindow, Resched};
use latebound_analysis::bound::{CallerClasses, CpuObserver, Source, analyse};
use latebound_trace::{Decoder, Item, Record, Symbols, TraceFile, VectorId};

fn vector(vector: VectorId, number: Option<u32>) -> InterruptSource {
    // Inter-processor interrupts of arm64 have names and no numbers.
    InterruptSource::Vector(number.unwrap_or(0x1_0000 + u32::from(vector.0)))
}

fn observe(
    item: Item<'_>,
    decoder: &Decoder,
    symbols: &Symbols,
    classes: &CallerClasses,
    observer: &mut CpuObserver,
) {
    let event = match item {
        Item::Event(event) => event,
        Item::Flaw(flaw) => {
            let lost = ModelEvent {
                at: flaw.after.unwrap_or(0),
                tid: -1,
                caller: 0,
                class: CallerClass::Postpones,
                resched: Resched::Unknown,
                kind: ModelEventKind::Lost,
            };
            observer.observe(&lost);
            return;
        }
    };
    let decoded = decoder.decode(event.data);
    let address = |offset| symbols.address(offset).unwrap_or(0);
    let (caller, class, kind) = match decoded.record {
        Record::PreemptDisable { caller, .. } => {
            let caller = address(caller);
            (caller, classes.preempt(caller), ModelEventKind::PreemptDisable)
        }
        Record::PreemptEnable { caller, .. } => {
            let caller = address(caller);
            (caller, classes.preempt(caller), ModelEventKind::PreemptEnable)
        }
        Record::IrqDisable { caller, parent } => {
            let caller = address(caller);
            (caller, classes.irq_off(caller, address(parent)), ModelEventKind::IrqDisable)
        }
        Record::IrqEnable { caller, .. } => {
            let caller = address(caller);
            (caller, classes.irq_on(caller), ModelEventKind::IrqEnable)
        }
        Record::VectorEntry { vector: id, number } => {
            let source = vector(id, number);
            observer.name(source.into(), decoder.vector_name(id));
            (0, CallerClass::Postpones, ModelEventKind::HandlerEntry(source))
        }
        Record::VectorExit { vector: id, number } => {
            (0, CallerClass::Postpones, ModelEventKind::HandlerExit(vector(id, number)))
        }
        Record::IrqHandlerEntry { irq, name } => {
            observer.name(Source::Device(irq), &name.to_string());
            (0, CallerClass::Postpones, ModelEventKind::HandlerEntry(InterruptSource::Device(irq)))
        }
        Record::IrqHandlerExit { irq, .. } => {
            (0, CallerClass::Postpones, ModelEventKind::HandlerExit(InterruptSource::Device(irq)))
        }
        Record::Nmi { duration_ns, .. } => {
            (0, CallerClass::Postpones, ModelEventKind::Nmi(u64::try_from(duration_ns).unwrap_or(0)))
        }
        Record::Switch { next, .. } => (0, CallerClass::Postpones, ModelEventKind::Switch(next.tid.0)),
        Record::Waking { task, .. } => (0, CallerClass::Postpones, ModelEventKind::Waking(task.tid.0)),
        _ => return,
    };
    let resched = if decoded.flags.need_resched() { Resched::GiveWay } else { Resched::Stay };
    observer.observe(&ModelEvent { at: event.time, tid: decoded.tid.0, caller, class, resched, kind });
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: bound_of_trace FILE")?;
    let begun = Instant::now();
    let trace = TraceFile::open(File::open(path)?)?;
    let (decoder, symbols, threads) = (trace.decoder()?, trace.symbols()?, trace.command_lines()?);
    let classes = CallerClasses::from_ranges(|wanted| symbols.ranges(wanted))?;
    let buffer = trace.buffer("")?;
    for cpu in &buffer.cpus {
        let mut observer = CpuObserver::new(cpu.cpu, false);
        let mut stream = trace.cpu_events(buffer, cpu)?;
        stream.for_each(|item| observe(item, &decoder, &symbols, &classes, &mut observer))?;
        println!("CPU {}: {} windows, {:?}", cpu.cpu, observer.windows(), observer.counts());
        let show = |name: &str, window: Option<ModelWindow>| match window {
            None => println!("  {name:4}  none"),
            Some(w) => println!(
                "  {name:4} {:>9} ns at {}.{:09}  {} ({}) from {}, to {} by {} ({})",
                w.duration,
                w.start / 1_000_000_000,
                w.start % 1_000_000_000,
                w.begin_tid,
                threads.name(latebound_model::Tid(w.begin_tid)).unwrap_or("?"),
                symbols.describe(w.begin_caller),
                symbols.describe(w.end_caller),
                w.end_tid,
                threads.name(latebound_model::Tid(w.end_tid)).unwrap_or("?"),
            ),
        };
        let longest = observer.longest();
        show("poid", longest.poid);
        show("psd", longest.psd);
        show("dst", longest.dst);
        show("paie", longest.paie);
        let variables = longest.variables();
        println!("  interference-free {}", variables.interference_free()?);
        for (kind, view) in analyse(&variables, observer.timeline())?.iter() {
            println!("  {kind:?}: {:?}", view.outcome);
            for w in &view.witness {
                println!(
                    "      {}: {} of {} in {}.{:09} + {}",
                    w.source.map_or_else(|| "all".to_owned(), |source| source.to_string()),
                    w.demand,
                    w.count,
                    w.start.0 / 1_000_000_000,
                    w.start.0 % 1_000_000_000,
                    w.end - w.start
                );
            }
        }
        for problem in observer.problems() {
            println!("  {problem}");
        }
        for broken in observer.broken() {
            println!("  {}", broken.rule.sentence());
            for event in &broken.events {
                println!(
                    "      {} tid {} {:?} {} {:?}",
                    event.at,
                    event.tid,
                    event.kind,
                    symbols.describe(event.caller),
                    event.class
                );
            }
        }
    }
    println!("in {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
