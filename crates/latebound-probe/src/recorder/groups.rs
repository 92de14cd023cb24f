// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for control groups, from their folders in the two hierarchies that the recorder tells of. Owns how a group's number
//! becomes a path; never reads a file of a group.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use latebound_model::{Membership, Tid, gone_group};

/// As many folders are looked at for one number.
const FOLDERS: usize = 1 << 14;

/// Which hierarchy a number is of: each counts for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hierarchy {
    /// That with the cpu controller: of version 1 if there is one (cgroups(7): a controller is in one hierarchy only), else version 2.
    Cpu,
    /// That of version 2, in which every thread has its place.
    Unified,
}

/// The groups that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    quotas: RefCell<HashMap<u64, String>>,
    members: RefCell<HashMap<u64, String>>,
}

impl Groups {
    /// The path of the group whose quota has this number, without the place where its hierarchy is mounted; what
    /// `gone_group` writes where it has none that this process sees.
    pub(crate) fn of_quotas(&self, id: u64) -> String {
        path(&self.quotas, Hierarchy::Cpu, id)
    }

    /// The same of the group in which threads are.
    pub(crate) fn of_members(&self, id: u64) -> String {
        path(&self.members, Hierarchy::Unified, id)
    }
}

fn path(known: &RefCell<HashMap<u64, String>>, hierarchy: Hierarchy, id: u64) -> String {
    let mut known = known.borrow_mut();
    if let Some(path) = known.get(&id) {
        return path.clone();
    }
    // A group that is gone stays in the table by the path that it had: its number does not come again.
    for (number, path) in folders(hierarchy) {
        known.entry(number).or_insert(path);
    }
    known.entry(id).or_insert_with(|| gone_group(id)).clone()
}

/// The groups that are there, by their numbers. A group's number is the inode of its folder (include/linux/kernfs.h, `kernfs_ino`: the
/// whole number where inodes have 64 bits).
fn folders(hierarchy: Hierarchy) -> Vec<(u64, String)> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let Some(mount) = mount(&mounts, hierarchy) else { return Vec::new() };
    let mut left: Vec<PathBuf> = vec![mount.clone()];
    let mut found = Vec::new();
    while let Some(folder) = left.pop() {
        if found.len() >= FOLDERS {
            break;
        }
        if let Ok(status) = std::fs::symlink_metadata(&folder) {
            let below = folder.strip_prefix(&mount).unwrap_or(&folder);
            found.push((status.ino(), format!("/{}", below.display())));
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        left.extend(
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()),
        );
    }
    found
}

/// Where a thread belongs at this moment; `None` where it is gone.
pub fn member_now(tid: Tid) -> Option<Membership> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
    let groups = std::fs::read_to_string(format!("/proc/{tid}/cgroup")).ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // A group that was removed with threads in it (cgroups(7)).
    let group = group.strip_suffix(" (deleted)").unwrap_or(group).to_owned();
    Some(Membership { tid, process: Tid(process), group })
}

/// Where a hierarchy is mounted.
fn mount(mounts: &str, hierarchy: Hierarchy) -> Option<PathBuf> {
    // ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [TAGS...] - TYPE SOURCE SUPER-OPTIONS (proc_pid_mountinfo(5))
    let each = || {
        mounts.lines().filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut right = right.split(' ');
            Some((left.split(' ').nth(4)?, right.next()?, right.nth(1).unwrap_or_default()))
        })
    };
    let is_cpu = |kind: &str, options: &str| kind == "cgroup" && options.split(',').any(|o| o == "cpu");
    let version_1 = each().find(|(_, kind, options)| hierarchy == Hierarchy::Cpu && is_cpu(kind, options));
    let found = version_1.or_else(|| each().find(|(_, kind, _)| *kind == "cgroup2"));
    found.map(|(mount, ..)| Path::new(mount).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hierarchy_is_found_where_it_is_mounted() {
        let both = "31 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
            32 31 0:29 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n\
            33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
        assert_eq!(mount(both, Hierarchy::Cpu), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(mount(both, Hierarchy::Unified), Some("/sys/fs/cgroup/unified".into()));
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        for hierarchy in [Hierarchy::Cpu, Hierarchy::Unified] {
            assert_eq!(mount(unified, hierarchy), Some("/sys/fs/cgroup".into()));
            assert_eq!(mount("garbage", hierarchy), None);
        }
    }

    #[test]
    fn this_thread_belongs_to_this_process() {
        let tid = Tid(i32::try_from(std::process::id()).unwrap());
        // Where /proc shows no group of version 2 nothing is said.
        assert!(member_now(tid).is_none_or(|own| own.process == tid && own.group.starts_with('/')));
        assert_eq!(member_now(Tid(i32::MAX)), None);
    }
}
