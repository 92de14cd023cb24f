// SPDX-License-Identifier: MIT OR Apache-2.0
//! The document of `tune prove`, its text and its pictures. Reads no clock; reads the memory's state and writes pictures only.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use latebound_compare::Comparison;
use latebound_model::{Emulation, Histogram, Missing, Nanos};
use latebound_report::html::{ProofArm, ProofPictures, proof_pictures, proofs_together};
use latebound_report::terminal::{self, Style};
use latebound_report::{grouped, printable};
use latebound_tune::PolicyKind;
use serde::{Deserialize, Serialize};

pub(crate) const PROVE_SCHEMA: &str = "latebound.tune-prove/1";

/// When a response began, since the start of the turn, and how long it took.
pub(crate) type Curve = Vec<(Nanos, Nanos)>;

/// The memory at one moment.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Level {
    pub(crate) at: Nanos,
    /// Pages that are dirty or being written back, in kilobytes.
    pub(crate) dirty_kib: u64,
    pub(crate) free_kib: u64,
}

impl Level {
    /// By the text of /proc/meminfo.
    pub(crate) fn of(at: Nanos, text: &str) -> Level {
        let of = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0)
        };
        Level { at, dirty_kib: of("Dirty:") + of("Writeback:"), free_kib: of("MemFree:") }
    }
}

/// Equation (3): the shares of pages that belonged to those that waited for reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shares {
    /// How often it was asked for.
    pub(crate) asked: u64,
    /// How often it was measured; where the rest is missing, whoever reads it came to run too late or not at all.
    pub(crate) measured: u64,
    /// How often nobody keeps an account of one of these tasks, so that it counted as 1.
    pub(crate) unknown: u64,
    /// The minimum, the most and the last that was measured.
    #[serde(alias = "least")]
    pub(crate) min: Option<f64>,
    pub(crate) most: Option<f64>,
    pub(crate) last: Option<f64>,
}

/// What a tuner said at its end; the rest of its document is left out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tuned {
    pub(crate) changes: u64,
    pub(crate) failed: u64,
    pub(crate) reactions: u64,
    pub(crate) reaction_median: Option<Nanos>,
    pub(crate) reaction_worst: Option<Nanos>,
    #[serde(default)]
    pub(crate) looks: u64,
    #[serde(default)]
    pub(crate) look_median: Option<Nanos>,
    #[serde(default)]
    pub(crate) look_worst: Option<Nanos>,
    /// Which share of the pages belonged to those that waited for reclaim; absent where nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) page_shares: Option<Shares>,
    pub(crate) left: Vec<String>,
}

/// One task under one policy, all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProofTask {
    pub(crate) name: String,
    /// Not of the command.
    pub(crate) other: bool,
    pub(crate) priority: u8,
    pub(crate) responses: Histogram,
    /// Of those, how many were not over at the end of a round, and count with the time until then.
    #[serde(default)]
    pub(crate) unfinished: u64,
    /// Of the first round; of those that fall together the longest.
    pub(crate) curve: Curve,
}

impl ProofTask {
    pub(crate) fn new(name: &str, other: bool, curve: Curve) -> ProofTask {
        ProofTask {
            name: name.to_owned(),
            other,
            priority: 0,
            responses: Histogram::new(),
            unfinished: 0,
            curve,
        }
    }
}

/// One policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProofPolicy {
    pub(crate) policy: PolicyKind,
    pub(crate) rounds: u32,
    pub(crate) measured: Nanos,
    pub(crate) tasks: Vec<ProofTask>,
    /// Of the first round.
    pub(crate) levels: Vec<Level>,
    /// Bytes read and written.
    pub(crate) disks: [u64; 2],
    /// Responses that are in no number.
    pub(crate) lost: u64,
    pub(crate) tuned: Vec<Tuned>,
}

