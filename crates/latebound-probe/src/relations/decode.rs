// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what the programs write to the model's words, and back. Owns which number of `relations.h` means what; a match without a rest
//! breaks the build where the header has a new one.

use latebound_model::{
    Completer, Dependency, LossKind, Nanos, NewThread, Object, Policy, Priority, RelationKind, Scheduling,
    Tid, WaitEvent,
};

use super::wire;

/// What one event says.
pub(super) struct WaitRecord {
    pub(super) observation: WaitEvent,
    /// How long it lasts at most; 0: until its end is reported.
    pub(super) lasts: Nanos,
}

/// A record of the ring; `None` where it is none that this side knows.
pub(super) fn record(bytes: &[u8]) -> Option<WaitRecord> {
    if bytes.len() == size_of::<wire::CreatedEvent>() {
        return created(wire::CreatedEvent::from_bytes(bytes)?);
    }
    let event = wire::WaitEvent::from_bytes(bytes)?;
    let at = Nanos(event.at_ns);
    let object = Object { kind: relation_kind(event.kind.into())?, of: event.of, id: event.id };
    let (task, thread) = (tid(event.task), tid(event.thread));
    let by = || completer(event.completer.into(), event.thread);
    let begin = |dependency| {
        let thread = (thread.0 != 0).then_some(thread);
        Some(WaitEvent::Begin {
            at,
            object,
            task,
            priority: Priority::new(event.priority)?,
            thread,
            dependency,
        })
    };
    let observation = match wire::WaitOperation::from_raw(event.operation.into())? {
        wire::WaitOperation::Begin => begin(Dependency::Soft)?,
        wire::WaitOperation::Blocked => begin(Dependency::Hard)?,
        wire::WaitOperation::Done if is_counted(object.kind) => {
            served_by(at, object, by()?, task, Priority::new(event.priority)?)
        }
        wire::WaitOperation::Done => WaitEvent::Done { at, object, by: by()? },
        wire::WaitOperation::RunBy => WaitEvent::RunBy { at, object, worker: thread },
        wire::WaitOperation::Left => WaitEvent::Left { at, object, task },
    };
    Some(WaitRecord { observation, lasts: Nanos(u64::from(event.lasts_us) * 1000) })
}

/// A wait for a thread that is being created.
fn created(event: wire::CreatedEvent) -> Option<WaitRecord> {
    let wire::CreatedEvent { wait, start_ns, policy, nice, comm } = event;
    let scheduling =
        Scheduling { policy: Policy::from_number(policy)?, priority: None, nice: i8::try_from(nice).ok()? };
    let thread = NewThread { tid: tid(wait.thread), started: Nanos(start_ns), comm, scheduling };
    let observation = WaitEvent::Created {
        at: Nanos(wait.at_ns),
        object: Object { kind: relation_kind(wait.kind.into())?, of: wait.of, id: wait.id },
        task: tid(wait.task),
        priority: Priority::new(wait.priority)?,
        thread,
    };
    Some(WaitRecord { observation, lasts: Nanos::ZERO })
}

/// Wake-ups of one kind, `times` of them not given on yet.
pub(super) fn woke(woken: &wire::Woken, times: u64, at: Nanos) -> Option<WaitEvent> {
    let wire::WakeEdge { thread, task, completer: by, kind } = woken.edge;
    Some(WaitEvent::Woke {
        at,
        by: completer(by, thread)?,
        task: tid(task),
        priority: priority(woken.priority)?,
        times,
        network: relation_kind(kind) == Some(RelationKind::NetworkReceive),
    })
}

pub(super) fn relation_kind(raw: u32) -> Option<RelationKind> {
    Some(match wire::RelationKind::from_raw(raw)? {
        wire::RelationKind::BlockIo => RelationKind::BlockIo,
        wire::RelationKind::DirtyInode => RelationKind::DirtyInode,
        wire::RelationKind::Reclaim => RelationKind::Reclaim,
        wire::RelationKind::WorkItem => RelationKind::WorkItem,
        wire::RelationKind::NetworkReceive => RelationKind::NetworkReceive,
        wire::RelationKind::Wakeup => RelationKind::Wakeup,
        wire::RelationKind::TimedSleep => RelationKind::TimedSleep,
        wire::RelationKind::JournalCommit => RelationKind::JournalCommit,
        wire::RelationKind::ThreadCreation => RelationKind::ThreadCreation,
    })
}

