// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search for weights, and how far the simulation may be believed. Owns what is better; the schedule is the engine's.

use std::collections::BTreeSet;

use latebound_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::engine::simulate;
use super::{Outcome, Step, Workload, WorkloadError};
use crate::policy::{PolicyKind, Weight};

/// How a simulation of what was recorded compares with the recording.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Agreement {
    /// How many activations have a recorded response time and ended in the simulation.
    pub compared: usize,
    /// How many were recorded, but did not end in the simulation.
    pub unfinished: usize,
    /// The median of |simulated - recorded|.
    pub median_error: Nanos,
    /// The maximum of them.
    pub worst_error: Nanos,
    /// The median error as a share of the median recorded response.
    pub share: f64,
}

/// Simulates what was recorded under the policy that was then in force, and compares. `None` where nothing was recorded.
pub fn agreement(workload: &Workload, kind: PolicyKind) -> Result<Option<Agreement>, WorkloadError> {
    let outcome = simulate(workload, kind)?;
    let (mut errors, mut recorded, mut unfinished) = (Vec::new(), Vec::new(), 0);
    for (task, responses) in workload.tasks.iter().zip(&outcome.tasks) {
        for (place, work) in task.activations.iter().enumerate() {
            let Some(then) = work.recorded else { continue };
            match responses.times.get(place) {
                Some(simulated) => {
                    errors.push(Nanos(simulated.0.abs_diff(then.0)));
                    recorded.push(then);
                }
                None => unfinished += 1,
            }
        }
    }
    errors.sort_unstable();
    recorded.sort_unstable();
    let Some(&worst_error) = errors.last() else { return Ok(None) };
    let median_error = errors[errors.len() / 2];
    let median = recorded[recorded.len() / 2];
    let share = median_error.0 as f64 / median.0.max(1) as f64;
    Ok(Some(Agreement { compared: errors.len(), unfinished, median_error, worst_error, share }))
}

/// What to search for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitOptions {
    /// By how much of its worst response with the policy off any task may get worse: 0.05 is one twentieth.
    pub loss: f64,
    /// The most simulations.
    pub simulations: usize,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fit {
    /// w for each kernel thread of the workload.
    pub weights: Vec<Weight>,
    /// Of which kernel threads it was searched: those that a real-time task asks. That of no other matters.
    pub searched: Vec<usize>,
    /// With the weights that the workload came with.
    pub before: Outcome,
    /// With those found.
    pub after: Outcome,
    /// How many simulations it took.
    pub simulations: usize,
    /// Whether every weight was tried with every other; otherwise one was changed at a time until none helped, or the search was stopped.
    pub exhaustive: bool,
    /// Whether the loss allowed is kept. Where no weights keep it, those are given that come nearest.
    pub within_loss: bool,
}

/// The weights that are tried, in thousandths. The result changes where a weighted mean passes another priority, so that a
/// finer grid would find little; 3.0 gives the highest of any mix with at least a third of the mean.
const TRIED: [u32; 14] = [100, 200, 400, 600, 700, 800, 900, 1000, 1100, 1200, 1400, 1700, 2000, 3000];

/// The lower the better: unfinished activations, loss above what is allowed, then the worst responses of the tasks from the
/// highest priority down, then the sum of all responses.
type Score = (usize, u64, Vec<Nanos>, u128);

/// Searches w for each kernel thread: the best worst case at no loss above the share allowed. `goes_on` gets after each simulation how many there
/// were and how many there will be at most, and says whether to go on; what was found until then is the answer.
pub fn fit(
    workload: &Workload,
    options: FitOptions,
    goes_on: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Fit, WorkloadError> {
    let off = simulate(workload, PolicyKind::Off)?;
    let before = simulate(workload, PolicyKind::WeightedAverage)?;
    let mut search = Search {
        workload: workload.clone(),
        off: &off,
        options,
        simulations: 2,
        most: options.simulations,
        tried: asked(workload),
        goes_on,
        stopped: false,
    };
    let start: Vec<Weight> = workload.servers.iter().map(|server| server.weight).collect();
    let combinations = TRIED.len().checked_pow(search.tried.len() as u32).unwrap_or(usize::MAX);
    let exhaustive = combinations <= options.simulations.saturating_sub(search.simulations);
    if exhaustive {
        search.most = combinations + search.simulations + 1;
    }
    let (weights, score) = match exhaustive {
        true => search.all(start)?,
        false => search.one_at_a_time(start)?,
    };
    search.set(&weights);
    let after = simulate(&search.workload, PolicyKind::WeightedAverage)?;
    let (simulations, exhaustive) = (search.simulations, exhaustive && !search.stopped);
    let searched = search.tried;
    Ok(Fit { weights, searched, before, after, simulations, exhaustive, within_loss: score.1 == 0 })
}

struct Search<'a> {
    workload: Workload,
    off: &'a Outcome,
    options: FitOptions,
    simulations: usize,
    /// There will be no more.
    most: usize,
    /// The kernel threads whose weights are tried.
    tried: Vec<usize>,
    goes_on: &'a mut dyn FnMut(usize, usize) -> bool,
    stopped: bool,
}

