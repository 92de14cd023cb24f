// SPDX-License-Identifier: MIT OR Apache-2.0
//! The undo journal: nothing that latebound changes stays changed.
//!
//! This module owns every change of another thread's scheduling. Each is written down before it is made, with what was there
//! before, in a file that outlives the process. It is undone by whoever comes first: the process itself at its end, its
//! [`Watchdog`] when the process dies (SIGKILL included) or gives no sign of life, or the next start or `latebound tune undo`
//! ([`recover`]). A boot undoes everything by itself, so the file lies in `/run` and is never synced to a disk.
//!
//! A file of changes is an order to whoever undoes, so it is believed only where root or this user alone can have written it, and only in
//! the boot and the PID namespace of its writer, whose thread ids it has. The writer and its watchdog hold a lock on it for life: while
//! either is there, nobody else undoes or removes it.
//!
//! The kernel module latebound_tune raises threads by itself, in an instant and by tables ([`Raiser`]): how far it may is in the journal
//! before it has a table, and who undoes stops it first.
//!
//! What is undone is only what still is as it was set: a thread that somebody else changed meanwhile is left alone and
//! named. A thread is known by its id and its start time, so that a new one with the same id is not taken for it.

/// Where journals lie unless another folder is named.
pub const FOLDER: &str = "/run/latebound";

mod changes;
mod entry;
mod error;
mod folder;
mod handle;
mod journal;
mod raiser;
mod recover;
mod schedule;
#[cfg(test)]
mod tests;
mod watchdog;

pub use changes::{Left, Undone};
pub use entry::Owner;
pub use error::UndoError;
pub use handle::ThreadHandle;
pub use journal::Journal;
pub use raiser::{Raised, RaisedOver, Raiser, RaiserCounts};
pub use recover::{JournalText, LeftOver, Outcome, Recovered, left_over, read_journal, recover};
pub use schedule::{Schedule, ThreadIdentity, schedule_of, set_own_schedule, set_schedule_within};
pub use watchdog::{Ending, Watchdog};
