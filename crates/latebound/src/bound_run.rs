// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Run of a bound that was made from saved traces: of the traced system as far as the trace says, and never of the
//! one on which it is read. Owns which tables go with it.

use anyhow::Result;
use latebound_analysis::bound::{Fold, FoldLimits, Source, source_name};
use latebound_model::{
    Bound, EvidenceLevel, Missing, MissingKind, Nanos, PreemptionModel, RUN_SCHEMA, Run, RunState, RunVerb,
    SystemSnapshot, Tool, Verdict, WorkloadCurve,
};
use latebound_report::html;
use latebound_saved::Saved;
use latebound_store::{InterruptRow, RunFolder};

/// The witness of this many CPUs is kept: those with the largest values.
const WITNESSES: usize = 64;
/// Above so many interrupts of a CPU its curves are left out: the table of interrupts has all that they say.
const FOLDED: usize = 1 << 20;

/// Writes the Run with its tables and its page.
pub(crate) fn write(mut folder: RunFolder, saved: &Saved, bound: &Bound) -> Result<()> {
    let mut missing = Vec::new();
    let curves = curves(saved, &mut missing);
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

fn curves(saved: &Saved, missing: &mut Vec<Missing>) -> Vec<WorkloadCurve> {
    let mut curves = Vec::new();
    for one in &saved.observations.cpus {
        if one.timeline.len() > FOLDED {
            missing.push(Missing {
                kind: MissingKind::Results,
                what: format!("workload curves of CPU {}", one.cpu),
                why: format!("it had {} interrupts, and folding so many takes long", one.timeline.len()),
                remedy: "compute them from interrupts.parquet".to_owned(),
            });
            continue;
        }
        let mut fold = Fold::new(FoldLimits::default());
        // What a timeline took, a fold takes.
        if one.timeline.iter().all(|interrupt| fold.push(interrupt).is_ok()) {
            curves.extend(fold.curves(one.cpu, |source: Source| one.timeline.name_of(source).to_owned()));
        }
    }
    curves
}

fn run(saved: &Saved, bound: &Bound, missing: Vec<Missing>) -> Run {
    let mut bound = bound.clone();
    bound.keep_witnesses(WITNESSES);
    let starts = bound.cpus.iter().filter_map(|cpu| cpu.start);
    let start = starts.min().unwrap_or_default();
    let ends = bound.cpus.iter().filter_map(|cpu| Some(Nanos(cpu.start?.0.saturating_add(cpu.elapsed?.0))));
    let end = ends.max().unwrap_or_default();
    let reason = match bound.reasons.first() {
        None => "from a saved trace of a PREEMPT_RT kernel: nothing lost, no rule broken".to_owned(),
        Some(reason) => reason.clone(),
    };
    let evidence =
        EvidenceLevel { evidence: bound.evidence, available: bound.verdict == Verdict::Bound, reason };
    Run {
        schema: RUN_SCHEMA.to_owned(),
        tool: Tool { name: "latebound".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        verb: RunVerb::Bound,
        command: crate::session::command_line(),
        state: RunState::Complete,
        started_at: jiff::Timestamp::now().to_string(),
        started_monotonic: start,
        planned: None,
        duration: end.saturating_sub(start),
        system: traced_system(saved),
        evidence: vec![evidence],
        measure: None,
        loads: Vec::new(),
        series: Vec::new(),
        worst: Vec::new(),
        bound: Some(bound),
        findings: Vec::new(),
        system_management_interrupts: None,
        quotas: Vec::new(),
        throughput: Vec::new(),
        losses: saved.losses.clone(),
        missing,
        settings: std::collections::BTreeMap::new(),
        tables: Vec::new(),
    }
}

/// `Linux name release machine`, as `trace-cmd record` writes it down.
fn traced_system(saved: &Saved) -> SystemSnapshot {
    let rt = saved.observations.conditions.as_ref().is_some_and(|conditions| conditions.preempt_rt);
    let words: Vec<&str> = saved.uname.as_deref().unwrap_or_default().split_whitespace().collect();
    let mut system = SystemSnapshot { preemption: rt.then_some(PreemptionModel::Rt), ..Default::default() };
    if let [_, name, release, machine] = words.as_slice() {
        system.hostname = Some((*name).to_owned());
        system.kernel_release = Some((*release).to_owned());
        system.machine = Some((*machine).to_owned());
    }
    system
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_analysis::bound::{CpuObservations, Interrupt, Observations, Timeline};
    use latebound_model::Cpu;

    fn observed(cpu: u32, interrupts: usize) -> CpuObservations {
        let mut timeline = Timeline::new();
        for number in 0..interrupts as u64 {
            // Far apart, so that folding what is folded takes no time.
            let start = Nanos(number * 1_000_000_000);
            let interrupt = Interrupt { source: Source::Vector(236), start, duration: Nanos(1_000) };
            timeline.push(interrupt).expect("in order");
        }
        CpuObservations { cpu: Cpu(cpu), timeline, ..CpuObservations::default() }
    }

    #[test]
    fn above_a_million_interrupts_of_a_cpu_its_curves_are_left_out_and_the_run_says_so() {
        let cpus = vec![observed(0, FOLDED + 1), observed(1, FOLDED), observed(2, 3)];
        let observations = Observations { cpus, ..Observations::default() };
        let mut missing = Vec::new();
        let curves = curves(&Saved { observations, ..Saved::default() }, &mut missing);
        let of: Vec<u32> = curves.iter().map(|curve| curve.cpu.0).collect();
        assert_eq!(of, [1, 1, 2, 2], "of its one source and of all");
        let [missing] = missing.as_slice() else { panic!("{missing:?}") };
        assert_eq!(missing.what, "workload curves of CPU 0");
        assert!(missing.why.contains("1048577 interrupts"), "{}", missing.why);
        assert!(missing.remedy.contains("interrupts.parquet"), "{}", missing.remedy);
    }
}
