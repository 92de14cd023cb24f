// SPDX-License-Identifier: MIT OR Apache-2.0
//! The document of `doctor`. Owns its JSON form; how it reads is for `latebound-report`.

use latebound_model::{EvidenceLevel, Finding, SystemSnapshot};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Doctor;

/// The document of `doctor`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorDocument<'a> {
    /// `latebound.doctor/1`.
    schema: &'static str,
    /// The snapshot of the system.
    system: &'a SystemSnapshot,
    /// What this system can show, and what would give the rest.
    evidence: &'a [EvidenceLevel],
    /// What makes it late.
    findings: &'a [Finding],
}

impl Doctor {
    /// All of it as a document.
    pub fn document(&self) -> DoctorDocument<'_> {
        let Doctor { system, evidence, findings } = self;
        DoctorDocument { schema: "latebound.doctor/1", system, evidence, findings }
    }
}
