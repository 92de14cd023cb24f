// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documents of `lab kernels` and `lab bisect`. Owns their JSON form; that of a matrix is [`crate::Matrix`].

use latebound_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::bisect::{KernelVerdict, Verdict, name_of};
use crate::list::Listed;
use crate::metric::Metric;

/// The document of `lab kernels`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KernelsDocument<'a> {
    /// `latebound.kernels/1`.
    schema: &'static str,
    /// The kernels, by name.
    kernels: &'a [Listed],
}

impl<'a> KernelsDocument<'a> {
    /// Of these kernels.
    pub fn new(kernels: &'a [Listed]) -> KernelsDocument<'a> {
        KernelsDocument { schema: "latebound.kernels/1", kernels }
    }
}

/// The document of `lab bisect`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BisectDocument<'a> {
    /// `latebound.bisect/1`.
    schema: &'static str,
    /// What was read of each Run, as `--metric` names it.
    metric: String,
    /// A value above this is bad.
    over: Nanos,
    /// The first bad kernel is one of these; more than one where skipped kernels hide it.
    first_bad: Vec<&'a str>,
    /// How likely that is right, given that the ends are what they were called.
    certainty: f64,
    /// Every kernel that was run, in order.
    kernels: Vec<JudgedKernel<'a>>,
}

/// What was found of one kernel.
#[derive(Debug, Serialize, JsonSchema)]
struct JudgedKernel<'a> {
    /// Its name or commit.
    kernel: &'a str,
    /// The values of its runs.
    values: &'a [Nanos],
    /// Whether it is bad; null where it was skipped.
    bad: Option<bool>,
    /// How likely that is right, 0.5 to 1; 1 for the ends, which are given.
    certainty: f64,
    /// Why it was skipped.
    skipped: Option<&'a str>,
}

impl<'a> BisectDocument<'a> {
    /// Of a verdict on the row of kernels with these names.
    pub fn new(
        names: &'a [String],
        metric: &Metric,
        over: Nanos,
        verdict: &'a Verdict,
    ) -> BisectDocument<'a> {
        let judged = |judged: &'a KernelVerdict| JudgedKernel {
            kernel: name_of(names, judged.index),
            values: &judged.values,
            bad: judged.bad,
            certainty: judged.certainty,
            skipped: judged.skipped.as_deref(),
        };
        BisectDocument {
            schema: "latebound.bisect/1",
            metric: metric.to_string(),
            over,
            first_bad: verdict.first_bad.iter().map(|&index| name_of(names, index)).collect(),
            certainty: verdict.certainty,
            kernels: verdict.judged.iter().map(judged).collect(),
        }
    }
}
