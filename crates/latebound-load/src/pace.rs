// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the operations of a load with a rate are due.

use latebound_model::Nanos;

/// When a sender's messages are due: sender `index` of `senders` sends every `senders`-th message.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) start: Nanos,
    pub(crate) index: u64,
    pub(crate) senders: u64,
    pub(crate) rate: u64,
}

impl Pace {
    /// When its message of this number is due, counted from 0.
    pub(crate) fn due(&self, message: u64) -> Nanos {
        let nth = u128::from(message) * u128::from(self.senders) + u128::from(self.index);
        self.start + Nanos((nth * 1_000_000_000 / u128::from(self.rate)) as u64)
    }
}
