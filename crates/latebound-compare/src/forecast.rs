// SPDX-License-Identifier: MIT OR Apache-2.0
//! How great latencies are to be expected in times longer than what was measured. A forecast from what was seen, never a
//! bound: what has not happened yet and is of another kind is not in it.

use latebound_model::{Nanos, Quantity};
use latebound_stats::{distant_agree, fitness, merge_blocks, neighbours_agree, return_level, runs_agree};

use crate::document::{Family, Forecast, Level};
use crate::facts::{SeriesKey, Side};

/// Fewer blocks say too little about the tail's shape.
const FEWEST_BLOCKS: usize = 30;
/// With more blocks than this the first fit is of longer ones: they come nearer to the theory and leave enough.
const MOST_BLOCKS: usize = 4_000;
/// A fit that is at least as good in this share of true samples is believed.
const BELIEVED: f64 = 0.05;
/// So many samples for the goodness of fit.
const SAMPLES: u32 = 199;
/// Blocks that agree with their neighbours, or Runs that disagree, by chance in less than this share of cases are taken for
/// dependent. More than the usual 5 %, because what is missed makes the intervals too narrow.
const DEPENDENT: f64 = 0.2;
/// Dependence over these numbers of blocks is a level that swings or moves, and longer blocks do not mend it.
const DISTANT: std::ops::RangeInclusive<usize> = 9..=32;
/// By chance less often than this it is taken for that.
const SWINGS: f64 = 0.05;
/// So many shuffles for that.
const SHUFFLES: u32 = 499;
/// For once an hour, a day, a week.
const TIMES: [Nanos; 3] = [Nanos::from_secs(3600), Nanos::from_secs(86_400), Nanos::from_secs(7 * 86_400)];
/// A forecast reaches no farther than so many times what was measured.
const REACH: f64 = 10_000.0;

/// A forecast for every timed series of the side that has block maxima.
pub(crate) fn forecasts(side: &Side, seed: u64) -> Vec<Forecast> {
    let mut keys: Vec<&SeriesKey> = side
        .runs
        .iter()
        .flat_map(|run| run.series.iter().filter(|(_, facts)| facts.blocks.is_some()).map(|(key, _)| key))
        .filter(|key| key.family == Family::Main && key.quantity == Quantity::Latency)
        .collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().map(|key| forecast(side, key, seed)).collect()
}

fn forecast(side: &Side, key: &SeriesKey, seed: u64) -> Forecast {
    let of = format!("{} {}", key.mechanism, key.subject);
    let runs: Vec<&(Nanos, Vec<Option<f64>>)> =
        side.runs.iter().filter_map(|run| run.series.get(key)?.blocks.as_ref()).collect();
    let block = runs.first().map_or(Nanos::ZERO, |(block, _)| *block);
    let none = |blocks: usize, fit_p: Option<f64>, why: String| Forecast {
        of: of.clone(),
        block_ns: block.0,
        blocks: blocks as u64,
        fit_p,
        levels: Vec::new(),
        why_not: Some(why),
    };
    if runs.iter().any(|(other, _)| *other != block) {
        return none(0, None, "the Runs have blocks of different lengths".to_owned());
    }
    // Longer blocks come nearer to the theory; the shortest that it describes lose the minimum.
    let all: usize = runs.iter().map(|(_, maxima)| maxima.len()).sum();
    let first = all.div_ceil(MOST_BLOCKS).next_power_of_two();
    let whole: Vec<Vec<f64>> = runs.iter().map(|(_, maxima)| merge_blocks(maxima, first)).collect();
    let agree = runs_agree(&whole, SHUFFLES, seed);
    if agree <= DEPENDENT && all >= FEWEST_BLOCKS {
        return none(
            all,
            None,
            format!(
                "the Runs differ in their maxima (p {agree:.3}), and blocks of one Run say nothing of the next Run"
            ),
        );
    }
    let far = distant_agree(&whole, DISTANT, SHUFFLES, seed);
    if far <= SWINGS && all >= FEWEST_BLOCKS {
        return none(
            all,
            None,
            format!(
                "the maxima rise and fall over many blocks (p {far:.3}): they are not of one distribution"
            ),
        );
    }
    let (mut by, mut last) = (first, None);
    loop {
        let each: Vec<Vec<f64>> = runs.iter().map(|(_, maxima)| merge_blocks(maxima, by)).collect();
        let maxima: Vec<f64> = each.concat();
        if maxima.len() < FEWEST_BLOCKS {
            return match last {
                None => none(
                    maxima.len(),
                    None,
                    format!("{} blocks of {block} are too few; {FEWEST_BLOCKS} are needed", maxima.len()),
                ),
                Some((blocks, p)) => none(
                    blocks,
                    p,
                    "the maxima of the blocks follow no extreme-value distribution: there is more than one kind of worst case, or they come in bursts".to_owned(),
                ),
            };
        }
        if neighbours_agree(&each, SHUFFLES, seed) <= DEPENDENT {
            (last, by) = (Some((maxima.len(), None)), by * 2);
            continue;
        }
        let fit = fitness(&maxima, SAMPLES, seed);
        if let Some(fit) = fit.filter(|fit| fit.p > BELIEVED) {
            let block = Nanos(block.0 * by as u64);
            let levels = levels(&maxima, block);
            let why_not = levels.is_empty().then(|| "the tail is too heavy for a forecast".to_owned());
            let blocks = maxima.len() as u64;
            return Forecast { of, block_ns: block.0, blocks, fit_p: Some(fit.p), levels, why_not };
        }
        last = Some((maxima.len(), fit.map(|fit| fit.p)));
        by *= 2;
    }
}

fn levels(maxima: &[f64], block: Nanos) -> Vec<Level> {
    TIMES
        .into_iter()
        .filter_map(|time| {
            let blocks = time.0 as f64 / block.0 as f64;
            if blocks > REACH * maxima.len() as f64 || blocks <= 1.0 {
                return None;
            }
            let (value, interval) = return_level(maxima, blocks, 0.95)?;
            Some(Level {
                once_in_ns: time.0,
                value_ns: value,
                low_ns: interval.low.max(0.0),
                high_ns: Some(interval.high).filter(|high| high.is_finite()),
            })
        })
        .collect()
}
