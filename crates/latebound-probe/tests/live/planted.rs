// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delays of known number, size and cause are planted on one CPU, and the recorder and the analysis have to give them back.
//!
//! Needs root and real-time threads. Other work on the machine may make more wake-ups late; only those whose moments were
//! planted are judged. One at a time: the plants share a CPU.

use std::sync::Mutex;

use latebound_model::{CauseKind, Nanos, Signature};
use latebound_probe::{Recorder, RecorderOptions};

use crate::plant::{self, Class, MS, US};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn recorder() -> Recorder {
    Recorder::start(RecorderOptions { memory_per_cpu: 16 << 20, ..RecorderOptions::default() }).unwrap()
}

/// Watches the sleeper without asking for its late wake-ups: it reads the clock itself.
fn watch(recorder: &mut Recorder, tid: latebound_model::Tid) {
    recorder.watch(tid).unwrap();
    recorder.set_threshold(tid, Nanos(u64::MAX)).unwrap();
}

#[test]
fn live_planted_a_hog_of_higher_priority_is_named_23_times_with_3_ms() {
    const PLANTED: usize = 23;
    // The hog can itself be held up, by a kernel that does not preempt or a hypervisor; so more are planted than needed, and
    // those that came in time are judged, each of them.
    const ATTEMPTS: u64 = 41;
    const SIZE: u64 = 3 * MS;
    let _alone = alone();
    let mut recorder = recorder();
    let start = plant::now() + 100 * MS;
    let expiries: Vec<u64> = (0..2 * ATTEMPTS).map(|n| start + n * 10 * MS).collect();
    let hogged: Vec<u64> = expiries.iter().copied().skip(1).step_by(2).collect();
    let (tid, sleeper) = plant::sleeper(Class::Fifo(60), expiries);
    watch(&mut recorder, tid);
    let targets = hogged.clone();
    let hog = std::thread::spawn(move || {
        plant::become_thread("lb-hog", Class::Fifo(70));
        let mut held = Vec::new();
        for expiry in targets {
            plant::sleep_until(expiry - 4 * MS);
            let from = plant::now();
            plant::spin_until(expiry + SIZE);
            held.push((from, plant::now()));
        }
        held
    });
    let held = hog.join().unwrap();
    let wakeups = sleeper.join().unwrap();

    let mut named = 0;
    let mut planted = Vec::new();
    for &wakeup in &wakeups {
        let explanation = plant::explained(&recorder, tid, wakeup);
        let hog = plant::share(&explanation, CauseKind::TaskFirst, "lb-hog");
        match hogged.iter().position(|expiry| *expiry == wakeup.0) {
            Some(index) if held[index].0 >= wakeup.0 || named == PLANTED => {}
            Some(index) => {
                let (from, to) = held[index];
                assert!(from < wakeup.0);
                let table = plant::table(&explanation);
                // What interrupted the hog is not the hog's; everything else of the overlap is.
                let others = plant::machine_share(&explanation)
                    + plant::kind_share(&explanation, CauseKind::TaskFirst)
                    - hog;
                let overlap = to - wakeup.0;
                assert!(hog <= overlap + 200 * US, "{hog} of {overlap}\n{table}");
                assert!(hog + others + 200 * US >= overlap, "{hog} and {others} of {overlap}\n{table}");
                let cause = &explanation.causes[0];
                assert_eq!((cause.kind, cause.subject.as_str()), (CauseKind::TaskFirst, "lb-hog"), "{table}");
                assert_eq!(cause.task.as_ref().unwrap().priority_text(), "FIFO 70", "{table}");
                named += 1;
                planted.push(explanation);
            }
            None => {
                // Where the whole machine stood still, the hog can overlap what was not planted: by so much.
                let overlap: u64 = held
                    .iter()
                    .map(|(from, to)| to.min(&wakeup.1).saturating_sub(*from.max(&wakeup.0)))
                    .sum();
                assert!(hog <= overlap + 200 * US, "{hog} of {overlap}\n{}", plant::table(&explanation));
            }
        }
    }
    assert_eq!(named, PLANTED, "too few hogs came in time: this machine is too busy for the test");
    plant::assert_accounted(&planted);
    println!("{}", plant::table(&planted[0]));
}

/// A system call that a kernel without preemption cannot leave.
struct LongCall {
    list: Vec<libc::pollfd>,
}

