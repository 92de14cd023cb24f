// SPDX-License-Identifier: MIT OR Apache-2.0
//! How late real-time threads ran in a saved trace, from their waking to their switch.
//!
//! Owns which wake-ups the theorem speaks of: of a thread more urgent than the one that runs when it is woken, and than every
//! thread that runs before it. A CPU is followed by itself; what it saw of threads that another CPU woke or ran is kept, so
//! that both halves are put together when all CPUs have been read ([`across`]). Only wake-ups with `sched_wakeup`, which names
//! the queue, are timed. Never says whether a value is too late.

use std::collections::BTreeMap;

use latebound_model::{Cpu, MeasuredWakeup, Nanos, Tid};
use latebound_trace::TaskRef;

/// The kernel's priorities of fair threads begin here (`MAX_RT_PRIO`, include/linux/sched/prio.h, 5.15 to 6.18).
const MAX_RT_PRIO: i32 = 100;

/// So many sightings of a CPU are kept, of 32 bytes each.
const SEEN: usize = 1 << 20;
/// So many threads wait for one CPU at once, of those that are followed.
const WAITING: usize = 1 << 10;
/// So many gaps of a CPU are told apart; what comes behind them is one with the last.
const GAPS: usize = 1 << 10;

/// What one CPU saw of a real-time thread that another one may have to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemoteEvent {
    at: Nanos,
    tid: Tid,
    what: What,
}

/// In the order in which those of one instant are thought to have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// It left the CPU.
    Left,
    /// It is about to be woken.
    Woken,
    /// It was put on the queue of a CPU.
    Queued(Cpu),
    /// It runs. Since so long ago the CPU had run less urgent threads alone, and turned between them once at most; whether one
    /// of them was the idle task.
    Ran { since: Nanos, from_idle: bool },
}

/// What is left of a CPU to be put together with others.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    seen: Vec<RemoteEvent>,
    /// From the last event of the scheduler before a gap to the first one behind it.
    gaps: Vec<(Nanos, Nanos)>,
    /// Sightings for which there was no room.
    pub(crate) unseen: u64,
}

#[derive(Debug)]
struct Waiting {
    tid: Tid,
    prio: i32,
    woken: Nanos,
    from_idle: bool,
    /// Whether it is on this CPU's queue.
    queued: bool,
    /// Whether the CPU has turned to a less urgent thread since: a switch that had begun already. The next one would
    /// have been to this thread, so if it is not, the thread has been moved to another CPU.
    passed: bool,
}

/// A thread on a CPU.
#[derive(Clone, Copy, Debug)]
struct Running {
    since: Nanos,
    /// The idle task's is below all others.
    prio: i32,
    is_idle: bool,
}

/// The wake-ups of one CPU.
#[derive(Debug)]
pub(crate) struct Wakeups {
    cpu: Cpu,
    /// How many sightings are kept.
    room: usize,
    running: Option<Running>,
    /// What ran before it.
    before: Option<Running>,
    waiting: Vec<Waiting>,
    worst: Option<MeasuredWakeup>,
    /// Real-time threads that were woken from here and have not run here since.
    woken: BTreeMap<Tid, Nanos>,
    sightings: Sightings,
    /// The last event.
    last: Nanos,
    /// Whether events behind it were lost.
    in_gap: bool,
}

impl Wakeups {
    pub(crate) fn new(cpu: Cpu) -> Wakeups {
        Wakeups {
            cpu,
            room: SEEN,
            running: None,
            before: None,
            waiting: Vec::new(),
            worst: None,
            woken: BTreeMap::new(),
            sightings: Sightings::default(),
            last: Nanos(0),
            in_gap: false,
        }
    }

    /// Keeps nothing to be put together with other CPUs: for what goes on without an end.
    pub(crate) fn of_one_cpu(cpu: Cpu) -> Wakeups {
        Wakeups { room: 0, ..Wakeups::new(cpu) }
    }

    /// The CPU.
    pub(crate) fn cpu(&self) -> Cpu {
        self.cpu
    }

    /// Notes that events were lost.
    pub(crate) fn forget(&mut self) {
        (self.running, self.before) = (None, None);
        self.waiting.clear();
        self.in_gap = true;
    }

    /// Takes note of the next event, which ends a gap.
    fn go_on(&mut self, at: Nanos) {
        let start = std::mem::replace(&mut self.last, at);
        if !std::mem::take(&mut self.in_gap) {
            return;
        }
        let gaps = &mut self.sightings.gaps;
        if gaps.len() < GAPS {
            gaps.push((start, at));
        } else if let Some(last) = gaps.last_mut() {
            last.1 = at;
        }
    }

    /// The worst wake-up that happened on this CPU alone.
    pub(crate) fn worst(&self) -> Option<&MeasuredWakeup> {
        self.worst.as_ref()
    }

