// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real-time measuring loops.
//!
//! [`Measurement`] wakes a thread on each chosen CPU at a fixed period and records how late it was: open loop, so
//! that a late wake-up loses no periods.
//!
//! Owns the measuring threads. Never prints, never writes a file but those of the file tasks, and leaves nothing on the
//! system changed.

mod echo;
mod error;
mod measurement;
mod permission;
pub mod privileges;
mod recorder;
mod ring;
mod tally;
mod tasks;
mod wakeup;

pub use error::MeasureError;
pub use measurement::{
    LockedMemory, MeasureOptions, Measured, Measurement, SHORTEST_PERIOD, hold_dma_latency,
};
pub use tasks::{Durability, FileTask, ParseTaskError, TaskKind, run_tasks};