impl LongCall {
    /// One of this length at least, in nanoseconds, as far as the limit of open files lets it be, and less than twice as long.
    ///
    /// poll() looks at every descriptor of its list without a scheduling point in between (fs/select.c, do_poll, 5.15 to 6.18).
    fn of(least: u64) -> LongCall {
        let most = plant::raise_open_files();
        // A ready descriptor behind four epoll descriptors makes each look dear, so that a short list will do.
        let mut watched = plant::ready_descriptor();
        for _ in 0..4 {
            watched = plant::epoll_of(watched);
        }
        let entry = libc::pollfd { fd: watched, events: libc::POLLIN, revents: 0 };
        let mut call = LongCall { list: vec![entry; 1 << 10] };
        let lasts = |call: &mut LongCall| {
            let took = (0..3).map(|_| call.make()).map(|(from, to)| to - from);
            took.min().unwrap_or(0)
        };
        while call.list.len() < most && lasts(&mut call) < least {
            call.list.resize(most.min(call.list.len() * 2), entry);
        }
        call
    }

    /// Makes the call; from when to when it was.
    fn make(&mut self) -> (u64, u64) {
        let from = plant::now();
        // SAFETY: the list is ours and has that many entries.
        unsafe { libc::poll(self.list.as_mut_ptr(), self.list.len() as libc::nfds_t, 0) };
        (from, plant::now())
    }
}

/// Whether ordinary threads preempt each other lazily here; `None` where the kernel does not say so (`CONFIG_PREEMPT_DYNAMIC`, debugfs).
fn is_lazy() -> Option<bool> {
    std::fs::read_to_string("/sys/kernel/debug/sched/preempt").ok().map(|models| models.contains("(lazy)"))
}

#[test]
fn live_planted_a_thread_told_lazily_to_give_way_is_named() {
    const PLANTED: usize = 19;
    // Two ticks of any kernel of 250 Hz, with the order anywhere before.
    const LEAST: u64 = 9 * MS;
    let _alone = alone();
    let mut recorder = recorder();
    let mut call = LongCall::of(LEAST);
    let start = plant::now() + 100 * MS;
    // Each at a distance of its own from the next tick of 250 Hz: a tick just behind the wake-up makes the order urgent.
    let expiries: Vec<u64> = (0..40).map(|n| start + n * 50 * MS + n * 100 * US).collect();
    // Its slice is short, so that it goes before who has run for a while.
    let (tid, sleeper) = plant::sleeper(Class::Nice(-20), expiries.clone());
    watch(&mut recorder, tid);
    let batch = std::thread::spawn(move || {
        plant::become_thread("lb-batch", Class::Nice(0));
        let one = |expiry: u64| {
            plant::sleep_until(expiry - 500 * US);
            // Behind a call that took longer than planned, on a busy machine, the next begins in time again.
            let now = plant::now();
            if now + 200 * US < expiry { call.make() } else { (now, now) }
        };
        expiries.into_iter().map(one).collect::<Vec<_>>()
    });
    let calls = batch.join().unwrap();
    let wakeups = sleeper.join().unwrap();

    let planted: Vec<_> = calls
        .iter()
        .zip(&wakeups)
        .filter(|((from, to), (expiry, _))| from + 100 * US < *expiry && *to > expiry + LEAST * 2 / 3)
        .map(|(_, wakeup)| plant::explained(&recorder, tid, *wakeup))
        .collect();
    assert!(planted.len() >= PLANTED, "only {} calls were entered in time", planted.len());
    let lazily = |explanation| plant::share(explanation, CauseKind::LazyPreemption, "lb-batch");
    let named = planted.iter().filter(|explanation| lazily(explanation) > 0).count();
    let tables = || planted.iter().map(plant::table).collect::<String>();
    match is_lazy() {
        // An order that comes with the end of a slice can be urgent from the start.
        Some(true) => assert!(named * 10 >= planted.len() * 9, "{named} of {}\n{}", planted.len(), tables()),
        Some(false) => assert_eq!(named, 0, "{}", tables()),
        None => println!("whether this kernel is lazy it does not say"),
    }
    for explanation in &planted {
        let table = plant::table(explanation);
        // On a busy machine ordinary threads of others take their turns.
        let behind = plant::kind_share(explanation, CauseKind::TaskFirst)
            + plant::kind_share(explanation, CauseKind::LazyPreemption)
            // What a hypervisor took; how much of it there may be is judged below.
            + plant::kind_share(explanation, CauseKind::StoodStill)
            + plant::kind_share(explanation, CauseKind::Unaccounted);
        let latency = explanation.latency().0;
        assert!(behind + plant::machine_share(explanation) + 300 * US >= latency, "{table}");
    }
    plant::assert_accounted(&planted);
    println!("{named} of {} told lazily\n{}", planted.len(), plant::table(&planted[0]));
}

