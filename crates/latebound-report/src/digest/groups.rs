// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who made whom late by control groups, in words.

use latebound_analysis::blame_groups;
use latebound_model::{Explanation, GroupBlame, GroupName, Owner};

use super::blame::THROTTLING;
use crate::text::printable;

/// As many digits of a container's id are shown, as its engine shows.
const ID_DIGITS: usize = 12;

/// The late threads of one group, and who made them late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blamed {
    /// Who was late: `threads of unit nginx.service`.
    pub whom: String,
    /// All their time, in nanoseconds.
    pub total: u128,
    /// Who took it, most time first.
    pub rows: Vec<GroupBlame>,
}

/// The groups whose threads were late, those that lost most time first. Nothing where no group is known.
pub fn blamed_groups(worst: &[Explanation]) -> Vec<Blamed> {
    let mut groups: Vec<Blamed> = Vec::new();
    for row in blame_groups(worst) {
        let whom = match &row.whom {
            Some(group) => format!("threads of {}", group_text(group)),
            None => "threads of groups that are not known".to_owned(),
        };
        let time = u128::from(row.time.0);
        match groups.last_mut() {
            Some(last) if last.rows.last().is_some_and(|before| before.whom == row.whom) => {
                last.total += time;
                last.rows.push(row);
            }
            _ => groups.push(Blamed { whom, total: time, rows: vec![row] }),
        }
    }
    groups
}

/// A group by what its path says: `unit nginx.service`, `container 3f2a9d1c0b7e`, `pod 1b2c…`, `cgroup /mine`.
pub fn group_text(path: &str) -> String {
    let text = match GroupName::of(path) {
        GroupName::Container { id, pod } => {
            let of = pod.map_or_else(String::new, |pod| format!(" of pod {pod}"));
            format!("container {}{of}", id.get(..ID_DIGITS).unwrap_or(id))
        }
        GroupName::Pod(uid) => format!("pod {uid}"),
        GroupName::Unit(unit) => format!("unit {unit}"),
        GroupName::Gone(id) => format!("cgroup {id}"),
        _ => format!("cgroup {path}"),
    };
    printable(&text).into_owned()
}

/// Who took time, in words.
pub fn owner_text(owner: &Owner) -> String {
    match owner {
        Owner::Itself => "the thread itself".to_owned(),
        Owner::Process => "its process".to_owned(),
        Owner::OwnGroup => "others of its group".to_owned(),
        Owner::Group(path) => group_text(path),
        Owner::Kernel => "kernel threads".to_owned(),
        Owner::Interrupts => "interrupts and softirqs".to_owned(),
        Owner::Quota(group) if group.is_empty() => "a CPU limit".to_owned(),
        Owner::Quota(group) => format!("CPU limit of {}", group_text(group)),
        Owner::Throttling => THROTTLING.to_owned(),
        Owner::Processor => "processor that left idle".to_owned(),
        Owner::Hypervisor => "the hypervisor".to_owned(),
        Owner::Devices => "devices".to_owned(),
        _ => "not known".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_called_by_what_its_path_says_and_its_name_does_not_steer() {
        let id = "3f2a9d1c0b7e4f5a8d6c3b2a1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e";
        let uid = "1b2c3d4e-5f60-7182-93a4-b5c6d7e8f901";
        for (path, text) in [
            (format!("/kubepods/pod{uid}/{id}"), format!("container 3f2a9d1c0b7e of pod {uid}")),
            (format!("/docker/{id}"), "container 3f2a9d1c0b7e".to_owned()),
            (format!("/kubepods/pod{uid}"), format!("pod {uid}")),
            ("/system.slice/nginx.service".to_owned(), "unit nginx.service".to_owned()),
            ("/mine/a\u{1b}[2J".to_owned(), "cgroup /mine/a\\x1b[2J".to_owned()),
            ("group 17".to_owned(), "cgroup 17".to_owned()),
            ("/".to_owned(), "cgroup /".to_owned()),
        ] {
            assert_eq!(group_text(&path), text);
        }
    }
}
