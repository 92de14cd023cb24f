// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a task waits for: objects, the relations to the kernel threads that complete them, and the events that a probe
//! sees of both. Owns these words and their JSON form; decides no priority and observes nothing.
//!
//! A [`WaitEvent`] is no [`Event`](crate::Event): it is about an object and who completes it, and has no meaning on a CPU's line of
//! time. A probe that knows only who ran cannot make one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::priority::{Priority, Scheduling};
use crate::units::{Nanos, Tid};

/// Through what a task waits for a kernel thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RelationKind {
    /// A block request, from its submission to its completion.
    BlockIo,
    /// An inode that it made dirty, until it is written back. One relation an inode: that is its multiplicity.
    DirtyInode,
    /// Memory that it asked for and the reclaim that this woke.
    Reclaim,
    /// A work item, from its queueing to its end.
    WorkItem,
    /// Data from the network that it waits for.
    NetworkReceive,
    /// Learned: the thread woke it, often and of late.
    Wakeup,
    /// A sleep in the kernel that a timer ends.
    TimedSleep,
    /// A transaction of a file system's journal (jbd2) that has to be on the disk before the task goes on.
    JournalCommit,
    /// A kernel thread that the task has kthreadd create, and that has to report itself before the task goes on.
    ThreadCreation,
}

impl RelationKind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [RelationKind; 9] = [
        RelationKind::BlockIo,
        RelationKind::DirtyInode,
        RelationKind::Reclaim,
        RelationKind::WorkItem,
        RelationKind::NetworkReceive,
        RelationKind::Wakeup,
        RelationKind::TimedSleep,
        RelationKind::JournalCommit,
        RelationKind::ThreadCreation,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            RelationKind::BlockIo => "block I/O",
            RelationKind::DirtyInode => "dirty inodes",
            RelationKind::Reclaim => "page reclaim",
            RelationKind::WorkItem => "work items",
            RelationKind::NetworkReceive => "network receive",
            RelationKind::Wakeup => "wake-ups",
            RelationKind::TimedSleep => "timed sleeps",
            RelationKind::JournalCommit => "journal commits",
            RelationKind::ThreadCreation => "thread creations",
        }
    }
}

/// The thing that a task waits for: a request, an inode, a work item. `of` and `id` are whatever names it: device and
/// sector, device and inode, an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Object {
    /// What it is.
    pub kind: RelationKind,
    /// The device or node that it belongs to; 0 where there is none.
    pub of: u64,
    /// Its own number or address.
    pub id: u64,
}

/// One task that waits for one kernel thread over one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Relation {
    /// The kernel thread.
    pub thread: Tid,
    /// Over what.
    pub object: Object,
    /// The task that waits.
    pub task: Tid,
    /// Its real-time priority.
    pub priority: Priority,
    /// Whether it can go on meanwhile.
    #[serde(alias = "strength")]
    pub dependency: Dependency,
    /// Whether the task is a kernel thread itself, and waits with the priority of those that wait for it.
    #[serde(alias = "lent")]
    pub inherited: bool,
}

impl Relation {
    /// What tells it from every other: the thread, the object, the task.
    pub fn key(&self) -> (Tid, Object, Tid) {
        (self.thread, self.object, self.task)
    }
}

/// How a task depends on what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dependency {
    /// It needs the work done, and may do other things meanwhile: counts in the mean.
    Soft,
    /// It cannot go on before this very piece of work is done (blocked in `flush_work` on the item): counts as the
    /// maximum.
    Hard,
}

/// Which waits of a kernel thread count as waits of the tasks that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DonatedWaits {
    /// All of them: it does what they wait for, and cannot go on meanwhile.
    All,
    /// Those for the work items that it queues. An interrupt thread waits for nobody, and has a worker make the next step of what it serves.
    QueuedItems,
}

/// In whose name something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Completer {
    /// A kernel thread.
    Thread(Tid),
    /// A softirq that ran on top of whatever thread was there.
    Softirq,
    /// A hard interrupt.
    Interrupt,
    /// A user task.
    Task,
}

