// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control groups are found by path, unit and container, and nobody else's is taken for them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod support;

use latebound_model::Tid;
use latebound_system::{FoundGroup, GroupChoice, find_group, threads_of_group};
use support::Tree;

const ONE: &str = "3f2a9d1c0b7e4f5a8d6c3b2a1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e";
const TWO: &str = "3f2a000000000000000000000000000000000000000000000000000000000000";

fn tree() -> Tree {
    let mut tree = Tree::empty();
    tree.file(
        "/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n\
         41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
    );
    for (path, threads) in [
        ("", "1\n"),
        ("/system.slice", ""),
        ("/system.slice/nginx.service", "10\n11\n0\n"),
        ("/system.slice/nginx.service/worker", "12\n"),
        ("/user.slice/user-1.slice/user@1.service/app.slice/sync.service", "20\n"),
        ("/user.slice/user-2.slice/user@2.service/app.slice/sync.service", "21\n"),
        (&format!("/system.slice/docker-{ONE}.scope"), "30\n"),
        (&format!("/system.slice/docker-{ONE}.scope/init.scope"), "31\n"),
        (&format!("/system.slice/libpod-conmon-{ONE}.scope"), "32\n"),
        (&format!("/system.slice/docker-{TWO}.scope"), "40\n"),
    ] {
        tree.file(&format!("/sys/fs/cgroup/unified{path}/cgroup.threads"), threads);
    }
    tree
}

fn found(choice: GroupChoice<'_>) -> Result<(String, Vec<i32>), String> {
    let (tree, root) = {
        let tree = tree();
        let root = tree.root();
        (tree, root)
    };
    let group: FoundGroup = find_group(&root, choice).map_err(|error| error.to_string())?;
    let threads = threads_of_group(&root, &group).iter().map(|tid: &Tid| tid.0).collect();
    drop(tree);
    Ok((group.path, threads))
}

#[test]
fn a_group_is_found_by_its_path_with_all_threads_below() {
    let nginx = || Ok(("/system.slice/nginx.service".to_owned(), vec![10, 11, 12]));
    for path in [
        "/system.slice/nginx.service",
        "system.slice/nginx.service/",
        "/sys/fs/cgroup/unified/system.slice/nginx.service",
    ] {
        assert_eq!(found(GroupChoice::Path(path)), nginx(), "{path}");
    }
    let (path, threads) = found(GroupChoice::Path("/")).unwrap();
    assert_eq!((path.as_str(), threads.len()), ("/", 10));
    let none = found(GroupChoice::Path("/no/such")).unwrap_err();
    assert!(none.starts_with("there is no cgroup /no/such; "), "{none}");
    // A path never leaves the hierarchy, and a file is no group.
    assert!(found(GroupChoice::Path("/system.slice/../../../proc")).is_err());
    assert!(found(GroupChoice::Path("/system.slice/cgroup.threads")).is_err());
}

#[test]
fn a_unit_is_found_by_its_name_and_two_of_one_name_are_not_mixed_up() {
    assert_eq!(found(GroupChoice::Unit("nginx")).unwrap().1, [10, 11, 12]);
    assert_eq!(found(GroupChoice::Unit("nginx.service")).unwrap().1, [10, 11, 12]);
    assert_eq!(found(GroupChoice::Unit("user-2.slice")).unwrap().1, [21]);
    let several = found(GroupChoice::Unit("sync")).unwrap_err();
    assert!(several.contains("not one cgroup but 2") && several.contains("user-1.slice"), "{several}");
    for none in ["worker", "ngin", "", "nginx.service/worker"] {
        let said = found(GroupChoice::Unit(none)).unwrap_err();
        assert!(said.contains("there is no unit"), "{none}: {said}");
    }
}

#[test]
fn a_container_is_found_by_a_prefix_that_no_other_has() {
    for id in [ONE, "3f2a9d1c0b7e", "3f2a9"] {
        let (path, threads) = found(GroupChoice::Container(id)).unwrap();
        assert_eq!((path, threads), (format!("/system.slice/docker-{ONE}.scope"), vec![30, 31]), "{id}");
    }
    assert_eq!(found(GroupChoice::Container("3f2a0")).unwrap().1, [40]);
    let several = found(GroupChoice::Container("3f2a")).unwrap_err();
    assert!(several.contains("not one cgroup but 2"), "{several}");
    for none in ["", "7", "nginx", "2e"] {
        let said = found(GroupChoice::Container(none)).unwrap_err();
        assert!(said.contains("there is no container"), "{none}: {said}");
    }
}

#[test]
fn without_version_2_nothing_is_found_and_said_why() {
    let mut tree = Tree::empty();
    tree.file("/proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n");
    let said = find_group(&tree.root(), GroupChoice::Unit("nginx")).unwrap_err().to_string();
    assert!(said.contains("no hierarchy of cgroups of version 2"), "{said}");
}

#[test]
fn the_level_of_a_group_is_known_where_the_whole_hierarchy_is_seen() {
    let mut tree = tree();
    let level = |tree: &Tree, path| find_group(&tree.root(), GroupChoice::Path(path)).unwrap().level;
    assert_eq!(level(&tree, "/"), Some(0));
    assert_eq!(level(&tree, "/system.slice/nginx.service/worker/"), Some(3));
    // What a container sees.
    tree.file("/sys/fs/cgroup/unified/cgroup.events", "populated 1\n");
    assert_eq!(level(&tree, "/system.slice"), None);
}
