// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flight recorder on the running kernel: latencies against the threads' own clocks, late wake-ups, losses, cost.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use latebound_model::{Activation, Cpu, EventKind, Loss, LossKind, Mechanism, Nanos, Tid};
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
        std::thread::sleep(Duration::from_millis(2));
    }
}

const SLEEPS: u64 = 5;

#[test]
fn live_threads_that_end_leave_places_to_more_than_there_are_places() {
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
            std::thread::sleep(Duration::from_millis(15));
        }
        let losses = recorder.losses();
        let refused = lost(&losses, LossKind::MapFull);
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

/// What a recorder had told of its watched threads by a moment at which all of them slept.
#[derive(Clone, Copy)]
struct Told {
    /// How often they had gone to sleep, by the kernel's own count.
    slept: u64,
    /// Their wake-ups in the distributions, and those of threads that share a place.
    counted: u64,
    of_others: u64,
    /// Wake-ups that were counted as lost.
    unseen: u64,
}

impl Told {
    /// Waits until the threads have gone to sleep and stay so.
    fn while_all_sleep(recorder: &Recorder, threads: &[Tid], deadline: u64) -> Told {
        let (mut before, mut slept) = (0, sleeps_of(threads));
        while slept != before && plant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
            before = std::mem::replace(&mut slept, sleeps_of(threads));
        }
        let series = recorder.series();
        let naps = || {
            let is_nap = |mechanism| matches!(mechanism, Mechanism::TimerWakeup | Mechanism::ThreadWakeup);
            series.iter().filter(move |series| is_nap(series.mechanism))
        };
        let counted = naps().map(|series| series.summary.count).sum();
        let of_others =
            naps().filter(|series| series.subject.task.is_none()).map(|series| series.summary.count).sum();
        Told { slept, counted, of_others, unseen: lost(&recorder.losses(), LossKind::Unpaired) }
    }
}

/// How often these threads of this process have given their CPU up to wait (proc_pid_status(5)).
fn sleeps_of(threads: &[Tid]) -> u64 {
    let of_one = |tid: &Tid| {
        let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        count.trim().parse::<u64>().unwrap()
    };
    threads.iter().map(of_one).sum()
}

fn lost(losses: &[Loss], kind: LossKind) -> u64 {
    losses.iter().filter(|loss| loss.kind == kind).filter_map(|loss| loss.count).sum()
}

/// What napping threads do: one after the other.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Stage {
    /// They nap until each of them is watched, which it is from the first wake-up on that the kernel shows.
    Meet,
    /// They sleep.
    Settle,
    /// They nap as often as they are to, and sleep then.
    Nap,
    /// They end, and wait for each other there (mmap_lock).
    End,
}

/// What a recorder told of naps.
struct Naps {
    /// How many of the threads were watched.
    watched: usize,
    told: Told,
    /// How many wake-ups were reported as late.
    late: usize,
}

