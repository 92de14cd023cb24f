// SPDX-License-Identifier: MIT OR Apache-2.0
//! A day of the service, without its kernel and its clocks: what it holds does not grow.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on panics; its figures are printed"
)]

use std::cell::{Cell, RefCell};
use std::process::Command;
use std::sync::atomic::{AtomicIsize, Ordering};

use clap::Parser;
use latebound_model::{
    Cpu, Evidence, Histogram, LossKind, Mechanism, Quantity, RunVerb, Subject, Summary, Task,
};
use latebound_store::{Spool, SpoolReader};

use super::*;
use crate::cli::{Cli, Verb};
use crate::output::Output;
use crate::session;

#[path = "../../../tests/counting/mod.rs"]
mod counting;

/// Bytes that are allocated now, by all threads.
static HELD: AtomicIsize = AtomicIsize::new(0);

fn count(by: isize) {
    HELD.fetch_add(by, Ordering::Relaxed);
}

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting(count);

/// Says to the test that it is alone in its process.
const ALONE: &str = "LATEBOUND_SERVE_DAY";
const NAME: &str = "verbs::serve::service::day_tests::a_day_of_intervals_takes_no_more_than_its_first_hours";
const MINUTES: u64 = 24 * 60;
/// From here on nothing may grow: every bucket that is met was met.
const SETTLED: u64 = 200;
const INTERVAL: Nanos = Nanos::from_secs(60);
/// Kernel threads and work functions keep coming; those beyond the first 50 share a label.
const SERIES: usize = 60;

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

    /// A latency: of each power of two half as often as of the one below it, in one of four buckets of it.
    fn latency(&mut self) -> Nanos {
        let power = 10 + self.next().trailing_zeros().min(9);
        Nanos((1 << power) + (self.next() % 4) * (1 << (power - 2)))
    }
}

/// A machine whose clocks stand still until they are set, and that counts what it is told to.
struct Machine {
    numbers: RefCell<Numbers>,
    series: RefCell<Vec<Series>>,
    now: Cell<Nanos>,
}

impl Machine {
    fn new() -> Machine {
        let series = (0..SERIES).map(|at| {
            let mechanism = if at < 4 { Mechanism::Softirq } else { Mechanism::Work };
            let subject = Subject { name: format!("subject {at}"), ..Subject::default() };
            Series::new(mechanism, Quantity::Latency, subject, Evidence::Events, Histogram::new())
        });
        Machine {
            numbers: RefCell::new(Numbers(19)),
            series: RefCell::new(series.collect()),
            now: Cell::new(Nanos::from_secs(1_000)),
        }
    }

    /// An interval of a machine that does much and little by turns.
    fn pass(&self, minute: u64) {
        let mut numbers = self.numbers.borrow_mut();
        for (at, series) in self.series.borrow_mut().iter_mut().enumerate() {
            // Most are quiet at any time.
            if !(minute + at as u64).is_multiple_of(6) {
                continue;
            }
            for _ in 0..64 {
                series.histogram.record(numbers.latency());
            }
            series.summary = Summary::of(&series.histogram);
        }
        self.now.set(self.now.get() + INTERVAL);
    }
}

impl Source for &Machine {
    fn series(&self) -> Vec<Series> {
        self.series.borrow().iter().filter(|series| series.histogram.count() > 0).cloned().collect()
    }

    fn losses(&self) -> Vec<Loss> {
        vec![Loss {
            kind: LossKind::Unpaired,
            place: "softirqs".to_owned(),
            count: Some(self.now.get().0 / 1_000_000_000),
        }]
    }

    fn waiting(&self) -> Option<Loss> {
        None
    }

    /// A new one of each series, so that each interval has detail of some pages.
    fn worst(&self) -> Vec<Activation> {
        let (now, thread) = (self.now.get(), Task::default());
        let worst = |series: &Series| {
            let (id, mechanism) = (series.id.clone(), series.mechanism);
            Activation::of_thread(id, mechanism, thread.clone(), Cpu(0), now, now)
        };
        self.series.borrow().iter().map(worst).collect()
    }

    fn look(&mut self) -> Result<Option<Duration>> {
        Ok(None)
    }