/// A kernel thread that is being created, as the kernel has it at that moment: who takes it in has nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewThread {
    /// Its id.
    pub tid: Tid,
    /// When it started, since boot.
    pub started: Nanos,
    /// Its name, ended by a zero or by its length.
    pub comm: [u8; 16],
    /// What it is scheduled as.
    pub scheduling: Scheduling,
}

impl NewThread {
    /// Its name as text.
    pub fn name(&self) -> String {
        let name = self.comm.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }
}

/// One thing that a probe saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEvent {
    /// A real-time task begins to wait.
    Begin {
        /// When.
        at: Nanos,
        /// Over what.
        object: Object,
        /// Who.
        task: Tid,
        /// Its priority.
        priority: Priority,
        /// The thread that stands before it, where it is known.
        thread: Option<Tid>,
        /// Whether it can go on meanwhile.
        dependency: Dependency,
    },
    /// A kernel thread is there that a real-time task has kthreadd create. From now on the task is blocked until the thread has reported
    /// itself, or it leaves.
    Created {
        /// When.
        at: Nanos,
        /// The thread and the task by their ids.
        object: Object,
        /// Who waits.
        task: Tid,
        /// Its priority.
        priority: Priority,
        /// The thread.
        thread: NewThread,
    },
    /// A worker takes a work item up.
    RunBy {
        /// When.
        at: Nanos,
        /// The item.
        object: Object,
        /// The worker.
        worker: Tid,
    },
    /// It is done.
    Done {
        /// When.
        at: Nanos,
        /// What.
        object: Object,
        /// By whom.
        by: Completer,
    },
    /// A task that waited no longer does, and what it waited for goes on, or is never done. It waits for a disk once, however many requests
    /// it has under way: R_k of an interrupt thread is a set of tasks (section V.1.A of the paper).
    Left {
        /// Since when.
        at: Nanos,
        /// The disk, or the work item.
        object: Object,
        /// Who.
        task: Tid,
    },
    /// A task that was blocked on an object is so no longer. It waits for it as it did before, if it did.
    GoesOn {
        /// Since when.
        at: Nanos,
        /// The work item.
        object: Object,
        /// Who.
        task: Tid,
    },
    /// Requests of a task that were completed since the last time this was reported.
    Served {
        /// When it was reported.
        at: Nanos,
        /// The disk.
        object: Object,
        /// By whom.
        by: Completer,
        /// Whose they were.
        task: Tid,
        /// Its priority.
        priority: Priority,
        /// How many; none yet where a completer is met first.
        times: u64,
    },
    /// Wake-ups of a real-time task since the last time this was reported.
    Woke {
        /// When it was reported.
        at: Nanos,
        /// Who woke.
        by: Completer,
        /// Who was woken.
        task: Tid,
        /// Its priority.
        priority: Priority,
        /// How often.
        times: u64,
        /// Whether it was with data of a socket.
        network: bool,
    },
}

impl WaitEvent {
    /// When it was.
    pub fn at(&self) -> Nanos {
        match *self {
            WaitEvent::Begin { at, .. }
            | WaitEvent::Created { at, .. }
            | WaitEvent::RunBy { at, .. }
            | WaitEvent::Done { at, .. }
            | WaitEvent::Left { at, .. }
            | WaitEvent::GoesOn { at, .. }
            | WaitEvent::Served { at, .. }
            | WaitEvent::Woke { at, .. } => at,
        }
    }
}

/// How long a kernel thread that tasks wait for was ready and did not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadWaits {
    /// How often.
    pub number: u64,
    /// In all.
    pub total: Nanos,
    /// The longest.
    pub longest: Nanos,
    /// How often a thread below the highest of those that wait ran last before it.
    pub inversions: u64,
    /// The waits of those, in all.
    pub inversions_total: Nanos,
    /// The longest of those.
    pub longest_inversion: Nanos,
    /// The thread that ran in that one, with its name.
    pub longest_inversion_by: Option<(Tid, String)>,
}
