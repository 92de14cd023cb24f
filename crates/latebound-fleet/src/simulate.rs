// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of a fleet that does not exist: the same for the same seed, with tails as machines have them.
//!
//! Owns the model behind them, so that a store of any size can be tried before there are machines: wake-up latencies are mixtures of
//! log-normal distributions (a body, interruptions, a tail), which differ by kernel, processor, host and CPU; a part of the hosts gets
//! another governor at some time, and with it a longer tail. What is planted is in the settings, so that a question has an answer. Every
//! host is called `sim-`, so that nobody takes it for a measurement. It never reads a clock or a file.

use jiff::Timestamp;
use latebound_model::{
    BUCKET_COUNT, BlockMaxima, Bound, Cause, CauseKind, Cpu, CpuBound, CpuSet, Evidence, Explanation,
    Histogram, Loss, LossKind, MeasureSettings, MeasuredWakeup, Mechanism, Membership, Nanos, Policy,
    PreemptionModel, Quantity, Run, RunState, RunVerb, Series, Span, Subject, SystemSnapshot, Task, Tid,
    Verdict, ViewKind, bucket_bounds,
};
use rand::rngs::Xoshiro256PlusPlus as Chance;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal, Poisson};
use statrs::distribution::{ContinuousCDF, LogNormal as LogNormalCdf};

use crate::partition::Day;

/// A bucket that is expected to hold fewer values than this is drawn together with the others of its kind.
const SPARSE: f64 = 0.5;

/// One maximum for so much time.
const BLOCK: Nanos = Nanos(60_000_000_000);

/// A fleet that does not exist.
#[derive(Clone, Debug)]
pub struct SimulatedFleet {
    /// How many CPUs a host has.
    pub cpus: u32,
    /// The day on which everything begins.
    pub day: Day,
    /// How long a Run is, in microseconds; whole minutes.
    pub interval_us: i64,
    /// How many Runs a host makes.
    pub intervals: u32,
    /// How many wake-ups each CPU has in a second.
    pub wakeups_per_second: u32,
    /// What the chance begins with.
    pub seed: u64,
}

/// How often a value falls into each bucket.
#[derive(Clone, Debug)]
struct Profile {
    /// Buckets that are expected to hold many values, with the expected number.
    dense: Vec<(usize, f64)>,
    /// The other buckets, with the expected number of values in them and all before.
    sparse: Vec<(usize, f64)>,
}

/// A log-normal part of a distribution.
#[derive(Clone, Copy, Debug)]
struct Part {
    share: f64,
    median_ns: f64,
    sigma: f64,
}

impl Profile {
    fn of(parts: &[Part], values: f64) -> Profile {
        let mut profile = Profile { dense: Vec::new(), sparse: Vec::new() };
        let laws: Vec<_> = parts
            .iter()
            .filter_map(|part| {
                Some((part.share, LogNormalCdf::new(part.median_ns.max(1.0).ln(), part.sigma).ok()?))
            })
            .collect();
        let below = |ns: f64| laws.iter().map(|(share, law)| share * law.cdf(ns)).sum::<f64>();
        let (mut before, mut all_sparse) = (0.0, 0.0);
        for index in 0..BUCKET_COUNT {
            let (_, high) = bucket_bounds(index);
            // A second is later than anything that these parts have.
            if high > 1_000_000_000 {
                break;
            }
            let until = below(high as f64 + 1.0);
            let expected = (until - before) * values;
            before = until;
            if expected >= SPARSE {
                profile.dense.push((index, expected));
            } else if expected > 0.0 {
                all_sparse += expected;
                profile.sparse.push((index, all_sparse));
            }
        }
        profile
    }