    fn take_worst(&mut self) -> Result<Explained> {
        Ok(Explained::default())
    }
}

impl Clock for &Machine {
    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_795_000_020) + self.now.get().to_duration()
    }

    fn monotonic(&self) -> Nanos {
        self.now.get()
    }
}

/// What the process holds.
#[derive(Clone, Copy, Debug)]
struct Holds {
    allocated: isize,
    files: usize,
}

impl Holds {
    fn now() -> Holds {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
        Holds { allocated: HELD.load(Ordering::Relaxed), files }
    }
}

fn a_day() {
    // In memory where there is such a folder: the disk's speed is not what is looked at.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let spool = folder.path().join("spool");
    let limit = "1MiB";
    let words = ["latebound", "serve", "--spool-limit", limit, "--spool", spool.to_str().unwrap()];
    let Verb::Serve(args) = Cli::parse_from(words).verb else { panic!("another verb") };
    let output = Output::new(None, crate::cli::ColorChoice::Never);
    let machine = Machine::new();
    let doctor = latebound_system::doctor(&latebound_system::Root::live(), &latebound_system::Facts::live());
    let head = session::new_run(RunVerb::Observe, doctor, Some(args.interval));
    let writer = Writer::start(Spool::open(&spool, args.spool_limit).unwrap()).unwrap();
    let began = (Clock::wall(&&machine), Clock::monotonic(&&machine));
    let mut service = Service::new(&args, &machine, &machine, began, writer, head, &output);

    let mut settled = None;
    for minute in 1..=MINUTES {
        machine.pass(minute);
        service.turn().unwrap();
        service.wait_and_settle().unwrap();
        // A server with native histograms asks, and now and then others do.
        if minute % 5 == 0 {
            assert!(!service.metrics(Exposition::Protobuf).is_empty());
        }
        if minute % 20 == 0 {
            assert!(!service.metrics(Exposition::Text).is_empty());
            let (families, read) = service.families();
            let span = otlp::Span { started: nanos(service.started_at), read: nanos(read) };
            assert!(!otlp::request(&families, &[], "0", span).is_empty());
        }
        if minute == SETTLED {
            settled = Some(Holds::now());
        }
        if minute % 240 == 0 {
            println!("after {minute} intervals: {:?}, {} Runs", Holds::now(), service.writer.held);
        }
    }
    let (settled, end) = (settled.unwrap(), Holds::now());
    assert_eq!(service.health.written, MINUTES);
    assert!(service.health.dropped_by_limit > MINUTES / 2, "{}", service.health.dropped_by_limit);
    assert!(service.health.thinned_by_limit > MINUTES / 2, "{}", service.health.thinned_by_limit);
    assert!(service.writer.bytes <= args.spool_limit);
    let spooled = SpoolReader::open(&spool).unwrap();
    let mut runs = spooled.runs().unwrap().into_iter().map(|name| spooled.read(&name).unwrap().unwrap());
    let newest = runs.next_back().unwrap();
    assert_eq!(newest.worst_of_series.len(), SERIES);
    for what in ["earlier intervals in the spool", "the worst activations of earlier intervals in the spool"]
    {
        assert!(newest.missing.iter().any(|missing| missing.what == what), "{:?}", newest.missing);
    }
    assert!(runs.all(|run| !run.has_detail()));
    // Numbers get longer, and the spool holds a Run more or less.
    assert!(end.allocated <= settled.allocated + (64 << 10), "{settled:?} became {end:?}");
    assert_eq!(end.files, settled.files);
    // What was told is all that was counted.
    let told: u64 = machine.series.borrow().iter().map(|series| series.histogram.count()).sum();
    let known: u64 =
        service.reading.as_ref().unwrap().series.iter().map(|series| series.histogram.count()).sum();
    assert_eq!((known, service.intervals.since(&machine.series.borrow(), &[]).series.len()), (told, 0));
}

#[test]
fn a_day_of_intervals_takes_no_more_than_its_first_hours() {
    if std::env::var_os(ALONE).is_some() {
        return a_day();
    }
    // In a process of its own: other tests allocate and open files too.
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", NAME, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("after 1440 intervals"), "{said}");
    print!("{said}");
}
