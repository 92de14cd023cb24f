// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own configuration. Owns where it may lie and how it is written; never interprets an option.

use std::collections::BTreeMap;
use std::io::Read;

use crate::facts::Facts;
use crate::root::{ReadError, Root};

/// No kernel's configuration comes near this many bytes; more is a damaged or hostile file.
const MAX_BYTES: u64 = 16 << 20;

/// Options that bear on latency and go into the snapshot, without `CONFIG_`.
const RECORDED: [&str; 46] = [
    "ARCH_HAS_PREEMPT_LAZY",
    "BPF_SYSCALL",
    "CC_OPTIMIZE_FOR_PERFORMANCE",
    "CFS_BANDWIDTH",
    "CPU_FREQ",
    "CPU_IDLE",
    "DEBUG_INFO_BTF",
    "DEBUG_KMEMLEAK",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_OBJECTS",
    "DEBUG_PREEMPT",
    "FTRACE_SYSCALLS",
    "HIGH_RES_TIMERS",
    "HIST_TRIGGERS",
    "HZ",
    "IRQSOFF_TRACER",
    "IRQ_FORCED_THREADING",
    "IRQ_TIME_ACCOUNTING",
    "KASAN",
    "KCSAN",
    "KMSAN",
    "KPROBES",
    "LOCK_STAT",
    "NO_HZ_FULL",
    "NO_HZ_IDLE",
    "NUMA_BALANCING",
    "OSNOISE_TRACER",
    "PARAVIRT_TIME_ACCOUNTING",
    "PREEMPT",
    "PREEMPTIRQ_TRACEPOINTS",
    "PREEMPT_DYNAMIC",
    "PREEMPT_LAZY",
    "PREEMPT_NONE",
    "PREEMPT_RT",
    "PREEMPT_RT_NEEDS_BH_LOCK",
    "PREEMPT_TRACER",
    "PREEMPT_VOLUNTARY",
    "PROVE_LOCKING",
    "RCU_BOOST",
    "RCU_NOCB_CPU",
    "RT_GROUP_SCHED",
    "RT_GROUP_SCHED_DEFAULT_DISABLED",
    "SCHED_HRTICK",
    "TIMERLAT_TRACER",
    "TRACE_IRQFLAGS",
    "WQ_POWER_EFFICIENT_DEFAULT",
];

/// The configuration and where it was read.
#[derive(Clone, Debug)]
pub(crate) struct KernelConfig {
    /// The file that it came from.
    pub(crate) source: String,
    /// Every option that is set, with its value, without `CONFIG_`.
    options: BTreeMap<String, String>,
}

impl KernelConfig {
    /// From the first of the usual places that has it; else why each of them had not.
    pub(crate) fn read(root: &Root, facts: &Facts) -> Result<KernelConfig, Vec<ReadError>> {
        let mut errors = Vec::new();
        let mut places = vec!["/proc/config.gz".to_owned()];
        if let Some(release) = &facts.kernel_release {
            places.push(format!("/boot/config-{release}"));
            places.push(format!("/usr/lib/modules/{release}/config"));
            places.push(format!("/lib/modules/{release}/config"));
            places.push(format!("/lib/modules/{release}/build/.config"));
        }
        for place in places {
            let text = root.bytes(&place).and_then(|bytes| decode(&place, &bytes));
            match text {
                Ok(text) => return Ok(KernelConfig { source: place, options: parse(&text) }),
                Err(error) => errors.push(error),
            }
        }
        Err(errors)
    }

    /// The value of an option named without `CONFIG_`; `None` where it is not set.
    pub(crate) fn get(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(String::as_str)
    }

    /// Whether an option named without `CONFIG_` is built in.
    pub(crate) fn is_on(&self, option: &str) -> bool {
        self.get(option) == Some("y")
    }

    /// The options that bear on latency, `n` where not set.
    pub(crate) fn recorded(&self) -> BTreeMap<String, String> {
        let value = |option: &str| self.get(option).unwrap_or("n").to_owned();
        RECORDED.iter().map(|option| (format!("CONFIG_{option}"), value(option))).collect()
    }
}

fn decode(path: &str, bytes: &[u8]) -> Result<String, ReadError> {
    let mut plain = Vec::new();
    if path.ends_with(".gz") {
        flate2::read::GzDecoder::new(bytes)
            .take(MAX_BYTES)
            .read_to_end(&mut plain)
            .map_err(|source| ReadError::Os { path: path.to_owned(), source })?;
    } else {
        plain.extend_from_slice(bytes);
    }
    let text = String::from_utf8_lossy(&plain).into_owned();
    match text.contains("CONFIG_") {
        true => Ok(text),
        false => Err(ReadError::unexpected(path, text.trim(), "a kernel configuration")),
    }
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("CONFIG_")?.split_once('='));
    lines.map(|(option, value)| (option.to_owned(), value.trim_matches('"').to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_those_not_set_are_recorded_as_n() {
        let options =
            parse("# CONFIG_HZ_100 is not set\nCONFIG_HZ=250\nCONFIG_PREEMPT_RT=y\nCONFIG_CMDLINE=\"a=b c\"");
        let config = KernelConfig { source: String::new(), options };
        assert_eq!(config.get("HZ"), Some("250"));
        assert_eq!(config.get("CMDLINE"), Some("a=b c"));
        assert_eq!(config.get("HZ_100"), None);
        assert!(config.is_on("PREEMPT_RT") && !config.is_on("HZ"));
        assert_eq!(config.recorded()["CONFIG_NO_HZ_FULL"], "n");
    }

    #[test]
    fn the_recorded_options_are_in_order_and_named_once() {
        assert!(RECORDED.is_sorted_by(|a, b| a < b));
    }
}
