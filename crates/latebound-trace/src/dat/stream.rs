// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of one CPU, and several CPUs merged by time.
//!
//! Owns the way from a range of the file to events: blocks or compressed chunks, pages, entries. Holds one chunk per
//! CPU at most, and of many CPUs as many as a fixed budget allows; never a whole file or a whole CPU.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use latebound_model::Cpu;

use crate::dat::head::{Buffer, CpuData};
use crate::dat::inflate::{Compression, Inflater};
use crate::dat::page::{PageHead, Step, Walk};
use crate::error::TraceError;
use crate::flaw::{Flaw, FlawKind, Tally};
use crate::format::PageLayout;
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
    Flaw(Flaw),
}

/// What all CPUs of one buffer have in common.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) big_endian: bool,
    pub(crate) layout: PageLayout,
    pub(crate) page_size: usize,
    /// `None`: pages lie in the file as they are.
    pub(crate) chunks: Option<Compression>,
}

impl Shape {
    pub(crate) fn new(
        big_endian: bool,
        layout: PageLayout,
        compression: Compression,
        buffer: &Buffer,
    ) -> Shape {
        let chunks = buffer.compressed.then_some(compression);
        Shape { big_endian, layout, page_size: buffer.page_size, chunks }
    }

    /// The most that one chunk may hold. trace-cmd makes chunks of 10 pages; pages are at most 8 MiB.
    fn chunk_limit(&self) -> usize {
        (self.page_size * 64).clamp(1 << 20, 32 << 20)
    }
}

/// How much of plain pages is read at once.
const BLOCK: usize = 64 * 1024;
/// How much the chunks of a merge may take together.
const MERGE_BUDGET: usize = 24 << 20;

/// A part of a CPU's data that is held as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    /// Where its bytes are in the file.
    offset: u64,
    /// How many they are there.
    stored: usize,
    /// How many they are to be.
    size: usize,
}

/// Room for one chunk.
#[derive(Default)]
struct Slot {
    /// Which chunk it holds.
    chunk: Option<Chunk>,
    bytes: Vec<u8>,
}

/// Working memory for reading chunks.
#[derive(Default)]
struct Work {
    inflater: Inflater,
    input: Vec<u8>,
}

/// Makes `buffer` hold at least `size` bytes; new room comes zeroed from the system and is not touched here.
fn grow(buffer: &mut Vec<u8>, size: usize) {
    if buffer.len() < size {
        *buffer = vec![0; size];
    }
}

/// The place reached in one CPU's data.
struct Cursor {
    cpu: Cpu,
    /// The next byte that was not looked at, and the end.
    at: u64,
    end: u64,
    /// Chunks that the count at the beginning still promises.
    chunks_left: u32,
    /// The header of the next chunk, read together with the chunk before.
    ahead: Option<[u8; 8]>,
    chunk: Option<Chunk>,
    /// The place of the next page in the chunk.
    next_page: usize,
    page_index: u64,
    walk: Walk,
    last_time: Option<u64>,
    tally: Tally,
    /// Flaws not yet told: a page brings three at most.
    flaws: [Option<FlawKind>; 4],
    ended: bool,
}

impl Cursor {
    fn new<R: ReadAt>(source: &R, shape: &Shape, data: &CpuData) -> Result<Cursor, TraceError> {
        let length =
            source.len().map_err(|source| TraceError::Read { part: PART, offset: data.offset, source })?;
        // trace-cmd 3.1.6 does not count the 32-bit number of chunks among the bytes that it names.
        let count = if shape.chunks.is_some() && data.size > 0 { 4 } else { 0 };
        let promised = data.offset.saturating_add(data.size).saturating_add(count);
        let mut cursor = Cursor {
            cpu: data.cpu,
            at: data.offset,
            end: promised.min(length),
            chunks_left: 0,
            ahead: None,
            chunk: None,
            next_page: 0,
            page_index: 0,
            walk: Walk::default(),
            last_time: None,
            tally: Tally::default(),
            flaws: [None; 4],
            ended: data.size == 0,
        };
        if cursor.ended {
            return Ok(cursor);
        }
        let missing = if data.offset >= length { data.size } else { promised.saturating_sub(length) };
        if missing > 0 {
            cursor.flaw(FlawKind::CutOff { bytes: missing });
        }
        if shape.chunks.is_some() {
            match cursor.left() {
                4.. => {
                    let mut count = [0; 4];
                    read(source, cursor.at, &mut count)?;
                    cursor.chunks_left =
                        if shape.big_endian { u32::from_be_bytes(count) } else { u32::from_le_bytes(count) };
                    cursor.at += 4;
                }
                _ => cursor.ended = true,
            }
        }
        Ok(cursor)
    }

    fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    fn flaw(&mut self, kind: FlawKind) {
        self.tally.count(kind);
        if let Some(place) = self.flaws.iter_mut().find(|place| place.is_none()) {
            *place = Some(kind);
        } else if let (Some(Some(FlawKind::Damaged { bytes })), FlawKind::Damaged { bytes: more }) =
            (self.flaws.last_mut(), kind)
        {
            // A run of broken chunks is told as one.
            *bytes = bytes.saturating_add(more);
        }
    }

    fn take_flaw(&mut self) -> Option<Flaw> {
        let kind = self.flaws.iter_mut().find_map(Option::take)?;
        Some(Flaw { cpu: self.cpu, page: self.page_index, after: self.last_time, kind })
    }

    /// The rest of the data cannot be found any more.
    fn give_up(&mut self) {
        if self.left() > 0 {
            self.flaw(FlawKind::Damaged { bytes: self.left() });
        }
        self.ended = true;
    }

    /// Finds the next chunk; `None` at the end.
    fn find_chunk<R: ReadAt>(&mut self, source: &R, shape: &Shape) -> Result<Option<Chunk>, TraceError> {
        if shape.chunks.is_none() {
            let pages = (BLOCK / shape.page_size).max(1) * shape.page_size;
            let size = (pages as u64).min(self.left()) as usize;
            let chunk = Chunk { offset: self.at, stored: size, size };
            self.at += size as u64;
            self.ended = size == 0;
            return Ok((!self.ended).then_some(chunk));
        }
        if self.chunks_left == 0 {
            self.ended = true;
            return Ok(None);
        }
        let header = match self.ahead.take() {
            Some(header) => header,
            None if self.left() >= 8 => {
                let mut header = [0; 8];
                read(source, self.at, &mut header)?;
                header
            }
            None => {
                self.give_up();
                return Ok(None);
            }
        };
        let number = |bytes: &[u8]| match *bytes {
            [a, b, c, d] if shape.big_endian => u32::from_be_bytes([a, b, c, d]) as usize,
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => 0,
        };
        let (stored, size) = (number(&header[..4]), number(&header[4..]));
        // What does not compress grows a little.
        let limit = shape.chunk_limit();
        if stored as u64 > self.left() - 8 || size > limit || stored > limit + limit / 2 || stored == 0 {
            self.give_up();
            return Ok(None);
        }
        let chunk = Chunk { offset: self.at + 8, stored, size };
        self.at += 8 + stored as u64;
        self.chunks_left -= 1;
        Ok(Some(chunk))
    }

    /// Makes `slot` hold the cursor's chunk; `false` where it does not decompress.
    fn load<R: ReadAt>(
        &mut self,
        source: &R,
        shape: &Shape,
        slot: &mut Slot,
        work: &mut Work,
        chunk: Chunk,
    ) -> Result<bool, TraceError> {
        if slot.chunk == Some(chunk) {
            return Ok(true);
        }
        slot.chunk = None;
        grow(&mut slot.bytes, chunk.size);
        match shape.chunks {
            None => read(source, chunk.offset, &mut slot.bytes[..chunk.size])?,
            Some(compression) => {
                // The header of the chunk behind comes along: one read instead of two.
                let behind = chunk.offset + chunk.stored as u64;
                let more = self.chunks_left > 0 && self.at == behind && self.left() >= 8;
                let wanted = chunk.stored + if more { 8 } else { 0 };
                if work.input.len() < wanted {
                    work.input = vec![0; wanted.next_multiple_of(4096)];
                }
                read(source, chunk.offset, &mut work.input[..wanted])?;
                let (stored, header) = work.input[..wanted].split_at(chunk.stored);
                self.ahead = header.try_into().ok();
                match work.inflater.inflate(compression, stored, &mut slot.bytes[..chunk.size]) {
                    Ok(size) if size == chunk.size => {}
                    Ok(_) | Err(_) => return Ok(false),
                }
            }
        }
        slot.chunk = Some(chunk);
        Ok(true)
    }

