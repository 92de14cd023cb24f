// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inside of one page of the kernel's ring buffer: a walk over its entries.
//!
//! Owns the entry format (include/linux/ring_buffer.h, kernel/trace/ring_buffer.c, unchanged in what is read here from
//! 5.15 to 6.18). Pure: takes a page, gives places in it. Whatever stands in the page, no walk leaves it and every
//! step goes forward.

use crate::format::PageLayout;

/// `RINGBUF_TYPE_PADDING`, `_TIME_EXTEND`, `_TIME_STAMP` (include/linux/ring_buffer.h); below them the length in words.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of the delta in an entry's first word; a time extend carries the bits above them (`TS_SHIFT`).
const DELTA_BITS: u32 = 27;
const DELTA_MASK: u32 = (1 << DELTA_BITS) - 1;
/// The bits that an absolute stamp has no room for (`TS_MSB`, `rb_fix_abs_ts`).
const STAMP_TOP: u64 = 0xf8 << 56;

/// Bits that `ring_buffer_read_page` sets in the commit word (`RB_MISSED_EVENTS`, `RB_MISSED_STORED`).
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
/// The smallest entry (`RB_EVNT_MIN_SIZE`): an end that says nothing of its length has no more room than that.
const SMALLEST_ENTRY: usize = 8;
/// What remains is a count of bytes in the page.
const COMMIT_MASK: u64 = (1 << 27) - 1;

/// The byte order of the traced machine, known at compile time in the walk.
pub(crate) fn word<const BIG: bool>(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(if BIG { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
}

fn long(bytes: &[u8], at: usize, size: usize, big_endian: bool) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    Some(if big_endian { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) })
}

/// What the head of a page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHead {
    /// The time from which the first entry counts.
    pub(crate) time: u64,
    /// Where the first entry begins.
    pub(crate) start: usize,
    /// Where the last entry ends.
    pub(crate) end: usize,
    /// The kernel overwrote entries before this page; the inner value is how many, if it had room to say.
    pub(crate) missed: Option<Option<u64>>,
    /// The page claims more bytes than it has: so many more.
    pub(crate) excess: u64,
    /// The page claims to hold nothing.
    pub(crate) is_empty: bool,
}

impl PageHead {
    /// Reads the head; `None` for a page too short to have one.
    pub(crate) fn read(page: &[u8], layout: PageLayout, big_endian: bool) -> Option<PageHead> {
        let time = long(page, 0, 8, big_endian)?;
        let commit = long(page, 8, layout.commit_size, big_endian)?;
        let room = page.len().checked_sub(layout.data_offset)?;
        let used = (commit & COMMIT_MASK) as usize;
        let missed = (commit & MISSED != 0).then(|| {
            let stored = commit & MISSED_STORED != 0;
            stored.then(|| long(page, layout.data_offset + used, layout.commit_size, big_endian)).flatten()
        });
        Some(PageHead {
            time,
            start: layout.data_offset,
            end: layout.data_offset + used.min(room),
            missed,
            excess: used.saturating_sub(room) as u64,
            is_empty: used == 0,
        })
    }
}

/// Where a walk stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    /// The next entry.
    pub(crate) position: usize,
    /// The end of the last one.
    pub(crate) end: usize,
    /// The time of the entry before.
    pub(crate) time: u64,
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An event's record, from `start` to `end`; its time is the walk's.
    Event { start: usize, end: usize },
    /// The page holds no more.
    Done,
    /// What stands here is no entry; so many bytes were not read.
    Damaged { bytes: usize },
}

impl Walk {
    pub(crate) fn new(head: &PageHead) -> Walk {
        Walk { position: head.start, end: head.end, time: head.time }
    }