/// Where waits of this kind over a thing of this device are suppressed.
pub(super) fn place(kind: RelationKind, of: u64) -> wire::WaitPlace {
    let kind = match kind {
        RelationKind::BlockIo => wire::RelationKind::BlockIo,
        RelationKind::DirtyInode => wire::RelationKind::DirtyInode,
        RelationKind::Reclaim => wire::RelationKind::Reclaim,
        RelationKind::WorkItem => wire::RelationKind::WorkItem,
        RelationKind::NetworkReceive => wire::RelationKind::NetworkReceive,
        RelationKind::Wakeup => wire::RelationKind::Wakeup,
        RelationKind::TimedSleep => wire::RelationKind::TimedSleep,
        RelationKind::JournalCommit => wire::RelationKind::JournalCommit,
        RelationKind::ThreadCreation => wire::RelationKind::ThreadCreation,
    };
    wire::WaitPlace { of, kind: kind.raw(), reserved: 0 }
}

pub(super) fn completer(raw: u32, thread: u32) -> Option<Completer> {
    Some(match wire::Completer::from_raw(raw)? {
        wire::Completer::Task => Completer::Task,
        wire::Completer::Thread => Completer::Thread(tid(thread)),
        wire::Completer::Softirq => Completer::Softirq,
        wire::Completer::Interrupt => Completer::Interrupt,
    })
}

pub(super) fn tid(raw: u32) -> Tid {
    Tid(raw.cast_signed())
}

pub(super) fn priority(raw: u32) -> Option<Priority> {
    u8::try_from(raw).ok().and_then(Priority::new)
}

/// What it means that there was no room, and for what.
pub(super) fn loss(of: wire::WaitLoss) -> (LossKind, &'static str) {
    match of {
        wire::WaitLoss::Event => (LossKind::RingFull, "relations: waits that there was no room to tell of"),
        wire::WaitLoss::Object => (LossKind::MapFull, "relations: waits that there was no room to remember"),
        wire::WaitLoss::Edge => {
            (LossKind::MapFull, "relations: first wake-ups of a pair that there was no room to count")
        }
    }
}

/// Whether the kernel counts waits of this kind by disk or timer, and reports each once.
pub(super) fn is_counted(kind: RelationKind) -> bool {
    matches!(kind, RelationKind::BlockIo | RelationKind::TimedSleep)
}

/// A thread, softirq or interrupt that completed a request of this task for the first time; `times` that are counted nowhere else.
fn served_by(at: Nanos, object: Object, by: Completer, task: Tid, priority: Priority) -> WaitEvent {
    WaitEvent::Served { at, object: Object { id: 0, ..object }, by, task, priority, times: object.id }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: wire::WaitEvent = wire::WaitEvent {
        at_ns: 5,
        of: 6,
        id: 7,
        task: 8,
        thread: 9,
        operation: wire::WaitOperation::Done as u8,
        kind: wire::RelationKind::WorkItem as u8,
        priority: 40,
        completer: wire::Completer::Thread as u8,
        lasts_us: 2,
    };

    #[test]
    fn record_of_a_done_work_item_names_its_completer() {
        let object = Object { kind: RelationKind::WorkItem, of: 6, id: 7 };
        let done = WaitEvent::Done { at: Nanos(5), object, by: Completer::Thread(Tid(9)) };
        let record = record(&EVENT.to_bytes()).unwrap();
        assert_eq!((record.observation, record.lasts), (done, Nanos(2000)));
    }

    #[test]
    fn record_of_a_new_thread_says_what_it_is_without_a_file() {
        let wait = wire::WaitEvent {
            operation: wire::WaitOperation::Blocked as u8,
            kind: wire::RelationKind::ThreadCreation as u8,
            of: 9,
            id: 8,
            ..EVENT
        };
        let mut comm = [0; 16];
        comm[..3].copy_from_slice(b"new");
        let event = wire::CreatedEvent { wait, start_ns: 70, policy: 0, nice: -3, comm };
        let thread = NewThread { tid: Tid(9), started: Nanos(70), comm, scheduling: Scheduling::other(-3) };
        let object = Object { kind: RelationKind::ThreadCreation, of: 9, id: 8 };
        let priority = Priority::new(40).unwrap();
        let created = WaitEvent::Created { at: Nanos(5), object, task: Tid(8), priority, thread };
        assert_eq!(record(&event.to_bytes()).unwrap().observation, created);
        assert_eq!(thread.name(), "new");
        assert!(record(&wire::CreatedEvent { policy: 99, ..event }.to_bytes()).is_none());
    }

    #[test]
    fn record_of_an_unknown_number_or_size_is_none() {
        let unknown = [
            wire::WaitEvent { operation: 0, ..EVENT },
            wire::WaitEvent { kind: u8::MAX, ..EVENT },
            wire::WaitEvent { completer: 0, ..EVENT },
        ];
        assert!(unknown.iter().all(|event| record(&event.to_bytes()).is_none()));
        assert!(record(&EVENT.to_bytes()[1..]).is_none());
    }

    #[test]
    fn place_of_each_kind_names_the_kind_that_an_event_of_it_has() {
        for kind in RelationKind::ALL {
            assert_eq!(relation_kind(place(kind, 0).kind), Some(kind));
        }
    }
}
