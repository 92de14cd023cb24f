// SPDX-License-Identifier: MIT OR Apache-2.0
//! What policies did to the responses of one task, as pictures of their own: the figures of D. Kang, W. Lee, C. Park (ETRI Journal
//! 29(3), 2007), section V.

use std::collections::BTreeMap;

use latebound_model::{Histogram, Nanos};
use latebound_tune::trial::Trial;

use super::pictures::{Picture, standalone};
use crate::markup::Markup;
use crate::svg;

/// One policy.
#[derive(Clone, Debug)]
struct TrialArm<'a> {
    /// Its name.
    name: &'a str,
    /// All responses.
    responses: &'a Histogram,
    /// When some of them began, and how long they took.
    curve: &'a [(Nanos, Nanos)],
    /// Dirty memory over time, in KiB.
    dirty: Vec<(Nanos, u64)>,
    /// Free memory over time, in KiB.
    free: Vec<(Nanos, u64)>,
}

/// One task under all policies.
#[derive(Clone, Debug)]
struct TrialPictures<'a> {
    /// The task.
    task: &'a str,
    /// Where the times come from.
    origin: &'a str,
    /// The policies.
    arms: &'a [TrialArm<'a>],
}

const WIDTH: f64 = 860.0;

/// The pictures of one task that there are values for, each with a word for its file.
fn of_task(shown: &TrialPictures<'_>) -> Vec<(&'static str, Picture)> {
    let TrialPictures { task, origin, arms } = shown;
    let counts: Vec<String> =
        arms.iter().map(|arm| format!("{} {}", arm.name, arm.responses.count())).collect();
    let of_all = format!("{task}: all rounds, n: {}", counts.join(", "));
    let of_one = format!("{task}: first round; of what falls together the longest");
    let mib = |points: &[(Nanos, u64)]| -> Vec<(Nanos, f64)> {
        points.iter().map(|&(at, kib)| (at, kib as f64 / 1024.0)).collect()
    };
    let dirty: Vec<(&str, Vec<(Nanos, f64)>)> = arms.iter().map(|arm| (arm.name, mib(&arm.dirty))).collect();
    let free: Vec<(&str, Vec<(Nanos, f64)>)> = arms.iter().map(|arm| (arm.name, mib(&arm.free))).collect();
    let curves: Vec<(&str, &[(Nanos, Nanos)])> = arms.iter().map(|arm| (arm.name, arm.curve)).collect();
    let all: Vec<(&str, &Histogram)> = arms.iter().map(|arm| (arm.name, arm.responses)).collect();
    let label = |what: &str| format!("{what} of {task} under each policy");
    let drawn = [
        (
            "over-time",
            svg::responses_over_time(&label("Response over time"), &[&of_one, origin], &curves, WIDTH),
        ),
        ("cumulative", svg::cumulative(&label("Cumulative response"), &[&of_all, origin], &all, WIDTH)),
        (
            "dirty",
            svg::level_over_time("Dirty memory under each policy", &[origin], "dirty, MiB", &dirty, WIDTH),
        ),
        ("free", svg::level_over_time("Free memory under each policy", &[origin], "free, MiB", &free, WIDTH)),
    ];
    drawn.into_iter().filter_map(|(kind, drawn)| Some((kind, alone(drawn?)?))).collect()
}

/// Response over time, cumulative distribution, dirty and free memory of each task of the command: names of SVG files, and their content.
pub fn trial_pictures(trial: &Trial) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for task in trial.policies.iter().flat_map(|policy| &policy.tasks).filter(|task| !task.other) {
        if !names.contains(&task.name.as_str()) {
            names.push(&task.name);
        }
    }
    let origin = origin(trial);
    for name in names {
        let arms: Vec<TrialArm<'_>> = trial
            .policies
            .iter()
            .filter_map(|policy| {
                let task = policy.tasks.iter().find(|task| task.name == name && !task.other)?;
                Some(TrialArm {
                    name: policy.policy.name(),
                    responses: &task.responses,
                    curve: &task.curve,
                    dirty: policy.levels.iter().map(|level| (level.at, level.dirty_kib)).collect(),
                    free: policy.levels.iter().map(|level| (level.at, level.free_kib)).collect(),
                })
            })
            .collect();
        for (kind, picture) in of_task(&TrialPictures { task: name, origin: &origin, arms: &arms }) {
            files.push((format!("{}-{kind}.svg", name.replace('/', "_")), picture.svg));
        }
    }
    files
}

/// The cumulative distributions of each task in all trials that have it, a picture for each policy: names of SVG files, and their content.
/// Each trial has a name.
pub fn trials_together(trials: &[(&str, &Trial)]) -> Vec<(String, String)> {
    let mut drawn: BTreeMap<(&str, &str), Vec<(&str, &Histogram)>> = BTreeMap::new();
    for &(name, trial) in trials {
        for policy in &trial.policies {
            for task in policy.tasks.iter().filter(|task| !task.other) {
                let of = drawn.entry((&task.name, policy.policy.name())).or_default();
                of.push((name, &task.responses));
            }
        }
    }
    let origin = trials.first().map(|(_, trial)| origin(trial)).unwrap_or_default();
    let mut files = Vec::new();
    for ((task, policy), lines) in drawn {
        let counts: Vec<String> = lines.iter().map(|(name, all)| format!("{name} {}", all.count())).collect();
        let words = format!("{task}, {policy}: n: {}", counts.join(", "));
        let label = format!("Cumulative response of {task} in each trial, {policy}");
        if let Some(picture) = svg::cumulative(&label, &[&words, &origin], &lines, WIDTH).and_then(alone) {
            files.push((format!("{}-{policy}.svg", task.replace('/', "_")), picture.svg));
        }
    }
    files
}

/// Where the times of a trial come from.
fn origin(trial: &Trial) -> String {
    match &trial.emulation {
        Some(way) => format!(
            "Emulated ({}, {} clock): times compare with each other, never with hardware.",
            way.by, way.clock
        ),
        None => format!("Linux {}", trial.release.as_deref().unwrap_or("unknown")),
    }
}

fn alone(drawn: Markup) -> Option<Picture> {
    standalone((drawn.into_string().split("</svg>").next()?, 1))
}
