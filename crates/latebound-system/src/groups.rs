// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control groups of version 2 by path, by unit of systemd, by container, and the threads in them. Owns the search; what the names of
//! folders mean is the model's ([`GroupName`]).

use latebound_model::{GroupName, Tid};

use crate::root::{ReadError, Root};

/// As many groups are looked at.
const MOST: usize = 1 << 16;
/// As many are named where several fit.
const NAMED: usize = 4;

/// How a group is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupChoice<'a> {
    /// By its path below the mount point of the hierarchy, or by that of its folder: `/system.slice/nginx.service`,
    /// `/sys/fs/cgroup/system.slice/nginx.service`.
    Path(&'a str),
    /// By a unit of systemd; `.service` is added to a name without a kind.
    Unit(&'a str),
    /// By the id of a container, or the first digits of it.
    Container(&'a str),
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundGroup {
    /// The number by which the kernel knows it: that of the inode of its folder.
    pub number: u64,
    /// Its path below the mount point: `/system.slice/nginx.service`.
    pub path: String,
    /// Its folder.
    pub folder: String,
    /// How many groups lie above it; `None` where the mount point does not show the whole hierarchy (cgroup_namespaces(7)).
    pub level: Option<u32>,
}

/// Why no group was found.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// There is no hierarchy of version 2 here.
    #[error(
        "no hierarchy of cgroups of version 2 is mounted; mount one with `mount -t cgroup2 none /sys/fs/cgroup/unified`"
    )]
    NoHierarchy,
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is none.
    #[error("there is no {what}; {remedy}")]
    None {
        /// What was asked for.
        what: String,
        /// What lists those that there are.
        remedy: &'static str,
    },
    /// There are several.
    #[error("{what} is not one cgroup but {count}: {some}; name one with --cgroup")]
    Several {
        /// What was asked for.
        what: String,
        /// How many there are.
        count: usize,
        /// Some of their paths.
        some: String,
    },
}

/// Finds the group that is meant.
pub fn find_group(root: &Root, choice: GroupChoice<'_>) -> Result<FoundGroup, GroupError> {
    let mount = mount(&root.text("/proc/self/mountinfo")?).ok_or(GroupError::NoHierarchy)?;
    // The group above all others has no such file, so a mount point with one is not that group.
    let is_whole = !root.exists(&format!("{mount}/cgroup.events"));
    let found = |path: &str| {
        let depth = path.split('/').filter(|part| !part.is_empty()).count();
        let level = is_whole.then(|| u32::try_from(depth).ok()).flatten();
        let folder = format!("{mount}{path}").trim_end_matches('/').to_owned();
        let path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
        root.folder_number(&folder).map(|number| FoundGroup { number, path, folder, level })
    };
    let none = |what: String, remedy| GroupError::None { what, remedy };
    let (what, paths, remedy) = match choice {
        GroupChoice::Path(path) => {
            let below = match path.strip_prefix(&mount) {
                Some(below) if below.is_empty() || below.starts_with('/') => below,
                _ => path,
            };
            let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
            let path: String = parts.iter().flat_map(|part| ["/", part]).collect();
            return found(&path).map_err(|error| match error.is_absent() {
                true => none(
                    format!("cgroup {path}"),
                    "`systemd-cgls` and `find /sys/fs/cgroup -type d` list them",
                ),
                false => error.into(),
            });
        }
        GroupChoice::Unit(name) => {
            let is_unit = matches!(GroupName::of(name), GroupName::Unit(unit) if unit == name);
            let name = if is_unit { name.to_owned() } else { format!("{name}.service") };
            let own = |path: &str| path.rsplit_once('/').is_some_and(|(_, last)| last == name);
            let paths = all(root, &mount).into_iter().filter(|path| own(path)).collect();
            (format!("unit {name} that runs"), paths, "`systemctl list-units` lists them")
        }
        GroupChoice::Container(id) => {
            let fits = |path: &str| matches!(GroupName::of(path), GroupName::Container { id: found, .. } if !id.is_empty() && found.starts_with(id));
            let paths: Vec<String> = all(root, &mount).into_iter().filter(|path| fits(path)).collect();
            (
                format!("container {id} that runs"),
                outermost(paths),
                "`docker ps`, `podman ps` or `crictl ps` list them",
            )
        }
    };
    match paths.as_slice() {
        [] => Err(none(what, remedy)),
        [path] => Ok(found(path)?),
        several => {
            let mut some: Vec<&str> = several.iter().take(NAMED).map(String::as_str).collect();
            if several.len() > NAMED {
                some.push("…");
            }
            Err(GroupError::Several { what, count: several.len(), some: some.join(", ") })
        }
    }
}

/// The threads of a group and of those below it, at this moment.
pub fn threads_of_group(root: &Root, group: &FoundGroup) -> Vec<Tid> {
    let mut threads: Vec<Tid> = all(root, &group.folder)
        .iter()
        .filter_map(|below| root.text(&format!("{}{below}/cgroup.threads", group.folder)).ok())
        .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).map(Tid).collect::<Vec<_>>())
        .collect();
    // 0 stands for a thread that this PID namespace does not see.
    threads.retain(|tid| tid.0 != 0);
    threads.sort_unstable();
    threads.dedup();
    threads
}

/// The paths of all groups from a folder down, without it: its own is empty.
fn all(root: &Root, folder: &str) -> Vec<String> {
    let mut paths = vec![String::new()];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        next += 1;
        for name in root.folders(&format!("{folder}{path}")).unwrap_or_default() {
            if paths.len() < MOST {
                paths.push(format!("{path}/{name}"));
            }
        }
    }
    paths
}

/// Without those that lie below others of them: a container's folder has folders of its own.
fn outermost(mut paths: Vec<String>) -> Vec<String> {
    paths.sort_by_key(String::len);
    let mut kept: Vec<String> = Vec::new();
    for path in paths {
        let is_below =
            |above: &String| path.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('/'));
        if !kept.iter().any(is_below) {
            kept.push(path);
        }
    }
    kept
}

/// Where the hierarchy of version 2 is mounted.
fn mount(mounts: &str) -> Option<String> {
    // ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [TAGS...] - TYPE SOURCE SUPER-OPTIONS (proc_pid_mountinfo(5))
    let found = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        (right.split(' ').next() == Some("cgroup2")).then(|| left.split(' ').nth(4))?
    });
    found.map(str::to_owned)
}
