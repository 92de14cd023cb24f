// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of one CPU in the parts that are held as a whole: blocks of plain pages, or compressed chunks.
//!
//! Owns where such a part lies in the file, and bringing it into memory; never looks into a page, and never counts a discontinuity.

use crate::dat::head::CpuData;
use crate::dat::inflate::Inflater;
use crate::dat::shape::Shape;
use crate::error::TraceError;
use crate::source::ReadAt;

/// How much of plain pages is read at once.
pub(super) const BLOCK: usize = 64 * 1024;

const PART: &str = "the pages of a CPU";

/// A part of a CPU's data that is held as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Where its bytes are in the file.
    offset: u64,
    /// How many they are there.
    stored: usize,
    /// How many they are to be.
    pub(super) size: usize,
}

/// Room for chunks.
#[derive(Default)]
pub(super) struct Slot {
    /// Which chunk it holds.
    chunk: Option<Chunk>,
    /// Where that begins among the bytes.
    pub(super) start: usize,
    pub(super) bytes: Vec<u8>,
}

impl Slot {
    /// Notes that the bytes from `start` on are those of a chunk.
    pub(super) fn hold(&mut self, chunk: Chunk, start: usize) {
        (self.chunk, self.start) = (Some(chunk), start);
    }

    /// Takes the bytes away.
    pub(super) fn clear(&mut self) -> Vec<u8> {
        std::mem::take(self).bytes
    }
}

/// Working memory for reading chunks.
#[derive(Default)]
pub(super) struct Work {
    inflater: Inflater,
    input: Vec<u8>,
}

/// Makes `buffer` hold at least `size` bytes; new room comes zeroed from the system and is not touched here.
fn grow(buffer: &mut Vec<u8>, size: usize) {
    if buffer.len() < size {
        *buffer = vec![0; size];
    }
}

fn read<R: ReadAt>(source: &R, offset: u64, into: &mut [u8]) -> Result<(), TraceError> {
    source.read_exact_at(offset, into).map_err(|source| TraceError::Read { part: PART, offset, source })
}

/// What comes next in a CPU's data.
pub(super) enum NextChunk {
    /// A chunk.
    Chunk(Chunk),
    /// So many bytes in which no chunk can be found any more.
    Lost(u64),
    /// The end.
    End,
}

/// The place reached in one CPU's data.
#[derive(Clone, Copy)]
pub(super) struct Finder {
    /// The next byte that was not looked at, and the end.
    at: u64,
    end: u64,
    /// Chunks that the count at the beginning still promises.
    chunks_left: u32,
    /// The header of the next chunk, read together with the chunk before.
    ahead: Option<[u8; 8]>,
    ended: bool,
}

impl Finder {
    /// Begins, and says how many bytes the file does not have.
    pub(super) fn new<R: ReadAt>(
        source: &R,
        shape: &Shape,
        data: &CpuData,
    ) -> Result<(Finder, u64), TraceError> {
        let length =
            source.len().map_err(|source| TraceError::Read { part: PART, offset: data.offset, source })?;
        // trace-cmd 3.1.6 does not count the 32-bit number of chunks among the bytes that it names.
        let count = if shape.chunks.is_some() && data.size > 0 { 4 } else { 0 };
        let promised = data.offset.saturating_add(data.size).saturating_add(count);
        let mut finder = Finder {
            at: data.offset,
            end: promised.min(length),
            chunks_left: 0,
            ahead: None,
            ended: data.size == 0,
        };
        if finder.ended {
            return Ok((finder, 0));
        }
        let missing = if data.offset >= length { data.size } else { promised.saturating_sub(length) };
        if shape.chunks.is_some() {
            match finder.left() {
                4.. => {
                    let mut count = [0; 4];
                    read(source, finder.at, &mut count)?;
                    finder.chunks_left =
                        if shape.big_endian { u32::from_be_bytes(count) } else { u32::from_le_bytes(count) };
                    finder.at += 4;
                }
                _ => finder.ended = true,
            }
        }
        Ok((finder, missing))
    }

    fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// Finds the next chunk.
    pub(super) fn find<R: ReadAt>(&mut self, source: &R, shape: &Shape) -> Result<NextChunk, TraceError> {
        if self.ended {
            return Ok(NextChunk::End);
        }
        let Some(compression) = shape.chunks else {
            let pages = (BLOCK / shape.page_size).max(1) * shape.page_size;
            let size = (pages as u64).min(self.left()) as usize;
            let chunk = Chunk { offset: self.at, stored: size, size };
            self.at += size as u64;
            self.ended = size == 0;
            return Ok(if self.ended { NextChunk::End } else { NextChunk::Chunk(chunk) });
        };
        if self.chunks_left == 0 {
            self.ended = true;
            return Ok(NextChunk::End);
        }
        let header = match self.ahead.take() {
            Some(header) => header,
            None if self.left() >= 8 => {
                let mut header = [0; 8];
                read(source, self.at, &mut header)?;
                header
            }
            None => return Ok(self.give_up()),
        };
        let number = |bytes: &[u8]| match *bytes {
            [a, b, c, d] if shape.big_endian => u32::from_be_bytes([a, b, c, d]) as usize,
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => 0,
        };
        let (stored, size) = (number(&header[..4]), number(&header[4..]));
        // What does not compress grows a little.
        let limit = shape.chunk_limit();
        let impossible = stored as u64 > self.left() - 8 || size as u64 > compression.most(stored as u64);
        if impossible || size > limit || stored > limit + limit / 2 || stored == 0 {
            return Ok(self.give_up());
        }
        let chunk = Chunk { offset: self.at + 8, stored, size };
        self.at += 8 + stored as u64;
        self.chunks_left -= 1;
        Ok(NextChunk::Chunk(chunk))
    }

    /// The rest of the data cannot be found any more.
    fn give_up(&mut self) -> NextChunk {
        self.ended = true;
        NextChunk::Lost(self.left())
    }

    /// Makes `slot` hold a chunk, the last that was found; `false` where it does not decompress.
    pub(super) fn load<R: ReadAt>(
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
        let is_whole = self.bring(source, shape, &mut slot.bytes[..chunk.size], work, chunk)?;
        if is_whole {
            slot.hold(chunk, 0);
        }
        Ok(is_whole)
    }

    /// Brings the content of a chunk, the last that was found; `false` where it does not decompress.
    pub(super) fn bring<R: ReadAt>(
        &mut self,
        source: &R,
        shape: &Shape,
        into: &mut [u8],
        work: &mut Work,
        chunk: Chunk,
    ) -> Result<bool, TraceError> {
        let Some(compression) = shape.chunks else {
            read(source, chunk.offset, into)?;
            return Ok(true);
        };
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
        Ok(work.inflater.inflate(compression, stored, into) == Ok(chunk.size))
    }
}
