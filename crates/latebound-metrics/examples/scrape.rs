// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long an answer takes for a machine of many CPUs that does a lot: from series to bytes, in each format. For benches/scrape-64.
//!
//!     scrape CPUS ROUNDS [TEXT]
//!
//! TEXT gets the answer with classic histograms, for a peer to make again.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench; what it prints is its result")]

use std::time::Duration;

use latebound_metrics::{Exposition, Health, Subjects, Worst, families, otlp};
use latebound_model::{Evidence, Histogram, Mechanism, Nanos, Quantity, Series, Subject};

/// Numbers that look random and are the same each time (Steele, Lea, Flood 2014: SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Between 0 and 1.
    fn uniform(&mut self) -> f64 {
        self.next() as f64 / u64::MAX as f64
    }

    /// From a normal law of mean 0 and deviation 1 (Irwin and Hall's sum of twelve).
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Latencies around some microseconds, log-normal, and one in a thousand on a tail to 50 ms.
fn histogram(numbers: &mut Numbers, values: u32) -> Histogram {
    let mut histogram = Histogram::new();
    let middle = 1_000.0 * (1.0 + 20.0 * numbers.uniform());
    for _ in 0..values {
        let value = match numbers.next() % 1_000 {
            0 => 50e6 * numbers.uniform().powi(4),
            _ => middle * (0.8 * numbers.normal()).exp(),
        };
        histogram.record(Nanos(value as u64));
    }
    histogram
}

/// What the probe gives on such a machine: the vectors, timers, and as many work functions, threads, interrupts and disks as the kernel has room
/// for (512 and 8 for each CPU).
fn observed(cpus: usize, numbers: &mut Numbers) -> Vec<Series> {
    use Quantity::{Execution, Latency};
    let met = 512 + 8 * cpus;
    let kinds: [(Mechanism, usize, &[Quantity]); 6] = [
        (Mechanism::Softirq, 10, &[Latency, Execution]),
        (Mechanism::Hrtimer, 4, &[Latency, Execution]),
        (Mechanism::HardIrq, met / 4, &[Execution]),
        (Mechanism::Work, met / 2, &[Latency, Execution]),
        (Mechanism::ThreadedIrq, met / 8, &[Latency, Execution]),
        (Mechanism::BlockRequest, met / 8, &[Latency]),
    ];
    let mut series = Vec::new();
    for (mechanism, subjects, quantities) in kinds {
        for subject in 0..subjects {
            for &quantity in quantities {
                // Few are met often.
                let values = (4_000_000 / (subject + 20)) as u32 / 4;
                let subject =
                    Subject { name: format!("{} {subject}", mechanism.word()), ..Subject::default() };
                series.push(Series::new(
                    mechanism,
                    quantity,
                    subject,
                    Evidence::Events,
                    histogram(numbers, values),
                ));
            }
        }
    }
    series
}

/// Processor time of this thread, which other programs do not lengthen as they do the time of a clock (Documentation/scheduler/sched-stats.rst).
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: usize| arguments.get(at).map_or(usual, |text| text.parse().unwrap());
    let (cpus, rounds) = (number(0, 64), number(1, 50));
    let series = observed(cpus, &mut Numbers(64));
    let mut subjects = Subjects::default();
    let health = Health { last_worst: Worst::of(&series), ..Health::default() };
    let filled: usize = series.iter().map(|series| series.histogram.buckets().count()).sum();
    let distributions = families(&series, &mut subjects, &health)[0].samples.len();
    println!(
        "{cpus} CPUs: {} series with {filled} filled buckets, {distributions} distributions in an answer",
        series.len()
    );

    let span = otlp::Span { started: 1, read: 2 };
    type Encode<'a> = &'a dyn Fn(&[latebound_metrics::Family]) -> Vec<u8>;
    let formats: [(&str, Encode<'_>); 3] = [
        ("native histograms", &|families| Exposition::Protobuf.encode(families)),
        ("classic histograms", &|families| Exposition::Text.encode(families)),
        ("OTLP", &|families| otlp::request(families, &[], "0", span)),
    ];
    for (name, encode) in formats {
        let mut bytes = 0;
        let mut times: Vec<Duration> = (0..rounds)
            .map(|_| {
                let began = processor_time();
                bytes = encode(&families(&series, &mut subjects, &health)).len();
                processor_time() - began
            })
            .collect();
        times.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{name:20} processor time: fastest of {rounds} {:7.2} ms, median {:7.2} ms, {bytes} bytes",
            ms(times[0]),
            ms(times[rounds / 2])
        );
    }
    if let Some(path) = arguments.get(2) {
        std::fs::write(path, Exposition::Text.encode(&families(&series, &mut subjects, &health))).unwrap();
    }
}
