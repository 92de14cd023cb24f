// SPDX-License-Identifier: MIT OR Apache-2.0
//! Systems that are made up, so that the truth about them is known: Runs of them, and how often what `compare` says of the
//! Runs is true. Seeded, so that they repeat. The bench `benches/compare-truth` and a test share it.

use latebound_compare::{Against, Forecast, Options, Side, VerdictWord, compare};
use latebound_model::{
    BlockMaxima, Censored, Cpu, Evidence, Histogram, Loss, LossKind, Mechanism, Nanos, Quantity, Run,
    RunState, RunVerb, Series, Subject,
};

/// splitmix64 (Steele, Lea and Flood 2014), and the second of the last two normal values.
pub(crate) struct Random(u64, Option<f64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed, None)
    }

    /// From 0 to 1, without either.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller 1958): they come in twos.
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(second) = self.1.take() {
            return second;
        }
        let far = (-2.0 * self.next().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.next()).sin_cos();
        self.1 = Some(far * sine);
        far * cosine
    }
}

/// The way of a drift.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Along {
    Line,
    /// Slow, then fast.
    Square,
    /// All at once, after the middle.
    Step,
    /// Up and down so many times.
    Waves(f64),
}

impl Along {
    /// Where the drift is, from the first Run (0) to the last (1).
    fn at(self, at: f64) -> f64 {
        match self {
            Along::Line => at,
            Along::Square => at * at,
            Along::Step => f64::from(u8::from(at > 0.5)),
            Along::Waves(waves) => (at * waves * std::f64::consts::TAU).sin(),
        }
    }
}

/// The order in which Runs are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// base, new, base, new.
    Turns,
    /// base, new, new, base.
    Mirrored,
    /// One side wholly before the other.
    Blocks,
    Random,
    /// By turns, and the Runs do not say when they began.
    Unknown,
}

/// A system. All spreads are standard deviations of logarithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System {
    /// The middle of the body, in nanoseconds, and its spread.
    pub(crate) body: (f64, f64),
    /// The share of values in the tail, where it begins, and the index of its Pareto law.
    pub(crate) tail: (f64, f64, f64),
    /// How many values in a row are of the tail once one is.
    pub(crate) burst: f64,
    /// How far a Run as a whole is moved, and its tail beside.
    pub(crate) scatter: (f64, f64),
    /// The share of Runs that are ten times as late.
    pub(crate) stalls: f64,
    /// How a Run's move depends on the Run before it.
    pub(crate) memory: f64,
    /// How far the logarithm moves from the first Run to the last, and along what.
    pub(crate) drift: f64,
    pub(crate) along: Along,
    /// In what order the Runs of the sides are taken.
    pub(crate) order: Order,
    /// How far Runs are moved upwards alone: the mean of an exponential law.
    pub(crate) upwards: f64,
    /// The share of values that are zero.
    pub(crate) zeros: f64,
    /// By what share at most a Run is shorter than planned, at random.
    pub(crate) shorter: f64,
    /// How far the level swings within a Run, slowly.
    pub(crate) swing: f64,
    /// Over how many values.
    pub(crate) period: f64,
    /// The source counts whole units of this many nanoseconds; 1 where it does not round.
    pub(crate) unit: u64,
    /// Values above are counted and not kept.
    pub(crate) clip: Option<u64>,
    pub(crate) cpus: u32,
    /// Mechanisms of the kernel that are timed beside.
    pub(crate) mechanisms: u32,
}

/// Around 30 us, two values of a hundred from a heavy tail.
pub(crate) const PLAIN: System = System {
    body: (30_000.0, 0.1),
    tail: (0.02, 60_000.0, 1.5),
    burst: 1.0,
    scatter: (0.05, 0.15),
    stalls: 0.0,
    memory: 0.0,
    drift: 0.0,
    along: Along::Line,
    order: Order::Turns,
    upwards: 0.0,
    zeros: 0.0,
    shorter: 0.0,
    swing: 0.0,
    period: 997.0,
    unit: 1,
    clip: None,
    cpus: 1,
    mechanisms: 0,
};

/// What is done to one side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) runs: u32,
    /// Values of a Run on each CPU.
    pub(crate) values: u64,
    /// Everything is so many times as late.
    pub(crate) body: f64,
    /// The tail is so many times as late.
    pub(crate) tail: f64,
    /// The last CPU is so many times as late.
    pub(crate) last_cpu: f64,
    /// Runs scatter so many times as far.
    pub(crate) scatter: f64,
    pub(crate) clip: Option<u64>,
    /// So many Runs, the first ones, are twenty times as late.
    pub(crate) outliers: u32,
}

