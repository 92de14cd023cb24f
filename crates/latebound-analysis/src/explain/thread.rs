// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the late thread itself did: slept, waited, ran, and on which CPU's queue it was.

use latebound_model::{Cpu, Event, EventKind, Nanos, SwitchReason, Task, Tid};

use super::timeline::current_at;

/// What the thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No event tells.
    Unknown,
    /// It slept.
    Sleeping,
    /// It could run and waited for a CPU.
    Ready,
    /// It was on this CPU.
    Running(Cpu),
}

/// The thread's history.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    /// From each of these moments to the next this was so.
    states: Vec<(Nanos, State)>,
    /// From each of these moments on it was on this CPU or its queue, as far as events tell.
    places: Vec<(Nanos, Cpu)>,
    /// The wake-ups, with the CPU of the waker.
    pub(super) wakings: Vec<(Nanos, Cpu)>,
    /// The thread as the events named it at these moments. An inherited priority comes and goes.
    namings: Vec<(Nanos, Task)>,
}

/// A waker and the thread that goes to sleep can overlap: the thread is woken before its switch is seen. A wake-up that
/// is older than this when the thread is switched out belongs to an earlier sleep.
const WAKE_BEFORE_SWITCH_OUT: Nanos = Nanos::from_micros(100);

impl Life {
    /// What these events, in order of time, tell of the thread.
    pub(super) fn new(events: &[&Event], tid: Tid) -> Life {
        let mut life = Life::default();
        let mut state = State::Unknown;
        let mut woken_while_running: Option<Nanos> = None;
        // Since when it is on a queue that no event has named yet: a trace need not have the events of moves.
        let mut queued_unseen: Option<Nanos> = None;
        for event in events {
            let (before, after) = match &event.kind {
                EventKind::Waking { task } if task.tid == tid => {
                    life.wakings.push((event.at, event.cpu));
                    life.name(event.at, task);
                    match state {
                        State::Running(_) => {
                            woken_while_running = Some(event.at);
                            (state, state)
                        }
                        _ => {
                            queued_unseen = Some(event.at);
                            (State::Sleeping, State::Ready)
                        }
                    }
                }
                EventKind::Migrate { tid: moved, to } if *moved == tid => {
                    queued_unseen = None;
                    life.places.push((event.at, *to));
                    continue;
                }
                EventKind::Switch { next, .. } if next.tid == tid => {
                    life.name(event.at, next);
                    // Where it runs in the end is where it was put at its wake-up, not where it slept.
                    let queued = queued_unseen.take().filter(|_| life.is_elsewhere(event.cpu));
                    life.places.extend(queued.map(|at| (at, event.cpu)));
                    life.places.push((event.at, event.cpu));
                    woken_while_running = None;
                    (State::Ready, State::Running(event.cpu))
                }
                EventKind::Switch { prev, reason, .. } if prev.tid == tid => {
                    life.name(event.at, prev);
                    if life.places.is_empty() {
                        life.places.push((Nanos::ZERO, event.cpu));
                    }
                    let woken = woken_while_running
                        .take()
                        .is_some_and(|at| event.at.saturating_sub(at) <= WAKE_BEFORE_SWITCH_OUT);
                    let after = match reason {
                        SwitchReason::Preempted => State::Ready,
                        _ if woken => {
                            queued_unseen = Some(event.at);
                            State::Ready
                        }
                        SwitchReason::Blocked | SwitchReason::Uninterruptible => State::Sleeping,
                    };
                    (State::Running(event.cpu), after)
                }
                _ => match current_at(event) {
                    // Its switch made no event, but it is there.
                    Some(current) if current == tid && state != State::Running(event.cpu) => {
                        life.places.push((event.at, event.cpu));
                        (woken_while_running, queued_unseen) = (None, None);
                        (state, State::Running(event.cpu))
                    }
                    // It left without an event.
                    Some(current) if current != tid && state == State::Running(event.cpu) => {
                        (state, State::Unknown)
                    }
                    _ => continue,
                },
            };
            if life.states.is_empty() {
                life.states.push((Nanos::ZERO, before));
            }
            state = after;
            life.states.push((event.at, after));
        }
        life
    }

