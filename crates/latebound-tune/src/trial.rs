// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial: the same workload under each policy in turns, timed from outside, and compared. Owns what the responses of a turn mean, and the
//! document of `tune prove`. It starts nothing and reads nothing: responses come in as values; how they read is for `latebound-report`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use latebound_compare::{Comparison, Options, Side, compare};
use latebound_model::{
    Emulation, Evidence, Histogram, Loss, Mechanism, Missing, Nanos, Quantity, Response, Run, RunState,
    Series, Subject, SystemSnapshot, Throughput, Tid,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::PolicyKind;
use crate::session::PageShares;

/// The schema of [`Trial`] that this version writes.
pub const TRIAL_SCHEMA: &str = "latebound.tune-prove/1";

/// Points of a curve: more cannot be told apart in a picture. Of those that fall together the longest is kept.
const CURVE_POINTS: u64 = 1_500;

/// When a response began, since the start of the turn, and how long it took.
pub type Curve = Vec<(Nanos, Nanos)>;

/// The memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryLevel {
    /// Since the start of the turn.
    pub at: Nanos,
    /// Pages that are dirty or being written back, in KiB.
    pub dirty_kib: u64,
    /// Free pages, in KiB.
    pub free_kib: u64,
}

impl MemoryLevel {
    /// From the text of /proc/meminfo; a line that is not there counts as 0.
    pub fn of(at: Nanos, text: &str) -> MemoryLevel {
        let of = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0)
        };
        MemoryLevel { at, dirty_kib: of("Dirty:") + of("Writeback:"), free_kib: of("MemFree:") }
    }
}

/// The account of a tuner at its end: the part of [`crate::document::TuneRun`] that a trial keeps.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TunerAccount {
    /// Changes of priority.
    pub changes: u64,
    /// Of those, how many could not be made.
    pub failed: u64,
    /// From a wait to the priority that follows: how many.
    pub reactions: u64,
    /// The median.
    pub reaction_median: Option<Nanos>,
    /// The maximum.
    #[serde(rename = "reaction_worst")]
    pub reaction_max: Option<Nanos>,
    /// Poll passes.
    #[serde(default, rename = "looks")]
    pub polls: u64,
    /// The processor time of a poll pass: the median.
    #[serde(default, rename = "look_median")]
    pub poll_median: Option<Nanos>,
    /// The maximum.
    #[serde(default, rename = "look_worst")]
    pub poll_max: Option<Nanos>,
    /// Which share of the pages belonged to the tasks that waited for reclaim; absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_shares: Option<PageShares>,
    /// What is not as it was, and why.
    pub left: Vec<String>,
}

/// One task under one policy, all rounds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrialTask {
    /// Its name.
    pub name: String,
    /// Whether it is no task of the command.
    pub other: bool,
    /// Its highest real-time priority.
    pub priority: u8,
    /// Its responses.
    pub responses: Histogram,
    /// Of those, how many were not over at the end of a round, and count with the time until then.
    #[serde(default)]
    pub unfinished: u64,
    /// Of the first round; of those that fall together the longest.
    pub curve: Curve,
}

/// One policy.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrialPolicy {
    /// The policy.
    pub policy: PolicyKind,
    /// Turns that it had.
    pub rounds: u32,
    /// The time of all turns.
    pub measured: Nanos,
    /// The tasks, those of the command first.
    pub tasks: Vec<TrialTask>,
    /// The memory in the first round.
    pub levels: Vec<MemoryLevel>,
    /// Bytes that the disks read and wrote.
    pub disks: [u64; 2],
    /// Responses that are in no number.
    pub lost: u64,
    /// The tuner's account of each turn; none where no tuner runs.
    pub tuned: Vec<TunerAccount>,
}

impl TrialPolicy {
    /// Without a turn yet.
    pub fn new(policy: PolicyKind) -> TrialPolicy {
        TrialPolicy {
            policy,
            rounds: 0,
            measured: Nanos::ZERO,
            tasks: Vec::new(),
            levels: Vec::new(),
            disks: [0; 2],
            lost: 0,
            tuned: Vec::new(),
        }
    }

    /// One more turn.
    pub fn add(&mut self, turn: &Turn) {
        self.rounds += 1;
        for ((other, name), responses) in turn.tasks() {
            let place = self.tasks.iter().position(|task| task.name == name && task.other == other);
            let place = place.unwrap_or_else(|| {
                self.tasks.push(TrialTask {
                    name: name.clone().into_owned(),
                    other,
                    priority: 0,
                    responses: Histogram::new(),
                    unfinished: 0,
                    curve: turn.curve(&responses),
                });
                self.tasks.len() - 1
            });
            let task = &mut self.tasks[place];
            for one in responses {
                task.priority = task.priority.max(one.priority);
                task.responses.record(one.duration());
            }
            task.unfinished += turn.unfinished.iter().filter(|one| one.name() == name).count() as u64;
        }
        if self.levels.is_empty() {
            self.levels.clone_from(&turn.levels);
        }
        for loss in &turn.losses {
            self.lost += loss.count.unwrap_or(0);
        }
        self.disks[0] += turn.disks[0];
        self.disks[1] += turn.disks[1];
        self.measured += turn.duration;
        self.tuned.extend(turn.tuner.clone());
    }
}

