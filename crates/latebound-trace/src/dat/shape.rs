// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all CPUs of one buffer have in common. Owns the size of pages and of what holds them.

use crate::dat::head::Buffer;
use crate::dat::inflate::Compression;
use crate::format::PageLayout;

/// How the pages of one buffer lie in the file, whatever the CPU.
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
    pub(super) fn chunk_limit(&self) -> usize {
        (self.page_size * 64).clamp(1 << 20, 32 << 20)
    }
}