impl ProofPolicy {
    pub(crate) fn new(policy: PolicyKind) -> ProofPolicy {
        ProofPolicy {
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
}

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Proof {
    pub(crate) schema: String,
    pub(crate) command: Vec<String>,
    pub(crate) emulation: Option<Emulation>,
    pub(crate) release: Option<String>,
    pub(crate) duration: Nanos,
    pub(crate) policies: Vec<ProofPolicy>,
    pub(crate) comparison: Comparison,
    pub(crate) missing: Vec<Missing>,
}

impl Proof {
    /// From the JSON that `tune prove` writes.
    pub(crate) fn parse(text: &str) -> Result<Proof> {
        let proof: Proof = serde_json::from_str(text)
            .context("it is no document of `latebound tune prove --format json`")?;
        if proof.schema != PROVE_SCHEMA {
            bail!("it has the schema {}, and this is for {PROVE_SCHEMA}", proof.schema);
        }
        Ok(proof)
    }

    /// Where its times come from.
    fn origin(&self) -> String {
        match &self.emulation {
            Some(way) => format!(
                "Emulated ({}, {} clock): times compare with each other, never with hardware.",
                way.by, way.clock
            ),
            None => format!("Linux {}", self.release.as_deref().unwrap_or("unknown")),
        }
    }

    pub(crate) fn text(&self, style: &Style) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "  {:<17} {:<22} {:>9} {:>10} {:>10} {:>10} {:>10}",
            "policy", "task (priority)", "n", "p50", "p99", "p99.9", "max"
        );
        for policy in &self.policies {
            for task in &policy.tasks {
                let time =
                    |value: Option<Nanos>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
                let other = if task.other { ", other" } else { "" };
                let name = format!("{} ({}{other})", printable(&task.name), task.priority);
                let h = &task.responses;
                let _ = writeln!(
                    text,
                    "  {:<17} {name:<22} {:>9} {:>10} {:>10} {:>10} {:>10}",
                    policy.policy.name(),
                    grouped(h.count()),
                    time(h.quantile(0.5)),
                    time(h.quantile(0.99)),
                    time(h.quantile(0.999)),
                    time(h.max())
                );
            }
        }
        for policy in self.policies.iter().filter(|policy| !policy.tuned.is_empty()) {
            let sum = |of: fn(&Tuned) -> u64| policy.tuned.iter().map(of).fold(0, u64::saturating_add);
            let medians: Vec<Nanos> = policy.tuned.iter().filter_map(|one| one.reaction_median).collect();
            let range = match (medians.iter().min(), medians.iter().max()) {
                (Some(lowest), Some(most)) => {
                    format!(
                        "; from wait to priority {lowest} to {most} (medians of the rounds, n {})",
                        sum(|one| one.reactions)
                    )
                }
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "\n  {}: {} changes of priority in {} rounds, {} failed{range}",
                policy.policy.name(),
                grouped(sum(|one| one.changes)),
                policy.rounds,
                sum(|one| one.failed)
            );
            let medians: Vec<Nanos> = policy.tuned.iter().filter_map(|one| one.look_median).collect();
            if let (Some(lowest), Some(most), Some(worst)) = (
                medians.iter().min(),
                medians.iter().max(),
                policy.tuned.iter().filter_map(|one| one.look_worst).max(),
            ) {
                let _ = writeln!(
                    text,
                    "  the tuner looked {} times, for {lowest} to {most} of processor time (medians of the rounds), {worst} at most",
                    grouped(sum(|one| one.looks))
                );
            }
            text.push_str(&page_shares(&policy.tuned));
            for left in policy.tuned.iter().flat_map(|one| &one.left) {
                let _ = writeln!(text, "  Not as before: {left}");
            }
        }
        for policy in &self.policies {
            // A task that computes or reads without pause is always in one; only those that are held up matter.
            for task in policy.tasks.iter().filter(|task| task.unfinished > 0) {
                let _ = writeln!(
                    text,
                    "\n  {}: {} responses of {} were not over at the end of a round, and count with the time until then",
                    policy.policy.name(),
                    task.unfinished,
                    printable(&task.name)
                );
            }
        }
        for policy in self.policies.iter().filter(|policy| policy.lost > 0) {
            let _ = writeln!(text, "  Lost with {}: {} responses", policy.policy.name(), policy.lost);
        }
        for missing in &self.missing {
            let _ = writeln!(text, "\n  Not seen: {missing}");
        }
        text + &terminal::comparison(&self.comparison, false, style)
    }
}

/// Equation (3), of all rounds: whether the share was measured, and what it was.
fn page_shares(tuned: &[Tuned]) -> String {
    let shares: Vec<Shares> = tuned.iter().filter_map(|one| one.page_shares).collect();
    if shares.is_empty() {
        return String::new();
    }
    let sum = |of: fn(&Shares) -> u64| shares.iter().map(of).fold(0, u64::saturating_add);
    let (asked, measured, unknown) = (sum(|one| one.asked), sum(|one| one.measured), sum(|one| one.unknown));
    let lowest = shares.iter().filter_map(|one| one.min).reduce(f64::min);
    let most = shares.iter().filter_map(|one| one.most).reduce(f64::max);
    let range = match (lowest, most) {
        (Some(lowest), Some(most)) => format!(", {:.1} to {:.1} %", 100.0 * lowest, 100.0 * most),
        _ => String::new(),
    };
    let unknown = match unknown {
        0 => String::new(),
        times => format!("; {times} times nobody kept an account of it, and it counted as all"),
    };
    format!(
        "  the share of the pages that belonged to those that waited for reclaim was asked for {asked} times in {} of {} \
         rounds and measured {measured} times{range}{unknown}\n",
        shares.len(),
        tuned.len()
    )
}