    /// Values by bucket, in the order of the buckets, and the rare ones one by one.
    fn draw(&self, chance: &mut Chance) -> (Vec<(usize, u64)>, Vec<u64>) {
        let dense = self.dense.iter().map(|&(index, expected)| (index, poisson(chance, expected)));
        let mut counts: Vec<(usize, u64)> = dense.filter(|&(_, count)| count > 0).collect();
        let all = self.sparse.last().map_or(0.0, |last| last.1);
        let mut rare = Vec::new();
        for _ in 0..poisson(chance, all) {
            let at = chance.random::<f64>() * all;
            let place = self.sparse.partition_point(|&(_, until)| until < at);
            let Some(&(index, _)) = self.sparse.get(place) else { continue };
            match counts.binary_search_by_key(&index, |&(index, _)| index) {
                Ok(at) => counts[at].1 += 1,
                Err(at) => counts.insert(at, (index, 1)),
            }
            let (low, high) = bucket_bounds(index);
            rare.push(chance.random_range(low..=high));
        }
        (counts, rare)
    }
}

fn poisson(chance: &mut Chance, expected: f64) -> u64 {
    Poisson::new(expected).map_or(0, |law| law.sample(chance) as u64)
}

/// A host that does not exist.
#[derive(Debug)]
pub struct SimulatedHost<'f> {
    fleet: &'f SimulatedFleet,
    number: u32,
    name: String,
    kernel: &'static str,
    processor: &'static str,
    /// From which Run on it has the other governor.
    changes_at: Option<u32>,
    /// Of each CPU, before and after the change.
    profiles: Vec<[Profile; 2]>,
}

const KERNELS: [&str; 3] = ["6.1.0-rt-sim", "6.12.0-rt-sim", "6.12.0-sim"];
const PROCESSORS: [&str; 2] = ["Simulated processor A", "Simulated processor B"];

impl SimulatedFleet {
    /// A host by its number.
    pub fn host(&self, number: u32) -> SimulatedHost<'_> {
        let mut chance = self.chance(number, u32::MAX);
        let kernel = KERNELS[chance.random_range(0..KERNELS.len())];
        let processor = PROCESSORS[chance.random_range(0..PROCESSORS.len())];
        let spread = LogNormal::new(0.0, 0.15).ok();
        let mut factor = || spread.map_or(1.0, |law: LogNormal<f64>| law.sample(&mut chance));
        let of_host = factor() * if processor.ends_with('B') { 1.3 } else { 1.0 };
        let of_cpus: Vec<f64> = (0..self.cpus).map(|_| of_host * factor()).collect();
        let changes = chance.random_bool(0.125) && self.intervals > 1;
        let changes_at = changes.then(|| chance.random_range(1..self.intervals));
        let bad = chance.random_bool(0.05).then(|| chance.random_range(0..self.cpus.max(1)));
        let values = f64::from(self.wakeups_per_second) * self.interval_us as f64 / 1e6;
        let real_time = kernel.contains("-rt-");
        let profile = |factor: f64, tail: f64| {
            let (share, median_ns, sigma) =
                if real_time { (1e-6, 40_000.0, 0.3) } else { (2e-5, 120_000.0, 0.8) };
            let parts = [
                Part { share: 0.99, median_ns: 5_000.0 * factor, sigma: 0.2 },
                Part { share: 0.01 - share, median_ns: 14_000.0 * factor, sigma: 0.25 },
                Part { share, median_ns: median_ns * factor * tail, sigma },
            ];
            Profile::of(&parts, values)
        };
        let profiles = (0u32..)
            .zip(&of_cpus)
            .map(|(cpu, &factor)| {
                let tail = if bad == Some(cpu) { 4.0 } else { 1.0 };
                [profile(factor, tail), profile(factor * 2.0, tail * 2.0)]
            })
            .collect();
        let name = format!("sim-{number:05}");
        SimulatedHost { fleet: self, number, name, kernel, processor, changes_at, profiles }
    }

    fn chance(&self, host: u32, interval: u32) -> Chance {
        let which = u64::from(host) << 32 | u64::from(interval);
        Chance::seed_from_u64(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ which)
    }
}

