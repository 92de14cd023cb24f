// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stretches in which a CPU stood still: a hypervisor ran something else and does not say so, or firmware took the processor
//! (system management mode). Whatever was running then is innocent.
//!
//! A CPU that stands still makes no event, so only gaps between events come into question. A gap is believed where two
//! things meet that no handler and no thread brings about:
//! - it lasts hundreds of times what the same takes as a rule, and many times what 99 % take, in something that cannot last by its
//!   own doing: the processor's timer and reschedule interrupts outside of a timer's callback, and the way out of idle;
//! - or the timers of another CPU were due in the same gap and came behind it as well, and that CPU was idle, where nothing masks
//!   interrupts, or the gap is long by its own distribution too.
//!
//! What meets less than that keeps its cause, and the gap is reported as one that may have been a standstill; but not where a thread ran in it
//! until a timer that came when it was due.

use std::collections::BTreeMap;

use latebound_model::{Cpu, Event, EventKind, Histogram, Nanos, Standstill};

use super::limits;
use super::timeline::{Frame, Timeline, Top};
use super::usual::Usual;

/// A gap of the events of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    start: Nanos,
    end: Nanos,
}

impl Gap {
    fn length(self) -> Nanos {
        self.end.saturating_sub(self.start)
    }
}

/// Whether the CPU made this event itself, at its time.
fn is_own(event: &Event) -> bool {
    // An order to give way and a wait for a quota can be another CPU's doing; stolen time is reported afterwards.
    !matches!(
        event.kind,
        EventKind::NeedResched { .. }
            | EventKind::Quota { .. }
            | EventKind::Stolen { .. }
            | EventKind::Lost { .. }
    )
}

/// The events in `[from, to]`, of events in order of time.
fn between<'s, 'e>(events: &'s [&'e Event], from: Nanos, to: Nanos) -> &'s [&'e Event] {
    let begin = events.partition_point(|event| event.at < from);
    let end = events.partition_point(|event| event.at <= to);
    events.get(begin..end).unwrap_or_default()
}

fn gaps<'e>(events: &'e [&Event]) -> impl Iterator<Item = Gap> + 'e {
    let mut own = events.iter().filter(|event| is_own(event)).map(|event| event.at);
    let mut before = own.next();
    own.filter_map(move |at| before.replace(at).map(|start| Gap { start, end: at }))
}

/// Whether some CPU has a gap that comes into question.
pub(super) fn is_possible(events: &[Event], from: Nanos, to: Nanos) -> bool {
    let mut by_cpu: BTreeMap<Cpu, Vec<&Event>> = BTreeMap::new();
    for event in events {
        by_cpu.entry(event.cpu).or_default().push(event);
    }
    by_cpu.values_mut().any(|own| {
        own.sort_by_key(|event| event.at);
        gaps(own).any(|gap| gap.end.min(to).saturating_sub(gap.start.max(from)) >= limits::STANDSTILL)
    })
}

/// The standstills of one CPU that overlap `[from, to]`, in order.
pub(super) fn find(
    cpu: Cpu,
    from: Nanos,
    to: Nanos,
    events: &BTreeMap<Cpu, Vec<&Event>>,
    timelines: &BTreeMap<Cpu, Timeline>,
    usual: &Usual,
) -> Vec<Standstill> {
    let (Some(own), Some(timeline)) = (events.get(&cpu), timelines.get(&cpu)) else { return Vec::new() };
    let mut found = Vec::new();
    for gap in gaps(own).filter(|gap| gap.length() >= limits::STANDSTILL && gap.start < to && gap.end > from)
    {
        let Some(top) = timeline.top(gap.start) else { continue };
        // Where events were lost or the hypervisor owns up to most of it, nothing is to be guessed.
        if timeline.stolen_within(gap.start, gap.end).0 >= gap.length().0 / 2 {
            continue;
        }
        let lost = between(own, gap.start, gap.end)
            .iter()
            .any(|event| matches!(event.kind, EventKind::Lost { .. }) && gap.start < event.at);
        if lost {
            continue;
        }
        let within = Within::of(top, own, gap.start, usual);
        // An idle CPU has nothing to do until something is due.
        let begin = if within.is_idle { gap.start.max(from) } else { gap.start };
        let gap = Gap { start: begin, ..gap };
        if gap.length() < limits::STANDSTILL {
            continue;
        }
        let others = held_up_too(cpu, gap, events, timelines);
        let quantile = |q| within.usual.and_then(|usual| usual.quantile(q));
        let (median, p99) = (quantile(0.5), quantile(0.99));
        let times = |of: Option<Nanos>| of.map(|of| gap.length().0 / of.0.max(1));
        let of_median = times(median).filter(|_| p99.is_some());
        let long = of_median.is_some_and(|times| times >= limits::STANDSTILL_MEDIANS)
            && times(p99).is_some_and(|times| times >= limits::STANDSTILL_TAILS);
        let somewhat_long = of_median.is_none_or(|times| times * 10 >= limits::STANDSTILL_MEDIANS);
        let elsewhere = others.iter().any(|other| other.idle) || (!others.is_empty() && somewhat_long);
        let sure = (long && within.is_short) || elsewhere;
        let is_thread = top.frame.is_none() && !within.is_idle;
        if !sure && ((!long && others.is_empty()) || (is_thread && ends_on_time(own, gap))) {
            continue;
        }
        // What it takes as a rule stays with what was running.
        let rest = median.unwrap_or_default();
        found.push(Standstill {
            cpu,
            start: Nanos(gap.start.0.saturating_add(rest.0)).min(gap.end),
            end: gap.end,
            sure,
            within: within.name,
            median: of_median.and(median),
            p99,
            usual_count: within.usual.map_or(0, Histogram::count),
            other_cpus: others.iter().map(|other| other.cpu).collect(),
        });
    }
    found
}

