// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a load did, for those who started it and for the loads themselves.

use latebound_model::{Histogram, Load, Nanos, Series, Throughput};
use serde::{Deserialize, Serialize};

/// What a load did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadDone {
    /// What it was, how much it did, and what failed.
    pub load: Load,
    /// What it achieved in how long, where it counts work.
    pub throughput: Option<Throughput>,
    /// How long its single operations took, where it times them.
    #[serde(default)]
    pub series: Vec<Series>,
}

/// What a load calls when all of its threads are there and do what it is for, or are about to.
pub(crate) type Begun<'a> = &'a (dyn Fn() + Sync);

/// What a built-in load counted.
pub(crate) struct Work {
    pub(crate) done: u64,
    pub(crate) unit: &'static str,
    pub(crate) offered: Option<u64>,
    pub(crate) error: Option<String>,
    /// How late each operation was done after it was due; after it was begun where nothing was due.
    pub(crate) latency: Option<Histogram>,
    /// How long something took that only some of the operations had, and what that is called.
    pub(crate) execution: Option<(&'static str, Histogram)>,
    /// How long it worked, where that is not all of its time: getting ready is no part of its throughput.
    pub(crate) took: Option<Nanos>,
}

impl Work {
    /// Nothing done yet.
    pub(crate) fn of(unit: &'static str) -> Work {
        Work { done: 0, unit, offered: None, error: None, latency: None, execution: None, took: None }
    }
}
