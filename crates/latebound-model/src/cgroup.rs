// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control groups: who is in which, what their paths say of them, and who made whom late by them.
//!
//! A path is that of version 2, from the root that the observing process sees: `/system.slice/nginx.service`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Nanos, Tid};

/// To whom a thread belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Membership {
    /// The thread.
    pub tid: Tid,
    /// Its process.
    pub process: Tid,
    /// The path of its control group; `group 17` where the group was gone before its path was read.
    pub group: String,
}

/// To whom a stretch of a late activation belongs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Owner {
    /// The late thread itself.
    Itself,
    /// Another thread of its process.
    Process,
    /// Another process of its group.
    OwnGroup,
    /// Another group, by its path.
    Group(String),
    /// Threads of the kernel.
    Kernel,
    /// Handlers of interrupts and softirqs.
    Interrupts,
    /// A CPU limit of a group, by its path; empty where no group is known.
    Quota(String),
    /// What keeps real-time threads from taking every processor whole: real-time throttling, or a server of the classes below.
    Throttling,
    /// The processor, which left an idle state.
    Processor,
    /// The hypervisor, by its own account.
    Hypervisor,
    /// Devices, and whoever sends through them.
    Devices,
    /// Nobody who is known, or a thread whose group is not known.
    Unknown,
}

/// What one owner took of the explained activations of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupBlame {
    /// The group of the late threads; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whom: Option<String>,
    /// Who took the time.
    pub who: Owner,
    /// Of how many activations.
    pub late: u64,
    /// How much in all.
    pub time: Nanos,
    /// The longest single stretch.
    pub longest: Nanos,
}