    fn name(&mut self, at: Nanos, task: &Task) {
        if self.namings.last().is_none_or(|(_, last)| last != task) {
            self.namings.push((at, task.clone()));
        }
    }

    /// Whether it was seen on a CPU, and last on another than this one.
    fn is_elsewhere(&self, cpu: Cpu) -> bool {
        self.places.last().is_some_and(|(_, last)| *last != cpu)
    }

    /// The thread as the events named it last, if they did.
    pub(super) fn named(&self) -> Option<&Task> {
        self.namings.last().map(|(_, task)| task)
    }

    /// The thread as the events named it last before this moment, or else first after it.
    pub(super) fn named_at(&self, at: Nanos) -> Option<&Task> {
        let after = self.namings.partition_point(|(named, _)| *named <= at);
        self.namings.get(after.saturating_sub(1)).map(|(_, task)| task)
    }

    /// What it was doing at this moment.
    pub(super) fn state(&self, at: Nanos) -> State {
        let after = self.states.partition_point(|(start, _)| *start <= at);
        after
            .checked_sub(1)
            .and_then(|index| self.states.get(index))
            .map_or(State::Unknown, |(_, state)| *state)
    }

    /// What it was doing over `[from, to]`, piece by piece, without a gap. A piece's own beginning and end are cut to the interval.
    pub(super) fn pieces(&self, from: Nanos, to: Nanos) -> Vec<(Nanos, Nanos, State)> {
        let mut pieces: Vec<(Nanos, Nanos, State)> = Vec::new();
        let mut at = from;
        while at < to {
            let after = self.states.partition_point(|(start, _)| *start <= at);
            let end = self.states.get(after).map_or(to, |(end, _)| (*end).min(to));
            let state = self.state(at);
            match pieces.last_mut() {
                Some(last) if last.2 == state => last.1 = end,
                _ => pieces.push((at, end, state)),
            }
            at = end;
        }
        pieces
    }

    /// The whole stretch around this moment in which it slept: when it was switched out, and when woken. `None` for a side that was
    /// not seen.
    pub(super) fn sleep_around(&self, at: Nanos) -> (Option<Nanos>, Option<Nanos>) {
        let after = self.states.partition_point(|(start, _)| *start <= at);
        let before = self.states[..after].iter().rev().take_while(|(_, state)| *state == State::Sleeping);
        let start = before.last().map(|(start, _)| *start).filter(|start| *start != Nanos::ZERO);
        let end = self.states[after..].iter().find(|(_, state)| *state != State::Sleeping);
        (start, end.map(|(end, _)| *end))
    }

    /// Whether it was moved to another queue while it waited from the first moment to the second.
    pub(super) fn moves(&self, from: Nanos, to: Nanos) -> bool {
        self.places.iter().any(|(at, _)| from < *at && *at <= to)
    }

    /// On which CPU's queue it was at this moment, as far as that was seen.
    pub(super) fn place(&self, at: Nanos) -> Option<Cpu> {
        let after = self.places.partition_point(|(start, _)| *start <= at);
        self.places.get(after.saturating_sub(1)).map(|(_, cpu)| *cpu)
    }

    /// The first wake-up in `[from, to]`.
    pub(super) fn woken(&self, from: Nanos, to: Nanos) -> Option<(Nanos, Cpu)> {
        self.wakings.iter().copied().find(|(at, _)| from <= *at && *at <= to)
    }

    /// Stretches in which it waited for a CPU, overlapping `[from, to]`, whole.
    pub(super) fn waits(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = (Nanos, Nanos)> + '_ {
        self.states.iter().enumerate().filter_map(move |(index, (start, state))| {
            let end = self.states.get(index + 1).map_or(to, |(end, _)| *end);
            (*state == State::Ready && *start < to && end > from).then_some((*start, end))
        })
    }

    /// Every moment inside `(from, to)` at which something changed.
    pub(super) fn cuts(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = Nanos> + '_ {
        let states = self.states.iter().map(|(at, _)| *at);
        let places = self.places.iter().map(|(at, _)| *at);
        let wakings = self.wakings.iter().map(|(at, _)| *at);
        states.chain(places).chain(wakings).filter(move |at| from < *at && *at < to)
    }
}
