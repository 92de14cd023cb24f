// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every system call and every `unsafe` of this crate.
//!
//! Owns the raw interfaces and their safety arguments. Decides nothing: no policy, no defaults, no messages.

pub(crate) mod clock;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod sched;

use std::io;

/// Turns the return value of a libc function into a result.
fn check(value: libc::c_long) -> io::Result<libc::c_long> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
