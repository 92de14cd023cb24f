// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this Linux system is and what makes it late, read under an injectable root.
//!
//! This crate owns the reading of `/proc`, `/sys`, `/dev/cpu_dma_latency`, `/boot` and cgroups, and what the
//! values mean for latency; and the undo journal ([`undo`]), through which alone latebound changes scheduling of others.
//! Nothing else here changes the system, starts a program or prints. Every file is
//! read through [`Root`], every fact that is not a file comes in through [`Facts`], so that all of it can be
//! tested on trees of files that no kernel ever wrote.

mod boot_option;
mod cgroup;
mod disks;
mod document;
mod evidence;
mod facts;
mod findings;
mod groups;
mod idle;
mod interrupts;
mod kernel_config;
mod ladder;
mod pages;
mod permissions;
mod platform;
mod preemption;
mod quota;
mod release;
mod root;
mod smi;
mod snapshot;
mod survey;
mod threads;
pub mod undo;

use latebound_model::{EvidenceLevel, Finding, RungLevel, SystemSnapshot};

pub use disks::{disk_bytes, whole_disks};
pub use document::DoctorDocument;
pub use evidence::trace_point_names;
pub use facts::Facts;
pub use findings::quota_finding;
pub use groups::{FoundGroup, GroupChoice, GroupError, find_group, threads_of_group};
pub use pages::{LruPages, lru_pages};
pub use quota::cpu_quotas;
pub use root::{ReadError, Root};
pub use smi::{SmiCounters, SmiCounts};
pub use threads::{Thread, thread, threads, threads_of_process};

use survey::Survey;

/// All that can be said of a system without measuring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doctor {
    /// What it is.
    pub system: SystemSnapshot,
    /// What it can show.
    pub evidence: Vec<EvidenceLevel>,
    /// Where events of its kernel come from, best first: it stands on the first that is available.
    pub ladder: Vec<RungLevel>,
    /// What makes it late.
    pub findings: Vec<Finding>,
}

/// Reads the system once and says all that can be said of it without measuring.
pub fn doctor(root: &Root, facts: &Facts) -> Doctor {
    let survey = Survey::new(root, facts);
    let system = snapshot::take(&survey);
    Doctor {
        evidence: evidence::levels(&survey),
        ladder: ladder::rungs(&survey),
        findings: findings::all(&survey, &system),
        system,
    }
}

/// Every field of the snapshot that can be read; the others are absent.
pub fn snapshot(root: &Root, facts: &Facts) -> SystemSnapshot {
    snapshot::take(&Survey::new(root, facts))
}

/// What makes this system late, each with the value read, what it costs and the command that mends it.
pub fn findings(root: &Root, facts: &Facts, system: &SystemSnapshot) -> Vec<Finding> {
    findings::all(&Survey::new(root, facts), system)
}

/// What this system can show, weakest evidence first.
pub fn evidence(root: &Root, facts: &Facts) -> Vec<EvidenceLevel> {
    evidence::levels(&Survey::new(root, facts))
}