    /// Goes to the next page; where it lies in the slot, or `None` at the end of the CPU's data.
    fn turn_page<R: ReadAt>(
        &mut self,
        source: &R,
        shape: &Shape,
        slot: &mut Slot,
        work: &mut Work,
    ) -> Result<Option<usize>, TraceError> {
        loop {
            let Some(chunk) = self.chunk else {
                if self.ended {
                    return Ok(None);
                }
                self.chunk = self.find_chunk(source, shape)?;
                self.next_page = 0;
                continue;
            };
            let at = self.next_page;
            if at + shape.page_size > chunk.size {
                if at < chunk.size {
                    self.flaw(FlawKind::Damaged { bytes: (chunk.size - at) as u64 });
                }
                self.chunk = None;
                continue;
            }
            if !self.load(source, shape, slot, work, chunk)? {
                self.flaw(FlawKind::Damaged { bytes: (chunk.size - at) as u64 });
                self.chunk = None;
                continue;
            }
            self.next_page = at + shape.page_size;
            let page = &slot.bytes[at..at + shape.page_size];
            let Some(head) = PageHead::read(page, shape.layout, shape.big_endian) else {
                self.flaw(FlawKind::Damaged { bytes: page.len() as u64 });
                continue;
            };
            self.begin_page(&head);
            return Ok(Some(at));
        }
    }

    fn begin_page(&mut self, head: &PageHead) {
        if head.excess > 0 {
            self.flaw(FlawKind::Damaged { bytes: head.excess });
        }
        if let Some(events) = head.missed {
            self.flaw(FlawKind::Overwritten { events });
        }
        self.page_index += 1;
        self.walk = Walk::new(head);
    }

    /// Looks at the time of the event just found: a flaw, told before it, where it is before the last one's.
    fn check_time(&mut self) -> bool {
        match self.last_time {
            Some(last) if self.walk.time < last => {
                self.flaw(FlawKind::Backwards { by: last - self.walk.time });
                false
            }
            _ => true,
        }
    }

    /// Notes that an event was delivered.
    fn pass(&mut self, time: u64) {
        self.last_time = Some(time);
        self.tally.events += 1;
    }

    fn has_flaws(&self) -> bool {
        self.flaws.iter().any(Option::is_some)
    }

    #[inline(always)]
    fn step(&mut self, big_endian: bool, page: &[u8]) -> Step {
        if big_endian { self.walk.step::<true>(page) } else { self.walk.step::<false>(page) }
    }
}

const PART: &str = "the pages of a CPU";

fn read<R: ReadAt>(source: &R, offset: u64, into: &mut [u8]) -> Result<(), TraceError> {
    source.read_exact_at(offset, into).map_err(|source| TraceError::Read { part: PART, offset, source })
}

