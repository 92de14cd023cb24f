// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which causes made the worst cases of each side late.

use latebound_stats::bootstrap;

use crate::document::{CauseShare, Share};
use crate::facts::Side;

/// How often the Runs are drawn again for an interval.
const DRAWS: usize = 1000;

/// The shares of every kind of cause that either side has, the maximum of either side first.
pub(crate) fn causes(base: &Side, new: &Side, seed: u64) -> Vec<CauseShare> {
    let mut names: Vec<&'static str> =
        base.runs.iter().chain(&new.runs).flat_map(|run| run.causes.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let mut shares: Vec<CauseShare> = names
        .into_iter()
        .map(|name| CauseShare {
            cause: name.to_owned(),
            base: share(base, name, seed),
            new: share(new, name, seed),
        })
        .filter(|cause| cause.base.share > 0.0 || cause.new.share > 0.0)
        .collect();
    let highest = |cause: &CauseShare| cause.base.share.max(cause.new.share);
    shares.sort_by(|a, b| highest(b).total_cmp(&highest(a)).then_with(|| a.cause.cmp(&b.cause)));
    shares
}

fn share(side: &Side, name: &str, seed: u64) -> Share {
    let parts: Vec<(f64, f64)> = side
        .runs
        .iter()
        .filter(|run| run.cases > 0)
        .map(|run| {
            let all: u64 = run.causes.values().sum();
            (run.causes.get(name).copied().unwrap_or(0) as f64, all as f64)
        })
        .collect();
    let of = |runs: &mut dyn Iterator<Item = usize>| {
        let (part, all) = runs.fold((0.0, 0.0), |sum, run| (sum.0 + parts[run].0, sum.1 + parts[run].1));
        (all > 0.0).then(|| part / all)
    };
    let interval = bootstrap(parts.len(), DRAWS, 0.95, seed, |drawn| of(&mut drawn.iter().copied()));
    Share {
        share: of(&mut (0..parts.len())).unwrap_or(0.0),
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        cases: side.runs.iter().map(|run| run.cases).sum(),
    }
}
