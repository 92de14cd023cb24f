// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel accounts for a program: one reader for every probe.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use latebound_model::{Loss, LossKind};
use libbpf_rs::{Object, libbpf_sys};

use crate::error::ProbeError;

/// The kernel's account of a program; none for one that was not loaded, whose descriptor is negative. A field that an
/// old kernel does not fill is zero.
pub(crate) fn program_info(fd: RawFd) -> Option<libbpf_sys::bpf_prog_info> {
    if fd < 0 {
        return None;
    }
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = u32::try_from(size_of_val(&info)).ok()?;
    // SAFETY: info is as large as said, all zero, and thus holds no pointers that the kernel would follow.
    let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut length) };
    (result == 0).then_some(info)
}

/// The programs of an object, by name.
pub(crate) fn programs(object: &Object) -> impl Iterator<Item = (String, RawFd)> {
    object.progs().map(|program| (program.name().to_string_lossy().into_owned(), program.as_fd().as_raw_fd()))
}

/// The programs that the kernel skipped, because they would have run within themselves: events that nobody saw. Their places begin with
/// `probe`.
pub(crate) fn skipped(
    probe: &str,
    programs: impl Iterator<Item = (String, RawFd)>,
) -> impl Iterator<Item = Loss> {
    programs.filter_map(move |(name, fd)| {
        let count = program_info(fd)?.recursion_misses;
        let place = format!("{probe}{name}");
        (count > 0).then_some(Loss { kind: LossKind::ProgramSkipped, place, count: Some(count) })
    })
}

/// Has the kernel time BPF programs for as long as the descriptor lives (`BPF_ENABLE_STATS`, 5.8 and later).
pub(crate) fn enable_statistics() -> Result<OwnedFd, ProbeError> {
    // SAFETY: takes a constant and returns a new descriptor or an error.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(ProbeError::last_os("asking the kernel to time BPF programs"));
    }
    // SAFETY: a descriptor that was just made for us and that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
