// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the bytes come from: a trait that is asked for ranges, and a small buffered reader over it.
//!
//! Owns every read of the crate. Never opens a file, never seeks a shared position, never allocates by a size that
//! the file claims without holding it against what the file has and against a limit.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::error::TraceError;

/// Bytes that can be read at any place: a slice, a file somebody else opened, anything else that can do it.
///
/// Reads name their offset and take `&self`, so that several threads may read one trace at once.
#[allow(clippy::len_without_is_empty)]
pub trait ReadAt {
    /// How many bytes there are.
    fn len(&self) -> io::Result<u64>;
    /// Fills `into` with the bytes from `offset` on; an error of kind `UnexpectedEof` where they end before.
    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for [u8] {
    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(into.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn len(&self) -> io::Result<u64> {
        ReadAt::len(self.as_slice())
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_exact_at(offset, into)
    }
}

impl ReadAt for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, into, offset)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn len(&self) -> io::Result<u64> {
        T::len(self)
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        T::read_exact_at(self, offset, into)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Arc<T> {
    fn len(&self) -> io::Result<u64> {
        T::len(self)
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        T::read_exact_at(self, offset, into)
    }
}

/// How much the sequential reader asks for at once.
const BLOCK: usize = 16 * 1024;

/// Numbers, texts and byte strings in the file's own order, one after the other.
pub(crate) struct Reader<S> {
    source: S,
    length: u64,
    position: u64,
    big_endian: bool,
    /// What is being read, for errors.
    part: &'static str,
    block: Vec<u8>,
    block_at: u64,
}

impl<S: ReadAt> Reader<S> {
    pub(crate) fn new(source: S, big_endian: bool, part: &'static str) -> Result<Self, TraceError> {
        let length = source.len().map_err(|source| TraceError::Read { part, offset: 0, source })?;
        Ok(Reader { source, length, position: 0, big_endian, part, block: Vec::new(), block_at: 0 })
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn seek(&mut self, position: u64) {
        self.position = position;
    }

    pub(crate) fn set_big_endian(&mut self, big_endian: bool) {
        self.big_endian = big_endian;
    }

    pub(crate) fn set_part(&mut self, part: &'static str) {
        self.part = part;
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.length.saturating_sub(self.position)
    }

    fn truncated(&self, needed: u64) -> TraceError {
        TraceError::Truncated { part: self.part, offset: self.position, needed, length: self.length }
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<(), TraceError> {
        let needed = into.len() as u64;
        if needed > self.remaining() {
            return Err(self.truncated(needed));
        }
        let failed = |part, offset| {
            move |source: io::Error| match source.kind() {
                io::ErrorKind::UnexpectedEof => {
                    TraceError::Truncated { part, offset, needed, length: offset }
                }
                _ => TraceError::Read { part, offset, source },
            }
        };
        if into.len() >= BLOCK {
            self.source.read_exact_at(self.position, into).map_err(failed(self.part, self.position))?;
        } else {
            let held = self.position.checked_sub(self.block_at).map(|start| start as usize);
            let start = match held {
                Some(start) if start + into.len() <= self.block.len() => start,
                _ => {
                    self.block_at = self.position;
                    self.block.resize(self.remaining().min(BLOCK as u64) as usize, 0);
                    if let Err(error) = self.source.read_exact_at(self.position, &mut self.block) {
                        self.block.clear();
                        return Err(failed(self.part, self.position)(error));
                    }
                    0
                }
            };
            into.copy_from_slice(&self.block[start..start + into.len()]);
        }
        self.position += needed;
        Ok(())
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], TraceError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, TraceError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, TraceError> {
        let bytes = self.array()?;
        Ok(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub(crate) fn u32(&mut self) -> Result<u32, TraceError> {
        let bytes = self.array()?;
        Ok(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub(crate) fn u64(&mut self) -> Result<u64, TraceError> {
        let bytes = self.array()?;
        Ok(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// `size` bytes, refused above `limit` and above what is left before anything is allocated for them.
    pub(crate) fn bytes(&mut self, size: u64, limit: u64) -> Result<Vec<u8>, TraceError> {
        self.check(size, limit)?;
        let mut bytes = vec![0; size as usize];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Passes over `size` bytes that must be there.
    pub(crate) fn skip(&mut self, size: u64) -> Result<(), TraceError> {
        if size > self.remaining() {
            return Err(self.truncated(size));
        }
        self.position += size;
        Ok(())
    }

    fn check(&self, size: u64, limit: u64) -> Result<(), TraceError> {
        if size > self.remaining() {
            return Err(self.truncated(size));
        }
        if size > limit {
            return Err(TraceError::TooLarge { part: self.part, offset: self.position, size, limit });
        }
        Ok(())
    }

    /// A text that ends with a zero byte, of at most `limit` bytes.
    pub(crate) fn text(&mut self, limit: usize) -> Result<String, TraceError> {
        let mut bytes = Vec::new();
        let offset = self.position;
        loop {
            match self.u8()? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                _ if bytes.len() == limit => {
                    let limit = limit as u64;
                    return Err(TraceError::TooLarge { part: self.part, offset, size: limit + 1, limit });
                }
                byte => bytes.push(byte),
            }
        }
    }

    /// Demands these bytes next.
    pub(crate) fn expect(&mut self, wanted: &'static [u8]) -> Result<(), TraceError> {
        let offset = self.position;
        let found = self.bytes(wanted.len() as u64, wanted.len() as u64)?;
        if found == wanted {
            return Ok(());
        }
        Err(TraceError::Inconsistent {
            part: self.part,
            offset,
            why: format!("\"{}\" stands where \"{}\" must", found.escape_ascii(), wanted.escape_ascii()),
        })
    }
}