    /// The next event. After `Done` or `Damaged` it stays at `Done`.
    #[inline(always)]
    pub(crate) fn step<const BIG: bool>(&mut self, page: &[u8]) -> Step {
        // Bound once, so that the reads below need no second check in the common case.
        let page = &page[..self.end.min(page.len())];
        loop {
            let at = self.position;
            let Some(head) = word::<BIG>(page, at) else {
                return self.stop(page.len());
            };
            let (kind, delta) = if BIG {
                (head >> DELTA_BITS, head & DELTA_MASK)
            } else {
                (head & 31, head >> (32 - DELTA_BITS))
            };
            if (1..PADDING).contains(&kind) {
                let end = at + 4 + kind as usize * 4;
                if end > page.len() {
                    return self.stop(page.len());
                }
                self.time = self.time.wrapping_add(u64::from(delta));
                self.position = end;
                return Step::Event { start: at + 4, end };
            }
            if let Some(step) = self.special::<BIG>(page, kind, delta) {
                return step;
            }
        }
    }

    /// Everything that is not a short record. `None`: go on with the next entry.
    fn special<const BIG: bool>(&mut self, page: &[u8], kind: u32, delta: u32) -> Option<Step> {
        let at = self.position;
        if kind == PADDING && delta == 0 {
            // rb_event_set_padding: nothing follows on this page. rb_reset_tail writes it only where no entry fits.
            if page.len() - at > SMALLEST_ENTRY {
                return Some(self.stop(page.len()));
            }
            self.position = self.end;
            return Some(Step::Done);
        }
        let Some(array0) = word::<BIG>(page, at + 4) else {
            return Some(self.stop(page.len()));
        };
        let extended = u64::from(array0) << DELTA_BITS | u64::from(delta);
        match kind {
            TIME_EXTEND => {
                self.time = self.time.wrapping_add(extended);
                self.position = at + 8;
            }
            TIME_STAMP => {
                let mut stamp = extended & !STAMP_TOP | self.time & STAMP_TOP;
                if self.time & STAMP_TOP != 0 && stamp < self.time {
                    stamp = stamp.wrapping_add(1 << 59);
                }
                self.time = stamp;
                self.position = at + 8;
            }
            PADDING => {
                // A discarded event, or the rest of a page: the length counts from the end of the first word. A
                // delta of 1 stands for 0, so that it is no null event (rb_event_discard, and check_buffer's reading).
                let next = align4(at + 4 + array0 as usize);
                if array0 < 4 || next > page.len() {
                    return Some(self.stop(page.len()));
                }
                if delta != 1 {
                    self.time = self.time.wrapping_add(u64::from(delta));
                }
                self.position = next;
            }
            _ => {
                // Kind 0, a long record: the length counts from the end of the first word too, itself included.
                let end = at + 4 + array0 as usize;
                if array0 < 4 || end > page.len() {
                    return Some(self.stop(page.len()));
                }
                self.time = self.time.wrapping_add(u64::from(delta));
                self.position = align4(end).min(page.len());
                return Some(Step::Event { start: at + 8, end });
            }
        }
        None
    }

    #[cold]
    fn stop(&mut self, length: usize) -> Step {
        let bytes = length.saturating_sub(self.position);
        self.position = self.end;
        if bytes == 0 { Step::Done } else { Step::Damaged { bytes } }
    }
}

