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
