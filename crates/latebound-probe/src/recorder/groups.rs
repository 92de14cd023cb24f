// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for control groups, from their folders in the hierarchy that has the cpu controller. Owns how a group's number
//! becomes a path; never reads a file of a group.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// As many folders are looked at for one number.
const FOLDERS: usize = 1 << 14;

/// The groups that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Groups(RefCell<HashMap<u64, String>>);

impl Groups {
    /// The path of the group with this number, without the place where its hierarchy is mounted; `group 17` where it has none
    /// that this process sees.
    pub(crate) fn path(&self, id: u64) -> String {
        let mut known = self.0.borrow_mut();
        known.entry(id).or_insert_with(|| find(id).unwrap_or_else(|| format!("group {id}"))).clone()
    }
}

/// A group's number is the inode of its folder (include/linux/kernfs.h, `kernfs_ino`: the whole number where inodes have 64
/// bits).
fn find(id: u64) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = cpu_hierarchy(&mounts)?;
    let mut left: Vec<PathBuf> = vec![mount.clone()];
    let mut seen = 0;
    while let Some(folder) = left.pop() {
        seen += 1;
        if seen > FOLDERS {
            return None;
        }
        if std::fs::symlink_metadata(&folder).is_ok_and(|found| found.ino() == id) {
            let below = folder.strip_prefix(&mount).unwrap_or(&folder);
            return Some(format!("/{}", below.display()));
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        left.extend(
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()),
        );
    }
    None
}

/// Where the hierarchy with the cpu controller is mounted: that of version 1 if there is one (cgroups(7): a controller is in
/// one hierarchy only), else version 2.
fn cpu_hierarchy(mounts: &str) -> Option<PathBuf> {
    // ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [TAGS...] - TYPE SOURCE SUPER-OPTIONS (proc_pid_mountinfo(5))
    let each = || {
        mounts.lines().filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut right = right.split(' ');
            Some((left.split(' ').nth(4)?, right.next()?, right.nth(1).unwrap_or_default()))
        })
    };
    let version_1 =
        each().find(|(_, kind, options)| *kind == "cgroup" && options.split(',').any(|o| o == "cpu"));
    let found = version_1.or_else(|| each().find(|(_, kind, _)| *kind == "cgroup2"));
    found.map(|(mount, ..)| Path::new(mount).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_with_the_cpu_controller_is_found() {
        let both = "31 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
            32 31 0:29 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n\
            33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
        assert_eq!(cpu_hierarchy(both), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(cpu_hierarchy(unified), Some("/sys/fs/cgroup".into()));
        assert_eq!(cpu_hierarchy("garbage"), None);
    }
}