impl SimulatedHost<'_> {
    /// The number of the Run from which on it has the governor `powersave` and twice the latencies, where it changes.
    pub fn changes_at(&self) -> Option<u32> {
        self.changes_at
    }

    /// One of its Runs, of one interval.
    pub fn run(&self, interval: u32) -> Run {
        let fleet = self.fleet;
        let mut chance = fleet.chance(self.number, interval);
        let changed = self.changes_at.is_some_and(|at| interval >= at);
        let start_us = fleet.day.start_us() + i64::from(interval) * fleet.interval_us;
        let duration = Nanos(fleet.interval_us.unsigned_abs() * 1000);
        let started = Nanos(1_000_000_000 + u64::from(interval) * duration.0);
        let (mut series, mut worst) = (Vec::new(), None);
        for (cpu, profiles) in (0u32..).map(Cpu).zip(&self.profiles) {
            let (counts, rare) = profiles[usize::from(changed)].draw(&mut chance);
            let Some(one) = one_series(cpu, &counts, &rare, started, duration, &mut chance) else { continue };
            let max = one.summary.max.unwrap_or_default();
            if worst.as_ref().is_none_or(|&(_, longest)| max > longest) {
                worst = Some((cpu, max));
            }
            series.push(one);
        }
        let worst: Vec<_> = worst
            .map(|(cpu, max)| explanation(cpu, max, started, duration, &mut chance))
            .into_iter()
            .collect();
        let real_time = self.kernel.contains("-rt-");
        let bound = (real_time && interval == 0).then(|| bound(&series));
        let mut losses = Vec::new();
        if chance.random_bool(0.02) {
            let count = chance.random_bool(0.9).then(|| chance.random_range(1..500));
            losses.push(Loss { kind: LossKind::Overwritten, place: "recorder, CPU 0".to_owned(), count });
        }
        Run {
            command: vec!["latebound".to_owned(), "measure".to_owned()],
            state: RunState::Complete,
            started_at: Timestamp::from_microsecond(start_us).map(|at| at.to_string()).unwrap_or_default(),
            started_monotonic: started,
            planned: Some(duration),
            duration,
            system: self.system(changed),
            measure: Some(MeasureSettings {
                cpus: CpuSet::new((0..fleet.cpus).map(Cpu)),
                policy: Policy::Fifo,
                priority: 80,
                period: Nanos(1_000_000_000 / u64::from(fleet.wakeups_per_second.max(1))),
                offset: Nanos::ZERO,
                c_states: latebound_model::CStateControl::Untouched,
                block: BLOCK,
                timer_slack: None,
            }),
            series,
            worst,
            bound,
            losses,
            ..Run::new(RunVerb::Measure, "latebound", env!("CARGO_PKG_VERSION"))
        }
    }

    fn system(&self, changed: bool) -> SystemSnapshot {
        let governor = if changed { "powersave" } else { "performance" };
        let preemption =
            if self.kernel.contains("-rt-") { PreemptionModel::Rt } else { PreemptionModel::Full };
        SystemSnapshot {
            hostname: Some(self.name.clone()),
            kernel_release: Some(self.kernel.to_owned()),
            machine: Some("x86_64".to_owned()),
            preemption: Some(preemption),
            hz: Some(250),
            cpu_model: Some(self.processor.to_owned()),
            online: Some(CpuSet::new((0..self.fleet.cpus).map(Cpu))),
            memory_bytes: Some(256 << 30),
            governor: Some(governor.to_owned()),
            ..SystemSnapshot::default()
        }
    }
}

