// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel accounts for a program: one reader for every probe.

use std::collections::BTreeMap;
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

/// The same of a probe that has two programs at some places, of which each does what the other was skipped for; the name of one is the other's and
/// `ending`. Lost is what both skipped: at most as many events as the one that skipped fewer.
pub(crate) fn skipped_of_pairs(
    probe: &str,
    programs: impl Iterator<Item = (String, RawFd)>,
    ending: &str,
) -> Vec<Loss> {
    let misses = programs.filter_map(|(name, fd)| Some((name, program_info(fd)?.recursion_misses))).collect();
    lost_of_pairs(&misses, ending)
        .map(|(name, count)| {
            let is_pair = misses.contains_key(&format!("{name}{ending}"));
            let place = format!("{probe}{name}{}", if is_pair { ", at most" } else { "" });
            Loss { kind: LossKind::ProgramSkipped, place, count: Some(count) }
        })
        .collect()
}

/// How many events each place lost, by the name of the program that has no ending.
fn lost_of_pairs<'m>(
    misses: &'m BTreeMap<String, u64>,
    ending: &'m str,
) -> impl Iterator<Item = (&'m str, u64)> {
    misses.iter().filter(move |(name, _)| !name.ends_with(ending)).filter_map(move |(name, count)| {
        let other = misses.get(&format!("{name}{ending}")).unwrap_or(&u64::MAX);
        let count = *count.min(other);
        (count > 0).then_some((name.as_str(), count))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_programs_at_a_place_only_what_both_skipped_is_lost() {
        let misses =
            [("alone", 3), ("entry", 6), ("entry_by_perf", 2), ("exit", 5), ("exit_by_perf", 0), ("none", 0)];
        let misses = misses.map(|(name, count)| (name.to_owned(), count)).into();
        let lost: Vec<(&str, u64)> = lost_of_pairs(&misses, "_by_perf").collect();
        assert_eq!(lost, [("alone", 3), ("entry", 2)]);
    }
}
