// SPDX-License-Identifier: MIT OR Apache-2.0
//! What more than one part needs, read once. Owns no meaning of its own.

use crate::boot_option;
use crate::facts::Facts;
use crate::kernel_config::KernelConfig;
use crate::permissions::Capabilities;
use crate::preemption::Preemption;
use crate::release::Release;
use crate::root::{ReadError, Root};
use crate::threads::{self, Thread};

/// The system as it was met: values, or why there are none.
pub(crate) struct Survey<'a> {
    pub(crate) root: &'a Root,
    pub(crate) facts: &'a Facts,
    /// The kernel's release as a number.
    pub(crate) release: Option<Release>,
    /// The kernel's configuration, or why each place that might have it has not.
    pub(crate) config: Result<KernelConfig, Vec<ReadError>>,
    /// The kernel's command line.
    pub(crate) command_line: Result<String, ReadError>,
    /// What this process may do.
    pub(crate) capabilities: Result<Capabilities, ReadError>,
    /// All threads that can be seen.
    pub(crate) threads: Result<Vec<Thread>, ReadError>,
    /// The preemption model.
    pub(crate) preemption: Preemption,
}

impl<'a> Survey<'a> {
    /// Reads what more than one part needs.
    pub(crate) fn new(root: &'a Root, facts: &'a Facts) -> Survey<'a> {
        let release = facts.kernel_release.as_deref().and_then(Release::parse);
        let config = KernelConfig::read(root, facts);
        let command_line = root.value("/proc/cmdline");
        let preemption = Preemption::read(
            root,
            facts.kernel_version.as_deref(),
            release,
            command_line.as_deref().ok(),
            config.as_ref().ok(),
        );
        Survey {
            root,
            facts,
            release,
            config,
            command_line,
            capabilities: Capabilities::read(root),
            threads: threads::threads(root),
            preemption,
        }
    }

    /// The value of the last `name=value` on the kernel's command line, which is the one that holds; `Some("")`
    /// for a bare `name`.
    pub(crate) fn boot_option(&self, name: &str) -> Option<&str> {
        boot_option::value(self.command_line.as_deref().ok()?, name)
    }

    /// Whether a kernel option is built in; `None` where the configuration cannot be read.
    pub(crate) fn config_is_on(&self, option: &str) -> Option<bool> {
        self.config.as_ref().ok().map(|config| config.is_on(option))
    }

    /// Where the kernel's configuration was read, for the source of a finding.
    pub(crate) fn config_source(&self) -> &str {
        self.config.as_ref().map_or("kernel configuration", |config| config.source.as_str())
    }

    /// Whether the kernel is this release or later; `None` where its release is not known.
    pub(crate) fn is_since(&self, release: Release) -> Option<bool> {
        self.release.map(|this| this >= release)
    }
}
