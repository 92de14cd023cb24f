// SPDX-License-Identifier: MIT OR Apache-2.0
//! The undo journal: nothing that latebound changes stays changed.
//!
//! This module owns every change of another thread's scheduling. Each is written down before it is made, with what was there
//! before, in a file that outlives the process. It is undone by whoever comes first: the process itself at its end, its
//! [`Watchdog`] when the process dies (SIGKILL included), or the next start ([`recover`]). A boot undoes everything by
//! itself, so the file lies in `/run` and is never synced to a disk.
//!
//! The kernel module latebound_tune raises threads by itself, in an instant and by tables ([`Raiser`]): how far it may is in the journal
//! before it has a table, and who undoes stops it first.
//!
//! What is undone is only what still is as it was set: a thread that somebody else changed meanwhile is left alone and
//! named. A thread is known by its id and its start time, so that a new one with the same id is not taken for it.

mod entry;
mod handle;
mod journal;
mod raiser;
mod schedule;
#[cfg(test)]
mod tests;
mod watchdog;

pub use handle::ThreadHandle;
pub use journal::{Journal, Left, UndoError, Undone, recover, undo_file};
pub use raiser::{Raised, RaisedOver, Raiser, RaiserCounts};
pub use schedule::{Schedule, ThreadIdentity, schedule_of, set_own_schedule, set_schedule_within};
pub use watchdog::Watchdog;
