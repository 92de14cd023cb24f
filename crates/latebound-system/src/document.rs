// SPDX-License-Identifier: MIT OR Apache-2.0
//! The document of `doctor`. Owns its JSON form; how it reads is for `latebound-report`.

use latebound_model::{EvidenceLevel, Finding, Rung, RungLevel, SystemSnapshot};
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
    /// The rung on which this system stands: the first of the ladder that is available.
    rung: Rung,
    /// Where events of its kernel come from, best first, and what would give the rest.
    ladder: &'a [RungLevel],
    /// What makes it late.
    findings: &'a [Finding],
}

impl Doctor {
    /// The rung on which this system stands.
    pub fn rung(&self) -> Rung {
        self.ladder.iter().find(|level| level.available).map_or(Rung::User, |level| level.rung)
    }

    /// All of it as a document.
    pub fn document(&self) -> DoctorDocument<'_> {
        let Doctor { system, evidence, ladder, findings } = self;
        let rung = self.rung();
        DoctorDocument { schema: "latebound.doctor/1", system, evidence, rung, ladder, findings }
    }
}
