// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `defer lost` finds: of each mechanism, how many of the raises of a train had a run of their own.

use latebound_model::{Condition, Missing, Summary};
use serde::Serialize;

use crate::tally::Measured;
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
    pub measured: Measured,
    /// The trains of its records.
    pub trains: Vec<Train>,
}

impl LostTrial {
    /// What its trains have in common.
    pub fn sums(&self) -> TrainSums {
        sums(&self.trains)
    }
}

/// The document of `defer lost`.
#[derive(Debug, Serialize)]
pub struct LostDocument<'a> {
    schema: &'static str,
    irqs: u32,
    rows: Vec<LostRow<'a>>,
    missing: &'a [Missing],
}

impl<'a> LostDocument<'a> {
    /// Of trains of so many interrupts.
    pub fn new(irqs: u32, trials: &'a [LostTrial], missing: &'a [Missing]) -> LostDocument<'a> {
        LostDocument { schema: LOST_SCHEMA, irqs, rows: trials.iter().map(row).collect(), missing }
    }
}

#[derive(Debug, Serialize)]
struct LostRow<'a> {
    load: String,
    mechanism: &'a str,
    with_counter: bool,
    trains: u64,
    raises: u64,
    starts: u64,
    merged: u64,
    kept: u64,
    waiting: u32,
    refused: u64,
    empty_starts: u64,
    records_lost: u64,
    starts_least: u64,
    starts_median: u64,
    starts_most: u64,
    by_ksoftirqd: u64,
    trains_handed_over: u64,
    first_by_ksoftirqd: Option<u64>,
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