/// The events of one CPU in the order of its ring buffer.
pub struct CpuStream<'f, R> {
    source: &'f R,
    shape: Shape,
    cursor: Cursor,
    slot: Slot,
    work: Work,
    /// The page that is walked, as a place in the slot.
    page: usize,
    /// An event that a flaw goes before, as a place in the page.
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
            page: 0,
            held: None,
        })
    }

    /// The CPU.
    pub fn cpu(&self) -> Cpu {
        self.cursor.cpu
    }

    /// What was delivered and what was wrong so far.
    pub fn tally(&self) -> Tally {
        self.cursor.tally
    }

    /// The next event or flaw; `None` at the end.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        let (start, end) = loop {
            if let Some(flaw) = self.cursor.take_flaw() {
                return Ok(Some(Item::Flaw(flaw)));
            }
            if let Some(held) = self.held.take() {
                break held;
            }
            let page = self.slot.bytes.get(self.page..self.page + self.shape.page_size).unwrap_or_default();
            match self.cursor.step(self.shape.big_endian, page) {
                Step::Event { start, end } if self.cursor.check_time() => break (start, end),
                Step::Event { start, end } => self.held = Some((start, end)),
                Step::Damaged { bytes } => self.cursor.flaw(FlawKind::Damaged { bytes: bytes as u64 }),
                Step::Done => {
                    match self.cursor.turn_page(self.source, &self.shape, &mut self.slot, &mut self.work)? {
                        Some(page) => self.page = page,
                        None if !self.cursor.has_flaws() => return Ok(None),
                        None => {}
                    }
                }
            }
        };
        let time = self.cursor.walk.time;
        self.cursor.pass(time);
        let data = &self.slot.bytes[self.page + start..self.page + end];
        Ok(Some(Item::Event(RawEvent { cpu: self.cursor.cpu, time, data })))
    }

    /// Gives every event and flaw that is left to `visit`: the fast way.
    pub fn for_each(&mut self, mut visit: impl FnMut(Item<'_>)) -> Result<(), TraceError> {
        // What `next_item` found but did not give yet comes first.
        while self.held.is_some() || self.cursor.has_flaws() {
            match self.next_item()? {
                Some(item) => visit(item),
                None => return Ok(()),
            }
        }
        if self.shape.big_endian { self.run::<true>(&mut visit) } else { self.run::<false>(&mut visit) }
    }

    fn run<const BIG: bool>(&mut self, visit: &mut impl FnMut(Item<'_>)) -> Result<(), TraceError> {
        let cpu = self.cursor.cpu;
        loop {
            let page = self.slot.bytes.get(self.page..self.page + self.shape.page_size).unwrap_or_default();
            // In registers for the length of the page; the cursor is brought up to date behind it.
            let mut walk = self.cursor.walk;
            let mut events = 0;
            // Before the first event every time will do.
            let mut last = self.cursor.last_time.unwrap_or(0);
            loop {
                match walk.step::<BIG>(page) {
                    Step::Event { start, end } => {
                        let time = walk.time;
                        if time < last {
                            let kind = FlawKind::Backwards { by: last - time };
                            self.cursor.tally.count(kind);
                            visit(Item::Flaw(Flaw {
                                cpu,
                                page: self.cursor.page_index,
                                after: Some(last),
                                kind,
                            }));
                        }
                        last = time;
                        events += 1;
                        visit(Item::Event(RawEvent { cpu, time, data: &page[start..end] }));
                    }
                    Step::Damaged { bytes } => {
                        self.cursor.flaw(FlawKind::Damaged { bytes: bytes as u64 });
                        break;
                    }
                    Step::Done => break,
                }
            }
            self.cursor.walk = walk;
            self.cursor.tally.events += events;
            if events > 0 {
                self.cursor.last_time = Some(last);
            }
            let turned = self.cursor.turn_page(self.source, &self.shape, &mut self.slot, &mut self.work)?;
            while let Some(flaw) = self.cursor.take_flaw() {
                visit(Item::Flaw(flaw));
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
    work: Work,
    /// The time of every lane's next event, the earliest on top; of two at once the lane that the file lists first.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// The lane whose event was delivered last, or that has flaws to tell, and so must be advanced.
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
            work: Work::default(),
            heads: BinaryHeap::new(),
            pending,
        })
    }

    /// What was delivered and what was wrong so far, per CPU.
    pub fn tallies(&self) -> Vec<(Cpu, Tally)> {
        self.lanes.iter().map(|lane| (lane.cursor.cpu, lane.cursor.tally)).collect()
    }

    /// The next event or flaw; `None` at the end.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        while let Some(&index) = self.pending.last() {
            if let Some(flaw) = self.advance(index)? {
                return Ok(Some(Item::Flaw(flaw)));
            }
            self.pending.pop();
        }
        let Some(Reverse((time, index))) = self.heads.pop() else { return Ok(None) };
        self.pending.push(index);
        let lane = &mut self.lanes[index];
        lane.waits = false;
        lane.cursor.pass(time);
        let (start, end) = lane.event;
        Ok(Some(Item::Event(RawEvent { cpu: lane.cursor.cpu, time, data: &lane.page[start..end] })))
    }

    /// Finds the next event of a lane and puts it in order, or gives a flaw that comes before it.
    fn advance(&mut self, index: usize) -> Result<Option<Flaw>, TraceError> {
        let slot_index = index % self.slots.len().max(1);
        let lane = &mut self.lanes[index];
        loop {
            if let Some(flaw) = lane.cursor.take_flaw() {
                return Ok(Some(flaw));
            }
            if lane.waits {
                return Ok(None);
            }
            match lane.cursor.step(self.shape.big_endian, &lane.page) {
                Step::Event { start, end } => {
                    lane.event = (start, end);
                    lane.waits = true;
                    lane.cursor.check_time();
                    self.heads.push(Reverse((lane.cursor.walk.time, index)));
                }
                Step::Damaged { bytes } => lane.cursor.flaw(FlawKind::Damaged { bytes: bytes as u64 }),
                Step::Done => {
                    let slot = &mut self.slots[slot_index];
                    match lane.cursor.turn_page(self.source, &self.shape, slot, &mut self.work)? {
                        Some(at) => {
                            lane.page.clear();
                            lane.page.extend_from_slice(&slot.bytes[at..at + self.shape.page_size]);
                            if slot.bytes.len() > self.room {
                                // Not a size that a recorder writes: decompressed again for each page, not kept.
                                *slot = Slot::default();
                            }
                        }
                        None if !lane.cursor.has_flaws() => {
                            // Nothing comes any more: the page may go.
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
