// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chunks that are found and inflated on one thread while another reads those before them.
//!
//! Owns the room that goes back and forth between the two. What is out of the ordinary (an error, a chunk that does not
//! inflate or is larger than recorders write, the end) is left to the reader, who meets it as if nobody had gone ahead: so
//! discontinuities and errors are the same, and in the same order. Starts no thread.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::dat::chunk::{Chunk, Finder, NextChunk, Slot, Work};
use crate::dat::shape::Shape;
use crate::source::ReadAt;

/// How much is handed over at once, so that the two seldom wait for each other.
const BATCH: usize = 256 * 1024;

/// Chunks one behind the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where each begins, and the place reached behind it.
    chunks: Vec<(usize, Chunk, Finder)>,
}

/// The work of finding and inflating the chunks of one CPU before its stream asks for them.
///
/// [`Ahead::run`] it on a thread of its own. It ends with the data, or when the stream is dropped; a stream whose `Ahead`
/// was dropped without being run does the work itself.
pub struct Ahead<'f, R> {
    source: &'f R,
    shape: Shape,
    finder: Finder,
    room: Receiver<Batch>,
    filled: Sender<Batch>,
}

/// The reader's end.
pub(super) struct AheadReader {
    room: Sender<Batch>,
    filled: Receiver<Batch>,
    /// What is read now; its bytes are in the slot.
    batch: Batch,
    /// How many chunks of the batch have been taken.
    taken: usize,
}

/// Both ends, which use at most `budget` bytes, and two batches at least.
pub(super) fn prepared<R>(
    source: &R,
    shape: Shape,
    finder: Finder,
    budget: usize,
) -> (Ahead<'_, R>, AheadReader) {
    let (room, room_back) = channel();
    let (filled, filled_out) = channel();
    // The reader has one to begin with.
    for _ in 1..(budget / BATCH).max(2) {
        // Both ends are here.
        let _ = room.send(Batch::default());
    }
    let ahead = Ahead { source, shape, finder, room: room_back, filled };
    (ahead, AheadReader { room, filled: filled_out, batch: Batch::default(), taken: 0 })
}

impl<R: ReadAt> Ahead<'_, R> {
    /// Goes ahead of the stream as far as there is room, until nothing is left to do.
    pub fn run(mut self) {
        let mut work = Work::default();
        while let Ok(mut batch) = self.room.recv() {
            let goes_on = self.fill(&mut batch, &mut work);
            if batch.chunks.is_empty() || self.filled.send(batch).is_err() || !goes_on {
                return;
            }
        }
    }

    /// Fills a batch; whether there may be more behind it.
    fn fill(&mut self, batch: &mut Batch, work: &mut Work) -> bool {
        batch.chunks.clear();
        batch.bytes.resize(BATCH, 0);
        let mut start = 0;
        loop {
            let mut finder = self.finder;
            let Ok(NextChunk::Chunk(chunk)) = finder.find(self.source, &self.shape) else { return false };
            let Some(into) = batch.bytes.get_mut(start..start + chunk.size) else {
                // A next batch has room for it, if any has.
                return start > 0;
            };
            if !matches!(finder.bring(self.source, &self.shape, into, work, chunk), Ok(true)) {
                return false;
            }
            batch.chunks.push((start, chunk, finder));
            start += chunk.size;
            self.finder = finder;
        }
    }
}

impl AheadReader {
    /// The next chunk, which `slot` holds then, and the place reached behind it; `None` where nobody goes ahead any more.
    pub(super) fn next(&mut self, slot: &mut Slot) -> Option<(Chunk, Finder)> {
        if self.taken == self.batch.chunks.len() {
            let done = Batch { bytes: slot.clear(), chunks: std::mem::take(&mut self.batch.chunks) };
            // Nobody may be there to fill it again, but what was filled before is.
            let _ = self.room.send(done);
            self.taken = 0;
            self.batch = self.filled.recv().ok()?;
            slot.bytes = std::mem::take(&mut self.batch.bytes);
        }
        let &(start, chunk, finder) = self.batch.chunks.get(self.taken)?;
        self.taken += 1;
        slot.hold(chunk, start);
        Some((chunk, finder))
    }
}
