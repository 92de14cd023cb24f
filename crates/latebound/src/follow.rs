// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows the CPUs for a live `bound`: the thread model in the kernel, by BPF programs or by the kernel module, or an
//! estimate from what every kernel shows.
//!
//! Owns which of them is taken, and what is said where none can be had.

mod estimate;
mod model;
mod trace;

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use latebound_model::{Bound, Cpu, CpuSet, Loss, MeasuredWakeup, Nanos, ViewKind, WorkloadCurve};
use latebound_probe::{BoundModule, BoundProbe, KernelBtf};
use latebound_report::sentence;

use crate::cli::FollowBy;

/// What is to be followed, on which kernel.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) cpus: CpuSet,
    pub(crate) release: String,
    pub(crate) preempt_rt: bool,
    pub(crate) view: ViewKind,
}

/// The worst wake-up that was measured beside, by CPU.
pub(crate) type Worst = BTreeMap<Cpu, MeasuredWakeup>;

/// What the kernel's side wrote so far, and how many events it took that from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) events: u64,
}

/// Follows CPUs until it is stopped.
pub(crate) trait Follow {
    /// Takes in what came since the last time.
    fn take(&mut self) -> Result<()>;
    /// No more events count; takes in what is left.
    fn stop(&mut self) -> Result<()>;
    /// The largest value of the view so far.
    fn worst(&self) -> Option<Nanos>;
    /// The record so far.
    fn bound(&mut self, worst: &Worst) -> Result<Bound>;
    /// The workload curves so far.
    fn curves(&self) -> Vec<WorkloadCurve>;
    fn losses(&self) -> Vec<Loss>;
    fn written(&self) -> Written;
    /// How the values are had, for the Run.
    fn by(&self) -> &'static str;
}

/// Starts what was asked for, or the first that can be had: the better one first.
pub(crate) fn start(by: Option<FollowBy>, target: &Target) -> Result<Box<dyn Follow>> {
    let ways = match by {
        Some(by) => vec![by],
        None => ways(),
    };
    let mut failed = Vec::new();
    for &way in &ways {
        let started = match way {
            FollowBy::Bpf => model::by_programs(target),
            FollowBy::Module => model::by_module(target, &failed),
            FollowBy::Estimate => estimate::start(target, &failed),
            FollowBy::Tracefs => trace::start(target, &failed),
        };
        match started {
            Ok(follower) => return Ok(follower),
            Err(error) => failed.push(format!("{}: {}", way.name(), sentence(error.as_ref()))),
        }
    }
    let remedy =
        "`latebound doctor` says what this kernel shows, and `latebound bound FILE` reads saved traces";
    Err(anyhow!("cannot follow this kernel; {}; {remedy}", failed.join("; ")))
}

/// In this order. The module is no help where the kernel lacks the events themselves.
fn ways() -> Vec<FollowBy> {
    let lacks_events = KernelBtf::load().is_ok_and(|kernel| !BoundProbe::lacking(kernel).is_empty());
    let mut ways = vec![FollowBy::Bpf, FollowBy::Module, FollowBy::Estimate, FollowBy::Tracefs];
    ways.retain(|&way| way != FollowBy::Module || BoundModule::is_there() || !lacks_events);
    ways
}
