// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was done to which thread, and undoing it. Owns the rule of what is given back: only what still is as it was set.

use std::collections::BTreeMap;

use latebound_model::Tid;

use super::entry::Entry;
use super::schedule::{Schedule, ThreadIdentity, schedule_of};
use crate::root::Root;

/// Something that was changed and is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Somebody else has changed it since; that is left alone.
    Foreign {
        /// The thread.
        thread: Tid,
        /// What it is now.
        is: Schedule,
        /// What it was at first.
        was: Schedule,
    },
    /// The system refused to set it back.
    Refused {
        /// The thread.
        thread: Tid,
        /// What it was at first.
        was: Schedule,
        /// What the system answered.
        error: String,
    },
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Left::Foreign { thread, is, was } => {
                write!(f, "thread {thread} is {is} by somebody else's doing; it was {was}")
            }
            Left::Refused { thread, was, error } => write!(f, "thread {thread} was {was}: {error}"),
        }
    }
}

/// What undoing did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// How many threads were set back.
    pub restored: usize,
    /// How many were as before already.
    pub untouched: usize,
    /// How many are gone.
    pub gone: usize,
    /// What is not as it was, and why.
    pub left: Vec<Left>,
    /// Lines that could not be read: a last line that was cut off was never acted upon.
    pub unreadable: usize,
}

impl Undone {
    /// Whether the system refused to set a thread back: that can be tried again.
    pub(super) fn was_refused(&self) -> bool {
        self.left.iter().any(|left| matches!(left, Left::Refused { .. }))
    }
}

/// What one thread was, and what it may be by this journal's doing.
#[derive(Clone, Debug)]
struct ThreadSchedules {
    was: Schedule,
    set: Vec<Schedule>,
    /// FIFO priorities from 1 to this; 0 for none.
    up_to: u32,
}

impl ThreadSchedules {
    fn may_be(&self, is: Schedule) -> bool {
        self.set.contains(&is)
            || (1..=self.up_to.min(99)).contains(&is.priority) && is == Schedule::fifo(is.priority)
    }

    /// What to set it to where it is to be as it was: with the nice value that it has by now, unless that can be this journal's doing.
    fn given_back(&self, tid: Tid, is: Schedule) -> Schedule {
        if self.has_own_nice() { self.was.given_back(tid, is) } else { self.was }
    }

    /// Whether somebody else gave it another nice value: nothing is to be undone then.
    fn is_reniced(&self, is: Schedule) -> bool {
        self.has_own_nice() && is.is_reniced(self.was)
    }

    /// Whether no fair policy was set here but the one that it had.
    fn has_own_nice(&self) -> bool {
        self.set.iter().all(|set| *set == self.was || !set.is_fair())
    }
}

/// What was done to each thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes(BTreeMap<ThreadIdentity, ThreadSchedules>);

impl Changes {
    /// From the lines behind a journal's first, with how many could not be read.
    pub(super) fn read<'a>(lines: impl Iterator<Item = &'a str>) -> (Changes, usize) {
        let (mut changes, mut unreadable) = (Changes::default(), 0);
        for line in lines {
            match Entry::parse(line) {
                Some(Entry::Thread { thread, was, set }) => changes.add(thread, was, set),
                Some(Entry::Raises { thread, was, up_to }) => changes.permit(thread, was, up_to),
                _ => unreadable += 1,
            }
        }
        (changes, unreadable)
    }

    /// What a thread was before the first change of it.
    pub(super) fn original(&self, thread: ThreadIdentity) -> Option<Schedule> {
        self.0.get(&thread).map(|known| known.was)
    }

    /// What a thread that is this now is set to for `to`: what it was at first has the nice value that it has by now.
    pub(super) fn given_back(&self, thread: ThreadIdentity, to: Schedule, is: Schedule) -> Schedule {
        let known = self.0.get(&thread).filter(|known| known.was == to);
        known.map_or(to, |known| known.given_back(thread.tid, is))
    }

    /// Whether it is down already that a thread is set so.
    pub(super) fn has(&self, thread: ThreadIdentity, set: Schedule) -> bool {
        self.0.get(&thread).is_some_and(|known| known.set.contains(&set))
    }

    /// How far others may raise it.
    pub(super) fn permitted(&self, thread: ThreadIdentity) -> u32 {
        self.0.get(&thread).map_or(0, |known| known.up_to)
    }

    pub(super) fn add(&mut self, thread: ThreadIdentity, was: Schedule, set: Schedule) {
        let known = self.0.entry(thread).or_insert(ThreadSchedules { was, set: Vec::new(), up_to: 0 });
        if !known.set.contains(&set) {
            known.set.push(set);
        }
    }

    pub(super) fn permit(&mut self, thread: ThreadIdentity, was: Schedule, up_to: u32) {
        let known = self.0.entry(thread).or_insert(ThreadSchedules { was, set: Vec::new(), up_to });
        known.up_to = known.up_to.max(up_to);
    }

    pub(super) fn forget(&mut self, thread: ThreadIdentity) {
        self.0.remove(&thread);
    }

    /// Of how many threads.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many threads are as they were set, and not as they were before.
    pub(super) fn still(&self, root: &Root) -> usize {
        let is_set = |(thread, known): &(&ThreadIdentity, &ThreadSchedules)| {
            let is = thread.is_there(root).then(|| schedule_of(thread.tid).ok()).flatten();
            is.is_some_and(|is| is != known.was && known.may_be(is))
        };
        self.0.iter().filter(is_set).count()
    }

    /// Sets every thread back that is as it was set.
    pub(super) fn undo(&self, root: &Root) -> Undone {
        let mut undone = Undone::default();
        for (thread, known) in &self.0 {
            let was = known.was;
            let Some(is) = thread.is_there(root).then(|| schedule_of(thread.tid).ok()).flatten() else {
                undone.gone += 1;
                continue;
            };
            if is == was || known.is_reniced(is) {
                undone.untouched += 1;
            } else if !known.may_be(is) {
                undone.left.push(Left::Foreign { thread: thread.tid, is, was });
            } else {
                match known.given_back(thread.tid, is).apply(thread.tid) {
                    Ok(()) => undone.restored += 1,
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => undone.gone += 1,
                    Err(error) => {
                        undone.left.push(Left::Refused { thread: thread.tid, was, error: error.to_string() });
                    }
                }
            }
        }
        undone
    }
}
