// SPDX-License-Identifier: MIT OR Apache-2.0
//! A control group that a test makes, with processes of its own.
#![allow(dead_code, reason = "it is for several tests")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::killed::Killed;

/// Where a hierarchy is mounted: of version 2, or the one with the cpu controller.
pub(crate) fn mount(cpu: bool) -> PathBuf {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let find = |is: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let right: Vec<&str> = right.split(' ').collect();
            is(right[0], right[2]).then(|| PathBuf::from(left.split(' ').nth(4).unwrap()))
        })
    };
    let version_1 =
        find(&|kind, options| cpu && kind == "cgroup" && options.split(',').any(|one| one == "cpu"));
    version_1.or_else(|| find(&|kind, _| kind == "cgroup2")).expect("a hierarchy of version 2")
}

/// A group, removed when it is dropped.
pub(crate) struct Group {
    pub(crate) folder: PathBuf,
    pub(crate) path: String,
}

impl Group {
    pub(crate) fn new(mount: &Path, path: &str) -> Group {
        let folder = mount.join(path.trim_start_matches('/'));
        std::fs::create_dir(&folder).unwrap();
        Group { folder, path: path.to_owned() }
    }

    /// Of version 2.
    pub(crate) fn unified(path: &str) -> Group {
        Group::new(&mount(false), path)
    }

    pub(crate) fn join(&self, process: &Killed) {
        std::fs::write(self.folder.join("cgroup.procs"), process.0.id().to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group can be removed when its last process has been reaped, which may take the kernel a moment.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
