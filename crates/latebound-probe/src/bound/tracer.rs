// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread model in the kernel, whoever runs it there: what its reader needs of either.

use latebound_abi::{BoundCpu, BoundRecord};
use latebound_model::{Cpu, Loss, Missing};

use super::{BoundModule, BoundProbe};

/// BPF programs, or the kernel module.
#[derive(Debug)]
pub enum BoundTracer {
    /// BPF programs.
    Programs(Box<BoundProbe>),
    /// The module latebound_bound.
    Module(BoundModule),
}

impl BoundTracer {
    /// No more events count. What was written before can still be taken.
    pub fn stop(&mut self) {
        match self {
            BoundTracer::Programs(programs) => programs.stop(),
            BoundTracer::Module(module) => module.stop(),
        }
    }

    /// What this kernel does not show.
    pub fn missing(&self) -> &[Missing] {
        match self {
            BoundTracer::Programs(programs) => programs.missing(),
            BoundTracer::Module(module) => module.missing(),
        }
    }

    /// Takes what a CPU has written since the last time, at most so many words. Returns how many words it took.
    pub fn take(&mut self, cpu: Cpu, limit: usize, each: impl FnMut(BoundRecord)) -> usize {
        match self {
            BoundTracer::Programs(programs) => programs.take(cpu, limit, each),
            BoundTracer::Module(module) => module.take(cpu, limit, each),
        }
    }

    /// The state of a CPU.
    pub fn cpu(&self, cpu: Cpu) -> Option<BoundCpu> {
        match self {
            BoundTracer::Programs(programs) => programs.cpu(cpu),
            BoundTracer::Module(module) => module.cpu(cpu),
        }
    }

    /// Programs that the kernel skipped: their events are missing. A tracepoint calls a module's probe whatever runs
    /// (kernel/tracepoint.c has no guard against recursion, which BPF has), so of a module there are none.
    pub fn skipped(&self) -> Vec<Loss> {
        match self {
            BoundTracer::Programs(programs) => programs.skipped(),
            BoundTracer::Module(_) => Vec::new(),
        }
    }
}
