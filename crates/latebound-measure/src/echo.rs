// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pseudo terminal whose two ends one task holds: what it writes into one end the kernel hands to the other by a work item
//! (drivers/tty/tty_buffer.c, tty_flip_buffer_push, 6.12: `system_unbound_wq`), so that whoever waits for it waits for a worker. A serial
//! port hands its bytes on the same way. Owns the two ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

/// Both ends.
#[derive(Debug)]
pub(crate) struct Echo {
    near: File,
    far: File,
}

impl Echo {
    /// A new pair that hands bytes on as they are.
    pub(crate) fn open() -> io::Result<Echo> {
        // SAFETY: zero bytes are a termios, of which cfmakeraw changes what it has to; openpty takes the rest as it is.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        settings.c_cflag = libc::CREAD;
        // SAFETY: the pointer is to a live termios.
        unsafe { libc::cfmakeraw(&raw mut settings) };
        let (mut far, mut near) = (-1, -1);
        let null = std::ptr::null_mut();
        // SAFETY: the pointers are to live integers and a live termios; the others may be null (openpty(3)).
        if unsafe { libc::openpty(&raw mut far, &raw mut near, null, &raw const settings, std::ptr::null()) }
            != 0
        {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both are new and nobody else's.
        Ok(unsafe { Echo { near: File::from_raw_fd(near), far: File::from_raw_fd(far) } })
    }

    /// Sends the bytes and waits until they have come back.
    pub(crate) fn exchange(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.near.write_all(bytes)?;
        self.far.read_exact(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        let mut echo = Echo::open().unwrap();
        let mut bytes = *b"\x00\x03\n\x7f\xff";
        echo.exchange(&mut bytes).unwrap();
        assert_eq!(&bytes, b"\x00\x03\n\x7f\xff");
    }
}