/// The document of `tune prove`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// [`TRIAL_SCHEMA`].
    pub schema: String,
    /// The workload.
    pub command: Vec<String>,
    /// What emulates the processor, where something does.
    pub emulation: Option<Emulation>,
    /// The kernel's release.
    pub release: Option<String>,
    /// For how long each turn was measured.
    pub duration: Nanos,
    /// The policies, the base first.
    pub policies: Vec<TrialPolicy>,
    /// The policies compared with the base.
    pub comparison: Comparison,
    /// What could not be seen.
    pub missing: Vec<Missing>,
}

/// A document that is no trial of this version.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// It is no JSON of that form.
    #[error("it is no document of `latebound tune prove --format json`")]
    Form(#[source] serde_json::Error),
    /// It has another schema.
    #[error("it has the schema {0}, and this is for {TRIAL_SCHEMA}")]
    Schema(String),
}

impl Trial {
    /// From the JSON that `tune prove` writes.
    pub fn parse(text: &str) -> Result<Trial, TrialError> {
        let trial: Trial = serde_json::from_str(text).map_err(TrialError::Form)?;
        if trial.schema != TRIAL_SCHEMA {
            return Err(TrialError::Schema(trial.schema));
        }
        Ok(trial)
    }
}

/// A trial while its turns come in.
#[derive(Debug)]
pub struct TrialBuilder {
    sides: Vec<Side>,
    policies: Vec<TrialPolicy>,
}

impl TrialBuilder {
    /// Of these policies, the base first.
    pub fn new(policies: &[PolicyKind]) -> TrialBuilder {
        TrialBuilder {
            sides: policies.iter().map(|kind| Side::new(kind.name())).collect(),
            policies: policies.iter().map(|&kind| TrialPolicy::new(kind)).collect(),
        }
    }

    /// The places of the policies in the order of this round: each round begins with the next one, so that what changes over the time falls
    /// on all alike.
    pub fn order(&self, round: u32) -> impl Iterator<Item = usize> + use<> {
        let number = self.policies.len();
        (0..number).map(move |place| (place + round as usize) % number)
    }

    /// One turn of the policy at this place, with its Run and the Run's name.
    pub fn add(&mut self, place: usize, turn: &Turn, run: &Run, name: &str) {
        if let (Some(side), Some(policy)) = (self.sides.get_mut(place), self.policies.get_mut(place)) {
            side.add(run, name);
            policy.add(turn);
        }
    }

    /// The document. `None`: the base had no turn.
    pub fn finish(
        mut self,
        command: &[String],
        system: &SystemSnapshot,
        duration: Nanos,
        missing: Vec<Missing>,
    ) -> Option<Trial> {
        let base =
            (!self.sides.is_empty()).then(|| self.sides.remove(0)).filter(|base| !base.runs.is_empty())?;
        self.sides.retain(|side| !side.runs.is_empty());
        let options = Options { level: 0.05, margin: 0.05, least_effect: 0.01, seed: 1 };
        Some(Trial {
            schema: TRIAL_SCHEMA.to_owned(),
            command: command.to_vec(),
            emulation: system.emulation.clone(),
            release: system.kernel_release.clone(),
            duration,
            policies: self.policies,
            comparison: compare(&base, &self.sides, &options),
            missing,
        })
    }
}

/// One policy, measured once.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Responses that began in its time, and ended before they were fetched.
    pub responses: Vec<Response>,
    /// Those that were not over at the end, with the time until then: [`Turn::add_unfinished`].
    pub unfinished: Vec<Response>,
    /// Whether a process belongs to the command.
    pub own: HashMap<Tid, bool>,
    /// When it began, by CLOCK_MONOTONIC.
    pub started: Nanos,
    /// How long it took.
    pub duration: Nanos,
    /// The memory meanwhile.
    pub levels: Vec<MemoryLevel>,
    /// Bytes that the disks read and wrote.
    pub disks: [u64; 2],
    /// What was lost meanwhile.
    pub losses: Vec<Loss>,
    /// What could not be seen.
    pub missing: Vec<Missing>,
    /// The tuner's account; `None`: no tuner ran.
    pub tuner: Option<TunerAccount>,
    /// Whether it was measured to its end.
    pub complete: bool,
}

