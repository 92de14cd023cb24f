// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ten million interrupts of one CPU: all seven views on one core, and folding. `cargo bench -p latebound-analysis`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use latebound_analysis::bound::{
    Fold, FoldLimits, Interrupt, Source, Timeline, Variables, ViewKind, analyse,
};
use latebound_model::Nanos;

const COUNT: u64 = 10_000_000;
const SOURCES: u64 = 12;

/// Interrupts with bursts, in random order of sources, that take `load` per mille of the time.
fn stream(load: u64) -> impl Iterator<Item = Interrupt> {
    let (mut state, mut at) = (0x2545_f491_4f6c_dd1d_u64, 0);
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    (0..COUNT).map(move |_| {
        let duration = 500 + next(4_000);
        at += if next(8) == 0 { 200 + next(2_000) } else { 1 + next(2 * 2_500 * 8_000 / (7 * load)) };
        let source = match next(SOURCES) {
            0 => Source::Nmi,
            number => Source::Vector(number as u32),
        };
        Interrupt { source, start: Nanos(at), duration: Nanos(duration) }
    })
}

/// Time that this thread had a CPU: a machine shared with others does not count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat is there");
    let on_cpu = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    on_cpu.expect("schedstat begins with a number") as f64 / 1e9
}

fn run(name: &str, interrupts: impl Iterator<Item = Interrupt>, fold_too: bool) {
    let variables =
        Variables { poid: Nanos(56_194), dst: Nanos(45_883), paie: Nanos(5_167), psd: Nanos(48_092) };
    let all: Vec<Interrupt> = interrupts.collect();
    let begun = cpu_seconds();
    let mut timeline = Timeline::new();
    for &interrupt in &all {
        timeline.push(interrupt).expect("the stream is in order");
    }
    let built = cpu_seconds() - begun;
    let views = analyse(&variables, &timeline).expect("the variables are short");
    let elapsed = cpu_seconds() - begun;
    println!(
        "{name}: {} interrupts, all seven views in {:.3} s, {:.3} s of that to build the timeline",
        all.len(),
        elapsed,
        built
    );
    for (kind, view) in views.iter().filter(|(kind, _)| *kind != ViewKind::None) {
        println!("    {kind:?} {:?}", view.outcome);
    }
    if fold_too {
        let begun = cpu_seconds();
        let mut fold = Fold::new(FoldLimits::default());
        for &interrupt in &all {
            fold.push(interrupt).expect("the stream is in order");
        }
        let elapsed = cpu_seconds() - begun;
        println!(
            "    folded in {:.3} s ({:.0} ns each), {} corners kept: {:?}",
            elapsed,
            elapsed * 1e9 / all.len() as f64,
            fold.corners(),
            fold.views(&variables).expect("the variables are short").sliding_window
        );
    }
}

fn main() {
    run("one per cent", stream(10), true);
    run("thirty per cent", stream(300), true);
    // Two sources that are busy half of the time at different times: the plain iteration would take one pass over
    // everything for each of five million interrupts.
    let half = COUNT / 2;
    run(
        "near saturation",
        (0..COUNT).map(|i| Interrupt {
            source: Source::Vector(if i < half { 1 } else { 2 }),
            start: Nanos(i * 100_000),
            duration: Nanos(49_990),
        }),
        false,
    );
}
