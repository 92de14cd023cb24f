// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real-time measuring loops, and loads to measure beside.
//!
//! [`Measurement`] wakes a thread on each chosen CPU at a fixed period and records how late it was: open loop, so
//! that a late wake-up loses no periods. [`LoadProcess`] keeps the machine busy meanwhile, from a process of its own.
//!
//! Owns threads, clocks and load processes. Never prints, never writes a file but a load's unnamed scratch file, and
//! leaves nothing on the system changed.

mod echo;
mod error;
mod load;
mod measurement;
mod permission;
pub mod privileges;
mod recorder;
mod ring;
mod sys;
mod tally;
mod tasks;
mod wakeup;

pub use error::MeasureError;
pub use load::{LoadDone, LoadError, LoadProcess, LoadSpec, NetMode, NetPath, ParseLoadError, load_main};
pub use measurement::{MeasureOptions, Measured, Measurement, SHORTEST_PERIOD, hold_dma_latency};
pub use tasks::{FileTask, ParseTaskError, TaskKind, run_tasks};
