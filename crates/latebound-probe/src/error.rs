// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a probe could not be had: what failed, the value met, what to type next.

use std::io;

use crate::log;

/// Why a probe could not be started or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The kernel carries no type information.
    #[error(
        "the kernel's type information cannot be read ({0}); probes need /sys/kernel/btf/vmlinux: \
         boot a kernel built with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf(String),
    /// The kernel does not let this process use BPF.
    #[error(
        "the kernel refused BPF ({0}); run with sudo: probes need CAP_BPF and CAP_PERFMON, which are given up once they are attached"
    )]
    Refused(String),
    /// libbpf could not open, load or attach.
    #[error("{step} failed: {source}; `bpftool feature probe kernel` shows what this kernel supports")]
    Bpf {
        /// What was tried.
        step: String,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// A system call beside BPF failed.
    #[error("{step} failed: {source}")]
    Io {
        /// What was tried.
        step: String,
        /// What the system said.
        source: io::Error,
    },
    /// None of what was asked for can be had here.
    #[error("nothing that was asked for can be seen on this kernel: {0}")]
    NothingToSee(String),
    /// A mark of jobs cannot be had.
    #[error("cannot mark jobs by {mark}: {why}")]
    Mark {
        /// The mark, escaped.
        mark: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A kernel module cannot be used.
    #[error(transparent)]
    Module(#[from] latebound_module::ModuleError),
}

impl ProbeError {
    /// A libbpf error under the name of the step that met it; a refusal is told apart.
    pub(crate) fn bpf(step: impl Into<String>, source: libbpf_rs::Error) -> ProbeError {
        let step = step.into();
        if source.kind() == libbpf_rs::ErrorKind::PermissionDenied {
            return ProbeError::Refused(format!("{step}: {source}"));
        }
        ProbeError::Bpf { step, source }
    }

    /// What libbpf answered to loading programs, with what it said meanwhile.
    pub(crate) fn load(step: &str, source: libbpf_rs::Error, said: &str) -> ProbeError {
        // The verifier answers "permission denied" too, but about one program. Where BPF as a whole is refused, libbpf
        // guesses at reasons that do not apply to a kernel that can do what latebound needs.
        let refused = source.kind() == libbpf_rs::ErrorKind::PermissionDenied && !said.contains("prog '");
        if refused {
            return ProbeError::bpf(step, source);
        }
        ProbeError::Bpf { step: format!("{step} ({})", log::gist(said)), source }
    }

    /// The last system error under the name of the step that met it.
    pub(crate) fn last_os(step: impl Into<String>) -> ProbeError {
        ProbeError::Io { step: step.into(), source: io::Error::last_os_error() }
    }
}