/// The kernel threads that a real-time task asks: the weight of no other matters.
fn asked(workload: &Workload) -> Vec<usize> {
    let real_time = workload.tasks.iter().filter(|task| task.priority.is_some());
    let steps = real_time.flat_map(|task| &task.activations).flat_map(|work| &work.steps);
    let servers = steps.filter_map(|step| match *step {
        Step::Ask { server, .. } => Some(server),
        Step::Run(_) | Step::Sleep(_) => None,
    });
    servers.collect::<BTreeSet<usize>>().into_iter().collect()
}

impl Search<'_> {
    fn set(&mut self, weights: &[Weight]) {
        for (server, &weight) in self.workload.servers.iter_mut().zip(weights) {
            server.weight = weight;
        }
    }

    fn score(&mut self, weights: &[Weight]) -> Result<Score, WorkloadError> {
        self.set(weights);
        self.simulations += 1;
        let outcome = simulate(&self.workload, PolicyKind::WeightedAverage)?;
        self.stopped |= !(self.goes_on)(self.simulations, self.most);
        let mut loss = 0;
        for (now, then) in outcome.tasks.iter().zip(&self.off.tasks) {
            // What did not end at all with the policy off has no worst case that could be kept.
            if let (Some(now), Some(then), 0) = (now.worst(), then.worst(), then.unfinished) {
                let allowed = then.0.saturating_add((then.0 as f64 * self.options.loss) as u64);
                loss = u64::saturating_add(loss, now.0.saturating_sub(allowed));
            }
        }
        let mut order: Vec<usize> = (0..self.workload.tasks.len()).collect();
        order.sort_by_key(|&task| std::cmp::Reverse(self.workload.tasks[task].priority));
        let worst = order.iter().map(|&task| outcome.tasks[task].worst().unwrap_or(Nanos::ZERO)).collect();
        let unfinished = outcome.tasks.iter().map(|task| task.unfinished).sum();
        let sum = outcome.tasks.iter().flat_map(|task| &task.times).map(|time| u128::from(time.0)).sum();
        Ok((unfinished, loss, worst, sum))
    }

    fn all(&mut self, start: Vec<Weight>) -> Result<(Vec<Weight>, Score), WorkloadError> {
        let mut best = (start.clone(), self.score(&start)?);
        let total = TRIED.len().pow(self.tried.len() as u32);
        for mut number in 0..total {
            if self.stopped {
                break;
            }
            let mut weights = start.clone();
            for &server in &self.tried {
                let tried = Weight::thousandths(TRIED[number % TRIED.len()]);
                weights[server] = tried.unwrap_or(weights[server]);
                number /= TRIED.len();
            }
            let score = self.score(&weights)?;
            if score < best.1 {
                best = (weights, score);
            }
        }
        Ok(best)
    }

    fn one_at_a_time(&mut self, start: Vec<Weight>) -> Result<(Vec<Weight>, Score), WorkloadError> {
        let mut best = (start.clone(), self.score(&start)?);
        loop {
            let mut better = false;
            for server in self.tried.clone() {
                for thousandths in TRIED {
                    if self.stopped || self.simulations >= self.options.simulations {
                        return Ok(best);
                    }
                    let mut weights = best.0.clone();
                    weights[server] = Weight::thousandths(thousandths).unwrap_or(weights[server]);
                    let score = self.score(&weights)?;
                    if score < best.1 {
                        best = (weights, score);
                        better = true;
                    }
                }
            }
            if !better {
                return Ok(best);
            }
        }
    }
}
