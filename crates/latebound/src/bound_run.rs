// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Run of a bound that was made from saved traces: of the traced system as far as the trace says, and never of the
//! one on which it is read. Owns which tables go with it.

use anyhow::Result;
use latebound_analysis::bound::source_name;
use latebound_model::{Bound, EvidenceLevel, Missing, Run, RunState, RunVerb, Verdict};
use latebound_report::html;
use latebound_saved::Saved;
use latebound_store::{InterruptRow, RunFolder};

/// The witness of this many CPUs is kept: those with the largest values.
const WITNESSES: usize = 64;

/// Writes the Run with its tables and its page.
pub(crate) fn write(mut folder: RunFolder, saved: &Saved, bound: &Bound) -> Result<()> {
    let (curves, missing) = saved.curves();
    let cpus = &saved.observations.cpus;
    let rows = cpus.iter().map(|one| {
        let names: Vec<_> =
            one.timeline.sources().map(|(source, name)| (source, source_name(source, name))).collect();
        (one, names)
    });
    let rows: Vec<_> = rows.collect();
    folder.write_interrupts(rows.iter().flat_map(|(one, names)| {
        one.timeline.iter().filter_map(|interrupt| {
            let (_, source) = names.iter().find(|(source, _)| *source == interrupt.source)?;
            Some(InterruptRow { cpu: one.cpu, source, start: interrupt.start, duration: interrupt.duration })
        })
    }))?;
    folder.write_workload_curves(&curves)?;
    folder.finish_with(&run(saved, bound, missing), |run| Some(html::page(run)))?;
    Ok(())
}

fn run(saved: &Saved, bound: &Bound, missing: Vec<Missing>) -> Run {
    let mut bound = bound.clone();
    bound.keep_witnesses(WITNESSES);
    let (start, end) = saved.interval();
    let reason = match bound.reasons.first() {
        None => "from a saved trace of a PREEMPT_RT kernel: nothing lost, no rule broken".to_owned(),
        Some(reason) => reason.clone(),
    };
    let evidence =
        EvidenceLevel { evidence: bound.evidence, available: bound.verdict == Verdict::Bound, reason };
    Run {
        command: crate::session::command_line(),
        state: RunState::Complete,
        started_at: jiff::Timestamp::now().to_string(),
        started_monotonic: start,
        duration: end.saturating_sub(start),
        system: saved.traced_system(),
        evidence: vec![evidence],
        bound: Some(bound),
        losses: saved.losses.clone(),
        missing,
        ..Run::new(RunVerb::Bound, "latebound", env!("CARGO_PKG_VERSION"))
    }
}
