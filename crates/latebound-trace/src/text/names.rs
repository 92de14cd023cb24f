// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions and vectors that a text names, and the addresses that are made up for the functions.

use std::collections::BTreeMap;

use crate::record::VectorId;
use crate::symbols::{Symbols, TextOffset, hex};

/// Made-up addresses: `_stext`, and the room that each function has.
const TEXT_START: u64 = 1 << 40;
const FUNCTION_ROOM: i32 = 1 << 16;

/// Functions and vectors by name, each with its place among its like.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) functions: BTreeMap<String, i32>,
    pub(super) vectors: Vec<String>,
}

impl Names {
    /// The made-up offset of `vfs_write+0x103/0x2f0 [module]`; 0, which is `_stext`, for a name without one.
    pub(super) fn offset(&self, place: &str) -> TextOffset {
        let (name, offset) = function(place);
        let Some(index) = self.functions.get(name) else { return TextOffset(0) };
        let offset = i32::try_from(offset).unwrap_or(i32::MAX).min(FUNCTION_ROOM - 1);
        TextOffset((index + 1) * FUNCTION_ROOM + offset)
    }

    pub(super) fn address(&self, place: &str) -> u64 {
        TEXT_START.wrapping_add_signed(i64::from(self.offset(place).0))
    }

    pub(super) fn vector(&self, name: &str) -> VectorId {
        let at = self.vectors.binary_search_by(|vector| vector.as_str().cmp(name)).ok();
        VectorId(at.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX))
    }

    /// The functions at their addresses, `_stext` before them all.
    pub(super) fn symbols(&self) -> Symbols {
        use std::fmt::Write;
        let mut text = format!("{TEXT_START:016x} T _stext\n");
        for (name, index) in &self.functions {
            let address = TEXT_START.wrapping_add_signed(i64::from((index + 1) * FUNCTION_ROOM));
            // Writing to a string does not fail.
            let _ = writeln!(text, "{address:016x} t {name}");
        }
        Symbols::parse(text.into_bytes())
    }
}

/// `vfs_write+0x103/0x2f0 [module]` -> `vfs_write`, 0x103.
pub(super) fn function(place: &str) -> (&str, u64) {
    let place = place.split_whitespace().next().unwrap_or_default();
    let (place, _) = place.split_once('/').unwrap_or((place, ""));
    match place.split_once('+') {
        Some((name, offset)) => (name, pointer(offset).unwrap_or(0)),
        None => (place, 0),
    }
}

pub(super) fn pointer(text: &str) -> Option<u64> {
    hex(text.strip_prefix("0x").unwrap_or(text).as_bytes())
}
