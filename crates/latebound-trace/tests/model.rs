// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved traces as events of the model.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use latebound_model::{Cpu, Event, EventKind, InterruptKind, Nanos, SwitchReason, Tid};
use latebound_trace::{TraceFile, for_each_event};
use support::fixture;

fn model_events(name: &str) -> Vec<Event> {
    let trace = TraceFile::open(fixture(name)).unwrap();
    let mut events = Vec::new();
    for_each_event(&trace, trace.buffer("").unwrap(), |event| events.push(event)).unwrap();
    events
}

#[test]
fn a_timer_wakeup_in_a_saved_trace_is_followed_from_expiry_to_switch() {
    let events = model_events("v7-zstd.trace.dat");
    assert!(events.is_sorted_by_key(|event| event.at));
    let local_timer = InterruptKind::Vector { name: "local_timer".into() };
    // trace-cmd report: sleep-23768 hrtimer_start hrtimer=0xffffc9000a347c30 expires=1528531960589
    // softexpires=1528531910589; then <idle>-0 [001] 1528.531994 hrtimer_expire_entry, sched_waking of sleep 23768.
    let (timer, soft_expires, expires) =
        (0xffff_c900_0a34_7c30, Nanos(1_528_531_910_589), Nanos(1_528_531_960_589));
    let entry = EventKind::HrtimerExpireEntry { timer, soft_expires, expires };
    let at = events.iter().position(|event| event.kind == entry).unwrap();
    let (before, after) = (&events[..at], &events[at + 1..]);
    let cpu = events[at].cpu;
    assert_eq!((cpu, events[at].at), (Cpu(1), Nanos(1_528_531_994_277)));
    let entry = before.iter().rev().find(|event| event.cpu == cpu).unwrap();
    assert_eq!(entry.kind, EventKind::InterruptEntry(local_timer));
    let waking = at + 1 + after.iter().position(|event| event.cpu == cpu).unwrap();
    let EventKind::Waking { task } = &events[waking].kind else { panic!("{:?}", events[waking]) };
    assert_eq!((task.tid, task.comm.as_str(), task.prio), (Tid(23768), "sleep", Some(120)));
    // This recording has no switch from CPU 1's idle task, by trace-cmd's account either; the next one is sleep's end.
    let (switch_at, switch) = events[waking..]
        .iter()
        .find_map(|event| match &event.kind {
            EventKind::Switch { prev, reason, next } if prev.tid == task.tid => {
                Some((event.at, (*reason, next.comm.as_str(), next.is_idle())))
            }
            _ => None,
        })
        .unwrap();
    assert_eq!(switch_at, Nanos(1_528_532_196_280));
    assert_eq!(switch, (SwitchReason::Blocked, "swapper/1", true));
}

#[test]
fn overwritten_events_become_a_loss_before_the_next_event_of_their_cpu() {
    let events = model_events("v7-overwritten.trace.dat");
    for (cpu, lost) in [(Cpu(0), 497), (Cpu(1), 600)] {
        let of_cpu: Vec<_> = events.iter().filter(|event| event.cpu == cpu).collect();
        assert_eq!(of_cpu[0].kind, EventKind::Lost { events: Some(lost) });
        assert_eq!(of_cpu[0].at, of_cpu[1].at);
    }
    let device = |event: &&Event| match &event.kind {
        EventKind::InterruptExit(InterruptKind::Device { irq: 36, name }) => name == "virtio1-req.0",
        _ => false,
    };
    assert!(events.iter().filter(device).count() > 3, "exits carry the name that the entry had");
}
