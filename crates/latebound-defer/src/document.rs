// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documents of `defer run` and `defer advise`. Owns their JSON form; how they read is for `latebound-report`.

use std::collections::BTreeMap;
use std::time::Duration;

use latebound_model::{Load, Missing, Nanos, Run, Summary};
use schemars::JsonSchema;
use serde::Serialize;

use crate::advise::{Advice, Needs};
use crate::plan::By;
use crate::signature::Facts;
use crate::tally::SeriesTally;

/// The schema of [`DeferDocument`].
const DEFER_SCHEMA: &str = "latebound.defer/1";
/// The schema of [`AdviceDocument`].
const ADVICE_SCHEMA: &str = "latebound.advice/1";

/// The 95 % intervals of the quantiles of a latency in nanoseconds, by the quantile's name (`p99_9`). An end that cannot be known is null.
pub type Intervals = BTreeMap<&'static str, [Option<f64>; 2]>;

/// The document of `defer run`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeferDocument<'a> {
    /// `latebound.defer/1`.
    schema: &'static str,
    /// What requested and stamped: `module` or `bpf`.
    by: &'static str,
    /// Every way to put work off under every condition.
    rows: Vec<DeferRow<'a>>,
    /// For how many seconds each condition was measured, by its name.
    seconds: BTreeMap<&'a str, f64>,
    /// Triggers that came while the requester was busy with the one before, under all conditions.
    triggers_late: u64,
    /// What could not be had, and why.
    missing: &'a [Missing],
}

/// One way to put work off under one condition.
#[derive(Debug, Serialize, JsonSchema)]
struct DeferRow<'a> {
    /// The condition: `idle`, `loaded`, a load of `--each-load` or `--axes`.
    load: &'a str,
    /// The mechanism by its name on the command line.
    mechanism: &'static str,
    /// The context that requests it, by its name on the command line.
    context: &'static str,
    /// The CPU that requests.
    requested_cpu: u32,
    /// The CPU that it is requested to run on.
    cpu: u32,
    /// For how long the pool was kept busy ahead of each request; 0 where it was not.
    busy_ns: u64,
    /// The policy and priority of the thread that runs it, where that is made for the measurement and real-time: `rr 20`.
    #[serde(skip_serializing_if = "Option::is_none")]
    runner: Option<String>,
    /// From the request to the start.
    latency: Summary,
    /// The standard deviation of the latency; null for fewer than two values.
    standard_deviation_ns: Option<Nanos>,
    /// 95 % intervals of the latency's quantiles in nanoseconds, by the quantile's name. An end that cannot be known is null.
    intervals: Intervals,
    /// From the start to the end.
    execution: Summary,
    /// How often the requester was triggered.
    triggers: u64,
    /// How often it asked.
    requests: u64,
    /// How often the work started.
    starts: u64,
    /// Requests that started together with an earlier one.
    merged: u64,
    /// Requests that the kernel refused.
    refused: u64,
    /// Requests that had not started at the end.
    waiting: u32,
    /// Requests that were served, and whose start no program saw.
    unseen: u64,
    /// Starts without a request.
    empty_starts: u64,
    /// Triggers at which an earlier request still waited, so that nothing was asked.
    turns_missed: u64,
    /// Starts whose record had no room.
    records_lost: u64,
    /// Starts on another CPU than that of the request.
    cross_cpu: u64,
    /// Starts by the thread ksoftirqd of the CPU.
    by_ksoftirqd: u64,
    /// Starts that came only when the measurement had ended and loads were taken away.
    after_end: u64,
    /// Names for what made it late, for people.
    signatures: Vec<String>,
}

