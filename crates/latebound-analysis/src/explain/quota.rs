// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a CPU quota held the late thread, by the kernel's own state.
//!
//! Up to 6.17 all threads of a run queue are held while its group, or one above, has used up its quota; from 6.18 on
//! each thread by itself, from its return to user mode on. The recorder tells both in the same words: a thread begins to wait
//! in a queue, held or not, and a queue is held or let go.

use std::collections::BTreeMap;

use latebound_model::{Cpu, Event, EventKind, Nanos, Tid};

use super::limits;

/// A stretch in which a quota held the thread.
#[derive(Clone, Debug)]
struct ThrottledSpan {
    cpu: Cpu,
    start: Nanos,
    end: Nanos,
    group: String,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Quotas {
    held: Vec<ThrottledSpan>,
    /// Quota and period of each group that held it.
    limits: BTreeMap<String, (Option<Nanos>, Nanos)>,
}

impl Quotas {
    /// What these events, in order of time, tell of the thread up to this moment.
    pub(super) fn new(events: &[&Event], tid: Tid, to: Nanos) -> Quotas {
        let mut quotas = Quotas::default();
        // In which queue it waits, and since when a quota holds it there.
        let mut queue_of_thread: Option<(u64, Cpu)> = None;
        let mut since: Option<(Nanos, String)> = None;
        for event in events.iter().filter(|event| event.at <= to) {
            match &event.kind {
                EventKind::Quota { tid: whose, queue, held, group, quota, period } => {
                    let begins = *whose == Some(tid);
                    if begins {
                        quotas.close(queue_of_thread, &mut since, event.at);
                        queue_of_thread = Some((*queue, event.cpu));
                    }
                    let of_queue = whose.is_none() && queue_of_thread == Some((*queue, event.cpu));
                    if !begins && !of_queue {
                        continue;
                    }
                    if *held && since.is_none() {
                        quotas.limits.insert(group.clone(), (*quota, *period));
                        since = Some((event.at, group.clone()));
                    } else if !*held {
                        quotas.close(queue_of_thread, &mut since, event.at);
                    }
                }
                EventKind::Switch { next, .. } if next.tid == tid => {
                    quotas.close(queue_of_thread.take(), &mut since, event.at);
                }
                EventKind::Migrate { tid: moved, .. } if *moved == tid => {
                    quotas.close(queue_of_thread.take(), &mut since, event.at);
                }
                _ => {}
            }
        }
        quotas.close(queue_of_thread, &mut since, to);
        quotas
    }

    fn close(&mut self, queue: Option<(u64, Cpu)>, since: &mut Option<(Nanos, String)>, end: Nanos) {
        if let (Some((_, cpu)), Some((start, group))) = (queue, since.take()) {
            self.held.push(ThrottledSpan { cpu, start, end, group });
        }
    }

    /// The group whose quota held the thread on this CPU at this moment.
    pub(super) fn holds(&self, at: Nanos, cpu: Cpu) -> Option<&str> {
        let held = self.held.iter().find(|held| held.cpu == cpu && held.start <= at && at < held.end)?;
        Some(&held.group)
    }

    /// Whether the scheduler passes the thread over at this moment because of a quota. That is read behind the switch.
    pub(super) fn passes_over(&self, at: Nanos, cpu: Cpu) -> bool {
        let read_by = Nanos(at.0.saturating_add(limits::QUEUED_REMOTELY.0));
        self.held.iter().any(|held| held.cpu == cpu && held.start <= read_by && at < held.end)
    }

    /// A group's quota in words.
    pub(super) fn limit(&self, group: &str) -> Option<String> {
        let (quota, period) = self.limits.get(group)?;
        Some(format!("quota {} of each {period}", (*quota)?))
    }

    /// Every moment at which one begins or ends.
    pub(super) fn cuts(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.held.iter().flat_map(|held| [held.start, held.end])
    }
}
