// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rule that rtsl published for its sliding window gives, beside the theorem and beside a CPU that is played
//! through instant by instant. docs/src/evidence/bound.md shows these numbers.

use latebound_analysis::bound::{Interrupt, Source, Timeline, Variables, analyse};
use latebound_model::Nanos;

/// Start and duration of the interrupts of one vector.
type Vector = Vec<(u64, u64)>;

/// rtsl's rule (github.com/bristot/rtsl, commit 5b34094), in words: of each vector the worst sum of durations whose
/// starts lie within a closed window that ends with a start; the window of a vector leaves out what the vector itself
/// has been charged with so far.
fn rtsl_sliding_window(free: u64, vectors: &[Vector]) -> u64 {
    let burst = |vector: &Vector, window: u64| {
        let until = |&(last, _): &(u64, u64)| {
            let inside = vector.iter().filter(|(start, _)| *start <= last && last - start <= window);
            inside.map(|(_, duration)| duration).sum::<u64>()
        };
        vector.iter().map(until).max().unwrap_or(0)
    };
    let mut window = free;
    let mut charged = Vec::new();
    for vector in vectors {
        charged.push(burst(vector, window));
        window += charged[charged.len() - 1];
    }
    loop {
        let before = window;
        for (vector, charged) in vectors.iter().zip(&mut charged) {
            let now = burst(vector, window - *charged);
            if now > *charged {
                window += now - *charged;
                *charged = now;
            }
        }
        if window == before {
            return window;
        }
    }
}

/// How long a thread that is ready at `from` needs for `free` nanoseconds of its own while interrupts come first.
fn played(free: u64, interrupts: &Vector, from: u64) -> u64 {
    let (mut now, mut left, mut pending, mut next) = (from, free, 0u64, 0);
    while left > 0 {
        while next < interrupts.len() && interrupts[next].0 <= now {
            if interrupts[next].0 >= from {
                pending += interrupts[next].1;
            }
            next += 1;
        }
        match pending {
            0 => left -= 1,
            _ => pending -= 1,
        }
        now += 1;
    }
    now - from
}

fn ours(free: u64, vectors: &[Vector]) -> u64 {
    let mut all: Vec<(u64, u64, u32)> = Vec::new();
    for (number, vector) in (0u32..).zip(vectors) {
        all.extend(vector.iter().map(|&(start, duration)| (start, duration, number)));
    }
    all.sort_unstable();
    let mut timeline = Timeline::new();
    for (start, duration, number) in all {
        let (source, start, duration) = (Source::Vector(number), Nanos(start), Nanos(duration));
        timeline.push(Interrupt { source, start, duration }).expect("a timeline in order");
    }
    let variables = Variables { poid: Nanos(free), ..Variables::default() };
    let views = analyse(&variables, &timeline).expect("a short latency");
    views.sliding_window.latency().expect("a window that converges").0
}

#[test]
fn vector_a_gives_150_by_the_published_rule_and_200_on_a_cpu() {
    let timer: Vector = (0..20).map(|i| (1000 + 120 * i, 50)).collect();
    assert_eq!(rtsl_sliding_window(100, std::slice::from_ref(&timer)), 150);
    assert_eq!(played(100, &timer, 1000), 200, "the thread runs 200 ns after it was ready");
    assert_eq!(ours(100, &[timer]), 200);
}

#[test]
fn vector_b_gives_172_by_both() {
    let timer = vec![(0, 10), (1000, 30), (1040, 12), (1090, 10), (5000, 10)];
    let device = vec![(2000, 40), (9000, 20)];
    assert_eq!(rtsl_sliding_window(80, &[timer.clone(), device.clone()]), 172);
    assert_eq!(ours(80, &[timer, device]), 172);
}

#[test]
fn the_published_rule_is_at_most_the_theorem_and_that_at_least_the_cpu() {
    // Every timer of period 1..40 and duration up to the period, against interference-free latencies up to 60.
    let mut below = 0;
    for period in 2..40 {
        for duration in 1..period {
            for free in [1, 7, 23, 60] {
                let timer: Vector = (0..4000).map(|i| (i * period, duration)).collect();
                let (published, theorem) =
                    (rtsl_sliding_window_capped(free, &timer), ours(free, std::slice::from_ref(&timer)));
                let real = played(free, &timer, 0);
                assert!(theorem >= real, "{period} {duration} {free}: {theorem} below {real}");
                assert!(published <= theorem, "{period} {duration} {free}: {published} above {theorem}");
                below += u32::from(published < real);
            }
        }
    }
    assert!(below > 500, "the published rule was below a real latency {below} times only");
}

/// The same rule for one vector on the first interrupts alone: they are periodic, so every burst begins as the first.
fn rtsl_sliding_window_capped(free: u64, timer: &Vector) -> u64 {
    let (period, duration) = (timer[1].0 - timer[0].0, timer[0].1);
    let burst = |window: u64| (window / period + 1).min(timer.len() as u64) * duration;
    let mut charged = burst(free);
    let mut window = free + charged;
    loop {
        let now = burst(window - charged);
        if now <= charged {
            return window;
        }
        window += now - charged;
        charged = now;
    }
}
