// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this process may do: capabilities and resource limits. Owns their reading; never asks who the user is,
//! since root in a container may do less and a user with capabilities more.

use crate::root::{ReadError, Root};

/// A capability by its number (include/uapi/linux/capability.h, the same in every kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capability(u32);

impl Capability {
    pub(crate) const IPC_LOCK: Capability = Capability(14);
    pub(crate) const SYS_ADMIN: Capability = Capability(21);
    pub(crate) const SYS_NICE: Capability = Capability(23);
    pub(crate) const PERFMON: Capability = Capability(38);
    pub(crate) const BPF: Capability = Capability(39);
}

/// The effective capabilities of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities(u64);

impl Capabilities {
    /// From `CapEff` of `/proc/self/status`.
    pub(crate) fn read(root: &Root) -> Result<Capabilities, ReadError> {
        let path = "/proc/self/status";
        let text = root.text(path)?;
        let value = field(&text, "CapEff").unwrap_or_default();
        u64::from_str_radix(value, 16)
            .map(Capabilities)
            .map_err(|_| ReadError::unexpected(path, value, "a CapEff in hexadecimal digits"))
    }

    /// Whether this one is effective.
    pub(crate) fn has(self, capability: Capability) -> bool {
        self.0 >> capability.0 & 1 == 1
    }
}

/// The value behind `name:` in a file of the form of `/proc/self/status` or `/proc/cpuinfo`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = |line: &'a str| {
        let (key, value) = line.split_once(':')?;
        (key.trim_end() == name).then(|| value.trim())
    };
    text.lines().find_map(line)
}

/// A resource limit; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) soft: Option<u64>,
    pub(crate) hard: Option<u64>,
}

/// The limit of this name in `/proc/self/limits`: `Max realtime priority`.
pub(crate) fn limit(root: &Root, name: &'static str) -> Result<Limit, ReadError> {
    let path = "/proc/self/limits";
    let text = root.text(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let mut words = line.split_whitespace().map(|word| match word {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    });
    match (words.next().flatten(), words.next().flatten()) {
        (Some(soft), Some(hard)) => Ok(Limit { soft, hard }),
        _ => Err(ReadError::unexpected(path, line.trim(), name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_found_by_its_bit() {
        let capabilities = Capabilities(1 << 39 | 1 << 23);
        assert!(capabilities.has(Capability::BPF) && capabilities.has(Capability::SYS_NICE));
        assert!(!capabilities.has(Capability::PERFMON) && !capabilities.has(Capability::SYS_ADMIN));
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "Cpus_allowed:\tff\nCpus_allowed_list:\t0-7\nmodel name\t: AMD EPYC\nempty:\n";
        assert_eq!(field(text, "Cpus_allowed_list"), Some("0-7"));
        assert_eq!(field(text, "model name"), Some("AMD EPYC"));
        assert_eq!(field(text, "empty"), Some(""));
        assert_eq!(field(text, "model"), None);
    }
}
