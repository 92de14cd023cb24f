// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows the CPUs for a live `bound`: the thread model in the kernel, by BPF programs or by the kernel module; the thread model on
//! the events of the kernel's trace buffers; or an estimate from what every kernel shows.
//!
//! Owns which of them is taken, and what is said where none can be had.

mod estimate;
mod model;
mod trace;
mod trace_model;

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use latebound_model::{Bound, Cpu, CpuSet, Loss, MeasuredWakeup, Nanos, ViewKind, WorkloadCurve};
use latebound_probe::{BoundModule, BoundProbe, KernelBtf};
use latebound_report::sentence;
use latebound_trace::Symbols;

use crate::cli::FollowBy;

/// What is to be followed, on which kernel.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) cpus: CpuSet,
    pub(crate) release: String,
    pub(crate) preempt_rt: bool,
    pub(crate) view: ViewKind,
    /// The trace buffer of each CPU, where one was asked for.
    pub(crate) buffer_bytes: Option<u64>,
    /// Of the machine, where that is known.
    pub(crate) memory_bytes: Option<u64>,
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

/// A way to follow CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Programs,
    Module,
    /// The thread model on the events of the trace buffers.
    TraceModel,
    Estimate,
    /// An estimate from the events of the trace buffers.
    Trace,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Way::Programs => FollowBy::Bpf.name(),
            Way::Module => FollowBy::Module.name(),
            Way::TraceModel => "the thread model on events of tracefs",
            Way::Estimate => FollowBy::Estimate.name(),
            Way::Trace => FollowBy::Tracefs.name(),
        }
    }
}

/// Starts what was asked for, or the first that can be had: the better one first.
pub(crate) fn start(by: Option<FollowBy>, target: &Target) -> Result<Box<dyn Follow>> {
    let ways = match by {
        Some(FollowBy::Bpf) => vec![Way::Programs],
        Some(FollowBy::Module) => vec![Way::Module],
        Some(FollowBy::Estimate) => vec![Way::Estimate],
        Some(FollowBy::Tracefs) => vec![Way::TraceModel, Way::Trace],
        None => ways(),
    };
    let mut failed = Vec::new();
    for &way in &ways {
        let started = match way {
            Way::Programs => model::by_programs(target),
            Way::Module => model::by_module(target, &failed),
            Way::TraceModel => trace_model::start(target, &failed),
            Way::Estimate => estimate::start(target, &failed),
            Way::Trace => trace::start(target, &failed),
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

/// In this order. The module is no help where the kernel lacks the events themselves, nor are the trace buffers.
fn ways() -> Vec<Way> {
    let lacks_events = KernelBtf::load().is_ok_and(|kernel| !BoundProbe::lacking(kernel).is_empty());
    let mut ways = vec![Way::Programs, Way::Module, Way::TraceModel, Way::Estimate, Way::Trace];
    ways.retain(|&way| match way {
        Way::Module => BoundModule::is_there() || !lacks_events,
        Way::TraceModel => trace_model::can_be_had(),
        _ => true,
    });
    ways
}

/// The functions of the running kernel.
fn kernel_symbols() -> Result<Symbols> {
    Ok(Symbols::parse(std::fs::read("/proc/kallsyms").context("cannot read /proc/kallsyms")?))
}