fn one_series(
    cpu: Cpu,
    counts: &[(usize, u64)],
    rare: &[u64],
    started: Nanos,
    duration: Nanos,
    chance: &mut Chance,
) -> Option<Series> {
    let (&(first, _), &(last, _)) = counts.first().zip(counts.last())?;
    let within = |index: usize, chance: &mut Chance| {
        let (low, high) = bucket_bounds(index);
        chance.random_range(low..=high)
    };
    let of_bucket = |index: usize| {
        let (low, high) = bucket_bounds(index);
        rare.iter().copied().filter(move |value| (low..=high).contains(value))
    };
    let mut min = of_bucket(first).min().unwrap_or_else(|| within(first, chance));
    let max = of_bucket(last).max().unwrap_or_else(|| within(last, chance));
    min = min.min(max);
    let middle = |index: usize| {
        let (low, high) = bucket_bounds(index);
        u128::from(low.midpoint(high))
    };
    let sum = counts.iter().map(|&(index, count)| middle(index) * u128::from(count)).sum();
    let histogram = Histogram::from_parts(counts.iter().copied(), Nanos(min), Nanos(max), sum)?;
    let subject = Subject { name: "measure".to_owned(), cpu: Some(cpu), ..Subject::default() };
    // Rare values fall into some block; a block without one has a common value as its maximum.
    let common = histogram.quantile(0.999).unwrap_or(Nanos(min));
    let blocks = usize::try_from((duration.0 / BLOCK.0).max(1)).unwrap_or(1);
    let mut maxima = vec![Some(common.min(Nanos(max))); blocks];
    for &value in rare.iter().chain([&max]) {
        let block = &mut maxima[chance.random_range(0..blocks)];
        *block = (*block).max(Some(Nanos(value)));
    }
    let block_maxima = BlockMaxima { block: BLOCK, start: started, maxima };
    let new = Series::new(Mechanism::TimerWakeup, Quantity::Latency, subject, Evidence::User, histogram);
    Some(Series { block_maxima: Some(block_maxima), ..new })
}

fn task(tid: i32, comm: &str) -> Task {
    Task { tid: Tid(tid), comm: comm.into(), policy: None, prio: None, kernel: false }
}

fn explanation(
    cpu: Cpu,
    latency: Nanos,
    started: Nanos,
    duration: Nanos,
    chance: &mut Chance,
) -> Explanation {
    let late = Task { policy: Some(Policy::Fifo), ..task(100, "measure") };
    let other = task(200, "backup");
    let (kind, subject, who) = match chance.random_range(0..4) {
        0 => (CauseKind::Interrupt, "irq 24 nvme0q1", None),
        1 | 2 => (CauseKind::Softirq, "NET_RX", None),
        _ => (CauseKind::PreemptionOff, "backup", Some(other.clone())),
    };
    let requested_at = Nanos(started.0 + chance.random_range(0..duration.0.max(1)));
    let at = |ns: u64| Nanos(requested_at.0 + ns);
    let first = latency.0 * 7 / 10;
    let second = latency.0 / 4;
    let cause = |kind, subject: &str, ns, task| Cause {
        kind,
        subject: subject.to_owned(),
        irq: None,
        via: Vec::new(),
        duration: Nanos(ns),
        spans: 1,
        task,
        group: None,
        stack: None,
        detail: None,
        idle_meanwhile: None,
    };
    let causes = vec![
        cause(kind, subject, first, who),
        cause(CauseKind::IdleExit, "C6", second, None),
        cause(CauseKind::Unaccounted, "", latency.0 - first - second, None),
    ];
    let ends = [second, second + first, latency.0];
    let spans = [1, 0, 2].into_iter().zip([0, ends[0], ends[1]]).zip(ends);
    let member =
        |task: &Task, group: &str| Membership { tid: task.tid, process: task.tid, group: group.to_owned() };
    Explanation {
        series: Series::id_of(
            Mechanism::TimerWakeup,
            Quantity::Latency,
            &Subject { name: "measure".to_owned(), cpu: Some(cpu), ..Subject::default() },
        ),
        mechanism: Mechanism::TimerWakeup,
        cpu,
        requested_at,
        started_at: at(latency.0),
        ended_at: None,
        open: false,
        spans: spans.map(|((cause, start), end)| Span { start: at(start), end: at(end), cause }).collect(),
        causes,
        signatures: Vec::new(),
        standstills: Vec::new(),
        members: vec![
            member(&late, "/system.slice/control.service"),
            member(&other, "/system.slice/backup.service"),
        ],
        task: late,
        losses: Vec::new(),
    }
}

