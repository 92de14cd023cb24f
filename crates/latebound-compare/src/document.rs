// SPDX-License-Identifier: MIT OR Apache-2.0
//! The document that a comparison is: its JSON form is `latebound.compare/1`, described in `docs/src/reference/compare.md`.

use latebound_model::Mechanism;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema that this version writes.
pub const COMPARE_SCHEMA: &str = "latebound.compare/1";

/// One baseline and what is held against it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// [`COMPARE_SCHEMA`].
    pub schema: String,
    /// The share of comparisons of a system with itself that may call any difference at all.
    pub level: f64,
    /// The relative difference that does not matter.
    pub margin: f64,
    /// A difference is called where its whole interval lies beyond this relative difference.
    #[serde(default)]
    pub least_effect: f64,
    /// The seed of every random number: the same Runs with the same seed give the same document.
    pub seed: u64,
    /// The first side.
    pub base: SideSummary,
    /// The other sides, each against the first.
    pub against: Vec<Against>,
    /// How each condition of `--fail-if` came out.
    #[serde(default)]
    pub gates: Vec<Ruling>,
}

/// How a condition of `--fail-if` came out on one measure of one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ruling {
    /// The condition, as it was written.
    pub gate: String,
    /// The side that was held against the base.
    pub side: String,
    /// [`Measure::of`] of the measure.
    pub of: String,
    /// [`Measure::statistic`] of the measure.
    pub statistic: String,
    /// What came out.
    pub state: GateState,
    /// Why, in words.
    pub why: String,
}

/// Whether a condition of `--fail-if` came true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// It came true: the comparison failed.
    Failed,
    /// It is shown not to be true.
    Passed,
    /// The Runs are too few to say.
    Undecided,
}

/// The Runs of a side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideSummary {
    /// `base`, `new`, `new 2`.
    pub name: String,
    /// Its Runs.
    pub runs: Vec<RunName>,
    /// Measuring time of all Runs together, in nanoseconds.
    pub measured_ns: u64,
    /// The maximum latencies to expect in longer times, where the block maxima allow a forecast.
    pub forecasts: Vec<Forecast>,
}

/// One Run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunName {
    /// Where it was read.
    pub path: String,
    /// When it began, as it stands in the Run.
    pub started_at: String,
    /// How long it took, in nanoseconds.
    pub duration_ns: u64,
    /// Whether it ran for as long as it was meant to.
    pub complete: bool,
}

/// One side against the base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Against {
    /// The side.
    pub side: SideSummary,
    /// Settings that differ, or that are not the same within a side.
    pub settings: Vec<Setting>,
    /// What makes the two sides unlike, so that a difference may come from it. Without `--anyway` such sides are refused.
    pub unlike: Vec<String>,
    /// What to keep in mind while reading.
    pub cautions: Vec<String>,
    /// Latencies and throughput.
    pub measures: Vec<Measure>,
    /// Which causes made the worst cases late.
    pub causes: Vec<CauseShare>,
    /// How many ways of dealing the Runs to the two sides were looked at.
    pub relabellings: u64,
    /// Whether these were all there are.
    pub exact: bool,
    /// Whether Runs were held against those taken next to them, because the sides took turns.
    #[serde(default)]
    pub turns: bool,
}

/// What a setting is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingKind {
    /// The system: kernel, configuration, processor.
    System,
    /// How was measured.
    Measurement,
    /// What ran beside.
    Load,
}

/// One setting that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// What it is of.
    pub kind: SettingKind,
    /// Its name: `kernel`, `command line: preempt`, `config: HZ`.
    pub name: String,
    /// Its values on the base side.
    pub base: Vec<ValueOnRuns>,
    /// Its values on the other side.
    pub new: Vec<ValueOnRuns>,
}

/// A value of a setting and on how many Runs it was met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueOnRuns {
    /// The value; absent where it was not set or not known.
    pub value: Option<String>,
    /// On how many Runs.
    pub runs: u64,
}