pub(crate) const fn plan(runs: u32, values: u64) -> Plan {
    Plan { runs, values, body: 1.0, tail: 1.0, last_cpu: 1.0, scatter: 1.0, clip: None, outliers: 0 }
}

/// What the Runs of a session have in common.
struct Session<'s> {
    system: &'s System,
    /// The move of the Run before.
    before: f64,
    /// How far the session is, 0 to 1.
    at: f64,
}

/// The values of a Run as histograms, a CPU each. `nth` counts the Runs of the side.
fn histograms(random: &mut Random, session: &mut Session<'_>, plan: &Plan, nth: u32) -> Vec<Histogram> {
    let s = session.system;
    session.before = s.memory * session.before
        + (1.0 - s.memory * s.memory).sqrt() * s.scatter.0 * plan.scatter * random.normal();
    let stall = if random.next() < s.stalls { 10.0 } else { 1.0 };
    let outlier = if nth < plan.outliers { 20.0 } else { 1.0 };
    let upwards = -s.upwards * plan.scatter * random.next().ln();
    let move_of_run = session.before + upwards + s.drift * s.along.at(session.at);
    let of_run = move_of_run.exp() * stall * outlier * plan.body;
    let values = plan.values - (plan.values as f64 * s.shorter * random.next()) as u64;
    let of_tail = of_run * (s.scatter.1 * plan.scatter * random.normal()).exp() * plan.tail;
    let phase = random.next() * std::f64::consts::TAU;
    (0..s.cpus)
        .map(|cpu| {
            let here = if cpu + 1 == s.cpus { plan.last_cpu } else { 1.0 };
            let mut histogram = Histogram::new();
            let mut left = 0.0;
            for at in 0..values {
                if left < 1.0 && random.next() < s.tail.0 / s.burst {
                    // Geometric, so that the share of the tail stays what it is.
                    left += (1.0 + random.next().ln() / (1.0 - 1.0 / s.burst.max(1.000_001)).ln())
                        .floor()
                        .max(1.0);
                }
                let swing = if s.swing > 0.0 {
                    (s.swing * (phase + at as f64 * std::f64::consts::TAU / s.period).sin()).exp()
                } else {
                    1.0
                };
                let value = if left >= 1.0 {
                    left -= 1.0;
                    s.tail.1 * of_tail * random.next().powf(-1.0 / s.tail.2).min(1e4)
                } else {
                    s.body.0 * of_run * (s.body.1 * random.normal()).exp()
                };
                let value = if s.zeros > 0.0 && random.next() < s.zeros { 0.0 } else { value };
                histogram.record(Nanos((value * swing * here) as u64 / s.unit * s.unit));
            }
            histogram
        })
        .collect()
}

fn series(
    quantity: Quantity,
    evidence: Evidence,
    name: &str,
    cpu: Option<u32>,
    histogram: Histogram,
) -> Series {
    let mechanism = if evidence == Evidence::User { Mechanism::TimerWakeup } else { Mechanism::Softirq };
    let subject = Subject { name: name.to_owned(), task: None, cpu: cpu.map(Cpu) };
    Series::new(mechanism, quantity, subject, evidence, histogram)
}

/// Without the values at or above the clip, which are counted.
fn clipped(mut one: Series, clip: Option<u64>) -> Series {
    let Some(clip) = clip else { return one };
    let mut kept = Histogram::new();
    let mut count = 0;
    for bucket in one.histogram.buckets() {
        if bucket.low.0 >= clip { count += bucket.count } else { kept.record_n(bucket.low, bucket.count) }
    }
    if count > 0 {
        one.losses.push(Loss { kind: LossKind::Clipped, place: String::new(), count: Some(count) });
        one.censored = Some(Censored { above: Nanos(clip), count });
        one.histogram = kept;
    }
    one
}

/// A Run with these series, that began at the `turn`-th minute, or nobody knows when.
pub(crate) fn run(series: Vec<Series>, turn: Option<u32>) -> Run {
    let start =
        |turn: u32| format!("2026-01-{:02}T{:02}:{:02}:00Z", 1 + turn / 1440, turn / 60 % 24, turn % 60);
    Run {
        state: RunState::Complete,
        started_at: turn.map(start).unwrap_or_default(),
        duration: Nanos::from_secs(4),
        series,
        ..Run::new(RunVerb::Measure, "latebound", "0")
    }
}

