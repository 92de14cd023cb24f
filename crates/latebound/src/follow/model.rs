// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread model in the kernel, by BPF programs or by the module latebound_bound: the same C, the same records. Folds
//! what comes out of it.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use latebound_abi::CallerClasses;
use latebound_analysis::bound::{LiveBound, LiveCpu, Source};
use latebound_model::{Bound, Loss, LossKind, Nanos, WorkloadCurve, kernel_version};
use latebound_probe::{BoundModule, BoundProbe, BoundTracer, vector_name};
use latebound_trace::Symbols;

use super::{Follow, Target, Worst, Written, kernel_symbols};
use crate::cli::FollowBy;
use crate::session::monotonic;

struct ModelFollower {
    tracer: BoundTracer,
    symbols: Symbols,
    cpus: Vec<LiveCpu>,
    names: BTreeMap<Source, String>,
    words: u64,
    target: Target,
    problems: Vec<String>,
    notes: Vec<String>,
    by: FollowBy,
}

/// By BPF programs.
pub(super) fn by_programs(target: &Target) -> Result<Box<dyn Follow>> {
    let (symbols, callers) = callers()?;
    let version = kernel_version(&target.release).with_context(|| {
        format!("cannot tell the kernel's version from its release \"{}\"", target.release)
    })?;
    let probe = BoundProbe::start(&target.cpus, &callers, version)?;
    Ok(Box::new(ModelFollower::new(BoundTracer::Programs(Box::new(probe)), symbols, target, FollowBy::Bpf)))
}

/// By the kernel module; `instead_of` is what could not be had.
pub(super) fn by_module(target: &Target, instead_of: &[String]) -> Result<Box<dyn Follow>> {
    let (symbols, callers) = callers()?;
    let module = BoundModule::start(&target.cpus, &callers)?;
    let mut follower = ModelFollower::new(BoundTracer::Module(module), symbols, target, FollowBy::Module);
    follower.notes.push("the thread model ran in the kernel module latebound_bound".to_owned());
    follower.notes.extend(instead_of.iter().map(|failed| format!("not by {failed}")));
    Ok(Box::new(follower))
}

fn callers() -> Result<(Symbols, CallerClasses)> {
    let symbols = kernel_symbols()?;
    let callers = CallerClasses::from_ranges(|beginnings, wanted| symbols.ranges(beginnings, wanted))
        .context("cannot tell the kernel's functions apart")?;
    Ok((symbols, callers))
}

impl ModelFollower {
    fn new(tracer: BoundTracer, symbols: Symbols, target: &Target, by: FollowBy) -> ModelFollower {
        let started = monotonic();
        ModelFollower {
            problems: tracer.missing().iter().map(ToString::to_string).collect(),
            notes: Vec::new(),
            tracer,
            symbols,
            cpus: target.cpus.iter().map(|cpu| LiveCpu::new(cpu, started)).collect(),
            names: BTreeMap::new(),
            words: 0,
            target: target.clone(),
            by,
        }
    }
}

impl Follow for ModelFollower {
    fn take(&mut self) -> Result<()> {
        for live in &mut self.cpus {
            // What was written before this moment is taken in before it.
            let now = monotonic();
            self.words += self.tracer.take(live.cpu(), usize::MAX, |record| live.take(record)) as u64;
            live.tick(now);
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.tracer.stop();
        self.take()?;
        self.cpus.iter_mut().for_each(LiveCpu::finish);
        Ok(())
    }

    fn worst(&self) -> Option<Nanos> {
        let values = self.cpus.iter().filter_map(|live| live.views().ok());
        values.filter_map(|views| views.get(self.target.view).latency()).max()
    }

    fn bound(&mut self, worst: &Worst) -> Result<Bound> {
        let now = monotonic();
        for source in self.cpus.iter().flat_map(|live| live.fold().sources()).map(|of| of.source) {
            self.names.entry(source).or_insert_with(|| name(source));
        }
        let mut all = LiveBound::new(self.target.preempt_rt, self.target.view);
        all.problems.clone_from(&self.problems);
        all.notes.clone_from(&self.notes);
        for loss in self.tracer.skipped() {
            let runs = loss.count.unwrap_or(0);
            all.problems.push(format!("{}: {runs} runs skipped by the kernel", loss.place));
        }
        for live in &self.cpus {
            let state = self.tracer.cpu(live.cpu()).context("a CPU's state cannot be read")?;
            let measured = worst.get(&live.cpu()).cloned();
            let name = |source| self.names.get(&source).cloned().unwrap_or_default();
            let place = |address| self.symbols.describe(address);
            let record =
                live.record(now, measured, place, name).with_context(|| format!("CPU {}", live.cpu()))?;
            all.add(live, &state, record, place);
        }
        Ok(all.finish())
    }

    fn curves(&self) -> Vec<WorkloadCurve> {
        let name = |source| self.names.get(&source).cloned().unwrap_or_else(|| name(source));
        self.cpus.iter().flat_map(|live| live.fold().curves(live.cpu(), name)).collect()
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = self.tracer.skipped();
        for live in &self.cpus {
            let refused = self.tracer.cpu(live.cpu()).map_or(0, |state| state.counts().refused);
            if refused > 0 {
                losses.push(Loss {
                    kind: LossKind::RingFull,
                    place: format!("bound, CPU {}", live.cpu()),
                    count: Some(refused),
                });
            }
        }
        losses
    }

    fn written(&self) -> Written {
        let states = self.cpus.iter().filter_map(|live| self.tracer.cpu(live.cpu()));
        Written { bytes: self.words * 8, events: states.map(|state| state.counts().model.events).sum() }
    }

    fn by(&self) -> &'static str {
        match self.by {
            FollowBy::Module => "the thread model in the kernel module latebound_bound",
            _ => "the thread model in BPF programs",
        }
    }
}

fn name(source: Source) -> String {
    match source {
        Source::Vector(vector) => vector_name(vector).to_owned(),
        // Documentation/ABI/testing/sysfs-kernel-irq: the names of those who handle it, with commas.
        Source::Device(irq) => std::fs::read_to_string(format!("/sys/kernel/irq/{irq}/actions"))
            .map(|names| names.trim().to_owned())
            .unwrap_or_default(),
        Source::Nmi | Source::Unnamed => String::new(),
    }
}
