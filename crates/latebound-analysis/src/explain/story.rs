// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread was at besides running and sleeping: its system calls, page faults, kernel locks, reclaim of memory and signal handlers.
//!
//! Owns what the events of one thread tell of it. Which cause follows is decided elsewhere.

use latebound_model::{CallObject, EventKind, Name, Nanos, SleepKind, Tid};

use super::machine::Machine;

/// A system call in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Its name; empty where its entry was not seen.
    pub(super) name: Name,
    /// What it works on.
    pub(super) object: Option<CallObject>,
    /// When it was entered; `None` where that was not seen.
    pub(super) entered: Option<Nanos>,
}

/// A page fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    /// The mapped file; empty of memory without one.
    pub(super) mapping: String,
    /// `None` where its end was not seen.
    pub(super) major: Option<bool>,
}

/// What a thread was in the middle of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Doing {
    pub(super) call: Option<Call>,
    /// The lock that it waits for, and who holds it.
    pub(super) lock: Option<(u64, Option<Tid>)>,
    /// Whether it frees memory of its control group, or for the machine, where it frees any.
    pub(super) reclaims_of_group: Option<bool>,
    /// The handlers of signals that have begun.
    pub(super) signals: u32,
}

/// How the thread slept from one moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sleep {
    pub(super) at: Nanos,
    pub(super) kind: SleepKind,
    pub(super) call: Option<Name>,
}

/// One thread's history.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    /// From each of these moments to the next it was at this; the first begins at zero.
    doings: Vec<(Nanos, Doing)>,
    faults: Vec<Fault>,
    sleeps: Vec<Sleep>,
    /// Whether its system calls were recorded.
    pub(super) shows_calls: bool,
}

impl Story {
    pub(super) fn new(machine: &Machine<'_>, tid: Tid) -> Story {
        let mut story = Story::default();
        let mut doing = Doing::default();
        let mut fault: Option<(Nanos, String)> = None;
        for event in &machine.sorted {
            if let EventKind::SwitchedOut { tid: whose, sleep, call } = &event.kind {
                if *whose == tid {
                    story.sleeps.push(Sleep { at: event.at, kind: *sleep, call: call.clone() });
                }
                continue;
            }
            let is_own = matches!(
                event.kind,
                EventKind::SystemCallEntry { .. }
                    | EventKind::SystemCallExit
                    | EventKind::PageFaultEntry { .. }
                    | EventKind::PageFaultExit { .. }
                    | EventKind::LockContended { .. }
                    | EventKind::LockAcquired { .. }
                    | EventKind::ReclaimBegin { .. }
                    | EventKind::ReclaimEnd
                    | EventKind::SignalDelivered { .. }
                    | EventKind::SignalReturned
            );
            if !is_own {
                continue;
            }
            let by = event.current.or_else(|| {
                let top = machine.timelines.get(&event.cpu)?.top(event.at)?;
                Some(top.task.as_ref()?.tid)
            });
            if by != Some(tid) {
                continue;
            }
            match &event.kind {
                EventKind::SystemCallEntry { call, object } => {
                    story.shows_calls = true;
                    let entered = Some(event.at);
                    doing.call = Some(Call { name: call.clone(), object: *object, entered });
                    doing.reclaims_of_group = None;
                }
                EventKind::SystemCallExit => {
                    if !story.shows_calls {
                        let call = Call { name: Name::default(), object: None, entered: None };
                        story.push(Nanos::ZERO, &Doing { call: Some(call), ..Doing::default() });
                    }
                    story.shows_calls = true;
                    (doing.call, doing.lock, doing.reclaims_of_group) = (None, None, None);
                }
                EventKind::PageFaultEntry { mapping, .. } => fault = Some((event.at, mapping.clone())),
                EventKind::PageFaultExit { major } => {
                    // One that began before the recording has neither beginning nor name.
                    let (start, mapping) = fault.take().unwrap_or_default();
                    story.faults.push(Fault { start, end: event.at, mapping, major: Some(*major) });
                }
                EventKind::LockContended { lock, owner } => doing.lock = Some((*lock, *owner)),
                EventKind::LockAcquired { .. } => doing.lock = None,
                EventKind::ReclaimBegin { of_group } => doing.reclaims_of_group = Some(*of_group),
                EventKind::ReclaimEnd => doing.reclaims_of_group = None,
                EventKind::SignalDelivered { .. } => doing.signals += 1,
                EventKind::SignalReturned => doing.signals = doing.signals.saturating_sub(1),
                _ => {}
            }
            story.push(event.at, &doing);
        }
        if let Some((start, mapping)) = fault {
            story.faults.push(Fault { start, end: Nanos(u64::MAX), mapping, major: None });
        }
        story
    }

    fn push(&mut self, at: Nanos, doing: &Doing) {
        match self.doings.last_mut() {
            Some(last) if last.0 == at => last.1.clone_from(doing),
            _ => self.doings.push((at, doing.clone())),
        }
    }

    /// What it was at at this moment.
    pub(super) fn doing(&self, at: Nanos) -> Option<&Doing> {
        let after = self.doings.partition_point(|(start, _)| *start <= at);
        after.checked_sub(1).map(|index| &self.doings[index].1)
    }

    /// The page fault that it was in at this moment.
    pub(super) fn fault(&self, at: Nanos) -> Option<&Fault> {
        // A fault cannot begin within another one.
        let after = self.faults.partition_point(|fault| fault.start <= at);
        after.checked_sub(1).map(|index| &self.faults[index]).filter(|fault| at < fault.end)
    }

    /// How it slept that was switched out at this moment.
    pub(super) fn sleep(&self, at: Nanos) -> Option<&Sleep> {
        self.sleeps.iter().find(|sleep| sleep.at == at)
    }

    /// Every moment inside `(from, to)` at which something changed.
    pub(super) fn cuts(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = Nanos> + '_ {
        let faults = self.faults.iter().flat_map(|fault| [fault.start, fault.end]);
        self.doings.iter().map(|(at, _)| *at).chain(faults).filter(move |at| from < *at && *at < to)
    }
}