/// Which side each Run is of, in the order of time.
fn order(random: &mut Random, order: Order, plans: &[&Plan]) -> Vec<usize> {
    let most = plans.iter().map(|plan| plan.runs).max().unwrap_or(0);
    let round = |round: u32| -> Vec<usize> {
        (0..plans.len()).filter(|&side| round < plans[side].runs).collect::<Vec<usize>>()
    };
    let mut all: Vec<usize> = (0..most)
        .flat_map(|at| {
            let mut sides = round(at);
            if order == Order::Mirrored && at % 2 == 1 {
                sides.reverse();
            }
            sides
        })
        .collect();
    match order {
        Order::Blocks => all.sort_unstable(),
        Order::Random => (1..all.len()).rev().for_each(|at| {
            all.swap(at, (random.next() * (at + 1) as f64) as usize);
        }),
        Order::Turns | Order::Mirrored | Order::Unknown => {}
    }
    all
}

/// The Runs of all sides, the base first.
pub(crate) fn sides(random: &mut Random, system: &System, plans: &[&Plan]) -> Vec<Side> {
    let mut sides: Vec<Side> = (0..plans.len())
        .map(|at| Side::new(&if at == 0 { "base".to_owned() } else { format!("new{at}") }))
        .collect();
    let order = order(random, system.order, plans);
    let mut session = Session { system, before: system.scatter.0 * random.normal(), at: 0.0 };
    let mut taken = vec![0; plans.len()];
    for (turn, &side) in order.iter().enumerate() {
        let plan = plans[side];
        session.at = turn as f64 / (order.len().max(2) - 1) as f64;
        let clip = plan.clip.or(system.clip);
        let mut all_series: Vec<Series> = histograms(random, &mut session, plan, taken[side])
            .into_iter()
            .enumerate()
            .map(|(cpu, histogram)| {
                let cpu = (system.cpus > 1).then_some(cpu as u32);
                let mut one = series(Quantity::Latency, Evidence::User, "measure", cpu, histogram);
                one.resolution = (system.unit > 1).then_some(Nanos(system.unit));
                clipped(one, clip)
            })
            .collect();
        for at in 0..system.mechanisms {
            let of_run = (0.1 * plan.scatter * random.normal()).exp();
            let mut histogram = Histogram::new();
            (0..1100).for_each(|_| {
                histogram.record(Nanos((5_000.0 * of_run * (0.3 * random.normal()).exp()) as u64));
            });
            let name = format!("MECHANISM_{at}");
            all_series.push(series(Quantity::Latency, Evidence::Events, &name, None, histogram));
        }
        let began = (system.order != Order::Unknown).then_some(turn as u32);
        sides[side].add(&run(all_series, began), &turn.to_string());
        taken[side] += 1;
    }
    sides
}

/// By what comparisons are made here.
pub(crate) fn options(seed: u64) -> Options {
    Options { level: 0.05, margin: 0.05, least_effect: 0.01, seed }
}

/// Every side held against the first.
pub(crate) fn all_compared(random: &mut Random, system: &System, plans: &[&Plan], seed: u64) -> Vec<Against> {
    let mut sides = sides(random, system, plans);
    let base = sides.remove(0);
    compare(&base, &sides, &options(seed)).against
}

fn compared(random: &mut Random, system: &System, plans: [&Plan; 2], seed: u64) -> Against {
    all_compared(random, system, &plans, seed).remove(0)
}

fn is_call(verdict: VerdictWord) -> bool {
    matches!(verdict, VerdictWord::Better | VerdictWord::Worse)
}

