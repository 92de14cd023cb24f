// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of one CPU, and several CPUs merged by time.
//!
//! Owns the way from chunks to events: pages, entries, and the discontinuities between them. Holds one chunk per
//! CPU at most, and of many CPUs as many as a fixed budget allows; never a whole file or a whole CPU.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use latebound_model::Cpu;

use crate::dat::ahead::{self, Ahead, AheadReader};
use crate::dat::chunk::{BLOCK, Chunk, Finder, NextChunk, Slot, Work};
use crate::dat::head::CpuData;
use crate::dat::page::Step;
use crate::dat::shape::Shape;
use crate::dat::track::Track;
use crate::discontinuity::{Discontinuity, DiscontinuityKind, Tally};
use crate::error::TraceError;
use crate::source::ReadAt;

/// One event as it stands in the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent<'a> {
    /// On which CPU.
    pub cpu: Cpu,
    /// When, as the trace's clock gave it ([`crate::Clock::nanos`]).
    pub time: u64,
    /// The record, from `common_type` on.
    pub data: &'a [u8],
}

/// What a stream gives next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An event.
    Event(RawEvent<'a>),
    /// A place where the stream is not whole.
    Discontinuity(Discontinuity),
}

/// How much the chunks of a merge may take together.
const MERGE_BUDGET: usize = 24 << 20;
/// How much the pages of a merge may take together, of each CPU one: those of 8192 CPUs take 32 MiB, at 4 KiB each.
const PAGES_LIMIT: usize = 64 << 20;

/// The place reached in one CPU's pages.
struct Cursor {
    finder: Finder,
    chunk: Option<Chunk>,
    /// The place of the next page in the chunk.
    next_page: usize,
    track: Track,
}

impl Cursor {
    fn new<R: ReadAt>(source: &R, shape: &Shape, data: &CpuData) -> Result<Cursor, TraceError> {
        let (finder, missing) = Finder::new(source, shape, data)?;
        let mut cursor = Cursor { finder, chunk: None, next_page: 0, track: Track::new(data.cpu) };
        if missing > 0 {
            cursor.track.discontinuity(DiscontinuityKind::CutOff { bytes: missing });
        }
        Ok(cursor)
    }

    /// Goes to the next page; where it lies in the slot, or `None` at the end of the CPU's data.
    fn turn_page<R: ReadAt>(
        &mut self,
        source: &R,
        shape: &Shape,
        slot: &mut Slot,
        work: &mut Work,
        prepared: &mut Option<AheadReader>,
    ) -> Result<Option<usize>, TraceError> {
        loop {
            let Some(chunk) = self.chunk else {
                self.next_page = 0;
                if let Some(ready) = prepared {
                    match ready.next(slot) {
                        Some((chunk, finder)) => (self.chunk, self.finder) = (Some(chunk), finder),
                        // The rest is found and read here.
                        None => *prepared = None,
                    }
                    continue;
                }
                match self.finder.find(source, shape)? {
                    NextChunk::Chunk(chunk) => self.chunk = Some(chunk),
                    NextChunk::Lost(0) => {}
                    NextChunk::Lost(bytes) => self.track.discontinuity(DiscontinuityKind::Damaged { bytes }),
                    NextChunk::End => return Ok(None),
                }
                continue;
            };
            let at = self.next_page;
            if at + shape.page_size > chunk.size {
                if at < chunk.size {
                    self.track.discontinuity(DiscontinuityKind::Damaged { bytes: (chunk.size - at) as u64 });
                }
                self.chunk = None;
                continue;
            }
            if !self.finder.load(source, shape, slot, work, chunk)? {
                self.track.discontinuity(DiscontinuityKind::Damaged { bytes: (chunk.size - at) as u64 });
                self.chunk = None;
                continue;
            }
            self.next_page = at + shape.page_size;
            let at = slot.start + at;
            let page = &slot.bytes[at..at + shape.page_size];
            if self.track.begin_page(page, shape.layout, shape.big_endian) {
                return Ok(Some(at));
            }
        }
    }
}

/// The events of one CPU in the order of its ring buffer.
pub struct CpuStream<'f, R> {
    source: &'f R,
    shape: Shape,
    cursor: Cursor,
    slot: Slot,
    work: Work,
    /// Chunks that somebody else reads ahead of this.
    prepared: Option<AheadReader>,
    /// The page that is walked, as a place in the slot.
    page: usize,
    /// An event that a discontinuity goes before, as a place in the page.
    held: Option<(usize, usize)>,
}

