// SPDX-License-Identifier: MIT OR Apache-2.0
//! The eventfds on which threads wait. Owns the write that wakes them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Adds one to an eventfd.
pub(super) fn signal(event: &OwnedFd) -> io::Result<()> {
    let one = 1u64.to_ne_bytes();
    // SAFETY: the kernel reads eight bytes of a live buffer.
    match unsafe { libc::write(event.as_raw_fd(), one.as_ptr().cast(), one.len()) } {
        8 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
