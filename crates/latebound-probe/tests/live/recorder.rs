// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flight recorder on the running kernel: latencies against the threads' own clocks, late wake-ups, losses, cost.

use std::sync::atomic::{AtomicBool, Ordering};

use latebound_model::{Activation, Cpu, EventKind, LossKind, Mechanism, Nanos};
use latebound_probe::{Recorder, RecorderOptions, Watch};

use crate::plant::{self, Class, MS, US};

#[test]
fn live_wakeups_of_a_named_thread_are_counted_and_late_ones_reported() {
    let options =
        RecorderOptions { watch: Watch::Comm("lb-sleeper".into()), keep: 5, ..RecorderOptions::default() };
    let mut recorder = Recorder::start(options).unwrap();
    let start = plant::now() + 50 * MS;
    let expiries: Vec<u64> = (0..101).map(|n| start + n * 2 * MS).collect();
    let planted = expiries[53];
    let sleeper = std::thread::spawn(move || {
        let tid = plant::become_thread("lb-sleeper", Class::Fifo(40));
        let sleep = |expiry: u64| {
            let before = voluntary_switches();
            plant::sleep_until(expiry);
            (expiry, plant::now(), voluntary_switches() > before)
        };
        (tid, expiries.into_iter().map(sleep).collect::<Vec<_>>())
    });
    let hog = std::thread::spawn(move || {
        plant::become_thread("lb-hog", Class::Fifo(50));
        plant::sleep_until(planted - 500 * US);
        plant::spin_until(planted + 20 * MS);
    });
    hog.join().unwrap();
    let (tid, wakeups) = sleeper.join().unwrap();

    let late = recorder.late().unwrap();
    let own: Vec<_> = late.iter().filter(|late| late.runner_tid() == tid).collect();
    // Most often that of the planted expiry; a pause of the machine just before makes it an earlier one, and others can be longer.
    let over_the_hog = |late: &&&Activation| {
        late.activated_at.is_some()
            && late.requested_at.0 <= planted
            && late.started_at.0 >= planted + 20 * MS
    };
    let recorded = own.iter().find(over_the_hog).unwrap_or_else(|| panic!("{planted} is not in {own:?}"));
    let worst = own.iter().max_by_key(|late| late.latency()).unwrap();
    let expires = recorded.requested_at.0;
    let asked_for = wakeups.iter().find(|(requested, ..)| *requested == expires);
    let by_own_clock = asked_for.expect("the expiry is one that was asked for").1 - expires;
    let latency = recorded.latency().0;
    assert!(latency <= by_own_clock && by_own_clock - latency < 2 * MS, "{latency} {by_own_clock}");
    assert!(own.len() < wakeups.len() || wakeups.len() <= 5 + own.len(), "{}", own.len());

    let series = recorder.series();
    let mine = series.iter().find(|series| {
        series.mechanism == Mechanism::TimerWakeup
            && series.subject.task.as_ref().is_some_and(|task| task.tid == tid)
    });
    let mine =
        mine.unwrap_or_else(|| panic!("{:?}", series.iter().map(|series| &series.id).collect::<Vec<_>>()));
    // A call whose expiry has passed mostly returns without sleeping, and one that is caught on its way to sleep by its own timer runs on: neither
    // was woken. The kernel counts for itself who slept.
    let slept = wakeups.iter().filter(|(_, _, slept)| *slept).count();
    let before_their_time = 1 + wakeups.windows(2).filter(|pair| pair[1].0 > pair[0].1).count();
    let count = usize::try_from(mine.summary.count).unwrap();
    assert!(
        count <= slept && count * 10 >= before_their_time * 9,
        "{count} of {slept}, {before_their_time} of {} calls before their time",
        wakeups.len()
    );
    assert_eq!(mine.summary.max, Some(worst.latency()));
    plant::assert_nothing_lost(&recorder.losses());
}

/// How often this thread gave its CPU up to wait (kernel/sched/core.c, `__schedule`, 6.12: not where it runs on).
fn voluntary_switches() -> i64 {
    // SAFETY: a usage of zeros is one, and the call writes to it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_nvcsw
    }
}

fn run_on(cpu: Cpu) {
    // SAFETY: the set lives through the calls; 0 is this thread.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu.0 as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    assert_eq!(pinned, 0, "CPU {cpu}: {}", std::io::Error::last_os_error());
}