impl<'f, R: ReadAt> CpuStream<'f, R> {
    pub(crate) fn new(source: &'f R, shape: Shape, data: &CpuData) -> Result<CpuStream<'f, R>, TraceError> {
        let cursor = Cursor::new(source, &shape, data)?;
        Ok(CpuStream {
            source,
            shape,
            cursor,
            slot: Slot::default(),
            work: Work::default(),
            prepared: None,
            page: 0,
            held: None,
        })
    }

    /// A stream, and the work to be done ahead of it within about so many bytes.
    pub(crate) fn with_ahead(
        source: &'f R,
        shape: Shape,
        data: &CpuData,
        budget: usize,
    ) -> Result<(CpuStream<'f, R>, Ahead<'f, R>), TraceError> {
        let mut stream = CpuStream::new(source, shape, data)?;
        let (ahead, prepared) = ahead::prepared(source, shape, stream.cursor.finder, budget);
        stream.prepared = Some(prepared);
        Ok((stream, ahead))
    }

    /// The CPU.
    pub fn cpu(&self) -> Cpu {
        self.cursor.track.cpu
    }

    /// What was delivered and what was wrong so far.
    pub fn tally(&self) -> Tally {
        self.cursor.track.tally
    }

    /// The next event or discontinuity; `None` at the end.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        let (start, end) = loop {
            if let Some(discontinuity) = self.cursor.track.take_discontinuity() {
                return Ok(Some(Item::Discontinuity(discontinuity)));
            }
            if let Some(held) = self.held.take() {
                break held;
            }
            let page = self.slot.bytes.get(self.page..self.page + self.shape.page_size).unwrap_or_default();
            match self.cursor.track.step(self.shape.big_endian, page) {
                Step::Event { start, end } if self.cursor.track.check_time() => break (start, end),
                Step::Event { start, end } => self.held = Some((start, end)),
                Step::Damaged { bytes } => {
                    self.cursor.track.discontinuity(DiscontinuityKind::Damaged { bytes: bytes as u64 })
                }
                Step::Done => match self.turn_page()? {
                    Some(page) => self.page = page,
                    None if !self.cursor.track.has_discontinuities() => return Ok(None),
                    None => {}
                },
            }
        };
        let time = self.cursor.track.walk.time;
        self.cursor.track.pass(time);
        let data = &self.slot.bytes[self.page + start..self.page + end];
        Ok(Some(Item::Event(RawEvent { cpu: self.cursor.track.cpu, time, data })))
    }

    /// Gives every event and discontinuity that is left to `visit`: the fast way.
    pub fn for_each(&mut self, mut visit: impl FnMut(Item<'_>)) -> Result<(), TraceError> {
        // What `next_item` found but did not give yet comes first.
        while self.held.is_some() || self.cursor.track.has_discontinuities() {
            match self.next_item()? {
                Some(item) => visit(item),
                None => return Ok(()),
            }
        }
        if self.shape.big_endian { self.run::<true>(&mut visit) } else { self.run::<false>(&mut visit) }
    }

    fn turn_page(&mut self) -> Result<Option<usize>, TraceError> {
        let CpuStream { source, shape, cursor, slot, work, prepared, .. } = self;
        cursor.turn_page(*source, shape, slot, work, prepared)
    }

    fn run<const BIG: bool>(&mut self, visit: &mut impl FnMut(Item<'_>)) -> Result<(), TraceError> {
        let cpu = self.cursor.track.cpu;
        loop {
            let page = self.slot.bytes.get(self.page..self.page + self.shape.page_size).unwrap_or_default();
            // In registers for the length of the page; the cursor is brought up to date behind it.
            let mut walk = self.cursor.track.walk;
            let mut events = 0;
            // Before the first event every time will do.
            let mut last = self.cursor.track.last_time.unwrap_or(0);
            loop {
                match walk.step::<BIG>(page) {
                    Step::Event { start, end } => {
                        let time = walk.time;
                        if time < last {
                            let kind = DiscontinuityKind::Backwards { by: last - time };
                            self.cursor.track.tally.count(kind);
                            visit(Item::Discontinuity(Discontinuity {
                                cpu,
                                page: self.cursor.track.page_index,
                                after: Some(last),
                                kind,
                            }));
                        }
                        last = time;
                        events += 1;
                        visit(Item::Event(RawEvent { cpu, time, data: &page[start..end] }));
                    }
                    Step::Damaged { bytes } => {
                        self.cursor.track.discontinuity(DiscontinuityKind::Damaged { bytes: bytes as u64 });
                        break;
                    }
                    Step::Done => break,
                }
            }
            self.cursor.track.walk = walk;
            self.cursor.track.tally.events += events;
            if events > 0 {
                self.cursor.track.last_time = Some(last);
            }
            let turned = self.turn_page()?;
            while let Some(discontinuity) = self.cursor.track.take_discontinuity() {
                visit(Item::Discontinuity(discontinuity));
            }
            match turned {
                Some(page) => self.page = page,
                None => return Ok(()),
            }
        }
    }
}

/// The events of several CPUs in the order of their times.
pub struct MergedStream<'f, R> {
    source: &'f R,
    shape: Shape,
    lanes: Vec<Lane>,
    slots: Vec<Slot>,
    /// What a slot may keep.
    room: usize,
    /// Bytes of the lanes' pages.
    held: usize,
    work: Work,
    /// The time of every lane's next event, the earliest on top; of two at once the lane that the file lists first.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// The lane whose event was delivered last, or that has discontinuities to tell, and so must be advanced.
    pending: Vec<usize>,
}

