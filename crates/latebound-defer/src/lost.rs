// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `defer lost` finds: of each mechanism, how many of the raises of a train had a run of their own.

use latebound_model::{Condition, Missing, Summary};
use schemars::JsonSchema;
use serde::Serialize;

use crate::loss::LossCauses;
use crate::tally::SeriesTally;
use crate::train::{Train, TrainSums, sums};

/// The schema of the document.
const LOST_SCHEMA: &str = "latebound.lost/1";

/// One mechanism, with a counter or without, under one load.
#[derive(Debug)]
pub struct LostTrial {
    /// Whether a load ran.
    pub condition: Condition,
    /// Whether a counter kept what would have been merged.
    pub with_counter: bool,
    /// What the module measured.
    pub measured: SeriesTally,
    /// The trains of its records.
    pub trains: Vec<Train>,
    /// Its raises without a run of their own, by cause.
    pub lost_by: LossCauses,
}

impl LostTrial {
    /// What its trains have in common.
    pub fn sums(&self) -> TrainSums {
        sums(&self.trains)
    }
}

/// The document of `defer lost`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LostDocument<'a> {
    /// `latebound.lost/1`.
    schema: &'static str,
    /// Interrupts of a train.
    irqs: u32,
    /// Every mechanism, with a counter and without, under every condition.
    rows: Vec<LostRow<'a>>,
    /// What could not be had, and why.
    missing: &'a [Missing],
}

impl<'a> LostDocument<'a> {
    /// Of trains of so many interrupts.
    pub fn new(irqs: u32, trials: &'a [LostTrial], missing: &'a [Missing]) -> LostDocument<'a> {
        LostDocument { schema: LOST_SCHEMA, irqs, rows: trials.iter().map(row).collect(), missing }
    }
}

/// One mechanism, with a counter or without, under one condition.
#[derive(Debug, Serialize, JsonSchema)]
struct LostRow<'a> {
    /// The condition: `idle` or `loaded`.
    load: String,
    /// The mechanism by its name on the command line.
    mechanism: &'a str,
    /// Whether a counter kept what would have been merged.
    with_counter: bool,
    /// How many trains.
    trains: u64,
    /// Interrupts, each of which raised the work once.
    raises: u64,
    /// Runs of the work.
    starts: u64,
    /// Raises without a run of their own.
    merged: u64,
    /// Raises less runs, by cause: what was merged, refused and is waiting.
    lost_by: LossCauses,
    /// With a counter: raises that found an earlier one waiting and were kept.
    kept: u64,
    /// Raises whose run had not started at the end.
    waiting: u32,
    /// Raises that the kernel refused.
    refused: u64,
    /// Runs without a raise.
    empty_starts: u64,
    /// Runs whose record had no room.
    records_lost: u64,
    /// Runs in a train: the minimum.
    starts_least: u64,
    /// The median.
    starts_median: u64,
    /// The maximum.
    starts_most: u64,
    /// Runs by ksoftirqd.
    by_ksoftirqd: u64,
    /// Trains in which ksoftirqd ran some.
    trains_handed_over: u64,
    /// Which run of a train was the first by ksoftirqd, from 1: the median over these trains.
    first_by_ksoftirqd: Option<u64>,
    /// From the raise to the run.
    latency: Summary,
}

fn row(trial: &LostTrial) -> LostRow<'_> {
    let (counts, sums) = (&trial.measured.counts, trial.sums());
    LostRow {
        load: trial.condition.to_string(),
        mechanism: trial.measured.request.mechanism.name(),
        with_counter: trial.with_counter,
        trains: sums.trains,
        raises: counts.requests,
        starts: counts.starts,
        merged: counts.merged,
        lost_by: trial.lost_by,
        kept: counts.kept,
        waiting: counts.waiting,
        refused: counts.refused,
        empty_starts: counts.empty_starts,
        records_lost: counts.records_lost,
        starts_least: sums.starts_least,
        starts_median: sums.starts_median,
        starts_most: sums.starts_most,
        by_ksoftirqd: sums.by_ksoftirqd,
        trains_handed_over: sums.handed_over,
        first_by_ksoftirqd: sums.first_by_ksoftirqd,
        latency: Summary::of(&trial.measured.latency),
    }
}
