// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads are the kernel's own, which of them are workers of workqueues, and which run.
//!
//! Owns that knowledge: events name a thread by number and name alone, so it is told at the beginning, asked for where a thread is new,
//! and kept up by the events of threads that are made.

use foldhash::{HashMap, HashSet};
use latebound_model::Tid;

use super::kept::{SubjectId, comm_of};

/// As many threads are remembered; beyond that those of user space are learnt again.
const THREADS: usize = 1 << 16;

/// `kthreadd`, which makes all other threads of the kernel (init/main.c, rest_init()).
const KTHREADD: Tid = Tid(2);

/// What a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKind {
    /// Of user space.
    User,
    /// Of the kernel, but no worker and no idle task.
    Kernel,
    /// A worker of a workqueue (`PF_WQ_WORKER`).
    Worker,
    /// The idle task of a CPU.
    Idle,
}

impl ThreadKind {
    pub(super) fn is_kernel(self) -> bool {
        self != ThreadKind::User
    }
}

#[derive(Clone, Debug)]
struct Known {
    kind: ThreadKind,
    /// That it is a worker is not known before it has its own name.
    unnamed: bool,
    comm: [u8; 16],
    subject: Option<Option<SubjectId>>,
}

/// The threads that are known.
pub(super) struct Threads {
    known: HashMap<Tid, Known>,
    /// Interrupt threads by their names; `None` for a name that two have.
    interrupts: HashMap<[u8; 16], Option<Tid>>,
    /// Kernel threads that run.
    running: HashSet<Tid>,
    look_up: LookUp,
}

/// Says what a thread is that no event showed the making of, and its name; `None` where it is gone.
pub type LookUp = Box<dyn FnMut(Tid) -> Option<(ThreadKind, Vec<u8>)> + Send>;

impl Threads {
    pub(super) fn new(look_up: LookUp) -> Threads {
        let (known, interrupts, running) = (HashMap::default(), HashMap::default(), HashSet::default());
        Threads { known, interrupts, running, look_up }
    }

    /// A thread that is there.
    pub(super) fn know(&mut self, tid: Tid, kind: ThreadKind, comm: &[u8]) {
        self.insert(tid, kind, false);
        self.named(tid, comm_of(comm));
    }

    fn insert(&mut self, tid: Tid, kind: ThreadKind, unnamed: bool) {
        if self.known.len() >= THREADS {
            self.known.retain(|_, known| known.kind != ThreadKind::User);
        }
        self.known.insert(tid, Known { kind, unnamed, comm: [0; 16], subject: None });
    }

    fn named(&mut self, tid: Tid, comm: [u8; 16]) {
        let Some(known) = self.known.get_mut(&tid) else { return };
        if known.comm == comm {
            return;
        }
        known.comm = comm;
        // create_worker() and init_rescuer() name them so (kernel/workqueue.c); what it is, /proc says of those that were there before.
        if known.unnamed && comm.starts_with(b"kworker/") {
            (known.kind, known.unnamed) = (ThreadKind::Worker, false);
        }
        if known.kind == ThreadKind::Kernel && comm.starts_with(b"irq/") {
            let of_name = self.interrupts.entry(comm).or_insert(Some(tid));
            if *of_name != Some(tid) {
                *of_name = None;
            }
        }
    }

    /// A thread is made: its number may have been another's.
    pub(super) fn made(&mut self, parent: Tid, child: Tid) {
        self.ends(child);
        let kind = if parent == KTHREADD { ThreadKind::Kernel } else { ThreadKind::User };
        self.insert(child, kind, true);
    }

    fn ends(&mut self, tid: Tid) {
        self.running.remove(&tid);
        if let Some(before) = self.known.remove(&tid)
            && self.interrupts.get(&before.comm) == Some(&Some(tid))
        {
            self.interrupts.remove(&before.comm);
        }
    }

    /// Threads may have been made and ended unseen. What is known of those of the kernel is kept until their events say otherwise:
    /// their series go on.
    pub(super) fn forget(&mut self) {
        self.running.clear();
        let look_up = &mut self.look_up;
        self.known.retain(|tid, known| {
            known.kind != ThreadKind::User && look_up(*tid).is_none_or(|(now, _)| now == known.kind)
        });
    }

    /// What a thread is that an event names.
    pub(super) fn seen(&mut self, tid: Tid, comm: &[u8; 16]) -> ThreadKind {
        // Nearly always nothing is new: one look, because there are two in each switch.
        if let Some(known) = self.known.get(&tid)
            && known.comm == *comm
        {
            return known.kind;
        }
        self.kind(tid);
        self.named(tid, *comm);
        self.kind(tid)
    }

    /// What a thread is; one that nobody knows is of user space.
    pub(super) fn kind(&mut self, tid: Tid) -> ThreadKind {
        if tid == Tid(0) {
            return ThreadKind::Idle;
        }
        if let Some(known) = self.known.get(&tid) {
            return known.kind;
        }
        let (kind, comm) = (self.look_up)(tid).unwrap_or((ThreadKind::User, Vec::new()));
        self.know(tid, kind, &comm);
        kind
    }

    /// The name of a thread, where an event had it.
    pub(super) fn comm(&self, tid: Tid) -> Option<[u8; 16]> {
        self.known.get(&tid).map(|known| known.comm)
    }

    /// The thread of an interrupt's handler, by its name: `irq/24-nvme0q0`, cut as the kernel cuts it.
    pub(super) fn of_interrupt(&self, irq: u32, handler: &[u8]) -> Option<Tid> {
        let name = [format!("irq/{irq}-").as_bytes(), handler].concat();
        self.interrupts.get(&comm_of(&name)).copied().flatten()
    }

    pub(super) fn runs(&mut self, tid: Tid) {
        self.running.insert(tid);
    }

    pub(super) fn stops(&mut self, tid: Tid) {
        self.running.remove(&tid);
    }

    pub(super) fn is_running(&self, tid: Tid) -> bool {
        self.running.contains(&tid)
    }

    /// What a thread is counted as; `None` where that is not settled.
    pub(super) fn subject(&self, tid: Tid) -> Option<Option<SubjectId>> {
        self.known.get(&tid)?.subject
    }

    pub(super) fn set_subject(&mut self, tid: Tid, subject: Option<SubjectId>) {
        if let Some(known) = self.known.get_mut(&tid) {
            known.subject = Some(subject);
        }
    }
}