/// One CPU of a merge, with its page and the event it waits with.
struct Lane {
    cursor: Cursor,
    page: Vec<u8>,
    event: (usize, usize),
    /// Whether `event` is found and waits among the heads.
    waits: bool,
}

impl<'f, R: ReadAt> MergedStream<'f, R> {
    pub(crate) fn new(
        source: &'f R,
        shape: Shape,
        cpus: &[CpuData],
    ) -> Result<MergedStream<'f, R>, TraceError> {
        let mut lanes = Vec::new();
        for data in cpus.iter().filter(|data| data.size > 0) {
            lanes.push(Lane {
                cursor: Cursor::new(source, &shape, data)?,
                page: Vec::new(),
                event: (0, 0),
                waits: false,
            });
        }
        // trace-cmd's chunks have 10 pages; larger ones only make the lanes share.
        let room = (shape.page_size * 10).max(BLOCK);
        let slots = lanes.len().min((MERGE_BUDGET / room).max(1));
        let pending = (0..lanes.len()).rev().collect();
        let slots = (0..slots).map(|_| Slot::default()).collect();
        Ok(MergedStream {
            source,
            shape,
            lanes,
            slots,
            room,
            held: 0,
            work: Work::default(),
            heads: BinaryHeap::new(),
            pending,
        })
    }

    /// What was delivered and what was wrong so far, per CPU.
    pub fn tallies(&self) -> Vec<(Cpu, Tally)> {
        self.lanes.iter().map(|lane| (lane.cursor.track.cpu, lane.cursor.track.tally)).collect()
    }

    /// The next event or discontinuity; `None` at the end.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        while let Some(&index) = self.pending.last() {
            if let Some(discontinuity) = self.advance(index)? {
                return Ok(Some(Item::Discontinuity(discontinuity)));
            }
            self.pending.pop();
        }
        let Some(Reverse((time, index))) = self.heads.pop() else { return Ok(None) };
        self.pending.push(index);
        let lane = &mut self.lanes[index];
        lane.waits = false;
        lane.cursor.track.pass(time);
        let (start, end) = lane.event;
        Ok(Some(Item::Event(RawEvent { cpu: lane.cursor.track.cpu, time, data: &lane.page[start..end] })))
    }

    /// Finds the next event of a lane and puts it in order, or gives a discontinuity that comes before it.
    fn advance(&mut self, index: usize) -> Result<Option<Discontinuity>, TraceError> {
        let slot_index = index % self.slots.len().max(1);
        let lane = &mut self.lanes[index];
        loop {
            if let Some(discontinuity) = lane.cursor.track.take_discontinuity() {
                return Ok(Some(discontinuity));
            }
            if lane.waits {
                return Ok(None);
            }
            match lane.cursor.track.step(self.shape.big_endian, &lane.page) {
                Step::Event { start, end } => {
                    lane.event = (start, end);
                    lane.waits = true;
                    lane.cursor.track.check_time();
                    self.heads.push(Reverse((lane.cursor.track.walk.time, index)));
                }
                Step::Damaged { bytes } => {
                    lane.cursor.track.discontinuity(DiscontinuityKind::Damaged { bytes: bytes as u64 })
                }
                Step::Done => {
                    let slot = &mut self.slots[slot_index];
                    match lane.cursor.turn_page(self.source, &self.shape, slot, &mut self.work, &mut None)? {
                        Some(at) => {
                            // What is used of it: of many CPUs each may have a large page with little in it.
                            let page = &slot.bytes[at..at + lane.cursor.track.walk.end];
                            self.held = self.held.saturating_sub(lane.page.len()) + page.len();
                            if self.held > PAGES_LIMIT {
                                let (size, limit) = (self.held as u64, PAGES_LIMIT as u64);
                                return Err(TraceError::TooLarge {
                                    part: "the pages of all CPUs",
                                    offset: 0,
                                    size,
                                    limit,
                                });
                            }
                            lane.page = page.to_vec();
                            if slot.bytes.len() > self.room {
                                // Not a size that a recorder writes: decompressed again for each page, not kept.
                                *slot = Slot::default();
                            }
                        }
                        None if !lane.cursor.track.has_discontinuities() => {
                            // Nothing comes any more: the page may go.
                            self.held -= lane.page.len();
                            lane.page = Vec::new();
                            return Ok(None);
                        }
                        None => {}
                    }
                }
            }
        }
    }
}