impl Turn {
    /// By name, those of the command first; the unfinished too.
    pub fn tasks(&self) -> BTreeMap<(bool, Cow<'_, str>), Vec<&Response>> {
        let mut tasks: BTreeMap<(bool, Cow<'_, str>), Vec<&Response>> = BTreeMap::new();
        for response in self.responses.iter().chain(&self.unfinished) {
            let other = !self.own.get(&response.process).copied().unwrap_or(false);
            tasks.entry((other, response.name())).or_default().push(response);
        }
        tasks
    }

    /// Adds what is under way at the end, for the tasks of its responses, given as task and start: it lasts until then at least, and is
    /// counted with that. Left out, a task that is held up for the rest of the turn would look as if nothing had been late.
    pub fn add_unfinished(&mut self, under_way: &[(Tid, Nanos)], ended: Nanos) {
        let mut by_task: HashMap<Tid, Vec<&Response>> = HashMap::new();
        for one in &self.responses {
            by_task.entry(one.task).or_default().push(one);
        }
        for &(task, start) in under_way.iter().filter(|one| one.1 >= self.started) {
            let own = by_task.get(&task).map_or(&[][..], Vec::as_slice);
            let Some(&last) = own.last() else { continue };
            for start in due_until(own.iter().map(|one| one.start), start, ended) {
                self.unfinished.push(Response { start, end: ended, ..*last });
            }
        }
    }

    /// The curve of one task.
    pub fn curve(&self, responses: &[&Response]) -> Curve {
        let step = (self.duration.0 / CURVE_POINTS).max(1);
        let mut points: BTreeMap<u64, (Nanos, Nanos)> = BTreeMap::new();
        for one in responses {
            let (at, took) = (one.start.saturating_sub(self.started), one.duration());
            let slot = points.entry(at.0 / step).or_insert((at, took));
            if took > slot.1 {
                *slot = (at, took);
            }
        }
        points.into_values().collect()
    }

    /// Fills this Run in.
    pub fn run(&self, mut run: Run) -> Run {
        run.duration = self.duration;
        run.started_monotonic = self.started;
        run.state = if self.complete { RunState::Complete } else { RunState::Interrupted };
        for ((other, name), responses) in self.tasks() {
            let mut histogram = Histogram::new();
            responses.iter().for_each(|one| histogram.record(one.duration()));
            let name = if other { format!("{name} (other)") } else { name.into_owned() };
            run.throughput.push(Throughput {
                name: format!("{name} responses"),
                unit: "responses".to_owned(),
                done: histogram.count(),
                duration: self.duration,
                offered: None,
            });
            let subject = Subject { name, ..Subject::default() };
            run.series.push(Series::new(
                Mechanism::Operation,
                Quantity::Latency,
                subject,
                Evidence::Events,
                histogram,
            ));
        }
        for (name, bytes) in [("disks read", self.disks[0]), ("disks written", self.disks[1])] {
            run.throughput.push(Throughput {
                name: name.to_owned(),
                unit: "bytes".to_owned(),
                done: bytes,
                duration: self.duration,
                offered: None,
            });
        }
        run.losses.clone_from(&self.losses);
        run.missing.extend(self.missing.iter().cloned());
        run
    }
}

/// What was lost between two accounts of the same probe.
pub fn losses_between(before: &[Loss], mut after: Vec<Loss>) -> Vec<Loss> {
    for loss in &mut after {
        let old = before.iter().find(|old| old.key() == loss.key()).and_then(|old| old.count).unwrap_or(0);
        loss.count = loss.count.map(|count| count.saturating_sub(old));
    }
    after.retain(|loss| loss.count != Some(0));
    after
}

/// A response that is under way, and those that were due since: of a task whose last starts, and this one, lie the same number of
/// nanoseconds apart, which only times that it asked for do.
fn due_until(before: impl DoubleEndedIterator<Item = Nanos>, start: Nanos, now: Nanos) -> Vec<Nanos> {
    let mut starts: Vec<Nanos> = before.rev().take(3).collect();
    starts.insert(0, start);
    let apart: Vec<u64> =
        starts.iter().zip(starts.iter().skip(1)).map(|(later, one)| later.0.saturating_sub(one.0)).collect();
    match apart.as_slice() {
        [period, others @ ..]
            if *period > 0 && others.len() == 2 && others.iter().all(|one| one == period) =>
        {
            (start.0..now.0).step_by(*period as usize).map(Nanos).collect()
        }
        _ => vec![start],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_until_repeats_a_fixed_period_only() {
        let due = |before: &[u64], start, now| {
            let due = due_until(before.iter().map(|&at| Nanos(at)), Nanos(start), Nanos(now));
            due.into_iter().map(|at| at.0).collect::<Vec<u64>>()
        };
        assert_eq!(due(&[5, 100, 200, 300], 400, 650), [400, 500, 600]);
        assert_eq!(due(&[100, 200, 301], 400, 650), [400]);
        assert_eq!(due(&[200, 300], 400, 650), [400]);
        assert_eq!(due(&[], 400, 650), [400]);
        assert_eq!(due(&[400, 400, 400], 400, 650), [400]);
    }
}
