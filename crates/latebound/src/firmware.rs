// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts what firmware took from the processors while a verb measures. Owns when the counter is read; reads it nowhere else.

use latebound_model::{Missing, MissingKind, Run};
use latebound_system::{ReadError, Root, SmiCounters, SmiCounts};

/// The counters with what they said at the begin; `None` where this processor has none.
#[derive(Debug)]
pub(crate) struct Firmware(Option<Result<(SmiCounters, SmiCounts), ReadError>>);

impl Firmware {
    /// To be called before privileges are given up.
    pub(crate) fn begin(run: &Run) -> Firmware {
        let cpus = run.system.online.clone().unwrap_or_default();
        let counters = SmiCounters::open(&Root::live(), &cpus);
        Firmware(counters.map(|counters| {
            let counters = counters?;
            let before = counters.read()?;
            Ok((counters, before))
        }))
    }

    /// Puts into the Run how many interrupts came since, or why that is not known.
    pub(crate) fn finish(self, run: &mut Run) {
        let Some(begun) = self.0 else { return };
        match begun.and_then(|(counters, before)| Ok(counters.read()?.since(&before))) {
            Ok(count) => run.system_management_interrupts = Some(count),
            Err(error) => run.missing.push(Missing {
                kind: MissingKind::System,
                what: "system management interrupts".to_owned(),
                why: error.to_string(),
                remedy: "as root: modprobe msr".to_owned(),
            }),
        }
    }
}
