// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waits for which kernel thread, the priority that follows from it, and the changes to make.
//!
//! This crate owns the policy: relations come in as values, with the time; priorities and changes go out as values. It
//! never reads a clock, a file or the system, and changes nothing: others observe, and others act.

mod ahead;
mod attribution;
mod class;
mod config;
pub mod document;
mod edges;
mod governor;
mod policy;
mod relations;
mod rules;
mod session;
pub mod simulate;
pub mod trial;
mod tuner;
mod waiters;

pub use ahead::{Ahead, Raises};
pub use attribution::{Attribution, WaitCount};
pub use class::ThreadClass;
pub use config::{ClassRule, Config, ConfigError, Daemon, Learning, Limits, Metrics, Rules, Time, Watchdog};
pub use edges::{EdgeRule, Edges};
pub use governor::{Due, Governor, Pace};
pub use policy::{NoWeight, PageShare, PolicyKind, Weight, pip, target, weighted_average};
pub use relations::{BeginOutcome, Relations};
pub use rules::{Member, Roster, Rule, Violation, check, permitted};
pub use session::{
    Actuator, Answer, Helper, PageShares, ReclaimPages, ReclaimShare, Request, Session, ThreadName, Threads,
    WaitSource, worker_id,
};
pub use tuner::{Change, HeldChange, Plan, Tuner, TunerInput};
pub use waiters::Waiters;
