// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound/tune.h`, as the module latebound_tune knows it. The header is the source.

#[allow(dead_code, unreachable_pub, reason = "generated whole")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/tune_wire.rs"));
}

pub use wire::{
    LB_TUNE_ABI as ABI, TuneCounts as Counts, TuneInfo as Info, TuneKind as Kind, TuneRecord as Record,
    TuneServes as Serves, TuneStart as Start, TuneThread as Thread,
};

/// The length of a table by the priority of the task that begins to wait.
pub const PRIORITIES: usize = wire::LB_TUNE_PRIORITIES as usize;

/// Commands, for `ioctl`.
pub mod command {
    use super::{Counts, Info, Serves, Start, Thread, wire};
    use crate::ioctl::Command;

    /// Fills an [`Info`].
    pub const INFO: Command<Info> = Command::new(wire::LB_TUNE_IOC_INFO);
    /// Connects, by a [`Start`].
    pub const START: Command<Start> = Command::new(wire::LB_TUNE_IOC_START);
    /// Takes a [`Thread`].
    pub const THREAD: Command<Thread> = Command::new(wire::LB_TUNE_IOC_THREAD);
    /// Takes a [`Serves`].
    pub const SERVES: Command<Serves> = Command::new(wire::LB_TUNE_IOC_SERVES);
    /// Fills a [`Counts`].
    pub const COUNTS: Command<Counts> = Command::new(wire::LB_TUNE_IOC_COUNTS);
    /// Ends all raising.
    pub const STOP: Command<()> = Command::new(wire::LB_TUNE_IOC_STOP);
}
