// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user that a load runs as where latebound is root: one that owns nothing, not a file and not another process.
//!
//! Owns which user that is and what is given up. Loads prepare what needs root first; nothing gives it back.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use latebound_syscall::process;

/// Users that nobody is given for good: systemd's for services that run as a user of their own (systemd.exec(5), DynamicUser=).
const UNUSED: std::ops::RangeInclusive<u32> = 61_184..=65_519;

/// The one that owns nothing by convention (`overflowuid`, Linux Documentation/admin-guide/sysctl/kernel.rst), where no other can
/// be had: services run as it too.
pub(crate) const NOBODY: u32 = 65_534;

/// A user and a group of the same number that own nothing; `None` where this process is not root, or root of a user namespace
/// that has no such user.
pub(crate) fn unused() -> Option<u32> {
    if !process::is_root() {
        return None;
    }
    let known = ["/etc/passwd", "/etc/group"].map(|file| fs::read_to_string(file).unwrap_or_default());
    let named: Vec<u32> = known
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.split(':').nth(2)?.parse().ok())
        .collect();
    let running: Vec<u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.metadata().ok()?.uid()))
        .collect();
    let is_free = |user: &u32| {
        !named.contains(user)
            && !running.contains(user)
            && !Path::new(&format!("/run/systemd/dynamic-uid/{user}")).exists()
    };
    let count = UNUSED.end() - UNUSED.start() + 1;
    let first = (RandomState::new().build_hasher().finish() % u64::from(count)) as u32;
    (0..count)
        .map(|step| UNUSED.start() + (first + step) % count)
        .find(is_free)
        .into_iter()
        .chain([NOBODY])
        .find(|user| is_mapped("/proc/self/uid_map", *user) && is_mapped("/proc/self/gid_map", *user))
}

/// Whether the user namespace of this process knows the number (user_namespaces(7)).
fn is_mapped(file: &str, id: u32) -> bool {
    fs::read_to_string(file).is_ok_and(|map| maps(&map, id))
}

/// Lines of the first number inside, the first outside, and how many.
fn maps(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().ok());
        match (numbers.next().flatten(), numbers.nth(1).flatten()) {
            (Some(first), Some(count)) => (first..first.saturating_add(count)).contains(&u64::from(id)),
            _ => false,
        }
    })
}

/// Goes on as a user that owns nothing, where this process is root: without groups, capabilities or a way back.
///
/// Call it while the process has one thread.
pub(crate) fn give_up_root() -> Result<(), String> {
    give_up(unused(), false)
}

/// As [`give_up_root`], but threads may take real-time priorities, until each calls [`give_up_scheduling`].
pub(crate) fn give_up_all_but_scheduling() -> Result<(), String> {
    give_up(unused(), true)
}

/// As [`give_up_root`], for this user.
pub(crate) fn give_up_root_for(user: u32) -> Result<(), String> {
    give_up(Some(user), false)
}

fn give_up(user: Option<u32>, schedules: bool) -> Result<(), String> {
    if !process::is_root() {
        return Ok(());
    }
    process::become_user(user, schedules)
        .map_err(|error| format!("the load cannot run as a user that owns nothing ({error})"))
}

/// Takes from the calling thread what [`give_up_all_but_scheduling`] left.
pub(crate) fn give_up_scheduling() -> Result<(), String> {
    process::drop_capabilities().map_err(|error| format!("a capability could not be given up ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_mapped_where_a_line_holds_its_number() {
        assert!(maps("         0          0 4294967295\n", 61_184));
        assert!(maps("0 100000 1000\n61000 200000 4000\n", 61_184));
        assert!(!maps("0 1000 1\n", 61_184));
        assert!(!maps("0 100000 61184\n", 61_184));
        assert!(!maps("", 0));
    }
}