fn align4(value: usize) -> usize {
    value.saturating_add(3) & !3
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout = PageLayout { commit_size: 8, data_offset: 16 };

    fn entry(kind: u32, delta: u32) -> [u8; 4] {
        (delta << 5 | kind).to_le_bytes()
    }

    fn page(time: u64, commit: u64, entries: &[u8]) -> Vec<u8> {
        let mut page = [&time.to_le_bytes()[..], &commit.to_le_bytes(), entries].concat();
        page.resize(256, 0);
        page
    }

    /// Times and lengths of all events, and the damaged bytes.
    fn walk(page: &[u8]) -> (Vec<(u64, usize)>, usize) {
        let mut walk = Walk::new(&PageHead::read(page, LAYOUT, false).unwrap());
        let mut events = Vec::new();
        loop {
            match walk.step::<false>(page) {
                Step::Event { start, end } => events.push((walk.time, end - start)),
                Step::Done => return (events, 0),
                Step::Damaged { bytes } => return (events, bytes),
            }
        }
    }

    #[test]
    fn every_kind_of_entry_moves_the_time_as_the_kernel_means_it() {
        let mut entries = Vec::new();
        entries.extend([entry(2, 10), [1; 4], [1; 4]].concat());
        entries.extend([entry(TIME_EXTEND, 3), 2u32.to_le_bytes()].concat());
        entries.extend([entry(1, 5), [1; 4]].concat());
        entries.extend([entry(PADDING, 1), 8u32.to_le_bytes(), [0; 4]].concat());
        entries.extend([entry(PADDING, 7), 4u32.to_le_bytes()].concat());
        entries.extend([entry(0, 1), 10u32.to_le_bytes(), [1; 4], [1, 1, 0, 0]].concat());
        entries.extend([entry(TIME_STAMP, 9), 1000u32.to_le_bytes()].concat());
        entries.extend([entry(1, 0), [1; 4]].concat());
        let used = entries.len() as u64;
        let extended = 1010 + (2 << 27) + 3 + 5;
        let stamp = (1000 << 27) + 9;
        assert_eq!(
            walk(&page(1000, used, &entries)),
            (vec![(1010, 8), (extended, 4), (extended + 8, 6), (stamp, 4)], 0)
        );
    }

    #[test]
    fn an_absolute_stamp_keeps_the_top_bits_that_it_has_no_room_for() {
        let entries = [entry(TIME_STAMP, 9), 0u32.to_le_bytes(), entry(1, 0), [1; 4]].concat();
        let base = (1u64 << 59) + 100;
        let (events, _) = walk(&page(base, 16, &entries));
        assert_eq!(
            events,
            [((1u64 << 59) + 9 + (1 << 59), 4)],
            "below the time before: the low part wrapped"
        );
    }

    #[test]
    fn a_null_event_ends_a_page_where_no_entry_fits_and_is_damage_elsewhere() {
        let entries = [entry(1, 1), [1; 4], entry(PADDING, 0), [9; 4], entry(1, 1), [1; 4]].concat();
        assert_eq!(walk(&page(0, 16, &entries)), (vec![(1, 4)], 0));
        assert_eq!(walk(&page(0, 24, &entries)), (vec![(1, 4)], 16), "an entry behind it is passed over");
    }

    #[test]
    fn an_entry_that_leaves_the_page_is_damage_of_a_known_size() {
        for (broken, bytes) in [
            ([entry(28, 1), [1; 4]].concat(), 8),
            ([entry(0, 1), 400u32.to_le_bytes()].concat(), 8),
            ([entry(0, 1), 3u32.to_le_bytes()].concat(), 8),
            ([entry(PADDING, 5), u32::MAX.to_le_bytes()].concat(), 8),
            (entry(TIME_EXTEND, 5).to_vec(), 4),
            (vec![1, 2], 2),
        ] {
            let entries = [&entry(1, 1)[..], &[1; 4], &broken].concat();
            assert_eq!(walk(&page(0, entries.len() as u64, &entries)), (vec![(1, 4)], bytes), "{broken:?}");
        }
    }

    #[test]
    fn the_head_tells_of_overwritten_entries_and_of_claims_beyond_the_page() {
        let head = |commit, entries: &[u8]| PageHead::read(&page(7, commit, entries), LAYOUT, false).unwrap();
        assert_eq!(head(0, &[]).missed, None);
        assert_eq!(head(MISSED | 8, &[]).missed, Some(None));
        let stored = head(MISSED | MISSED_STORED | 8, &[[0; 8], 97u64.to_le_bytes()].concat());
        assert_eq!((stored.missed, stored.end), (Some(Some(97)), 24));
        assert_eq!((head(300, &[]).excess, head(300, &[]).end), (60, 256));
        assert_eq!(PageHead::read(&[0; 15], LAYOUT, false), None);
        assert_eq!(
            (head(0, &[]).is_empty, head(MISSED, &[]).is_empty, head(8, &[]).is_empty),
            (true, true, false)
        );
    }
}