#[test]
fn live_a_ring_that_is_too_small_says_what_it_lost_and_what_it_costs() {
    let options =
        RecorderOptions { memory_per_cpu: 64 * 64, measure_cost: true, ..RecorderOptions::default() };
    let recorder = Recorder::start(options).unwrap();
    let from = plant::now();
    let until = from + 300 * MS;
    // Each CPU has more to tell than its ring holds: one that is idle might not.
    std::thread::scope(|scope| {
        for cpu in recorder.cpus() {
            scope.spawn(move || {
                run_on(*cpu);
                while plant::now() < until {
                    plant::sleep_until(plant::now() + 100 * US);
                }
            });
        }
    });
    let events = recorder.events_of_all(Nanos(from), Nanos(plant::now())).unwrap();
    for cpu in recorder.cpus() {
        // Another CPU's order to give way is about this one, and can be older than what this one's ring still holds.
        let own = |event: &&latebound_model::Event| {
            event.cpu == *cpu
                && !matches!(event.kind, EventKind::NeedResched { .. } | EventKind::Stolen { .. })
        };
        let of_cpu: Vec<_> = events.iter().filter(own).collect();
        let lost = of_cpu.iter().find(|event| matches!(event.kind, EventKind::Lost { .. }));
        let lost = lost.unwrap_or_else(|| panic!("CPU {cpu} has lost nothing: {of_cpu:#?}"));
        // An event that an interrupt came between can stand behind a later one in the ring.
        assert!(of_cpu[0].at.0 + MS >= lost.at.0, "{:?} before {lost:?}", of_cpu[0]);
        assert!(events.iter().filter(|event| event.cpu == *cpu).count() <= 4 * 64);
    }
    let early = recorder.events_of_all(Nanos(from - MS * 1000), recorder.started_at()).unwrap();
    assert!(early.iter().all(|event| matches!(event.kind, EventKind::Lost { .. })), "{early:?}");

    let cost = recorder.cost();
    assert!(cost.events > 1000 && cost.memory_bytes > 0);
    let runs: u64 = cost.programs.iter().map(|program| program.runs).sum();
    let time: u64 = cost.programs.iter().map(|program| program.time.0).sum();
    let each = time / runs.max(1);
    for program in cost.programs.iter().filter(|program| program.runs > 0) {
        println!("{} {} {} ns", program.program, program.runs, program.time.0 / program.runs);
    }
    println!("{} events, {runs} runs of {each} ns", cost.events);
    assert!(each < 5_000, "a program's run takes {each} ns");
}