/// The cumulative distributions of each task in all proofs that have it, a picture for each policy.
pub(crate) fn write_together(proofs: &[(&str, &Proof)], folder: &Path) -> Result<()> {
    let mut drawn: BTreeMap<(&str, &str), Vec<(&str, &Histogram)>> = BTreeMap::new();
    for &(name, proof) in proofs {
        for policy in &proof.policies {
            for task in policy.tasks.iter().filter(|task| !task.other) {
                let of = drawn.entry((&task.name, policy.policy.name())).or_default();
                of.push((name, &task.responses));
            }
        }
    }
    let origin = proofs.first().map(|(_, proof)| proof.origin()).unwrap_or_default();
    for ((task, policy), lines) in drawn {
        if let Some(picture) = proofs_together(task, policy, &origin, &lines) {
            let path = folder.join(format!("{}-{policy}.svg", task.replace('/', "_")));
            latebound_files::write(&path, picture.svg)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// Response over time, cumulative distribution, dirty and free memory, as SVG files in this folder.
pub(crate) fn write_pictures(proof: &Proof, folder: &Path) -> Result<()> {
    for (name, svg) in pictures(proof) {
        let path = folder.join(name);
        latebound_files::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Those files: name and content of each.
pub(crate) fn pictures(proof: &Proof) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut names: Vec<(&str, bool)> = Vec::new();
    for task in proof.policies.iter().flat_map(|policy| &policy.tasks) {
        if !names.contains(&(task.name.as_str(), task.other)) {
            names.push((&task.name, task.other));
        }
    }
    let origin = proof.origin();
    for (name, other) in names.into_iter().filter(|(_, other)| !other) {
        let arms: Vec<ProofArm<'_>> = proof
            .policies
            .iter()
            .filter_map(|policy| {
                let task = policy.tasks.iter().find(|task| task.name == name && task.other == other)?;
                Some(ProofArm {
                    name: policy.policy.name(),
                    responses: &task.responses,
                    curve: &task.curve,
                    dirty: policy.levels.iter().map(|level| (level.at, level.dirty_kib)).collect(),
                    free: policy.levels.iter().map(|level| (level.at, level.free_kib)).collect(),
                })
            })
            .collect();
        let shown = ProofPictures { task: name, origin: &origin, arms: &arms };
        for (kind, picture) in proof_pictures(&shown) {
            files.push((format!("{}-{kind}.svg", name.replace('/', "_")), picture.svg));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(policies: &str) -> String {
        let comparison = include_str!("../../latebound-report/tests/compare.json");
        format!(
            r#"{{"schema":"{PROVE_SCHEMA}","command":["x"],"emulation":null,"release":"6.12","duration":1,"policies":[{policies}],
            "comparison":{comparison},"missing":[]}}"#
        )
    }

    #[test]
    fn counts_that_no_tuner_has_are_told_as_the_greatest() {
        let tuned = format!(
            r#"{{"changes":{most},"failed":1,"reactions":{most},"reaction_median":7,"reaction_worst":9,"left":[],
            "page_shares":{{"asked":{most},"measured":{most},"unknown":{most},"min":null,"most":null,"last":null}}}}"#,
            most = u64::MAX
        );
        let policy = format!(
            r#"{{"policy":"pip","rounds":2,"measured":5,"tasks":[],"levels":[],"disks":[0,0],"lost":0,"tuned":[{tuned},{tuned}]}}"#
        );
        let proof = Proof::parse(&document(&policy)).unwrap();
        assert!(proof.text(&Style::default()).contains("18 446 744 073 709 551 615 changes"));
        assert!(pictures(&proof).is_empty());
    }

    #[test]
    fn a_document_of_another_schema_is_refused_by_name() {
        let other = document("").replacen("tune-prove/1", "tune-prove/9", 1);
        assert!(Proof::parse(&other).unwrap_err().to_string().contains("tune-prove/9"));
    }
}
