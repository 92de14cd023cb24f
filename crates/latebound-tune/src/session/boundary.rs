// SPDX-License-Identifier: MIT OR Apache-2.0
//! The edges of a session as traits: where waits are seen, what threads are, a helper that answers later, what makes changes. Owns what a
//! session expects of them; others implement them.

use latebound_model::{
    Dependency, DonatedWaits, Loss, Missing, NewThread, Priority, RelationKind, Scheduling, ThreadWaits, Tid,
    WaitEvent,
};

use super::reclaim::ReclaimShare;
use crate::tuner::Change;

/// Where waits are seen: a probe in the kernel, or a recording. A wait that begins wakes the tuner, unless its wake-up is suppressed.
///
/// A device is what [`latebound_model::Object::of`] says: of items, [`crate::session::worker_id`] of the worker.
pub trait WaitSource {
    /// Why it cannot go on.
    type Error;

    /// Appends the waits that began and ended since the last call, in the order of events. Returns whether more is unread. Between any few
    /// events it calls `pause`.
    fn poll_waits(&mut self, events: &mut Vec<WaitEvent>, pause: impl FnMut()) -> Result<bool, Self::Error>;

    /// What is only counted: wake-ups and completed requests, since the last call.
    fn poll_counts(&mut self) -> Vec<WaitEvent>;

    /// From now on these waits of this kernel thread are reported, with this priority; `None`: they no longer are.
    fn donate(
        &mut self,
        thread: Tid,
        priority: Option<Priority>,
        waits: DonatedWaits,
    ) -> Result<(), Self::Error>;

    /// Waits of up to this priority for this device wake nobody. Returns whether the level fell: a wait that began before and woke nobody may
    /// be urgent now. [`WaitSource::has_unread`] says whether there is any.
    fn suppress_wakeups(
        &mut self,
        kind: RelationKind,
        device: u64,
        priority: Priority,
    ) -> Result<bool, Self::Error>;

    /// The same for items of this worker, or commits of this journal's thread: one level for tasks that ask for an item, one for tasks that are
    /// blocked on it.
    fn suppress_worker(&mut self, worker: Tid, soft: Priority, hard: Priority) -> Result<bool, Self::Error>;

    /// No task's wait for this device wakes the tuner: somebody else raises there, and reports. Returns whether the level fell.
    fn suppress_elsewhere(&mut self, kind: RelationKind, device: u64) -> Result<bool, Self::Error>;

    /// Each wait for this device wakes the tuner again. Returns whether some did not.
    fn unsuppress(&mut self, kind: RelationKind, device: u64) -> bool;

    /// Whether such a wait wakes nobody.
    fn is_suppressed(
        &self,
        kind: RelationKind,
        device: u64,
        priority: Priority,
        dependency: Dependency,
    ) -> bool;

    /// Whether there are events that were not read.
    fn has_unread(&self) -> bool;

    /// Counts from now on how long this thread is ready and does not run, against this priority of those that wait for it (0: nobody).
    fn watch(&mut self, thread: Tid, highest: u8) -> Result<(), Self::Error>;

    /// What [`WaitSource::watch`] counted of a thread.
    fn thread_waits(&self, thread: Tid) -> Option<ThreadWaits>;

    /// Waits that were given up because their end was never seen.
    fn expired(&self) -> u64;

    /// What was lost so far.
    fn losses(&self) -> Vec<Loss>;

    /// What cannot be seen here.
    fn missing(&self) -> &[Missing];
}

/// A thread of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadName {
    /// Its id.
    pub tid: Tid,
    /// Its name.
    pub comm: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
}

/// The threads of the system, read at once.
pub trait Threads {
    /// The thread of this id; `None`: it ended.
    fn thread(&self, tid: Tid) -> Option<ThreadName>;

    /// What it is scheduled as; `None`: it ended, or no policy that is known.
    fn scheduling(&self, tid: Tid) -> Option<Scheduling>;

    /// Which of the pages that can be reclaimed belong to these tasks.
    fn reclaim_share(&self, tasks: &[Tid]) -> ReclaimShare;
}

/// What a helper is asked to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The thread of this id.
    Name(Tid),
    /// Which of the pages that can be reclaimed belong to these tasks.
    Share(Vec<Tid>),
}

/// What a helper read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `None`: it ended before.
    Name(Tid, Option<ThreadName>),
    /// Of the tasks that were asked for.
    Share(ReclaimShare),
}

/// Reads what is not urgent, in its own time: it may answer late, or never where real-time tasks keep all processors busy.
pub trait Helper {
    /// Whether there is room for the request. One that finds none is not done; the session asks again.
    fn request(&self, request: Request) -> bool;

    /// The next answer, if there is one.
    fn answer(&self) -> Option<Answer>;

    /// Gives the helper this priority until it has read the share of pages. Returns whether it has that.
    fn boost(&self, priority: Priority) -> bool;
}

/// Makes the changes of one poll pass, and accounts for them.
pub trait Actuator {
    /// This thread is being created, and may be changed from now on. It is known by what the kernel said of it: no file has to be read.
    fn created(&mut self, thread: &NewThread);

    /// A thread that was created has back what it had, or is not to be changed any more: nothing has to be kept of it.
    fn let_go(&mut self, thread: Tid);

    /// Makes one change. The error is for people.
    fn change(&mut self, change: &Change) -> Result<(), String>;

    /// All changes of the pass were tried; so many of those that were made raise a thread because tasks wait for it.
    fn changed(&mut self, raises: u64);

    /// One change, with the name of its thread where it is known, and why it could not be made.
    fn report(&mut self, change: &Change, comm: Option<&str>, error: Option<String>);
}
