// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever the events are, an explanation adds up; and where they are well formed, a slow and independent way to count
//! comes to the same causes.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use latebound_analysis::{KernelFacts, explain};
use latebound_model::{
    Activation, BlockStep, CallObject, CauseKind, Cpu, Event, EventKind, InterruptKind, Mechanism, Nanos,
    Policy, PreemptionModel, SleepKind, Stack, SwitchReason, Task, Tid,
};
use proptest::prelude::*;

fn task(tid: i32, prio: i32) -> Task {
    let policy = if prio < 0 {
        Policy::Deadline
    } else if prio < 100 {
        Policy::Fifo
    } else {
        Policy::Other
    };
    Task {
        tid: Tid(tid),
        comm: format!("t{tid}").into(),
        policy: Some(policy),
        prio: Some(prio),
        kernel: false,
    }
}

fn any_task() -> impl Strategy<Value = Task> {
    (0..5i32, -1..140i32).prop_map(|(tid, prio)| task(tid, prio))
}

fn any_interrupt() -> impl Strategy<Value = InterruptKind> {
    prop_oneof![
        (0..3u32).prop_map(|irq| InterruptKind::Device { irq, name: "d".into() }),
        prop_oneof![Just("local_timer"), Just("reschedule")]
            .prop_map(|n| InterruptKind::Vector { name: n.into() }),
    ]
}

fn any_kind(span: u64) -> impl Strategy<Value = EventKind> {
    let time = move || prop_oneof![4 => 0..span, 1 => any::<u64>()].prop_map(Nanos);
    prop_oneof![
        any_interrupt().prop_map(EventKind::InterruptEntry),
        any_interrupt().prop_map(EventKind::InterruptExit),
        time().prop_map(|duration| EventKind::Nmi { duration }),
        (0..11u32).prop_map(|vector| EventKind::SoftirqRaise { vector }),
        (0..11u32).prop_map(|vector| EventKind::SoftirqEntry { vector }),
        (0..11u32).prop_map(|vector| EventKind::SoftirqExit { vector }),
        (time(), time()).prop_map(|(soft_expires, expires)| EventKind::HrtimerExpireEntry {
            timer: 1,
            soft_expires,
            expires
        }),
        Just(EventKind::HrtimerExpireExit { timer: 1 }),
        any_task().prop_map(|task| EventKind::Waking { task }),
        (0..5i32, 0..3u32).prop_map(|(tid, to)| EventKind::Migrate { tid: Tid(tid), to: Cpu(to) }),
        (any_task(), any::<bool>(), any_task()).prop_map(|(prev, blocked, next)| EventKind::Switch {
            prev,
            reason: if blocked { SwitchReason::Blocked } else { SwitchReason::Preempted },
            next
        }),
        Just(EventKind::SchedulerEntry),
        Just(EventKind::SchedulerExit),
        any::<bool>().prop_map(|lazy| EventKind::NeedResched { tid: Tid(1), lazy }),
        any::<bool>().prop_map(|lazy| EventKind::NeedReschedFound { tid: Tid(2), lazy }),
        Just(EventKind::WorkStart { work: 1, function: "f".into() }),
        Just(EventKind::WorkEnd { work: 1 }),
        Just(EventKind::KernelStack { stack: Stack(vec!["f+0x1".into()]) }),
        time().prop_map(|duration| EventKind::Stolen { duration }),
        (proptest::option::of(0..5i32), 0..3u64, any::<bool>()).prop_map(|(tid, queue, held)| {
            let quota = Some(Nanos(10));
            EventKind::Quota { tid: tid.map(Tid), queue, held, group: "/g".into(), quota, period: Nanos(60) }
        }),
        any::<Option<u64>>().prop_map(|events| EventKind::Lost { events }),
        any_job_kind(),
    ]
}

/// What only jobs are made of.
fn any_job_kind() -> impl Strategy<Value = EventKind> {
    let tid = || (0..5i32).prop_map(Tid);
    let owner = || proptest::option::of((0..5i32).prop_map(Tid));
    let sleep = prop_oneof![
        3 => Just(SleepKind::Plain),
        1 => Just(SleepKind::BlockIo),
        1 => Just(SleepKind::Stopped),
        1 => Just(SleepKind::Frozen)
    ];
    let futex = owner().prop_map(|owner| Some(CallObject::Futex { address: 8, inherits: false, owner }));
    let step = prop_oneof![Just(BlockStep::Queued), Just(BlockStep::Issued), Just(BlockStep::Completed)];
    prop_oneof![
        prop_oneof![Just(None), futex]
            .prop_map(|object| EventKind::SystemCallEntry { call: "futex".into(), object }),
        Just(EventKind::SystemCallExit),
        (tid(), sleep).prop_map(|(tid, sleep)| EventKind::SwitchedOut { tid, sleep, call: None }),
        Just(EventKind::PageFaultEntry { address: 1, mapping: "f".into() }),
        any::<bool>().prop_map(|major| EventKind::PageFaultExit { major }),
        owner().prop_map(|owner| EventKind::LockContended { lock: 1, owner }),
        Just(EventKind::LockAcquired { lock: 1 }),
        any::<bool>().prop_map(|of_group| EventKind::ReclaimBegin { of_group }),
        Just(EventKind::ReclaimEnd),
        (step, 0..2u32).prop_map(|(step, device)| EventKind::BlockRequest {
            step,
            device,
            sector: 8,
            bytes: 512,
            write: true,
            group: None
        }),
        Just(EventKind::SignalDelivered { signal: 10 }),
        Just(EventKind::SignalReturned),
    ]
}

