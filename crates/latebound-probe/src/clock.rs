// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock that programs stamp events with (`bpf_ktime_get_ns`).

use latebound_model::Nanos;

/// `CLOCK_MONOTONIC` now.
pub(crate) fn now() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a timespec that is ours; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
