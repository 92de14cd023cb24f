// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `latebound explain` that choose a control group. Holds no behaviour.

use clap::Args;

/// Whom to watch, by control group of version 2.
#[derive(Debug, Args)]
pub(crate) struct GroupArgs {
    /// Observe every thread of this control group (version 2) and of the groups below it, including threads that join
    /// later, by the group's path such as /system.slice/nginx.service.
    #[arg(long, value_name = "PATH", group = "whom")]
    pub(crate) cgroup: Option<String>,

    /// Observe every thread of this unit of systemd; without a kind the name is that of a service.
    #[arg(long, value_name = "NAME", group = "whom")]
    pub(crate) unit: Option<String>,

    /// Observe every thread of this container of Docker, Podman, containerd or CRI-O, by its id or the beginning of
    /// its id.
    #[arg(long, value_name = "ID", group = "whom")]
    pub(crate) container: Option<String>,
}
