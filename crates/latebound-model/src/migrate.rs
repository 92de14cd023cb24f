// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of older writers: facts that those wrote in words only, as fields.
//!
//! This is the one place that reads facts out of the wording of a message, a name or an id. Nothing that a field says already is touched.

use crate::cause::{Cause, CauseKind};
use crate::evidence::MissingKind;
use crate::finding::Finding;
use crate::run::{Run, RunVerb};
use crate::series::{Condition, Deferral, Series};

impl Run {
    /// Gives a Run that was read the facts that older writers had in words only. A second call changes nothing.
    pub fn migrate(&mut self) {
        for missing in self.missing.iter_mut().filter(|missing| missing.kind == MissingKind::Other) {
            if missing.what.contains("expla") {
                missing.kind = MissingKind::Explanations;
            } else if missing.what.starts_with("the load ") {
                missing.kind = MissingKind::Load;
            }
        }
        for finding in self.findings.iter_mut().filter(|finding| finding.bears_on.is_empty()) {
            finding.bears_on = bears_on(finding);
        }
        for cause in self.worst.iter_mut().flat_map(|worst| &mut worst.causes) {
            cause.migrate();
        }
        if self.verb == RunVerb::Defer {
            for series in self.series.iter_mut().filter(|series| series.condition.is_none()) {
                read_name(series);
            }
        }
    }
}

impl Cause {
    /// Gives a cause that was read the facts that older writers, and the tables of a store, have in words only. A second call changes
    /// nothing.
    pub fn migrate(&mut self) {
        self.irq = self.irq.or_else(|| irq(self));
    }
}

/// What a finding without this fact bears on, by its id.
fn bears_on(finding: &Finding) -> Vec<CauseKind> {
    use CauseKind::*;
    match finding.id.as_str() {
        "preemption-model" => vec![InterruptDelayed, Softirq, PreemptionOff],
        "kernel-debugging" => vec![InterruptDelayed, PreemptionOff],
        "tick-rate" | "nohz-full" => vec![TimerInterrupt],
        "rt-throttling" | "rt-group-scheduling" | "fair-server" => vec![Throttled],
        "cpu-quota" => vec![Quota],
        "idle-states" | "cpu-dma-latency" | "cpu-frequency" => vec![IdleExit],
        "interrupt-affinity" | "irqbalance" => vec![Interrupt, Softirq],
        "interrupt-threads" => vec![Softirq],
        "nmi-watchdog" => vec![Nmi],
        "memory-lock"
        | "swap"
        | "transparent-huge-pages"
        | "proactive-compaction"
        | "compaction-of-locked-memory"
        | "numa-balancing" => vec![Blocked],
        "steal-time" | "hypervisor" => vec![Stolen, StoodStill],
        "cpu-isolation"
        | "workqueue-cpumask"
        | "kernel-thread-priorities"
        | "softirq-above-rcu"
        | "stalld-above-kernel-threads"
        | "irq-work-below-rcu"
        | "timers-below-softirq"
        | "migration-priority"
        | "above-interrupt-threads" => vec![TaskFirst],
        _ => Vec::new(),
    }
}

/// The line of `irq 24 virtio0-req.0`.
fn irq(cause: &Cause) -> Option<u32> {
    let of_interrupt = matches!(cause.kind, CauseKind::Interrupt | CauseKind::TimerInterrupt);
    let rest = cause.subject.strip_prefix("irq ").filter(|_| of_interrupt)?;
    rest.split(' ').next()?.parse().ok()
}