fn any_event(span: u64) -> impl Strategy<Value = Event> {
    let at = prop_oneof![8 => 0..span, 1 => any::<u64>()];
    (at, 0..3u32, any_kind(span), proptest::option::of(0..6i32)).prop_map(|(at, cpu, kind, current)| Event {
        at: Nanos(at),
        cpu: Cpu(cpu),
        kind,
        current: current.map(Tid),
    })
}

fn late(from: u64, to: u64, timer: bool) -> Activation {
    let mechanism = if timer { Mechanism::TimerWakeup } else { Mechanism::ThreadWakeup };
    Activation::of_thread("s".into(), mechanism, task(1, 50), Cpu(0), Nanos(from), Nanos(to))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_events_are_the_causes_add_up(
        events in prop::collection::vec(any_event(2000), 0..60),
        from in 0u64..2000, length in prop_oneof![0u64..2000, any::<u64>()], timer: bool, rt: bool,
    ) {
        let facts = KernelFacts {
            hz: Some(250),
            preemption: rt.then_some(PreemptionModel::Rt),
            ..KernelFacts::default()
        };
        let explanation = explain(&late(from, from.saturating_add(length), timer), &events, &facts);
        prop_assert!(explanation.adds_up());
        let last = explanation.causes.last().map(|cause| cause.kind);
        prop_assert_eq!(last, Some(CauseKind::Unaccounted));
        prop_assert!(explanation.causes.iter().filter(|c| c.kind == CauseKind::Unaccounted).count() == 1);
        let shown: Vec<_> = explanation.causes.iter().rev().skip(1).map(|cause| cause.duration).collect();
        prop_assert!(shown.is_sorted());
    }

    #[test]
    fn whatever_the_events_are_the_causes_of_a_job_add_up(
        events in prop::collection::vec(any_event(2000), 0..80),
        from in 0u64..2000, length in 0u64..2000, more in prop_oneof![0u64..2000, any::<u64>()], timer: bool,
    ) {
        let started = from.saturating_add(length);
        let ended_at = Some(Nanos(started.saturating_add(more)));
        let job = Activation { ended_at, ..late(from, started, timer) };
        let explanation = explain(&job, &events, &KernelFacts::default());
        prop_assert!(explanation.adds_up());
        prop_assert_eq!(explanation.ended_at, ended_at);
        let last = explanation.causes.last().unwrap();
        prop_assert_eq!(last.kind, CauseKind::Unaccounted);
        // What a chain says to the start is what is said without an end.
        let start = explain(&late(from, started, timer), &events, &KernelFacts::default());
        prop_assert_eq!(start.latency(), explanation.latency());
        for cause in &explanation.causes {
            // Nobody waits for itself, or for one that waits for it.
            let mut chain: Vec<Tid> = cause.via.iter().map(|link| link.task.tid).collect();
            chain.push(Tid(1));
            let length = chain.len();
            chain.sort_unstable();
            chain.dedup();
            prop_assert_eq!(chain.len(), length);
        }
    }

    #[test]
    fn the_order_of_events_of_different_times_does_not_matter(
        mut events in prop::collection::vec(any_event(2000), 0..40),
    ) {
        events.sort_by_key(|event| event.at);
        events.dedup_by_key(|event| event.at);
        let forward = explain(&late(500, 1500, true), &events, &KernelFacts::default());
        events.reverse();
        prop_assert_eq!(forward, explain(&late(500, 1500, true), &events, &KernelFacts::default()));
    }

    /// A history is drawn as what is on top in each nanosecond; events are made from it; the oracle counts nanoseconds.
    #[test]
    fn a_nanosecond_by_nanosecond_count_comes_to_the_same_causes(
        history in prop::collection::vec((0..4usize, 1u64..40, prop::collection::vec((0..3usize, 1u64..12, 1u64..12), 0..3)), 1..8),
        before in 0u64..30, seen_entry: bool,
    ) {
        let (events, from, to, expected) = paint(&history, before, seen_entry);
        let explanation = explain(&late(from, to, false), &events, &KernelFacts::default());
        let mut got: BTreeMap<(CauseKind, String), u64> = BTreeMap::new();
        for cause in explanation.causes.iter().filter(|cause| cause.duration > Nanos::ZERO) {
            *got.entry((cause.kind, cause.subject.clone())).or_default() += cause.duration.0;
        }
        prop_assert_eq!(got, expected, "{:#?}", events);
    }
}

