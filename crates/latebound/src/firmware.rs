// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts what firmware took from the processors while a verb measures. Owns when the counter is read; reads it nowhere else.

use latebound_model::{CpuSet, Missing, Run};
use latebound_system::{ReadError, Root, SmiCounts};

/// The counter at the begin; `None` where this processor has none.
#[derive(Debug)]
pub(crate) struct Firmware {
    cpus: CpuSet,
    before: Option<Result<SmiCounts, ReadError>>,
}

impl Firmware {
    pub(crate) fn begin(run: &Run) -> Firmware {
        let cpus = run.system.online.clone().unwrap_or_default();
        let before = SmiCounts::read(&Root::live(), &cpus);
        Firmware { cpus, before }
    }

    /// Puts into the Run how many interrupts came since, or why that is not known.
    pub(crate) fn finish(self, run: &mut Run) {
        let Some(before) = self.before else { return };
        let now = SmiCounts::read(&Root::live(), &self.cpus);
        let counted = before.and_then(|before| now.transpose().map(|now| now.map(|now| now.since(&before))));
        match counted {
            Ok(count) => run.system_management_interrupts = count,
            Err(error) => run.missing.push(Missing {
                what: "system management interrupts".to_owned(),
                why: error.to_string(),
                remedy: "as root: modprobe msr".to_owned(),
            }),
        }
    }
}
