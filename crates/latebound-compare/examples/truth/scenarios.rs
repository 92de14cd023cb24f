// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scenarios of `benches/compare-truth`, as data.

use super::simulate::{Along, Blocks, Order, PLAIN, Plan, Promise, Scenario, System, plan};

const fn silent(name: &'static str, system: System, base: Plan, new: Plan) -> Scenario {
    Scenario { name, promise: Promise::Silent, system, plans: [base, new], blocks: None, others: 1 }
}

const fn interval(
    name: &'static str,
    statistic: &'static str,
    system: System,
    base: Plan,
    new: Plan,
) -> Scenario {
    Scenario {
        name,
        promise: Promise::Interval(statistic),
        system,
        plans: [base, new],
        blocks: None,
        others: 1,
    }
}

const fn called(
    name: &'static str,
    statistic: &'static str,
    system: System,
    base: Plan,
    new: Plan,
) -> Scenario {
    Scenario {
        name,
        promise: Promise::Called(statistic, 0.80),
        system,
        plans: [base, new],
        blocks: None,
        others: 1,
    }
}

const fn advised(name: &'static str, statistic: &'static str, system: System, pilot: Plan) -> Scenario {
    Scenario {
        name,
        promise: Promise::Advised(statistic),
        system,
        plans: [pilot, pilot],
        blocks: None,
        others: 1,
    }
}

const fn equal(
    name: &'static str,
    statistic: &'static str,
    system: System,
    base: Plan,
    new: Plan,
) -> Scenario {
    Scenario { promise: Promise::Equal(statistic), ..silent(name, system, base, new) }
}

const fn forecast(name: &'static str, blocks: Blocks) -> Scenario {
    Scenario {
        promise: Promise::Forecast,
        blocks: Some(blocks),
        ..silent(name, PLAIN, plan(0, 0), plan(0, 0))
    }
}

/// Blocks that depend on nothing.
const fn blocks(runs: u32, blocks: u32, shape: f64) -> Blocks {
    Blocks { runs, blocks, shape, memory: 0.0, scatter: 0.0, unit: 1, rare: (0.0, 0.0), swing: (0.0, 1.0) }
}

impl Scenario {
    const fn against(mut self, others: usize) -> Scenario {
        self.others = others;
        self
    }
}

/// The Runs are one and the same but for chance within them.
const EVEN: System = System { scatter: (0.0, 0.0), ..PLAIN };
const TIGHT: System = System { scatter: (0.01, 0.01), tail: (0.0, 1.0, 1.5), ..PLAIN };

