// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which ways met a budget, by what a Run of `defer run` measured. Pure.

use latebound_model::{Condition, Nanos, Quantity, Run};

use crate::plan::{Context, Mechanism, Runner};

/// What is needed of a way to put work off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// How late a start may be.
    pub budget: Nanos,
    /// Whether the work has to sleep: to wait for memory, a lock, a device.
    pub may_sleep: bool,
    /// From where it is requested; any place where empty.
    pub contexts: Vec<Context>,
}

/// One way beside what is needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The way.
    pub mechanism: Mechanism,
    /// Requested from here.
    pub context: Context,
    /// The rest of what it was called: `to CPU 1, pool busy`; mostly nothing.
    pub place: String,
    /// The condition that it was measured under; where there were several, that under which it was the worst.
    pub condition: Condition,
    /// All conditions that the verdict rests on, in the order in which they were measured.
    pub conditions: Vec<Condition>,
    /// How many starts the verdict rests on.
    pub starts: u64,
    /// How many were later than the budget.
    pub late: u64,
    /// The worst.
    pub max: Nanos,
    /// Whether some of its requests or starts were lost, so that a later one may not have been seen.
    pub is_lossy: bool,
    /// With 95 % confidence at least this share of starts comes within the budget, if starts are alike and independent.
    pub share: f64,
}

impl Advice {
    /// Whether every start came within the budget, and none was lost.
    pub fn is_met(&self) -> bool {
        self.late == 0 && self.starts > 0 && !self.is_lossy
    }

    /// What people call it: `work_highpri from hardirq, to CPU 1`.
    pub fn way(&self) -> String {
        let comma = if self.place.is_empty() { "" } else { ", " };
        format!("{} from {}{comma}{}", self.mechanism, self.context, self.place)
    }

    /// What was left of the budget at the worst start; below zero what was missing.
    pub fn margin_ns(&self, budget: Nanos) -> i128 {
        i128::from(budget.0) - i128::from(self.max.0)
    }
}

impl Mechanism {
    /// Whether work that it runs is allowed to sleep. Work items of softirq context and everything that runs in a softirq or
    /// an interrupt is not.
    pub fn may_sleep(self) -> bool {
        match self.runner() {
            Runner::Caller | Runner::Interrupt | Runner::Softirq => false,
            Runner::InterruptThread
            | Runner::Worker
            | Runner::KernelThread
            | Runner::TaskWork
            | Runner::UserThread => true,
        }
    }
}

/// The ways that can do what is needed, under the loads where the Run has any: those that met the budget before those that
/// did not, the smallest maximum first. What is no deferral at all (the plain call, a thread of user space) is left out.
pub fn advise(run: &Run, needs: &Needs) -> Vec<Advice> {
    let mut all: Vec<Advice> = run
        .series
        .iter()
        .filter(|series| series.quantity == Quantity::Latency)
        .filter_map(|series| {
            let (way, condition) = (series.deferral.as_ref()?, series.condition.clone()?);
            let (mechanism, context) = (way.mechanism.parse().ok()?, way.context.parse().ok()?);
            let histogram = &series.histogram;
            let starts = histogram.count();
            // A bucket that the budget lies in counts as late: the verdict errs on the safe side.
            let late = histogram
                .buckets()
                .filter(|bucket| bucket.high > needs.budget)
                .map(|bucket| bucket.count)
                .sum();
            let max = histogram.max()?;
            // Exact where the maximum value decides.
            let late = if max <= needs.budget { 0 } else { late };
            Some(Advice {
                mechanism,
                context,
                place: way.place.clone(),
                conditions: vec![condition.clone()],
                condition,
                starts,
                late,
                max,
                is_lossy: series.losses.iter().any(|loss| loss.count != Some(0)),
                share: at_least(starts, late),
            })
        })
        .filter(|advice| !matches!(advice.mechanism.runner(), Runner::Caller | Runner::UserThread))
        .filter(|advice| !needs.may_sleep || advice.mechanism.may_sleep())
        .filter(|advice| needs.contexts.is_empty() || needs.contexts.contains(&advice.context))
        .collect();
    if all.iter().any(|advice| advice.condition != Condition::Idle) {
        all.retain(|advice| advice.condition != Condition::Idle);
    }
    let mut all = worst_of_each(all);
    all.sort_by_key(|advice| (!advice.is_met(), advice.max, advice.mechanism, advice.context));
    all
}

