// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose the pages are that the kernel may reclaim. Owns the reading of the accounts that memory cgroups keep.

use std::collections::BTreeSet;

use latebound_model::Tid;

use crate::cgroup;
use crate::root::{ReadError, Root};

/// Pages on the LRU lists, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruPages {
    /// Those charged to the cgroups of the tasks that were asked for. Whatever else is in these cgroups counts as theirs.
    pub of_tasks: u64,
    /// All.
    pub all: u64,
}

/// The lists, as memory.stat and /proc/meminfo name them (Documentation/admin-guide/cgroup-v2.rst, 6.12).
const LISTS: [(&str, &str); 4] = [
    ("inactive_anon", "Inactive(anon):"),
    ("active_anon", "Active(anon):"),
    ("inactive_file", "Inactive(file):"),
    ("active_file", "Active(file):"),
];

/// How many LRU pages belong to the memory cgroups of these tasks. `None` where one of them is in none of its own, so that nobody knows
/// which pages it brought in.
pub fn lru_pages(root: &Root, tasks: impl IntoIterator<Item = Tid>) -> Result<Option<LruPages>, ReadError> {
    let mut folders = BTreeSet::new();
    for task in tasks {
        match cgroup::place_of(root, &task.to_string(), "memory")? {
            Some(place) if !place.is_root => folders.insert(place.folder),
            _ => return Ok(None),
        };
    }
    let mut of_tasks = 0;
    for folder in &folders {
        // A cgroup inside of another is in its account.
        if folders.iter().any(|other| folder.starts_with(&format!("{other}/"))) {
            continue;
        }
        let file = format!("{folder}/memory.stat");
        if !root.exists(&file) {
            return Ok(None);
        }
        let text = root.text(&file)?;
        of_tasks += LISTS.iter().map(|&(name, _)| number(&text, name)).sum::<u64>();
    }
    let text = root.text("/proc/meminfo")?;
    let all = LISTS.iter().map(|&(_, name)| number(&text, name) * 1024).sum();
    Ok(Some(LruPages { of_tasks, all }))
}

fn number(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let value = lines.find(|&(key, _)| key == name).map(|(_, value)| value);
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &std::path::Path, path: &str, text: &str) {
        let path = folder.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn task_pages_count_each_cgroup_once_and_are_unknown_in_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| put(folder.path(), path, text);
        put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        put("/proc/20/cgroup", "0::/control\n");
        put("/proc/21/cgroup", "0::/control\n");
        put("/proc/22/cgroup", "0::/control/arm\n");
        put("/proc/23/cgroup", "0::/\n");
        put(
            "/sys/fs/cgroup/control/memory.stat",
            "anon 7\ninactive_anon 4096\nactive_anon 0\ninactive_file 8192\nactive_file 4096\n",
        );
        put("/sys/fs/cgroup/control/arm/memory.stat", "inactive_anon 4096\n");
        put(
            "/proc/meminfo",
            "MemTotal: 99 kB\nActive(anon): 8 kB\nInactive(anon): 4 kB\nActive(file): 12 kB\nInactive(file): 40 kB\n",
        );
        let root = Root::at(folder.path());
        let of = |tasks: &[i32]| lru_pages(&root, tasks.iter().map(|&task| Tid(task))).unwrap();
        let expected = Some(LruPages { of_tasks: 16_384, all: 65_536 });
        assert_eq!((of(&[20]), of(&[20, 21, 22])), (expected, expected));
        assert_eq!(of(&[22]).unwrap().of_tasks, 4096);
        assert_eq!(of(&[20, 23]), None);
        assert!(lru_pages(&root, [Tid(99)]).is_err());
    }
}
