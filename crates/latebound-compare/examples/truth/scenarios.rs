// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scenarios of `benches/compare-truth`, as data.

use super::simulate::{Blocks, PLAIN, Plan, Promise, Scenario, System, plan};

const fn silent(name: &'static str, system: System, base: Plan, new: Plan) -> Scenario {
    Scenario { name, promise: Promise::Silent, system, plans: [base, new], blocks: None }
}

const fn interval(
    name: &'static str,
    statistic: &'static str,
    system: System,
    base: Plan,
    new: Plan,
) -> Scenario {
    Scenario { name, promise: Promise::Interval(statistic), system, plans: [base, new], blocks: None }
}

const fn called(
    name: &'static str,
    statistic: &'static str,
    system: System,
    base: Plan,
    new: Plan,
) -> Scenario {
    Scenario { name, promise: Promise::Called(statistic, 0.80), system, plans: [base, new], blocks: None }
}

const fn advised(name: &'static str, statistic: &'static str, system: System, pilot: Plan) -> Scenario {
    Scenario { name, promise: Promise::Advised(statistic), system, plans: [pilot, pilot], blocks: None }
}

const fn forecast(
    name: &'static str,
    runs: u32,
    blocks: u32,
    shape: f64,
    memory: f64,
    scatter: f64,
) -> Scenario {
    let blocks = Some(Blocks { runs, blocks, shape, memory, scatter });
    Scenario { name, promise: Promise::Forecast, system: PLAIN, plans: [plan(0, 0), plan(0, 0)], blocks }
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
    advised("scatter 2 %", "p50", System { scatter: (0.02, 0.0), ..TIGHT }, plan(5, 1100)),
    advised("scatter 5 %", "p50", System { scatter: (0.05, 0.0), ..TIGHT }, plan(5, 1100)),
    forecast("60 blocks, Gumbel", 1, 60, 0.0, 0.0, 0.0),
    forecast("4 Runs of 60, heavy", 4, 60, 0.2, 0.0, 0.0),
    forecast("blocks correlated 0.3", 4, 120, 0.1, 0.3, 0.0),
    forecast("blocks correlated 0.7", 4, 120, 0.1, 0.7, 0.0),
    forecast("blocks correlated 0.95", 4, 120, 0.1, 0.95, 0.0),
    forecast("Runs scatter by half a scale", 6, 60, 0.1, 0.0, 0.5),
    forecast("Runs scatter by two scales", 6, 60, 0.1, 0.0, 2.0),
];