/// For which measures together the share of false calls holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Wake-ups and operations that were timed, and throughput. They have the maximum part of the stated share of comparisons
    /// that call anything falsely.
    Main,
    /// The same, each CPU by itself.
    Cpus,
    /// What the kernel put off meanwhile, many at once.
    Mechanisms,
}

/// What the numbers of a measure are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds; less is better.
    Nanoseconds,
    /// So many of these a second; more is better.
    PerSecond(String),
}

/// One number of each Run, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measure {
    /// Its family.
    pub family: Family,
    /// Of what: `timer wake-up measure`, `ipc messages`.
    pub of: String,
    /// The mechanism of a latency; absent of throughput.
    #[serde(default)]
    pub mechanism: Option<Mechanism>,
    /// Which number: `p99.9`, `max`, `rate`.
    pub statistic: String,
    /// What the numbers are.
    pub unit: Unit,
    /// The base side.
    pub base: Estimate,
    /// The other side.
    pub new: Estimate,
    /// New over base: the estimate of Hodges and Lehmann of the ratio between a Run of each.
    pub ratio: Option<f64>,
    /// The lower end of its 95 % interval; absent where the Runs are too few for one.
    pub ratio_low: Option<f64>,
    /// The upper end.
    pub ratio_high: Option<f64>,
    /// The p-value of this measure alone.
    pub p: Option<f64>,
    /// Corrected for all measures of all families, and for all sides.
    pub p_adjusted: Option<f64>,
    /// What can be said.
    pub verdict: VerdictWord,
    /// With `no_difference_larger_than`: the relative difference that is meant.
    pub no_larger_than: Option<f64>,
    /// With `not_enough_runs`: how many Runs each side needs to tell a difference of the margin, where the scatter
    /// met so far allows an answer (80 % power).
    pub runs_needed: Option<u64>,
}

/// A side's Runs in one measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// How many Runs have the number.
    pub runs: u64,
    /// How many values (wake-ups, operations) stand behind them.
    pub values: u64,
    /// The median of the Runs.
    pub median: f64,
    /// Whether nothing is known of the median but that it lies above this: the source's histogram ended there.
    #[serde(default)]
    pub above: bool,
    /// The minimum of the Runs.
    #[serde(alias = "least")]
    pub min: f64,
    /// The maximum of the Runs.
    #[serde(alias = "greatest")]
    pub max: f64,
    /// The lower end of the median's 95 % interval over Runs; absent below six Runs.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
}

/// What can be said of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictWord {
    /// The new side is better.
    Better,
    /// The new side is worse.
    Worse,
    /// Whatever the difference is, it is within the margin.
    NoDifferenceLargerThan,
    /// None of these can be said.
    NotEnoughRuns,
}

/// A kind of cause in the worst cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseShare {
    /// Its name.
    pub cause: String,
    /// Its share of the base side's worst cases.
    pub base: Share,
    /// Its share of the other side's.
    pub new: Share,
}

/// A share of the time of all worst cases of a side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// The share, 0 to 1.
    pub share: f64,
    /// The lower end of its 95 % interval (bootstrap over Runs); absent below five Runs.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// How many worst cases were explained.
    pub cases: u64,
}

/// The maximum latencies to expect: a forecast from block maxima, not a bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// Of what.
    pub of: String,
    /// How long a block was, in nanoseconds.
    pub block_ns: u64,
    /// How many blocks there were.
    pub blocks: u64,
    /// The p-value of the fit of the generalised extreme-value distribution (Anderson and Darling).
    pub fit_p: Option<f64>,
    /// The levels; empty where there is no forecast.
    pub levels: Vec<Level>,
    /// Why there is no forecast.
    pub why_not: Option<String>,
}

/// What is passed once in so long a time, on average.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// The time, in nanoseconds.
    pub once_in_ns: u64,
    /// The latency, in nanoseconds.
    pub value_ns: f64,
    /// The lower end of its 95 % interval.
    pub low_ns: f64,
    /// The upper end; absent where the data allow any.
    pub high_ns: Option<f64>,
}
