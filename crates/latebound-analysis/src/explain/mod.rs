// SPDX-License-Identifier: MIT OR Apache-2.0
//! One late activation, cut into named causes that add up to it.
//!
//! [`explain`] rebuilds what was on top of the CPU at each instant ([`timeline`]) and what the late thread did itself
//! ([`thread`]), cuts the interval wherever either changed, and gives every piece to one cause ([`classify`]). Sums are
//! exact because pieces are only ever handed out, never measured again. What events do not tell is `Unaccounted`.
//!
//! Decisions that the data leaves open:
//! - An idle CPU with the thread already woken is `IdleExit` until `__schedule` is entered: the idle loop has to end
//!   first. Kernels before 6.16 do not show that entry, so there it lasts until the switch.
//! - A thread of lower precedence that runs on after the wake-up is `PreemptionOff` up to `__schedule`; before 6.16 up to
//!   the switch.
//! - The scheduler passing a waiting thread over, by choosing one that must come after it, is the mark of throttling:
//!   then all that lower threads ran until the next order to give way is `Throttled`, not `PreemptionOff`.
//! - Stolen time lies at the ends of the longest gaps between events of its window ([`timeline`]).
//! - A gap between events that no handler and no thread brings about is a standstill of the CPU ([`standstill`]).
//! - While a quota holds a ready thread, that is the cause whatever the CPU does meanwhile ([`quota`]).
//! - An interrupt that was due while a softirq's handler was on top counts to that softirq.

mod classify;
mod facts;
mod job;
pub mod limits;
mod machine;
mod meanwhile;
mod precedence;
mod quota;
mod requests;
mod signature;
mod standstill;
mod story;
mod thread;
mod timeline;
mod usual;

use std::collections::BTreeMap;

use latebound_model::{
    Activation, Cause, CauseKind, Cpu, Event, EventKind, Explanation, Loss, LossKind, Nanos, Span, Stack,
    Task, WaitLink,
};

pub use self::facts::KernelFacts;
pub(crate) use self::precedence::is_real_time;
pub use self::usual::{Usual, UsualCounter};

use self::classify::{Case, Key, Subject};
use self::job::{Job, Piece};
use self::machine::Machine;

/// Timers of other CPUs that a standstill held up too come so long after the thread ran: until then more may be known of it.
pub const KNOWN_AFTER: Nanos = Nanos::from_millis(2);

/// Whether some gap between events of a late activation is so long that it may be a standstill: then
/// [`KernelFacts::usual`] and the events of all CPUs are worth having.
pub fn may_be_standstill(events: &[Event], late: &Activation) -> bool {
    standstill::is_possible(events, late.requested_at, late.started_at)
}

/// Explains one late activation from the events around it: up to its start, or, where it is a job whose end is known
/// ([`Activation::ended_at`]), up to its completion.
///
/// `events` may be of several CPUs and in any order; they should begin some milliseconds before the interval, so that
/// what was going on at its beginning is known, and be complete from there on but for `Lost` events. Whatever they are,
/// the causes add up to the interval exactly. A start before the request counts as no latency at all, an end before the start as one
/// at the start. Whom a job waits for is found in the events of all CPUs.
pub fn explain(late: &Activation, events: &[Event], facts: &KernelFacts) -> Explanation {
    let from = late.requested_at;
    let started = late.started_at.max(from);
    let ended = late.ended_at.map(|ended| ended.max(started));
    let machine = Machine::new(events, facts);
    let subject = Subject {
        tid: late.runner_tid(),
        task: late.runner.as_ref(),
        cpu: late.started_cpu,
        mechanism: late.mechanism,
        from,
        to: started,
    };
    let case = Case::new(&subject, &machine);
    let pieces = match ended {
        None => to_start(&case),
        Some(ended) => {
            let job = Job::new(&machine, &subject, ended);
            let mut pieces = if job.is_behind() { job.pieces(from, started) } else { to_start(&case) };
            pieces.extend(job.pieces(started, ended));
            pieces
        }
    };

    let mut index: BTreeMap<Key, usize> = BTreeMap::new();
    let mut causes: Vec<Cause> = Vec::new();
    let mut spans: Vec<Span> = Vec::new();
    for Piece { start, end, key, task, via } in pieces {
        let cause = *index.entry(key).or_insert_with_key(|key| {
            causes.push(new_cause(key, task, via, &case));
            causes.len() - 1
        });
        causes[cause].duration = Nanos(causes[cause].duration.0 + (end.0 - start.0));
        match spans.last_mut() {
            Some(last) if last.cause == cause => last.end = end,
            _ => {
                causes[cause].spans += 1;
                spans.push(Span { start, end, cause });
            }
        }
    }
    if !causes.iter().any(|cause| cause.kind == CauseKind::Unaccounted && cause.via.is_empty()) {
        causes.push(new_cause(&Key::unaccounted(), None, Vec::new(), &case));
    }
    order(&mut causes, &mut spans);
    attach_stacks(&mut causes, &case);
    meanwhile::attach(&mut causes, &spans, &machine.timelines);
    let mut task = case.task.clone();
    if task.comm.is_empty() {
        task.comm = late.subject.as_str().into();
    }
    let mut explanation = Explanation {
        series: late.series.clone(),
        mechanism: late.mechanism,
        task,
        cpu: late.started_cpu,
        requested_at: from,
        started_at: started,
        ended_at: ended,
        open: late.open,
        causes,
        spans,
        signatures: Vec::new(),
        standstills: case.standstills_inside(),
        members: Vec::new(),
        losses: losses(&machine.sorted, &case, ended.unwrap_or(started)),
    };
    explanation.signatures = signature::recognise(&explanation, &case, facts);
    explanation
}

