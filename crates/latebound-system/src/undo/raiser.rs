// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel module latebound_tune: raises kernel threads at once where real-time tasks begin to wait for them. Owns what it is asked, and that it
//! has no table of a thread that is not in the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

use latebound_abi::tune::{Counts, Kind, PRIORITIES, Record, Serves, Start, Thread, command};
use latebound_model::{Nanos, Tid};
use latebound_module::{Device, TUNE};

use super::error::UndoError;
use super::journal::Journal;
use super::schedule::ThreadIdentity;
use crate::root::Root;

pub use latebound_abi::tune::{Counts as RaiserCounts, Kind as RaisedOver};

/// One thread that the module raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The thread.
    pub thread: Tid,
    /// Its FIFO priority since then.
    pub to: u8,
    /// That before; 0 where it was a fair thread.
    pub from: u8,
    /// Who began to wait.
    pub task: Tid,
    /// Its priority.
    pub priority: u8,
    /// Over what.
    pub over: RaisedOver,
    /// When it began to wait, by CLOCK_MONOTONIC.
    pub asked: Nanos,
    /// When the thread had its priority.
    pub set: Nanos,
}

/// The module at work, until [`Raiser::stop`] or drop.
#[derive(Debug)]
pub struct Raiser {
    device: Device,
    root: Root,
    kinds: u32,
    given: BTreeMap<Tid, (ThreadIdentity, [u8; PRIORITIES])>,
    pairs: BTreeSet<(RaisedOver, u64, Tid)>,
}

impl Raiser {
    /// Whether the module is loaded.
    pub fn is_there() -> bool {
        TUNE.is_there()
    }

    /// Connects it. It raises nobody to this priority, the watchdog's, or above, and by itself nobody at all.
    pub fn start(below: u32) -> Result<Raiser, UndoError> {
        let fail = |what: String| UndoError::Raiser(what);
        let (device, _) = TUNE.open().map_err(|error| fail(error.to_string()))?;
        let mut start = Start { below, kinds: 0 };
        device
            .ask(command::START, &mut start)
            .map_err(|error| fail(format!("it cannot be connected to the kernel's trace points: {error}")))?;
        Ok(Raiser {
            device,
            root: Root::live(),
            kinds: start.kinds,
            given: BTreeMap::new(),
            pairs: BTreeSet::new(),
        })
    }

    /// Whether this kernel has trace points for waits of this kind.
    pub fn sees(&self, over: RaisedOver) -> bool {
        self.kinds >> over.raw() & 1 == 1
    }

    /// From now on this thread is to have at least so much where a task begins to wait for it, by the priority of that task. In the
    /// journal first.
    pub fn give(
        &mut self,
        journal: &mut Journal,
        thread: Tid,
        table: &[u8; PRIORITIES],
    ) -> Result<(), UndoError> {
        let known = self.given.get(&thread);
        if known.is_some_and(|known| known.1 == *table) {
            return Ok(());
        }
        let highest = u32::from(table.iter().copied().max().unwrap_or(0));
        if known.is_none() && highest == 0 {
            return Ok(());
        }
        let identity = match known {
            Some(&(identity, _)) => identity,
            None => ThreadIdentity::of(&self.root, thread).map_err(|_| UndoError::Gone(thread))?,
        };
        if highest > 0 {
            journal.permit(identity, highest)?;
        }
        let mut value = Thread {
            tid: thread.0.unsigned_abs(),
            reserved: 0,
            start_ticks: identity.start,
            raise_to: *table,
            padding: [0; 4],
        };
        match self.device.ask(command::THREAD, &mut value) {
            Ok(()) => {
                self.given.insert(thread, (identity, *table));
                Ok(())
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                self.forget(thread);
                Err(UndoError::Gone(thread))
            }
            Err(error) => Err(UndoError::Raiser(format!("it does not take thread {thread}: {error}"))),
        }
    }

    /// A thread serves this disk or node. Returns whether it is raised for that: one without a table is not.
    pub fn serves(&mut self, over: RaisedOver, of: u64, thread: Tid) -> Result<bool, UndoError> {
        if !self.sees(over) || !self.given.contains_key(&thread) {
            return Ok(false);
        }
        if self.pairs.contains(&(over, of, thread)) {
            return Ok(true);
        }
        let mut value = Serves { kind: over.raw(), tid: thread.0.unsigned_abs(), of };
        self.device.ask(command::SERVES, &mut value).map_err(|error| {
            UndoError::Raiser(format!("it does not take whom thread {thread} serves: {error}"))
        })?;
        self.pairs.insert((over, of, thread));
        Ok(true)
    }

    /// A thread is gone; the module has found that out by itself. Another one of its id is another one.
    pub fn forget(&mut self, thread: Tid) {
        self.given.remove(&thread);
        self.pairs.retain(|pair| pair.2 != thread);
    }

    /// What it did since the last call.
    pub fn take(&mut self) -> Vec<Raised> {
        const BATCH: usize = 32;
        let mut raised = Vec::new();
        loop {
            let mut bytes = [0; BATCH * size_of::<Record>()];
            // Nothing new is an error of its own (EAGAIN); there is no other that could be acted upon here.
            let Ok(read) = self.device.file().read(&mut bytes) else { return raised };
            raised.extend(bytes[..read].chunks_exact(size_of::<Record>()).filter_map(decode));
            if read < bytes.len() {
                return raised;
            }
        }
    }

    /// How much it did in all.
    pub fn counts(&self) -> Result<RaiserCounts, UndoError> {
        let mut counts = Counts::default();
        self.device
            .ask(command::COUNTS, &mut counts)
            .map_err(|error| UndoError::Raiser(format!("it does not say what it did: {error}")))?;
        Ok(counts)
    }

    /// Nobody is raised any more, by whichever process holds it, once this returns. For those that undo.
    pub fn stop(&self) {
        // A module that is loaded always can.
        let _ = self.device.tell(command::STOP);
    }
}

impl AsFd for Raiser {
    /// Readable where [`Raiser::take`] has something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

fn decode(bytes: &[u8]) -> Option<Raised> {
    let record = Record::from_bytes(bytes)?;
    Some(Raised {
        asked: Nanos(record.asked_ns),
        set: Nanos(record.set_ns),
        thread: Tid(i32::try_from(record.tid).ok()?),
        task: Tid(i32::try_from(record.task).ok()?),
        over: Kind::from_raw(u32::from(record.kind))?,
        priority: record.priority,
        to: record.to,
        from: record.from,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_by_the_header_and_an_unknown_kind_is_not() {
        let mut record = Record {
            asked_ns: 7,
            set_ns: 9,
            tid: 29,
            task: 600,
            kind: Kind::WorkItem.raw() as u8,
            priority: 60,
            to: 48,
            from: 5,
            ..Record::ZERO
        };
        let raised = decode(&record.to_bytes()).unwrap();
        assert_eq!((raised.asked, raised.set), (Nanos(7), Nanos(9)));
        assert_eq!((raised.thread, raised.task), (Tid(29), Tid(600)));
        assert_eq!((raised.over, raised.priority, raised.to, raised.from), (Kind::WorkItem, 60, 48, 5));
        assert_eq!(decode(&record.to_bytes()[..25]), None);
        record.kind = Kind::KIND_COUNT as u8;
        assert_eq!(decode(&record.to_bytes()), None, "no kind that is known");
    }
}
