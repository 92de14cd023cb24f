// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which raise of a softirq a run of its handler serves.
//!
//! Owns the rule of `crates/latebound-probe/src/observe/softirq.bpf.h` for events that come to user space; that header says why the rule is so. A
//! property test of `latebound-probe` holds both to each other.

use latebound_model::{Nanos, SOFTIRQ_NAMES};

const VECTORS: usize = SOFTIRQ_NAMES.len();

/// What the events of one CPU say of its softirqs.
#[derive(Clone, Debug, Default)]
pub struct SoftirqRule {
    /// When the request of the next run was made.
    request: [Nanos; VECTORS],
    /// When a claimed vector was raised again.
    again: [Nanos; VECTORS],
    // A bit for each vector:
    /// `request` holds.
    outstanding: u32,
    /// `again` holds.
    raised_again: u32,
    tentative: u32,
    poisoned: u32,
    /// Raised once more after `again`.
    doubted: u32,
    claimed: u32,
    /// The vector that ran last, plus one.
    last: u32,
}

/// What a raise is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// A request of a run.
    Request,
    /// Served by a run that was asked for before.
    Merged,
    /// It follows a request that may have been merged: nobody can say.
    Unclear,
}

/// What is known of the request of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Began {
    /// It was made then.
    Paired(Nanos),
    /// No raise was seen.
    NotRaised,
    /// A raise was seen, but which one this run serves cannot be said.
    Unclear,
}

impl SoftirqRule {
    /// A vector is raised; `None` for a number that no kernel has.
    pub fn raised(&mut self, vector: u32, at: Nanos) -> Option<Raised> {
        let place = usize::try_from(vector).ok().filter(|place| *place < VECTORS)?;
        let bit = 1 << vector;
        if self.outstanding & bit == 0 {
            self.outstanding |= bit;
            self.request[place] = at;
            return Some(Raised::Request);
        }
        if self.tentative & bit != 0 {
            self.poisoned |= bit;
        }
        if self.claimed & self.raised_again & bit != 0 {
            self.doubted |= bit;
        }
        if self.claimed & bit == 0 || self.raised_again & bit != 0 {
            return Some(if self.tentative & bit != 0 { Raised::Unclear } else { Raised::Merged });
        }
        self.raised_again |= bit;
        self.again[place] = at;
        Some(Raised::Request)
    }

    /// Settles what the batch before left over; the vectors of which a raise turned out to be merged.
    fn new_batch(&mut self) -> u32 {
        let left = self.claimed & self.outstanding;
        let dropped = left & self.tentative & !self.poisoned;
        let merged = dropped | (left & self.raised_again);
        self.raised_again &= !left;
        self.doubted &= !left;
        self.outstanding &= !dropped;
        self.tentative &= !dropped;
        self.claimed = self.outstanding;
        merged
    }

    /// A vector's handler begins: what is known of its request, and the vectors (a bit each) of which a raise turned out to be merged.
    /// `None` for a number that no kernel has.
    pub fn began(&mut self, vector: u32) -> Option<(Began, u32)> {
        let place = usize::try_from(vector).ok().filter(|place| *place < VECTORS)?;
        let bit = 1 << vector;
        let mut merged = 0;
        if self.claimed & bit == 0 || vector < self.last {
            merged = self.new_batch();
        }
        let began = if self.outstanding & bit == 0 {
            Began::NotRaised
        } else if self.poisoned & bit != 0 {
            Began::Unclear
        } else {
            Began::Paired(self.request[place])
        };
        self.poisoned &= !bit;
        self.claimed &= !bit;
        if self.raised_again & bit != 0 {
            self.request[place] = self.again[place];
            self.raised_again &= !bit;
            self.poisoned |= self.doubted & bit;
            self.doubted &= !bit;
            self.tentative |= bit;
            self.outstanding |= bit;
        } else {
            self.tentative &= !bit;
            self.outstanding &= !bit;
        }
        self.last = vector + 1;
        Some((began, merged))
    }
}