impl<'a> DeferDocument<'a> {
    /// Without a condition yet.
    pub fn new(by: By, missing: &'a [Missing]) -> DeferDocument<'a> {
        let (rows, seconds) = (Vec::new(), BTreeMap::new());
        DeferDocument { schema: DEFER_SCHEMA, by: by.name(), rows, seconds, triggers_late: 0, missing }
    }

    /// With all that was measured under this condition in this time.
    pub fn add(
        &mut self,
        condition: &'a str,
        took: Duration,
        measured: &[SeriesTally],
        facts: &Facts,
        intervals: impl Fn(&SeriesTally) -> Intervals,
    ) {
        self.seconds.insert(condition, took.as_secs_f64());
        self.rows.extend(measured.iter().map(|one| DeferRow::of(condition, one, facts, intervals(one))));
        // Each series has the number of the whole run.
        self.triggers_late += measured.iter().map(|one| one.counts.triggers_late).max().unwrap_or(0);
    }
}

impl<'a> DeferRow<'a> {
    fn of(load: &'a str, measured: &SeriesTally, facts: &Facts, intervals: Intervals) -> DeferRow<'a> {
        let (request, counts) = (&measured.request, &measured.counts);
        DeferRow {
            load,
            mechanism: request.mechanism.name(),
            context: request.context.name(),
            requested_cpu: measured.requester.0,
            cpu: request.cpu.0,
            busy_ns: request.busy.0,
            runner: request.runner_name(),
            latency: Summary::of(&measured.latency),
            standard_deviation_ns: measured.standard_deviation(),
            intervals,
            execution: Summary::of(&measured.execution),
            triggers: counts.triggers,
            requests: counts.requests,
            starts: counts.starts,
            merged: counts.merged,
            refused: counts.refused,
            waiting: counts.waiting,
            unseen: measured.unseen,
            empty_starts: counts.empty_starts,
            turns_missed: counts.turns_missed,
            records_lost: counts.records_lost,
            cross_cpu: measured.cross_cpu,
            by_ksoftirqd: measured.by_ksoftirqd,
            after_end: measured.after_end,
            signatures: measured.signatures(facts).iter().map(ToString::to_string).collect(),
        }
    }
}

/// The document of `defer advise`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AdviceDocument<'a> {
    /// `latebound.advice/1`.
    schema: &'static str,
    /// How late a start may be.
    budget_ns: Nanos,
    /// Whether the work has to sleep.
    may_sleep: bool,
    /// The loads of the Run.
    loads: &'a [Load],
    /// Whether something emulated the processor that it was measured on.
    emulated: bool,
    /// The ways, those that met the budget first.
    rows: Vec<AdviceRow<'a>>,
}

/// One way to put work off beside what is needed.
#[derive(Debug, Serialize, JsonSchema)]
struct AdviceRow<'a> {
    /// The mechanism by its name on the command line.
    mechanism: &'static str,
    /// The context that requests it, by its name on the command line.
    context: &'static str,
    /// What else tells it from other ways: `to CPU 1, pool busy`; mostly empty.
    place: &'a str,
    /// The condition under which it was the worst.
    load: String,
    /// Whether every start came within the budget, and none was lost.
    is_met: bool,
    /// The worst latency.
    max_ns: u64,
    /// What was left of the budget at the worst start; below zero what was missing.
    margin_ns: i128,
    /// How many starts the verdict rests on.
    starts: u64,
    /// How many were later than the budget.
    late: u64,
    /// Whether some of its requests or starts were lost, so that a later one may not have been seen.
    is_lossy: bool,
    /// With 95 % confidence at least this share of starts comes within the budget, if starts are alike and independent.
    within_at_least: f64,
}