impl Naps {
    /// Each of so many threads takes this name and naps so often. What it does before and behind its naps can make it wait as well, so all sleep
    /// whenever the recorder is read.
    fn of_threads(
        recorder: &mut Recorder,
        name: &CStr,
        threads: usize,
        naps: usize,
        nap: impl Fn() + Sync,
    ) -> Naps {
        let (stage, asleep) = (AtomicU8::new(Stage::Meet as u8), AtomicUsize::new(0));
        let is_before = |of: Stage| stage.load(Ordering::Acquire) < of as u8;
        let sleep_until = |of: Stage| {
            asleep.fetch_add(1, Ordering::Release);
            while is_before(of) {
                std::thread::park();
            }
        };
        let run = || {
            // SAFETY: the name lives through the call and ends with a zero.
            assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
            while is_before(Stage::Settle) {
                nap();
            }
            sleep_until(Stage::Nap);
            (0..naps).for_each(|_| nap());
            sleep_until(Stage::End);
        };
        let deadline = plant::now() + 200_000 * MS;
        let (mut late, mut told) = (0, Vec::new());
        let watched = std::thread::scope(|scope| {
            let start =
                |_| std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, run).unwrap();
            let started: Vec<_> = (0..threads).map(start).collect();
            let mut wait_for = |recorder: &mut Recorder, is_so: &dyn Fn(&Recorder) -> bool| {
                while !is_so(recorder) && plant::now() < deadline {
                    late += recorder.late().unwrap().len();
                    std::thread::sleep(Duration::from_millis(20));
                }
            };
            wait_for(recorder, &|recorder| recorder.watched_threads().len() >= threads);
            let watched = recorder.watched_threads();
            for next in [Stage::Settle, Stage::Nap, Stage::End] {
                asleep.store(0, Ordering::Release);
                stage.store(next as u8, Ordering::Release);
                started.iter().for_each(|thread| thread.thread().unpark());
                if next < Stage::End {
                    wait_for(recorder, &|_| asleep.load(Ordering::Acquire) == threads);
                    told.push(Told::while_all_sleep(recorder, &watched, deadline));
                }
            }
            watched.len()
        });
        assert!(plant::now() < deadline, "{threads} threads took longer than 200 s");
        let [before, after] = told[..] else { unreachable!("read twice") };
        let told = Told {
            slept: after.slept - before.slept,
            counted: after.counted - before.counted,
            of_others: after.of_others - before.of_others,
            unseen: after.unseen - before.unseen,
        };
        println!(
            "{watched} threads watched, {} sleeps: {} counted, {} of those together, {} lost, {late} late",
            told.slept, told.counted, told.of_others, told.unseen
        );
        Naps { watched, told, late }
    }

    /// Each sleep is told once, in a distribution or as a loss. A guest's kernel shows every event. A provider's may hide those that interrupt a
    /// process of his (deferral-mechanisms.md, "A kernel that hides a process"): as many as that process happens to be interrupted for.
    fn assert_each_is_told(&self) {
        let Told { slept, counted, unseen, .. } = self.told;
        assert_eq!(counted + unseen, slept, "{counted} counted and {unseen} lost");
        let hidden_at_most = if plant::is_in_guest() { 0 } else { slept / 10 };
        assert!(unseen <= hidden_at_most, "{unseen} of {slept} are lost");
    }
}

#[test]
fn live_each_sleep_of_a_watched_thread_is_counted_or_counted_as_lost() {
    const THREADS: usize = 4;
    const NAPS: usize = 2_000;
    let options =
        RecorderOptions { watch: Watch::Comm("lb-napper".to_owned()), ..RecorderOptions::default() };
    let mut recorder = Recorder::start(options).unwrap();
    let naps = Naps::of_threads(&mut recorder, c"lb-napper", THREADS, NAPS, || {
        plant::sleep_until(plant::now() + 200 * US);
    });
    assert!(naps.watched == THREADS && naps.told.slept > (THREADS * NAPS / 2) as u64);
    naps.assert_each_is_told();
}

#[test]
fn live_each_of_ten_thousand_threads_is_watched() {
    const THREADS: usize = 10_000;
    let options =
        RecorderOptions { watch: Watch::Comm("lb-many".to_owned()), keep: 16, ..RecorderOptions::default() };
    let mut recorder = Recorder::start(options).unwrap();
    let naps = Naps::of_threads(&mut recorder, c"lb-many", THREADS, 3, || {
        std::thread::sleep(Duration::from_millis(500));
    });
    let losses = recorder.losses();
    assert_eq!((naps.watched, lost(&losses, LossKind::MapFull)), (THREADS, 0), "{losses:#?}");
    assert!(naps.told.slept >= 3 * THREADS as u64, "{}", naps.told.slept);
    naps.assert_each_is_told();
    assert!(naps.told.of_others > naps.told.slept / 10 * 9 && naps.late >= 16);
    let missing = recorder.shared_places().unwrap();
    assert!(missing.what.contains(&format!("{}", THREADS - 128)), "{missing}");
    // Few of the worst are kept of all of them together, not of each.
    assert!(naps.late < THREADS, "{}", naps.late);
}
