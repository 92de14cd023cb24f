// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs of a saved trace: recognised by their waits, and explained to their completion.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;

use latebound_analysis::KernelFacts;
use latebound_analysis::cycle::CycleChoice;
use latebound_model::{CauseKind, KnownBy, Nanos, Sureness, Tid};
use latebound_saved::{SavedExplanations, Watched, explain_saved};

/// A text of ftrace that grows line by line; times in microseconds.
#[derive(Default)]
struct Trace(String);

impl Trace {
    fn line(&mut self, who: (&str, i32), at: u64, event: &str) {
        let (comm, pid) = who;
        let (seconds, micros) = (at / 1_000_000, at % 1_000_000);
        writeln!(self.0, "{comm:>16}-{pid:<7} [000] d..2. {seconds:>5}.{micros:06}: {event}").unwrap();
    }

    fn switch(&mut self, at: u64, prev: (&str, i32), state: &str, next: (&str, i32)) {
        let event = format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} next_prio=120",
            prev.0, prev.1, next.0, next.1
        );
        self.line(prev, at, &event);
    }

    fn waking(&mut self, at: u64, by: (&str, i32), whom: (&str, i32)) {
        self.line(by, at, &format!("sched_waking: comm={} pid={} prio=120 target_cpu=000", whom.0, whom.1));
    }

    fn timer(&mut self, at: u64, by: (&str, i32), whom: (&str, i32)) {
        self.line(by, at, "hrtimer_expire_entry: hrtimer=00000000d1 function=hrtimer_wakeup now=1");
        self.waking(at + 1, by, whom);
        self.line(by, at + 2, "hrtimer_expire_exit: hrtimer=00000000d1");
    }
}

const LOOP: (&str, i32) = ("loop", 7);
const LOGGER: (&str, i32) = ("logger", 8);
const BACKUP: (&str, i32) = ("backup", 9);
const IDLE: (&str, i32) = ("swapper/0", 0);

/// A loop of 20 jobs, one each 5 ms, of 100 us each. In the sixth it waits for logger, which backup keeps from running for 2 ms.
fn trace() -> Vec<u8> {
    let mut trace = Trace("# tracer: nop\n#\n".to_owned());
    let mut now = 1_000_500;
    trace.switch(now, IDLE, "R", LOOP);
    for job in 0..20 {
        let due = 1_001_000 + 5_000 * job;
        let start = "hrtimer_start: hrtimer=00000000d1 function=hrtimer_wakeup expires=";
        trace.line(LOOP, now + 10, &format!("{start}{due}000 softexpires={due}000 mode=ABS"));
        trace.switch(now + 20, LOOP, "S", IDLE);
        trace.timer(due, IDLE, LOOP);
        trace.switch(due + 10, IDLE, "R", LOOP);
        now = due + 60;
        if job == 6 {
            trace.switch(now, LOOP, "S", LOGGER);
            trace.switch(now + 100, LOGGER, "R", BACKUP);
            trace.switch(now + 2_100, BACKUP, "R", LOGGER);
            trace.waking(now + 2_200, LOGGER, LOOP);
            trace.switch(now + 2_210, LOGGER, "S", LOOP);
            now += 2_210;
        }
        now += 50;
    }
    trace.switch(now, LOOP, "S", IDLE);
    trace.timer(now + 500, IDLE, LOOP);
    trace.switch(now + 510, IDLE, "R", LOOP);
    trace.0.into_bytes()
}

fn explained(cycle: &CycleChoice) -> SavedExplanations {
    let trace = trace();
    let watched = Watched::Threads([Tid(7)].into());
    explain_saved(|| Ok(trace.as_slice()), "", &watched, cycle, 3, &KernelFacts::default()).unwrap()
}

#[test]
fn the_worst_job_of_a_loop_is_explained_through_its_wait() {
    let found = explained(&CycleChoice::Recognised);
    let (task, cycle) = &found.cycles[0];
    assert_eq!((task.tid, cycle.sureness, cycle.site.by_timer), (Tid(7), Sureness::Sure, Some(true)));
    assert_eq!(cycle.period, Some(Nanos::from_millis(5)));
    // What follows the last wait has no end in the trace.
    assert_eq!(found.responses.count(), 19);
    let worst = &found.worst[0];
    assert!(worst.adds_up());
    // 50 us of its own before the wait, 70 us after it until it is switched out.
    assert_eq!((worst.latency(), worst.length()), (Nanos(10_000), Nanos(2_340_000)));
    let of = |kind: CauseKind, via: usize| -> u64 {
        let fits = |cause: &&latebound_model::Cause| cause.kind == kind && cause.via.len() == via;
        worst.causes.iter().filter(fits).map(|cause| cause.duration.0).sum()
    };
    assert_eq!(of(CauseKind::Ran, 0), 120_000);
    assert_eq!(of(CauseKind::Ran, 1), 200_000);
    assert_eq!(of(CauseKind::TaskFirst, 1), 2_000_000);
    let behind = worst.causes.iter().find(|cause| cause.kind == CauseKind::TaskFirst).unwrap();
    assert_eq!((behind.subject.as_str(), behind.via[0].task.comm.as_str()), ("backup", "logger"));
    assert_eq!(behind.via[0].known_by, KnownBy::Waker);
    assert_eq!(worst.unaccounted(), Nanos(0));
    let missing: Vec<&str> = found.missing.iter().map(|missing| missing.what.as_str()).collect();
    let all = [
        "interrupts",
        "system calls",
        "block requests",
        "locks of the kernel",
        "signal handlers",
        "memory reclaim",
        "page faults",
        "page faults without a sleep",
        "owners of locks, kinds of files, quotas and the freezer",
    ];
    assert_eq!(missing, all);
}

#[test]
fn without_a_cycle_wake_ups_are_explained() {
    let found = explained(&CycleChoice::Off);
    assert!(found.cycles.is_empty() && found.responses.count() == 0 && found.missing.is_empty());
    assert_eq!(found.latencies.count(), 22);
    assert!(found.worst.iter().all(|worst| worst.ended_at.is_none()));
    // No call is shown, so none of that name is found.
    assert!(explained(&CycleChoice::Call("futex".into())).cycles.is_empty());
}