#[test]
fn live_planted_a_thread_in_a_long_system_call_is_named_with_its_stack() {
    const PLANTED: usize = 19;
    let _alone = alone();
    let mut recorder = recorder();
    // The call is to be over when the next one is due.
    let mut poll = LongCall::of(3 * MS);
    let start = plant::now() + 100 * MS;
    let expiries: Vec<u64> = (0..90).map(|n| start + n * 20 * MS).collect();
    let (tid, sleeper) = plant::sleeper(Class::Fifo(60), expiries.clone());
    watch(&mut recorder, tid);
    let reader = std::thread::spawn(move || {
        plant::become_thread("lb-reader", Class::Nice(-20));
        expiries
            .into_iter()
            .map(|expiry| {
                plant::sleep_until(expiry - 500 * US);
                // Behind a call that took longer than planned, on a busy machine, the next begins in time again.
                let now = plant::now();
                (expiry, if now + 200 * US < expiry { poll.make() } else { (now, now) })
            })
            .collect::<Vec<_>>()
    });
    let calls = reader.join().unwrap();
    let wakeups = sleeper.join().unwrap();

    // The call was entered before the expiry and left well after it, by the clock of its own thread.
    let planted: Vec<_> = calls
        .iter()
        .zip(&wakeups)
        .filter(|((expiry, (from, to)), _)| from + 100 * US < *expiry && *to > expiry + 400 * US)
        .map(|(call, wakeup)| (call, plant::explained(&recorder, tid, *wakeup)))
        .collect();
    assert!(planted.len() >= PLANTED, "only {} calls were entered in time", planted.len());
    let held = |explanation| plant::share(explanation, CauseKind::PreemptionOff, "lb-reader");
    let named = planted.iter().filter(|(_, explanation)| held(explanation) > 100 * US).count();
    let all: Vec<_> = planted.iter().map(|(_, explanation)| explanation.clone()).collect();
    if named == 0 {
        // A kernel that preempts: the same plant must show no delay.
        println!("this kernel preempts system calls");
        return;
    }
    assert_eq!(named, planted.len(), "{}", all.iter().map(plant::table).collect::<String>());
    let mut whole = 0;
    for ((expiry, (from, to)), explanation) in &planted {
        let table = plant::table(explanation);
        // The size, by clocks that are not the recorder's: the sleeper ran when the call ended.
        let latency = explanation.latency().0;
        assert!(*from < *expiry && latency <= to - expiry, "{table}");
        assert!(held(explanation) + plant::machine_share(explanation) + 300 * US >= latency, "{table}");
        let cause = explanation.causes.iter().find(|c| c.kind == CauseKind::PreemptionOff).unwrap();
        let stack = cause.stack.as_ref().unwrap_or_else(|| panic!("no stack\n{table}"));
        whole += usize::from(stack.0.iter().any(|frame| frame.contains("sys_poll")));
    }
    // An interrupt can come where the kernel's unwinder does not get further: in a retpoline.
    assert!(whole * 10 >= planted.len() * 8, "{whole} of {} stacks lead to the system call", planted.len());
    plant::assert_accounted(&all);
    println!("{named} named\n{}", plant::table(&all[0]));
}

