// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running kernel's own trace buffers (tracefs), where no BPF program can be loaded.
//!
//! Owns an instance of its own: a name that nobody can guess, its buffers, its events, the pages that it gives, what it lost, and its
//! removal. Also reads beside it what events have as numbers only: threads, symbols, disks, clocks. Never touches the buffer of others,
//! and never says what an event means.

mod error;
mod instance;
mod names;
mod place;

pub use error::TracefsError;
pub use instance::{FullPages, Instance, InstanceOptions, Page};
pub use names::{KernelNames, Thread, ThreadFlags, clock_offsets, thread, threads};
pub use place::{Tracefs, remove_stale};
