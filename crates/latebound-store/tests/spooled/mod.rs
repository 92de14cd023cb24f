// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs in a spool, as they were written and without their detail.

use latebound_model::Run;
use latebound_store::Shortage;

use crate::common::{explanation, sample_run};

/// A Run with so much detail that the record is shorter by pages without it.
pub(crate) fn detailed_run(generation: u64) -> Run {
    Run { worst: (1..=40).map(explanation).collect(), ..sample_run(generation) }
}

/// What a spool leaves of it.
pub(crate) fn thinned_run(generation: u64, shortage: Shortage) -> Run {
    let mut run = detailed_run(generation);
    run.remove_detail("spool", shortage.why(), shortage.remedy());
    run
}