impl<'a> AdviceDocument<'a> {
    /// Of a Run.
    pub fn new(run: &'a Run, needs: &Needs, advice: &'a [Advice]) -> AdviceDocument<'a> {
        let row = |advice: &'a Advice| AdviceRow {
            mechanism: advice.mechanism.name(),
            context: advice.context.name(),
            place: &advice.place,
            load: advice.condition.to_string(),
            is_met: advice.is_met(),
            max_ns: advice.max.0,
            margin_ns: advice.margin_ns(needs.budget),
            starts: advice.starts,
            late: advice.late,
            is_lossy: advice.is_lossy,
            within_at_least: advice.share,
        };
        AdviceDocument {
            schema: ADVICE_SCHEMA,
            budget_ns: needs.budget,
            may_sleep: needs.may_sleep,
            loads: &run.loads,
            emulated: run.system.emulation.is_some(),
            rows: advice.iter().map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use latebound_abi::defer::{Record, START_OF_ITEM, TOP_HALF};
    use latebound_model::{Condition, Cpu, MissingKind, Tid};

    use super::*;
    use crate::ksoftirqd::Ksoftirqd;
    use crate::loss::loss_causes;
    use crate::lost::{LostDocument, LostTrial};
    use crate::overlay::{Align, overlays};
    use crate::plan::Request;
    use crate::timeline::{TimelineDocument, Trigger, Triggered, edges};
    use crate::train::trains;

    /// Three interrupts of two trains and the two runs that they asked for.
    fn records() -> Vec<Record> {
        let record = |kind, sequence, [requested_ns, started_ns, ended_ns]: [u64; 3], merged| Record {
            kind,
            sequence,
            requested_ns,
            started_ns,
            ended_ns,
            merged,
            ..Record::default()
        };
        vec![
            record(TOP_HALF, 1, [1_000_000, 1_000_100, 1_000_200], 0),
            record(TOP_HALF, 2, [1_010_000, 1_010_050, 1_010_200], 0),
            record(START_OF_ITEM, 1, [1_000_100, 1_020_300, 1_020_900], 1),
            record(TOP_HALF, 3, [9_000_000, 9_000_100, 9_000_200], 0),
            record(START_OF_ITEM, 2, [9_000_100, 9_000_400, 9_011_000], 0),
        ]
    }

    fn measured() -> SeriesTally {
        let request = Request {
            mechanism: "tasklet".parse().unwrap(),
            context: "hardirq".parse().unwrap(),
            cpu: Cpu(0),
            triggers: 3,
            burst: 1,
            execution: Nanos::ZERO,
            open_loop: true,
            ..crate::plan::example()
        };
        let mut measured = SeriesTally::new(request, Cpu(0), Tid(7));
        records().iter().for_each(|record| measured.add(record, &Ksoftirqd::default(), None));
        (measured.counts.requests, measured.counts.starts, measured.counts.merged) = (3, 2, 1);
        (measured.counts.triggers, measured.counts.triggers_late) = (3, 1);
        measured
    }

    fn missing() -> [Missing; 1] {
        [Missing::new(MissingKind::Mechanism, "the mechanism work_bh", "older than 6.9", "a newer kernel")]
    }

    /// What is printed, with the keys of objects in alphabetical order.
    #[track_caller]
    fn assert_printed<T: Serialize>(name: &str, document: &T) {
        let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let value = serde_json::to_value(document).unwrap();
        let text = serde_json::to_string_pretty(&value).unwrap() + "\n";
        if std::env::var_os("LATEBOUND_BLESS").is_some_and(|value| value == "1") {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "{path}");
    }

    #[test]
    fn the_document_of_a_run_is_as_it_was() {
        let (missing, both) = (missing(), [measured(), measured()]);
        let mut document = DeferDocument::new(By::Module, &missing);
        let intervals = |_: &SeriesTally| Intervals::from([("p50", [Some(300.0), None])]);
        document.add("idle", Duration::from_millis(1_500), &both[..1], &Facts::default(), intervals);
        document.add("loaded", Duration::from_secs(2), &both, &Facts::default(), intervals);
        assert_eq!(document.triggers_late, 2, "each condition counts once");
        assert_printed("defer", &document);
    }

    #[test]
    fn the_document_of_lost_raises_is_as_it_was() {
        let trial = LostTrial {
            condition: Condition::Loaded,
            with_counter: false,
            measured: measured(),
            trains: trains(&records(), 2, &Ksoftirqd::default()),
            lost_by: loss_causes(&records(), &measured().counts, &Ksoftirqd::default()),
        };
        assert_printed("lost", &LostDocument::new(2, &[trial], &missing()));
    }

    #[test]
    fn the_document_of_a_timeline_is_as_it_was() {
        let (records, ksoftirqd) = (records(), Ksoftirqd::default());
        let trains = trains(&records, 2, &ksoftirqd);
        let mut triggered = Triggered::new(Trigger::Lost, Nanos::from_millis(1));
        triggered.take(&records);
        let scope = triggered.scope(&trains, &ksoftirqd, &[], &BTreeSet::new()).unwrap();
        let edges = edges(&records);
        let mut overlays = overlays(&records, &ksoftirqd, Align::TopHalf, Nanos::from_millis(1));
        // A few columns of the picture are enough.
        for signal in overlays.iter_mut().flat_map(|overlay| &mut overlay.signals) {
            for columns in [&mut signal.running, &mut signal.idle, &mut signal.edges] {
                columns.truncate(3);
            }
        }
        let counts = measured().counts;
        let losses = (&counts, loss_causes(&records, &counts, &ksoftirqd));
        let missing = missing();
        let document = TimelineDocument::new(trains.len(), Some(&scope), &edges, &overlays, losses, &missing);
        assert_printed("timeline", &document);
    }
}