pub(crate) const SCENARIOS: &[Scenario] = &[
    // Nothing differs.
    silent("plain", PLAIN, plan(6, 4000), plan(6, 4000)),
    silent("four Runs a side", PLAIN, plan(4, 4000), plan(4, 4000)),
    silent("four against twelve Runs", PLAIN, plan(4, 2000), plan(12, 2000)),
    silent("twenty Runs a side", PLAIN, plan(20, 1200), plan(20, 1200)),
    silent("no scatter between Runs", EVEN, plan(8, 4000), plan(8, 4000)),
    silent(
        "tail without a mean",
        System { tail: (0.05, 60_000.0, 0.8), ..PLAIN },
        plan(6, 4000),
        plan(6, 4000),
    ),
    silent("bursts of 50", System { burst: 50.0, ..PLAIN }, plan(6, 4000), plan(6, 4000)),
    silent("a swinging level", System { swing: 0.5, ..PLAIN }, plan(6, 4000), plan(6, 4000)),
    silent("two kinds of Run", System { stalls: 0.1, ..PLAIN }, plan(8, 2000), plan(8, 2000)),
    silent("drift by 30 %, in turns", System { drift: 0.3, ..PLAIN }, plan(8, 2000), plan(8, 2000)),
    silent("drift alone, in turns", System { drift: 0.5, ..EVEN }, plan(12, 2000), plan(12, 2000)),
    silent("Runs remember each other", System { memory: 0.8, ..PLAIN }, plan(8, 2000), plan(8, 2000)),
    silent(
        "whole microseconds",
        System { unit: 1000, body: (4_600.0, 0.1), ..PLAIN },
        plan(6, 4000),
        plan(6, 4000),
    ),
    silent("999 against 1000 values", EVEN, plan(10, 999), plan(10, 1000)),
    silent("500 against 5000 values", EVEN, plan(8, 500), plan(8, 5000)),
    silent("500 against 5000, scatter", PLAIN, plan(8, 500), plan(8, 5000)),
    silent("1000 against 1090 values", EVEN, plan(20, 1000), plan(20, 1090)),
    silent("1100 against 4000, bursts", System { burst: 20.0, ..EVEN }, plan(8, 1100), plan(8, 4000)),
    silent("clipped at 400 us", System { clip: Some(400_000), ..PLAIN }, plan(6, 4000), plan(6, 4000)),
    silent(
        "clipped at 400 us and 1 ms",
        PLAIN,
        Plan { clip: Some(400_000), ..plan(6, 4000) },
        Plan { clip: Some(1_000_000), ..plan(6, 4000) },
    ),
    silent("unequal scatter 1:5", PLAIN, Plan { scatter: 0.2, ..plan(8, 2000) }, plan(8, 2000)),
    silent("unequal scatter, 12 and 5", PLAIN, Plan { scatter: 0.2, ..plan(12, 2000) }, plan(5, 2000)),
    silent("8 CPUs", System { cpus: 8, ..PLAIN }, plan(6, 1200), plan(6, 1200)),
    silent("64 CPUs", System { cpus: 64, ..PLAIN }, plan(8, 1010), plan(8, 1010)),
    silent("two Runs a side", PLAIN, plan(2, 4000), plan(2, 4000)),
    silent("three Runs a side", PLAIN, plan(3, 4000), plan(3, 4000)),
    silent("five Runs a side", PLAIN, plan(5, 4000), plan(5, 4000)),
    silent("seven Runs a side", PLAIN, plan(7, 4000), plan(7, 4000)),
    silent("ten Runs a side", PLAIN, plan(10, 2000), plan(10, 2000)),
    silent("two against twenty Runs", PLAIN, plan(2, 2000), plan(20, 2000)),
    silent("three sides against one", PLAIN, plan(8, 2000), plan(8, 2000)).against(3),
    silent(
        "one side before the other",
        System { order: Order::Blocks, ..PLAIN },
        plan(8, 2000),
        plan(8, 2000),
    ),
    silent("in no order", System { order: Order::Random, ..PLAIN }, plan(8, 2000), plan(8, 2000)),
    silent(
        "drift by 30 %, in no order",
        System { order: Order::Random, drift: 0.3, ..PLAIN },
        plan(8, 2000),
        plan(8, 2000),
    ),
    silent(
        "drift by 30 %, starts unknown",
        System { order: Order::Unknown, drift: 0.3, ..PLAIN },
        plan(8, 2000),
        plan(8, 2000),
    ),
    silent(
        "drift alone, starts unknown",
        System { order: Order::Unknown, drift: 0.5, ..EVEN },
        plan(8, 2000),
        plan(8, 2000),
    ),
    silent("drift alone, 5 turns", System { drift: 0.5, ..EVEN }, plan(5, 2000), plan(5, 2000)),
    silent("drift alone, 6 turns", System { drift: 0.5, ..EVEN }, plan(6, 2000), plan(6, 2000)),
    silent("drift alone, 7 turns", System { drift: 0.5, ..EVEN }, plan(7, 2000), plan(7, 2000)),
    silent(
        "drift alone, turns and back",
        System { drift: 0.5, order: Order::Mirrored, ..EVEN },
        plan(8, 2000),
        plan(8, 2000),
    ),
    silent(
        "drift slow, then fast",
        System { drift: 0.5, along: Along::Square, ..EVEN },
        plan(8, 2000),
        plan(8, 2000),
    ),
    silent(
        "drift slow, then fast, 20 turns",
        System { drift: 1.0, along: Along::Square, ..EVEN },
        plan(20, 1200),
        plan(20, 1200),
    ),
    silent(
        "a step in the middle, in turns",
        System { drift: 0.5, along: Along::Step, ..PLAIN },
        plan(8, 2000),
        plan(8, 2000),
    ),
    silent(
        "a step in the middle, 7 turns",
        System { drift: 0.5, along: Along::Step, ..EVEN },
        plan(7, 2000),
        plan(7, 2000),
    ),
    silent(
        "waves of five turns",
        System { drift: 0.2, along: Along::Waves(2.0), ..PLAIN },
        plan(10, 2000),
        plan(10, 2000),
    ),
    silent(
        "waves of two turns",
        System { drift: 0.2, along: Along::Waves(5.0), ..PLAIN },
        plan(10, 2000),
        plan(10, 2000),
    ),
    silent("Runs remember, 20 turns", System { memory: 0.9, ..PLAIN }, plan(20, 1200), plan(20, 1200)),
    silent(
        "Runs remember, one side first",
        System { memory: 0.8, order: Order::Blocks, ..PLAIN },
        plan(8, 2000),
        plan(8, 2000),
    ),
    silent(
        "Runs remember, in no order",
        System { memory: 0.8, order: Order::Random, ..PLAIN },
        plan(8, 2000),
        plan(8, 2000),
    ),
    silent("one Run of six an outlier", PLAIN, Plan { outliers: 1, ..plan(6, 4000) }, plan(6, 4000)),
    silent("Runs moved upwards alone", System { upwards: 0.5, ..PLAIN }, plan(8, 2000), plan(8, 2000)),
    silent("upwards alone, 12 and 5", System { upwards: 0.5, ..PLAIN }, plan(12, 2000), plan(5, 2000)),
    silent("zero in 3 of 10 values", System { zeros: 0.3, ..PLAIN }, plan(6, 4000), plan(6, 4000)),
    silent("zero in half of the values", System { zeros: 0.5, ..PLAIN }, plan(6, 4000), plan(6, 4000)),
    silent(
        "a rare kind at p99",
        System { tail: (0.01, 300_000.0, 50.0), ..PLAIN },
        plan(6, 4000),
        plan(6, 4000),
    ),
    silent(
        "whole milliseconds",
        System { unit: 1_000_000, body: (2_300_000.0, 0.3), tail: (0.02, 5_000_000.0, 1.5), ..PLAIN },
        plan(6, 4000),
        plan(6, 4000),
    ),
    silent(
        "period of 7 within a Run",
        System { swing: 0.5, period: 7.0, ..PLAIN },
        plan(6, 4000),
        plan(6, 4000),
    ),
    silent(
        "period longer than a Run",
        System { swing: 0.5, period: 9973.0, ..PLAIN },
        plan(6, 4000),
        plan(6, 4000),
    ),
    silent("Runs of unlike length", System { shorter: 0.3, ..PLAIN }, plan(8, 4000), plan(8, 4000)),
    silent("unlike length, no scatter", System { shorter: 0.6, ..EVEN }, plan(8, 4000), plan(8, 4000)),
    silent("quantiles at the floor", EVEN, plan(8, 1000), plan(8, 1000)),
    silent("p99.9 at the floor", EVEN, plan(8, 10_000), plan(8, 10_000)),
    silent("clipped below the median", System { clip: Some(29_000), ..PLAIN }, plan(6, 4000), plan(6, 4000)),
    silent("unequal scatter 1:10, 6 and 6", PLAIN, Plan { scatter: 0.1, ..plan(6, 2000) }, plan(6, 2000)),
    silent(
        "unequal scatter 1:10, no order",
        System { order: Order::Random, ..PLAIN },
        Plan { scatter: 0.1, ..plan(6, 2000) },
        plan(6, 2000),
    ),
    silent("unequal scatter 1:10, 5 and 5", PLAIN, Plan { scatter: 0.1, ..plan(5, 2000) }, plan(5, 2000)),
    silent("unequal scatter 1:10, 12 and 5", PLAIN, Plan { scatter: 0.1, ..plan(12, 2000) }, plan(5, 2000)),
    silent("unequal scatter 1:10, 20 and 6", PLAIN, Plan { scatter: 0.1, ..plan(20, 2000) }, plan(6, 2000)),
    silent("unequal scatter 1:3, 12 and 6", PLAIN, Plan { scatter: 0.33, ..plan(12, 2000) }, plan(6, 2000)),
    silent("unequal scatter 1:3, 10 and 4", PLAIN, Plan { scatter: 0.33, ..plan(10, 2000) }, plan(4, 2000)),
    silent("unequal scatter 1:2, 12 and 5", PLAIN, Plan { scatter: 0.5, ..plan(12, 2000) }, plan(5, 2000)),
    silent("unequal scatter 5:1, 12 and 5", PLAIN, plan(12, 2000), Plan { scatter: 0.2, ..plan(5, 2000) }),
    silent(
        "unequal scatter 1:5, 8 CPUs",
        System { cpus: 8, ..PLAIN },
        Plan { scatter: 0.2, ..plan(12, 1200) },
        plan(6, 1200),
    ),
    silent(
        "unequal scatter, 10 mechanisms",
        System { mechanisms: 10, ..PLAIN },
        Plan { scatter: 0.2, ..plan(12, 1200) },
        plan(6, 1200),
    ),
    silent("8 CPUs, drift, 12 turns", System { cpus: 8, drift: 0.5, ..EVEN }, plan(12, 1200), plan(12, 1200)),
    silent("2 CPUs, five and five", System { cpus: 2, ..PLAIN }, plan(5, 2000), plan(5, 2000)),
    silent("16 CPUs, no scatter", System { cpus: 16, ..EVEN }, plan(10, 1200), plan(10, 1200)),
    silent("10 mechanisms, 12 and 12", System { mechanisms: 10, ..PLAIN }, plan(12, 1200), plan(12, 1200)),
    silent("40 mechanisms, 6 and 6", System { mechanisms: 40, ..PLAIN }, plan(6, 1200), plan(6, 1200)),
    interval("equal scatter", "p50", PLAIN, plan(6, 1000), plan(6, 1000)),
    interval("scatter 1:10, 6 and 6", "p50", PLAIN, Plan { scatter: 0.1, ..plan(6, 1000) }, plan(6, 1000)),
    interval("scatter 1:10, 5 and 12", "p50", PLAIN, plan(5, 1000), Plan { scatter: 0.1, ..plan(12, 1000) }),
    interval(
        "scatter 1:10, 15 and 15",
        "p50",
        PLAIN,
        Plan { scatter: 0.1, ..plan(15, 1000) },
        plan(15, 1000),
    ),
    interval("two kinds of Run", "p50", System { stalls: 0.2, ..PLAIN }, plan(8, 1000), plan(8, 1000)),
    interval("tail, scatter 1:5", "p99", PLAIN, Plan { scatter: 0.2, ..plan(8, 2000) }, plan(8, 2000)),
    interval(
        "whole microseconds by a tenth",
        "p50",
        System { unit: 1000, body: (4_600.0, 0.1), ..PLAIN },
        plan(8, 1000),
        Plan { body: 1.1, ..plan(8, 1000) },
    ),
    interval("12 and 5, scatter 1:5", "p50", PLAIN, Plan { scatter: 0.2, ..plan(12, 1000) }, plan(5, 1000)),
    interval("12 and 6, scatter 1:3", "p50", PLAIN, Plan { scatter: 0.33, ..plan(12, 1000) }, plan(6, 1000)),
    interval("one Run of six an outlier", "p50", PLAIN, Plan { outliers: 1, ..plan(6, 1000) }, plan(6, 1000)),
    interval("drift by 30 %, in turns", "p50", System { drift: 0.3, ..PLAIN }, plan(8, 1000), plan(8, 1000)),
    interval("drift alone, in turns", "p50", System { drift: 0.5, ..EVEN }, plan(8, 1000), plan(8, 1000)),
    interval(
        "Runs remember each other",
        "p50",
        System { memory: 0.8, ..PLAIN },
        plan(8, 1000),
        plan(8, 1000),
    ),
    interval("no scatter", "p99", EVEN, plan(6, 2000), plan(6, 2000)),
    interval("four and four", "p50", PLAIN, plan(4, 1000), plan(4, 1000)),
    interval("twenty and twenty", "p99", PLAIN, plan(20, 1000), plan(20, 1000)),
    equal(
        "6 % apart, 8 and 8",
        "p50",
        System { scatter: (0.02, 0.0), ..PLAIN },
        plan(8, 1000),
        Plan { body: 1.06, ..plan(8, 1000) },
    ),
    equal(
        "6 % apart, scatter 1:5",
        "p50",
        System { scatter: (0.03, 0.0), ..PLAIN },
        Plan { scatter: 0.2, ..plan(12, 1000) },
        Plan { body: 1.06, ..plan(6, 1000) },
    ),
    equal(
        "6 % apart, whole microseconds",
        "p50",
        System { unit: 1000, ..EVEN },
        plan(8, 1000),
        Plan { body: 1.06, ..plan(8, 1000) },
    ),
    equal(
        "6 % apart, in drift",
        "p50",
        System { drift: 0.5, scatter: (0.02, 0.0), ..PLAIN },
        plan(8, 1000),
        Plan { body: 1.06, ..plan(8, 1000) },
    ),
    called("tail twice as late, 6 a side", "p99", PLAIN, plan(6, 4000), Plan { tail: 2.0, ..plan(6, 4000) }),
    called("body 1.2 times, 5 a side", "p50", PLAIN, plan(5, 2000), Plan { body: 1.2, ..plan(5, 2000) }),
    called(
        "one CPU of 64 twice as late",
        "p99",
        System { cpus: 64, ..PLAIN },
        plan(8, 1010),
        Plan { last_cpu: 2.0, ..plan(8, 1010) },
    ),
    called(
        "body 1.1 times under drift",
        "p50",
        System { drift: 0.5, scatter: (0.02, 0.1), ..PLAIN },
        plan(8, 2000),
        Plan { body: 1.1, ..plan(8, 2000) },
    ),
    called(
        "body 1.2 times, an outlier",
        "p50",
        PLAIN,
        Plan { outliers: 1, ..plan(8, 2000) },
        Plan { body: 1.2, ..plan(8, 2000) },
    ),
    called(
        "body 1.2 times, no order",
        "p50",
        System { order: Order::Random, ..PLAIN },
        plan(6, 2000),
        Plan { body: 1.2, ..plan(6, 2000) },
    ),
    called(
        "body 1.3 times, scatter 1:5",
        "p50",
        PLAIN,
        Plan { scatter: 0.2, ..plan(8, 2000) },
        Plan { body: 1.3, ..plan(8, 2000) },
    ),
    advised(
        "scatter 3 %, in no order",
        "p50",
        System { scatter: (0.03, 0.0), order: Order::Random, ..TIGHT },
        plan(5, 1100),
    ),
    advised("scatter 3 %, 8 turns", "p50", System { scatter: (0.03, 0.0), ..TIGHT }, plan(8, 1100)),
    advised(
        "scatter 3 %, 6 turns in drift",
        "p50",
        System { scatter: (0.03, 0.0), drift: 0.1, ..TIGHT },
        plan(6, 1100),
    ),
    advised("scatter 3 %, p99", "p99", System { scatter: (0.03, 0.0), ..TIGHT }, plan(6, 1100)),
    advised(
        "upwards alone by 3 %",
        "p50",
        System { scatter: (0.0, 0.0), upwards: 0.03, ..TIGHT },
        plan(6, 1100),
    ),
    advised("scatter 2 %", "p50", System { scatter: (0.02, 0.0), ..TIGHT }, plan(5, 1100)),
    advised("scatter 5 %", "p50", System { scatter: (0.05, 0.0), ..TIGHT }, plan(5, 1100)),
    forecast("60 blocks, Gumbel", blocks(1, 60, 0.0)),
    forecast("4 Runs of 60, heavy", blocks(4, 60, 0.2)),
    forecast("4 Runs of 60, with an end", blocks(4, 60, -0.2)),
    forecast("whole microseconds", Blocks { unit: 1000, ..blocks(4, 60, 0.1) }),
    forecast("blocks correlated 0.3", Blocks { memory: 0.3, ..blocks(4, 120, 0.1) }),
    forecast("blocks correlated 0.5", Blocks { memory: 0.5, ..blocks(4, 300, 0.1) }),
    forecast("blocks correlated 0.7", Blocks { memory: 0.7, ..blocks(4, 120, 0.1) }),
    forecast("blocks correlated 0.95", Blocks { memory: 0.95, ..blocks(4, 120, 0.1) }),
    forecast("blocks swing over 40", Blocks { swing: (1.0, 40.0), ..blocks(4, 120, 0.1) }),
    forecast("Runs scatter by 0.2 scales", Blocks { scatter: 0.2, ..blocks(6, 60, 0.1) }),
    forecast("Runs scatter by half a scale", Blocks { scatter: 0.5, ..blocks(6, 60, 0.1) }),
    forecast("Runs scatter by two scales", Blocks { scatter: 2.0, ..blocks(6, 60, 0.1) }),
    forecast("another kind in 1 of 50 blocks", Blocks { rare: (0.02, 8.0), ..blocks(4, 120, 0.1) }),
];
