// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts that come as they end, put in the order in which they began, for whoever takes them in that order alone.
//!
//! Owns how many NMIs wait. Keeps no other interrupt.

use super::timeline::{Interrupt, Source};

/// How many NMIs wait for the interrupt that they may have come in. A CPU that has so many without any interrupt had none
/// around the oldest.
const WAITING_NMIS: usize = 1 << 12;

/// NMIs end before an interrupt around them does: they wait for the next interrupt.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedInterrupts {
    pub(super) nmis: Vec<Interrupt>,
}

impl EndedInterrupts {
    /// Takes an interrupt that has just ended, and gives out those whose place is known now.
    pub(super) fn take(&mut self, interrupt: Interrupt, mut give: impl FnMut(Interrupt)) {
        if interrupt.source == Source::Nmi {
            self.nmis.push(interrupt);
            if self.nmis.len() > WAITING_NMIS {
                give(self.nmis.remove(0));
            }
            return;
        }
        // What began before it comes before it.
        let before = self.nmis.partition_point(|nmi| nmi.start < interrupt.start);
        self.nmis.drain(..before).for_each(&mut give);
        give(interrupt);
    }

    /// Nothing more comes: gives out what waited.
    pub(super) fn finish(&mut self, give: impl FnMut(Interrupt)) {
        std::mem::take(&mut self.nmis).into_iter().for_each(give);
    }
}