    /// What is left to be put together with other CPUs.
    pub(crate) fn take_sightings(&mut self) -> Sightings {
        for (tid, at) in std::mem::take(&mut self.woken) {
            self.see(at, tid, What::Woken);
        }
        self.go_on(Nanos(u64::MAX));
        std::mem::take(&mut self.sightings)
    }

    fn see(&mut self, at: Nanos, tid: Tid, what: What) {
        let Sightings { seen, unseen, .. } = &mut self.sightings;
        if seen.len() < self.room {
            seen.push(RemoteEvent { at, tid, what });
        } else {
            *unseen += 1;
        }
    }

    /// `sched_waking`.
    pub(crate) fn woken(&mut self, at: Nanos, task: &TaskRef<'_>) {
        self.go_on(at);
        if task.prio >= MAX_RT_PRIO {
            return;
        }
        if self.waiting.len() >= WAITING || self.woken.len() >= SEEN {
            self.sightings.unseen += 1;
            return;
        }
        // One that was woken from here before, and did not run here, ran elsewhere.
        if let Some(before) = self.woken.insert(task.tid, at) {
            self.see(before, task.tid, What::Woken);
        }
        self.waiting.retain(|waiting| waiting.tid != task.tid);
        let Some(Running { prio: running, is_idle: from_idle, .. }) = self.running else { return };
        if task.prio < running {
            let (tid, prio) = (task.tid, task.prio);
            self.waiting.push(Waiting { tid, prio, woken: at, from_idle, queued: false, passed: false });
        }
    }

    /// `sched_wakeup`.
    pub(crate) fn queued(&mut self, at: Nanos, task: &TaskRef<'_>, target: Cpu) {
        self.go_on(at);
        if task.prio >= MAX_RT_PRIO {
            return;
        }
        let here = target == self.cpu;
        if !here || !self.woken.contains_key(&task.tid) {
            self.see(at, task.tid, What::Queued(target));
        }
        self.waiting.retain(|waiting| here || waiting.tid != task.tid);
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.tid == task.tid) {
            waiting.queued = true;
        }
    }

    /// `sched_switch`.
    pub(crate) fn switched(&mut self, at: Nanos, prev: &TaskRef<'_>, next: &TaskRef<'_>) {
        self.go_on(at);
        if prev.prio < MAX_RT_PRIO {
            self.see(at, prev.tid, What::Left);
        }
        // A thread may become more urgent while it runs, and no switch tells when: who waited may have waited for it.
        if let Some(running) =
            self.running.as_mut().filter(|running| prev.prio < running.prio && !running.is_idle)
        {
            running.prio = prev.prio;
            self.waiting.retain(|waiting| waiting.prio < prev.prio);
        }
        let is_idle = next.tid.0 == 0;
        let prio = if is_idle { i32::MAX } else { next.prio };
        if prio < MAX_RT_PRIO && self.woken.remove(&next.tid).is_none() {
            let (since, from_idle) = self.less_urgent(at, prio);
            self.see(at, next.tid, What::Ran { since, from_idle });
        }
        self.before = self.running.replace(Running { since: at, prio, is_idle });
        if self.waiting.is_empty() {
            return;
        }
        if let Some(place) = self.waiting.iter().position(|waiting| waiting.tid == next.tid) {
            let waiting = self.waiting.swap_remove(place);
            let latency = at.saturating_sub(waiting.woken);
            if waiting.queued && self.worst.as_ref().is_none_or(|worst| worst.latency < latency) {
                self.worst = Some(MeasuredWakeup {
                    latency,
                    woken: waiting.woken,
                    tid: next.tid,
                    comm: next.comm.to_string(),
                    from_idle: waiting.from_idle,
                });
            }
        }
        self.waiting.retain_mut(|waiting| {
            let stays = waiting.prio < prio && !waiting.passed;
            waiting.passed = true;
            stays
        });
    }

    /// Since when the CPU has run threads alone that are less urgent than `prio`, with one switch between them at most.
    fn less_urgent(&self, now: Nanos, prio: i32) -> (Nanos, bool) {
        let less = |running: Option<Running>| running.filter(|running| prio < running.prio);
        match (less(self.running), less(self.before)) {
            (Some(running), Some(before)) => (before.since, running.is_idle || before.is_idle),
            (Some(running), None) => (running.since, running.is_idle),
            (None, _) => (now, false),
        }
    }
}

/// Wake-ups of threads on one CPU by others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Across {
    /// How many.
    pub(crate) count: u64,
    /// The worst of them; without the name of the thread.
    pub(crate) worst: Option<MeasuredWakeup>,
}

