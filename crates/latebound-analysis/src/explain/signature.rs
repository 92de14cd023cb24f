// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns that have a name of their own in the field.

use latebound_model::{CauseKind, Event, EventKind, Explanation, Nanos, Signature, SwitchReason};

use super::classify::Case;
use super::facts::KernelFacts;
use super::limits;
use super::precedence::{is_fair, is_real_time};
use super::timeline::Frame;

/// The patterns of an explanation whose causes are complete.
pub(super) fn recognise(explanation: &Explanation, case: &Case<'_>, facts: &KernelFacts) -> Vec<Signature> {
    let mut found = Vec::new();
    if is_real_time(&case.task) && explanation.causes.iter().any(|cause| cause.kind == CauseKind::Throttled) {
        found.push(Signature::RtThrottling);
    }
    if is_fair(&case.task) && starved(explanation, case, facts) {
        let by_server = facts.fair_server.is_some();
        found.push(if by_server { Signature::FairServer } else { Signature::RtThrottling });
    }
    if case.events.values().any(|events| softirq_budget(events, case)) {
        found.push(Signature::SoftirqBudget);
    }
    if is_fair(&case.task) && ended_at_tick(case, facts) {
        found.push(Signature::Tick);
    }
    let idle: Nanos = explanation
        .causes
        .iter()
        .filter(|cause| cause.kind == CauseKind::IdleExit)
        .map(|cause| cause.duration)
        .sum();
    if idle >= limits::DEEP_IDLE && !facts.emulated && facts.deep_idle != Some(false) {
        found.push(Signature::DeepIdle);
    }
    found
}

/// A fair thread that real-time threads kept from running (nine tenths of the time or more) until one of them had to
/// give way to the fair class although it could run on: nothing but throttling or the fair server does that. (Another fair
/// thread may be the first to profit.) Where the switch was not seen,
/// a wait that is as long as the server's makes the same.
fn starved(explanation: &Explanation, case: &Case<'_>, facts: &KernelFacts) -> bool {
    let latency = explanation.length().0;
    let behind: u64 = explanation
        .causes
        .iter()
        .filter(|cause| cause.kind == CauseKind::TaskFirst && cause.task.as_ref().is_some_and(is_real_time))
        .map(|cause| cause.duration.0)
        .sum();
    if latency == 0 || u128::from(behind) * 10 < u128::from(latency) * 9 {
        return false;
    }
    let rescued = |event: &&Event| match &event.kind {
        EventKind::Switch { prev, reason: SwitchReason::Preempted, next } => {
            is_real_time(prev) && is_fair(next) && case.from <= event.at && event.at <= case.to
        }
        _ => false,
    };
    let here = case.events.get(&case.cpu).into_iter().flatten();
    let wait = facts
        .fair_server
        .as_ref()
        .map(|server| server.period.saturating_sub(server.runtime))
        .or_else(|| facts.rt_throttling.as_ref().and_then(|rt| rt.runtime));
    let as_long = wait.is_some_and(|wait| wait.0.abs_diff(latency) <= limits::SERVER_TOLERANCE.0);
    as_long || here.into_iter().any(rescued)
}

/// Softirq handlers one after another for the whole budget, in the interval.
fn softirq_budget(events: &[&Event], case: &Case<'_>) -> bool {
    struct Burst {
        start: Nanos,
        end: Nanos,
        vector: u32,
        rounds: u32,
        /// Whether a handler is running.
        inside: bool,
    }
    let apart = |end: Nanos, next: Nanos| next.saturating_sub(end) > limits::SOFTIRQ_GAP;
    let mut burst: Option<Burst> = None;
    for event in events {
        match &event.kind {
            EventKind::Switch { .. } | EventKind::SchedulerEntry | EventKind::Lost { .. } => burst = None,
            // An interrupt between two handlers stretches the gap but does not end the burst.
            EventKind::InterruptEntry(_) => {
                burst.take_if(|burst| !burst.inside && apart(burst.end, event.at));
            }
            EventKind::InterruptExit(_) => {
                if let Some(burst) = &mut burst {
                    burst.end = event.at;
                }
            }
            EventKind::SoftirqEntry { vector } => {
                let goes_on = burst.as_ref().is_some_and(|burst| !apart(burst.end, event.at));
                match &mut burst {
                    Some(burst) if goes_on => {
                        // Within a round the vectors go up; a step back begins the next round.
                        burst.rounds += u32::from(*vector <= burst.vector);
                        burst.vector = *vector;
                        burst.inside = true;
                    }
                    _ => {
                        burst = Some(Burst {
                            start: event.at,
                            end: event.at,
                            vector: *vector,
                            rounds: 1,
                            inside: true,
                        });
                    }
                }
            }
            EventKind::SoftirqExit { .. } => {
                if let Some(burst) = &mut burst {
                    burst.end = event.at;
                    burst.inside = false;
                    let spent = burst.end.saturating_sub(burst.start) >= limits::SOFTIRQ_TIME;
                    let inside = burst.start < case.to && burst.end > case.from;
                    if inside && (spent || burst.rounds >= limits::SOFTIRQ_RESTARTS) {
                        return true;
                    }
                }
            }
            _ => {}
        }
    }
    false
}

/// The last wait ended because a tick told the thread before it to give way.
fn ended_at_tick(case: &Case<'_>, facts: &KernelFacts) -> bool {
    let Some((start, end)) = case.life.waits(case.from, case.to).last() else { return false };
    let Some(hz) = facts.hz.filter(|hz| *hz > 0) else { return false };
    let tick = 1_000_000_000 / u64::from(hz);
    if end.saturating_sub(start).0 > tick + tick / 10 {
        return false;
    }
    let Some(cpu) = case.life.place(end) else { return false };
    let (Some(events), Some(timeline)) = (case.events.get(&cpu), case.timelines.get(&cpu)) else {
        return false;
    };
    let order = events.iter().filter(|event| start < event.at && event.at <= end).rfind(|event| {
        matches!(event.kind, EventKind::NeedResched { .. } | EventKind::NeedReschedFound { .. })
    });
    let Some(order) = order else { return false };
    timeline.top(order.at).and_then(|top| top.frame.as_ref()).is_some_and(|open| {
        let by_timer = match &open.frame {
            Frame::Interrupt(kind) => kind.is_timer(),
            Frame::Softirq(_) => false,
        };
        by_timer && open.since.is_some_and(|since| since > start)
    })
}