#[test]
fn live_planted_a_long_softirq_of_loopback_traffic_is_named() {
    const PLANTED: usize = 17;
    let _alone = alone();
    let mut recorder = recorder();
    let most = plant::raise_open_files() - 256;
    // One broadcast datagram is handed to every receiver of its port inside a single NET_RX softirq.
    let crowd = plant::Crowd::new();
    let mut receivers = 512;
    crowd.grow(receivers);
    // The minimum of some: one that others kept from running looks like one of many more receivers.
    let lowest = || (0..8).map(|_| crowd.shout_for()).min().unwrap();
    let mut solo = lowest();
    while solo < 3 * MS && 2 * receivers < most {
        receivers *= 2;
        crowd.grow(receivers);
        solo = lowest();
    }
    println!("{receivers} receivers, {} a datagram", Nanos(solo));

    let start = plant::now() + 100 * MS;
    let expiries: Vec<u64> = (0..50).map(|n| start + n * 20 * MS).collect();
    let (tid, sleeper) = plant::sleeper(Class::Fifo(60), expiries.clone());
    watch(&mut recorder, tid);
    let sender = std::thread::spawn(move || {
        plant::become_thread("lb-sender", Class::Nice(-20));
        expiries
            .into_iter()
            .map(|expiry| {
                plant::sleep_until(expiry - MS);
                let from = plant::now();
                crowd.shout_for();
                (expiry, from, plant::now())
            })
            .collect::<Vec<_>>()
    });
    let shouts = sender.join().unwrap();
    let wakeups = sleeper.join().unwrap();
    let planted: Vec<_> = shouts
        .iter()
        .zip(&wakeups)
        .filter(|((expiry, from, to), _)| from + 200 * US < *expiry && *to > expiry + 700 * US)
        .map(|(shout, wakeup)| (shout, plant::explained(&recorder, tid, *wakeup)))
        .collect();
    assert!(planted.len() >= PLANTED, "only {} datagrams were sent in time", planted.len());
    let all: Vec<_> = planted.iter().map(|(_, explanation)| explanation.clone()).collect();
    for ((expiry, _, to), explanation) in &planted {
        let table = plant::table(explanation);
        let softirq = plant::share(explanation, CauseKind::Softirq, "NET_RX");
        // By clocks that are not the recorder's: the sleeper could run when the softirq ended.
        let latency = explanation.latency().0;
        assert!(latency <= to - expiry && softirq <= latency, "{table}");
        assert!(plant::machine_share(explanation) + 300 * US >= latency, "{table}");
        assert!(latency < 700 * US || explanation.causes[0].subject == "NET_RX", "{table}");
    }
    plant::assert_accounted(&all);
    println!("{} named\n{}", planted.len(), plant::table(&all[0]));
}

#[test]
fn live_planted_a_starved_fair_thread_shows_the_signature_of_its_rescue() {
    const HOG: u64 = 2_200 * MS;
    let _alone = alone();
    let mut recorder = recorder();
    let start = plant::now() + 100 * MS;
    let (tid, sleeper) = plant::restless_sleeper(Class::Nice(-20), 2 * MS, start + HOG + 100 * MS);
    watch(&mut recorder, tid);
    let hog = std::thread::spawn(move || {
        plant::become_thread("lb-hog", Class::Fifo(50));
        // It has to sleep once as what it became, however late that is: a switch tells who runs.
        plant::sleep_until((start - 10 * MS).max(plant::now() + MS));
        let from = plant::now();
        plant::spin_until(start - 10 * MS + HOG);
        (from, plant::now())
    });
    let (from, to) = hog.join().unwrap();
    let wakeups = sleeper.join().unwrap();
    let starved: Vec<_> = wakeups
        .iter()
        .filter(|(requested, started)| {
            *started > from + 20 * MS && *started < to && started - requested > 20 * MS
        })
        .map(|wakeup| plant::explained(&recorder, tid, *wakeup))
        .collect();
    let tables = starved.iter().map(plant::table).collect::<String>();
    let signature =
        if plant::facts().fair_server.is_some() { Signature::FairServer } else { Signature::RtThrottling };
    // The first rescue by the server comes within the first second. What it gives then (50 ms) can last a thread that runs for
    // microseconds until the hog ends, or be used up by others, so there can be more rescues, and shorter waits. The
    // longest wait is the server's period less its runtime. Throttling counts by periods that begin at any time: what the hog ran in
    // the one before is forgotten up to the runtime (kernel/sched/rt.c, `do_sched_rt_period_timer`), so it can run for two.
    let hog_share = |explanation: &_| plant::share(explanation, CauseKind::TaskFirst, "lb-hog");
    let behind_hog: Vec<_> = starved
        .iter()
        .filter(|e| e.latency().0 > 200 * MS && hog_share(e) * 20 >= e.latency().0 * 19)
        .collect();
    let rescues = behind_hog.iter().filter(|explanation| explanation.signatures.contains(&signature)).count();
    assert!((1..=5).contains(&rescues) && rescues == behind_hog.len(), "{rescues} rescues\n{tables}");
    let longest = starved.iter().map(|explanation| explanation.latency().0).max().unwrap();
    let most = if signature == Signature::FairServer { 1_000 * MS } else { 2 * 1_000 * MS };
    assert!((850 * MS..most).contains(&longest), "{tables}");
    let hogged: u64 = starved.iter().map(|e| plant::share(e, CauseKind::TaskFirst, "lb-hog")).sum();
    assert!(hogged > HOG / 3 && hogged < to - from, "{hogged}\n{tables}");
    for explanation in &starved {
        let table = plant::table(explanation);
        assert_eq!(explanation.causes[0].subject, "lb-hog", "{table}");
        assert_eq!(explanation.cpu, plant::cpu());
    }
    plant::assert_accounted(&starved);
    println!("{tables}");
}
