// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls that measuring threads and loads make: the clock, scheduling, memory, processes, restartable sequences.
//!
//! Owns the raw interfaces and their safety arguments. Decides nothing: no policy, no defaults, no messages.

pub mod clock;
pub mod memory;
pub mod process;
pub mod rseq;
pub mod sched;

use std::io;

/// Turns the return value of a libc function into a result.
fn check(value: libc::c_long) -> io::Result<libc::c_long> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