/// Puts together what the CPUs saw: a wake-up on one with the run of the thread on another, by the CPU that it ran on. Times
/// of different CPUs are compared, so their clocks must agree. Where a thread seems to leave a CPU between its waking and its
/// run, it was woken while it was still on its way out, or the clocks do not agree: that is not timed. Nor is what has a gap of
/// any CPU within it, where the halves of two wake-ups may meet.
pub(crate) fn across(cpus: impl IntoIterator<Item = (Cpu, Sightings)>) -> BTreeMap<Cpu, Across> {
    let mut all: Vec<(RemoteEvent, Cpu)> = Vec::new();
    let mut gaps: Vec<(Nanos, Nanos)> = Vec::new();
    for (cpu, sightings) in cpus {
        all.extend(sightings.seen.into_iter().map(|seen| (seen, cpu)));
        gaps.extend(sightings.gaps);
    }
    let has_gap = |from, to| gaps.iter().any(|&(start, end)| start <= to && end >= from);
    all.sort_unstable_by_key(|(seen, cpu)| (seen.tid, seen.at, seen.what, *cpu));
    let mut found: BTreeMap<Cpu, Across> = BTreeMap::new();
    // The thread, when and where it was woken, and the queue that it was put on.
    let mut pending: Option<(Tid, Nanos, Cpu, Option<Cpu>)> = None;
    for (seen, cpu) in all {
        let same = pending.filter(|&(tid, ..)| tid == seen.tid);
        pending = match (seen.what, same) {
            (What::Woken, _) => Some((seen.tid, seen.at, cpu, None)),
            (What::Queued(target), Some((tid, woken, waker, _))) => Some((tid, woken, waker, Some(target))),
            (What::Ran { since, from_idle }, Some((tid, woken, waker, Some(queue)))) => {
                if waker != cpu && queue == cpu && since <= woken && !has_gap(woken, seen.at) {
                    let across = found.entry(cpu).or_default();
                    across.count += 1;
                    let latency = seen.at.saturating_sub(woken);
                    if across.worst.as_ref().is_none_or(|worst| worst.latency < latency) {
                        let comm = String::new();
                        across.worst = Some(MeasuredWakeup { latency, woken, tid, comm, from_idle });
                    }
                }
                None
            }
            _ => None,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_trace::Comm;

    fn task(tid: i32, prio: i32) -> TaskRef<'static> {
        TaskRef { comm: Comm(b"task"), tid: Tid(tid), prio }
    }

    const FAIR: (i32, i32) = (10, 120);
    const RT: (i32, i32) = (20, 4);

    /// CPU 1 runs a fair thread from 100 on and the real-time thread from `ran` on; CPU 0 wakes that at `woken`.
    fn two_cpus(woken: u64, queue: u32, ran: u64, between: impl Fn(&mut Wakeups)) -> BTreeMap<Cpu, Across> {
        let (mut waker, mut other) = (Wakeups::new(Cpu(0)), Wakeups::new(Cpu(1)));
        let (fair, rt) = (task(FAIR.0, FAIR.1), task(RT.0, RT.1));
        other.switched(Nanos(50), &rt, &task(0, 120));
        other.switched(Nanos(100), &task(0, 120), &fair);
        between(&mut other);
        other.switched(Nanos(ran), &fair, &rt);
        other.switched(Nanos(ran + 100), &rt, &fair);
        waker.switched(Nanos(10), &task(0, 120), &task(30, 2));
        waker.woken(Nanos(woken), &rt);
        waker.queued(Nanos(woken + 5), &rt, Cpu(queue));
        assert_eq!((waker.worst(), other.worst()), (None, None), "no CPU alone sees both ends");
        across([(Cpu(0), waker.take_sightings()), (Cpu(1), other.take_sightings())])
    }

    fn latency(found: &BTreeMap<Cpu, Across>) -> Option<u64> {
        assert!(!found.contains_key(&Cpu(0)));
        found.get(&Cpu(1)).map(|across| across.worst.as_ref().unwrap().latency.0)
    }

    #[test]
    fn a_wake_up_by_another_cpu_counts_from_there_to_the_run_here() {
        // More urgent than the waker's own thread or not: only the CPU that it runs on matters.
        assert_eq!(latency(&two_cpus(1_000, 1, 51_000, |_| {})), Some(50_000));
        // Queued elsewhere, and moved here later.
        assert_eq!(latency(&two_cpus(1_000, 2, 51_000, |_| {})), None);
        // Something more urgent ran in between, or when it was woken.
        let more_urgent = |other: &mut Wakeups| {
            other.switched(Nanos(2_000), &task(FAIR.0, FAIR.1), &task(40, 1));
            other.switched(Nanos(3_000), &task(40, 1), &task(FAIR.0, FAIR.1));
        };
        assert_eq!(latency(&two_cpus(1_000, 1, 51_000, more_urgent)), None);
        assert_eq!(latency(&two_cpus(2_500, 1, 51_000, more_urgent)), None);
        assert_eq!(latency(&two_cpus(3_500, 1, 51_000, more_urgent)), Some(47_500));
        // Events of either CPU are missing in between, or are not.
        assert_eq!(latency(&two_cpus(1_000, 1, 51_000, |other| other.forget())), None);
        let early = |other: &mut Wakeups| {
            other.forget();
            other.switched(Nanos(900), &task(11, 120), &task(FAIR.0, FAIR.1));
        };
        assert_eq!(latency(&two_cpus(1_000, 1, 51_000, early)), Some(50_000));
    }

    #[test]
    fn a_thread_that_becomes_more_urgent_while_it_runs_is_waited_for() {
        let worst = |leaves_with: i32| {
            let mut cpu = Wakeups::new(Cpu(0));
            cpu.switched(Nanos(100), &task(0, 120), &task(FAIR.0, FAIR.1));
            cpu.woken(Nanos(1_000), &task(RT.0, RT.1));
            cpu.queued(Nanos(1_001), &task(RT.0, RT.1), Cpu(0));
            cpu.switched(Nanos(5_000), &task(FAIR.0, leaves_with), &task(RT.0, RT.1));
            cpu.worst().map(|worst| worst.latency.0)
        };
        assert_eq!([worst(FAIR.1), worst(RT.1 + 1)], [Some(4_000), Some(4_000)]);
        assert_eq!([worst(RT.1), worst(RT.1 - 1)], [None, None]);
        // The same of a thread that another CPU woke: what ran before the last switch, ran as the more urgent one.
        let more_urgent = |leaves_with: i32| {
            move |other: &mut Wakeups| {
                other.switched(Nanos(2_000), &task(FAIR.0, leaves_with), &task(11, 120))
            }
        };
        assert_eq!(latency(&two_cpus(1_000, 1, 3_000, more_urgent(FAIR.1))), Some(2_000));
        assert_eq!(latency(&two_cpus(1_000, 1, 3_000, more_urgent(1))), None);
    }

    #[test]
    fn one_switch_that_had_begun_may_come_between_and_no_second_one() {
        let switches = |count: u64| {
            move |other: &mut Wakeups| {
                for at in 0..count {
                    let pair = [task(FAIR.0, FAIR.1), task(11, 120)];
                    let (from, to) = ((at % 2) as usize, ((at + 1) % 2) as usize);
                    other.switched(Nanos(1_100 + at), &pair[from], &pair[to]);
                }
            }
        };
        assert_eq!(latency(&two_cpus(1_000, 1, 2_000, switches(1))), Some(1_000));
        assert_eq!(latency(&two_cpus(1_000, 1, 2_000, switches(2))), None);
    }

    #[test]
    fn a_waking_that_the_other_clock_puts_into_the_run_itself_is_not_timed() {
        // By its own clock CPU 1 had run the thread at 990 already; it left at 1 090.
        let found = two_cpus(1_000, 1, 990, |_| {});
        assert_eq!(latency(&found), None);
        let mut waker = Wakeups::new(Cpu(0));
        let mut other = Wakeups::new(Cpu(1));
        let (fair, rt) = (task(FAIR.0, FAIR.1), task(RT.0, RT.1));
        waker.woken(Nanos(1_000), &rt);
        waker.queued(Nanos(1_001), &rt, Cpu(1));
        for at in [990, 1_990] {
            other.switched(Nanos(at), &fair, &rt);
            other.switched(Nanos(at + 100), &rt, &fair);
        }
        let found = across([(Cpu(0), waker.take_sightings()), (Cpu(1), other.take_sightings())]);
        assert_eq!(latency(&found), None, "it left in between, so the second run is not of that waking");
    }

    #[test]
    fn threads_that_never_run_are_not_followed_without_end() {
        let mut cpu = Wakeups::new(Cpu(0));
        cpu.switched(Nanos(1), &task(0, 120), &task(FAIR.0, FAIR.1));
        for tid in 0..100_000 {
            cpu.woken(Nanos(2), &task(100 + tid, 50));
        }
        assert_eq!(cpu.waiting.len(), WAITING);
        assert_eq!(cpu.take_sightings().unseen, 100_000 - WAITING as u64);
    }

    #[test]
    fn a_wake_up_on_its_own_cpu_is_reported_there_and_not_twice() {
        let mut cpu = Wakeups::new(Cpu(1));
        let (fair, rt) = (task(FAIR.0, FAIR.1), task(RT.0, RT.1));
        cpu.switched(Nanos(100), &task(0, 120), &fair);
        cpu.woken(Nanos(200), &rt);
        cpu.queued(Nanos(210), &rt, Cpu(1));
        cpu.switched(Nanos(700), &fair, &rt);
        assert_eq!(cpu.worst().map(|worst| worst.latency), Some(Nanos(500)));
        assert_eq!(across([(Cpu(1), cpu.take_sightings())]), BTreeMap::new());
    }
}
