// SPDX-License-Identifier: MIT OR Apache-2.0
//! What policies did to the responses of one task, as pictures of their own: the figures of D. Kang, W. Lee, C. Park (ETRI Journal
//! 29(3), 2007), section V.

use latebound_model::{Histogram, Nanos};

use super::pictures::{Picture, standalone};
use crate::markup::Markup;
use crate::svg;

/// One policy.
#[derive(Clone, Debug)]
pub struct ProofArm<'a> {
    /// Its name.
    pub name: &'a str,
    /// All responses.
    pub responses: &'a Histogram,
    /// When some of them began, and how long they took.
    pub curve: &'a [(Nanos, Nanos)],
    /// Dirty memory over time, in KiB.
    pub dirty: Vec<(Nanos, u64)>,
    /// Free memory over time, in KiB.
    pub free: Vec<(Nanos, u64)>,
}

/// One task under all policies.
#[derive(Clone, Debug)]
pub struct ProofPictures<'a> {
    /// The task.
    pub task: &'a str,
    /// Where the times come from.
    pub origin: &'a str,
    /// The policies.
    pub arms: &'a [ProofArm<'a>],
}

const WIDTH: f64 = 860.0;

/// The pictures that there are values for, each with a word for its file.
pub fn proof_pictures(shown: &ProofPictures<'_>) -> Vec<(&'static str, Picture)> {
    let ProofPictures { task, origin, arms } = shown;
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

/// The same task of several proofs under one policy: which part of its responses took at most so long, a line for each.
pub fn proofs_together(
    task: &str,
    policy: &str,
    origin: &str,
    proofs: &[(&str, &Histogram)],
) -> Option<Picture> {
    let counts: Vec<String> = proofs.iter().map(|(name, all)| format!("{name} {}", all.count())).collect();
    let words = format!("{task}, {policy}: n: {}", counts.join(", "));
    let label = format!("Cumulative response of {task} in each proof, {policy}");
    alone(svg::cumulative(&label, &[&words, origin], proofs, WIDTH)?)
}

fn alone(drawn: Markup) -> Option<Picture> {
    standalone((drawn.into_string().split("</svg>").next()?, 1))
}