/// What was running when the gap began.
struct Within<'u> {
    name: String,
    usual: Option<&'u Histogram>,
    /// Whether it cannot last by its own doing.
    is_short: bool,
    is_idle: bool,
}

impl<'u> Within<'u> {
    fn of(top: &Top, events: &[&Event], at: Nanos, usual: &'u Usual) -> Within<'u> {
        match (&top.frame, &top.task) {
            (Some(open), _) => {
                let name = match &open.frame {
                    Frame::Interrupt(kind) => kind.to_string(),
                    Frame::Softirq(vector) => latebound_model::softirq_name(*vector).to_owned(),
                };
                let own = matches!(&open.frame, Frame::Interrupt(kind)
                    if kind.is_local_timer() || kind.is_reschedule());
                Within {
                    usual: usual.handler(&name),
                    is_short: own && !in_callback(events, at),
                    is_idle: false,
                    name,
                }
            }
            (None, Some(task)) if task.is_idle() => Within {
                name: "idle".to_owned(),
                usual: Some(usual.idle_exits()),
                is_short: true,
                is_idle: true,
            },
            (None, task) => Within {
                name: task.as_ref().map_or_else(|| "a thread".to_owned(), |task| task.comm.to_string()),
                usual: Some(usual.delays()),
                is_short: false,
                is_idle: false,
            },
        }
    }
}

/// Whether the gap ends with a timer that came when it was due, the tick as a rule: a thread that computes makes no event from one to the next,
/// and a CPU that stands still comes late to its timers.
fn ends_on_time(events: &[&Event], gap: Gap) -> bool {
    let near = gap.length().0 / 10;
    let next = between(events, gap.end, Nanos(gap.end.0.saturating_add(near)));
    let due = next.iter().find_map(|event| match &event.kind {
        EventKind::HrtimerExpireEntry { expires, .. } => Some(*expires),
        _ => None,
    });
    due.is_some_and(|due| due >= gap.end.saturating_sub(Nanos(near)))
}

/// Whether a timer's callback was running, which may take as long as it likes.
fn in_callback(events: &[&Event], at: Nanos) -> bool {
    let last = between(events, Nanos::ZERO, at).iter().rev().find(|event| {
        matches!(
            event.kind,
            EventKind::HrtimerExpireEntry { .. }
                | EventKind::HrtimerExpireExit { .. }
                | EventKind::InterruptEntry(_)
                | EventKind::Switch { .. }
        )
    });
    last.is_some_and(|event| matches!(event.kind, EventKind::HrtimerExpireEntry { .. }))
}

/// Another CPU that made no event in the same gap.
struct Other {
    cpu: Cpu,
    idle: bool,
}

/// The CPUs with a timer that was due in the gap and came behind it, after a gap of their own that ends together with
/// this one. An idle CPU's gap may have begun earlier.
fn held_up_too(
    own: Cpu,
    gap: Gap,
    events: &BTreeMap<Cpu, Vec<&Event>>,
    timelines: &BTreeMap<Cpu, Timeline>,
) -> Vec<Other> {
    let near = Nanos(gap.length().0 / 10);
    let early = Nanos(gap.start.0.saturating_add(near.0));
    let late = |at: Nanos| Nanos(at.0.saturating_add(near.0));
    let mut found = Vec::new();
    for (cpu, events) in events.iter().filter(|(cpu, _)| **cpu != own) {
        let earliest = gap.end.saturating_sub(near);
        let before = between(events, Nanos::ZERO, earliest).iter().rev();
        let before = before.skip_while(|event| event.at == earliest).find(|event| is_own(event));
        let near_end = between(events, earliest, late(gap.end));
        let ends: Vec<&Event> = before.into_iter().chain(near_end).copied().collect();
        let Some(other) = gaps(&ends).find(|other| other.start <= early) else { continue };
        let overdue = between(events, other.end, late(other.end)).iter().any(|event| match &event.kind {
            // Due early enough in the gap that it was late by a good part of it.
            EventKind::HrtimerExpireEntry { expires, .. } => {
                gap.start <= *expires && expires.0 <= gap.end.0 - gap.length().0 / 4
            }
            _ => false,
        });
        let top = timelines.get(cpu).and_then(|timeline| timeline.top(other.start));
        let Some(top) = top.filter(|_| overdue) else { continue };
        let idle = top.frame.is_none() && top.task.as_ref().is_some_and(|task| task.is_idle());
        found.push(Other { cpu: *cpu, idle });
    }
    found
}
