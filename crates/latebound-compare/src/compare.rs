// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sides in, the document out.

use crate::alike;
use crate::causes::causes;
use crate::document::{Against, COMPARE_SCHEMA, Comparison, SideSummary};
use crate::facts::Side;
use crate::forecast::forecasts;
use crate::measures::measures;
use crate::options::Options;
use crate::settings::{Settings, differences};

/// Compares each of `others` with `base`. It compares also what is unlike and says so; whoever asked decides.
pub fn compare(base: &Side, others: &[Side], options: &Options) -> Comparison {
    Comparison {
        schema: COMPARE_SCHEMA.to_owned(),
        level: options.level,
        margin: options.margin,
        least_effect: options.least_effect,
        seed: options.seed,
        base: summary(base, options),
        against: others.iter().map(|other| against(base, other, options, others.len())).collect(),
        gates: Vec::new(),
    }
}

fn summary(side: &Side, options: &Options) -> SideSummary {
    SideSummary {
        name: side.name.clone(),
        runs: side.runs.iter().map(|run| run.name.clone()).collect(),
        measured_ns: side.runs.iter().fold(0, |sum: u64, run| sum.saturating_add(run.name.duration_ns)),
        forecasts: forecasts(side, options.seed),
    }
}

fn against(base: &Side, new: &Side, options: &Options, sides: usize) -> Against {
    fn of(side: &Side) -> Vec<&Settings> {
        side.runs.iter().map(|run| &run.settings).collect()
    }
    let differences = differences(&of(base), &of(new));
    let measured = measures(base, new, options, sides);
    let mut cautions = alike::cautions(base, new, &differences);
    cautions.extend(measured.left_out);
    cautions.extend(alike::one_sided(base, new));
    Against {
        unlike: alike::unlike(base, new, &differences),
        cautions,
        measures: measured.measures,
        causes: causes(base, new, options.seed),
        relabellings: measured.relabellings,
        exact: measured.exact,
        turns: measured.turns,
        side: summary(new, options),
        settings: differences.into_iter().map(|one| one.setting).collect(),
    }
}
