// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events in the pages of one CPU, whichever way the pages come: from a file, or from the kernel as they are filled.
//!
//! Owns what lies between events: the heads of pages, times that run backwards, and the discontinuities that were not told yet. Never
//! holds a page.

use latebound_model::Cpu;

use crate::dat::page::{PageHead, Step, Walk};
use crate::discontinuity::{Discontinuity, DiscontinuityKind, Tally};
use crate::format::PageLayout;

/// The place reached in one CPU's events.
pub(super) struct Track {
    pub(super) cpu: Cpu,
    pub(super) page_index: u64,
    pub(super) walk: Walk,
    pub(super) last_time: Option<u64>,
    pub(super) tally: Tally,
    /// Discontinuities not yet told: a page brings four at most.
    discontinuities: [Option<DiscontinuityKind>; 5],
    /// How many of them there are: it is asked at each event.
    untold: u8,
}

impl Track {
    pub(super) fn new(cpu: Cpu) -> Track {
        Track {
            cpu,
            page_index: 0,
            walk: Walk::default(),
            last_time: None,
            tally: Tally::default(),
            discontinuities: [None; 5],
            untold: 0,
        }
    }

    pub(super) fn discontinuity(&mut self, kind: DiscontinuityKind) {
        self.tally.count(kind);
        if let Some(place) = self.discontinuities.iter_mut().find(|place| place.is_none()) {
            *place = Some(kind);
            self.untold += 1;
        } else if let (
            Some(Some(DiscontinuityKind::Damaged { bytes })),
            DiscontinuityKind::Damaged { bytes: more },
        ) = (self.discontinuities.last_mut(), kind)
        {
            // A run of broken chunks is reported as one.
            *bytes = bytes.saturating_add(more);
        }
    }

    pub(super) fn take_discontinuity(&mut self) -> Option<Discontinuity> {
        let kind = self.discontinuities.iter_mut().find_map(Option::take)?;
        self.untold -= 1;
        Some(Discontinuity { cpu: self.cpu, page: self.page_index, after: self.last_time, kind })
    }

    #[inline(always)]
    pub(super) fn has_discontinuities(&self) -> bool {
        self.untold > 0
    }

    /// Begins a page; `false` where it is none, which is noted.
    pub(super) fn begin_page(&mut self, page: &[u8], layout: PageLayout, big_endian: bool) -> bool {
        let Some(head) = PageHead::read(page, layout, big_endian) else {
            self.discontinuity(DiscontinuityKind::Damaged { bytes: page.len() as u64 });
            return false;
        };
        if head.excess > 0 {
            self.discontinuity(DiscontinuityKind::Damaged { bytes: head.excess });
        }
        if let Some(events) = head.missed {
            self.discontinuity(DiscontinuityKind::Overwritten { events });
        }
        if head.is_empty {
            self.discontinuity(DiscontinuityKind::EmptyPage);
        }
        self.page_index += 1;
        self.walk = Walk::new(&head);
        true
    }

    /// Looks at the time of the event just found: a discontinuity, told before it, where it is before the last one's.
    pub(super) fn check_time(&mut self) -> bool {
        match self.last_time {
            Some(last) if self.walk.time < last => {
                self.discontinuity(DiscontinuityKind::Backwards { by: last - self.walk.time });
                false
            }
            _ => true,
        }
    }

    /// Notes that an event was delivered.
    pub(super) fn pass(&mut self, time: u64) {
        self.last_time = Some(time);
        self.tally.events += 1;
    }

    #[inline(always)]
    pub(super) fn step(&mut self, big_endian: bool, page: &[u8]) -> Step {
        if big_endian { self.walk.step::<true>(page) } else { self.walk.step::<false>(page) }
    }
}
