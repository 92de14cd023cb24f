// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block requests as their events show them: who made each one, and which of the same device went before another.
//!
//! Owns who counts as the maker: the thread that ran when the request was queued, or issued where nothing queued it; nobody where a handler or a worker
//! of the block layer did that for others. A request of the kernel's own threads is for the control group that the kernel says. Never guesses in which order a device serves what it has.

use std::collections::BTreeMap;

use latebound_model::{BlockStep, Cpu, Event, EventKind, Nanos, Task};

use super::timeline::Timeline;

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    device: u32,
    bytes: u32,
    write: bool,
    /// When it was queued in front of the device.
    pub(super) queued: Option<Nanos>,
    /// When the device got it.
    pub(super) issued: Option<Nanos>,
    completed: Option<Nanos>,
    /// Who made it.
    pub(super) by: Option<Task>,
    /// The control group that it is for, where the kernel says.
    group: Option<String>,
}

impl Request {
    /// The device and what is done: `254:3 write`.
    pub(super) fn name(&self) -> String {
        let what = match (self.bytes, self.write) {
            // A request without data only flushes the device's cache.
            (0, _) => "flush",
            (_, true) => "write",
            (_, false) => "read",
        };
        // dev_t in the kernel has 20 bits of minor number (include/linux/kdev_t.h).
        format!("{}:{} {what}", self.device >> 20, self.device & 0xf_ffff)
    }

    /// The control group that it is for, where its maker is none of user space, whose own group says it.
    pub(super) fn for_group(&self) -> Option<&String> {
        self.group.as_ref().filter(|_| self.by.as_ref().is_none_or(|task| task.kernel))
    }

    fn is_same(&self, other: &Request) -> bool {
        std::ptr::eq(self, other)
    }
}

/// All requests that a machine's events show.
#[derive(Debug)]
pub(super) struct Requests {
    all: Vec<Request>,
    /// When events were lost last: what was with a device before that may have been completed unseen.
    lost: Option<Nanos>,
}

impl Requests {
    /// Of events in the order of their time.
    pub(super) fn of(sorted: &[&Event], timelines: &BTreeMap<Cpu, Timeline>) -> Requests {
        let mut all: Vec<Request> = Vec::new();
        let mut open: BTreeMap<(u32, u64, bool), usize> = BTreeMap::new();
        let is_lost = |event: &&&Event| matches!(event.kind, EventKind::Lost { .. });
        let lost = sorted.iter().rev().find(is_lost).map(|event| event.at);
        for event in sorted {
            let EventKind::BlockRequest { step, device, sector, bytes, write, ref group } = event.kind else {
                continue;
            };
            let key = (device, sector, write);
            let known = open.get(&key).copied();
            // A request can be queued and issued anew, after the device refused it.
            let place = known.unwrap_or_else(|| {
                let (queued, issued, completed) = (None, None, None);
                all.push(Request { device, bytes, write, queued, issued, completed, by: None, group: None });
                open.insert(key, all.len() - 1);
                all.len() - 1
            });
            let Some(request) = all.get_mut(place) else { continue };
            // Whichever step says it.
            if let Some(group) = group {
                request.group.get_or_insert_with(|| group.clone());
            }
            match step {
                BlockStep::Queued => (request.queued, request.issued) = (Some(event.at), None),
                BlockStep::Issued => request.issued = Some(event.at),
                BlockStep::Completed => {
                    request.completed = Some(event.at);
                    // What the request was is told best by its end: requests are merged before.
                    request.bytes = bytes;
                    open.remove(&key);
                }
            }
            if known.is_none() && step != BlockStep::Completed {
                request.by = timelines.get(&event.cpu).and_then(|timeline| maker(timeline, event.at));
            }
        }
        Requests { all, lost }
    }

    /// Which request was completed last, at this moment at latest.
    pub(super) fn completed_last(&self, at: Nanos) -> Option<&Request> {
        self.all
            .iter()
            .filter(|request| request.completed.is_some_and(|completed| completed <= at))
            .max_by_key(|request| request.completed)
    }

    /// Of the requests that the same device had at this moment the one that it got first.
    pub(super) fn before<'r>(&'r self, own: &'r Request, at: Nanos) -> Option<&'r Request> {
        self.others(own)
            .filter(|other| {
                let is_whole = other.completed.is_some() || self.lost < other.issued;
                other.issued.is_some_and(|issued| issued <= at)
                    && other.completed.is_none_or(|completed| at < completed)
                    && is_whole
            })
            .min_by_key(|other| other.issued)
    }

    /// Every moment inside `(from, to)` at which [`Requests::before`] can change.
    pub(super) fn changes(&self, own: &Request, from: Nanos, to: Nanos) -> Vec<Nanos> {
        let moments = self.others(own).flat_map(|other| [other.issued, other.completed]).flatten();
        let mut changes: Vec<Nanos> = moments.filter(|at| from < *at && *at < to).collect();
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    fn others<'r>(&'r self, own: &'r Request) -> impl Iterator<Item = &'r Request> {
        self.all.iter().filter(move |other| other.device == own.device && !other.is_same(own))
    }
}

fn maker(timeline: &Timeline, at: Nanos) -> Option<Task> {
    let top = timeline.top(at).filter(|top| top.frame.is_none())?;
    // Workers that run the queues of devices (block/blk-mq.c, blk_mq_run_work_fn, blk_mq_requeue_work).
    let for_others = top.work.as_ref().is_some_and(|work| work.starts_with("blk_mq_"));
    top.task.as_deref().filter(|task| !task.is_idle() && !for_others).cloned()
}