/// Of each way that under which load it was the worst; lossy where it was so under any.
fn worst_of_each(all: Vec<Advice>) -> Vec<Advice> {
    let mut worst: Vec<Advice> = Vec::new();
    for advice in all {
        let is_same = |other: &&mut Advice| {
            (other.mechanism, other.context, &other.place)
                == (advice.mechanism, advice.context, &advice.place)
        };
        match worst.iter_mut().find(is_same) {
            None => worst.push(advice),
            Some(other) => {
                let is_lossy = other.is_lossy || advice.is_lossy;
                let mut conditions = std::mem::take(&mut other.conditions);
                conditions.extend(advice.conditions.iter().cloned());
                if (advice.max, advice.late) > (other.max, other.late) {
                    *other = advice;
                }
                (other.is_lossy, other.conditions) = (is_lossy, conditions);
            }
        }
    }
    worst
}

/// The share of starts that come within the budget, at least, with 95 % confidence, where `late` of `starts` did not.
/// Exact for none (1 − s^n = 0.05); else Wilson's score interval, one-sided ("Probable inference, the law of succession,
/// and statistical inference", 1927).
fn at_least(starts: u64, late: u64) -> f64 {
    if starts == 0 {
        return 0.0;
    }
    let n = starts as f64;
    if late == 0 {
        return 0.05f64.powf(1.0 / n);
    }
    // The 95 % quantile of the normal distribution.
    let z = 1.644_853_626_951_472_2;
    let p = 1.0 - late as f64 / n;
    let centre = p + z * z / (2.0 * n);
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    ((centre - half) / (1.0 + z * z / n)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::{Cpu, Evidence, Histogram, Series, Subject};
    use proptest::prelude::*;

    #[test]
    fn the_share_is_that_of_the_textbooks() {
        // The rule of three: none of 3 000 is about 3/3 000; exactly 1 - 0.05^(1/3000) = 0.00099807.
        assert!((1.0 - at_least(3_000, 0) - 0.000_998_075).abs() < 1e-8);
        // Wilson, one-sided 95 %, 10 of 100 late: (0.913528 - 0.051166) / 1.027055.
        assert!((at_least(100, 10) - 0.839_645).abs() < 1e-4, "{}", at_least(100, 10));
        assert!(at_least(0, 0) < f64::EPSILON);
    }

    #[test]
    fn what_sleeps_is_what_a_thread_runs() {
        let sleepers: Vec<&str> =
            Mechanism::all().filter(|mechanism| mechanism.may_sleep()).map(Mechanism::name).collect();
        assert_eq!(
            sleepers,
            [
                "work",
                "work_highpri",
                "work_unbound",
                "work_delayed",
                "work_ordered",
                "private",
                "private_highpri",
                "private_unbound",
                "kthread",
                "kthread_worker",
                "irq_thread",
                "task_work",
                "user",
                "bpf_wq",
                "timerfd",
                "perf_overflow",
                "direct_io"
            ]
        );
    }

    proptest! {
        #[test]
        fn an_older_series_name_migrates_to_what_was_requested(
            mechanism in 0..Mechanism::all().count(), context in 0..3usize, cpu in 0u32..3, busy: bool, loaded: bool,
        ) {
            let request = crate::Request {
                mechanism: Mechanism::all().nth(mechanism).unwrap(),
                context: Context::all().nth(context).unwrap(),
                cpu: Cpu(cpu),
                triggers: 1,
                burst: 1,
                execution: Nanos::ZERO,
                busy: Nanos(u64::from(busy)),
                open_loop: false,
                counter: false,
                fixed_work: false,
                runner: None,
            };
            let load = if loaded { Condition::Loaded } else { Condition::Idle };
            let written = crate::SeriesTally::new(request, Cpu(0), latebound_model::Tid(0)).series(None, &load);
            let mut older = run(written.to_vec());
            for series in &mut older.series {
                (series.deferral, series.condition) = (None, None);
            }
            older.migrate();
            prop_assert_eq!(&older.series, &written);
            let way = older.series[0].deferral.clone().unwrap();
            prop_assert_eq!(way.mechanism.parse::<Mechanism>().unwrap(), request.mechanism);
            prop_assert_eq!(way.context.parse::<Context>().unwrap(), request.context);
            prop_assert_eq!(way.to_string(), request.label(Cpu(0)));
        }
    }

    fn series(name: &str, values: &[(u64, u64)]) -> Series {
        let mut histogram = Histogram::new();
        values.iter().for_each(|(micros, count)| histogram.record_n(Nanos::from_micros(*micros), *count));
        let subject = Subject { name: name.to_owned(), ..Subject::default() };
        Series::new(latebound_model::Mechanism::Work, Quantity::Latency, subject, Evidence::User, histogram)
    }

    /// The minimum of a Run that has to be there.
    fn run(series: Vec<Series>) -> Run {
        let mut run: Run = serde_json::from_value(serde_json::json!({
            "schema": "latebound.run/1", "tool": {"name": "latebound", "version": "0"}, "verb": "defer", "command": [],
            "state": "complete", "started_at": "", "started_monotonic": 0, "planned": null, "duration": 0,
            "system": latebound_model::SystemSnapshot::default(), "evidence": []
        }))
        .unwrap();
        run.series = series;
        run.migrate();
        run
    }

    #[test]
    fn of_several_loads_the_one_that_made_a_way_most_late_decides() {
        let run = run(vec![
            series("work from hardirq, idle", &[(900, 5)]),
            series("work from hardirq, cpu:threads=4", &[(10, 1_000)]),
            series("work from hardirq, rt-hog:priority=1,busy=8ms,period=10ms", &[(10, 999), (80, 1)]),
            series("work from hardirq, no C-states", &[(5, 1_000)]),
            series("tasklet from hardirq, cpu:threads=4", &[(3, 1_000)]),
            series("tasklet from hardirq, no C-states", &[(2, 1_000)]),
        ]);
        let needs = Needs { budget: Nanos::from_micros(50), ..Needs::default() };
        let advice = advise(&run, &needs);
        let conditions =
            |at: usize| advice[at].conditions.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(conditions(0), ["cpu:threads=4", "no C-states"]);
        assert_eq!(conditions(1), ["cpu:threads=4", "rt-hog:priority=1,busy=8ms,period=10ms", "no C-states"]);
        let said: Vec<(String, String, u64, u64)> = advice
            .into_iter()
            .map(|one| (one.mechanism.to_string(), one.condition.to_string(), one.max.0 / 1_000, one.late))
            .collect();
        let text = |name: &str, load: &str, max, late| (name.to_owned(), load.to_owned(), max, late);
        assert_eq!(
            said,
            [
                text("tasklet", "cpu:threads=4", 3, 0),
                text("work", "rt-hog:priority=1,busy=8ms,period=10ms", 80, 1)
            ]
        );
    }

    #[test]
    fn only_what_met_the_budget_under_load_with_nothing_lost_is_advised() {
        let mut lossy = series("private from hardirq, loaded", &[(5, 1_000)]);
        lossy.losses.push(latebound_model::Loss {
            kind: latebound_model::LossKind::RingFull,
            place: String::new(),
            count: Some(1),
        });
        let run = run(vec![
            series("work from hardirq, idle", &[(10, 1_000)]),
            series("work from hardirq, loaded", &[(10, 999), (950_000, 1)]),
            series("kthread from hardirq, loaded", &[(20, 500), (49, 500)]),
            series("kthread_worker from hardirq, loaded", &[(20, 999), (50, 1)]),
            series("tasklet from hardirq, loaded", &[(3, 1_000)]),
            series("direct from hardirq, loaded", &[(1, 1_000)]),
            lossy,
        ]);
        let needs = |may_sleep| Needs { budget: Nanos::from_micros(50), may_sleep, contexts: vec![] };
        let names = |advice: &[Advice]| {
            advice.iter().map(|advice| (advice.mechanism.name(), advice.is_met())).collect::<Vec<_>>()
        };
        let any = advise(&run, &needs(false));
        assert_eq!(
            names(&any),
            [
                ("tasklet", true),
                ("kthread", true),
                ("kthread_worker", true),
                ("private", false),
                ("work", false)
            ]
        );
        let sleeping = advise(&run, &needs(true));
        assert_eq!(sleeping[0].mechanism.name(), "kthread");
        assert_eq!(sleeping[0].margin_ns(Nanos::from_micros(50)), 1_000);
        assert_eq!(sleeping[1].margin_ns(Nanos::from_micros(50)), 0);
        assert_eq!((sleeping[3].late, sleeping[3].starts), (1, 1_000));
    }
}
