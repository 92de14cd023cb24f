// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page of memory that is given back and touched again, which is a page fault each time.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use latebound_probe::DeferOverflow;
use memmap2::{MmapMut, MmapRaw, UncheckedAdvice};

/// The page.
#[derive(Debug)]
pub(super) struct Page(MmapRaw);

impl Page {
    pub(super) fn map() -> io::Result<Page> {
        // Mappings are of whole pages.
        MmapMut::map_anon(1).map(|page| Page(page.into()))
    }

    /// What a fault of it is known by.
    pub(super) fn mark(&self) -> u32 {
        DeferOverflow::mark(self.0.as_ptr() as usize)
    }

    /// One page fault.
    pub(super) fn fault(&self) -> io::Result<()> {
        // SAFETY: nothing refers to what is in the page, and a private mapping reads as zeroes afterwards.
        unsafe { self.0.unchecked_advise(UncheckedAdvice::DontNeed)? };
        // SAFETY: in a live mapping that may be written; volatile, since it is the access that counts.
        unsafe { self.0.as_mut_ptr().write_volatile(1) };
        Ok(())
    }
}

/// Sleeps until the event has overflowed or the bell is rung; after the end of the event's thread until the bell is.
pub(super) fn poll(event: BorrowedFd<'_>, bell: &OwnedFd) -> io::Result<()> {
    let watched = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut both = [watched(bell.as_raw_fd()), watched(event.as_raw_fd())];
    loop {
        // SAFETY: two live structures for the kernel to read and write.
        if unsafe { libc::poll(both.as_mut_ptr(), both.len() as libc::nfds_t, -1) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if both[0].revents != 0 || both[1].revents & libc::POLLIN != 0 {
            return Ok(());
        }
        // Hung up: it would answer at once, for ever. A negative descriptor is passed over.
        both[1].fd = -1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_syscall::memory::minor_faults;

    #[test]
    fn each_touch_is_a_page_fault() {
        let page = Page::map().unwrap();
        page.fault().unwrap();
        let before = minor_faults();
        for _ in 0..1_009 {
            page.fault().unwrap();
        }
        let faults = minor_faults() - before;
        // Whatever else the thread touches for the first time is a fault too.
        assert!((1_009..1_020).contains(&faults), "{faults}");
    }
}
