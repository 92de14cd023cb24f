// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a planted thing is, and how its cause is told.

use std::path::Path;

use latebound_model::{Cause, CauseKind, WaitThrough};

use crate::program::now;
use crate::{disk, fair, waits};

/// What a planted thing took by the program's own clock, in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Its cause's time in that stretch, at least and at most, where that is not all of it.
    pub(crate) of_it: Option<(u64, u64)>,
}

/// A thing that makes a job late.
pub(crate) struct Plant {
    pub(crate) name: &'static str,
    /// Done at the end of the job before.
    pub(crate) prepare: Option<Box<dyn FnMut()>>,
    /// Done in the job, which was due at the time that it gets.
    pub(crate) work: Box<dyn FnMut(u64) -> Took>,
}

/// All of the call is what is planted.
pub(crate) fn plant(name: &'static str, mut work: impl FnMut() + 'static) -> Plant {
    stretch(name, move || {
        let from = now();
        work();
        (from, now())
    })
}

/// The call says which stretch is what is planted.
pub(crate) fn stretch(name: &'static str, mut work: impl FnMut() -> (u64, u64) + 'static) -> Plant {
    let work = move |_| {
        let (from, to) = work();
        Took { from, to, of_it: None }
    };
    Plant { name, prepare: None, work: Box::new(work) }
}

/// Whether the chain of waits behind a cause has this thread, waited for through one of these.
pub(crate) fn via(cause: &Cause, name: &str, through: &[WaitThrough]) -> bool {
    cause.via.iter().any(|link| link.task.comm == name && through.contains(&link.through))
}

/// The thread's own calls of an exchange are a part of it.
pub(crate) fn calls(cause: &Cause, names: &[&str]) -> bool {
    cause.kind == CauseKind::SystemCall && cause.via.is_empty() && names.contains(&cause.subject.as_str())
}

pub(crate) fn runs_first(cause: &Cause, name: &str) -> bool {
    cause.kind == CauseKind::TaskFirst && cause.subject == name
}

/// The name of a plant, and whether something is to be the cause of its time.
pub(crate) type Expected = (&'static str, Fits);

/// Whether a cause is one that is looked for.
pub(crate) type Fits = fn(&Cause) -> bool;

/// What a part of a plant's time is to be as well, and how much of it at least, in percent: what tells the plant from one that is like it.
pub(crate) const IN_PARTICULAR: &[(&str, f64, Fits)] = &[
    ("read behind", 60.0, |cause| {
        cause.kind == CauseKind::BlockIo && cause.task.as_ref().is_some_and(|task| task.comm == "neighbour")
    }),
    ("lock", 30.0, |cause| runs_first(cause, "hog")),
    ("fsync behind", 10.0, |cause| {
        cause.kind == CauseKind::BlockIo && cause.task.as_ref().is_some_and(|task| task.comm == "writer")
    }),
];

/// Everybody that a planted program starts. Others who run before its threads are the machine's.
pub(crate) const STARTED: &[&str] = &[
    "between",
    "collector",
    "control",
    "far",
    "first",
    "freezer",
    "hog",
    "holder",
    "lent",
    "mapper",
    "neighbour",
    "notifier",
    "peer",
    "rwholder",
    "server",
    "slow server",
    "starved",
    "stopper",
    "there",
    "twin",
    "writer",
];

/// A program with its plants.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// FIFO priority of the thread whose jobs are late; 0 for an ordinary one.
    pub(crate) priority: i32,
    /// The fewest plants that any machine has.
    pub(crate) at_least: usize,
    /// Makes the plants, given a folder to work in.
    pub(crate) plants: fn(&Path) -> Vec<Plant>,
    /// What is to be the cause of each.
    pub(crate) expected: &'static [Expected],
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "waits",
        priority: 40,
        at_least: 16,
        plants: |_| waits::plants(),
        expected: waits::EXPECTED,
    },
    Scenario { name: "fair", priority: 0, at_least: 2, plants: fair::plants, expected: fair::EXPECTED },
    Scenario { name: "disk", priority: 40, at_least: 5, plants: disk::plants, expected: disk::EXPECTED },
];