/// The causes from the request to the start.
fn to_start(case: &Case<'_>) -> Vec<Piece> {
    let mut cuts = case.cuts();
    cuts.extend([case.from, case.to]);
    cuts.sort_unstable();
    cuts.dedup();
    let piece = |pair: &[Nanos]| {
        let (key, task) = case.classify(pair[0]);
        Piece { start: pair[0], end: pair[1], key, task, via: Vec::new() }
    };
    cuts.windows(2).map(piece).collect()
}

fn new_cause(key: &Key, task: Option<Task>, via: Vec<WaitLink>, case: &Case<'_>) -> Cause {
    let own = key.kind == CauseKind::TaskFirst && key.tid == Some(case.task.tid);
    let detail = if own {
        Some("the thread itself was still at what it did before".to_owned())
    } else if key.kind == CauseKind::Quota {
        case.quota.limit(&key.subject)
    } else {
        key.work.as_ref().map(|function| format!("work function {function}"))
    };
    Cause {
        kind: key.kind,
        subject: key.subject.clone(),
        irq: key.irq,
        via,
        duration: Nanos::ZERO,
        spans: 0,
        task,
        group: key.group.clone(),
        stack: None,
        detail,
        idle_meanwhile: None,
    }
}

/// Longest first, `Unaccounted` last.
fn order(causes: &mut Vec<Cause>, spans: &mut [Span]) {
    let mut order: Vec<usize> = (0..causes.len()).collect();
    order.sort_by_key(|&index| {
        (causes[index].kind == CauseKind::Unaccounted, std::cmp::Reverse(causes[index].duration), index)
    });
    let mut place = vec![0; causes.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new;
    }
    *causes = order.iter().map(|&index| causes[index].clone()).collect();
    for span in spans {
        span.cause = place[span.cause];
    }
}

/// Gives the stack of whoever held the CPU to the causes that name that thread: the one taken when the thread was woken
/// if there is one, else the one taken when the CPU was given up. Of both, the second becomes the detail.
fn attach_stacks(causes: &mut [Cause], case: &Case<'_>) {
    for cause in causes {
        if !matches!(
            cause.kind,
            CauseKind::InterruptDelayed | CauseKind::PreemptionOff | CauseKind::LazyPreemption
        ) {
            continue;
        }
        let Some(tid) = cause.task.as_ref().map(|task| task.tid) else { continue };
        let of = |held: bool| case.stacks.iter().find(|found| found.tid == tid && found.held == held);
        let (held, given_up) = (of(true), of(false));
        // What a thread was at when it gave the CPU up says nothing of why an interrupt came late.
        let given_up = given_up.filter(|_| cause.kind != CauseKind::InterruptDelayed);
        cause.stack = held.or(given_up).map(|found| found.stack.clone());
        if let (Some(_), Some(given_up), None) = (held, given_up, &cause.detail) {
            cause.detail = gave_way_in(&given_up.stack).map(|frame| format!("gave way in {frame}"));
        }
    }
}

/// The first frame that is not the scheduler's own.
fn gave_way_in(stack: &Stack) -> Option<&str> {
    let own = ["__schedule+", "schedule+", "schedule_", "preempt_schedule", "__cond_resched", "dynamic_"];
    stack.0.iter().find(|frame| !own.iter().any(|own| frame.starts_with(own))).map(String::as_str)
}

fn losses(events: &[&Event], case: &Case<'_>, to: Nanos) -> Vec<Loss> {
    let mut by_cpu: BTreeMap<Cpu, (bool, u64)> = BTreeMap::new();
    for event in events {
        let EventKind::Lost { events } = event.kind else { continue };
        // What was lost lies before its mark, so the first mark behind the interval can concern it too.
        if event.at <= case.from || !case.lost_before(event, to) {
            continue;
        }
        let entry = by_cpu.entry(event.cpu).or_default();
        match events {
            Some(count) => entry.1 = entry.1.saturating_add(count),
            None => entry.0 = true,
        }
    }
    let overwritten = by_cpu.into_iter().map(|(cpu, (unknown, count))| Loss {
        kind: LossKind::Overwritten,
        place: format!("flight recorder, CPU {cpu}"),
        count: (!unknown).then_some(count),
    });
    let unseen = case.timelines.iter().filter_map(|(cpu, timeline)| {
        let count = timeline.unseen_switches(case.from, to);
        let place = format!("switches of CPU {cpu} that made no event; who was current shows them");
        (count > 0).then_some(Loss { kind: LossKind::Unpaired, place, count: Some(count) })
    });
    overwritten.chain(unseen).collect()
}