/// Names this thread and sleeps a few times.
fn named_sleeper() {
    // SAFETY: the name lives through the call and ends with a zero.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, c"short-lived".as_ptr()) }, 0);
    for _ in 0..SLEEPS {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

const SLEEPS: u64 = 5;

#[test]
fn live_threads_that_end_leave_their_places_to_more_than_there_are_places() {
    const PLACES: u32 = 8;
    const THREADS: u64 = 30 * PLACES as u64;
    let run = |frees: bool| {
        let watch = Watch::Comm("short-lived".to_owned());
        let options =
            RecorderOptions { watch, max_threads: PLACES, max_sharing: 0, ..RecorderOptions::default() };
        let mut recorder = Recorder::start(options).unwrap();
        let mut ended = 0;
        for _ in 0..THREADS / 2 {
            std::thread::scope(|scope| drop([(); 2].map(|()| scope.spawn(named_sleeper))));
            recorder.late().unwrap();
            if frees && let Some(freed) = recorder.free_ended().unwrap() {
                let own = |series: &latebound_model::Series| {
                    series.subject.task.as_ref().is_some_and(|task| freed.threads.contains(&task.tid))
                };
                assert!(freed.series.iter().all(own), "{:?}", freed.threads);
                ended += freed.threads.len() as u64;
            }
            // A place is free a little after the end of its thread.
            std::thread::sleep(std::time::Duration::from_millis(15));
        }
        let losses = recorder.losses();
        let refused: u64 =
            losses.iter().filter(|loss| loss.kind == LossKind::MapFull).filter_map(|loss| loss.count).sum();
        let counted: u64 = recorder
            .series()
            .iter()
            .filter(|series| series.mechanism == Mechanism::TimerWakeup)
            .inspect(|series| assert!(series.subject.name.starts_with("short-lived"), "{series:?}"))
            .map(|series| series.summary.count)
            .sum();
        println!("{THREADS} threads: {counted} wake-ups, {ended} freed, {refused} refused");
        (refused, counted, ended)
    };
    let (refused, counted, ended) = run(true);
    assert_eq!(refused, 0);
    assert!(ended + 3 * u64::from(PLACES) >= THREADS, "{ended} of {THREADS} were freed");
    // The first sleep of a thread may be the one that it is met by; a sleep may be over before it begins.
    assert!((THREADS * (SLEEPS - 1)..=THREADS * SLEEPS).contains(&counted), "{counted}");
    let (refused, counted, _) = run(false);
    assert!(refused > 0, "places that nobody frees last for {PLACES} threads");
    assert!(counted <= u64::from(PLACES) * SLEEPS, "{counted}");
}

#[test]
fn live_each_sleep_of_a_watched_thread_is_counted_or_counted_as_lost() {
    const THREADS: u64 = 4;
    const NAPS: u64 = 2_000;
    let options =
        RecorderOptions { watch: Watch::Comm("lb-napper".to_owned()), ..RecorderOptions::default() };
    let recorder = Recorder::start(options).unwrap();
    let nap_often = || {
        // SAFETY: the name lives through the call and ends with a zero.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, c"lb-napper".as_ptr()) }, 0);
        let before = voluntary_switches();
        (0..NAPS).for_each(|_| plant::sleep_until(plant::now() + 200 * US));
        u64::try_from(voluntary_switches() - before).unwrap()
    };
    let slept: u64 = std::thread::scope(|scope| {
        let threads = [(); THREADS as usize].map(|()| scope.spawn(nap_often));
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    let counted: u64 = recorder
        .series()
        .iter()
        .filter(|series| series.subject.task.as_ref().is_some_and(|task| task.comm == "lb-napper"))
        .filter(|series| matches!(series.mechanism, Mechanism::TimerWakeup | Mechanism::ThreadWakeup))
        .map(|series| series.summary.count)
        .sum();
    let losses = recorder.losses();
    let unseen: u64 =
        losses.iter().filter(|loss| loss.kind == LossKind::Unpaired).filter_map(|loss| loss.count).sum();
    println!("{slept} sleeps of {} naps: {counted} counted, {unseen} lost", THREADS * NAPS);
    assert!(slept > THREADS * NAPS / 2 && unseen * 100 < slept, "{losses:#?}");
    // A sleep of which neither the beginning nor the wake-up nor the end makes an event leaves no trace.
    assert!((counted + unseen).abs_diff(slept) * 2_000 <= slept, "{counted} + {unseen} of {slept}");
}

#[test]
fn live_each_of_ten_thousand_threads_is_watched() {
    const THREADS: usize = 10_000;
    const NAP: std::time::Duration = std::time::Duration::from_millis(500);
    let options =
        RecorderOptions { watch: Watch::Comm("lb-many".to_owned()), keep: 16, ..RecorderOptions::default() };
    let mut recorder = Recorder::start(options).unwrap();
    let is_over = AtomicBool::new(false);
    let nap_often = || {
        // SAFETY: the name lives through the call and ends with a zero.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, c"lb-many".as_ptr()) }, 0);
        let before = voluntary_switches();
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(NAP);
        }
        u64::try_from(voluntary_switches() - before).unwrap()
    };
    let (slept, watched, late) = std::thread::scope(|scope| {
        let start =
            |_| std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, nap_often).unwrap();
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        let until = plant::now() + 2_000 * MS;
        let mut late = 0;
        while plant::now() < until {
            late += recorder.late().unwrap().len();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let watched = recorder.watched_threads().len();
        is_over.store(true, Ordering::Relaxed);
        let slept: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        (slept, watched, late)
    });
    let series = recorder.series();
    // Threads that end at once wait for each other.
    let naps = || series.iter().filter(|series| series.mechanism == Mechanism::TimerWakeup);
    let of_all: u64 = naps().map(|series| series.summary.count).sum();
    let of_others: u64 =
        naps().filter(|series| series.subject.task.is_none()).map(|series| series.summary.count).sum();
    let losses = recorder.losses();
    let count =
        |kind| losses.iter().filter(|loss| loss.kind == kind).filter_map(|loss| loss.count).sum::<u64>();
    let (unseen, refused) = (count(LossKind::Unpaired), count(LossKind::MapFull));
    println!(
        "{watched} threads watched, {slept} sleeps: {of_all} counted, {of_others} of those together, {unseen} lost, {late} late"
    );
    assert_eq!((watched, refused), (THREADS, 0), "{losses:#?}");
    assert!(slept > 3 * THREADS as u64 && unseen * 100 < slept, "{losses:#?}");
    // Their last waits for each other can be among those that are lost.
    assert!(of_all <= slept && slept - of_all <= unseen + slept / 1_000, "{of_all} + {unseen} of {slept}");
    assert!(of_others > slept / 10 * 9 && late >= 16);
    let missing = recorder.shared_places().unwrap();
    assert!(missing.what.contains(&format!("{}", THREADS - 128)), "{missing}");
    // Few of the worst are kept of all of them together, not of each.
    assert!(late < THREADS, "{late}");
}
