// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that must not fault, and mappings for loads.

use std::io;

use crate::check;

/// Locks what is mapped now, and what will be mapped later once it is touched.
///
/// `MCL_ONFAULT` on the second call only: everything that exists is faulted in and stays, while later mappings
/// (stacks of other threads, buffers of a report) are not populated in advance. mm/mlock.c,
/// apply_mlockall_flags(): without `MCL_CURRENT` only the default of later mappings changes (4.4 to 6.18).
pub fn lock_all() -> io::Result<()> {
    // SAFETY: mlockall takes flags only and changes no contents.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT) }.into())?;
    // SAFETY: as above.
    check(unsafe { libc::mlockall(libc::MCL_FUTURE | libc::MCL_ONFAULT) }.into()).map(drop)
}

/// Locks what is and will be mapped, once it is touched: nothing is read that nobody needs.
pub fn lock_touched() -> io::Result<()> {
    // SAFETY: mlockall takes flags only and changes no contents.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) }.into())
        .map(drop)
}

/// Undoes [`lock_all`] and [`lock_touched`].
pub fn unlock_all() {
    // SAFETY: munlockall takes nothing and changes no contents.
    unsafe { libc::munlockall() };
}

/// The soft limit on locked memory in bytes; `u64::MAX` is none.
pub fn lock_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    limit.rlim_cur
}

/// Touches the part of the calling thread's stack that its loop can reach, so that it never faults there.
#[inline(never)]
pub fn prefault_stack() {
    let mut stack = [0u8; 64 * 1024];
    for page in stack.chunks_mut(4096) {
        std::hint::black_box(&mut page[0]);
    }
    std::hint::black_box(&mut stack);
}

/// Maps so many bytes of fresh memory, writes one byte into each page until `go_on` says no, and unmaps it.
/// Returns how many pages were touched.
pub fn touch_fresh_mapping(bytes: usize, mut go_on: impl FnMut() -> bool) -> io::Result<u64> {
    let mut mapping = memmap2::MmapMut::map_anon(bytes)?;
    let mut touched = 0;
    for page in mapping.chunks_mut(4096) {
        // Looking at the clock costs about as much as touching a page: every 64 pages is often enough.
        if touched % 64 == 0 && !go_on() {
            break;
        }
        page[0] = 1;
        std::hint::black_box(&page[0]);
        touched += 1;
    }
    Ok(touched)
}

/// How many minor page faults the calling thread had.
pub fn minor_faults() -> u64 {
    // SAFETY: a rusage of zeros is valid, and the call fills it. It cannot fail for the calling thread.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_minflt.unsigned_abs()
}

/// Memory of which each page is touched once: every touch is a minor page fault.
#[derive(Debug)]
pub struct FreshPages {
    mapping: memmap2::MmapMut,
    touched: usize,
}

impl FreshPages {
    /// So many pages at a time.
    const PAGES: usize = 1024;
    const PAGE_BYTES: usize = 4096;

    /// Maps the first of them.
    pub fn new() -> io::Result<FreshPages> {
        let mapping = memmap2::MmapMut::map_anon(Self::PAGES * Self::PAGE_BYTES)?;
        // A huge page would be one fault for 512 pages. A kernel without them refuses the advice, and needs none.
        let _ = mapping.advise(memmap2::Advice::NoHugePage);
        Ok(FreshPages { mapping, touched: 0 })
    }

    /// Maps more where all of them are touched, so that the next touch needs no system call.
    pub fn renew(&mut self) -> io::Result<()> {
        if self.touched == Self::PAGES {
            *self = FreshPages::new()?;
        }
        Ok(())
    }

    /// Touches one page; nothing where all of them are touched.
    #[inline]
    pub fn touch(&mut self) {
        if let Some(byte) = self.mapping.get_mut(self.touched * Self::PAGE_BYTES) {
            *byte = 1;
            std::hint::black_box(byte);
            self.touched += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_touch_of_a_fresh_page_is_one_minor_fault() {
        let mut pages = FreshPages::new().unwrap();
        let before = minor_faults();
        for _ in 0..3 {
            for _ in 0..FreshPages::PAGES {
                pages.touch();
            }
            pages.renew().unwrap();
        }
        let faults = minor_faults() - before;
        assert!((3 * 1024..3 * 1024 + 50).contains(&faults), "{faults}");
        for _ in 0..2 * FreshPages::PAGES {
            pages.touch();
        }
    }
}