/// What the path of a group says of it. The names are those that systemd, container engines and Kubernetes give to groups.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupName<'p> {
    /// A container.
    Container {
        /// Its whole id.
        id: &'p str,
        /// The uid of the pod that it is part of, with dashes.
        pod: Option<String>,
    },
    /// A pod of Kubernetes, by its uid.
    Pod(String),
    /// A unit of systemd: a service, a scope, a slice.
    Unit(&'p str),
    /// None of these.
    Path(&'p str),
    /// The number of a group that was gone before its path was read.
    Gone(u64),
}

/// What stands before the number of a group that was gone. The path of a group begins with a slash.
const GONE: &str = "group ";

/// What stands in place of the path of a group with this number that was gone before its path was read; [`GroupName::of`] reads it.
pub fn gone_group(id: u64) -> String {
    format!("{GONE}{id}")
}

/// The number of a group that was gone, of what [`gone_group`] writes and of nothing else.
fn gone_id(text: &str) -> Option<u64> {
    let number = text.strip_prefix(GONE)?;
    number.parse().ok().filter(|id| gone_group(*id) == text)
}

impl<'p> GroupName<'p> {
    /// The innermost thing in the path that has a name of its own: a container before its pod, a pod before its slice.
    pub fn of(path: &'p str) -> GroupName<'p> {
        if let Some(id) = gone_id(path) {
            return GroupName::Gone(id);
        }
        let parts = || path.split('/').rev().filter(|part| !part.is_empty());
        let pod = || parts().find_map(pod_uid);
        // Below a container lie groups of its own making.
        let place = |(place, part): (usize, &'p str)| {
            container_id(part).or_else(|| {
                let above = parts().nth(place + 1)?;
                (is_id(part) && (is_engine(above) || pod_uid(above).is_some())).then_some(part)
            })
        };
        if let Some(id) = parts().enumerate().find_map(place) {
            return GroupName::Container { id, pod: pod() };
        }
        if let Some(uid) = pod() {
            return GroupName::Pod(uid);
        }
        match parts().find(|part| is_unit(part)) {
            Some(unit) => GroupName::Unit(unit),
            None => GroupName::Path(path),
        }
    }
}

/// Ids of containers have 64 hexadecimal digits.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The folder of an engine that uses no scopes of systemd (its cgroup driver is `cgroupfs`).
fn is_engine(part: &str) -> bool {
    matches!(part, "docker" | "libpod_parent" | "buildkit" | "default" | "k8s.io" | "moby")
}

/// The id in the name of a container's own folder: `docker-ID.scope`, `libpod-ID.scope`, `libpod-ID`, `cri-containerd-ID.scope`,
/// `crio-ID.scope`, `nerdctl-ID.scope`. Monitors of containers (`libpod-conmon-ID.scope`, `crio-conmon-ID.scope`) are none.
fn container_id(part: &str) -> Option<&str> {
    let (engine, id) = part.strip_suffix(".scope").unwrap_or(part).rsplit_once('-')?;
    (is_id(id) && !engine.ends_with("conmon") && !engine.is_empty()).then_some(id)
}

/// The uid in the name of a pod's folder: `kubepods-burstable-pod1b2c_….slice`, or `pod1b2c-…` below `kubepods`.
fn pod_uid(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match name.strip_prefix("kubepods-") {
        Some(rest) => rest.strip_prefix("burstable-").or(rest.strip_prefix("besteffort-")).unwrap_or(rest),
        None => name,
    };
    let uid = uid.strip_prefix("pod")?.replace('_', "-");
    let is_uid = uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then_some(uid)
}

/// The kinds of units that have a group (systemd.unit(5)).
fn is_unit(part: &str) -> bool {
    let kinds = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"];
    kinds.iter().any(|kind| part.len() > kind.len() && part.ends_with(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f2a9d1c0b7e4f5a8d6c3b2a1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e";
    const UID: &str = "1b2c3d4e-5f60-7182-93a4-b5c6d7e8f901";

    #[test]
    fn paths_of_container_engines_name_the_container_and_its_pod() {
        let slice = UID.replace('-', "_");
        for (path, in_pod) in [
            (format!("/system.slice/docker-{ID}.scope"), false),
            (format!("/docker/{ID}"), false),
            (format!("/docker/{ID}/init.scope"), false),
            (format!("/machine.slice/libpod-{ID}.scope/container"), false),
            (format!("/libpod_parent/libpod-{ID}"), false),
            (format!("/user.slice/user-1000.slice/user@1000.service/user.slice/nerdctl-{ID}.scope"), false),
            (format!("/kubepods.slice/kubepods-pod{slice}.slice/cri-containerd-{ID}.scope"), true),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice/crio-{ID}.scope"
                ),
                true,
            ),
            (format!("/kubepods/besteffort/pod{UID}/{ID}"), true),
        ] {
            let pod = in_pod.then(|| UID.to_owned());
            assert_eq!(GroupName::of(&path), GroupName::Container { id: ID, pod }, "{path}");
        }
    }

    #[test]
    fn a_pod_a_unit_and_a_plain_path_are_told_apart() {
        let pod = format!(
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{}.slice",
            UID.replace('-', "_")
        );
        assert_eq!(GroupName::of(&pod), GroupName::Pod(UID.to_owned()));
        for (path, name) in [
            ("/system.slice/nginx.service", GroupName::Unit("nginx.service")),
            ("/system.slice/nginx.service/worker", GroupName::Unit("nginx.service")),
            ("/user.slice/user-1000.slice/session-2.scope", GroupName::Unit("session-2.scope")),
            ("/system.slice", GroupName::Unit("system.slice")),
            ("/machine.slice/libpod-conmon-77.scope", GroupName::Unit("libpod-conmon-77.scope")),
            ("/kubepods/burstable", GroupName::Path("/kubepods/burstable")),
            ("/.service", GroupName::Path("/.service")),
            ("/podcast-3f2a", GroupName::Path("/podcast-3f2a")),
            ("/", GroupName::Path("/")),
            ("", GroupName::Path("")),
        ] {
            assert_eq!(GroupName::of(path), name, "{path}");
        }
        for path in ["group 017", "group -1", "group x", "group ", "/group 17", "group 17/x"] {
            assert_eq!(GroupName::of(path), GroupName::Path(path));
        }
        let monitor = format!("/machine.slice/libpod-conmon-{ID}.scope");
        assert!(matches!(GroupName::of(&monitor), GroupName::Unit(_)));
    }

    #[test]
    fn a_group_that_was_gone_keeps_its_number() {
        for id in [0, 17, u64::MAX] {
            assert_eq!(GroupName::of(&gone_group(id)), GroupName::Gone(id));
        }
    }
}
