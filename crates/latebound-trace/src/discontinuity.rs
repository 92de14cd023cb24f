// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong inside a trace that can be read: each place is reported where it is met, and counted per CPU.

use latebound_model::{Cpu, Loss, LossKind};

/// What is wrong at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiscontinuityKind {
    /// The kernel overwrote events, or had no room for them, before this place; how many, where it could say.
    Overwritten {
        /// How many.
        events: Option<u64>,
    },
    /// So many bytes of the trace make no sense and were passed over.
    Damaged {
        /// How many.
        bytes: u64,
    },
    /// So many bytes that the trace's own tables promise are not in the file.
    CutOff {
        /// How many.
        bytes: u64,
    },
    /// The clock ran backwards by so much.
    Backwards {
        /// By how much, in the clock's unit.
        by: u64,
    },
    /// A page of the ring buffer holds no event. The kernel gives a reader no such page (`ring_buffer_read_page`,
    /// kernel/trace/ring_buffer.c, 5.15 to 6.18): its content is gone.
    EmptyPage,
    /// The trace counts so many events more than it holds; where they were, nothing says.
    Missing {
        /// How many.
        events: u64,
    },
}

/// A place where the stream of one CPU is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discontinuity {
    /// The CPU.
    pub cpu: Cpu,
    /// The page of that CPU, counted from 0; the line of a text.
    pub page: u64,
    /// The time of the last event before it, as the clock gave it.
    pub after: Option<u64>,
    /// What is wrong.
    pub kind: DiscontinuityKind,
}

/// Events and discontinuities of one CPU, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events delivered.
    pub events: u64,
    /// Events that the kernel overwrote, where it said how many.
    pub overwritten: u64,
    /// Places with overwritten events where it did not.
    pub overwritten_places: u64,
    /// Bytes that make no sense.
    pub damaged_bytes: u64,
    /// Bytes that the file does not have.
    pub cut_off_bytes: u64,
    /// How often the clock ran backwards.
    pub backwards: u64,
    /// Pages without an event.
    pub empty_pages: u64,
    /// Events that the trace counts and does not hold.
    pub missing: u64,
}

impl Tally {
    /// Counts one discontinuity.
    pub fn count(&mut self, kind: DiscontinuityKind) {
        let (counter, by) = match kind {
            DiscontinuityKind::Overwritten { events: Some(events) } => (&mut self.overwritten, events),
            DiscontinuityKind::Overwritten { events: None } => (&mut self.overwritten_places, 1),
            DiscontinuityKind::Damaged { bytes } => (&mut self.damaged_bytes, bytes),
            DiscontinuityKind::CutOff { bytes } => (&mut self.cut_off_bytes, bytes),
            DiscontinuityKind::Backwards { .. } => (&mut self.backwards, 1),
            DiscontinuityKind::EmptyPage => (&mut self.empty_pages, 1),
            DiscontinuityKind::Missing { events } => (&mut self.missing, events),
        };
        *counter = counter.saturating_add(by);
    }

    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        *self == Tally { events: self.events, ..Tally::default() }
    }

    /// The discontinuities as the losses that a Run keeps.
    pub fn losses(&self, place: &str) -> Vec<Loss> {
        let overwritten = match (self.overwritten, self.overwritten_places) {
            (events, 0) => Some(events),
            _ => None,
        };
        let lost = |kind, place: String, count: Option<u64>| {
            (count != Some(0)).then_some(Loss { kind, place, count })
        };
        let unreadable = self.damaged_bytes.saturating_add(self.cut_off_bytes);
        [
            lost(LossKind::Overwritten, place.to_owned(), overwritten),
            lost(
                LossKind::Overwritten,
                format!("{place}, {unreadable} unreadable bytes"),
                if unreadable == 0 { Some(0) } else { None },
            ),
            lost(
                LossKind::Overwritten,
                format!("{place}, {} empty pages", self.empty_pages),
                if self.empty_pages == 0 { Some(0) } else { None },
            ),
            lost(LossKind::Overwritten, format!("{place}, counted and not there"), Some(self.missing)),
            lost(LossKind::NegativeDelta, place.to_owned(), Some(self.backwards)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
