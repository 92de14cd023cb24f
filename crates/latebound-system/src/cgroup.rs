// SPDX-License-Identifier: MIT OR Apache-2.0
//! In which cgroups this process is and where their files lie. Owns the differences between version 1, version 2 and
//! both at once; never moves a process.

use crate::root::{ReadError, Root};

/// Where a controller's files for this process lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// 1 or 2.
    pub(crate) version: u32,
    /// Where the hierarchy is mounted: `/sys/fs/cgroup/cpu`.
    pub(crate) mount: String,
    /// The folder of this process's cgroup.
    pub(crate) folder: String,
    /// Whether it is the root of the hierarchy, as far as it can be seen from here.
    pub(crate) is_root: bool,
}

/// Where the files of this controller lie for this process; `None` where it is in no mounted hierarchy.
///
/// A version 1 hierarchy with the controller goes first: a controller is in one hierarchy only (cgroups(7)).
pub(crate) fn place(root: &Root, controller: &str) -> Result<Option<Place>, ReadError> {
    place_of(root, "self", controller)
}

/// The same for a process or thread.
pub(crate) fn place_of(root: &Root, process: &str, controller: &str) -> Result<Option<Place>, ReadError> {
    let own = root.text(&format!("/proc/{process}/cgroup"))?;
    let mounts = root.text("/proc/self/mountinfo")?;
    Ok(find(&own, &mounts, controller))
}

fn find(own: &str, mounts: &str, controller: &str) -> Option<Place> {
    // hierarchy:controllers:path
    let lines = || own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let named = lines().find(|(names, _)| names.split(',').any(|name| name == controller));
    let unified = lines().find(|(names, _)| names.is_empty());
    let (version, path) = match (named, unified) {
        (Some((_, path)), _) => (1, path),
        (None, Some((_, path))) => (2, path),
        (None, None) => return None,
    };
    // ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [TAGS...] - TYPE SOURCE SUPER-OPTIONS (proc_pid_mountinfo(5))
    let (shown_root, mount) = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
        let (&shown_root, &mount, &kind) = (left.get(3)?, left.get(4)?, right.first()?);
        let here = match version {
            1 => kind == "cgroup" && right.get(2)?.split(',').any(|option| option == controller),
            _ => kind == "cgroup2",
        };
        here.then(|| (shown_root, mount.to_owned()))
    })?;
    // In a container only a part of the hierarchy is mounted: its root is cut off the path.
    let below = match shown_root {
        "/" => path,
        part => path.strip_prefix(part).unwrap_or(path),
    };
    let below = below.trim_matches('/');
    let folder = if below.is_empty() { mount.clone() } else { format!("{mount}/{below}") };
    Some(Place { version, is_root: below.is_empty() && shown_root == "/", mount, folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn a_version_1_controller_is_found_beside_version_2() {
        let place = find("2:cpu,cpuacct:/audio\n0::/init.scope\n", V1, "cpu").unwrap();
        assert_eq!(place.folder, "/sys/fs/cgroup/cpu,cpuacct/audio");
        assert_eq!((place.version, place.is_root), (1, false));
    }

    #[test]
    fn a_controller_without_a_hierarchy_of_its_own_is_in_version_2() {
        let place = find("0::/user.slice/user-1000.slice\n", V2, "cpu").unwrap();
        assert_eq!(place.folder, "/sys/fs/cgroup/user.slice/user-1000.slice");
        assert_eq!((place.version, place.is_root), (2, false));
        let top = find("0::/\n", V2, "cpu").unwrap();
        assert_eq!((top.folder.as_str(), top.is_root), ("/sys/fs/cgroup", true));
    }

    #[test]
    fn the_part_of_the_hierarchy_that_a_container_sees_is_cut_off() {
        let mounts = "9 8 0:1 /docker/ab12 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
        let place = find("5:cpu:/docker/ab12/x\n", mounts, "cpu").unwrap();
        assert_eq!(place.folder, "/sys/fs/cgroup/cpu/x");
        assert!(!find("5:cpu:/docker/ab12\n", mounts, "cpu").unwrap().is_root);
    }

    #[test]
    fn no_hierarchy_gives_no_place() {
        assert_eq!(find("", V2, "cpu"), None);
        assert_eq!(find("0::/\n", "", "cpu"), None);
        assert_eq!(find("garbage", "garbage - x", "cpu"), None);
    }
}