/// What is promised of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Promise {
    /// Nothing differs: any call at all in at most 5 % of comparisons.
    Silent,
    /// The interval of the ratio of this number holds the true ratio in 95 % at least.
    Interval(&'static str),
    /// That this number differs by no more than it does is said in 5 % at most.
    Equal(&'static str),
    /// This number, or that of a CPU, is called worse in so great a share at least.
    Called(&'static str, f64),
    /// With as many Runs as a pilot of five a side advises for this number, a difference of the margin is called in 80 % at least.
    Advised(&'static str),
    /// Where there is a forecast, its interval holds the maximum value that an hour stays below with probability 1/e in 95 %.
    Forecast,
}

impl Promise {
    /// The promised rate, and whether more is better.
    pub(crate) fn rate(self) -> (f64, bool) {
        match self {
            Promise::Silent | Promise::Equal(_) => (0.05, false),
            Promise::Interval(_) | Promise::Forecast => (0.95, true),
            Promise::Called(_, rate) => (rate, true),
            Promise::Advised(_) => (0.80, true),
        }
    }
}

/// Block maxima of one second each: a generalised extreme-value law, with what makes blocks and Runs depend on each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    pub(crate) runs: u32,
    pub(crate) blocks: u32,
    pub(crate) shape: f64,
    /// Correlation of neighbouring blocks.
    pub(crate) memory: f64,
    /// Standard deviation of a Run's level, as a share of the law's scale.
    pub(crate) scatter: f64,
    /// Each value is one of whole units of this many nanoseconds.
    pub(crate) unit: u64,
    /// The share of blocks with a worst case of another kind, which lies so many scales higher.
    pub(crate) rare: (f64, f64),
    /// How far the level swings within a Run, in scales, and over how many blocks.
    pub(crate) swing: (f64, f64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) promise: Promise,
    pub(crate) system: System,
    pub(crate) plans: [Plan; 2],
    pub(crate) blocks: Option<Blocks>,
    /// So many sides are held against the base, each as the second plan has it.
    pub(crate) others: usize,
}

impl Scenario {
    /// The seed of its random numbers, from its name (FNV-1a) and whatever was asked for: another scenario in the list changes nothing.
    fn seed(&self, seed: u64) -> u64 {
        let text = format!("{} {:?} {seed}", self.name, self.promise);
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

/// What came out of many comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hits {
    /// How often what is promised of, or against, came.
    pub(crate) hits: u64,
    /// In how many comparisons it could.
    pub(crate) of: u64,
}

/// So many comparisons of a scenario on so many threads. Each comparison has a seed of its own, so that their number changes nothing.
pub(crate) fn measure(scenario: &Scenario, comparisons: u64, seed: u64, threads: u64) -> Hits {
    let seed = scenario.seed(seed);
    let mut random = Random::new(seed);
    let truth = match scenario.promise {
        Promise::Interval(statistic) | Promise::Equal(statistic) => {
            true_ratio(&mut random, scenario, statistic)
        }
        Promise::Forecast => true_level(&mut random, &scenario.blocks.unwrap()),
        _ => 0.0,
    };
    let part = |thread: u64| {
        let mut measured = Hits::default();
        for at in (thread..comparisons).step_by(threads as usize) {
            let mut random = Random::new(seed ^ (at + 1).wrapping_mul(0xd134_2543_de82_ef95));
            if let Some(hit) = one(&mut random, scenario, truth, at) {
                measured.of += 1;
                measured.hits += u64::from(hit);
            }
        }
        measured
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .fold(Hits::default(), |all, part| Hits { hits: all.hits + part.hits, of: all.of + part.of })
    })
}

/// One comparison: whether what is promised of, or against, came; `None` where it could not.
fn one(random: &mut Random, scenario: &Scenario, truth: f64, seed: u64) -> Option<bool> {
    let plans = [&scenario.plans[0], &scenario.plans[1]];
    match scenario.promise {
        Promise::Silent => {
            let mut all = vec![plans[1]; scenario.others + 1];
            all[0] = plans[0];
            let against = all_compared(random, &scenario.system, &all, seed);
            Some(against.iter().flat_map(|against| &against.measures).any(|measure| is_call(measure.verdict)))
        }
        Promise::Called(statistic, _) => {
            let against = compared(random, &scenario.system, plans, seed);
            let called = |measure: &latebound_compare::Measure| {
                measure.statistic == statistic && measure.verdict == VerdictWord::Worse
            };
            Some(against.measures.iter().any(called))
        }
        Promise::Equal(statistic) => {
            let against = compared(random, &scenario.system, plans, seed);
            let found = against.measures.iter().find(|measure| measure.statistic == statistic)?;
            Some(found.no_larger_than.is_some_and(|most| truth.max(1.0 / truth) - 1.0 > most))
        }
        Promise::Interval(statistic) => {
            let against = compared(random, &scenario.system, plans, seed);
            let found = against.measures.iter().find(|measure| measure.statistic == statistic)?;
            (found.ratio_low.is_some() || found.ratio_high.is_some()).then(|| {
                found.ratio_low.is_none_or(|low| low <= truth)
                    && found.ratio_high.is_none_or(|high| truth <= high)
            })
        }
        Promise::Advised(statistic) => advised(random, scenario, statistic, seed),
        Promise::Forecast => {
            let forecast = forecast(random, &scenario.blocks.unwrap(), seed);
            let level = forecast.levels.first()?;
            Some(level.low_ns <= truth && level.high_ns.is_none_or(|high| truth <= high))
        }
    }
}

/// The median ratio between a Run of the one and a Run of the other, from many.
fn true_ratio(random: &mut Random, scenario: &Scenario, statistic: &str) -> f64 {
    const PAIRS: u32 = 4001;
    let q = match statistic {
        "p50" => 0.5,
        "p99" => 0.99,
        other => panic!("no truth for {other}"),
    };
    let number = |random: &mut Random, plan: &Plan| {
        let mut session = Session { system: &scenario.system, before: 0.0, at: 0.0 };
        let mut all = Histogram::new();
        histograms(random, &mut session, plan, u32::MAX).iter().for_each(|one| all.merge(one));
        all.quantile(q).unwrap().0 as f64
    };
    let mut ratios: Vec<f64> =
        (0..PAIRS).map(|_| number(random, &scenario.plans[1]) / number(random, &scenario.plans[0])).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// A pilot, then as many Runs as it advises with a difference of the margin.
fn advised(random: &mut Random, scenario: &Scenario, statistic: &str, seed: u64) -> Option<bool> {
    const MOST: u64 = 400;
    let pilot = compared(random, &scenario.system, [&scenario.plans[0], &scenario.plans[1]], seed);
    let runs = pilot.measures.iter().find(|measure| measure.statistic == statistic)?.runs_needed?;
    let base = Plan { runs: runs.min(MOST) as u32, ..scenario.plans[0] };
    let new = Plan { body: 1.0 + options(seed).margin, ..base };
    let against = compared(random, &scenario.system, [&base, &new], seed);
    let found = against.measures.iter().find(|measure| measure.statistic == statistic)?;
    Some(found.verdict == VerdictWord::Worse)
}

/// A value of the law from a standard normal, so that neighbours can be made to depend on each other.
fn of_law(normal: f64, shape: f64) -> f64 {
    let p = 0.5 * statrs::function::erf::erfc(-normal / std::f64::consts::SQRT_2);
    let y = -p.clamp(1e-300, 1.0 - 1e-16).ln();
    if shape == 0.0 { -y.ln() } else { (y.powf(-shape) - 1.0) / shape }
}

fn blocks_of(random: &mut Random, blocks: &Blocks, count: u32) -> Vec<f64> {
    let of_run = blocks.scatter * random.normal();
    let phase = random.next();
    let mut before = random.normal();
    (0..count)
        .map(|at| {
            before = blocks.memory * before + (1.0 - blocks.memory * blocks.memory).sqrt() * random.normal();
            let swing =
                blocks.swing.0 * ((f64::from(at) / blocks.swing.1 + phase) * std::f64::consts::TAU).sin();
            let rare = if random.next() < blocks.rare.0 { blocks.rare.1 } else { 0.0 };
            let value = 40_000.0 + 6_000.0 * (of_run + swing + rare + of_law(before, blocks.shape));
            (value / blocks.unit as f64).floor() * blocks.unit as f64
        })
        .collect()
}

/// The level that the maximum value of an hour stays below with probability 1/e.
fn true_level(random: &mut Random, blocks: &Blocks) -> f64 {
    const HOURS: usize = 1000;
    let mut maxima: Vec<f64> =
        (0..HOURS).map(|_| blocks_of(random, blocks, 3600).into_iter().fold(0.0, f64::max)).collect();
    maxima.sort_by(f64::total_cmp);
    maxima[(HOURS as f64 / std::f64::consts::E) as usize]
}

fn forecast(random: &mut Random, blocks: &Blocks, seed: u64) -> Forecast {
    let mut side = Side::new("base");
    for turn in 0..blocks.runs {
        let maxima: Vec<Option<Nanos>> = blocks_of(random, blocks, blocks.blocks)
            .into_iter()
            .map(|value| Some(Nanos(value.max(0.0) as u64)))
            .collect();
        let mut histogram = Histogram::new();
        maxima.iter().flatten().for_each(|value| histogram.record(*value));
        let mut one = series(Quantity::Latency, Evidence::User, "measure", None, histogram);
        one.block_maxima = Some(BlockMaxima { block: Nanos::from_secs(1), start: Nanos::ZERO, maxima });
        side.add(&run(vec![one], Some(turn)), &turn.to_string());
    }
    compare(&side, &[], &options(seed)).base.forecasts.remove(0)
}