/// Threads that can be on the CPU while thread 1 (priority 50) waits: idle, below it, as high, above it.
fn runner(which: usize) -> Task {
    [Task::default(), task(2, 120), task(3, 50), task(4, 10)][which].clone()
}

/// Who has the CPU, for how long, and the handlers over it: which, and two lengths.
type Stretch = (usize, u64, Vec<(usize, u64, u64)>);
type Expected = BTreeMap<(CauseKind, String), u64>;

/// Thread 1 is woken at `from`; stretch after stretch another thread has the CPU, with handlers over it; then thread 1 runs.
/// `seen_entry` says whether the scheduler's entry is an event, one nanosecond before each switch.
fn paint(history: &[Stretch], before: u64, seen_entry: bool) -> (Vec<Event>, u64, u64, Expected) {
    let from = 100 + before;
    let mut events = Vec::new();
    let mut push = |at: u64, kind: EventKind| events.push(Event::new(Nanos(at), Cpu(0), kind));
    // What each nanosecond from `from` on was, in order.
    let mut nanoseconds: Vec<(CauseKind, String)> = Vec::new();
    push(
        50,
        EventKind::Switch { prev: task(1, 50), reason: SwitchReason::Blocked, next: runner(history[0].0) },
    );
    push(from, EventKind::Waking { task: task(1, 50) });
    let mut at = from;
    let mut rank = 0;
    for (index, (which, length, handlers)) in history.iter().enumerate() {
        // Who comes next may only go before: else the scheduler would have passed thread 1 over.
        let which = if index == 0 { *which } else { (*which).max(2) };
        let holder = runner(which);
        if index > 0 {
            if seen_entry {
                push(at, EventKind::SchedulerEntry);
                nanoseconds.push((CauseKind::Scheduler, String::new()));
                at += 1;
            }
            let prev = runner(rank);
            push(at, EventKind::Switch { prev, reason: SwitchReason::Blocked, next: holder.clone() });
        }
        rank = which;
        let own = match which {
            0 => (CauseKind::IdleExit, String::new()),
            1 => (CauseKind::PreemptionOff, "t2".to_owned()),
            _ => (CauseKind::TaskFirst, holder.comm.to_string()),
        };
        let task_time = |at: &mut u64, length: u64, ns: &mut Vec<(CauseKind, String)>| {
            ns.extend(std::iter::repeat_n(own.clone(), usize::try_from(length).unwrap()));
            *at += length;
        };
        task_time(&mut at, *length, &mut nanoseconds);
        for (handler, inner, outer) in handlers {
            let vector = InterruptKind::Vector { name: "reschedule".into() };
            let many = |n: u64| usize::try_from(n).unwrap();
            match handler {
                0 => {
                    push(at, EventKind::InterruptEntry(vector.clone()));
                    at += inner;
                    nanoseconds.extend(std::iter::repeat_n(
                        (CauseKind::Interrupt, "reschedule".into()),
                        many(*inner),
                    ));
                    push(at, EventKind::InterruptExit(vector));
                }
                1 => {
                    // An interrupt in the middle of a softirq.
                    let softirq = (CauseKind::Softirq, "NET_RX".to_owned());
                    push(at, EventKind::SoftirqEntry { vector: 3 });
                    at += outer;
                    nanoseconds.extend(std::iter::repeat_n(softirq.clone(), many(*outer)));
                    push(at, EventKind::InterruptEntry(vector.clone()));
                    at += inner;
                    nanoseconds.extend(std::iter::repeat_n(
                        (CauseKind::Interrupt, "reschedule".into()),
                        many(*inner),
                    ));
                    push(at, EventKind::InterruptExit(vector));
                    at += outer;
                    nanoseconds.extend(std::iter::repeat_n(softirq, many(*outer)));
                    push(at, EventKind::SoftirqExit { vector: 3 });
                }
                _ => {
                    at += inner;
                    nanoseconds.extend(std::iter::repeat_n((CauseKind::Nmi, String::new()), many(*inner)));
                    push(at, EventKind::Nmi { duration: Nanos(*inner) });
                }
            }
            task_time(&mut at, *outer, &mut nanoseconds);
        }
    }
    if seen_entry {
        push(at, EventKind::SchedulerEntry);
        nanoseconds.push((CauseKind::Scheduler, String::new()));
        at += 1;
    }
    push(at, EventKind::Switch { prev: runner(rank), reason: SwitchReason::Blocked, next: task(1, 50) });
    nanoseconds.extend(std::iter::repeat_n((CauseKind::ReturnToUser, String::new()), 7));
    let mut expected = Expected::new();
    for nanosecond in nanoseconds {
        *expected.entry(nanosecond).or_default() += 1;
    }
    (events, from, at + 7, expected)
}