/// Reads `work_highpri from hardirq, to CPU 1, pool busy, loaded`.
fn read_name(series: &mut Series) {
    let Some((way, condition)) = series.subject.name.rsplit_once(", ") else { return };
    let Some((mechanism, origin)) = way.split_once(" from ") else { return };
    let (context, place) = origin.split_once(", ").unwrap_or((origin, ""));
    let (mechanism, context, place) = (mechanism.to_owned(), context.to_owned(), place.to_owned());
    series.condition = Some(match condition {
        "idle" => Condition::Idle,
        "loaded" => Condition::Loaded,
        "no C-states" => Condition::Awake,
        "bursts" => Condition::Bursts,
        "trains" => Condition::Trains,
        load => Condition::Load(load.to_owned()),
    });
    series.deferral = Some(Deferral { mechanism, context, place });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Evidence, Histogram, Mechanism, Missing, Quantity, Severity, Subject, SystemSnapshot, Task, Tid,
    };

    fn old(value: serde_json::Value) -> Run {
        let mut run = serde_json::json!({
            "schema": crate::RUN_SCHEMA, "tool": {"name": "latebound", "version": "0"}, "verb": "check", "command": [],
            "state": "complete", "started_at": "", "started_monotonic": 0, "planned": null, "duration": 0,
            "system": SystemSnapshot::default(), "evidence": []
        });
        for (name, value) in value.as_object().unwrap() {
            run[name] = value.clone();
        }
        let mut run: Run = serde_json::from_value(run).unwrap();
        run.migrate();
        let once = run.clone();
        run.migrate();
        assert_eq!(run, once);
        run
    }

    #[test]
    fn missing_kinds_are_read_from_older_wordings_and_left_where_known() {
        let missing = |what: &str| serde_json::json!({ "what": what, "why": "", "remedy": "" });
        let mut known = missing("explanations of late wake-ups");
        known["kind"] = "names".into();
        let mut newer = missing("the load of a later version");
        newer["kind"] = "a_kind_of_a_later_version".into();
        let all = [
            missing("explanations of some late wake-ups"),
            missing("the load fork workers=2"),
            missing("locked memory"),
            known,
            newer,
        ];
        let kinds: Vec<_> =
            old(serde_json::json!({ "missing": all })).missing.iter().map(|one| one.kind).collect();
        use MissingKind::*;
        assert_eq!(kinds, [Explanations, Load, Other, Names, Load]);
    }

    #[test]
    fn a_missing_kind_keeps_its_word() {
        let missing = Missing::new(MissingKind::Explanations, "a", "b", "c");
        let value = serde_json::to_value(&missing).unwrap();
        assert_eq!(
            value,
            serde_json::json!({ "kind": "explanations", "what": "a", "why": "b", "remedy": "c" })
        );
        assert_eq!(serde_json::from_value::<Missing>(value).unwrap(), missing);
    }

    #[test]
    fn what_an_older_finding_bears_on_follows_from_its_id() {
        let finding = |id: &str| {
            serde_json::json!({
                "id": id, "severity": Severity::Warning, "title": "", "value": "", "source": "", "cost": ""
            })
        };
        let run =
            old(serde_json::json!({ "findings": [finding("preemption-model"), finding("clocksource")] }));
        let model = [CauseKind::InterruptDelayed, CauseKind::Softirq, CauseKind::PreemptionOff];
        assert_eq!(run.findings[0].bears_on, model);
        assert_eq!(run.findings[1].bears_on, []);
    }

    #[test]
    fn the_line_of_a_device_is_read_from_an_older_subject() {
        let cause = |kind, subject: &str| Cause {
            via: Vec::new(),
            kind,
            subject: subject.to_owned(),
            irq: None,
            duration: crate::Nanos::ZERO,
            spans: 0,
            task: Some(Task { tid: Tid(1), ..Task::default() }),
            group: None,
            stack: None,
            detail: None,
            idle_meanwhile: None,
        };
        assert_eq!(irq(&cause(CauseKind::Interrupt, "irq 24 virtio0-req.0")), Some(24));
        assert_eq!(irq(&cause(CauseKind::Interrupt, "irq 9")), Some(9));
        assert_eq!(irq(&cause(CauseKind::Interrupt, "local_timer")), None);
        assert_eq!(irq(&cause(CauseKind::TaskFirst, "irq 24")), None);
    }

    #[test]
    fn deferral_and_condition_are_read_from_older_names() {
        let series = |name: &str| {
            let subject = Subject { name: name.to_owned(), ..Subject::default() };
            Series::new(Mechanism::Work, Quantity::Latency, subject, Evidence::User, Histogram::new())
        };
        let names = [
            "work_highpri from hardirq, to CPU 1, pool busy, loaded",
            "tasklet from task, trains, with counter, idle",
            "tasklet from task, no C-states",
            "tasklet from task, bursts",
            "tasklet from task, trains",
            "tasklet from task, rt-hog:priority=1,busy=8ms",
        ];
        let all: Vec<Series> = names.into_iter().chain(["ipc messages"]).map(series).collect();
        let mut run = old(serde_json::json!({ "verb": "defer", "series": all }));
        let last = run.series.pop().unwrap();
        assert!(last.condition.is_none() && last.deferral.is_none());
        for (series, name) in run.series.iter().zip(names) {
            let (way, condition) = (series.deferral.as_ref().unwrap(), series.condition.as_ref().unwrap());
            assert_eq!(format!("{way}, {condition}"), name);
        }
        let conditions: Vec<Condition> =
            run.series.iter().filter_map(|series| series.condition.clone()).collect();
        use Condition::*;
        let load = Load("rt-hog:priority=1,busy=8ms".to_owned());
        assert_eq!(conditions, [Loaded, Idle, Awake, Bursts, Trains, load]);
        let way = run.series[0].deferral.clone().unwrap();
        assert_eq!((way.context.as_str(), way.place.as_str()), ("hardirq", "to CPU 1, pool busy"));
        let of_another_verb = old(serde_json::json!({ "series": all }));
        assert!(of_another_verb.series.iter().all(|series| series.condition.is_none()));
    }
}