fn bound(series: &[Series]) -> Bound {
    let cpus = series.iter().filter_map(|one| {
        let max = one.summary.max?;
        let mut cpu = CpuBound { cpu: one.subject.cpu?, interference_free: max, ..CpuBound::default() };
        for (kind, times) in (2u64..).zip(ViewKind::ALL).map(|(times, kind)| (kind, times)) {
            cpu.views.get_mut(kind).latency = Some(Nanos(max.0 * times / 2));
            cpu.views.get_mut(kind).converged = true;
        }
        cpu.measured = Some(MeasuredWakeup {
            latency: max,
            woken: Nanos::ZERO,
            tid: Tid(100),
            comm: "measure".to_owned(),
            from_idle: true,
        });
        Some(cpu)
    });
    Bound {
        schema: latebound_model::BOUND_SCHEMA.to_owned(),
        verdict: Verdict::Bound,
        reasons: Vec::new(),
        notes: Vec::new(),
        evidence: Evidence::Bound,
        view: ViewKind::SlidingWindow,
        cpus: cpus.collect(),
        violations: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

    use super::*;
    use std::collections::BTreeMap;

    fn fleet(seed: u64) -> SimulatedFleet {
        SimulatedFleet {
            cpus: 3,
            day: "2026-11-26".parse().unwrap(),
            interval_us: 60_000_000,
            intervals: 4,
            wakeups_per_second: 1000,
            seed,
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_fleet_and_another_another() {
        let run = |seed| fleet(seed).host(5).run(2);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1).series, run(2).series);
        assert_ne!(fleet(1).host(5).run(2).series, fleet(1).host(5).run(3).series);
        assert_ne!(fleet(1).host(5).run(2).series, fleet(1).host(6).run(2).series);
    }

    #[test]
    fn a_run_holds_as_many_values_as_there_were_wakeups() {
        for host in 0..20 {
            let run = fleet(3).host(host).run(0);
            assert_eq!(run.series.len(), 3);
            for series in &run.series {
                let count = series.histogram.count() as f64;
                // Poisson: 6 standard deviations of 60 000.
                assert!((count - 60_000.0).abs() < 6.0 * 60_000f64.sqrt(), "{count}");
                let maxima = &series.block_maxima.as_ref().unwrap().maxima;
                assert_eq!(maxima.iter().flatten().max().copied(), series.summary.max);
            }
            let longest = run.series.iter().filter_map(|series| series.summary.max).max();
            let worst = &run.worst[0];
            assert_eq!(Some(worst.length()), longest);
            let spans: u64 = worst.spans.iter().map(|span| span.end.0 - span.start.0).sum();
            let causes: u64 = worst.causes.iter().map(|cause| cause.duration.0).sum();
            assert_eq!((spans, causes), (worst.length().0, worst.length().0));
        }
    }

    #[test]
    fn the_planted_governor_makes_the_tail_longer_and_is_said() {
        let fleet = fleet(4);
        let mut changed = 0;
        for host in (0..100).map(|number| fleet.host(number)) {
            let Some(at) = host.changes_at() else { continue };
            changed += 1;
            let (before, after) = (host.run(at - 1), host.run(at));
            let governor = |run: &Run| run.system.governor.clone().unwrap();
            assert_eq!([governor(&before), governor(&after)], ["performance", "powersave"]);
            let median = |run: &Run| run.series[0].summary.p50.unwrap().0 as f64;
            let times = median(&after) / median(&before);
            assert!((1.8..2.2).contains(&times), "{times}");
        }
        assert!((3..30).contains(&changed), "{changed} of 100");
    }

    #[test]
    fn a_kernel_that_is_not_real_time_has_the_longer_tail() {
        let fleet = SimulatedFleet { interval_us: 3_600_000_000, ..fleet(5) };
        let mut by_kernel: BTreeMap<bool, Vec<u64>> = BTreeMap::new();
        for number in 0..30 {
            let run = fleet.host(number).run(0);
            let real_time = run.system.preemption == Some(PreemptionModel::Rt);
            let max = run.series.iter().filter_map(|series| series.summary.max).max().unwrap();
            by_kernel.entry(real_time).or_default().push(max.0);
        }
        let median = |real_time| {
            let mut values = by_kernel[&real_time].clone();
            values.sort_unstable();
            values[values.len() / 2]
        };
        assert!(median(false) > 4 * median(true), "{} and {}", median(false), median(true));
    }
}
