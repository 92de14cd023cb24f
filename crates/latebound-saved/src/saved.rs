// SPDX-License-Identifier: MIT OR Apache-2.0
//! What observing a saved trace gives, and what a Run of it needs besides the bound.

use latebound_abi::Rule;
use latebound_analysis::bound::{Fold, FoldLimits, Observations};
use latebound_model::{
    Cpu, Loss, Missing, MissingKind, Nanos, PreemptionModel, RuleViolation, SystemSnapshot, WorkloadCurve,
};

/// Above so many interrupts of a CPU its curves are left out: the table of interrupts has all that they say.
const FOLDED: usize = 1 << 20;

/// A rule of the model that the trace broke, with the events that led there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// On which CPU.
    pub cpu: Cpu,
    /// The rule.
    pub rule: Rule,
    /// The events in words; the last one broke it.
    pub events: Vec<String>,
}

impl From<Violation> for RuleViolation {
    fn from(violation: Violation) -> RuleViolation {
        let Violation { cpu, rule, events } = violation;
        RuleViolation { cpu, rule: rule.sentence().to_owned(), events }
    }
}

/// What a saved trace gave.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    /// The observations, with conditions.
    pub observations: Observations,
    /// The first violations of rules on each CPU.
    pub violations: Vec<Violation>,
    /// How many events were read.
    pub events: u64,
    /// System, name, release and machine of the traced system, where the trace says.
    pub uname: Option<String>,
    /// What the trace lacks.
    pub losses: Vec<Loss>,
}

impl Saved {
    /// Adds what has to be known about the values and does not speak against them.
    pub(crate) fn note(&mut self, sentence: &str) {
        if let Some(conditions) = &mut self.observations.conditions {
            conditions.notes.push(sentence.to_owned());
        }
    }

    /// Adds why the values are no bound.
    pub(crate) fn doubt(&mut self, sentence: &str) {
        if let Some(conditions) = &mut self.observations.conditions {
            conditions.problems.push(sentence.to_owned());
        }
    }

    /// The workload curves of every CPU, and of which CPUs they are missing.
    pub fn curves(&self) -> (Vec<WorkloadCurve>, Vec<Missing>) {
        let (mut curves, mut missing) = (Vec::new(), Vec::new());
        for one in &self.observations.cpus {
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
                curves.extend(fold.curves(one.cpu, |source| one.timeline.name_of(source).to_owned()));
            }
        }
        (curves, missing)
    }

    /// From the first event to the last, on the clock of the trace; nothing where no CPU says.
    pub fn interval(&self) -> (Nanos, Nanos) {
        let cpus = &self.observations.cpus;
        let ends = cpus.iter().filter_map(|one| Some(Nanos(one.start?.0.saturating_add(one.elapsed?.0))));
        let start = cpus.iter().filter_map(|one| one.start).min();
        (start.unwrap_or_default(), ends.max().unwrap_or_default())
    }

    /// The traced system, as far as the trace says: `Linux name release machine`, as `trace-cmd record` writes it down.
    pub fn traced_system(&self) -> SystemSnapshot {
        let rt = self.observations.conditions.as_ref().is_some_and(|conditions| conditions.preempt_rt);
        let words: Vec<&str> = self.uname.as_deref().unwrap_or_default().split_whitespace().collect();
        let mut system =
            SystemSnapshot { preemption: rt.then_some(PreemptionModel::Rt), ..Default::default() };
        if let [_, name, release, machine] = words.as_slice() {
            system.hostname = Some((*name).to_owned());
            system.kernel_release = Some((*release).to_owned());
            system.machine = Some((*machine).to_owned());
        }
        system
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_analysis::bound::{CpuObservations, Interrupt, Observations, Source, Timeline};

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
    fn above_a_million_interrupts_a_cpu_has_no_curves_and_the_run_says_so() {
        let cpus = vec![observed(0, FOLDED + 1), observed(1, FOLDED), observed(2, 3)];
        let observations = Observations { cpus, ..Observations::default() };
        let (curves, missing) = Saved { observations, ..Saved::default() }.curves();
        let of: Vec<u32> = curves.iter().map(|curve| curve.cpu.0).collect();
        assert_eq!(of, [1, 1, 2, 2], "of its one source and of all");
        let [missing] = missing.as_slice() else { panic!("{missing:?}") };
        assert_eq!(missing.what, "workload curves of CPU 0");
        assert!(missing.why.contains("1048577 interrupts"), "{}", missing.why);
        assert!(missing.remedy.contains("interrupts.parquet"), "{}", missing.remedy);
    }

    #[test]
    fn the_interval_reaches_over_all_cpus_that_have_times() {
        let at = |start, elapsed| CpuObservations {
            start: Some(Nanos(start)),
            elapsed: Some(Nanos(elapsed)),
            ..CpuObservations::default()
        };
        let cpus = vec![at(20, 100), CpuObservations::default(), at(10, 30)];
        let observations = Observations { cpus, ..Observations::default() };
        assert_eq!(Saved { observations, ..Saved::default() }.interval(), (Nanos(10), Nanos(120)));
        assert_eq!(Saved::default().interval(), (Nanos(0), Nanos(0)));
    }

    #[test]
    fn the_traced_system_is_what_uname_says_in_four_words() {
        let named = |uname: Option<&str>| {
            Saved { uname: uname.map(str::to_owned), ..Saved::default() }.traced_system()
        };
        let system = named(Some("Linux box 6.12.57-rt x86_64"));
        assert_eq!(system.hostname.as_deref(), Some("box"));
        assert_eq!(system.kernel_release.as_deref(), Some("6.12.57-rt"));
        assert_eq!(system.machine.as_deref(), Some("x86_64"));
        assert_eq!(named(Some("Linux box")), SystemSnapshot::default());
        assert_eq!(named(None), SystemSnapshot::default());
    }
}
